// Figures and times in words. What is not known is "–", and never 0.

export const UNKNOWN = "–";

/** @typedef {number | null | undefined} Figure */

/** @param {Figure} value @returns {value is number} */
export function isKnown(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/**
 * A figure with at most three digits, and a letter for thousands.
 * @param {Figure} value
 * @param {string} [unit]
 */
export function short(value, unit = "") {
  if (!isKnown(value)) return UNKNOWN;
  const steps = ["", "k", "M", "G", "T"];
  let step = 0;
  let rest = Math.abs(value);
  while (rest >= 999.5 && step < steps.length - 1) {
    rest /= 1000;
    step += 1;
  }
  const digits = rest >= 99.95 || rest === 0 || (step === 0 && Number.isInteger(rest)) ? 0 : rest >= 9.995 ? 1 : 2;
  return (value < 0 ? "−" : "") + rest.toFixed(digits) + (steps[step] || unit ? " " : "") + steps[step] + unit;
}

/** @param {Figure} share @param {number} [digits] */
export function percent(share, digits = 1) {
  return isKnown(share) ? (share * 100).toFixed(digits) + " %" : UNKNOWN;
}

/**
 * An availability: the digits after the nines are what matters.
 * @param {Figure} share
 */
export function availability(share) {
  if (!isKnown(share)) return UNKNOWN;
  return share >= 1 ? "100 %" : (Math.floor(share * 1e6) / 1e4).toFixed(share > 0.99 ? 4 : 2) + " %";
}

/** @param {Figure} us Microseconds. */
export function micros(us) {
  if (!isKnown(us)) return UNKNOWN;
  if (us < 1000) return us.toFixed(0) + " µs";
  return us < 1e6 ? (us / 1000).toFixed(us < 10000 ? 1 : 0) + " ms" : (us / 1e6).toFixed(1) + " s";
}

/** @param {Figure} bytes */
export function bytes(bytes) {
  return short(bytes, "B");
}

/** @param {Figure} seconds */
export function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  if (seconds < 120) return seconds.toFixed(0) + " s";
  if (seconds < 7200) return (seconds / 60).toFixed(0) + " min";
  return seconds < 172800 ? (seconds / 3600).toFixed(0) + " h" : (seconds / 86400).toFixed(0) + " days";
}

/**
 * A time of day in UTC, as the history and logs have it, with the date unless it is today.
 * @param {Figure} unix Seconds since 1970.
 */
export function time(unix) {
  if (!isKnown(unix)) return UNKNOWN;
  const [day, clock] = new Date(unix * 1000).toISOString().split("T");
  return (day === new Date().toISOString().slice(0, 10) ? "" : day + " ") + clock.slice(0, 8) + " UTC";
}

/** @param {number} count @param {string} what */
export function counted(count, what) {
  return count + " " + what + (count === 1 ? "" : "s");
}

/**
 * States of a slot's member, by their letters in a summary: the word, and whether somebody has to look.
 * @type {Record<string, {word: string, look: "good" | "moving" | "warn" | "bad" | "none"}>}
 */
export const SLOT_STATES = {
  s: { word: "serving", look: "good" },
  d: { word: "draining", look: "moving" },
  u: { word: "suspect", look: "warn" },
  l: { word: "lost", look: "bad" },
  h: { word: "held", look: "warn" },
  "?": { word: "unknown", look: "none" },
};
