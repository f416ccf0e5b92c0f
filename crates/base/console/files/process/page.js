// The page of one process: a server or a router, by its own reports. The last ten minutes are kept here and nowhere else.

import { h } from "../dom.js";
import { EVERY, isCurrent, isOld, read, replace } from "../live.js";
import * as router from "./router.js";
import { Seen } from "./seen.js";
import * as server from "./server.js";

/** Reports that were read since the page was opened. */
const seen = new Seen();
/** @type {number | undefined} */
let timer;

async function ask() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const report = await read("/api/v1/stats");
    if (typeof report.uptime_us !== "number") throw new Error("the answer is no report of a server or router");
    // Only a router's report has it.
    const kind = report.route ? router : server;
    const beside = await kind.beside();
    seen.note(report, beside, kind.figures);
    document.title = kind.TITLE + " " + location.host + " – Evenkeel";
    isCurrent();
    draw();
  } catch (error) {
    isOld("The process", error);
  }
  timer = setTimeout(ask, EVERY);
}

function draw() {
  const report = seen.report;
  if (!report) return;
  replace(() => [(report.route ? router : server).draw(seen, draw), h("p", { class: "quiet" }, "Rates are those of the last two seconds, courses those since this page was opened, of ten minutes at most. Nothing is kept elsewhere.")]);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) ask();
});
ask();
