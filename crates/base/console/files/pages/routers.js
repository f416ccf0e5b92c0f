// Routers: which configuration each one runs, its figures, and what was answered well.

import { spark } from "../charts.js";
import { command, h, name, visible } from "../dom.js";
import { level, levels } from "../levels.js";
import { table } from "../table.js";
import { counted, micros, percent, short } from "../words.js";
import { age, last, ownPage, series } from "./servers.js";

export const title = () => "Routers";
export const reads = () => ({ figures: "/v1/figures?of=routers", summary: "/v1/summary", shadows: "/v1/shadows" });
export const optional = new Set(["shadows"]);

/**
 * @param {Record<string, any>} documents
 * @param {string} _
 * @param {() => void} redraw
 */
export function draw({ figures, summary, shadows }, _, redraw) {
  const usual = configurations(figures.routers);
  const isUsual = (/** @type {any} */ row) => !row.loaded || row.loaded === usual.get(row.view);
  // Those with another configuration come first.
  const rows = [...figures.routers].sort((one, other) => Number(isUsual(one)) - Number(isUsual(other)));
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Router", isText: true, by: (row) => row.id, cell: (row) => router(row, figures.controller) },
    { head: "Host", isText: true, by: (row) => row.host, cell: (row) => h("a", { href: "#/host/" + encodeURIComponent(row.host) }, name(row.host)) },
    { head: "View", isText: true, by: (row) => row.view, cell: (row) => name(row.view) },
    { head: "Configuration", isText: true, by: (row) => row.loaded ?? "", cell: (row) => configuration(row, usual) },
    { head: "Age", by: (row) => last(row).age_s, cell: (row) => age(last(row).age_s) },
    { head: "Requests/s", by: (row) => last(row).requests_per_s, cell: (row) => [spark(series(row, "requests_per_s"), short), " ", short(last(row).requests_per_s)] },
    { head: "Answered well", by: (row) => last(row).availability, cell: (row) => level(last(row).availability) },
    { head: "Hits", by: (row) => last(row).hit_ratio, cell: (row) => percent(last(row).hit_ratio) },
    { head: "p99 reply", title: "99 % of the replies of servers took less", by: (row) => last(row).reply_p99_us, cell: (row) => micros(last(row).reply_p99_us) },
    { head: "Not asked", title: "Servers that it does not ask because they do not answer (TKO)", by: (row) => last(row).unavailable_servers, cell: (row) => short(last(row).unavailable_servers) },
    { head: "Failovers/s", by: (row) => last(row).failovers_per_s, cell: (row) => short(last(row).failovers_per_s) },
    { head: "CPUs", by: (row) => last(row).cpus, cell: (row) => short(last(row).cpus) },
    { head: "Clients", by: (row) => last(row).clients, cell: (row) => short(last(row).clients) },
  ];
  const others = rows.filter((row) => !isUsual(row));
  const said = others.length
    ? h("p", { class: "bad" }, `${counted(others.length, "router")} ${others.length === 1 ? "runs" : "run"} another configuration than most of the same view: `, others.slice(0, 10).map((/** @type {any} */ row, /** @type {number} */ at) => [at ? ", " : "", name(row.id)]))
    : h("p", { class: "quiet" }, "All routers of a view run the same configuration.");
  const all = rows.length ? table("routers", "Routers", columns, rows, redraw) : h("p", { class: "empty" }, "No figures yet: agents tell them every 15 s.");
  return [h("h1", {}, "Routers"), rows.length ? said : null, levels(summary, true, redraw), h("section", {}, h("h2", {}, "Each router"), all), compared(shadows, redraw)];
}

/** A router, with a link to its own page where that is reached. @param {any} row @param {string} controller */
function router(row, controller) {
  const page = ownPage(row, controller);
  return page?.isReached ? h("a", { href: page.href }, name(row.id)) : name(row.id);
}

/**
 * What routers have found about shadows: answers of another cluster, compared with those that clients got.
 * @param {any} shadows
 * @param {() => void} redraw
 */
function compared(shadows, redraw) {
  if (shadows.error) return h("section", {}, h("h2", {}, "Shadows"), h("p", { class: "empty" }, visible(shadows.error) + "."));
  if (!shadows.shadows?.length) return null;
  const pair = (/** @type {any} */ row, /** @type {string} */ part) => (row.found ? `${micros(row.found.normal_us?.[part])} and ${micros(row.found.shadow_us?.[part])}` : "–");
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Shadow", isText: true, by: (row) => row.shadow, cell: (row) => name(row.shadow) },
    { head: "Routers", title: "That tell what they compare, of those that have it", by: (row) => row.routers_telling, cell: (row) => `${row.routers_telling} of ${row.routers_reading}` },
    { head: "Compared", by: (row) => row.found?.compared, cell: (row) => short(row.found?.compared) },
    { head: "Differ", by: (row) => row.found?.differed_share, cell: (row) => percent(row.found?.differed_share, 3) },
    { head: "Hits", title: "Of the cluster, and of its shadow", by: (row) => row.found?.shadow_hits, cell: (row) => (row.found ? `${short(row.found.normal_hits)} and ${short(row.found.shadow_hits)}` : "–") },
    { head: "p50", title: "Of the cluster, and of its shadow", cell: (row) => pair(row, "p50") },
    { head: "p99", title: "Of the cluster, and of its shadow", by: (row) => row.found?.shadow_us?.p99, cell: (row) => pair(row, "p99") },
  ];
  return h("section", {}, h("h2", {}, "Shadows, in the last hour"), table("shadows", "Replies of shadows, compared with those that clients got", columns, shadows.shadows, redraw), h("p", {}, command("evenkeel control shadow report")));
}

/** The configuration that most routers of each view run. @param {any[]} rows @returns {Map<string, string>} */
function configurations(rows) {
  /** @type {Map<string, Map<string, number>>} */
  const counts = new Map();
  for (const { view, loaded } of rows) {
    if (!loaded) continue;
    const of = counts.get(view) ?? new Map();
    counts.set(view, of.set(loaded, (of.get(loaded) ?? 0) + 1));
  }
  return new Map([...counts].map(([view, of]) => [view, [...of].sort((one, other) => other[1] - one[1])[0][0]]));
}

/** @param {any} row @param {Map<string, string>} usual */
function configuration(row, usual) {
  if (!row.loaded) return h("span", { class: "quiet" }, "–");
  const text = row.loaded.slice(0, 8);
  return row.loaded === usual.get(row.view) ? h("code", {}, text) : h("strong", { class: "bad" }, h("code", {}, text), " another !");
}
