// Tables of the Cassandra API: made and filled over CQL, and shown by the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { admin, browser, enter, picture, troubles, visit } from "./page.mjs";
import { cql } from "./cql.mjs";

const quiet = () => assert.deepEqual(troubles.splice(0), []);

before(async () => {
  await cql("CREATE KEYSPACE fleet WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    `CREATE TABLE fleet.readings ("TenantId" text, vehicle uuid, day date, seq int, speed double, tags set<text>, note text, owner text static,
      PRIMARY KEY (("TenantId", vehicle), day, seq)) WITH CLUSTERING ORDER BY (day DESC, seq ASC) AND comment = 'speeds of vehicles'`);
  const rows = [];
  for (let n = 0; n < 60; n++) {
    const tenant = n % 3 ? "Contoso" : "Fabrikam", vehicle = `00000000-0000-4000-8000-00000000000${n % 2}`;
    rows.push(`INSERT INTO fleet.readings ("TenantId", vehicle, day, seq, speed, tags, note) VALUES ('${tenant}', ${vehicle}, '2026-11-0${1 + n % 4}', ${n}, ${n / 4}, {'a', 'b'}, '${n === 0 ? "<img src=x onerror=alert(1)>" : `it''s ${n}`}')${n === 1 ? " USING TTL 86400" : ""}`);
  }
  await cql(...rows, `UPDATE fleet.readings SET owner = 'Ann' WHERE "TenantId" = 'Contoso' AND vehicle = 00000000-0000-4000-8000-000000000001`);
});
after(() => browser.close());

test("rows of a table by its partition key and clustering columns; nothing writes", async () => {
  const page = await enter("#/db/fleet/coll/readings");
  await page.locator(".grid .body .row").first().waitFor();
  await page.getByText("60 rows ·").waitFor();
  assert.deepEqual((await page.locator(".grid .head [role=columnheader]").allTextContents()), ["TenantId", "vehicle", "day ↓", "seq ↑", "owner", "note", "speed", "tags"]);
  assert.equal(await page.getByRole("button", { name: /Save|Delete|New Item|Upload/ }).count(), 0);

  // The tree: the columns of the partition key, then the clustering columns.
  await page.locator(".keytree button", { hasText: "Count" }).click();
  await page.locator('.keytree [aria-level="1"]', { hasText: "Contoso" }).click();
  await page.locator('.keytree [aria-level="2"]').first().click();
  await page.getByText("20 rows ·").waitFor();
  await page.getByText("1 partition asked").waitFor();
  const days = page.locator('.keytree [aria-level="3"] .label');
  await days.first().waitFor();
  const shown = await days.allTextContents();
  assert.deepEqual(shown, [...shown].sort().reverse(), "not in the order of the table");
  await page.locator('.keytree [aria-level="3"]').first().click();
  await page.locator(".listfoot", { hasText: "10 rows ·" }).waitFor();
  assert.equal(await page.getByLabel("day", { exact: true }).inputValue(), shown[0]);

  // One row, with the times of its cells.
  await page.locator(".grid .body .row").first().click();
  assert.match(await page.locator(".itembody textarea").inputValue(), /"TenantId": "Contoso"/);
  assert.equal(await page.locator(".itembody textarea").getAttribute("readonly"), "");
  await page.locator(".itembody tbody tr", { hasText: "speed" }).locator("td", { hasText: /^20\d\d-/ }).waitFor();
  await picture(page, "table-rows");

  // A range of a clustering column, and a key that is not given from the left.
  await page.getByRole("combobox", { name: "Relation of day" }).selectOption("<=");
  await page.getByLabel("day", { exact: true }).fill("2026-11-02");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".listfoot", { hasText: "10 rows ·" }).waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByText("60 rows ·").waitFor();
  await page.getByLabel("TenantId", { exact: true }).fill("Contoso");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("Give vehicle as well").waitFor();
  await page.getByLabel("vehicle", { exact: true }).fill("no uuid");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".items > .error:not(:empty)").waitFor(); // The server says what is wrong.

  // Pages.
  await page.getByRole("combobox", { name: "Rows of a page" }).selectOption("25");
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByText("25 rows, more available").waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("50 rows, more available").waitFor();
  quiet();
});

test("columns, keys and clustering order of a table", async () => {
  const page = await enter("#/db/fleet/coll/readings/columns");
  const rows = page.locator(".columntable tbody tr");
  await rows.nth(7).waitFor();
  const cells = async (n) => (await rows.nth(n).locator("td").allTextContents());
  assert.deepEqual(await cells(0), ["TenantId", "text", "partition key, level 1", ""]);
  assert.deepEqual(await cells(1), ["vehicle", "uuid", "partition key, level 2", ""]);
  assert.deepEqual(await cells(2), ["day", "date", "clustering 1", "descending"]);
  assert.deepEqual(await cells(3), ["seq", "int", "clustering 2", "ascending"]);
  assert.match((await cells(4))[2], /^static/);
  await page.getByText("speeds of vehicles", { exact: true }).waitFor();
  assert.match(await page.locator(".card textarea").inputValue(), /CREATE TABLE fleet.readings/);
  await picture(page, "table-columns");
  quiet();
});

test("statements that read a table, with the partitions asked", async () => {
  const page = await enter("#/db/fleet/coll/readings/cql");
  const editor = page.locator(".ask textarea");
  await editor.fill(`SELECT seq, note FROM fleet.readings WHERE "TenantId" = 'Fabrikam' AND vehicle = 00000000-0000-4000-8000-000000000000`);
  await page.keyboard.press("Shift+Enter");
  await page.locator(".results .grid .body .row").first().waitFor();
  await page.getByText("10 rows ·").waitFor();
  await page.locator(".ring .caption", { hasText: "1 of 1" }).waitFor();
  await picture(page, "table-query");
  await editor.fill("DROP TABLE fleet.readings");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Only SELECT JSON and DESCRIBE").waitFor();
  await editor.fill("SELECT * FROM fleet.readings WHERE speeed = 1");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".query > .error", { hasText: "speeed" }).waitFor();
  quiet();
});

test("throughput and partitions of a table", async () => {
  const page = await enter("#/db/fleet/coll/readings/settings");
  await page.getByRole("heading", { name: "Throughput" }).waitFor();
  await page.getByText("Only CQL drops a table.").waitFor();
  await visit(page, "#/db/fleet/coll/readings/partitions", ".partitiontable tbody tr");
  await page.locator(".summary", { hasText: /1 partition · \d+ items/ }).waitFor();
  quiet();
});

test("a read-only key does not see rows of tables, and is told why", async () => {
  const keys = (await admin("POST", "/listKeys")).body;
  const page = await enter("#/db/fleet/coll/readings", keys.primaryReadonlyMasterKey);
  await page.getByText("Rows and columns are not shown. This needs the account key").waitFor();
  quiet();
});
