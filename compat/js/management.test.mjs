// Databases, containers, throughput, indexing policies, items and queries, as in
// the public samples of the JavaScript SDK. Run by ../run.sh.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { catchUp, client, connect, create, databaseOf, oldest, refused, sdk, watching } from "./server.mjs";

const database = databaseOf("management");
before(() => client.databases.create({ id: database.id }));
after(() => database.delete());

const idsOf = (resources) => resources.map((one) => one.id);
const rows = async (of, query, options) => (await of.items.query(query, options).fetchAll()).resources;

test("the account", async () => {
  const { resource } = await client.getDatabaseAccount();
  assert.ok(resource.writableLocations.length > 0 && resource.readableLocations.length > 0);
  assert.equal(resource.consistencyPolicy ?? resource.ConsistencyPolicy, "Session");
  assert.equal((await client.getReadEndpoints()).length, 1);
  assert.equal(new URL(await client.getWriteEndpoint()).host, new URL(await client.getReadEndpoint()).host);
});

test("databases", async () => {
  const mine = databaseOf("databases");
  assert.equal((await client.databases.createIfNotExists({ id: mine.id })).statusCode, 201);
  assert.equal((await client.databases.createIfNotExists({ id: mine.id })).statusCode, 200);
  await refused(client.databases.create({ id: mine.id }), 409);
  assert.equal((await mine.read()).resource.id, mine.id);
  assert.ok(idsOf((await client.databases.readAll().fetchAll()).resources).includes(mine.id));
  const query = { query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: mine.id }] };
  assert.deepEqual(idsOf((await client.databases.query(query).fetchAll()).resources), [mine.id]);
  assert.equal((await mine.readOffer()).resource, undefined);
  await mine.delete();
  await refused(mine.read(), 404);
});

test("containers", async () => {
  const partitionKey = { paths: ["/pk"] };
  assert.equal((await database.containers.createIfNotExists({ id: "c", partitionKey })).statusCode, 201);
  assert.equal((await database.containers.createIfNotExists({ id: "c", partitionKey })).statusCode, 200);
  await refused(database.containers.create({ id: "c", partitionKey }), 409);
  const container = database.container("c");
  const { resource } = await container.read();
  assert.deepEqual(resource.partitionKey, { paths: ["/pk"], kind: "Hash", version: 2 });
  assert.deepEqual((await (container.getPartitionKeyDefinition ?? container.readPartitionKeyDefinition).call(container)).resource.paths, ["/pk"]);
  assert.equal((await container.replace({ ...resource, defaultTtl: 1000 })).resource.defaultTtl, 1000);
  assert.ok((await container.read({ populateQuotaInfo: true })).headers["x-ms-resource-usage"].includes("documentsCount=0"));
  assert.ok(idsOf((await database.containers.readAll().fetchAll()).resources).includes("c"));
  assert.deepEqual(idsOf((await database.containers.query({ query: "SELECT * FROM c WHERE c.id = 'c'" }).fetchAll()).resources), ["c"]);
  assert.deepEqual((await container.conflicts.readAll().fetchAll()).resources, []);
  await container.delete();
  await refused(container.read(), 404);
  assert.equal((await connect().database(database.id).container("c").items.create({ id: "1", pk: "p" }).catch((fault) => fault)).code, 404);
});

test("containers without a key of their own, and with one of the first version", async () => {
  const { container } = await database.containers.createIfNotExists({ id: "keyless" });
  assert.deepEqual((await container.read()).resource.partitionKey.paths, ["/_partitionKey"]); // of the SDK's choice
  await container.items.create({ id: "1", n: 1 });
  assert.equal((await container.item("1").read()).resource.n, 1);
  assert.equal((await container.item("1").patch([{ op: "add", path: "/more", value: 1 }])).statusCode, 200);
  assert.equal((await container.item("1").delete()).statusCode, 204);
  const first = await database.containers.create({ id: "first", partitionKey: { paths: ["/pk"], version: 1 } });
  assert.deepEqual(first.resource.partitionKey, { paths: ["/pk"], kind: "Hash", version: 1 });
  await first.container.items.create({ id: "1", pk: "a" });
  assert.equal((await first.container.item("1", "a").read()).statusCode, 200);
});

test("client encryption is refused", async () => {
  const path = { path: "/secret", clientEncryptionKeyId: "k", encryptionType: "Deterministic", encryptionAlgorithm: "AEAD_AES_256_CBC_HMAC_SHA256" };
  await refused(database.containers.create({ id: "encrypted", partitionKey: { paths: ["/pk"] }, clientEncryptionPolicy: { includedPaths: [path], policyFormatVersion: 1 } }), 400);
});

test("computed properties", async () => {
  const name = (name, f) => ({ name, query: `SELECT VALUE ${f}(IS_DEFINED(c.lastName) ? c.lastName : c.parents[0].familyName) FROM c` });
  const { container: named } = await database.containers.createIfNotExists({ id: "computed", computedProperties: [name("low", "LOWER")] });
  await named.items.create({ id: "1", lastName: "Ann" });
  await named.items.create({ id: "2", parents: [{ familyName: "Bob" }] });
  assert.deepEqual((await rows(named, "SELECT c.low FROM c")).map(({ low }) => low).sort(), ["ann", "bob"]);
  const { resource } = await named.read();
  assert.deepEqual(resource.computedProperties, [name("low", "LOWER")]);
  resource.computedProperties = [name("up", "UPPER")];
  await named.replace(resource);
  assert.deepEqual((await rows(named, "SELECT VALUE c.up FROM c")).sort(), ["ANN", "BOB"]);
  assert.deepEqual(await rows(named, "SELECT VALUE c.low FROM c"), []);
});

// The sample asks for 1,000 dimensions in a flat index; the service documents at
// most 505.
test("policies for vectors", async () => {
  const embedding = ([path, dataType, dimensions, distanceFunction]) => ({ path, dataType, dimensions, distanceFunction });
  const policy = (dimensions) => ({ vectorEmbeddings: [["/v1", "uint8", dimensions, "euclidean"], ["/v2", "int8", 200, "dotproduct"], ["/v3", "uint8", 400, "cosine"]].map(embedding) });
  const indexingPolicy = {
    automatic: true, indexingMode: "consistent",
    compositeIndexes: [[{ path: "/n", order: "ascending" }, { path: "/s", order: "descending" }]],
    spatialIndexes: [{ path: "/place/*", types: ["Point", "Polygon"] }],
    vectorIndexes: [
      { path: "/v1", type: "flat" },
      { path: "/v2", type: "quantizedFlat", quantizationByteSize: 2, vectorIndexShardKey: ["/country"] },
      { path: "/v3", type: "diskANN", quantizationByteSize: 2, indexingSearchListSize: 50, vectorIndexShardKey: ["/zip"] },
    ],
  };
  const definition = (id, vectorEmbeddingPolicy) => ({ id, partitionKey: { paths: ["/id"] }, indexingPolicy, vectorEmbeddingPolicy });
  const { container: vectors } = await database.containers.createIfNotExists(definition("vectors", policy(505)));
  const { resource } = await vectors.read();
  assert.deepEqual(resource.vectorEmbeddingPolicy, policy(505));
  assert.deepEqual(resource.indexingPolicy.vectorIndexes, indexingPolicy.vectorIndexes);
  assert.deepEqual(resource.indexingPolicy.compositeIndexes, indexingPolicy.compositeIndexes);
  assert.ok(["Point", "Polygon"].every((type) => resource.indexingPolicy.spatialIndexes[0].types.includes(type)));
  assert.deepEqual(resource.indexingPolicy.includedPaths.map((one) => one.path), ["/*"]);
  await refused(database.containers.create(definition("flat", policy(1000))), 400);
});

test("policies for texts", async () => {
  const fullTextPolicy = { defaultLanguage: "en-US", fullTextPaths: [{ path: "/a", language: "1033" }, { path: "/b", language: "en-US" }] }; // Windows' number of en-US
  const indexingPolicy = {
    automatic: true, includedPaths: [{ path: "/*" }], excludedPaths: [{ path: '/"_etag"/?' }], fullTextIndexes: [{ path: "/a" }, { path: "/b" }],
  };
  const { container: texts } = await database.containers.createIfNotExists({ id: "texts", partitionKey: { paths: ["/id"] }, fullTextPolicy, indexingPolicy });
  const { resource } = await texts.read();
  assert.deepEqual([resource.fullTextPolicy, resource.indexingPolicy.fullTextIndexes], [fullTextPolicy, indexingPolicy.fullTextIndexes]);
  await texts.items.create({ id: "1", a: "The bicycles of summer", b: "Winter" });
  await texts.items.create({ id: "2", a: "Skating", b: "One bicycle" });
  for (const [path, id] of [["a", "1"], ["b", "2"]])
    assert.deepEqual(await rows(texts, `SELECT VALUE c.id FROM c WHERE FullTextContains(c.${path}, 'bicycle')`), [id]);
});

test("throughput", async () => {
  const { container: manual } = await database.containers.create({ id: "manual", partitionKey: { paths: ["/pk"] }, throughput: 500 });
  const { resource: offer } = await manual.readOffer();
  assert.equal(offer.content.offerThroughput, 500);
  offer.content.offerThroughput = 900;
  assert.equal((await client.offer(offer.id).replace(offer)).resource.content.offerThroughput, 900);
  assert.equal((await client.offer(offer.id).read()).resource.content.offerThroughput, 900);
  offer.content.offerThroughput = 100;
  await refused(client.offer(offer.id).replace(offer), 400);
  assert.ok(idsOf((await client.offers.readAll().fetchAll()).resources).includes(offer.id));
  const owned = (await manual.read()).resource._rid;
  const old = (await client.offers.readAll().fetchAll()).resources.find((one) => one.offerResourceId === owned);
  const { offerIsRUPerMinuteThroughputEnabled } = old.content;
  const altered = { ...old, offerVersion: "V2", content: { offerThroughput: 700, offerIsRUPerMinuteThroughputEnabled } };
  assert.equal((await client.offer(old.id).replace(altered)).resource.content.offerThroughput, 700);
  assert.equal((await manual.readOffer()).resource.content.offerThroughput, 700);
  const { container: scaled } = await database.containers.create({ id: "scaled", partitionKey: { paths: ["/pk"] }, maxThroughput: 4000 });
  assert.equal((await scaled.readOffer()).resource.content.offerAutopilotSettings.maxThroughput, 4000);
  await refused(database.containers.create({ id: "little", partitionKey: { paths: ["/pk"] }, throughput: 300 }), 400);
  const shared = databaseOf("shared");
  await client.databases.create({ id: shared.id, throughput: 500 });
  assert.equal((await shared.readOffer()).resource.content.offerThroughput, 500);
  const { container: inside } = await shared.containers.create({ id: "inside", partitionKey: { paths: ["/pk"] } });
  assert.equal((await inside.readOffer()).resource, undefined);
  await shared.delete();
});

// Both ways to declare the permitted services make the same calls.
async function everyCall(container, options, feedOptions) {
  await container.items.create({ id: "1", pk: "a", n: 1 }, options);
  const item = container.item("1", "a");
  assert.equal((await item.read(options)).resource.n, 1);
  assert.equal((await item.replace({ id: "1", pk: "a", n: 2 }, options)).resource.n, 2);
  assert.equal((await container.items.upsert({ id: "1", pk: "a", n: 3 }, options)).resource.n, 3);
  assert.deepEqual(idsOf((await container.items.readAll(options).fetchAll()).resources), ["1"]);
  const query = { query: "SELECT * FROM c WHERE c.n = @n", parameters: [{ name: "@n", value: 3 }] };
  assert.deepEqual(idsOf(await rows(container, query, options)), ["1"]);
  const ranges = await container.getFeedRanges();
  for (const from of ["a", undefined, (ranges.resources ?? ranges)[0]]) {
    const feed = container.items.getChangeFeedIterator({ changeFeedStartFrom: sdk.ChangeFeedStartFrom.Beginning(from), ...feedOptions });
    assert.deepEqual(idsOf((await catchUp(feed)).items), ["1"]);
  }
  assert.equal((await item.delete(options)).statusCode, 204);
}

test("priorities", async () => {
  const { client: watched, seen } = watching("x-ms-cosmos-priority-level");
  const container = watched.database(database.id).container((await create(database, "priorities", ["/pk"])).id);
  for (const priorityLevel of [sdk.PriorityLevel.High, sdk.PriorityLevel.Low]) {
    seen.length = 0;
    await everyCall(container, { priorityLevel }, oldest ? {} : { priorityLevel }); // whose feeds do not know it
    assert.deepEqual([...new Set(seen)], oldest ? [priorityLevel, undefined] : [priorityLevel]);
  }
  await refused(container.items.create({ id: "1", pk: "a" }, { priorityLevel: "Middle" }), 400);
});

test("throughput buckets", { skip: oldest }, async () => {
  const { client: watched, seen } = watching("x-ms-cosmos-throughput-bucket", { throughputBucket: 1 });
  const container = watched.database(database.id).container((await create(database, "buckets", ["/pk"])).id);
  await everyCall(container, {}, {});
  assert.deepEqual([...new Set(seen)], [1], "that of the client");
  seen.length = 0;
  await everyCall(container, { throughputBucket: 2 }, { throughputBucket: 2 });
  const bulk = Array.from({ length: 5 }, (_, i) => ({ operationType: "Create", partitionKey: "b", resourceBody: { id: `${i}`, pk: "b" } }));
  const made = await container.items.executeBulkOperations(bulk, { throughputBucket: 2 });
  assert.deepEqual(made.map(({ response }) => response?.statusCode), Array(5).fill(201));
  assert.deepEqual([...new Set(seen)], [2]);
  await refused(container.items.create({ id: "1", pk: "a" }, { throughputBucket: 6 }), 400);
});

test("indexing policies", async () => {
  const indexingPolicy = {
    indexingMode: "consistent", automatic: true,
    includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/secret/*" }],
    compositeIndexes: [[{ path: "/name", order: "ascending" }, { path: "/age", order: "descending" }]],
    spatialIndexes: [{ path: "/place/*", types: ["Point"] }],
  };
  const indexed = await create(database, "indexed", ["/pk"], 1, { indexingPolicy });
  const { resource } = await indexed.read();
  assert.ok(resource.indexingPolicy.excludedPaths.some((one) => one.path === "/secret/*"));
  assert.deepEqual(resource.indexingPolicy.compositeIndexes, indexingPolicy.compositeIndexes);
  assert.ok(resource.indexingPolicy.spatialIndexes[0].types.includes("Point"));
  for (let i = 0; i < 6; i++)
    await indexed.items.create({ id: `${i}`, pk: "p", name: `n${i % 2}`, age: i, secret: i, place: { type: "Point", coordinates: [i, i] } });
  assert.deepEqual(await rows(indexed, "SELECT VALUE c.id FROM c ORDER BY c.name, c.age DESC"), ["4", "2", "0", "5", "3", "1"]);
  assert.deepEqual(await rows(indexed, "SELECT VALUE c.id FROM c WHERE c.secret = 3"), ["3"]);
  assert.deepEqual(await rows(indexed, "SELECT VALUE c.id FROM c WHERE ST_DISTANCE(c.place, {'type': 'Point', 'coordinates': [0, 0]}) < 300000"), ["0", "1"]);
  await indexed.replace({ ...resource, indexingPolicy: { indexingMode: "none", automatic: false } });
  assert.equal((await indexed.read()).resource.indexingPolicy.indexingMode, "none");
  assert.equal((await indexed.item("3", "p").read()).statusCode, 200);
  await indexed.replace({ ...resource, indexingPolicy: { includedPaths: [{ path: "/age/?" }], excludedPaths: [{ path: "/*" }] } });
  assert.deepEqual(await rows(indexed, "SELECT VALUE c.id FROM c WHERE c.age > 3 ORDER BY c.age"), ["4", "5"]);
  await refused(indexed.replace({ ...resource, indexingPolicy: { includedPaths: [{ path: "/age" }] } }), 400);
});

test("manual indexing, and policies in the old form", async () => {
  const { container: words } = await database.containers.create({ id: "words" });
  const partitionKey = (await words.read()).resource.partitionKey;
  const change = async (indexingPolicy) => (await words.replace({ id: "words", partitionKey, indexingPolicy })).resource.indexingPolicy;
  const found = async () => idsOf(await rows(words, { query: "SELECT * FROM w WHERE w.mark = @mark", parameters: [{ name: "@mark", value: "m" }] }, { enableScanInQuery: true }));
  const finds = async (...want) => { // a change of the policy takes some time
    for (const end = Date.now() + 60_000; `${(await found()).sort()}` !== `${want}`;) {
      assert.ok(Date.now() < end, `the query finds ${await found()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  await words.items.create({ id: "excluded", mark: "m" }, { indexingDirective: "exclude" });
  await finds("excluded"); // F7: a directive has no effect
  assert.equal((await words.item("excluded").read()).resource.mark, "m");
  assert.equal((await change({ automatic: false })).automatic, true); // Rust's suite expects it
  await words.items.create({ id: "left out", mark: "m" });
  await words.items.create({ id: "included", mark: "m" }, { indexingDirective: "include" });
  await finds("excluded", "included", "left out");
  const old = (dataType) => ({ kind: sdk.IndexKind.Range, dataType: sdk.DataType[dataType], precision: -1 });
  await change({ includedPaths: [{ path: "/*", indexes: [old("String"), old("Number")] }] });
  await finds("excluded", "included", "left out");
  const kept = await change({ includedPaths: [{ path: "/", indexes: [old("Number")] }], excludedPaths: [{ path: "/other/*" }, { path: '/"third"/*' }] });
  assert.deepEqual(kept.includedPaths.map((one) => one.path), ["/*"]);
  const page = await words.items.query("SELECT * FROM w", { maxItemCount: 1, continuationTokenLimitInKB: 1 }).fetchNext();
  assert.equal(page.resources.length, 1);
  assert.ok(page.continuationToken.length < 1024);
});

test("items", async () => {
  const container = await create(database, "items", ["/pk"], 2);
  const made = await container.items.create({ id: "1", pk: "a", n: 1 });
  assert.equal(made.statusCode, 201);
  assert.ok(made.requestCharge > 1 && made.etag && made.activityId);
  for (const property of ["_rid", "_self", "_etag", "_ts", "_attachments"]) assert.ok(property in made.resource, property);
  assert.equal((await made.item.read()).resource.n, 1);
  assert.equal((await container.item("1", "a").replace({ id: "1", pk: "a", n: 3 })).resource.n, 3);
  await refused(container.item("2", "a").replace({ id: "2", pk: "a" }), 404);
  assert.equal((await container.item("1", "b").read()).statusCode, 404);
  await refused(container.items.create({ id: "large", pk: "a", text: "x".repeat(2_200_000) }), 413);
  const generated = await container.items.create({ pk: "a", made: true });
  assert.match(generated.resource.id, /^[0-9a-f-]{36}$/);
  await container.items.create({ id: "nothing", pk: null });
  assert.equal((await container.item("nothing", null).read()).statusCode, 200);
  await container.items.create({ id: "none" });
  assert.equal((await container.item("none", undefined).read()).statusCode, 200);
  const { resources } = await container.items.readAll().fetchAll();
  assert.deepEqual(idsOf(resources).sort(), [generated.resource.id, "1", "none", "nothing"].sort());
  const { headers } = await container.item("1", "a").read({ priorityLevel: sdk.PriorityLevel?.Low });
  assert.ok(headers["x-ms-session-token"]);
});

test("ids of every kind", async () => {
  const container = await create(database, "odd", ["/pk"]);
  for (const id of ["with blank", "ü€😀", "a+b&c=d", "100%", '"quoted"', "a:b;c,d", "x".repeat(255)]) {
    await container.items.create({ id, pk: id });
    assert.equal((await container.item(id, id).read()).resource?.id, id);
    assert.equal((await container.item(id, id).delete()).statusCode, 204, id);
  }
});

test("queries", async () => {
  const families = await create(database, "families", ["/name"], 2);
  for (const family of [
    { id: "A", name: "Andersen", children: [{ given: "Ann", grade: 5, pets: [{ p: "Fluffy" }] }], city: "Seattle", ok: true },
    { id: "W", name: "Wakefield", children: [{ given: "Jesse", grade: 1, pets: [{ p: "Goofy" }, { p: "Shadow" }] }, { given: "Lisa", grade: 8 }], city: "NY", ok: false },
  ]) await families.items.create(family);
  for (const [query, want] of [
    ["SELECT VALUE c.given FROM c IN f.children", ["Ann", "Jesse", "Lisa"]],
    ["SELECT VALUE p.p FROM f JOIN c IN f.children JOIN p IN c.pets WHERE p.p != 'Goofy'", ["Fluffy", "Shadow"]],
    ["SELECT VALUE f.id FROM f WHERE f.children[0].grade > 3", ["A"]],
    ["SELECT VALUE f.id FROM f WHERE f.city IN ('NY', 'LA')", ["W"]],
    ["SELECT VALUE f.id FROM f WHERE f.id BETWEEN 'B' AND 'Z' OR f.ok", ["A", "W"]],
    ["SELECT VALUE f.id FROM f WHERE CONTAINS(UPPER(f.name), 'FIELD')", ["W"]],
    ["SELECT VALUE COUNT(1) FROM f JOIN c IN f.children", [3]],
    ["SELECT VALUE SUM(c.grade) FROM f JOIN c IN f.children", [14]],
    ["SELECT DISTINCT VALUE IS_DEFINED(f.city) FROM f", [true]], // this SDK leaves out rows that are false
    ["SELECT VALUE f.id FROM f WHERE EXISTS(SELECT VALUE c FROM c IN f.children WHERE c.grade > 7)", ["W"]],
  ]) assert.deepEqual((await rows(families, query)).sort(), want, query);
  assert.deepEqual(await rows(families, "SELECT VALUE f.id FROM f ORDER BY f.name DESC"), ["W", "A"]);
  const parameters = [{ name: "@id", value: "A" }, { name: "@cities", value: ["Seattle", "LA"] }];
  assert.deepEqual(idsOf(await rows(families, { query: "SELECT * FROM f WHERE f.id = @id AND ARRAY_CONTAINS(@cities, f.city)", parameters })), ["A"]);
  await assert.rejects(rows(families, "SELECT * FRM f"), (fault) => /SC1001|yntax/.test(fault.message));
  const page = await families.items.query("SELECT * FROM f", { populateQueryMetrics: true, partitionKey: "Andersen" }).fetchNext();
  assert.ok(page.requestCharge > 0);
  assert.match(JSON.stringify(page.headers), /etrievedDocumentCount/);
  if (!oldest) {
    const { headers } = await families.items.query("SELECT * FROM f WHERE f.city = 'NY'", { populateIndexMetrics: true, partitionKey: "Wakefield" }).fetchNext();
    assert.match(decodeURIComponent(headers["x-ms-cosmos-index-utilization"]), /\/city\/\?/);
  }
});

test("pages and where they continue", async () => {
  const paged = await create(database, "paged", ["/pk"], 3);
  for (let i = 0; i < 30; i++) await paged.items.create({ id: `${i}`, pk: `p${i}`, n: i });
  const found = [];
  for await (const { resources } of paged.items.query("SELECT * FROM c", { maxItemCount: 7 }).getAsyncIterator()) found.push(...resources);
  assert.equal(new Set(idsOf(found)).size, 30);
  const wide = { maxItemCount: 10000, maxDegreeOfParallelism: 1000, bufferItems: true };
  const inOrder = await rows(paged, "SELECT * FROM c ORDER BY c._ts", wide);
  assert.equal(new Set(idsOf(inOrder)).size, 30);
  assert.ok(inOrder.every((item, i) => i === 0 || inOrder[i - 1]._ts <= item._ts));
  assert.deepEqual(await rows(paged, "SELECT VALUE COUNT(c.id) FROM c", wide), [30]);
  const own = [];
  let continuationToken;
  for (let pages = 0; pages === 0 || continuationToken; pages++) { // a new query for each page
    assert.ok(pages < 40, "no end");
    const page = await paged.items.query("SELECT * FROM c WHERE c.n < 20", { maxItemCount: 4, continuationToken, partitionKey: "p3" }).fetchNext();
    own.push(...page.resources);
    ({ continuationToken } = page);
  }
  assert.deepEqual(idsOf(own), ["3"]);
});
