// A made fleet of 5,000 members: documents in the shape of a controller's answers, with figures of no real one.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";

/** Slots of each cluster; the members of all of them are 5,000 with the spares. */
const CLUSTERS = { feed: 1000, web: 128, ...Object.fromEntries(Array.from({ length: 18 }, (_, at) => ["cluster-" + at, 200])) };
const MEMBERS = 5000;
const ROUTERS = 400;
/** Points of half an hour. */
const POINTS = 120;

/** Texts that a fleet may have and a page must not obey. */
export const HOSTILE = ["<img src=x onerror=window.obeyed=1>", "a\u202eb\u2066c", "\u0000\u001b[2J", "x".repeat(250), "\"><script>window.obeyed=1</script>", "__proto__"];

/** Numbers that are the same in each run. */
let state = 1;
function random() {
  state = (state * 16807) % 2147483647;
  return state / 2147483647;
}

const now = () => Math.floor(Date.now() / 1000);

function point(at) {
  return {
    at_unix: at, age_s: 6, hit_ratio: 0.9 + random() / 10, requests_per_s: 30000 * random(), hits_per_s: 20000 * random(), misses_per_s: 900 * random(),
    received_bytes_per_s: 1e7 * random(), sent_bytes_per_s: 1e8 * random(), evictions_per_s: 200 * random(), memory_used_bytes: 60e9 * (0.9 + random() / 10), memory_limit_bytes: 64e9,
    connections: 400 + 10 * random(), items: 1e7, wait_p99_us: 100 * random(), service_p99_us: 300 * random(), cpus: 2 * random(), scheduling_wait_share: random() / 100,
  };
}

function servers(cluster, points) {
  return Array.from({ length: CLUSTERS[cluster] }, (_, slot) => ({ id: `${cluster}-m${slot}`, host: `host-${slot % 250}`, zone: "abc"[slot % 3], cluster, points: Array.from({ length: points }, (_, at) => point(now() - (points - 1 - at) * 15)) }));
}

/** @param {string[]} texts Names and reasons that are not those of an ordinary fleet. */
function summary(texts) {
  const sums = { requests_per_s: 1e6, hit_ratio: 0.98, hits_per_s: 9e5, misses_per_s: 2e4, evictions_per_s: 900, memory_limit_bytes: 64e12, memory_used_bytes: 60e12, service_p99_us: 400, wait_p99_us: 80, skew: 1.4 };
  const clusters = Object.entries(CLUSTERS).map(([name, slots]) => ({ name, slots, known: slots, slot_states: Array.from({ length: slots }, () => "ssssssssssssssssssssssssssssdu?l"[Math.floor(random() * 32)]).join(""), ...sums }));
  clusters.push(...texts.map((name) => ({ name, slots: 1, known: 1, slot_states: "s", ...sums })));
  const ordinary = [
    { urgency: "now", text: "Server feed-m17 is lost, and its slot feed/s17 has no other one yet.", about: { kind: "member", id: "feed-m17" }, command: "evenkeel control replace feed-m17" },
    { urgency: "soon", text: "Server web-m3 is suspect: its agent says that it has no process.", about: { kind: "member", id: "web-m3" }, command: "evenkeel control status" },
    { urgency: "soon", text: "3 routers run older routes although the rollout is over: r-17, r-18, r-203.", about: { kind: "routers", id: "main" }, command: null },
    { urgency: "note", text: "Nothing changes in zone/c: power.", about: { kind: "frozen", id: "zone/c" }, command: "evenkeel control thaw zone/c --why …" },
  ];
  const odd = texts.length ? Array.from({ length: 46 }, (_, at) => ({ urgency: "note", text: texts[at] ?? `Agent of host-${at} is not heard.`, about: { kind: at % 2 ? "member" : "frozen", id: texts[at] ?? `m${at}` }, command: `evenkeel control replace '${texts[at] ?? "m" + at}'` })) : [];
  const needs = [...odd, ...ordinary];
  const level = (pool) => ({ view: "main", pool, requests_per_s: 1e6, availability_5min: 0.9999, availability_1h: 0.998, availability_24h: 0.99995, failovers_5min: null, failovers_1h: null, failovers_24h: null });
  const levels = [{ ...level(null), failovers_5min: 0.00004, failovers_1h: 0.0021, failovers_24h: 0.00012 }, ...Object.keys(CLUSTERS).map(level)];
  const zones = Object.fromEntries(["a", "b", "c", ...texts].map((zone) => [zone, { members: 1667, serving: 1600, spare: 67 }]));
  const serving = Object.values(CLUSTERS).reduce((sum, slots) => sum + slots, 0);
  return {
    fleet: "prod", controller: "c1", generation: 412, reason: texts[0] ?? "grow feed to 1,000", certificate_end_s: null, register_away: null, frozen: [["zone/c", "power"]],
    clusters, needs, needs_left_out: texts.length, levels, levels_left_out: 0, zones, members: { serving, spare: MEMBERS - serving, draining: 0, suspect: 0, lost: 0, held: 0, emptying: 0, unfit: 0, unknown: 0 },
    routers: { current: ROUTERS - 3, behind: 3, refusing: 0, silent: 0 }, rollout: { generation: 412, state: "underway", have: 312, of: ROUTERS, lane: "b", wave: "lane b", halted_why: null, waits_for: null },
    changes: [{ number: 7, what: "busy polling", state: "settling", hosts: 250, counts: { changed: 12 } }], standards: { first_mixed: [], mixed: 0, of: [] },
  };
}

function routers(texts) {
  const figures = () => ({ at_unix: now(), age_s: 6, availability: 0.9999, hit_ratio: 0.98, requests_per_s: 30000 * random(), errors_per_s: 0, timeouts_per_s: 0, hits_per_s: 1, misses_per_s: 1, received_bytes_per_s: 1e7, sent_bytes_per_s: 1e7, failovers_per_s: 0, unavailable_servers: 0, clients: 90, reply_p99_us: 512, cpus: random() });
  return Array.from({ length: ROUTERS }, (_, at) => ({ id: texts[at] ?? `r-${at}`, host: `host-${at}`, zone: "a", view: "main", loaded: [17, 18, 203].includes(at) ? "9f2c41aa51d0ab12" : "8ed803dca8725c50", page: texts[at] ?? `10.0.0.${at % 250}:9442`, points: [figures()] }));
}

/** The document of a path, with its status. */
function document(path, query, texts) {
  const figures = (/** @type {any} */ of) => [200, { unix_s: now(), controller: "c1", servers: [], routers: [], levels: [], levels_left_out: 0, ...of }];
  switch (path) {
    case "/v1/summary":
      return [200, summary(texts)];
    case "/v1/figures": {
      if (query.get("of") === "routers") return figures({ routers: routers(texts) });
      const [cluster, member] = [query.get("cluster"), query.get("member")];
      const points = query.has("since") ? POINTS : 1;
      if (member) return figures({ servers: [{ id: member, host: texts[1] ?? "host-1", zone: "a", cluster: texts[3] ?? "feed", page: texts[4] ?? "127.0.0.1:9150", points: Array.from({ length: points }, (_, at) => point(now() - (points - at) * 15)) }] });
      if (!Object.hasOwn(CLUSTERS, cluster ?? "")) return figures({ servers: texts.map((id) => ({ id, host: id, zone: id, cluster, points: [point(now())] })) });
      if (CLUSTERS[cluster] * points > 120 * 128) return [400, { error: "expected 15360 points at most" }];
      return figures({ servers: servers(cluster, points) });
    }
    case "/v1/lab": {
      const points = [2, 1, 0].map((day) => ({ unix_s: now() - day * 86400, level: 100 + day, median: 100 + day }));
      const series = ["requests per second", ...texts].map((title) => ({ title, cell: title, runs: 3, points, newest: title, against_first: "1.01", is_primary: true }));
      return [200, { experiments: [{ experiment: texts[0] ?? "standard", machine: texts[1] ?? "m1", series }], suspicions: texts.map((text) => ({ title: text, change: text, cell: text, machine: text, good: text, worse_since: text })) }];
    }
    case "/v1/history":
      return [200, { generations: Array.from({ length: 200 }, (_, at) => ({ generation: 412 - at, parent: 411 - at, who: texts[at] ?? "ann", at: "2026-12-01T14:02:00Z", reason: texts[at] ?? "feed grows", steps: texts })), text: "" }];
    case "/v1/shadows":
      return [200, { gate: null, within_s: 3600, text: "", shadows: ["web->new", ...texts].map((shadow) => ({ shadow, routers_telling: 3, routers_reading: 3, found: { compared: 184210, differed_share: 0.00031, normal_hits: 176840, shadow_hits: 176801, normal_us: { p50: 142, p99: 611 }, shadow_us: { p50: 139, p99: 604 } } })) }];
    case "/v1/changes":
      if (query.has("number")) return [200, { number: 7, what: texts[0] ?? "busy polling", state: "going", wave: "canaries", waits_for: texts[1] ?? "figures", counts: { changed: 8 }, hosts: 250, who: texts[3] ?? "ann", why: texts[4] ?? "latency", looks: [{ kind: "kind", looks: [] }], text: `change 7\n${texts.join("\n")}\nkind 1, canaries: better\n` }];
      return [200, { changes: texts.map((text, number) => ({ number, what: text, state: "done", unix_s: now(), at: "2026-12-01T14:02:00Z", end: { unix_s: now(), at: "2026-12-01T15:02:00Z" }, hosts: 3, who: text, why: text })), text: "" }];
    case "/v1/why":
      return [200, { generation: 412, servers: {}, text: `view main:\n  get     ${texts[0] ?? "feed-m1"} at ${texts[1] ?? "10.0.0.1:11211"}\n` }];
    case "/v1/tune/check":
      return [200, { rows: texts.map((text) => ({ severity: "warning", finding: text, change: text })), missing: texts.slice(1, 2).map((why) => ({ why })), states: [], checks: [] }];
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
 * A made process with such a report, whose clock goes on.
 * @param {string} files
 * @param {Record<string, string>} headers
 * @param {any} report
 */
export const madeProcess = (files, headers, report) =>
  site(files, headers, "/process/index.html", (path) => {
    if (path === "/api/v1/servers") return [200, { uptime_us: Date.now() * 1000, servers: report.servers }];
    return path.startsWith("/api/") ? [200, { ...report, uptime_us: Date.now() * 1000 }] : null;
  });
