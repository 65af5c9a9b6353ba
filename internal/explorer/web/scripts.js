// Stored procedures, triggers and user-defined functions: a list, an editor, and for
// procedures a run with its log.

import { button, el, field, select, show } from "./dom.js";
import { caller, keyHeader, list, request } from "./api.js";
import { parse, stringify, format } from "./json.js";
import { Editor } from "./editor.js";
import { KeyFields } from "./keyfields.js";
import { confirm, fail, failed, tell, working } from "./dialog.js";
import { units, millis } from "./format.js";

const kinds = {
  procedures: { type: "sprocs", member: "StoredProcedures", one: "stored procedure", body: `function procedure(name) {
  var container = getContext().getCollection();
  var accepted = container.queryDocuments(container.getSelfLink(), "SELECT VALUE COUNT(1) FROM c", function (error, rows) {
    if (error) throw error;
    console.log("hello " + name);
    getContext().getResponse().setBody({ items: rows[0] });
  });
  if (!accepted) throw new Error("The query was not accepted.");
}` },
  triggers: { type: "triggers", member: "Triggers", one: "trigger", body: `function trigger() {
  var request = getContext().getRequest();
  var item = request.getBody();
  item.checkedAt = new Date().toISOString();
  request.setBody(item);
}` },
  functions: { type: "udfs", member: "UserDefinedFunctions", one: "user-defined function", body: `function upper(text) {
  return text.toUpperCase();
}` },
};

export const procedures = (context, id) => scripts(context, "procedures", id);
export const triggers = (context, id) => scripts(context, "triggers", id);
export const functions = (context, id) => scripts(context, "functions", id);

function scripts({ path, paths }, kind, begin) {
  const { type, member, one, body: example } = kinds[kind], why = "This needs a key that may write.";
  let all = [], current = null, original = "";
  const listed = el("ul", { class: "scriptlist", "aria-label": member });
  const editor = new Editor({ language: "js", label: `Body of the ${one}`, readOnly: !caller.writes, change: () => buttons() });
  const id = el("input", { "aria-label": "Id", spellcheck: "false", autocomplete: "off", on: { input: () => buttons() } });
  const when = select([["Pre", "before a write"], ["Post", "after a write"]], "Pre", () => buttons()), operation = select(["All", "Create", "Replace", "Delete", "Update"].map((o) => [o, o]), "All", () => buttons());
  const bar = el("div", { class: "actionbar" }), wrong = el("p", { class: "error", role: "alert" });
  const fields = kind === "procedures" ? new KeyFields({ paths, whole: true }) : null;
  const args = new Editor({ language: "json", label: "Arguments as a JSON array", value: '["world"]' });
  const output = el("div", { class: "output", role: "status" });
  const detail = el("section", { class: "pane detail", hidden: true },
    el("div", { class: "line" }, field("Id", id), kind === "triggers" && [field("Runs", when), field("Operation", operation)]), editor.root, wrong, bar,
    fields && el("details", { class: "run", open: true }, el("summary", {}, "Run"), fields.root, el("div", { class: "argbox" }, args.root), el("div", { class: "actions start" }, button("Run", working(run), { kind: "primary", disabled: !caller.writes, why, title: "Run the saved procedure (Shift+Enter)" })), output));
  const hint = el("div", { class: "empty" }, `Choose a ${one}, or create one.`);

  const shape = () => stringify([editor.value, when.value, operation.value]);
  const dirty = () => !detail.hidden && caller.writes && shape() !== original;

  function buttons() {
    show(bar, button("Save", working(save), { kind: "primary", disabled: !caller.writes || !(dirty() || !current), why: caller.writes ? "Nothing has changed." : why, title: "Save (Ctrl+S)" }),
      button("Discard", () => open(current), { disabled: !current || !dirty() }), el("span", { class: "space" }), button("Delete", working(remove), { kind: "danger", disabled: !current || !caller.writes, why }));
  }

  async function load(chosen) {
    try {
      all = await list([...path, type], member);
      draw();
      if (chosen) open(all.find((s) => s.id === chosen) ?? null);
    } catch (error) {
      failed(listed, error, () => load());
    }
  }

  function draw() {
    show(listed, all.length ? all.map((s) => el("li", {}, el("button", { type: "button", class: "scriptname", "aria-current": s === current ? "true" : null, on: { click: () => leave().then((go) => go && open(s)) } }, s.id, kind === "triggers" && el("small", {}, ` ${s.triggerType}, ${s.triggerOperation}`)))) : el("li", { class: "hint" }, `No ${one} yet.`));
  }

  const leave = async () => !dirty() || confirm("Discard changes?", `The ${one} has edits that were not saved.`, { action: "Discard", danger: true });

  function open(script, text = script?.body ?? example) {
    current = script;
    id.value = script?.id ?? "";
    id.disabled = Boolean(script);
    when.value = script?.triggerType ?? "Pre";
    operation.value = script?.triggerOperation ?? "All";
    editor.value = text;
    original = shape();
    wrong.textContent = "";
    show(output);
    detail.hidden = false;
    hint.hidden = true;
    draw();
    buttons();
    if (!script) id.focus();
  }

  async function save() {
    if (!caller.writes || detail.hidden) return;
    wrong.textContent = "";
    const body = { id: id.value, body: editor.value, ...(kind === "triggers" ? { triggerType: when.value, triggerOperation: operation.value } : {}) };
    try {
      if (current) await request("PUT", [...path, type, current.id], { body: stringify(body), headers: { "if-match": current._etag } });
      else await request("POST", [...path, type], { body: stringify(body) });
    } catch (error) {
      wrong.textContent = error.status === 412 ? "Someone else has changed it since you opened it. Copy your text, and open it again." : error.message;
      return;
    }
    tell(`The ${one} ${body.id} is saved.`);
    await load(body.id);
  }

  async function remove() {
    if (!(await confirm(`Delete ${current.id}?`, `The ${one} is deleted for good.`, { action: "Delete", danger: true }))) return;
    await request("DELETE", [...path, type, current.id]);
    detail.hidden = true;
    hint.hidden = false;
    current = null;
    await load();
  }

  async function run() {
    if (!current) throw new Error("Save the procedure first.");
    if (dirty()) throw new Error("The text has edits that are not saved. The saved procedure would run: save it first.");
    const key = fields.key(), list_ = parse(args.value || "[]");
    if (!Array.isArray(list_)) throw new Error("The arguments are a JSON array.");
    let answer;
    try {
      answer = await request("POST", [...path, type, current.id], { body: stringify(list_), headers: { "x-ms-documentdb-partitionkey": keyHeader(key), "x-ms-documentdb-script-enable-logging": "true" } });
    } catch (error) {
      show(output, el("p", { class: "error" }, error.message), log(error.answer));
      return;
    }
    let text = answer.text;
    try {
      text = format(text);
    } catch { /* The result is not JSON: it is shown as it is. */ }
    show(output, el("p", { class: "hint" }, `${units(Number(answer.headers.get("x-ms-request-charge")))} · ${millis(answer.millis)} · partition ${answer.headers.get("x-decan-partitions")}`), el("h3", {}, "Result"), el("pre", { class: "lines", tabindex: "0" }, text || "(nothing)"), log(answer));
  }

  function log(answer) {
    const text = decodeURIComponent(answer?.headers.get("x-ms-documentdb-script-log-results") ?? "");
    return text && [el("h3", {}, "console.log"), el("pre", { class: "lines", tabindex: "0" }, text)];
  }

  load();
  const root = el("div", { class: "scripts" }, el("div", { class: "scriptpanes" }, el("section", { class: "pane" }, el("div", { class: "actionbar" }, button("New", () => leave().then((go) => go && open(null)), { kind: "primary", disabled: !caller.writes, why, title: `New ${one}` })), listed), el("div", { class: "pane" }, hint, detail)));
  if (begin === "new" && caller.writes) setTimeout(() => open(null));
  return { root, dirty, save: () => save().catch(fail), run: fields ? () => run().catch(fail) : undefined };
}
