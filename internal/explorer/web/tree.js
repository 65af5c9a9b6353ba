// The tree of databases, containers and what belongs to them, after the pattern for trees
// of the W3C: one tab stop, and arrow keys.

import { button, el, show, unique } from "./dom.js";
import { caller, server } from "./api.js";
import { allContainers, allDatabases, changed, isTable, model } from "./model.js";
import { address, containerPlace, place } from "./router.js";

/** The parts of a container in the tree and in its tabs: [name in the address, title]. */
export const parts = (table) => [
  ...(table ? [["rows", "Rows"], ["cql", "Query"], ["columns", "Columns"]] : [["items", "Items"], ["query", "Query"]]),
  ["partitions", "Partitions"],
  ...(table ? [] : [["feed", "Change feed"], ["procedures", "Stored procedures"], ["triggers", "Triggers"], ["functions", "User-defined functions"], ["advisor", "Key advisor"]]),
  ["settings", "Settings"],
];

/** The screens of the account: [name in the address, title]. */
export const accountParts = () => caller.scope ? [] : [
  ...(caller.admin ? [["metrics", "Metrics"], ["copyjobs", "Copy jobs"], ["roles", "Roles"]] : []), ["account", "Account and keys"],
];

export class Tree {
  constructor() {
    this.open = new Set();
    this.list = el("ul", { role: "tree", "aria-label": "Databases and containers", on: { keydown: (event) => this.key(event), focusin: (event) => this.focused(event) } });
    this.filter = el("input", { type: "search", placeholder: "Find by name", "aria-label": "Find a database or container", on: { input: () => this.load() } });
    this.root = el("div", { class: "tree" },
      el("div", { class: "treehead" }, this.filter, button("↻", () => changed(), { kind: "plain", "aria-label": "Read the tree again", title: "Read the tree again" })),
      this.list, this.account() || null);
    model.addEventListener("changed", () => this.load());
    addEventListener("placed", () => this.placed());
    this.placed();
    this.load();
  }

  account() {
    const links = accountParts();
    return links.length > 0 && el("ul", { class: "treelinks", "aria-label": "Account" }, links.map(([name, title]) => el("li", {}, el("a", { href: address(name), "data-place": name }, title))));
  }

  /** Opens the nodes of the current place. */
  placed() {
    const [kind, database, sub, container] = place();
    if (kind === "db" && database) {
      this.open.add(address("db", database));
      if (sub === "coll" && container) this.open.add(address("db", database, "coll", container));
    }
    this.load();
  }

  async load() {
    const mine = this.step = (this.step ?? 0) + 1;
    let nodes;
    try {
      nodes = await this.databases();
    } catch (error) {
      nodes = [this.trouble(error, 1)];
    }
    if (mine !== this.step) return;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    show(this.list, nodes);
    const items = this.items();
    const here = items.find((n) => n.dataset.id === focused) ?? items.find((n) => n.getAttribute("aria-current")) ?? items[0];
    if (here) here.tabIndex = 0;
    if (focused && here) here.focus({ preventScroll: true });
    for (const link of this.root.querySelectorAll("[data-place]")) link.toggleAttribute("aria-current", place()[0] === link.dataset.place);
  }

  async databases() {
    const wanted = this.filter.value.trim().toLowerCase();
    const nodes = [];
    for (const { id } of await allDatabases()) {
      // A search reads the containers of all databases: what is not loaded yet would seem not to exist.
      const all = wanted ? await allContainers(id).catch(() => []) : [];
      const hits = all.filter((c) => c.id.toLowerCase().includes(wanted));
      if (wanted && !id.toLowerCase().includes(wanted) && !hits.length) continue;
      const names = ["db", id], open = this.open.has(address(...names)) || Boolean(wanted && hits.length);
      nodes.push(this.node({ names, label: id, kind: "database", level: 1, open, below: open && (() => this.containers(id, wanted && !id.toLowerCase().includes(wanted) ? wanted : "")) }));
    }
    if (!nodes.length) return [none(1, wanted ? "No database or container has this name." : "There is no database yet.")];
    return Promise.all(nodes);
  }

  async containers(database, wanted) {
    const all = (await allContainers(database)).filter((c) => c.id.toLowerCase().includes(wanted));
    const users = caller.kind === "key" || caller.kind === "reader" ? [this.node({ names: ["db", database, "users"], label: "Users and permissions", kind: "users", level: 2 })] : [];
    const nodes = all.map((c) => {
      const names = ["db", database, "coll", c.id], open = this.open.has(address(...names)), table = isTable(c);
      return this.node({ names, label: c.id, kind: table ? "table" : "container", note: table ? "table" : c.partitionKey?.paths?.length > 1 ? `${c.partitionKey.paths.length} levels` : "", level: 2, open,
        below: open && (() => parts(table).map(([part, title]) => this.node({ names: containerPlace(database, c.id, part), label: title, kind: part, level: 3 }))) });
    });
    if (!nodes.length) nodes.push(none(2, "No container yet."));
    return Promise.all([...nodes, ...users]);
  }

  async node({ names, label, kind, note, level, open, below }) {
    const id = address(...names), expandable = open !== undefined, group = unique("group");
    const here = location.hash === id || (kind === "container" || kind === "table") && !open && location.hash.startsWith(id + "/");
    let children;
    try {
      children = below && await Promise.all(await below());
    } catch (error) {
      children = [this.trouble(error, level + 1)];
    }
    return el("li", { role: "none" }, el("div", {
      class: "treerow", role: "treeitem", tabindex: "-1", "data-id": id, "data-label": label.toLowerCase(), "aria-level": level,
      "aria-expanded": expandable ? String(open) : null, "aria-current": here ? "page" : null, "aria-owns": children ? group : null,
      on: { click: (event) => this.choose(id, expandable && event.target.closest(".twist") !== null) },
    }, el("span", { class: "twist", "aria-hidden": "true" }, expandable ? (open ? "▾" : "▸") : ""), el("span", { class: `icon is-${kind}`, "aria-hidden": "true" }),
    el("span", { class: "label" }, label), note && el("span", { class: "badge" }, note)),
    children && el("ul", { role: "group", id: group }, children));
  }

  trouble(error, level) {
    return none(level, error.message, "bad");
  }

  /** Opens or closes a node, and goes to its screen unless only the twist was meant. */
  choose(id, twist) {
    const was = this.open.has(id);
    const expandable = this.list.querySelector(`[data-id="${CSS.escape(id)}"]`)?.hasAttribute("aria-expanded");
    if (expandable && (twist || !was)) this.toggle(id, !was);
    if (twist) return;
    const names = id.slice(2).split("/");
    location.hash = names.length === 4 && names[2] === "coll" ? this.first(id) : id;
    this.load();
  }

  /** Returns the address of the first screen of a container. */
  first(id) { return this.list.querySelector(`[data-id="${CSS.escape(id)}"] .icon.is-table`) ? `${id}/rows` : `${id}/items`; }

  toggle(id, open) {
    if (open) this.open.add(id);
    else this.open.delete(id);
    this.load();
  }

  items() { return [...this.list.querySelectorAll("[role=treeitem]")]; }

  focused(event) {
    const node = event.target.closest("[role=treeitem]");
    if (!node) return;
    for (const other of this.items()) other.tabIndex = other === node ? 0 : -1;
  }

  key(event) {
    const items = this.items(), node = document.activeElement.closest("[role=treeitem]"), at = items.indexOf(node);
    if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const id = node.dataset.id, expanded = node.getAttribute("aria-expanded");
    const focus = (other) => other?.focus();
    if (event.key.length > 1) this.typed = "";
    switch (event.key) {
      case "ArrowDown": focus(items[at + 1]); break;
      case "ArrowUp": focus(items[at - 1]); break;
      case "Home": focus(items[0]); break;
      case "End": focus(items.at(-1)); break;
      case "ArrowRight": if (expanded === "false") this.toggle(id, true); else if (expanded) focus(items[at + 1]); break;
      case "ArrowLeft": if (expanded === "true") this.toggle(id, false); else focus(node.closest("[role=group]")?.previousElementSibling); break;
      case "Enter": case " ": if (id) this.choose(id, false); break;
      default: {
        if (event.key.length !== 1) return;
        // Letters that follow each other quickly are the beginning of one name.
        clearTimeout(this.typing);
        this.typing = setTimeout(() => { this.typed = ""; }, 700);
        this.typed = (this.typed ?? "") + event.key.toLowerCase();
        const from = this.typed.length > 1 ? at : at + 1, ordered = [...items.slice(from), ...items.slice(0, from)];
        focus(ordered.find((n) => n.dataset.label?.startsWith(this.typed)));
      }
    }
    event.preventDefault();
  }
}

/** Whether the page has an administration, for what is greyed out without it. */
export const whyNoAdmin = () => caller.kind === "reader" || caller.kind === "token" ? "This needs the account key: it may change things."
  : !server.admin ? "The administration of this server is not reachable from here." : "This needs the account key.";

/** Returns a node of a tree that only tells something. */
export const none = (level, text, kind = "") => el("li", { role: "none" }, el("div", { class: `none ${kind}`, role: "treeitem", tabindex: "-1", "aria-level": level }, text));
