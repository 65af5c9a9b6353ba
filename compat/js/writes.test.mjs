// Conditional and grouped writes with the JavaScript SDK: etags, transactional
// batches, partial updates, bulk, unique keys and time to live. Run by
// ../run.sh.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { catchUp, client, create, databaseOf, oldest, own, refused, sdk } from "./server.mjs";

const database = databaseOf("writes");
let container;

before(async () => {
  await client.databases.create({ id: database.id });
  container = await create(database, "writes", ["/pk"], 4);
});
after(() => database.delete());

const ids = async (of, partitionKey) => (await of.items.query("SELECT VALUE c.id FROM c", { partitionKey }).fetchAll()).resources.sort();
const ifMatch = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
const ifNoneMatch = (condition) => ({ accessCondition: { type: "IfNoneMatch", condition } });
const statuses = (results) => results.map((result) => result.statusCode);

test("conditions of reads and writes", async () => {
  const { resource } = await container.items.create({ id: "x", pk: "conditions" });
  const item = container.item("x", "conditions");
  assert.equal((await item.read(ifNoneMatch('"other"'))).statusCode, 200);
  assert.equal((await item.read(ifNoneMatch(resource._etag))).statusCode, 304);
  assert.equal((await container.items.upsert({ id: "x", pk: "conditions", n: 1 }, ifMatch(resource._etag))).statusCode, 200);
  await refused(container.items.upsert({ id: "x", pk: "conditions" }, ifMatch(resource._etag)), 412);
  await refused(item.delete(ifMatch(resource._etag)), 412);
  assert.equal((await container.items.upsert({ id: "new", pk: "conditions" }, ifMatch(resource._etag))).statusCode, 201, "of what is not there");
  assert.equal((await item.delete()).statusCode, 204);
  await refused(item.delete(), 404);
});

test("a batch of each operation", async () => {
  await container.items.create({ id: "old", pk: "batch" });
  const { resource: guarded } = await container.items.create({ id: "guarded", pk: "batch" });
  const { code, result, headers } = await container.items.batch([
    { operationType: "Create", resourceBody: { id: "new", pk: "batch", n: 2 } },
    { operationType: "Read", id: "new" },
    { operationType: "Upsert", resourceBody: { id: "either", pk: "batch" } },
    { operationType: "Replace", id: "guarded", resourceBody: { id: "guarded", pk: "batch", n: 3 }, ifMatch: guarded._etag },
    { operationType: "Patch", id: "new", resourceBody: { operations: [{ op: "incr", path: "/n", value: 5 }] } },
    { operationType: "Delete", id: "old" },
  ], "batch");
  assert.equal(code, 200);
  assert.ok(headers["x-ms-request-charge"] > 0);
  assert.deepEqual(statuses(result), [201, 200, 201, 200, 200, 204]);
  assert.equal(result[1].resourceBody.n, 2, "a read sees the operations before it");
  assert.equal(result[4].resourceBody.n, 7);
  assert.deepEqual(await ids(container, "batch"), ["either", "guarded", "new"]);
  assert.equal((await container.item("guarded", "batch").read()).resource._etag, result[3].eTag);
});

test("a refused batch leaves nothing", async () => {
  const { resource: there } = await container.items.create({ id: "there", pk: "refused", n: 1 });
  for (const [status, fault] of [
    [409, { operationType: "Create", resourceBody: { id: "there", pk: "refused" } }],
    [404, { operationType: "Delete", id: "nowhere" }],
    [412, { operationType: "Replace", id: "there", resourceBody: { id: "there", pk: "refused" }, ifMatch: '"other"' }],
    [412, { operationType: "Patch", id: "there", resourceBody: { condition: "from c where c.n = 7", operations: [{ op: "set", path: "/n", value: 9 }] } }],
    [400, { operationType: "Patch", id: "there", resourceBody: { operations: [{ op: "remove", path: "/missing" }] } }],
  ]) {
    const { code, result } = await container.items.batch([
      { operationType: "Create", resourceBody: { id: "first", pk: "refused" } },
      { operationType: "Patch", id: "there", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
      fault,
      { operationType: "Upsert", resourceBody: { id: "last", pk: "refused" } },
    ], "refused");
    assert.equal(code, 207);
    assert.deepEqual(statuses(result), [424, 424, status, 424]);
    assert.deepEqual(await ids(container, "refused"), ["there"]);
    assert.equal((await container.item("there", "refused").read()).resource._etag, there._etag);
  }
});

test("batches have a size, and one key", async () => {
  const creates = (n) => Array.from({ length: n }, (_, i) => ({ operationType: "Create", resourceBody: { id: `of ${n} ${i}`, pk: "size" } }));
  assert.equal((await container.items.batch(creates(100), "size")).code, 200);
  await assert.rejects(container.items.batch(creates(101), "size")); // by the SDK
  assert.equal((await ids(container, "size")).length, 100);
  const strange = await container.items.batch([...creates(1), { operationType: "Create", resourceBody: { id: "x", pk: "of another" } }], "size");
  assert.deepEqual(statuses(strange.result), [424, 400]);
});

test("a batch under a hierarchical key", async () => {
  const nested = await create(database, "nested", ["/t", "/u"], 4);
  const item = (id) => ({ operationType: "Create", resourceBody: { id, t: "t", u: "u" } });
  assert.deepEqual(statuses((await nested.items.batch([item("1"), item("2")], ["t", "u"])).result), [201, 201]);
  assert.deepEqual(await ids(nested, ["t", "u"]), ["1", "2"]);
});

test("partial updates, each operation", async () => {
  await container.items.create({ id: "x", pk: "patch", n: 1, f: 0.5, list: ["a", "b"], deep: { one: 1, two: 2 }, gone: true, "a/b~c": 0 });
  const item = container.item("x", "patch");
  const operations = [
    { op: "add", path: "/added", value: { by: "patch" } },
    { op: "add", path: "/list/1", value: "between" },
    { op: "add", path: "/list/-", value: "last" },
    { op: "set", path: "/list/0", value: "first" },
    { op: "replace", path: "/deep/one", value: 11 },
    { op: "remove", path: "/gone" },
    { op: "incr", path: "/n", value: 41 },
    { op: "incr", path: "/f", value: -0.25 },
    { op: "set", path: "/a~1b~0c", value: 1 },
  ];
  if (!oldest) operations.push({ op: "move", from: "/deep/two", path: "/moved" });
  const { resource } = await item.patch(operations);
  assert.deepEqual(own(resource), {
    id: "x", pk: "patch", n: 42, f: 0.25, list: ["first", "between", "b", "last"], "a/b~c": 1, added: { by: "patch" },
    ...(oldest ? { deep: { one: 11, two: 2 } } : { deep: { one: 11 }, moved: 2 }),
  });
  const condition = "from c where c.n > 41 and ARRAY_CONTAINS(c.list, 'b')";
  const zero = { condition, operations: [{ op: "set", path: "/n", value: 0 }] };
  assert.equal((await item.patch(zero)).resource.n, 0);
  await refused(item.patch(zero), 412);
  await refused(item.patch([{ op: "set", path: "/n", value: 1 }], ifMatch(resource._etag)), 412);
});

test("partial updates that are refused", async () => {
  const { resource } = await container.items.create({ id: "x", pk: "no patch", text: "t", list: [1] });
  const item = container.item("x", "no patch");
  for (const operations of [
    [{ op: "set", path: "/n", value: 1 }, { op: "replace", path: "/missing", value: 1 }],
    [{ op: "remove", path: "/missing" }],
    [{ op: "add", path: "/list/7", value: 1 }],
    [{ op: "add", path: "/a/b", value: 1 }],
    [{ op: "incr", path: "/text", value: 1 }],
    [{ op: "set", path: "/id", value: "y" }],
    [{ op: "set", path: "/pk", value: "y" }],
    [{ op: "set", path: "/_ts", value: 1 }],
    Array.from({ length: 11 }, (_, i) => ({ op: "set", path: `/n${i}`, value: i })),
  ]) await refused(item.patch(operations), 400);
  await refused(container.item("y", "no patch").patch([{ op: "set", path: "/n", value: 1 }]), 404);
  assert.equal((await item.read()).resource._etag, resource._etag, "nothing was written");
});

test("bulk over four partitions", async () => {
  const many = await create(database, "bulk", ["/pk"], 4);
  const text = "x".repeat(4000);
  const run = async (operations) => {
    const results = [];
    for (let i = 0; i < operations.length; i += 100) results.push(...await many.items.bulk(operations.slice(i, i + 100), { continueOnError: true }));
    return results;
  };
  const created = await run(Array.from({ length: 160 }, (_, i) => ({ operationType: "Create", partitionKey: `pk${i % 40}`, resourceBody: { id: `id${i}`, pk: `pk${i % 40}`, n: i, text } })));
  assert.deepEqual([...new Set(statuses(created))], [201]);
  const { resources: ranges } = await many.readPartitionKeyRanges().fetchAll();
  assert.equal(ranges.length, 4);
  const counted = await many.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll();
  assert.deepEqual(counted.resources, [160]);

  const etag = (await many.item("id0", "pk0").read()).resource._etag;
  const mixed = await run([
    { operationType: "Create", partitionKey: "pk1", resourceBody: { id: "id1", pk: "pk1" } },
    { operationType: "Upsert", partitionKey: "pk2", resourceBody: { id: "id2", pk: "pk2" } },
    { operationType: "Replace", partitionKey: "pk0", id: "id0", ifMatch: etag, resourceBody: { id: "id0", pk: "pk0" } },
    { operationType: "Replace", partitionKey: "pk0", id: "id40", ifMatch: etag, resourceBody: { id: "id40", pk: "pk0" } },
    { operationType: "Patch", partitionKey: "pk3", id: "id3", resourceBody: { operations: [{ op: "incr", path: "/n", value: 1 }] } },
    { operationType: "Read", partitionKey: "pk4", id: "id4" },
    { operationType: "Read", partitionKey: "pk5", id: "id4" },
    { operationType: "Delete", partitionKey: "pk5", id: "id5" },
  ]);
  assert.deepEqual(statuses(mixed), [409, 200, 200, 412, 200, 200, 404, 204]);
  assert.equal((await many.item("id3", "pk3").read()).resource.n, 4);
});

test("bulk in the form of the newest SDK", { skip: oldest && "4.0.0 has no such call" }, async () => {
  const nested = await create(database, "bulk nested", ["/t", "/u"], 4);
  const operations = Array.from({ length: 150 }, (_, i) => ({ operationType: "Create", partitionKey: [`t${i % 7}`, `u${i}`], resourceBody: { id: `id${i}`, t: `t${i % 7}`, u: `u${i}` } }));
  const results = await nested.items.executeBulkOperations([...operations, operations[0]]);
  assert.equal(results.length, 151);
  assert.deepEqual(results.map(({ response, error }) => response?.statusCode ?? error?.code).toSorted(), [...Array(150).fill(201), 409]);
  assert.deepEqual((await nested.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll()).resources, [150]);
});

test("bulk under keys of every type", async () => {
  const keys = await create(database, "keys", ["/key"], 4);
  const operations = (id) => [
    { operationType: "Upsert", partitionKey: "U", resourceBody: { ...id, key: "U" } },
    { operationType: "Read", id: "r", partitionKey: true },
    { operationType: "Delete", id: "d", partitionKey: {} },
    { operationType: "Replace", id: "s", partitionKey: 5, resourceBody: { id: "s", key: 5, n: 1 } },
    { operationType: "Patch", id: "p", partitionKey: 5, resourceBody: { operations: [{ op: "add", path: "/x", value: 1 }] } },
  ];
  for (const item of [{ id: "r", key: true }, { id: "d", key: {} }, { id: "s", key: 5 }, { id: "p", key: 5 }]) await keys.items.create(item);
  assert.deepEqual(statuses(await keys.items.bulk(operations({}))), [201, 200, 204, 200, 200]);
  assert.deepEqual([(await keys.item("s", 5).read()).resource.n, (await keys.item("p", 5).read()).resource.x], [1, 1]);
  const [made] = (await keys.items.query("SELECT VALUE c.id FROM c", { partitionKey: "U" }).fetchAll()).resources;
  assert.match(made, /^[0-9a-f-]{36}$/, "by the SDK");
  await keys.items.create({ id: "d", key: {} });
  if (oldest) return;
  const results = await keys.items.executeBulkOperations(operations({ id: made }));
  assert.deepEqual(results.map(({ response, error }) => response?.statusCode ?? error?.code), [200, 200, 204, 200, 200]);
});

test("keys from a builder, with parts that are null or missing", async () => {
  const zips = await create(database, "zips", ["/name", "/address/zip"], 4);
  const key = (name) => new sdk.PartitionKeyBuilder().addValue(name);
  await zips.items.create({ id: "1", name: "a", address: { zip: 23 } });
  await zips.items.create({ id: "2", name: "b" });
  await zips.items.create({ id: "3", name: "c", address: { zip: null } });
  const patched = await zips.item("1", key("a").addValue(23).build()).patch([{ op: "add", path: "/x", value: 1 }]);
  assert.equal(patched.resource.x, 1);
  const results = await zips.items.bulk([
    { operationType: "Create", resourceBody: { id: "4", name: "d", address: { zip: 4 } } }, // the SDK finds the key
    { operationType: "Upsert", resourceBody: { id: "1", name: "a", address: { zip: 23 }, n: 1 } },
    { operationType: "Read", id: "2", partitionKey: key("b").addNoneValue().build() },
    { operationType: "Replace", id: "3", partitionKey: key("c").addNullValue().build(), resourceBody: { id: "3", name: "c", address: { zip: null }, n: 1 } },
    { operationType: "Delete", id: "1", partitionKey: key("a").addValue(23).build() },
  ]);
  assert.deepEqual(statuses(results), [201, 200, 200, 200, 204]);
  assert.deepEqual([results[2].resourceBody.id, results[3].resourceBody.n], ["2", 1]);
  assert.equal((await zips.item("4", ["d", 4]).read()).statusCode, 200);
  assert.deepEqual(await ids(zips, undefined), ["2", "3", "4"]);
});

test("excluded regions", { skip: oldest && "4.0.0 has no such option" }, async () => {
  const spread = await create(database, "spread", ["/key"], 4);
  const [{ name }] = (await client.getDatabaseAccount()).resource.writableLocations;
  await Promise.all(["West US 3", name].map(async (key) => {
    const options = { excludedLocations: [key] };
    assert.equal((await spread.items.upsert({ id: "1", key, n: 1 }, options)).statusCode, 201);
    assert.equal((await spread.item("1", key).read(options)).resource.n, 1);
    assert.deepEqual((await spread.items.query("SELECT VALUE c.key FROM c WHERE c.n = 1", { ...options, partitionKey: key }).fetchAll()).resources, [key]);
    const { result } = await spread.items.batch([
      { operationType: "Create", resourceBody: { id: "2", key } },
      { operationType: "Upsert", resourceBody: { id: "3", key } },
      { operationType: "Delete", id: "2" },
    ], key, options);
    assert.deepEqual(statuses(result), [201, 201, 204]);
    const bulk = await spread.items.executeBulkOperations([
      { operationType: "Create", partitionKey: key, resourceBody: { id: "4", key } },
      { operationType: "Delete", partitionKey: key, id: "3" },
    ], options);
    assert.deepEqual(bulk.map(({ response }) => response?.statusCode), [201, 204]);
    const feed = spread.items.getChangeFeedIterator({ changeFeedStartFrom: sdk.ChangeFeedStartFrom.Beginning(key), ...options });
    assert.deepEqual((await catchUp(feed)).items.map(({ id }) => id), ["1", "4"]);
    for (const id of ["1", "4"]) assert.equal((await spread.item(id, key).delete(options)).statusCode, 204);
  }));
});

test("delete by partition key", async () => {
  for (const id of ["1", "2"]) await container.items.create({ id, pk: "cleared" });
  await container.items.create({ id: "1", pk: "left" });
  await container.deleteAllItemsForPartitionKey("cleared");
  assert.deepEqual([await ids(container, "cleared"), await ids(container, "left")], [[], ["1"]]);
  const cleared = await create(database, "cleared", ["/t", "/u"], 4);
  for (let i = 0; i < 12; i++) await cleared.items.create({ id: `${i}`, t: `t${i % 2}`, u: `u${i % 3}` });
  await cleared.deleteAllItemsForPartitionKey(["t0", "u0"]);
  assert.deepEqual(await ids(cleared, ["t0", "u0"]), []);
  assert.equal((await cleared.item("0", ["t0", "u0"]).read()).statusCode, 404);
  await cleared.items.create({ id: "0", t: "t0", u: "u0" }); // of now
  await assert.rejects(cleared.deleteAllItemsForPartitionKey(["t1"]), { code: 400 }); // F21: a prefix
  const left = (await cleared.items.query("SELECT VALUE c.id FROM c").fetchAll()).resources;
  assert.deepEqual(left.sort(), ["0", "1", "2", "3", "4", "5", "7", "8", "9", "10", "11"].sort());
});

test("unique keys", async () => {
  const unique = await create(database, "unique", ["/pk"], 4, { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }, { paths: ["/first", "/last/name"] }] } });
  assert.deepEqual((await unique.read()).resource.uniqueKeyPolicy.uniqueKeys.map((one) => one.paths), [["/email"], ["/first", "/last/name"]]);
  const put = (item) => unique.items.create(item);
  await put({ id: "1", pk: "a", email: "ann@x", first: "Ann", last: { name: "B" } });
  await refused(put({ id: "2", pk: "a", email: "ann@x" }), 409);
  await refused(put({ id: "2", pk: "a", email: "other", first: "Ann", last: { name: "B" } }), 409);
  await put({ id: "2", pk: "b", email: "ann@x" }); // another key
  await put({ id: "2", pk: "a", email: "other", first: "Ann" });
  await put({ id: "3", pk: "a", first: "Bob" }); // no email, once
  await refused(put({ id: "4", pk: "a", first: "Eve" }), 409);
  await refused(unique.item("2", "a").patch([{ op: "set", path: "/email", value: "ann@x" }]), 409);
  const { result } = await unique.items.batch([
    { operationType: "Delete", id: "1" },
    { operationType: "Create", resourceBody: { id: "4", pk: "a", email: "ann@x" } },
  ], "a");
  assert.deepEqual(statuses(result), [204, 201], "free again in the same transaction");
});

test("time to live", async () => {
  const mortal = await create(database, "mortal", ["/pk"], 1, { defaultTtl: -1 });
  await mortal.items.create({ id: "stays", pk: "a" });
  await mortal.items.create({ id: "goes", pk: "a", ttl: 1 });
  const gone = async (id) => { // in a second or two
    for (const end = Date.now() + 60_000; (await ids(mortal, "a")).includes(id);) {
      assert.ok(Date.now() < end, `${id} stays`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  await gone("goes");
  assert.equal((await mortal.item("goes", "a").read()).statusCode, 404);
  await mortal.items.create({ id: "goes", pk: "a", ttl: 1000 });
  await refused(mortal.items.create({ id: "wrong", pk: "a", ttl: 0 }), 400);
  const { resource } = await mortal.read();
  await mortal.replace({ ...resource, defaultTtl: 1 });
  await gone("stays");
  assert.deepEqual(await ids(mortal, "a"), ["goes"], "an item's own time counts");
});
