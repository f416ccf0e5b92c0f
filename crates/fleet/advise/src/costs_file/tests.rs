use std::path::Path;

use super::*;
use crate::LabCosts;
use crate::testing::moderate;

/// Each figure is in the page that it names, and those of the lab's experiment are what its published run says.
#[test]
fn the_measured_costs_are_those_of_the_pages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |page: &str| {
        std::fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
    };
    let mut of_lab = LabCosts::default();
    of_lab.add(&read("docs/lab/experiments/costs/report.json")).expect("a run of costs.toml");
    let mut inputs = usual_inputs(moderate());
    for input in inputs.costs_and_assumptions() {
        let figure = &*input.figure;
        if let Some(measured) = of_lab.figures.remove(input.name) {
            assert_eq!(figure.source, measured.source, "{}", input.name);
            for (found, expected) in
                [(figure.value, measured.value), (figure.low, measured.low), (figure.high, measured.high)]
            {
                assert!((found / expected - 1.0).abs() < 1e-3, "{}: {found} is not {expected}", input.name);
            }
            continue;
        }
        let quoted = figure.source.split_once(": ").filter(|(page, _)| page.contains('/'));
        if let Some((page, quoted)) = quoted.filter(|(page, _)| !page.starts_with("assumed")) {
            assert!(read(page).contains(quoted), "{page} does not have {quoted}");
        }
    }
    assert!(of_lab.figures.is_empty(), "no figures of the table: {:?}", of_lab.figures.keys());
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

/// Half of the clock is twice the time: what the file does not say takes as many cycles as before.
#[test]
fn costs_that_a_file_leaves_out_follow_its_clock() {
    let mut inputs = usual_inputs(moderate());
    let half = inputs.costs.clock_ghz.value / 2.0;
    replace_costs(&mut inputs, &format!("[figures]\nclock_ghz = {half}\nget_us = 5")).expect("costs");
    assert_eq!(inputs.costs.get_us.value, 5.0);
    let table = measured_costs();
    assert_eq!(inputs.costs.set_us.value, 2.0 * table.set_us.value);
    assert_eq!(inputs.costs.set_us.high, 2.0 * table.set_us.high);
    assert_eq!(inputs.costs.flash_p99_us, table.flash_p99_us, "a disk has no such clock");
    assert_eq!(inputs.costs.record_bytes, table.record_bytes);
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
