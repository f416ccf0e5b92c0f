// A router, as `evenkeel top` shows it, with its pools, servers and shadows.

import { chart } from "../charts.js";
import { h, name } from "../dom.js";
import { level } from "../levels.js";
import { read } from "../live.js";
import { table } from "../table.js";
import { bytes, counted, duration, isKnown, micros, percent, short, time } from "../words.js";
import { heat, legend } from "./heat.js";
import { SOON, TIMES, alarm, head, hot, perSecond, section, text, uptime, without } from "./parts.js";
import { times } from "./seen.js";

export const TITLE = "Router";
/** A router of an earlier version does not have it. */
export const beside = () => read("/api/v1/servers", { isOptional: true });

/** Commands that are drawn: those with most requests. */
const COMMANDS_MAX = 4;

/** @param {import("./seen.js").Between} between */
export function figures(between) {
  const { route, beside } = between.after;
  const rate = (/** @type {string} */ name) => between.rate((report) => report.route[name]);
  const [hits, misses, cpu] = [rate("get_hits"), rate("get_misses"), rate("cpu_us")];
  return {
    rates: Object.fromEntries(Object.keys(route.requests ?? {}).map((one) => [one, between.rate((report) => report.route.requests?.[one])])),
    errors: rate("errors"),
    hit_ratio: isKnown(hits) && isKnown(misses) && hits + misses > 0 ? hits / (hits + misses) : null,
    misses,
    hot_values: rate("hot_cache_hits"),
    replies: between.buckets((report) => report.route.latency?.buckets),
    failovers: rate("failovers"),
    failed_failovers: rate("failed_failovers"),
    unavailable: route.unavailable_servers,
    clients: route.clients,
    accepted: rate("clients_opened"),
    received: rate("bytes_read"),
    sent: rate("bytes_written"),
    cpu: isKnown(cpu) ? cpu / 1e6 : null,
    pools: Object.keys(route.pools ?? {}).map((pool) => ofPool(between, pool)),
    servers: Object.keys(beside?.servers ?? {}).map((server) => ofServer(between, server)),
  };
}

/** @param {import("./seen.js").Between} between @param {string} pool */
function ofPool(between, pool) {
  const rate = (/** @type {string} */ figure) => between.rate((report) => report.route.pools?.[pool]?.[figure]);
  const [requests, errors] = [rate("requests"), rate("errors")];
  return { id: pool, requests, errors, timeouts: rate("timeouts"), level: well(requests, errors) };
}

/** @param {import("./seen.js").Between} between @param {string} server */
function ofServer(between, server) {
  const of = (/** @type {any} */ report) => (Object.hasOwn(report.beside?.servers ?? {}, server) ? report.beside.servers[server] : undefined);
  const sum = (/** @type {any} */ report, /** @type {boolean} */ isError) => {
    const outcomes = of(report)?.outcomes;
    return outcomes && Object.entries(outcomes).reduce((sum, [outcome, count]) => sum + (isError && outcome === "success" ? 0 : Number(count)), 0);
  };
  const [requests, errors] = [between.rate((report) => sum(report, false)), between.rate((report) => sum(report, true))];
  const now = of(between.after);
  return { id: server, available: now?.available, outstanding: now?.outstanding, requests, errors, level: well(requests, errors), times: times(between.buckets((report) => of(report)?.latency?.buckets)) };
}

/** The share of requests that were answered well. @param {number | null} requests @param {number | null} errors */
function well(requests, errors) {
  return isKnown(requests) && isKnown(errors) && requests > 0 ? 1 - errors / requests : null;
}

/**
 * @param {import("./seen.js").Seen} seen
 * @param {() => void} redraw
 */
export function draw(seen, redraw) {
  const { report, last } = seen;
  const { route } = report;
  return [
    head(TITLE, [["Version", text(route.version)], ["Up", uptime(report.uptime_us)], ["Configuration", configuration(route)], ["CPU", `${percent(last.cpu, 0)} of one, ${isKnown(route.threads) ? counted(route.threads, "thread") : "–"}`]]),
    charts(seen),
    section("Requests", requests(route, last, redraw)),
    section("Replies of servers", h("div", { class: "charts" }, heat("Times of replies", seen.moments, (figures) => figures.replies)), legend()),
    section("Pools", pools(seen, redraw)),
    section("Servers", servers(report, last, redraw)),
    route.shadows ? section("Shadows", shadows(route.shadows, redraw)) : null,
    section("Hot keys", route.hot ? hot("requests", route.hot.requests) : h("p", { class: "empty" }, "The router lists no keys (--hide-hot-keys).")),
  ];
}

/** @param {any} route */
function configuration(route) {
  return [`loaded ${duration(route.config_age_s)} ago, `, alarm(route.config_failures, `${short(route.config_failures)} later ones refused`)];
}

/** @param {import("./seen.js").Seen} seen */
function charts(seen) {
  const none = without(seen);
  const of = (/** @type {string} */ figure) => seen.course((figures) => figures[figure]);
  const most = Object.entries(seen.last.rates ?? {}).sort(([, one], [, other]) => other - one).slice(0, COMMANDS_MAX).filter(([, rate]) => rate > 0).map(([command]) => command);
  const rates = (most.length ? most : ["get"]).map((one) => ({ name: one, points: seen.course((figures) => figures.rates?.[one]) }));
  return h(
    "div",
    { class: "charts" },
    chart("Requests per second", rates, short, none),
    chart("Hits of all gets", [{ name: "hits", points: of("hit_ratio") }], (value) => percent(value), none),
    chart("99 % of the replies took less", [{ name: "replies", points: seen.course((figures) => times(figures.replies ?? null)?.p99) }], micros, none),
    chart("Errors and failovers per second", [{ name: "errors", points: of("errors") }, { name: "failovers", points: of("failovers") }], short, none),
    chart("Servers that are not asked (TKO)", [{ name: "servers", points: of("unavailable") }], short, none),
    chart("Bytes per second", [{ name: "received", points: of("received") }, { name: "sent", points: of("sent") }], bytes, none),
    chart("Clients", [{ name: "clients", points: of("clients") }], short, none),
    chart("CPUs", [{ name: "CPUs", points: of("cpu") }], (value) => value.toFixed(2), none),
  );
}

/**
 * @param {any} route
 * @param {Record<string, any>} last
 * @param {() => void} redraw
 */
function requests(route, last, redraw) {
  if (!last.rates) return h("p", { class: "empty" }, SOON);
  const rows = Object.entries(last.rates).filter(([, rate]) => rate > 0).map(([command, rate]) => ({ name: command, rate })).sort((one, other) => other.rate - one.rate);
  const replies = times(last.replies);
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [{ head: "Command", isText: true, cell: (row) => row.name }, { head: "Per second", by: (row) => row.rate, cell: (row) => (row.name === "replies" ? "" : short(row.rate)) }, ...TIMES];
  const all = [...rows, ...(replies ? [{ name: "replies", rate: null, times: replies }] : [])];
  return [
    all.length ? table("requests", "Requests by command, and the times of the replies of servers", columns, all, redraw) : h("p", { class: "empty" }, "no requests"),
    h("p", { class: "quiet" }, `Hits: ${percent(last.hit_ratio, 2)} of gets, ${perSecond(last.misses)} misses; ${perSecond(last.hot_values)} of the hits without a server (hot values).`),
    h("p", {}, "Failures: ", alarm(last.errors, `${perSecond(last.errors)} errors`), `, ${perSecond(last.failovers)} failovers, `, alarm(last.failed_failovers, `${perSecond(last.failed_failovers)} failed failovers`), `. Clients: ${short(route.clients)} connections, ${perSecond(last.accepted)} new.`),
  ];
}

/**
 * @param {import("./seen.js").Seen} seen
 * @param {() => void} redraw
 */
function pools(seen, redraw) {
  const rows = seen.last.pools ?? [];
  if (!rows.length) return h("p", { class: "empty" }, seen.moments.length > 1 ? "There is no pool." : SOON);
  // The course since the page was opened: what went wrong a minute ago is still a part of it.
  const since = (/** @type {string} */ pool) => {
    const all = seen.moments.flatMap(({ figures }) => (figures.pools ?? []).filter((/** @type {any} */ one) => one.id === pool && isKnown(one.requests) && isKnown(one.errors)));
    const sum = (/** @type {string} */ figure) => all.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one[figure], 0);
    return well(sum("requests"), sum("errors"));
  };
  const levels = new Map(rows.map((/** @type {any} */ one) => [one.id, since(one.id)]));
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Pool", isText: true, by: (row) => row.id, cell: (row) => name(row.id) },
    { head: "Requests/s", by: (row) => row.requests, cell: (row) => short(row.requests) },
    { head: "Errors/s", by: (row) => row.errors, cell: (row) => alarm(row.errors, short(row.errors)) },
    { head: "Timeouts/s", by: (row) => row.timeouts, cell: (row) => alarm(row.timeouts, short(row.timeouts)) },
    { head: "Answered well", by: (row) => row.level, cell: (row) => level(row.level) },
    { head: `Since ${time(seen.moments[0].at)}`, by: (row) => levels.get(row.id), cell: (row) => level(levels.get(row.id) ?? null) },
  ];
  return table("pools", "Requests to the servers of each pool", columns, rows, redraw);
}

/**
 * @param {any} report
 * @param {Record<string, any>} last
 * @param {() => void} redraw
 */
function servers(report, last, redraw) {
  const { route, beside } = report;
  const connections = route.connections ?? {};
  const said = h("p", {}, alarm(route.unavailable_servers, `${short(route.unavailable_servers)} of ${short(route.servers)} unavailable (TKO)`), `, ${short(connections.up)} connections up, ${short(connections.down)} down.`);
  if (!beside?.servers) return [said, h("p", { class: "empty" }, "It does not list them.")];
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Server", isText: true, by: (row) => row.id, cell: (row) => name(row.id) },
    { head: "State", isText: true, by: (row) => String(row.available), cell: (row) => (row.available === false ? h("strong", { class: "bad" }, "not asked (TKO) !") : row.available ? "asked" : "–") },
    { head: "Requests/s", by: (row) => row.requests, cell: (row) => short(row.requests) },
    { head: "Errors/s", by: (row) => row.errors, cell: (row) => alarm(row.errors, short(row.errors)) },
    { head: "Answered well", by: (row) => row.level, cell: (row) => level(row.level) },
    { head: "Without a reply", title: "Requests that wait for one now", by: (row) => row.outstanding, cell: (row) => short(row.outstanding) },
    ...TIMES.slice(0, 2),
  ];
  const others = beside.others > 0 ? h("p", { class: "quiet" }, `${beside.others} further servers are not listed.`) : null;
  return [said, last.servers?.length ? table("servers", "Servers of the configuration", columns, last.servers, redraw) : h("p", { class: "empty" }, SOON), others];
}

/**
 * @param {any} shadows
 * @param {() => void} redraw
 */
function shadows(shadows, redraw) {
  const p99 = (/** @type {any} */ buckets) => times(Array.isArray(buckets) ? new Map(buckets) : null)?.p99;
  const rows = Object.entries(shadows.by_name ?? {}).map(([id, one]) => {
    const { compared, other_outcomes, other_values, other_sizes } = /** @type {any} */ (one);
    return { .../** @type {any} */ (one), id, differ: compared > 0 ? (other_outcomes + other_values + other_sizes) / compared : null };
  });
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Shadow", isText: true, by: (row) => row.id, cell: (row) => name(row.id) },
    { head: "Compared", by: (row) => row.compared, cell: (row) => short(row.compared) },
    { head: "Differ", by: (row) => row.differ, cell: (row) => percent(row.differ, 2) },
    { head: "p99 normal", by: (row) => p99(row.normal_us), cell: (row) => micros(p99(row.normal_us)) },
    { head: "p99 shadow", by: (row) => p99(row.shadow_us), cell: (row) => micros(p99(row.shadow_us)) },
  ];
  return [table("shadows", "Replies of shadows, compared with those that clients got", columns, rows, redraw), h("p", { class: "quiet" }, "Since the configuration was loaded.")];
}
