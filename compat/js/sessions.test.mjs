// Session tokens and consistency levels with the JavaScript SDK. Run by ../run.sh.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { client, connect, create, databaseOf, refused, watching } from "./server.mjs";

const database = databaseOf("sessions");
let container;

before(async () => {
  await client.databases.create({ id: database.id });
  container = await create(database, "c", ["/pk"], 4);
});
after(() => database.delete());

const as = (consistencyLevel) => connect({ consistencyLevel }).database(database.id).container("c");
const write = async (n) => (await container.items.upsert({ id: "x", pk: "p", n })).headers["x-ms-session-token"];

test("a client reads what another wrote, by its token", async () => {
  let last = 0;
  for (let n = 0; n < 5; n++) {
    const sessionToken = await write(n);
    const [, lsn] = /^\d+:-1#(\d+)$/.exec(sessionToken);
    assert.ok(Number(lsn) > last, "tokens rise");
    last = Number(lsn);
    assert.equal((await as("Session").item("x", "p").read({ sessionToken })).resource.n, n);
    const { resources } = await as("Session").items.query("SELECT VALUE c.n FROM c", { partitionKey: "p", sessionToken }).fetchAll();
    assert.deepEqual(resources, [n]);
  }
});

test("a client reads its own writes", async () => {
  const own = as("Session");
  for (let n = 0; n < 5; n++) {
    await own.items.upsert({ id: "own", pk: `p${n}`, n });
    assert.equal((await own.item("own", `p${n}`).read()).resource.n, n);
  }
});

// F2: pages of several partitions have a list of tokens, which this SDK reads.
test("a client reads its own writes after pages of several partitions", async () => {
  const { seen, client: watched } = watching("x-ms-session-token", { consistencyLevel: "Session" });
  const own = watched.database(database.id).container("c");
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 12; n++) {
      await own.items.upsert({ id: "mine", pk: `m${n}`, round });
      const { resources } = await own.items.query(`SELECT VALUE c.round FROM c WHERE c.id = "mine" AND c.pk >= "m"`, { forceQueryPlan: false }).fetchAll();
      assert.equal(resources.filter((one) => one === round).length, n + 1);
      assert.equal((await own.item("mine", `m${n}`).read()).resource.round, round);
    }
    await own.items.readAll().fetchAll();
  }
  assert.ok(seen.some((token) => token?.split(",").length === 4), "the client sends the tokens of all partitions");
});

test("a token from the future is not served", async () => {
  const token = await write(0);
  const sessionToken = token.replace(/\d+$/, (lsn) => Number(lsn) + 1000);
  const refusals = [];
  const watching = connect({ consistencyLevel: "Session", plugins: [{
    on: "request",
    plugin: async (context, _diagnostics, next) => {
      try {
        return await next(context);
      } catch (fault) {
        refusals.push([fault.code, Number(fault.substatus)]);
        throw fault;
      }
    },
  }] });
  // The SDK repeats the request without the token.
  const { statusCode } = await watching.database(database.id).container("c").item("x", "p").read({ sessionToken });
  assert.deepEqual([refusals, statusCode], [[[404, 1002]], 200]);
});

test("levels", async () => {
  await write(0);
  for (const level of ["Eventual", "ConsistentPrefix", "Session"]) assert.equal((await as(level).item("x", "p").read()).statusCode, 200, level);
  for (const level of ["BoundedStaleness", "Strong"]) await refused(as(level).item("x", "p").read(), 400);
});
