// Where the page begins: sign-in, the frame around the screens, and the way from an
// address to its screen.

import { button, el, show } from "./dom.js";
import { caller, events, readCredential, requests, server, signIn, signOut, wellKnownKey } from "./api.js";
import { address, go, place } from "./router.js";
import { confirm, dialog, fail } from "./dialog.js";
import { changed } from "./model.js";
import { Tree } from "./tree.js";
import { millis, units, clock } from "./format.js";
import { screenOf, titleOf } from "./screens.js";
import { newContainer } from "./newcontainer.js";
import { palette, shortcuts } from "./palette.js";

const get = (id) => document.getElementById(id);

// --- sign-in

async function begin() {
  try {
    Object.assign(server, await (await fetch("config.json", { cache: "no-store" })).json());
  } catch {
    get("signin-error").textContent = "The server does not answer.";
    return;
  }
  get("signin-about").textContent = `${location.origin}, account ${server.account}, version ${server.version}`;
  if (server.bearerOnly) get("signin-key").labels[0].textContent = "Bearer token";
  get("signin-known").hidden = !server.wellKnownKey || server.bearerOnly;
  (server.wellKnownKey ? get("signin-wellknown") : get("signin-key")).focus();
}

async function enter(text) {
  const error = get("signin-error"), buttons = [get("signin-go"), get("signin-wellknown")];
  error.textContent = "";
  buttons.forEach((b) => { b.disabled = true; });
  try {
    const credential = readCredential(text);
    const scope = { database: get("signin-database").value.trim(), container: get("signin-container").value.trim() };
    if (credential.kind === "token" && !(scope.database && scope.container)) {
      get("signin-scope").hidden = false;
      get("signin-database").focus();
      throw new Error("A resource token does not say which container it is for: give its names.");
    }
    await signIn(credential, scope);
    get("signin-key").value = "";
    enterFrame();
  } catch (failure) {
    error.textContent = failure.message;
  } finally {
    buttons.forEach((b) => { b.disabled = false; });
  }
}

get("signin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(get("signin-key").value);
});
get("signin-wellknown").addEventListener("click", () => enter(wellKnownKey));

async function leave(reason = "") {
  if (!reason && !(await mayLeave())) return;
  signOut();
  views.forEach((view) => view.hidden?.());
  views.clear();
  current = null;
  changed();
  for (const id of ["top", "frame", "foot"]) get(id).hidden = true;
  get("signin").hidden = false;
  show(get("main"));
  show(get("side"));
  get("signin-error").textContent = reason;
  get("signin-key").focus();
}

events.addEventListener("ended", (event) => leave(`The server no longer accepts the key: ${event.detail}`));

// --- the frame

const roles = { key: "read-write key", reader: "read-only key", token: "resource token", bearer: "bearer token" };

function enterFrame() {
  get("signin").hidden = true;
  for (const id of ["top", "frame", "foot"]) get(id).hidden = false;
  document.documentElement.dataset.caller = caller.kind;
  const menu = button("☰", () => get("frame").classList.toggle("open"), { kind: "plain menu", "aria-label": "Show or hide the tree", title: "Show or hide the tree" });
  show(get("top"), menu,
    el("a", { class: "brand", href: address() }, el("img", { src: "mark.svg", width: "24", height: "24", alt: "" }), el("strong", {}, "Decan"), el("span", {}, "Data Explorer")),
    el("span", { class: "account" }, `${server.account} · ${roles[caller.kind]}`),
    el("span", { class: "space" }),
    button("New Container", () => newContainer(), { kind: "primary", disabled: !caller.writes || caller.scope, why: "This needs a read-write key.", title: "New container (Alt+N then C)" }),
    button("⌕", () => palette(), { kind: "plain", "aria-label": "Search and commands", title: "Search and commands (Ctrl+K)" }),
    button("◐", theme, { kind: "plain wide", "aria-label": "Light or dark", title: "Light or dark" }),
    button("?", shortcuts, { kind: "plain wide", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }),
    button("Sign out", () => leave(), { kind: "plain" }));
  show(get("side"), new Tree().root);
  foot();
  route();
}

function theme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

function foot() {
  const latest = requests[0];
  show(get("foot"), latest && el("span", { class: latest.status >= 400 || !latest.status ? "bad" : "" },
    `${latest.method} ${latest.status || "no answer"}`), latest && el("span", {}, units(latest.charge)), latest && el("span", {}, millis(latest.millis)),
  latest?.partitions && el("span", {}, `partition${latest.partitions.includes(",") ? "s" : ""} ${latest.partitions}`),
  el("span", { class: "space" }), button(`Requests (${requests.length})`, requestLog, { kind: "plain" }));
}

events.addEventListener("request", foot);

function requestLog() {
  dialog("Requests of this page", () => el("div", { class: "tablewrap", tabindex: "0" }, el("table", {},
    el("thead", {}, el("tr", {}, ["time", "request", "status", "RU", "ms", "partitions", "activity id"].map((t) => el("th", {}, t)))),
    el("tbody", {}, requests.map((r) => el("tr", {}, el("td", {}, clock(r.at)), el("td", { class: "mono" }, `${r.method} ${decodeURI(r.url)}`),
      el("td", {}, r.status), el("td", { class: "numeric" }, r.charge), el("td", { class: "numeric" }, r.millis.toFixed(1)), el("td", {}, r.partitions), el("td", { class: "mono" }, r.activity)))))), { wide: true });
}

// --- from addresses to screens

const views = new Map(); // by address; a screen keeps its state until it is dropped
const viewsMax = 24;
let current = null; // {hash, view}
let step = 0;

async function mayLeave() {
  const dirty = [...views.values()].filter((v) => v.dirty?.());
  return !dirty.length || confirm("Discard changes?", "There are edits that were not saved.", { action: "Discard", danger: true });
}

async function route() {
  if (!caller.kind) return;
  const hash = location.hash, mine = ++step;
  if (current?.hash === hash) return;
  if (current?.view.dirty?.() && !(await confirm("Leave this screen?", "Its edits are kept until you come back to it or close the page.", { action: "Leave" }))) {
    history.replaceState(null, "", current.hash || "#");
    return;
  }
  current?.view.hidden?.();
  get("frame").classList.remove("open");
  const names = place();
  document.title = `${titleOf(names)} - Decan`;
  let view = views.get(hash);
  if (!view) {
    try {
      view = await screenOf(names);
    } catch (error) {
      view = { root: el("div", { class: "empty", role: "alert" }, el("p", {}, error.message), button("Try again", () => { views.delete(hash); current = null; route(); })), once: true };
    }
    if (mine !== step) return;
  }
  views.delete(hash);
  if (!view.once) views.set(hash, view);
  for (const [old, v] of views) if (views.size > viewsMax && !v.dirty?.()) views.delete(old);
  current = { hash, view };
  show(get("main"), view.root);
  view.shown?.();
  dispatchEvent(new CustomEvent("placed"));
}

addEventListener("hashchange", route);
addEventListener("beforeunload", (event) => {
  if ([...views.values()].some((v) => v.dirty?.())) event.preventDefault();
});
addEventListener("unhandledrejection", (event) => fail(event.reason));

/** Forgets the screens below an address, after what they show was deleted or changed. */
addEventListener("forget", (event) => {
  for (const hash of [...views.keys()]) {
    if (hash === event.detail || hash.startsWith(event.detail + "/")) {
      views.get(hash).hidden?.();
      views.delete(hash);
    }
  }
  if (current && (current.hash === event.detail || current.hash.startsWith(event.detail + "/"))) current = null;
});

// --- the keyboard

let pending = ""; // the first key of Alt+N, then another

addEventListener("keydown", (event) => {
  if (!caller.kind || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input, textarea, select");
  const command = (action) => {
    event.preventDefault();
    action();
  };
  const key = event.key.toLowerCase();
  if (pending && !["alt", "shift", "control"].includes(key)) {
    pending = "";
    const [, database, , container] = place();
    const to = { q: "query", i: "items", p: "procedures", f: "functions", t: "triggers" }[key];
    if (key === "c") return command(() => { if (caller.writes) newContainer(); });
    if (to && container) return command(() => go("db", database, "coll", container, to, ...(key === "q" || key === "i" ? [] : ["new"])));
    return;
  }
  if (event.altKey && key === "n") return command(() => { pending = "n"; });
  if (event.ctrlKey && key === "k") return command(() => palette());
  if (event.ctrlKey && key === "j") {
    const [, database, , container] = place();
    if (container) return command(() => go("db", database, "coll", container, "query"));
  }
  if (event.ctrlKey && key === "s") return command(() => current?.view.save?.());
  if ((event.shiftKey && key === "enter") || key === "f5" && current?.view.run) return current?.view.run && command(() => current.view.run());
  if (event.key === "?" && !typing) return command(shortcuts);
});

begin();
