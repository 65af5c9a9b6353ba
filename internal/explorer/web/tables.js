// Tables of the Cassandra API: rows by the columns of their keys, which are only read here,
// and the definition. CQL writes rows.

import { button, download, el, select, show, unique } from "./dom.js";
import { caller } from "./api.js";
import { columnsOf, constant, literal, quoted, select as run, typed } from "./cql.js";
import { Editor } from "./editor.js";
import { Grid, text } from "./grid.js";
import { csv } from "./export.js";
import { format, stringify } from "./json.js";
import { fail, failed, tell } from "./dialog.js";
import { bytes, count, millis, moment, plural, units } from "./format.js";
import { whyNoAdmin } from "./tree.js";
import { RowTree } from "./rowtree.js";

const nothing = () => ({ root: el("div", { class: "empty" }, el("p", {}, `Rows and columns are not shown. ${whyNoAdmin()}`)) });

/** The screen of a table's rows. */
export async function rows(context) {
  if (!caller.admin) return nothing();
  const { database, container } = context, columns = await columnsOf(database, container), table = `${quoted(database)}.${quoted(container)}`;
  const keys = columns.filter((c) => c.kind === "partition_key"), clustering = columns.filter((c) => c.kind === "clustering"), key = [...keys, ...clustering];
  let asked = null, all = [], spent = 0, running = null;

  // A field for each column of the key, from the left.
  const fields = key.map((column, i) => {
    const id = unique("column"), input = el("input", { id, autocomplete: "off", spellcheck: "false", placeholder: column.type });
    const relation = column.kind === "clustering" ? select([["=", "="], [">=", "≥"], ["<=", "≤"], [">", ">"], ["<", "<"]], "=", null, { class: "kind", "aria-label": `Relation of ${column.name}` }) : null;
    const root = el("div", { class: "level" }, el("label", { for: id }, column.name), el("div", { class: relation ? "pair" : "" }, input, relation), i < key.length - 1 && el("span", { class: "then", "aria-hidden": "true" }, "›"));
    return { column, input, relation, root };
  });

  /** Returns the WHERE clause of the fields; empty for the whole table. */
  function where() {
    const given = fields.filter((f) => f.input.value !== ""), parts = [];
    let open = "", range = "";
    for (const { column, input, relation } of fields) {
      if (input.value === "") {
        open ||= column.name;
        continue;
      }
      if (open) throw new Error(`Give ${open} as well: a key is given from the left.`);
      if (range) throw new Error(`${range} has a range: no column follows it.`);
      const sign = relation?.value ?? "=";
      if (sign !== "=") range = column.name;
      parts.push(`${quoted(column.name)} ${sign} ${typed(input.value, column.type)}`);
    }
    if (given.length && given.length < keys.length) throw new Error(`Give ${keys.slice(given.length).map((c) => c.name).join(" and ")} as well: a row is found by its whole partition key.`);
    return parts.length ? ` WHERE ${parts.join(" AND ")}` : "";
  }

  const size = select([["25", "25 a page"], ["100", "100 a page"], ["1000", "1,000 a page"]], "100", null, { "aria-label": "Rows of a page" });
  const note = el("span", { class: "result", role: "status" }), wrong = el("p", { class: "error", role: "alert" });
  const more = button("Load more", () => load(true).catch(fail), { disabled: true });
  const marks = { partition_key: "partition key", clustering: "clustering column", static: "static column", regular: "column" };
  const grid = new Grid({
    label: `Rows of ${container}`, empty: "No rows.", open: (row) => detail(row).catch(fail),
    columns: columns.map((c) => ({ title: c.name + (c.kind === "clustering" ? c.order === "DESC" ? " ↓" : " ↑" : ""), hint: `${c.type}, ${marks[c.kind]}`, width: "minmax(96px, 1fr)", value: (r) => r[c.name] ?? null, cell: (r) => text(r[c.name] ?? null) })),
  });

  async function apply() {
    wrong.textContent = "";
    try {
      asked = { text: `SELECT * FROM ${table}${where()}`, continuation: "" };
    } catch (error) {
      wrong.textContent = error.message;
      return;
    }
    spent = 0;
    await load(false);
  }

  async function load(append) {
    running?.abort();
    const mine = running = new AbortController();
    note.textContent = "Reading…";
    more.disabled = true;
    try {
      const page = await run(asked.text, { size: Number(size.value), continuation: append ? asked.continuation : "", signal: mine.signal });
      all = append ? all.concat(page.rows) : page.rows;
      asked.continuation = page.continuation;
      spent += page.charge;
      grid.setRows(all, append);
      note.textContent = `${plural(all.length, "row")}${page.continuation ? ", more available" : ""} · ${units(spent)} · ${millis(page.millis)} · ${plural(page.partitions.length, "partition")} asked`;
    } catch (error) {
      if (error.name === "AbortError") return;
      note.textContent = "";
      wrong.textContent = error.message;
      if (!append) grid.setRows(all = []);
    } finally {
      if (running === mine) more.disabled = !asked.continuation;
    }
  }

  // One row: its values, and when its cells were written and expire.
  const view = new Editor({ language: "json", label: "Row as JSON", readOnly: true }), about = el("p", { class: "about" }), cells = el("div", {});
  const body = el("div", { class: "itembody", hidden: true }, el("div", { class: "panehead" }, el("h2", {}, "Row"), button("×", () => close(), { kind: "plain", "aria-label": "Close the row" })), about, view.root, cells);
  const hint = el("div", { class: "empty" }, "Choose a row to see it here.");
  const plain = columns.filter((c) => ["static", "regular"].includes(c.kind) && !/^(list|set|map)</.test(c.type) && c.type !== "counter");

  async function detail(row) {
    grid.mark(row);
    panes.classList.add("editing");
    body.hidden = false;
    hint.hidden = true;
    const json = stringify(row);
    view.value = format(json);
    about.textContent = `${bytes(new TextEncoder().encode(json).length)} as JSON · only CQL changes rows`;
    show(cells);
    if (!plain.length || clustering.some((c) => row[c.name] === null)) return;
    const list = plain.flatMap((c, i) => [`writetime(${quoted(c.name)}) AS w${i}`, `ttl(${quoted(c.name)}) AS t${i}`]);
    const page = await run(`SELECT ${list.join(", ")} FROM ${table} WHERE ${key.map((c) => `${quoted(c.name)} = ${literal(row[c.name], c.type)}`).join(" AND ")}`, { size: 1 });
    const [times] = page.rows;
    if (!times || grid.opened !== row) return;
    show(cells, el("div", { class: "tablewrap", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ["column", "written", "expires in"].map((h) => el("th", {}, h)))),
      el("tbody", {}, plain.map((c, i) => el("tr", {}, el("td", { class: "mono" }, c.name), el("td", {}, times[`w${i}`] === null ? "" : moment(Number(String(times[`w${i}`])) / 1e6)), el("td", {}, times[`t${i}`] === null ? "" : `${count(Number(times[`t${i}`]))} s`)))))));
  }

  function close() {
    grid.mark(null);
    body.hidden = true;
    hint.hidden = false;
    panes.classList.remove("editing");
  }

  const tree = new RowTree({ table, keys, clustering }, (values) => {
    fields.forEach((f, i) => {
      f.input.value = i < values.length ? String(values[i]) : "";
      if (f.relation) f.relation.value = "=";
    });
    apply().catch(fail);
  });
  const exports = select([["", "Export…"], ["json", "JSON"], ["jsonl", "JSON lines"], ["csv", "CSV"]], "", (form) => {
    if (form === "json") download(`${container}.json`, "application/json", `[\n${all.map((r) => stringify(r)).join(",\n")}\n]\n`);
    if (form === "jsonl") download(`${container}.jsonl`, "application/jsonl", all.map((r) => stringify(r) + "\n").join(""));
    if (form === "csv") download(`${container}.csv`, "text/csv", csv(all));
    exports.value = "";
  }, { "aria-label": "Export the loaded rows" });
  const panes = el("div", { class: "panes" }, tree.root,
    el("section", { class: "pane list", "aria-label": "Rows" }, el("div", { class: "actionbar" }, el("span", { class: "hint" }, "Rows are read here; CQL writes them."), el("span", { class: "space" }), exports), grid.root, el("div", { class: "listfoot" }, note, size, more)),
    el("section", { class: "pane detail", "aria-label": "Row" }, hint, body));
  const form = el("form", { class: "query-line", on: { submit: (event) => { event.preventDefault(); apply().catch(fail); } } },
    el("div", { class: "keyfields", role: "group", "aria-label": "Primary key" }, fields.map((f) => f.root)),
    el("div", { class: "go" }, el("button", { type: "submit", class: "button primary" }, "Apply"), button("Clear", () => {
      for (const f of fields) f.input.value = "";
      apply().catch(fail);
    })));
  let begun = false;
  return { root: el("div", { class: "items" }, form, wrong, panes), run: () => apply().catch(fail), shown() {
    if (!begun) apply().catch(fail);
    begun = true;
  } };
}

/** The screen of a table's definition. */
export async function columns({ database, container }) {
  if (!caller.admin) return nothing();
  const body = el("div", { class: "settings one" });
  async function load() {
    try {
      const of = `WHERE keyspace_name = ${constant(database)} AND table_name = ${constant(container)}`;
      const [all, options, indexes, described] = await Promise.all([columnsOf(database, container),
        run(`SELECT * FROM system_schema.tables ${of}`).then((p) => p.rows[0] ?? {}), run(`SELECT index_name, kind, options FROM system_schema.indexes ${of}`).then((p) => p.rows),
        run(`DESCRIBE TABLE ${quoted(database)}.${quoted(container)}`).then((p) => p.rows.map((r) => r.create_statement).join("\n\n"), (error) => `-- ${error.message}`)]);
      show(body, definition(all), optionsCard(options, indexes), statement(described));
    } catch (error) {
      failed(body, error, load);
    }
  }

  function definition(all) {
    const kind = (c) => ({ partition_key: `partition key, level ${c.position + 1}`, clustering: `clustering ${c.position + 1}`, static: "static: one value for the partition", regular: "" })[c.kind];
    return el("section", { class: "card" }, el("h2", {}, "Columns"), el("div", { class: "tablewrap", tabindex: "0" }, el("table", { class: "columntable" }, el("thead", {}, el("tr", {}, ["column", "type", "key", "order"].map((h) => el("th", {}, h)))),
      el("tbody", {}, all.map((c) => el("tr", {}, el("td", {}, c.kind === "partition_key" ? el("span", { class: `levelname level${Math.min(3, c.position + 1)}` }, c.name) : el("span", { class: "mono" }, c.name)), el("td", { class: "mono" }, c.type), el("td", {}, kind(c)), el("td", {}, c.kind === "clustering" ? c.order === "DESC" ? "descending" : "ascending" : "")))))));
  }

  function optionsCard(o, indexes) {
    return el("section", { class: "card" }, el("h2", {}, "Options"), el("dl", { class: "facts" }, [
      ["Comment", o.comment || "none"], ["Default time to live", Number(o.default_time_to_live) ? `${count(Number(o.default_time_to_live))} s` : "off"], ["Grace of deletions", `${count(Number(o.gc_grace_seconds ?? 0))} s`],
      ["Indexes", indexes.length ? indexes.map((i) => `${i.index_name} on ${i.options?.target ?? "?"}`).join("; ") : "none"], ["Id", el("span", { class: "mono" }, o.id)],
    ].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])), el("p", { class: "hint" }, "ALTER TABLE of CQL changes columns and options; throughput and limits are on the screen Settings."));
  }

  function statement(text_) {
    const view = new Editor({ language: "sql", label: "Definition in CQL", readOnly: true, value: text_ });
    return el("section", { class: "card" }, el("div", { class: "panehead" }, el("h2", {}, "Definition in CQL"), button("Copy", () => navigator.clipboard.writeText(text_).then(() => tell("Copied."), () => tell("The browser does not allow copying here.", "bad")))), view.root);
  }

  load();
  return { root: body };
}
