// The screen of a container's items: key fields and a filter, the tree of key levels, the
// list, and the editor of one item.

import { button, download, el, select, show } from "./dom.js";
import { caller, keyOf, queryPage, request, keyHeader } from "./api.js";
import { KeyFields, component, levelName } from "./keyfields.js";
import { KeyTree } from "./keytree.js";
import { Grid, text } from "./grid.js";
import { ItemEditor } from "./item.js";
import { confirm, fail, tell, working } from "./dialog.js";
import { millis, moment, plural, units } from "./format.js";
import { csv } from "./export.js";

const whyNot = "This needs a key that may write.";

export function items(context) {
  const { database, container, paths } = context;
  let page = null, rows = [], spent = 0, running = null;
  const fields = new KeyFields({ paths });
  const where = el("input", { class: "mono", "aria-label": "Filter", placeholder: "such as c.total > 10", autocomplete: "off", spellcheck: "false", list: "filters-" + container });
  const history = el("datalist", { id: where.getAttribute("list") });
  const filters = [];
  const size = select([["25", "25 a page"], ["100", "100 a page"], ["1000", "1,000 a page"]], "100", null, { "aria-label": "Items of a page" });
  const note = el("span", { class: "result", role: "status" });
  const more = button("Load more", () => load(true).catch(fail));

  const grid = new Grid({
    label: `Items of ${container}`, selectable: caller.writes, empty: "No items.", selected: () => actions(),
    columns: [
      { title: "id", width: "minmax(88px, 1.2fr)", value: (r) => r.value.id },
      ...paths.filter((path) => path !== "/id").map((path) => ({
        title: levelName(path), hint: path, width: "minmax(76px, 1fr)", value: (r) => keyOf(r.value, [path])[0],
        cell: (r) => { const v = keyOf(r.value, [path])[0]; return typeof v === "symbol" ? { text: component(v), kind: "faint" } : text(v); },
      })),
      { title: "changed", hint: "_ts, the time of the latest change", width: "152px", value: (r) => r.value._ts, cell: (r) => moment(r.value._ts) },
    ],
    open: (row) => show_(row),
  });

  const editor = new ItemEditor(context, {
    saved(row, before) {
      const at = rows.indexOf(before);
      if (at >= 0) rows[at] = row;
      else rows.unshift(row);
      grid.setRows(rows, true);
      grid.mark(row);
    },
    deleted(row) {
      rows = rows.filter((r) => r !== row);
      grid.setRows(rows, true);
      grid.mark(null);
    },
    closed() {
      grid.mark(null);
      panes.classList.remove("editing");
    },
  });

  const tree = new KeyTree(context, (key) => {
    fields.set(key);
    apply().catch(fail);
  });

  const bar = el("div", { class: "actionbar" });
  function actions() {
    const n = grid.chosen.size;
    show(bar,
      button("New Item", () => create(), { kind: "primary", disabled: !caller.writes, why: whyNot, title: "New item (Alt+N then I)" }),
      button("Upload…", () => upload(), { disabled: !caller.writes, why: whyNot, title: "Write the items of a JSON file" }),
      button(n ? `Delete ${n}` : "Delete", working(removeChosen), { disabled: !n, why: caller.writes ? "Select items first." : whyNot }),
      select([["", "Export…"], ["json", "JSON"], ["jsonl", "JSON lines"], ["csv", "CSV"]], "", (form) => {
        const chosen = grid.chosen.size ? rows.filter((r) => grid.chosen.has(r)) : rows;
        save(form, chosen);
        bar.querySelector("select").value = "";
      }, { "aria-label": grid.chosen.size ? "Export the selected items" : "Export the loaded items" }));
  }

  const panes = el("div", { class: "panes" }, tree.root,
    el("section", { class: "pane list", "aria-label": "Items" }, bar, grid.root, el("div", { class: "listfoot" }, note, size, more)),
    editor.root);

  const form = el("form", { class: "query-line", on: { submit: (event) => { event.preventDefault(); apply().catch(fail); } } },
    fields.root, el("label", { class: "where" }, el("span", { class: "mono" }, "WHERE"), where), history,
    el("div", { class: "go" }, button("Apply", () => apply().catch(fail), { kind: "primary" }), button("Clear", () => {
      fields.set([]);
      where.value = "";
      apply().catch(fail);
    })));
  const wrong = el("p", { class: "error", role: "alert" });

  async function apply() {
    wrong.textContent = "";
    try {
      page = { key: fields.key(), filter: where.value.trim().replace(/^where\s+/i, ""), continuation: "" };
    } catch (error) {
      wrong.textContent = error.message;
      return;
    }
    if (page.filter && filters[0] !== page.filter) {
      filters.unshift(page.filter);
      show(history, [...new Set(filters)].slice(0, 20).map((f) => el("option", { value: f })));
    }
    spent = 0;
    await load(false);
  }

  async function load(append) {
    running?.abort();
    const mine = running = new AbortController();
    note.textContent = "Reading…";
    more.disabled = true;
    try {
      const query = `SELECT * FROM c${page.filter ? ` WHERE ${page.filter}` : ""}`;
      const answer = await queryPage(database, container, { text: query, key: page.key, size: Number(size.value), continuation: append ? page.continuation : "", signal: mine.signal });
      const found = answer.rows.map((value, i) => ({ value, text: answer.texts[i] }));
      rows = append ? rows.concat(found) : found;
      spent += answer.charge;
      page.continuation = answer.continuation;
      grid.setRows(rows, append);
      actions();
      const asked = answer.partitions.length;
      note.textContent = `${plural(rows.length, "item")}${page.continuation ? ", more available" : ""} · ${units(spent)} · ${millis(answer.millis)} · ${plural(asked, "partition")} asked`;
    } catch (error) {
      if (error.name === "AbortError") return;
      note.textContent = "";
      wrong.textContent = error.message;
      if (!append) grid.setRows(rows = []);
    } finally {
      if (running === mine) more.disabled = !page?.continuation;
    }
  }

  async function show_(row) {
    if (!(await editor.mayLeave())) return;
    grid.mark(row);
    panes.classList.add("editing");
    await editor.open(row).catch(fail);
  }

  async function create() {
    if (!(await editor.mayLeave())) return;
    let key = [];
    try {
      key = fields.key();
    } catch { /* The fields are not a key: the item begins without one. */ }
    grid.mark(null);
    panes.classList.add("editing");
    editor.create(key);
  }

  async function removeChosen() {
    const chosen = rows.filter((r) => grid.chosen.has(r));
    if (!(await confirm("Delete items?", `${plural(chosen.length, "item")} will be deleted for good.`, { action: "Delete", danger: true }))) return;
    const failed = [];
    let next = 0;
    const worker = async () => {
      for (let row; (row = chosen[next++]);) {
        try {
          await request("DELETE", [...context.path, "docs", row.value.id], { headers: { "x-ms-documentdb-partitionkey": keyHeader(keyOf(row.value, paths)) }, accept: [404] });
          rows = rows.filter((r) => r !== row);
          editor.gone(row);
        } catch (error) {
          failed.push(`${row.value.id}: ${error.message}`);
        }
      }
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
    grid.setRows(rows);
    actions();
    if (failed.length) tell(`${plural(failed.length, "item")} not deleted. ${failed.slice(0, 3).join(" ")}`, "bad");
    else tell(`${plural(chosen.length, "item")} deleted.`);
  }

  function save(form, chosen) {
    if (form === "json") download(`${container}.json`, "application/json", `[\n${chosen.map((r) => r.text).join(",\n")}\n]\n`);
    if (form === "jsonl") download(`${container}.jsonl`, "application/jsonl", chosen.map((r) => r.text + "\n").join(""));
    if (form === "csv") download(`${container}.csv`, "text/csv", csv(chosen.map((r) => r.value)));
  }

  async function upload() {
    const { uploadItems } = await import("./upload.js");
    if (await uploadItems(context)) await apply();
  }

  const root = el("div", { class: "items" }, form, wrong, panes);
  actions();
  more.disabled = true;
  let begun = false;
  return {
    root,
    shown() {
      if (begun) return;
      begun = true;
      apply().catch(fail);
    },
    dirty: () => editor.dirty(),
    save: () => editor.save(),
    run: () => apply().catch(fail),
  };
}

