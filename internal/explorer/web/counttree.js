// A tree of the values of key levels with what is below each of them. Counting is charged,
// so it happens on demand, one level at a time.

import { button, el, show, unique } from "./dom.js";
import { count } from "./format.js";
import { fail, working } from "./dialog.js";
import { none } from "./tree.js";

const shownMax = 500; // values of a level

/** A subclass has values(key), the nodes below a list of values, made by nodes. */
export class CountTree {
  /** note says what counting costs. choose is called with the values of a node and those above it. */
  constructor({ title, note, empty }, choose) {
    Object.assign(this, { empty, choose, spent: 0 });
    this.list = el("ul", { role: "tree", "aria-label": title, on: { keydown: (event) => this.press(event) } });
    this.note = el("p", { class: "hint" }, note);
    this.start = button("Count", working(() => this.load()), { title: "Count the values of the first level" });
    this.root = el("section", { class: "pane keytree", "aria-label": title }, el("div", { class: "panehead" }, el("h2", {}, title), this.start), this.note, this.list);
  }

  async load() {
    this.spent = 0;
    const nodes = await this.values([]);
    show(this.list, nodes.length ? nodes : none(1, this.empty));
    this.items()[0].tabIndex = 0;
    this.start.textContent = "Count again";
  }

  /**
   * Returns the nodes of some values of a level: {key, label, title, n, counts, last, faint}.
   * n is the length of the bar; last says that there is no level below.
   */
  nodes(level, values, rest = "") {
    const most = Math.max(1, ...values.map((v) => v.n));
    const list = values.slice(0, shownMax).map((v) => this.node(level, v, most));
    if (values.length > shownMax) list.push(none(level, `and ${count(values.length - shownMax)} more${rest}`));
    return list;
  }

  node(level, { key, label, title, n, counts, last, faint }, most) {
    const node = el("div", {
      class: "treerow", role: "treeitem", tabindex: "-1", "aria-level": level, "aria-expanded": last ? null : "false", title,
      on: { click: (event) => { if (event.target.closest(".twist") && !last) this.toggle(node).catch(fail); else this.pick(node); } },
    }, el("span", { class: "twist", "aria-hidden": "true" }, last ? "" : "▸"), el("span", { class: `label ${faint ? "faint" : ""}` }, label),
    el("span", { class: "counts" }, counts), el("span", { class: `share level${Math.min(3, level)}`, style: { "--share": n / most }, "aria-hidden": "true" }));
    node.key = key;
    return el("li", { role: "none" }, node);
  }

  pick(node) {
    for (const other of this.items()) {
      other.tabIndex = other === node ? 0 : -1;
      other.setAttribute("aria-selected", String(other === node));
    }
    this.choose(node.key);
    if (node.getAttribute("aria-expanded") === "false") this.toggle(node).catch(fail);
  }

  async toggle(node, open = node.getAttribute("aria-expanded") === "false") {
    node.parentElement.querySelector(":scope > ul")?.remove();
    node.setAttribute("aria-expanded", String(open));
    node.querySelector(".twist").textContent = open ? "▾" : "▸";
    if (!open) return;
    const below = el("ul", { role: "group", id: unique("group") }, none(node.key.length + 1, "Counting…"));
    node.after(below);
    node.setAttribute("aria-owns", below.id);
    try {
      show(below, await this.values(node.key));
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
    switch (event.key) {
      case "ArrowDown": focus(items[at + 1]); break;
      case "ArrowUp": focus(items[at - 1]); break;
      case "Home": focus(items[0]); break;
      case "End": focus(items.at(-1)); break;
      case "ArrowRight": if (expanded === "false") this.toggle(node).catch(fail); else if (expanded) focus(items[at + 1]); break;
      case "ArrowLeft": if (expanded === "true") this.toggle(node, false).catch(fail); else focus(node.closest("[role=group]")?.previousElementSibling); break;
      case "Enter": case " ": if (node.key) this.pick(node); break;
      default: return;
    }
    event.preventDefault();
  }
}
