// The tree of key levels: the values of each level with their items and sizes. Counting
// is charged, so it happens on demand, one level at a time.

import { button, el, show, unique } from "./dom.js";
import { absent, pathNames, queryPage } from "./api.js";
import { component, levelName } from "./keyfields.js";
import { bytes, count, units } from "./format.js";
import { fail, working } from "./dialog.js";
import { none } from "./tree.js";

const shownMax = 500; // values of a level

/** Returns the expression of a path in a query. */
export const expression = (path) => "c" + pathNames(path).map((name) => `[${JSON.stringify(name)}]`).join("");

export class KeyTree {
  constructor(context, choose) {
    Object.assign(this, { context, choose, spent: 0 });
    this.list = el("ul", { role: "tree", "aria-label": "Key levels", on: { keydown: (event) => this.key(event) } });
    this.note = el("p", { class: "hint" }, "Counts the items and sizes of each value. It reads the container, which is charged.");
    this.start = button("Count", working(() => this.load()), { title: "Count the values of the first level" });
    this.root = el("section", { class: "pane keytree", "aria-label": "Key levels" },
      el("div", { class: "panehead" }, el("h2", {}, "Key levels"), this.start), this.note, this.list);
  }

  async load() {
    this.spent = 0;
    const nodes = await this.children([]);
    show(this.list, nodes.length ? nodes : none(1, "The container is empty."));
    this.items()[0].tabIndex = 0;
    this.start.textContent = "Count again";
  }

  /** Returns the nodes of the values of the level after prefix. */
  async children(prefix) {
    const { database, container, paths } = this.context, level = prefix.length, k = expression(paths[level]);
    const text = `SELECT ${k} AS k, COUNT(1) AS n, SUM(LENGTH(ToString(c))) AS b FROM c GROUP BY ${k}`;
    const rows = [];
    for (let continuation = ""; ;) {
      const page = await queryPage(database, container, { text, key: prefix, size: 1000, continuation });
      rows.push(...page.rows);
      this.spent += page.charge;
      continuation = page.continuation;
      if (!continuation) break;
    }
    this.note.textContent = `${levelName(paths[level])}: ${count(rows.length)} value${rows.length === 1 ? "" : "s"}. Counted for ${units(this.spent)}.`;
    rows.sort((a, b) => b.n - a.n);
    const most = rows[0]?.n ?? 1;
    const nodes = rows.slice(0, shownMax).map((row) => this.node([...prefix, "k" in row ? row.k : absent], row, most));
    if (rows.length > shownMax) nodes.push(none(level + 1, `and ${count(rows.length - shownMax)} more, with fewer items`));
    return nodes;
  }

  node(key, { n, b }, most) {
    const level = key.length, last = level === this.context.paths.length, name = component(key.at(-1));
    const share = el("span", { class: `share level${level}`, "aria-hidden": "true" });
    share.style.setProperty("--share", n / most);
    const node = el("div", {
      class: "treerow", role: "treeitem", tabindex: "-1", "aria-level": level, "aria-expanded": last ? null : "false", title: `${levelName(this.context.paths[level - 1])} ${name}`,
      on: { click: (event) => { if (event.target.closest(".twist") && !last) this.toggle(node).catch(fail); else this.pick(node); } },
    }, el("span", { class: "twist", "aria-hidden": "true" }, last ? "" : "▸"), el("span", { class: `label ${key.at(-1) === absent ? "faint" : ""}` }, name),
    el("span", { class: "counts" }, count(n), el("span", { class: "hidden" }, " items"), " · ", bytes(b ?? 0)), share);
    node.components = key;
    return el("li", { role: "none" }, node);
  }

  pick(node) {
    for (const other of this.items()) {
      other.tabIndex = other === node ? 0 : -1;
      other.setAttribute("aria-selected", String(other === node));
    }
    this.choose(node.components);
    if (node.getAttribute("aria-expanded") === "false") this.toggle(node).catch(fail);
  }

  async toggle(node, open = node.getAttribute("aria-expanded") === "false") {
    node.parentElement.querySelector(":scope > ul")?.remove();
    node.setAttribute("aria-expanded", String(open));
    node.querySelector(".twist").textContent = open ? "▾" : "▸";
    if (!open) return;
    const below = el("ul", { role: "group", id: unique("group") }, none(node.components.length + 1, "Counting…"));
    node.after(below);
    node.setAttribute("aria-owns", below.id);
    try {
      show(below, await this.children(node.components));
    } catch (error) {
      below.remove();
      node.setAttribute("aria-expanded", "false");
      throw error;
    }
  }

  items() { return [...this.list.querySelectorAll("[role=treeitem]")]; }

  key(event) {
    const items = this.items(), node = document.activeElement.closest("[role=treeitem]"), at = items.indexOf(node);
    if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const expanded = node.getAttribute("aria-expanded");
    const focus = (other) => {
      if (!other) return;
      node.tabIndex = -1;
      other.tabIndex = 0;
      other.focus();
    };
    switch (event.key) {
      case "ArrowDown": focus(items[at + 1]); break;
      case "ArrowUp": focus(items[at - 1]); break;
      case "Home": focus(items[0]); break;
      case "End": focus(items.at(-1)); break;
      case "ArrowRight": if (expanded === "false") this.toggle(node).catch(fail); else if (expanded) focus(items[at + 1]); break;
      case "ArrowLeft": if (expanded === "true") this.toggle(node, false).catch(fail); else focus(node.closest("[role=group]")?.previousElementSibling); break;
      case "Enter": case " ": if (node.components) this.pick(node); break;
      default: return;
    }
    event.preventDefault();
  }
}
