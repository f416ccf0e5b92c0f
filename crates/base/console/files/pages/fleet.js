// The fleet: what needs a person, what is on its way, clusters with their slots, service levels, zones.

import { STEP, bar, slots, spark } from "../charts.js";
import { command, h, name, visible } from "../dom.js";
import { levels } from "../levels.js";
import { table } from "../table.js";
import { bytes, counted, isKnown, micros, percent, short, SLOT_STATES } from "../words.js";

export const title = () => "Fleet";
export const reads = () => ({ summary: "/v1/summary" });

/** Sums that were seen, by cluster: ten minutes, two seconds apart. @type {Map<string, {at: number, value: number | null}[]>} */
const seen = new Map();
const SEEN_MAX = 300;

/** Needs that are seen at once; the others are a click away, so that clusters are not pushed out of sight. */
const NEEDS_SEEN = 8;

const URGENCIES = /** @type {Record<string, string>} */ ({ now: "Now", soon: "Soon", note: "Note" });

/**
 * @param {Record<string, any>} documents
 * @param {string} _
 * @param {() => void} redraw
 */
export function draw({ summary }, _, redraw) {
  note(summary);
  const isEmpty = summary.clusters.length === 0;
  return [
    head(summary),
    needs(summary),
    going(summary),
    h("section", {}, h("h2", {}, "Clusters"), isEmpty ? h("p", { class: "empty" }, "There is no cluster yet.") : clusters(summary, redraw), isEmpty ? null : legend(summary)),
    levels(summary, false, redraw),
    h("section", {}, h("h2", {}, "Zones"), zones(summary, redraw)),
  ];
}

/** @param {any} summary */
function note(summary) {
  const names = new Set(summary.clusters.map((/** @type {any} */ one) => one.name));
  for (const one of seen.keys()) if (!names.has(one)) seen.delete(one);
  const at = Math.floor(Date.now() / 1000);
  for (const { name, requests_per_s } of summary.clusters) {
    const points = seen.get(name) ?? [];
    // The page is also drawn anew when a person orders a table.
    if (points[points.length - 1]?.at !== at) points.push({ at, value: requests_per_s });
    seen.set(name, points.slice(-SEEN_MAX));
  }
}

/** @param {any} summary */
function head(summary) {
  const { members, routers } = summary;
  const all = (/** @type {Record<string, number>} */ counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);
  const fact = (/** @type {string} */ what, /** @type {any} */ text) => h("div", {}, h("dt", {}, what), h("dd", {}, text));
  const generation = isKnown(summary.generation) ? [`${summary.generation} `, h("span", { class: "quiet" }, name(summary.reason ?? ""))] : "none yet";
  return h(
    "div",
    { class: "top" },
    h("h1", {}, "Fleet ", name(summary.fleet)),
    h(
      "dl",
      { class: "facts" },
      fact("Generation", generation),
      fact("Servers", `${members.serving + members.draining} serving, ${members.spare} spare of ${all(members)}`),
      fact("Routers", `${routers.current} of ${all(routers)} have the routes in force`),
      fact("Answered by", name(summary.controller)),
    ),
  );
}

/** @param {any} summary */
function needs(summary) {
  const rows = summary.needs.map((/** @type {any} */ need) =>
    h("li", { class: "need " + need.urgency }, h("span", { class: "urgency" }, URGENCIES[need.urgency] ?? need.urgency), h("span", { class: "what" }, about(need)), need.command ? command(need.command) : null),
  );
  const more = summary.needs_left_out ? h("p", { class: "quiet" }, `${summary.needs_left_out} more; evenkeel control status lists all.`) : null;
  const others = rows.slice(NEEDS_SEEN);
  const rest = others.length ? h("details", { id: "needs" }, h("summary", {}, others.length + " more"), h("ul", {}, others)) : null;
  const heading = rows.length ? `Needs you: ${rows.length + (summary.needs_left_out ?? 0)}` : "Needs you";
  const nothing = h("p", { class: "empty good" }, "✓ Nothing needs you.");
  return h("section", { class: "needs" }, h("h2", {}, heading), rows.length ? h("ul", {}, rows.slice(0, NEEDS_SEEN)) : nothing, rest, more);
}

/** @param {any} need */
function about(need) {
  const page = /** @type {Record<string, string>} */ ({ member: "server", host: "host", routers: "routers", change: "change", rollout: "history" })[need.about.kind];
  if (!page) return visible(need.text);
  const id = need.about.id ? "/" + encodeURIComponent(need.about.id) : "";
  return h("a", { href: `#/${page}${id}` }, visible(need.text));
}

/**
 * @param {any} summary
 * @param {() => void} redraw
 */
function clusters(summary, redraw) {
  // Figures stand beside the slots, so these have a third of the width at most.
  const columns = innerWidth > 3 * 100 * STEP ? 100 : innerWidth > 1500 ? 40 : 20;
  const share = (/** @type {any} */ one) => (one.memory_limit_bytes > 0 ? one.memory_used_bytes / one.memory_limit_bytes : null);
  const page = (/** @type {any} */ one, /** @type {any} */ text) => h("a", { href: "#/cluster/" + encodeURIComponent(one.name) }, text);
  /** @type {import("../table.js").Column<any>[]} */
  const all = [
    { head: "Cluster", isText: true, by: (one) => one.name, cell: (one) => page(one, name(one.name)) },
    { head: "Slots", isText: true, by: (one) => one.slots, cell: (one) => [slots(one.slot_states, columns), one.slots > 12 ? h("span", { class: "quiet" }, ` ${one.slots}`) : null] },
    { head: "Requests/s", by: (one) => one.requests_per_s, cell: (one) => [spark(seen.get(one.name) ?? [], short), " ", short(one.requests_per_s)] },
    { head: "Hits", by: (one) => one.hit_ratio, cell: (one) => percent(one.hit_ratio) },
    { head: "p99 service", title: "99 % of the gets took less once it was their turn, on the slowest slot", by: (one) => one.service_p99_us, cell: (one) => micros(one.service_p99_us) },
    { head: "p99 wait", title: "99 % of the input waited less for its worker, on the slowest slot", by: (one) => one.wait_p99_us, cell: (one) => micros(one.wait_p99_us) },
    { head: "Memory", by: share, cell: (one) => (isKnown(one.memory_limit_bytes) ? bar(share(one), `${percent(share(one), 0)} of ${bytes(one.memory_limit_bytes)}`) : "–") },
    { head: "Fullest", title: "Memory used of the limit, on the slot that is fullest", by: (one) => one.fullest_share, cell: (one) => page(one, percent(one.fullest_share, 0)) },
    { head: "Evictions/s", by: (one) => one.evictions_per_s, cell: (one) => short(one.evictions_per_s) },
    { head: "Skew", title: "Requests of the busiest slot over those of the mean slot", by: (one) => one.skew, cell: (one) => page(one, isKnown(one.skew) ? one.skew.toFixed(2) + " ×" : "–") },
  ];
  return table("clusters", "Clusters, summed over the servers of their slots", all, summary.clusters, redraw);
}

/** @param {any} summary */
function legend(summary) {
  const used = new Set(summary.clusters.flatMap((/** @type {any} */ one) => [...one.slot_states]));
  const entries = Object.entries(SLOT_STATES).filter(([letter]) => used.has(letter));
  return h("p", { class: "legend quiet" }, entries.map(([letter, { word }]) => h("span", {}, slots(letter, 1), " ", word)));
}

/** @param {any} summary */
function going(summary) {
  const { rollout, changes } = summary;
  const rows = [];
  if (rollout && rollout.state !== "done") {
    const where = rollout.halted_why ?? [rollout.wave, rollout.waits_for ? `waits for ${rollout.waits_for}` : null].filter((one) => one).join("; ");
    rows.push(progress("history", `Routes of generation ${rollout.generation}`, rollout.state, rollout.have, rollout.of, "router", where));
  }
  for (const change of changes) rows.push(progress("change/" + change.number, `Change ${change.number}: ${change.what}`, change.state, change.counts.changed, change.hosts, "host", ""));
  return rows.length ? h("section", {}, h("h2", {}, "On its way"), h("ul", { class: "going" }, rows)) : null;
}

/**
 * @param {string} page
 * @param {string} what
 * @param {string} state
 * @param {number} have
 * @param {number} of
 * @param {string} unit
 * @param {string} where
 */
function progress(page, what, state, have, of, unit, where) {
  return h("li", {}, h("a", { href: "#/" + page }, visible(what)), " ", h("span", { class: "state " + state }, state), " ", bar(of ? have / of : null, `${have} of ${counted(of, unit)}`), " ", h("span", { class: "quiet" }, visible(where)));
}

/**
 * @param {any} summary
 * @param {() => void} redraw
 */
function zones(summary, redraw) {
  const rows = Object.entries(summary.zones).map(([zone, counts]) => ({ zone, .../** @type {any} */ (counts) }));
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Zone", isText: true, by: (one) => one.zone, cell: (one) => name(one.zone) },
    { head: "Servers", by: (one) => one.members, cell: (one) => one.members },
    { head: "Serving", by: (one) => one.serving, cell: (one) => one.serving },
    { head: "Spare", by: (one) => one.spare, cell: (one) => one.spare },
  ];
  return rows.length ? table("zones", "Servers by zone", columns, rows, redraw) : h("p", { class: "empty" }, "There is no server yet.");
}
