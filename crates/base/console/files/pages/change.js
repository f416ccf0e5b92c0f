// A change of hosts: where it is, and how the hosts that have it compare with those that do not.

import { command, h, name as shown, visible } from "../dom.js";

export const title = (/** @type {string} */ name) => "Change " + name;
export const reads = (/** @type {string} */ name) => ({ change: "/v1/changes?number=" + encodeURIComponent(name) });

/** Words of its counts of hosts. @type {[string, string][]} */
const COUNTS = [["changed", "changed"], ["told", "told"], ["told_back", "told to be as before"], ["left_out", "left out"], ["untold", "not told yet"]];

/** @param {Record<string, any>} documents @param {string} name */
export function draw({ change }, name) {
  const fact = (/** @type {string} */ what, /** @type {any} */ text) => (text ? h("div", {}, h("dt", {}, what), h("dd", {}, text)) : null);
  const text = (/** @type {any} */ words) => (words ? visible(String(words)) : null);
  const counts = change.counts && COUNTS.map(([count, words]) => `${change.counts[count] ?? 0} ${words}`).join(", ");
  return [
    h("h1", {}, `Change ${change.number}: `, shown(change.what)),
    h("dl", { class: "facts" }, fact("State", h("span", { class: "state " + change.state }, change.state)), fact("Wave", text(change.wave)), fact("Waits for", text(change.waits_for)), fact("Because", text(change.state_why)), fact("Hosts", counts ?? change.hosts), fact("Begun by", shown(change.who)), fact("Why", shown(change.why))),
    h("section", {}, h("h2", {}, "What was measured"), looks(change)),
    h("p", {}, "All of it: ", command("evenkeel control tune status " + name)),
  ];
}

/**
 * Each look compares hosts that have the change with hosts like them that do not; the controller's own words say what came of it.
 * @param {any} change
 */
function looks(change) {
  const kinds = new Set(change.looks.map((/** @type {any} */ one) => one.kind));
  if (!kinds.size) return h("p", { class: "empty" }, "Nothing yet: canaries are compared when they have had it for a while.");
  const [, ...lines] = change.text.split("\n").filter((/** @type {string} */ line) => line);
  return h("pre", { class: "wide", tabindex: 0, role: "region", "aria-label": "What was measured" }, lines.map((/** @type {string} */ line) => visible(line)).join("\n"));
}
