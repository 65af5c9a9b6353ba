// The list of completions below the caret of an editor.

import { el, show, unique } from "./dom.js";

const shownMax = 50;

/** complete(text, caret, asked) returns {from, items: [{text, kind, insert}]} or null. */
export class Completion {
  constructor(editor, complete) {
    Object.assign(this, { editor, complete, items: [], at: 0 });
    this.list = el("ul", { class: "completion", role: "listbox", id: unique("completion"), "aria-label": "Completions", hidden: true });
    editor.root.append(this.list);
    const { area } = editor;
    area.setAttribute("aria-autocomplete", "list");
    area.setAttribute("aria-controls", this.list.id);
    area.addEventListener("input", (event) => {
      if (!event.inputType || event.inputType.startsWith("insert") || this.items.length) this.open(false);
    });
    area.addEventListener("blur", () => this.close());
    area.addEventListener("click", () => this.close());
  }

  open(asked) {
    const { area } = this.editor;
    const found = area.selectionStart === area.selectionEnd ? this.complete(area.value, area.selectionStart, asked) : null;
    if (!found?.items.length) return this.close();
    Object.assign(this, { from: found.from, items: found.items.slice(0, shownMax), at: 0 });
    this.list.hidden = false;
    const place = this.editor.caret(found.from), { scroller, root } = this.editor;
    const left = place.left + this.editor.colours.offsetLeft + this.editor.gutter.offsetWidth + 12 - scroller.scrollLeft;
    this.list.style.left = `${Math.max(0, Math.min(left, root.clientWidth - 280))}px`;
    this.list.style.top = `${place.top + this.editor.lineHeight() + 10 - scroller.scrollTop}px`;
    this.draw();
  }

  draw() {
    show(this.list, this.items.map((item, i) => el("li", {
      role: "option", id: `${this.list.id}-${i}`, "aria-selected": String(i === this.at),
      on: { mousedown: (event) => { event.preventDefault(); this.at = i; this.take(); } },
    }, el("span", {}, item.text), el("small", {}, item.kind))));
    const chosen = this.list.children[this.at];
    this.editor.area.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.items = [];
    this.list.hidden = true;
    this.editor.area.removeAttribute("aria-activedescendant");
  }

  take() {
    const item = this.items[this.at], { area } = this.editor;
    area.setSelectionRange(this.from, area.selectionStart);
    this.close();
    this.taking = true;
    this.editor.insert(item.insert ?? item.text, item.back ?? 0);
    this.close();
  }

  /** Handles a key, and returns whether it was one for the list. */
  key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.open(true);
      return true;
    }
    if (!this.items.length) return false;
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (move) {
      this.at = (this.at + move + this.items.length) % this.items.length;
      this.draw();
    } else if ((event.key === "Enter" || event.key === "Tab") && !event.ctrlKey && !event.shiftKey) this.take();
    else if (event.key === "Escape") this.close();
    else {
      if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) this.close();
      return false;
    }
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
}
