// Runs the Node.js driver on the server at DECAN_CQL, with the user DECAN_CQL_USER and the
// password DECAN_CQL_KEY, on each version of the protocol that it has. ../run.sh runs it.
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import cassandra from "cassandra-driver";

const { DECAN_CQL, DECAN_CQL_USER, DECAN_CQL_KEY, DECAN_ADMIN, DECAN_TURNS } = process.env;
const newer = ["da", "ti", "si", "ty"]; // types that version 3 of the protocol does not know
const minute = 60_000;
const prepare = true;

function client(options = {}, key = DECAN_CQL_KEY) {
  return new cassandra.Client({
    contactPoints: [DECAN_CQL],
    localDataCenter: process.env.DECAN_CQL_DC,
    authProvider: new cassandra.auth.PlainTextAuthProvider(DECAN_CQL_USER, key),
    socketOptions: { readTimeout: minute, connectTimeout: minute },
    policies: { reconnection: new cassandra.policies.reconnection.ConstantReconnectionPolicy(500) },
    encoding: { useUndefinedAsUnset: false },
    ...options,
  });
}

const keyspace = (name) => `CREATE KEYSPACE ${name} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`;

async function all(c, query, fetchSize) {
  const rows = [];
  for await (const row of c.stream(query, [], { prepare, fetchSize, autoPage: true })) rows.push(row);
  return rows;
}

for (const version of [undefined, 3, 4]) {
  for (const tls of [false, true]) {
    test(`version ${version ?? "of the driver"}, TLS ${tls}`, async () => {
      const options = tls ? { sslOptions: { rejectUnauthorized: false } } : {};
      if (version) options.protocolOptions = { maxVersion: version };
      const c = client(options);
      const ks = `js_v${version ?? 0}_${tls ? "tls" : "plain"}`;
      try {
        await c.connect();
        await c.execute(keyspace(ks));
        await c.execute(`CREATE TABLE ${ks}.t (k int, c int, v text, PRIMARY KEY (k, c))`);
        const insert = `INSERT INTO ${ks}.t (k, c, v) VALUES (?, ?, ?)`;
        await Promise.all(Array.from({ length: 100 }, (_, i) => c.execute(insert, [i, 0, String(i)], { prepare })));
        const read = `SELECT v FROM ${ks}.t WHERE k = ? AND c = 0`;
        assert.equal((await c.execute(read, [7], { prepare })).first().v, "7");
        for (const size of [10, 37, 5000]) {
          const keys = (await all(c, `SELECT k FROM ${ks}.t`, size)).map((row) => row.k);
          assert.deepEqual(keys.sort((a, b) => a - b), Array.from({ length: 100 }, (_, i) => i));
        }
        for (const logged of [true, false]) {
          await c.batch([{ query: insert, params: [200, 0, "a"] }, { query: insert, params: [201, 0, "b"] }], { prepare, logged });
        }
        assert.equal((await c.execute(read, [201], { prepare })).first().v, "b");
        for (const applied of [true, false]) {
          const result = await c.execute(`INSERT INTO ${ks}.t (k, c, v) VALUES (?, 0, 'x') IF NOT EXISTS`, [300], { prepare });
          assert.equal(result.wasApplied(), applied);
        }
        const star = `SELECT * FROM ${ks}.t WHERE k = ? AND c = 0`;
        await c.execute(star, [300], { prepare });
        await c.execute(`ALTER TABLE ${ks}.t ADD w int`);
        await c.execute(`UPDATE ${ks}.t SET w = ? WHERE k = 300 AND c = 0`, [5], { prepare });
        assert.equal((await c.execute(star, [300], { prepare })).first().w, 5); // The driver prepares again.
        await assert.rejects(c.execute("nonsense"), { code: cassandra.types.responseErrorCodes.syntaxError });
        const table = await c.metadata.getTable(ks, "t");
        assert.deepEqual(table.partitionKeys.map((k) => k.name), ["k"]);
        await c.metadata.refreshKeyspaces();
        assert.equal(c.metadata.getReplicas(ks, Buffer.from([0, 0, 0, 1])).length, 1);
        await types(c, ks, version);
      } finally {
        await c.shutdown();
      }
    });
  }
}

// types reads a value of each type and writes it back: the server has the same value.
async function types(c, ks, version) {
  for (const line of readFileSync(new URL("../types.cql", import.meta.url), "utf8").trim().split("\n")) {
    await c.execute(line.replaceAll("ks.", `${ks}.`));
  }
  const { columns } = await c.metadata.getTable(ks, "types");
  const names = columns.map((column) => column.name).filter((name) => name !== "k" && !(version === 3 && newer.includes(name)));
  const list = names.join(", ");
  const row = (await c.execute(`SELECT ${list} FROM ${ks}.types WHERE k = 'literal'`, [], { prepare })).first();
  const write = `INSERT INTO ${ks}.types (k, ${list}) VALUES (?${", ?".repeat(names.length)})`;
  await c.execute(write, ["driver", ...row.values()], { prepare });
  await c.execute(write, ["nulls", ...names.map(() => null)], { prepare });
  const texts = [];
  for (const k of ["literal", "driver"]) {
    texts.push(JSON.parse((await c.execute(`SELECT JSON ${list} FROM ${ks}.types WHERE k = ?`, [k], { prepare })).first()["[json]"]));
  }
  assert.deepEqual(texts[1], texts[0]);
  assert.equal(texts[0].t, "Zürich 漢字 😀");
  const nulls = (await c.execute(`SELECT ${list} FROM ${ks}.types WHERE k = 'nulls'`)).first();
  assert.ok(nulls.values().every((v) => v === null));
}

test("a wrong key", async () => {
  const c = client({}, "d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=");
  await assert.rejects(c.connect(), (err) => JSON.stringify(Object.values(err.innerErrors ?? {}).map(String)).includes("Provided username"));
  await c.shutdown();
});

async function admin(path, method = "GET") {
  const answer = await fetch(`${DECAN_ADMIN}${path}`, { method, headers: { "x-decan-key": DECAN_CQL_KEY } });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body;
}

// Writes and reads while all physical partitions of a table split: no statement fails, and
// no row is lost or comes twice (S115, S142).
test("splits", { skip: !DECAN_ADMIN && "DECAN_ADMIN is not set" }, async () => {
  const c = client();
  try {
    await c.connect();
    await c.execute(keyspace("js_splits"));
    await c.execute("CREATE TABLE js_splits.t (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000");
    const rows = async () => {
      const names = (await all(c, "SELECT k, c FROM js_splits.t", 20)).map((row) => `${row.k} ${row.c}`);
      assert.equal(new Set(names).size, names.length, "a row comes twice");
      return names.length;
    };
    const insert = "INSERT INTO js_splits.t (k, c, n) VALUES (?, ?, 0)";
    for (let i = 0; i < 150; i++) await c.execute(insert, [i, 9], { prepare }); // A partition with one key does not split.
    const writers = [0, 1, 2, 3].map(async (writer) => {
      for (let i = 0; i < 150; i++) {
        await c.execute(insert, [i, writer], { prepare });
        const changed = await c.execute("UPDATE js_splits.t SET n = 1 WHERE k = ? AND c = ? IF n = 0", [i, writer], { prepare });
        assert.ok(changed.wasApplied());
      }
    });
    const written = Promise.all(writers);
    written.catch(() => {}); // It is awaited below.
    for (let round = 0; round < 2; round++) {
      for (const { id } of (await admin("partitions?database=js_splits&container=t")).partitions) {
        await admin(`partitions/split?database=js_splits&container=t&partition=${id}`, "POST");
        await rows();
      }
    }
    await written;
    assert.equal(await rows(), 750);
    assert.ok((await admin("partitions?database=js_splits&container=t")).partitions.length >= 4);
  } finally {
    await c.shutdown();
  }
});

// Writes until the server was killed and started again, which ../run.sh does when all drivers
// wait for it: the session goes on, and no acknowledged row is lost.
test("a restart", { skip: !DECAN_TURNS && "DECAN_TURNS is not set" }, async () => {
  const c = client();
  try {
    await c.connect();
    await c.execute(keyspace("js_restart"));
    await c.execute("CREATE TABLE js_restart.t (k int PRIMARY KEY)");
    writeFileSync(`${DECAN_TURNS}/js`, "");
    const written = [];
    let last; // the end of the time to reconnect
    for (let i = 0, after = 0; after < 20; i++) {
      if (existsSync(`${DECAN_TURNS}/restarted`)) last ??= Date.now() + 2 * minute;
      try {
        await c.execute("INSERT INTO js_restart.t (k) VALUES (?)", [i], { prepare });
        written.push(i);
        if (last) after++;
      } catch (err) {
        assert.ok(!last || Date.now() < last, `no write succeeds after the restart: ${err}`);
      }
      await new Promise((resolve) => setTimeout(resolve, !last && i >= 20 ? 300 : 20)); // The others take their time.
    }
    const seen = new Set((await all(c, "SELECT k FROM js_restart.t", 100)).map((row) => row.k));
    assert.deepEqual(written.filter((i) => !seen.has(i)), []);
  } finally {
    await c.shutdown();
  }
});
