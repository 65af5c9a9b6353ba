// What a query can continue with at the caret.

import { sqlWords } from "./tokens.js";

/** The functions of the language. A test compares them with those of the server. */
export const functions = ("ABS ACOS ARRAY_AVG ARRAY_CONCAT ARRAY_CONTAINS ARRAY_CONTAINS_ALL ARRAY_CONTAINS_ANY ARRAY_LENGTH ARRAY_MAX ARRAY_MEDIAN ARRAY_MIN ARRAY_SLICE ARRAY_SUM ASIN ATAN ATN2 " +
  "AVG CEILING CHOOSE CONCAT CONTAINS CONTAINS_ALL_CI CONTAINS_ALL_CS CONTAINS_ANY_CI CONTAINS_ANY_CS COS COT COUNT COUNTIF DateTimeAdd DateTimeBin DateTimeDiff DateTimeFormat DateTimeFromParts DateTimePart DateTimeToTicks DateTimeToTimestamp DEGREES " +
  "DOCUMENTID ENDSWITH EXP FLOOR FullTextContains FullTextContainsAll FullTextContainsAny FullTextScore GetCurrentDateTime GetCurrentTicks GetCurrentTimestamp IIF INDEX_OF IntAdd IntBitAnd IntBitLeftShift IntBitNot IntBitOr IntBitRightShift IntBitXor IntDiv IntMod IntMul IntSub " +
  "IS_ARRAY IS_BOOL IS_DATETIME IS_DEFINED IS_FINITE_NUMBER IS_INTEGER IS_NULL IS_NUMBER IS_OBJECT IS_PRIMITIVE IS_STRING LASTINDEXOF LEFT LENGTH LOG LOG10 LOWER LTRIM MAKELIST MAKESET MAX MIN NumberBin ObjectToArray PI POWER RADIANS RAND RegexMatch REPLACE REPLICATE REVERSE RIGHT ROUND RRF RTRIM " +
  "SetDifference SetEqual SetIntersect SetUnion SIGN SIN SQRT SQUARE ST_AREA ST_DISTANCE ST_INTERSECTS ST_ISVALID ST_ISVALIDDETAILED ST_WITHIN STARTSWITH StringEquals StringJoin StringSplit StringToArray StringToBoolean StringToNull StringToNumber StringToObject SUBSTRING SUM TAN TicksToDateTime TimestampToDateTime ToString TRIM TRUNC UPPER VectorDistance").split(" ");

const phrases = [...sqlWords.filter((w) => !["GROUP", "ORDER", "BY"].includes(w)), "GROUP BY", "ORDER BY", "SELECT * FROM c", "OFFSET 0 LIMIT 10", "IS NOT NULL"].filter((w) => w !== "IS NOT NULL");

/** Learns the properties of items: a map from a path without its beginning to the names below it. */
export class Properties {
  constructor() { this.names = new Map(); }

  /** Adds the names of a value's members. Elements of arrays are below "[]". */
  learn(value, path = "", depth = 0) {
    if (value === null || typeof value !== "object" || depth > 6) return;
    if (Array.isArray(value)) {
      for (const item of value.slice(0, 5)) this.learn(item, path + "[]", depth + 1);
      return;
    }
    let known = this.names.get(path);
    if (!known) this.names.set(path, known = new Set());
    for (const name of Object.keys(value)) {
      if (known.size < 300) known.add(name);
      this.learn(value[name], `${path}.${name}`, depth + 1);
    }
  }

  below(path) { return [...this.names.get(path) ?? []]; }
}

/** Returns the aliases of a query with the paths they stand for: c is "", and t IN c.tags is ".tags[]". */
function aliases(text) {
  const found = new Map();
  const from = /\bFROM\s+([A-Za-z_]\w*)(?:\s+(?:AS\s+)?(?!WHERE\b|JOIN\b|ORDER\b|GROUP\b|OFFSET\b|IN\b)([A-Za-z_]\w*))?/i.exec(text);
  found.set((from?.[2] ?? from?.[1] ?? "c"), "");
  for (const [, alias, source, rest] of text.matchAll(/\b([A-Za-z_]\w*)\s+IN\s+([A-Za-z_]\w*)((?:\.\w+)*)/gi)) {
    if (found.has(source)) found.set(alias, `${found.get(source)}${rest}[]`);
  }
  return found;
}

/** Returns the completions of a query at the caret, for an editor. */
export function completer(properties, parameters) {
  return (text, caret, asked) => {
    const before = text.slice(0, caret);
    if (/(?:"(?:[^"\\\n]|\\.)*|'(?:[^'\\\n]|\\.)*|--[^\n]*)$/.test(before.replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, (m) => "_".repeat(m.length)))) return null; // in a text or comment
    const member = /([A-Za-z_]\w*)((?:\.\w+|\[\d+\])*)\.(\w*)$/.exec(before);
    if (member) {
      const base = aliases(text).get(member[1]);
      if (base === undefined) return null;
      const path = base + member[2].replace(/\[\d+\]/g, "[]"), typed = member[3].toLowerCase();
      return offer(caret - member[3].length, properties.below(path).filter((n) => n.toLowerCase().startsWith(typed) && n !== member[3]).sort()
        .map((name) => /^[A-Za-z_]\w*$/.test(name) ? { text: name, kind: "property" } : null).filter(Boolean));
    }
    const parameter = /@(\w*)$/.exec(before);
    if (parameter) return offer(caret - parameter[0].length, parameters().filter((p) => p.startsWith(parameter[0])).map((p) => ({ text: p, kind: "parameter" })));
    const typed = /[A-Za-z_]\w*$/.exec(before)?.[0] ?? "";
    if (!typed && !asked) return null;
    const fits = (name) => name.toLowerCase().startsWith(typed.toLowerCase()) && name !== typed;
    return offer(caret - typed.length, [
      ...[...aliases(text).keys()].filter(fits).map((name) => ({ text: name, kind: "alias" })),
      ...phrases.filter(fits).map((text_) => ({ text: text_, kind: "keyword" })),
      ...functions.filter(fits).map((name) => ({ text: name, kind: "function", insert: `${name}()`, back: 1 })),
    ]);
  };
}

const offer = (from, items) => items.length ? { from, items } : null;
