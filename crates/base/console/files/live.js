// What keeps a page current: documents are read anew while the page is seen, it is drawn anew, and old figures are grey.

import { visible } from "./dom.js";
import { time } from "./words.js";

/** Interval of questions, in milliseconds. Agents tell figures every 15 s; what needs a person should not wait so long. */
export const EVERY = 2000;
/** Time for an answer. */
const WITHIN = 15000;

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));

/** Answers and their tags, by path: those of the page that is shown. @type {Map<string, {tag: string | null, json: any}>} */
let known = new Map();
/** When the last question was answered, in milliseconds since 1970. */
let answered = 0;

/** A browser that has shown neither a token nor a certificate. */
export class NotAdmitted extends Error {}

/** Forgets the answers of the page before. */
export function forget() {
  known = new Map();
}

/**
 * Forgets answers that are not asked for any more: a path with a time in it is another one each minute.
 * @param {string[]} paths Those that are.
 */
export function keep(paths) {
  known = new Map([...known].filter(([path]) => paths.includes(path)));
}

/**
 * A document. Why one that is optional is missing, or one that does not exist, is in `{error}`.
 * @param {string} path
 * @param {{isOptional?: boolean, isOnce?: boolean}} how One that is read once stays as it is while its path does.
 */
export async function read(path, { isOptional = false, isOnce = false } = {}) {
  const before = known.get(path);
  if (before && isOnce) return before.json;
  const headers = before?.tag ? { "if-none-match": before.tag } : undefined;
  const response = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(WITHIN) }).catch(() => {
    throw new Error("no answer");
  });
  if (response.status === 304 && before) return before.json;
  const json = await response.json().catch(() => {
    if (isOptional) return { error: "an answer that cannot be read" };
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

/**
 * Asks for something that is no document.
 * @param {string} path
 * @param {Record<string, string>} headers
 */
export const post = (path, headers) =>
  fetch(path, { method: "POST", headers, signal: AbortSignal.timeout(WITHIN) }).catch(() => {
    throw new Error("no answer");
  });

/**
 * Draws what is known. What a person does on the page stays: the focus, open parts, how far tables are moved, a selection.
 * @param {() => any} elements
 */
export function replace(elements) {
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && main.contains(selection.anchorNode)) return;
  const focus = main.contains(document.activeElement) ? sameAs(document.activeElement) : null;
  const isOpen = new Set([...main.querySelectorAll("details[open]")].map((one) => one.id));
  const moved = new Map([...main.querySelectorAll(".wide[id]")].map((one) => [one.id, one.scrollLeft]));
  main.replaceChildren(...[elements()].flat(Infinity).filter((one) => one));
  for (const one of main.querySelectorAll("details")) one.open ||= isOpen.has(one.id);
  for (const one of main.querySelectorAll(".wide[id]")) one.scrollLeft = moved.get(one.id) ?? 0;
  focus?.()?.focus({ preventScroll: true });
}

const REACHED = "a[href], button, select, summary, [tabindex]";

/**
 * Finds the element that stands for this one after the page was drawn anew: by its id, or by what it says and where it leads.
 * @param {Element | null} element
 * @returns {() => HTMLElement | null | undefined}
 */
function sameAs(element) {
  if (!element || element === main) return () => null;
  if (element.id) return () => document.getElementById(element.id);
  const said = (/** @type {Element} */ one) => [one.tagName, one.getAttribute("href"), one.getAttribute("aria-label"), one.textContent].join(" ");
  const alike = () => [.../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(REACHED))].filter((one) => said(one) === said(element));
  const at = alike().indexOf(/** @type {HTMLElement} */ (element));
  return () => alike()[at];
}

/** Takes back that what is shown is old. */
export function isCurrent() {
  answered = Date.now();
  document.body.classList.remove("old");
  banner.hidden = true;
}

/**
 * Says that what is shown is old.
 * @param {string} who What has not answered.
 * @param {unknown} why
 */
export function isOld(who, why) {
  document.body.classList.add("old");
  banner.hidden = false;
  const since = answered ? "since " + time(answered / 1000) : "yet";
  banner.textContent = `${who} has not answered ${since}: ${visible(why instanceof Error ? why.message : String(why))}. ${answered ? "What is shown is from then. " : ""}It is asked again every ${EVERY / 1000} s.`;
}
