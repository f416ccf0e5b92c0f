use std::path::Path;

use super::*;
use crate::testing::moderate;

/// A row of a published page: the count of trials, the median and its interval, of requests per CPU-second.
fn figures_of_row(row: &str) -> Option<[f64; 3]> {
    let number = |text: &str| text.trim().replace(',', "").parse::<f64>().ok();
    let cells: Vec<&str> = row.trim_end_matches([' ', '|']).split(" | ").collect();
    let [.., median, interval] = cells.as_slice() else { return None };
    let (low, high) = interval.split_once(" to ")?;
    Some([number(median)?, number(low)?, number(high)?])
}

/// Each figure is in the page that it names, and those of the lab's pages are what follows from their rows.
#[test]
fn the_measured_costs_are_those_of_the_pages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut inputs = usual_inputs(moderate());
    let mut rows = 0;
    for input in inputs.costs_and_assumptions() {
        let figure = &*input.figure;
        let Some((page, quoted)) = figure.source.split_once(": ").filter(|(page, _)| page.contains('/'))
        else {
            continue;
        };
        if page == "assumed" || page.starts_with('`') {
            continue;
        }
        let text = std::fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(quoted), "{page} does not have {quoted}");
        let Some([median, low, high]) = page.contains("/lab/").then(|| figures_of_row(quoted)).flatten()
        else {
            continue;
        };
        rows += 1;
        for (found, per_second) in [(figure.value, median), (figure.low, high), (figure.high, low)] {
            let expected = 1e6 / per_second;
            assert!((found / expected - 1.0).abs() < 1e-3, "{}: {found} is not {expected}", input.name);
        }
    }
    assert!(rows >= 11, "{rows} rows");
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let mut inputs = usual_inputs(moderate());
    let error = replace_costs(&mut inputs, text).expect_err(text).to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_file_replaces_what_it_names() {
    let mut inputs = usual_inputs(moderate());
    let text = "architecture = \"arm64\"\n[figures]\nget_us = 5\n\
                [figures.cpu_ceiling]\nvalue = 0.6\nlow = 0.5\nhigh = 0.7\nsource = \"measured\"\nfrom = \"ours\"\n";
    replace_costs(&mut inputs, text).expect("costs");
    assert_eq!(inputs.costs.architecture, CpuArchitecture::Arm);
    assert_eq!(inputs.costs.get_us, InputFigure::stated(5.0));
    assert_eq!(inputs.assumptions.cpu_ceiling, InputFigure::measured(0.6, 0.5, 0.7, "ours"));
    assert_eq!(inputs.costs.set_us, measured_costs().set_us);
}

#[test]
fn wrong_costs_are_named() {
    check_refused("[figures]\nget_ms = 5", "`get_ms`: accepted are clock_ghz, get_us");
    check_refused("[figures]\nget = 5", "`get`: accepted are");
    check_refused("[figures]\nget_us = -5", "expected 0 ≤ low ≤ value ≤ high");
    check_refused("[figures]\nget_us = nan", "expected 0 ≤ low ≤ value ≤ high");
    check_refused("[figures]\nget_us = 0", "expected more than 0");
    check_refused("[figures]\ncpu_ceiling = 80", "expected at most 1");
    check_refused("[figures]\nget_us = \"fast\"", "expected a number");
    check_refused("[figures.get_us]\nvalue = 1\nsource = \"guessed\"", "expected \"measured\"");
    check_refused("architecture = \"vax\"", "accepted are x86_64 and arm64");
    check_refused("prices = 1", "unknown field `prices`");
    check_refused(&" ".repeat(COSTS_LEN_MAX + 1), "at most 65536 are accepted");
}
