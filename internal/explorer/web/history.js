// The versions of an item, in a container that keeps all versions.

import { el, show } from "./dom.js";
import { keyHeader, request } from "./api.js";
import { format, parse, stringify, withoutSystem } from "./json.js";
import { lines } from "./item.js";
import { dialog, failed } from "./dialog.js";
import { moment, plural } from "./format.js";

/** Shows the versions of an item that the container still has. */
export async function itemHistory(context, id, key) {
  const body = el("div", {}, el("p", {}, "Reading the change feed…"));
  versions(context, id, key).then((all) => {
    show(body, el("p", { class: "hint" }, all.length ? `${plural(all.length, "change")} within the last ${context.definition.changeFeedPolicy.retentionDuration} minutes, newest first.` : "The container has no change of this item in its window."),
      all.reverse().map((change, i) => {
        const earlier = all[i + 1];
        const text = (c) => c && Object.keys(c.current ?? {}).length ? format(withoutSystem(stringify(c.current))) : "";
        return el("details", { open: i === 0, class: "version" }, el("summary", {}, el("strong", {}, change.metadata.operationType), ` ${moment(change.metadata.crts)}, LSN ${change.metadata.lsn}`),
          text(change) ? lines(text(change), text(earlier)) : el("p", {}, change.metadata.timeToLiveExpired ? "The item expired." : "The item was deleted."));
      }));
  }).catch((error) => failed(body, error));
  await dialog(`History of ${id}`, () => body, { wide: true });
}

async function versions(context, id, key) {
  const page = (etag) => request("GET", [...context.path, "docs"], { accept: [400], headers: {
    "a-im": "Full-Fidelity Feed", "if-none-match": etag, "x-ms-documentdb-partitionkey": keyHeader(key), "x-ms-max-item-count": "100",
  } });
  // The window has no name for its beginning, so the first position that is accepted is
  // found by halving.
  const now = await page("*");
  let high = Number(/^"(\d+)"$/.exec(now.headers.get("etag") ?? "")?.[1] ?? 0), low = 0;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((await page(`"${middle}"`)).status === 400) low = middle + 1;
    else high = middle;
  }
  const all = [];
  for (let etag = `"${high}"`; ;) {
    const answer = await page(etag);
    if (answer.status !== 200) return all;
    all.push(...parse(answer.text).Documents.filter((c) => (c.current?.id ?? c.previous?.id ?? c.metadata.id) === id));
    etag = answer.headers.get("etag");
  }
}
