// History: generations, and changes of hosts.

import { command, h, name, visible } from "../dom.js";
import { table } from "../table.js";
import { counted } from "../words.js";

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
    { head: "What", isText: true, by: (row) => row.what, cell: (row) => name(row.what) },
    { head: "State", isText: true, by: (row) => row.state ?? "", cell: (row) => row.state ?? "–" },
    { head: "Hosts", by: (row) => row.hosts, cell: (row) => row.hosts },
    { head: "Who", isText: true, by: (row) => row.who ?? "", cell: (row) => name(row.who ?? "–") },
    { head: "Why", isText: true, cell: (row) => name(row.why ?? "–") },
    { head: "To see more", isText: true, cell: (row) => command("evenkeel control tune status " + row.number) },
  ];
  return table("changes", "Changes of hosts, the newest first", columns, rows, redraw);
}

/** @param {any} one */
function generation(one) {
  const steps = one.steps.map((/** @type {string} */ step) => h("li", {}, visible(step)));
  const diff = one.parent ? command(`evenkeel control diff ${one.parent} ${one.generation}`) : null;
  return h("li", {}, h("p", {}, h("strong", {}, `Generation ${one.generation}`), " ", name(one.reason), " ", diff), steps.length ? h("details", { id: "generation-" + one.generation }, h("summary", {}, counted(steps.length, "step")), h("ul", {}, steps)) : null);
}
