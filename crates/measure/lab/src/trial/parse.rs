//! Parsers of load generators' output: text to figures. Pure, a module for each tool.

mod evenkeel_load;
mod fio;
mod lines;
mod memtier;
pub(crate) mod output;
mod sysbench;

use self::output::LoadResults;
use crate::error::Error;
use crate::experiment::{Parser, TrialLoad};
use crate::record::{incredible, is_credible};

/// The results of a load; `text` is its output file, or its output if it wrote none.
pub(crate) fn parse(text: &str, workload: &TrialLoad) -> Result<LoadResults, Error> {
    let results = match &workload.parser {
        Parser::EvenkeelLoad => evenkeel_load::parse(text, workload),
        Parser::Sysbench => sysbench::parse(text, workload.warm_up_s),
        Parser::Fio => fio::parse(text, workload.measured_s()),
        Parser::Memtier => memtier::parse(text, workload.warm_up_s),
        Parser::Lines(patterns) => lines::parse(text, patterns),
    };
    // Our own load's clock begins with the window, and fio's after its ramp: they are compared with that.
    let seconds = match workload.parser {
        Parser::EvenkeelLoad | Parser::Fio => 0.0,
        _ => workload.seconds,
    };
    let complete = |results: LoadResults| match too_early(results.end_s, seconds) {
        Some(what) if results.end_s > 0.0 => Err(format!("by its own clock {what}")),
        _ => Ok(results),
    };
    results.and_then(complete).and_then(credible).map_err(|what| Error::place("workload.parser", what))
}

/// The share of its time that a load has to last.
const LASTS_MIN: f64 = 0.9;
/// Samples, and most loads' own seconds, are this long: a shorter difference is none, unless all of it is shorter.
const EARLY_MIN_S: f64 = 1.0;

/// What to say of a load that ended far too early: it has measured less than the experiment asks for, whatever its exit
/// status (a limit of events, a server that is gone).
pub(crate) fn too_early(lasted_s: f64, seconds: f64) -> Option<String> {
    let least_s = if seconds < EARLY_MIN_S { seconds } else { seconds - EARLY_MIN_S };
    (lasted_s < LASTS_MIN * seconds && lasted_s < least_s).then(|| {
        let digits = if seconds < EARLY_MIN_S { 3 } else { 1 };
        format!(
            "it ended after {lasted_s:.digits$} s of {seconds}: give it its time with {{seconds}}, or {{warm_up}} and {{measured}}, and \
             no limit of requests or events"
        )
    })
}

/// A load with an impossible figure is not believed at all; of a second, such a figure is left out.
fn credible(mut results: LoadResults) -> Result<LoadResults, String> {
    if let Some((name, figure)) = results.metrics.iter().find(|(_, figure)| !is_credible(**figure)) {
        return Err(incredible(name, *figure));
    }
    results.seconds.iter_mut().for_each(|(_, figures)| figures.retain(|_, figure| is_credible(*figure)));
    Ok(results)
}

/// Errors that can be found before there is a result.
pub(crate) fn check(parser: &Parser) -> Result<(), Error> {
    match parser {
        Parser::Lines(patterns) => {
            lines::metrics(patterns).map(drop).map_err(|what| Error::place("workload.parser", what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::output::LoadFigures;
    use super::*;

    #[test]
    fn a_load_that_ends_far_too_early_is_refused_by_every_parser() {
        let load = |parser, seconds: u32| TrialLoad {
            prepare: Vec::new(),
            run: String::new(),
            beside: Vec::new(),
            stats: Vec::new(),
            parser,
            seconds: f64::from(seconds),
            warm_up_s: 0.0,
            subject_cpus: None,
        };
        let check = |text: &str, parser: Parser, lasts: u32, longer: u32, words: &str| {
            assert!(parse(text, &load(parser.clone(), lasts)).is_ok(), "{lasts} s");
            let error = parse(text, &load(parser, longer)).expect_err("it lasted less").to_string();
            assert!(error.contains(words), "{error}");
        };
        let sysbench = include_str!("parse/fixtures/sysbench-1.0.20-oltp_point_select.txt");
        check(sysbench, Parser::Sysbench, 6, 8, "it ended after 6.0 s of 8");
        let memtier = include_str!("parse/fixtures/memtier-2.3.1.json");
        check(memtier, Parser::Memtier, 4, 6, "it ended after 4.0 s of 6");
        let fio = include_str!("parse/fixtures/fio-3.33-randrw.json");
        check(fio, Parser::Fio, 4, 6, "it ended after 4.0 s of 6");
        let ours = include_str!("parse/fixtures/evenkeel-load-closed.json");
        check(ours, Parser::EvenkeelLoad, 2, 4, "it ended after 2.0 s of 4");
        // A second is not far, and half a second of three is.
        assert!(too_early(29.1, 30.0).is_none() && too_early(26.9, 30.0).is_some());
        assert!(too_early(0.1, 1.0).is_none() && too_early(0.5, 3.0).is_some());
        // Of a window that is shorter than a second, all of it counts.
        assert!(too_early(0.24, 0.25).is_none() && too_early(0.2, 0.25).is_some());
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let results = |figure| {
            let figures = LoadFigures::from([("requests_per_second".to_owned(), figure)]);
            LoadResults { metrics: figures.clone(), seconds: vec![(1.0, figures)], ..LoadResults::default() }
        };
        assert_eq!(credible(results(1e6)), Ok(results(1e6)));
        for figure in [1e308, f64::INFINITY, f64::NAN] {
            assert_eq!(credible(results(figure)), Err(incredible("requests_per_second", figure)));
            let of_a_second =
                credible(LoadResults { metrics: LoadFigures::new(), ..results(figure) }).expect("the rest");
            assert_eq!(of_a_second.seconds, [(1.0, LoadFigures::new())]);
        }
    }
}
