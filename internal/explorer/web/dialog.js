// Dialogs and messages.

import { button, el, show, unique } from "./dom.js";

/**
 * Opens a dialog. build returns its content and gets close, which ends it with a result.
 * Returns a promise of the result; undefined if the user closes it.
 */
export function dialog(title, build, { wide } = {}) {
  return new Promise((resolve) => {
    const heading = unique("title");
    const node = el("dialog", { class: wide ? "wide" : "", "aria-labelledby": heading });
    let result;
    const close = (value) => {
      result = value;
      node.close();
    };
    node.append(
      el("header", {}, el("h2", { id: heading }, title), button("×", () => close(), { kind: "plain", "aria-label": "Close", title: "Close (Esc)" })),
      el("div", { class: "content" }, build(close, node)),
    );
    node.addEventListener("close", () => {
      node.remove();
      resolve(result);
    });
    document.body.append(node);
    node.showModal();
    node.querySelector("[autofocus]")?.focus();
  });
}

/**
 * Asks before something is done. typed is a text that the user has to type first.
 * Returns whether the user agreed.
 */
export async function confirm(title, text, { action = "OK", danger, typed } = {}) {
  const agreed = await dialog(title, (close) => {
    const go = button(action, () => close(true), { kind: danger ? "danger" : "primary", disabled: Boolean(typed), ...(typed ? {} : { autofocus: true }) });
    const input = typed && el("input", { autofocus: true, autocomplete: "off", spellcheck: "false", on: { input: () => { go.disabled = input.value !== typed; } } });
    return el("form", { on: { submit: (e) => { e.preventDefault(); if (!go.disabled) close(true); } } },
      el("p", {}, text),
      typed && el("label", { class: "field" }, el("span", {}, "Type ", el("strong", {}, typed), " to confirm"), input),
      el("div", { class: "actions" }, button("Cancel", () => close(false)), go));
  });
  return agreed === true;
}

const live = () => document.getElementById("messages");

/** Tells the user something for a few seconds; screen readers read it out. */
export function tell(text, kind = "good") {
  const note = el("div", { class: `note ${kind}`, role: kind === "bad" ? "alert" : "status" }, el("span", {}, text),
    button("×", () => note.remove(), { kind: "plain", "aria-label": "Dismiss" }));
  live().append(note);
  if (kind !== "bad") setTimeout(() => note.remove(), 5000);
  while (live().children.length > 4) live().firstChild.remove();
}

/** Tells the user about an error. An aborted request is none. */
export function fail(error) {
  if (error?.name === "AbortError") return;
  tell(error?.message ?? String(error), "bad");
  if (!error?.status && error?.name !== "Refusal") console.error(error);
}

/** Shows an error in place of what could not be shown, with a button to try again. */
export function failed(node, error, again) {
  if (error?.name === "AbortError") return;
  show(node, el("div", { class: "empty", role: "alert" }, el("p", {}, error?.message ?? String(error)), again && button("Try again", again)));
}

/** Runs an action with its button disabled, and tells its error. */
export const working = (action) => async (event) => {
  const node = event?.currentTarget;
  if (node) node.disabled = true;
  try {
    return await action(event);
  } catch (error) {
    fail(error);
  } finally {
    if (node) node.disabled = false;
  }
};
