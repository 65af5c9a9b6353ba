// Shared by the tests: the browser, a page that has signed in, and requests that programs
// other than the page send.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

export const endpoint = process.env.DECAN_ENDPOINT, adminEndpoint = process.env.DECAN_ADMIN;

/** The server of decan demo, which run.sh starts. */
export const demo = { endpoint: process.env.DEMO_ENDPOINT, admin: process.env.DEMO_ADMIN };
assert.ok(endpoint && adminEndpoint, "DECAN_ENDPOINT is not set: run compat/explorer/run.sh");
export const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
  "--host-resolver-rules=MAP evil.example 127.0.0.1"];
export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });

/** The troubles of all pages: tests that expect none fail on them. */
export const troubles = [];

/** Opens a page, which must not fail, violate its policy, or ask another origin. */
export async function open(path = "/_explorer/", { width = 1360, height = 820, base = endpoint, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  const page = await context.newPage();
  page.on("pageerror", (error) => troubles.push(error.stack));
  page.on("console", (message) => {
    // The browser writes a line for each answer of 400 and above, which some steps provoke.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) troubles.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !/^(?:data|blob):/.test(request.url())) troubles.push(`a request for ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    if (dialog.type() !== "beforeunload") troubles.push(`a dialog: ${dialog.message()}`);
    dialog.accept();
  });
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (e) => console.error(`policy violated: ${e.violatedDirective} ${e.blockedURI}`)));
  await page.goto(base + path);
  return page;
}

/** Opens a place of the page and signs in with the emulators' key, or another credential. */
export async function enter(place = "#/", credential, options) {
  const page = await open("/_explorer/" + place, options);
  if (credential) {
    await page.getByLabel("Account key, connection string or token").fill(credential);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
  } else {
    await page.getByRole("button", { name: "Sign in with the emulators’ key" }).click();
  }
  await page.locator("#frame").waitFor();
  return page;
}

/** Goes to a place of a page that has signed in. */
export async function visit(page, place, selector) {
  // The screen before may have such an element too: wait until the page has changed it.
  await page.evaluate((hash) => location.hash === hash || new Promise((resume) => {
    addEventListener("placed", resume, { once: true });
    setTimeout(resume, 20_000);
    location.hash = hash;
  }).then(() => true), place);
  await page.locator(selector).first().waitFor();
}

/** Sends a signed request of the REST protocol, as an SDK would. */
export async function call(method, path, body, headers = {}, base = endpoint) {
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent), odd = parts.length % 2;
  const type = odd ? parts.at(-1) : parts.at(-2), link = (odd ? parts.slice(0, -1) : parts).join("/"), date = new Date().toUTCString().toLowerCase();
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(`${method.toLowerCase()}\n${type}\n${link}\n${date}\n\n`).digest("base64");
  const answer = await fetch(base + path, { method, body: body === undefined ? undefined : JSON.stringify(body), headers: { "x-ms-date": date, "x-ms-version": "2020-07-15", authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`), ...headers } });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text ? JSON.parse(text) : undefined };
}

/** Sends a request to the admin port. */
export async function admin(method, path, body, base = adminEndpoint) {
  const answer = await fetch(base + path, { method, body: body && JSON.stringify(body), headers: { "x-decan-key": key } });
  const text = await answer.text();
  return { status: answer.status, body: path === "/metrics" ? text : text && JSON.parse(text) };
}

export const hierarchical = { paths: ["/TenantId", "/UserId", "/SessionId"], kind: "MultiHash", version: 2 };

/** Creates a container with a three-level key, and its database. */
export async function create(database, container, partitions, more = {}, rus = 20_000) {
  await call("POST", "/dbs", { id: database });
  const made = await call("POST", `/dbs/${encodeURIComponent(database)}/colls`, { id: container, partitionKey: hierarchical, ...more }, { "x-decan-partition-count": String(partitions), "x-ms-offer-throughput": String(rus) });
  assert.equal(made.status, 201, JSON.stringify(made.body));
}

const tenants = ["Contoso", "Contoso", "Contoso", "Fabrikam", "Fabrikam", "Litware", "Northwind", "Tailspin", "Wingtip"], people = ["Alice", "Bob", "Carol", "Dave", "Erin"];

/** Returns the nth event of the sample data. */
export const event = (n) => ({ id: `e-${n}`, TenantId: tenants[n * 7 % tenants.length], UserId: people[n % 5], SessionId: String(n % 97).padStart(4, "0"), type: ["click", "view", "buy"][n % 3], minutes: n % 60, total: n * 37 % 1000 / 10, address: { city: "Lyon", zip: String(69000 + n % 9) } });

/** Writes events into a container; more is merged into each. */
export async function fill(database, container, count, more = () => ({})) {
  let next = 0;
  const worker = async () => {
    for (let n; (n = next++) < count;) {
      const item = { ...event(n), ...more(n) };
      for (let answer; !answer || answer.status === 429;) {
        answer = await call("POST", `/dbs/${database}/colls/${container}/docs`, item, { "x-ms-documentdb-partitionkey": JSON.stringify([item.TenantId, item.UserId, item.SessionId]), "x-ms-documentdb-is-upsert": "true" });
        assert.ok(answer.status < 300 || answer.status === 429, JSON.stringify(answer.body));
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

/** Writes 100 events into each of some logical partitions, in batches. */
export async function fillBatches(database, container, batches) {
  for (let b = 0; b < batches; b++) {
    const key = [tenants[b % tenants.length], people[b % 5], String(b).padStart(4, "0")];
    const operations = Array.from({ length: 100 }, (_, i) => ({ operationType: "Upsert", resourceBody: { ...event(b * 100 + i), TenantId: key[0], UserId: key[1], SessionId: key[2], address: undefined } }));
    const answer = await call("POST", `/dbs/${database}/colls/${container}/docs`, operations, { "x-ms-documentdb-partitionkey": JSON.stringify(key), "x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True" });
    if (answer.status === 429) b--; // over the throughput: once more
    else assert.equal(answer.status, 200, JSON.stringify(answer.body));
  }
}

/** Writes a picture of the page, if pictures are asked for; height is that of the window for it. */
export async function picture(page, name, height) {
  const directory = process.env.EXPLORER_PICTURES;
  if (!directory) return;
  mkdirSync(directory, { recursive: true });
  await page.locator("#messages .note").first().waitFor({ state: "detached", timeout: 8000 }).catch(() => {});
  const size = page.viewportSize();
  if (height) await page.setViewportSize({ ...size, height });
  await page.screenshot({ path: `${directory}/${name}.png` });
  if (height) await page.setViewportSize(size);
}

/** Waits until an assertion holds. */
export async function eventually(check, millis = 20_000) {
  for (const end = Date.now() + millis; ; await new Promise((resume) => setTimeout(resume, 100))) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}
