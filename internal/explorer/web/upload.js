// Writing the items of a file: a JSON array, one object, or JSON lines.

import { button, el, field, select, show } from "./dom.js";
import { keyHeader, keyOf, request } from "./api.js";
import { parse, stringify } from "./json.js";
import { dialog } from "./dialog.js";
import { plural, units } from "./format.js";

/** Asks for a file and writes its items. Returns whether any was written. */
export async function uploadItems(context) {
  let written = 0;
  await dialog(`Upload items into ${context.container}`, (close) => {
    const file = el("input", { type: "file", accept: ".json,.jsonl,.ndjson,application/json", autofocus: true });
    const mode = select([["upsert", "replace items that exist"], ["create", "refuse items that exist"]], "upsert");
    const result = el("div", { role: "status" });
    const go = button("Upload", async () => {
      if (!file.files[0]) {
        show(result, el("p", { class: "error" }, "Choose a file first."));
        return file.focus();
      }
      go.disabled = true;
      try {
        written += await write(context, readItems(await file.files[0].text()), mode.value, result);
      } catch (error) {
        show(result, el("p", { class: "error" }, error.message));
      }
      go.disabled = false;
    }, { kind: "primary" });
    return [field("File with a JSON array or JSON lines", file), field("Items with the same id and key", mode), result,
      el("div", { class: "actions" }, button("Close", () => close()), go)];
  }, { wide: true });
  return written > 0;
}

/** Returns the items of a file. */
export function readItems(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  let all;
  try {
    const value = parse(text);
    all = Array.isArray(value) ? value : [value];
  } catch (error) {
    if (lines.length < 2) throw error;
    all = lines.map((line, i) => {
      try {
        return parse(line);
      } catch (e) {
        throw new Error(i === 0 ? error.message : `Line ${i + 1}: ${e.message}`);
      }
    });
  }
  all.forEach((item, i) => {
    if (item === null || typeof item !== "object" || Array.isArray(item)) throw new Error(`Item ${i + 1} is not an object.`);
  });
  return all;
}

async function write(context, items, mode, result) {
  let next = 0, done = 0, charge = 0;
  const failed = [];
  const progress = () => show(result, el("p", {}, `${plural(done, "item")} of ${items.length} written for ${units(charge)}${failed.length ? `, ${failed.length} refused` : ""}.`),
    failed.length ? el("ul", { class: "refused" }, failed.slice(0, 50).map((f) => el("li", {}, f))) : null);
  const worker = async () => {
    for (let i; (i = next++) < items.length;) {
      try {
        const answer = await request("POST", [...context.path, "docs"], { body: stringify(items[i]), headers: {
          "x-ms-documentdb-partitionkey": keyHeader(keyOf(items[i], context.paths)), ...(mode === "upsert" ? { "x-ms-documentdb-is-upsert": "True" } : {}),
        } });
        charge += Number(answer.headers.get("x-ms-request-charge"));
        done++;
      } catch (error) {
        failed.push(`Item ${i + 1} (${String(items[i].id)}): ${error.message}`);
      }
      if (i % 50 === 0) progress();
    }
  };
  await Promise.all(Array.from({ length: 6 }, worker));
  progress();
  return done;
}
