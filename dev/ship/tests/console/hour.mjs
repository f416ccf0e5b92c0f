// Three tabs for an hour: neither they nor the controller grow. What to open is in the variable CHECKS, as JSON:
// {console: an address, pid: of the controller's process, files: the folder of the console's files}.
//
// The hour is 1,800 questions of each tab, two seconds of the page's clock apart. What could grow does so with questions, answers, drawings,
// and minutes of that clock (paths that have a time in them), so the tabs need not wait: a pause of two seconds ends at once, and the
// clock goes on by two seconds. What goes by other clocks (a browser's own timers, of a time limit of 15 s) is waited for before anything is counted.
// With EVENKEEL_CONSOLE_HOUR=1 they wait, at the real controller, and it takes an hour.

import { readFileSync, readdirSync } from "node:fs";
import puppeteer from "puppeteer-core";
import { busyServer, madeFleet, madeProcess } from "./made.mjs";

const { console: fleet, pid, files } = JSON.parse(process.env.CHECKS);
const IS_REAL = process.env.EVENKEEL_CONSOLE_HOUR === "1";

/** Interval of a page's questions, as in `live.js`. */
const EVERY = 2000;
/** An hour of them. */
const QUESTIONS = 3_600_000 / EVERY;
/** After ten minutes a page has all that it keeps: sums and reports of ten minutes. Then they are counted once more in each ten minutes. */
const STEP = QUESTIONS / 6;
/** A time limit of a question is over then, whatever became of it. */
const LIMIT_MS = 16_000;
/** Compiled code and caches of the browser: 1.4 KB a question would be more. */
const HEAP_GROWTH_MAX = 2e6;
/** What changes in number with what is shown, such as the points of a line. */
const NODES_GROWTH_MAX = 300;
const LISTENERS_GROWTH_MAX = 50;
/** Of the controller: 1 KB for each answer would be more. */
const RESIDENT_GROWTH_MAX = 4e6;
/** Its connections with others come and go. */
const FILES_GROWTH_MAX = 8;
const THREADS_GROWTH_MAX = 2;

/** The page's clock: a pause between questions passes at once, as long as questions are wanted. */
function hurry(every) {
  const [wait, now] = [window.setTimeout.bind(window), Date.now.bind(Date)];
  let [passed, wanted, waiting] = [0, 0, null];
  window.questions = 0;
  const go = () => {
    if (!waiting || window.questions >= wanted) return;
    const run = waiting;
    waiting = null;
    window.questions += 1;
    passed += every;
    wait(run, 0);
  };
  Date.now = () => now() + passed;
  window.setTimeout = (run, ms, ...more) => {
    if (ms !== every) return wait(run, ms, ...more);
    waiting = run;
    go();
    return 0;
  };
  window.ask = (count) => {
    wanted = count;
    go();
  };
}

/** In true time, questions are only counted. */
function count(every) {
  const wait = window.setTimeout.bind(window);
  window.questions = 0;
  window.setTimeout = (run, ms, ...more) => wait(ms === every ? () => { window.questions += 1; run(); } : run, ms, ...more);
  window.ask = () => {};
}

const browser = await puppeteer.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-component-update"],
  protocolTimeout: 2 * 3_600_000,
});

/** A tab in a window of its own: one that is not seen asks nothing. */
async function open(name, address) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(2 * 3_600_000);
  await page.setViewport({ width: 1280, height: 900 });
  await page.evaluateOnNewDocument(IS_REAL ? count : hurry, EVERY);
  await page.goto(address);
  await page.waitForSelector("#main h1");
  if (await page.evaluate(() => document.hidden)) throw new Error(`${name} is not seen`);
  return { name, page, client: await page.createCDPSession(), counted: [] };
}

async function ask(tab, questions) {
  await tab.page.evaluate((questions) => window.ask(questions), questions);
  await tab.page.waitForFunction((questions) => window.questions >= questions, { polling: 200 }, questions);
}

async function countTab(tab) {
  const banner = await tab.page.evaluate(() => document.getElementById("banner").hidden || document.getElementById("banner").textContent);
  if (banner !== true) throw new Error(`${tab.name}: ${banner}`);
  // What the first round frees may hold what the second one does.
  for (const _ of [1, 2]) await tab.client.send("HeapProfiler.collectGarbage");
  const { JSHeapUsedSize: heap, Nodes: nodes, JSEventListeners: listeners } = await tab.page.metrics();
  tab.counted.push({ heap, nodes, listeners });
}

/** The controller's process, as proc(5) has it. */
function countController() {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)[1]);
  return { resident: field("VmRSS") * 1024, threads: field("Threads"), files: readdirSync(`/proc/${pid}/fd`).length };
}

let failed = 0;
function compare(name, counted, most) {
  const [first, last] = [counted[0], counted[counted.length - 1]];
  const said = Object.keys(most).map((what) => `${what} ${counted.map((one) => one[what]).join(" ")}`);
  const grown = Object.keys(most).filter((what) => last[what] - first[what] > most[what]);
  failed += grown.length;
  console.log(`${grown.length ? "failed" : "ok    "}  ${name}: ${said.join("; ")}${grown.map((what) => `; ${what} may grow by ${most[what]}`).join("")}`);
}

const headers = Object.fromEntries([...(await fetch(fleet)).headers].filter(([name]) => /^(content-security|x-content|cross-origin|cache)/.test(name)));
const [made, process_] = [madeFleet(files, headers, []), madeProcess(files, headers, busyServer)];
const madeAt = `http://127.0.0.1:${await made.start()}/`;
const serverAt = `http://127.0.0.1:${await process_.start()}/`;
const tabs = [
  await open("fleet", `${IS_REAL ? fleet : madeAt}#/`),
  await open("cluster", IS_REAL ? `${fleet}#/cluster/cache` : `${madeAt}#/cluster/web`),
  await open("one server", serverAt),
];

/** Asks the controller as three tabs do, each time something else: it answers the same question once a second only. */
async function askController(from, to) {
  for (let at = from; at < to; at += 1) {
    const since = Math.floor(Date.now() / 1000) - 1800 - at;
    const paths = ["v1/summary", `v1/figures?cluster=cache&since=${since}`, `v1/figures?member=server-1&since=${since}`];
    const answers = await Promise.all(paths.map((path) => fetch(fleet + path)));
    for (const answer of answers) {
      const text = await answer.text();
      if (answer.status !== 200) throw new Error(`${answer.url}: ${answer.status} ${text}`);
    }
  }
}

const controller = [];
for (let questions = STEP; questions <= QUESTIONS; questions += STEP) {
  await Promise.all(tabs.map((tab) => ask(tab, questions)));
  if (!IS_REAL) await askController(questions - STEP, questions);
  await new Promise((done) => setTimeout(done, LIMIT_MS));
  for (const tab of tabs) await countTab(tab);
  controller.push(countController());
}
for (const { name, counted } of tabs) compare(`${QUESTIONS} questions of ${name}`, counted, { heap: HEAP_GROWTH_MAX, nodes: NODES_GROWTH_MAX, listeners: LISTENERS_GROWTH_MAX });
compare(`${3 * QUESTIONS} questions to a controller`, controller, { resident: RESIDENT_GROWTH_MAX, threads: THREADS_GROWTH_MAX, files: FILES_GROWTH_MAX });
await browser.close();
await made.end();
await process_.end();
process.exit(failed ? 1 : 0);
