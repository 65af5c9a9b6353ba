// Queries of the JavaScript SDK over eight partitions: orders of every type and
// with ties, pages of every size, tokens that another client continues, rows so
// large that a page ends at its byte limit, and texts at their limits. Run by
// ../run.sh against a server over http and over https.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { client, connect, databaseOf, endpoint, oldest } from "./server.mjs";

const database = databaseOf("queries");
const partitions = { offerThroughput: 48000 }; // eight
let container;

// items have properties to order by: with many ties (n), with few values (s, b), and
// with every type (mixed).
const mixed = [undefined, null, false, true, -1, 0, 2.5, 1e300, "", "a", "a'b", "é", "x".repeat(200), "x".repeat(200) + "y"];
const items = Array.from({ length: 120 }, (_, i) => {
  const item = { id: `i${String(i).padStart(3, "0")}`, t: `t${i % 5}`, u: i % 7, n: (i * 37) % 11, s: `${"long ".repeat(40)}${i % 4}`, b: i % 3 === 0 };
  const value = mixed[i % mixed.length];
  if (value !== undefined) item.mixed = value;
  return item;
});

const kinds = ["undefined", "null", "boolean", "number", "string"];
const kindOf = (v) => kinds.indexOf(v === null ? "null" : typeof v);
const compare = (a, b) => kindOf(a) - kindOf(b) || (a === b ? 0 : a < b ? -1 : 1);

async function rows(query, options, on = container) {
  const found = [];
  const iterator = on.items.query(query, options);
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    if (options?.maxItemCount > 0) assert.ok((resources ?? []).length <= options.maxItemCount);
    found.push(...(resources ?? []));
  }
  return found;
}

// resumed reads every page with a new client, which continues with the previous
// token.
async function resumed(query, options) {
  const found = [];
  let continuationToken;
  for (let pages = 0; ; pages++) {
    assert.ok(pages < 1000, "no end");
    const on = connect().database(database.id).container(container.id);
    const page = await on.items.query(query, { ...options, continuationToken }).fetchNext();
    found.push(...(page.resources ?? []));
    continuationToken = page.continuationToken;
    if (!continuationToken) return found;
  }
}

// merging is the container with a client whose queries the server merges.
const plugins = [{ on: "request", plugin: (context, _diagnostics, next) => { context.headers["x-decan-cross-partition"] = "full"; return next(context); } }];
const merging = (on) => connect({ plugins, consistencyLevel: "Session" }).database(database.id).container(on.id);

before(async () => {
  await client.databases.create({ id: database.id });
  ({ container } = await database.containers.create({ id: "c", partitionKey: { paths: ["/t", "/u"], kind: "MultiHash", version: 2 } }, partitions));
  for (const item of items) await container.items.create(item);
});
after(() => database.delete());

describe(`queries over ${new URL(endpoint).protocol}`, () => {
  for (const maxItemCount of [1, 7, 1000]) {
    test(`orders in pages of ${maxItemCount}`, async () => {
      for (const [name, filter] of [["n", "true"], ["s", "true"], ["b", "true"], ["id", "true"],
        // This SDK merges only keys of one type, and no nulls.
        ["mixed", "IS_NUMBER(c.mixed)"], ["mixed", "IS_STRING(c.mixed)"], ["mixed", "NOT IS_DEFINED(c.mixed)"]]) {
        const kept = items.filter(({ mixed }) => filter === "true" ||
          { "IS_NUMBER(c.mixed)": typeof mixed === "number", "IS_STRING(c.mixed)": typeof mixed === "string", "NOT IS_DEFINED(c.mixed)": mixed === undefined }[filter]);
        for (const sign of [1, -1]) {
          const want = kept.map((item) => item[name]).sort((a, b) => sign * compare(a, b));
          const text = `SELECT c.id, c.${name} AS v FROM c WHERE ${filter} ORDER BY c.${name} ${sign > 0 ? "ASC" : "DESC"}`;
          const got = await rows(text, { maxItemCount });
          assert.deepEqual(got.map((row) => row.v), want, text);
          assert.equal(new Set(got.map((row) => row.id)).size, kept.length, text);
        }
      }
    });

    test(`mixed types in one logical partition in pages of ${maxItemCount}`, async () => {
      for (const partitionKey of [["t1", 1], ["t2", 3]]) {
        for (const sign of [1, -1]) {
          const kept = items.filter(({ t, u }) => t === partitionKey[0] && u === partitionKey[1]);
          const want = kept.map((item) => item.mixed).sort(compare);
          if (want.includes(undefined)) want.splice(0, want.length, ...want.filter((v) => v === undefined), ...want.filter((v) => v !== undefined));
          if (sign < 0) want.reverse();
          const got = await rows(`SELECT * FROM c ORDER BY c.mixed ${sign > 0 ? "ASC" : "DESC"}`, { partitionKey, maxItemCount });
          assert.deepEqual(got.map((item) => item.mixed), want);
        }
      }
    });

    test(`TOP and OFFSET LIMIT in pages of ${maxItemCount}`, async () => {
      const want = items.map(({ id }) => id).sort();
      const ids = (tail, head = "") => rows(`SELECT ${head} VALUE c.id FROM c ORDER BY c.id ${tail}`, { maxItemCount });
      assert.deepEqual(await ids("", "TOP 13"), want.slice(0, 13));
      assert.deepEqual(await ids("", "TOP 0"), []);
      assert.deepEqual(await ids("OFFSET 3 LIMIT 20"), want.slice(3, 23));
      assert.deepEqual(await ids("OFFSET 110 LIMIT 100"), want.slice(110));
      assert.deepEqual(await ids("OFFSET 500 LIMIT 10"), []);
      assert.deepEqual(await ids("OFFSET 100 LIMIT 2147483647"), want.slice(100), "the most that LIMIT can say");
      assert.equal((await rows("SELECT TOP 17 * FROM c", { maxItemCount })).length, 17);
      assert.equal((await rows("SELECT * FROM c OFFSET 100 LIMIT 17", { maxItemCount })).length, 17);
      const parameters = [{ name: "@n", value: 9 }, { name: "@m", value: 4 }];
      assert.deepEqual(await rows({ query: "SELECT TOP @n VALUE c.id FROM c ORDER BY c.id DESC", parameters }, { maxItemCount }), want.toReversed().slice(0, 9));
      assert.deepEqual(await rows({ query: "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET @n LIMIT @m", parameters }, { maxItemCount }), want.slice(9, 13));
    });

    test(`a prefix as an option with ORDER BY in pages of ${maxItemCount}`, async () => {
      const of = (t) => items.filter((item) => item.t === t).map(({ id }) => id);
      assert.deepEqual(await rows("SELECT VALUE c.id FROM c ORDER BY c.id", { partitionKey: ["t3"], maxItemCount }), of("t3"));
      assert.deepEqual(await rows("SELECT VALUE c.id FROM c ORDER BY c.id DESC OFFSET 2 LIMIT 5", { partitionKey: ["t3"], maxItemCount }), of("t3").toReversed().slice(2, 7));
      assert.deepEqual((await rows("SELECT VALUE c.id FROM c WHERE c.u = 2", { partitionKey: ["t3"], maxItemCount })).sort(),
        items.filter(({ t, u }) => t === "t3" && u === 2).map(({ id }) => id));
    });

    test(`all items are read in pages of ${maxItemCount}`, async () => {
      const found = [];
      const iterator = container.items.readAll({ maxItemCount });
      while (iterator.hasMoreResults()) found.push(...((await iterator.fetchNext()).resources ?? []));
      assert.deepEqual(found.map(({ id }) => id).sort(), items.map(({ id }) => id));
    });
  }

  for (const enableQueryControl of [false, true]) {
    test(`another client goes on with a token${enableQueryControl ? ", query control" : ""}`, async () => {
      for (const maxItemCount of [1, 7, 50]) {
        const options = { maxItemCount, enableQueryControl };
        assert.deepEqual((await resumed("SELECT VALUE c.id FROM c", options)).sort(), items.map(({ id }) => id));
        assert.deepEqual((await resumed("SELECT VALUE c.id FROM c WHERE c.n > 5", options)).sort(), items.filter(({ n }) => n > 5).map(({ id }) => id));
        assert.equal((await resumed("SELECT * FROM c", { ...options, partitionKey: ["t1"] })).length, 24);
        const one = { ...options, partitionKey: ["t1", 1] };
        assert.deepEqual((await resumed("SELECT VALUE c.id FROM c ORDER BY c.n DESC", one)).sort(),
          items.filter(({ t, u }) => t === "t1" && u === 1).map(({ id }) => id));
      }
    });
  }

  test("another client continues with the token of an ordered query", async () => {
    if (oldest) { // 4.0.0 gives none
      const page = await container.items.query("SELECT * FROM c ORDER BY c.n", { maxItemCount: 7, enableQueryControl: true }).fetchNext();
      assert.equal(page.continuationToken, undefined);
      return;
    }
    for (const maxItemCount of [1, 7, 50]) {
      for (const [name, filter] of [["n", "true"], ["s", "true"], ["b", "true"], ["id", "c.n > 3"], ["mixed", "IS_STRING(c.mixed)"]]) {
        for (const sign of [1, -1]) {
          const text = `SELECT c.id, c.${name} AS v FROM c WHERE ${filter} ORDER BY c.${name} ${sign > 0 ? "ASC" : "DESC"}`;
          const want = await rows(text);
          const got = await resumed(text, { maxItemCount, enableQueryControl: true });
          assert.equal(new Set(got.map((row) => row.id)).size, got.length, `${text}: rows come once, pages of ${maxItemCount}`);
          assert.deepEqual(got.map((row) => row.v), want.map((row) => row.v), `${text}: pages of ${maxItemCount}`);
        }
      }
    }
  });

  test("orders of two keys, and of a key that many items lack", async () => {
    const indexingPolicy = { includedPaths: [{ path: "/*" }], excludedPaths: [], compositeIndexes: [
      [{ path: "/a", order: "ascending" }, { path: "/b", order: "descending" }],
      [{ path: "/a", order: "ascending" }, { path: "/s", order: "ascending" }]] };
    const { container: pairs } = await database.containers.create({ id: "pairs", partitionKey: { paths: ["/id"] }, indexingPolicy }, partitions);
    const all = Array.from({ length: 48 }, (_, i) => ({ id: `p${String(i).padStart(2, "0")}`, a: i % 4, b: (i * 7) % 5, s: `s${(i * 5) % 3}`, ...(i % 3 === 0 ? { opt: i % 2 } : {}) }));
    for (const item of all) await pairs.items.create(item);
    const by = (...keys) => (x, y) => keys.reduce((c, [name, sign]) => c || sign * compare(x[name], y[name]), 0);
    for (const [order, keys] of [["c.a, c.b DESC", [["a", 1], ["b", -1]]], ["c.a DESC, c.b", [["a", -1], ["b", 1]]], ["c.a, c.s", [["a", 1], ["s", 1]]], ["c.a DESC, c.s DESC", [["a", -1], ["s", -1]]]]) {
      const want = all.toSorted(by(...keys)).map((item) => keys.map(([name]) => item[name]));
      for (const maxItemCount of [1, 7, 1000]) {
        const got = await rows(`SELECT * FROM c ORDER BY ${order}`, { maxItemCount }, pairs);
        assert.deepEqual(got.map((item) => keys.map(([name]) => item[name])), want, `${order} in pages of ${maxItemCount}`);
        assert.equal(new Set(got.map(({ id }) => id)).size, all.length, `${order} in pages of ${maxItemCount}`);
      }
    }
    // The server merges: this SDK does not compare keys of two types, or a
    // missing key with a number.
    const whole = merging(pairs);
    for (const [order, sign] of [["c.opt", 1], ["c.opt DESC", -1]]) {
      const want = all.map(({ opt }) => opt).sort(compare);
      const lacking = want.filter((v) => v === undefined);
      const there = want.filter((v) => v !== undefined);
      const inOrder = sign > 0 ? [...lacking, ...there] : [...there.reverse(), ...lacking];
      for (const maxItemCount of [1, 5, 1000]) {
        const got = await rows(`SELECT c.id, c.opt FROM c ORDER BY ${order}`, { maxItemCount }, whole);
        assert.deepEqual(got.map(({ opt }) => opt), inOrder, `${order} in pages of ${maxItemCount}`);
        assert.equal(new Set(got.map(({ id }) => id)).size, all.length, `${order} in pages of ${maxItemCount}: rows come once`);
      }
    }
    await pairs.delete();
  });

  test("pages of large rows end at 4 MB", async () => {
    const { container: large } = await database.containers.create({ id: "large", partitionKey: { paths: ["/id"] } }, partitions);
    for (let i = 0; i < 20; i++) await large.items.create({ id: `l${String(i).padStart(2, "0")}`, n: i % 3, pad: "x".repeat(400 << 10) });
    for (const text of ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.id", "SELECT * FROM c ORDER BY c.n DESC"]) {
      for (const maxItemCount of [3, 1000]) {
        const found = await rows(text, { maxItemCount }, large);
        assert.equal(new Set(found.map(({ id }) => id)).size, 20, text);
        assert.equal(found.length, 20, text);
        assert.ok(found.every(({ pad }) => pad.length === 400 << 10));
      }
    }
    await large.delete();
  });

  test("ranks", { skip: oldest && "4.0.0 does not know HybridSearch" }, async () => {
    const { container: ranked } = await database.containers.create({
      id: "ranked", partitionKey: { paths: ["/id"] },
      fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths: [{ path: "/t", language: "en-US" }] },
      indexingPolicy: { automatic: true, includedPaths: [{ path: "/*" }], fullTextIndexes: [{ path: "/t" }] },
    }, { offerThroughput: 12000 });
    const [plain, music, movies] = ["Nothing is said here.", "The music of an artist", "An artist of many movies"];
    for (const [i, item] of [{ t: plain }, { t: music, v: [1, 2, 3] }, { t: movies, v: [3, 2, 1] }].entries()) await ranked.items.create({ id: `${i}`, ...item });
    const start = "SELECT TOP 3 c.t FROM c";
    const both = `${start} WHERE FullTextContains(c.t, 'artist') ORDER BY RANK`;
    const scores = "FullTextScore(c.t, 'movies'), FullTextScore(c.t, 'music')";
    for (const options of [{}, { disableHybridSearchQueryPlanOptimization: true }, { enableQueryControl: true, maxDegreeOfParallelism: 2, maxItemCount: 10 }]) {
      const ask = async (query) => (await rows(query, { forceQueryPlan: true, ...options }, ranked)).map(({ t }) => t);
      const found = await ask(`${start} ORDER BY RANK FullTextScore(c.t, 'artist')`);
      assert.deepEqual([found.slice(0, 2).sort(), found.slice(2)], [[movies, music], [plain]]);
      await assert.rejects(ask(`${start} ORDER BY RANK FullTextScore(c.t, ['artist'])`), /SC2241/); // terms in an array, as previews had them
      assert.deepEqual((await ask(`${both} RRF(${scores})`)).sort(), [movies, music]);
      assert.deepEqual(await ask(`${both} RRF(${scores}, [0.1, 0.2])`), [music, movies]);
      assert.deepEqual(await ask(`${both} RRF(${scores}, [0.2, 0.1])`), [movies, music]);
      assert.deepEqual(await ask(`${start} ORDER BY RANK RRF(FullTextScore(c.t, 'music'), VectorDistance(c.v, [1, 2, 3]))`), [music, movies, plain]);
    }
    await ranked.delete();
  });

  test("texts at their limits", async () => {
    const list = Array.from({ length: 5000 }, (_, i) => `"i${String(i).padStart(3, "0")}"`).join(",");
    assert.equal((await rows(`SELECT * FROM c WHERE c.id IN (${list})`)).length, items.length);
    assert.equal((await rows(`SELECT * FROM c WHERE c.t IN ("t1", "t2") AND c.id IN (${list})`)).length, 48);
    const text = (bytes) => { const start = 'SELECT VALUE c.id FROM c WHERE c.id = "i001" OR c.x = "'; return `${start}${"x".repeat(bytes - start.length - 1)}"`; };
    assert.deepEqual(await rows(text(512 << 10)), ["i001"]);
    await assert.rejects(rows(text((512 << 10) + 1)), { code: 400 });
    const started = Date.now();
    await assert.rejects(rows(`SELECT * FROM c WHERE ${"ABS(".repeat(10000)}1${")".repeat(10000)} = 1`), { code: 400 });
    assert.equal((await rows(`SELECT * FROM c WHERE ${"(".repeat(10000)}true${")".repeat(10000)}`)).length, items.length);
    assert.ok(Date.now() - started < 60_000);
  });

  test("parameters of every type", async () => {
    for (const value of [null, true, false, 0, -1.5, 1e300, "", "é'\"", [1, "a"], { a: [null] }]) {
      const answer = await rows({ query: "SELECT VALUE @v FROM c WHERE c.id = 'i001' AND @v = @v", parameters: [{ name: "@v", value }] });
      assert.deepEqual(answer, [value]);
    }
  });

  test("errors name the mistake and its place", async () => {
    for (const [text, code] of [["SELEC * FROM c", "SC1001"], ["SELECT * FROM c WHERE d.x = 1", "SC2001"], ["SELECT ABS() FROM c", "SC2050"], ["SELECT NOPE(1) FROM c", "SC2005"]]) {
      await assert.rejects(rows(text), (error) => error.code === 400 && JSON.stringify(error.body).includes(code) && JSON.stringify(error.body).includes("location"), text);
    }
    await assert.rejects(rows("SELECT * FROM c", { continuationToken: "garbage", partitionKey: ["t1", 1] }), { code: 400 });
  });
});

// The published examples of the language, each with its result or its error: as
// this SDK runs them over eight partitions, and as the server does when it
// merges.
const suites = JSON.parse(readFileSync(new URL("../../internal/query/testdata/vectors/query-examples.json", import.meta.url), "utf8"));

// What this SDK cannot merge over partitions but the server can. One that works
// fails here.
const rank = "SELECT TOP 1 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.txt, 'apple')";
const unmerged = new Map([
  ["SELECT SUM(b.pages) FROM b", "leaves out partitions whose sum is undefined"],
  ...(!oldest ? [[rank, "takes a row that is no object for a row of another plan"]] : [
    [rank, "does not know HybridSearch"],
    ["SELECT TOP 2 VALUE c.id FROM c ORDER BY VectorDistance(c.e, [0.2, 1])", "does not know NonStreamingOrderBy"],
  ]),
]);
// The oldest SDK treats a partition without values as one with the minimum,
// depending on which one responds first.
const undecided = new Set(!oldest ? [] : ["SELECT VALUE MIN(b.pages) FROM b", "SELECT MIN(b.price) AS lo, MAX(b.price), COUNT(1) FROM b"]);

const alike = (got, want, approx) => {
  if (typeof want === "number" && typeof got === "number") return got === want || approx && Math.abs(got - want) <= 1e-9 * Math.abs(want);
  if (want === null || got === null || typeof want !== "object" || typeof got !== "object") return got === want;
  const [a, b] = [Object.keys(got), Object.keys(want)];
  return Array.isArray(got) === Array.isArray(want) && a.length === b.length && b.every((name) => name in got && alike(got[name], want[name], approx));
};

function expectRows(got, { documents, ordered, approx }, text) {
  assert.equal(got.length, documents.length, `${text}: ${JSON.stringify(got)}`);
  const left = [...got];
  for (const want of documents) {
    const at = ordered ? 0 : left.findIndex((row) => alike(row, want, approx));
    assert.ok(at >= 0 && alike(left[at], want, approx), `${text}: ${JSON.stringify(got)}, want ${JSON.stringify(documents)}`);
    left.splice(at, 1);
  }
}

describe(`published examples over ${new URL(endpoint).protocol}`, () => {
  const examples = databaseOf("examples");
  before(() => client.databases.create({ id: examples.id }));
  after(() => examples.delete());
  suites.forEach((suite, i) => {
    test(suite.name, async () => {
      const { userDefinedFunctions, ...definition } = suite.container;
      const { container: on } = await examples.containers.create({ id: `s${i}`, ...definition }, partitions);
      for (const udf of userDefinedFunctions ?? []) await on.scripts.userDefinedFunctions.create(udf);
      for (const document of suite.documents) await on.items.create(document);
      const byServer = connect({ plugins }).database(examples.id).container(on.id);
      for (const { query, parameters, options, expect } of suite.cases) {
        const partitionKey = options?.partitionKey;
        const run = (from, maxItemCount) => rows({ query, parameters: parameters ?? [] }, { partitionKey, maxItemCount }, from);
        for (const maxItemCount of options?.maxItemCount ? [options.maxItemCount] : [undefined, 1]) {
          for (const from of undecided.has(query) ? [byServer] : [on, byServer]) {
            const text = `${query} in pages of ${maxItemCount ?? "any size"}${from === byServer ? ", merged by the server" : ""}`;
            if (expect.error) {
              await assert.rejects(run(from, maxItemCount), (error) =>
                error.code === expect.error.status && (!expect.error.code || JSON.stringify(error.body ?? error.message).includes(expect.error.code)), text);
            } else if (from === on && unmerged.has(query)) {
              await assert.rejects(async () => expectRows(await run(from, maxItemCount), expect, text), undefined, `${text} works: ${unmerged.get(query)}`);
            } else {
              expectRows(await run(from, maxItemCount), expect, text);
            }
          }
        }
      }
    });
  });
});
