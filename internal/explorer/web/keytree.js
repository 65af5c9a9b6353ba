// The tree of the key levels of a container: the values of each with their items and sizes.

import { el } from "./dom.js";
import { absent, pathNames, queryPage } from "./api.js";
import { component, levelName } from "./keyfields.js";
import { bytes, count, units } from "./format.js";
import { CountTree } from "./counttree.js";

/** Returns the expression of a path in a query. */
export const expression = (path) => "c" + pathNames(path).map((name) => `[${JSON.stringify(name)}]`).join("");

export class KeyTree extends CountTree {
  constructor(context, choose) {
    super({ title: "Key levels", note: "Counts the items and sizes of each value. It reads the container, which is charged.", empty: "The container is empty." }, choose);
    this.context = context;
  }

  async values(key) {
    const { database, container, paths } = this.context, level = key.length, name = levelName(paths[level]), k = expression(paths[level]);
    const text = `SELECT ${k} AS k, COUNT(1) AS n, SUM(LENGTH(ToString(c))) AS b FROM c GROUP BY ${k}`;
    const rows = [];
    for (let continuation = ""; ;) {
      const page = await queryPage(database, container, { text, key, size: 1000, continuation });
      rows.push(...page.rows);
      this.spent += page.charge;
      continuation = page.continuation;
      if (!continuation) break;
    }
    this.note.textContent = `${name}: ${count(rows.length)} value${rows.length === 1 ? "" : "s"}. Counted for ${units(this.spent)}.`;
    rows.sort((a, b) => b.n - a.n);
    return this.nodes(level + 1, rows.map((row) => {
      const own = "k" in row ? row.k : absent, label = component(own);
      return {
        key: [...key, own], label, title: `${name} ${label}`, n: row.n, faint: own === absent, last: level + 1 === paths.length,
        counts: [count(row.n), el("span", { class: "hidden" }, " items"), " · ", bytes(row.b ?? 0)],
      };
    }), ", with fewer items");
  }
}
