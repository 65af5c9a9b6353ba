// A client of CQL with what the tests need: one connection, and statements without values.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { key } from "./page.mjs";

/** Runs statements of CQL one after another, each of which must succeed. */
export async function cql(...statements) {
  const [host, port] = process.env.DECAN_CQL.split(":"), socket = connect(Number(port), host);
  let held = Buffer.alloc(0), wake;
  const waits = (buffer) => {
    held = Buffer.concat([held, buffer]);
    wake?.();
  };
  socket.on("data", waits);
  let trouble;
  socket.on("error", (error) => { trouble = error; wake?.(); });
  const bytes = async (n) => {
    while (held.length < n) {
      if (trouble) throw trouble;
      await new Promise((resume) => { wake = resume; });
    }
    const part = held.subarray(0, n);
    held = held.subarray(n);
    return part;
  };
  const short = (n) => Buffer.from([n >> 8, n & 255]), long = (n) => { const b = Buffer.alloc(4); b.writeInt32BE(n); return b; };
  const text = (s) => Buffer.concat([short(Buffer.byteLength(s)), Buffer.from(s)]);
  const ask = async (opcode, body) => {
    socket.write(Buffer.concat([Buffer.from([4, 0, 0, 0, opcode]), long(body.length), body])); // version 4
    const head = await bytes(9), answer = await bytes(head.readInt32BE(5));
    assert.notEqual(head[4], 0, `CQL: ${answer.subarray(6)}`);
    return head[4];
  };
  const begun = await ask(1, Buffer.concat([short(1), text("CQL_VERSION"), text("3.0.0")]));
  if (begun === 3) {
    const token = Buffer.from(`\0decan\0${key}`);
    await ask(15, Buffer.concat([long(token.length), token]));
  }
  for (const statement of statements) {
    const query = Buffer.from(statement);
    await ask(7, Buffer.concat([long(query.length), query, short(1), Buffer.from([0])]));
  }
  socket.end();
}
