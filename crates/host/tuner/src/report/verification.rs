//! Verification report, for people.

use super::paint::{TextStyle, Tint};
use crate::diagnose::rules::number;
use crate::text::folded::folded;
use crate::text::wrap;
use crate::verify::verification::{ObjectiveResult, ValueResult, Verification, VerificationOutcome};
use crate::verify::{ExpectationResult, Holding, Judged};

/// Values, signals, objectives, limits, and the conclusion.
pub fn verification(verification: &Verification, look: TextStyle) -> String {
    let Verification { values, signals, objectives, limits, .. } = verification;
    let mut text = format!("Over {:.0} s.\n\nvalues\n", verification.window_s);
    text += &all(values, look);
    if !signals.is_empty() {
        text += "\nsignals of the newest plan\n";
        signals.iter().for_each(|judged| text += &signal(judged, look));
        if !verification.measured_before {
            text +=
                "  There is no measurement from before it; `evenkeel tune apply --before 60` makes one.\n";
        }
    }
    if !objectives.is_empty() {
        text += "\nobjectives\n";
        objectives.iter().for_each(|found| text += &objective(found, look));
    }
    if !limits.is_empty() {
        text += "\nlimits that no setting changes; nothing is credited while they are there\n";
        for finding in limits {
            text += &wrap::hanging("  ", &format!("{}: {}", finding.subject, finding.cause), look.columns);
        }
    }
    let tint = match verification.outcome {
        VerificationOutcome::Verified => Tint::Green,
        VerificationOutcome::NothingShown => Tint::Yellow,
        VerificationOutcome::NotHeld
        | VerificationOutcome::ObjectiveMissed
        | VerificationOutcome::NotMoved => Tint::Red,
    };
    format!("{text}\n{}\n", look.paint.tinted(tint, verification.outcome.sentence()))
}

/// A word in a column of its own, then text that hangs behind it.
fn row(word: &str, tint: Tint, text: &str, look: TextStyle) -> String {
    let lines = wrap::hanging(&format!("  {word:<10}"), text, look.columns);
    lines.replacen(word, &look.paint.tinted(tint, word), 1)
}

/// The separator after a value's word.
const WORD_END: char = '\t';

/// All values; those that differ in numbers alone are shown once.
fn all(values: &[ValueResult], look: TextStyle) -> String {
    let lines: Vec<String> = values.iter().map(value).collect();
    let shown = |line: &String| {
        let (word, said) = line.split_once(WORD_END).expect("every value has its word");
        let tint = match word {
            HOLDS => Tint::Green,
            PENDING => Tint::Yellow,
            _ => Tint::Red,
        };
        row(word, tint, said, look)
    };
    folded(&lines).iter().map(shown).collect()
}

const HOLDS: &str = "holds";
const PENDING: &str = "pending";

fn value(value: &ValueResult) -> String {
    let said = format!("{} = {}", value.setting, value.wanted.trim());
    match &value.holding {
        Holding::Yes => format!("{HOLDS}{WORD_END}{said}"),
        Holding::Pending => format!("{PENDING}{WORD_END}{said}: its interrupt has not come since"),
        Holding::No { found } => format!("NOT HELD{WORD_END}{said}: found {found:?}"),
    }
}

fn signal(judged: &Judged, look: TextStyle) -> String {
    let figure = |figure: Option<f64>| match figure {
        Some(figure) => format!("{} {}", number(figure), judged.unit).trim_end().to_owned(),
        None => "?".to_owned(),
    };
    let figures = match (judged.before, judged.after) {
        (None, None) => String::new(),
        (before, after) => format!(": {} → {}", figure(before), figure(after)),
    };
    let said = format!("{}{figures}", judged.expected);
    match &judged.verdict {
        ExpectationResult::Moved => row("moved", Tint::Green, &said, look),
        ExpectationResult::AsBefore => row("as before", Tint::Green, &said, look),
        ExpectationResult::NotMoved => row("NOT MOVED", Tint::Red, &said, look),
        ExpectationResult::WithinNoise { did } => {
            let why = format!("{said} (it {did}, but within the noise: windows before and after overlap)");
            row("unclear", Tint::Yellow, &why, look)
        }
        ExpectationResult::Unknown { why } => row("unknown", Tint::Yellow, &format!("{said} ({why})"), look),
    }
}

fn objective(objective: &ObjectiveResult, look: TextStyle) -> String {
    let said = format!("{}: {}", objective.what, objective.seen);
    match objective.held {
        Some(true) => row("held", Tint::Green, &said, look),
        Some(false) => row("MISSED", Tint::Red, &said, look),
        None => row("unknown", Tint::Yellow, &said, look),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::paint::Paint;

    #[test]
    fn values_that_differ_in_numbers_alone_are_said_once() {
        let value = |irq: u32| ValueResult {
            setting: format!("/proc/irq/{irq}/smp_affinity"),
            wanted: format!("{:x}", 1u64 << (irq - 38)),
            holding: if irq == 50 { Holding::Pending } else { Holding::Yes },
        };
        let values: Vec<ValueResult> = (38..102).map(value).collect();
        assert_eq!(
            all(&values, TextStyle { columns: 100, paint: Paint::Plain }),
            "  holds     /proc/irq/38/smp_affinity = 1 (and 62 more like it)
  pending   /proc/irq/50/smp_affinity = 1000: its interrupt has not come since
"
        );
    }

    #[test]
    fn everything_is_said_with_its_numbers() {
        let judged = |expected: &str, before, after, unit, verdict| Judged {
            expected: expected.into(),
            settings: Vec::new(),
            before,
            after,
            unit,
            verdict,
        };
        let silent = ExpectationResult::Unknown {
            why: "no load: NET_RX counted 2.0 a second, and it takes 100".into(),
        };
        let found = Verification::conclude(
            vec![
                ValueResult { setting: "/sys/a".into(), wanted: "1\n".into(), holding: Holding::Yes },
                ValueResult {
                    setting: "/sys/b".into(),
                    wanted: "1".into(),
                    holding: Holding::No { found: "0".into() },
                },
            ],
            vec![
                judged("the share falls", Some(93.4), Some(51.25), "%", ExpectationResult::Moved),
                judged("p99 falls", None, None, "", silent),
                judged(
                    "it falls",
                    Some(30.7),
                    Some(22.4),
                    "%",
                    ExpectationResult::WithinNoise { did: "fell" },
                ),
                judged("it grows", None, Some(1204.0), "/s", ExpectationResult::NotMoved),
            ],
            vec![ObjectiveResult { what: "./load".into(), seen: "status 0".into(), held: Some(true) }],
            Vec::new(),
            false,
            60.0,
        );
        let wanted = "\
Over 60 s.

values
  holds     /sys/a = 1
  NOT HELD  /sys/b = 1: found \"0\"

signals of the newest plan
  moved     the share falls: 93.4 % → 51.2 %
  unknown   p99 falls (no load: NET_RX counted 2.0 a second, and it takes 100)
  unclear   it falls: 30.7 % → 22.4 % (it fell, but within the noise: windows before and after overlap)
  NOT MOVED it grows: ? → 1,204 /s
  There is no measurement from before it; `evenkeel tune apply --before 60` makes one.

objectives
  held      ./load: status 0

Not verified: a value is no longer what it was set to.
";
        assert_eq!(verification(&found, TextStyle { columns: 110, paint: Paint::Plain }), wanted);
    }
}
