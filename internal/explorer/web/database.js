// A database: its throughput, its containers, and its end; and its users with their
// permissions.

import { button, el, field, select, show } from "./dom.js";
import { caller, keyHeader, list, request } from "./api.js";
import { parse, stringify } from "./json.js";
import { allContainers, changed, isTable } from "./model.js";
import { address, containerPlace } from "./router.js";
import { throughputCard } from "./throughput.js";
import { KeyFields } from "./keyfields.js";
import { confirm, dialog, failed, tell, working } from "./dialog.js";

const why = "This needs the account key.";

export function databaseScreen(database) {
  const path = ["dbs", database], listed = el("ul", { class: "cards" });
  async function load() {
    try {
      const all = await allContainers(database);
      show(listed, all.map((c) => el("li", {}, el("a", { class: "name", href: address(...containerPlace(database, c.id, isTable(c) ? "rows" : "items")) }, c.id), el("span", { class: "hint" }, c.partitionKey.paths.join(" › ")))));
    } catch (error) {
      failed(listed, error, load);
    }
  }
  load();
  return { root: el("div", { class: "screen" }, el("div", { class: "heading" }, el("h1", {}, database)), el("div", { class: "settings" }, el("section", { class: "card" }, el("h2", {}, "Containers"), listed), throughputCard(path),
    el("section", { class: "card" }, el("h2", {}, "Users and permissions"), el("p", {}, el("a", { href: address("db", database, "users") }, "Show the users of this database"))),
    el("section", { class: "card" }, el("h2", {}, "Delete the database"), el("p", { class: "hint" }, "All its containers and users are deleted for good."), el("div", { class: "actions start" }, button("Delete database…", working(async () => {
      if (!(await confirm(`Delete ${database}?`, "All its containers and their items are deleted for good.", { action: "Delete", danger: true, typed: database }))) return;
      await request("DELETE", path);
      dispatchEvent(new CustomEvent("forget", { detail: address("db", database) }));
      changed();
      tell(`Database ${database} deleted.`);
      location.hash = address();
    }), { kind: "danger", disabled: !caller.writes, why: "This needs a key that may write." })))) ) };
}

export function users(database) {
  const path = ["dbs", database, "users"], body = el("div", { class: "settings one" }), writes = caller.kind === "key";
  async function load() {
    try {
      const all = await list(path, "Users");
      const cards = await Promise.all(all.map(async (u) => card(u, await list([...path, u.id, "permissions"], "Permissions"))));
      show(body, cards.length ? cards : el("div", { class: "empty" }, "No user yet. A user has permissions, each with a resource token for one container, key, item or script."));
    } catch (error) {
      failed(body, error, load);
    }
  }

  function card(user, permissions) {
    return el("section", { class: "card" }, el("div", { class: "panehead" }, el("h2", {}, user.id),
      button("New Permission", () => permission(user.id), { disabled: !writes, why }), button("Delete", working(async () => {
        if (!(await confirm(`Delete ${user.id}?`, "The user and its permissions are deleted; its tokens end.", { action: "Delete", danger: true }))) return;
        await request("DELETE", [...path, user.id]);
        await load();
      }), { kind: "danger", disabled: !writes, why })),
    permissions.length ? el("div", { class: "tablewrap", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ["permission", "mode", "resource", "key", ""].map((h) => el("th", {}, h || el("span", { class: "hidden" }, "actions"))))), el("tbody", {}, permissions.map((p) => el("tr", {},
      el("td", {}, p.id), el("td", {}, p.permissionMode), el("td", { class: "mono" }, p.resource), el("td", { class: "mono" }, p.resourcePartitionKey ? stringify(p.resourcePartitionKey) : ""),
      el("td", { class: "rowactions" }, button("New token…", working(() => token(user.id, p.id)), { disabled: !writes, why }), button("Delete", working(async () => {
        await request("DELETE", [...path, user.id, "permissions", p.id]);
        await load();
      }), { disabled: !writes, why }))))))) : el("p", { class: "hint" }, "No permission yet."));
  }

  async function newUser() {
    await dialog("New user", (close) => {
      const id = el("input", { autofocus: true, autocomplete: "off" }), wrong = el("p", { class: "error", role: "alert" });
      return el("form", { on: { submit: async (event) => {
        event.preventDefault();
        try {
          await request("POST", path, { body: stringify({ id: id.value }) });
          close(true);
        } catch (error) {
          wrong.textContent = error.message;
        }
      } } }, field("User id", id), wrong, el("div", { class: "actions" }, button("Cancel", () => close()), el("button", { type: "submit", class: "button primary" }, "OK")));
    });
    await load();
  }

  async function permission(user) {
    const containers = (await allContainers(database)).filter((c) => !isTable(c));
    await dialog(`New permission of ${user}`, (close) => {
      const id = el("input", { autofocus: true, autocomplete: "off" }), wrong = el("p", { class: "error", role: "alert" }), keyBox = el("div", {});
      let fields;
      const of = select(containers.map((c) => [c.id, c.id]), containers[0]?.id ?? "", () => keys()), mode = select([["Read", "Read"], ["All", "All"]], "Read");
      const keys = () => {
        const c = containers.find((x) => x.id === of.value);
        fields = c && new KeyFields({ paths: c.partitionKey.paths });
        show(keyBox, fields?.root);
      };
      keys();
      return el("form", { on: { submit: async (event) => {
        event.preventDefault();
        try {
          const key = fields?.key() ?? [];
          await request("POST", [...path, user, "permissions"], { body: stringify({ id: id.value, permissionMode: mode.value, resource: `dbs/${database}/colls/${of.value}`, ...(key.length ? { resourcePartitionKey: parse(keyHeader(key)) } : {}) }) });
          close(true);
        } catch (error) {
          wrong.textContent = error.message;
        }
      } } }, field("Permission id", id), field("Container", of), field("Mode", mode), el("div", { class: "field" }, el("span", { class: "hint" }, "Only for one key (optional)"), keyBox), wrong,
      el("div", { class: "actions" }, button("Cancel", () => close()), el("button", { type: "submit", class: "button primary" }, "OK")));
    }, { wide: true });
    await load();
  }

  async function token(user, id) {
    const seconds = await dialog("New token", (close) => {
      const hours = select([["3600", "1 hour"], ["18000", "5 hours"], ["86400", "24 hours"]], "3600");
      return el("form", { on: { submit: (event) => { event.preventDefault(); close(hours.value); } } }, field("Valid for", hours), el("div", { class: "actions" }, button("Cancel", () => close()), el("button", { type: "submit", class: "button primary", autofocus: true }, "OK")));
    });
    if (!seconds) return;
    const answer = await request("GET", [...path, user, "permissions", id], { headers: { "x-ms-documentdb-expiry-seconds": seconds } });
    const text = parse(answer.text)._token;
    await dialog("Resource token", () => [el("p", {}, "Whoever has this token has the permission until it expires."), el("pre", { class: "request", tabindex: "0" }, text), el("div", { class: "actions" }, button("Copy", () => navigator.clipboard.writeText(text).then(() => tell("Copied."), () => tell("The browser does not allow copying here.", "bad")), { kind: "primary" }))], { wide: true });
  }

  load();
  return { root: el("div", { class: "screen" }, el("div", { class: "heading" }, el("h1", {}, el("a", { href: address("db", database) }, database), el("span", { class: "slash", "aria-hidden": "true" }, "/"), "Users and permissions"), el("span", { class: "space" }), button("New User", working(newUser), { kind: "primary", disabled: !writes, why })), body) };
}
