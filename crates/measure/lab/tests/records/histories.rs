//! Histories with a planted regression, and histories without one.

use lab::analyze::against::against;
use lab::analyze::compare::compare;
use lab::analyze::verdict::Verdict;
use lab::history::commits::{Error, Unit, between};
use lab::history::gate::{NoRerun, Suspicion, suspicions};
use lab::history::{Added, Entry, History, MetricSeries, entries};
use lab::record::profile::CpuProfile;
use lab::run::results::Results;
use std::collections::BTreeMap;
use stdx::prng::Prng;

use crate::synthetic::{self, Host, normal};

const NIGHTLY: &str = r#"
question = "Is it as quick as yesterday?"
[[subject]]
name = "ours"
start = "serve"
[[subject]]
name = "theirs"
start = "memcached"
[workload]
run = "load"
parser = "evenkeel-load"
seconds = 30
[measure]
primary = "requests_per_cpu_second"
better = "higher"
[repeat]
rounds = 3
"#;

/// What a night's run has found, with what ours is slowed down by.
fn night(number: u32, factor: f64) -> Results {
    night_of(NIGHTLY, number, factor)
}

/// The same of another experiment.
fn night_of(notation: &str, night: u32, factor: f64) -> Results {
    let host = Host { noise: 0.03, drift: 0.01, effect: |_| 1.0, rate: |_| 100_000.0, seconds: 0 };
    let mut results = synthetic::run(notation, &host, u64::from(night) + 1000);
    for record in &mut results.records {
        record.began_unix_s += u64::from(night) * 86_400;
        if record.subject == "ours" {
            *record.metrics.get_mut("requests_per_cpu_second").expect("a metric") *= factor;
        }
    }
    results
}

/// What it adds to a history.
fn added(results: &Results) -> Vec<Entry> {
    entries(results, &compare(results))
}

fn suspected(history: &mut History) -> Vec<Suspicion> {
    suspicions(&history.series().expect("series"))
}

#[test]
fn a_planted_regression_is_found_at_its_commit_and_confirmed_by_a_rerun_only() {
    let mut history = History::in_memory().expect("a history");
    let mut first_seen = None;
    for number in 0..40 {
        let results = night(number, if number < 30 { 1.0 } else { 0.9 });
        assert_eq!(
            history.add(&results, &compare(&results), &format!("c{number}")).expect("added"),
            Added::New
        );
        let suspected = suspected(&mut history);
        assert!(number >= 30 || suspected.is_empty(), "night {number}: {suspected:?}");
        first_seen = first_seen.or((!suspected.is_empty()).then_some(number));
    }
    let found = suspected(&mut history);
    assert_eq!(found.len(), 1, "{found:?}");
    let suspicion = &found[0];
    assert_eq!((&*suspicion.series.cell, &*suspicion.series.metric), ("ours", "requests_per_cpu_second"));
    assert_eq!((&*suspicion.last_good().commit, &*suspicion.culprit().commit), ("c29", "c30"));
    assert!((0.06..0.16).contains(&suspicion.change.magnitude()), "{:?}", suspicion.change);
    assert!(first_seen.is_some_and(|night| night <= 40), "{first_seen:?}");
    // A rerun that is as slow confirms it, one that is as quick as before does not.
    assert_eq!(suspicion.is_confirmed_by("made-up", &added(&night(90, 0.88))), Some(true));
    assert_eq!(suspicion.is_confirmed_by("made-up", &added(&night(91, 1.02))), Some(false));
    // What another machine or load shows says nothing about it; the words of the question say nothing at all.
    assert_eq!(suspicion.is_confirmed_by("another", &added(&night(90, 0.88))), None);
    let another = night_of(&NIGHTLY.replace("seconds = 30", "seconds = 20"), 90, 0.88);
    assert_eq!(suspicion.is_confirmed_by("made-up", &added(&another)), None);
    let reworded = night_of(&NIGHTLY.replace("quick", "fast"), 90, 0.88);
    assert_eq!(suspicion.is_confirmed_by("made-up", &added(&reworded)), Some(true));
    // What is kept already confirms nothing, and neither does what began before the suspected run.
    let again = |mut run: Results, later_s: u64| {
        run.records.iter_mut().for_each(|record| record.began_unix_s += later_s);
        suspicion.is_rerun("made-up", &added(&run), run.began_unix_s())
    };
    for number in [29, 30, 39] {
        assert_eq!(again(night(number, 0.9), 0), Err(NoRerun::Kept(format!("c{number}"))));
    }
    assert_eq!(again(night(29, 0.9), 3600), Err(NoRerun::Early("c30".to_owned())));
    assert_eq!(
        [again(night(30, 0.9), 3600), again(night(90, 0.88), 0), again(another, 0)],
        [Ok(()), Ok(()), Ok(())]
    );
    // A change for the better is no alarm, and neither is one that lies far back.
    for number in 40..60 {
        let results = night(number, 0.9);
        history.add(&results, &compare(&results), &format!("c{number}")).expect("added");
    }
    assert_eq!(suspected(&mut history), []);
}

#[test]
fn a_page_of_trends_has_each_series_and_where_it_changed() {
    let mut history = History::in_memory().expect("a history");
    for number in 0..30 {
        let results = night(number, if number < 20 { 1.0 } else { 0.9 });
        history.add(&results, &compare(&results), &format!("c<{number}>")).expect("added");
    }
    let series = history.series().expect("series");
    let text = lab::report::trend::page(&series);
    assert_eq!(text.matches("<svg ").count(), series.len());
    let wanted = "<p class=\"worse\">ours: requests/CPU-s became worse, -";
    assert!(text.contains(wanted) && text.contains("between c&lt;19&gt; and c&lt;20&gt;"), "{text}");
    assert!(!text.contains("<19>") && !text.contains("<script"), "text is not markup");
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("trend.html"), &text)
        .expect("written");
    assert!(lab::report::trend::page(&[]).contains("No run is kept yet."));
    // What the lowest and the highest bar of a line mean.
    let told = series[0].sparkline(1.0);
    assert!(
        told.contains("(▁ ")
            && told.contains(", █ ")
            && told.chars().filter(|it| "▁▂▃▄▅▆▇█".contains(*it)).count() == 32,
        "{told}"
    );
    assert!(series_of(std::iter::once(5.0)).sparkline(1.0).contains("(all "));
}

#[test]
fn a_run_without_a_trial_that_counts_of_each_cell_is_not_kept() {
    let mut history = History::in_memory().expect("a history");
    let mut results = night(1, 1.0);
    for record in results.records.iter_mut().filter(|record| record.subject == "ours") {
        record.doubts.push("the subject ended in mid-trial, with signal: 11 (SIGSEGV)".into());
    }
    let error = history.add(&results, &compare(&results), "c1").expect_err("ours crashed").to_string();
    let wanted = "keep the run: ours has no trial that counts: the subject ended in mid-trial, with signal: 11 (SIGSEGV)";
    assert_eq!(error, wanted);
    assert_eq!(history.series().expect("series"), []);
    // One of three rounds is too few, half of them are enough.
    let ours =
        |results: &Results| results.records.iter().position(|it| it.subject == "ours" && !it.is_valid());
    for expected in [Err(()), Ok(())] {
        let first = ours(&results).expect("a doubtful trial");
        results.records[first].doubts.clear();
        assert_eq!(results.whole().map_err(drop), expected);
    }
    let elsewhere = results.records.len() - 1;
    results.records[elsewhere].host = "another".into();
    let mixed = results.whole().expect_err("two machines").to_string();
    assert_eq!(mixed, "its trials are of another with 6.18.5 and made-up with 6.18.5");
    results.records[elsewhere].host = "made-up".into();
    assert_eq!(history.add(&results, &compare(&results), "c1").expect("added"), Added::New);
}

/// What perf has seen of ours, with what a request costs and the samples of each function.
fn profile(request_us: f64, functions: &[(&str, u64)]) -> CpuProfile {
    let functions = functions.iter().map(|(name, samples)| ((*name).to_owned(), *samples)).collect();
    CpuProfile { cell: "ours".into(), request_us: Some(request_us), functions, why_not: None }
}

#[test]
fn a_suspicion_says_which_functions_grew() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("profiles.sqlite");
    let _ = std::fs::remove_file(&path);
    let mut history = History::open(&path.display().to_string()).expect("a history");
    // The last good run and the first bad one have none: the nearest that have one speak for them.
    for number in 0..45 {
        let (factor, costs) = if number < 30 { (1.0, 500) } else { (0.88, 2000) };
        let mut results = night(number, factor);
        if !(29..=30).contains(&number) {
            let functions =
                [("parse (evenkeel)", 7000), ("hash (evenkeel)", costs), ("read (libc.so.6)", 2500)];
            results.profiles = vec![profile(if number < 30 { 8.0 } else { 9.2 }, &functions)];
        }
        history.add(&results, &compare(&results), &format!("c{number}")).expect("added");
    }
    let found = suspected(&mut history);
    assert_eq!((found.len(), &*found[0].culprit().commit), (1, "c30"));
    let said = |profiles| lab::report::grown_functions(&found[0], &profiles);
    let profiles = history.profiles(&found[0].series).expect("kept");
    assert_eq!(profiles.len(), 43);
    assert_eq!(
        said(profiles.clone()),
        "  Where (µs of CPU time for each request; 10000 samples at c28 and 11500 at c31):\n    \
         +1.2  0.4 to 1.6  hash (evenkeel)\n"
    );
    let of = |places: std::ops::Range<usize>| places.filter_map(|at| Some((at, profiles.get(&at)?.clone())));
    assert!(said(of(0..30).collect()).contains("no run since has a profile; `profile = true`"));
    assert!(said(of(30..45).collect()).contains("no run before has a profile; `profile = true`"));
    let mut refused: BTreeMap<usize, CpuProfile> = of(0..33).collect();
    refused.get_mut(&31).expect("a profile").why_not = Some("perf is not installed".into());
    assert!(said(refused.clone()).contains("10000 samples at c28 and 11500 at c32"), "the next has one");
    refused.get_mut(&32).expect("a profile").why_not = Some("perf is refused".into());
    assert_eq!(said(refused), "  Where: c31 has no profile: perf is not installed\n");
    let same: BTreeMap<usize, CpuProfile> = [(28, profiles[&28].clone()), (31, profiles[&28].clone())].into();
    assert!(said(same).contains("no function grew by more than chance"));
}

#[test]
fn a_history_of_format_3_has_profiles_from_then_on() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("format-3.sqlite");
    let _ = std::fs::remove_file(&path);
    let open = || History::open(&path.display().to_string()).expect("a history");
    let add = |number| {
        let results = Results { profiles: vec![profile(8.0, &[("parse", 7)])], ..night(number, 1.0) };
        open().add(&results, &compare(&results), &format!("c{number}")).expect("added")
    };
    add(1);
    let file = rusqlite::Connection::open(&path).expect("the file");
    file.execute_batch("drop table profile; pragma user_version = 3").expect("as it was");
    assert_eq!([add(2), add(2)], [Added::New, Added::Known]);
    let series = open().series().expect("series");
    let ours = series.iter().find(|it| it.cell == "ours").expect("ours");
    let kept = open().profiles(ours).expect("kept");
    assert_eq!(kept, BTreeMap::from([(1, profile(8.0, &[("parse", 7)]))]));
}

/// A series of one cell with those medians, give or take half a percent.
fn series_of(medians: impl Iterator<Item = f64>) -> MetricSeries {
    let mut history = History::in_memory().expect("a history");
    let results = night(1, 1.0);
    history.add(&results, &compare(&results), "c0").expect("added");
    let mut series = history.series().expect("series").remove(0);
    let first = series.points[0].clone();
    let point = |(run, median): (usize, f64)| {
        let mut point = first.clone();
        point.commit = format!("c{run}");
        point.median.middle = median * (1.0 + 0.005 * ((run * 7 % 5) as f64 / 2.0 - 1.0));
        point
    };
    series.points = medians.enumerate().map(point).collect();
    series
}

/// Nights with what ours is slowed down by, and the host.
fn nights(notation: &str, factors: impl Iterator<Item = (f64, f64)>) -> Vec<MetricSeries> {
    let mut history = History::in_memory().expect("a history");
    for (number, (ours, host)) in (0..).zip(factors) {
        let mut results = night_of(notation, number, ours);
        for record in &mut results.records {
            *record.metrics.get_mut("requests_per_cpu_second").expect("a metric") *= host;
        }
        history.add(&results, &compare(&results), &format!("c{number}")).expect("added");
    }
    history.series().expect("series")
}

#[test]
fn a_slower_host_alarms_nobody_where_a_subject_is_pinned() {
    let pinned = NIGHTLY.replace("name = \"theirs\"", "name = \"theirs\"\npinned = true");
    let slower = || (0..45).map(|number| (1.0, if number < 30 { 1.0 } else { 0.85 }));
    let cells = |series: &[MetricSeries]| -> Vec<String> {
        let mut cells: Vec<String> = suspicions(series).into_iter().map(|it| it.series.cell).collect();
        cells.sort();
        cells
    };
    assert_eq!(cells(&nights(NIGHTLY, slower())), ["ours", "theirs"], "both look worse");
    let series = nights(&pinned, slower());
    assert_eq!(cells(&series), [""; 0]);
    assert_eq!(
        lab::report::nothing_worse(&series),
        "Is it as quick as yesterday? (made-up): nothing became worse lately, in 45 runs.\n"
    );
    // On a host that is slower from then on, what is ours is still found.
    let both = (0..45).map(|number| if number < 30 { (1.0, 1.0) } else { (0.88, 0.85) });
    let found = suspicions(&nights(&pinned, both));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&*found[0].series.cell, found[0].series.is_relative()), ("ours", true));
    assert!((0.08..0.18).contains(&found[0].change.magnitude()), "{:?}", found[0].change);
    let said = lab::report::suspicion(&found[0], None);
    assert!(
        said.contains("requests/CPU-s relative to theirs became worse") && !said.contains("No subject"),
        "{said}"
    );
    let slow = |ours: f64, host: f64| {
        let mut results = night_of(&pinned, 90, ours);
        for record in &mut results.records {
            *record.metrics.get_mut("requests_per_cpu_second").expect("a metric") *= host;
        }
        found[0].is_confirmed_by("made-up", &added(&results))
    };
    assert_eq!((slow(0.88, 1.3), slow(1.0, 0.5)), (Some(true), Some(false)));
}

#[test]
fn a_series_goes_on_under_another_question_and_ends_with_another_load() {
    let mut history = History::in_memory().expect("a history");
    let mut add = |number: u32, notation: &str| {
        let results = night_of(notation, number, 1.0);
        assert_eq!(history.add(&results, &compare(&results), "c").expect("added"), Added::New);
        let series = history.series().expect("series");
        let ours = series.iter().filter(|it| it.cell.starts_with("ours"));
        ours.map(|it| (it.experiment.clone(), it.points.len())).collect::<Vec<_>>()
    };
    let quick = "Is it as quick as yesterday?".to_owned();
    let fast = "Is it as fast as yesterday?".to_owned();
    assert_eq!(add(1, NIGHTLY), [(quick.clone(), 1)]);
    let reworded = NIGHTLY.replace("quick", "fast").replace("rounds = 3", "rounds = 5");
    assert_eq!(add(2, &reworded), [(fast.clone(), 2)]);
    let longer = NIGHTLY.replace("seconds = 30", "seconds = 60");
    assert_eq!(add(3, &longer), [(fast, 2), (quick, 1)]);
}

#[test]
fn one_subject_is_followed_over_commits() {
    let theirs = NIGHTLY.find("[[subject]]\nname = \"theirs\"").expect("a subject");
    let alone = NIGHTLY[..theirs].to_owned() + &NIGHTLY[NIGHTLY.find("[workload]").expect("a load")..];
    let series = nights(&alone, (0..40).map(|number| (if number < 30 { 1.0 } else { 0.85 }, 1.0)));
    assert_eq!(series.len(), 1);
    let found = suspicions(&series);
    assert_eq!(found.iter().map(|it| &*it.culprit().commit).collect::<Vec<_>>(), ["c30"]);
    let said = lab::report::suspicion(&found[0], None);
    assert!(
        said.contains("No subject is pinned to measure it by: a slower host would look the same."),
        "{said}"
    );
}

#[test]
fn what_is_made_good_in_part_is_still_worse() {
    let levels = |levels: &[(f64, usize)]| {
        series_of(levels.iter().flat_map(|(level, runs)| vec![*level; *runs]).collect::<Vec<_>>().into_iter())
    };
    let found = suspicions(&[levels(&[(100.0, 30), (85.0, 6), (89.0, 6)])]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].change.index, &*found[0].culprit().commit), (30, "c30"));
    assert!((found[0].change.after / found[0].change.before - 0.89).abs() < 0.01, "{found:?}");
    for well in [&[(100.0, 30), (85.0, 6), (99.5, 6)][..], &[(100.0, 30), (115.0, 6), (110.0, 6), (116.0, 6)]]
    {
        let found = suspicions(&[levels(well)]);
        assert_eq!(found, [], "{well:?}");
    }
    // Two steps down are two suspicions, the larger first.
    let found = suspicions(&[levels(&[(100.0, 30), (90.0, 6), (80.0, 6)])]);
    assert_eq!(found.iter().map(|it| it.change.index).collect::<Vec<_>>(), [30, 36]);
}

/// As documented: after how many bad runs a fall of a tenth is seen.
#[test]
fn a_level_has_to_last_for_three_runs_on_both_sides() {
    let seen_after = |good: usize| {
        (1..=20).find(|bad| {
            let medians = (0..good + bad).map(|run| if run < good { 100.0 } else { 90.0 });
            !suspicions(&[series_of(medians)]).is_empty()
        })
    };
    assert!(seen_after(2).is_none_or(|runs| runs > 4));
    assert_eq!((seen_after(5), seen_after(30)), (Some(4), Some(2)));
}

#[test]
fn a_run_is_one_point_under_a_name_that_can_be_shown() {
    let mut history = History::in_memory().expect("a history");
    let results = night(1, 1.0);
    let mut add =
        |commit| history.add(&results, &compare(&results), commit).map_err(|error| error.to_string());
    for commit in ["", "  ", "c\u{1b}[31m1", "c\n1"] {
        let why = format!("keep the run: the commit {commit:?} is empty or has control characters");
        assert_eq!(add(commit), Err(why));
    }
    assert_eq!([add("c1"), add("c1")], [Ok(Added::New), Ok(Added::Known)]);
    assert_eq!(add("c2"), Err("keep the run: it is in the history already, as c1".to_owned()));
    assert!(history.series().expect("series").iter().all(|series| series.points.len() == 1));
}

#[test]
fn a_run_is_kept_once() {
    let mut history = History::in_memory().expect("a history");
    let results = night(1, 1.0);
    let comparison = compare(&results);
    assert_eq!(history.add(&results, &comparison, "c1").expect("added"), Added::New);
    assert_eq!(history.add(&results, &comparison, "c1").expect("known"), Added::Known);
    let series = history.series().expect("series");
    assert_eq!(
        series.iter().map(|it| (&*it.cell, it.points.len())).collect::<Vec<_>>(),
        [("ours", 1), ("theirs", 1)]
    );
    assert_eq!(
        (&*series[0].points[0].kernel, &*series[0].machine, series[0].matters),
        ("6.18.5", "made-up", 0.02)
    );
}

/// A history with this many runs of a commit each, one after the other.
fn kept(commits: &[(&str, u32, f64)]) -> Vec<MetricSeries> {
    let (mut history, mut number) = (History::in_memory().expect("a history"), 0);
    for (commit, runs, factor) in commits {
        for _ in 0..*runs {
            number += 1;
            let results = night(number, *factor);
            history.add(&results, &compare(&results), commit).expect("added");
        }
    }
    history.series().expect("series")
}

#[test]
fn commits_with_a_run_each_are_compared_as_these_runs_are() {
    let series = kept(&[("c1", 1, 1.0), ("c2", 1, 0.9)]);
    let found = between(&series, "c1", "c2").expect("both");
    assert_eq!((found.len(), found[0].unit), (1, Unit::Trial));
    let runs = against(&night(1, 1.0), &night(2, 0.9));
    for (commits, runs) in found[0].metrics[0].standings.iter().zip(&runs.metrics[0].standings) {
        let told = |it: &lab::analyze::comparison::CellStanding| {
            (it.values.clone(), it.median, it.ratio, it.p, it.verdict)
        };
        assert_eq!(told(commits), told(runs));
    }
    assert_eq!(found[0].metrics[0].standings.len(), 4);
}

#[test]
fn where_runs_are_enough_to_show_something_they_are_the_unit() {
    let verdict = |olds, news, factor| {
        let found = between(&kept(&[("c1", olds, 1.0), ("c2", news, factor)]), "c1", "c2").expect("both");
        let standings = &found[0].metrics[0].standings;
        let ours = standings.iter().find(|it| it.treatment == "c2: ours").expect("a cell");
        assert_eq!((found[0].old.runs, found[0].new.runs), (olds as usize, news as usize));
        (found[0].unit, ours.values.len(), ours.verdict)
    };
    assert_eq!(verdict(8, 8, 0.85), (Unit::Run, 8, Verdict::Worse));
    assert!([Verdict::NoDifferenceShown, Verdict::Equivalent].contains(&verdict(8, 8, 1.0).2));
    // Of two cells, four runs each can show nothing: the newest of each, of three rounds, is compared.
    assert_eq!(verdict(4, 4, 0.5), (Unit::Trial, 3, Verdict::NoDifferenceShown));
    assert_eq!(verdict(5, 4, 0.5), (Unit::Run, 4, Verdict::Worse));
    let series = kept(&[("c1", 2, 1.0), ("c2", 1, 0.5)]);
    let said = lab::report::commits(&between(&series, "c1", "c2").expect("both")[0]);
    assert!(said.contains("Of 2 and 1 runs the newest of each"), "{said}");
    assert!(said.contains("no difference could be shown, however large"), "{said}");
}

#[test]
fn a_commit_is_known_by_what_its_name_begins_with() {
    let mut series = kept(&[("4f2a91c", 1, 1.0), ("4f2b", 1, 1.0), ("4f", 1, 1.0)]);
    let compared = |old, new| between(&series, old, new).map(|found| found[0].old.commit.clone());
    assert_eq!(compared("4f2a", "4f2b").as_deref(), Ok("4f2a91c"));
    assert_eq!(compared("4f", "4f2b").as_deref(), Ok("4f"));
    assert_eq!(compared("4f2", "4f"), Err(Error::Ambiguous("4f2".into(), "4f2a91c, 4f2b".into())));
    assert_eq!(compared("4f", "5"), Err(Error::Unknown("5".into())));
    assert_eq!(compared("4f2b", "4f2"), Err(Error::Ambiguous("4f2".into(), "4f2a91c, 4f2b".into())));
    assert_eq!(compared("4f2b", "4f2b"), Err(Error::Same("4f2b".into())));
    // Another machine's figures say nothing about this one's.
    for point in &mut series[0].points {
        point.commit = "there".into();
    }
    series[0].machine = "another".into();
    assert_eq!(between(&series, "there", "4f").err(), Some(Error::Apart("there".into(), "4f".into())));
}

#[test]
fn a_history_of_format_1_is_gone_on_with_and_has_its_medians_alone() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("format-1.sqlite");
    let _ = std::fs::remove_file(&path);
    let open = || History::open(&path.display().to_string()).expect("a history");
    let add = |number| {
        let results = night(number, 1.0);
        assert_eq!(
            open().add(&results, &compare(&results), &format!("c{number}")).expect("added"),
            Added::New
        );
    };
    add(1);
    let file = rusqlite::Connection::open(&path).expect("the file");
    let columns = ["by_round", "definition", "pinned", "ratio"];
    let drop = columns.map(|column| format!("alter table point drop column {column};")).concat();
    file.execute_batch(&format!("{drop} drop table profile; pragma user_version = 1")).expect("as it was");
    add(2);
    // What its trials were made of is not known, and nothing is taken for the same.
    assert_eq!(open().series().expect("series").len(), 4);
    let known = || {
        let results = night(1, 1.0);
        open().add(&results, &compare(&results), "c1").expect("known")
    };
    assert_eq!([known(), known()], [Added::Defined, Added::Known], "its directory says it");
    let series = open().series().expect("series");
    assert_eq!(series.len(), 2);
    assert_eq!(series[0].points.iter().map(|it| it.values.len()).collect::<Vec<_>>(), [0, 3]);
    let found = between(&series, "c1", "c2").expect("both");
    let standings = &found[0].metrics[0].standings;
    assert!(standings.iter().all(|it| it.median.is_some()), "{standings:?}");
    assert_eq!(standings[1].verdict, Verdict::NotCompared);
    assert!(lab::report::commits(&found[0]).contains("only its medians are known"));
}

#[test]
fn a_file_of_something_else_is_refused() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join("no-history.sqlite");
    std::fs::write(&path, "This is a text, and a text is no database, however long it may be. ".repeat(20))
        .expect("written");
    let error = History::open(&path.display().to_string()).err().expect("a text").to_string();
    assert!(error.contains("no-history.sqlite"), "{error}");
}

/// A series of one cell, the first run of which others are made like.
fn template() -> MetricSeries {
    let mut history = History::in_memory().expect("a history");
    let results = night(1, 1.0);
    history.add(&results, &compare(&results), "c1").expect("added");
    history.series().expect("series").remove(0)
}

/// The standard deviation of runs without a change, as a share of the level.
const NOISE: f64 = 0.03;

/// A series without a change: runs that resemble their neighbours by `rho`, and now and then a bad night.
fn quiet(template: &MetricSeries, runs: usize, rho: f64, noise: f64, prng: &mut Prng) -> MetricSeries {
    let mut series = template.clone();
    let point = series.points[0].clone();
    let mut swing = normal(prng);
    series.points = (0..runs)
        .map(|run| {
            swing = rho * swing + (1.0 - rho * rho).sqrt() * normal(prng);
            let bad = if prng.below(25) == 0 { 0.85 } else { 1.0 };
            let mut point = point.clone();
            point.median.middle = 100_000.0 * bad * (noise * swing).exp();
            point.commit = format!("c{run}");
            point
        })
        .collect();
    series
}

/// How alike neighbours are, from not at all to as alike as one-second samples of a shared machine.
const RHOS: [f64; 3] = [0.0, 0.3, 0.7];

/// More of them say it more exactly: EVENKEEL_TEST_HISTORIES=600 gave the rates of errors in
/// docs/lab/report.md.
fn histories() -> usize {
    std::env::var("EVENKEEL_TEST_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(120)
}

#[test]
fn histories_without_a_change_raise_no_more_suspicions_than_stated() {
    let template = template();
    let mut rerun = added(&night(1, 1.0));
    for rho in RHOS {
        let mut prng = Prng::new(4);
        let (mut suspicious, mut alarmed) = (0, 0);
        for _ in 0..histories() {
            // One run more is what a rerun would find: it is as alike to the newest as a run of the next night.
            let whole = quiet(&template, 61, rho, NOISE, &mut prng);
            // As a gate looks at it after every run: every look may err.
            let found = (6..=60).find_map(|runs| {
                let mut series = whole.clone();
                let again = series.points[runs].median;
                series.points.truncate(runs);
                suspicions(&[series]).pop().map(|suspicion| (suspicion, again))
            });
            suspicious += usize::from(found.is_some());
            alarmed += usize::from(found.is_some_and(|(suspicion, again)| {
                rerun.iter_mut().find(|it| it.cell == template.cell).expect("the cell").median = again;
                suspicion.is_confirmed_by("made-up", &rerun) == Some(true)
            }));
        }
        let percent = |count: usize| 100.0 * count as f64 / histories() as f64;
        eprintln!("rho {rho}: {:.1} % suspected, {:.1} % alarms", percent(suspicious), percent(alarmed));
        // Stated: one history of twenty, of 60 runs each, is ever suspected.
        assert!(percent(suspicious) <= 5.0, "rho {rho}: {suspicious} of {}", histories());
    }
}

#[test]
fn a_planted_tenth_is_seen_as_often_as_stated() {
    let template = template();
    for (noise, least) in [(NOISE, [65.0, 40.0, 25.0]), (NOISE / 2.0, [90.0, 80.0, 65.0])] {
        for (rho, least) in RHOS.into_iter().zip(least) {
            let (mut prng, mut seen) = (Prng::new(5), [0; 3]);
            let count = histories() / 2;
            for _ in 0..count {
                let mut whole = quiet(&template, 45, rho, noise, &mut prng);
                whole.points[30..].iter_mut().for_each(|point| point.median.middle *= 0.9);
                let after = (3..=15).find(|bad| {
                    let mut series = whole.clone();
                    series.points.truncate(30 + bad);
                    suspicions(&[series]).iter().any(|it| (27..=33).contains(&it.change.index))
                });
                for (seen, within) in seen.iter_mut().zip([5, 10, 15]) {
                    *seen += u32::from(after.is_some_and(|after| after <= within));
                }
            }
            let percent = seen.map(|seen| 100.0 * f64::from(seen) / count as f64);
            eprintln!("noise {noise}, rho {rho}: {percent:.0?} % within 5, 10, 15 runs");
            assert!(percent[2] >= least, "noise {noise}, rho {rho}: {percent:?}");
        }
    }
}

#[test]
fn who_reads_alone_changes_no_file() {
    let folder = std::env::temp_dir().join(format!("evenkeel-history-read-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (empty, kept) = (folder.join("empty"), folder.join("kept"));
    std::fs::write(&empty, "").expect("written");
    assert!(History::open_to_read(&empty).is_err(), "it is no history yet");
    assert_eq!(std::fs::metadata(&empty).expect("it is there").len(), 0);
    assert!(History::open_to_read(&kept).is_err(), "nothing is there");
    assert!(!kept.exists());
    drop(History::open(&kept.display().to_string()).expect("a history"));
    let before = std::fs::read(&kept).expect("it is there");
    let mut history = History::open_to_read(&kept).expect("a history");
    assert!(history.series().expect("none").is_empty());
    assert_eq!(std::fs::read(&kept).expect("it is there"), before);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
