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

/**
 * @template R
 * @param {string} id
 * @param {string} caption
 * @param {Column<R>[]} columns
 * @param {R[]} rows
 * @param {() => void} redraw
 */
export function table(id, caption, columns, rows, redraw) {
  const order = orders.get(id);
  const by = order && columns[order.at]?.by;
  const shown = by ? [...rows].sort((one, other) => compare(by(one), by(other), order.isDown)) : rows;
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
  const more = shown.length > ROWS_MAX ? h("p", { class: "quiet" }, `The first ${ROWS_MAX} of ${shown.length} rows. Order them by another column to see others.`) : null;
  return h("div", { class: "wide", id: id + "-table", tabindex: 0, role: "region", "aria-label": caption }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, shown.slice(0, ROWS_MAX).map(row))), more);
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
