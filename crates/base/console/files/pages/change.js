// A change of hosts: where it is, and how the hosts that have it compare with those that do not.

import { command, h, name as shown, visible } from "../dom.js";
import { table } from "../table.js";
import { UNKNOWN, isKnown } from "../words.js";

export const title = (/** @type {string} */ name) => "Change " + name;
export const reads = (/** @type {string} */ name) => ({ change: "/v1/changes?number=" + encodeURIComponent(name) });

/** Words of its counts of hosts. @type {[string, string][]} */
const COUNTS = [["changed", "changed"], ["told", "told"], ["told_back", "told to be as before"], ["left_out", "left out"], ["untold", "not told yet"]];

/**
 * @param {Record<string, any>} documents
 * @param {string} _
 * @param {() => void} redraw
 */
export function draw({ change }, _, redraw) {
  const fact = (/** @type {string} */ what, /** @type {any} */ text) => (text ? h("div", {}, h("dt", {}, what), h("dd", {}, text)) : null);
  const text = (/** @type {any} */ words) => (words ? visible(String(words)) : null);
  const counts = change.counts && COUNTS.map(([count, words]) => `${change.counts[count] ?? 0} ${words}`).join(", ");
  return [
    h("h1", {}, `Change ${change.number}: `, shown(change.what)),
    h("dl", { class: "facts" }, fact("State", h("span", { class: "state " + change.state }, change.state)), fact("Wave", text(change.wave)), fact("Now it", text(change.waits_for)), fact("Because", text(change.state_why)), fact("Objective", text(change.objective)), fact("Gate", change.gate?.why ? text(`${change.gate.state}: ${change.gate.why}`) : null), fact("Hosts", counts ?? change.hosts), fact("Begun", change.at ? change.at.replace("T", " ").replace("Z", " UTC") : null), fact("By", shown(change.who)), fact("Why", shown(change.why))),
    h("section", {}, h("h2", {}, "What was measured"), looks(change, redraw)),
    leftOut(change.left_out ?? []),
    h("p", {}, "All of it: ", command("evenkeel control tune status " + change.number)),
    change.end ? null : h("p", {}, "To take it back: ", command(`evenkeel control tune undo ${change.number} --why …`)),
  ];
}

/** Words of verdicts. @type {Record<string, {word: string, look: string | null}>} */
const VERDICTS = { better: { word: "✓ better", look: "good" }, not_worse: { word: "✓ not worse", look: "good" }, undecided: { word: "cannot be told yet", look: null } };
/** Figures of a look, as people call them. @type {[string, string][]} */
const FIGURES = [["requests_per_cpu_s", "Requests per CPU second"], ["p99", "p99"], ["scheduling_wait", "Waiting for a CPU"]];

/**
 * Each look compares hosts that have the change with hosts like them that do not.
 * @param {any} change
 * @param {() => void} redraw
 */
function looks(change, redraw) {
  const rows = change.looks.flatMap((/** @type {any} */ one) => one.looks.map((/** @type {any} */ look) => ({ ...look, kind: one.kind })));
  if (!rows.length) return h("p", { class: "empty" }, "Nothing yet: canaries are compared when they have had it for a while.");
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Wave", isText: true, by: (row) => row.wave, cell: (row) => (row.wave ? "share " + row.wave : "canaries") },
    { head: "They are", isText: true, cell: (row) => verdict(row.verdict) },
    ...FIGURES.map(([figure, head]) => ({ head, cell: (/** @type {any} */ row) => shift(row.figures.find((/** @type {any} */ one) => one.figure === figure)) })),
    { head: "Pairs", title: "Pairs of hosts alike, of which one has the change", by: (row) => row.units, cell: (row) => row.units },
    { head: "Hosts alike", isText: true, cell: (row) => shown((row.kind.class ? `class ${row.kind.class}, ` : "") + "plan " + row.kind.group) },
  ];
  return [h("p", { class: "quiet" }, "By how much hosts with the change are better or worse than hosts like them without it, and in brackets the interval of what is likely. A p99 that is better is lower."), table("looks", "Looks at hosts with the change", columns, rows, redraw)];
}

/** @param {any} verdict */
function verdict(verdict) {
  if (verdict?.worse) return h("strong", { class: "bad" }, "worse ! ", visible(verdict.worse.map((/** @type {string} */ one) => FIGURES.find(([figure]) => figure === one)?.[1] ?? one).join(", ")));
  const known = VERDICTS[verdict];
  return known ? h("strong", { class: known.look }, known.word) : visible(String(verdict));
}

/** @param {any} figure */
function shift(figure) {
  if (!isKnown(figure?.middle)) return UNKNOWN;
  const { middle, low, high } = figure;
  const signed = (/** @type {number} */ value) => (value < 0 ? "−" : "") + Math.abs(value).toFixed(1);
  if (!isKnown(low) || !isKnown(high)) return `${Math.abs(middle).toFixed(1)} % ${middle < 0 ? "worse" : "better"}`;
  if (low <= 0 && high >= 0) return h("span", { class: "quiet" }, `no clear difference (${signed(low)} to ${signed(high)} %)`);
  const [least, most] = low < 0 ? [-high, -low] : [low, high];
  return `${Math.abs(middle).toFixed(1)} % ${low < 0 ? "worse" : "better"} (${least.toFixed(1)} to ${most.toFixed(1)})`;
}

/** Hosts that are named; the command has all of them. */
const NAMED_MAX = 20;

/** @param {{host: string, why: string}[]} hosts */
function leftOut(hosts) {
  if (!hosts.length) return null;
  const rows = hosts.slice(0, NAMED_MAX).map(({ host, why }) => h("li", {}, h("a", { href: "#/host/" + encodeURIComponent(host) }, shown(host)), ": ", visible(why)));
  const more = hosts.length - rows.length;
  return h("section", {}, h("h2", {}, "Left out"), h("ul", {}, rows), more ? h("p", { class: "quiet" }, `And ${more} more.`) : null);
}
