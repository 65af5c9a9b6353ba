// Vector and full-text policies of a container, as lines of a form.

import { button, el, select } from "./dom.js";

const languages = ["en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-PT", "pt-BR"].map((l) => [l, l]);

/** Lines that are added and removed. make returns {inputs, read}. */
function lines(title, make, change) {
  const entries = [], list = el("div", { class: "policylines" });
  const add = (given) => {
    const entry = make(given), line = el("div", { class: "policyline" }, entry.inputs, button("×", () => {
      entries.splice(entries.indexOf(entry), 1);
      line.remove();
      change();
    }, { kind: "plain", "aria-label": `Remove this ${title}` }));
    entries.push(entry);
    list.append(line);
    return entry;
  };
  return { entries, add, root: [list, button(`Add ${title}`, () => { add().inputs[0].focus(); change(); })] };
}

/**
 * Forms for the vector and full-text policies of a definition, and for their indexes.
 * merge puts what is entered into a definition; the server checks it.
 */
export class Policies {
  constructor({ definition = {}, change = () => {}, disabled = false } = {}) {
    const box = (options, value, label) => select(options.map((o) => [o, o]), value, change, { "aria-label": label, disabled });
    const path = (value, label, placeholder) => el("input", { class: "mono", value, disabled, "aria-label": label, placeholder, spellcheck: "false", autocomplete: "off", on: { input: change } });
    const policy = definition.indexingPolicy ?? {};
    this.vectors = lines("vector path", (v = {}) => {
      const inputs = [path(v.path ?? "", "Path of the vector", "/embedding"), box(["float32", "float16", "int8", "uint8"], v.dataType ?? "float32", "Data type"),
        el("input", { type: "number", min: "1", value: String(v.dimensions ?? 1536), disabled, "aria-label": "Dimensions", on: { input: change } }), box(["cosine", "dotproduct", "euclidean"], v.distanceFunction ?? "cosine", "Distance"),
        box(["no index", "flat", "quantizedFlat", "diskANN"], (policy.vectorIndexes ?? []).find((i) => i.path === v.path)?.type ?? (v.path ? "no index" : "quantizedFlat"), "Index of the vector")];
      return { inputs, read: () => ({ path: inputs[0].value.trim(), dataType: inputs[1].value, dimensions: Number(inputs[2].value), distanceFunction: inputs[3].value, index: inputs[4].value }) };
    }, change);
    this.texts = lines("text path", (t = {}) => {
      const inputs = [path(t.path ?? "", "Path of the text", "/text"), select(languages, t.language ?? "en-US", change, { "aria-label": "Language", disabled }),
        box(["no index", "full-text index"], t.path && !(policy.fullTextIndexes ?? []).some((i) => i.path === t.path) ? "no index" : "full-text index", "Index of the text")];
      return { inputs, read: () => ({ path: inputs[0].value.trim(), language: inputs[1].value, index: inputs[2].value }) };
    }, change);
    this.language = select(languages, definition.fullTextPolicy?.defaultLanguage ?? "en-US", change, { disabled });
    this.before = Boolean(definition.fullTextPolicy);
    for (const v of definition.vectorEmbeddingPolicy?.vectorEmbeddings ?? []) this.vectors.add(v);
    for (const t of definition.fullTextPolicy?.fullTextPaths ?? []) this.texts.add(t);
    this.root = el("div", { class: "policies" },
      el("fieldset", { disabled }, el("legend", {}, "Vector policy"), this.vectors.root),
      el("fieldset", { disabled }, el("legend", {}, "Full-text policy"), el("label", { class: "inline" }, "default language ", this.language), this.texts.root));
  }

  /** Changes a definition to what is entered. indexingPolicy becomes own if an index is asked for. */
  merge(definition, whole) {
    const vectors = this.vectors.entries.map((e) => e.read()), texts = this.texts.entries.map((e) => e.read());
    const indexed = vectors.filter((v) => v.index !== "no index").map((v) => ({ path: v.path, type: v.index })), searched = texts.filter((t) => t.index !== "no index").map(({ path }) => ({ path }));
    const out = { ...definition };
    out.vectorEmbeddingPolicy = vectors.length ? { vectorEmbeddings: vectors.map(({ index, ...v }) => v) } : undefined;
    out.fullTextPolicy = texts.length || this.before ? { defaultLanguage: this.language.value, fullTextPaths: texts.map(({ index, ...t }) => t) } : undefined;
    const before = definition.indexingPolicy;
    if (indexed.length || searched.length || before?.vectorIndexes || before?.fullTextIndexes) {
      const { vectorIndexes, fullTextIndexes, ...rest } = before ?? whole;
      // A vector index keeps its other members, such as quantizerType.
      out.indexingPolicy = { ...rest, ...(indexed.length ? { vectorIndexes: indexed.map((i) => ({ ...(vectorIndexes ?? []).find((o) => o.path === i.path && o.type === i.type), ...i })) } : {}), ...(searched.length ? { fullTextIndexes: searched.map((i) => ({ ...(fullTextIndexes ?? []).find((o) => o.path === i.path), ...i })) } : {}) };
    }
    for (const name of ["vectorEmbeddingPolicy", "fullTextPolicy"]) if (out[name] === undefined) delete out[name];
    return out;
  }
}
