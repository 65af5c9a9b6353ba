// Dividing text into tokens for colours: JSON, queries and JavaScript.

const json = /(?<name>"(?:[^"\\\n]|\\.)*"(?=\s*:))|(?<text>"(?:[^"\\\n]|\\.)*"?)|(?<number>-?\b\d[\d.eE+-]*)|(?<word>\b(?:true|false|null)\b)/g;

export const sqlWords = ("SELECT VALUE DISTINCT TOP FROM IN JOIN WHERE GROUP BY ORDER ASC DESC RANK OFFSET LIMIT AS AND OR NOT BETWEEN LIKE ESCAPE EXISTS ARRAY " +
  "undefined null true false").split(" ");

const sql = new RegExp(String.raw`(?<comment>--[^\n]*|/\*[^]*?(?:\*/|$))|(?<text>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|(?<parameter>@\w+)|(?<number>\b\d[\d.eE]*)|` +
  String.raw`(?<word>(?<![.@\w])(?:${sqlWords.join("|")})\b)|(?<call>\b[A-Za-z_]\w*(?=\s*\())`, "gi");

const jsWords = "async await break case catch class const continue delete do else export extends false finally for function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while yield";
const js = new RegExp(String.raw`(?<comment>//[^\n]*|/\*[^]*?(?:\*/|$))|(?<text>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|${"`"}(?:[^${"`"}\\]|\\.)*${"`"}?)|` +
  String.raw`(?<number>\b\d[\w.]*)|(?<word>\b(?:${jsWords.split(" ").join("|")})\b)|(?<call>\b[A-Za-z_$][\w$]*(?=\s*\())`, "g");

const languages = { json, sql, js };

/** Calls token(begin, end, kind) for the coloured parts of a text, in order. */
export function tokenize(text, language, token) {
  for (const match of text.matchAll(languages[language])) {
    for (const [kind, found] of Object.entries(match.groups)) {
      if (found !== undefined) {
        token(match.index, match.index + found.length, kind);
        break;
      }
    }
  }
}
