//! Pages of made-up runs like those of published reports: all pictures are there, and nothing from elsewhere.

use std::path::Path;

use lab::analyze::compare::compare;
use lab::analyze::verdict::Verdict;
use lab::experiment::design::Cell;
use lab::report::page::page;
use lab::report::pictures::{Picture, pictures};
use lab::run::results::Results;

use crate::synthetic::{self, Host};

pub(crate) const STRATEGIES: &str = r#"
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

pub(crate) fn results() -> Results {
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
    let kinds = ["cells-p99_us", "curves", "percentiles", "seconds-", "cpus-"];
    assert_eq!(kinds.map(has), [1, 1, 1, 2, 12]);
    let text = page(&results, &comparison, &pictures);
    // As many columns of 34 rem as fit: two in the 88 rem of the page, and all in one where there is less room.
    let columns =
        ".pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr));";
    assert!(text.contains(columns) && text.contains("max-width: 88rem"), "{text}");
    assert!(text.contains("<div class=\"pictures\">"), "{text}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("strategies");
    synthetic::write(&results, &directory);
    std::fs::write(directory.join("report.html"), &text).expect("written");
    for Picture { name, svg, .. } in &pictures {
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
    assert!(svg.contains("fill=\"#d55e00\" fill-opacity=\"0.9\""), "softirq of CPU 0");
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
