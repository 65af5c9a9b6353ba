// The settings of a container: throughput, time to live, indexing, limits, and its end.

import { button, el, field, select, show } from "./dom.js";
import { admin, caller, read, request } from "./api.js";
import { parse, stringify } from "./json.js";
import { Editor } from "./editor.js";
import { throughputCard } from "./throughput.js";
import { confirm, failed, tell, working } from "./dialog.js";
import { changed, isTable } from "./model.js";
import { address } from "./router.js";
import { whyNoAdmin } from "./tree.js";
import { bytes } from "./format.js";
import { Policies } from "./policies.js";

const why = "This needs a key that may write.";

export function settings(context) {
  const { path, database, container } = context, table = isTable(context.definition);
  const cards = el("div", { class: "settings" });
  let policy = null, saved = "";

  async function load() {
    try {
      const definition = await read(path);
      show(cards, throughputCard(path), facts(definition), !table && lifetime(definition), !table && indexing(definition), !table && searching(definition), limits(), end());
    } catch (error) {
      failed(cards, error, load);
    }
  }

  /** Replaces the container's definition with some members changed; undefined removes one. */
  async function replace(change) {
    const current = await read(path);
    const body = {};
    for (const [name, value] of Object.entries({ ...current, ...change })) if (value !== undefined && !name.startsWith("_")) body[name] = value;
    const answer = await request("PUT", path, { body: stringify(body), headers: { "if-match": current._etag } });
    changed(database);
    return parse(answer.text);
  }

  function facts(d) {
    return el("section", { class: "card" }, el("h2", {}, "Definition"), el("dl", { class: "facts" }, [
      ["Partition key", el("span", { class: "mono" }, d.partitionKey.paths.join("  "))], ["Kind", `${d.partitionKey.kind}, version ${d.partitionKey.version ?? 1}`],
      ["Unique keys", d.uniqueKeyPolicy?.uniqueKeys?.length ? d.uniqueKeyPolicy.uniqueKeys.map((u) => u.paths.join(", ")).join("; ") : "none"],
      ["Computed properties", d.computedProperties?.length ? d.computedProperties.map((p) => p.name).join(", ") : "none"],
      ["Conflict resolution", `${d.conflictResolutionPolicy?.mode ?? ""} ${d.conflictResolutionPolicy?.conflictResolutionPath ?? ""}`],
      ["Resource id", el("span", { class: "mono" }, d._rid)],
    ].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])), el("p", { class: "hint" }, "The partition key never changes: copy the container into another one for that."));
  }

  function lifetime(d) {
    const ttl = select([["", "Off"], ["-1", "On, without a default"], ["n", "On, after so many seconds"]], d.defaultTtl === undefined ? "" : d.defaultTtl === -1 ? "-1" : "n", () => { seconds.hidden = ttl.value !== "n"; });
    const seconds = el("input", { type: "number", min: "1", value: String(d.defaultTtl > 0 ? d.defaultTtl : 3600), hidden: ttl.value !== "n", "aria-label": "Seconds" });
    const minutes = el("input", { type: "number", min: "0", value: String(d.changeFeedPolicy?.retentionDuration ?? ""), placeholder: "off" });
    return el("section", { class: "card" }, el("h2", {}, "Time to live, and versions"), field("Items expire", ttl), seconds,
      field("Keep all versions and deletes for so many minutes", minutes),
      el("div", { class: "actions start" }, button("Save", working(async () => {
        await replace({ defaultTtl: ttl.value ? Number(ttl.value === "n" ? seconds.value : ttl.value) : undefined, changeFeedPolicy: minutes.value && minutes.value !== "0" ? { retentionDuration: Number(minutes.value) } : undefined });
        dispatchEvent(new CustomEvent("forget", { detail: `${address("db", database, "coll", container)}/items` }));
        tell("Time to live saved.");
      }), { kind: "primary", disabled: !caller.writes, why })));
  }

  function indexing(d) {
    saved = stringify(d.indexingPolicy, "  ");
    policy = new Editor({ language: "json", label: "Indexing policy", value: saved, readOnly: !caller.writes });
    const progress = el("span", { class: "result", role: "status" }), wrong = el("p", { class: "error", role: "alert" });
    const watch = async () => {
      const answer = await request("GET", path, { headers: { "x-ms-documentdb-populatequotainfo": "true" } });
      const done = Number(answer.headers.get("x-ms-documentdb-collection-index-transformation-progress") ?? 100);
      progress.textContent = done < 100 ? `The index is being rebuilt: ${done} %` : "The index is complete.";
      if (done < 100) setTimeout(() => watch().catch(() => {}), 1000);
    };
    watch().catch(() => {});
    return el("section", { class: "card wide" }, el("div", { class: "panehead" }, el("h2", {}, "Indexing policy"), progress), policy.root, wrong,
      el("div", { class: "actions start" }, button("Save", working(async () => {
        wrong.textContent = "";
        try {
          saved = stringify((await replace({ indexingPolicy: parse(policy.value) })).indexingPolicy, "  ");
          policy.value = saved;
          tell("Indexing policy saved.");
          await watch();
        } catch (error) {
          wrong.textContent = error.message;
        }
      }), { kind: "primary", disabled: !caller.writes, why }), button("Discard", () => { policy.value = saved; })));
  }

  function searching(d) {
    const policies = new Policies({ definition: d, disabled: !caller.writes }), wrong = el("p", { class: "error", role: "alert" });
    return el("section", { class: "card" }, el("h2", {}, "Vectors and full text"), policies.root, wrong, el("div", { class: "actions start" }, button("Save", working(async () => {
      wrong.textContent = "";
      try {
        const current = await read(path), { vectorEmbeddingPolicy, fullTextPolicy, indexingPolicy } = policies.merge(current);
        await replace({ vectorEmbeddingPolicy, fullTextPolicy, indexingPolicy });
        tell("Vector and full-text policies saved.");
        await load();
      } catch (error) {
        wrong.textContent = error.message;
      }
    }), { kind: "primary", disabled: !caller.writes, why })));
  }

  const names = { logicalPartitionBytes: ["Logical partition", "bytes"], partitionBytes: ["Physical partition", "bytes"], partitionRUs: ["Physical partition", "RU/s"], containerRUs: ["Container", "RU/s"], splitDelay: ["Delay of a split", ""] };

  function limits() {
    const body = el("div", {}, el("p", { class: "hint" }, caller.admin ? "Reading…" : whyNoAdmin()));
    const query = { database, container };
    async function read_() {
      const { limits: all, own } = await admin("GET", ["limits"], { query });
      const inputs = Object.entries(names).map(([name, [title, unit]]) => [name, title, unit, el("input", { value: String(all[name]), "aria-label": `${title} ${unit}` }), own.includes(name)]);
      const put = working(async () => {
        const change = {};
        for (const [name, , unit, input] of inputs) if (input.value.trim() !== String(all[name])) change[name] = input.value.trim() === "" ? null : unit ? Number(input.value) : input.value.trim();
        await admin("PUT", ["limits"], { query, body: change });
        tell("Limits saved.");
        await read_();
      });
      show(body, el("div", { class: "limits" }, inputs.map(([, title, unit, input, isOwn]) => el("label", {}, el("span", {}, `${title}${unit ? `, ${unit}` : ""}`), input, el("span", { class: "hint" }, unit === "bytes" ? bytes(Number(input.value)) : "", isOwn ? " own" : " of the server")))),
        el("div", { class: "actions start" }, button("Save", put, { kind: "primary" }), el("span", { class: "hint" }, "An empty field means the limit of the server.")));
    }
    if (caller.admin) read_().catch((error) => failed(body, error, read_));
    return el("section", { class: "card" }, el("h2", {}, "Limits"), body);
  }

  function end() {
    return el("section", { class: "card" }, el("h2", {}, table ? "Delete the table" : "Delete the container"), el("p", { class: "hint" }, table ? "Only CQL drops a table." : "All its items, scripts and settings are deleted for good."),
      !table && el("div", { class: "actions start" }, button("Delete container…", working(async () => {
        if (!(await confirm(`Delete ${container}?`, "All its items are deleted for good.", { action: "Delete", danger: true, typed: container }))) return;
        await request("DELETE", path);
        dispatchEvent(new CustomEvent("forget", { detail: address("db", database, "coll", container) }));
        changed(database);
        tell(`Container ${container} deleted.`);
        location.hash = address();
      }), { kind: "danger", disabled: !caller.writes || Boolean(caller.scope), why })));
  }

  const suggested = (event) => {
    if (event.detail.key !== path.join("/") || !policy) return;
    policy.value = stringify(event.detail.policy, "  ");
    policy.root.scrollIntoView({ block: "center" });
    tell("The composite index is in the policy: save it to build the index.");
  };
  load();
  return { root: cards, shown: () => addEventListener("policy", suggested), hidden: () => removeEventListener("policy", suggested), dirty: () => Boolean(policy && caller.writes && policy.value !== saved) };
}
