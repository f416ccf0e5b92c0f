// History: generations, and changes of hosts.

import { command, h, name, visible } from "../dom.js";
import { table } from "../table.js";
import { UNKNOWN, counted } from "../words.js";

export const title = () => "History";
export const reads = () => ({ history: "/v1/history", changes: "/v1/changes" });

/**
 * @param {Record<string, any>} documents
 * @param {string} _
 * @param {() => void} redraw
 */
export function draw({ history, changes }, _, redraw) {
  const rows = changes.changes ?? [];
  return [h("h1", {}, "History"), h("section", {}, h("h2", {}, "Changes of hosts"), rows.length ? hosts(rows, redraw) : h("p", { class: "empty" }, "No host was changed yet.")), h("section", {}, h("h2", {}, "Generations"), h("ol", { class: "generations" }, history.generations.map(generation)))];
}

/**
 * @param {any[]} rows
 * @param {() => void} redraw
 */
function hosts(rows, redraw) {
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Number", isText: true, by: (row) => row.number, cell: (row) => h("a", { href: "#/change/" + row.number }, row.number) },
    { head: "Begun", isText: true, by: (row) => (row.at ? row.unix_s : null), cell: (row) => moment(row) },
    { head: "What", isText: true, by: (row) => row.what, cell: (row) => name(row.what) },
    { head: "State", isText: true, by: (row) => row.state ?? "", cell: (row) => row.state ?? "–" },
    { head: "Ended", isText: true, by: (row) => (row.end?.at ? row.end.unix_s : null), cell: (row) => (row.end ? moment(row.end) : UNKNOWN) },
    { head: "Hosts", by: (row) => row.hosts, cell: (row) => row.hosts },
    { head: "Who", isText: true, by: (row) => row.who ?? "", cell: (row) => name(row.who ?? "–") },
    { head: "Why", isText: true, cell: (row) => name(row.why ?? "–") },
  ];
  return table("changes", "Changes of hosts, the newest first", columns, rows, redraw);
}

/**
 * When something was, in UTC: the same for everybody who reads it.
 * @param {any} one
 */
function moment(one) {
  return one.at ? h("time", { datetime: one.at }, one.at.replace("T", " ").replace("Z", " UTC")) : UNKNOWN;
}

/**
 * When a generation was made and by whom, which older versions have not written down.
 * @param {any} one
 */
function origin(one) {
  if (!one.who) return "when and by whom is not known";
  return h("span", {}, one.at ? moment(one) : "at an unknown time", " by ", name(one.who));
}

/** @param {any} one */
function generation(one) {
  const steps = one.steps.map((/** @type {string} */ step) => h("li", {}, visible(step)));
  const diff = one.parent ? command(`evenkeel control diff ${one.parent} ${one.generation}`) : null;
  return h("li", {}, h("p", {}, h("strong", {}, `Generation ${one.generation}`), " ", name(one.reason), " ", diff), h("p", { class: "quiet" }, origin(one)), steps.length ? h("details", { id: "generation-" + one.generation }, h("summary", {}, counted(steps.length, "step")), h("ul", {}, steps)) : null);
}
