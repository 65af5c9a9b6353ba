// The first screen: what there is, and how to connect.

import { button, el, show } from "./dom.js";
import { caller, server } from "./api.js";
import { allContainers, allDatabases, isTable } from "./model.js";
import { address, containerPlace } from "./router.js";
import { parts } from "./tree.js";
import { newContainer } from "./newcontainer.js";
import { failed } from "./dialog.js";

export function home() {
  const body = el("div", {}, el("p", { class: "hint" }, "Reading…"));
  const root = el("div", { class: "screen home" }, el("div", { class: "heading" }, el("h1", {}, "Data Explorer")), body);
  async function load() {
    try {
      const databases = await allDatabases();
      const all = await Promise.all(databases.map(async (d) => ({ id: d.id, containers: await allContainers(d.id) })));
      show(body, all.length ? all.map(card) : el("div", { class: "empty" }, el("p", {}, "There is no database yet."),
        button("New Container", () => newContainer(), { kind: "primary", disabled: !caller.writes, why: "This needs a read-write key." })),
      connect());
    } catch (error) {
      failed(body, error, load);
    }
  }
  return { root, shown: load };
}

function card({ id, containers }) {
  return el("section", { class: "card" }, el("h2", {}, el("a", { href: address("db", id) }, id)),
    containers.length ? el("ul", { class: "cards" }, containers.map((c) => {
      const place = (part) => address(...containerPlace(id, c.id, part));
      return el("li", {}, el("a", { class: "name", href: place(isTable(c) ? "rows" : "items") }, c.id),
        el("span", { class: "levels" }, (c.partitionKey?.paths ?? []).map((p, i) => [i > 0 && " › ", el("span", { class: `levelname level${i + 1}` }, p.replace(/^\//, ""))])),
        el("span", { class: "links" }, parts(isTable(c)).filter(([part]) => ["query", "cql", "partitions", "settings"].includes(part)).map(([part, title]) => el("a", { href: place(part) }, title))));
    })) : el("p", { class: "hint" }, "No container yet."));
}

function connect() {
  return el("section", { class: "card" }, el("h2", {}, "Connect"), el("dl", { class: "facts" },
    el("dt", {}, "Endpoint"), el("dd", { class: "mono" }, `${location.origin}/`),
    el("dt", {}, "Account"), el("dd", {}, server.account), el("dt", {}, "Default consistency"), el("dd", {}, server.consistency), el("dt", {}, "Version"), el("dd", {}, server.version)));
}
