// The form of a workload for the key advisor: figures, and queries with their parameters.
// It can also be filled with what clients do, which the server records.

import { button, el, field, show, unique } from "./dom.js";
import { admin, caller } from "./api.js";
import { fail, tell } from "./dialog.js";
import { plural } from "./format.js";

// [member of the workload, label, placeholder, hint]
const figures = [
  ["documents", "Items it will hold", "as now"],
  ["itemBytes", "Mean size in bytes", "as in the sample"],
  ["writesPerSecond", "Writes per second", "0"],
  ["readsPerSecond", "Point reads per second", "0"],
  ["throughput", "Provisioned RU/s", "what it needs"],
  ["loadHours", "Load all within hours", "no limit"],
];

const parameterName = /@\w+/g;

/** Rounds for people; small rates keep two digits. */
const rounded = (n) => n >= 10 ? Math.round(n) : Number(n.toPrecision(2));

export class Workload {
  /** where is {database, container}; changed is called when a recording begins or ends. */
  constructor(where, changed) {
    Object.assign(this, { where, changed, recording: false });
    this.inputs = figures.map(([, , placeholder]) => el("input", { type: "number", min: "0", step: "any", placeholder, autocomplete: "off" }));
    this.growth = el("input", { placeholder: "10, 100", autocomplete: "off" });
    this.paths = el("datalist", { id: unique("paths") });
    this.largest = shares("Largest value", this.paths.id);
    this.busiest = shares("Busiest value", this.paths.id);
    this.queries = el("ul", { class: "workqueries" });
    this.record = button("Record from clients", () => this.toggle(), { disabled: !caller.admin, title: "Counts the queries, without their values, and the writes and reads that clients send from now on" });
    this.state = el("span", { class: "hint", role: "status" });
    this.root = el("div", { class: "workload" }, this.paths,
      el("div", { class: "figures" }, figures.map(([, label], i) => field(label, this.inputs[i])), field("Grows by factors", this.growth), this.largest.root, this.busiest.root),
      el("h3", {}, "Queries"), this.queries,
      el("div", { class: "actionbar" }, button("Add query", () => this.add({ query: "SELECT * FROM c WHERE ", perSecond: 1 }).focus()), this.record, this.state));
    this.bare();
  }

  /** Says that there is no query, while there is none. */
  bare() {
    if (!this.queries.children.length) show(this.queries, el("li", { class: "hint none" }, "No query yet: keys are then compared by their data, writes and reads."));
  }

  /** Offers properties of the sample where a path is asked for. */
  offer(paths) { show(this.paths, paths.map((p) => el("option", { value: p }))); }

  /** Adds a line for a query, and returns its text field. */
  add({ query, perSecond, parameters = [] }) {
    this.queries.querySelector(".none")?.remove();
    const known = new Map(parameters.map((p) => [p.name, p.path ?? JSON.stringify(p.value)])), fields = el("div", { class: "workparameters" });
    const text = el("input", { class: "mono text", "aria-label": "Query", value: query, autocomplete: "off", spellcheck: "false", on: { input: () => draw() } });
    const rate = el("input", { type: "number", min: "0", step: "any", "aria-label": "Executions per second", value: String(rounded(perSecond)) });
    const line = el("li", {}, el("div", { class: "workquery" }, text, rate, el("span", { class: "hint" }, "per second"), button("×", () => {
      line.remove();
      this.bare();
      this.record.focus();
    }, { kind: "plain", "aria-label": "Remove this query" })), fields);
    const draw = () => {
      const names = [...new Set(text.value.match(parameterName) ?? [])];
      if (names.join() === [...fields.querySelectorAll("input")].map((i) => i.dataset.name).join()) return;
      show(fields, names.map((name) => el("label", {}, el("span", { class: "mono" }, `${name} =`), el("input", {
        class: "mono", "data-name": name, list: this.paths.id, placeholder: "/path or \"value\"", value: known.get(name) ?? "", autocomplete: "off", spellcheck: "false",
        on: { input: (event) => known.set(name, event.target.value) },
      }))));
    };
    this.queries.append(line);
    draw();
    return text;
  }

  /** Returns the workload as the server takes it. Throws an Error that names what is wrong. */
  get value() {
    const w = {};
    figures.forEach(([name, label], i) => {
      const input = this.inputs[i];
      if (!input.validity.valid) throw new Error(`${label}: this is not a number of zero or more.`);
      if (input.value !== "") w[name] = Number(input.value);
    });
    const growth = this.growth.value.split(/[\s,;×x]+/).filter(Boolean).map(Number);
    if (growth.some((g) => !(g >= 1))) throw new Error("Grows by factors: give numbers of 1 or more with commas between them.");
    if (growth.length) w.growth = growth;
    for (const [name, input] of [["largest", this.largest], ["busiest", this.busiest]]) {
      const share = input.value;
      if (share) w[name] = share;
    }
    const lines = [...this.queries.children].filter((line) => !line.classList.contains("none"));
    if (lines.length) w.queries = lines.map((line) => {
      const query = line.querySelector(".text").value, parameters = [...line.querySelectorAll("[data-name]")].map((i) => parameter(i.dataset.name, i.value.trim()));
      return { query, perSecond: Number(line.querySelector("[type=number]").value), ...(parameters.length ? { parameters } : {}) };
    });
    return w;
  }

  /** Begins or ends a recording. */
  async toggle() {
    this.record.disabled = true;
    try {
      if (this.recording) await this.stop();
      else await this.start();
    } catch (error) {
      fail(error);
    } finally {
      this.record.disabled = false;
    }
  }

  async start() {
    try {
      await admin("POST", ["workload"], { query: this.where });
      this.begun = Date.now();
    } catch (error) {
      if (error.status !== 409) throw error;
      this.begun = null; // It was begun before, from here or by another program.
    }
    this.mark(true);
    const tick = () => {
      this.state.textContent = this.begun ? `Recording for ${plural(Math.round((Date.now() - this.begun) / 1000), "second")}` : "A recording that was begun earlier is running";
    };
    tick();
    this.timer = setInterval(tick, 1000);
  }

  async stop() {
    clearInterval(this.timer);
    try {
      const recorded = await admin("DELETE", ["workload"], { query: this.where });
      const set = (name, n) => { this.inputs[figures.findIndex(([m]) => m === name)].value = n ? String(rounded(n)) : ""; };
      set("writesPerSecond", recorded.writesPerSecond);
      set("readsPerSecond", recorded.readsPerSecond);
      show(this.queries);
      recorded.queries.forEach((q) => this.add(q));
      this.bare();
      tell(`Recorded ${recorded.queries.length === 1 ? "1 query" : `${recorded.queries.length} queries`} in ${plural(Math.round(recorded.seconds), "second")}.${recorded.leftOut ? ` ${plural(recorded.leftOut, "execution")} left out: there were more different queries than a recording keeps.` : ""}`);
    } finally {
      this.mark(false);
      this.state.textContent = "";
    }
  }

  mark(on) {
    this.recording = on;
    this.record.textContent = on ? "Stop recording" : "Record from clients";
    this.changed?.();
  }
}

/** Returns the fields for the share of the greatest value of a property. */
function shares(label, list) {
  const path = el("input", { class: "mono", list, placeholder: "/TenantId", "aria-label": `${label}: path`, autocomplete: "off", spellcheck: "false" });
  const percent = el("input", { type: "number", min: "0", max: "100", step: "any", placeholder: "40", "aria-label": `${label}: percent` });
  return {
    root: el("div", { class: "field" }, el("span", { class: "fieldname" }, label), el("div", { class: "line" }, path, percent, el("span", { class: "hint" }, "%"))),
    get value() {
      if (!path.value.trim() && percent.value === "") return null;
      if (!path.value.trim() || percent.value === "") throw new Error(`${label}: give a path and its share in percent.`);
      return { [path.value.trim()]: Number(percent.value) / 100 };
    },
  };
}

/** Reads a parameter: a path whose values take turns, or a value of JSON. */
function parameter(name, text) {
  if (text.startsWith("/")) return { name, path: text };
  try {
    return { name, value: JSON.parse(text) };
  } catch {
    throw new Error(`${name}: give a path, such as /TenantId, or a value in the form of JSON, such as "Contoso" or 5.`);
  }
}
