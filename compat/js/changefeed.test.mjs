// The change feed with the JavaScript SDK: readers from the
// beginning, a time and now, of the container, its ranges, a whole key and a
// prefix, with pages of one, seven and as many as fit, compared with what the
// program wrote (S111). Run by ../run.sh against a server over http and https.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { client, databaseOf, endpoint, sdk } from "./server.mjs";

const { ChangeFeedMode, ChangeFeedStartFrom, StatusCodes } = sdk;
const database = databaseOf("feed");
let container;

// What is there: items by key and id, and whether the second half changed them.
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
const sizes = [1, 7, undefined]; // undefined: as the server likes

const iterator = (start, maxItemCount) => container.items.getChangeFeedIterator({ changeFeedStartFrom: start, maxItemCount });

// drain reads until the end and returns the items, each of which comes once.
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
  // A time counts in whole seconds and is included, and the oldest SDK sends the time of day for now.
  second = lastTime + 1;
  while (Date.now() < second * 1000) await new Promise((resolve) => setTimeout(resolve, 50));
  for (const [name, { resource, holds }] of Object.entries(scopes)) for (const size of sizes) {
    const feed = iterator(ChangeFeedStartFrom.Now(resource), size);
    const { found } = await drain(feed, size);
    assert.equal(found.size, 0, "now is behind everything");
    fromNow.push({ name, size, holds, feed });
  }
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

  test("the iterator of old, by key", async () => {
    const feed = container.items.changeFeed(["t1", "u2"], { startFromBeginning: true, maxItemCount: 2 });
    const found = new Map();
    while (feed.hasMoreResults) for (const item of (await feed.fetchNext()).result ?? []) found.set(nameOf(item), item.n);
    assert.deepEqual(sorted(found), sorted(expected(scopes["whole key"].holds)));
  });

  // The oldest SDK knows no modes.
  const newOnly = { skip: ChangeFeedMode === undefined };
  const allVersions = (resource, maxItemCount) => ({
    changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes, changeFeedStartFrom: ChangeFeedStartFrom.Now(resource), maxItemCount,
  });

  test("all versions and deletes are refused where they are not kept", newOnly, async () => {
    const feed = container.items.getChangeFeedIterator(allVersions(["t1", "u2"]));
    await assert.rejects(feed.readNext(), { code: 400, message: /does not keep all versions/ });
  });

  test("all versions and deletes", newOnly, async () => {
    const { container: all } = await database.containers.createIfNotExists({
      id: "all",
      partitionKey: { paths: ["/TenantId", "/UserId"], kind: "MultiHash", version: 2 },
      changeFeedPolicy: { retentionDuration: 10 },
      throughput: 24000,
    });
    // A reader of the container, of each of its ranges and of a key, in pages of
    // several sizes, from now on.
    const listed = await all.getFeedRanges();
    const readers = [
      { name: "container", resource: undefined, size: 7 },
      { name: "key", resource: ["t1", "u1"], size: 1 },
      ...(listed.resources ?? listed).map((resource) => ({ name: "range", resource, size: undefined })),
    ].map((r) => ({ ...r, feed: all.items.getChangeFeedIterator(allVersions(r.resource, r.size)), events: [] }));
    const advance = async (r) => {
      for (let ended = 0, pages = 0; ended < 5; pages++) {
        assert.ok(pages < 1000, "no end");
        const page = await r.feed.readNext();
        ended = page.statusCode === StatusCodes.NotModified ? ended + 1 : 0;
        r.events.push(...(page.result ?? []).map(({ current, previous, metadata }) => ({
          kind: metadata.operationType, id: current?.id ?? metadata.id, tenant: (current ?? metadata.partitionKey).TenantId, user: (current ?? metadata.partitionKey).UserId, n: current?.n, before: previous?.n,
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
        happened.push({ ...event, kind: live.has(name) ? "replace" : "create", n });
        live.set(name, n);
      }
      if (n % 20 === 7) for (const r of readers) await advance(r);
    }
    for (const r of readers) await advance(r);
    // What happened to each key, in its order; keys of several ranges have none among them.
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
