// A server, as `evenkeel top` shows it, with its last ten minutes.

import { chart, parts } from "../charts.js";
import { h, name } from "../dom.js";
import { table } from "../table.js";
import { bytes, isKnown, micros, percent, short } from "../words.js";
import { heat, legend } from "./heat.js";
import { SOON, TIMES, alarm, gauge, head, hot, perSecond, section, text, uptime, without } from "./parts.js";
import { sum, times } from "./seen.js";

export const TITLE = "Server";
/** All that is shown of a server is in one report. */
export const beside = async () => null;

/** Classes of commands. */
const CLASSES = ["get", "set", "delete", "arithmetic", "touch"];
/** Keys that were stored again soon after they were evicted, of all that were stored: from this share on more memory would pay. The alert has the same. */
const GHOSTS_MIN = 0.05;

/** The class whose service is drawn; "" for all. */
let shown = "";

/** @param {import("./seen.js").Between} between */
export function figures(between) {
  const stat = (/** @type {string} */ name) => between.rate((report) => report.stats?.[name]);
  const [hits, gets] = [stat("get_hits"), stat("cmd_get")];
  const { memory } = between.after;
  return {
    service: Object.fromEntries(CLASSES.map((one) => [one, between.buckets((report) => report.service?.[one]?.buckets)])),
    rates: Object.fromEntries(CLASSES.map((one) => [one, between.rate((report) => report.service?.[one]?.count)])),
    wait: between.buckets((report) => report.wait?.buckets),
    // Read one after the other: hits may have one get more.
    hit_ratio: isKnown(hits) && isKnown(gets) && gets > 0 ? Math.min(hits / gets, 1) : null,
    misses: stat("get_misses"),
    stored: stat("cmd_set"),
    evictions: stat("evictions"),
    ghosts: between.rate((report) => report.ghost_hits),
    memory: memory?.limit_bytes > 0 ? memory.charged_bytes / memory.limit_bytes : null,
    clients: between.after.stats?.curr_connections,
    accepted: stat("total_connections"),
    refused: stat("rejected_connections"),
    received: stat("bytes_read"),
    sent: stat("bytes_written"),
    workers: workers(between),
    listeners: (between.after.listeners ?? []).map((/** @type {any} */ one, /** @type {number} */ at) => ({ ...one, accepted_per_s: between.rate((report) => report.listeners?.[at]?.accepted) })),
    flash: Object.fromEntries(["get_extstore", "extstore_objects_written", "extstore_bytes_read", "extstore_bytes_written", "extstore_objects_evicted"].map((one) => [one, stat(one)])),
  };
}

/** How busy each worker thread was, and how long it was ready to run without a CPU. @param {import("./seen.js").Between} between */
function workers(between) {
  const names = Object.keys(between.after.threads ?? {}).filter((one) => /^worker-\d+$/.test(one));
  const share = (/** @type {string} */ one, /** @type {string} */ figure) => {
    const rate = between.rate((report) => report.threads?.[one]?.[figure]);
    return isKnown(rate) ? rate / 1e9 : null;
  };
  const of = (/** @type {string} */ one) => ({ number: Number(one.slice(7)), busy: share(one, "run_ns"), waiting: share(one, "wait_ns") });
  return names.map(of).sort((one, other) => one.number - other.number);
}

/**
 * @param {import("./seen.js").Seen} seen
 * @param {() => void} redraw
 */
export function draw(seen, redraw) {
  const { report, last } = seen;
  const stats = report.stats ?? {};
  return [
    head(TITLE, [["Version", text(report.version)], ["Up", uptime(report.uptime_us)], ["Items", short(stats.curr_items)], ["Process", text(stats.pid)]]),
    charts(seen),
    section("Requests", requests(last, redraw)),
    section("Waiting and service", waits(seen, redraw)),
    section("Memory by use", memory(report, last)),
    section("Clients", clients(report, last, redraw)),
    section("Workers", last.workers?.length ? table("workers", "Workers", WORKERS, last.workers, redraw) : h("p", { class: "empty" }, SOON)),
    section("Hot keys", keys(report)),
    stats.extstore_limit_maxbytes > 0 ? section("Flash", flash(stats, last)) : null,
  ];
}

/** @param {import("./seen.js").Seen} seen */
function charts(seen) {
  const none = without(seen);
  const of = (/** @type {string} */ figure) => seen.course((figures) => figures[figure]);
  const used = CLASSES.filter((one) => seen.moments.some(({ figures }) => figures.rates?.[one] > 0));
  const rates = (used.length ? used : ["get"]).map((one) => ({ name: one, points: seen.course((figures) => figures.rates?.[one]) }));
  const p99 = (/** @type {(figures: any) => any} */ of) => seen.course((figures) => times(of(figures) ?? null)?.p99);
  const busiest = (/** @type {string} */ figure) => seen.course((figures) => most((figures.workers ?? []).map((/** @type {any} */ one) => one[figure])));
  return h(
    "div",
    { class: "charts" },
    chart("Requests per second", rates, short, none),
    chart("Hits of all gets", [{ name: "hits", points: of("hit_ratio") }], (value) => percent(value), none),
    chart("99 % took less", [{ name: "service", points: p99((figures) => sum(Object.values(figures.service ?? {}))) }, { name: "wait", points: p99((figures) => figures.wait) }], micros, none),
    chart("Memory used of the limit", [{ name: "memory", points: of("memory") }], (value) => percent(value, 0), none),
    chart("Evictions per second", [{ name: "evicted", points: of("evictions") }, { name: "stored again", points: of("ghosts") }], short, none),
    chart("Bytes per second", [{ name: "from clients", points: of("received") }, { name: "to clients", points: of("sent") }], bytes, none),
    chart("Clients", [{ name: "clients", points: of("clients") }], short, none),
    chart("The busiest worker", [{ name: "busy", points: busiest("busy") }, { name: "waiting", points: busiest("waiting") }], (value) => percent(value, value < 0.1 ? 1 : 0), none),
  );
}

/** The largest of those that are known. @param {any[]} all */
function most(all) {
  const known = all.filter(isKnown);
  return known.length ? Math.max(...known) : null;
}

/**
 * @param {Record<string, any>} last
 * @param {() => void} redraw
 */
function requests(last, redraw) {
  if (!last.service) return h("p", { class: "empty" }, SOON);
  const classes = CLASSES.map((one) => ({ name: one, rate: last.rates[one], times: times(last.service[one]) }));
  const rows = [...classes.filter((one) => one.rate > 0), ...(last.wait?.size ? [{ name: "waited", rate: null, times: times(last.wait) }] : [])];
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Class", isText: true, cell: (row) => row.name },
    { head: "Per second", by: (row) => row.rate, cell: (row) => (row.name === "waited" ? "" : short(row.rate)) },
    ...TIMES,
  ];
  return [rows.length ? table("requests", "Requests by class, and how long input waited for a worker", columns, rows, redraw) : h("p", { class: "empty" }, "no requests"), h("p", { class: "quiet" }, `Hits: ${percent(last.hit_ratio, 2)} of gets, ${perSecond(last.misses)} misses. Network: ${bytes(last.received)}/s received, ${bytes(last.sent)}/s sent.`)];
}

/**
 * @param {import("./seen.js").Seen} seen
 * @param {() => void} redraw
 */
function waits(seen, redraw) {
  const choice = (/** @type {string} */ one) => {
    const click = () => {
      shown = one;
      redraw();
    };
    return h("button", { type: "button", class: "choice", id: "class-" + one, "aria-pressed": one === shown ? "true" : "false", click }, one || "all classes");
  };
  return [
    h("div", { class: "charts" }, heat("Wait for a worker", seen.moments, (figures) => figures.wait), heat("Service of " + (shown || "all classes"), seen.moments, (figures) => (shown ? figures.service?.[shown] : sum(Object.values(figures.service ?? {}))))),
    h("p", { role: "group", "aria-label": "Class of commands whose service is drawn" }, "Service of ", ["", ...CLASSES].map(choice)),
    legend(),
  ];
}

/**
 * @param {any} report
 * @param {Record<string, any>} last
 */
function memory(report, last) {
  const of = report.memory;
  if (!(of?.limit_bytes > 0) || !isKnown(of.charged_bytes)) return h("p", { class: "empty" }, "The report does not say.");
  const { limit_bytes: limit, charged_bytes: charged, index_bytes: index, large_bytes: large, ghost_bytes: ghosts, dead_bytes: dead } = of;
  const drawn = parts("Memory by use", [["segments with items", charged - index - large - ghosts], ["large values", large], ["index", index], ["ghosts", ghosts]], limit, bytes);
  const share = isKnown(last.ghosts) && last.stored > 0 ? last.ghosts / last.stored : null;
  const isShort = isKnown(share) && share > GHOSTS_MIN;
  const soon = `${perSecond(last.evictions)} evicted; ${perSecond(last.ghosts)} were stored again soon (ghost hits), ${percent(share)} of all that was stored: with more memory they would still be there`;
  const reach = isKnown(ghosts) ? `Soon is: before some ${short(ghosts / 2)} other new items were evicted. How much memory would have kept them is not known.` : "";
  return [drawn, h("p", { class: "quiet" }, `${bytes(charged)} of ${bytes(limit)}, ${percent(charged / limit, 0)}; ${bytes(dead)} in segments is garbage that is not collected yet.`), h("p", {}, isShort ? h("strong", { class: "bad" }, soon + " !") : soon, ". ", h("span", { class: "quiet" }, reach))];
}

/**
 * @param {any} report
 * @param {Record<string, any>} last
 * @param {() => void} redraw
 */
function clients(report, last, redraw) {
  const stats = report.stats ?? {};
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Listener", isText: true, cell: (row) => name(String(row.address)) },
    { head: "Connections", cell: (row) => short(row.connections) },
    { head: "New/s", cell: (row) => short(row.accepted_per_s) },
  ];
  return [h("p", {}, `${short(stats.curr_connections)} of ${short(stats.max_connections)} connections, ${perSecond(last.accepted)} new, `, alarm(last.refused, `${perSecond(last.refused)} refused`), "."), last.listeners?.length ? table("listeners", "Connections by listener", columns, last.listeners, redraw) : null];
}

/** Thresholds are those of `evenkeel top`. @type {import("../table.js").Column<any>[]} */
const WORKERS = [
  { head: "Worker", isText: true, by: (row) => row.number, cell: (row) => row.number },
  { head: "Busy", by: (row) => row.busy, cell: (row) => gauge(row.busy, 0.6, 0.9) },
  { head: "Waits for a CPU", title: "Ready to run, without a CPU", by: (row) => row.waiting, cell: (row) => gauge(row.waiting, 0.02, 0.1) },
];

/** @param {any} report */
function keys(report) {
  if (!report.hot) return h("p", { class: "empty" }, "The server lists no keys (-X).");
  return h("div", { class: "columns" }, ["requests", "bytes", "misses"].map((by) => hot(by, report.hot[by])));
}

/**
 * @param {any} stats
 * @param {Record<string, any>} last
 */
function flash(stats, last) {
  const of = last.flash ?? {};
  return [
    parts("Flash", [["items", stats.extstore_bytes_used], ["garbage", stats.extstore_bytes_fragmented]], stats.extstore_limit_maxbytes, bytes),
    h("p", { class: "quiet" }, `${short(stats.extstore_objects_used)} items; gets from flash: ${perSecond(of.get_extstore)}, ${bytes(of.extstore_bytes_read)}/s; written: ${perSecond(of.extstore_objects_written)}, ${bytes(of.extstore_bytes_written)}/s; evicted: ${perSecond(of.extstore_objects_evicted)}; ${short(stats.extstore_pages_free)} pages free.`),
    stats.badcrc_from_extstore > 0 ? h("p", {}, alarm(stats.badcrc_from_extstore, `${short(stats.badcrc_from_extstore)} items could not be read back`)) : null,
  ];
}
