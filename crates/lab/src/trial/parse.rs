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
        Parser::Fio => fio::parse(text),
        Parser::Memtier => memtier::parse(text, workload.warm_up_s),
        Parser::Lines(patterns) => lines::parse(text, patterns),
    };
    results.and_then(credible).map_err(|what| Error::place("workload.parser", what))
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
