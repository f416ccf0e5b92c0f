//! Knee of a server: the highest rate at which it keeps an objective.
//!
//! Pure: the rate to try next, and the conclusion from all tries. It climbs by doubling, halves the distance between
//! a rate that held and one that did not, and then goes back to the rates around the knee, in random order, because a
//! single run near it is decided by chance. The result is the knee and the interval outside of which no run
//! contradicts it.

use crate::measure::latency::Latency;
use crate::report::summary::Summary;
use crate::types::description::Description;
use crate::types::objective::{Objective, Percentile};
use serde::{Deserialize, Serialize};
use std::fmt;
use stdx::prng::Prng;

/// The result of one run with respect to the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TryOutcome {
    /// The objective held.
    Held,
    /// It did not, or the server did not keep up.
    Missed,
    /// The run is not conclusive about the server.
    Invalid,
}

impl Objective {
    /// A run of an open loop at this rate, and its result.
    pub(crate) fn judge(&self, rate: f64, summary: &Summary) -> Try {
        let missing = summary.lost + summary.waits.map_or(0, |waits| waits.unanswered + waits.unsent);
        Try {
            rate,
            outcome: self.outcome(summary, missing),
            latency_us: self.of(&summary.latency),
            missing,
            errors: summary.errors,
            wrong_values: summary.wrong_values,
            not_stored: summary.not_stored,
        }
    }

    fn outcome(&self, summary: &Summary, missing: u64) -> TryOutcome {
        let reasons = &summary.verdict.reasons;
        let is = |what: &str| reasons.iter().any(|reason| reason.what == what);
        let latency_us = self.of(&summary.latency);
        let own_us = summary.waits.map_or(0.0, |waits| self.of(&waits.late));
        // What was never answered took longer than any limit.
        let scheduled = (summary.requests + missing) as f64;
        let has_too_many_missing = missing as f64 > scheduled * (1.0 - self.percentile.share());
        let is_slow = latency_us >= self.limit_us;
        // A server that does not answer in time has missed it, unless the request was sent too late.
        if is("client-saturated")
            || is("client-waited")
            || is("steal")
            || is("empty")
            || is("overloaded") && is("late")
        {
            TryOutcome::Invalid
        } else if !summary.is_clean() {
            TryOutcome::Missed
        } else if is_slow && is("late") && latency_us - own_us < self.limit_us {
            TryOutcome::Invalid
        } else if is_slow || has_too_many_missing || is("rate-missed") || is("overloaded") {
            TryOutcome::Missed
        } else if summary.waits.is_some_and(|waits| waits.late.p99_us > self.limit_us * LATE_SHARE_MAX) {
            TryOutcome::Invalid
        } else {
            TryOutcome::Held
        }
    }

    /// The percentile that it is about, in microseconds.
    pub(crate) fn of(&self, latency: &Latency) -> f64 {
        match self.percentile {
            Percentile::P50 => latency.p50_us,
            Percentile::P90 => latency.p90_us,
            Percentile::P99 => latency.p99_us,
            Percentile::P999 => latency.p999_us,
            Percentile::Max => latency.max_us,
        }
    }
}

/// Of the limit, this much may be the generator's own lateness in a run that held.
const LATE_SHARE_MAX: f64 = 0.5;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Requests per second.
    pub rate: f64,
    /// Its result.
    pub outcome: TryOutcome,
    /// The percentile of the objective, of what was answered.
    pub latency_us: f64,
    /// Requests that were lost, not answered in time or never sent.
    #[serde(default)]
    pub missing: u64,
    /// Error lines received.
    #[serde(default)]
    pub errors: u64,
    /// Values that were not their key's own; always 0 without verification.
    #[serde(default)]
    pub wrong_values: u64,
    /// Sets that the server declined without an error.
    #[serde(default)]
    pub not_stored: u64,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The version of this format, that of results: `SCHEMA`.
    #[serde(default)]
    pub schema: u32,
    /// The request, as in a summary: the first run.
    pub run: Description,
    /// The objective.
    pub objective: String,
    /// The highest rate at which it holds, most likely; `None`: it never held.
    pub rate: Option<f64>,
    /// Up to here it held in every run; 0 if it never did.
    pub held_up_to: f64,
    /// From here on it was missed in every run; `None`: the search ended before.
    pub missed_from: Option<f64>,
    /// Why the search ended early, if it did.
    pub ended: Option<String>,
    /// Every run, in order.
    pub tries: Vec<Try>,
}

/// The state of the search.
#[derive(Debug)]
enum Stage {
    Climb,
    Descend,
    Bisect,
    /// Rates to go back to, the next one last.
    Revisit(Vec<f64>),
    Over,
}

/// Chooses rates.
#[derive(Debug)]
pub(crate) struct Search {
    stage: Stage,
    first_rate: f64,
    rate: f64,
    tries: Vec<Try>,
    invalid_in_a_row: u32,
    ended: Option<String>,
    prng: Prng,
}

/// The knee is known well enough: two rates are closer than this.
const RESOLUTION: f64 = 1.05;
/// How often each of the rates around the knee is tried again.
const REVISITS: usize = 3;
/// A generator that cannot reach a rate several times in a row will not reach it at all.
const INVALID_MAX: u32 = 3;
/// How far from the first rate the search goes, up or down.
const CLIMB_MAX: f64 = 100_000.0;
/// After this many runs it does not begin again.
const TRIES_MAX: usize = 40;

impl Search {
    pub(crate) fn new(first_rate: f64, seed: u64) -> Search {
        Search {
            stage: Stage::Climb,
            first_rate,
            rate: first_rate,
            tries: Vec::new(),
            invalid_in_a_row: 0,
            ended: None,
            prng: Prng::new(seed),
        }
    }

    /// The rate to try next; `None` when more runs would not change the result.
    pub(crate) fn next(&self) -> Option<f64> {
        (!matches!(self.stage, Stage::Over)).then_some(self.rate)
    }

    /// The result.
    pub(crate) fn tried(&mut self, one: Try) {
        let outcome = one.outcome;
        self.tries.push(one);
        if outcome == TryOutcome::Invalid {
            self.invalid_in_a_row += 1;
            if self.invalid_in_a_row == INVALID_MAX {
                let rate = self.rate;
                self.give_up(format!(
                    "{INVALID_MAX} runs in a row at {rate:.0} requests/s say nothing: the generator is too slow, other \
                     guests take its CPU time, or --duration is too short"
                ));
            }
            return;
        }
        self.invalid_in_a_row = 0;
        let held = outcome == TryOutcome::Held;
        match &mut self.stage {
            Stage::Climb if held && self.rate > self.first_rate * CLIMB_MAX => {
                self.give_up(String::from("the rate was doubled as often as makes sense"));
            }
            Stage::Climb if held => self.rate *= 2.0,
            Stage::Climb if self.tries.iter().any(|other| other.outcome == TryOutcome::Held) => self.bisect(),
            Stage::Climb => {
                self.stage = Stage::Descend;
                self.rate /= 2.0;
            }
            Stage::Descend if held => self.bisect(),
            Stage::Descend if self.rate < self.first_rate / CLIMB_MAX || self.rate < 2.0 => {
                self.give_up(String::from("the objective is missed at any rate"));
            }
            Stage::Descend => self.rate /= 2.0,
            Stage::Bisect => self.bisect(),
            Stage::Revisit(rates) => match rates.pop() {
                Some(rate) => self.rate = rate,
                None => self.look_back(),
            },
            Stage::Over => {}
        }
    }

    /// The end, unless the highest of the rates mostly holds: then the run that seemed to be beyond the knee was
    /// disturbed by something else.
    fn look_back(&mut self) {
        let top = self.tries.iter().map(|one| one.rate).fold(0.0, f64::max);
        let at_top = |outcome| self.rates(outcome).filter(|rate| *rate == top).count();
        if at_top(TryOutcome::Held) <= at_top(TryOutcome::Missed) {
            self.stage = Stage::Over;
        } else if self.tries.len() > TRIES_MAX {
            self.give_up(String::from(
                "runs at the same rate contradict each other; use a longer --duration",
            ));
        } else {
            self.stage = Stage::Climb;
            self.rate = top * 2.0;
        }
    }

    fn give_up(&mut self, why: String) {
        self.stage = Stage::Over;
        self.ended = Some(why);
    }

    /// Halves the distance between the highest rate that held and the lowest above it that did not.
    fn bisect(&mut self) {
        self.stage = Stage::Bisect;
        let held = self.rates(TryOutcome::Held).fold(0.0, f64::max);
        let missed = self.rates(TryOutcome::Missed).filter(|rate| *rate > held).fold(f64::INFINITY, f64::min);
        if missed.is_infinite() {
            // A rate that was missed before has held since, higher up: the climb continues.
            self.stage = Stage::Climb;
            self.rate = held * RESOLUTION;
        } else if missed / held > RESOLUTION {
            self.rate = (held * missed).sqrt();
        } else {
            let mut rates = [held / RESOLUTION, held, missed, missed * RESOLUTION].repeat(REVISITS);
            for last in (1..rates.len()).rev() {
                rates.swap(last, self.prng.below(last as u64 + 1) as usize);
            }
            self.rate = rates.pop().unwrap_or(held);
            self.stage = Stage::Revisit(rates);
        }
    }

    fn rates(&self, outcome: TryOutcome) -> impl Iterator<Item = f64> {
        self.tries.iter().filter(move |one| one.outcome == outcome).map(|one| one.rate)
    }

    /// The conclusion from all runs.
    pub(crate) fn knee(self, objective: &Objective, run: Description) -> Knee {
        let first_missed = self.rates(TryOutcome::Missed).fold(f64::INFINITY, f64::min);
        let last_held = self.rates(TryOutcome::Held).fold(0.0, f64::max);
        let held_up_to = self.rates(TryOutcome::Held).filter(|rate| *rate < first_missed).fold(0.0, f64::max);
        let missed_from =
            self.rates(TryOutcome::Missed).filter(|rate| *rate > last_held).fold(f64::INFINITY, f64::min);
        Knee {
            schema: crate::report::summary::SCHEMA,
            run,
            objective: objective.to_string(),
            rate: self.most_likely(),
            held_up_to,
            missed_from: missed_from.is_finite().then_some(missed_from),
            ended: self.ended,
            tries: self.tries,
        }
    }

    /// The rate that the fewest runs contradict, by holding above it or missing at it or below; the highest of them
    /// at which it held.
    fn most_likely(&self) -> Option<f64> {
        let contradictions = |knee: f64| {
            let above = self.rates(TryOutcome::Held).filter(|rate| *rate > knee).count();
            above + self.rates(TryOutcome::Missed).filter(|rate| *rate <= knee).count()
        };
        let mut held: Vec<f64> = self.rates(TryOutcome::Held).collect();
        held.sort_by(f64::total_cmp);
        held.into_iter().rev().min_by_key(|rate| contradictions(*rate))
    }
}

impl Knee {
    /// Whether every reply of every run was that of a healthy server.
    pub fn is_clean(&self) -> bool {
        self.tries.iter().all(|one| one.errors + one.wrong_values + one.not_stored == 0)
    }
}

impl fmt::Display for Try {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            TryOutcome::Held => "held",
            TryOutcome::Missed => "missed",
            TryOutcome::Invalid => "invalid",
        };
        write!(f, "  {:>12.0} requests/s  {:>10.0} µs  {word}", self.rate, self.latency_us)?;
        for (count, what) in [
            (self.missing, "not answered"),
            (self.errors, "errors"),
            (self.wrong_values, "wrong values"),
            (self.not_stored, "sets declined"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        writeln!(f)
    }
}

impl fmt::Display for Knee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tries.iter().try_for_each(|one| write!(f, "{one}"))?;
        match (self.rate, self.missed_from) {
            (None, _) if self.tries.iter().all(|one| one.outcome == TryOutcome::Invalid) => {
                writeln!(f, "no run says whether {} holds", self.objective)?
            }
            (None, _) => writeln!(f, "{} never held", self.objective)?,
            (Some(rate), Some(missed)) => writeln!(
                f,
                "{} holds up to {rate:.0} requests/s ({:.0} to {missed:.0}: below it always held, from there on never)",
                self.objective, self.held_up_to
            )?,
            (Some(rate), None) => {
                writeln!(f, "{} holds up to {rate:.0} requests/s, at least", self.objective)?
            }
        }
        match &self.ended {
            Some(why) => writeln!(f, "the search ended early: {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
