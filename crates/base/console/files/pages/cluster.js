// A cluster: its servers, each in a row.

import { h, name as shown } from "../dom.js";
import { table } from "../table.js";
import { counted, duration, isKnown } from "../words.js";
import { SERVER_COLUMNS, last } from "./servers.js";

/** Half an hour of points is asked for. */
const SINCE_S = 1800;
/** Of so many servers a controller gives them all: 120 of each. Of more, the last ones are shown. */
const COURSES_MAX = 128;

export const title = (/** @type {string} */ name) => "Cluster " + name;
export const reads = (/** @type {string} */ name, /** @type {Record<string, any>} */ { latest }) => {
  const path = "/v1/figures?cluster=" + encodeURIComponent(name);
  // The same path for a minute: a course of half an hour, which costs a controller more than all else, is asked for once in it.
  const since = Math.floor(Date.now() / 60000) * 60 - SINCE_S;
  /** @type {Record<string, string>} */
  const documents = { latest: path };
  if (latest?.servers?.length <= COURSES_MAX) documents.points = `${path}&since=${since}`;
  return documents;
};
export const optional = new Set(["points"]);
export const once = new Set(["points"]);

/** Mean time that an item stays before it makes room for another (Little's law). @param {any} row */
const stay = (row) => (last(row).evictions_per_s > 0 && isKnown(last(row).items) ? last(row).items / last(row).evictions_per_s : null);

/** @type {import("../table.js").Column<any>} */
const SKEW = { head: "Skew", title: "Requests, as a multiple of the mean server's", by: (row) => row.skew, cell: (row) => (isKnown(row.skew) ? row.skew.toFixed(2) + " ×" : "–") };
/** @type {import("../table.js").Column<any>} */
const STAY = { head: "Evicted after", title: "Mean time that an item stays before it makes room for another: items divided by evictions per second", by: stay, cell: (row) => duration(stay(row)) };

/** Beside the requests stands how they compare with those of the others. */
const COLUMNS = SERVER_COLUMNS.flatMap((column) => (column.head === "Requests/s" ? [column, SKEW] : [column])).concat(STAY);

/**
 * @param {Record<string, any>} documents
 * @param {string} name
 * @param {() => void} redraw
 */
export function draw({ latest, points }, name, redraw) {
  const courses = new Map((points?.servers ?? []).map((/** @type {any} */ row) => [row.id, row.points]));
  const rates = latest.servers.map((/** @type {any} */ row) => last(row).requests_per_s).filter(isKnown);
  const mean = rates.reduce((/** @type {number} */ sum, /** @type {number} */ rate) => sum + rate, 0) / rates.length;
  const skew = (/** @type {any} */ row) => (mean > 0 && isKnown(last(row).requests_per_s) ? last(row).requests_per_s / mean : null);
  const rows = latest.servers.map((/** @type {any} */ row) => ({ ...row, skew: skew(row), points: joined(courses.get(row.id) ?? [], row.points) }));
  return [
    h("h1", {}, "Cluster ", shown(name)),
    h("p", { class: "quiet" }, counted(rows.length, "server"), " in its slots. ", h("a", { href: "#/" }, "All clusters")),
    rows.length ? table("servers", "Servers of the cluster", COLUMNS, rows, redraw, "Skew") : h("p", { class: "empty" }, "No figures yet: agents tell them every 15 s."),
  ];
}

/**
 * A course with what was told since.
 * @param {any[]} course
 * @param {any[]} newest
 */
function joined(course, newest) {
  const since = newest[0]?.at_unix ?? Infinity;
  return [...course.filter((point) => point.at_unix < since), ...newest];
}
