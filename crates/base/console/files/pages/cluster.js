// A cluster: its servers, each in a row.

import { h, name as shown } from "../dom.js";
import { table } from "../table.js";
import { counted } from "../words.js";
import { SERVER_COLUMNS } from "./servers.js";

/** Half an hour of points is asked for; a controller that has too many gives the last ones. */
const SINCE_S = 1800;

export const title = (/** @type {string} */ name) => "Cluster " + name;
export const reads = (/** @type {string} */ name) => {
  const path = "/v1/figures?cluster=" + encodeURIComponent(name);
  // The same path for a minute, so that tabs and polls share an answer.
  const since = Math.floor(Date.now() / 60000) * 60 - SINCE_S;
  return { latest: path, points: `${path}&since=${since}` };
};
export const optional = new Set(["points"]);

/**
 * @param {Record<string, any>} documents
 * @param {string} name
 * @param {() => void} redraw
 */
export function draw({ latest, points }, name, redraw) {
  const rows = points.error ? latest.servers : points.servers;
  return [
    h("h1", {}, "Cluster ", shown(name)),
    h("p", { class: "quiet" }, counted(rows.length, "server"), " in its slots. ", h("a", { href: "#/" }, "All clusters")),
    rows.length ? table("servers", "Servers of the cluster", SERVER_COLUMNS, rows, redraw) : h("p", { class: "empty" }, "No figures yet: agents tell them every 15 s."),
  ];
}
