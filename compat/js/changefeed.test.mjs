// The change feed with the JavaScript SDK: readers from the beginning, a time
// and now, of the container, its ranges, a full key and a prefix, with pages of
// one, seven and as many items as fit, compared with what the program wrote
// (S111). Run by ../run.sh against a server over http and https.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { catchUp, client, databaseOf, endpoint, sdk } from "./server.mjs";

const { ChangeFeedMode, ChangeFeedStartFrom, StatusCodes } = sdk;
const database = databaseOf("feed");
let container;

// The expected content: items by key and id, and whether the second half changed
// them.
const model = new Map();
const nameOf = (item) => JSON.stringify([item.TenantId, item.UserId, item.id]);
let changes = 0;
let lastTime = 0;

async function change(half) {
  const n = changes++;
  const item = { id: `id${(n * 7) % 5}`, TenantId: `t${(n * 11) % 4}`, UserId: `u${(n * 5) % 3}`, n };
  if (n % 4 === 3 && model.has(nameOf(item))) {
    await container.item(item.id, [item.TenantId, item.UserId]).delete();
    model.delete(nameOf(item));
    return;
  }
  const { resource } = await container.items.upsert(item);
  lastTime = resource._ts;
  model.set(nameOf(item), { ...item, half });
}

const scopes = {
  container: { resource: undefined, holds: () => true },
  "whole key": { resource: ["t1", "u2"], holds: (item) => item.TenantId === "t1" && item.UserId === "u2" },
  prefix: { resource: ["t2"], holds: (item) => item.TenantId === "t2" },
};
const sizes = [1, 7, undefined]; // undefined: the server chooses

const iterator = (start, maxItemCount) => container.items.getChangeFeedIterator({ changeFeedStartFrom: start, maxItemCount });

// drain reads until the end and returns the items, each of which is returned
// once.
async function drain(feed, size) {
  const found = new Map();
  for (let pages = 0; pages < 1000; pages++) {
    const page = await feed.readNext();
    if (page.statusCode === StatusCodes.NotModified) return { found, continuation: page.continuationToken };
    assert.ok(size === undefined || page.result.length <= size, `${page.result.length} items on a page of ${size}`);
    assert.ok(page.requestCharge >= 1);
    for (const item of page.result) {
      assert.ok(Number.isInteger(item._lsn) && item._lsn > 0, "an item has its LSN");
      assert.ok(!found.has(nameOf(item)), `${nameOf(item)} comes twice`);
      found.set(nameOf(item), item.n);
    }
  }
  assert.fail("no end");
}

const expected = (holds) => new Map([...model].filter(([, item]) => holds(item)).map(([name, item]) => [name, item.n]));
const sorted = (map) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));

const fromNow = []; // readers that began before the second half
let second; // between the halves

before(async () => {
  await client.databases.create({ id: database.id });
  // 24,000 RU/s at 6,000 RU/s per partition are four physical partitions.
  ({ container } = await database.containers.createIfNotExists(
    { id: "items", partitionKey: { paths: ["/TenantId", "/UserId"], kind: "MultiHash", version: 2 } },
    { offerThroughput: 24000 }));
  for (let i = 0; i < 80; i++) await change(1);
  // A time is in whole seconds and exclusive (F9); for now, the oldest SDK sends the
  // current time.
  second = lastTime + 1;
  const wait = async (end) => {
    while (Date.now() < end * 1000) await new Promise((resolve) => setTimeout(resolve, 50));
  };
  await wait(second);
  for (const [name, { resource, holds }] of Object.entries(scopes)) for (const size of sizes) {
    const feed = iterator(ChangeFeedStartFrom.Now(resource), size);
    const { found } = await drain(feed, size);
    assert.equal(found.size, 0, "now is after every item");
    fromNow.push({ name, size, holds, feed });
  }
  await wait(Math.floor(Date.now() / 1000) + 1);
  for (let i = 0; i < 60; i++) await change(2);
});
after(() => database.delete());

describe(`change feed over ${new URL(endpoint).protocol}`, () => {
  for (const [name, { resource, holds }] of Object.entries(scopes)) for (const size of sizes) {
    test(`from the beginning: ${name}, pages of ${size ?? "any size"}`, async () => {
      const { found } = await drain(iterator(ChangeFeedStartFrom.Beginning(resource), size), size);
      assert.deepEqual(sorted(found), sorted(expected(holds)));
    });
    test(`from a time: ${name}, pages of ${size ?? "any size"}`, async () => {
      const { found } = await drain(iterator(ChangeFeedStartFrom.Time(new Date(second * 1000), resource), size), size);
      assert.deepEqual(sorted(found), sorted(expected((item) => holds(item) && item.half === 2)));
    });
    test(`with a new iterator for each page: ${name}, pages of ${size ?? "any size"}`, async () => {
      const found = new Map();
      let page = await iterator(ChangeFeedStartFrom.Beginning(resource), size).readNext();
      for (let pages = 0; page.statusCode !== StatusCodes.NotModified; pages++) {
        assert.ok(pages < 1000, "no end");
        for (const item of page.result) {
          assert.ok(!found.has(nameOf(item)), `${nameOf(item)} comes twice`);
          found.set(nameOf(item), item.n);
        }
        page = await iterator(ChangeFeedStartFrom.Continuation(page.continuationToken), size).readNext();
      }
      assert.deepEqual(sorted(found), sorted(expected(holds)));
    });
  }

  test("from now", async () => {
    assert.equal(fromNow.length, 9);
    for (const { name, size, holds, feed } of fromNow) {
      const { found } = await drain(feed, size);
      assert.deepEqual(sorted(found), sorted(expected((item) => holds(item) && item.half === 2)), `${name}, pages of ${size ?? "any size"}`);
    }
  });

  test("the ranges together are the container", async () => {
    const all = new Map();
    const listed = await container.getFeedRanges();
    const ranges = listed.resources ?? listed;
    assert.equal(ranges.length, 4);
    for (const range of ranges) {
      const { found } = await drain(iterator(ChangeFeedStartFrom.Beginning(range), 7), 7);
      for (const [name, n] of found) {
        assert.ok(!all.has(name), `${name} is in two ranges`);
        all.set(name, n);
      }
    }
    assert.deepEqual(sorted(all), sorted(expected(() => true)));
  });

  test("the old iterator, by key", async () => {
    const feed = container.items.changeFeed(["t1", "u2"], { startFromBeginning: true, maxItemCount: 2 });
    const found = new Map();
    while (feed.hasMoreResults) for (const item of (await feed.fetchNext()).result ?? []) found.set(nameOf(item), item.n);
    assert.deepEqual(sorted(found), sorted(expected(scopes["whole key"].holds)));
  });

  test("the old iterator, from a position, a time, the beginning and now", async () => {
    const { container: starts } = await database.containers.create({ id: "starts", partitionKey: { paths: ["/pk"] } });
    const add = (id) => starts.items.create({ id, pk: "0" });
    const { resource: first } = await add("1");
    const startTime = new Date(first._ts * 1000); // counts in whole seconds, and is exclusive
    while (Date.now() < startTime.getTime() + 1000) await new Promise((resolve) => setTimeout(resolve, 20));
    const { lsn } = (await add("2")).headers;
    await add("3");
    const news = async (feed) => {
      const found = [];
      do found.push(...((await feed.fetchNext()).result ?? []).map(({ id }) => id)); while (feed.hasMoreResults);
      return found;
    };
    const feeds = [{ continuation: `${lsn}` }, { startTime }, { startFromBeginning: true }, {}].map((options) => starts.items.changeFeed("0", options));
    const read = async () => {
      const found = [];
      for (const feed of feeds) found.push(await news(feed));
      return found;
    };
    assert.deepEqual(await read(), [["3"], ["2", "3"], ["1", "2", "3"], []]);
    await add("4");
    assert.deepEqual(await read(), [["4"], ["4"], ["4"], ["4"]]);
  });

  // The key has a version 1 hash, and the container two partitions.
  test("pages without an end", async () => {
    const { container: named } = await database.containers.create({ id: "named", partitionKey: { paths: ["/name"], version: 1 }, throughput: 11000 });
    const listed = await named.getFeedRanges();
    const ranges = listed.resources ?? listed;
    assert.equal(ranges.length, 2);
    const open = (start) => named.items.getChangeFeedIterator({ maxItemCount: 1, changeFeedStartFrom: start });
    const names = ({ items }) => items.map(({ name }) => name).sort();
    const now = ranges.map((range) => open(ChangeFeedStartFrom.Now(range)));
    for (const feed of now) assert.deepEqual((await catchUp(feed)).items, []);
    const all = ["n0", "n1", "n2", "n3"];
    for (const name of all) await named.items.create({ name });
    const found = [];
    for await (const page of open(ChangeFeedStartFrom.Beginning()).getAsyncIterator()) {
      if (page.statusCode === StatusCodes.NotModified) break;
      found.push(...page.result);
    }
    assert.deepEqual(names({ items: found }), all.toSorted());
    const one = await catchUp(open(ChangeFeedStartFrom.Beginning("n3")));
    assert.deepEqual(names(one), ["n3"]);
    for (const name of all) await named.items.create({ name, again: true });
    const next = await catchUp(open(ChangeFeedStartFrom.Continuation(one.continuationToken)));
    assert.deepEqual(next.items.map(({ name, again }) => [name, again]), [["n3", true]]);
    const parts = [];
    for (const feed of now) parts.push(names(await catchUp(feed)));
    assert.deepEqual(parts.flat().sort(), [...all, ...all].sort());
    assert.ok(parts.every((part) => part.length > 0), "each range has a part");
  });

  test("a hierarchical key with a number", async () => {
    const { container: numbered } = await database.containers.create({ id: "numbered", partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 }, throughput: 11000 });
    for (const a of [0, 1]) for (const b of ["0", "1"]) await numbered.items.create({ id: `${a}${b}`, a, b });
    const feed = numbered.items.getChangeFeedIterator({ maxItemCount: 1, changeFeedStartFrom: ChangeFeedStartFrom.Beginning([0, "0"]) });
    const { items, continuationToken } = await catchUp(feed);
    assert.deepEqual(items.map(({ id }) => id), ["00"]);
    for (const b of ["0", "1"]) await numbered.items.upsert({ id: "new", a: 0, b });
    const rest = numbered.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Continuation(continuationToken) });
    assert.deepEqual((await catchUp(rest)).items.map(({ id, b }) => [id, b]), [["new", "0"]]);
  });

  // The oldest SDK has no modes.
  const newOnly = { skip: ChangeFeedMode === undefined };
  const allVersions = (resource, maxItemCount) => ({
    changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes, changeFeedStartFrom: ChangeFeedStartFrom.Now(resource), maxItemCount,
  });

  test("all versions and deletes are refused where they are not kept", newOnly, async () => {
    const feed = container.items.getChangeFeedIterator(allVersions(["t1", "u2"]));
    await assert.rejects(feed.readNext(), { code: 400, message: /does not keep all versions/ });
  });

  test("latest versions from now, and all versions from a position", newOnly, async () => {
    const { container: kept } = await database.containers.create({ id: "kept", partitionKey: { paths: ["/pk"] }, changeFeedPolicy: { retentionDuration: 10 } });
    const open = (changeFeedMode, changeFeedStartFrom) => kept.items.getChangeFeedIterator({ changeFeedMode, changeFeedStartFrom });
    const latest = open(ChangeFeedMode.LatestVersion, ChangeFeedStartFrom.Now((await kept.getFeedRanges())[0]));
    assert.deepEqual((await catchUp(latest)).items, []);
    const { items, continuationToken } = await catchUp(open(ChangeFeedMode.AllVersionsAndDeletes, ChangeFeedStartFrom.Now("a")));
    assert.deepEqual(items, []);
    for (const pk of ["a", "b"]) {
      await kept.items.create({ id: "stays", pk });
      await kept.items.create({ id: "goes", pk });
      await kept.item("goes", pk).delete();
    }
    const ids = (await catchUp(latest)).items.map(({ id, pk }) => [pk, id]);
    assert.deepEqual(ids, [["a", "stays"], ["b", "stays"]]);
    const events = (await catchUp(open(ChangeFeedMode.AllVersionsAndDeletes, ChangeFeedStartFrom.Continuation(continuationToken)))).items;
    assert.deepEqual(events.map(({ metadata, current }) => [metadata.operationType, current.id ?? metadata.id, current.pk ?? metadata.partitionKey.pk]),
      [["create", "stays", "a"], ["create", "goes", "a"], ["delete", "goes", "a"]]);
  });

  test("all versions and deletes", newOnly, async () => {
    const { container: all } = await database.containers.createIfNotExists({
      id: "all",
      partitionKey: { paths: ["/TenantId", "/UserId"], kind: "MultiHash", version: 2 },
      changeFeedPolicy: { retentionDuration: 10 },
      throughput: 24000,
    });
    // Readers of the container, of each of its ranges and of a key, in pages of
    // several sizes, from now on.
    const listed = await all.getFeedRanges();
    const readers = [
      { name: "container", resource: undefined, size: 7 },
      { name: "key", resource: ["t1", "u1"], size: 1 },
      ...(listed.resources ?? listed).map((resource) => ({ name: "range", resource, size: undefined })),
    ].map((r) => ({ ...r, feed: all.items.getChangeFeedIterator(allVersions(r.resource, r.size)), events: [] }));
    const place = ({ id, TenantId, UserId }) => ({ id, tenant: TenantId, user: UserId });
    const advance = async (r) => {
      for (let ended = 0, pages = 0; ended < 5; pages++) {
        assert.ok(pages < 1000, "no end");
        const page = await r.feed.readNext();
        ended = page.statusCode === StatusCodes.NotModified ? ended + 1 : 0;
        r.events.push(...(page.result ?? []).map(({ current, previous, metadata }) => ({
          kind: metadata.operationType, ...place(metadata.operationType === "delete" ? { id: metadata.id, ...metadata.partitionKey } : current), n: current.n, before: previous?.n,
        })));
      }
    };
    for (const r of readers) await advance(r);
    const happened = [];
    const live = new Map();
    for (let n = 0; n < 60; n++) {
      const item = { id: `id${(n * 7) % 3}`, TenantId: `t${n % 4}`, UserId: `u${n % 2}`, n };
      const name = nameOf(item);
      const event = { id: item.id, tenant: item.TenantId, user: item.UserId, before: live.get(name) };
      if (n % 5 === 4 && live.has(name)) {
        await all.item(item.id, [item.TenantId, item.UserId]).delete();
        live.delete(name);
        happened.push({ ...event, kind: "delete", n: undefined });
      } else {
        await all.items.upsert(item);
        happened.push({ ...event, kind: live.has(name) ? "replace" : "create", n, before: undefined }); // F8: a replace has no previous image
        live.set(name, n);
      }
      if (n % 20 === 7) for (const r of readers) await advance(r);
    }
    for (const r of readers) await advance(r);
    // The changes of each key, in order; keys of several ranges have no common
    // order.
    const byKey = (events) => {
      const all = {};
      for (const e of events) (all[`${e.tenant} ${e.user}`] ??= []).push([e.kind, e.id, e.n, e.before]);
      return all;
    };
    assert.ok(happened.some((e) => e.kind === "delete") && happened.some((e) => e.kind === "replace"));
    assert.equal(readers.length, 6);
    assert.deepEqual(byKey(readers[0].events), byKey(happened));
    assert.deepEqual(byKey(readers[1].events), byKey(happened.filter((e) => e.tenant === "t1" && e.user === "u1")));
    assert.deepEqual(byKey(readers.slice(2).flatMap((r) => r.events)), byKey(happened));
  });
});
