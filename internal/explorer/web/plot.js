// Lines over the last minutes, and heat over time.

import { el, svg } from "./dom.js";

const width = 320, height = 84;

/**
 * Draws series over time: [{name, points: [{t, v}]}], t in milliseconds. format words a value.
 */
export function plot(title, series, { format = String, span = 300_000, now = Date.now(), base = 10 } = {}) {
  const all = series.flatMap((s) => s.points.map((p) => p.v));
  const top = nice(Math.max(...all, 0), base), x = (t) => width - (now - t) / span * width, y = (v) => height - 4 - (top ? v / top : 0) * (height - 12);
  const latest = (s) => s.points.at(-1)?.v;
  return el("figure", { class: "plot" },
    el("figcaption", {}, el("strong", {}, title), el("span", { class: "faint" }, `up to ${format(top)}`)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${series.map((s) => `${s.name} ${latest(s) === undefined ? "no value" : format(latest(s))}`).join(", ")}` },
      [0, 0.5, 1].map((part) => svg("line", { class: "rule", x1: 0, x2: width, y1: y(top * part), y2: y(top * part) })),
      series.map((s, i) => svg("polyline", { class: `line line${i % 6}`, points: s.points.map((p) => `${x(p.t).toFixed(1)},${y(p.v).toFixed(1)}`).join(" ") }))),
    el("ul", { class: "legend" }, series.map((s, i) => el("li", {}, el("span", { class: `swatch line${i % 6}`, "aria-hidden": "true" }), s.name, " ", el("span", { class: "numeric" }, latest(s) === undefined ? "" : format(latest(s)))))));
}

/** Returns the end of an axis: a round number of units, which are powers of base. */
function nice(v, base) {
  if (v <= 0) return 1;
  if (base === 2) return 2 ** Math.ceil(Math.log2(v));
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].find((n) => n * unit >= v) * unit;
}

/** Draws a row of cells, the newest at the right: values from 0 to 1 with a title each. */
export function heat(values, cells) {
  return el("span", { class: "heat", "aria-hidden": "true" }, Array.from({ length: cells }, (_, i) => {
    const value = values[values.length - cells + i];
    return el("i", { class: value ? value.hot ? "hot" : "" : "none", title: value?.title, style: { "--heat": value?.v ?? 0 } });
  }));
}
