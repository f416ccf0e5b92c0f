// Checks of the console in a browser. What to open is in the variable CHECKS, as JSON:
// {console, server, router: addresses, files: the folder of the console's files, pictures: a folder for pictures, or null}.

import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import puppeteer from "puppeteer-core";
import { HOSTILE, REPORTS, madeFleet, madeGate, madeProcess } from "./made.mjs";
import { takePictures } from "./pictures.mjs";

const { console: fleet, server, router, files, pictures } = JSON.parse(process.env.CHECKS);
const AXE = readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** All files together, as a server would send them compressed. */
const COMPRESSED_MAX = 45 * 1024;
/** What a page of 5,000 members may keep. */
const HEAP_MAX = 80e6;
/** For failures only. */
const PATIENCE = 60_000;

const browser = await puppeteer.launch({
  executablePath: "/usr/bin/chromium",
  // As root, a browser runs without its sandbox only. It asks its maker nothing by itself.
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-component-update"],
  protocolTimeout: 3 * PATIENCE,
});
let failed = 0;

async function end() {
  await browser.close();
  process.exit(failed ? 1 : 0);
}

/** Runs one check and says what came of it. */
async function check(name, run) {
  try {
    const said = await run();
    console.log(`ok      ${name}${said ? ": " + said : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`failed  ${name}: ${error.stack}`);
  }
}

function expect(is, text) {
  if (!is) throw new Error(text);
}

/** A tab that notes what a page complains about, and what it asks other hosts for. */
async function tab() {
  const page = await browser.newPage();
  page.complaints = [];
  page.setDefaultTimeout(PATIENCE);
  page.on("console", (message) => page.complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => page.complaints.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (protocol !== "data:" && host !== new URL(page.opens).host) page.complaints.push(`asks ${request.url()}`);
  });
  return page;
}

/** Opens an address, and waits until the page is drawn with its figures. */
async function open(page, address) {
  page.opens = address;
  // Of the same document only the part behind # would change.
  await page.goto("about:blank");
  await page.goto(address);
  await drawn(page);
}

const drawn = (page) =>
  page.waitForFunction(() => {
    const text = document.getElementById("main").textContent;
    return document.querySelector("#main h1") && !/Reading …|No figures yet|Rates need two reports/.test(text);
  });

/** Waits until the page is drawn anew. */
const redrawn = (page) => page.evaluate(() => new Promise((done) => new MutationObserver(done).observe(document.getElementById("main"), { childList: true })));

/** Elements that reach over the edge of the page. */
const overflow = (page) =>
  page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return null;
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > clientWidth + 1 && !one.closest(".wide"));
    return `${scrollWidth} of ${clientWidth} pixels: ` + wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 120)).join("\n");
  });

/** Everything about one page: what it complains about, its widths, and axe's rules in light and dark. */
async function checkPage(address) {
  const page = await tab();
  await open(page, address);
  for (const width of [360, 1280, 3840]) {
    await page.setViewport({ width, height: 900 });
    const wide = await overflow(page);
    expect(!wide, `at ${width} pixels: ${wide}`);
  }
  const obeyed = await page.evaluate(() => ({ obeyed: window.obeyed, markup: document.querySelectorAll("#main img, #main script, #main b, #main iframe").length, text: document.body.textContent }));
  expect(obeyed.obeyed === undefined && obeyed.markup === 0, `it has obeyed a text: ${JSON.stringify({ ...obeyed, text: "" })}`);
  expect(!/[\u0000\u001b\u202a-\u202e\u2066-\u2069]/.test(obeyed.text), "it shows letters that change others");
  expect(page.complaints.length === 0, page.complaints.join("\n"));
  // Axe is a script from elsewhere, which the page's policy forbids.
  await page.setBypassCSP(true);
  await page.reload();
  await drawn(page);
  await page.evaluate(AXE);
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    const found = await page.evaluate(async () => {
      const { violations } = await axe.run();
      return violations.map(({ id, nodes }) => `${id}: ` + nodes.slice(0, 3).map((one) => one.html.slice(0, 160) + " " + one.failureSummary).join("\n"));
    });
    expect(found.length === 0, `${scheme}: ${found.join("\n")}`);
  }
  await page.close();
}

/** Whatever can be used is reached by the tabulator, and stays reached while the page is drawn anew. */
async function checkKeyboard(address) {
  const page = await tab();
  await page.setViewport({ width: 1280, height: 900 });
  await open(page, address);
  const here = () => page.evaluate(() => {
    const one = document.activeElement;
    return one && one !== document.body ? `${one.tagName} ${one.getAttribute("href") ?? ""} ${one.getAttribute("aria-label") ?? one.textContent ?? ""}`.slice(0, 200) : "";
  });
  await page.keyboard.press("Tab");
  expect((await here()).includes("Skip to the page"), "the first stop skips to the page, found " + (await here()));
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => document.activeElement?.id === "main"), "it leads to the page");
  const all = await page.evaluate(() => [...document.querySelectorAll("a[href], button, input, summary")].filter((one) => one.checkVisibility()).length);
  await open(page, address);
  const stops = new Set();
  for (let at = 0; at < 20 * all; at += 1) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const one = document.activeElement;
      if (!one || one === document.body) return null;
      const { outlineStyle } = getComputedStyle(one);
      return { number: [...document.querySelectorAll("a[href], button, input, summary")].indexOf(one), isSeen: outlineStyle !== "none", what: one.outerHTML.slice(0, 120) };
    });
    if (!stop) break;
    expect(stop.isSeen, `nothing shows that this is reached: ${stop.what}`);
    if (stop.number >= 0) stops.add(stop.number);
  }
  expect(stops.size >= all, `${stops.size} of ${all} are reached`);
  return { page, stops: stops.size };
}

const answer = await fetch(fleet);
const kept = ["content-security-policy", "x-content-type-options", "cross-origin-opener-policy", "cache-control"];
const headers = Object.fromEntries(kept.map((name) => [name, answer.headers.get(name)]));

if (pictures) {
  await check("pictures", () => takePictures(browser, { fleet, server, router, files, headers }, pictures));
  await end();
}

for (const [name, address] of [
  ["fleet", `${fleet}#/`],
  ["cluster", `${fleet}#/cluster/cache`],
  ["server", `${fleet}#/server/server-1`],
  ["routers", `${fleet}#/routers`],
  ["host", `${fleet}#/host/here`],
  ["key", `${fleet}#/key/${encodeURIComponent(HOSTILE[1] + "<b>")}`],
  ["history", `${fleet}#/history`],
  ["no such page", `${fleet}#/constructor/x`],
  ["one server", server],
  ["one router", router],
])
  await check(`page ${name}`, () => checkPage(address));

await check("keyboard of the fleet", async () => {
  const { page, stops } = await checkKeyboard(`${fleet}#/`);
  await page.focus("#clusters-by-2");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#clusters-table [aria-sort=descending]");
  const isKept = () => page.evaluate(() => document.activeElement?.id === "clusters-by-2");
  expect(await isKept(), "the head of a column stays reached when it has ordered the table");
  // Drawn anew twice.
  for (const _ of [1, 2]) await redrawn(page);
  expect(await isKept(), "and when the page is drawn anew");
  await page.keyboard.press("/");
  await page.keyboard.type("user:1");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("h1")?.textContent.includes("user:1") && document.querySelector("pre"));
  return `${stops} stops`;
});
await check("keyboard of one server", async () => {
  const { page, stops } = await checkKeyboard(server);
  await page.focus("#class-set");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.id === "class-set" && document.querySelector("#main").textContent.includes("Service of set"));
  return `${stops} stops`;
});
await check("keys of clients are texts on the page of one server", async () => {
  const page = await tab();
  await open(page, server);
  await page.waitForFunction(() => document.querySelector(".hot")?.textContent.includes("<img/src=x/onerror=window.obeyed=1>"));
  expect((await page.evaluate(() => window.obeyed)) === undefined && page.complaints.length === 0, page.complaints.join("\n"));
});

for (const [name, report] of Object.entries(REPORTS)) {
  await check(`page of ${name}`, async () => {
    const process = madeProcess(files, headers, report);
    const page = await tab();
    page.opens = `http://127.0.0.1:${await process.start()}/`;
    await page.goto(page.opens);
    await page.waitForSelector("#main h1");
    for (const _ of [1, 2]) await redrawn(page);
    const is = await page.evaluate(() => ({ obeyed: window.obeyed, markup: document.querySelectorAll("#main img, #main script").length, banner: document.getElementById("banner").textContent, text: document.body.textContent }));
    expect(!is.banner, is.banner);
    expect(is.obeyed === undefined && is.markup === 0 && !/[\u0000\u001b\u202a-\u202e\u2066-\u2069]/.test(is.text), "it has obeyed a text");
    expect(!/NaN|undefined|\[object|Infinity/.test(is.text), is.text);
    await page.setViewport({ width: 360, height: 900 });
    const wide = await overflow(page);
    expect(!wide, wide);
    expect(page.complaints.length === 0, page.complaints.join("\n"));
    await page.close();
    await process.end();
  });
}
/** Questions to a made fleet, what is clicked from its first page on, and what then answers them. @type {[string, string[], RegExp][]} */
const QUESTIONS = [
  ["which server is about to run out of memory", ["Fullest", "ads", "Memory", "ads-m7"], /Memory used of the limit\s*9\d %/],
  ["why p99 of ads rose", ["ads", "p99 wait", "ads-m3", "host-3"], /critical\s*softirq-one-core\s*CPU 2: it handles all packets/],
  ["who has changed what at 14:02", ["History"], /Generation 412 .*14:02:00 UTC by ann/],
  ["whether the canary is better", ["Change 7: profile busy-polling"], /canaries\s*✓ better/],
  ["which router runs an old configuration", ["Routers"], /1 router runs another configuration.*r-203/],
];
const ordinary = madeFleet(files, headers, []);
const ordinaryAt = `http://127.0.0.1:${await ordinary.start()}/`;
for (const [question, clicks, answer] of QUESTIONS) {
  await check(`a page that says ${question}`, async () => {
    const page = await tab();
    await open(page, `${ordinaryAt}#/`);
    for (const text of clicks) {
      const found = await page.waitForFunction((text) => [...document.querySelectorAll("a, button")].find((one) => one.textContent === text), {}, text);
      await found.asElement().evaluate((one) => one.click());
    }
    await page.waitForFunction((source) => new RegExp(source).test(document.getElementById("main").textContent.replaceAll("\n", " ")), {}, answer.source);
    expect(page.complaints.length === 0, page.complaints.join("\n"));
    await page.close();
    return `${clicks.length} clicks`;
  });
}
await ordinary.end();
const made = madeFleet(files, headers, HOSTILE);
const port = await made.start();
const madeAt = `http://127.0.0.1:${port}/`;
for (const name of ["", "cluster/feed", "cluster/" + encodeURIComponent(HOSTILE[0]), "server/" + encodeURIComponent(HOSTILE[3]), "routers", "history", "change/7", "lab", "host/" + encodeURIComponent(HOSTILE[1]), "key/" + encodeURIComponent(HOSTILE[4])])
  await check(`page ${decodeURIComponent(name).slice(0, 40)} of a made fleet of 5,000`, () => checkPage(`${madeAt}#/${name}`));

/** From the last byte of a document to the picture, and the memory of a page that was drawn anew a few times. */
async function measure(address, path) {
  const page = await tab();
  await page.setViewport({ width: 1280, height: 900 });
  await page.evaluateOnNewDocument(() => {
    addEventListener("DOMContentLoaded", () => {
      new MutationObserver((_, observer) => {
        if (!document.querySelector("#main h1")) return;
        observer.disconnect();
        // The frame after the next one begins when this one was painted.
        requestAnimationFrame(() => requestAnimationFrame(() => (window.paintedAt = performance.now())));
      }).observe(document.getElementById("main"), { childList: true });
    });
  });
  await open(page, address);
  await page.waitForFunction(() => window.paintedAt);
  const took = await page.evaluate((path) => {
    const documents = performance.getEntriesByType("resource").filter((one) => one.name.includes(path) && one.responseEnd < window.paintedAt);
    return window.paintedAt - Math.min(...documents.map((one) => one.responseEnd));
  }, path);
  for (const _ of [1, 2, 3]) await redrawn(page);
  const client = await page.createCDPSession();
  await client.send("HeapProfiler.collectGarbage");
  const { JSHeapUsedSize } = await page.metrics();
  await page.close();
  expect(JSHeapUsedSize <= HEAP_MAX, `a heap of ${(JSHeapUsedSize / 1e6).toFixed(1)} MB`);
  return `first picture ${took.toFixed(0)} ms after the data, heap ${(JSHeapUsedSize / 1e6).toFixed(1)} MB`;
}
for (const [name, path] of [["", "/v1/summary"], ["cluster/feed", "/v1/figures"], ["cluster/web", "/v1/figures"], ["routers", "/v1/figures"], ["history", "/v1/history"]])
  await check(`a made fleet of 5,000, ${name || "fleet"}`, () => measure(`${madeAt}#/${name}`, path));

await check("a search among all routers", async () => {
  const page = await tab();
  await open(page, `${madeAt}#/routers`);
  await page.type("#routers-search", "r-399");
  await page.waitForFunction(() => document.querySelectorAll("#routers-table tbody tr").length === 1);
  expect((await page.$eval("#routers-table tbody", (one) => one.textContent)).includes("r-399"), "another row");
  await redrawn(page);
  const typed = await page.evaluate(() => document.activeElement?.id === "routers-search" && document.activeElement.value);
  expect(typed === "r-399", `the field is left, or has lost its text: ${typed}`);
  await page.close();
});

await check("the servers of a cluster, the busiest first", async () => {
  const page = await tab();
  await open(page, `${madeAt}#/cluster/feed`);
  const skews = await page.$$eval("#servers-table tbody tr td:nth-child(6)", (all) => all.slice(0, 20).map((one) => parseFloat(one.textContent)));
  expect(skews.length === 20 && skews.every((one, at) => at === 0 || one <= skews[at - 1]), skews.join(" "));
  await page.close();
});

await check("a controller that is away, and comes back", async () => {
  const page = await tab();
  await open(page, `${madeAt}#/`);
  await page.evaluate(() => (window.isTheSame = true));
  await made.end();
  await page.waitForFunction(() => !document.getElementById("banner").hidden && document.body.classList.contains("old"));
  const said = await page.evaluate(() => document.getElementById("banner").textContent);
  expect(/The controller has not answered since .*What is shown is from then/.test(said), said);
  expect(await page.evaluate(() => document.querySelector("#clusters-table") !== null), "what was shown stays");
  await made.again(port);
  await page.waitForFunction(() => document.getElementById("banner").hidden && !document.body.classList.contains("old"));
  expect(await page.evaluate(() => window.isTheSame), "without being loaded again");
});
await made.end();

await check("sizes of the files", () => {
  const all = (folder) => readdirSync(folder).map((name) => join(folder, name)).flatMap((path) => (statSync(path).isDirectory() ? all(path) : [path]));
  const len = all(files).reduce((sum, path) => sum + gzipSync(readFileSync(path), { level: 9 }).length, 0);
  expect(len <= COMPRESSED_MAX, `${len} bytes compressed, at most ${COMPRESSED_MAX}`);
  return `${len} bytes compressed`;
});

await check("a token is kept while no controller answers, and dropped when it is refused", async () => {
  const gate = madeGate(files, headers, "00aa");
  const at = await gate.start();
  const page = await tab();
  await open(page, `http://127.0.0.1:${at}/#t=0bad`);
  const text = () => page.evaluate(() => document.body.textContent);
  await page.waitForFunction(() => document.getElementById("main").textContent.includes("Who are you?"));
  expect((await text()).includes("The token was not taken: it is not known."), await text());
  await gate.end();
  await page.evaluate(() => (location.hash = "#t=00aa"));
  await page.waitForFunction(() => !document.getElementById("banner").hidden);
  expect((await text()).includes("the token of the address is kept, and shown again"), await text());
  const kept = await page.evaluate(() => location.href + JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, history.state]));
  expect(!kept.includes("00aa"), `it is in the page's memory alone: ${kept}`);
  await gate.again(at);
  await page.waitForFunction(() => document.querySelector("h1")?.textContent.startsWith("Fleet"));
  await page.close();
  await gate.end();
});
await end();
