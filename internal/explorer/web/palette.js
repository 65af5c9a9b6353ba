// Search with commands (Ctrl+K), and the list of shortcuts (?).

import { el, show } from "./dom.js";
import { caller } from "./api.js";
import { allContainers, allDatabases, isTable } from "./model.js";
import { address, containerPlace } from "./router.js";
import { dialog } from "./dialog.js";
import { accountParts, parts } from "./tree.js";
import { newContainer } from "./newcontainer.js";

/** Opens the search for places and commands. */
export async function palette() {
  const chosen = await dialog("Go to", (close) => {
    let all = [], found = [], at = 0;
    const list = el("ul", { class: "palette", role: "listbox", id: "palette-list", "aria-label": "Places and commands" });
    const input = el("input", {
      autofocus: true, role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Place or command", placeholder: "Container, screen or command", autocomplete: "off", spellcheck: "false",
      on: { input: () => { at = 0; draw(); }, keydown: (event) => {
        const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (move) at = (at + move + found.length) % Math.max(1, found.length);
        else if (event.key === "Enter") return found[at] && close(found[at]);
        else return;
        event.preventDefault();
        draw();
      } },
    });
    function draw() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      found = all.filter((entry) => words.every((w) => entry.title.toLowerCase().includes(w))).slice(0, 40);
      show(list, found.map((entry, i) => el("li", { role: "option", id: `palette-${i}`, "aria-selected": String(i === at), on: { click: () => close(entry) } }, entry.title)));
      if (found.length) input.setAttribute("aria-activedescendant", `palette-${at}`);
      list.children[at]?.scrollIntoView({ block: "nearest" });
    }
    entries().then((entries_) => {
      all = entries_;
      draw();
    }).catch(() => {});
    return [input, list];
  });
  if (chosen?.run) chosen.run();
  else if (chosen) location.hash = chosen.place;
}

async function entries() {
  const all = [];
  if (caller.writes && !caller.scope) all.push({ title: "New Container", run: () => newContainer() });
  for (const [name, title] of accountParts()) all.push({ title, place: address(name) });
  for (const { id } of await allDatabases()) {
    all.push({ title: id, place: address("db", id) });
    for (const c of await allContainers(id)) {
      for (const [part, title] of parts(isTable(c))) all.push({ title: `${id} / ${c.id} / ${title}`, place: address(...containerPlace(id, c.id, part)) });
    }
  }
  return all;
}

const keys = [
  ["Ctrl+K", "Search and commands"], ["Alt+N then C", "New container"], ["Alt+N then I", "Items"], ["Alt+N then Q, or Ctrl+J", "Query"],
  ["Alt+N then P, F or T", "New stored procedure, function or trigger"], ["Shift+Enter, F5 or Ctrl+Enter", "Run the query or procedure"], ["Escape", "Cancel the query; close a dialog"],
  ["Ctrl+S", "Save"], ["Ctrl+Space", "Completions"], ["Ctrl+/", "Make lines comments, and back"], ["Escape, then Tab", "Leave the editor"],
  ["Arrow keys, Home, End, letters", "Move in the tree"], ["Arrow keys, Enter, Space", "Move in a list, open and select"], ["?", "This list"],
];

/** Shows the keyboard shortcuts. */
export function shortcuts() {
  dialog("Keyboard shortcuts", () => el("dl", { class: "keys" }, keys.map(([key, does]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)])));
}
