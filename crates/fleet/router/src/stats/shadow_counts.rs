//! Comparison of a shadow's replies with those that clients got: counts, and their report.
//!
//! The memory of a shadow is fixed (8 KB). All workers count in the same cells: only a sample of requests is compared.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stdx::log_linear::{self, BUCKETS};

use crate::config::Location;
use crate::config::json::{Json, JsonValue};
use crate::message::outcome::{OUTCOMES, Outcome};

/// What one shadow's replies were, compared with the normal ones.
pub struct ShadowCounts {
    /// What the configuration calls it, or where it has it.
    name: String,
    /// By outcome of the normal reply, then of the shadow's.
    outcomes: Box<[AtomicU64]>,
    /// Items that both have.
    same_values: AtomicU64,
    /// Those whose values differ, of the same size.
    other_values: AtomicU64,
    /// Those whose values have other sizes.
    other_sizes: AtomicU64,
    normal: LatencyCells,
    shadow: LatencyCells,
}

/// Counts by microseconds.
struct LatencyCells(Box<[AtomicU64]>);

/// A reply, as far as it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyDigest {
    pub(crate) outcome: Outcome,
    /// Size and hash of the value, if it is a get that found one.
    pub(crate) value: Option<(usize, u64)>,
    pub(crate) latency_us: u64,
}

impl ShadowCounts {
    /// Nothing has been compared yet. `name` is what the configuration calls the shadow, or says where it has it.
    pub fn new(name: String) -> ShadowCounts {
        let cells = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        ShadowCounts {
            name,
            outcomes: cells(OUTCOMES.len() * OUTCOMES.len()),
            same_values: AtomicU64::new(0),
            other_values: AtomicU64::new(0),
            other_sizes: AtomicU64::new(0),
            normal: LatencyCells(cells(BUCKETS)),
            shadow: LatencyCells(cells(BUCKETS)),
        }
    }

    /// Both have replied.
    pub(crate) fn note(&self, normal: ReplyDigest, shadow: ReplyDigest) {
        let index = |outcome: Outcome| OUTCOMES.iter().position(|other| *other == outcome).unwrap_or(0);
        let cell = index(normal.outcome) * OUTCOMES.len() + index(shadow.outcome);
        self.outcomes[cell].fetch_add(1, Relaxed);
        if let (Some((size, hash)), Some((other_size, other_hash))) = (normal.value, shadow.value) {
            let cell = match (size == other_size, hash == other_hash) {
                (false, _) => &self.other_sizes,
                (true, false) => &self.other_values,
                (true, true) => &self.same_values,
            };
            cell.fetch_add(1, Relaxed);
        }
        self.normal.count(normal.latency_us);
        self.shadow.count(shadow.latency_us);
    }

    /// What has been counted.
    pub fn comparison(&self) -> ShadowComparison {
        let count = OUTCOMES.len();
        let pair = |(cell, value): (usize, &AtomicU64)| {
            (OUTCOMES[cell / count], OUTCOMES[cell % count], value.load(Relaxed))
        };
        let outcomes = self.outcomes.iter().enumerate().map(pair).filter(|(.., value)| *value > 0);
        ShadowComparison {
            name: self.name.clone(),
            outcomes: outcomes.collect(),
            same_values: self.same_values.load(Relaxed),
            other_values: self.other_values.load(Relaxed),
            other_sizes: self.other_sizes.load(Relaxed),
            normal: self.normal.histogram(),
            shadow: self.shadow.histogram(),
        }
    }
}

impl fmt::Debug for ShadowCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShadowCounts").field(&self.name).finish()
    }
}

impl LatencyCells {
    fn count(&self, us: u64) {
        self.0[log_linear::bucket(us)].fetch_add(1, Relaxed);
    }

    fn histogram(&self) -> LatencyHistogram {
        let counts =
            self.0.iter().enumerate().map(|(bucket, cell)| (log_linear::end(bucket), cell.load(Relaxed)));
        LatencyHistogram { buckets: counts.filter(|(_, count)| *count > 0).collect() }
    }
}

/// What has been found about one shadow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowComparison {
    /// What the configuration calls it, or where it has it.
    pub name: String,
    /// How often each pair of outcomes has come, the normal one first. Only those that have.
    pub outcomes: Vec<(Outcome, Outcome, u64)>,
    /// Items that both have, with the same value.
    pub same_values: u64,
    /// With another value of the same size.
    pub other_values: u64,
    /// With a value of another size.
    pub other_sizes: u64,
    /// Times of the replies that clients got.
    pub normal: LatencyHistogram,
    /// Times of the shadow's replies.
    pub shadow: LatencyHistogram,
}

/// Times of replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Ends of ranges in microseconds, in growing order, and how many replies took less than that and not less than the range
    /// before. A range is at most 12.5 % wide; those without replies are left out.
    pub buckets: Vec<(u64, u64)>,
}

impl LatencyHistogram {
    /// The end of the range, in microseconds, below which are so many of 1000 replies; 0 without any.
    pub fn below_us(&self, of_1000: u64) -> u64 {
        let total: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        let rank = (u128::from(total) * u128::from(of_1000)).div_ceil(1000) as u64;
        let mut below = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map_or(0, |(end_us, _)| *end_us)
    }

    fn percentiles_us(&self) -> [u64; 3] {
        [500, 900, 990].map(|of_1000| self.below_us(of_1000))
    }
}

/// What has been found about all shadows of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowReport {
    /// In the order of the configuration.
    pub shadows: Vec<ShadowComparison>,
}

impl ShadowComparison {
    /// Requests that were compared.
    pub fn compared(&self) -> u64 {
        self.outcomes.iter().map(|(.., count)| count).sum()
    }

    /// Those of them that had another outcome, or another value.
    pub fn differed(&self) -> u64 {
        self.other_outcomes() + self.other_values + self.other_sizes
    }

    /// Those of them that had another outcome.
    pub(crate) fn other_outcomes(&self) -> u64 {
        let outcomes = self.outcomes.iter().filter(|(normal, other, _)| normal != other);
        outcomes.map(|(.., count)| count).sum()
    }

    /// Requests that found or changed what they were for, at the normal servers and at the shadow's.
    pub fn hits(&self) -> (u64, u64) {
        let sum = |is_meant: &dyn Fn(&(Outcome, Outcome, u64)) -> bool| {
            self.outcomes.iter().filter(|pair| is_meant(pair)).map(|(.., count)| count).sum()
        };
        (sum(&|(normal, ..)| normal.is_hit()), sum(&|(_, shadow, _)| shadow.is_hit()))
    }
}

/// Shadows with series and figures of their own: each has 40 series. More are compared, and only the report has them.
const SHOWN_MAX: usize = 50;

impl ShadowReport {
    /// Shadows with names that are there once: a line of a configuration may have several.
    pub(crate) fn named(&self) -> Vec<(String, &ShadowComparison)> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let name = |shadow: &ShadowComparison, nth: usize| match nth {
            1 => shadow.name.clone(),
            nth => format!("{} ({nth})", shadow.name),
        };
        let mut named = Vec::new();
        for shadow in self.shadows.iter().take(SHOWN_MAX) {
            let nth = seen.entry(&shadow.name).or_default();
            *nth += 1;
            named.push((name(shadow, *nth), shadow));
        }
        named
    }

    /// As JSON, with a line end.
    pub fn to_json(&self) -> String {
        let mut text = String::from("{\"shadows\":[");
        for (index, shadow) in self.shadows.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            shadow.write_json(&mut text).expect("a string takes all");
        }
        text.push_str("\n]}\n");
        text
    }
}

impl ShadowComparison {
    fn write_json(&self, text: &mut String) -> fmt::Result {
        let (normal, shadow) = self.hits();
        write!(
            text,
            "{{\"name\":{},\"compared\":{},\"hits\":{{\"normal\":{normal},\"shadow\":{shadow}}},\"values\":{{\"same\":{},\
             \"different\":{},\"other_size\":{}}},\"outcomes\":[",
            Json::new(Location::default(), JsonValue::String(self.name.clone())).to_json(),
            self.compared(),
            self.same_values,
            self.other_values,
            self.other_sizes
        )?;
        for (index, (normal, shadow, count)) in self.outcomes.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (normal, shadow) = (normal.name(), shadow.name());
            write!(text, "{comma}{{\"normal\":\"{normal}\",\"shadow\":\"{shadow}\",\"count\":{count}}}")?;
        }
        write!(text, "],\"latency_us\":{{")?;
        for (comma, name, times) in [("", "normal", &self.normal), (",", "shadow", &self.shadow)] {
            let [p50, p90, p99] = times.percentiles_us();
            write!(text, "{comma}\"{name}\":{{\"p50\":{p50},\"p90\":{p90},\"p99\":{p99},\"buckets\":[")?;
            for (index, (end_us, count)) in times.buckets.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                write!(text, "{comma}[{end_us},{count}]")?;
            }
            write!(text, "]}}")?;
        }
        write!(text, "}}}}")
    }
}

/// As text: a paragraph for each shadow.
impl fmt::Display for ShadowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shadows.is_empty() {
            return writeln!(f, "no shadows are compared");
        }
        self.shadows.iter().try_for_each(|shadow| write!(f, "{shadow}"))
    }
}

impl fmt::Display for ShadowComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (normal, shadow) = self.hits();
        writeln!(f, "{}: {} requests compared", self.name, self.compared())?;
        writeln!(f, "  hits: {normal} normal, {shadow} shadow")?;
        writeln!(
            f,
            "  values of both: {} the same, {} different, {} of another size",
            self.same_values, self.other_values, self.other_sizes
        )?;
        for (normal, shadow, count) in &self.outcomes {
            writeln!(f, "  {} and {}: {count}", normal.name(), shadow.name())?;
        }
        for (name, times) in [("normal", &self.normal), ("shadow", &self.shadow)] {
            let [p50, p90, p99] = times.percentiles_us();
            writeln!(f, "  {name}: p50 {p50} us, p90 {p90} us, p99 {p99} us")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(outcome: Outcome, value: Option<(usize, u64)>, latency_us: u64) -> ReplyDigest {
        ReplyDigest { outcome, value, latency_us }
    }

    fn report() -> ShadowReport {
        let counts = ShadowCounts::new("line 5".to_owned());
        let found = |size, hash, us| digest(Outcome::Found, Some((size, hash)), us);
        counts.note(found(5, 1, 100), found(5, 1, 200));
        counts.note(found(5, 1, 100), found(5, 2, 200));
        counts.note(found(5, 1, 100), found(6, 3, 200));
        counts.note(found(5, 1, 100), digest(Outcome::NotFound, None, 200));
        counts.note(digest(Outcome::NotFound, None, 1000), digest(Outcome::Timeout, None, 1_000_000));
        ShadowReport { shadows: vec![counts.comparison()] }
    }

    #[test]
    fn a_report_is_text() {
        assert_eq!(
            report().to_string(),
            "line 5: 5 requests compared\n  hits: 4 normal, 3 shadow\n  values of both: 1 the same, 1 different, 1 of \
             another size\n  found and found: 3\n  found and notfound: 1\n  notfound and timeout: 1\n  normal: p50 104 us, \
             p90 1024 us, p99 1024 us\n  shadow: p50 208 us, p90 1048576 us, p99 1048576 us\n"
        );
        assert_eq!(ShadowReport::default().to_string(), "no shadows are compared\n");
    }

    #[test]
    fn a_report_is_json() {
        let text = report().to_json();
        let json = crate::config::json::parse(0, text.as_bytes()).expect("JSON");
        assert_eq!(
            json.to_json(),
            "{\"shadows\":[{\"compared\":5,\"hits\":{\"normal\":4,\"shadow\":3},\"latency_us\":{\"normal\":{\"buckets\":[[104,4],\
             [1024,1]],\"p50\":104,\"p90\":1024,\"p99\":1024},\"shadow\":{\"buckets\":[[208,4],[1048576,1]],\"p50\":208,\
             \"p90\":1048576,\"p99\":1048576}},\"name\":\"line 5\",\
             \"outcomes\":[{\"count\":3,\"normal\":\"found\",\"shadow\":\"found\"},{\"count\":1,\"normal\":\"found\",\
             \"shadow\":\"notfound\"},{\"count\":1,\"normal\":\"notfound\",\"shadow\":\"timeout\"}],\"values\":{\"different\":1,\
             \"other_size\":1,\"same\":1}}]}"
        );
        let empty =
            crate::config::json::parse(0, ShadowReport::default().to_json().as_bytes()).expect("JSON");
        assert_eq!(empty.to_json(), "{\"shadows\":[]}");
    }
}
