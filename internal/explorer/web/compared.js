// The advice of the key advisor as a table: a column for each candidate, and the reasons
// in words.

import { el } from "./dom.js";
import { bytes, count, plural, units } from "./format.js";
import { levelName } from "./keyfields.js";

const percent = (f) => `${f > 0 && f < 0.01 ? (100 * f).toFixed(1) : Math.round(100 * f)} %`;
const hours = (h) => h < 1 / 60 ? `${Math.round(h * 3600)} s` : h < 2 ? `${Math.round(h * 60)} min` : `${h.toFixed(1)} h`;
const skew = (s) => `${s.maxToMean.toFixed(1)} × mean, Gini ${s.gini.toFixed(2)}`;

/** Returns the levels of a key as they are shown everywhere. */
export const keyChips = (paths) => el("span", { class: "levels" }, paths.map((path, i) => [i > 0 && el("span", { "aria-hidden": "true" }, "›"), el("span", { class: `levelname level${i + 1}` }, levelName(path))]));

export const sameKey = (a, b) => a.length === b.length && a.every((path, i) => path === b[i]);

const words = { bad: "Refused or too slow", warn: "Costs more", good: "Good", note: "Note" };

/** Shows findings, each with its weight in words and the statements that it applies. */
export const findings = (list) => el("ul", { class: "findings" }, list.map((f) => el("li", { class: `is-${f.weight}` }, el("strong", { class: "weight" }, words[f.weight]), " ", f.text, " ", el("small", {}, f.rule))));

function meter(part, text) {
  return el("span", { class: "meter" }, el("span", { class: `track ${part > 0.9 ? "high" : ""}` }, el("span", { style: { width: `${Math.min(100, part * 100)}%` } })), el("span", {}, text));
}

/** Returns the share of the queries that take each route, by how often they run. */
function routes(candidate) {
  const all = candidate.queries ?? [], runs = all.reduce((n, q) => n + q.perSecond, 0);
  const share = (route) => runs ? all.reduce((n, q) => n + (q.route === route ? q.perSecond : 0), 0) / runs : 0;
  const parts = [["single partition", "single"], ["targeted", "targeted"], ["fan-out", "fanout"]].map(([route, kind]) => ({ route, kind, share: share(route) }));
  return el("div", { class: "routes" }, el("div", { class: "routebar", "aria-hidden": "true" }, parts.map((p) => p.share > 0 && el("span", { class: p.kind, style: { "flex-grow": p.share } }))),
    parts.filter((p) => p.share > 0).map((p) => el("div", {}, `${percent(p.share)} ${p.route}`)));
}

/**
 * Returns the table. answer is that of POST /advise; choose is called with a candidate
 * that is to be applied, and may be null where nothing can be applied.
 */
export function comparison(answer, choose) {
  const { advice, present } = answer, candidates = advice.candidates, asked = candidates.some((c) => c.queries?.length);
  const stage = (i) => (c) => {
    const s = c.growth?.[i];
    return s && [el("div", {}, `${count(s.partitions)} partitions`), el("div", { class: s.refused ? "refusedkey" : "" }, `largest key ${bytes(s.largestBytes)}${s.refused ? ": full, writes are refused" : ""}`)];
  };
  const rows = [
    ["Values of each level", (c) => c.levels.map((l, i) => el("div", {}, el("span", { class: `levelname level${i + 1}` }, levelName(l.path)), ` ${count(l.values)}`, l.missing > 0 && el("span", { class: "hint" }, `, missing in ${percent(l.missing)}`)))],
    ["Largest logical partition", (c) => [meter(c.largestBytes / answer.logicalBytes, `${bytes(c.largestBytes)} of ${bytes(answer.logicalBytes)}`), c.refused > 0 && el("div", { class: "refusedkey" }, `${plural(c.refused, "item")} would be refused`)], (c) => c.largestKey],
    ["Storage of logical partitions", (c) => skew(c.logicalStorage)],
    ["RU/s of logical partitions", (c) => skew(c.logicalWork)],
    ["Physical partitions", (c) => `${count(c.partitions)}${c.active < c.partitions ? `, ${count(c.active)} with data` : ""}`],
    ["Storage of physical partitions", (c) => skew(c.physicalStorage)],
    ["RU/s of physical partitions", (c) => skew(c.physicalWork)],
    ["RU/s needed", (c) => `${count(Math.round(c.needed))} of ${count(c.throughput)}`],
    ["Busiest partition uses", (c) => meter(c.hottest, `${percent(c.hottest)} of its share${c.hottest > 1 ? ": 429" : ""}`)],
    ["Highest ingestion", (c) => [el("div", {}, `${count(Math.round(c.ingest))} of ${count(Math.round(c.ingestMost))} RU/s`), el("div", { class: "hint" }, `all data in ${hours(c.loadHours)}`)]],
    ...(asked ? [
      ["Queries", routes],
      ["Partitions that a query asks", (c) => `${c.asked.toFixed(1)} of ${count(c.partitions)}`],
      ...candidates[0].queries.map((q, i) => [el("span", { class: "mono querytext", title: q.query }, q.query), (c) => [el("div", {}, units(c.queries[i].charge)), el("div", { class: "hint" }, `${c.queries[i].route}, ${Number(c.queries[i].partitions.toFixed(1))} of ${count(c.partitions)}`)]]),
    ] : []),
    ...(candidates[0].growth ?? []).map((g, i) => [`At ${count(g.factor)} times the data`, stage(i)]),
    ["Reasons", (c) => {
      const first = c.findings.filter((f) => f.weight === "bad" || f.weight === "warn"), rest = c.findings.filter((f) => !first.includes(f));
      return [first.length ? findings(first) : el("p", { class: "hint" }, "Nothing speaks against it."), rest.length > 0 && el("details", {}, el("summary", {}, `${rest.length} more`), findings(rest)), c.steps?.length > 0 && el("details", {}, el("summary", {}, "What to do"), el("ul", { class: "steps" }, c.steps.map((s) => el("li", {}, s))))];
    }],
  ];
  return el("div", { class: "tablewrap comparison", tabindex: "0", role: "region", "aria-label": "Candidates side by side" }, el("table", {},
    el("thead", {}, el("tr", {}, el("td", {}), candidates.map((c, i) => el("th", { scope: "col", class: i === 0 ? "best" : "" }, keyChips(c.paths),
      el("div", { class: "marks" }, i === 0 && el("span", { class: "badge good" }, "best"), sameKey(c.paths, present) && el("span", { class: "badge" }, "now")))))),
    el("tbody", {}, rows.map(([title, cell, about]) => el("tr", {}, el("th", { scope: "row" }, title), candidates.map((c, i) => el("td", { class: i === 0 ? "best" : "", title: about?.(c) }, cell(c)))))),
    choose && el("tfoot", {}, el("tr", {}, el("td", {}), candidates.map((c, i) => el("td", { class: i === 0 ? "best" : "" }, choose(c, i)))))));
}

/** Returns the properties of the sample that can be a level. */
export const propertyTable = (properties) => el("details", { class: "properties" }, el("summary", {}, `Properties of the sample (${properties.length})`),
  el("div", { class: "tablewrap", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, ["property", "values", "largest", "missing", "queries that fix it"].map((h, i) => el("th", { class: i ? "numeric" : "" }, h)))),
    el("tbody", {}, properties.slice(0, 40).map((p) => el("tr", {}, el("td", { class: "mono" }, p.path), [count(p.values), percent(p.largest), percent(p.missing), percent(p.asked)].map((t) => el("td", { class: "numeric" }, t))))))));
