// The throughput of a container or a database: its mode, its value, and how it is divided.

import { button, el, select, show } from "./dom.js";
import { admin, caller, list, read, request } from "./api.js";
import { parse, stringify } from "./json.js";
import { failed, tell, working } from "./dialog.js";
import { count, moment } from "./format.js";
import { whyNoAdmin } from "./tree.js";

/** Returns the present and the earlier values of a throughput, the latest first: [{at, text}]. */
function historyOf(offer, earlier = []) {
  const { content } = offer, now = { since: content.offerLastReplaceTimestamp || offer._ts, throughput: content.offerThroughput, autoscaleSettings: content.offerAutopilotSettings };
  return [...earlier, now].reverse().map(({ since, throughput, autoscaleSettings }) => ({ at: since, text: autoscaleSettings ? `autoscale, up to ${count(autoscaleSettings.maxThroughput)} RU/s` : `manual, ${count(throughput)} RU/s` }));
}

/** Returns a section about the throughput of dbs/D or dbs/D/colls/C. */
export function throughputCard(path) {
  const body = el("div", {}), settings = ["sqlDatabases", path[1], ...(path[3] ? ["containers", path[3]] : []), "throughputSettings", "default"];
  async function load() {
    try {
      const resource = await read(path), offers = await list(["offers"], "Offers");
      const offer = offers.find((o) => o.offerResourceId === resource._rid);
      if (!offer) {
        show(body, el("p", { class: "hint" }, path[3] ? "The container shares the throughput of its database, or has none." : "The database has no throughput of its own: its containers have theirs."));
        return;
      }
      const details = caller.admin ? (await admin("GET", settings)).properties.resource : null;
      draw(offer, details);
    } catch (error) {
      failed(body, error, load);
    }
  }

  function draw(offer, details) {
    const { content } = offer, autoscale = content.offerAutopilotSettings;
    const mode = select([["autoscale", "Autoscale, up to"], ["manual", "Manual"]], autoscale ? "autoscale" : "manual", () => { rus.disabled = false; });
    mode.disabled = !caller.admin;
    mode.title = caller.admin ? "" : whyNoAdmin();
    const rus = el("input", { type: "number", min: "1", step: "any", value: String(autoscale ? autoscale.maxThroughput : content.offerThroughput), "aria-label": "Request units per second", disabled: !caller.writes });
    mode.setAttribute("aria-label", "Mode");
    const save = working(async () => {
      if (mode.value !== (autoscale ? "autoscale" : "manual")) {
        await admin("POST", [...settings, mode.value === "autoscale" ? "migrateToAutoscale" : "migrateToManualThroughput"]);
        tell("The mode is changed; the server has chosen the value. Change it if you want another.");
      } else {
        await request("PUT", ["offers", offer.id], { body: stringify({ ...offer, content: { ...content, ...(autoscale ? { offerAutopilotSettings: { ...autoscale, maxThroughput: Number(rus.value) } } : { offerThroughput: Number(rus.value) }) } }), headers: { "if-match": offer._etag } });
        tell("Throughput saved.");
      }
      await load();
    });
    const buckets = path[3] ? bucketsOf(offer) : null;
    const ever = content.offerMinimumThroughputParameters?.maxThroughputEverProvisioned;
    show(body, el("div", { class: "line" }, mode, rus, el("span", { class: "hint" }, "RU/s"), button("Save", save, { kind: "primary", disabled: !caller.writes, why: "This needs a key that may write." })),
      el("dl", { class: "facts" }, [
        details && ["Least", `${count(Number(details.minimumThroughput))} RU/s`],
        details && ["At once", `up to ${count(Number(details.instantMaximumThroughput))} RU/s, without splits`],
        details && ["Most", `${count(Number(details.softAllowedMaximumThroughput))} RU/s`],
        content.offerLastReplaceTimestamp && ["Last changed", moment(content.offerLastReplaceTimestamp)],
        ever && ["Highest ever", `${count(ever)} RU/s`],
        details?.offerReplacePending === "true" && ["Change", "in progress: partitions are being split"],
      ].filter(Boolean).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      details && el("details", {}, el("summary", {}, "History"), el("table", { class: "history" }, el("thead", {}, el("tr", {}, el("th", {}, "since"), el("th", {}, "throughput"))),
        el("tbody", {}, historyOf(offer, details["x-decan-earlier"]).map((h) => el("tr", {}, el("td", {}, moment(h.at)), el("td", {}, h.text)))))), buckets);
  }

  /** Throughput buckets: the share that requests with the number of a bucket may use. */
  function bucketsOf(offer) {
    const inputs = [1, 2, 3, 4, 5].map((id) => el("input", { type: "number", min: "1", max: "100", placeholder: "off", disabled: !caller.writes, "aria-label": `Bucket ${id}, percent`, value: String(offer.content.throughputBuckets?.find((b) => b.id === id)?.maxThroughputPercentage ?? "") }));
    const wrong = el("p", { class: "error", role: "alert" });
    const save = working(async () => {
      wrong.textContent = "";
      const throughputBuckets = inputs.map((input, i) => ({ id: i + 1, maxThroughputPercentage: Number(input.value), given: input.value !== "" })).filter((b) => b.given).map(({ id, maxThroughputPercentage }) => ({ id, maxThroughputPercentage }));
      try {
        // Buckets change once in ten minutes: waiting as for a busy partition would not help.
        const answer = await request("PUT", ["offers", offer.id], { body: stringify({ ...offer, content: { ...offer.content, throughputBuckets } }), headers: { "if-match": offer._etag }, accept: [429] });
        if (answer.status === 429) throw new Error(parse(answer.text).message.replace(/\r?\nActivityId: .*$/s, ""));
        tell("Throughput buckets saved.");
        await load();
      } catch (error) {
        wrong.textContent = error.message;
      }
    });
    return el("details", { open: Boolean(offer.content.throughputBuckets?.length) }, el("summary", {}, "Throughput buckets"), el("p", { class: "hint" }, "Requests that name a bucket use at most this share, in percent."),
      el("div", { class: "buckets" }, inputs.map((input, i) => el("label", {}, el("span", {}, i + 1), input))), wrong, el("div", { class: "actions start" }, button("Save buckets", save, { disabled: !caller.writes, why: "This needs a key that may write." })));
  }
  load();
  return el("section", { class: "card" }, el("h2", {}, "Throughput"), body);
}
