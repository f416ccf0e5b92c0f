// Columns of servers, as `evenkeel control top` has them.

import { bar, spark } from "../charts.js";
import { h, name } from "../dom.js";
import { bytes, duration, isKnown, micros, percent, short } from "../words.js";

/** The last point of a row. @param {any} row */
export const last = (row) => row.points[row.points.length - 1] ?? {};

/** Figures older than this are marked: agents tell them every 15 s. */
const OLD_S = 60;

/** @param {any} row @param {string} figure */
export const series = (row, figure) => row.points.map((/** @type {any} */ point) => ({ at: point.at_unix, value: point[figure] ?? null }));

/** @param {any} row */
export const memory = (row) => (last(row).memory_limit_bytes > 0 ? last(row).memory_used_bytes / last(row).memory_limit_bytes : null);

/** @type {import("../table.js").Column<any>[]} */
export const SERVER_COLUMNS = [
  { head: "Server", isText: true, by: (row) => row.id, cell: (row) => h("a", { href: "#/server/" + encodeURIComponent(row.id) }, name(row.id)) },
  { head: "Host", isText: true, by: (row) => row.host, cell: (row) => h("a", { href: "#/host/" + encodeURIComponent(row.host) }, name(row.host)) },
  { head: "Zone", isText: true, by: (row) => row.zone, cell: (row) => name(row.zone) },
  { head: "Age", title: "Time since its figures were told", by: (row) => last(row).age_s, cell: (row) => age(last(row).age_s) },
  { head: "Requests/s", by: (row) => last(row).requests_per_s, cell: (row) => [spark(series(row, "requests_per_s"), short), " ", short(last(row).requests_per_s)] },
  { head: "Hits", by: (row) => last(row).hit_ratio, cell: (row) => percent(last(row).hit_ratio) },
  { head: "p99 service", by: (row) => last(row).service_p99_us, cell: (row) => micros(last(row).service_p99_us) },
  { head: "p99 wait", by: (row) => last(row).wait_p99_us, cell: (row) => micros(last(row).wait_p99_us) },
  { head: "CPUs", by: (row) => last(row).cpus, cell: (row) => short(last(row).cpus) },
  { head: "Memory", by: memory, cell: (row) => (isKnown(memory(row)) ? bar(memory(row), `${percent(memory(row), 0)} of ${bytes(last(row).memory_limit_bytes)}`) : "–") },
  { head: "Clients", by: (row) => last(row).connections, cell: (row) => short(last(row).connections) },
  { head: "Evictions/s", by: (row) => last(row).evictions_per_s, cell: (row) => short(last(row).evictions_per_s) },
];

const IS_LOOPBACK = /^(localhost|127\.[0-9.]+|\[::1\])$/;

/**
 * The address of a process' own page, if its agent says where it is. At an address of one host, a browser reaches it from there only: it is there
 * if it has reached the console so, and the controller is on that host.
 * @param {any} row
 * @param {string} controller The host of the controller that has answered.
 * @returns {{href: string, isReached: boolean, port: string} | null}
 */
export function ownPage(row, controller) {
  const href = `http://${row.page}/`;
  if (!row.page || !URL.canParse(href)) return null;
  const { hostname, port } = new URL(href);
  if (hostname === "0.0.0.0" || hostname === "[::]") return null;
  return { href, isReached: !IS_LOOPBACK.test(hostname) || (IS_LOOPBACK.test(location.hostname) && row.host === controller), port: port || "80" };
}

/** @param {number | undefined} seconds */
export function age(seconds) {
  return isKnown(seconds) && seconds > OLD_S ? h("strong", { class: "bad" }, duration(seconds) + " !") : duration(seconds);
}
