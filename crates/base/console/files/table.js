// Tables whose rows a person may order.

import { h } from "./dom.js";
import { isKnown } from "./words.js";

/**
 * @template R
 * @typedef {object} Column
 * @property {string} head
 * @property {(row: R) => any} cell What is shown.
 * @property {(row: R) => string | number | null | undefined} [by] What rows are ordered by; without it they are not.
 * @property {boolean} [isText] It is a name or a text; otherwise a figure.
 * @property {string} [title] What the head means.
 */

/** How each table is ordered: it stays so while the page is open. @type {Map<string, {at: number, isDown: boolean}>} */
const orders = new Map();

/** Rows that are drawn at once: what a person can look through. */
const ROWS_MAX = 200;
/** With more rows than this, a person may search among them. */
const SEARCH_FROM = 20;
/** Fields to search in, by table: the same element each time, with what was typed. @type {Map<string, HTMLInputElement>} */
const searches = new Map();

/**
 * @template R
 * @param {string} id
 * @param {string} caption
 * @param {Column<R>[]} columns
 * @param {R[]} rows
 * @param {() => void} redraw
 * @param {string} [first] The column that rows are ordered by, the largest first, until a person orders them.
 */
export function table(id, caption, columns, rows, redraw, first) {
  const at = columns.findIndex((column) => column.head === first);
  const order = orders.get(id) ?? (at < 0 ? undefined : { at, isDown: true });
  const by = order && columns[order.at]?.by;
  const search = rows.length > SEARCH_FROM ? searched(id, caption, redraw) : null;
  const wanted = search?.value.toLowerCase();
  const texts = columns.filter((column) => column.isText && column.by);
  const found = wanted ? rows.filter((row) => texts.some((column) => String(column.by?.(row)).toLowerCase().includes(wanted))) : rows;
  const shown = by ? [...found].sort((one, other) => compare(by(one), by(other), order.isDown)) : found;
  const head = columns.map((column, at) => {
    const sort = order?.at === at ? (order.isDown ? "descending" : "ascending") : null;
    const look = column.isText ? null : "figure";
    if (!column.by) return h("th", { scope: "col", class: look, title: column.title }, column.head);
    const mark = sort ? (order?.isDown ? " ↓" : " ↑") : "";
    const click = () => {
      orders.set(id, { at, isDown: order?.at === at ? !order.isDown : !column.isText });
      redraw();
    };
    return h("th", { scope: "col", class: look, "aria-sort": sort, title: column.title }, h("button", { type: "button", id: `${id}-by-${at}`, click }, column.head + mark));
  });
  const row = (/** @type {R} */ one) => h("tr", {}, columns.map((column, at) => (at === 0 ? h("th", { scope: "row" }, column.cell(one)) : h("td", { class: column.isText ? null : "figure" }, column.cell(one)))));
  const more = shown.length > ROWS_MAX ? h("p", { class: "quiet" }, `The first ${ROWS_MAX} of ${shown.length} rows. Order them by another column, or search, to see others.`) : null;
  const count = wanted ? h("span", { class: "quiet", role: "status" }, ` ${shown.length} of ${rows.length}`) : null;
  return [
    search ? h("p", {}, search, count) : null,
    h("div", { class: "wide", id: id + "-table", tabindex: 0, role: "region", "aria-label": caption }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, shown.slice(0, ROWS_MAX).map(row))), more),
  ];
}

/**
 * @param {string} id
 * @param {string} caption
 * @param {() => void} redraw
 */
function searched(id, caption, redraw) {
  const field = searches.get(id) ?? /** @type {HTMLInputElement} */ (h("input", { id: id + "-search", type: "search", placeholder: "Search names", "aria-label": "Search in: " + caption, input: redraw }));
  searches.set(id, field);
  return field;
}

/**
 * What is not known comes last, in either order.
 * @param {string | number | null | undefined} one
 * @param {string | number | null | undefined} other
 * @param {boolean} isDown
 */
function compare(one, other, isDown) {
  if (typeof one === "string" && typeof other === "string") return (isDown ? -1 : 1) * one.localeCompare(other, "en", { numeric: true });
  const [a, b] = [/** @type {any} */ (one), /** @type {any} */ (other)];
  if (!isKnown(a) || !isKnown(b)) return Number(isKnown(b)) - Number(isKnown(a));
  return isDown ? b - a : a - b;
}
