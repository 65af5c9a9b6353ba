// Runs the Node.js driver on the server at DECAN_CQL, with the user DECAN_CQL_USER and
// the password DECAN_CQL_KEY, on each version of the protocol that it has.
import assert from "node:assert/strict";
import { test } from "node:test";
import cassandra from "cassandra-driver";

const { DECAN_CQL, DECAN_CQL_USER, DECAN_CQL_KEY } = process.env;

function client(options = {}, key = DECAN_CQL_KEY) {
  return new cassandra.Client({
    contactPoints: [DECAN_CQL],
    localDataCenter: process.env.DECAN_CQL_DC,
    authProvider: new cassandra.auth.PlainTextAuthProvider(DECAN_CQL_USER, key),
    ...options,
  });
}

for (const version of [undefined, 3, 4]) {
  for (const tls of [false, true]) {
    test(`version ${version ?? "of the driver"}, TLS ${tls}`, async () => {
      const options = tls ? { sslOptions: { rejectUnauthorized: false } } : {};
      if (version) options.protocolOptions = { maxVersion: version };
      const c = client(options);
      try {
        await c.connect();
        await c.execute("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        await c.execute("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v text)");
        const base = Math.floor(Date.now() * 1000) & 0x3fffffff;
        const insert = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
        const prepare = true;
        await Promise.all(Array.from({ length: 100 }, (_, i) => c.execute(insert, [base + i, String(i)], { prepare })));
        const read = "SELECT v FROM ks.t WHERE k = ?";
        assert.equal((await c.execute(read, [base + 7], { prepare })).first().v, "7");
        const seen = new Set();
        for await (const row of c.stream("SELECT k FROM ks.t", [], { prepare, fetchSize: 10, autoPage: true })) seen.add(row.k);
        for (let i = 0; i < 100; i++) assert.ok(seen.has(base + i), `row ${i}`);
        await c.batch([{ query: insert, params: [base + 200, "a"] }, { query: insert, params: [base + 201, "b"] }], { prepare });
        assert.equal((await c.execute(read, [base + 201], { prepare })).first().v, "b");
        for (const applied of [true, false]) {
          const result = await c.execute("INSERT INTO ks.t (k, v) VALUES (?, 'x') IF NOT EXISTS", [base + 300], { prepare });
          assert.equal(result.wasApplied(), applied);
        }
        await c.execute("ALTER TABLE ks.t WITH comment = 'changed'");
        await c.execute(insert, [base, "again"], { prepare }); // The driver prepares again.
        await assert.rejects(c.execute("nonsense"), { code: cassandra.types.responseErrorCodes.syntaxError });
        const table = await c.metadata.getTable("ks", "t");
        assert.deepEqual(table.partitionKeys.map((k) => k.name), ["k"]);
      } finally {
        await c.shutdown();
      }
    });
  }
}

test("a wrong key", async () => {
  const c = client({}, "d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=");
  await assert.rejects(c.connect(), (err) => JSON.stringify(Object.values(err.innerErrors ?? {}).map(String)).includes("Provided username"));
  await c.shutdown();
});
