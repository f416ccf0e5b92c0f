//! Pictures of made-up runs: what is drawn, and that no text lies on another.

use std::path::Path;

use lab::analyze::compare::compare;
use lab::record::GuestRecord;
use lab::report::page::page;
use lab::report::pictures::{Picture, pictures};
use lab::run::results::Results;

use crate::layout::faults;
use crate::pages::{STRATEGIES, results};
use crate::synthetic::{self, Host};

/// Whether every text of every picture can be read; the pictures are left for people to look at.
#[track_caller]
pub(crate) fn check_layout(run: &str, pictures: &[(&str, &str)]) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&directory).expect("a directory");
    for (name, svg) in pictures {
        std::fs::write(directory.join(format!("{run}-{name}.svg")), svg).expect("written");
        assert_eq!(faults(svg), Vec::<String>::new(), "{run}: {name}");
    }
}

#[track_caller]
fn check(name: &str, results: &Results) -> Vec<Picture> {
    let pictures = pictures(results, &compare(results));
    let texts: Vec<(&str, &str)> = pictures.iter().map(|it| (&*it.name, &*it.svg)).collect();
    check_layout(name, &texts);
    pictures
}

#[track_caller]
fn svg<'p>(pictures: &'p [Picture], name: &str) -> &'p str {
    &pictures.iter().find(|picture| picture.name.starts_with(name)).unwrap_or_else(|| panic!("{name}")).svg
}

/// A run of that experiment on a host of a little noise, whose cells differ by that factor.
fn run_of(notation: &str, effect: fn(&lab::experiment::design::Cell) -> f64) -> Results {
    let rate = |cell: &lab::experiment::design::Cell| 20_000.0 * effect_of_load(cell);
    synthetic::run(notation, &Host { noise: 0.03, drift: 0.02, effect, rate, seconds: 30 }, 1)
}

fn effect_of_load(cell: &lab::experiment::design::Cell) -> f64 {
    cell.levels.get("threads").and_then(|threads| threads.parse().ok()).map_or(1.0, f64::ln)
}

fn scale_latencies(results: &mut Results, factor: impl Fn(usize) -> f64) {
    for (place, record) in results.records.iter_mut().enumerate() {
        let load = record.samples.iter_mut().flat_map(|sample| &mut sample.load);
        for (_, value) in record.metrics.iter_mut().chain(load).filter(|(name, _)| name.ends_with("_us")) {
            *value *= factor(place);
        }
    }
}

#[test]
fn cells_have_a_dot_for_each_trial_and_axes_few_digits() {
    let mut results = results();
    scale_latencies(&mut results, |_| 100.0);
    let pictures = check("strategies", &results);
    let dots = svg(&pictures, "cells-p99_us").matches("r=\"1.6\"").count();
    assert_eq!(dots, results.records.len());
    for name in ["cells-p99_us", "curves", "percentiles", "seconds-p99_us"] {
        assert!(svg(&pictures, name).contains("(ms)"), "{name}");
    }
}

#[test]
fn a_ladder_of_three_factors_has_a_column_for_each() {
    let factor = |name: &str| {
        format!(
            "[[factor]]\nname = \"{name}\"\nlevel = [{{ name = \"stock\" }}, {{ name = \"tuned\", env = {{ A = \"{name}\" }} }}]\n"
        )
    };
    let factors: String = ["kernel", "mysql", "allocator"].map(factor).concat();
    let notation = STRATEGIES.replacen("[[factor]]", &format!("{factors}[[factor]]"), 1);
    let (before, after) = notation.split_once("[[factor]]\nname = \"strategy\"").expect("strategies");
    let (_, threads) = after.split_once("[[factor]]").expect("threads");
    let notation = format!("{before}[[factor]]{threads}").replace("rounds = 10", "rounds = 12");
    let results = run_of(&notation, |cell| if cell.levels["mysql"] == "tuned" { 1.3 } else { 1.0 });
    let pictures = check("ladder", &results);
    let cells = svg(&pictures, "cells-requests_per_cpu_second");
    for text in
        [">kernel</text>", ">mysql</text>", ">allocator</text>", ">threads=64</text>", " better</text>"]
    {
        assert!(cells.contains(text), "{text}");
    }
    assert!(
        !cells.contains(">kernel=") && !cells.contains("mysql=tuned"),
        "factors stand above their columns"
    );
}

#[test]
fn values_of_three_decades_have_a_logarithmic_axis() {
    let mut results = results();
    assert!(!svg(&check("linear", &results), "cells-p99_us").contains("logarithmic"));
    scale_latencies(&mut results, |place| [1.0, 10.0, 1_000.0][place % 3]);
    let pictures = check("logarithmic", &results);
    for name in ["cells-p99_us", "curves", "seconds-p99_us"] {
        assert!(svg(&pictures, name).contains("logarithmic"), "{name}");
    }
    assert!(!svg(&pictures, "cells-requests_per_cpu_second").contains("logarithmic"));
}

#[test]
fn a_point_of_a_curve_has_its_condition() {
    let pictures = check("curves", &results());
    let curves = svg(&pictures, "curves");
    for text in [">8</text>", ">64</text>", "at the points: threads."] {
        assert!(curves.contains(text), "{text}");
    }
}

#[test]
fn more_subjects_than_colours_have_numbers() {
    let subjects: String =
        (0..40).map(|n| format!("[[subject]]\nname = \"s{n}\"\nstart = \"x{n}\"\n")).collect();
    let (before, after) = STRATEGIES.split_once("[[subject]]").expect("a subject");
    let (_, workload) = after.split_once("[workload]").expect("a workload");
    let workload = workload.replace("rounds = 10", "rounds = 2").replace("{threads}", "8");
    let notation = format!("{before}{subjects}[workload]{workload}");
    let host = Host { noise: 0.03, drift: 0.02, effect: |_| 1.0, rate: |_| 60_000.0, seconds: 3 };
    let mut results = synthetic::run(&notation, &host, 1);
    // A figure below zero is seen, too.
    results.records[0].metrics.insert("p99_us".to_owned(), -900.0);
    let comparison = compare(&results);
    let pictures = check("subjects", &results);
    let cells = svg(&pictures, "cells-p99_us");
    assert!(cells.contains(">s39</text>") && cells.contains(">-800</text>"), "{cells}");
    assert!(svg(&pictures, "percentiles").contains(">40: s39</text>"));
    let text = page(&results, &comparison, &pictures);
    assert!(text.contains("border-bottom: 1px solid var(--rule)"), "rows have rules");
}

#[test]
fn a_heat_map_says_how_busy_a_cpu_is_in_all() {
    let results = results();
    let pictures = check("strategies", &results);
    let heat = svg(&pictures, "cpus-");
    let places = ["busy in all", "user", "system", "softirq"].map(|name| heat.find(name).expect(name));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_picture_of_many_cpus_stays_small() {
    let mut results = results();
    results.records.truncate(1);
    for sample in &mut results.records[0].samples {
        sample.cpus = sample.cpus.iter().copied().cycle().take(128).collect();
    }
    let pictures = check("many-cpus", &results);
    let heat = svg(&pictures, "cpus-");
    assert!(heat.len() < 2_000_000, "{} bytes", heat.len());
    let names = heat.matches(">CPU ").count();
    assert!((24..=100).contains(&names), "{names} names of CPUs");
}

#[test]
fn a_virtual_machine_that_says_so_has_its_own_cpus_in_the_picture() {
    let mut results = results();
    results.records.truncate(1);
    let mut samples = results.records[0].samples.clone();
    for sample in &mut samples {
        sample.cpus.truncate(1);
    }
    let heat = |results: &Results| svg(&check("guest", results), "cpus-").to_owned();
    assert!(heat(&results).contains(">CPU 1<"));
    results.records[0].guest = Some(GuestRecord { samples, ..GuestRecord::default() });
    let inside = heat(&results);
    assert!(inside.contains(", in the virtual machine;") && !inside.contains(">CPU 1<"), "{inside}");
}

#[test]
fn interrupts_are_drawn_where_they_are_known() {
    let mut results = results();
    results.records.truncate(1);
    assert!(!svg(&check("without-interrupts", &results), "cpus-").contains("NET_RX"));
    for sample in &mut results.records[0].samples {
        sample.cpus = sample.cpus.iter().copied().cycle().take(32).collect();
        sample.interrupts = vec![0; 32];
        sample.interrupts[0] = 900;
        sample.net_rx = (0..32).map(|cpu| 100 + cpu * 3).collect();
    }
    let pictures = check("interrupts", &results);
    let heat = svg(&pictures, "cpus-");
    assert!(heat.contains("NET_RX by CPU (darkest: 5 %)") && heat.contains(">100 %<"), "{heat}");
}
