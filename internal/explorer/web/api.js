// Requests. The page is a client like others: it signs requests of the REST protocol with
// the key that it was given, which is in this module's memory and nowhere else.

import { hmac } from "./sha256.js";
import { parse, parseList } from "./json.js";

/** What the server says before anyone has signed in. */
export const server = { version: "", account: "", consistency: "", wellKnownKey: false, bearerOnly: false, admin: false };

/** The emulators' key, which everyone knows. */
export const wellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

let credential = null; // {kind, key} or {kind, token}

/** What the caller may do: kind is "key", "reader", "token" or "bearer". */
export const caller = { kind: "", writes: false, admin: false, scope: null };

/** The latest requests, newest first. */
export const requests = [];
const requestsMax = 200;

/** Announces "request" and "ended" (the key is no longer accepted). */
export const events = new EventTarget();

/** An answer that is an error. spots are the errors in a query's text. */
export class Refusal extends Error {
  name = "Refusal";

  constructor(message, status, spots = [], answer = null) {
    super(message);
    Object.assign(this, { status, spots, answer });
  }
}

/**
 * Reads a credential as users paste it: a key, a connection string, a resource token or a
 * bearer token. Throws an Error that says what is wrong.
 */
export function readCredential(text) {
  text = text.trim();
  const inside = /(?:^|;)\s*AccountKey\s*=\s*([^;]+)/i.exec(text);
  if (inside) text = inside[1].trim();
  if (!text) throw new Error("Give a key.");
  if (/^type=resource&/i.test(text)) return { kind: "token", token: text };
  if (/^type%3dresource/i.test(text)) return { kind: "token", token: decodeURIComponent(text) };
  if (/^[\w-]+\.[\w-]+\.[\w-]*$/.test(text)) return { kind: "bearer", token: `type=aad&ver=1.0&sig=${text}` };
  try {
    return { kind: "key", key: Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) };
  } catch {
    throw new Error("This is neither a key in base64, nor a connection string, a resource token or a bearer token.");
  }
}

/** Forgets the credential. */
export function signOut() {
  credential = null;
  Object.assign(caller, { kind: "", writes: false, admin: false, scope: null });
  requests.length = 0;
}

/**
 * Signs in: finds out what the credential may do. scope is {database, container} for a
 * resource token.
 */
export async function signIn(given, scope) {
  credential = given;
  try {
    if (given.kind === "token") {
      const path = ["dbs", scope.database, "colls", scope.container];
      await request("GET", path);
      // A request that cannot succeed, and says whether writing is allowed.
      const probe = await request("POST", [...path, "docs"], { body: "{}", accept: [400, 403] });
      Object.assign(caller, { kind: "token", writes: probe.status === 400, admin: false, scope });
      return;
    }
    await request("GET", ["dbs"], { headers: { "x-ms-max-item-count": "1" }, accept: [403] });
    if (given.kind === "bearer") {
      Object.assign(caller, { kind: "bearer", writes: true, admin: false, scope: null });
      return;
    }
    const probe = await request("POST", ["dbs"], { body: "{}", accept: [400, 403] });
    const writes = probe.status === 400;
    Object.assign(caller, { kind: writes ? "key" : "reader", writes, admin: server.admin && writes, scope: null });
  } catch (error) {
    credential = null;
    throw error;
  }
}

function authorization(method, type, link, date) {
  if (credential.kind !== "key") return encodeURIComponent(credential.token);
  const text = new TextEncoder().encode(`${method.toLowerCase()}\n${type}\n${link}\n${date.toLowerCase()}\n\n`);
  const signature = btoa(String.fromCharCode(...hmac(credential.key, text)));
  return encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
}

/** Returns the resource type and link that a request's signature covers. */
function signed(path) {
  if (path.length % 2) return [path.at(-1), path.slice(0, -1).join("/")];
  if (path[0] === "offers") return ["offers", path[1].toLowerCase()];
  return [path.at(-2) ?? "", path.join("/")];
}

const pause = (millis) => new Promise((resume) => setTimeout(resume, millis));

/**
 * Sends a request of the REST protocol. path is a list of decoded segments. Returns
 * {status, headers, text}; an error is thrown as a Refusal unless accept has its status.
 * Requests over the throughput (429) are sent again, as the SDKs do.
 */
export async function request(method, path, { body, headers = {}, accept = [], signal } = {}) {
  const [type, link] = signed(path);
  const url = "/" + path.map(encodeURIComponent).join("/");
  for (let attempt = 0; ; attempt++) {
    const date = new Date().toUTCString();
    const answer = await send(method, url, body, {
      "x-ms-version": "2020-07-15", "x-ms-date": date, authorization: authorization(method, type, link, date), ...headers,
    }, signal);
    if (answer.status === 429 && attempt < 9 && !accept.includes(429)) {
      await pause(Math.min(Number(answer.headers.get("x-ms-retry-after-ms")) || 100, 5000));
      signal?.throwIfAborted();
      continue;
    }
    return checked(answer, accept);
  }
}

/** Sends a request to the administration, and returns the parsed answer, or text. */
export async function admin(method, path, { body, query = {}, signal } = {}) {
  const date = new Date().toUTCString();
  const decoded = path.join("/"), search = new URLSearchParams(query).toString();
  const url = "admin/" + path.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
  const answer = checked(await send(method, url, body === undefined ? undefined : JSON.stringify(body), {
    "x-ms-date": date, authorization: authorization(method, "", decoded, date),
  }, signal), []);
  return answer.headers.get("content-type")?.startsWith("application/json") ? parse(answer.text) : answer.text;
}

async function send(method, url, body, headers, signal) {
  const begin = performance.now();
  const entry = { method, url, at: new Date(), status: 0, charge: 0, millis: 0, partitions: "", activity: "", quiet: url.startsWith("admin/") && method === "GET" };
  try {
    const response = await fetch(url, { method, body, headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
    const text = await response.text();
    Object.assign(entry, {
      status: response.status, charge: Number(response.headers.get("x-ms-request-charge")) || 0,
      partitions: response.headers.get("x-decan-partitions") ?? "", activity: response.headers.get("x-ms-activity-id") ?? "",
    });
    return { status: response.status, headers: response.headers, text, millis: performance.now() - begin };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer. It may have been stopped, or the network is gone.", 0);
  } finally {
    entry.millis = performance.now() - begin;
    if (!entry.quiet) {
      requests.unshift(entry);
      requests.length = Math.min(requests.length, requestsMax);
      events.dispatchEvent(new CustomEvent("request", { detail: entry }));
    }
  }
}

function checked(answer, accept) {
  if (answer.status < 300 || answer.status === 304 || accept.includes(answer.status)) return answer;
  const { message, spots } = explained(answer.text, answer.status);
  if (answer.status === 401 && caller.kind) events.dispatchEvent(new CustomEvent("ended", { detail: message }));
  throw new Refusal(message, answer.status, spots, answer);
}

/** Returns the message of an error's body for people, and the errors in a query. */
function explained(text, status) {
  let message = text;
  try {
    message = parse(text).message ?? text;
  } catch { /* The body is not JSON: it is the message. */ }
  message = String(message).replace(/\r?\nActivityId: .*$/s, "").replace(/^Message: /, "");
  try {
    const inner = parse(message);
    const errors = inner.errors ?? inner.Errors ?? [];
    const spots = errors.filter((e) => e.location).map((e) => ({ start: e.location.start, end: e.location.end, message: e.message }));
    return { message: errors.map((e) => e.message ?? String(e)).join(" ") || message, spots };
  } catch { /* The message is plain text. */ }
  return { message: message || `The server answered with status ${status}.`, spots: [] };
}

/** Returns all rows of a list, such as databases, over all its pages. */
export async function list(path, member) {
  const rows = [];
  for (let continuation = ""; ;) {
    const answer = await request("GET", path, { headers: continuation ? { "x-ms-continuation": continuation } : {} });
    rows.push(...(parse(answer.text)[member] ?? []));
    continuation = answer.headers.get("x-ms-continuation");
    if (!continuation) return rows;
  }
}

/** Returns a resource, and its etag as etag. */
export async function read(path, headers) {
  const answer = await request("GET", path, { headers });
  return parse(answer.text);
}

/**
 * Runs a page of a query over items. key is a list of key components, or undefined for
 * all partitions. Returns {rows, texts, continuation, charge, partitions, millis, metrics}.
 */
export async function queryPage(database, container, { text, parameters = [], key, size = 100, continuation, explain, signal }) {
  const headers = {
    "content-type": "application/query+json", "x-ms-documentdb-isquery": "True", "x-ms-documentdb-query-enablecrosspartition": "True",
    "x-ms-max-item-count": String(size), "x-decan-cross-partition": "full", "x-ms-documentdb-populatequerymetrics": "True",
  };
  if (key?.length) headers["x-ms-documentdb-partitionkey"] = keyHeader(key);
  if (continuation) headers["x-ms-continuation"] = continuation;
  if (explain) headers["x-decan-explain"] = "true";
  const body = `{"query":${JSON.stringify(text)},"parameters":[${parameters.map((p) => `{"name":${JSON.stringify(p.name)},"value":${p.json}}`).join(",")}]}`;
  const answer = await request("POST", ["dbs", database, "colls", container, "docs"], { body, headers, signal });
  const { list: page, texts } = parseList(answer.text);
  return {
    rows: page.Documents, texts, continuation: answer.headers.get("x-ms-continuation") ?? "",
    charge: Number(answer.headers.get("x-ms-request-charge")), millis: answer.millis,
    partitions: (answer.headers.get("x-decan-partitions") ?? "").split(",").filter(Boolean),
    metrics: answer.headers.get("x-ms-documentdb-query-metrics") ?? "",
  };
}

/** A key component that a document does not have. */
export const absent = Symbol("absent");

/** Writes a key for the header: ASCII, with {} for an absent component. */
export function keyHeader(key) {
  const parts = key.map((v) => v === absent ? "{}" : typeof v === "object" && v !== null ? String(v) : JSON.stringify(v));
  return `[${parts.join(",")}]`.replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** Splits a path of a partition key, such as /address/zip or /"a b", into names. */
export function pathNames(path) {
  const names = [];
  for (const [, quoted, plain] of path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|([^/]*))/g)) names.push(quoted ?? plain);
  return names;
}

/** Returns the key of a document for the paths of a container. */
export function keyOf(document, paths) {
  return paths.map((path) => {
    let value = document;
    for (const name of pathNames(path)) {
      value = value && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined;
    }
    return value === undefined ? absent : value;
  });
}
