// The physical partitions of a container as they fill, split and merge.

import { button, el, renew, select, show } from "./dom.js";
import { admin, caller, queryPage, read } from "./api.js";
import { KeyFields, component, levelName } from "./keyfields.js";
import { bar, hue, partitionsOf, placed, ring, scaleOf } from "./keyspace.js";
import { heat } from "./plot.js";
import { confirm, dialog, fail, tell, working } from "./dialog.js";
import { isTable } from "./model.js";
import { whyNoAdmin } from "./tree.js";
import { bytes, clock, count, plural } from "./format.js";

const cells = 60; // samples of the heat

export function partitions(context) {
  const { database, container, paths, path, definition } = context, query = { database, container };
  const ringBox = el("div", {}), barBox = el("div", {}), table = el("div", { class: "tablewrap" }), about = el("p", { class: "summary", role: "status" }), events = el("ul", { class: "events", "aria-live": "polite" });
  const every = select([["1000", "every second"], ["5000", "every 5 seconds"], ["0", "not at all"]], "1000", () => { clearTimeout(timer); tick(); }, { "aria-label": "Refresh" });
  const samples = new Map(); // by partition: {v, hot, title}
  let all = [], limits = null, timer, chosen = null, marks = [], before = null, visible = false, offer = null, metric = "storage";

  const metrics = { storage: ["size", (p) => p.documentBytes / limits.partitionBytes], load: ["request units", (p) => p.share ? p.consumedRUs / p.share : 0] };
  const shownMetric = select([["storage", "size"], ["load", "request units"]], metric, (m) => { metric = m; draw(); }, { "aria-label": "The picture shows" });

  async function refresh() {
    if (!caller.admin) {
      all = await partitionsOf(path);
      const statistics = (await read(path, { "x-ms-documentdb-populatepartitionstatistics": "true" })).statistics ?? [];
      all = all.map((p) => {
        const known = statistics.find((s) => s.id === p.id);
        return { ...p, documents: known?.documentCount, documentBytes: known && known.sizeInKB * 1024 };
      });
      return draw();
    }
    const answer = await admin("GET", ["partitions"], { query });
    limits = answer.limits;
    const mean = answer.queryVisits;
    all = placed(answer.partitions);
    if (!offer) offer = await admin("GET", ["sqlDatabases", database, "containers", container, "throughputSettings", "default"]).then((o) => o.properties.resource, () => ({}));
    changes();
    for (const p of all) {
      const v = p.share ? Math.min(1, p.consumedRUs / p.share) : Math.min(1, p.consumedRUs / limits.partitionRUs), known = samples.get(p.id) ?? [];
      const throttled = p.throttled - (known.throttled ?? p.throttled);
      known.push({ v, hot: throttled > 0, title: `${clock(new Date())}: ${count(p.consumedRUs)} RU/s${throttled ? `, ${throttled} throttled` : ""}` });
      known.throttled = p.throttled;
      if (known.length > cells) known.shift();
      samples.set(p.id, known);
    }
    about.textContent = `${plural(all.length, "partition")} · ${plural(all.reduce((n, p) => n + p.documents, 0), "item")} · ${bytes(all.reduce((n, p) => n + p.documentBytes, 0))}` +
      (mean.queries ? ` · a query asks ${plural(mean.mean, "partition")} on average` : "");
    draw();
  }

  /** Tells which partitions have split and merged since the last look. */
  function changes() {
    const now = new Map(all.map((p) => [p.id, p]));
    if (before) {
      const added = all.filter((p) => !before.has(p.id)), gone = [...before.keys()].filter((id) => !now.has(id));
      if (added.length || gone.length) {
        const text = gone.length && added.length ? `${gone.join(", ")} became ${added.map((p) => p.id).join(", ")}` : added.length ? `new: ${added.map((p) => p.id).join(", ")}` : `gone: ${gone.join(", ")}`;
        events.prepend(el("li", {}, el("span", { class: "hint" }, clock(new Date())), ` ${text}`));
        while (events.children.length > 8) events.lastChild.remove();
        if (chosen && !now.has(chosen)) chosen = null;
      }
    }
    before = now;
  }

  function draw() {
    const level = caller.admin ? metrics[metric][1] : undefined, pick = (p) => { chosen = chosen === p.id ? null : p.id; draw(); };
    const label = `${plural(all.length, "partition")} of the key space: ${all.map((p) => `${p.id} from ${percent(p.from)} to ${percent(p.to)}`).join(", ")}`;
    show(ringBox, ring(all, { level, marks, choose: pick, chosen, caption: count(all.length), note: all.length === 1 ? "partition" : "partitions", label }));
    show(barBox, bar(all, { marks, level, choose: pick, chosen, label: "The same as a bar" }));
    drawTable();
  }

  const percent = (f) => `${(f * 100).toFixed(f * 100 % 1 ? 1 : 0)} %`;

  function drawTable() {
    const head = caller.admin ? ["partition", "range of hashed keys", "items", "size", "RU/s", "last minute", "throttled", "hottest", ""] : ["partition", "range of hashed keys", "items", "size"];
    const fresh = el("table", { class: "partitiontable" }, el("thead", {}, el("tr", {}, head.map((h) => el("th", { class: ["items", "throttled"].includes(h) ? "numeric" : "" }, h || el("span", { class: "hidden" }, "actions"))))),
      el("tbody", {}, all.map((p, i) => row(p, i))));
    if (table.firstChild) renew(table.firstChild, fresh);
    else show(table, fresh);
  }

  function row(p, i) {
    const full = limits ? p.documentBytes / limits.partitionBytes : 0, next = all[i + 1];
    const range = el("td", { class: "mono range", title: `[${p.min || '""'}, ${p.max})` }, `${short(p.min) || '""'} – ${short(p.max)}`);
    const first = el("td", {}, el("button", { type: "button", class: "partitionname", style: { "--hue": hue(p.id) }, "aria-pressed": String(chosen === p.id), on: { click: () => { chosen = chosen === p.id ? null : p.id; draw(); } } }, p.id), p.change && el("span", { class: "badge busy" }, p.change));
    const size = el("td", {}, p.documentBytes === undefined ? "" : limits ? meter(full, `${bytes(p.documentBytes)} of ${bytes(limits.partitionBytes)}`) : bytes(p.documentBytes));
    if (!caller.admin) return el("tr", { "data-id": p.id }, first, range, el("td", { class: "numeric" }, p.documents === undefined ? "" : count(p.documents)), size);
    const load = p.share ? p.consumedRUs / p.share : 0;
    return el("tr", { "data-id": p.id, class: chosen === p.id ? "chosen" : "" }, first, range, el("td", { class: "numeric" }, count(p.documents)), size,
      el("td", {}, meter(load, `${count(Math.round(p.consumedRUs))} of ${p.share ? count(Math.round(p.share)) : "no limit"}`)), el("td", {}, heat(samples.get(p.id) ?? [], cells)),
      el("td", { class: `numeric ${p.throttled ? "warn" : ""}` }, count(p.throttled)), el("td", { class: "hottest" }, hottest(p)),
      el("td", { class: "rowactions" }, button("Split", working(() => split(p)), { "aria-label": `Split partition ${p.id}` }), next && button("Merge ↓", working(() => merge(p, next)), { title: `Merge with partition ${next.id}`, "aria-label": `Merge partitions ${p.id} and ${next.id}` })));
  }

  const short = (epk) => epk.length > 6 ? epk.slice(0, 6) + "…" : epk;

  function meter(part, text) {
    return el("span", { class: "meter" }, el("span", { class: `track ${part > 0.9 ? "high" : ""}` }, el("span", { style: { width: `${Math.min(100, part * 100)}%` } })), el("span", { class: "numeric" }, text));
  }

  function hottest(p) {
    const top = p.hottestKeys[0];
    if (!top) return el("span", { class: "faint" }, "-");
    const total = p.hottestKeys.reduce((n, k) => n + k.requestUnits, 0), name = (k) => k.key ? k.key.map((c) => component(c !== null && typeof c === "object" && !("text" in c) ? undefined : c)).join(" › ") : `EPK ${short(k.epk)}`;
    return el("button", { type: "button", class: "plainrow", title: "The hottest keys of this minute and the one before", on: { click: () => hot(p, name) } }, name(top), el("small", {}, ` ${Math.round(100 * top.requestUnits / total)} %`));
  }

  function hot(p, name) {
    const list = (title, keys) => keys.length > 0 && [el("h3", {}, title), el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "key"), el("th", { class: "numeric" }, "request units"), el("th", {}, el("span", { class: "hidden" }, "actions")))), el("tbody", {}, keys.map((k) => el("tr", {}, el("td", { class: "mono" }, name(k)), el("td", { class: "numeric" }, count(k.requestUnits)), el("td", {}, button("Show", () => locate(k.epk, name(k)))))))) ];
    dialog(`Hottest keys of partition ${p.id}`, () => [list("Full keys", p.hottestKeys), list("Prefixes", p.hottestPrefixes), el("p", { class: "hint" }, "Request units of this minute and the one before.")], { wide: true });
  }

  function locate(epk, name) {
    const scale = scaleOf(all.map((p) => p.max));
    if (!scale) return;
    const at = scale(epk);
    marks = [{ from: at, to: at }];
    const p = all.find((q) => at >= q.from && at < q.to);
    show(found, el("strong", {}, name), ` is in partition ${p?.id}`);
    document.querySelector("dialog[open]")?.close();
    draw();
  }

  async function split(p) {
    const at = await dialog(`Split partition ${p.id}`, (close) => {
      const epk = el("input", { class: "mono", placeholder: "half of the bytes", "aria-label": "Hashed key at which the second part begins" });
      return el("form", { on: { submit: (event) => { event.preventDefault(); close(epk.value.trim()); } } },
        el("p", {}, `${plural(p.documents, "item")}, ${bytes(p.documentBytes)}. The partition serves while it is divided; writes wait for some milliseconds at the end.`),
        el("label", { class: "field" }, el("span", {}, "Split at the hashed key (optional)"), epk), el("div", { class: "actions" }, button("Cancel", () => close()), el("button", { type: "submit", class: "button primary", autofocus: true }, "Split")));
    });
    if (at === undefined) return;
    const done = await admin("POST", ["partitions", "split"], { query: { ...query, partition: p.id, ...(at ? { at } : {}) } });
    tell(`Partition ${done.parent} became ${done.children.join(" and ")} in ${done.milliseconds.toFixed(0)} ms; writes waited ${done.pauseMilliseconds.toFixed(1)} ms.`);
    await refresh();
  }

  async function merge(p, next) {
    if (!(await confirm("Merge partitions?", `Partitions ${p.id} and ${next.id} become one with ${plural(p.documents + next.documents, "item")}. They serve meanwhile.`, { action: "Merge" }))) return;
    const done = await admin("POST", ["partitions", "merge"], { query: { ...query, partition: p.id, with: next.id } });
    tell(`Partitions ${done.parents.join(" and ")} became ${done.child} in ${done.milliseconds.toFixed(0)} ms; writes waited ${done.pauseMilliseconds.toFixed(1)} ms.`);
    await refresh();
  }

  const settings = ["sqlDatabases", database, "containers", container];

  async function mergeAll() {
    const plan = (await admin("POST", [...settings, "partitionMerge"], { body: { isDryRun: true } })).physicalPartitionStorageInfoCollection;
    if (plan.length === all.length) return tell("No partitions can be merged: throughput and size need all of them.");
    if (!(await confirm("Merge partitions?", `${plural(all.length, "partition")} become ${plan.length}, as far as throughput and size allow.`, { action: "Merge" }))) return;
    await admin("POST", [...settings, "partitionMerge"], {});
    await refresh();
  }

  async function redistribute() {
    const shares = await dialog("Redistribute throughput", (close) => {
      const inputs = all.map((p) => [p, el("input", { type: "number", min: "0", value: String(Math.round(p.share)), "aria-label": `RU/s of partition ${p.id}` })]);
      const total = () => inputs.reduce((n, [, input]) => n + Number(input.value), 0), sum = el("span", {}, count(total()));
      const given = total();
      return [el("p", {}, "Throughput moves from some partitions to others; the sum stays."), el("div", { class: "shares" }, inputs.map(([p, input]) => {
        input.addEventListener("input", () => { sum.textContent = count(total()); });
        return el("label", {}, el("span", {}, `partition ${p.id}`), input, el("span", { class: "hint" }, "RU/s"));
      })), el("p", {}, "sum ", sum, ` of ${count(given)} RU/s`),
      el("div", { class: "actions" }, button("Equal for all", () => close("equal")), button("Cancel", () => close()), button("Redistribute", () => close(inputs.map(([p, input]) => [p, Number(input.value)])), { kind: "primary" }))];
    });
    if (!shares) return;
    const body = shares === "equal" ? { throughputPolicy: "equal" } : {
      throughputPolicy: "custom",
      targetPhysicalPartitionThroughputInfo: shares.filter(([p, v]) => v > Math.round(p.share)).map(([p, v]) => ({ id: p.id, throughput: v })),
      sourcePhysicalPartitionThroughputInfo: shares.filter(([p, v]) => v < Math.round(p.share)).map(([p, v]) => ({ id: p.id, throughput: v })),
    };
    await admin("POST", [...settings, "throughputSettings", "default", "redistributeThroughput"], { body: { properties: { resource: body } } });
    tell("Throughput redistributed.");
    await refresh();
  }

  // Where a key or a prefix is.
  const fields = new KeyFields({ paths }), found = el("p", { role: "status" });
  const where = el("form", { class: "wherekey", on: { submit: (event) => { event.preventDefault(); find().catch(fail); } } },
    !isTable(definition) && [el("h2", {}, "Where is a key, or a prefix?"), el("div", { class: "query-line" }, fields.root, el("button", { type: "submit", class: "button" }, "Find")), found]);

  async function find() {
    const key = fields.key();
    if (!key.length) throw new Error(`Give ${levelName(paths[0])}.`);
    const page = await queryPage(database, container, { text: "SELECT VALUE 1 FROM c OFFSET 0 LIMIT 1", key, size: 1, explain: true });
    const { visited, total, ranges } = page.rows[0].partitions, scale = scaleOf(all.map((p) => p.max));
    marks = scale ? ranges.map((r) => /^\[([0-9A-F]*),([0-9A-F]*)\)$/.exec(r)).filter(Boolean).map((m) => ({ from: scale(m[1]), to: scale(m[2]) })) : [];
    show(found, el("strong", {}, key.map(component).join(" › ")), ` is in ${plural(visited.length, "partition")} of ${total}: ${visited.join(", ")}`, el("span", { class: "hint mono" }, ` ${ranges.join(" ")}`));
    draw();
  }

  async function tick() {
    if (!visible) return;
    try {
      await refresh();
    } catch (error) {
      about.textContent = error.message;
    }
    clearTimeout(timer);
    if (visible && Number(every.value)) timer = setTimeout(tick, Number(every.value));
  }

  const why = whyNoAdmin();
  // Only the pictures are drawn again: what is typed and chosen next to them stays.
  const pictures = el("div", { class: "pictures" }, ringBox, el("div", { class: "bars" }, el("div", { class: "barhead" }, el("span", {}, "the space of hashed keys"), caller.admin && el("label", { class: "inline" }, "filled by ", shownMetric)), barBox,
    el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, '""'), el("span", {}, "FF")), where, events));
  const root = el("div", { class: "partitions" },
    el("div", { class: "actionbar" }, about, el("span", { class: "space" }), el("label", { class: "inline" }, "refresh ", every),
      button("Redistribute…", working(redistribute), { disabled: !caller.admin, why, title: "Divide the throughput between partitions" }), button("Merge all…", working(mergeAll), { disabled: !caller.admin, why, title: "Merge as far as throughput and size allow" })),
    !caller.admin && el("p", { class: "hint" }, `Request units, hottest keys, splits and merges are not shown. ${why}`), pictures, table);
  return { root, shown() { visible = true; tick(); }, hidden() { visible = false; clearTimeout(timer); } };
}
