// The page in Firefox: signing in, items, a query, partitions and the advisor. Playwright
// drives only a Firefox of its own, so this is a small client of Marionette, the protocol
// of Firefox itself: one connection, and messages of the form LENGTH:[kind,id,name,content].
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { browser, demo, eventually, key } from "./page.mjs";

const program = process.env.FIREFOX;

/** Starts Firefox without a window. Returns {ask, close}. */
async function firefox() {
  const profile = mkdtempSync(join(tmpdir(), "decan-firefox-"));
  writeFileSync(join(profile, "user.js"), Object.entries({ "marionette.port": 0, "browser.shell.checkDefaultBrowser": false, "datareporting.policy.dataSubmissionEnabled": false, "app.update.disabledForTesting": true, "network.captive-portal-service.enabled": false, "network.connectivity-service.enabled": false, "toolkit.telemetry.reportingpolicy.firstRun": false })
    .map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`).join(""));
  const child = spawn(program, ["--headless", "--marionette", "--no-remote", "--profile", profile], { stdio: "ignore", env: { ...process.env, MOZ_HEADLESS: "1" } });
  const file = join(profile, "MarionetteActivePort");
  await eventually(() => assert.ok(existsSync(file) && readFileSync(file, "utf8"), "Firefox has not opened its port"), 120_000);
  const socket = connect(Number(readFileSync(file, "utf8")), "127.0.0.1");
  let held = Buffer.alloc(0), last = 0;
  const waiting = new Map(), hello = new Promise((resume) => waiting.set("hello", resume));
  socket.on("data", (part) => {
    held = Buffer.concat([held, part]);
    for (let colon; (colon = held.indexOf(58)) > 0;) {
      const end = colon + 1 + Number(held.subarray(0, colon));
      if (held.length < end) return;
      const message = JSON.parse(held.subarray(colon + 1, end));
      held = held.subarray(end);
      if (Array.isArray(message)) waiting.get(message[1])?.(message);
      else waiting.get("hello")(message);
    }
  });
  await hello;
  const ask = async (name, content = {}) => {
    const id = ++last, text = JSON.stringify([0, id, name, content]);
    const answer = new Promise((resume) => waiting.set(id, resume));
    socket.write(`${Buffer.byteLength(text)}:${text}`);
    const [, , error, result] = await answer;
    if (error) throw new Error(`${name}: ${error.error}: ${error.message}`);
    return result?.value ?? result;
  };
  await ask("WebDriver:NewSession", {});
  return { ask, async close() {
    socket.destroy();
    const gone = new Promise((resume) => child.once("exit", resume));
    child.kill();
    await gone;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  } };
}

test("the page works in Firefox", { skip: program ? false : "there is no Firefox: install the package firefox-esr, or set FIREFOX" }, async () => {
  await browser.close();
  const { ask, close } = await firefox();
  try {
    const run = (script, ...args) => ask("WebDriver:ExecuteScript", { script, args, sandbox: "test" });
    const find = async (selector) => Object.values(await ask("WebDriver:FindElement", { using: "css selector", value: selector }))[0];
    const click = async (selector) => ask("WebDriver:ElementClick", { id: await find(selector) });
    const type = async (selector, text) => ask("WebDriver:ElementSendKeys", { id: await find(selector), text });
    const shows = (selector, pattern = /./) => eventually(async () => assert.match(await run("return document.querySelector(arguments[0])?.textContent ?? ''", selector), pattern), 60_000);
    const go = (place) => run("location.hash = arguments[0]", place);

    await ask("WebDriver:Navigate", { url: `${demo.endpoint}/_explorer/#/db/demo/coll/hierarchical/items` });
    await shows("#signin-about", /version/);
    await type("#signin-key", "not a key!\uE007");
    await shows("#signin-error", /neither a key in base64/);
    await run("document.querySelector('#signin-key').value = ''");
    await type("#signin-key", `${key}\uE007`);
    await shows(".grid .body .row");
    await click(".grid .body .row");
    await shows(".itembody .about", /read for/);
    await run("[...document.querySelectorAll('.keytree button')].find((b) => b.textContent === 'Count').click()");
    await shows(".keytree [role=treeitem]");

    await go("#/db/demo/coll/hierarchical/query");
    await shows(".query");
    await click(".ask textarea");
    await type(".ask textarea", "\uE008\uE007\uE000"); // Shift+Enter
    await shows(".results .grid .body .row");
    await shows(".ring .caption", /of/);

    await go("#/db/demo/coll/hierarchical/partitions");
    await shows(".partitiontable tbody tr");
    await go("#/db/demo/coll/hierarchical/advisor");
    await shows(".advisor .workload");
    await click(".advisor button[type=submit]");
    await shows(".comparison thead th");
    for (const [place, selector] of [["#/db/demo/coll/hierarchical/settings", ".settings .card h2"], ["#/metrics", ".plots .plot"], ["#/roles", ".card td"], ["#/copyjobs", ".screen"], ["#/account", ".settings"]]) {
      await go(place);
      await shows(selector);
    }
    assert.equal(await run("return document.querySelectorAll('#messages .bad').length"), 0);
    assert.equal(await run("return document.documentElement.scrollWidth <= innerWidth"), true);
  } finally {
    await close();
  }
});
