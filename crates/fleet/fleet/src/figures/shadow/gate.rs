//! Gates by shadows: a change of hosts waits until a shadow has been compared often enough, and does not begin if that was worse.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::book::{ShadowWindow, WINDOW_MAX_S};
use crate::ClusterName;
use crate::policy::ShadowPolicy;

/// The fewest samples that a gate takes: ten of them are above the 99th percentile.
pub const SAMPLES_MIN: u64 = 1_000;
const SAMPLES_MAX: u64 = 1_000_000_000;
/// Samples that are wanted unless the gate says another number: with one difference in a thousand allowed, ten.
const SAMPLES: u64 = 10_000;
/// The last time in which samples count, in seconds.
const WITHIN_S: u64 = 1_800;
const WITHIN_S_MIN: u64 = 60;
/// The part of the samples that may differ: clients change keys while both are asked.
const DIFFER: f64 = 0.001;
/// By which part more the shadow's replies may take. Buckets of times are a quarter wide, and less is not seen for certain.
const SLOWER: f64 = 0.25;
/// The most that a gate takes: beyond this it would be no condition.
const SLOWER_MAX: f64 = 100.0;

/// A condition: `shadow:FROM->TO[,samples=N][,within=TIME][,differ=PART][,slower=PART]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShadowGate {
    /// Whose requests are copied.
    pub from: ClusterName,
    /// Who gets the copies.
    pub to: ClusterName,
    /// Samples that are needed.
    pub samples: u64,
    /// In the last time, in seconds.
    pub within_s: u64,
    /// The part of them that may differ.
    pub differ: f64,
    /// By which part more than the cluster's replies those of the shadow may take.
    pub slower: f64,
}

/// What a gate says now. It may say another thing later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateState {
    /// The condition is met: what was found.
    Fulfilled(String),
    /// It cannot be said yet: what is missing.
    NotYet(String),
    /// It is not met: why.
    Missed(String),
}

impl GateState {
    /// A word for it.
    pub fn word(&self) -> &'static str {
        match self {
            GateState::Fulfilled(_) => "fulfilled",
            GateState::NotYet(_) => "not yet",
            GateState::Missed(_) => "missed",
        }
    }

    /// What was found, is missing or is wrong.
    pub fn text(&self) -> &str {
        match self {
            GateState::Fulfilled(text) | GateState::NotYet(text) | GateState::Missed(text) => text,
        }
    }
}

impl ShadowGate {
    /// The shadow's name.
    pub fn name(&self) -> String {
        format!("{}->{}", self.from, self.to)
    }

    /// What the gate says of the shadow that the content in force has for `from`, and of what was compared within `within_s`.
    pub fn judge(&self, present: Option<&ShadowPolicy>, window: Option<&ShadowWindow>) -> GateState {
        let name = self.name();
        let Some(shadow) = present.filter(|shadow| shadow.to == self.to) else {
            return GateState::NotYet(format!("the policy in force has no shadow {name}"));
        };
        if shadow.compare == 0.0 {
            return GateState::NotYet(format!(
                "no reply of the shadow {name} is compared: its `compare` is 0"
            ));
        }
        let time = time(self.within_s);
        let Some(window) = window.filter(|window| window.sums.compared > 0) else {
            return GateState::NotYet(format!(
                "no router has told of replies that were compared in the last {time}: it needs --compare-shadows, and \
                 `metrics` in its agent's file"
            ));
        };
        let sums = &window.sums;
        let (compared, differed) = (sums.compared, sums.differed());
        if compared < self.samples {
            return GateState::NotYet(format!("{compared} of {} samples in the last {time}", self.samples));
        }
        let share = differed as f64 / compared as f64;
        let found =
            format!("{differed} of {compared} samples in the last {time} differ ({})", percent(share));
        if share > self.differ {
            let why = format!(
                "{} by outcome, {} by value, {} by size; at most {} is accepted",
                sums.other_outcomes,
                sums.other_values,
                sums.other_sizes,
                percent(self.differ)
            );
            return GateState::Missed(format!("{found}: {why}"));
        }
        let mut times = Vec::new();
        for (percentile, part) in [("p50", 0.5), ("p99", 0.99)] {
            let (Some(normal), Some(shadow)) = (sums.normal.below_us(part), sums.shadow.below_us(part))
            else {
                return GateState::NotYet(format!("{found}, and no router has told how long replies took"));
            };
            let compared = format!("{percentile} {shadow:.0} µs for {normal:.0} µs");
            if shadow > normal * (1.0 + self.slower) {
                let most = percent(self.slower);
                return GateState::Missed(format!(
                    "replies of {} take longer than those of {}: {compared}; at most {most} more is accepted",
                    self.to, self.from
                ));
            }
            times.push(compared);
        }
        GateState::Fulfilled(format!("{found}; {}", times.join(", ")))
    }
}

impl FromStr for ShadowGate {
    type Err = String;

    fn from_str(text: &str) -> Result<ShadowGate, String> {
        const FORM: &str = "shadow:FROM->TO[,samples=N][,within=TIME][,differ=PART][,slower=PART]";
        let wrong = || format!("expected {FORM}, found {text:?}");
        let mut parts = text.split(',');
        let pair = parts.next().and_then(|first| first.strip_prefix("shadow:"));
        let (from, to) = pair.and_then(|pair| pair.split_once("->")).ok_or_else(wrong)?;
        let mut gate = ShadowGate {
            from: from.parse().map_err(|_| wrong())?,
            to: to.parse().map_err(|_| wrong())?,
            samples: SAMPLES,
            within_s: WITHIN_S,
            differ: DIFFER,
            slower: SLOWER,
        };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            match key {
                "samples" => gate.samples = within(key, value, value.parse().ok(), SAMPLES_MIN, SAMPLES_MAX)?,
                "within" => gate.within_s = within(key, value, seconds(value), WITHIN_S_MIN, WINDOW_MAX_S)?,
                "differ" => gate.differ = within(key, value, value.parse().ok(), 0.0, 1.0)?,
                "slower" => gate.slower = within(key, value, value.parse().ok(), 0.0, SLOWER_MAX)?,
                _ => {
                    return Err(format!(
                        "expected samples, within, differ or slower in a gate, found {key:?}"
                    ));
                }
            }
        }
        Ok(gate)
    }
}

impl TryFrom<String> for ShadowGate {
    type Error = String;

    fn try_from(text: String) -> Result<ShadowGate, String> {
        text.parse()
    }
}

impl From<ShadowGate> for String {
    fn from(gate: ShadowGate) -> String {
        gate.to_string()
    }
}

impl fmt::Display for ShadowGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShadowGate { samples, within_s, differ, slower, .. } = self;
        let name = self.name();
        write!(
            formatter,
            "shadow:{name},samples={samples},within={within_s}s,differ={differ},slower={slower}"
        )
    }
}

fn within<T: PartialOrd + fmt::Display + Copy>(
    key: &str,
    text: &str,
    found: Option<T>,
    least: T,
    most: T,
) -> Result<T, String> {
    let good = found.filter(|found| *found >= least && *found <= most);
    good.ok_or_else(|| format!("expected {least} to {most} as `{key}` of a gate, found {text:?}"))
}

/// Seconds as people write them: `90`, `90s`, `30m`, `1h`.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b's' => (&text[..text.len() - 1], 1),
        b'm' => (&text[..text.len() - 1], 60),
        b'h' => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn time(seconds: u64) -> String {
    if seconds.is_multiple_of(60) { format!("{} min", seconds / 60) } else { format!("{seconds} s") }
}

fn percent(part: f64) -> String {
    format!("{} %", (part * 1e5).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::book::ShadowSums;
    use super::super::times::time_bucket;
    use super::*;

    fn gate(rest: &str) -> ShadowGate {
        format!("shadow:web->new,samples=1000{rest}").parse().expect("a gate")
    }

    fn shadow(rest: &str) -> ShadowPolicy {
        toml::from_str(&format!("from = \"web\"\nto = \"new\"\n{rest}")).expect("a shadow")
    }

    /// So many samples, of which so many differ; times of the cluster's and of the shadow's replies.
    fn window(compared: u64, differed: u64, normal_us: u64, shadow_us: u64) -> ShadowWindow {
        let mut sums = ShadowSums { compared, other_values: differed, ..ShadowSums::default() };
        sums.normal.add(time_bucket(normal_us), compared);
        sums.shadow.add(time_bucket(shadow_us), compared);
        ShadowWindow { sums, counted_s: 60, routers: 1 }
    }

    #[track_caller]
    fn check(gate: &ShadowGate, window: &ShadowWindow, word: &str, expected: &str) {
        let state = gate.judge(Some(&shadow("")), Some(window));
        assert!(state.word() == word && state.text().contains(expected), "{state:?}");
    }

    #[test]
    fn enough_samples_that_are_alike_and_not_slower_fulfil_a_gate() {
        check(
            &gate(""),
            &window(1000, 1, 100, 100),
            "fulfilled",
            "1 of 1000 samples in the last 30 min differ",
        );
        check(&gate(""), &window(999, 0, 100, 100), "not yet", "999 of 1000 samples in the last 30 min");
        check(&gate(",within=90"), &window(5, 5, 100, 100), "not yet", "5 of 1000 samples in the last 90 s");
        check(
            &gate(""),
            &window(1000, 2, 100, 100),
            "missed",
            "2 by value, 0 by size; at most 0.1 % is accepted",
        );
        check(&gate(",differ=0.002"), &window(1000, 2, 100, 100), "fulfilled", "0.2 %");
    }

    #[test]
    fn replies_that_take_longer_miss_a_gate_as_far_as_buckets_show_it() {
        check(
            &gate(""),
            &window(1000, 0, 100, 200),
            "missed",
            "replies of new take longer than those of web: p50",
        );
        check(&gate(",slower=1.5"), &window(1000, 0, 100, 200), "fulfilled", "p99");
        check(&gate(""), &window(1000, 0, 200, 100), "fulfilled", "p50");
        let mut late = window(1000, 0, 100, 100);
        late.sums.shadow = Default::default();
        late.sums.shadow.add(time_bucket(100), 980);
        late.sums.shadow.add(time_bucket(5000), 20);
        check(&gate(""), &late, "missed", "p99");
        late.sums.shadow = Default::default();
        check(&gate(""), &late, "not yet", "no router has told how long replies took");
    }

    #[test]
    fn what_is_unknown_is_no_proof() {
        let gate = gate("");
        let full = window(5000, 0, 100, 100);
        let word = |present: Option<&ShadowPolicy>, window: Option<&ShadowWindow>, expected: &str| {
            let state = gate.judge(present, window);
            assert!(state.word() == "not yet" && state.text().contains(expected), "{state:?}");
        };
        word(None, Some(&full), "the policy in force has no shadow web->new");
        let other = ShadowPolicy { to: "x".parse().expect("a name"), ..shadow("") };
        word(Some(&other), Some(&full), "the policy in force has no shadow web->new");
        word(Some(&shadow("compare = 0")), Some(&full), "its `compare` is 0");
        word(Some(&shadow("")), None, "it needs --compare-shadows");
        word(Some(&shadow("")), Some(&window(0, 0, 1, 1)), "no router has told");
    }

    #[test]
    fn a_gate_is_written_as_it_is_read() {
        let gate: ShadowGate = "shadow:web->new".parse().expect("a gate");
        assert_eq!(gate.to_string(), "shadow:web->new,samples=10000,within=1800s,differ=0.001,slower=0.25");
        assert_eq!(gate.to_string().parse(), Ok(gate));
        let other: ShadowGate = "shadow:a->b,within=1h,differ=0".parse().expect("a gate");
        assert_eq!((other.within_s, other.differ), (3600, 0.0));
        for (wrong, expected) in [
            ("", "expected shadow:FROM->TO"),
            ("web->new", "expected shadow:FROM->TO"),
            ("shadow:web", "expected shadow:FROM->TO"),
            ("shadow:web->-", "expected shadow:FROM->TO"),
            ("shadow:a->b,samples", "expected shadow:FROM->TO"),
            ("shadow:a->b,samples=999", "expected 1000 to 1000000000 as `samples` of a gate, found \"999\""),
            ("shadow:a->b,within=3h", "expected 60 to 7200 as `within`"),
            ("shadow:a->b,within=h", "as `within` of a gate, found \"h\""),
            ("shadow:a->b,differ=2", "expected 0 to 1 as `differ`"),
            ("shadow:a->b,differ=nan", "expected 0 to 1 as `differ`"),
            ("shadow:a->b,slower=-1", "expected 0 to 100 as `slower`"),
            (
                "shadow:a->b,faster=1",
                "expected samples, within, differ or slower in a gate, found \"faster\"",
            ),
        ] {
            let error = wrong.parse::<ShadowGate>().expect_err("it is refused");
            assert!(error.contains(expected), "{error}");
        }
    }
}
