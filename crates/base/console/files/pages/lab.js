// The lab: results of experiments over time, and what became worse. Of the file that the controller was started with.

import { spark } from "../charts.js";
import { h, name as shown, visible } from "../dom.js";
import { table } from "../table.js";

export const title = () => "Lab";
export const reads = () => ({ lab: "/v1/lab" });

/**
 * @param {Record<string, any>} documents
 * @param {string} _
 * @param {() => void} redraw
 */
export function draw({ lab }, _, redraw) {
  const title = h("h1", {}, "Lab");
  if (lab.none) return [title, h("p", { class: "empty" }, visible(lab.none) + ".")];
  if (!lab.experiments.length) return [title, h("p", { class: "empty" }, "No run is kept yet: evenkeel lab history --add RUN --commit COMMIT keeps one.")];
  return [title, suspicions(lab.suspicions), lab.experiments.map((/** @type {any} */ one, /** @type {number} */ at) => experiment(one, at, redraw))];
}

/** @param {any[]} found */
function suspicions(found) {
  if (!found.length) return h("p", { class: "good" }, "✓ Nothing that decides an experiment became worse lately.");
  const lines = found.map((one) => h("li", {}, h("strong", {}, visible(one.title), " ", visible(one.change)), " of ", shown(one.cell), " on ", shown(one.machine), ": good at ", shown(one.good), ", worse since ", shown(one.worse_since), "."));
  return h("section", {}, h("h2", {}, "Became worse"), h("ul", {}, lines));
}

/**
 * @param {any} one
 * @param {number} at
 * @param {() => void} redraw
 */
function experiment(one, at, redraw) {
  /** @type {import("../table.js").Column<any>[]} */
  const columns = [
    { head: "Metric", isText: true, by: (row) => row.title, cell: (row) => h("span", {}, row.is_primary ? h("strong", {}, visible(row.title)) : visible(row.title)) },
    { head: "Cell", isText: true, by: (row) => row.cell, cell: (row) => shown(row.cell) },
    { head: "Runs", by: (row) => row.runs, cell: (row) => row.runs },
    { head: "Newest", by: (row) => row.points[row.points.length - 1].median, cell: (row) => visible(row.newest) },
    { head: "Against the first", by: (row) => row.points[row.points.length - 1].level / row.points[0].level, cell: (row) => row.against_first ?? "–" },
    { head: "Since the first", isText: true, cell: (row) => spark(row.points.map((/** @type {any} */ point) => ({ at: point.unix_s, value: point.level })), String) },
  ];
  return h("section", {}, h("h2", {}, shown(one.experiment), " ", h("span", { class: "quiet" }, "(", shown(one.machine), ")")), table("lab-" + at, one.experiment, columns, one.series, redraw));
}
