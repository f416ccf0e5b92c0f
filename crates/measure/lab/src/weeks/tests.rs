//! Series of made-up services: what is compared with what, and how often a verdict is wrong.

use super::effect::DailyEffect;
use super::prometheus::{ServiceFigure, parse_answers, paths, usual_figures};
use super::samples::parse_samples;
use super::*;
use stdx::prng::Prng;

const BEGIN: u64 = 1_795_219_200;

/// Nearly normal: the sum of twelve uniform numbers.
fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

/// Days whose logarithms swing with this rho, differ at weekends, and change by a factor at that day.
fn swinging(days: u64, change_day: u64, factor: f64, rho: f64, prng: &mut Prng) -> [Days; 2] {
    let mut swing = normal(prng) * 0.05;
    let mut day = |day: u64| {
        swing = rho * swing + (1.0 - rho * rho).sqrt() * 0.05 * normal(prng);
        let weekend = if day % 7 < 2 { 0.8 } else { 1.0 };
        (day, 800.0 * weekend * swing.exp() * if day > change_day { factor } else { 1.0 })
    };
    let all: Days = (0..days).map(&mut day).collect();
    let side = |is_after: bool| {
        all.iter().copied().filter(|(day, _)| *day != change_day && (*day > change_day) == is_after).collect()
    };
    [side(false), side(true)]
}

/// The share of made-up services for which a change is shown.
fn shown(days: u64, factor: f64, rho: f64, tries: usize) -> f64 {
    let mut prng = Prng::new(7);
    let is_shown = |_: &usize| {
        let [before, after] = swinging(days, days / 2, factor, rho, &mut prng);
        effect::mixture(&before, &after).expect("days above zero").p() <= 0.05
    };
    (0..tries).filter(is_shown).count() as f64 / tries as f64
}

#[test]
fn days_that_resemble_their_neighbours_are_seldom_taken_for_a_change() {
    for (rho, days, most) in
        [(0.0, 15, 0.05), (0.3, 29, 0.06), (0.6, 15, 0.08), (0.6, 43, 0.08), (0.8, 29, 0.1)]
    {
        let share = shown(days, 1.0, rho, 300);
        assert!(share <= most, "rho {rho}, {days} days: {share}");
    }
}

#[test]
fn a_quarter_less_is_seen_within_two_weeks() {
    for (rho, days, least) in [(0.0, 29, 0.98), (0.6, 29, 0.95), (0.6, 15, 0.6)] {
        let share = shown(days, 0.75, rho, 200);
        assert!(share >= least, "rho {rho}, {days} days: {share}");
    }
}

#[test]
fn the_interval_excludes_no_change_exactly_when_p_is_small() {
    let mut prng = Prng::new(3);
    let mut shown = 0;
    for factor in [1.0, 0.97, 0.94, 0.9, 0.75, 1.1, 1.3] {
        let [before, after] = swinging(29, 14, factor, 0.3, &mut prng);
        let DailyEffect { interval, p } = effect::effect(&before, &after, 3).expect("days above zero");
        assert_eq!(p <= 0.05, interval.low > 0.0 || interval.high < 0.0, "{factor}: {interval:?} {p}");
        assert!(interval.low <= interval.middle && interval.middle <= interval.high, "{interval:?}");
        // Exchanging the sides of time mirrors it: what was added is taken away.
        let mirror =
            |days: &Days| -> Days { days.iter().rev().map(|(day, value)| (700 - day, *value)).collect() };
        let back = effect::effect(&mirror(&after), &mirror(&before), 3).expect("days above zero");
        assert!((back.interval.middle + interval.middle).abs() < 1e-6, "{back:?} {interval:?}");
        shown += usize::from(p <= 0.05);
    }
    assert!((2..7).contains(&shown), "{shown} of 7");
}

/// A figure every hour of these days, each with its value.
fn hourly(name: &str, days: &[(u64, f64)]) -> ServiceSeries {
    let hours = |(day, value): &(u64, f64)| {
        let (day, value) = (*day, *value);
        (0..24).map(move |hour| (BEGIN + day * DAY_S + hour * 3600, value * (1.0 + 0.001 * hour as f64)))
    };
    ServiceSeries { name: name.to_owned(), points: days.iter().flat_map(hours).collect() }
}

#[track_caller]
fn check(series: &ServiceSeries, annotations: &[&str], expected: &[(Verdict, [usize; 2])]) -> WeeksReport {
    let annotations: Vec<Annotation> =
        annotations.iter().map(|text| Annotation::parse(text).expect("an annotation")).collect();
    let report = compare_weeks(std::slice::from_ref(series), &annotations, 0.02);
    let found: Vec<(Verdict, [usize; 2])> = report.changes.iter().map(|it| (it.verdict, it.days)).collect();
    assert_eq!(found, expected, "{report:?}");
    report
}

#[test]
fn the_day_of_a_roll_out_and_half_days_are_left_out() {
    let mut prng = Prng::new(1);
    let mut days: Days = (0..28).map(|day| (day, 800.0 * (0.02 * normal(&mut prng)).exp())).collect();
    days.iter_mut().filter(|(day, _)| *day > 14).for_each(|(_, value)| *value *= 0.7);
    let mut series = hourly("client_p99_us", &days);
    // BEGIN is the 21st of November.
    let report = check(&series, &["2026-12-05T10:00Z=mlock"], &[(Verdict::Better, [14, 13])]);
    let ratio = report.changes[0].ratio.expect("it is compared");
    assert!(ratio.low < 0.7 && 0.7 < ratio.high && ratio.high < 0.8, "{ratio:?}");
    // At midnight, no day is touched, and one of three days touches three.
    check(&series, &["2026-12-06=mlock"], &[(Verdict::Better, [15, 13])]);
    check(&series, &["2026-12-05T10:00Z/2026-12-07T02:00Z=mlock"], &[(Verdict::Better, [14, 11])]);
    // The days up to the next annotation; before the first of two.
    let both = ["2026-12-12T08:00Z=second", "2026-12-05T10:00Z=mlock"];
    check(&series, &both, &[(Verdict::Better, [14, 6]), (Verdict::NoDifferenceShown, [6, 6])]);
    series.points.retain(|(unix_s, _)| unix_s / DAY_S != BEGIN / DAY_S + 3 || unix_s % DAY_S < DAY_S / 2);
    check(&series, &["2026-12-05T10:00Z=mlock"], &[(Verdict::Better, [13, 13])]);
}

#[test]
fn too_few_days_and_zeros_have_no_verdict() {
    let days: Days = (0..11).map(|day| (day, 800.0)).collect();
    let series = hourly("client_p99_us", &days);
    check(&series, &["2026-11-26T10:00Z=mlock"], &[(Verdict::TooFewDays, [5, 5])]);
    check(&series, &["2027-11-26T10:00Z=mlock"], &[(Verdict::TooFewDays, [11, 0])]);
    check(&series, &["2026-11-27=mlock"], &[(Verdict::TooFewDays, [6, 5])]);
    check(&series, &[], &[]);
    let zeros: Days = (0..28).map(|day| (day, f64::from(u8::from(day != 3)))).collect();
    check(&hourly("wait_share", &zeros), &["2026-12-05=mlock"], &[(Verdict::NotCompared, [14, 14])]);
    check(
        &ServiceSeries { name: "wait_share".into(), points: Vec::new() },
        &["2026-12-05=x"],
        &[(Verdict::TooFewDays, [0, 0])],
    );
}

#[test]
fn an_annotation_is_a_time_and_a_text() {
    let parse = |text: &str| Annotation::parse(text).map(|it| (it.from_unix_s, it.to_unix_s, it.text));
    let from = BEGIN + 36_000;
    assert_eq!(parse("2026-11-21T10:00Z=mlock and FIFO=1"), Ok((from, from, "mlock and FIFO=1".into())));
    assert_eq!(parse("2026-11-21/2026-11-21T10:00Z= x"), Ok((BEGIN, from, "x".into())));
    for wrong in ["", "mlock", "2026-11-21=", "21.11.2026=x", "2026-11-22/2026-11-21=x"] {
        let error = parse(wrong).expect_err(wrong);
        assert!(error.starts_with("expected TIME=TEXT") && error.contains(wrong), "{error}");
    }
}

#[test]
fn lines_of_json_are_read_in_any_order() {
    let text = "{\"unix_s\": 20, \"p99_us\": 3, \"wait_share\": null}\n\n{\"unix_s\": 10, \"p99_us\": 2.5, \"wait_share\": 0.5}\n";
    let series =
        |name: &str, points: &[(u64, f64)]| ServiceSeries { name: name.into(), points: points.to_vec() };
    let expected = vec![series("p99_us", &[(10, 2.5), (20, 3.0)]), series("wait_share", &[(10, 0.5)])];
    assert_eq!(parse_samples(text), Ok(expected));
    for (wrong, why) in [
        ("{}\n[]", "line 1: expected `unix_s`"),
        ("{\"unix_s\": 1}\n[1]", "line 2: expected an object"),
        ("{\"unix_s\": -1}", "line 1: expected `unix_s`"),
        ("{\"unix_s\": 1, \"p99_us\": \"2\"}", "line 1: expected a number"),
        ("{\"unix_s\": 1, \"p99_us\": 1e300}", "line 1: expected a number"),
    ] {
        let error = parse_samples(wrong).expect_err(wrong);
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn a_range_is_asked_for_in_parts_that_prometheus_answers() {
    let figure = ServiceFigure::parse("wait_share=avg(rate(a{b=\"c\"}[5m]))").expect("a figure");
    let paths = |to: u64| paths(&figure, 1_000, to, 300);
    let query = "/api/v1/query_range?query=avg%28rate%28a%7Bb%3D%22c%22%7D%5B5m%5D%29%29";
    assert_eq!(paths(4_000), [format!("{query}&start=1000&end=4000&step=300")]);
    let parts = paths(1_000 + 28 * 86_400 + 300 * 10_000);
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[1].contains("&start=3001000&"), "{parts:?}");
    for wrong in ["", "x", "=x", "a b=x", "x= "] {
        assert!(ServiceFigure::parse(wrong).is_err(), "{wrong}");
    }
    let usual = usual_figures("job=\"cache\"", 60);
    assert!(usual[0].expression.contains("_bucket{job=\"cache\"}[300s]"), "{usual:?}");
    assert!(usual[2].expression.contains("{thread=~\"worker.*\",job=\"cache\"}"), "{usual:?}");
}

#[test]
fn answers_of_prometheus_become_one_series() {
    let figure = ServiceFigure { name: "p99_s".into(), expression: "x".into() };
    let answer = |series: &str| {
        format!(
            "{{\"status\": \"success\", \"data\": {{\"resultType\": \"matrix\", \"result\": [{series}]}}}}"
        )
    };
    let values = |values: &str| answer(&format!("{{\"metric\": {{}}, \"values\": [{values}]}}"));
    let read = |answers: &[String]| parse_answers(&figure, answers).map(|it| (it.name, it.points));
    let both =
        [values("[1000, \"0.002\"], [1300.5, \"NaN\"]"), values("[1000, \"0.002\"], [1600, \"0.003\"]")];
    assert_eq!(read(&both), Ok(("p99_us".into(), vec![(1_000, 2_000.0), (1_600, 3_000.0)])));
    assert_eq!(read(&[answer("")]), Ok(("p99_us".into(), Vec::new())));
    for (wrong, why) in [
        ("nothing", "the answer is not JSON"),
        ("{\"status\": \"error\", \"error\": \"parse error at 1\"}", "parse error at 1"),
        ("{}", "the answer has no `status`"),
        (
            "{\"status\": \"success\", \"data\": {\"resultType\": \"vector\", \"result\": []}}",
            "expected a `matrix`",
        ),
        (&answer("{}, {}"), "expected one series, found 2"),
        (&answer("{}"), "the answer has a series without `values`"),
        (&values("[1, 2]"), "expected [seconds, \"value\"], found [1,2]"),
    ] {
        let error = read(&[wrong.to_owned()]).expect_err(wrong);
        assert!(error.starts_with(why), "{error}");
    }
}
