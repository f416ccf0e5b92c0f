// The console: which page is shown, what it reads, and what is said while the controller does not answer.

import { command, h, visible } from "./dom.js";
import { time } from "./words.js";
import * as fleet from "./pages/fleet.js";
import * as cluster from "./pages/cluster.js";
import * as server from "./pages/server.js";
import * as routers from "./pages/routers.js";
import * as key from "./pages/key.js";
import * as host from "./pages/host.js";
import * as history from "./pages/history.js";
import * as lab from "./pages/lab.js";

/**
 * @typedef {object} Page
 * @property {(name: string) => string} title
 * @property {(name: string) => Record<string, string>} reads Paths of documents, by the names that `draw` knows them by.
 * @property {(documents: Record<string, any>, name: string, redraw: () => void) => any} draw Elements.
 * @property {Set<string>} [optional] Documents without which it is drawn, too; why one is missing is in `{error}`.
 */

/** Interval of questions, in milliseconds. Agents tell figures every 15 s; what needs a person should not wait so long. */
const EVERY = 2000;
/** Time for an answer. */
const WITHIN = 15000;

/** @type {Record<string, Page>} */
const PAGES = { "": fleet, cluster, server, routers, key, host, history, lab };
/** Pages of the menu. */
const MENU = [["", "Fleet"], ["routers", "Routers"], ["history", "History"], ["lab", "Lab"], ["key", "Key"]];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));

/** A browser that has shown neither a token nor a certificate. */
class NotAdmitted extends Error {}

/** Why the token of this page's address was not taken. */
let refused = "";

/** Answers and their tags, by path: those of the page that is shown. @type {Map<string, {tag: string | null, json: any}>} */
let known = new Map();
/** @type {Record<string, any>} */
let documents = {};
/** When a controller answered last. */
let answered = 0;
/** Grows with each page that is shown, so that a late answer to an earlier one is not drawn. */
let turn = 0;
/** @type {number | undefined} */
let timer;

/** The page and what it is about, from the address: `#/cluster/NAME`. */
function place() {
  const [kind = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let name = rest.join("/");
  try {
    name = decodeURIComponent(name);
  } catch {
    // An address that a person has typed.
  }
  return { kind: PAGES[kind] ? kind : "", page: PAGES[kind] ?? fleet, name };
}

function show() {
  turn += 1;
  [known, documents] = [new Map(), {}];
  const { kind, page, name } = place();
  document.title = visible(page.title(name)) + " – Evenkeel";
  const links = MENU.map(([to, text]) => h("a", { href: "#/" + to, "aria-current": to === kind ? "page" : null }, text));
  document.getElementById("pages")?.replaceChildren(...links);
  main.replaceChildren(h("p", { class: "quiet" }, "Reading …"));
  ask();
}

/** Reads what the page needs, and draws it. */
async function ask() {
  clearTimeout(timer);
  if (document.hidden) return;
  const mine = turn;
  const { page, name } = place();
  const reads = Object.entries(page.reads(name));
  try {
    const answers = await Promise.all(reads.map(async ([what, path]) => [what, await read(path, page.optional?.has(what) ?? false)]));
    if (mine !== turn) return;
    documents = Object.fromEntries(answers);
    answered = Date.now();
    say(null);
    draw();
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof NotAdmitted) askForToken();
    else say(error instanceof Error ? error.message : String(error));
  }
  timer = setTimeout(ask, EVERY);
}

/**
 * @param {string} path
 * @param {boolean} isOptional
 */
async function read(path, isOptional) {
  const before = known.get(path);
  const headers = before?.tag ? { "if-none-match": before.tag } : undefined;
  const response = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(WITHIN) }).catch(() => {
    throw new Error("no answer");
  });
  if (response.status === 304 && before) return before.json;
  const json = await response.json().catch(() => {
    throw new Error("an answer that cannot be read, with the status " + response.status);
  });
  if (response.status === 401) throw new NotAdmitted();
  if (!response.ok) {
    const why = String(json.error ?? "the status " + response.status);
    if (isOptional || response.status === 404) return { error: why };
    throw new Error(why);
  }
  known.set(path, { tag: response.headers.get("etag"), json });
  return json;
}

/** Says how a browser is admitted. It asks again: another tab may have been. */
function askForToken() {
  say(null);
  // What a person does on the page stays: a selection, the focus on the button.
  if (document.getElementById("who")) return;
  [known, documents] = [new Map(), {}];
  const why = refused || "This browser has no token, or it has had one for twelve hours, or the controller has begun anew.";
  main.replaceChildren(
    h("h1", { id: "who" }, "Who are you?"),
    h("p", {}, visible(why)),
    h("p", {}, "The command prints an address to open here; an operator and a reader may use it: ", command("evenkeel control console-token")),
  );
}

/** Exchanges the token of the address (`#t=TOKEN`) for a cookie. It is taken out of the address first, so that nobody sees or keeps it. */
async function enter() {
  const token = /^#t=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (token) {
    window.history.replaceState(null, "", location.pathname);
    const headers = { authorization: "Bearer " + token };
    const response = await fetch("session", { method: "POST", headers }).catch(() => null);
    const said = await response?.json().catch(() => ({}));
    refused = response?.ok ? "" : "The token was not taken: " + String(said?.error ?? "no answer") + ".";
  }
  show();
}

/** Draws what is known. What a person does on the page stays: the focus, open parts, a selection. */
function draw() {
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && main.contains(selection.anchorNode)) return;
  const { page, name } = place();
  const focus = document.activeElement?.id;
  const isOpen = new Set([...main.querySelectorAll("details[open]")].map((one) => one.id));
  const missing = Object.entries(documents).find(([what, json]) => json.error && !page.optional?.has(what));
  const drawn = missing ? h("p", { class: "empty" }, visible(missing[1].error) + ".") : page.draw(documents, name, draw);
  main.replaceChildren(...[drawn].flat(Infinity).filter((one) => one));
  for (const one of main.querySelectorAll("details")) one.open ||= isOpen.has(one.id);
  if (focus && main.querySelector("#" + CSS.escape(focus))) document.getElementById(focus)?.focus({ preventScroll: true });
}

/**
 * Says that what is shown is old, or takes that back.
 * @param {string | null} why
 */
function say(why) {
  document.body.classList.toggle("old", why !== null);
  banner.hidden = why === null;
  if (why === null) return;
  const since = answered ? "since " + time(answered / 1000) : "yet";
  banner.textContent = `The controller has not answered ${since}: ${visible(why)}. ${answered ? "What is shown is from then. " : ""}It is asked again every ${EVERY / 1000} s.`;
}

const find = /** @type {HTMLFormElement} */ (document.getElementById("find"));
find.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = String(new FormData(find).get("key") ?? "");
  if (text) location.hash = "#/key/" + encodeURIComponent(text);
});
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#t=")) return enter();
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) ask();
});
addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("key")?.focus();
  }
});
enter();
