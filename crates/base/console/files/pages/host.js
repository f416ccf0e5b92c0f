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
    cpus(check.checks?.[0]?.check),
    inForce(check.checks?.[0]?.check.state),
    h("p", {}, "To look again: ", command("evenkeel control tune check --now --hosts host=" + name)),
  ];
}

/** The worst last. */
const SEVERITIES = ["note", "warning", "critical"];

/**
 * @param {any} check
 * @param {() => void} redraw
 */
function findings(check, redraw) {
  if (check.error) return h("p", { class: "empty" }, visible(check.error) + ".");
  const why = (check.missing ?? []).map((/** @type {any} */ one) => h("p", { class: "quiet" }, visible(one.why) + "."));
  const found = check.checks?.[0]?.check.findings ?? [];
  if (!found.length) return why.length ? why : h("p", { class: "empty good" }, "✓ Its last look has found nothing.");
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Severity", isText: true, by: (row) => SEVERITIES.indexOf(row.severity), cell: (row) => h("span", { class: row.severity === "critical" ? "bad" : null }, visible(row.severity)) },
    { head: "Rule", isText: true, by: (row) => row.rule, cell: (row) => h("code", {}, visible(row.rule)) },
    { head: "Finding", isText: true, by: (row) => row.subject, cell: (row) => h("div", { class: "words" }, visible(row.subject), row.also ? ` and ${row.also} more` : "", ": ", visible(row.cause)) },
    { head: "Change", isText: true, cell: (row) => h("div", { class: "words" }, visible(row.change || "nothing on this host helps")) },
  ];
  return [why, table("findings", "Findings", columns, found, redraw)];
}

/**
 * Soft interrupts and load of each CPU, in the window of the last look.
 * @param {any} check
 */
function cpus(check) {
  if (!check?.cpus?.length) return null;
  const head = h("tr", {}, ["CPU", "Soft interrupts", "Busy"].map((text) => h("th", { scope: "col" }, text)));
  const rows = check.cpus.map((/** @type {any} */ one) => h("tr", {}, h("th", { scope: "row" }, one.cpu), share(one.softirq), share(one.busy)));
  const over = "In " + Math.round(check.window_s) + " s of the last look. One CPU that is full of soft interrupts while others idle limits what the network card brings.";
  return h("section", {}, h("h2", {}, "CPUs"), h("p", { class: "quiet" }, over), h("div", { class: "wide", tabindex: 0 }, h("table", { class: "shares" }, h("thead", {}, head), h("tbody", {}, rows))));
}

/** A CPU that does more of one thing has little room, or none. */
const [BUSY, FULL] = [60, 85];

/** @param {number} percent */
function share(percent) {
  return h("td", {}, h("meter", { min: 0, max: 100, low: BUSY, high: FULL, optimum: 0, value: percent, "aria-label": percent + " %" }), " " + percent + " %");
}

/**
 * What the tuner has changed, and how it is taken back.
 * @param {any} state
 */
function inForce(state) {
  if (!state) return null;
  const title = h("h2", {}, "Changes in force");
  if (state.unknown) return h("section", {}, title, h("p", { class: "quiet" }, visible(state.unknown) + "."));
  if (!state.plans.length) return h("section", {}, title, h("p", { class: "empty" }, "The tuner has changed nothing."));
  const rows = state.plans.map((/** @type {any} */ plan) => {
    const drift = plan.drifted ? ", " + plan.drifted + " of them have another value now" : "";
    return h("li", {}, shown(plan.journal), ": " + visible(plan.phase).replaceAll("_", " ") + ", " + plan.settings + (plan.settings === 1 ? " setting" : " settings") + drift);
  });
  const more = state.plans_all > state.plans.length ? h("p", { class: "quiet" }, "And " + (state.plans_all - state.plans.length) + " older ones.") : null;
  return h("section", {}, title, h("ul", {}, rows), more, h("p", {}, "The last one is taken back on the host with ", command("evenkeel tune rollback"), "; a ", h("a", { href: "#/history" }, "change of the fleet"), " with the command that its page has."));
}
