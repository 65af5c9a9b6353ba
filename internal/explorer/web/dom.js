// Elements. Text of the database reaches the page only through here, as text nodes and
// attributes, never as HTML.

/**
 * Returns an element. props are attributes, except: class; on, an object of event
 * listeners; style, an object of CSS properties; value, checked, disabled and other
 * booleans. Children are nodes, texts, arrays of them, or null.
 */
export function el(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Returns an element of SVG. */
export function svg(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the children of a node. */
export function show(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/**
 * Makes an element like a fresh one, and keeps the parts that are equal: a button that has
 * the focus, or that is just pressed, stays. Rows with another data-id and buttons with
 * another text are replaced, because their listeners are about something else.
 */
export function renew(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const other = old.nodeName !== fresh.nodeName || old.nodeType !== Node.ELEMENT_NODE || old.childNodes.length !== fresh.childNodes.length || old.dataset.id !== fresh.dataset.id ||
    old.nodeName === "BUTTON" && (old.textContent !== fresh.textContent || old.getAttribute("aria-label") !== fresh.getAttribute("aria-label"));
  if (other) return old.replaceWith(fresh);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "disabled") old.removeAttribute(name); // "disabled" is of an action that runs.
  for (const { name, value } of fresh.attributes) {
    if (name === "style") old.style.cssText = fresh.style.cssText; // The policy forbids the attribute.
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const after = [...fresh.childNodes];
  [...old.childNodes].forEach((child, i) => renew(child, after[i]));
}

/** Returns a button. kind is "", "primary", "danger" or "plain". */
export function button(label, action, { kind = "", title, disabled, why, ...props } = {}) {
  return el("button", {
    type: "button", class: `button ${kind}`, disabled: Boolean(disabled), title: disabled ? why ?? title : title,
    on: { click: action }, ...props,
  }, label);
}

let last = 0;

/** Returns an id that no other element has. */
export const unique = (prefix) => `${prefix}-${++last}`;

/** Returns a label with its input, and a hint below it. */
export function field(label, input, hint) {
  input.id ||= unique("field");
  const about = hint && el("span", { class: "hint", id: input.id + "-hint" }, hint);
  if (about) input.setAttribute("aria-describedby", about.id);
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input, about);
}

/** Returns a drop-down list of [value, label] pairs. */
export function select(options, value, change, props) {
  const node = el("select", { ...props, on: { change: () => change?.(node.value) } },
    options.map(([v, label]) => el("option", { value: v }, label)));
  node.value = value;
  return node;
}

/** Offers a file to save. */
export function download(name, type, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Calls action at most once in a while. */
export function debounce(action, millis) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), millis);
  };
}
