// One field for each level of a partition key, filled from the left.

import { el, select, unique } from "./dom.js";
import { absent, pathNames } from "./api.js";
import { BigNumber, parse } from "./json.js";

const kinds = [["any", "any"], ["text", "text"], ["number", "number"], ["true", "true"], ["false", "false"], ["null", "null"], ["absent", "absent"]];

/** Returns the name of a key level for people: the last name of its path. */
export const levelName = (path) => pathNames(path).join(".");

/** Returns a key component for people; a text in quotes only if it could be taken for another type. */
export function component(value) {
  if (value === absent || value === undefined) return "(absent)";
  if (value === "") return '""';
  if (typeof value === "string") return ["null", "true", "false", "(absent)"].includes(value) || String(Number(value)) === value ? JSON.stringify(value) : value;
  return String(value);
}

/** Fields for a key or a prefix of one. change is called after each change. */
export class KeyFields {
  constructor({ paths, change, whole = false }) {
    this.levels = paths.map((path, i) => {
      const name = levelName(path), id = unique("level");
      const level = { name };
      level.input = el("input", { id, autocomplete: "off", spellcheck: "false", placeholder: whole ? "" : "any", on: { input: () => {
        if (level.kind.value === "any" && level.input.value) level.kind.value = "text";
        if (!whole && level.kind.value === "text" && !level.input.value) level.kind.value = "any";
        change?.();
      } } });
      level.kind = select(whole ? kinds.slice(1) : kinds, whole ? "text" : "any", () => { this.enable(); change?.(); }, { "aria-label": `Type of ${name}`, class: "kind" });
      level.root = el("div", { class: "level" }, el("label", { for: id }, name), el("div", { class: "pair" }, level.input, level.kind), i < paths.length - 1 && el("span", { class: "then", "aria-hidden": "true" }, "›"));
      return level;
    });
    this.root = el("div", { class: "keyfields", role: "group", "aria-label": "Partition key" }, this.levels.map((l) => l.root));
    this.enable();
  }

  enable() {
    for (const level of this.levels) {
      const typed = ["any", "text", "number"].includes(level.kind.value);
      level.input.disabled = !typed;
      if (!typed || level.kind.value === "any") level.input.value = "";
    }
  }

  /** Returns the components up to the first level that is not given; throws if a later one is given. */
  key() {
    const key = [];
    let open = "";
    for (const { name, kind, input } of this.levels) {
      if (kind.value === "any") {
        open ||= name;
        continue;
      }
      if (open) throw new Error(`Give ${open} as well: a key is given from the left.`);
      key.push(read(kind.value, input.value, name));
    }
    return key;
  }

  set(key) {
    this.levels.forEach(({ kind, input }, i) => {
      const value = key[i];
      const typed = typeof value === "string" || typeof value === "number" || value instanceof BigNumber;
      kind.value = i >= key.length ? (kind.options[0].value) : value === absent ? "absent" : typed ? (typeof value === "string" ? "text" : "number") : String(value);
      input.disabled = false;
      input.value = typed ? String(value) : "";
    });
    this.enable();
  }
}

function read(kind, text, name) {
  switch (kind) {
    case "text": return text;
    case "absent": return absent;
    case "number": {
      let value;
      try {
        value = parse(text);
      } catch { /* The check below reports it. */ }
      if (typeof value !== "number" && !(value instanceof BigNumber)) throw new Error(`The value of ${name} is not a number.`);
      return value;
    }
  }
  return parse(kind);
}
