// A server: its figures of the last half hour.

import { chart } from "../charts.js";
import { command, h, name as shown } from "../dom.js";
import { bytes, micros, percent, short } from "../words.js";
import { age, last, ownPage, series } from "./servers.js";

const SINCE_S = 1800;

export const title = (/** @type {string} */ name) => "Server " + name;
export const reads = (/** @type {string} */ name) => {
  const since = Math.floor(Date.now() / 60000) * 60 - SINCE_S;
  return { figures: `/v1/figures?member=${encodeURIComponent(name)}&since=${since}` };
};

/** @param {Record<string, any>} documents @param {string} name */
export function draw({ figures }, name) {
  const row = figures.servers[0];
  if (!row) return h("p", { class: "empty" }, "It is not a server, or nothing was heard of it within half an hour.");
  const share = row.points.map((/** @type {any} */ point) => ({ at: point.at_unix, value: point.memory_limit_bytes > 0 ? point.memory_used_bytes / point.memory_limit_bytes : null }));
  const of = (/** @type {string} */ figure) => series(row, figure);
  return [
    h("h1", {}, "Server ", shown(name)),
    h(
      "p",
      { class: "quiet" },
      row.cluster ? ["in the cluster ", h("a", { href: "#/cluster/" + encodeURIComponent(row.cluster) }, shown(row.cluster))] : "without a slot",
      ", on the host ",
      h("a", { href: "#/host/" + encodeURIComponent(row.host) }, shown(row.host)),
      ", zone ",
      shown(row.zone),
      "; figures of ",
      age(last(row).age_s),
      " ago",
    ),
    own(row, figures.controller),
    h(
      "div",
      { class: "charts" },
      chart("Requests per second", [{ name: "requests", points: of("requests_per_s") }], short),
      chart("Hits of all gets", [{ name: "hits", points: of("hit_ratio") }], (value) => percent(value)),
      chart("99 % of the gets took less", [{ name: "service", points: of("service_p99_us") }, { name: "wait", points: of("wait_p99_us") }], micros),
      chart("Memory used of the limit", [{ name: "memory", points: share }], (value) => percent(value, 0)),
      chart("Evictions per second", [{ name: "evictions", points: of("evictions_per_s") }], short),
      chart("CPUs, and time ready without one", [{ name: "CPUs", points: of("cpus") }, { name: "waiting", points: of("scheduling_wait_share") }], (value) => value.toFixed(2)),
      chart("Bytes per second", [{ name: "from clients", points: of("received_bytes_per_s") }, { name: "to clients", points: of("sent_bytes_per_s") }], bytes),
      chart("Clients", [{ name: "clients", points: of("connections") }], short),
    ),
    h("p", {}, "To move its slot to another server, show what that would do first: ", command("evenkeel control drain " + name)),
  ];
}

/**
 * Where it shows more of itself than the fleet knows.
 * @param {any} row
 * @param {string} controller
 */
function own(row, controller) {
  const page = ownPage(row, controller);
  if (!page) return null;
  const what = "memory by use, heat maps, hot keys, workers, connections";
  if (page.isReached) return h("p", {}, h("a", { href: page.href }, "Its own page ↗"), h("span", { class: "quiet" }, `: ${what}`));
  return h("p", {}, "Its own page (", what, ") answers on that host alone. Through a tunnel it is at ", h("code", {}, page.href), ": ", command(`ssh -L ${page.port}:${row.page} ${row.host}`));
}
