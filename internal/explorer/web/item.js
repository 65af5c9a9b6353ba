// The editor of one item, with its etag: what others have changed is never overwritten
// without being asked.

import { button, el, show } from "./dom.js";
import { absent, caller, keyHeader, keyOf, pathNames, request } from "./api.js";
import { format, parse, stringify, withoutSystem } from "./json.js";
import { Editor } from "./editor.js";
import { confirm, dialog, fail, tell, working } from "./dialog.js";
import { moment, units, bytes } from "./format.js";

export class ItemEditor {
  constructor(context, events) {
    Object.assign(this, { context, events, row: null, original: "", etag: "" });
    this.editor = new Editor({ language: "json", label: "Item as JSON", readOnly: !caller.writes, change: () => this.buttons() });
    this.title = el("h2", {}, "Item");
    this.about = el("p", { class: "about" });
    this.wrong = el("p", { class: "error", role: "alert" });
    this.bar = el("div", { class: "actionbar" });
    this.body = el("div", { class: "itembody", hidden: true }, el("div", { class: "panehead" }, this.title, button("×", working(() => this.close()), { kind: "plain", "aria-label": "Close the item" })),
      this.about, this.editor.root, this.wrong, this.bar);
    this.hint = el("div", { class: "empty" }, "Choose an item to see it here.");
    this.root = el("section", { class: "pane detail", "aria-label": "Item" }, this.hint, this.body);
  }

  dirty() { return !this.body.hidden && this.editor.value !== this.original; }

  async mayLeave() {
    return !this.dirty() || confirm("Discard changes?", "The item has edits that were not saved.", { action: "Discard", danger: true });
  }

  headers(key) { return { "x-ms-documentdb-partitionkey": keyHeader(key) }; }

  /** Reads the item of a row again and shows it. */
  async open(row) {
    const key = keyOf(row.value, this.context.paths);
    this.display({ row, key, text: row.text });
    const answer = await request("GET", [...this.context.path, "docs", row.value.id], { headers: this.headers(key), accept: [404] });
    if (this.row !== row) return; // Another one was chosen meanwhile.
    if (answer.status === 404) {
      this.wrong.textContent = "The item was deleted since the list was read. Saving creates it again.";
      this.etag = "";
      return;
    }
    if (this.dirty()) return;
    this.display({ row, key, text: answer.text, charge: Number(answer.headers.get("x-ms-request-charge")) });
  }

  display({ row, key, text, charge }) {
    const value = parse(text);
    Object.assign(this, { row, key, created: false, etag: value._etag ?? "" });
    this.original = format(withoutSystem(text));
    this.editor.value = this.original;
    this.title.textContent = String(value.id);
    this.about.textContent = [value._ts && `changed ${moment(value._ts)}`, bytes(new TextEncoder().encode(text).length), charge !== undefined && `read for ${units(charge)}`].filter(Boolean).join(" · ");
    this.about.title = value._etag ? `etag ${value._etag}` : "";
    this.wrong.textContent = "";
    this.appear();
  }

  /** Begins a new item with a key or a prefix of one. */
  create(key) {
    const value = { id: "" };
    this.context.paths.forEach((path, i) => {
      const component = i < key.length ? key[i] : "";
      if (component === absent || path === "/id") return;
      const names = pathNames(path);
      let node = value;
      for (const name of names.slice(0, -1)) node = node[name] ??= {};
      node[names.at(-1)] = component;
    });
    this.begin(stringify(value, "  "));
    const at = this.editor.value.indexOf('"id": "') + 7;
    this.editor.area.setSelectionRange(at, at);
  }

  begin(text) {
    Object.assign(this, { row: null, key: null, created: true, etag: "" });
    this.editor.value = this.original = text;
    this.title.textContent = "New item";
    this.about.textContent = "";
    this.wrong.textContent = "";
    this.appear();
    this.editor.focus();
  }

  appear() {
    this.body.hidden = false;
    this.hint.hidden = true;
    this.buttons();
  }

  buttons() {
    const why = "This needs a key that may write.", writes = caller.writes, dirty = this.dirty();
    const policy = this.context.definition.changeFeedPolicy;
    show(this.bar,
      button("Save", working(() => this.save()), { kind: "primary", disabled: !writes || !(dirty || this.created) || Boolean(this.editor.error), why: !writes ? why : this.editor.error ? "The text is not JSON." : "Nothing has changed.", title: "Save (Ctrl+S)" }),
      button("Discard", () => { this.editor.value = this.original; this.buttons(); }, { disabled: !dirty, title: "Discard the edits" }),
      button("Duplicate", () => this.duplicate(), { disabled: this.created || !writes, why }),
      policy && button("History…", working(() => this.history()), { disabled: this.created }),
      el("span", { class: "space" }),
      button("Delete", working(() => this.remove()), { kind: "danger", disabled: this.created || !writes, why }));
  }

  duplicate() {
    const value = parse(this.editor.value);
    this.begin(stringify({ ...value, id: `${value.id}-copy` }, "  "));
    this.buttons();
  }

  async save() {
    if (!caller.writes || this.body.hidden || this.editor.error || !(this.dirty() || this.created)) return;
    this.wrong.textContent = "";
    try {
      await this.write(this.etag);
    } catch (error) {
      if (error.status === 412) return this.conflict();
      this.wrong.textContent = error.status === 409 ? `${error.message} The id is taken in this logical partition.` : error.message;
    }
  }

  async write(etag) {
    const text = this.editor.value, value = parse(text), key = keyOf(value, this.context.paths), headers = this.headers(key);
    const before = this.row, path = [...this.context.path, "docs"];
    let answer;
    if (this.created || !etag && !this.row) answer = await request("POST", path, { body: text, headers });
    else if (!etag) answer = await request("POST", path, { body: text, headers: { ...headers, "x-ms-documentdb-is-upsert": "True" } });
    else answer = await request("PUT", [...path, before.value.id], { body: text, headers: { ...this.headers(this.key), "if-match": etag } });
    const row = { value: parse(answer.text), text: answer.text };
    this.display({ row, key, text: answer.text });
    this.about.textContent += ` · written for ${units(Number(answer.headers.get("x-ms-request-charge")))}`;
    this.events.saved(row, before);
    tell(`Item ${row.value.id} saved.`);
  }

  /** Someone else has changed the item: shows both, and asks. */
  async conflict() {
    const answer = await request("GET", [...this.context.path, "docs", this.row.value.id], { headers: this.headers(this.key), accept: [404] });
    const gone = answer.status === 404, theirs = gone ? "" : format(withoutSystem(answer.text));
    const choice = await dialog("The item was changed by someone else", (close) => [
      el("p", {}, gone ? "It was deleted since you opened it." : "Its version on the server is not the one that you opened. Nothing was written."),
      el("div", { class: "compare" },
        el("div", {}, el("h3", {}, "On the server"), gone ? el("div", { class: "empty" }, "deleted") : lines(theirs, this.editor.value)),
        el("div", {}, el("h3", {}, "Yours"), lines(this.editor.value, theirs))),
      el("div", { class: "actions" }, button("Keep editing", () => close("edit")), !gone && button("Load theirs", () => close("theirs")),
        button(gone ? "Create it again" : "Overwrite theirs", () => close("mine"), { kind: "danger" })),
    ], { wide: true });
    if (choice === "theirs") {
      const row = { value: parse(answer.text), text: answer.text };
      const before = this.row;
      this.display({ row, key: this.key, text: answer.text });
      this.events.saved(row, before);
    } else if (choice === "mine") {
      try {
        await this.write(gone ? "" : parse(answer.text)._etag);
      } catch (error) {
        if (error.status === 412) return this.conflict();
        this.wrong.textContent = error.message;
      }
    }
  }

  async remove() {
    if (!(await confirm("Delete the item?", `${this.row.value.id} will be deleted for good.`, { action: "Delete", danger: true }))) return;
    const remove = (etag) => request("DELETE", [...this.context.path, "docs", this.row.value.id], { headers: { ...this.headers(this.key), ...(etag ? { "if-match": etag } : {}) }, accept: [404] });
    try {
      await remove(this.etag);
    } catch (error) {
      if (error.status !== 412) throw error;
      if (!(await confirm("The item was changed by someone else", "Delete it all the same?", { action: "Delete", danger: true }))) return;
      await remove("");
    }
    const { row } = this;
    this.hide();
    this.events.deleted(row);
    tell(`Item ${row.value.id} deleted.`);
  }

  /** Says that an item was deleted elsewhere on the screen. */
  gone(row) { if (row === this.row) this.hide(); }

  async close() {
    if (await this.mayLeave()) this.hide();
  }

  hide() {
    this.body.hidden = true;
    this.hint.hidden = false;
    this.row = null;
    this.events.closed();
  }

  async history() {
    const { itemHistory } = await import("./history.js");
    await itemHistory(this.context, this.row.value.id, this.key).catch(fail);
  }
}

/** Returns a text with the lines marked that the other one does not have. */
export function lines(text, other) {
  const known = new Set(other.split("\n").map((line) => line.trim().replace(/,$/, "")));
  return el("pre", { class: "lines", tabindex: "0" }, text.split("\n").map((line) => el("span", { class: known.has(line.trim().replace(/,$/, "")) ? "" : "differs" }, line + "\n")));
}

