// What holds on every screen: the keyboard reaches everything, nothing jumps while a screen
// is built, and no step keeps the page busy for long. And all that a new container can have.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { admin, browser, call, create, enter, eventually, fill, picture, troubles, visit } from "./page.mjs";
import { cql } from "./cql.mjs";

const quiet = () => assert.deepEqual(troubles.splice(0), []);
const base = "#/db/reach/coll/events", table = "#/db/reachcql/coll/t";

// Each screen with an element that shows that it is there.
const screens = [
  ["#/", ".cards .name"], ["#/db/reach", ".cards .name"], ["#/db/reach/users", "td"], [`${base}/items`, ".grid .body .row"], [`${base}/query`, ".query"], [`${base}/partitions`, ".partitiontable tbody tr"],
  [`${base}/feed`, ".feed"], [`${base}/procedures/new`, ".scripts .detail:not([hidden])"], [`${base}/triggers/new`, ".scripts .detail:not([hidden])"], [`${base}/functions/new`, ".scripts .detail:not([hidden])"],
  [`${base}/advisor`, ".advisor .workload"], [`${base}/settings`, ".settings textarea"], [`${table}/rows`, ".grid .body .row"], [`${table}/cql`, ".query"], [`${table}/columns`, ".columntable td"],
  [`${table}/settings`, ".settings"], ["#/metrics", ".plots .plot"], ["#/copyjobs", ".screen"], ["#/roles", ".card td"], ["#/account", ".settings"],
];

before(async () => {
  await create("reach", "events", 2, { changeFeedPolicy: { retentionDuration: 60 } });
  await fill("reach", "events", 60);
  await call("POST", "/dbs/reach/users", { id: "reader" });
  await call("POST", "/dbs/reach/users/reader/permissions", { id: "p", permissionMode: "Read", resource: "dbs/reach/colls/events" });
  await cql("CREATE KEYSPACE reachcql WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE reachcql.t (k text, c int, v text, PRIMARY KEY (k, c))", "INSERT INTO reachcql.t (k, c, v) VALUES ('a', 1, 'x')");
});
after(() => browser.close());

/** Waits until the page has sent no request for a tenth of a second; screens that refresh do so each second. */
async function settled(page) {
  await page.evaluate(async () => {
    for (let seen = -1; seen !== performance.getEntriesByType("resource").length;) {
      seen = performance.getEntriesByType("resource").length;
      await new Promise((resume) => setTimeout(resume, 100));
    }
  });
}

test("Tab reaches every control of every screen, and shows where it is", async () => {
  const page = await enter();
  for (const [place, selector] of screens) {
    await visit(page, place, selector);
    await page.evaluate(() => document.querySelector("#main").focus());
    const wanted = await page.evaluate(() => {
      const main = document.querySelector("#main");
      const shown = (n) => n.checkVisibility({ visibilityProperty: true }) && !n.closest("details:not([open]) > :not(summary)");
      const mouse = [...main.querySelectorAll("*")].filter((n) => getComputedStyle(n).cursor === "pointer" && shown(n) && !n.closest("a, button, summary, label, select, input, [role=treeitem], [role=row], [role=option], [tabindex], .ring, .keybar"));
      const all = [...main.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((n) => shown(n) && !n.disabled && n.tabIndex >= 0 && !(n.type === "radio" && !n.checked));
      globalThis.reach = new Map(all.map((n, i) => [n, i]));
      all[0]?.focus();
      return { mouse: mouse.map((n) => n.outerHTML.slice(0, 120)), count: all.length };
    });
    assert.deepEqual(wanted.mouse, [], `${place}: only a pointer reaches these`);
    assert.ok(wanted.count > 0 || place === "#/metrics", place); // It only shows.
    const seen = new Set();
    for (let n = 0; n < wanted.count + 15 && seen.size < wanted.count; n++) {
      const at = await page.evaluate(() => {
        const node = document.activeElement, style = getComputedStyle(node), around = node.closest(".editor, .grid");
        const visible = style.outlineStyle !== "none" || around || style.boxShadow !== "none" || node === document.body; // outside the page
        return { at: globalThis.reach.get(node), editor: Boolean(node.closest(".editor")) && !node.readOnly, visible, html: node.outerHTML.slice(0, 100) };
      });
      if (at.at !== undefined) seen.add(at.at);
      assert.ok(at.visible, `${place}: the focus is not shown on ${at.html}`);
      if (at.editor) await page.keyboard.press("Escape"); // Tab indents in an editor.
      await page.keyboard.press("Tab");
    }
    const left = await page.evaluate((reached) => [...globalThis.reach].filter(([n, i]) => n.isConnected && !reached.includes(i)).map(([n]) => n.outerHTML.slice(0, 120)), [...seen]);
    assert.deepEqual(left, [], `${place}: Tab does not reach these`);
  }
  quiet();
});

test("roles, tables and the advisor by the keyboard alone", async () => {
  const page = await enter("#/roles");
  const to = async (name, options) => {
    const target = page.getByRole("button", { name, exact: true, ...options });
    await target.waitFor();
    for (let n = 0; n < 60 && !(await target.evaluate((node) => node === document.activeElement)); n++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
  };
  await page.locator(".card td").first().waitFor();
  await to("New Role");
  await page.locator("dialog").waitFor();
  await page.keyboard.type("By the keyboard"); // The name has the focus.
  for (let n = 0; n < 2; n++) await page.keyboard.press("Tab");
  await page.keyboard.press("Space"); // the first action
  await page.keyboard.press("Enter");
  await page.getByText("Role By the keyboard created.").waitFor();
  await to("Delete the role By the keyboard");
  await page.keyboard.press("Enter"); // Delete has the focus.
  await eventually(async () => assert.equal(await page.locator("tr", { hasText: "By the keyboard" }).count(), 0));

  // What has the focus keeps it while the screen refreshes.
  await visit(page, `${base}/partitions`, ".partitiontable tbody tr");
  for (const kept of [page.getByRole("textbox", { name: "TenantId" }), page.locator(".partitionname").first(), page.getByRole("button", { name: /^Split partition/ }).first(), page.getByLabel("The picture shows")]) {
    await kept.focus();
    for (let n = 0; n < 2; n++) await page.waitForResponse((r) => r.url().includes("admin/partitions"));
    assert.ok(await kept.evaluate((node) => node === document.activeElement), `the focus is lost: ${kept}`);
  }

  await page.keyboard.press("Control+k");
  await page.keyboard.type("reachcql rows");
  await page.keyboard.press("Enter");
  await page.locator(".grid .body .row").first().waitFor();
  await page.locator(".grid").focus();
  await page.keyboard.press("Enter");
  await page.locator(".itembody textarea").waitFor();

  await page.keyboard.press("Control+k");
  await page.keyboard.type("reach advisor");
  await page.keyboard.press("Enter");
  await page.locator(".advisor").waitFor();
  await page.keyboard.press("Shift+Enter");
  await page.locator(".comparison thead th").first().waitFor();
  await page.locator(".comparison").focus(); // It scrolls with the arrow keys.
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Candidates side by side");
  quiet();
});

test("nothing jumps while a screen is built, and no step takes long", async () => {
  const page = await enter();
  await page.evaluate(() => {
    globalThis.shifts = [];
    globalThis.tasks = [];
    new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) globalThis.shifts.push({ value: e.value, what: e.sources.map((s) => s.node?.className ?? s.node?.nodeName).join(" ") }); }).observe({ type: "layout-shift" });
    new PerformanceObserver((list) => globalThis.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask" });
  });
  let worst = 0, longest = 0;
  for (const width of [1360, 390]) {
    await page.setViewportSize({ width, height: 820 });
    for (const [place, selector] of screens) {
      await page.evaluate(() => { globalThis.shifts.length = globalThis.tasks.length = 0; });
      await visit(page, place, selector);
      await page.evaluate(() => Promise.all(document.getAnimations().map((a) => a.finished)));
      await settled(page);
      const { shifts, tasks } = await page.evaluate(() => new Promise((resume) => requestAnimationFrame(() => requestAnimationFrame(() => resume({ shifts: globalThis.shifts, tasks: globalThis.tasks })))));
      const sum = shifts.reduce((n, s) => n + s.value, 0);
      worst = Math.max(worst, sum);
      longest = Math.max(longest, ...tasks);
      assert.ok(sum <= 0.1, `${place}, ${width} pixels wide: the layout shifts by ${sum.toFixed(3)}: ${shifts.filter((s) => s.value > 0.01).map((s) => `${s.value.toFixed(3)} ${s.what}`).join("; ")}`);
      if (width < 500) assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.querySelector("#main").scrollWidth <= innerWidth), `${place} is wider than a phone: ${await page.evaluate(() => [...document.querySelectorAll("#main *")].filter((n) => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest(".grid, .tabs, .tablewrap, .scroller")).map((n) => n.className).slice(0, 5).join("; "))}`);
    }
  }
  console.log(`# the greatest layout shift of a screen is ${worst.toFixed(3)}; the longest task took ${longest.toFixed(0)} ms`);
  quiet();
});

test("a new container has unique keys, time to live, shared and automatic throughput and an indexing policy", async () => {
  const page = await enter("#/db/reach");
  const ok = page.getByRole("button", { name: "OK", exact: true }), wrong = page.locator("dialog .error:not(:empty)");
  await page.getByRole("button", { name: "New Container" }).first().click();
  await page.getByLabel("Create new").check();
  await page.getByRole("textbox", { name: "Database id" }).fill("pooled");
  await page.getByLabel("Share throughput between").check();
  await page.getByText("Database throughput").waitFor();
  await page.getByLabel("Mode of throughput").selectOption("autoscale");
  await page.getByLabel("Request units per second").fill("4000");
  await page.getByLabel("Container id").fill("people");
  await page.getByLabel("Partition key, level 1").fill("TenantId"); // without the slash
  await ok.click();
  await wrong.filter({ hasText: "TenantId" }).waitFor(); // The server says what is wrong; the database exists by now.
  await page.getByLabel("Partition key, level 1").fill("/TenantId");
  for (const paths of ["/email", "/first, /last"]) {
    await page.getByRole("button", { name: "Add unique key" }).click();
    await page.getByLabel("Unique key", { exact: true }).last().fill(paths);
  }
  await page.getByText("Advanced").click();
  await page.getByLabel("Time to live").selectOption("n");
  await page.getByLabel("Seconds to live").fill("0");
  await ok.click();
  await wrong.filter({ hasText: /time to live|ttl/i }).waitFor();
  await page.getByLabel("Seconds to live").fill("7200");
  await page.getByLabel("Indexing", { exact: true }).selectOption("own");
  const policy = page.locator("dialog .editor textarea").first();
  await policy.fill('{"indexingMode": "sometimes"}');
  await ok.click();
  await wrong.filter({ hasText: /sometimes|indexing/i }).waitFor();
  await policy.fill('{"indexingMode": "consistent", "includedPaths": [{"path": "/email/?"}], "excludedPaths": [{"path": "/*"}]}');
  await page.getByText("Request", { exact: true }).click();
  assert.match(await page.locator("dialog .request").textContent(), /x-ms-cosmos-offer-autopilot-settings: \{"maxThroughput":4000\}.*"uniqueKeys"/s);
  await picture(page, "new-container-options", 1500);
  await ok.click();
  await page.locator(".items").waitFor();
  const made = (await call("GET", "/dbs/pooled/colls/people")).body, offers = (await call("GET", "/offers")).body.Offers;
  const database = (await call("GET", "/dbs/pooled")).body;
  assert.deepEqual(made.uniqueKeyPolicy.uniqueKeys.map((u) => u.paths), [["/email"], ["/first", "/last"]]);
  assert.equal(made.defaultTtl, 7200);
  assert.ok(made.indexingPolicy.includedPaths.some((p) => p.path === "/email/?"));
  assert.equal(offers.find((o) => o.offerResourceId === database._rid).content.offerAutopilotSettings.maxThroughput, 4000);
  assert.equal(offers.some((o) => o.offerResourceId === made._rid), false, "the container shares the throughput of its database");

  // A second one in the same database, with throughput of its own; too little is refused by the server.
  await page.getByRole("button", { name: "New Container" }).first().click();
  await page.getByLabel("Container id").fill("orders");
  await page.getByLabel("Partition key, level 1").fill("/id");
  await page.getByLabel("Mode of throughput").selectOption("manual");
  await page.getByLabel("Request units per second").fill("100");
  await ok.click();
  await wrong.waitFor();
  await page.getByLabel("Request units per second").fill("500");
  await ok.click();
  await page.getByText("Container pooled/orders created.").waitFor();

  // Settings show what was set, and the history of the throughput that the server keeps.
  await visit(page, "#/db/pooled/coll/orders/settings", ".settings textarea");
  const card = page.locator(".card", { has: page.getByRole("heading", { name: "Throughput", exact: true }) });
  const fact = async (name) => (await card.locator("dt", { hasText: name }).locator("+ dd").textContent());
  await card.getByLabel("Request units per second").fill("2500");
  await card.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Throughput saved.").waitFor();
  await card.getByLabel("Request units per second").fill("600");
  await card.getByRole("button", { name: "Save", exact: true }).click();
  await eventually(async () => assert.equal(await card.getByLabel("Request units per second").inputValue(), "600"));
  await eventually(async () => assert.match(await fact("Highest ever"), /2,500 RU/));
  assert.match(await fact("Last changed"), /^20\d\d-\d\d-\d\d/);
  assert.deepEqual(await card.locator(".history tbody tr").evaluateAll((rows) => rows.map((r) => r.cells[1].textContent)), ["manual, 600 RU/s", "manual, 2,500 RU/s", "manual, 500 RU/s"]);
  await visit(page, "#/db/pooled/coll/people/settings", ".settings textarea");
  await page.getByText("The container shares the throughput of its database").waitFor();
  quiet();
});
