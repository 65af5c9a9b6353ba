// Queries over tables of the Cassandra API: statements that only read.

import { button, download, el, select, show } from "./dom.js";
import { caller } from "./api.js";
import { columnsOf, quoted, select as run } from "./cql.js";
import { Editor } from "./editor.js";
import { Grid, text } from "./grid.js";
import { columns, csv } from "./export.js";
import { format, stringify } from "./json.js";
import { fail } from "./dialog.js";
import { count, millis, plural, units } from "./format.js";
import { partitionsOf, ring } from "./keyspace.js";
import { whyNoAdmin } from "./tree.js";

export async function cqlquery({ database, container, path }) {
  if (!caller.admin) return { root: el("div", { class: "empty" }, el("p", {}, `Rows are not shown. ${whyNoAdmin()}`)) };
  const names = (await columnsOf(database, container)).map((c) => c.name);
  const complete = (value, caret) => {
    const from = caret - /[\w"]*$/.exec(value.slice(0, caret))[0].length, word = value.slice(from, caret).replaceAll('"', "").toLowerCase();
    const words = ["SELECT", "FROM", "WHERE", "AND", "ORDER BY", "GROUP BY", "LIMIT", "PER PARTITION LIMIT", "ALLOW FILTERING", "DISTINCT", "COUNT(*)", "TOKEN(", "WRITETIME(", "TTL("];
    const items = word ? [...names.filter((n) => n.toLowerCase().startsWith(word)).map((n) => ({ text: n, insert: /^[a-z]\w*$/.test(n) ? n : quoted(n), kind: "column" })),
      ...words.filter((w) => w.toLowerCase().startsWith(word) && w.toLowerCase() !== word).map((w) => ({ text: w, insert: w, kind: "keyword" }))] : [];
    return items.length ? { from, items } : null;
  };
  const editor = new Editor({ language: "sql", label: "Statement of CQL", value: `SELECT * FROM ${quoted(database)}.${quoted(container)}`, complete });
  const size = select([["100", "100"], ["1000", "1,000"], ["5000", "5,000"]], "100", null, { "aria-label": "Rows of a page" });
  const go = button("Run", () => begin(), { kind: "primary", title: "Run the statement (Shift+Enter)" }), cancel = button("Cancel", () => running?.abort(), { disabled: true, title: "Cancel (Escape)" });
  const more = button("Load more", () => load(true), { disabled: true });
  const note = el("span", { class: "result", role: "status" }), wrong = el("p", { class: "error", role: "alert" }), side = el("div", { class: "keyspace" });
  const grid = new Grid({ label: "Rows", columns: [], sortable: true, empty: "Run a statement to see its rows." }), json = new Editor({ language: "json", label: "Rows as JSON", readOnly: true });
  const asJSON = el("input", { type: "checkbox", on: { change: () => draw() } });
  const panel = el("div", { class: "results" });
  let all = [], spent = 0, took = 0, asked = null, running = null, visited = new Set(), partitions = [];

  async function begin() {
    asked = { text: editor.value.trim().replace(/;$/, ""), continuation: "" };
    [all, spent, took, visited] = [[], 0, 0, new Set()];
    await load(false);
  }

  async function load() {
    const mine = running = new AbortController();
    wrong.textContent = "";
    note.textContent = "Running…";
    go.disabled = true;
    cancel.disabled = false;
    try {
      const page = await run(asked.text, { size: Number(size.value), continuation: asked.continuation, signal: mine.signal });
      all = all.concat(page.rows);
      asked.continuation = page.continuation;
      spent += page.charge;
      took += page.millis;
      page.partitions.forEach((p) => visited.add(p));
      note.textContent = `${plural(all.length, "row")}${page.continuation ? ", more available" : ""} · ${units(spent)} · ${millis(took)}`;
      if (page.warnings.length) wrong.textContent = page.warnings.join(" ");
      draw();
      await drawRing();
    } catch (error) {
      note.textContent = error.name === "AbortError" ? "Cancelled." : "";
      if (error.name !== "AbortError") wrong.textContent = error.message;
    } finally {
      if (running === mine) {
        go.disabled = false;
        cancel.disabled = true;
      }
      more.disabled = !asked.continuation;
    }
  }

  function draw() {
    const found = columns(all) ?? [];
    grid.setColumns(found.map((name) => ({ title: name, width: "minmax(96px, 1fr)", value: (r) => r[name] ?? null, numeric: typeof all[0]?.[name] === "number", cell: (r) => text(r[name] ?? null) })));
    grid.none.textContent = "The statement has no rows.";
    grid.setRows(all);
    if (asJSON.checked) json.value = all.length ? format(`[${all.slice(0, 2000).map((r) => stringify(r)).join(",")}]`) : "";
    show(panel, asJSON.checked ? json.root : grid.root);
  }

  async function drawRing() {
    if (!partitions.length || [...visited].some((id) => !partitions.some((p) => p.id === id))) partitions = await partitionsOf(path);
    const known = partitions.filter((p) => visited.has(p.id)).length;
    show(side, ring(partitions, { visited: asked ? [...visited] : undefined, caption: asked ? `${known} of ${partitions.length}` : count(partitions.length), note: asked ? "partitions asked" : plural(partitions.length, "partition").replace(/^\S+ /, ""), label: asked ? `The statement asked ${known} of ${partitions.length} partitions` : plural(partitions.length, "partition") }));
  }

  const exports = select([["", "Export…"], ["json", "JSON"], ["csv", "CSV"]], "", (form) => {
    if (form === "json") download(`${container}-query.json`, "application/json", `[\n${all.map((r) => stringify(r)).join(",\n")}\n]\n`);
    if (form === "csv") download(`${container}-query.csv`, "text/csv", csv(all));
    exports.value = "";
  }, { "aria-label": "Export the loaded rows" });
  show(panel, grid.root);
  const root = el("div", { class: "query", on: { keydown: (event) => { if (event.key === "Escape" && !cancel.disabled) running?.abort(); } } },
    el("div", { class: "asking" }, el("div", { class: "ask" }, editor.root, el("div", { class: "actionbar" }, go, cancel, el("span", { class: "hint" }, "SELECT and DESCRIBE; nothing is changed here."), el("span", { class: "space" }), el("label", { class: "inline" }, "page of ", size))), side),
    wrong, el("div", { class: "resultbar" }, el("label", { class: "check" }, asJSON, "JSON"), el("span", { class: "space" }), note, more, exports), panel);
  return { root, run: begin, shown: () => { if (!partitions.length) drawRing().catch(fail); } };
}
