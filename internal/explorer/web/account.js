// The account: consistency, keys, and queries that run for long.

import { button, el, show } from "./dom.js";
import { admin, caller, server } from "./api.js";
import { confirm, dialog, failed, tell, working } from "./dialog.js";
import { whyNoAdmin } from "./tree.js";
import { count, units } from "./format.js";

const kinds = [["primaryMasterKey", "Primary key", "primary"], ["secondaryMasterKey", "Secondary key", "secondary"], ["primaryReadonlyMasterKey", "Primary read-only key", "primaryReadonly"], ["secondaryReadonlyMasterKey", "Secondary read-only key", "secondaryReadonly"]];

export function account() {
  const keys = el("div", {}, el("p", { class: "hint" }, caller.admin ? "Keys are not shown until you ask for them." : whyNoAdmin()),
    el("div", { class: "actions start" }, button("Show keys", working(listKeys), { disabled: !caller.admin, why: whyNoAdmin() })));
  const running = el("div", {});
  let timer;

  const copy = (text) => navigator.clipboard.writeText(text).then(() => tell("Copied."), () => tell("The browser does not allow copying here.", "bad"));

  async function listKeys() {
    const all = await admin("POST", ["listKeys"]);
    show(keys, el("div", { class: "tablewrap", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ["key", "value", ""].map((h) => el("th", {}, h || el("span", { class: "hidden" }, "actions"))))), el("tbody", {}, kinds.map(([name, title, kind]) => el("tr", {}, el("td", {}, title), el("td", { class: "mono" }, all[name]),
      el("td", { class: "rowactions" }, button("Copy", () => copy(all[name])), button("Connection string", () => copy(`AccountEndpoint=${location.origin}/;AccountKey=${all[name]};`)), button("Regenerate…", working(async () => {
        if (!(await confirm(`Regenerate the ${title.toLowerCase()}?`, "Clients that use the present one are refused at once, this page too if it is signed in with it.", { action: "Regenerate", danger: true }))) return;
        const fresh = await admin("POST", ["regenerateKey"], { body: { keyKind: kind } });
        await dialog(title, () => [el("p", {}, "The new key is:"), el("pre", { class: "request", tabindex: "0" }, fresh[name])], { wide: true });
        await listKeys();
      })))))))), el("div", { class: "actions start" }, button("Hide keys", () => show(keys, el("div", { class: "actions start" }, button("Show keys", working(listKeys)))))));
  }

  async function queries() {
    clearTimeout(timer);
    if (!caller.admin) return show(running, el("p", { class: "hint" }, whyNoAdmin()));
    try {
      const all = (await admin("GET", ["queries"])).queries;
      show(running, all.length ? el("div", { class: "tablewrap", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ["container", "operation", "state", "time", "items", "charge", ""].map((h) => el("th", {}, h || el("span", { class: "hidden" }, "actions"))))), el("tbody", {}, all.map((q) => el("tr", {}, el("td", {}, `${q.database}/${q.container}`), el("td", {}, q.operation), el("td", {}, q.state), el("td", {}, `${q.seconds} s`), el("td", { class: "numeric" }, count(q.documents)), el("td", { class: "numeric" }, units(q.requestCharge)),
        el("td", {}, button("Cancel", working(async () => { await admin("DELETE", ["queries", q.id]); await queries(); })))))))) : el("p", { class: "hint" }, "No query has run for more than a second."));
    } catch (error) {
      failed(running, error, queries);
    }
    timer = setTimeout(queries, 2000);
  }

  return { root: el("div", { class: "screen" }, el("div", { class: "heading" }, el("h1", {}, "Account")), el("div", { class: "settings one" },
    el("section", { class: "card" }, el("h2", {}, server.account), el("dl", { class: "facts" }, [["Endpoint", el("span", { class: "mono" }, `${location.origin}/`)], ["Default consistency", server.consistency], ["Version", server.version]].map(([n, v]) => [el("dt", {}, n), el("dd", {}, v)])), el("p", { class: "hint" }, "The default consistency is set by --consistency when the server starts. On one machine every level reads the latest acknowledged state.")),
    el("section", { class: "card" }, el("h2", {}, "Keys"), keys), el("section", { class: "card" }, el("h2", {}, "Queries that run long"), running))),
  shown: queries, hidden: () => clearTimeout(timer) };
}
