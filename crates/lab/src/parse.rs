//! Parsers of load generators' output: texts to figures. Pure, a module for each tool.

mod evenkeel_load;
mod fio;
mod lines;
mod memtier;
mod sysbench;

use crate::error::Error;
use crate::experiment::{Parser, Workload};
use crate::quantity::is_latency;
use crate::record::{incredible, is_credible};
use std::collections::BTreeMap;

/// Figures by name; latencies are `p50_us`, `p99_us`, `mean_us`…, rates `requests_per_second` and the like.
pub type Figures = BTreeMap<String, f64>;

/// What a load has said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Over the seconds that count.
    pub metrics: Figures,
    /// Second by second, warm-up included: when it ended, by the load's own clock, and its figures.
    pub seconds: Vec<(f64, Figures)>,
    /// When the load ended, by its own clock; 0 if it does not say.
    pub end_s: f64,
    /// Why not to believe it, by the load itself.
    pub doubts: Vec<Doubt>,
}

/// A reason not to believe figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// In a sentence.
    pub why: String,
    /// Which figures it concerns.
    pub about: About,
}

/// The figures that a doubt concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// All of them.
    All,
    /// Rates and latencies; figures per CPU-second hold all the same.
    WallClock,
    /// Latencies.
    Latencies,
}

impl About {
    /// Whether this metric is not to be believed.
    pub(crate) fn concerns(self, metric: &str) -> bool {
        match self {
            About::All => true,
            About::WallClock => !metric.ends_with("per_cpu_second"),
            About::Latencies => is_latency(metric),
        }
    }
}

/// What the results of a load say; `text` is its output file, or its output if it wrote none.
pub(crate) fn parse(text: &str, workload: &Workload) -> Result<Told, Error> {
    let told = match &workload.parser {
        Parser::EvenkeelLoad => evenkeel_load::parse(text, workload),
        Parser::Sysbench => sysbench::parse(text, workload.warm_up_s),
        Parser::Fio => fio::parse(text),
        Parser::Memtier => memtier::parse(text, workload.warm_up_s),
        Parser::Lines(patterns) => lines::parse(text, patterns),
    };
    told.and_then(credible).map_err(|what| Error::place("workload.parser", what))
}

/// A load that says what cannot be is not believed at all; of a second, such a figure is left out.
fn credible(mut told: Told) -> Result<Told, String> {
    if let Some((name, figure)) = told.metrics.iter().find(|(_, figure)| !is_credible(**figure)) {
        return Err(incredible(name, *figure));
    }
    told.seconds.iter_mut().for_each(|(_, figures)| figures.retain(|_, figure| is_credible(*figure)));
    Ok(told)
}

/// What can be known to be wrong before there is a result.
pub(crate) fn check(parser: &Parser) -> Result<(), Error> {
    match parser {
        Parser::Lines(patterns) => {
            lines::metrics(patterns).map(drop).map_err(|what| Error::place("workload.parser", what))
        }
        _ => Ok(()),
    }
}

/// Puts figures together, without those that are missing or no numbers.
fn figures<const N: usize>(figures: [(&str, Option<f64>); N]) -> Figures {
    let there = figures.into_iter().filter_map(|(name, figure)| Some((name.to_owned(), figure?)));
    there.filter(|(_, figure)| figure.is_finite()).collect()
}

/// The mean of every rate, and the median of every latency, over the seconds after the warm-up. Percentiles of seconds
/// cannot be added up, so theirs is that of a typical second.
fn typical(seconds: &[(f64, Figures)], warm_up_s: u32) -> Figures {
    // A second is known by its end: one that ends with the warm-up belongs to it.
    let counts = || seconds.iter().filter(|(at_s, _)| *at_s > f64::from(warm_up_s) + 0.5).map(|(_, it)| it);
    let Some(first) = counts().next() else { return Figures::new() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let told = |figure| {
            let figures = Figures::from([("requests_per_second".to_owned(), figure)]);
            Told { metrics: figures.clone(), seconds: vec![(1.0, figures)], ..Told::default() }
        };
        assert_eq!(credible(told(1e6)), Ok(told(1e6)));
        for figure in [1e308, f64::INFINITY, f64::NAN] {
            assert_eq!(credible(told(figure)), Err(incredible("requests_per_second", figure)));
            let of_a_second = credible(Told { metrics: Figures::new(), ..told(figure) }).expect("the rest");
            assert_eq!(of_a_second.seconds, [(1.0, Figures::new())]);
        }
    }
}
