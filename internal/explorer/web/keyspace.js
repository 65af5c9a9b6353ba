// The space of hashed keys: where partitions and keys are in it, and its pictures.

import { el, svg } from "./dom.js";
import { list } from "./api.js";

/**
 * Returns the partitions of a container with their bounds as fractions of the key space:
 * {id, min, max, from, to}, in order.
 */
export async function partitionsOf(path) {
  return placed((await list([...path, "pkranges"], "PartitionKeyRanges")).map((r) => ({ id: r.id, min: r.minInclusive, max: r.maxExclusive })));
}

/** Adds the fractions to partitions with bounds min and max. */
export function placed(partitions) {
  const sorted = partitions.toSorted((a, b) => a.min < b.min ? -1 : 1);
  const scale = scaleOf(sorted.map((p) => p.max));
  return sorted.map((p, i) => scale ? { ...p, from: scale(p.min), to: scale(p.max) } : { ...p, from: i / sorted.length, to: (i + 1) / sorted.length });
}

/**
 * Returns a function from a hashed key to a fraction; null if the keys of this kind are
 * not spread evenly over their digits (the first version of the hash).
 */
export function scaleOf(bounds) {
  const inner = bounds.filter((b) => b && b !== "FF");
  if (inner.some((b) => b.startsWith("05C1"))) return null;
  // The hash of a partition key uses the lower quarter of the digits, the token of a table all of them.
  const whole = inner.some((b) => b > "40") ? 2 ** 32 : 2 ** 30;
  return (epk) => !epk ? 0 : epk === "FF" ? 1 : Math.min(1, parseInt(epk.slice(0, 8).padEnd(8, "0"), 16) / whole);
}

/** The colour of a partition, which it keeps as others split. */
export const hue = (id) => `hsl(${(Number(id) * 137.5 + 195) % 360} 52% 52%)`;

const size = 220, middle = size / 2, radius = 84, thickness = 30;

function point(fraction, r) {
  const angle = fraction * 2 * Math.PI - Math.PI / 2;
  return `${(middle + r * Math.cos(angle)).toFixed(2)} ${(middle + r * Math.sin(angle)).toFixed(2)}`;
}

function arc(from, to, inner, outer) {
  const end = Math.min(to, from + 0.9999), large = end - from > 0.5 ? 1 : 0;
  return `M${point(from, outer)}A${outer} ${outer} 0 ${large} 1 ${point(end, outer)}L${point(end, inner)}A${inner} ${inner} 0 ${large} 0 ${point(from, inner)}Z`;
}

/**
 * Draws partitions as a ring. options: visited (ids; others are pale), levels (id to a fill of 0 to
 * 1), marks ([{from, to}] of keys), choose (partition), caption, label.
 */
export function ring(partitions, { visited, level, marks = [], choose, caption = "", note = "", label, chosen }) {
  const inner = radius - thickness / 2, outer = radius + thickness / 2;
  return svg("svg", { class: "ring", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label },
    partitions.map((p) => {
      const gap = partitions.length > 1 ? Math.min(0.0025, (p.to - p.from) / 5) : 0, from = p.from + gap, to = Math.max(from + 0.001, p.to - gap);
      const on = !visited || visited.includes(p.id), fill = level?.(p);
      return svg("g", { class: `segment ${on ? "on" : "off"} ${chosen === p.id ? "chosen" : ""}`, on: choose ? { click: () => choose(p) } : {} },
        svg("path", { class: "back", d: arc(from, to, inner, outer), style: { "--hue": hue(p.id) } }, svg("title", {}, `partition ${p.id}`)),
        fill > 0 && svg("path", { class: "fill", d: arc(from, to, inner, inner + (outer - inner) * Math.min(1, fill)), style: { "--hue": hue(p.id) } }),
        to - from > 0.03 && svg("text", { x: point((from + to) / 2, radius).split(" ")[0], y: point((from + to) / 2, radius).split(" ")[1] }, p.id));
    }),
    marks.map((m) => {
      const from = m.from, to = Math.max(m.to, from + 0.006);
      return svg("path", { class: "key", d: arc(from, to, outer + 3, outer + 10) });
    }),
    svg("text", { class: "caption", x: middle, y: middle - (note ? 8 : 0) }, caption), note && svg("text", { class: "note", x: middle, y: middle + 14 }, note));
}

/** Draws partitions as a bar from the first hashed key to the last. */
export function bar(partitions, { marks = [], level, choose, chosen, label }) {
  return el("div", { class: "keybar", role: "img", "aria-label": label },
    partitions.map((p) => {
      const part = el("div", { class: `part ${chosen === p.id ? "chosen" : ""}`, title: `partition ${p.id}: [${p.min || '""'}, ${p.max})`, style: { left: `${p.from * 100}%`, width: `${(p.to - p.from) * 100}%`, "--hue": hue(p.id), "--fill": level ? Math.min(1, level(p)) : 0 }, on: choose ? { click: () => choose(p) } : {} },
        el("span", {}, p.id));
      return part;
    }),
    marks.map((m) => el("div", { class: "keymark", style: { left: `${m.from * 100}%`, width: `max(4px, ${(m.to - m.from) * 100}%)` } })));
}
