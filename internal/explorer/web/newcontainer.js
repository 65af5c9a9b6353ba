// The dialog for a new container, with the steps that the documentation of the service
// describes for hierarchical partition keys. The server checks what is entered, and its
// messages are shown.

import { button, el, field, select, show, unique } from "./dom.js";
import { request } from "./api.js";
import { parse, stringify } from "./json.js";
import { allDatabases, changed } from "./model.js";
import { containerPlace, go, place } from "./router.js";
import { Editor } from "./editor.js";
import { dialog, tell } from "./dialog.js";
import { Policies } from "./policies.js";

const levelsMax = 3;
const hints = ["Required - first partition key, such as /TenantId", "Second partition key, such as /UserId", "Third partition key, such as /SessionId"];

const defaultPolicy = `{
  "indexingMode": "consistent",
  "automatic": true,
  "includedPaths": [{ "path": "/*" }],
  "excludedPaths": [{ "path": "/\\"_etag\\"/?" }]
}`;

/** Opens the dialog, and goes to the container that it created. */
export async function newContainer(chosen = place()[0] === "db" ? place()[1] : undefined) {
  const databases = await allDatabases().catch(() => []);
  const created = await dialog("New Container", (close) => form(databases.map((d) => d.id), chosen, close), { wide: true });
  if (!created) return;
  changed();
  tell(`Container ${created.database}/${created.container} created.`);
  go(...containerPlace(created.database, created.container));
}

function form(databases, chosen, close) {
  const made = new Set(); // databases that this dialog has created
  const wrong = el("p", { class: "error", role: "alert" });
  const update = () => preview();

  // The database.
  const existing = databases.length > 0;
  const group = unique("database");
  const radio = (value, label, checked) => el("label", { class: "radio" }, el("input", { type: "radio", name: group, value, checked, on: { change: () => { databaseFields(); update(); } } }), label);
  const createNew = radio("new", "Create new", !existing), useExisting = radio("existing", "Use existing", existing);
  const newID = el("input", { "aria-label": "Database id", placeholder: "Type a new database id", autocomplete: "off", spellcheck: "false", autofocus: !existing, on: { input: update } });
  const oldID = select(databases.map((d) => [d, d]), databases.includes(chosen) ? chosen : databases[0] ?? "", update, { "aria-label": "Database id" });
  const shared = el("input", { type: "checkbox", on: { change: () => { databaseFields(); update(); } } });
  const sharing = el("label", { class: "check" }, shared, "Share throughput between the containers of the database");
  const isNew = () => createNew.firstChild.checked;
  function databaseFields() {
    newID.hidden = sharing.hidden = !isNew();
    oldID.hidden = isNew();
    throughputOf.textContent = isNew() && shared.checked ? "Database throughput" : "Container throughput";
  }

  // The container and its key.
  const id = el("input", { placeholder: "Such as orders", autocomplete: "off", spellcheck: "false", autofocus: existing, on: { input: update } });
  const levels = el("div", { class: "newlevels" });
  const paths = [];
  const add = button("Add hierarchical partition key", () => { addLevel(); paths.at(-1).focus(); }, { title: "Another level of the key, at most three" });
  function addLevel() {
    const n = paths.length;
    const input = el("input", { class: "mono", "aria-label": `Partition key, level ${n + 1}`, placeholder: hints[n], autocomplete: "off", spellcheck: "false", on: { input: update } });
    const line = el("div", { class: "newlevel" }, el("span", { class: `levelname level${n + 1}`, "aria-hidden": "true" }, n + 1), input,
      n > 0 && button("×", () => {
        paths.splice(paths.indexOf(input), 1);
        line.remove();
        renumber();
      }, { kind: "plain", "aria-label": "Remove this level" }));
    paths.push(input);
    levels.append(line);
    renumber();
  }
  function renumber() {
    [...levels.children].forEach((line, i) => {
      line.firstChild.textContent = i + 1;
      line.firstChild.className = `levelname level${i + 1}`;
      paths[i].setAttribute("aria-label", `Partition key, level ${i + 1}`);
      paths[i].placeholder = hints[i];
    });
    add.hidden = paths.length >= levelsMax;
    preview();
  }

  // Throughput.
  const mode = select([["autoscale", "Autoscale"], ["manual", "Manual"], ["", "None of its own: shared, or the default"]], "autoscale", () => {
    rus.hidden = !mode.value;
    rus.value = mode.value === "autoscale" ? "1000" : "400";
    update();
  }, { "aria-label": "Mode of throughput" });
  const rus = el("input", { type: "number", min: "1", step: "100", value: "1000", "aria-label": "Request units per second", on: { input: update } });
  const throughputOf = el("span", {}, "Container throughput");

  // Unique keys, time to live, indexing, and more.
  const uniques = el("div", { class: "newlevels" });
  const addUnique = button("Add unique key", () => {
    const input = el("input", { class: "mono", "aria-label": "Unique key", placeholder: "Paths with commas between them, such as /firstName,/zip", spellcheck: "false", on: { input: update } });
    const line = el("div", { class: "newlevel" }, input, button("×", () => { line.remove(); update(); }, { kind: "plain", "aria-label": "Remove this unique key" }));
    uniques.append(line);
    input.focus();
  });
  const ttl = select([["", "Off"], ["-1", "On, without a default"], ["n", "On, after so many seconds"]], "", () => { ttlSeconds.hidden = ttl.value !== "n"; update(); });
  const ttlSeconds = el("input", { type: "number", min: "1", value: "3600", hidden: true, "aria-label": "Seconds to live", on: { input: update } });
  const indexing = select([["", "All paths"], ["none", "None: items are only read by id and key"], ["own", "A policy of your own"]], "", () => { policy.root.hidden = indexing.value !== "own"; update(); });
  const policy = new Editor({ language: "json", label: "Indexing policy", value: defaultPolicy, change: update });
  policy.root.hidden = true;
  const retention = el("input", { type: "number", min: "1", placeholder: "off", on: { input: update } });
  const policies = new Policies({ change: update });
  const count = el("input", { type: "number", min: "1", placeholder: "as the throughput needs", on: { input: update } });

  function definition() {
    const key = paths.map((p) => p.value.trim());
    const body = { id: id.value, partitionKey: { paths: key, kind: key.length > 1 ? "MultiHash" : "Hash", version: 2 } };
    const keys = [...uniques.querySelectorAll("input")].map((i) => ({ paths: i.value.split(",").map((p) => p.trim()).filter(Boolean) })).filter((u) => u.paths.length);
    if (keys.length) body.uniqueKeyPolicy = { uniqueKeys: keys };
    if (ttl.value) body.defaultTtl = ttl.value === "n" ? Number(ttlSeconds.value) : -1;
    if (indexing.value === "none") body.indexingPolicy = { indexingMode: "none", automatic: false };
    if (indexing.value === "own") body.indexingPolicy = parse(policy.value);
    if (retention.value) body.changeFeedPolicy = { retentionDuration: Number(retention.value) };
    return policies.merge(body, parse(defaultPolicy));
  }

  function throughput() {
    if (!mode.value) return {};
    return mode.value === "manual" ? { "x-ms-offer-throughput": rus.value } : { "x-ms-cosmos-offer-autopilot-settings": stringify({ maxThroughput: Number(rus.value) }) };
  }

  function parts() {
    const database = isNew() ? newID.value : oldID.value, whole = isNew() && shared.checked;
    return { database, forDatabase: whole ? throughput() : {}, forContainer: { ...(whole ? {} : throughput()), ...(count.value ? { "x-decan-partition-count": count.value } : {}) } };
  }

  const shown = el("pre", { class: "request", tabindex: "0" });
  function preview() {
    try {
      const { database, forDatabase, forContainer } = parts();
      const headers = (all) => Object.entries(all).map(([name, value]) => `${name}: ${value}\n`).join("");
      show(shown, isNew() && `POST /dbs\n${headers(forDatabase)}\n${stringify({ id: database })}\n\n`, `POST /dbs/${encodeURIComponent(database)}/colls\n${headers(forContainer)}\n${stringify(definition(), "  ")}`);
    } catch (error) {
      show(shown, `The indexing policy is not JSON: ${error.message}`);
    }
  }

  async function create() {
    wrong.textContent = "";
    ok.disabled = true;
    try {
      const { database, forDatabase, forContainer } = parts(), body = stringify(definition());
      if (isNew() && !made.has(database)) {
        await request("POST", ["dbs"], { body: stringify({ id: database }), headers: forDatabase });
        made.add(database);
      }
      await request("POST", ["dbs", database, "colls"], { body, headers: forContainer });
      close({ database, container: id.value });
    } catch (error) {
      wrong.textContent = error.message;
      wrong.scrollIntoView({ block: "nearest" });
      if (made.size) changed(); // The database exists, whatever became of the container.
    } finally {
      ok.disabled = false;
    }
  }

  const ok = el("button", { type: "submit", class: "button primary" }, "OK");
  const body = el("form", { class: "newcontainer", novalidate: true, on: { submit: (event) => { event.preventDefault(); if (!ok.disabled) create(); } } },
    el("fieldset", {}, el("legend", {}, "Database id"), el("div", { class: "radios" }, createNew, existing && useExisting), newID, oldID, sharing),
    field("Container id", id),
    el("fieldset", {}, el("legend", {}, "Partition key"), levels, add, el("p", { class: "hint" }, "From broad to narrow, at most three levels. The key of a container never changes.")),
    el("fieldset", {}, el("legend", {}, throughputOf), el("div", { class: "line" }, mode, rus, el("span", { class: "hint" }, "RU/s"))),
    el("fieldset", {}, el("legend", {}, "Unique keys"), uniques, addUnique),
    el("details", {}, el("summary", {}, "Advanced"),
      field("Indexing", indexing), policy.root,
      el("div", { class: "field" }, el("label", {}, "Time to live ", ttl), ttlSeconds),
      policies.root,
      field("Keep all versions and deletes for so many minutes", retention, "The change feed then has every change, and items have a history."),
      field("Physical partitions", count, "An exact number to begin with, which only this server knows.")),
    el("details", {}, el("summary", {}, "Request"), shown),
    wrong, el("div", { class: "actions" }, button("Cancel", () => close()), ok));
  addLevel();
  databaseFields();
  return body;
}
