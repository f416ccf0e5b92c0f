// Drawings: slots as shapes, lines over time. Each has a text that says the same.

import { h, svg } from "./dom.js";
import { SLOT_STATES, isKnown, time } from "./words.js";

/** Distance from a slot to the next one in pixels; its shape is 9 wide. */
export const STEP = 11;
/** So many slots are drawn smaller. */
const SMALL_FROM = 256;

/**
 * Shapes of states, as a path in a square of nine pixels: a state is seen without its colour, too.
 * @type {Record<string, string>}
 */
const SHAPES = {
  s: "h9v9h-9z",
  d: "v9h9z",
  u: "h9v9h-9zm2 2v5h5v-5z",
  l: "l9 9m0-9l-9 9",
  h: "m4.5 0l4.5 4.5l-4.5 4.5l-4.5-4.5z",
  "?": "m3 3h3v3h-3z",
};

/**
 * The slots of a cluster, each a shape for the state of its member.
 * @param {string} states A letter for each slot.
 * @param {number} columns
 */
export function slots(states, columns) {
  // A thousand slots in large shapes would push all else out of sight.
  const scale = states.length > SMALL_FROM ? 0.6 : 1;
  const wide = Math.min(Math.floor(columns / scale), Math.max(states.length, 1));
  const rows = Math.max(1, Math.ceil(states.length / wide));
  /** @type {Record<string, string>} */
  const paths = {};
  /** @type {Record<string, number>} */
  const counts = {};
  [...states].forEach((letter, at) => {
    const shape = SHAPES[letter] ? letter : "?";
    paths[shape] = (paths[shape] ?? "") + `M${(at % wide) * STEP + 1} ${Math.floor(at / wide) * STEP + 1}${SHAPES[shape]}`;
    counts[shape] = (counts[shape] ?? 0) + 1;
  });
  const said = Object.entries(counts).map(([letter, count]) => `${count} ${SLOT_STATES[letter].word}`).join(", ");
  const shapes = Object.entries(paths).map(([letter, d]) => svg("path", { d, class: "slot " + SLOT_STATES[letter].look, "fill-rule": "evenodd" }));
  const [width, height] = [wide * STEP + 1, rows * STEP + 1];
  return svg("svg", { class: "slots", width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, svg("title", {}, said), shapes);
}

/** @typedef {{at: number, value: number | null}} Point Seconds since 1970, and a figure if it is known. */

/**
 * A small line without axes; its highest and lowest value are in its text.
 * @param {Point[]} points
 * @param {(value: number) => string} words
 */
export function spark(points, words) {
  const known = /** @type {{at: number, value: number}[]} */ (points.filter((point) => isKnown(point.value)));
  if (known.length < 2) return h("span", { class: "quiet" }, "");
  const top = Math.max(...known.map((point) => point.value));
  const low = Math.min(...known.map((point) => point.value));
  const [width, height] = [72, 16];
  const first = known[0].at;
  const span = Math.max(known[known.length - 1].at - first, 1);
  const place = (/** @type {{at: number, value: number}} */ { at, value }) => `${(((at - first) / span) * (width - 2) + 1).toFixed(1)} ${(height - 2 - (top > 0 ? value / top : 0) * (height - 4)).toFixed(1)}`;
  const said = `from ${words(low)} to ${words(top)} since ${time(first)}`;
  return svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, svg("title", {}, said), svg("polyline", { points: known.map(place).join(" ") }));
}

/**
 * Lines over time with their scales. A gap is where nothing is known.
 * @param {string} title
 * @param {{name: string, points: Point[]}[]} series
 * @param {(value: number) => string} words
 * @param {string} [none] What is said while there are too few points.
 */
export function chart(title, series, words, none = "No figures yet: agents tell them every 15 s.") {
  const known = series.flatMap(({ points }) => points).filter((point) => isKnown(point.value));
  const head = (/** @type {string[]} */ now) => h("figcaption", {}, h("span", {}, title), h("span", { class: "keys" }, now.map((text, at) => h("span", { class: now.length > 1 ? "figure key key" + at : "figure" }, text))));
  if (known.length < 2) return h("figure", { class: "chart" }, head([]), h("p", { class: "empty" }, none));
  const values = known.map((point) => /** @type {number} */ (point.value));
  const top = nice(Math.max(...values));
  const [from, to] = [Math.min(...known.map((point) => point.at)), Math.max(...known.map((point) => point.at))];
  const [width, height, left, bottom] = [420, 120, 52, 16];
  const x = (/** @type {number} */ at) => left + ((at - from) / Math.max(to - from, 1)) * (width - left - 4);
  const y = (/** @type {number} */ value) => height - bottom - (value / top) * (height - bottom - 8);
  const lines = series.map(({ name, points }, at) => svg("path", { class: "line line" + at, d: path(points, x, y) }, svg("title", {}, name)));
  const scale = [0, top / 2, top].map((value) => [
    svg("line", { class: "grid", x1: left, x2: width - 4, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 4, y: y(value) + 3, "text-anchor": "end" }, words(value)),
  ]);
  const times = [svg("text", { x: left, y: height - 3 }, time(from)), svg("text", { x: width - 4, y: height - 3, "text-anchor": "end" }, time(to))];
  const last = series.map(({ name, points }) => {
    const value = points[points.length - 1]?.value;
    return (series.length > 1 ? name + " " : "") + (isKnown(value) ? words(value) : "–");
  });
  const said = `${title}: now ${last.join(", ")}; from ${words(Math.min(...values))} to ${words(Math.max(...values))} between ${time(from)} and ${time(to)}`;
  return h("figure", { class: "chart" }, head(last), svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, scale, times, lines));
}

/**
 * @param {Point[]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
function path(points, x, y) {
  let isDrawn = false;
  let d = "";
  for (const { at, value } of points) {
    if (isKnown(value)) d += (isDrawn ? "L" : "M") + x(at).toFixed(1) + " " + y(value).toFixed(1);
    isDrawn = isKnown(value);
  }
  return d;
}

/** The next round figure above. @param {number} value */
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

/**
 * How much of something is used: a bar with its text.
 * @param {number | null | undefined} share
 * @param {string} text
 */
export function bar(share, text) {
  const used = isKnown(share) ? Math.max(0, Math.min(share, 1)) : 0;
  return h("span", { class: "bar" }, svg("svg", { width: 60, height: 8, viewBox: "0 0 60 8", "aria-hidden": "true" }, svg("rect", { class: "room", width: 60, height: 8 }), svg("rect", { class: "used", width: used * 60, height: 8 })), h("span", { class: "figure" }, text));
}

/**
 * What something is used for: a bar of parts, and a list of them.
 * @param {string} title
 * @param {[string, number][]} uses Parts of the whole, each with its name. Those that are not known are left out.
 * @param {number} whole
 * @param {(value: number) => string} words
 */
export function parts(title, uses, whole, words) {
  const known = uses.filter(([, value]) => isKnown(value));
  const free = whole - known.reduce((sum, [, value]) => sum + value, 0);
  let x = 0;
  const drawn = known.map(([, value], at) => {
    const width = Math.max(0, Math.min((value / whole) * 100, 100 - x));
    x += width;
    return svg("rect", { class: "part part" + at, x: x - width, width, height: 10 });
  });
  const key = (/** @type {string} */ look) => svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { class: look, width: 12, height: 12 }));
  const entries = known.map(([name, value], at) => h("span", {}, key("part part" + at), ` ${name} ${words(value)}`));
  const said = `${title}: ` + known.map(([name, value]) => `${name} ${words(value)}`).join(", ") + ` of ${words(whole)}`;
  return [
    svg("svg", { class: "parts", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": said }, svg("rect", { class: "room", width: 100, height: 10 }), drawn),
    h("p", { class: "legend" }, entries, h("span", {}, key("room"), ` free ${words(Math.max(free, 0))}`)),
  ];
}
