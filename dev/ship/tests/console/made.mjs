// A made fleet of 5,000 members: documents in the shape of a controller's answers, with figures of no real one.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";

/** Slots of each cluster; the members of all of them are 5,000 with the spares. */
const CLUSTERS = { ads: 16, feed: 1000, web: 128, ...Object.fromEntries(Array.from({ length: 18 }, (_, at) => ["cluster-" + at, 200])) };
const MEMBERS = 5000;
const ROUTERS = 400;
/** Points of half an hour. */
const POINTS = 120;
const EVERY_S = 15;

/** What is wrong with this fleet: this server's memory grows, and it will be full in a few minutes. */
const GROWS = "ads-m7";
/** Requests wait for the workers of this one, since all packets of its host come to one CPU. It began some minutes ago. */
const WAITS = "ads-m3";
const WAITS_SINCE_S = 720;
/** This router does not run what the others do. */
const OLD_ROUTER = "r-203";

/** Texts that a fleet may have and a page must not obey. */
export const HOSTILE = ["<img src=x onerror=window.obeyed=1>", "a\u202eb\u2066c", "\u0000\u001b[2J", "x".repeat(250), "\"><script>window.obeyed=1</script>", "__proto__"];

/** Numbers that are the same in each run. */
let state = 1;
function random() {
  state = (state * 16807) % 2147483647;
  return state / 2147483647;
}

const now = () => Math.floor(Date.now() / 1000);

/** The last 14:02 in UTC, when a generation was made, and times before it. */
function moment(before_s) {
  const day = 86400;
  const last = Math.floor((now() - (14 * 60 + 2) * 60) / day) * day + (14 * 60 + 2) * 60;
  return { unix_s: last - before_s, at: new Date((last - before_s) * 1000).toISOString().replace(".000", "") };
}

function point(id, at) {
  const age = now() - at;
  const grown = id === GROWS ? 0.97 - (age / 1800) * 0.2 : 0.7 + random() / 50;
  const waits = id === WAITS && age < WAITS_SINCE_S;
  return {
    at_unix: at, age_s: Math.max(age, 6), hit_ratio: 0.95 + random() / 100, requests_per_s: 30000 * (1 + random() / 10), hits_per_s: 28000 * (1 + random() / 10), misses_per_s: 900 * (1 + random() / 10),
    received_bytes_per_s: 1e7 * (1 + random() / 10), sent_bytes_per_s: 1e8 * (1 + random() / 10), evictions_per_s: 0, memory_used_bytes: 64e9 * grown, memory_limit_bytes: 64e9,
    connections: 400 + 10 * random(), items: 1e7, wait_p99_us: waits ? 4000 + 400 * random() : 70 + 20 * random(), service_p99_us: 180 + 30 * random(), cpus: 1.8 + 0.4 * random(), scheduling_wait_share: waits ? 0.3 + random() / 20 : random() / 100,
  };
}

const points = (id, count) => Array.from({ length: count }, (_, at) => point(id, now() - 6 - (count - 1 - at) * EVERY_S));

/** All servers with a slot, each on a host of its own. */
const SERVERS = Object.entries(CLUSTERS).flatMap(([cluster, slots]) => Array.from({ length: slots }, (_, slot) => ({ id: `${cluster}-m${slot}`, zone: "abc"[slot % 3], cluster }))).map((one, at) => ({ ...one, host: `host-${at}` }));

const servers = (is, count) => SERVERS.filter(is).map((one) => ({ ...one, page: `${one.host}.example:9150`, points: points(one.id, count) }));

/** @param {string[]} texts Names and reasons that are not those of an ordinary fleet. */
function summary(texts) {
  const sums = (/** @type {string} */ name, /** @type {number} */ slots) => ({ requests_per_s: 31000 * slots * (1 + random() / 50), hit_ratio: 0.96 + random() / 100, hits_per_s: 28000 * slots, misses_per_s: 900 * slots, evictions_per_s: 0, memory_limit_bytes: 64e9 * slots, memory_used_bytes: 64e9 * slots * 0.72, fullest_share: name === "ads" ? 0.97 : 0.74, service_p99_us: 200, wait_p99_us: name === "ads" ? 4300 : 85, skew: 1 + random() / 5 });
  const state = (/** @type {string} */ cluster, /** @type {number} */ slot) => (cluster === "ads" ? "s" : cluster === "feed" && slot === 17 ? "l" : cluster === "web" && slot === 3 ? "u" : texts.length ? "ssssssssssssssssssssssssssssdu?l"[Math.floor(random() * 32)] : "s");
  const clusters = Object.entries(CLUSTERS).map(([name, slots]) => ({ name, slots, known: slots, slot_states: Array.from({ length: slots }, (_, slot) => state(name, slot)).join(""), ...sums(name, slots) }));
  clusters.push(...texts.map((name) => ({ name, slots: 1, known: 1, slot_states: "s", ...sums(name, 1) })));
  const ordinary = [
    { urgency: "now", text: "Server feed-m17 is lost, and its slot (slot s17 of feed) has no other one yet.", about: { kind: "member", id: "feed-m17" }, command: "evenkeel control replace feed-m17" },
    { urgency: "soon", text: "Server web-m3 (slot s3 of web) may be lost: its probe, its agent or its process is missing.", about: { kind: "member", id: "web-m3" }, command: "evenkeel control status" },
    { urgency: "soon", text: `1 router (${OLD_ROUTER}) runs an older configuration, and the rollout is over.`, about: { kind: "routers", id: "main" }, command: null },
    { urgency: "note", text: "Nothing changes in zone/c: power.", about: { kind: "frozen", id: "zone/c" }, command: "evenkeel control thaw zone/c --why …" },
  ];
  const odd = texts.length ? Array.from({ length: 46 }, (_, at) => ({ urgency: "note", text: texts[at] ?? `Agent of host-${at} is not heard.`, about: { kind: at % 2 ? "member" : "frozen", id: texts[at] ?? `m${at}` }, command: `evenkeel control replace '${texts[at] ?? "m" + at}'` })) : [];
  const needs = [...odd, ...ordinary];
  const level = (pool) => ({ view: "main", pool, requests_per_s: 1e6, availability_5min: 0.9999, availability_1h: 0.998, availability_24h: 0.99995, failovers_5min: null, failovers_1h: null, failovers_24h: null });
  const levels = [{ ...level(null), failovers_5min: 0.00004, failovers_1h: 0.0021, failovers_24h: 0.00012 }, ...Object.keys(CLUSTERS).map(level)];
  const zones = Object.fromEntries(["a", "b", "c", ...texts].map((zone) => [zone, { members: 1667, serving: 1600, spare: 67 }]));
  const serving = Object.values(CLUSTERS).reduce((sum, slots) => sum + slots, 0);
  return {
    fleet: "prod", controller: "c1", generation: 412, reason: texts[0] ?? "feed grows for the holidays", certificate_end_s: null, register_away: null, frozen: [["zone/c", "power"]],
    clusters, needs, needs_left_out: texts.length, levels, levels_left_out: 0, zones, members: { serving: serving - 2, spare: MEMBERS - serving, draining: 0, suspect: 1, lost: 1, held: 0, emptying: 0, unfit: 0, unknown: 0 },
    routers: { current: ROUTERS - 1, behind: 1, refusing: 0, silent: 0 }, rollout: { generation: 412, state: "done", have: ROUTERS - 1, of: ROUTERS, lane: "b", wave: null, halted_why: null, waits_for: null },
    changes: [{ number: 7, what: "profile busy-polling", state: "going", hosts: 250, counts: { changed: 12 } }], standards: { first_mixed: [], mixed: 0, of: [] },
  };
}

function routers(texts) {
  const figures = () => ({ at_unix: now(), age_s: 6, availability: 0.9999, hit_ratio: 0.98, requests_per_s: 30000 * random(), errors_per_s: 0, timeouts_per_s: 0, hits_per_s: 1, misses_per_s: 1, received_bytes_per_s: 1e7, sent_bytes_per_s: 1e7, failovers_per_s: 0, unavailable_servers: 0, clients: 90, reply_p99_us: 512, cpus: random() });
  return Array.from({ length: ROUTERS }, (_, at) => ({ id: texts[at] ?? `r-${at}`, host: `host-${at}`, zone: "a", view: "main", loaded: `r-${at}` === OLD_ROUTER ? "9f2c41aa51d0ab12" : "8ed803dca8725c50", page: texts[at] ?? `10.0.0.${at % 250}:9442`, points: [figures()] }));
}

/** @param {string[]} texts */
function lab(texts) {
  const names = texts.length ? texts : ["gets per second", "99th percentile of gets", "CPU seconds of a million gets"];
  const series = (/** @type {string} */ cell, /** @type {number} */ trend) => names.map((title, at) => {
    const points = Array.from({ length: 14 }, (_, day) => { const level = (at + 1) * 1e6 * (1 + (day * trend) / 100 + random() / 200); return { unix_s: now() - (13 - day) * 86400, level, median: level }; });
    const last = points[13].level / points[0].level;
    return { title, cell, runs: 14, points, newest: texts.length ? title : ["4.12 M/s", "212 µs", "1.93 s"][at], against_first: `× ${last.toFixed(3)}`, is_primary: at === 0 };
  });
  const experiments = texts.length ? [[texts[0], texts[1]]] : [["serve-gets", "r5.2xlarge"], ["route-pools", "r5.2xlarge"]];
  const suspicions = (texts.length ? texts : ["gets per second"]).map((title) => ({ title, change: texts.length ? title : "−3.1 %", cell: texts.length ? title : "threads=4", machine: texts.length ? title : "r5.2xlarge", good: texts.length ? title : "5c0de11a", worse_since: texts.length ? title : "8ba5eba1" }));
  return { experiments: experiments.map(([experiment, machine], at) => ({ experiment, machine, series: texts.length ? series(texts[2], 0) : [...series("threads=4", at ? 0.1 : -0.25), ...series("threads=8", 0.1)] })), suspicions };
}

/** Who changed slots or routes, the newest first: each an hour and some minutes after the one before. @param {string[]} texts */
function generations(texts) {
  const whys = ["feed grows for the holidays", "web: a gutter of two", "ads: another copy in zone b", "replace a disk of host-211", "cluster-4 shrinks after the night"];
  const made = (/** @type {number} */ at) => ({ generation: 412 - at, parent: 411 - at, who: ["ann", "ben", "cleo"][at % 3], at: moment(at * 4700).at, reason: whys[at % whys.length], steps: at ? [`cluster ${["web", "ads", "feed"][at % 3]}: slot s${at} moves from m${at} to m${at + 1}`] : ["cluster feed: 1,000 slots rather than 960", "view main: 3.92 % of the keys change their server"] });
  return Array.from({ length: 200 }, (_, at) => (texts.length ? { ...made(at), who: texts[at] ?? "ann", reason: texts[at] ?? "feed grows", steps: texts } : made(at)));
}

/** A change of hosts whose canaries are better than the hosts beside them. */
const CHANGE = { number: 7, what: "profile busy-polling", state: "going", hosts: 250, who: "ben", why: "p99 in the evening", ...moment(2460), end: null };
const CHANGES = [
  { number: 6, what: "profile memcached", state: "done", hosts: 250, who: "ann", why: "new hosts of zone c", ...moment(97000), end: { state: "done", why: "", ...moment(83000) } },
  { number: 5, what: "profile busy-polling", state: "undone", hosts: 250, who: "ben", why: "a first try", ...moment(265000), end: { state: "undone", why: "canaries are worse", ...moment(263000) } },
];

/** @param {string[]} texts */
const oddChanges = (texts) => texts.map((text, number) => ({ number, what: text, state: "done", ...moment(number), end: moment(0), hosts: 3, who: text, why: text }));

/** @param {string[]} texts */
function change(texts) {
  const shift = (/** @type {string} */ figure, /** @type {number[]} */ [middle, low, high]) => ({ figure, middle, low, high });
  const figures = [shift("requests_per_cpu_s", [0.4, -0.9, 1.6]), shift("p99", [31.2, 24.1, 37.8]), shift("scheduling_wait", [2, -2.2, 6.5])];
  const canaries = { wave: 0, units: 12, figures, verdict: "better" };
  const usual = { ...CHANGE, wave: "canaries", waits_for: "waits for the time of the wave", counts: { changed: 12, told: 0, told_back: 0, left_out: 0, untold: 238 }, looks: [{ kind: { class: "r5.2xlarge", group: "1" }, looks: [canaries] }], text: "" };
  if (!texts.length) return usual;
  const odd = { wave: 1, units: 0, figures: [{ figure: texts[0], middle: null }], verdict: { worse: texts } };
  return { ...usual, objective: texts[0], gate: { gate: texts[0], state: texts[1], why: texts[2] }, left_out: texts.map((text) => ({ host: text, why: text })), what: texts[0], wave: texts[2], waits_for: texts[1], who: texts[3], why: texts[4], looks: [{ kind: { class: texts[0], group: texts[1] }, looks: [canaries, odd, { ...odd, verdict: texts[4] }] }] };
}

/** @param {string[]} texts */
function why(texts) {
  if (texts.length) return `view main:\n  get     ${texts[0]} at ${texts[1]}\n`;
  const place = "feed-m417 at 10.4.1.161:11211 (feed/s417, since generation 390)";
  return `view main:\n  get     ${place}\n  set     ${place}\n  delete  ${place}\nby generation 412: feed grows for the holidays\n`;
}

/** What the tuner has found on a host. @param {string} host @param {string[]} texts */
function check(host, texts) {
  const isFull = texts.length > 0 || SERVERS.find(({ id }) => id === WAITS)?.host === host;
  const full = { rule: "softirq-one-core", severity: "critical", subject: "CPU 2", cause: "it handles all packets of eth0, and spends 96 % of its time on that while other CPUs idle", change: "spread the packets over the CPUs of its node (rps_cpus)", also: 0, causes: [] };
  const small = { rule: "backlog-small", severity: "note", subject: "net.core.netdev_max_backlog", cause: "it is 1000, and no packet was dropped for that yet", change: "net.core.netdev_max_backlog: 1000 -> 4096", also: 0, causes: [] };
  const odd = texts.map((text) => ({ rule: text, severity: "warning", subject: text, cause: text, change: text, also: 2, causes: [text] }));
  const cpus = Array.from({ length: 8 }, (_, cpu) => ({ cpu, softirq: isFull && cpu === 2 ? 96 : Math.floor(4 * random()), busy: isFull && cpu === 2 ? 99 : Math.floor(20 + 10 * random()) }));
  const state = { unknown: null, plans: [{ journal: texts[0] ?? "20261124-090112-memcached", phase: "in_force", settings: 14, drifted: 0 }], plans_all: 1, files: 3, files_changed: 0, doubts: 0 };
  return { rows: [], missing: texts.slice(1, 2).map((why) => ({ why })), states: [], checks: [{ host, kind: "r5.2xlarge", check: { window_s: 3, findings: [...odd, ...(isFull ? [full, small] : [small])], cpus, cut: 0, gaps: 0, gap: null, state } }] };
}

/** The document of a path, with its status. */
function document(path, query, texts) {
  const figures = (/** @type {any} */ of) => [200, { unix_s: now(), controller: "c1", servers: [], routers: [], levels: [], levels_left_out: 0, ...of }];
  switch (path) {
    case "/v1/summary":
      return [200, summary(texts)];
    case "/v1/figures": {
      if (query.get("of") === "routers") return figures({ routers: routers(texts) });
      const [cluster, member, host] = [query.get("cluster"), query.get("member"), query.get("host")];
      const count = query.has("since") ? POINTS : 1;
      if (member) return figures({ servers: texts.length ? [{ id: member, host: texts[1], zone: "a", cluster: texts[3], page: texts[4], points: points(member, count) }] : servers((one) => one.id === member, count) });
      if (host && !texts.length) return figures({ servers: servers((one) => one.host === host, count) });
      if (!Object.hasOwn(CLUSTERS, cluster ?? "")) return figures({ servers: texts.map((id) => ({ id, host: id, zone: id, cluster, points: points(id, 1) })) });
      if (CLUSTERS[cluster] * count > 120 * 128) return [400, { error: "expected 15360 points at most" }];
      return figures({ servers: servers((one) => one.cluster === cluster, count) });
    }
    case "/v1/lab":
      return [200, lab(texts)];
    case "/v1/history":
      return [200, { generations: generations(texts), text: "" }];
    case "/v1/shadows":
      return [200, { gate: null, within_s: 3600, text: "", shadows: ["web->new", ...texts].map((shadow) => ({ shadow, routers_telling: 3, routers_reading: 3, found: { compared: 184210, differed_share: 0.00031, normal_hits: 176840, shadow_hits: 176801, normal_us: { p50: 142, p99: 611 }, shadow_us: { p50: 139, p99: 604 } } })) }];
    case "/v1/changes":
      return [200, query.has("number") ? change(texts) : { changes: texts.length ? oddChanges(texts) : [CHANGE, ...CHANGES], text: "" }];
    case "/v1/why":
      return [200, { generation: 412, servers: {}, text: why(texts) }];
    case "/v1/tune/check":
      return [200, check(decodeURIComponent(query.get("hosts") ?? "").replace("host=", ""), texts)];
    default:
      return [404, { error: "there is no such document" }];
  }
}

const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8" };

/**
 * Serves files of the console with the headers of a real one, and documents.
 * @param {string} files Their folder.
 * @param {Record<string, string>} headers
 * @param {string} index The file at `/`.
 * @param {(path: string, query: URLSearchParams, request: any) => [number, any] | null} document
 */
function site(files, headers, index, document) {
  const answer = (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://made");
    const found = document(pathname, searchParams, request);
    if (found) {
      response.writeHead(found[0], { ...headers, "content-type": "application/json" });
      return response.end(JSON.stringify(found[1]));
    }
    const name = normalize(pathname === "/" ? index : pathname);
    response.writeHead(200, { ...headers, "content-type": TYPES[extname(name)] });
    response.end(readFileSync(join(files, name)));
  };
  let server = createServer(answer);
  const listen = (port) => new Promise((done) => server.listen(port, "127.0.0.1", () => done(server.address().port)));
  return {
    start: () => listen(0),
    /** Ends, as a controller that is away: connections are refused. */
    end: () => new Promise((done) => { server.close(done); server.closeAllConnections(); }),
    /** Is there again, at the same port. */
    again: (port) => { server = createServer(answer); return listen(port); },
  };
}

/**
 * A made fleet.
 * @param {string} files
 * @param {Record<string, string>} headers
 * @param {string[]} texts Names and reasons in place of ordinary ones.
 */
export const madeFleet = (files, headers, texts) => site(files, headers, "/index.html", (path, query) => (path.startsWith("/v1/") ? document(path, query, texts) : null));

/**
 * A made fleet whose console admits browsers with this token, once.
 * @param {string} files
 * @param {Record<string, string>} headers
 * @param {string} token
 */
export function madeGate(files, headers, token) {
  let isAdmitted = false;
  return site(files, headers, "/index.html", (path, query, request) => {
    if (path === "/session") {
      const isTaken = !isAdmitted && request.headers.authorization === "Bearer " + token;
      isAdmitted ||= isTaken;
      return isTaken ? [200, {}] : [401, { error: "it is not known" }];
    }
    if (!path.startsWith("/v1/")) return null;
    return isAdmitted ? document(path, query, []) : [401, { error: "a token is needed" }];
  });
}

/** Reports that lack nearly everything, or have it otherwise than is expected. */
export const REPORTS = {
  "a server that says nothing": {},
  "a router that says nothing": { route: {} },
  "a server with hostile texts": {
    version: HOSTILE[0], stats: { curr_items: HOSTILE[0], pid: HOSTILE[1], extstore_limit_maxbytes: 5 }, memory: { limit_bytes: 0, charged_bytes: 9 }, service: { get: { buckets: [[7, 1]], count: 1 } },
    listeners: HOSTILE.map((address) => ({ address, connections: -1 })), threads: { "worker-x": { run_ns: "a" } }, hot: { requests: HOSTILE.map((key) => ({ key, share: 1e300 })), bytes: "x", misses: null },
  },
  "a router with hostile texts": {
    route: { version: HOSTILE[1], requests: { [HOSTILE[0]]: 1 }, pools: Object.fromEntries(HOSTILE.map((pool) => [pool, { requests: 1 }])), shadows: { by_name: { [HOSTILE[0]]: {}, [HOSTILE[1]]: { compared: 1, normal_us: "x" } } }, hot: null, latency: null },
    servers: Object.fromEntries(HOSTILE.map((server) => [server, { outcomes: { success: 1 } }])),
  },
};

/**
 * The report of a server that is asked for the nth time, two seconds apart.
 * @param {number} turn
 */
export function busyServer(turn) {
  const grown = (/** @type {number} */ per_s) => Math.floor(turn * 2 * per_s * (1 + random() / 100));
  const times = () => { const buckets = Array.from({ length: 40 }, (_, at) => [2 ** (at / 4), grown(100 * random())]); return { buckets, count: buckets.reduce((sum, [, count]) => sum + count, 0) }; };
  const hot = () => Array.from({ length: 20 }, (_, at) => ({ key: `user:${Math.floor(random() * 1e6)}:${at}`, share: random() / 20 }));
  return {
    uptime_us: turn * 2e6, version: "1.0.0",
    stats: { pid: 4711, curr_items: grown(1), curr_connections: 400 + 10 * random(), total_connections: grown(3), cmd_get: grown(30000), get_hits: grown(29000), get_misses: grown(900), cmd_set: grown(900), evictions: grown(20), bytes_read: grown(1e6), bytes_written: grown(1e7) },
    ghost_hits: grown(5), memory: { limit_bytes: 64e9, charged_bytes: 60e9 * (1 - random() / 100) },
    service: { get: times(), set: times(), delete: times() }, wait: times(), listeners: [{ address: "0.0.0.0:11211", connections: 400, accepted: grown(3) }],
    threads: Object.fromEntries([0, 1, 2, 3].map((number) => ["worker-" + number, { run_ns: grown(5e8), wait_ns: grown(1e6) }])),
    hot: { requests: hot(), bytes: hot(), misses: hot() },
  };
}

/**
 * A made process with such a report, whose clock goes on.
 * @param {string} files
 * @param {Record<string, string>} headers
 * @param {any} report A report, or what makes the one of the nth question.
 */
export const madeProcess = (files, headers, report) => {
  let turn = 0;
  return site(files, headers, "/process/index.html", (path) => {
    if (typeof report === "function") return path === "/api/v1/stats" ? [200, report((turn += 1))] : null;
    if (path === "/api/v1/servers") return [200, { uptime_us: Date.now() * 1000, servers: report.servers }];
    return path.startsWith("/api/") ? [200, { ...report, uptime_us: Date.now() * 1000 }] : null;
  });
};
