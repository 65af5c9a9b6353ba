// The key advisor of a container: the server compares keys on a sample of the items and on
// a workload, and the page shows its advice and carries it out.

import { button, el, field, select, show } from "./dom.js";
import { admin, caller, list, read, request } from "./api.js";
import { stringify } from "./json.js";
import { changed } from "./model.js";
import { address, containerPlace } from "./router.js";
import { confirm, dialog, failed, working } from "./dialog.js";
import { count, plural, units } from "./format.js";
import { Workload } from "./workload.js";
import { comparison, findings, keyChips, propertyTable, sameKey } from "./compared.js";
import { whyNoAdmin } from "./tree.js";

export function advisor(context) {
  const { database, container } = context, where = { database, container };
  const wrong = el("p", { class: "error", role: "alert" }), results = el("div", { class: "advice-results" }), job = el("div", {});
  const workload = new Workload(where, () => { go.disabled = workload.recording || !caller.admin; });
  const sample = el("input", { type: "number", min: "1", max: "5000", value: "1000" });
  const keys = el("div", { class: "newlevels" });
  let running = null, watching = 0;

  function addKey() {
    const input = el("input", { class: "mono", "aria-label": "Candidate", placeholder: "Paths from broad to narrow, such as /TenantId, /UserId", autocomplete: "off", spellcheck: "false" });
    const line = el("div", { class: "newlevel" }, input, button("×", () => { line.remove(); add.focus(); }, { kind: "plain", "aria-label": "Remove this candidate" }));
    keys.append(line);
    input.focus();
  }
  const add = button("Add candidate", addKey);
  const go = el("button", { type: "submit", class: "button primary", disabled: !caller.admin, title: caller.admin ? "" : whyNoAdmin() }, "Compare");

  async function compare() {
    if (running) return running.abort();
    wrong.textContent = "";
    let body;
    try {
      const candidates = [...keys.querySelectorAll("input")].map((i) => i.value.split(",").map((p) => p.trim()).filter(Boolean)).filter((paths) => paths.length);
      body = { sample: Number(sample.value), ...(candidates.length ? { candidates } : {}), workload: workload.value };
    } catch (error) {
      wrong.textContent = error.message;
      return;
    }
    running = new AbortController();
    go.textContent = "Cancel";
    results.setAttribute("aria-busy", "true");
    try {
      draw(await admin("POST", ["advise"], { query: where, body, signal: running.signal }));
    } catch (error) {
      if (error.name !== "AbortError") {
        wrong.textContent = error.message;
        wrong.scrollIntoView({ block: "nearest" });
      }
    } finally {
      running = null;
      go.textContent = "Compare";
      results.removeAttribute("aria-busy");
    }
  }

  function draw(answer) {
    const { advice, present } = answer, best = advice.candidates[0];
    workload.offer(advice.properties.map((p) => p.path));
    const choose = (c, i) => sameKey(c.paths, present) ? el("span", { class: "hint" }, "This is the present key.")
      : button("Apply…", working(() => apply(c, answer)), { kind: i === 0 ? "primary" : "", disabled: !caller.writes, why: "This needs a key that may write.", "aria-label": `Apply ${c.paths.join(", ")}` });
    show(results,
      el("section", { class: "card proposal", "aria-label": "Proposal" },
        el("div", { class: "panehead" }, el("h2", {}, sameKey(best.paths, present) ? "The present key is the best of these" : "Proposal"), keyChips(best.paths)),
        el("p", { class: "hint" }, `From a sample of ${plural(advice.sampled, "item")} of ${count(answer.documents)}, read for ${units(answer.requestCharge)}; the container would hold ${plural(advice.documents, "item")}.`),
        findings(advice.proposal),
        el("details", {}, el("summary", {}, "What it costs"), el("ul", { class: "steps" }, advice.tradeOffs.map((t) => el("li", {}, t))))),
      comparison(answer, choose),
      propertyTable(advice.properties));
    results.querySelector("h2").scrollIntoView({ block: "nearest" });
  }

  /** Makes a container with another key and everything else of this one, and copies the items. */
  async function apply(candidate, answer) {
    if (candidate.largestBytes > answer.logicalBytes && !(await confirm("Apply a key that will be full?", "A logical partition would pass its limit under this key, so some items would be refused.", { action: "Apply anyway", danger: true }))) return;
    await dialog("Apply the key", (close) => {
      const into = el("input", { value: `${container}-rekeyed`, autofocus: true, autocomplete: "off", spellcheck: "false" });
      const mode = select([["Offline", "Offline: copy what is there now"], ["Online", "Online: and follow the changes until it is completed"]], "Offline");
      const error = el("p", { class: "error", role: "alert" }), ok = el("button", { type: "submit", class: "button primary" }, "Make and copy");
      return el("form", { on: { submit: async (event) => {
        event.preventDefault();
        error.textContent = "";
        ok.disabled = true;
        try {
          await make(candidate.paths, into.value);
          const name = jobName(into.value);
          await admin("PUT", ["copyJobs", name], { body: { properties: { jobProperties: { jobType: "NoSqlRUToNoSqlRU", tasks: [{ source: { databaseName: database, containerName: container }, destination: { databaseName: database, containerName: into.value } }] }, mode: mode.value } } });
          close(true);
          watch(name, into.value);
        } catch (failure) {
          error.textContent = failure.status === 409 ? `There is a container ${into.value} already: give another name.` : failure.message;
        } finally {
          ok.disabled = false;
        }
      } } }, el("p", {}, "A new container gets the key ", keyChips(candidate.paths), " and the indexing, unique keys, time to live, policies and throughput of this one. A copy job then copies the items. This container stays as it is."),
      field("New container", into), field("Copy", mode, "Scripts, users and permissions are not copied."), error, el("div", { class: "actions" }, button("Cancel", () => close()), ok));
    });
  }

  async function make(paths, id) {
    const definition = await read(context.path), offers = await list(["offers"], "Offers"), offer = offers.find((o) => o.offerResourceId === definition._rid)?.content;
    for (const name of Object.keys(definition)) if (name.startsWith("_")) delete definition[name];
    const headers = !offer ? {} : offer.offerAutopilotSettings ? { "x-ms-cosmos-offer-autopilot-settings": JSON.stringify({ maxThroughput: offer.offerAutopilotSettings.maxThroughput }) } : { "x-ms-offer-throughput": String(offer.offerThroughput) };
    await request("POST", ["dbs", database, "colls"], { body: stringify({ ...definition, id, partitionKey: { paths, kind: paths.length > 1 ? "MultiHash" : "Hash", version: 2 } }), headers });
    changed(database);
  }

  /** Shows a copy job until it ends. */
  async function watch(name, target) {
    const mine = ++watching, state = el("p", { role: "status" }), bar = el("progress", { max: "1", value: "0", "aria-label": "Items copied" }), acts = el("div", { class: "actions start" });
    show(job, el("section", { class: "card", "aria-label": "Copy job" }, el("h2", {}, `Copy into ${target}`), bar, state, acts));
    job.scrollIntoView({ block: "nearest" });
    while (mine === watching && caller.admin) {
      try {
        const p = (await admin("GET", ["copyJobs", name])).properties, done = p.status === "Completed";
        bar.value = done ? 1 : p.totalCount ? p.processedCount / p.totalCount : 0;
        state.textContent = `${p.status}${p.decan.caughtUp && p.status === "Running" ? ", caught up with the changes" : ""}: ${count(p.processedCount)} of ${count(p.totalCount)} items, ${units(p.decan.sourceCharge + p.decan.destinationCharge)}.${p.error ? ` ${p.error.message}` : ""}`;
        const complete = p.mode === "Online" && p.status === "Running" && !p.decan.completing;
        if (acts.dataset.state !== `${done} ${complete}`) {
          acts.dataset.state = `${done} ${complete}`;
          show(acts, el("a", { class: "button", href: address(...containerPlace(database, target)) }, `Open ${target}`),
            complete && button("Complete", working(() => admin("POST", ["copyJobs", name, "complete"])), { kind: "primary", title: "After the application writes to the new container" }), el("a", { class: "button plain", href: address("copyjobs") }, "All copy jobs"));
        }
        if (["Completed", "Cancelled", "Faulted"].includes(p.status)) return;
      } catch (error) {
        failed(state, error);
        return;
      }
      await new Promise((resume) => setTimeout(resume, 500));
    }
  }

  const form = el("form", { class: "card", novalidate: true, on: { submit: (event) => { event.preventDefault(); if (!go.disabled) compare(); } } },
    el("div", { class: "advisor-head" },
      el("fieldset", {}, el("legend", {}, "Candidates"), keys, el("div", { class: "line" }, add, el("span", { class: "hint" }, "Without a candidate, keys are proposed."))),
      field("Items of the sample", sample)),
    el("fieldset", {}, el("legend", {}, "Workload"), workload.root),
    wrong, el("div", { class: "actions" }, !caller.admin && el("span", { class: "hint" }, whyNoAdmin()), go));
  return {
    root: el("div", { class: "advisor" }, form, job, results),
    run: () => { if (!go.disabled) compare(); },
    hidden() { running?.abort(); },
  };
}

/** Returns the name of the copy job into a container: those of jobs allow less. */
const jobName = (container) => `advise-${container.replace(/[^\w.-]/g, "-")}`.slice(0, 60);
