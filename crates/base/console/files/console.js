// The console: which page is shown, what it reads, and what is said while the controller does not answer.

import { command, h, visible } from "./dom.js";
import { EVERY, NotAdmitted, forget, isCurrent, isOld, keep, post, read, replace } from "./live.js";
import * as fleet from "./pages/fleet.js";
import * as cluster from "./pages/cluster.js";
import * as server from "./pages/server.js";
import * as routers from "./pages/routers.js";
import * as key from "./pages/key.js";
import * as host from "./pages/host.js";
import * as history from "./pages/history.js";
import * as change from "./pages/change.js";
import * as lab from "./pages/lab.js";

/**
 * @typedef {object} Page
 * @property {(name: string) => string} title
 * @property {(name: string, documents: Record<string, any>) => Record<string, string>} reads Paths of documents, by the names that `draw` knows them by. Which ones may follow from those that are there.
 * @property {(documents: Record<string, any>, name: string, redraw: () => void) => any} draw Elements.
 * @property {Set<string>} [optional] Documents without which it is drawn, too; why one is missing is in `{error}`.
 * @property {Set<string>} [once] Documents that are not asked for again while their path is the same.
 */

/** @type {Record<string, Page>} */
const PAGES = { "": fleet, cluster, server, routers, key, host, history, change, lab };
/** Pages of the menu. */
const MENU = [["", "Fleet"], ["routers", "Routers"], ["history", "History"], ["lab", "Lab"], ["key", "Key"]];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));

/** The token of this page's address, until a controller takes or refuses it: in memory, and nowhere else. */
let token = "";
/** Its exchange that is under way. @type {Promise<void> | null} */
let entering = null;
/** Why it was not taken. */
let refused = "";

/** @type {Record<string, any>} */
let documents = {};
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
  const known = Object.hasOwn(PAGES, kind) ? kind : "";
  return { kind: known, page: PAGES[known], name };
}

function show() {
  turn += 1;
  forget();
  documents = {};
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
  // A token is good for a quarter of an hour, whether the page is seen or not.
  if (document.hidden && !token) return;
  const mine = turn;
  const { page, name } = place();
  const reads = Object.entries(page.reads(name, documents));
  let pause = EVERY;
  try {
    while (token) await (entering ??= exchange().finally(() => (entering = null)));
    const how = (/** @type {string} */ what) => ({ isOptional: page.optional?.has(what), isOnce: page.once?.has(what) });
    const answers = await Promise.all(reads.map(async ([what, path]) => [what, await read(path, how(what))]));
    if (mine !== turn) return;
    keep(reads.map(([, path]) => path));
    documents = Object.fromEntries(answers);
    isCurrent();
    draw();
    if (Object.keys(page.reads(name, documents)).some((what) => !documents[what])) pause = 0;
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof NotAdmitted) askForToken();
    else isOld("The controller", token ? `${/** @type {Error} */ (error).message}; the token of the address is kept, and shown again` : error);
  }
  timer = setTimeout(ask, pause);
}

/** Says how a browser is admitted. It asks again: another tab may have been. */
function askForToken() {
  isCurrent();
  // What a person does on the page stays: a selection, the focus on the button.
  if (document.getElementById("who")) return;
  forget();
  documents = {};
  const why = refused || "This browser has no token, or it has had one for twelve hours, or the controller has begun anew.";
  main.replaceChildren(
    h("h1", { id: "who" }, "Who are you?"),
    h("p", {}, visible(why)),
    h("p", {}, "The command prints an address to open here; an operator may use it: ", command("evenkeel control console-token")),
  );
}

/** Takes the token out of the address (`#t=TOKEN`), so that nobody sees or keeps it there. */
function enter() {
  const found = /^#t=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (found) {
    token = found;
    window.history.replaceState(null, "", location.pathname);
  }
  show();
}

/** Exchanges the token for a cookie. While the controller is away it is kept: an answer that is no refusal says nothing about it. */
async function exchange() {
  const mine = token;
  const response = await post("session", { authorization: "Bearer " + mine });
  const said = await response.json().catch(() => ({}));
  if (response.status >= 500) throw new Error(String(said.error ?? "the status " + response.status));
  if (token === mine) token = "";
  refused = response.ok ? "" : "The token was not taken: " + String(said.error ?? "the status " + response.status) + ".";
}

/** Draws what is known. */
function draw() {
  const { page, name } = place();
  const missing = Object.entries(documents).find(([what, json]) => json.error && !page.optional?.has(what));
  replace(() => (missing ? h("p", { class: "empty" }, visible(missing[1].error) + ".") : page.draw(documents, name, draw)));
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
