// Splits physical partitions repeatedly while the JavaScript SDK writes, queries
// and follows the change feed (S5, S8, S12, S37): no call fails, and nothing is
// lost or returned twice. Run by ../run.sh against a server with partitions of
// 256 KB.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { client, connect, databaseOf, endpoint, key, sdk } from "./server.mjs";

const { ChangeFeedStartFrom, StatusCodes } = sdk;
const admin = process.env.DECAN_ADMIN;
assert.ok(admin, "DECAN_ADMIN is not set: run compat/run.sh");

const database = databaseOf("splits");
const writers = 6;
const each = 200;
const total = writers * each;
const timeout = 600_000; // only an endless loop takes that long

before(() => client.databases.create({ id: database.id }));
after(() => database.delete());

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const create = async (id) => (await database.containers.create({ id, partitionKey: { paths: ["/tenant", "/user"], kind: "MultiHash", version: 2 } })).container;

// With another client, because this one may have an old list.
const boundsOf = async (container) => {
  const { resources } = await connect().database(database.id).container(container.id).readPartitionKeyRanges().fetchAll();
  return resources.map((range) => ({ id: range.id, from: range.minInclusive })).sort((a, b) => (a.from < b.from ? -1 : 1));
};

async function split(container, partition, at) {
  const answer = await fetch(`${admin}partitions/split?database=${database.id}&container=${container}&partition=${partition}&at=${at}`,
    { method: "POST", headers: { "x-decan-key": key } });
  assert.equal(answer.status, 200, await answer.text());
}

async function rows(container, query, options) {
  const found = [];
  const iterator = container.items.query(query, options);
  for (let pages = 0; iterator.hasMoreResults(); pages++) {
    assert.ok(pages < 20 * total, "the query has no end");
    found.push(...((await iterator.fetchNext()).resources ?? []));
  }
  return found;
}

// distinct fails if an item is returned twice.
function distinct(found, what) {
  const set = new Set(found);
  assert.equal(set.size, found.length, `${what}: an item is returned twice`);
  return set;
}

const fromBeginning = (container) => container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 50 });
const goingOn = (container, token) => container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Continuation(token), maxItemCount: 50 });

// follow reads a feed to its end for now, and returns the iterator that
// continues: the same one, or a new one for each page.
async function follow(container, feed, seen, anew) {
  for (let pages = 0; pages < 20 * total; pages++) {
    const page = await feed.readNext();
    for (const { id } of page.result ?? []) seen.push(id);
    if (anew) feed = goingOn(container, page.continuationToken);
    if (page.statusCode === StatusCodes.NotModified) return feed;
  }
  assert.fail("the feed has no end");
}

describe(`splits over ${new URL(endpoint).protocol}`, () => {
  test("one tenant grows through splits", { timeout }, async () => {
    const container = await create("grows");
    const written = []; // what was acknowledged, in that order
    let done = false;
    const rounds = {};
    const forever = async (name, round) => {
      for (rounds[name] = 0; !done; rounds[name]++) {
        await round();
        await pause(250); // leaves processor time to the writers
      }
    };
    // Items are returned at most once, and those that existed before the query
    // began are returned.
    const complete = async (what, query, options, reader = container) => {
      const known = written.slice();
      const found = await rows(reader, query, options);
      const set = distinct(found.map((row) => row.id), what);
      for (const { id } of known) assert.ok(set.has(id), `${what}: ${id} is missing`);
      return found;
    };
    const feeds = [false, true].map((anew) => ({ anew, seen: [], iterator: fromBeginning(container) }));
    const on = async (feed) => {
      feed.iterator = await follow(container, feed.iterator, feed.seen, feed.anew);
    };
    const readers = [
      forever("query", () => complete("query", "SELECT c.id FROM c", { maxItemCount: 7 })),
      forever("prefix", () => complete("prefix", "SELECT c.id FROM c", { maxItemCount: 7, partitionKey: ["acme"] })),
      forever("filter", () => complete("filter", "SELECT c.id FROM c WHERE c.tenant = 'acme'", { maxItemCount: 50 })),
      forever("order", async () => {
        const found = await complete("order", "SELECT c.id, c.n FROM c ORDER BY c.n", { maxItemCount: 50 });
        for (let i = 1; i < found.length; i++) assert.ok(found[i - 1].n < found[i].n, "rows are out of order");
      }),
      forever("read", async () => {
        const item = written[Math.floor(Math.random() * written.length)];
        if (!item) return;
        const { resource } = await container.item(item.id, [item.tenant, item.user]).read();
        assert.equal(resource?.n, item.n);
      }),
      ...feeds.map((feed) => forever(feed.anew ? "pages of a feed" : "feed", () => on(feed))),
    ];
    const work = async (w) => {
      for (let i = 0; i < each && !done; i++) {
        const n = w * each + i;
        const item = { id: `item ${n}`, tenant: "acme", user: `user ${n % 100}`, n };
        await container.items.create({ ...item, text: "x".repeat(1000) });
        written.push(item);
      }
    };
    const load = (async () => {
      await Promise.all(Array.from({ length: writers }, (_, w) => work(w)));
      while (!done && (await boundsOf(container)).length < 6) await pause(50);
      const before = { ...rounds };
      while (!done && Object.keys(rounds).some((name) => rounds[name] < before[name] + 1)) await pause(20);
    })();
    try {
      await Promise.race([load, Promise.all(readers)]);
    } finally {
      done = true;
    }
    await Promise.all([load, ...readers]);

    for (const feed of feeds) await on(feed);
    const whole = [];
    await follow(container, fromBeginning(container), whole, false);
    const ids = async (options) => (await rows(container, "SELECT c.id FROM c", options)).map((row) => row.id);
    for (const [what, found] of Object.entries({
      "a query": await ids({ maxItemCount: 100 }),
      "a query of the prefix": await ids({ maxItemCount: 7, partitionKey: ["acme"] }),
      "the feed while partitions split": feeds[0].seen,
      "its pages one by one": feeds[1].seen,
      "the feed from the beginning": whole,
    })) assert.equal(distinct(found, what).size, total, what);
  });

  test("cuts whose hexadecimal form ends in zeros", { timeout }, async () => {
    const container = await create("zeros");
    const want = [];
    for (let n = 0; n < 60; n++) {
      await container.items.create({ id: `item ${n}`, tenant: `tenant ${n % 4}`, user: `user ${n}`, n });
      want.push(n);
    }
    const check = async (container) => {
      const ordered = async (options, query = "SELECT VALUE c.n FROM c") => (await rows(container, query, { maxItemCount: 7, ...options })).sort((a, b) => a - b);
      assert.deepEqual(await ordered({}), want);
      assert.deepEqual(await rows(container, "SELECT VALUE c.n FROM c ORDER BY c.n", { maxItemCount: 7 }), want);
      for (let t = 0; t < 4; t++) {
        const mine = want.filter((n) => n % 4 === t);
        assert.deepEqual(await ordered({ partitionKey: [`tenant ${t}`] }), mine);
        assert.deepEqual(await ordered({}, `SELECT VALUE c.n FROM c WHERE c.tenant = 'tenant ${t}'`), mine);
      }
      const seen = [];
      await follow(container, fromBeginning(container), seen, false);
      assert.equal(distinct(seen, "the feed").size, want.length);
    };
    await check(container); // has the list of ranges before the cuts
    const feed = fromBeginning(container); // is in the partition that will be cut
    const seen = (await feed.readNext()).result.map((item) => item.id);
    for (const at of ["20", "1000", "30000000", `2800${"00".repeat(14)}`, `0800${"00".repeat(30)}`]) {
      const bounds = await boundsOf(container);
      const { id } = bounds.findLast((range) => range.from < at);
      await split("zeros", id, at);
      await check(container);
    }
    const late = connect().database(database.id).container("zeros");
    await check(late);
    assert.equal((await boundsOf(container)).length, 6);
    await follow(container, feed, seen, false);
    assert.equal(distinct(seen, "the feed that began before").size, want.length);
  });

  // The SDK does not continue a query after 410/1002: the newest version requests the
  // same partition forever, the oldest fails with 503. So the partitions that replaced
  // the one that it names answer.
  test("queries whose partitions split and merge between two pages", { timeout }, async () => {
    const container = await create("between");
    const want = Array.from({ length: 60 }, (_, n) => n);
    for (const n of want) await container.items.create({ id: `item ${n}`, tenant: `tenant ${n % 3}`, user: `user ${n}`, n });
    await split("between", 0, "");
    const order = (a, b) => a - b;
    const queries = [
      ["SELECT VALUE c.n FROM c", {}, want],
      ["SELECT VALUE c.n FROM c ORDER BY c.n", {}, want],
      ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", {}, want.toReversed()],
      ["SELECT VALUE c.n FROM c", { partitionKey: ["tenant 1"] }, want.filter((n) => n % 3 === 1)],
      ["SELECT DISTINCT VALUE c.tenant FROM c ORDER BY c.tenant", {}, [0, 1, 2].map((t) => `tenant ${t}`)],
      ["SELECT VALUE COUNT(1) FROM c", {}, [60]],
    ];
    const begun = [];
    for (const [query, options, all] of queries) {
      const iterator = container.items.query(query, { maxItemCount: 2, ...options });
      begun.push({ query, options, all, iterator, found: [...((await iterator.fetchNext()).resources ?? [])] });
    }
    const check = (query, found, all) => {
      if (!query.includes("ORDER BY") && found.length > 1) found.sort(order);
      assert.deepEqual(found, all, query);
    };
    const next = async () => {
      for (const one of begun) one.found.push(...(one.iterator.hasMoreResults() ? (await one.iterator.fetchNext()).resources ?? [] : []));
    };
    for (const { id } of await boundsOf(container)) await split("between", id, "");
    await next();
    const merge = await fetch(`${admin}sqlDatabases/${database.id}/containers/between/partitionMerge`,
      { method: "POST", body: "{}", headers: { "x-decan-key": key } });
    assert.equal(merge.status, 200, await merge.text());
    assert.equal((await boundsOf(container)).length, 1);
    await next();
    for (const { id } of await boundsOf(container)) await split("between", id, "");
    for (const { query, found, iterator, all } of begun) {
      for (let pages = 0; iterator.hasMoreResults(); pages++) {
        assert.ok(pages < 200, `${query}: no end`);
        found.push(...((await iterator.fetchNext()).resources ?? []));
      }
      check(query, found, all);
    }
    // From the beginning, with the list of partitions from before.
    for (const [query, options, all] of queries) check(query, await rows(container, query, { maxItemCount: 7, ...options }), all);
  });
});
