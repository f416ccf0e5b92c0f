//! Made histories: flat, growing, with a weekend, with a step, with noise, with gaps, too short.

use stdx::prng::Prng;

use super::*;

/// A Monday.
const BEGINS: u64 = 20_000 / 7 * 7;

fn history(days: u64, value: impl FnMut(u64) -> f64) -> Vec<DayPeak> {
    let mut value = value;
    (0..days).map(|day| DayPeak { day: BEGINS + day, value: value(day) }).collect()
}

/// Fewer at weekends.
fn weekend(day: u64) -> f64 {
    if day % 7 >= 5 { 0.6 } else { 1.0 }
}

/// Nearly normal: the sum of twelve uniform numbers.
fn normal(prng: &mut Prng) -> f64 {
    (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
}

/// Noise of a share of the level, of which each day has a part of the day before.
fn noise(seed: u64, share: f64, correlation: f64) -> impl FnMut() -> f64 {
    let (mut prng, mut before) = (Prng::new(seed), 0.0);
    move || {
        before = correlation * before + (1.0 - correlation * correlation).sqrt() * normal(&mut prng);
        1.0 + share * before
    }
}

#[track_caller]
fn check(peaks: &[DayPeak], level: f64, per_week: f64) {
    let found = use_trend(peaks).expect("a trend");
    assert!((found.level / level - 1.0).abs() < 0.02, "{found:?}");
    assert!((found.per_week.middle - per_week).abs() < 0.002, "{found:?}");
    assert!(
        found.per_week.low <= found.per_week.middle && found.per_week.middle <= found.per_week.high,
        "{found:?}"
    );
}

#[test]
fn a_flat_use_does_not_grow() {
    check(&history(28, |_| 50.0), 50.0, 0.0);
    check(&history(14, |_| 50.0), 50.0, 0.0);
}

#[test]
fn a_weekend_is_no_trend_whatever_the_first_and_the_last_day_are() {
    for first in 0..7 {
        for days in 14..=28 {
            check(&history(days, |day| 100.0 * weekend(day + first)), 100.0, 0.0);
        }
    }
}

#[test]
fn growth_is_found_with_and_without_a_weekend() {
    // From 100 to 128 in 28 days: 7 a week, of the 127 of the last day.
    let grows = |day: u64| 100.0 + day as f64;
    check(&history(28, grows), 127.0, 7.0 / 127.0);
    for first in 0..7 {
        let found = use_trend(&history(28, |day| grows(day) * weekend(day + first))).expect("a trend");
        assert!((found.per_week.middle - 7.0 / 127.0).abs() < 0.003, "{found:?}");
        assert!((found.level / 127.0 - 1.0).abs() < 0.02, "what the busiest weekday would have: {found:?}");
        assert!(found.per_week.low > 0.0, "{found:?}");
    }
    check(&history(28, |day| 200.0 - day as f64), 173.0, -7.0 / 173.0);
}

#[test]
fn a_step_is_no_growth_and_the_history_begins_after_it() {
    for at in [8, 14, 17, 24] {
        let found = use_trend(&history(42, |day| weekend(day) * if day < at { 100.0 } else { 160.0 }));
        let found = found.expect("a trend");
        assert_eq!((found.since, found.days), (Some(BEGINS + at), 42 - at as usize), "{at}: {found:?}");
        assert!(found.per_week.middle.abs() < 0.002 && (found.level - 160.0).abs() < 2.0, "{found:?}");
    }
    let late = use_trend(&history(28, |day| if day < 20 { 100.0 } else { 160.0 }));
    assert_eq!(late, Err(NoTrend::TooShort { days: 8, since: Some(BEGINS + 20) }));
    // Two of them.
    let found = use_trend(&history(60, |day| [10.0, 40.0, 20.0][(day / 20) as usize])).expect("a trend");
    assert_eq!((found.since, found.level), (Some(BEGINS + 40), 20.0));
}

#[test]
fn days_unlike_the_others_change_little() {
    let mut peaks = history(28, |day| (100.0 + day as f64) * weekend(day));
    for day in [3, 11, 19, 27] {
        peaks[day].value *= 5.0;
    }
    let found = use_trend(&peaks).expect("a trend");
    assert!((found.per_week.middle - 7.0 / 127.0).abs() < 0.01, "{found:?}");
    assert!((found.level / 127.0 - 1.0).abs() < 0.05, "{found:?}");
}

#[test]
fn days_that_are_missing_are_not_zero() {
    let all = history(35, |day| (100.0 + day as f64) * weekend(day));
    let some: Vec<DayPeak> =
        all.iter().copied().filter(|peak| ![2, 3, 11, 19, 20, 21].contains(&(peak.day - BEGINS))).collect();
    let (all, some) = (use_trend(&all).expect("a trend"), use_trend(&some).expect("a trend"));
    assert!((all.per_week.middle - some.per_week.middle).abs() < 0.003, "{all:?} {some:?}");
    assert_eq!(some.days, 29);
}

#[test]
fn a_short_history_has_no_trend() {
    assert_eq!(use_trend(&[]), Err(NoTrend::NoHistory));
    assert_eq!(use_trend(&history(3, |_| 1.0)), Err(NoTrend::TooShort { days: 3, since: None }));
    assert_eq!(use_trend(&history(13, |_| 1.0)), Err(NoTrend::TooShort { days: 13, since: None }));
    // A day with two values has the larger one, and what is no number is none.
    let mut peaks = history(14, |_| 1.0);
    peaks.push(DayPeak { day: BEGINS, value: 0.5 });
    peaks.push(DayPeak { day: BEGINS + 20, value: f64::NAN });
    check(&peaks, 1.0, 0.0);
}

#[test]
fn what_is_not_used_has_a_level_of_zero() {
    let found = use_trend(&history(20, |_| 0.0)).expect("a trend");
    assert_eq!((found.level, found.per_week.high), (0.0, 0.0));
    // On working days only.
    let found = use_trend(&history(28, |day| if day % 7 >= 5 { 0.0 } else { 9.0 })).expect("a trend");
    assert_eq!((found.level, found.per_week.middle), (9.0, 0.0));
}

/// Of so many histories, those whose interval does not hold the true growth, and those in which a step was found.
fn misses(days: u64, growth: f64, share: f64, correlation: f64) -> (usize, usize) {
    let (mut missed, mut stepped) = (0, 0);
    for seed in 0..HISTORIES {
        let mut noise = noise(seed, share, correlation);
        let peaks = history(days, |day| (100.0 + growth * day as f64) * weekend(day + seed) * noise());
        match use_trend(&peaks) {
            Ok(found) if found.since.is_none() => {
                let truth = growth * 7.0 / (100.0 + growth * (days - 1) as f64);
                missed += usize::from(found.per_week.low > truth || found.per_week.high < truth);
            }
            _ => stepped += 1,
        }
    }
    (missed, stepped)
}

const HISTORIES: u64 = 300;

#[test]
fn intervals_hold_the_growth_about_as_often_as_they_say() {
    for (days, correlation) in
        [(14, 0.0), (21, 0.0), (28, 0.0), (56, 0.0), (28, 0.3), (56, 0.3), (28, 0.6), (56, 0.6)]
    {
        for growth in [0.0, 1.0] {
            let (missed, stepped) = misses(days, growth, 0.05, correlation);
            // 15 of 300 are what 95 % means; days that resemble the days before say less than is seen of them.
            assert!(
                missed <= 24 && stepped <= 6,
                "{missed} and {stepped}: {days} days, correlation {correlation}, growth {growth}"
            );
        }
    }
}
