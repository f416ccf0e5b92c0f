//! Tests of comparisons: planted effects are found, and none between equals.

use std::path::{Path, PathBuf};

use lab::analyze::against::against;
use lab::analyze::compare::compare;
use lab::analyze::verdict::Verdict;
use lab::report;
use lab::run::results::Results;

use crate::synthetic::{self, Host};

const DRIVERS: &str = r#"
question = "Does io_uring beat epoll?"
[[subject]]
name = "epoll"
start = "serve --driver epoll"
[[subject]]
name = "epoll again"
start = "serve --driver epoll"
[[subject]]
name = "io_uring"
start = "serve --driver io_uring"
[[factor]]
name = "threads"
level = [{ name = "16", set = { threads = "16" } }, { name = "32", set = { threads = "32" } }]
[workload]
run = "load -t {threads}"
parser = "evenkeel-load"
seconds = 30
warm_up_s = 5
[measure]
primary = "requests_per_cpu_second"
better = "higher"
also = ["p99_us", "steal_share"]
[repeat]
rounds = 12
"#;

fn host(effect: fn(&lab::experiment::design::Cell) -> f64) -> Host {
    Host { noise: 0.02, drift: 0.05, effect, rate: |_| 200_000.0, seconds: 2 }
}

fn better_by_20_percent(cell: &lab::experiment::design::Cell) -> f64 {
    if cell.subject == "io_uring" { 1.2 } else { 1.0 }
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    compare(results).metrics[0].standings.iter().map(|standing| standing.verdict).collect()
}

#[test]
fn a_planted_effect_is_found_and_sized_under_each_load() {
    let comparison = compare(&synthetic::run(DRIVERS, &host(better_by_20_percent), 1));
    let metric = &comparison.metrics[0];
    for standing in metric.standings.iter().filter(|standing| standing.treatment == "io_uring") {
        let ratio = standing.ratio.expect("there are pairs");
        assert_eq!((standing.verdict, standing.pairs), (Verdict::Better, 12), "{standing:?}");
        assert!(ratio.low < 1.2 && 1.2 < ratio.high && ratio.high < 1.4, "{standing:?}");
    }
    // What this host makes of equals does not matter elsewhere.
    let equals = metric.equals.expect("two of them");
    assert!(metric.band == 0.02 && equals.low > 0.85 && equals.high < 1.15, "{equals:?}");
    // A metric of zeros has no ratios.
    assert_eq!(comparison.metrics[2].standings[1].verdict, Verdict::NotCompared);
}

#[test]
fn what_equals_differ_by_warns_of_a_difference_and_does_not_hide_it() {
    // What a round's trials of a subject are multiplied by.
    let compared = |effect, equals: fn(u32) -> f64| {
        let quiet = Host { noise: 0.001, drift: 0.001, ..host(effect) };
        let mut results = synthetic::run(DRIVERS, &quiet, 3);
        for record in results.records.iter_mut().filter(|record| record.subject == "epoll again") {
            *record.metrics.get_mut("requests_per_cpu_second").expect("a metric") *= equals(record.round);
        }
        compare(&results)
    };
    let check = |effect, equals, verdict, warns| {
        let comparison = compared(effect, equals);
        let mut own = comparison.metrics[0].standings.iter().filter(|it| it.treatment == "io_uring");
        let standing = own.next().expect("a standing");
        assert_eq!((standing.verdict, standing.is_within_equals), (verdict, warns), "{standing:?}");
        let text = report::text(&comparison);
        assert_eq!(text.contains("Equal subjects may differ by as much in this run ("), warns, "{text}");
    };
    let by_5_percent =
        |cell: &lab::experiment::design::Cell| if cell.subject == "io_uring" { 1.05 } else { 1.0 };
    check(by_5_percent, |_| 1.0, Verdict::Better, false);
    check(by_5_percent, |round| if round % 2 == 0 { 1.1 } else { 1.0 / 1.1 }, Verdict::Better, true);
    // A twin that is slower in some rounds says nothing about what is faster.
    check(by_5_percent, |round| if round % 2 == 0 { 0.8 } else { 1.0 }, Verdict::Better, false);
    // What is known to be small stays so, however noisy equals are.
    check(|_| 1.0, |round| if round % 2 == 0 { 1.1 } else { 1.0 / 1.1 }, Verdict::Equivalent, false);
    let results = synthetic::run(DRIVERS, &host(|_| 1.0), 3);
    // Equals are not excused by the noise that they have made themselves.
    let mut told_apart = results;
    for record in &mut told_apart.records {
        let factor = if record.subject == "epoll again" { 1.5 } else { 1.0 };
        *record.metrics.get_mut("requests_per_cpu_second").expect("a metric") *= factor;
    }
    let comparison = compare(&told_apart);
    assert_eq!(comparison.metrics[0].standings[1].verdict, Verdict::Better);
    let text = report::text(&comparison);
    assert!(text.contains("do not believe this run"), "{text}");
}

#[test]
fn equals_are_called_different_no_more_often_than_stated() {
    let mut two =
        DRIVERS.replace("rounds = 12", "rounds = 8").replace("also = [\"p99_us\", \"steal_share\"]", "");
    for (name, start) in [("epoll again", "epoll"), ("threads", "")] {
        let table = if start.is_empty() { "factor" } else { "subject" };
        let from = two.find(&format!("[[{table}]]\nname = \"{name}\"")).expect("it is there");
        let to = from + 2 + two[from + 2..].find("\n[").expect("another table");
        two.replace_range(from..=to, "");
    }
    let alarms = (0..200).filter(|seed| {
        let noisy = Host { noise: 0.1, ..host(|_| 1.0) };
        let verdicts = verdicts(&synthetic::run(&two, &noisy, *seed));
        verdicts.iter().any(|verdict| matches!(verdict, Verdict::Better | Verdict::Worse))
    });
    // 5 % of 200 are 10; three standard deviations more are 19.
    let alarms = alarms.count();
    assert!((1..=19).contains(&alarms), "{alarms} of 200");
}

#[test]
fn few_rounds_show_nothing_and_say_so() {
    let few = DRIVERS.replace("rounds = 12", "rounds = 5");
    let results = synthetic::run(&few, &host(better_by_20_percent), 1);
    assert!(verdicts(&results).iter().all(|it| matches!(it, Verdict::Baseline | Verdict::TooFewPairs)));
    let text = report::text(&compare(&results));
    assert!(text.contains("with 4 that takes 8 rounds, and there are 5"), "{text}");
    assert!(text.contains("Too few pairs to show any difference: epoll again, threads=16;"), "{text}");
    assert!(text.contains("Of fewer than six trials the interval of their median"), "{text}");
}

#[test]
fn a_cell_that_lost_its_pairs_is_said_to_have_too_few() {
    let mut results = synthetic::run(DRIVERS, &host(better_by_20_percent), 1);
    for record in results.records.iter_mut().filter(|it| it.cell() == "io_uring threads=16" && it.round < 7) {
        record.doubts.push("steal: 12 %".into());
    }
    let wanted = [Verdict::TooFewPairs, Verdict::Better];
    assert_eq!([verdicts(&results)[2], verdicts(&results)[5]], wanted, "5 pairs and 12");
}

#[test]
fn doubtful_latencies_are_not_compared() {
    let mut results = synthetic::run(DRIVERS, &host(better_by_20_percent), 1);
    let record = results.records.iter_mut().find(|record| record.subject == "io_uring").expect("one");
    record.remarks.push("late".into());
    record.latencies_are_doubtful = true;
    let comparison = compare(&results);
    let pairs = |metric: usize| comparison.metrics[metric].standings.iter().map(|it| it.pairs).sum::<usize>();
    assert_eq!((pairs(0), pairs(1)), (48, 47), "requests per CPU-second and p99");
}

#[test]
fn doubtful_trials_are_left_out_and_counted() {
    let mut results = synthetic::run(DRIVERS, &host(better_by_20_percent), 1);
    let record = results.records.iter_mut().find(|record| record.subject == "io_uring").expect("one");
    record.doubts.push("steal: 12 %".into());
    record.remarks.push("p99 of few".into());
    record.metrics.insert("requests_per_cpu_second".into(), 1.0);
    let comparison = compare(&results);
    assert_eq!((comparison.trials, comparison.left_out.len(), comparison.remarked.len()), (71, 1, 0));
    let pairs: Vec<usize> = comparison.metrics[0].standings.iter().map(|standing| standing.pairs).collect();
    assert_eq!(pairs, [0, 12, 11, 0, 12, 12]);
    let text = report::text(&comparison);
    assert!(
        text.contains("1 left out because of doubts") && text.contains("0002, io_uring threads=16: 12 %"),
        "{text}"
    );
    assert!(!text.contains("fewer than six"), "{text}");
}

#[test]
fn a_directory_is_read_as_it_was_written() {
    let results = synthetic::run(DRIVERS, &host(better_by_20_percent), 1);
    let directory = directory("drivers");
    synthetic::write(&results, &directory);
    let read = Results::read(&directory).expect("a run");
    assert!(read.experiment == results.experiment && read.notation == results.notation);
    let names =
        |results: &Results| results.records.iter().map(|it| (it.place, it.cell())).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&results));
    assert_eq!(report::text(&compare(&read)), report::text(&compare(&results)));
    // A trial that is being written is none yet.
    std::fs::write(directory.join("trials/0099.json.new"), "{").expect("written");
    assert_eq!(Results::read(&directory).expect("a run").records.len(), 72);
    std::fs::write(directory.join("trials/0099.json"), "{").expect("written");
    let error = Results::read(&directory).expect_err("half a record").to_string();
    assert!(error.contains("0099.json: it is no record of a trial"), "{error}");
    std::fs::remove_file(directory.join("trials/0099.json")).expect("removed");
}

#[test]
fn what_is_no_run_is_refused() {
    let nowhere = directory("nowhere");
    let error = Results::read(&nowhere).expect_err("nothing there").to_string();
    assert!(error.ends_with("nowhere/experiment.toml"), "{error}");
    std::fs::create_dir_all(directory("young/trials")).expect("a directory");
    std::fs::write(directory("young").join("experiment.toml"), DRIVERS).expect("written");
    let error = Results::read(&directory("young")).expect_err("no trial").to_string();
    assert!(error.contains("no trial has ended yet"), "{error}");
}

#[test]
fn a_run_against_an_earlier_one_is_judged_without_pairs() {
    let steady = |effect| Host { drift: 0.01, ..host(effect) };
    let old = synthetic::run(DRIVERS, &steady(|_| 1.0), 1);
    let new = synthetic::run(DRIVERS, &steady(better_by_20_percent), 2);
    let comparison = against(&old, &new);
    let standings = &comparison.metrics[0].standings;
    let of = |name: &'static str| standings.iter().filter(move |it| it.cell().starts_with(name));
    assert!(of("new: io_uring").all(|it| it.verdict == Verdict::Better), "{}", report::against(&comparison));
    assert!(of("new: epoll").all(|it| it.verdict != Verdict::Better), "{}", report::against(&comparison));
    assert_eq!((of("new: ").count(), of("old: ").count()), (6, 6));
    let ratio = of("new: io_uring").next().and_then(|it| it.ratio).expect("a ratio");
    assert!(ratio.low < 1.2 && 1.2 < ratio.high && ratio.high < 1.3, "{ratio:?}");
}

#[test]
fn an_interval_excludes_no_change_exactly_when_p_says_so() {
    let mut shown = 0;
    for seed in 0..30 {
        let noisy = Host { noise: 0.08, ..host(better_by_20_percent) };
        let mut results = synthetic::run(DRIVERS, &noisy, seed);
        results.records.retain(|record| record.round < 8 + seed as u32 % 5);
        let metrics = compare(&results).metrics;
        let ratios = metrics.iter().flat_map(|metric| {
            let effects = metric.effects.iter().map(|effect| (effect.ratio, effect.p));
            metric.standings.iter().filter_map(|it| Some((it.ratio?, it.p))).chain(effects)
        });
        for (ratio, p) in ratios {
            assert_eq!(ratio.low > 1.0 || ratio.high < 1.0, p <= 0.05, "{ratio:?}, p {p}");
            assert!(ratio.low <= ratio.middle && ratio.middle <= ratio.high, "{ratio:?}");
            shown += usize::from(p <= 0.05);
        }
    }
    assert!(shown > 50, "{shown}");
}
