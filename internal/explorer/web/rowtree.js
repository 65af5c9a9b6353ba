// The tree of the columns of a table's primary key: their values with the rows of each.

import { el } from "./dom.js";
import { literal, quoted, select as run } from "./cql.js";
import { count, plural, units } from "./format.js";
import { none } from "./tree.js";
import { CountTree } from "./counttree.js";

const countedMax = 5000; // groups of a count

export class RowTree extends CountTree {
  /** keys are the columns of the partition key; choose is called for whole ones, with values of clustering columns or without. */
  constructor({ table, keys, clustering }, choose) {
    const note = "Counts the rows of each partition key, and of each value of a clustering column. It reads the table, which is charged.";
    super({ title: "Key columns", note, empty: "The table is empty." }, (key) => { if (key.length >= keys.length) choose(key); });
    Object.assign(this, { table, keys, columns: [...keys, ...clustering], partitions: null });
  }

  async load() {
    this.partitions = null;
    await super.load();
  }

  async values(key) {
    const level = key.length + 1;
    if (level > this.keys.length) {
      const where = ` WHERE ${key.map((v, i) => `${quoted(this.columns[i].name)} = ${literal(v, this.columns[i].type)}`).join(" AND ")}`;
      const found = await this.counted(this.columns.slice(0, level), where);
      return this.below(key, found.groups.map((g) => ({ value: g.values.at(-1), n: g.n })), found.cut); // In the order of the table.
    }
    this.partitions ??= await this.counted(this.keys, "");
    const groups = new Map();
    for (const p of this.partitions.groups) {
      if (!key.every((v, i) => String(p.values[i]) === String(v))) continue;
      const value = p.values[level - 1], group = groups.get(String(value)) ?? { value, n: 0 };
      group.n += p.n;
      groups.set(String(value), group);
    }
    return this.below(key, [...groups.values()].sort((a, b) => b.n - a.n), this.partitions.cut && !key.length);
  }

  below(key, groups, cut) {
    const level = key.length + 1, column = this.columns[level - 1].name;
    const nodes = this.nodes(level, groups.map(({ value, n }) => ({
      key: [...key, value], label: String(value), title: `${column} ${value}`, n, last: level === this.columns.length,
      counts: [count(n), el("span", { class: "hidden" }, " rows")],
    })));
    if (cut) nodes.push(none(level, `Only the first ${count(countedMax)} ${level > this.keys.length ? "values" : "partition keys"} were counted.`));
    return nodes;
  }

  /** Counts the rows of each group of columns: {groups: [{values, n}], cut}; cut says that there are more. */
  async counted(columns, where) {
    const names = columns.map((c) => quoted(c.name)), groups = [];
    let cut = false;
    for (let continuation = ""; ;) {
      const page = await run(`SELECT ${names.map((name, i) => `${name} AS k${i}`).join(", ")}, COUNT(*) AS n FROM ${this.table}${where} GROUP BY ${names.join(", ")}`, { size: 1000, continuation });
      this.spent += page.charge;
      groups.push(...page.rows.map((r) => ({ values: names.map((_, i) => r[`k${i}`]), n: Number(r.n) })));
      continuation = page.continuation;
      cut = continuation !== "" && groups.length >= countedMax;
      if (!continuation || cut) break;
      this.note.textContent = `Counting: ${plural(groups.length, "value")}…`;
    }
    this.note.textContent = `Counted for ${units(this.spent)}.`;
    return { groups, cut };
  }
}
