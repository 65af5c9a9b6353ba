// What the page changes besides single items: files of items, throughput, keys, roles,
// policies, copy jobs; and queries that take long.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { admin, browser, call, create, enter, eventually, fill, picture, troubles, visit } from "./page.mjs";

const quiet = () => assert.deepEqual(troubles.splice(0), []);
const card = (page, title) => page.locator(".card", { has: page.getByRole("heading", { name: title, exact: true }) });

before(async () => {
  await create("work", "events", 2, { changeFeedPolicy: { retentionDuration: 60 } }, 1600);
  await fill("work", "events", 20);
});
after(() => browser.close());

test("items of a file are uploaded, and refused ones are named", async () => {
  const page = await enter("#/db/work/coll/events/items");
  await page.locator(".grid .body .row").first().waitFor();
  const item = (n) => ({ id: `up-${n}`, TenantId: "Upload", UserId: "Ann", SessionId: "1", n });
  const send = async (text, name) => {
    await page.locator("dialog input[type=file]").setInputFiles({ name, mimeType: "application/json", buffer: Buffer.from(text) });
    await page.locator("dialog").getByRole("button", { name: "Upload", exact: true }).click();
  };
  await page.getByRole("button", { name: "Upload…" }).click();
  await page.locator("dialog").getByRole("button", { name: "Upload", exact: true }).click();
  await page.getByText("Choose a file first.").waitFor();
  await send('[{"id": "x",]', "broken.json");
  await page.locator("dialog .error").waitFor(); // The file is not JSON, and nothing is written.
  await send(JSON.stringify([0, 1, 2].map(item)), "array.json");
  await page.getByText("3 items of 3 written").waitFor();
  await page.getByLabel("Items with the same id and key").selectOption("create");
  await send([2, 3].map((n) => JSON.stringify(item(n))).join("\n"), "lines.jsonl");
  await page.getByText("1 item of 2 written").waitFor();
  await page.locator("dialog .refused li", { hasText: "Item 1 (up-2)" }).waitFor();
  await picture(page, "upload");
  await page.locator("dialog").getByRole("button", { name: "Close" }).last().click();
  await page.getByRole("textbox", { name: "TenantId" }).fill("Upload");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("4 items ·").waitFor();

  // Several are deleted at once.
  await page.getByLabel("Select all rows").check();
  await page.getByRole("button", { name: "Delete 4" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("4 items deleted.").waitFor();
  quiet();
});

test("throughput moves from one partition to another, and is made equal again", async () => {
  const page = await enter("#/db/work/coll/events/partitions");
  await page.locator(".partitiontable tbody tr").nth(1).waitFor();
  const shares = async () => (await admin("GET", "/partitions?database=work&container=events")).body.partitions.map((p) => [p.id, Math.round(p.share)]);
  const [[first], [second]] = await shares();
  await page.getByRole("button", { name: "Redistribute…" }).click();
  await page.getByLabel(`RU/s of partition ${first}`).fill("1000");
  await page.getByLabel(`RU/s of partition ${second}`).fill("600");
  await page.locator("dialog p", { hasText: /^sum 1,600 of 1,600 RU/ }).waitFor();
  await picture(page, "redistribute");
  await page.locator("dialog").getByRole("button", { name: "Redistribute", exact: true }).click();
  await page.getByText("Throughput redistributed.").waitFor();
  assert.deepEqual(await shares(), [[first, 1000], [second, 600]]);
  await page.getByRole("button", { name: "Redistribute…" }).click();
  await page.getByRole("button", { name: "Equal for all" }).click();
  await eventually(async () => assert.deepEqual(await shares(), [[first, 800], [second, 800]]));
  quiet();
});

test("a key is regenerated, and pages signed in with the old one are told", async () => {
  const before = (await admin("POST", "/listKeys")).body.secondaryMasterKey;
  const other = await enter("#/", before);
  await other.locator(".cards .name").first().waitFor();
  const page = await enter("#/account");
  await page.getByRole("button", { name: "Show keys" }).click();
  const row = page.locator("tr", { has: page.getByText("Secondary key", { exact: true }) });
  await row.getByText(before).waitFor();
  await row.getByRole("button", { name: "Regenerate…" }).click();
  await page.locator("dialog").getByRole("button", { name: "Regenerate" }).click();
  const fresh = await page.locator("dialog pre").textContent();
  assert.notEqual(fresh, before);
  assert.equal((await admin("POST", "/listKeys")).body.secondaryMasterKey, fresh);
  await page.keyboard.press("Escape");
  await row.getByText(fresh).waitFor();
  await other.getByRole("button", { name: "Read the tree again" }).click();
  await other.getByText("The server no longer accepts the key").waitFor();
  assert.equal(await other.locator("#frame").isVisible(), false);
  quiet();
});

test("a query that takes long shows its time, and is cancelled", async () => {
  const page = await enter("#/db/work/coll/events/query");
  const editor = page.locator(".ask textarea");
  let held, release;
  const arrived = new Promise((resolve) => { held = resolve; });
  await page.route("**/dbs/work/colls/events/docs", async (route) => {
    held();
    await new Promise((resolve) => { release = resolve; });
    await route.continue().catch(() => {}); // The page has given it up.
  });
  await editor.fill("SELECT * FROM c");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await arrived;
  await page.getByText(/^Running…/).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByText("Cancelled.").waitFor();
  release();
  await page.unroute("**/dbs/work/colls/events/docs");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".resultbar", { hasText: /20 rows · [\d.]+ RU · [\d.]+ m?s · 1 page/ }).waitFor();
  quiet();
});

test("the change feed with all versions shows creations and deletions", async () => {
  const page = await enter("#/db/work/coll/events/feed");
  await page.getByLabel("Mode", { exact: true }).selectOption("Full-Fidelity Feed");
  assert.equal(await page.getByLabel("Start", { exact: true }).isDisabled(), true); // It begins now.
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Waiting for changes.").waitFor();
  const key = { "x-ms-documentdb-partitionkey": '["Feed","Ann","1"]' };
  await call("POST", "/dbs/work/colls/events/docs", { id: "short-lived", TenantId: "Feed", UserId: "Ann", SessionId: "1" }, key);
  await call("DELETE", "/dbs/work/colls/events/docs/short-lived", undefined, key);
  for (const kind of ["create", "delete"]) await page.locator(".feed .grid .body .row", { hasText: kind }).filter({ hasText: "short-lived" }).waitFor();
  quiet();
});

test("an online copy job is paused, resumed and completed", async () => {
  assert.equal((await call("POST", "/dbs/work/colls", { id: "copied", partitionKey: { paths: ["/UserId"] } })).status, 201);
  const page = await enter("#/copyjobs");
  await page.getByRole("button", { name: "New Copy Job" }).click();
  await page.getByLabel("Name").fill("follow");
  await page.getByLabel("From").selectOption("work/events");
  await page.getByLabel("To", { exact: true }).selectOption("work/copied");
  await page.getByLabel("Mode").selectOption("Online");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  const row = page.locator("tr", { hasText: "follow" });
  await row.getByText("caught up").waitFor();
  for (const [verb, state] of [["Pause", "Paused"], ["Resume", "Running"], ["Complete", "Completed"]]) {
    await page.getByRole("button", { name: `${verb} follow` }).click();
    await row.locator("td", { hasText: state }).waitFor();
  }
  quiet();
});

test("roles are made and assigned, with the server's messages", async () => {
  const page = await enter("#/roles");
  await page.getByText("Cosmos DB Built-in Data Reader").first().waitFor();
  await page.getByRole("button", { name: "New Role" }).click();
  await page.getByLabel("Role name").fill("Readers of events");
  await page.getByLabel("May be assigned at").selectOption("/dbs/work");
  await page.locator("dialog").getByRole("button", { name: "OK" }).click();
  await page.locator("dialog .error:not(:empty)").waitFor(); // A role without actions is refused.
  await page.getByLabel("sqlDatabases/containers/items/read").check();
  await page.locator("dialog").getByRole("button", { name: "OK" }).click();
  await page.locator("tr", { hasText: "Readers of events" }).waitFor();
  await page.getByRole("button", { name: "New Assignment" }).click();
  await page.getByLabel("Role", { exact: true }).selectOption({ label: "Readers of events" });
  await page.getByLabel("Scope").selectOption("/dbs/work/colls/events");
  await page.locator("dialog").getByRole("button", { name: "OK" }).click();
  await page.locator("dialog .error:not(:empty)").waitFor(); // An assignment needs a principal.
  await page.getByLabel("Principal id").fill("11111111-2222-4333-8444-555555555555");
  await page.locator("dialog").getByRole("button", { name: "OK" }).click();
  await page.locator("tr", { hasText: "11111111-2222" }).waitFor();
  await picture(page, "roles");
  const assigned = (await admin("GET", "/sqlRoleAssignments")).body.value;
  assert.equal(assigned.length, 1);
  assert.match(assigned[0].properties.scope, /dbs\/work\/colls\/events$/);
  await page.getByRole("button", { name: "Delete the assignment" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("No assignment yet.").waitFor();
  quiet();
});

test("vector and full-text policies, and throughput buckets, with the server's messages", async () => {
  const page = await enter("#/db/work");
  await page.getByRole("button", { name: "New Container" }).first().click();
  await page.getByLabel("Container id").fill("articles");
  await page.getByLabel("Partition key, level 1").fill("/author");
  await page.getByText("Advanced").click();
  await page.getByRole("button", { name: "Add vector path" }).click();
  await page.getByLabel("Path of the vector").fill("/embedding");
  await page.getByLabel("Dimensions").fill("0");
  await page.getByRole("button", { name: "Add text path" }).click();
  await page.getByLabel("Path of the text").fill("/text");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.locator("dialog .error", { hasText: "Dimensions:0" }).waitFor();
  await page.getByLabel("Dimensions").fill("8");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.locator(".items").waitFor();
  const read = async () => (await call("GET", "/dbs/work/colls/articles")).body;
  let made = await read();
  assert.deepEqual(made.vectorEmbeddingPolicy.vectorEmbeddings.map((v) => [v.path, v.dataType, v.dimensions, v.distanceFunction]), [["/embedding", "float32", 8, "cosine"]]);
  assert.deepEqual([made.indexingPolicy.vectorIndexes[0].type, made.indexingPolicy.fullTextIndexes[0].path, made.fullTextPolicy.fullTextPaths[0].path], ["quantizedFlat", "/text", "/text"]);

  await visit(page, "#/db/work/coll/articles/settings", ".policies");
  const box = card(page, "Vectors and full text");
  await box.getByRole("button", { name: "Add text path" }).click();
  await box.getByLabel("Path of the text").nth(1).fill("no slash");
  await box.getByRole("button", { name: "Save" }).click();
  await box.locator(".error:not(:empty)").waitFor();
  await box.getByLabel("Path of the text").nth(1).fill("/summary");
  await box.getByRole("button", { name: "Save" }).click();
  await page.getByText("Vector and full-text policies saved.").waitFor();
  made = await read();
  assert.deepEqual(made.fullTextPolicy.fullTextPaths.map((p) => p.path), ["/text", "/summary"]);
  assert.equal(made.indexingPolicy.vectorIndexes[0].path, "/embedding");

  await page.getByText("Throughput buckets", { exact: true }).click();
  await page.getByLabel("Bucket 1, percent").fill("101");
  await page.getByRole("button", { name: "Save buckets" }).click();
  await card(page, "Throughput").locator("details .error:not(:empty)").waitFor();
  await page.getByLabel("Bucket 1, percent").fill("40");
  await page.getByRole("button", { name: "Save buckets" }).click();
  await page.getByText("Throughput buckets saved.").waitFor();
  const offers = (await call("GET", "/offers")).body.Offers, offer = offers.find((o) => o.offerResourceId === made._rid);
  assert.deepEqual(offer.content.throughputBuckets.map((b) => [b.id, b.maxThroughputPercentage]), [[1, 40]]);
  await picture(page, "policies");
  quiet();
});
