// A text editor: a transparent textarea over the same text in colours. The browser's own
// selection, undo, spelling of input methods and screen readers work as in any textarea.

import { el, show, unique } from "./dom.js";
import { tokenize } from "./tokens.js";
import { parse } from "./json.js";
import { Completion } from "./completion.js";

// Longer texts have no colours: building their elements would delay typing.
const colouredMax = 200_000;

/**
 * An editor. options: language (json, sql, js), label for screen readers, value, readOnly,
 * change (called after each change), complete (text, caret) => {from, items} or null.
 */
export class Editor {
  constructor({ language, label, value = "", readOnly = false, change, complete }) {
    Object.assign(this, { language, change, marks: [] });
    this.fault = el("div", { class: "fault", id: unique("fault"), "aria-live": "polite" });
    this.area = el("textarea", {
      "aria-label": `${label}. Tab indents; press Escape and then Tab to leave.`, "aria-describedby": this.fault.id,
      spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off", readonly: readOnly,
    });
    this.colours = el("pre", { "aria-hidden": "true" });
    this.gutter = el("div", { class: "gutter", "aria-hidden": "true" });
    this.scroller = el("div", { class: "scroller" }, this.gutter, el("div", { class: "code" }, this.colours, this.area));
    this.root = el("div", { class: `editor ${readOnly ? "fixed" : ""}` }, this.scroller, this.fault);
    if (complete) this.completion = new Completion(this, complete);
    this.area.addEventListener("input", () => this.edited());
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.leaving = false;
    this.value = value;
  }

  get value() { return this.area.value; }

  set value(text) {
    this.area.value = text;
    this.area.setSelectionRange(0, 0);
    this.marks = [];
    this.check();
    this.draw();
  }

  focus() { this.area.focus(); }

  edited() {
    this.marks = [];
    this.check();
    this.draw();
    this.change?.();
  }

  /** Marks an error of JSON while it is typed. */
  check() {
    this.error = null;
    if (this.language === "json" && this.area.value.trim() && !this.area.readOnly) {
      try {
        parse(this.area.value);
      } catch (error) {
        if (error.at === undefined) throw error;
        this.error = error;
        this.marks = [{ start: error.at, end: error.end, message: error.message }];
      }
    }
    this.tell();
  }

  /** Marks errors at their places: {start, end, message} with offsets, end exclusive. */
  mark(marks) {
    this.marks = marks;
    this.tell();
    this.draw();
  }

  tell() {
    const text = this.area.value;
    this.area.setAttribute("aria-invalid", String(this.marks.length > 0));
    show(this.fault, this.marks.slice(0, 3).map((m) => {
      const before = text.slice(0, m.start), line = before.split("\n").length, column = m.start - before.lastIndexOf("\n");
      return el("button", { type: "button", class: "place", on: { click: () => this.select(m.start, m.end) } },
        el("span", { class: "where" }, `Line ${line}, column ${column}`), ` ${m.message}`);
    }));
  }

  select(start, end) {
    this.area.focus();
    this.area.setSelectionRange(start, Math.max(end, start));
    const line = this.area.value.slice(0, start).split("\n").length - 1;
    this.scroller.scrollTop = Math.max(0, line * this.lineHeight() - this.scroller.clientHeight / 2);
  }

  lineHeight() { return parseFloat(getComputedStyle(this.area).lineHeight); }

  draw() {
    const text = this.area.value;
    const lines = text.split("\n").length;
    if (this.lines !== lines) {
      this.lines = lines;
      this.gutter.textContent = Array.from({ length: lines }, (_, i) => i + 1).join("\n");
    }
    const parts = [];
    const put = (begin, end, kind) => {
      if (begin >= end) return;
      const mark = this.marks.find((m) => m.start < end && Math.max(m.end, m.start + 1) > begin);
      if (!mark) {
        parts.push(kind ? el("span", { class: kind }, text.slice(begin, end)) : text.slice(begin, end));
        return;
      }
      const from = Math.max(begin, mark.start), to = Math.min(end, Math.max(mark.end, mark.start + 1));
      put(begin, from, kind);
      parts.push(el("span", { class: `${kind} mark` }, text.slice(from, to)));
      put(to, end, kind);
    };
    let at = 0;
    if (text.length <= colouredMax) {
      tokenize(text, this.language, (begin, end, kind) => {
        put(at, begin, "");
        put(begin, end, kind);
        at = end;
      });
    }
    put(at, text.length, "");
    const last = this.marks.at(-1);
    if (last && last.start >= text.length) parts.push(el("span", { class: "mark" }, " "));
    show(this.colours, parts, "\n");
  }

  insert(text, back = 0) {
    // The command keeps the browser's list of changes to undo.
    document.execCommand("insertText", false, text);
    if (back) this.area.setSelectionRange(this.area.selectionStart - back, this.area.selectionStart - back);
  }

  key(event) {
    if (this.completion?.key(event)) return;
    const { area } = this, { selectionStart: start, selectionEnd: end, value } = area;
    if (event.key === "Escape") {
      this.leaving = true; // The next Tab leaves the editor.
      return;
    }
    const leaving = this.leaving;
    if (event.key !== "Shift") this.leaving = false;
    if (area.readOnly || event.altKey) return;
    const control = event.ctrlKey || event.metaKey;
    if (event.key === "Tab" && !control && !leaving) {
      event.preventDefault();
      if (start === end && !event.shiftKey) this.insert("  ");
      else this.lined((line) => event.shiftKey ? line.replace(/^ {1,2}/, "") : "  " + line);
    } else if (event.key === "Enter" && !control && !event.shiftKey) {
      event.preventDefault();
      const line = value.slice(value.lastIndexOf("\n", start - 1) + 1, start);
      const indent = /^ */.exec(line)[0], opens = /[{[(]\s*$/.test(line), closes = /^\s*[}\])]/.test(value.slice(end));
      if (opens && closes) this.insert(`\n${indent}  \n${indent}`, indent.length + 1);
      else this.insert("\n" + indent + (opens ? "  " : ""));
    } else if (event.key === "/" && control && this.language !== "json") {
      event.preventDefault();
      const comment = this.language === "sql" ? "-- " : "// ";
      const all = this.selected().text.split("\n").every((line) => !line.trim() || line.trimStart().startsWith(comment.trim()));
      this.lined((line) => all ? line.replace(new RegExp(`^(\\s*)${comment.trim()} ?`), "$1") : line.trim() ? comment + line : line);
    }
  }

  selected() {
    const { selectionStart: start, selectionEnd: end, value } = this.area;
    const from = value.lastIndexOf("\n", start - 1) + 1;
    let to = value.indexOf("\n", Math.max(from, end - (end > start && value[end - 1] === "\n" ? 1 : 0)));
    if (to < 0) to = value.length;
    return { from, to, text: value.slice(from, to) };
  }

  /** Changes each line of the selection. */
  lined(change) {
    const { from, to, text } = this.selected();
    const changed = text.split("\n").map(change).join("\n");
    this.area.setSelectionRange(from, to);
    this.insert(changed);
    this.area.setSelectionRange(from, from + changed.length);
  }

  /** Returns where the caret is, in pixels of the scrolled content. */
  caret(at = this.area.selectionStart) {
    const before = this.area.value.slice(0, at), line = before.split("\n").length - 1;
    this.width ??= this.measure();
    return { left: (at - before.lastIndexOf("\n") - 1) * this.width, top: line * this.lineHeight() };
  }

  measure() {
    const probe = el("span", {}, "m".repeat(50));
    this.colours.append(probe);
    const width = probe.getBoundingClientRect().width / 50;
    probe.remove();
    return width;
  }
}
