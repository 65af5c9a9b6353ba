// The work of a first user with the JavaScript SDK: a container with three
// levels of partition key, items, point reads, and the routing table of the
// documentation (S77: without a cloud; S81: the SDK takes the key from the
// item). Run by ../run.sh against a server over http and over https.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { after, before, describe, test } from "node:test";
import { connect, databaseOf, endpoint, oldest } from "./server.mjs";

const partitions = 8;

// visited collects x-decan-partitions of every query since the last reset.
let visited = new Set();
let accountReads = 0;
const client = connect({
  plugins: [{
    on: "request",
    plugin: async (context, _diagnostics, next) => {
      if (context.path === "" || context.path === "/") accountReads++;
      const response = await next(context);
      for (const id of (response.headers["x-decan-partitions"] ?? "").split(",")) if (id !== "") visited.add(id);
      return response;
    },
  }],
});

const database = databaseOf("scenario", client);
let container;
const tenants = ["Microsoft", "Contoso", "Fabrikam"];
const users = ["u0", "u1", "u2", "u3"];
const sessions = ["s0", "s1"];
const items = [];
for (const TenantId of tenants) for (const UserId of users) for (const SessionId of sessions)
  items.push({ id: randomUUID(), TenantId, UserId, SessionId, n: items.length });

async function rows(query, options) {
  visited = new Set();
  const found = [];
  const iterator = container.items.query(query, options);
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    found.push(...(resources ?? []));
  }
  return found;
}

before(async () => {
  await client.databases.create({ id: database.id });
  // 48,000 RU/s at 6,000 RU/s per partition are eight physical partitions.
  ({ container } = await database.containers.createIfNotExists(
    { id: "sessions", partitionKey: { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 } },
    { offerThroughput: 48000 }));
  for (const item of items) await container.items.create(item);
});
after(() => database.delete());

describe(`scenario over ${new URL(endpoint).protocol}`, () => {
  test("S1 the ranges tile the key space", async () => {
    const { resources } = await container.readPartitionKeyRanges().fetchAll();
    assert.equal(resources.length, partitions);
    resources.sort((a, b) => (a.minInclusive < b.minInclusive ? -1 : 1));
    assert.equal(resources[0].minInclusive, "");
    assert.equal(resources.at(-1).maxExclusive, "FF");
    for (let i = 1; i < resources.length; i++) assert.equal(resources[i].minInclusive, resources[i - 1].maxExclusive);
  });

  test("S69 S70 S71 the definition is kept and the second create finds it", async () => {
    const { resource } = await container.read();
    assert.deepEqual(resource.partitionKey, { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 });
    const again = await database.containers.createIfNotExists({ id: "sessions", partitionKey: { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 } });
    assert.equal(again.statusCode, 200);
    const { resource: offer } = await container.readOffer();
    assert.equal(offer.content.offerThroughput, 48000);
  });

  test("S2 S3 four levels are refused", async () => {
    await assert.rejects(database.containers.create({ id: "four", partitionKey: { paths: ["/a", "/b", "/c", "/d"], kind: "MultiHash", version: 2 } }), { code: 400 });
    for (let levels = 1; levels <= 3; levels++) {
      const paths = ["/a", "/b", "/c"].slice(0, levels);
      const made = await database.containers.create({ id: `levels${levels}`, partitionKey: { paths, kind: "MultiHash", version: 2 } });
      assert.deepEqual(made.resource.partitionKey.paths, paths);
    }
  });

  test("S88 S89 S90 point reads need the whole key", async () => {
    const { id, TenantId, UserId, SessionId, n } = items[5];
    const found = await container.item(id, [TenantId, UserId, SessionId]).read();
    assert.equal(found.resource.n, n);
    assert.equal(found.requestCharge, 1);
    const other = await container.item(id, [TenantId, UserId, "elsewhere"]).read();
    assert.equal(other.statusCode, 404);
    await assert.rejects(container.item(id, [TenantId, UserId]).read(), { code: 400 });
    const { statusCode } = await container.items.create({ ...items[5], SessionId: "another" });
    assert.equal(statusCode, 201, "the same id lives under another key");
    await container.item(id, [TenantId, UserId, "another"]).delete();
  });

  test("S47 to S58 queries go to the partitions that hold the prefix", async () => {
    const text = "SELECT * FROM c WHERE c.TenantId = @tenant-id AND c.UserId = @user-id AND c.SessionId = @session-id";
    const parameters = [{ name: "@tenant-id", value: "Contoso" }, { name: "@user-id", value: "u1" }, { name: "@session-id", value: "s1" }];
    assert.equal((await rows({ query: text, parameters })).length, 1);
    assert.equal(visited.size, 1, "all three levels: one partition");

    assert.equal((await rows("SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'")).length, 2);
    assert.equal(visited.size, 1, "two levels: before any split one partition");

    assert.equal((await rows("SELECT * FROM c WHERE c.TenantId = 'Contoso'")).length, 8);
    assert.equal(visited.size, 1, "one level: before any split one partition");

    assert.equal((await rows("SELECT * FROM c WHERE c.UserId = 'u1'")).length, 6);
    assert.equal(visited.size, partitions, "the middle level fans out");
    assert.equal((await rows("SELECT * FROM c WHERE c.SessionId = 's1'")).length, 12);
    assert.equal(visited.size, partitions, "the last level fans out");
    assert.equal((await rows("SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.SessionId = 's1'")).length, 4);
    assert.equal(visited.size, 1, "a gap uses the prefix before it");
    assert.equal((await rows("SELECT * FROM c WHERE c.TenantId IN ('Contoso', 'Fabrikam')")).length, 16);
    assert.ok(visited.size <= 2);
  });

  test("a prefix given as a request option is enforced by the server", async () => {
    assert.equal((await rows("SELECT * FROM c", { partitionKey: ["Contoso"] })).length, 8);
    assert.equal((await rows("SELECT * FROM c", { partitionKey: ["Contoso", "u1"] })).length, 2);
    assert.equal((await rows("SELECT * FROM c", { partitionKey: ["Contoso", "u1", "s0"] })).length, 1);
  });

  test("pages of every size give the same rows, ordered across partitions", async () => {
    const want = items.map((item) => item.n).sort((a, b) => a - b);
    for (const maxItemCount of [1, 7, 1000]) {
      const ascending = await rows("SELECT VALUE c.n FROM c ORDER BY c.n", { maxItemCount });
      assert.deepEqual(ascending, want, `pages of ${maxItemCount}`);
      const descending = await rows("SELECT * FROM c ORDER BY c.n DESC", { maxItemCount });
      assert.deepEqual(descending.map((item) => item.n), want.toReversed());
      assert.equal((await rows("SELECT * FROM c", { maxItemCount })).length, items.length);
    }
    assert.deepEqual(await rows("SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n"), want.slice(0, 5));
    assert.deepEqual(await rows("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4"), want.slice(3, 7));
  });

  test("S53 S54 a key of two levels", async () => {
    const made = await database.containers.createIfNotExists({ id: "two", partitionKey: { paths: ["/TenantId", "/UserId"], kind: "MultiHash", version: 2 } }, { offerThroughput: 48000 });
    for (const item of items) await made.container.items.create(item);
    const ask = async (query) => {
      visited = new Set();
      return (await made.container.items.query(query).fetchAll()).resources.length;
    };
    assert.equal(await ask("SELECT * FROM c WHERE c.UserId = 'u1'"), 6);
    assert.equal(visited.size, partitions, "the user alone is anywhere");
    assert.equal(await ask("SELECT * FROM c WHERE c.TenantId = 'Contoso'"), 8);
    assert.equal(visited.size, 1);
    assert.equal(await ask("SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'"), 2);
    assert.equal(visited.size, 1);
  });

  test("S55 the same program runs on a container with one level", async () => {
    const program = async (container) => {
      for (const item of items) await container.items.upsert(item);
      const { resources } = await container.items.query({
        query: "SELECT VALUE c.n FROM c WHERE c.TenantId = @tenant ORDER BY c.n",
        parameters: [{ name: "@tenant", value: "Fabrikam" }],
      }).fetchAll();
      return resources;
    };
    const one = await database.containers.createIfNotExists({ id: "one", partitionKey: { paths: ["/TenantId"] } });
    assert.deepEqual(await program(one.container), await program(container));
  });

  test("S60 the item id as the last level", async () => {
    const made = await database.containers.createIfNotExists({ id: "by-id", partitionKey: { paths: ["/TenantId", "/UserId", "/id"], kind: "MultiHash", version: 2 } }, { offerThroughput: 48000 });
    for (const item of items) await made.container.items.create(item);
    const { id, TenantId, UserId, n } = items[9];
    const { resource } = await made.container.item(id, [TenantId, UserId, id]).read();
    assert.equal(resource.n, n);
    visited = new Set();
    const { resources } = await made.container.items.query("SELECT * FROM c WHERE c.TenantId = 'Contoso'").fetchAll();
    assert.equal(resources.length, 8);
    assert.equal(visited.size, 1, "before any split a tenant is in one partition");
  });

  test("etags guard writes", async () => {
    const { id, TenantId, UserId, SessionId } = items[0];
    const item = container.item(id, [TenantId, UserId, SessionId]);
    const { resource } = await item.read();
    const { resource: changed } = await item.replace({ ...resource, note: "changed" }, { accessCondition: { type: "IfMatch", condition: resource._etag } });
    assert.notEqual(changed._etag, resource._etag);
    await assert.rejects(item.replace({ ...resource, note: "late" }, { accessCondition: { type: "IfMatch", condition: resource._etag } }), { code: 412 });
    await assert.rejects(container.items.create(items[0]), { code: 409 });
  });

  test("S85 S99 what a key fixes cannot change", async () => {
    const { id, TenantId, UserId, SessionId } = items[1];
    const item = container.item(id, [TenantId, UserId, SessionId]);
    await assert.rejects(item.replace({ ...items[1], UserId: "someone else" }), { code: 400 });
    const { resource } = await container.read();
    await assert.rejects(container.replace({ ...resource, partitionKey: { ...resource.partitionKey, paths: ["/UserId", "/TenantId", "/SessionId"] } }), { code: 400 });
  });

  test("keys of every type are told apart", async () => {
    const made = await database.containers.createIfNotExists({ id: "types", partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 } }, { offerThroughput: 48000 });
    const values = ["1", 1, true, false, null, undefined, "", "\u{1F600} å", 1.5, -1];
    for (const a of values) await made.container.items.create({ id: "x", a, b: "k", mark: String(a) + typeof a });
    for (const a of values) {
      const { resource } = await made.container.item("x", [a, "k"]).read();
      assert.equal(resource?.mark, String(a) + typeof a);
    }
  });

  test("a script reads the account once", () => {
    assert.equal(accountReads, 1);
  });

  test("a wrong key is refused", async () => {
    const stranger = connect({ key: Buffer.alloc(64, 7).toString("base64") });
    await assert.rejects(stranger.databases.readAll().fetchAll(), { code: 401 });
  });

  test("the program of the README runs", { skip: oldest ? "it names the newest" : new URL(endpoint).port !== "8081" && "needs the default port" }, async () => {
    const { stdout } = await promisify(execFile)(process.execPath, ["readme.mjs"], { cwd: import.meta.dirname });
    assert.match(stdout, /read for 1 RU: 12 minutes/);
    assert.match(stdout, /tenant Contoso: { UserId: 'Alice', minutes: 12 }/);
  });
});
