// Copy jobs: copying containers into others, under another key or none.

import { button, el, field, renew, select, show } from "./dom.js";
import { admin } from "./api.js";
import { allContainers, allDatabases, isTable } from "./model.js";
import { confirm, dialog, failed, tell, working } from "./dialog.js";
import { count, units } from "./format.js";

export function copyjobs() {
  const body = el("div", {});
  let timer, visible = false;

  async function load() {
    clearTimeout(timer);
    try {
      draw((await admin("GET", ["copyJobs"])).value);
    } catch (error) {
      failed(body, error, load);
    }
    if (visible) timer = setTimeout(load, 1000);
  }

  const acts = { Pending: ["pause", "cancel"], Running: ["pause", "cancel"], Paused: ["resume", "cancel"], Faulted: ["resume", "cancel"] };
  const words = { pause: "Pause", resume: "Resume", cancel: "Cancel", complete: "Complete" };

  function draw(jobs) {
    const fresh = el("div", {}, jobs.length ? el("div", { class: "tablewrap card", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ["job", "from → to", "mode", "status", "copied", "charge", ""].map((h) => el("th", {}, h || el("span", { class: "hidden" }, "actions"))))), el("tbody", {}, jobs.map((job) => {
      const p = job.properties, part = p.totalCount ? p.processedCount / p.totalCount : p.status === "Completed" ? 1 : 0;
      const can = [...(acts[p.status] ?? []), ...(p.mode === "Online" && p.status === "Running" && !p.decan.completing ? ["complete"] : [])];
      return el("tr", { "data-id": job.name }, el("td", {}, job.name), el("td", { class: "mono" }, p.jobProperties.tasks.map((t) => el("div", {}, `${t.source.databaseName}/${t.source.containerName} → ${t.destination.databaseName}/${t.destination.containerName}`))), el("td", {}, p.mode),
        el("td", {}, p.status, p.decan.caughtUp && p.status === "Running" ? ", caught up" : "", p.error && el("p", { class: "error" }, p.error.message), p.decan.skippedCount > 0 && el("p", { class: "warn" }, `${count(p.decan.skippedCount)} skipped`)),
        el("td", {}, el("span", { class: "meter" }, el("span", { class: "track" }, el("span", { style: { width: `${Math.min(100, part * 100)}%` } })), el("span", { class: "numeric" }, `${count(p.processedCount)} of ${count(p.totalCount)}`))),
        el("td", { class: "numeric" }, units(p.decan.sourceCharge + p.decan.destinationCharge)),
        el("td", { class: "rowactions" }, can.map((verb) => button(words[verb], working(async () => {
          if (verb === "cancel" && !(await confirm("Cancel the job?", "What it has copied stays in the target.", { action: "Cancel the job", danger: true }))) return;
          await admin("POST", ["copyJobs", job.name, verb]);
          await load();
        }), { "aria-label": `${words[verb]} ${job.name}` }))));
    })))) : el("div", { class: "empty" }, "No copy job yet. A job copies a container into another one, for instance with a hierarchical key."));
    if (body.firstChild) renew(body.firstChild, fresh);
    else show(body, fresh);
  }

  async function create() {
    const databases = await allDatabases();
    const all = (await Promise.all(databases.map(async (d) => (await allContainers(d.id)).filter((c) => !isTable(c)).map((c) => [`${d.id}/${c.id}`, { databaseName: d.id, containerName: c.id }])))).flat();
    await dialog("New copy job", (close) => {
      const options = all.map(([name]) => [name, name]), name = el("input", { autofocus: true, autocomplete: "off" }), from = select(options, options[0]?.[0] ?? ""), to = select(options, options[1]?.[0] ?? "");
      const mode = select([["Offline", "Offline: copy what is there now"], ["Online", "Online: and follow the changes until it is completed"]], "Offline"), skip = el("input", { type: "checkbox" }), wrong = el("p", { class: "error", role: "alert" });
      return el("form", { on: { submit: async (event) => {
        event.preventDefault();
        try {
          const end = (s) => all.find(([n]) => n === s.value)?.[1];
          await admin("PUT", ["copyJobs", name.value], { body: { properties: { jobProperties: { jobType: "NoSqlRUToNoSqlRU", tasks: [{ source: end(from), destination: end(to) }] }, mode: mode.value, decan: { onFailure: skip.checked ? "Skip" : "Fault" } } } });
          tell(`Copy job ${name.value} started.`);
          close(true);
        } catch (error) {
          wrong.textContent = error.message;
        }
      } } }, field("Name", name), field("From", from), field("To", to, "Create the target first, with the key that you want."), field("Mode", mode), el("label", { class: "check" }, skip, "Skip items that the target refuses"), wrong, el("div", { class: "actions" }, button("Cancel", () => close()), el("button", { type: "submit", class: "button primary" }, "OK")));
    });
    await load();
  }

  return { root: el("div", { class: "screen" }, el("div", { class: "heading" }, el("h1", {}, "Copy jobs"), el("span", { class: "space" }), button("New Copy Job", working(create), { kind: "primary" })), body), shown() { visible = true; load(); }, hidden() { visible = false; clearTimeout(timer); } };
}
