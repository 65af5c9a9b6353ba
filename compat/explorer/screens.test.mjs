// Every screen, driven as a user does.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { admin, browser, call, create, enter, event, eventually, fill, fillBatches, open, picture, troubles, visit } from "./page.mjs";

before(async () => {
  await create("shop", "sessions", 8, { changeFeedPolicy: { retentionDuration: 60 } });
  await fill("shop", "sessions", 400);
  await call("POST", "/dbs/shop/colls/sessions/docs", { id: "absent-1", TenantId: "Contoso" }, { "x-ms-documentdb-partitionkey": '["Contoso",{},{}]' });
});
after(() => browser.close());

const quiet = () => assert.deepEqual(troubles.splice(0), []);

test("signing in", async () => {
  const page = await open("/");
  assert.ok(page.url().endsWith("/_explorer/"), page.url());
  await page.getByRole("button", { name: "Sign in with the emulators’ key" }).waitFor();
  await picture(page, "sign-in");
  await page.getByLabel("Account key").fill("not a key!");
  await page.keyboard.press("Enter");
  await page.getByText("neither a key in base64").waitFor();
  await page.getByLabel("Account key").fill("AAAA");
  await page.keyboard.press("Enter");
  await page.locator("#signin-error:not(:empty)").waitFor();
  await page.getByRole("button", { name: "Sign in with the emulators’ key" }).click();
  await page.locator(".cards .name", { hasText: "sessions" }).waitFor();
  await picture(page, "home");
  // The key is nowhere but in the memory of the page.
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie, location.href.includes("C2y6")]), [0, 0, "", false]);
  await page.reload();
  await page.locator("#signin").waitFor();
  assert.equal(await page.locator("#frame").isVisible(), false);
  quiet();
});

test("a new container with a hierarchical key, in the documented steps (S65, S66, S79)", async () => {
  const page = await enter();
  await page.getByRole("button", { name: "New Container" }).first().click();
  await page.getByLabel("Create new").check();
  await page.getByRole("textbox", { name: "Database id" }).fill("portal");
  await page.getByLabel("Container id").fill("orders");
  await page.getByLabel("Partition key, level 1").fill("/TenantId");
  await page.getByRole("button", { name: "Add hierarchical partition key" }).click();
  await page.getByLabel("Partition key, level 2").fill("/UserId");
  await page.getByRole("button", { name: "Add hierarchical partition key" }).click();
  await page.getByLabel("Partition key, level 3").fill("/TenantId");
  assert.equal(await page.getByRole("button", { name: "Add hierarchical partition key" }).isVisible(), false, "a fourth level is offered");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.locator("dialog .error:not(:empty)").waitFor(); // The server refuses a path twice, and says so.
  await page.getByLabel("Partition key, level 3").fill("/SessionId");
  await picture(page, "new-container");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.locator(".items").waitFor();
  const made = await call("GET", "/dbs/portal/colls/orders");
  assert.deepEqual(made.body.partitionKey, { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 });
  assert.equal((await admin("GET", "/sqlDatabases/portal/containers/orders/throughputSettings/default")).body.properties.resource.autoscaleSettings.maxThroughput, 1000);
  quiet();
});

const lastItem = '[aria-label="Item as JSON. Tab indents; press Escape and then Tab to leave."]';

test("items of three levels: created, edited, conflicted, deleted (S79)", async () => {
  const page = await enter("#/db/shop/coll/sessions/items");
  await page.locator(".grid .body .row").first().waitFor();

  await page.locator(".keytree button", { hasText: "Count" }).click();
  await page.locator(".keytree [role=treeitem]", { hasText: "Contoso" }).first().click();
  await page.locator('.keytree [aria-level="2"]', { hasText: "Alice" }).first().click();
  await page.locator('.keytree [aria-level="3"]').first().waitFor();
  assert.equal(await page.locator(".keyfields input").nth(0).inputValue(), "Contoso");
  assert.equal(await page.locator(".keyfields input").nth(1).inputValue(), "Alice");
  await page.getByText("1 partition asked").waitFor();
  await page.locator(".grid .body .row").first().click();
  await page.locator(".itembody .about", { hasText: "read for" }).waitFor();
  await picture(page, "items");

  // Created: the key fields begin the item.
  await page.getByRole("button", { name: "New Item" }).click();
  const editor = page.locator(lastItem);
  assert.match(await editor.inputValue(), /"TenantId": "Contoso",\s+"UserId": "Alice"/);
  await editor.fill('{"id": "made", "TenantId": "Contoso", "UserId": "Alice", "SessionId": "s-1", "big": 9007199254740993, "n": 1,}');
  await page.getByText("Nothing follows this comma.").waitFor(); // The error is marked at its place.
  assert.equal(await page.locator(".itembody .mark").textContent(), ",");
  assert.equal(await page.getByRole("button", { name: "Save" }).isDisabled(), true);
  await editor.fill('{"id": "made", "TenantId": "Contoso", "UserId": "Alice", "SessionId": "s-1", "n": 1}');
  await page.keyboard.press("Control+s");
  await page.getByText("Item made saved.").waitFor();

  // Edited.
  const key = { "x-ms-documentdb-partitionkey": '["Contoso","Alice","s-1"]' }, link = "/dbs/shop/colls/sessions/docs/made";
  await editor.fill((await editor.inputValue()).replace('"n": 1', '"n": 2'));
  await page.locator(".itembody").getByRole("button", { name: "Save" }).click();
  await assert.doesNotReject(eventually(async () => assert.equal((await call("GET", link, undefined, key)).body.n, 2)));

  // In conflict: another client writes first, and nothing is overwritten unasked.
  await call("PUT", link, { ...(await call("GET", link, undefined, key)).body, n: 50 }, key);
  await editor.fill((await editor.inputValue()).replace('"n": 2', '"n": 3'));
  await page.keyboard.press("Control+s");
  await page.getByText("The item was changed by someone else").waitFor();
  assert.equal((await call("GET", link, undefined, key)).body.n, 50);
  await picture(page, "conflict");
  await page.getByRole("button", { name: "Load theirs" }).click();
  assert.match(await editor.inputValue(), /"n": 50/);
  await call("PUT", link, { ...(await call("GET", link, undefined, key)).body, n: 60 }, key);
  await editor.fill((await editor.inputValue()).replace('"n": 50', '"n": 4'));
  await page.keyboard.press("Control+s");
  await page.getByRole("button", { name: "Overwrite theirs" }).click();
  await eventually(async () => assert.equal((await call("GET", link, undefined, key)).body.n, 4));

  // Its history, since the container keeps all versions.
  await page.getByRole("button", { name: "History…" }).click();
  await page.locator(".version").nth(4).waitFor();
  assert.deepEqual(await page.locator(".version strong").allTextContents(), ["replace", "replace", "replace", "replace", "create"]);
  await picture(page, "history");
  await page.keyboard.press("Escape");

  // Deleted.
  await page.locator(".itembody").getByRole("button", { name: "Delete" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Item made deleted.").waitFor();
  assert.equal((await call("GET", link, undefined, key)).status, 404);

  // An item without two of its levels is shown as such, opened and saved.
  await page.getByLabel("Filter", { exact: true }).fill("c.id = 'absent-1'");
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByLabel("Filter", { exact: true }).fill("c.id = 'absent-1'");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".grid .body .row", { hasText: "absent-1" }).click();
  assert.equal(await page.locator(".grid .body .row .faint", { hasText: "(absent)" }).count(), 2);
  await editor.fill('{"id": "absent-1", "TenantId": "Contoso", "seen": true}');
  await page.keyboard.press("Control+s");
  await page.getByText("Item absent-1 saved.").waitFor();
  quiet();
});

test("any path may be the first level, nested ones included (S67)", async () => {
  await call("POST", "/dbs", { id: "shop" });
  const made = await call("POST", "/dbs/shop/colls", { id: "nested", partitionKey: { paths: ["/address/zip", "/UserId"], kind: "MultiHash", version: 2 } });
  assert.equal(made.status, 201);
  const page = await enter("#/db/shop/coll/nested/items");
  await page.getByRole("textbox", { name: "address.zip" }).fill("69001");
  await page.getByRole("button", { name: "New Item" }).click();
  const editor = page.locator(lastItem);
  assert.match(await editor.inputValue(), /"address": \{\s+"zip": "69001"\s+\}/);
  await editor.fill('{"id": "1", "address": {"zip": "69001"}, "UserId": "Alice"}');
  await page.keyboard.press("Control+s");
  await page.getByText("Item 1 saved.").waitFor();
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".grid .body .row", { hasText: "69001" }).waitFor();
  quiet();
});

const queryEditor = '[aria-label="Query. Tab indents; press Escape and then Tab to leave."]';

test("queries over eight partitions, and of one", async () => {
  const page = await enter("#/db/shop/coll/sessions/query");
  const editor = page.locator(queryEditor);
  await editor.fill("SELECT c.id, c.TenantId, c.minutes FROM c WHERE c.UserId = 'Bob' ORDER BY c.minutes");
  await page.keyboard.press("Shift+Enter");
  await page.locator(".ring .caption", { hasText: "8 of 8" }).waitFor();
  assert.equal(await page.locator(".ring .segment.on").count(), 8);
  await editor.fill("SELECT c.UserId, COUNT(1) AS n, AVG(c.minutes) AS mean FROM c WHERE c.TenantId = @tenant GROUP BY c.UserId");
  await page.getByRole("button", { name: "Parameter" }).click();
  await page.getByLabel("Name of the parameter").fill("@tenant");
  // Colours must not move the text away from where it is typed.
  assert.deepEqual(await page.locator(".ask .editor pre span").evaluateAll((all) => all.map((n) => getComputedStyle(n).display).filter((d) => d !== "inline")), []);
  await page.getByLabel("Value of the parameter, as JSON").fill('"Contoso"');
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".ring .caption", { hasText: "1 of 8" }).waitFor();
  assert.equal(await page.locator(".results .grid .body .row").count(), 6); // five users, and the item without one
  await picture(page, "query");
  await page.getByRole("tab", { name: "JSON" }).click();
  assert.match(await page.locator(".results textarea").inputValue(), /"UserId": "Alice"/);
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".plan .step strong", { hasText: "group" }).first().waitFor();
  await picture(page, "plan");
  const download = page.waitForEvent("download");
  await page.getByLabel("Export the loaded rows").selectOption("csv");
  assert.equal((await download).suggestedFilename(), "sessions-query.csv");

  // An error is marked at its place.
  await editor.fill("SELECT *\nFRM c");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Line 2, column 1").waitFor();
  assert.equal(await page.locator(".ask .mark").textContent(), "FRM");
  await picture(page, "query-error");

  // Completion of properties that the rows had, and of functions.
  await editor.fill("SELECT * FROM c WHERE ");
  await editor.press("Control+End");
  await editor.pressSequentially("c.Us");
  await page.getByRole("option", { name: "UserId" }).click();
  await editor.pressSequentially(" = startsw");
  await editor.press("Enter");
  assert.equal(await editor.inputValue(), "SELECT * FROM c WHERE c.UserId = STARTSWITH()");
  await page.getByRole("button", { name: "Recent…" }).click();
  assert.ok(await page.locator(".recent li").count() >= 3);
  quiet();
});

test("a split is watched until the picture shows two partitions", async () => {
  await create("shop", "growing", 1);
  const page = await enter("#/db/shop/coll/growing/partitions");
  await page.locator(".ring .caption", { hasText: /^1$/ }).waitFor();
  await picture(page, "partitions-before");
  // By itself, as it fills: a partition of this server is full with 10 MB.
  await fill("shop", "growing", 80, () => ({ text: "x".repeat(150_000) }));
  await eventually(async () => assert.ok(await page.locator(".ring .segment").count() >= 2), 60_000);
  await page.locator(".events li", { hasText: "became" }).first().waitFor();
  await page.getByRole("textbox", { name: "TenantId" }).fill("Fabrikam");
  await page.getByRole("button", { name: "Find" }).click();
  await page.getByText(/is in \d+ partitions? of/).waitFor();
  assert.ok(await page.locator(".ring .key").count() >= 1);
  await picture(page, "partitions");

  // By the button, and back.
  await create("shop", "steady", 1, {}, 1000);
  await visit(page, "#/db/shop/coll/steady/partitions", ".partitiontable tbody tr");
  await page.getByRole("button", { name: /^Split partition/ }).click();
  await page.getByLabel("Hashed key at which the second part begins").fill("20");
  await page.locator("dialog").getByRole("button", { name: "Split" }).click();
  await page.locator(".ring .caption", { hasText: /^2$/ }).waitFor();
  assert.equal(await page.locator(".ring .segment").count(), 2);
  await page.getByRole("button", { name: /^Merge partitions/ }).click();
  await page.locator("dialog").getByRole("button", { name: "Merge" }).click();
  await page.locator(".ring .caption", { hasText: /^1$/ }).waitFor();
  quiet();
});

test("settings: indexing, time to live, throughput, limits", async () => {
  const page = await enter("#/db/shop/coll/sessions/settings");
  const policy = page.locator(".settings textarea");
  await policy.waitFor();
  await picture(page, "settings");
  await policy.fill(JSON.stringify({ ...JSON.parse(await policy.inputValue()), compositeIndexes: [[{ path: "/a", order: "ascending" }, { path: "/b", order: "descending" }]] }));
  await page.locator(".card.wide").getByRole("button", { name: "Save" }).click();
  await page.getByText("Indexing policy saved.").waitFor();
  const card = (title) => page.locator(".card", { has: page.getByRole("heading", { name: title }) });
  await card("Time to live, and versions").getByLabel("Items expire").selectOption("-1");
  await card("Time to live, and versions").getByRole("button", { name: "Save" }).click();
  await page.getByText("Time to live saved.").waitFor();
  await card("Throughput").getByLabel("Request units per second").fill("12000");
  await card("Throughput").getByRole("button", { name: "Save" }).click();
  await page.getByText("Throughput saved.").waitFor();
  await card("Limits").getByLabel("Logical partition bytes").fill("3000000");
  await card("Limits").getByRole("button", { name: "Save" }).click();
  await page.getByText("Limits saved.").waitFor();
  const made = (await call("GET", "/dbs/shop/colls/sessions")).body;
  assert.equal(made.defaultTtl, -1);
  assert.equal(made.indexingPolicy.compositeIndexes[0][1].order, "descending");
  assert.equal((await admin("GET", "/limits?database=shop&container=sessions")).body.limits.logicalPartitionBytes, 3000000);
  quiet();
});

test("scripts are written and run", async () => {
  const page = await enter("#/db/shop/coll/sessions/procedures/new");
  await page.getByLabel("Id", { exact: true }).fill("hello");
  await page.keyboard.press("Control+s");
  await page.getByText("The stored procedure hello is saved.").waitFor();
  for (const [level, value] of [["TenantId", "Contoso"], ["UserId", "Alice"], ["SessionId", "0000"]]) await page.getByRole("textbox", { name: level }).fill(value);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".output .lines", { hasText: "hello world" }).waitFor();
  await picture(page, "scripts");
  for (const [part, id, code] of [["triggers", "stamp", undefined], ["functions", "twice", "function twice(n) { return 2 * n; }"]]) {
    await visit(page, `#/db/shop/coll/sessions/${part}/new`, ".scripts .detail:not([hidden])");
    await page.getByLabel("Id", { exact: true }).fill(id);
    if (code) await page.locator(".scripts textarea").first().fill(code);
    await page.keyboard.press("Control+s");
    await page.locator(".scriptname", { hasText: id }).waitFor();
  }
  quiet();
});

test("the change feed shows changes as they happen", async () => {
  const page = await enter("#/db/shop/coll/sessions/feed");
  await page.getByLabel("Start", { exact: true }).first().selectOption("now");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Waiting for changes.").waitFor();
  await fill("shop", "sessions", 3, (n) => ({ id: `fresh-${n}`, TenantId: "Contoso" }));
  await page.locator(".feed .grid .body .row", { hasText: "fresh-2" }).click();
  assert.match(await page.locator(".feed textarea").inputValue(), /"fresh-2"/);
  await picture(page, "feed");
  quiet();
});

test("users, permissions, and a page signed in with a resource token", async () => {
  const page = await enter("#/db/shop/users");
  await page.getByRole("button", { name: "New User" }).click();
  await page.getByLabel("User id").fill("reader");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.getByRole("button", { name: "New Permission" }).click();
  await page.getByLabel("Permission id").fill("sessions");
  await page.getByLabel("Container", { exact: true }).selectOption("sessions");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.getByRole("button", { name: "New token…" }).click();
  await picture(page, "users");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  const token = await page.locator("dialog pre").textContent();
  assert.match(token, /^type=resource&/);

  const other = await open("/_explorer/#/db/shop/coll/sessions/items");
  await other.getByLabel("Account key").fill(token);
  await other.keyboard.press("Enter");
  await other.getByLabel("Database of the token").fill("shop");
  await other.getByLabel("Container of the token").fill("sessions");
  await other.getByRole("button", { name: "Sign in", exact: true }).click();
  await other.locator(".grid .body .row").first().click();
  await other.locator(".itembody").waitFor();
  for (const name of ["New Container", "New Item"]) assert.equal(await other.getByRole("button", { name }).isDisabled(), true, name);
  assert.equal(await other.locator(lastItem).getAttribute("readonly"), "");
  quiet();
});

test("a read-only key reads, and what would write is greyed out", async () => {
  const keys = (await admin("POST", "/listKeys")).body;
  const page = await enter("#/db/shop/coll/sessions/items", `AccountEndpoint=http://localhost/;AccountKey=${keys.primaryReadonlyMasterKey};`);
  await page.locator(".grid .body .row").first().click();
  await page.locator(".itembody").waitFor();
  for (const name of ["New Container", "New Item", "Upload…", "Save", "Duplicate"]) assert.equal(await page.getByRole("button", { name }).isDisabled(), true, name);
  await visit(page, "#/db/shop/coll/sessions/partitions", ".partitiontable tbody tr");
  assert.equal(await page.locator(".partitiontable tbody tr").count() >= 8, true);
  assert.equal(await page.getByRole("button", { name: "Merge all…" }).isDisabled(), true);
  await visit(page, "#/db/shop/coll/sessions/settings", ".settings textarea");
  for (const save of await page.getByRole("button", { name: "Save" }).all()) assert.equal(await save.isDisabled(), true);
  assert.equal(await page.getByRole("button", { name: "Delete container…" }).isDisabled(), true);
  quiet();
});

test("copy jobs, metrics, account and databases", async () => {
  await call("POST", "/dbs/shop/colls", { id: "flat", partitionKey: { paths: ["/id"] } });
  const page = await enter("#/copyjobs");
  await page.getByRole("button", { name: "New Copy Job" }).click();
  await page.getByLabel("Name").fill("flatten");
  await page.getByLabel("From").selectOption("shop/sessions");
  await page.getByLabel("To", { exact: true }).selectOption("shop/flat");
  await page.getByRole("button", { name: "OK", exact: true }).click();
  await page.locator("tr", { hasText: "flatten" }).locator("td", { hasText: "Completed" }).waitFor();
  await picture(page, "copy-jobs");
  await visit(page, "#/metrics", ".plots .plot");
  await eventually(async () => assert.match(await page.locator(".plot", { hasText: "Items" }).first().locator(".legend").textContent(), /\d/));
  await eventually(async () => assert.ok((await page.locator(".plot .line").first().getAttribute("points")).split(" ").length >= 3));
  await picture(page, "metrics");
  await visit(page, "#/account", ".settings");
  await page.getByRole("button", { name: "Show keys" }).click();
  await page.locator("td.mono").nth(3).waitFor();
  assert.ok(await page.getByText("No query has run for more than a second.").isVisible());
  await visit(page, "#/db/shop", ".cards .name");
  await picture(page, "database");
  await call("POST", "/dbs", { id: "gone" });
  await visit(page, "#/db/gone", ".settings");
  await page.getByRole("button", { name: "Delete database…" }).click();
  assert.equal(await page.locator("dialog").getByRole("button", { name: "Delete" }).isDisabled(), true);
  await page.locator("dialog input").fill("gone");
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Database gone deleted.").waitFor();
  quiet();
});

test("the keyboard reaches everything, without a pointer", async () => {
  const page = await open();
  await page.getByRole("button", { name: "Sign in with the emulators’ key" }).waitFor();
  await page.keyboard.press("Enter"); // It has the focus.
  await page.locator(".tree [role=treeitem]").first().waitFor();
  await page.locator('.tree [role=treeitem][tabindex="0"]').focus();
  for (const press of ["End", "Home"]) await page.keyboard.press(press);
  await page.keyboard.type("s"); // shop
  await page.keyboard.press("ArrowRight");
  await page.locator('.tree [aria-level="2"]', { hasText: "sessions" }).waitFor();
  await page.keyboard.type("sess");
  await page.keyboard.press("Enter");
  await page.locator(".grid .body .row").first().waitFor();
  await page.locator(".grid").focus();
  for (const press of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(press);
  await page.locator(".itembody .about", { hasText: "read for" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("sessions query");
  await page.keyboard.press("Enter");
  await page.locator(".query").waitFor();
  await page.locator(queryEditor).focus();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab"); // It leaves the editor.
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Run");
  await page.keyboard.press("Enter");
  await page.locator(".results .grid .body .row").first().waitFor();
  await page.keyboard.press("?");
  await page.getByText("Keyboard shortcuts").waitFor();
  quiet();
});

test("10,000 rows are a few elements", async () => {
  await create("shop", "many", 4);
  await fillBatches("shop", "many", 100);
  const page = await enter("#/db/shop/coll/many/query");
  await page.getByLabel("Rows of a page").selectOption("1000");
  await page.locator(queryEditor).fill("SELECT c.id, c.TenantId, c.minutes FROM c");
  await page.keyboard.press("Shift+Enter");
  await page.getByText("1,000 rows, more available").waitFor();
  for (let n = 2; n <= 10; n++) {
    await page.getByRole("button", { name: "Load more" }).click();
    await page.getByText(`${n === 10 ? "10,000" : `${n},000`} rows`).waitFor();
  }
  const grid = page.locator(".results .grid");
  assert.equal(await grid.getAttribute("aria-rowcount"), "10001");
  assert.ok(await grid.locator(".row").count() < 100);
  await grid.focus();
  await page.keyboard.press("End");
  const took = await page.evaluate(async () => {
    const node = document.querySelector(".results .grid"), frames = [], tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask" });
    for (let i = 0; i < 60; i++) {
      const begin = performance.now();
      node.scrollTop = i * 4800;
      await new Promise(requestAnimationFrame);
      frames.push(performance.now() - begin);
    }
    await new Promise((resume) => setTimeout(resume, 50));
    return { half: frames.sort((a, b) => a - b)[30], tasks };
  });
  console.log(`# scrolling 10,000 rows: half of 60 jumps were drawn within ${took.half.toFixed(1)} ms; tasks of more than 50 ms: ${took.tasks.length}`);
  // A busy machine delays some; a table that has an element for each row delays every jump.
  assert.ok(took.tasks.length <= 15, `of 60 jumps ${took.tasks.length} kept the page busy for more than 50 ms: ${took.tasks.map(Math.round)}`);
  quiet();
});

test("the first paint, and a narrow window", async () => {
  const page = await open();
  await page.getByRole("button", { name: "Sign in with the emulators’ key" }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const weight = await page.evaluate(() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).reduce((n, e) => n + e.transferSize, 0));
  console.log(`# first paint after ${paint?.toFixed(0)} ms; ${(weight / 1024).toFixed(1)} KB transferred`);
  const phone = await enter("#/db/shop/coll/sessions/items", undefined, { width: 390, height: 844 });
  await phone.locator(".grid .body .row").first().waitFor();
  for (const [place, selector] of [["items", ".grid .body .row"], ["query", ".query"], ["partitions", ".partitiontable tbody tr"], ["feed", ".feed"], ["settings", ".settings textarea"]]) {
    await visit(phone, `#/db/shop/coll/sessions/${place}`, selector);
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.querySelector("#main").scrollWidth <= innerWidth), `${place} is wider than the window: ${await phone.evaluate(() => [...document.querySelectorAll("#main *")].filter((n) => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest(".grid, .tabs, .tablewrap, .scroller")).map((n) => n.className).slice(0, 5).join("; "))}`);
    await picture(phone, `phone-${place}`);
  }
  assert.equal(event(0).id, "e-0");
  quiet();
});
