// Pages through ORDER BY over 1, 8 and 64 partitions with continuation tokens that are
// given to a new client after every page: every row once and in order. With unique keys,
// partitions also split between the pages. Run by ../run.sh against a server.
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
const itemOf = (n) => {
  const item = { id: `${n}`, pk: `p${n}`, m: n % 4, u: (n * 37) % total };
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

// split splits the oldest partition.
async function split(container) {
  const [{ id }] = (await ranges(container)).sort((a, b) => a.id - b.id);
  await call(`partitions/split?database=${database.id}&container=${container.id}&partition=${id}`);
}

// paged reads a query with a new client for every page. After the first
// pages, as many as splits, it splits a partition.
async function paged(container, query, size, splits = 0) {
  const rows = [];
  let continuationToken;
  for (let page = 0; page < 500; page++) {
    const fresh = connect().database(database.id).container(container.id);
    const iterator = fresh.items.query(query, { maxItemCount: size, enableQueryControl: true, continuationToken });
    const answer = await iterator.fetchNext();
    rows.push(...(answer.resources ?? []));
    continuationToken = answer.continuationToken;
    if (!continuationToken) return rows;
    if (page < splits) await split(container);
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
  for (const partitions of [1, 8, 64]) {
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
      if (partitions === 64) return;
      for (const [query, want] of [
        ["SELECT c.id, c.u FROM c ORDER BY c.u", all],
        ["SELECT c.id, c.u FROM c ORDER BY c.u DESC", all],
        ["SELECT c.id, c.u FROM c WHERE c.m > 0 ORDER BY c.u", all.filter(({ m }) => m > 0)],
      ]) {
        const sign = query.includes("DESC") ? -1 : 1;
        check(await paged(container, query, 7, 3), want, `${query} while partitions split`, (a, b) => sign * (a.u - b.u));
      }
    });
  }

  // After a split between two pages, the SDK continues the left child of the partition
  // of the last row after the key of that row, and so loses the rows of the same key.
  // After a merge it reads only the part of the merged partition that had the last row.
  // This fails when the first is fixed.
  test("known limit: equal keys after a split", async () => {
    const container = await create(database, "ties", ["/pk"]);
    for (let n = 0; n < 30; n++) await container.items.create({ id: `${n}`, pk: `p${n}`, n: 1 });
    const rows = await paged(container, "SELECT c.id FROM c ORDER BY c.n", 3, 1);
    assert.ok(rows.length < 30, `${rows.length} rows`);
  });
});
