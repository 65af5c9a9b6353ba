// Stored procedures, triggers and functions with the JavaScript SDK: the
// procedures that programs bring with them (../scripts), which import, update
// and delete in bulk and count in one item, under a key and under a hierarchical
// one (S145). Run by ../run.sh.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { client, databaseOf, refused } from "./server.mjs";

const database = databaseOf("scripts");
let container, nested;

// classic returns the text of one of the procedures that all languages run.
const classic = (name) => readFileSync(new URL(`../scripts/${name}.js`, import.meta.url), "utf8");

// These are sent as text and do not run here. evens queries by functions.
function evens() {
  __.chain().filter((item) => item.n % 2 === 0).map((item) => item.n).value();
}

// put creates an item, or finds and replaces an existing one.
function put(item) {
  const all = getContext().getCollection();
  const answer = (op) => getContext().getResponse().setBody({ op });
  const find = (continuation) => {
    const query = { query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: item.id }] };
    const accepted = all.queryDocuments(all.getSelfLink(), query, { continuation }, (error, found, options) => {
      if (error) throw error;
      if (found.length > 0) replace(found[0]);
      else if (options.continuation) find(options.continuation);
      else throw new Error("There is none.");
    });
    if (!accepted) throw new Error("not accepted");
  };
  const replace = (old) => {
    if (!all.replaceDocument(old._self, item, check)) throw new Error("not accepted");
    answer("replaced");
  };
  const check = (error) => {
    if (error && error.number !== ErrorCodes.Conflict) throw error;
    if (error) find(null);
  };
  if (!all.createDocument(all.getSelfLink(), item, check)) throw new Error("not accepted");
  answer("created");
}

// open changes a page of items, and returns their ids and where the next run continues.
function open(continuation) {
  const all = getContext().getCollection();
  const answer = { ids: [] };
  const change = (items) => {
    const item = items.pop();
    if (!item) return getContext().getResponse().setBody(answer);
    item.state = "open";
    all.replaceDocument(item._self, item, {}, (error) => {
      if (error) throw error;
      answer.ids.push(item.id);
      change(items);
    });
  };
  all.queryDocuments(all.getSelfLink(), "SELECT * FROM root r", { pageSize: 2, continuation }, (error, found, options) => {
    if (error) throw error;
    answer.next = options.continuation;
    change(found);
  });
}

async function ids(scope, partitionKey) {
  const { resources } = await scope.items.query("SELECT VALUE c.id FROM c", { partitionKey }).fetchAll();
  return resources;
}

const items = (n, more) => Array.from({ length: n }, (_, i) => ({ id: `i${i}`, n: i, ...more }));

before(async () => {
  await client.databases.createIfNotExists({ id: database.id });
  ({ container } = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] } }));
  ({ container: nested } = await database.containers.create({ id: "n", partitionKey: { paths: ["/t", "/u"], kind: "MultiHash", version: 2 } }));
  for (const { scripts } of [container, nested]) {
    for (const id of ["import", "update", "delete", "count"]) await scripts.storedProcedures.create({ id, body: classic(id) });
    await scripts.storedProcedures.create({ id: "evens", body: evens });
  }
});
after(() => database.delete());

describe("stored procedures", () => {
  for (const [name, of, partitionKey, more] of [
    ["of a key", () => container, "p", { pk: "p" }],
    ["of a hierarchical key", () => nested, ["t", "u"], { t: "t", u: "u" }],
  ])
    test(`import, count, update and delete ${name}`, async () => {
      const run = (id, args, options) => of().scripts.storedProcedure(id).execute(partitionKey, args, options);
      const made = await run("import", [items(10, more)]);
      assert.equal(made.resource, 10);
      assert.ok(made.requestCharge > 10, `${made.requestCharge} RU`);
      assert.deepEqual((await ids(of(), partitionKey)).sort(), items(10).map((item) => item.id));

      // All or nothing: the last of these exists already.
      await assert.rejects(run("import", [[{ id: "new", ...more }, { id: "i0", ...more }]]), (e) => e.code === 400 && /already exists/.test(e.message));
      assert.equal((await ids(of(), partitionKey)).length, 10);

      const { resource, headers } = await run("count", ["i3", 4], { enableScriptLogging: true });
      assert.equal(decodeURIComponent(headers["x-ms-documentdb-script-log-results"]), "now 7");
      const stored = (await of().item("i3", partitionKey).read()).resource;
      assert.deepEqual(resource, stored);
      await assert.rejects(run("count", ["i3", 1000]), (e) => e.code === 400 && /too much/.test(e.message));
      await Promise.all(Array.from({ length: 10 }, () => run("count", ["i3", 1])));
      assert.equal((await of().item("i3", partitionKey).read()).resource.n, 17);
      assert.deepEqual((await run("evens", [])).resource.sort(), [0, 2, 4, 6, 8]);

      const changed = [];
      for (let i = 0; i < 4; i++) changed.push((await run("update", ["SELECT * FROM c WHERE NOT IS_DEFINED(c.seen)", "seen", 1])).resource.changed);
      assert.deepEqual(changed, [4, 4, 2, 0]);
      assert.deepEqual((await run("delete", ["SELECT * FROM c WHERE c.n < 9", 4])).resource, { deleted: 4, more: true });
      assert.deepEqual((await run("delete", ["SELECT * FROM c"])).resource, { deleted: 6, more: false });
      assert.deepEqual(await ids(of(), partitionKey), []);
    });

  test("create or replace, without a key", async () => {
    const { container: keyless } = await database.containers.create({ id: "keyless" });
    const { sproc } = await keyless.scripts.storedProcedures.create({ id: "put", body: put });
    const run = async (item) => (await sproc.execute(undefined, [item])).resource;
    assert.deepEqual(await run({ id: "1", n: 1 }), { op: "created" });
    assert.deepEqual(await run({ id: "1", n: 2 }), { op: "replaced" });
    assert.equal((await keyless.item("1").read()).resource.n, 2);
    await refused(run({ id: 7 }), 400);
  });

  test("continue in the next run, under no key or null", async () => {
    const { container: opened } = await database.containers.create({ id: "opened" });
    for (let i = 0; i < 5; i++) await opened.items.create({ id: `${i}`, state: "closed" });
    const { storedProcedure } = await opened.scripts.storedProcedures.create({ id: "open", body: open });
    const runs = async (partitionKey) => {
      const found = [];
      let next;
      for (let count = 0; count === 0 || next; count++) {
        assert.ok(count < 10, "no end");
        const { resource } = await storedProcedure.execute(partitionKey, [next]);
        found.push(resource.ids);
        ({ next } = resource);
      }
      return found;
    };
    const under = await runs(undefined);
    assert.deepEqual(under.flat().sort(), ["0", "1", "2", "3", "4"]);
    assert.deepEqual(under.slice(0, 3).map((page) => page.length), [2, 2, 1]);
    assert.deepEqual((await runs(null)).flat(), [], "which is another key than none");
    assert.deepEqual((await opened.items.query("SELECT DISTINCT VALUE c.state FROM c").fetchAll()).resources, ["open"]);
  });

  test("are read, replaced, listed and deleted", async () => {
    const { storedProcedures } = container.scripts;
    const { resource } = await storedProcedures.create({ id: "f", body: "function () { getContext().getResponse().setBody('one'); }" });
    assert.equal(resource.id, "f");
    assert.equal((await container.scripts.storedProcedure("f").execute("p")).resource, "one");
    await container.scripts.storedProcedure("f").replace({ id: "f", body: "function () { getContext().getResponse().setBody({ n: 2 }); }" });
    assert.deepEqual((await container.scripts.storedProcedure("f").execute("p")).resource, { n: 2 });
    assert.ok((await storedProcedures.readAll().fetchAll()).resources.some((one) => one.id === "f"));
    assert.deepEqual((await storedProcedures.query("SELECT VALUE s.id FROM s WHERE s.id = 'f'").fetchAll()).resources, ["f"]);
    await container.scripts.storedProcedure("f").delete();
    await assert.rejects(container.scripts.storedProcedure("f").execute("p"), (e) => e.code === 404);
  });
});

// The limit of the log, 8,000 bytes, applies to its size in a header: a letter
// that is not ASCII takes six bytes, a blank three.
test("a log has at most the length that a client can read, or nothing is written", async () => {
  await container.scripts.storedProcedures.create({
    id: "talk",
    body: `function (id, text) {
      __.createDocument(__.getSelfLink(), { id, pk: "log" });
      console.log(text);
    }`,
  });
  const talk = (id, text) => container.scripts.storedProcedure("talk").execute("log", [id, text], { enableScriptLogging: true });
  const text = "ö ".repeat(888);
  const { headers } = await talk("short", text);
  assert.equal(decodeURIComponent(headers["x-ms-documentdb-script-log-results"]), text);
  await refused(talk("long", text + text), 400);
  assert.deepEqual(await ids(container, "log"), ["short"]);
});

test("triggers run with a write, or undo it", async () => {
  await container.scripts.triggers.create({
    id: "stamp", triggerType: "Pre", triggerOperation: "All",
    body: "function () { const r = getContext().getRequest(), d = r.getBody(); if (d) { d.op = r.getOperationType(); r.setBody(d); } }",
  });
  await container.scripts.triggers.create({
    id: "guard", triggerType: "Post", triggerOperation: "Create",
    body: `function () {
      const all = getContext().getCollection();
      all.queryDocuments(all.getSelfLink(), "SELECT VALUE COUNT(1) FROM c", (e, rows) => {
        if (e) throw e;
        if (rows[0] > 2) throw new Error("There are " + rows[0]);
      });
    }`,
  });
  const options = { preTriggerInclude: ["stamp"], postTriggerInclude: "guard" };
  for (const id of ["1", "2"]) assert.equal((await container.items.create({ id, pk: "triggers" }, options)).resource.op, "Create");
  await assert.rejects(container.items.create({ id: "3", pk: "triggers" }, options), (e) => e.code === 400 && /There are 3/.test(e.message));
  assert.deepEqual(await ids(container, "triggers"), ["1", "2"]);
  assert.equal((await container.items.upsert({ id: "1", pk: "triggers" }, { preTriggerInclude: "stamp" })).resource.op, "Upsert");
  assert.equal((await container.item("1", "triggers").replace({ id: "1", pk: "triggers" }, { preTriggerInclude: "stamp" })).resource.op, "Replace");
  await container.item("1", "triggers").delete({ preTriggerInclude: "stamp" });
});

test("functions in queries", async () => {
  const functions = container.scripts.userDefinedFunctions;
  await functions.create({ id: "tax", body: "function (income) { return income < 1000 ? income * 0.1 : income * 0.25; }" });
  for (const income of [500, 1000, 2000]) await container.items.create({ id: `i${income}`, pk: "functions", income });
  const rows = async (query) => (await container.items.query(query, { partitionKey: "functions" }).fetchAll()).resources;
  assert.deepEqual(await rows("SELECT VALUE udf.tax(c.income) FROM c"), [50, 250, 500]);
  assert.deepEqual(await rows("SELECT VALUE c.id FROM c WHERE udf.tax(c.income) > 100"), ["i1000", "i2000"]);
  await refused(rows("SELECT VALUE udf.missing(c.income) FROM c"), 400);
  const tax = container.scripts.userDefinedFunction("tax");
  await tax.replace({ id: "tax", body: "function () { return 0; }" });
  assert.deepEqual(await rows("SELECT DISTINCT VALUE udf.tax(c.income) FROM c"), [0]);
  assert.match((await tax.read()).resource.body, /return 0/);
  assert.deepEqual((await functions.readAll().fetchAll()).resources.map((one) => one.id), ["tax"]);
  assert.equal((await functions.query("SELECT * FROM u WHERE u.id = 'tax'").fetchAll()).resources.length, 1);
  await tax.delete();
  await refused(tax.read(), 404);
});

test("triggers are read, replaced, listed and deleted", async () => {
  const { triggers } = container.scripts;
  await triggers.create({ id: "kept", triggerType: "Pre", triggerOperation: "Create", body: "function () {}" });
  await refused(triggers.create({ id: "kept", triggerType: "Pre", triggerOperation: "Create", body: "function () {}" }), 409);
  const kept = container.scripts.trigger("kept");
  await kept.replace({ id: "kept", triggerType: "Post", triggerOperation: "All", body: "function () { getContext(); }" });
  const { resource } = await kept.read();
  assert.deepEqual([resource.triggerType, resource.triggerOperation], ["Post", "All"]);
  assert.ok((await triggers.readAll().fetchAll()).resources.some((one) => one.id === "kept"));
  assert.equal((await triggers.query("SELECT * FROM t WHERE t.triggerType = 'Post' AND t.id = 'kept'").fetchAll()).resources.length, 1);
  await kept.delete();
  await refused(kept.read(), 404);
});
