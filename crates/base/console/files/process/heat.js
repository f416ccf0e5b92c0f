// Heat maps: how many requests took how long, over time.

import { h, svg } from "../dom.js";
import { micros, short, time } from "../words.js";
import { sum, times, total } from "./seen.js";

/** Seconds of a column. Ten minutes are 60 columns; a page that was just opened has two minutes. */
const COLUMN_S = 10;
const [COLUMNS_MIN, COLUMNS_MAX] = [12, 60];
/** Rows are powers of two in microseconds: from 4 µs to 16 s. What took longer is in the last one. */
const [ROW_MIN, ROW_MAX] = [2, 24];
/** Shades, from one request to most of a column. */
const SHADES = 5;

/**
 * @param {string} title
 * @param {import("./seen.js").Moment[]} moments
 * @param {(figures: Record<string, any>) => import("./seen.js").Buckets | null | undefined} of
 */
export function heat(title, moments, of) {
  const number = (/** @type {number} */ at) => Math.floor(at / COLUMN_S);
  const [first, last] = moments.length ? [number(moments[0].at), number(moments[moments.length - 1].at)] : [0, 0];
  const count = Math.min(Math.max(last - first + 1, COLUMNS_MIN), COLUMNS_MAX);
  const begin = last - count + 1;
  const columns = Array.from({ length: count }, (_, column) => sum(moments.filter(({ at }) => number(at) === begin + column).map(({ figures }) => of(figures) ?? null)));
  const all = sum(columns);
  const known = times(all);
  const head = h("figcaption", {}, h("span", {}, title), h("span", { class: "figure" }, known ? `p50 < ${micros(known.p50)} · p99 < ${micros(known.p99)}` : "–"));
  if (!known) return h("figure", { class: "chart" }, head, h("p", { class: "empty" }, "None were seen yet."));
  const used = [...all.keys()].map(row);
  // A row more on either side, so that a map of one row is seen as one.
  const [low, high] = [Math.max(Math.min(...used) - 1, ROW_MIN), Math.min(Math.max(...used) + 1, ROW_MAX)];
  const [width, height, left, bottom, top] = [420, 150, 52, 16, 6];
  const [wide, tall] = [(width - left - 4) / count, (height - bottom - top) / (high - low + 1)];
  const y = (/** @type {number} */ row) => top + (high - row) * tall;
  /** Cells of a shade are one path: ten minutes are at most as many elements as there are shades. */
  const paths = Array.from({ length: SHADES }, () => "");
  columns.forEach((buckets, at) => {
    const most = total(buckets);
    /** @type {Map<number, number>} */
    const rows = new Map();
    for (const [end, one] of buckets) rows.set(row(end), (rows.get(row(end)) ?? 0) + one);
    for (const [row, one] of rows) paths[shade(one / most)] += `M${(left + at * wide).toFixed(1)} ${y(row).toFixed(1)}h${wide.toFixed(2)}v${tall.toFixed(2)}h-${wide.toFixed(2)}z`;
  });
  const every = Math.max(1, Math.ceil((high - low + 1) / 6));
  const scale = [];
  for (let row = low; row <= high; row += every) scale.push(svg("text", { x: left - 4, y: y(row) + 3, "text-anchor": "end" }, micros(2 ** row)), svg("line", { class: "grid", x1: left, x2: width - 4, y1: y(row), y2: y(row) }));
  const [from, to] = [begin * COLUMN_S, (last + 1) * COLUMN_S];
  const dates = [svg("text", { x: left, y: height - 3 }, time(from)), svg("text", { x: width - 4, y: height - 3, "text-anchor": "end" }, time(to))];
  const said = `${title}: of ${short(total(all))} since ${time(from)}, half took less than ${micros(known.p50)}, 99 % less than ${micros(known.p99)}, all less than ${micros(known.max)}`;
  return h("figure", { class: "chart" }, head, svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, scale, dates, paths.map((d, at) => svg("path", { class: "heat heat" + at, d }))));
}

/** What the shades mean. */
export function legend() {
  const square = (/** @type {number} */ at) => svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { class: "heat heat" + at, d: "M0 0h12v12h-12z" }));
  return h("p", { class: "legend quiet" }, h("span", {}, `In each ${COLUMN_S} s: few `, Array.from({ length: SHADES }, (_, at) => square(at)), " most. A line is the end of a row; each row is twice as long as the one below."));
}

/** @param {number} end */
function row(end) {
  return Math.min(Math.max(Math.ceil(Math.log2(Math.max(end, 1))), ROW_MIN), ROW_MAX);
}

/** The slow ones are few: each shade is a share four times that of the one before. @param {number} share */
function shade(share) {
  return Math.max(0, Math.min(SHADES - 1, Math.floor(SHADES + Math.log(share) / Math.log(4))));
}
