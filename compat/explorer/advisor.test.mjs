// The key advisor's page, on the data of decan demo: run.sh has started its server.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { admin, browser, call, demo, enter, eventually, picture, troubles } from "./page.mjs";

after(() => browser.close());

const quiet = () => assert.deepEqual(troubles.splice(0), []);
const place = "#/db/demo/coll/by_tenant/advisor";
const ofDemo = (method, path, body, headers) => call(method, path, body, headers, demo.endpoint);

test("keys are proposed and compared side by side, with reasons in words, for a workload by hand", async () => {
  const page = await enter(place, undefined, { base: demo.endpoint });
  await page.getByRole("button", { name: "Compare" }).waitFor();

  // What is wrong is said before and by the server.
  await page.getByRole("button", { name: "Add query" }).click();
  await page.getByLabel("Query", { exact: true }).fill("SELECT * FROM c WHERE c.UserId = @user");
  await page.getByLabel("@user =").fill("Ann");
  await page.getByRole("button", { name: "Compare" }).click();
  await page.locator(".error", { hasText: "@user: give a path" }).waitFor();
  await page.getByLabel("@user =").fill("/UserId");
  await page.getByLabel("Query", { exact: true }).fill("SELECT * FORM c WHERE c.UserId = @user");
  await page.getByRole("button", { name: "Compare" }).click();
  await page.locator(".error", { hasText: "is not valid" }).waitFor();
  await page.getByLabel("Query", { exact: true }).fill("SELECT * FROM c WHERE c.UserId = @user");
  await page.getByLabel("Executions per second").fill("20");
  await page.getByLabel("Writes per second").fill("50");
  await page.getByLabel("Grows by factors").fill("10, 100");
  await page.getByLabel("Largest value: path").fill("/TenantId");
  await page.getByLabel("Largest value: percent").fill("60");

  // Candidates of one's own: the present key is compared with them.
  for (const key of ["/UserId", "/TenantId, /UserId, /SessionId"]) {
    await page.getByRole("button", { name: "Add candidate" }).click();
    await page.getByLabel("Candidate", { exact: true }).last().fill(key);
  }
  await page.keyboard.press("Enter");
  const table = page.locator(".comparison");
  await table.locator("thead th").nth(2).waitFor();
  assert.equal(await table.locator("thead th").count(), 3);
  assert.deepEqual((await table.locator("tbody th").allTextContents()), [
    "Values of each level", "Largest logical partition", "Storage of logical partitions", "RU/s of logical partitions", "Physical partitions", "Storage of physical partitions", "RU/s of physical partitions",
    "RU/s needed", "Busiest partition uses", "Highest ingestion", "Queries", "Partitions that a query asks", "SELECT * FROM c WHERE c.UserId = @user", "At 10 times the data", "At 100 times the data", "Reasons"]);
  const column = async (title) => await table.locator("thead th", { has: page.getByText(title, { exact: true }) }).first().evaluate((n) => n.cellIndex);
  const cell = async (row, at) => (await table.locator("tbody tr", { has: page.getByRole("rowheader", { name: row, exact: true }) }).locator("td").nth(at - 1).textContent());
  const now = await table.locator("thead th", { hasText: "now" }).evaluate((n) => n.cellIndex);
  assert.match(await cell("Queries", now), /100 % fan-out/);
  assert.match(await cell("Reasons", now), /Refused or too slow.*S26/s); // Contoso is too large for one key.
  const user = await column("UserId");
  assert.match(await cell("Queries", user), /100 % single partition/);
  assert.match(await cell("SELECT * FROM c WHERE c.UserId = @user", user), /RU.*single partition, 1 of/s);
  assert.ok(await table.locator("thead th").first().getByText("best").isVisible());
  assert.ok(await page.getByRole("button", { name: /^Apply/ }).count() === 2, "the present key cannot be applied");
  await page.locator(".proposal .findings li").first().waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await picture(page, "advisor", 1720);

  // Without a candidate, keys are proposed.
  for (const _ of [1, 2]) await page.getByRole("button", { name: "Remove this candidate" }).first().click();
  await page.keyboard.press("Shift+Enter");
  await eventually(async () => assert.ok(await table.locator("thead th").count() > 3));
  await page.getByText("Properties of the sample").click();
  assert.match(await page.locator(".properties tbody tr", { hasText: "/UserId" }).textContent(), /100 %$/); // asked for by all queries
  quiet();
});

test("the workload is recorded, the key applied, and the copy watched", async () => {
  const page = await enter(place, undefined, { base: demo.endpoint });
  await page.getByRole("button", { name: "Record from clients" }).click();
  await page.getByText(/^Recording for \d+ second/).waitFor();
  assert.equal(await page.getByRole("button", { name: "Compare" }).isDisabled(), true, "the sample would be recorded");
  const tenant = (await ofDemo("POST", "/dbs/demo/colls/by_tenant/docs", { query: "SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.kind = 'click'" }, { "content-type": "application/query+json", "x-ms-documentdb-isquery": "True", "x-ms-documentdb-partitionkey": '["Contoso"]' }));
  assert.equal(tenant.status, 200, JSON.stringify(tenant.body));
  await page.getByRole("button", { name: "Stop recording" }).click();
  await page.getByText("Recorded 1 query").waitFor();
  assert.match(await page.getByLabel("Query", { exact: true }).inputValue(), /c\.TenantId = @value1/);
  assert.equal(await page.getByLabel("@value1 =").inputValue(), "/TenantId");

  // A recording of another page is found, and can be ended here.
  assert.equal((await admin("POST", "/workload?database=demo&container=by_tenant", undefined, demo.admin)).status, 204);
  await page.getByRole("button", { name: "Record from clients" }).click();
  await page.getByText("A recording that was begun earlier is running").waitFor();
  await page.getByRole("button", { name: "Stop recording" }).click();
  await page.getByText("Recorded 0 queries").waitFor();

  await page.getByRole("button", { name: "Add candidate" }).click();
  await page.getByLabel("Candidate", { exact: true }).fill("/TenantId, /UserId, /SessionId");
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("button", { name: "Apply /TenantId, /UserId, /SessionId" }).click();
  await page.getByLabel("New container").fill("by_user");
  await page.getByRole("button", { name: "Make and copy" }).click();
  await page.locator("dialog .error", { hasText: "There is a container by_user already" }).waitFor();
  await page.getByLabel("New container").fill("rekeyed");
  await picture(page, "advisor-apply");
  await page.getByRole("button", { name: "Make and copy" }).click();
  await page.getByText(/^Completed: ([\d,]+) of \1 items/).waitFor({ timeout: 60_000 });
  await picture(page, "advisor-copied");
  const source = (await ofDemo("GET", "/dbs/demo/colls/by_tenant")).body, made = (await ofDemo("GET", "/dbs/demo/colls/rekeyed")).body;
  assert.deepEqual(made.partitionKey, { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 });
  assert.deepEqual(made.indexingPolicy, source.indexingPolicy);
  const items = async (container) => (await admin("GET", `/partitions?database=demo&container=${container}`, undefined, demo.admin)).body.partitions.reduce((n, p) => n + p.documents, 0);
  assert.equal(await items("rekeyed"), await items("by_tenant"));
  await page.getByRole("link", { name: "Open rekeyed" }).click();
  await page.locator(".grid .body .row").first().waitFor();
  assert.equal(await page.locator(".keyfields input").count(), 3);
  quiet();
});

test("a read-only key is told that it cannot ask the advisor", async () => {
  const keys = (await admin("POST", "/listKeys", undefined, demo.admin)).body;
  const page = await enter(place, keys.primaryReadonlyMasterKey, { base: demo.endpoint });
  await page.getByText("This needs the account key: it may change things.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Compare" }).isDisabled(), true);
  assert.equal(await page.getByRole("button", { name: "Record from clients" }).isDisabled(), true);
  quiet();
});
