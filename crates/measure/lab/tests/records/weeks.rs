//! A made-up service before and after a roll-out: its page, pictures and JSON.

use lab::report::weeks::{json, page, pictures, text};
use lab::weeks::{Annotation, ServiceSeries, compare_weeks};
use stdx::calendar::DAY_S;
use stdx::prng::Prng;

use crate::pictures::check_layout;
use crate::synthetic::normal;

/// A Saturday.
const BEGIN: u64 = 1_795_219_200;

/// Four weeks in steps of five minutes: busy at noon, calm at weekends, and changed by a factor from that second on.
fn series(name: &str, level: f64, (changed_unix_s, factor): (u64, f64), seed: u64) -> ServiceSeries {
    let mut prng = Prng::new(seed);
    let mut swing = 0.0;
    let point = |step: u64| {
        let unix_s = BEGIN + step * 300;
        let hour = (unix_s % DAY_S) as f64 / 3600.0;
        let weekend = if (unix_s / DAY_S + 3) % 7 >= 5 { 0.7 } else { 1.0 };
        let busy = 1.0 + 0.5 * ((hour - 6.0) / 24.0 * std::f64::consts::TAU).sin();
        swing = 0.98 * swing + 0.01 * normal(&mut prng);
        let changed = if unix_s >= changed_unix_s { factor } else { 1.0 };
        (unix_s, level * busy * weekend * (swing + 0.03 * normal(&mut prng)).exp() * changed)
    };
    ServiceSeries { name: name.to_owned(), points: (0..28 * 288).map(point).collect() }
}

fn service(factor: f64) -> Vec<ServiceSeries> {
    let change = |factor| (BEGIN + 17 * DAY_S + 36_000, factor);
    vec![
        series("client_p99_us", 1_800.0, change(factor), 1),
        series("server_p99_us", 400.0, change(factor.sqrt()), 2),
        series("wait_share", 0.04, change(factor * factor), 3),
    ]
}

fn annotations() -> Vec<Annotation> {
    [
        "2026-12-08T10:00Z=mlock and FIFO",
        "2026-12-08T14:00Z/2026-12-09T02:00Z=a new kernel on half of the servers, for a while",
    ]
    .map(|text| Annotation::parse(text).expect("an annotation"))
    .into()
}

#[test]
fn a_roll_out_that_helps_is_shown_with_its_figures() {
    let (series, annotations) = (service(0.65), &annotations()[..1]);
    let report = compare_weeks(&series, annotations, 0.02);
    let text = text(&report);
    for part in [
        "client p99 (ms): 1.",
        "before “mlock and FIFO”",
        ": better.",
        "server p99 (µs)",
        "wait (share)",
        "17, 10",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("better.\n").count(), 3, "{text}");
    let pictures = pictures(&series, &report);
    let drawn: Vec<(&str, &str)> = pictures.iter().map(|it| (&*it.name, &*it.svg)).collect();
    check_layout("weeks", &drawn);
    let names: Vec<&str> = drawn.iter().map(|(name, _)| *name).collect();
    let of = ["client_p99_us", "server_p99_us", "wait_share"];
    assert_eq!(names, of.map(|name| [format!("week-{name}-1"), format!("days-{name}")]).concat());
    assert!(
        drawn[0].1.contains(">mlock and FIFO</text>") && drawn[0].1.contains(">Tue 8 Dec</text>"),
        "{}",
        drawn[0].1
    );
    let page = page(&report, &pictures);
    assert!(
        page.contains("<p class=\"better\">client p99 (ms)") && page.matches("<svg ").count() == 6,
        "{page}"
    );
    let json: serde_json::Value = serde_json::from_str(&json(&series, &report)).expect("JSON");
    assert_eq!(json["changes"][0]["verdict"], "better");
    assert_eq!(json["figures"][0]["days"].as_array().map(Vec::len), Some(28));
}

#[test]
fn a_roll_out_that_changes_nothing_is_not_called_better() {
    let series = service(1.0);
    let report = compare_weeks(&series, &annotations()[..1], 0.02);
    let verdicts: Vec<&str> = report.changes.iter().map(|it| it.verdict.words()).collect();
    assert!(verdicts.iter().all(|words| ["no difference shown", "equivalent"].contains(words)), "{report:?}");
}

#[test]
fn pictures_of_several_annotations_and_of_a_short_service_can_be_read() {
    for (name, days) in [("two-roll-outs", 28), ("young", 19), ("one-day", 1)] {
        let mut series = service(0.65);
        series.iter_mut().for_each(|series| series.points.truncate(days * 288));
        // A gap of a night, and a spike that no linear axis takes.
        series[0].points.retain(|(unix_s, _)| (unix_s - BEGIN) / 21_600 != 10);
        series[2].points.iter_mut().step_by(97).for_each(|(_, value)| *value *= 400.0);
        let report = compare_weeks(&series, &annotations(), 0.02);
        let pictures = pictures(&series, &report);
        let drawn: Vec<(&str, &str)> = pictures.iter().map(|it| (&*it.name, &*it.svg)).collect();
        check_layout(name, &drawn);
        assert!(text(&report).contains("too few days"), "{}", text(&report));
    }
}
