// What axe-core finds on each screen, light and dark.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { cql } from "./cql.mjs";
import { browser, call, create, enter, fill, open, picture, visit } from "./page.mjs";

after(() => browser.close());

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function check(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} ${n.failureSummary?.replace(/\s+/g, " ").slice(0, 200)}`).join(" | ")}`);
  assert.deepEqual(serious, [], what);
}

for (const colorScheme of ["light", "dark"]) {
  test(`no serious violation, ${colorScheme}`, async () => {
    if (colorScheme === "light") {
      await cql("CREATE KEYSPACE axet WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE axet.t (k text, c int, v text, PRIMARY KEY (k, c))", "INSERT INTO axet.t (k, c, v) VALUES ('a', 1, 'x')");
      await create("axe", "events", 4, { changeFeedPolicy: { retentionDuration: 60 } });
      await fill("axe", "events", 120);
      await call("POST", "/dbs/axe/users", { id: "reader" });
      await call("POST", "/dbs/axe/users/reader/permissions", { id: "p", permissionMode: "Read", resource: "dbs/axe/colls/events" });
    }
    const options = { colorScheme, bypassCSP: true, reducedMotion: "reduce" };
    const signIn = await open("/_explorer/", options);
    await signIn.getByRole("button", { name: "Sign in with the emulators’ key" }).waitFor();
    await check(signIn, "sign-in");
    const page = await enter("#/", undefined, options);
    await page.locator(".cards .name").first().waitFor();
    await check(page, "home");
    await page.getByRole("button", { name: "New Container" }).first().click();
    await page.getByText("Advanced").click();
    await page.getByRole("button", { name: "Add vector path" }).click();
    await page.getByRole("button", { name: "Add text path" }).click();
    await check(page, "new container");
    await page.keyboard.press("Escape");
    const base = "#/db/axe/coll/events";
    await visit(page, `${base}/items`, ".grid .body .row");
    await page.locator(".keytree button", { hasText: "Count" }).click();
    await page.locator(".keytree [role=treeitem]").first().click();
    await page.locator('.keytree [aria-level="2"]').first().waitFor();
    await page.locator(".grid .body .row").first().click();
    await page.locator(".itembody .about", { hasText: "read for" }).waitFor();
    await page.locator(".itembody textarea").fill('{"a": 1,}');
    await check(page, "items");
    if (colorScheme === "dark") await picture(page, "items-dark");
    await page.getByRole("button", { name: "Discard" }).click();
    await visit(page, `${base}/query`, ".query");
    await page.keyboard.press("Shift+Enter");
    await page.locator(".results .grid .body .row").first().waitFor();
    await page.locator(".ring .caption", { hasText: "of" }).waitFor();
    await check(page, "query");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.locator(".plan").waitFor();
    await check(page, "plan");
    await visit(page, `${base}/partitions`, ".partitiontable tbody tr");
    await check(page, "partitions");
    if (colorScheme === "dark") await picture(page, "partitions-dark");
    for (const [place, selector] of [[`${base}/feed`, ".feed"], [`${base}/procedures/new`, ".scripts .detail:not([hidden])"], [`${base}/settings`, ".settings textarea"], ["#/db/axe", ".cards .name"], ["#/db/axe/users", "td"], ["#/copyjobs", ".screen"], ["#/metrics", ".plots"], ["#/account", ".settings"], ["#/roles", ".card td"], [`${base}/advisor`, ".advisor .workload"], ["#/db/axet/coll/t/rows", ".grid .body .row"], ["#/db/axet/coll/t/cql", ".query"], ["#/db/axet/coll/t/columns", ".columntable td"]]) {
      await visit(page, place, selector);
      if (place.endsWith("advisor")) {
        await page.getByRole("button", { name: "Add query" }).click();
        await page.getByLabel("Query", { exact: true }).fill("SELECT * FROM c WHERE c.UserId = @u AND c.total > 900");
        await page.getByLabel("@u =").fill("/UserId");
        await page.getByRole("button", { name: "Compare" }).click();
        await page.locator(".comparison thead th").first().waitFor();
        if (colorScheme === "dark") await picture(page, "advisor-dark", 1400);
      }
      await page.evaluate(() => Promise.all(document.getAnimations().map((a) => a.finished)));
      await check(page, place);
    }
    if (colorScheme === "light") {
      await page.setViewportSize({ width: 390, height: 844 });
      for (const [place, selector] of [[`${base}/items`, ".grid .body .row"], [`${base}/query`, ".query"], [`${base}/partitions`, ".partitiontable tbody tr"], [`${base}/settings`, ".settings textarea"], [`${base}/advisor`, ".comparison"], ["#/db/axet/coll/t/rows", ".grid .body .row"], ["#/roles", ".card td"]]) {
        await visit(page, place, selector);
        await check(page, `${place} on a phone`);
        if (place.endsWith("advisor")) await picture(page, "phone-advisor");
      }
      await page.setViewportSize({ width: 1360, height: 820 });
    }
    await page.keyboard.press("Control+k");
    await page.locator(".palette li").first().waitFor();
    await check(page, "search");
  });
}
