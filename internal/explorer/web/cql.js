// What the page knows of CQL: statements that read tables, which the administration runs.

import { admin } from "./api.js";

/** Returns a name as CQL text has it. */
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

/** Returns a text as a constant of CQL. */
export const constant = (text) => `'${text.replaceAll("'", "''")}'`;

/**
 * Runs a page of a statement. Returns {rows, texts, continuation, charge, partitions,
 * millis, warnings}; the rows of SELECT are objects by column.
 */
export async function select(query, { size = 100, continuation = "", signal } = {}) {
  const began = performance.now();
  const answer = await admin("POST", ["cql"], { body: { query: query.replace(/^\s*select\s+(?!json\s)/i, "SELECT JSON "), pageSize: size, continuation }, signal });
  return {
    rows: answer.rows.map(unquoted), continuation: answer.continuation ?? "", charge: answer.requestCharge, warnings: answer.warnings ?? [],
    partitions: answer.partitions.split(",").filter(Boolean), millis: performance.now() - began,
  };
}

/** SELECT JSON quotes names that are not in lower case: returns the row with the names themselves. */
const unquoted = (row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [/^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name, value]));

const inQuotes = new Set(["ascii", "text", "varchar", "inet", "date", "time", "timestamp"]);

/** Returns what a user has typed for a column as a constant of its type. */
export function typed(text, type) {
  text = text.trim();
  if (inQuotes.has(type.replace(/^frozen<(.*)>$/, "$1"))) return constant(text);
  if (!text) throw new Error(`A value of the type ${type} is not empty.`);
  return text;
}

/** Returns a value of JSON, as SELECT JSON has it, as a constant of a type. */
export const literal = (value, type) => typed(typeof value === "object" && value !== null && !("text" in value) ? JSON.stringify(value) : String(value), type);

/**
 * Returns the columns of a table in their order: {name, type, kind, position, order}.
 * kind is partition_key, clustering, static or regular; order is ASC or DESC.
 */
export async function columnsOf(keyspace, table) {
  const text = `SELECT column_name, type, kind, position, clustering_order FROM system_schema.columns WHERE keyspace_name = ${constant(keyspace)} AND table_name = ${constant(table)}`;
  const all = [];
  for (let continuation = ""; ;) {
    const page = await select(text, { size: 1000, continuation });
    all.push(...page.rows.map((r) => ({ name: r.column_name, type: r.type, kind: r.kind, position: Number(r.position), order: String(r.clustering_order).toUpperCase() })));
    continuation = page.continuation;
    if (!continuation) break;
  }
  const rank = { partition_key: 0, clustering: 1, static: 2, regular: 3 };
  return all.sort((a, b) => rank[a.kind] - rank[b.kind] || a.position - b.position || (a.name < b.name ? -1 : 1));
}
