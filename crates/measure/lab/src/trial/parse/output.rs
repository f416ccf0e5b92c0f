//! Parsed output of a load generator: its figures, and doubts about them.

use crate::record::quantity::is_latency;
use std::collections::BTreeMap;

/// Figures by name; latencies are `p50_us`, `p99_us`, `mean_us`…, rates `requests_per_second` and the like.
pub(crate) type LoadFigures = BTreeMap<String, f64>;

/// The results of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LoadResults {
    /// Over the seconds that count.
    pub(crate) metrics: LoadFigures,
    /// Second by second, warm-up included: when it ended, by the load's own clock, and its figures.
    pub(crate) seconds: Vec<(f64, LoadFigures)>,
    /// When the load ended, by its own clock; 0 if it does not say.
    pub(crate) end_s: f64,
    /// Reasons not to believe it, reported by the load itself.
    pub(crate) doubts: Vec<Doubt>,
}

/// A reason not to believe figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// In a sentence.
    pub(crate) why: String,
    /// The figures that it concerns.
    pub(crate) about: About,
}

impl Doubt {
    /// Its first words: `client-waited`.
    pub(crate) fn kind(&self) -> &str {
        self.why.split(": ").next().unwrap_or_default()
    }
}

/// The figures that a doubt concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// All of them.
    All,
    /// Rates and latencies; figures per CPU-second hold all the same.
    WallClock,
    /// Latencies.
    Latencies,
}

impl About {
    /// Whether it concerns this metric.
    pub(crate) fn concerns(self, metric: &str) -> bool {
        match self {
            About::All => true,
            // Shares of counts neither, whatever the time in which they were counted.
            About::WallClock => !metric.ends_with("per_cpu_second") && !metric.starts_with("guest_most_"),
            About::Latencies => is_latency(metric),
        }
    }
}

/// Collects figures, without those that are missing or not finite.
pub(super) fn figures<const N: usize>(figures: [(&str, Option<f64>); N]) -> LoadFigures {
    let there = figures.into_iter().filter_map(|(name, figure)| Some((name.to_owned(), figure?)));
    there.filter(|(_, figure)| figure.is_finite()).collect()
}

/// The mean of every rate, and the median of every latency, over the seconds after the warm-up. Percentiles of seconds
/// cannot be added up, so theirs is that of a typical second.
pub(super) fn typical(seconds: &[(f64, LoadFigures)], warm_up_s: f64) -> LoadFigures {
    // A second is known by its end: one that ends with the warm-up belongs to it.
    let counts = || seconds.iter().filter(|(at_s, _)| *at_s > warm_up_s + 0.5).map(|(_, it)| it);
    let Some(first) = counts().next() else { return LoadFigures::new() };
    let one = |name: &String| {
        let mut values: Vec<f64> = counts().filter_map(|figures| figures.get(name).copied()).collect();
        values.sort_by(f64::total_cmp);
        let len = values.len();
        let typical = match is_latency(name) {
            true => (values[(len - 1) / 2] + values[len / 2]) / 2.0,
            false => values.iter().sum::<f64>() / len as f64,
        };
        (name.clone(), typical)
    };
    first.keys().map(one).collect()
}
