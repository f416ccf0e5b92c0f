//! Verification of a plan: values hold, and the expected movements of figures have happened.
//!
//! Pure but for the settings that are read. A figure is compared window by window: before and after have a few
//! windows each, and it has moved only if all of one lie beyond all of the other, and the middle has moved by a
//! tenth. Nothing is credited to a plan that was not measured, nor measurements during which the host's limits came
//! and went.

pub mod measure;
pub mod metric;
pub mod tournament;
pub mod verification;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Capture;
use crate::apply::has_moved;
use crate::apply::host::HostAccess;
use crate::apply::journal::JournalStep;
use crate::diagnose::finding::{Finding, Severity};
use crate::diagnose::rules::judge_each;
use crate::plan::change::{Change, Setting};
use crate::plan::signal::{ExpectedSignals, Figure, Moves};
use measure::{FigureSubject, Nothing, WindowFigure};
use stdx::statistics::median;

/// A smaller movement may have happened by itself.
const MOVED_PERCENT_MIN: f64 = 10.0;

/// Loads that differ by more than this factor are not compared: fewer packets have more interrupts each, whatever is set.
const LOAD_RATIO_MAX: f64 = 2.0;

/// Rules about limits that no setting of the host can change, and that change every figure.
const LIMITS: [&str; 4] = ["allowance-exceeded", "device-dropped", "cpu-stolen", "cpu-throttled"];

/// Whether a value is still the one that was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "holds", rename_all = "snake_case")]
pub enum Holding {
    /// It is, by its meaning.
    Yes,
    /// It is; the interrupt has not arrived since, and moves when it arrives.
    Pending,
    /// It has another value, or the interrupt arrives elsewhere.
    No {
        /// The value.
        found: String,
    },
}

/// The result of an expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ExpectationResult {
    /// It moved as expected.
    Moved,
    /// It has the expected value, but without the change it would, too, as far as was measured: it stood still
    /// before.
    AsBefore,
    /// It did not move as expected.
    NotMoved,
    /// It moved in the expected direction, but no further than it does from one window to the next.
    WithinNoise {
        /// What it did: `fell`, `rose`.
        did: &'static str,
    },
    /// Unknown.
    Unknown {
        /// The reason.
        why: String,
    },
}

/// An expectation, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The expectation, in words.
    pub expected: String,
    /// The settings that should cause it.
    pub settings: Vec<String>,
    /// The figure before.
    pub before: Option<f64>,
    /// The figure now.
    pub after: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// The result.
    #[serde(flatten)]
    pub verdict: ExpectationResult,
}

/// Whether the step's value holds. `came` is the count of its interrupt when the check began.
pub fn holding(host: &dyn HostAccess, step: &JournalStep, came: Option<u64>) -> Holding {
    let setting = &step.setting;
    match host.read(setting) {
        Ok(found) if !setting.same(&found, &step.wanted) => {
            return Holding::No { found: found.trim().to_owned() };
        }
        Ok(_) => {}
        Err(error) => return Holding::No { found: format!("cannot be read: {error}") },
    }
    let (Some(irq), Some(came)) = (setting.irq(), came) else { return Holding::Yes };
    match has_moved(host, irq, Some(came), &step.wanted) {
        Ok(true) => Holding::Yes,
        Ok(false) => Holding::Pending,
        Err(error) => Holding::No { found: error.to_string() },
    }
}

/// The counts of the interrupts that these steps move.
pub fn interrupts(host: &dyn HostAccess, steps: &[JournalStep]) -> BTreeMap<u32, u64> {
    let irqs = steps.iter().filter_map(|step| step.setting.irq());
    irqs.filter_map(|irq| Some((irq, host.interrupt(irq).ok()?.0))).collect()
}

/// Limits in the windows that no setting can change, and that change every figure: used-up allowances, stolen time,
/// quotas.
pub fn limits(capture: &Capture) -> Vec<Finding> {
    let found = judge_each(&capture.facts, &capture.series).into_iter();
    found
        .filter(|finding| LIMITS.contains(&finding.rule.as_str()) && finding.severity > Severity::Note)
        .collect()
}

/// The results of all expectations of these changes; the same expectation of several changes is listed once.
pub fn signals(changes: &[Change], before: Option<&Capture>, after: &Capture) -> Vec<Judged> {
    let mut judged: Vec<Judged> = Vec::new();
    let mut seen: Vec<(ExpectedSignals, FigureSubject)> = Vec::new();
    for change in changes {
        let subject = FigureSubject::of(change, &after.facts);
        for expected in &change.signal.0 {
            let key = (expected.clone(), subject_of(expected, &subject));
            match seen.iter().position(|other| *other == key) {
                Some(place) => judged[place].settings.push(change.setting.to_string()),
                None => {
                    judged.push(one(expected, &change.setting, &key.1, before, after));
                    seen.push(key);
                }
            }
        }
    }
    judged
}

/// Words concern all settings alike.
fn subject_of(expected: &ExpectedSignals, subject: &FigureSubject) -> FigureSubject {
    match expected {
        ExpectedSignals::Words(_) => FigureSubject::default(),
        ExpectedSignals::Figure { .. } => subject.clone(),
    }
}

fn one(
    expected: &ExpectedSignals,
    setting: &Setting,
    subject: &FigureSubject,
    before: Option<&Capture>,
    after: &Capture,
) -> Judged {
    let mut judged = Judged {
        expected: expected.to_string(),
        settings: vec![setting.to_string()],
        before: None,
        after: None,
        unit: "",
        verdict: ExpectationResult::Unknown { why: "no counter shows it; give --objective".to_owned() },
    };
    let ExpectedSignals::Figure { figure, moves } = expected else { return judged };
    judged.unit = measure::unit(*figure);
    let then = before.map(|capture| windows(*figure, subject, capture));
    let now = windows(*figure, subject, after);
    let value =
        |windows: &Result<Vec<WindowFigure>, Nothing>| Some(middle(windows.as_ref().ok()?, |m| m.value));
    judged.before = then.as_ref().and_then(value);
    judged.after = value(&now);
    judged.verdict = match now {
        Err(why) => ExpectationResult::Unknown { why: why.to_string() },
        Ok(now) => moved(*moves, then, &now),
    };
    judged
}

/// The figure in each window of a capture.
fn windows(figure: Figure, subject: &FigureSubject, capture: &Capture) -> Result<Vec<WindowFigure>, Nothing> {
    let series = capture.series.windows().into_iter();
    series.map(|series| measure::measure(figure, subject, &capture.facts, &series)).collect()
}

fn middle(windows: &[WindowFigure], of: fn(&WindowFigure) -> f64) -> f64 {
    median(&windows.iter().map(of).collect::<Vec<_>>())
}

fn moved(
    moves: Moves,
    then: Option<Result<Vec<WindowFigure>, Nothing>>,
    now: &[WindowFigure],
) -> ExpectationResult {
    let still = now.iter().all(|window| window.value == 0.0);
    match (moves, then) {
        (Moves::StandsStill, _) if !still => ExpectationResult::NotMoved,
        // That it grew before, under load, makes standing still an effect.
        (Moves::StandsStill, Some(Ok(then))) if then.iter().any(|window| window.value > 0.0) => {
            ExpectationResult::Moved
        }
        (Moves::StandsStill, _) => ExpectationResult::AsBefore,
        (Moves::Grows, _) if still => ExpectationResult::NotMoved,
        (_, None) => ExpectationResult::Unknown {
            why: "it was not measured before the plan was applied; apply with --before".to_owned(),
        },
        (_, Some(Err(why))) => ExpectationResult::Unknown { why: format!("before the plan: {why}") },
        (_, Some(Ok(then))) => compared(moves, &then, now),
    }
}

fn compared(moves: Moves, then: &[WindowFigure], now: &[WindowFigure]) -> ExpectationResult {
    let (load_then, load_now) = (middle(then, |m| m.load_per_s), middle(now, |m| m.load_per_s));
    let ratio = load_now / load_then;
    if !(1.0 / LOAD_RATIO_MAX..=LOAD_RATIO_MAX).contains(&ratio) {
        let why = format!("the load was {load_then:.0} a second before and is {load_now:.0}: not comparable");
        return ExpectationResult::Unknown { why };
    }
    let least = |windows: &[WindowFigure]| windows.iter().map(|m| m.value).fold(f64::INFINITY, f64::min);
    let most = |windows: &[WindowFigure]| windows.iter().map(|m| m.value).fold(f64::NEG_INFINITY, f64::max);
    let (old, new) = (middle(then, |m| m.value), middle(now, |m| m.value));
    let far = (new - old).abs() >= old.abs() * MOVED_PERCENT_MIN / 100.0 && new != old;
    let fell = far && most(now) < least(then);
    let rose = far && least(now) > most(then);
    let as_expected = match moves {
        Moves::Falls => fell,
        Moves::Rises | Moves::Grows => rose,
        Moves::DoesNotRise if fell => true,
        Moves::DoesNotRise if !rose => return ExpectationResult::AsBefore,
        Moves::DoesNotRise | Moves::StandsStill => false,
    };
    // The middles are apart, and windows of before and after overlap.
    let within_noise = match moves {
        Moves::Falls if far && new < old => Some("fell"),
        Moves::Rises | Moves::Grows if far && new > old => Some("rose"),
        _ => None,
    };
    match (as_expected, within_noise) {
        (true, _) => ExpectationResult::Moved,
        (false, Some(did)) => ExpectationResult::WithinNoise { did },
        (false, None) => ExpectationResult::NotMoved,
    }
}

/// The steps of several plans, the newest first, without those that a newer plan has set since, nor those that were
/// left out or undone.
pub fn in_force(newest_first: impl IntoIterator<Item = Vec<JournalStep>>) -> Vec<JournalStep> {
    let mut taken = BTreeSet::new();
    let steps = newest_first.into_iter().flatten().filter(|step| !step.left && !step.undone);
    steps.filter(|step| taken.insert(step.setting.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(values: &[f64], load_per_s: f64) -> Vec<WindowFigure> {
        values.iter().map(|value| WindowFigure { value: *value, load_per_s }).collect()
    }

    #[track_caller]
    fn check(moves: Moves, before: &[f64], after: &[f64], wanted: ExpectationResult) {
        let before = (!before.is_empty()).then(|| Ok(windows(before, 1000.0)));
        assert_eq!(moved(moves, before, &windows(after, 1500.0)), wanted, "{moves:?}");
    }

    #[test]
    fn a_figure_has_moved_when_no_window_overlaps_and_the_middle_is_a_tenth_away() {
        use ExpectationResult::{AsBefore, Moved, NotMoved, WithinNoise};
        check(Moves::Falls, &[90.0, 80.0, 85.0], &[50.0, 60.0, 55.0], Moved);
        check(Moves::Falls, &[90.0, 80.0, 85.0], &[50.0, 81.0, 55.0], WithinNoise { did: "fell" });
        check(Moves::Falls, &[20.1, 30.7, 35.0], &[22.4, 19.0, 24.0], WithinNoise { did: "fell" });
        check(Moves::Rises, &[20.0, 25.0, 22.0], &[24.0, 40.0, 30.0], WithinNoise { did: "rose" });
        check(Moves::Falls, &[20.0, 25.0, 22.0], &[24.0, 40.0, 30.0], NotMoved);
        check(Moves::Falls, &[90.0, 90.0, 90.0], &[89.0, 89.0, 89.0], NotMoved);
        check(Moves::Rises, &[10.0], &[12.0], Moved);
        check(Moves::Rises, &[10.0], &[8.0], NotMoved);
        check(Moves::DoesNotRise, &[10.0, 11.0], &[11.0, 10.0], AsBefore);
        check(Moves::DoesNotRise, &[10.0], &[15.0], NotMoved);
        check(Moves::DoesNotRise, &[10.0], &[5.0], Moved);
        check(Moves::Grows, &[0.0, 0.0], &[5.0, 6.0], Moved);
        check(Moves::Grows, &[5.0, 6.0], &[5.0, 6.0], NotMoved);
        check(Moves::Grows, &[], &[0.0], NotMoved);
        check(Moves::StandsStill, &[4.0], &[0.0], Moved);
        check(Moves::StandsStill, &[0.0], &[0.0], AsBefore);
        check(Moves::StandsStill, &[], &[0.0], AsBefore);
        check(Moves::StandsStill, &[4.0], &[0.0, 0.1], NotMoved);
        check(Moves::Falls, &[0.0], &[0.0], NotMoved);
    }

    #[test]
    fn nothing_is_credited_that_was_not_measured_alike() {
        let why = |verdict| match verdict {
            ExpectationResult::Unknown { why } => why,
            other => panic!("{other:?}"),
        };
        let now = windows(&[5.0], 1000.0);
        assert!(why(moved(Moves::Falls, None, &now)).contains("apply with --before"));
        let silent = Nothing::Silent { counter: "NET_RX".into(), per_s: 2.0, least: 100.0 };
        let said = why(moved(Moves::Falls, Some(Err(silent)), &now));
        assert_eq!(said, "before the plan: no load: NET_RX counted 2.0 a second, and it takes 100");
        let busier = Ok(windows(&[9.0], 2001.0));
        let said = why(moved(Moves::Falls, Some(busier), &now));
        assert_eq!(said, "the load was 2001 a second before and is 1000: not comparable");
    }
}
