//! Objectives of latency, for a search.

use std::fmt;
use std::str::FromStr;

/// A limit on a percentile of the latency: `p99<1ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    pub(crate) percentile: Percentile,
    pub(crate) limit_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Percentile {
    P50,
    P90,
    P99,
    P999,
    Max,
}

impl Percentile {
    /// Of all requests, those that are no slower.
    pub(crate) fn share(self) -> f64 {
        match self {
            Percentile::P50 => 0.5,
            Percentile::P90 => 0.9,
            Percentile::P99 => 0.99,
            Percentile::P999 => 0.999,
            Percentile::Max => 1.0,
        }
    }
}

const PERCENTILES: [(&str, Percentile); 5] = [
    ("p50", Percentile::P50),
    ("p90", Percentile::P90),
    ("p99", Percentile::P99),
    ("p99.9", Percentile::P999),
    ("max", Percentile::Max),
];

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let wrong = || String::from("p50, p90, p99, p99.9 or max, then <, then a time in us or ms: p99<1ms");
        let (name, limit) = text.split_once('<').ok_or_else(wrong)?;
        let (_, percentile) =
            *PERCENTILES.iter().find(|(known, _)| *known == name.trim()).ok_or_else(wrong)?;
        let limit = limit.trim_start_matches('=').trim();
        let in_us = |unit: &str, us: f64| Some(limit.strip_suffix(unit)?.trim().parse::<f64>().ok()? * us);
        let limit_us = in_us("us", 1.0).or_else(|| in_us("µs", 1.0)).or_else(|| in_us("ms", 1000.0));
        match limit_us.or_else(|| in_us("s", 1e6)) {
            Some(limit_us) if limit_us > 0.0 && limit_us.is_finite() => {
                Ok(Objective { percentile, limit_us })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PERCENTILES.iter().find(|(_, percentile)| *percentile == self.percentile);
        write!(f, "{}<{}us", name.map_or("", |(name, _)| name), self.limit_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        for (text, shown) in [
            ("p99<1ms", "p99<1000us"),
            ("p99.9 < 500us", "p99.9<500us"),
            ("max<=2s", "max<2000000us"),
            ("p50<0.5ms", "p50<500us"),
        ] {
            assert_eq!(
                text.parse::<Objective>().map(|objective| objective.to_string()).as_deref(),
                Ok(shown)
            );
        }
        for bad in ["", "p99", "p99<", "p99<1", "p98<1ms", "p99>1ms", "p99<-1ms", "p99<0ms"] {
            assert!(bad.parse::<Objective>().is_err(), "{bad:?}");
        }
    }
}
