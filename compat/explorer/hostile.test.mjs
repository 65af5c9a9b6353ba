// What others can do: people who write ids and items, and pages of other origins.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { admin, browser, call, endpoint, adminEndpoint, enter, hierarchical, picture, troubles, visit } from "./page.mjs";

after(() => browser.close());

const payloads = ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", '"><svg onload=alert(1)>', "javascript:alert(1)", "${alert(1)}{{alert(1)}}"];

test("markup in every displayed text stays text", async () => {
  const database = `${payloads[0]} db`, container = `${payloads[1].replaceAll("/", "")} c`, at = `/dbs/${encodeURIComponent(database)}`, path = `${at}/colls/${encodeURIComponent(container)}`;
  assert.equal((await call("POST", "/dbs", { id: database })).status, 201);
  assert.equal((await call("POST", `${at}/colls`, { id: container, partitionKey: { ...hierarchical, paths: ["/TenantId", '/"<b onclick=alert(1)>"', "/SessionId"] } })).status, 201);
  for (const [i, text] of payloads.entries()) {
    const item = { id: `${i}${text.replaceAll("/", "")}`, TenantId: text, "<b onclick=alert(1)>": text, SessionId: text, [text]: text, nested: { [text]: [text] }, __proto__x: text };
    const made = await call("POST", `${path}/docs`, item, { "x-ms-documentdb-partitionkey": JSON.stringify([text, text, text]) });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  }
  await call("POST", `${path}/sprocs`, { id: "<img src=x onerror=alert(2)>", body: "function f() { console.log('<img src=x onerror=alert(3)>'); getContext().getResponse().setBody('<img src=x onerror=alert(4)>'); }" });
  await call("POST", `${at}/users`, { id: "<img src=x onerror=alert(5)>" });

  const base = `#/db/${encodeURIComponent(database)}/coll/${encodeURIComponent(container)}`;
  const page = await enter(`${base}/items`);
  const inert = async (what) => {
    assert.equal(await page.locator("img:not([src='mark.svg']), svg[onload], script:not([src='app.js']), [onclick], [onerror]").count(), 0, what);
    assert.deepEqual(troubles.splice(0), [], what);
  };
  await page.locator(".grid .body .row").first().waitFor();
  await page.locator(".keytree button", { hasText: "Count" }).click();
  await page.locator(".keytree [role=treeitem]").first().click();
  await page.locator(".grid .body .row").first().click();
  await page.locator(".itembody .about", { hasText: "read for" }).waitFor();
  await inert("items");
  await picture(page, "inert");
  await visit(page, `${base}/query`, ".query");
  await page.locator(".ask textarea").fill("SELECT * FROM c");
  await page.keyboard.press("Shift+Enter");
  await page.locator(".results .grid .body .row").first().waitFor();
  await page.locator(".ask textarea").fill("SELECT * FROM c WHERE <img src=x onerror=alert(1)>");
  await page.keyboard.press("Shift+Enter");
  await page.locator(".fault .place").waitFor();
  await inert("query");
  await visit(page, `${base}/procedures`, ".scriptname");
  await page.locator(".scriptname").click();
  for (const field of await page.locator(".run .keyfields input").all()) await field.fill(payloads[0]);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".output .lines").first().waitFor();
  await inert("scripts");
  await visit(page, `${base}/partitions`, ".partitiontable tbody tr");
  await page.locator(".hottest button").first().click();
  await inert("partitions");
  await page.keyboard.press("Escape");
  await visit(page, `${base}/feed`, ".feed");
  await page.getByRole("button", { name: "Start" }).click();
  await page.locator(".feed .grid .body .row").first().click();
  await inert("feed");
  await visit(page, `${base}/settings`, ".settings textarea");
  await visit(page, `#/db/${encodeURIComponent(database)}/users`, ".card");
  await visit(page, "#/", ".cards");
  await inert("home");
  // An address that names what does not exist is an error with its text.
  await visit(page, "#/db/%3Cimg%20src=x%20onerror=alert(1)%3E/coll/x/items", "[role=alert] p");
  await inert("an address");
});

/** Serves a page of another origin, and returns its address under a name. */
async function foreign(html) {
  const server = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end(html)).listen(0, "127.0.0.1");
  await new Promise((resume) => server.once("listening", resume));
  after(() => server.close());
  return `http://evil.example:${server.address().port}/`;
}

const refusedFor = async (reason) => [...(await admin("GET", "/metrics")).body.matchAll(new RegExp(`decan_access_refused_total\\{door="(\\w+)",reason="${reason}"\\} (\\d+)`, "g"))].reduce((n, m) => n + Number(m[2]), 0);

test("a page of another origin writes nothing, reads nothing and shows no frame", async () => {
  const before = await refusedFor("origin");
  const context = await browser.newContext(), page = await context.newPage();
  await page.goto(await foreign("<!doctype html><title>evil</title>"));
  const results = await page.evaluate(async ([data, adminPort]) => {
    const tries = [];
    for (const base of [data, adminPort, data.replace("127.0.0.1", "localhost")]) {
      for (const [path, options] of [
        ["/dbs", { method: "POST", body: '{"id":"stolen"}', mode: "no-cors" }], // without a preflight
        ["/dbs", { method: "POST", body: '{"id":"stolen"}', headers: { authorization: "x", "x-ms-date": "x" } }],
        ["/_explorer/config.json", {}], ["/_explorer/admin/metrics", { headers: { "x-decan-key": "x" } }], ["/metrics", {}], ["/alive", {}],
      ]) {
        try {
          const answer = await fetch(base + path, options);
          tries.push([path, answer.type === "opaque" ? "opaque" : answer.status]);
        } catch {
          tries.push([path, "blocked"]);
        }
      }
    }
    return tries;
  }, [endpoint, adminEndpoint]);
  for (const [path, result] of results) assert.ok(["blocked", "opaque"].includes(result), `${path}: ${result}`);
  const frame = await page.evaluate((source) => new Promise((resolve) => {
    const node = document.createElement("iframe");
    node.src = source;
    node.onload = () => { try { resolve(node.contentDocument?.body?.textContent ?? "no document"); } catch { resolve("another origin"); } };
    document.body.append(node);
  }), endpoint + "/_explorer/");
  assert.doesNotMatch(frame, /Data Explorer/);
  for (const f of page.frames().slice(1)) assert.doesNotMatch(await f.content(), /signin-form/, "the frame shows the page");
  assert.ok(await refusedFor("origin") > before, "nothing was refused");
  assert.ok(!(await call("GET", "/dbs")).body.Databases.some((d) => d.id === "stolen"));
  await context.close();
});

test("a name that is rebound to the server reads nothing", async () => {
  const before = await refusedFor("host"), context = await browser.newContext(), page = await context.newPage();
  for (const base of [endpoint, adminEndpoint]) {
    const rebound = base.replace("127.0.0.1", "evil.example");
    for (const path of ["/", "/_explorer/", "/_explorer/config.json", "/dbs", "/metrics"]) {
      const answer = await page.goto(rebound + path);
      assert.equal(answer.status(), 403, rebound + path);
      assert.doesNotMatch(await answer.text(), /decan_nosql|signin|wellKnownKey/);
    }
    const status = await page.evaluate(async () => {
      const answer = await fetch("/dbs", { method: "POST", body: '{"id":"stolen"}', headers: { authorization: "x" } });
      return answer.status;
    });
    assert.equal(status, 403);
  }
  assert.ok(await refusedFor("host") >= before + 10);
  await context.close();
});

test("a link on another page opens the explorer", async () => {
  const context = await browser.newContext(), page = await context.newPage();
  await page.goto(await foreign(`<!doctype html><title>a page</title><a href="${endpoint}/">the database</a>`));
  await page.getByText("the database").click();
  await page.locator("#signin-known").waitFor();
  assert.equal(await page.evaluate(() => opener), null);
  await context.close();
});
