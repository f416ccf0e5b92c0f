// Reports that were seen one after the other, and what has happened between two of them. What a report does not have is unknown, and not 0.

import { EVERY } from "../live.js";
import { isKnown } from "../words.js";

/** Ten minutes, two seconds apart. */
const MOMENTS_MAX = 300;
/** Two reports further apart leave a gap: the page was not seen in between, or there was no answer. */
const GAP_S = (5 * EVERY) / 1000;

/** @typedef {Map<number, number>} Buckets Counts by the end of their bucket in microseconds. */

/**
 * What happened between two reports, in a second, and what is so at the later one.
 * @typedef {object} Moment
 * @property {number} at Seconds since 1970, by the browser's clock.
 * @property {Record<string, any>} figures None in a gap.
 */

/** What differences are made of. */
export class Between {
  /**
   * @param {any} before
   * @param {any} after
   */
  constructor(before, after) {
    this.before = before;
    this.after = after;
    this.seconds = (after.uptime_us - before.uptime_us) / 1e6;
  }

  /**
   * How much a counter has grown in a second.
   * @param {(report: any) => any} of
   * @returns {number | null}
   */
  rate(of) {
    const [before, after] = [of(this.before), of(this.after)];
    return isKnown(before) && isKnown(after) ? Math.max(after - before, 0) / this.seconds : null;
  }

  /**
   * What was counted in between; `null` if a report has no such histogram.
   * @param {(report: any) => any} of
   * @returns {Buckets | null}
   */
  buckets(of) {
    const [before, after] = [of(this.before), of(this.after)];
    if (!Array.isArray(before) || !Array.isArray(after)) return null;
    const counts = new Map(after);
    for (const [end, count] of before) counts.set(end, (counts.get(end) ?? 0) - count);
    return new Map([...counts].filter(([, count]) => count > 0));
  }
}

/** The reports of a process. */
export class Seen {
  constructor() {
    /** The last one. @type {any} */
    this.report = null;
    /** @type {Moment[]} */
    this.moments = [];
    this.at = 0;
  }

  /**
   * @param {any} report
   * @param {any} beside Another report that was read with it.
   * @param {(between: Between) => Record<string, any>} figures
   */
  note(report, beside, figures) {
    const [before, at] = [this.report, Date.now() / 1000];
    const whole = { ...report, beside };
    // Started anew, or not looked at in between: nothing is drawn across that.
    const isGap = !before || report.uptime_us <= before.uptime_us || at - this.at > GAP_S;
    this.moments.push({ at, figures: isGap ? {} : figures(new Between(before, whole)) });
    this.moments = this.moments.slice(-MOMENTS_MAX);
    [this.report, this.at] = [whole, at];
  }

  /** Figures of the last moment. @returns {Record<string, any>} */
  get last() {
    return this.moments[this.moments.length - 1]?.figures ?? {};
  }

  /**
   * The course of a figure.
   * @param {(figures: Record<string, any>) => any} of
   * @returns {{at: number, value: number | null}[]}
   */
  course(of) {
    return this.moments.map(({ at, figures }) => ({ at, value: of(figures) ?? null }));
  }
}

/**
 * The sum of several histograms.
 * @param {(Buckets | null)[]} all
 * @returns {Buckets}
 */
export function sum(all) {
  /** @type {Buckets} */
  const counts = new Map();
  for (const one of all) for (const [end, count] of one ?? []) counts.set(end, (counts.get(end) ?? 0) + count);
  return counts;
}

/** @param {Buckets} buckets */
export const total = (buckets) => [...buckets.values()].reduce((sum, count) => sum + count, 0);

/**
 * Times of which so many were less: ends of buckets.
 * @param {Buckets | null} buckets
 * @returns {{p50: number, p99: number, max: number} | null}
 */
export function times(buckets) {
  const sorted = [...(buckets ?? [])].sort(([one], [other]) => one - other);
  if (!buckets || !sorted.length) return null;
  const all = total(buckets);
  const quantile = (/** @type {number} */ share) => {
    let seen = 0;
    return sorted.find(([, count]) => (seen += count) >= Math.ceil(all * share))?.[0] ?? 0;
  };
  return { p50: quantile(0.5), p99: quantile(0.99), max: sorted[sorted.length - 1][0] };
}
