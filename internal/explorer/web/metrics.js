// The server's metrics over the last minutes. Sampling begins with the first visit of the
// screen, and continues until the page is closed.

import { el, show } from "./dom.js";
import { admin, caller } from "./api.js";
import { plot } from "./plot.js";
import { bytes, count, millis } from "./format.js";

const every = 2000, kept = 300_000; // milliseconds
const samples = []; // {t, values}: values by the name of a series
let timer, before = null, signedIn = null;

/** Sums the metrics of the text form by family, and by one label of some. */
function parseMetrics(text) {
  const sums = new Map(), buckets = new Map();
  for (const line of text.split("\n")) {
    const m = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m) continue;
    const [, name, labels = "", value] = m, v = Number(value), label = (l) => new RegExp(`(?:^|,)${l}="([^"]*)"`).exec(labels)?.[1];
    const add = (key) => sums.set(key, (sums.get(key) ?? 0) + v);
    add(name);
    if (name === "decan_nosql_requests_total") add(`${name} ${label("status")?.[0]}xx${label("status") === "429" ? " 429" : ""}`);
    if (name === "decan_nosql_request_duration_seconds_bucket") buckets.set(Number(label("le")?.replace("+Inf", "Infinity")), (buckets.get(Number(label("le")?.replace("+Inf", "Infinity"))) ?? 0) + v);
  }
  return { sums, buckets: [...buckets].sort((a, b) => a[0] - b[0]) };
}

/** Returns the duration below which a part of the requests between two samples were, in milliseconds. */
function quantile(now, then, part) {
  const earlier = new Map(then), rises = now.map(([le, n]) => [le, n - (earlier.get(le) ?? 0)]), total = rises.at(-1)?.[1] ?? 0;
  if (total <= 0) return undefined;
  let low = 0, below = 0;
  for (const [le, n] of rises) {
    if (n >= part * total) return 1000 * (le === Infinity ? low : low + (le - low) * (n > below ? (part * total - below) / (n - below) : 1));
    [low, below] = [le, n];
  }
  return undefined;
}

async function sample() {
  const t = Date.now(), { sums, buckets } = parseMetrics(await admin("GET", ["metrics"]));
  if (before) {
    const seconds = (t - before.t) / 1000, get = (name) => sums.get(name) ?? 0, rate = (name) => Math.max(0, get(name) - (before.sums.get(name) ?? 0)) / seconds, r = "decan_nosql_requests_total";
    const pages = get("decan_engine_query_pages_total") - (before.sums.get("decan_engine_query_pages_total") ?? 0), visits = get("decan_engine_query_partitions_sum") - (before.sums.get("decan_engine_query_partitions_sum") ?? 0);
    samples.push({ t, values: {
      ok: rate(`${r} 2xx`), refused: rate(`${r} 4xx`), failed: rate(`${r} 5xx`), throttled: rate("decan_throttled_requests_total"), charge: rate("decan_nosql_charge_total"),
      p50: quantile(buckets, before.buckets, 0.5), p99: quantile(buckets, before.buckets, 0.99), fanout: pages > 0 ? visits / pages : undefined,
      documents: get("decan_partition_documents"), documentBytes: get("decan_partition_document_bytes"), memory: get("process_resident_memory_bytes"), requestMemory: get("decan_requests_memory_bytes"), connections: get("decan_connections_open"), running: get("decan_engine_queries_running"), waiting: get("decan_engine_queries_waiting"), splits: get("decan_partition_splits_total"), merges: get("decan_partition_merges_total"),
    } });
    while (samples.length && samples[0].t < t - kept) samples.shift();
  }
  before = { t, sums, buckets };
}

export function metrics() {
  const body = el("div", { class: "plots" }), note = el("span", { class: "result", role: "status" }, "Reading…");
  let visible = false;
  const series = (...names) => names.map(([key, name]) => ({ name, points: samples.filter((s) => s.values[key] !== undefined).map((s) => ({ t: s.t, v: s.values[key] })) }));
  const perSecond = (v) => `${count(Math.round(v * 10) / 10)}/s`, whole = (v) => count(Math.round(v * 100) / 100);

  function draw() {
    show(body,
      plot("Requests", series(["ok", "2xx"], ["refused", "4xx"], ["failed", "5xx"]), { format: perSecond }),
      plot("Request units", series(["charge", "RU"]), { format: perSecond }),
      plot("Throttled", series(["throttled", "requests"]), { format: perSecond }),
      plot("Duration", series(["p50", "half of the requests below"], ["p99", "99 % below"]), { format: millis }),
      plot("Partitions per page of a query", series(["fanout", "mean"]), { format: whole }),
      plot("Queries", series(["running", "running"], ["waiting", "waiting"]), { format: whole }),
      plot("Items", series(["documents", "items"]), { format: whole }),
      plot("Size of items", series(["documentBytes", "bytes"]), { format: bytes, base: 2 }),
      plot("Memory", series(["memory", "process"], ["requestMemory", "requests"]), { format: bytes, base: 2 }),
      plot("Connections", series(["connections", "open"]), { format: whole }),
      plot("Partitions changed", series(["splits", "splits"], ["merges", "merges"]), { format: whole }));
    note.textContent = samples.length ? "The last five minutes, from the first visit of this screen." : "The first figures come in two seconds.";
  }

  async function tick() {
    clearTimeout(timer);
    if (signedIn !== caller.kind) {
      signedIn = caller.kind;
      samples.length = 0;
      before = null;
    }
    if (!caller.admin) return;
    try {
      await sample();
      if (visible) draw();
    } catch (error) {
      note.textContent = error.message;
    }
    if (caller.admin) timer = setTimeout(tick, every);
  }

  return { root: el("div", { class: "screen" }, el("div", { class: "heading" }, el("h1", {}, "Metrics"), note), body), shown() { visible = true; draw(); tick(); }, hidden() { visible = false; } };
}
