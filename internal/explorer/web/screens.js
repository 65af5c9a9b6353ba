// From a place to its screen. A screen is {root, shown, hidden, dirty, save, run}: an element, and
// what to do when it appears and disappears, whether it has edits, and what Ctrl+S and
// Shift+Enter do. All but root may be missing.

import { el } from "./dom.js";
import { container, isTable } from "./model.js";
import { address, containerPlace } from "./router.js";
import { parts } from "./tree.js";
import { levelName } from "./keyfields.js";
import { home } from "./home.js";

// A screen is loaded when it is opened for the first time.
const ofContainer = {
  items: async (...args) => (await import("./items.js")).items(...args),
  query: async (...args) => (await import("./query.js")).query(...args),
  partitions: async (...args) => (await import("./partitions.js")).partitions(...args),
  feed: async (...args) => (await import("./feed.js")).feed(...args),
  procedures: async (...args) => (await import("./scripts.js")).procedures(...args),
  triggers: async (...args) => (await import("./scripts.js")).triggers(...args),
  functions: async (...args) => (await import("./scripts.js")).functions(...args),
  advisor: async (...args) => (await import("./advisor.js")).advisor(...args),
  settings: async (...args) => (await import("./settings.js")).settings(...args),
};

const ofTable = {
  rows: async (...args) => (await import("./tables.js")).rows(...args),
  cql: async (...args) => (await import("./cqlquery.js")).cqlquery(...args),
  columns: async (...args) => (await import("./tables.js")).columns(...args),
  partitions: ofContainer.partitions, settings: ofContainer.settings,
};

const ofAccount = {
  metrics: async (...args) => (await import("./metrics.js")).metrics(...args),
  copyjobs: async (...args) => (await import("./copyjobs.js")).copyjobs(...args),
  account: async (...args) => (await import("./account.js")).account(...args),
  roles: async (...args) => (await import("./roles.js")).roles(...args),
};

/** Returns the title of a place for the window. */
export function titleOf(names) {
  if (names[0] !== "db") return { metrics: "Metrics", copyjobs: "Copy jobs", account: "Account", roles: "Roles" }[names[0]] ?? "Data Explorer";
  return [names[3] ?? names[1], names[4]].filter(Boolean).join(" ");
}

/** Returns the screen of a place. */
export async function screenOf(names) {
  const [kind, database, sub, id, chosen, ...more] = names;
  if (!kind) return home();
  if (ofAccount[kind]) return ofAccount[kind](...names.slice(1));
  if (kind === "db" && database && !sub) return (await import("./database.js")).databaseScreen(database);
  if (kind === "db" && sub === "users" && !id) return (await import("./database.js")).users(database);
  if (kind !== "db" || sub !== "coll" || !id) throw new Error("The page has no such place.");
  const definition = await container(database, id), table = isTable(definition), screens = table ? ofTable : ofContainer, part = chosen ?? (table ? "rows" : "items");
  if (!Object.hasOwn(screens, part)) throw new Error("The page has no such place.");
  const context = { database, container: id, definition, paths: definition.partitionKey?.paths ?? [], path: ["dbs", database, "colls", id] };
  const screen = await screens[part](context, ...more);
  return { ...framed(context, part, screen.root), ...without(screen) };
}

const without = ({ root, ...rest }) => rest;

/** Returns a screen of a container below the container's name and its tabs. */
function framed({ database, container: id, definition, paths }, part, content) {
  const tabs = parts(isTable(definition));
  return { root: el("div", { class: "screen" },
    el("div", { class: "heading" },
      el("h1", {}, el("a", { href: address("db", database) }, database), el("span", { class: "slash", "aria-hidden": "true" }, "/"), id),
      el("div", { class: "levels", title: "The partition key" }, paths.map((path, i) => [i > 0 && el("span", { "aria-hidden": "true" }, "›"), el("span", { class: `levelname level${i + 1}` }, levelName(path))]))),
    el("nav", { class: "tabs", "aria-label": `Parts of ${id}` }, tabs.map(([name, title]) => el("a", { href: address(...containerPlace(database, id, name)), "aria-current": name === part ? "page" : null }, title))),
    content) };
}
