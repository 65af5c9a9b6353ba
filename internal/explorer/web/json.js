// JSON that loses nothing: numbers keep their digits, and errors have a place.
// JSON.parse would round numbers of more than 15 digits.

/** A number whose digits a Number does not keep. */
export class BigNumber {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

/** An error in a text, with the offset where it begins. */
export class SyntaxFault extends Error {
  constructor(message, at, end = at + 1) {
    super(message);
    Object.assign(this, { at, end });
  }
}

const space = /[ \t\r\n]*/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const plain = /[^"\\\u0000-\u001f]*/y;

class Parser {
  constructor(text, keep) {
    Object.assign(this, { text, at: 0, depth: 0, keep, parts: undefined });
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  fail(message, at = this.at, end) { throw new SyntaxFault(message, at, end); }

  whole() {
    const value = this.value();
    this.match(space);
    if (this.at < this.text.length) this.fail("More text follows the end of the value.");
    return value;
  }

  value() {
    this.match(space);
    const c = this.text[this.at];
    switch (c) {
      case "{": return this.nested(() => this.object());
      case "[": return this.nested(() => this.array());
      case '"': return this.string();
      case "t": return this.word("true", true);
      case "f": return this.word("false", false);
      case "n": return this.word("null", null);
      case undefined: return this.fail("The text ends where a value is expected.", this.text.length);
    }
    const begin = this.at, digits = this.match(number);
    if (!digits) this.fail(`${JSON.stringify(c)} does not begin a value. Texts need double quotes.`);
    if (/[\w.]/.test(this.text[this.at] ?? "")) this.fail("This is not a number.", begin, this.at + 1);
    const value = Number(digits);
    return String(value) === digits || digits.replace(/[-.]|e.*/gi, "").length <= 15 ? value : new BigNumber(digits);
  }

  nested(read) {
    if (++this.depth > 200) this.fail("The value is nested more than 200 levels deep.");
    this.at++;
    const value = read();
    this.depth--;
    return value;
  }

  word(text, value) {
    if (!this.text.startsWith(text, this.at)) this.fail(`Only true, false and null are words of JSON.`);
    this.at += text.length;
    return value;
  }

  string() {
    const begin = this.at++;
    for (let parts = ""; ;) {
      parts += this.match(plain);
      const c = this.text[this.at];
      if (c === '"') {
        this.at++;
        return parts;
      }
      if (c === undefined || c === "\n") this.fail("The text has no closing quote.", begin, this.at);
      if (c !== "\\") this.fail("A control character in a text must be written as an escape.");
      const escape = this.text.slice(this.at, this.at + 6);
      const size = escape[1] === "u" ? 6 : 2;
      try {
        parts += JSON.parse(`"${escape.slice(0, size)}"`);
      } catch {
        this.fail("This is not an escape of JSON.", this.at, this.at + size);
      }
      this.at += size;
    }
  }

  array() {
    const list = [];
    const parts = this.keep && this.depth === this.keep.depth ? [] : undefined;
    for (this.match(space); this.text[this.at] !== "]"; this.separate("]")) {
      this.match(space);
      const begin = this.at;
      list.push(this.value());
      parts?.push(this.text.slice(begin, this.at));
    }
    this.at++;
    if (parts && !this.parts) this.parts = parts;
    return list;
  }

  object() {
    const object = {};
    for (this.match(space); this.text[this.at] !== "}"; this.separate("}")) {
      this.match(space);
      if (this.text[this.at] !== '"') this.fail("The name of a member is expected here, in double quotes.");
      const name = this.string();
      this.match(space);
      if (this.text[this.at] !== ":") this.fail("A colon is expected after the name of a member.");
      this.at++;
      // Assigning to __proto__ would change the object instead of adding a member.
      Object.defineProperty(object, name, { value: this.value(), enumerable: true, writable: true, configurable: true });
    }
    this.at++;
    return object;
  }

  separate(end) {
    this.match(space);
    const c = this.text[this.at];
    if (c === end) return;
    if (c !== ",") this.fail(`A comma or ${end} is expected here.`, Math.min(this.at, this.text.length));
    const comma = this.at++;
    this.match(space);
    if (this.text[this.at] === end) this.fail("Nothing follows this comma.", comma);
  }
}

/** Parses a text; throws a SyntaxFault. */
export const parse = (text) => new Parser(text).whole();

/** Parses the answer of a list, and returns it with the texts of its rows as they were sent. */
export function parseList(text) {
  const parser = new Parser(text, { depth: 2 });
  const list = parser.whole();
  return { list, texts: parser.parts ?? [] };
}

/** Writes a value as JSON, with line breaks if indent is given. */
export function stringify(value, indent = "", level = "") {
  if (value instanceof BigNumber) return value.text;
  if (Object.is(value, -0)) return "-0";
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const below = level + indent, line = indent ? `\n${below}` : "", colon = indent ? ": " : ":";
  const parts = Array.isArray(value)
    ? value.map((item) => stringify(item, indent, below))
    : Object.keys(value).filter((name) => value[name] !== undefined).map((name) => JSON.stringify(name) + colon + stringify(value[name], indent, below));
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!parts.length) return open + close;
  return open + line + parts.join("," + line) + (indent ? `\n${level}` : "") + close;
}

const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Sets the white space of a JSON text, and changes nothing else: order and digits stay. */
export function format(text) {
  let out = "", level = 0, previous = "";
  const line = () => "\n" + "  ".repeat(level);
  for (const [part] of text.matchAll(token)) {
    if (part === "}" || part === "]") {
      level--;
      out += (previous === "{" || previous === "[" ? "" : line()) + part;
    } else {
      if (previous === "{" || previous === "[" || previous === ",") out += line();
      out += part === ":" ? ": " : part;
      if (part === "{" || part === "[") level++;
    }
    previous = part;
  }
  return out;
}

/** Removes the members of an object's text that the server sets. */
export function withoutSystem(text) {
  const value = parse(text);
  const parts = [];
  let depth = 0, part = "";
  for (const [t] of text.matchAll(token)) {
    if (t === "}" || t === "]") depth--;
    if (depth === 0 && (t === "{" || t === "}")) {
      depth += t === "{" ? 1 : 0;
      continue;
    }
    if (t === "{" || t === "[") depth++;
    if (depth === 1 && t === ",") {
      parts.push(part);
      part = "";
    } else part += t;
  }
  if (part) parts.push(part);
  const names = Object.keys(value);
  if (parts.length !== new Set(names).size) return text; // a name occurs twice
  return "{" + parts.filter((p) => !systemNames.has(parse(p.match(token)[0]))).join(",") + "}";
}

/** The members of an item that the server sets. */
export const systemNames = new Set(["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"]);
