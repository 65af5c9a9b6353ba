// From a place to its screen. A screen is {root, shown, hidden, dirty, save, run}: an element, and
// what to do when it appears and disappears, whether it has edits, and what Ctrl+S and
// Shift+Enter do. All but root may be missing.

import { el } from "./dom.js";
import { container, isTable } from "./model.js";
import { address, containerPlace } from "./router.js";
import { parts } from "./tree.js";
import { levelName } from "./keyfields.js";
import { home } from "./home.js";
import { account } from "./account.js";
import { copyjobs } from "./copyjobs.js";
import { databaseScreen, users } from "./database.js";
import { feed } from "./feed.js";
import { items } from "./items.js";
import { metrics } from "./metrics.js";
import { partitions } from "./partitions.js";
import { query } from "./query.js";
import { functions, procedures, triggers } from "./scripts.js";
import { settings } from "./settings.js";

const ofContainer = {
  items, query, partitions, feed, procedures, triggers, functions, settings,
};

const ofAccount = { metrics, copyjobs, account };

/** Returns the title of a place for the window. */
export function titleOf(names) {
  if (names[0] !== "db") return { metrics: "Metrics", copyjobs: "Copy jobs", account: "Account" }[names[0]] ?? "Data Explorer";
  return [names[3] ?? names[1], names[4]].filter(Boolean).join(" ");
}

/** Returns the screen of a place. */
export async function screenOf(names) {
  const [kind, database, sub, id, part = "items", ...more] = names;
  if (!kind) return home();
  if (ofAccount[kind]) return ofAccount[kind](...names.slice(1));
  if (kind === "db" && database && !sub) return databaseScreen(database);
  if (kind === "db" && sub === "users" && !id) return users(database);
  if (kind !== "db" || sub !== "coll" || !id || !ofContainer[part]) throw new Error("The page has no such place.");
  const definition = await container(database, id);
  const context = { database, container: id, definition, paths: definition.partitionKey?.paths ?? [], path: ["dbs", database, "colls", id] };
  const screen = await ofContainer[part](context, ...more);
  return { ...framed(context, part, screen.root), ...without(screen) };
}

const without = ({ root, ...rest }) => rest;

/** Returns a screen of a container below the container's name and its tabs. */
function framed({ database, container: id, definition, paths }, part, content) {
  const tabs = parts(isTable(definition)).filter(([name]) => ofContainer[name]);
  return { root: el("div", { class: "screen" },
    el("div", { class: "heading" },
      el("h1", {}, el("a", { href: address("db", database) }, database), el("span", { class: "slash", "aria-hidden": "true" }, "/"), id),
      el("div", { class: "levels", title: "The partition key" }, paths.map((path, i) => [i > 0 && el("span", { "aria-hidden": "true" }, "›"), el("span", { class: `levelname level${i + 1}` }, levelName(path))]))),
    el("nav", { class: "tabs", "aria-label": `Parts of ${id}` }, tabs.map(([name, title]) => el("a", { href: address(...containerPlace(database, id, name)), "aria-current": name === part ? "page" : null }, title))),
    content) };
}
