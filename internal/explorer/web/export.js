// Rows as CSV.

import { BigNumber, stringify } from "./json.js";

/** Returns rows as CSV with a line of names. Values that are not objects have one column. */
export function csv(rows) {
  const names = columns(rows);
  const line = (cells) => cells.map(cell).join(",") + "\r\n";
  if (!names) return line(["value"]) + rows.map((row) => line([row])).join("");
  return line(names) + rows.map((row) => line(names.map((name) => isObject(row) && Object.hasOwn(row, name) ? row[name] : undefined))).join("");
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof BigNumber);

/** Returns the names of the members of rows in their order of appearance; null if no row is an object. */
export function columns(rows) {
  const names = new Set();
  for (const row of rows) if (isObject(row)) for (const name of Object.keys(row)) names.add(name);
  return names.size ? [...names] : null;
}

function cell(value) {
  if (value === undefined) return "";
  let text = typeof value === "string" ? value : stringify(value);
  // A spreadsheet would run a text that begins like this as a formula.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
