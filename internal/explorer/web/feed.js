// The change feed of a container as it arrives, the newest change on top.

import { button, el, select, show } from "./dom.js";
import { keyHeader, keyOf, request } from "./api.js";
import { parseList, format, withoutSystem } from "./json.js";
import { KeyFields, component, levelName } from "./keyfields.js";
import { Grid, text } from "./grid.js";
import { Editor } from "./editor.js";
import { fail } from "./dialog.js";
import { moment, plural, units } from "./format.js";

const keptMax = 10_000; // changes on the screen

export function feed(context) {
  const { path, paths, definition } = context, complete = Boolean(definition.changeFeedPolicy);
  const fields = new KeyFields({ paths });
  const start = select([["now", "from now"], ["begin", "from the beginning"], ["time", "from a time"]], "begin", () => { at.hidden = start.value !== "time"; }, { "aria-label": "Start" });
  const at = el("input", { type: "datetime-local", step: "1", hidden: true, "aria-label": "Time" });
  const mode = select([["Incremental Feed", "latest versions"], ...(complete ? [["Full-Fidelity Feed", "all versions and deletes"]] : [])], "Incremental Feed", () => {
    if (mode.value !== "Incremental Feed") start.value = "now"; // The only start that this mode has.
    start.disabled = mode.value !== "Incremental Feed";
    at.hidden = start.value !== "time";
  }, { "aria-label": "Mode", title: complete ? "" : "All versions need a container that keeps them: see its settings." });
  const go = button("Start", () => running ? stop() : begin(), { kind: "primary" });
  const note = el("span", { class: "result", role: "status" });
  const view = new Editor({ language: "json", label: "Change", readOnly: true });
  let running = null, rows = [], etag = "", charge = 0;
  const body = (r) => r.value.metadata ? (Object.keys(r.value.current ?? {}).length ? r.value.current : r.value.previous ?? { id: r.value.metadata.id }) : r.value;
  const grid = new Grid({
    label: "Changes", empty: "Start shows the changes, and then each new one as it happens.",
    columns: [
      { title: "changed", width: "160px", value: (r) => r.value.metadata?.crts ?? r.value._ts, cell: (r) => moment(r.value.metadata?.crts ?? r.value._ts) },
      { title: "LSN", width: "80px", numeric: true, value: (r) => r.value.metadata?.lsn ?? r.value._lsn },
      { title: "kind", width: "90px", value: (r) => r.value.metadata?.operationType ?? "latest" },
      { title: "id", width: "minmax(110px, 1fr)", value: (r) => body(r).id },
      ...paths.filter((p) => p !== "/id").map((p) => ({ title: levelName(p), width: "minmax(80px, 1fr)", value: (r) => keyOf(body(r), [p])[0], cell: (r) => { const v = keyOf(body(r), [p])[0]; return typeof v === "symbol" ? { text: component(v), kind: "faint" } : text(v); } })),
    ],
    open(row) {
      grid.mark(row);
      view.value = format(row.value.metadata ? row.text : withoutSystem(row.text));
    },
  });

  function begin() {
    let key;
    try {
      key = fields.key();
    } catch (error) {
      return fail(error);
    }
    rows = [];
    charge = 0;
    grid.setRows(rows);
    view.value = "";
    etag = mode.value !== "Incremental Feed" || start.value === "now" ? "*" : "";
    const since = start.value === "time" && at.value ? new Date(at.value).toUTCString() : "";
    go.textContent = "Stop";
    running = new AbortController();
    follow(running, key, since).catch((error) => {
      if (error.name !== "AbortError") fail(error);
      stop();
    });
  }

  function stop() {
    running?.abort();
    running = null;
    go.textContent = "Start";
    note.textContent = `Stopped. ${summary()}`;
  }

  const summary = () => `${plural(rows.length, "change")} · ${units(charge)}`;

  async function follow(mine, key, since) {
    while (running === mine) {
      const headers = { "a-im": mode.value, "x-ms-max-item-count": "200" };
      if (etag) headers["if-none-match"] = etag;
      else if (since) headers["if-modified-since"] = since;
      if (key.length) headers["x-ms-documentdb-partitionkey"] = keyHeader(key);
      const answer = await request("GET", [...path, "docs"], { headers, signal: mine.signal });
      etag = answer.headers.get("etag") ?? etag;
      charge += Number(answer.headers.get("x-ms-request-charge"));
      if (answer.status === 200) {
        const { list, texts } = parseList(answer.text);
        rows = list.Documents.map((value, i) => ({ value, text: texts[i] })).reverse().concat(rows).slice(0, keptMax);
        grid.setRows(rows, true);
      }
      note.textContent = `${answer.status === 304 ? "Waiting for changes. " : ""}${summary()}`;
      if (answer.status === 304) await new Promise((resume) => setTimeout(resume, 1000));
    }
  }

  const root = el("div", { class: "feed" },
    el("div", { class: "query-line" }, fields.root, mode, start, at, el("div", { class: "go" }, go, button("Clear", () => { rows = []; grid.setRows(rows); view.value = ""; }))), note,
    el("div", { class: "panes two" }, el("section", { class: "pane list", "aria-label": "Changes" }, grid.root), el("section", { class: "pane", "aria-label": "Change" }, view.root)));
  show(note, "");
  return { root, run: () => running ? stop() : begin(), hidden: () => { if (running) stop(); } };
}
