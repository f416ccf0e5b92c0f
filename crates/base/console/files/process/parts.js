// Parts that the pages of servers and routers have in common.

import { bar } from "../charts.js";
import { h, name } from "../dom.js";
import { UNKNOWN, duration, isKnown, micros, percent, short } from "../words.js";

/** What is said before there are two reports. */
export const SOON = "Rates need two reports: a moment.";

/**
 * What is said in place of a course without points.
 * @param {import("./seen.js").Seen} seen
 */
export const without = (seen) => (seen.moments.length < 3 ? SOON : "There are no figures of it.");

/** A text of a report, or what is said without one. @param {any} value */
export const text = (value) => (value === undefined || value === null ? UNKNOWN : name(String(value)));

/**
 * The head of a page.
 * @param {string} title
 * @param {[string, any][]} facts
 */
export function head(title, facts) {
  return h("div", { class: "top" }, h("h1", {}, title, " ", name(location.host)), h("dl", { class: "facts" }, facts.map(([what, text]) => h("div", {}, h("dt", {}, what), h("dd", {}, text)))));
}

/**
 * @param {string} title
 * @param {...any} children
 */
export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), children);
}

/** A time since the start, from microseconds. @param {number} us */
export const uptime = (us) => duration(us / 1e6);

/**
 * A figure that should be none, marked if it is not.
 * @param {number | null | undefined} value
 * @param {string} text
 */
export function alarm(value, text) {
  return isKnown(value) && value > 0 ? h("strong", { class: "bad" }, text + " !") : text;
}

/**
 * A share with a bar, in the colours of `evenkeel top`: marked from `warn` on, and from `bad` on.
 * @param {number | null | undefined} share
 * @param {number} warn
 * @param {number} bad
 */
export function gauge(share, warn, bad) {
  const look = !isKnown(share) || share < warn ? null : share < bad ? "warn" : "bad";
  const drawn = bar(share, percent(share, 0) + (look ? " !" : ""));
  if (look) drawn.classList.add(look);
  return drawn;
}

/** Columns of times, of rows that have them as `times`; of rows that can have none, nothing is shown. @type {import("../table.js").Column<any>[]} */
export const TIMES = [
  { head: "p50 <", title: "Half took less: the end of a bucket", by: (row) => row.times?.p50, cell: (row) => (row.times === undefined ? "" : micros(row.times?.p50)) },
  { head: "p99 <", title: "99 % took less", by: (row) => row.times?.p99, cell: (row) => (row.times === undefined ? "" : micros(row.times?.p99)) },
  { head: "max <", title: "All took less", by: (row) => row.times?.max, cell: (row) => (row.times === undefined ? "" : micros(row.times?.max)) },
];

/**
 * The keys with most of something, as they are named in the report.
 * @param {string} by
 * @param {any} keys
 */
export function hot(by, keys) {
  const rows = Array.isArray(keys) ? keys : [];
  const line = (/** @type {any} */ one) => h("li", {}, h("span", { class: "figure" }, percent(one.share, 2)), " ", name(String(one.key)));
  return h("div", {}, h("h3", {}, "by " + by), rows.length ? h("ol", { class: "hot" }, rows.map(line)) : h("p", { class: "empty" }, "none"));
}

/** @param {number | null | undefined} value */
export const perSecond = (value) => short(value) + "/s";
