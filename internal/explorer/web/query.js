// The screen for queries.

import { button, download, el, select, show } from "./dom.js";
import { queryPage, read } from "./api.js";
import { format, parse, SyntaxFault } from "./json.js";
import { Editor } from "./editor.js";
import { Grid, text as cellText } from "./grid.js";
import { Properties, completer } from "./complete.js";
import { columns, csv } from "./export.js";
import { partitionsOf, ring } from "./keyspace.js";
import { planView } from "./plan.js";
import { dialog, fail, tell } from "./dialog.js";
import { KeyFields } from "./keyfields.js";
import { containerPlace, go } from "./router.js";
import { clock, count, millis, plural, units } from "./format.js";

const recent = []; // queries of this page, newest first: {database, container, text, parameters, at}
const recentMax = 100;
const learned = new Map(); // Properties by container

export function query(context) {
  const { database, container, path } = context, key = path.join("/");
  let properties = learned.get(key);
  if (!properties) learned.set(key, properties = new Properties());
  const parameters = [];
  const editor = new Editor({ language: "sql", label: "Query", value: "SELECT * FROM c", complete: completer(properties, () => parameters.map((p) => p.name.value)) });
  const fields = new KeyFields({ paths: context.paths });
  const size = select([["25", "25"], ["100", "100"], ["1000", "1,000"]], "100", null, { "aria-label": "Rows of a page" });
  const runButton = button("Run", () => run(), { kind: "primary", title: "Run the query, or its selected part (Shift+Enter)" });
  const explainButton = button("Explain", () => { choose("plan"); explain(); }, { title: "Show how the server runs it. The first page is charged." });
  const cancel = button("Cancel", () => running?.abort(), { disabled: true, title: "Cancel (Escape)" });
  const note = el("span", { class: "result", role: "status" });
  const more = button("Load more", () => load(true), { disabled: true });
  const side = el("div", { class: "keyspace" });
  let running = null, current = null, rows = [], texts = [], visited = new Set(), partitions = [], totals;

  // Parameters: a name and a value of JSON.
  const list = el("div", { class: "parameters" });
  function addParameter(given = "@p" + (parameters.length + 1), json = '""') {
    const name = el("input", { class: "mono", value: given, "aria-label": "Name of the parameter", spellcheck: "false" });
    const value = el("input", { class: "mono", value: json, "aria-label": "Value of the parameter, as JSON", spellcheck: "false" });
    const entry = { name, value };
    const line = el("div", { class: "parameterline" }, name, el("span", { "aria-hidden": "true" }, "="), value, button("×", () => {
      parameters.splice(parameters.indexOf(entry), 1);
      line.remove();
    }, { kind: "plain", "aria-label": "Remove the parameter" }));
    parameters.push(entry);
    list.append(line);
    return value;
  }

  function readParameters() {
    return parameters.map(({ name, value }) => {
      try {
        parse(value.value);
      } catch (error) {
        if (!(error instanceof SyntaxFault)) throw error;
        value.focus();
        throw new Error(`The value of ${name.value} is not JSON: texts need double quotes. ${error.message}`);
      }
      return { name: name.value, json: value.value };
    });
  }

  // Results.
  const grid = new Grid({ label: "Rows", columns: [], sortable: true, empty: "Run a query to see its rows.", open: (row) => showRow(row) });
  const json = new Editor({ language: "json", label: "Rows as JSON", readOnly: true });
  const planRoot = el("div", { class: "panel", tabindex: "0" }, el("div", { class: "empty" }, "Explain shows the plan: its steps, indexes and partitions."));
  const metricsRoot = el("div", { class: "panel", tabindex: "0" }, el("div", { class: "empty" }, "Run a query to see what it cost."));
  const tabs = { table: ["Table", grid.root], json: ["JSON", json.root], plan: ["Plan", planRoot], metrics: ["Cost", metricsRoot] };
  const strip = el("div", { class: "tabs small", role: "tablist", "aria-label": "Results" });
  const panel = el("div", { class: "results", role: "tabpanel", tabindex: "-1" });
  let shown = "table";
  function choose(name) {
    shown = name;
    show(strip, Object.entries(tabs).map(([id, [title]]) => el("button", { type: "button", role: "tab", "aria-selected": String(id === name), tabindex: id === name ? "0" : "-1", on: {
      click: () => choose(id), keydown: (event) => {
        const ids = Object.keys(tabs), to = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!to) return;
        choose(ids[(ids.indexOf(id) + to + ids.length) % ids.length]);
        strip.querySelector("[aria-selected=true]").focus();
      },
    } }, title)));
    panel.setAttribute("aria-label", tabs[name][0]);
    show(panel, tabs[name][1]);
    if (name === "json" && json.stale) drawJSON();
    if (name === "plan" && !current?.plan && current?.text === selection().text && rows.length) explain();
  }

  function drawJSON() {
    json.stale = false;
    const all = texts.length > 2000 ? texts.slice(0, 2000) : texts;
    json.value = all.length ? format(`[${all.join(",")}]`) : "";
    if (all.length < texts.length) tell(`JSON shows the first ${count(all.length)} rows; the export has all.`);
  }

  function showRow(row) {
    const at = rows.indexOf(row.value);
    dialog("Row", () => {
      const view = new Editor({ language: "json", label: "Row", readOnly: true, value: format(texts[at]) });
      return view.root;
    }, { wide: true });
  }

  /** Returns the selected part of the text, or the whole. */
  function selection() {
    const { selectionStart: start, selectionEnd: end, value } = editor.area;
    return end - start > 6 ? { text: value.slice(start, end), offset: start } : { text: value, offset: 0 };
  }

  async function run() {
    running?.abort();
    editor.mark([]);
    let request;
    try {
      const { text, offset } = selection();
      request = { text, offset, parameters: readParameters(), key: fields.key(), size: Number(size.value), continuation: "", plan: null };
    } catch (error) {
      return fail(error);
    }
    current = request;
    recent.unshift({ database, container, text: request.text, parameters: request.parameters, at: new Date() });
    recent.length = Math.min(recent.length, recentMax);
    [rows, texts, visited, totals] = [[], [], new Set(), { charge: 0, millis: 0, pages: 0, metrics: {} }];
    show(planRoot, el("div", { class: "empty" }, "Explain shows the plan: its steps, indexes and partitions."));
    await load(false);
    if (shown === "plan" && current === request && totals.pages) explain();
  }

  async function load(append) {
    const mine = running = new AbortController(), request = current;
    busy(true);
    note.textContent = "Running…";
    try {
      const page = await queryPage(database, container, { ...request, signal: mine.signal });
      request.continuation = page.continuation;
      rows = rows.concat(page.rows);
      texts = texts.concat(page.texts);
      page.partitions.forEach((p) => visited.add(p));
      for (const item of page.rows.slice(0, 50)) properties.learn(item);
      account(page);
      draw(append);
    } catch (error) {
      if (error.name === "AbortError") note.textContent = "Cancelled.";
      else refused(error, request);
    } finally {
      if (running === mine) busy(false);
      more.disabled = !current?.continuation;
    }
  }

  function refused(error, { offset }) {
    note.textContent = error.spots.length ? "The query has an error." : "";
    if (error.spots?.length) editor.mark(error.spots.map((s) => ({ start: s.start + offset, end: s.end + offset, message: s.message })));
    else fail(error);
  }

  function busy(on) {
    cancel.disabled = !on;
    runButton.disabled = explainButton.disabled = on;
  }

  function account(page) {
    totals.charge += page.charge;
    totals.millis += page.millis;
    totals.pages++;
    for (const part of page.metrics.split(";").filter(Boolean)) {
      const [name, value] = part.split("=");
      totals.metrics[name] = (totals.metrics[name] ?? 0) + Number(value);
    }
  }

  function draw(append) {
    const names = columns(rows) ?? ["value"], plain = !columns(rows);
    const shape = names.join("\n");
    if (!append || grid.shape !== shape) {
      grid.shape = shape;
      grid.setColumns(names.filter((n) => !["_rid", "_self", "_attachments"].includes(n)).slice(0, 60).map((name) => ({
        title: name, value: (r) => plain ? r.value : r.value?.[name], numeric: typeof (plain ? rows[0] : rows[0]?.[name]) === "number", width: "minmax(110px, 1fr)",
        cell: (r) => cellText(plain ? r.value : r.value !== null && typeof r.value === "object" && Object.hasOwn(r.value, name) ? r.value[name] : undefined),
      })));
    }
    grid.none.textContent = "The query has no rows.";
    grid.setRows(rows.map((value) => ({ value })), append);
    json.stale = true;
    if (shown === "json") drawJSON();
    note.textContent = `${plural(rows.length, "row")}${current.continuation ? ", more available" : ""} · ${units(totals.charge)} · ${millis(totals.millis)} · ${plural(totals.pages, "page")}`;
    show(metricsRoot, el("dl", { class: "facts" }, [
      ["Request charge", units(totals.charge)], ["Time seen by the page", millis(totals.millis)], ["Pages", totals.pages], ["Partitions asked", `${visited.size} of ${partitions.length || "?"}`],
      ...Object.entries(totals.metrics).filter(([name]) => name !== "indexUtilizationRatio").map(([name, value]) => [worded(name), name.endsWith("Ms") ? millis(value) : count(value)]),
    ].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
    drawRing();
  }

  async function drawRing() {
    try {
      const { length } = partitions;
      if (!length || [...visited].some((id) => !partitions.some((p) => p.id === id))) partitions = await partitionsOf(path);
      const asked = partitions.filter((p) => visited.has(p.id)).length;
      show(side, ring(partitions, { visited: rows && totals ? [...visited] : undefined, caption: totals ? `${asked} of ${partitions.length}` : count(partitions.length), note: totals ? "partitions asked" : partitions.length === 1 ? "partition" : "partitions",
        label: totals ? `The query asked ${asked} of ${partitions.length} partitions: ${[...visited].join(", ")}` : plural(partitions.length, "partition") }),
      totals && el("p", { class: "hint" }, `Asked: ${[...visited].join(", ")}`));
    } catch (error) {
      show(side, el("p", { class: "hint" }, error.message));
    }
  }

  async function explain() {
    editor.mark([]);
    let request;
    try {
      const { text, offset } = selection();
      request = { text, offset, parameters: readParameters(), key: fields.key(), size: Number(size.value) };
    } catch (error) {
      return fail(error);
    }
    const mine = running = new AbortController();
    busy(true);
    try {
      const page = await queryPage(database, container, { ...request, explain: true, signal: mine.signal });
      if (current) current.plan = page.rows[0];
      show(planRoot, planView(page.rows[0], addIndex));
    } catch (error) {
      if (error.name !== "AbortError") refused(error, request);
    } finally {
      if (running === mine) busy(false);
    }
  }

  /** Opens the settings with a composite index added to the policy. */
  async function addIndex(paths) {
    const policy = (await read(path)).indexingPolicy;
    const index = paths.map((p) => {
      const [name, order] = p.split(/ (?=ASC$|DESC$)/);
      return { path: name, order: order === "DESC" ? "descending" : "ascending" };
    });
    policy.compositeIndexes = [...policy.compositeIndexes ?? [], index];
    go(...containerPlace(database, container, "settings"));
    setTimeout(() => dispatchEvent(new CustomEvent("policy", { detail: { key, policy } })), 300);
  }

  function history() {
    dialog("Recent queries", (close) => recent.length ? el("ul", { class: "recent" }, recent.map((r) => el("li", {}, el("button", { type: "button", class: "plainrow", on: { click: () => {
      editor.value = r.text;
      parameters.length = 0;
      show(list);
      r.parameters.forEach((p) => addParameter(p.name, p.json));
      close();
      editor.focus();
    } } }, el("span", { class: "hint" }, `${clock(r.at)} · ${r.database}/${r.container}`), el("span", { class: "mono" }, r.text))))) : el("p", {}, "No query has run yet. Queries are kept until the page is closed."), { wide: true });
  }

  function save(form) {
    if (!rows.length) return tell("There are no rows to export.", "bad");
    if (form === "json") download(`${container}-query.json`, "application/json", `[\n${texts.join(",\n")}\n]\n`);
    if (form === "jsonl") download(`${container}-query.jsonl`, "application/jsonl", texts.map((t) => t + "\n").join(""));
    if (form === "csv") download(`${container}-query.csv`, "text/csv", csv(rows));
  }

  const exports = select([["", "Export…"], ["json", "JSON"], ["jsonl", "JSON lines"], ["csv", "CSV"]], "", (form) => { save(form); exports.value = ""; }, { "aria-label": "Export the loaded rows" });
  const root = el("div", { class: "query", on: { keydown: (event) => {
    if (event.key === "Enter" && event.ctrlKey) run();
    if (event.key === "Escape" && !cancel.disabled) running?.abort();
  } } },
  el("div", { class: "asking" },
    el("div", { class: "ask" }, editor.root,
      el("div", { class: "actionbar" }, runButton, explainButton, cancel, button("Parameter", () => addParameter().select(), { title: "Add a parameter of the query, such as @p1" }), button("Recent…", history), el("span", { class: "space" }), el("label", { class: "inline" }, "page of ", size)),
      list, el("details", { class: "scope" }, el("summary", {}, "Ask only the partitions of a key"), fields.root)),
    side),
  el("div", { class: "resultbar" }, strip, el("span", { class: "space" }), note, more, exports), panel);
  choose("table");
  return { root, run, shown: () => { if (!partitions.length) drawRing(); } };
}

const words = { retrievedDocumentCount: "Items read", retrievedDocumentSize: "Bytes read", outputDocumentCount: "Rows", outputDocumentSize: "Bytes of rows", totalExecutionTimeInMs: "Execution on the server", queryCompileTimeInMs: "Compiling", indexLookupTimeInMs: "Looking up the index", documentLoadTimeInMs: "Loading items", VMExecutionTimeInMs: "Running the plan" };
const worded = (name) => words[name] ?? name;

