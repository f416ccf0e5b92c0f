//! Pages of made-up runs like those of published reports: all pictures are there, and nothing from elsewhere.

use std::path::Path;

use lab::analyze::compare::compare;
use lab::analyze::verdict::Verdict;
use lab::experiment::design::Cell;
use lab::record::GuestRecord;
use lab::report::page::{Picture, page, pictures};
use lab::run::results::Results;

use crate::synthetic::{self, Host};

const STRATEGIES: &str = r#"
question = "Which interrupt strategy gives the best p99 <under load>?"
[[subject]]
name = "mariadbd"
start = "mariadbd"
[[factor]]
name = "strategy"
level = [{ name = "none" }, { name = "one core", strategy = "irq0" }, { name = "rps-rfs", strategy = "rps-rfs" }]
[[factor]]
name = "threads"
level = [
  { name = "8", set = { threads = "8" } }, { name = "16", set = { threads = "16" } },
  { name = "32", set = { threads = "32" } }, { name = "64", set = { threads = "64" } },
]
[workload]
run = "sysbench --threads={threads}"
parser = "sysbench"
seconds = 30
warm_up_s = 5
[measure]
primary = "p99_us"
better = "lower"
also = ["requests_per_cpu_second"]
[repeat]
rounds = 10
"#;

fn results() -> Results {
    let effect = |cell: &Cell| if cell.levels["strategy"] == "rps-rfs" { 1.2 } else { 1.0 };
    let rate = |cell: &Cell| 60_000.0 * (cell.levels["threads"].parse::<f64>().expect("a number")).ln();
    synthetic::run(STRATEGIES, &Host { noise: 0.03, drift: 0.02, effect, rate, seconds: 30 }, 1)
}

#[test]
fn a_page_has_every_picture_and_needs_nothing_else() {
    let results = results();
    let comparison = compare(&results);
    let pictures = pictures(&results, &comparison);
    let has = |name: &str| pictures.iter().filter(|picture| picture.name.starts_with(name)).count();
    let kinds = ["bars-p99_us", "curves", "percentiles-threads-8", "seconds-", "cpus-"];
    assert_eq!(kinds.map(has), [1, 1, 1, 8, 12]);
    let text = page(&results, &comparison, &pictures);
    // As many columns of 34 rem as fit: two in the 88 rem of the page, and all in one where there is less room.
    let columns =
        ".pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr));";
    assert!(text.contains(columns) && text.contains("max-width: 88rem"), "{text}");
    assert!(text.contains("<div class=\"pictures\">"), "{text}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strategies");
    synthetic::write(&results, &directory);
    std::fs::write(directory.join("report.html"), &text).expect("written");
    for Picture { name, svg } in &pictures {
        assert!(text.contains(svg.as_str()) && svg.ends_with("</svg>\n"), "{name}");
    }
    assert!(text.contains("p99 &lt;under load&gt;") && !text.contains("<under load>"), "text is not markup");
    for foreign in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    let order = [
        "class=\"verdict\"",
        "<h3>p99 (µs): lower is better",
        "class=\"basis\"",
        "<h2>Pictures",
        "<h2>Other tables",
        "<h3>requests/CPU-s: higher is better",
        "<h2>How it was run",
    ];
    let places = order.map(|part| text.find(part).expect(part));
    assert!(places.is_sorted(), "{places:?}");
    // A busy CPU of a strategy that uses one is dark all the way, in the colour of soft interrupts.
    let busy = pictures.iter().find(|picture| picture.name == "cpus-strategy-one-core-threads-64");
    let svg = &busy.expect("that cell has one").svg;
    assert!(svg.contains("opacity=\"0.9\" fill=\"#D55E00\""), "softirq of CPU 0");
    assert!(text.len() < 3_000_000, "{} bytes", text.len());
}

#[test]
fn one_round_is_one() {
    let mut results = results();
    results.records.retain(|record| record.round == 0);
    let text = lab::report::text(&compare(&results));
    assert!(
        text.contains("takes 9 rounds, and there is 1.") && text.contains("12 trials in 1 round, none"),
        "{text}"
    );
}

#[test]
fn colours_follow_the_verdict() {
    let results = results();
    let mut comparison = compare(&results);
    let class_of = |comparison: &_, sentence: &str| {
        let text = page(&results, comparison, &[]);
        let line = text.lines().find(|line| line.starts_with("<p class") && line.contains(sentence));
        line.unwrap_or_else(|| panic!("{sentence}: {text}")).split('"').nth(1).expect("a class").to_owned()
    };
    comparison.metrics[0].standings[1].verdict = Verdict::Worse;
    comparison.metrics[0].standings[2].verdict = Verdict::Different;
    comparison.metrics[0].standings[4].verdict = Verdict::Better;
    comparison.metrics[0].standings[5].verdict = Verdict::NoDifferenceShown;
    for (sentence, class) in [
        ("is worse:", "worse"),
        ("is different:", "different"),
        ("is better:", "better"),
        ("No difference shown", "none"),
    ] {
        assert_eq!(class_of(&comparison, sentence), class, "{sentence}");
    }
    comparison.metrics[0].standings[1].is_of_equals = true;
    assert_eq!(class_of(&comparison, "do not believe this run"), "warning");
}

#[test]
fn bars_have_a_dot_for_each_trial_and_axes_few_digits() {
    let mut results = results();
    for record in &mut results.records {
        for (name, value) in &mut record.metrics {
            *value *= if name.ends_with("_us") { 100.0 } else { 1.0 };
        }
        for sample in &mut record.samples {
            *sample.load.get_mut("p99_us").expect("a sample") *= 100.0;
        }
    }
    let pictures = pictures(&results, &compare(&results));
    let svg = |name: &str| {
        &pictures
            .iter()
            .find(|picture| picture.name.starts_with(name))
            .unwrap_or_else(|| panic!("{name}"))
            .svg
    };
    let dots = svg("bars-p99_us").matches("r=\"2\"").count();
    assert_eq!(dots, results.records.len());
    for name in ["bars-p99_us", "curves", "percentiles", "seconds-p99_us"] {
        assert!(svg(name).contains("(ms)"), "{name}");
    }
}

#[test]
fn a_page_without_a_trial_that_counts_says_so_first() {
    let mut results = results();
    results.records.iter_mut().for_each(|record| record.doubts.push("steal".to_owned()));
    let comparison = compare(&results);
    let pictures = pictures(&results, &comparison);
    let text = page(&results, &comparison, &pictures);
    assert!(
        pictures.is_empty()
            && text.contains("<p class=\"basis\">No trial that counts has figures to draw.</p>")
    );
    let verdict = text.split("<section class=\"verdict\">\n").nth(1).expect("a verdict");
    assert!(verdict.starts_with("<p class=\"warning\">No trial counts, so nothing is shown:"), "{verdict}");
}

#[test]
fn more_subjects_than_colours_have_numbers_and_the_width_of_the_page() {
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
    let pictures = pictures(&results, &comparison);
    let bars = &pictures.iter().find(|picture| picture.name == "bars-p99_us").expect("bars").svg;
    for text in ["\n40: s39\n", "\n40\n", "\n-"] {
        assert!(bars.contains(text), "{text:?}");
    }
    let text = page(&results, &comparison, &pictures);
    assert!(text.contains("<figure id=\"bars-p99_us\" class=\"wide\">"));
    assert!(text.contains("border-bottom: 1px solid var(--rule)"), "rows have rules");
}

#[test]
fn a_heat_map_says_how_busy_a_cpu_is_in_all() {
    let results = results();
    let pictures = pictures(&results, &compare(&results));
    let heat = &pictures.iter().find(|picture| picture.name.starts_with("cpus-")).expect("one").svg;
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
    let pictures = pictures(&results, &compare(&results));
    let heat = pictures.iter().find(|picture| picture.name.starts_with("cpus-")).expect("one");
    assert!(heat.svg.len() < 2_000_000, "{} bytes", heat.svg.len());
    let names = heat.svg.matches("\nCPU ").count();
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
    let heat = |results: &Results| {
        let pictures = pictures(results, &compare(results));
        pictures.into_iter().find(|picture| picture.name.starts_with("cpus-")).expect("one").svg
    };
    assert!(heat(&results).contains("\nCPU 1\n"));
    results.records[0].guest = Some(GuestRecord { samples, ..GuestRecord::default() });
    let inside = heat(&results);
    assert!(inside.contains(", in the virtual machine\n") && !inside.contains("\nCPU 1\n"), "{inside}");
}
