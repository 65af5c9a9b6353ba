// Runs every query of ../queries.json with the JavaScript SDK, in pages of three
// sizes, and compares the rows with those that the server returns when it
// merges. The list of exclusions names what this SDK cannot do, with the reason;
// an excluded query that works fails here, unless the exclusion says "sometimes":
// then the order in which the partitions answer decides, and the query is not run.
// Run by ../run.sh, after ../go/answers has filled the containers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, test } from "node:test";
import { client, endpoint, packageName } from "./server.mjs";

const { version } = createRequire(import.meta.url)(`./node_modules/${packageName}/package.json`);
const file = process.env.DECAN_ANSWERS;
assert.ok(file, "DECAN_ANSWERS is not set: run compat/run.sh");
const database = client.database("answers");

const { queries, exclusions } = JSON.parse(readFileSync(file, "utf8"));
const rowsOf = Object.fromEntries(queries.map((query) => [query.name, query.rows]));
const excluded = new Map(exclusions
  .filter((e) => e.sdk === "js" && e.versions.includes(version))
  .flatMap((e) => e.queries.map((name) => [name, e])));
const sizes = [-1, 1, 7]; // rows of a page; -1 leaves it to the SDK

async function rows({ query, parameters, partitionKey, container }, size) {
  const found = [];
  const iterator = database.container(container).items.query({ query, parameters: parameters ?? [] }, { partitionKey, maxItemCount: size < 0 ? undefined : size });
  while (iterator.hasMoreResults()) found.push(...((await iterator.fetchNext()).resources ?? []));
  return found;
}

// text returns a value as JSON with the members of objects in order.
const text = (value) => JSON.stringify(value, (_, member) =>
  member !== null && typeof member === "object" && !Array.isArray(member)
    ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1))) : member);

function compare({ compare, of, rows: want }, got) {
  if (compare === "some") {
    assert.equal(got.length, want.length);
    const left = rowsOf[of].map(text);
    for (const row of got.map(text)) {
      assert.ok(left.includes(row), `${row} is no row of ${of}, or is returned too often`);
      left.splice(left.indexOf(row), 1);
    }
    return;
  }
  const [a, b] = [got.map(text), want.map(text)];
  assert.deepEqual(compare === "rows" ? a.sort() : a, compare === "rows" ? b.sort() : b);
}

async function run(query, sizes) {
  assert.ok(!query.refusal, `the server has no answer: ${query.refusal}`);
  for (const size of sizes) {
    let got;
    try {
      got = await rows(query, size);
    } catch (error) {
      throw new Error(`pages of ${size}: ${error.body?.message ?? error.message}`, { cause: error });
    }
    compare(query, got);
  }
}

describe(`answers to @azure/cosmos ${version} over ${new URL(endpoint).protocol}`, () => {
  for (const query of queries) {
    const exclusion = excluded.get(query.name);
    if (!exclusion) {
      test(query.name, () => run(query, sizes));
      continue;
    }
    test(`${query.name} (excluded: ${exclusion.reason})`, { skip: exclusion.sometimes }, async () => {
      const pages = exclusion.pages ?? sizes;
      await run(query, sizes.filter((size) => !pages.includes(size)));
      await assert.rejects(run(query, pages), undefined, "it works now: remove it from the exclusions of queries.json");
    });
  }
  test("exclusions name queries", () => {
    for (const name of excluded.keys()) assert.ok(name in rowsOf, name);
  });
});
