// Roles of the data plane and their assignments to principals of bearer tokens.

import { button, el, field, select, show } from "./dom.js";
import { admin, caller } from "./api.js";
import { confirm, dialog, failed, tell, working } from "./dialog.js";
import { allContainers, allDatabases, isTable } from "./model.js";
import { whyNoAdmin } from "./tree.js";

const prefix = "Microsoft.DocumentDB/databaseAccounts/";
const actions = ["readMetadata", "sqlDatabases/containers/executeQuery", "sqlDatabases/containers/readChangeFeed", "sqlDatabases/containers/executeStoredProcedure", "sqlDatabases/containers/manageConflicts",
  ...["create", "read", "replace", "upsert", "delete"].map((verb) => `sqlDatabases/containers/items/${verb}`)];

/** Returns a new GUID; randomUUID is missing on pages without encryption. */
function guid() {
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = b[6] & 15 | 64;
  b[8] = b[8] & 63 | 128;
  return [...b].map((x) => x.toString(16).padStart(2, "0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** A form in a dialog: fields, and send, whose error is shown. */
const ask = (title, build) => dialog(title, (close) => {
  const wrong = el("p", { class: "error", role: "alert" }), { content, send } = build();
  return el("form", { on: { submit: async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try {
      await send();
      close(true);
    } catch (error) {
      wrong.textContent = error.message;
    }
  } } }, content, wrong, el("div", { class: "actions" }, button("Cancel", () => close()), el("button", { type: "submit", class: "button primary" }, "OK")));
}, { wide: true });

export function roles() {
  const definitions = el("div", {}), assignments = el("div", {}), disabled = !caller.admin, why = whyNoAdmin();
  let known = [];

  async function load() {
    if (!caller.admin) return show(definitions, el("p", { class: "hint" }, why));
    try {
      known = (await admin("GET", ["sqlRoleDefinitions"])).value;
      const assigned = (await admin("GET", ["sqlRoleAssignments"])).value;
      show(definitions, table(["role", "kind", "scopes", "data actions", ""], known.map((r) => [r.properties.roleName, r.properties.type === "BuiltInRole" ? "built in" : "own", r.properties.assignableScopes.join(", "),
        el("ul", { class: "plainlist" }, r.properties.permissions.flatMap((p) => p.dataActions).map((a) => el("li", { class: "mono" }, a.replace(prefix, "")))),
        r.properties.type === "BuiltInRole" ? null : remove(`Delete the role ${r.properties.roleName}`, ["sqlRoleDefinitions", r.name])])));
      show(assignments, assigned.length ? table(["principal", "role", "scope", ""], assigned.map((a) => [el("span", { class: "mono" }, a.properties.principalId), known.find((r) => a.properties.roleDefinitionId.endsWith(r.name))?.properties.roleName ?? a.properties.roleDefinitionId, a.properties.scope, remove("Delete the assignment", ["sqlRoleAssignments", a.name])]))
        : el("p", { class: "hint" }, "No assignment yet. An assignment gives a role to a principal: the oid or sub, or a group, of bearer tokens."));
    } catch (error) {
      failed(definitions, error, load);
    }
  }

  const table = (heads, rows) => el("div", { class: "tablewrap", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((h) => el("th", {}, h || el("span", { class: "hidden" }, "actions"))))), el("tbody", {}, rows.map((r) => el("tr", {}, r.map((c) => el("td", {}, c)))))));

  const remove = (label, path) => button("Delete", working(async () => {
    if (!(await confirm(`${label}?`, "Requests that need it are refused from then on.", { action: "Delete", danger: true }))) return;
    await admin("DELETE", path);
    await load();
  }), { "aria-label": label });

  async function scopes() {
    const databases = await allDatabases();
    const below = await Promise.all(databases.map(async (d) => [`/dbs/${d.id}`, ...(await allContainers(d.id)).filter((c) => !isTable(c)).map((c) => `/dbs/${d.id}/colls/${c.id}`)]));
    return [["/", "the account"], ...below.flat().map((s) => [s, s])];
  }

  async function newRole() {
    const all = await scopes();
    await ask("New role", () => {
      const name = el("input", { autofocus: true, autocomplete: "off" }), scope = select(all, "/"), boxes = actions.map((a) => [a, el("input", { type: "checkbox" })]);
      return {
        content: [field("Role name", name), field("May be assigned at", scope), el("fieldset", {}, el("legend", {}, "Data actions"), boxes.map(([a, box]) => el("label", { class: "check mono" }, box, a)))],
        send: async () => {
          await admin("PUT", ["sqlRoleDefinitions", guid()], { body: { properties: { roleName: name.value, type: "CustomRole", assignableScopes: [scope.value], permissions: [{ dataActions: boxes.filter(([, box]) => box.checked).map(([a]) => prefix + a) }] } } });
          tell(`Role ${name.value} created.`);
        },
      };
    });
    await load();
  }

  async function assign() {
    const all = await scopes();
    await ask("New assignment", () => {
      const role = select(known.map((r) => [r.name, r.properties.roleName]), known[0]?.name), principal = el("input", { class: "mono", autofocus: true, autocomplete: "off", spellcheck: "false" }), scope = select(all, "/");
      return {
        content: [field("Principal id", principal, "The oid, sub or group of its tokens."), field("Role", role), field("Scope", scope)],
        send: async () => {
          await admin("PUT", ["sqlRoleAssignments", guid()], { body: { properties: { roleDefinitionId: `/sqlRoleDefinitions/${role.value}`, principalId: principal.value.trim(), scope: scope.value } } });
          tell("Role assigned.");
        },
      };
    });
    await load();
  }

  load();
  return { root: el("div", { class: "screen" }, el("div", { class: "heading" }, el("h1", {}, "Roles")), el("div", { class: "settings one" },
    el("section", { class: "card" }, el("div", { class: "panehead" }, el("h2", {}, "Roles"), button("New Role", working(newRole), { kind: "primary", disabled, why })), definitions),
    el("section", { class: "card" }, el("div", { class: "panehead" }, el("h2", {}, "Assignments"), button("New Assignment", working(assign), { disabled, why })), assignments))) };
}
