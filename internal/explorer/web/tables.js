// Tables of the Cassandra API: rows by the columns of their keys, which are only read here,
// and the definition. CQL writes rows.

import { button, download, el, select, show, unique } from "./dom.js";
import { caller } from "./api.js";
import { columnsOf, constant, literal, quoted, select as run, typed } from "./cql.js";
import { Editor } from "./editor.js";
import { Grid, text } from "./grid.js";
import { csv } from "./export.js";
import { format, stringify } from "./json.js";
import { fail, failed, tell, working } from "./dialog.js";
import { bytes, count, millis, moment, plural, units } from "./format.js";
import { none, whyNoAdmin } from "./tree.js";

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
    show(cells, el("div", { class: "tablewrap" }, el("table", {}, el("thead", {}, el("tr", {}, ["column", "written", "expires in"].map((h) => el("th", {}, h)))),
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

const partitionsMax = 5000; // partitions that the tree counts
const shownMax = 500; // values of a level

/** The values of the columns of a primary key with their rows, counted on demand. */
class RowTree {
  constructor(key, choose) {
    Object.assign(this, { key, choose, spent: 0 });
    this.list = el("ul", { role: "tree", "aria-label": "Key columns", on: { keydown: (event) => this.press(event) } });
    this.note = el("p", { class: "hint" }, "Counts the rows of each partition key, and of each value of a clustering column. It reads the table, which is charged.");
    this.start = button("Count", working(() => this.load()));
    this.root = el("section", { class: "pane keytree", "aria-label": "Key columns" }, el("div", { class: "panehead" }, el("h2", {}, "Key columns"), this.start), this.note, this.list);
  }

  async load() {
    this.spent = 0;
    const names = this.key.keys.map((c) => quoted(c.name)), found = await this.count(names, "");
    this.partitions = found.rows;
    const nodes = this.level([], found.more);
    show(this.list, nodes.length ? nodes : none(1, "The table is empty."));
    this.items()[0].tabIndex = 0;
    this.start.textContent = "Count again";
  }

  /** Counts the rows of each group of columns: {rows: [{values, n}], more}. */
  async count(names, where) {
    const found = [];
    for (let continuation = ""; ;) {
      const page = await run(`SELECT ${names.map((name, i) => `${name} AS k${i}`).join(", ")}, COUNT(*) AS n FROM ${this.key.table}${where} GROUP BY ${names.join(", ")}`, { size: 1000, continuation });
      this.spent += page.charge;
      found.push(...page.rows.map((r) => ({ values: names.map((_, i) => r[`k${i}`]), n: Number(r.n) })));
      continuation = page.continuation;
      if (!continuation || found.length >= partitionsMax) break;
      this.note.textContent = `Counting: ${plural(found.length, "value")}…`;
    }
    this.note.textContent = `Counted for ${units(this.spent)}.`;
    return { rows: found, more: found.length >= partitionsMax };
  }

  /** Returns the nodes of the values of a column of the partition key. */
  level(prefix, more) {
    const groups = new Map(), at = prefix.length;
    for (const p of this.partitions) {
      if (!prefix.every((v, i) => String(p.values[i]) === String(v))) continue;
      const name = String(p.values[at]), group = groups.get(name) ?? { value: p.values[at], n: 0 };
      group.n += p.n;
      groups.set(name, group);
    }
    return this.nodes(prefix, [...groups.values()].sort((a, b) => b.n - a.n), more);
  }

  nodes(prefix, groups, more) {
    const most = Math.max(1, ...groups.map((g) => g.n)), level = prefix.length + 1;
    const list = groups.slice(0, shownMax).map((g) => this.node([...prefix, g.value], g.n, most));
    if (groups.length > shownMax) list.push(none(level, `and ${count(groups.length - shownMax)} more`));
    if (more) list.push(none(level, `Only the first ${count(partitionsMax)} partition keys were counted.`));
    return list;
  }

  node(values, n, most) {
    const level = values.length, { keys, clustering } = this.key, column = [...keys, ...clustering][level - 1], last = level === keys.length + clustering.length;
    const share = el("span", { class: `share level${Math.min(3, level)}`, style: { "--share": n / most }, "aria-hidden": "true" });
    const node = el("div", { class: "treerow", role: "treeitem", tabindex: "-1", "aria-level": level, "aria-expanded": last ? null : "false", title: `${column.name} ${values.at(-1)}`, on: { click: () => this.pick(node) } },
      el("span", { class: "twist", "aria-hidden": "true" }, last ? "" : "▸"), el("span", { class: "label" }, String(values.at(-1))), el("span", { class: "counts" }, count(n), el("span", { class: "hidden" }, " rows")), share);
    node.values = values;
    return el("li", { role: "none" }, node);
  }

  pick(node) {
    for (const other of this.items()) {
      other.tabIndex = other === node ? 0 : -1;
      other.setAttribute("aria-selected", String(other === node));
    }
    if (node.values.length >= this.key.keys.length) this.choose(node.values);
    if (node.hasAttribute("aria-expanded")) this.toggle(node).catch(fail);
  }

  async toggle(node, open = node.getAttribute("aria-expanded") === "false") {
    node.parentElement.querySelector(":scope > ul")?.remove();
    node.setAttribute("aria-expanded", String(open));
    node.querySelector(".twist").textContent = open ? "▾" : "▸";
    if (!open) return;
    const { keys, clustering } = this.key, below = el("ul", { role: "group", id: unique("group") }, none(node.values.length + 1, "Counting…"));
    node.after(below);
    node.setAttribute("aria-owns", below.id);
    try {
      if (node.values.length < keys.length) return show(below, this.level(node.values, false));
      const all = [...keys, ...clustering], at = node.values.length;
      const found = await this.count(all.slice(0, at + 1).map((c) => quoted(c.name)), ` WHERE ${node.values.map((v, i) => `${quoted(all[i].name)} = ${literal(v, all[i].type)}`).join(" AND ")}`);
      show(below, this.nodes(node.values, found.rows.map((r) => ({ value: r.values[at], n: r.n })), found.more)); // In the order of the table.
    } catch (error) {
      below.remove();
      node.setAttribute("aria-expanded", "false");
      throw error;
    }
  }

  items() { return [...this.list.querySelectorAll("[role=treeitem]")]; }

  press(event) {
    const items = this.items(), node = document.activeElement.closest("[role=treeitem]"), at = items.indexOf(node);
    if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const expanded = node.getAttribute("aria-expanded");
    const focus = (other) => {
      if (!other) return;
      node.tabIndex = -1;
      other.tabIndex = 0;
      other.focus();
    };
    const acts = {
      ArrowDown: () => focus(items[at + 1]), ArrowUp: () => focus(items[at - 1]), Home: () => focus(items[0]), End: () => focus(items.at(-1)),
      ArrowRight: () => expanded === "false" ? this.toggle(node).catch(fail) : expanded && focus(items[at + 1]),
      ArrowLeft: () => expanded === "true" ? this.toggle(node, false).catch(fail) : focus(node.closest("[role=group]")?.previousElementSibling),
      Enter: () => node.values && this.pick(node), " ": () => node.values && this.pick(node),
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
  }
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
    return el("section", { class: "card" }, el("h2", {}, "Columns"), el("div", { class: "tablewrap" }, el("table", { class: "columntable" }, el("thead", {}, el("tr", {}, ["column", "type", "key", "order"].map((h) => el("th", {}, h)))),
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
