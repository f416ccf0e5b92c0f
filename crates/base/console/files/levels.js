// Service levels: the share of requests that were answered well.

import { h, name } from "./dom.js";
import { table } from "./table.js";
import { availability, isKnown, percent, short } from "./words.js";

/** Below this share a level is marked: one request in a thousand went wrong. */
const LEVEL_MIN = 0.999;

/** @param {import("./words.js").Figure} share */
export function level(share) {
  return isKnown(share) && share < LEVEL_MIN ? h("strong", { class: "bad" }, availability(share) + " !") : availability(share);
}

/**
 * Levels of views and pools.
 * @param {any} summary
 * @param {boolean} isWhole With failovers of views.
 * @param {() => void} redraw
 */
export function levels(summary, isWhole, redraw) {
  if (!summary.levels.length) return null;
  const failovers = (/** @type {string} */ within, /** @type {string} */ field) => ({
    head: "Failovers " + within,
    title: "Requests to another server than the first one, because that did not answer, of all requests",
    by: (/** @type {any} */ one) => one[field],
    // It leads from one pool to another, so a pool has none.
    cell: (/** @type {any} */ one) => (one.pool === null ? percent(one[field], 3) : ""),
  });
  /** @type {import("./table.js").Column<any>[]} */
  const columns = [
    { head: "View", isText: true, by: (one) => one.view, cell: (one) => name(one.view) },
    { head: "Pool", isText: true, by: (one) => one.pool ?? "", cell: (one) => (one.pool === null ? h("span", { class: "quiet" }, "all requests") : name(one.pool)) },
    { head: "Requests/s", by: (one) => one.requests_per_s, cell: (one) => short(one.requests_per_s) },
    { head: "5 min", by: (one) => one.availability_5min, cell: (one) => level(one.availability_5min) },
    { head: "1 h", by: (one) => one.availability_1h, cell: (one) => level(one.availability_1h) },
    { head: "24 h", by: (one) => one.availability_24h, cell: (one) => level(one.availability_24h) },
    ...(isWhole ? [failovers("5 min", "failovers_5min"), failovers("1 h", "failovers_1h"), failovers("24 h", "failovers_24h")] : []),
  ];
  return h("section", {}, h("h2", {}, "Requests answered well"), table("levels", "Share of the requests of routers that were answered without an error", columns, summary.levels, redraw));
}
