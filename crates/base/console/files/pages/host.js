// A host: its servers and routers, and what the tuner has found on it.

import { command, h, name as shown, visible } from "../dom.js";
import { table } from "../table.js";
import { SERVER_COLUMNS } from "./servers.js";

export const title = (/** @type {string} */ name) => "Host " + name;
export const reads = (/** @type {string} */ name) => ({ figures: "/v1/figures?host=" + encodeURIComponent(name), check: "/v1/tune/check?hosts=" + encodeURIComponent("host=" + name) });
export const optional = new Set(["check", "figures"]);

/**
 * @param {Record<string, any>} documents
 * @param {string} name
 * @param {() => void} redraw
 */
export function draw({ figures, check }, name, redraw) {
  const servers = figures.servers ?? [];
  return [
    h("h1", {}, "Host ", shown(name)),
    servers.length ? table("servers", "Servers of the host", SERVER_COLUMNS, servers, redraw) : h("p", { class: "empty" }, "No figures of a server on it."),
    h("section", {}, h("h2", {}, "What limits it"), findings(check, redraw)),
    h("p", {}, "To look again: ", command("evenkeel control tune check --now --hosts host=" + name)),
  ];
}

/**
 * @param {any} check
 * @param {() => void} redraw
 */
function findings(check, redraw) {
  if (check.error) return h("p", { class: "empty" }, visible(check.error) + ".");
  const why = (check.missing ?? []).map((/** @type {any} */ one) => h("p", { class: "quiet" }, visible(one.why) + "."));
  if (!check.rows?.length) return why.length ? why : h("p", { class: "empty good" }, "✓ Its last look has found nothing.");
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Severity", isText: true, by: (row) => row.severity, cell: (row) => row.severity },
    { head: "Finding", isText: true, by: (row) => row.finding ?? row.id, cell: (row) => shown(row.finding ?? row.id ?? "–") },
    { head: "Change", isText: true, cell: (row) => shown(row.change ?? "nothing on this host helps") },
  ];
  return [why, table("findings", "Findings", columns, check.rows, redraw)];
}
