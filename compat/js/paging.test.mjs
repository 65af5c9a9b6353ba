// Pages through ORDER BY over 1, 8 and 64 partitions with continuation tokens that are
// given to a new client after every page: every row once and in order. With unique keys,
// all partitions also split between the pages; where the server merges
// (x-decan-cross-partition: full), keys of all types, splits and merges. Run by ../run.sh
// against a server.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { connect, create, databaseOf, endpoint, key } from "./server.mjs";

const admin = process.env.DECAN_ADMIN;
assert.ok(admin, "DECAN_ADMIN is not set: run compat/run.sh");

const database = databaseOf("paging");
const total = 96;

// The values of a key of ORDER BY by kind, in order. This SDK continues an ORDER BY of one
// key whose values are of one of these kinds. It refuses null, arrays, objects and values
// of several kinds, finds no end if the last key of a page is undefined, continues two
// keys by a filter that leaves out rows, and puts its token into a header, which takes no
// characters beyond Latin-1.
const kinds = {
  numbers: [-1e300, -1, 0, 1, 2.5, 9007199254740991, 1e300],
  strings: ["", "B", "a", "a \"quoted\" 'text'", "aa", "b\\", "é"],
  booleans: [false, true],
};
const names = Object.keys(kinds);

// Values of all types, in order; undefined leaves the property out.
const any = [undefined, null, false, true, -1e300, -1, 0, 1, 2.5, 1e300, "", "B", "a", "aa", "é", "😀", "\uE000", "\uFFFF", [1, [null]], { a: { b: true } }];
const itemOf = (n) => {
  const item = { id: `${n}`, pk: `p${n}`, m: n % 4, u: (n * 37) % total, any: any[n % any.length], rank: n % any.length };
  for (const name of names) item[name] = kinds[name][n % kinds[name].length];
  return item;
};

before(() => connect().databases.create({ id: database.id }));
after(() => database.delete());

async function fill(partitions) {
  const container = await create(database, `c${partitions}`, ["/pk"], partitions);
  for (let n = 0; n < total; n++) await container.items.create(itemOf(n));
  return container;
}

const call = async (path, body) => {
  const answer = await fetch(`${admin}${path}`, { method: "POST", body, headers: { "x-decan-key": key } });
  assert.equal(answer.status, 200, await answer.text());
};
const ranges = async (container) => (await connect().database(database.id).container(container.id).readPartitionKeyRanges().fetchAll()).resources;

// middle returns the hashed key between two bounds of a range.
const hash = (bound) => BigInt(`0x${(bound === "FF" ? "40" : bound).padEnd(16, "0").slice(0, 16)}`);
const middle = (from, to) => ((hash(from) + hash(to)) / 2n).toString(16).padStart(16, "0").toUpperCase().replace(/(00)+$/, "");

// halve splits all partitions in the middle of their ranges.
async function halve(container) {
  for (const { id, minInclusive, maxExclusive } of await ranges(container))
    await call(`partitions/split?database=${database.id}&container=${container.id}&partition=${id}&at=${middle(minInclusive, maxExclusive)}`);
}

// merge merges the partitions in pairs of neighbours.
async function merge(container) {
  const list = (await ranges(container)).sort((a, b) => (a.minInclusive < b.minInclusive ? -1 : 1));
  for (let i = 0; i + 1 < list.length; i += 2)
    await call(`partitions/merge?database=${database.id}&container=${container.id}&partition=${list[i].id}&with=${list[i + 1].id}`);
}

// The SDK merges the rows of partitions, and makes a token, if enableQueryControl is set.
// Without it, a client that sends this header gets rows and a token of the server.
const clientMerges = { options: {}, control: true };
const serverMerges = { options: { defaultHeaders: { "x-decan-cross-partition": "full" } }, control: false };

// paged reads a query with a new client for every page. After each page it makes the next
// one of the changes to the partitions.
async function paged(container, query, size, changes = [], merges = clientMerges) {
  const rows = [];
  let continuationToken;
  for (let page = 0; page < 500; page++) {
    const fresh = connect(merges.options).database(database.id).container(container.id);
    const iterator = fresh.items.query(query, { maxItemCount: size, enableQueryControl: merges.control, continuationToken });
    const answer = await iterator.fetchNext();
    rows.push(...(answer.resources ?? []));
    continuationToken = answer.continuationToken;
    if (!continuationToken) {
      assert.ok(page >= changes.length, `${query}: ${page + 1} pages`);
      return rows;
    }
    if (page < changes.length) await changes[page](container);
  }
  assert.fail(`${query}: no end`);
}

const all = Array.from({ length: total }, (_, n) => itemOf(n));
const order = (list, a, b) => list.findIndex((v) => Object.is(v, a)) - list.findIndex((v) => Object.is(v, b));

function check(rows, want, query, compare) {
  assert.deepEqual(rows.map((row) => row.id).sort(), want.map((item) => item.id).sort(), `${query}: every row once`);
  for (let i = 1; i < rows.length; i++) assert.ok(compare(rows[i - 1], rows[i]) <= 0, `${query}: ${JSON.stringify(rows.slice(i - 1, i + 1))}`);
}

describe(`paging over ${new URL(endpoint).protocol}`, () => {
  for (const partitions of process.env.COMPAT_ALL ? [1, 8, 64] : [1, 8]) {
    test(`${partitions} partitions`, async () => {
      const container = await fill(partitions);
      for (const name of names) {
        const query = `SELECT c.id, c.${name} FROM c ORDER BY c.${name}`;
        const compare = (a, b) => order(kinds[name], a[name], b[name]);
        check(await paged(container, query, 19), all, query, compare);
        if (partitions < 64) check(await paged(container, `${query} DESC`, 17), all, `${query} DESC`, (a, b) => -compare(a, b));
      }
      const filtered = "SELECT c.id, c.numbers FROM c WHERE c.m > 0 ORDER BY c.numbers";
      check(await paged(container, filtered, 13), all.filter(({ m }) => m > 0), filtered, (a, b) => a.numbers - b.numbers);
      const many = partitions === 64; // where each change takes a second or two
      const splits = partitions === 1 ? [halve, halve] : [halve];
      for (const [query, want] of [
        ["SELECT c.id, c.u FROM c ORDER BY c.u", all],
        ["SELECT c.id, c.u FROM c ORDER BY c.u DESC", all],
        ["SELECT c.id, c.u FROM c WHERE c.m > 0 ORDER BY c.u", all.filter(({ m }) => m > 0)],
      ].slice(many ? 1 : 0)) {
        const sign = query.includes("DESC") ? -1 : 1;
        check(await paged(container, query, 19, splits), want, `${query} while all partitions split`, (a, b) => sign * (a.u - b.u));
        assert.equal((await ranges(container)).length, partitions << splits.length);
        for (const _ of splits) await merge(container);
      }
      for (const query of ["SELECT c.id, c.rank FROM c ORDER BY c.any", "SELECT c.id, c.rank FROM c ORDER BY c.any DESC"].slice(many ? 1 : 0)) {
        const sign = query.endsWith("DESC") ? -1 : 1;
        check(await paged(container, query, 19, many ? [halve, merge] : [halve, merge, halve, merge], serverMerges), all, `${query} while all partitions split and merge, merged by the server`,
          (a, b) => sign * (a.rank - b.rank));
      }
    });
  }

  // After a split between two pages, the SDK continues the left child of the partition
  // of the last row after the key of that row (leftFilter of OrderByQueryRangeStrategy),
  // and so loses the rows of the same key. After a merge it reads only the part of the
  // merged partition that had the last row: filterPartitionRanges leaves out the other
  // part, and the request for the first has its bounds. These fail when they are fixed.
  test("known limit: equal keys after a split", async () => {
    const container = await create(database, "ties", ["/pk"]);
    for (let n = 0; n < 30; n++) await container.items.create({ id: `${n}`, pk: `p${n}`, n: 1 });
    const rows = await paged(container, "SELECT c.id FROM c ORDER BY c.n", 3, [halve]);
    assert.ok(rows.length < 30, `${rows.length} rows`);
  });

  test("known limit: a merge", async () => {
    const container = await create(database, "merged", ["/pk"]);
    await halve(container);
    for (let n = 0; n < 30; n++) await container.items.create({ id: `${n}`, pk: `p${n}`, n });
    const counts = [];
    for (let size = 3; size < 9; size++) { // it loses rows if the last one of the first page was not in the first partition
      const rows = await paged(container, "SELECT c.id FROM c ORDER BY c.n", size, [merge]);
      assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length, "a row is returned twice");
      counts.push(rows.length);
      await halve(container);
    }
    assert.ok(Math.min(...counts) < 30, `${counts} rows`);
  });
});
