// The plan of a query as a tree, with the steps marked that read much and keep little.

import { button, el } from "./dom.js";
import { count, millis, plural, units } from "./format.js";

/** Shows the document of x-decan-explain. addIndex is called with a composite index to add. */
export function planView(explained, addIndex) {
  const { partitions } = explained;
  const read = explained.retrievedDocuments, kept = explained.matchedDocuments;
  const advice = [];
  if (read >= 1000 && kept < read / 10) advice.push(`It read ${plural(read, "item")} and kept ${count(kept)}: no index answers its filter.`);
  if (partitions.visited.length === partitions.total && partitions.total > 1) advice.push("It asked all partitions: its filter does not name the first level of the key.");
  const potential = [
    ...explained.indexes.PotentialIndexes.SingleIndexes.map((x) => [x.IndexSpec]),
    ...explained.indexes.PotentialIndexes.CompositeIndexes.map((x) => x.IndexSpecs),
  ];
  const used = [...explained.indexes.UtilizedIndexes.SingleIndexes.map((x) => x.IndexSpec), ...explained.indexes.UtilizedIndexes.CompositeIndexes.map((x) => `(${x.IndexSpecs.join(", ")})`)];
  return el("div", { class: "plan" },
    el("p", { class: "summary" }, `${plural(partitions.visited.length, "partition")} of ${partitions.total} · ${plural(read, "item")} read, ${count(explained.indexHits)} of them found by the index · ${plural(explained.returnedRows, "row")} · ${units(explained.requestCharge)} · ${millis(explained.milliseconds)}${explained.complete ? "" : " · first page"}`),
    advice.map((a) => el("p", { class: "advice" }, a)),
    el("div", { class: "planhead", "aria-hidden": "true" }, el("span", {}, "step"), el("span", {}, "rows"), el("span", {}, "expected")),
    el("ul", { class: "steps" }, steps([explained.plan], 0)),
    el("div", { class: "indexes" }, el("h3", {}, "Indexes used"), el("p", { class: "mono" }, used.length ? used.join(", ") : "none"),
      potential.length > 0 && [el("h3", {}, "Would help"), potential.map((paths) => el("p", {}, el("span", { class: "mono" }, paths.join(", ")), " ", paths.length > 1 && addIndex && button("Add to the policy", () => addIndex(paths))))]));
}

function steps(list, depth) {
  return list.map((step) => {
    const wasteful = step.rows !== undefined && step.of?.[0]?.rows >= 1000 && step.rows < step.of[0].rows / 10;
    return el("li", {}, el("div", { class: `step ${wasteful ? "wasteful" : ""}` },
      el("span", { class: "what" }, el("span", { style: { "padding-left": `${depth * 20}px` } }, depth > 0 && el("span", { class: "faint", "aria-hidden": "true" }, "└ "), el("strong", {}, step.step), step.detail && ` ${step.detail}`, readable(step.spans) && el("small", {}, ` ${readable(step.spans)}`), step.taken !== undefined && el("small", {}, ` taken ${step.taken} times`))),
      el("span", { class: "numeric" }, step.rows === undefined ? "" : count(step.rows)), el("span", { class: "numeric" }, step.expected === undefined ? "" : count(step.expected))),
    step.of && el("ul", {}, steps(step.of, depth + 1)));
  });
}

/** Returns the spans of a lookup that people can read; bounds of stored bytes are not. */
const readable = (spans = []) => spans.filter((s) => !/^\[[0-9a-f]{12}/.test(s)).join(" ");
