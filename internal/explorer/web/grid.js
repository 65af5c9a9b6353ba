// A table of any number of rows, of which only the visible ones are elements.

import { el, show, unique } from "./dom.js";

const rowHeight = 30;
const around = 8; // rows above and below the visible ones

/**
 * A grid. columns are {title, width, value(row), cell(row), numeric}; options are label, open(row, index),
 * selectable, selected (called after a change of the selection).
 */
export class Grid {
  constructor({ label, columns, open, selectable = false, selected, sortable = false, empty = "Nothing to show." }) {
    Object.assign(this, { open, selectable, selected, sortable, empty, rows: [], order: null, active: 0, current: -1, chosen: new Set(), id: unique("grid") });
    this.head = el("div", { class: "row head", role: "row" });
    this.body = el("div", { class: "body", role: "rowgroup" });
    this.none = el("div", { class: "empty" }, empty);
    this.root = el("div", { class: "grid", role: "grid", "aria-label": label, tabindex: "0", on: {
      scroll: () => this.later(), keydown: (event) => this.key(event),
    } }, el("div", { role: "rowgroup", class: "heads" }, this.head), this.body, this.none);
    new ResizeObserver(() => this.later()).observe(this.root);
    this.setColumns(columns);
  }

  setColumns(columns) {
    this.columns = columns;
    this.root.style.setProperty("--columns", (this.selectable ? "36px " : "") + columns.map((c) => c.width ?? "minmax(110px, 1fr)").join(" "));
    // All rows are as wide as the narrowest columns need, so that head and rows agree.
    this.root.style.setProperty("--least", `${(this.selectable ? 36 : 0) + columns.reduce((n, c) => n + Number(/\d+/.exec(c.width ?? "110")[0]), 0)}px`);
    this.root.setAttribute("aria-colcount", columns.length + Number(this.selectable));
    this.sorted = null;
    this.order = null;
    this.heads();
    this.draw();
  }

  heads() {
    this.all = this.selectable && el("input", { type: "checkbox", "aria-label": "Select all rows", tabindex: "-1", on: { change: () => {
      this.chosen = new Set(this.all.checked ? this.rows : []);
      this.draw();
      this.selected?.();
    } } });
    show(this.head, this.selectable && el("div", { role: "columnheader", class: "check" }, this.all), this.columns.map((column, i) => {
      const direction = this.sorted?.column === i ? this.sorted.direction : 0;
      return el("div", {
        role: "columnheader", class: column.numeric ? "numeric" : "", title: column.hint ?? column.title,
        "aria-sort": direction ? (direction > 0 ? "ascending" : "descending") : null,
      }, this.sortable ? el("button", { type: "button", tabindex: "-1", on: { click: () => this.sort(i) } }, column.title, direction > 0 ? " ↑" : direction < 0 ? " ↓" : "") : column.title);
    }));
  }

  /** Replaces the rows, or appends to them if more is true. */
  setRows(rows, more = false) {
    this.rows = rows;
    this.order = null;
    if (this.sorted) this.arrange();
    if (!more) {
      this.chosen.clear();
      Object.assign(this, { active: 0, current: -1 });
      this.root.scrollTop = 0;
    }
    this.draw();
  }

  sort(column) {
    const direction = this.sorted?.column !== column ? 1 : this.sorted.direction > 0 ? -1 : 0;
    this.sorted = direction ? { column, direction } : null;
    this.arrange();
    this.heads();
    this.draw();
  }

  arrange() {
    if (!this.sorted) {
      this.order = null;
      return;
    }
    const { column, direction } = this.sorted, value = this.columns[column].value;
    const rank = (v) => v === undefined ? 0 : v === null ? 1 : typeof v === "boolean" ? 2 : typeof v === "number" ? 3 : typeof v === "string" ? 4 : 5;
    const keys = this.rows.map(value);
    this.order = this.rows.map((_, i) => i).sort((a, b) => {
      const x = keys[a], y = keys[b];
      return direction * (rank(x) - rank(y) || (x < y ? -1 : x > y ? 1 : 0)) || a - b;
    });
  }

  row(i) { return this.rows[this.order ? this.order[i] : i]; }

  later() { this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.draw(); }); }

  draw() {
    const total = this.rows.length;
    this.none.hidden = total > 0;
    this.root.setAttribute("aria-rowcount", total + 1);
    this.body.style.height = `${total * rowHeight}px`;
    const top = Math.max(0, this.root.scrollTop), height = this.root.clientHeight || 600;
    const first = Math.max(0, Math.floor(top / rowHeight) - around), last = Math.min(total, Math.ceil((top + height) / rowHeight) + around);
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.element(i));
    show(this.body, rows);
    if (this.all) {
      this.all.checked = total > 0 && this.chosen.size === total;
      this.all.indeterminate = this.chosen.size > 0 && this.chosen.size < total;
    }
    if (total && document.getElementById(`${this.id}-${this.active}`)) this.root.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.root.removeAttribute("aria-activedescendant");
    // For screen readers, a grid without columns is none.
    const columns = this.columns.length > 0;
    this.head.parentElement.hidden = this.body.hidden = !columns;
    this.root.setAttribute("role", columns ? "grid" : "group");
    if (!columns) for (const name of ["aria-rowcount", "aria-colcount"]) this.root.removeAttribute(name);
  }

  element(i) {
    const row = this.row(i);
    const node = el("div", {
      class: `row ${i === this.active ? "active" : ""} ${row === this.opened ? "current" : ""}`, role: "row", id: `${this.id}-${i}`,
      "aria-rowindex": i + 2, "aria-selected": this.selectable ? String(this.chosen.has(row)) : null, "aria-current": row === this.opened ? "true" : null,
      on: { click: (event) => { if (!event.target.closest("input")) this.go(i, true); } },
    }, this.selectable && el("div", { role: "gridcell", class: "check" }, el("input", {
      type: "checkbox", tabindex: "-1", "aria-label": `Select row ${i + 1}`, checked: this.chosen.has(row), on: { change: () => this.toggle(row) },
    })), this.columns.map((column) => {
      const content = column.cell?.(row) ?? text(column.value(row));
      return el("div", { role: "gridcell", class: `${column.numeric ? "numeric" : ""} ${content.kind ?? ""}`, title: content.title ?? (typeof content === "string" ? content : null) }, content.node ?? content.text ?? content);
    }));
    node.style.top = `${i * rowHeight}px`;
    return node;
  }

  /** Marks the row whose details are shown. */
  mark(row) {
    this.opened = row;
    this.draw();
  }

  toggle(row) {
    if (!this.chosen.delete(row)) this.chosen.add(row);
    this.draw();
    this.selected?.();
  }

  go(i, open) {
    this.active = Math.max(0, Math.min(i, this.rows.length - 1));
    const top = this.active * rowHeight, view = this.root.clientHeight - 34;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top + rowHeight > this.root.scrollTop + view) this.root.scrollTop = top + rowHeight - view;
    this.draw();
    if (open && this.rows.length) this.open?.(this.row(this.active), this.active);
  }

  key(event) {
    if (event.target !== this.root) return;
    const page = Math.max(1, Math.floor(this.root.clientHeight / rowHeight) - 2);
    const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: this.rows.length - 1 }[event.key];
    if (to !== undefined) this.go(to, false);
    else if (event.key === "Enter") this.go(this.active, true);
    else if (event.key === " " && this.selectable && this.rows.length) this.toggle(this.row(this.active));
    else return;
    event.preventDefault();
  }
}

/** Returns how a value of JSON is shown in a cell. */
export function text(value) {
  if (value === undefined) return { text: "(absent)", kind: "faint" };
  if (value === null) return { text: "null", kind: "faint" };
  if (typeof value === "string") return value.length > 300 ? value.slice(0, 300) + "…" : value;
  if (typeof value === "object" && !("text" in value && value.constructor.name === "BigNumber")) {
    const json = JSON.stringify(value, (_, v) => v?.constructor?.name === "BigNumber" ? Number(v.text) : v);
    return json.length > 300 ? json.slice(0, 300) + "…" : json;
  }
  return { text: String(value), kind: typeof value === "boolean" ? "literal" : "" };
}
