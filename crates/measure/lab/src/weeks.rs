//! A running service week over week: its figures before and after roll-outs, compared by the day.
//!
//! [`ServiceSeries`] come from Prometheus or from lines of JSON. Their unit is the day: minutes resemble their neighbours, and
//! weekends differ from working days. Nothing here asks a server or reads a clock.

mod effect;
pub mod prometheus;
pub mod samples;

use serde::Serialize;
use stdx::calendar::{DAY_S, parse_utc};
use stdx::statistics::median;

use crate::analyze::verdict::{Interval, Verdict};
use crate::record::quantity::{Better, better};

/// A figure of a service over time.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceSeries {
    /// Its name, as metrics have them: `client_p99_us`.
    pub name: String,
    /// Seconds since 1970 and values, the oldest first, one for each time.
    pub points: Vec<(u64, f64)>,
}

/// Something that happened to the service, such as a roll-out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Annotation {
    /// When it began, in seconds since 1970.
    pub from_unix_s: u64,
    /// When it had ended: the same for something that took no time.
    pub to_unix_s: u64,
    /// What it was.
    pub text: String,
}

impl Annotation {
    /// Parses `TIME=TEXT`, or `TIME/TIME=TEXT` for something that took a while.
    pub fn parse(text: &str) -> Result<Annotation, String> {
        let wrong = || {
            format!(
                "expected TIME=TEXT or TIME/TIME=TEXT, found `{text}`; a time is 2026-11-21, 2026-11-21T10:00Z or \
                 2026-11-21T10:00:30Z"
            )
        };
        let (times, text) = text.split_once('=').ok_or_else(wrong)?;
        let (from, to) = times.split_once('/').unwrap_or((times, times));
        let (from_unix_s, to_unix_s) = parse_utc(from).zip(parse_utc(to)).ok_or_else(wrong)?;
        let is_right = from_unix_s <= to_unix_s && !text.trim().is_empty();
        is_right
            .then(|| Annotation { from_unix_s, to_unix_s, text: text.trim().to_owned() })
            .ok_or_else(wrong)
    }
}

/// Whole days on each side from which on there is a verdict: with fewer, one bad day decides it.
pub const DAYS_MIN: usize = 6;

/// Days on each side that are compared at most: a service of two months ago was another one.
const DAYS_MAX: usize = 28;

/// A day counts with at least this share of its points.
const DAY_SHARE_MIN: f64 = 0.75;

/// What the annotations have changed in the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WeeksReport {
    /// Relative differences below this do not matter.
    pub band: f64,
    /// The annotations, the oldest first.
    pub annotations: Vec<Annotation>,
    /// Each figure before and after each annotation.
    pub changes: Vec<ServiceChange>,
}

/// A figure before and after an annotation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceChange {
    /// The figure's name.
    pub name: String,
    /// Which values are good, if that is known.
    pub better: Option<Better>,
    /// The place of the annotation.
    pub annotation: usize,
    /// The median of the whole days before, since the annotation before; `None` without any.
    pub before: Option<f64>,
    /// The median of the whole days after, until the next annotation.
    pub after: Option<f64>,
    /// How many days these are.
    pub days: [usize; 2],
    /// The ratio of after to before, without what days of the week differ by; `None` with too few days, or with values that
    /// are zero.
    pub ratio: Option<Interval>,
    /// The probability of as much without a change, in any of the comparisons; 1 without a ratio.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares each figure before and after each annotation. All intervals hold together with 95 %.
pub fn compare_weeks(series: &[ServiceSeries], annotations: &[Annotation], band: f64) -> WeeksReport {
    let mut annotations = annotations.to_vec();
    annotations.sort_by_key(|annotation| annotation.from_unix_s);
    let comparisons = series.len() * annotations.len();
    let change =
        |(series, place): (&ServiceSeries, usize)| change(series, &annotations, place, (band, comparisons));
    let each = |series| (0..annotations.len()).map(move |place| (series, place));
    let changes = series.iter().flat_map(each).map(change).collect();
    WeeksReport { band, annotations, changes }
}

fn change(
    series: &ServiceSeries,
    annotations: &[Annotation],
    place: usize,
    (band, comparisons): (f64, usize),
) -> ServiceChange {
    let [before, after] = sides(series, annotations, place);
    let middle = |days: &[(u64, f64)]| {
        let values: Vec<f64> = days.iter().map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let mut change = ServiceChange {
        name: series.name.clone(),
        better: better(&series.name),
        annotation: place,
        before: middle(&before),
        after: middle(&after),
        days: [before.len(), after.len()],
        ratio: None,
        p: 1.0,
        verdict: Verdict::NotCompared,
    };
    if before.len().min(after.len()) < DAYS_MIN {
        change.verdict = Verdict::TooFewDays;
    } else if let Some(effect) = effect::effect(&before, &after, comparisons) {
        change.ratio = Some(effect.interval.exp());
        change.p = effect.p;
        change.verdict = match (effect.interval, change.better) {
            (interval, _) if interval.is_within(band.ln_1p()) => Verdict::Equivalent,
            _ if effect.p > stdx::statistics::ALPHA => Verdict::NoDifferenceShown,
            (_, None) => Verdict::Different,
            (interval, Some(better)) if (interval.high < 0.0) == (better == Better::Lower) => Verdict::Better,
            _ => Verdict::Worse,
        };
    }
    change
}

/// Days and their medians.
type Days = Vec<(u64, f64)>;

/// The whole days before an annotation and after it, up to its neighbours.
fn sides(series: &ServiceSeries, annotations: &[Annotation], place: usize) -> [Days; 2] {
    let days = whole_days(&series.points);
    let begin = |day: u64| day * DAY_S;
    let is_quiet = |day: u64| {
        let touches = |it: &&Annotation| it.from_unix_s < begin(day + 1) && it.to_unix_s >= begin(day);
        // What begins or ends with the day does not touch it.
        !annotations.iter().filter(touches).any(|it| it.from_unix_s > begin(day) || it.to_unix_s > begin(day))
    };
    let since = annotations[..place].iter().map(|it| it.to_unix_s).max().unwrap_or(0);
    let until = annotations.get(place + 1).map_or(u64::MAX, |it| it.from_unix_s);
    let own = &annotations[place];
    let quiet: Days = days.into_iter().filter(|(day, _)| is_quiet(*day)).collect();
    let within = |from: u64, to: u64| -> Days {
        quiet.iter().copied().filter(|(day, _)| begin(*day) >= from && begin(day + 1) <= to).collect()
    };
    let (mut before, mut after) = (within(since, own.from_unix_s), within(own.to_unix_s, until));
    before.drain(..before.len().saturating_sub(DAYS_MAX));
    after.truncate(DAYS_MAX);
    [before, after]
}

/// The median of each day that has most of its points.
pub(crate) fn whole_days(points: &[(u64, f64)]) -> Days {
    let gaps: Vec<f64> = points.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64).collect();
    if gaps.is_empty() {
        return Vec::new();
    }
    let full = DAY_S as f64 / median(&gaps);
    let days = points.chunk_by(|a, b| a.0 / DAY_S == b.0 / DAY_S);
    let whole = days.filter(|day| day.len() as f64 >= full * DAY_SHARE_MIN);
    let middle = |day: &[(u64, f64)]| {
        let values: Vec<f64> = day.iter().map(|(_, value)| *value).collect();
        (day[0].0 / DAY_S, median(&values))
    };
    whole.map(middle).collect()
}

#[cfg(test)]
mod tests;
