//! Trend of a resource's use, from the largest value of each day.
//!
//! The unit is the day: what is used within one resembles itself, and its largest value is what a limit has to carry. Days of the same
//! weekday are compared with each other only (the slope of Sen and of Hirsch, of pairs that are whole weeks apart), so that a week that
//! has a weekend is no trend, whatever day the history begins and ends with. A median of slopes bears days that are unlike the others.
//! A step, such as a service that moved here, is no growth: what counts is the history since the last one.
//!
//! The line is straight. Two to twelve weeks do not tell whether growth is a share of what there is or the same each week.

use stdx::statistics::median;

/// The largest value of a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayPeak {
    /// Days since 1970.
    pub day: u64,
    /// The value.
    pub value: f64,
}

/// How a use grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UseTrend {
    /// What the busiest day of a week reaches now.
    pub level: f64,
    /// Growth of it in a week, as a share of it.
    pub per_week: GrowthRange,
    /// Days with a value since the last step, or in all.
    pub days: usize,
    /// The day of the last step, if there was one.
    pub since: Option<u64>,
}

/// A growth with the interval that holds it with about 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthRange {
    /// The low end.
    pub low: f64,
    /// The estimate.
    pub middle: f64,
    /// The high end.
    pub high: f64,
}

/// Why there is no trend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTrend {
    /// There are no points.
    NoHistory,
    /// Fewer days than [`TREND_DAYS_MIN`] in all, or since the last step.
    TooShort {
        /// Days with a value.
        days: usize,
        /// The day of the step.
        since: Option<u64>,
    },
}

/// Days that a trend needs: as many as have seven pairs that are whole weeks apart, whichever days are missing.
pub const TREND_DAYS_MIN: usize = 14;
/// Rounds in which line and weekdays are fitted in turns. From the third on they change nothing that is shown.
const ROUNDS: usize = 4;
/// A step has so many days on each side: a long weekend is none.
const SIDE_DAYS_MIN: usize = 4;
/// A step leaves less than this part of what a line leaves unexplained. Where there is only noise, the best of all steps leaves more.
const STEP_LEAVES: f64 = 0.5;
/// And it is at least this part of the larger side.
const STEP_LEAST: f64 = 0.08;
/// Steps are looked for in so many of the last days first, and then in twice as many, and so on: of two in a long history, neither alone
/// says much about all of it.
const STEP_DAYS: usize = 28;
/// Steps that are looked for: after one, in the rest.
const STEPS_MAX: usize = 4;
/// The highest correlation of successive days that is believed: with more the interval says nothing any more.
const CORRELATION_MAX: f64 = 0.9;
/// Standard errors of an interval of 95 %.
const NORMAL_95: f64 = 1.96;
const WEEK: u64 = 7;
const WEEKDAYS: usize = WEEK as usize;

/// The trend of a use. Days may be missing; of two values of one day the larger counts.
///
/// # Errors
/// Why there is none.
pub fn use_trend(peaks: &[DayPeak]) -> Result<UseTrend, NoTrend> {
    let mut peaks: Vec<DayPeak> =
        peaks.iter().copied().filter(|peak| peak.value.is_finite() && peak.value >= 0.0).collect();
    peaks.sort_by(|one, other| one.day.cmp(&other.day).then(other.value.total_cmp(&one.value)));
    peaks.dedup_by_key(|peak| peak.day);
    if peaks.is_empty() {
        return Err(NoTrend::NoHistory);
    }
    let (mut rest, mut since) = (&peaks[..], None);
    for _ in 0..STEPS_MAX {
        let Some(cut) = last_step(rest) else { break };
        rest = &rest[cut..];
        since = Some(rest[0].day);
    }
    if rest.len() < TREND_DAYS_MIN {
        return Err(NoTrend::TooShort { days: rest.len(), since });
    }
    Ok(trend_of(rest, since))
}

fn trend_of(peaks: &[DayPeak], since: Option<u64>) -> UseTrend {
    let days = peaks.len();
    let nothing = GrowthRange { low: 0.0, middle: 0.0, high: 0.0 };
    let Some(line) = WeekLine::through(peaks) else {
        return UseTrend { level: 0.0, per_week: nothing, days, since };
    };
    let busiest = line.season.iter().copied().fold(0.0, f64::max);
    let per_week = |slope: f64| slope * WEEK as f64 / line.now;
    let (low, high) = line.slopes(peaks);
    UseTrend {
        level: line.now * busiest,
        per_week: GrowthRange { low: per_week(low), middle: per_week(line.slope), high: per_week(high) },
        days,
        since,
    }
}

/// A straight line, times a factor of each weekday.
struct WeekLine {
    /// On the last day.
    now: f64,
    /// In a day.
    slope: f64,
    last: u64,
    /// 1 on average; 0 of a weekday on which nothing is used, or that has no day.
    season: [f64; WEEKDAYS],
}

impl WeekLine {
    /// None if nothing is used on most days.
    fn through(peaks: &[DayPeak]) -> Option<WeekLine> {
        let last = peaks.last()?.day;
        let mut line = WeekLine { now: 0.0, slope: 0.0, last, season: [1.0; WEEKDAYS] };
        for _ in 0..ROUNDS {
            let slopes = line.pair_slopes(peaks);
            line.slope = if slopes.is_empty() { 0.0 } else { median(&slopes) };
            let plain = line.plain(peaks);
            let at_end: Vec<f64> =
                plain.iter().map(|(day, value)| value - line.slope * back(last, *day)).collect();
            line.now = if at_end.is_empty() { 0.0 } else { median(&at_end) };
            if line.now <= 0.0 {
                return None;
            }
            let at = |day| line.at(day);
            line.season = season(peaks, at);
        }
        Some(line)
    }

    /// Without the factor of the weekday.
    fn at(&self, day: u64) -> f64 {
        // Growth that would begin below zero is that of something that was not there yet.
        (self.now + self.slope * back(self.last, day)).max(self.now * 0.01)
    }

    fn fitted(&self, day: u64) -> f64 {
        self.at(day) * self.season[weekday(day)]
    }

    /// Days without their weekday's factor; those on which nothing is ever used are left out.
    fn plain(&self, peaks: &[DayPeak]) -> Vec<(u64, f64)> {
        let used = peaks.iter().filter(|peak| self.season[weekday(peak.day)] > 0.0);
        used.map(|peak| (peak.day, peak.value / self.season[weekday(peak.day)])).collect()
    }

    fn pair_slopes(&self, peaks: &[DayPeak]) -> Vec<f64> {
        let used = pairs(peaks).filter(|(one, _)| self.season[weekday(one.day)] > 0.0);
        let slope = |(one, other): (&DayPeak, &DayPeak)| {
            (other.value - one.value) / self.season[weekday(one.day)] / (other.day - one.day) as f64
        };
        used.map(slope).collect()
    }

    /// The interval of the slope: by the ranks of the slopes, as of the seasonal test of Kendall, and wider where a day resembles the
    /// one before it beyond its weekday.
    fn slopes(&self, peaks: &[DayPeak]) -> (f64, f64) {
        let mut slopes = self.pair_slopes(peaks);
        slopes.sort_by(f64::total_cmp);
        let mut of_weekday = [0.0_f64; WEEKDAYS];
        peaks.iter().for_each(|peak| of_weekday[weekday(peak.day)] += 1.0);
        let variance: f64 = of_weekday.iter().map(|n| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sum();
        let reach = NORMAL_95 * variance.sqrt();
        let rank = |rank: f64| slopes[rank.clamp(0.0, slopes.len() as f64 - 1.0) as usize];
        let count = slopes.len() as f64;
        let (low, high) = (rank(((count - reach) / 2.0).floor() - 1.0), rank(((count + reach) / 2.0).ceil()));
        let correlation = self.correlation(peaks);
        let wider = ((1.0 + correlation) / (1.0 - correlation)).sqrt();
        (self.slope - (self.slope - low) * wider, self.slope + (high - self.slope) * wider)
    }

    /// Of what is left of successive days.
    fn correlation(&self, peaks: &[DayPeak]) -> f64 {
        let left: Vec<(u64, f64)> =
            peaks.iter().map(|peak| (peak.day, peak.value - self.fitted(peak.day))).collect();
        let all: f64 = left.iter().map(|(_, left)| left * left).sum();
        let next = left.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1);
        let together: f64 = next.map(|pair| pair[0].1 * pair[1].1).sum();
        // What is smaller than a millionth of the use is rounding.
        if all.sqrt() <= self.now * 1e-6 {
            return 0.0;
        }
        let (found, count) = (together / all, peaks.len() as f64);
        // It is found too small where line and weekdays were fitted to the same few days.
        (found + (1.0 + 4.0 * found) / count).clamp(0.0, CORRELATION_MAX)
    }

    /// How much it leaves unexplained.
    fn leaves(&self, peaks: &[DayPeak]) -> f64 {
        peaks.iter().map(|peak| (peak.value - self.fitted(peak.day)).abs()).sum()
    }
}

/// The first day after a step, of a history that may have several.
fn last_step(peaks: &[DayPeak]) -> Option<usize> {
    let mut days = STEP_DAYS;
    loop {
        let skipped = peaks.len().saturating_sub(days);
        match step_in(&peaks[skipped..]) {
            // Close to the beginning of the window the step may be before it.
            Some(cut) if cut >= WEEKDAYS || skipped == 0 => return Some(skipped + cut),
            _ if skipped == 0 => return None,
            _ => days *= 2,
        }
    }
}

/// Where the last part of a history begins that has another level than what is before it, if a step says more about it than a line.
fn step_in(peaks: &[DayPeak]) -> Option<usize> {
    let line = WeekLine::through(peaks)?;
    let cuts = SIDE_DAYS_MIN..=peaks.len().checked_sub(SIDE_DAYS_MIN)?;
    let steps = cuts.map(|cut| (cut, WeekStep::at(peaks, cut)));
    let (cut, step) = steps.min_by(|one, other| one.1.leaves.total_cmp(&other.1.leaves))?;
    let is_step = (step.after - step.before).abs() > STEP_LEAST * step.before.max(step.after)
        && step.leaves < STEP_LEAVES * line.leaves(peaks);
    is_step.then_some(cut)
}

/// Two levels, times a factor of each weekday.
struct WeekStep {
    before: f64,
    after: f64,
    leaves: f64,
}

impl WeekStep {
    fn at(peaks: &[DayPeak], cut: usize) -> WeekStep {
        let begins = peaks[cut].day;
        let level = |part: &[DayPeak], season: &[f64; WEEKDAYS]| {
            let used = part.iter().filter(|peak| season[weekday(peak.day)] > 0.0);
            let plain: Vec<f64> = used.map(|peak| peak.value / season[weekday(peak.day)]).collect();
            if plain.is_empty() { 0.0 } else { median(&plain) }
        };
        let mut season_now = [1.0; WEEKDAYS];
        let (mut before, mut after) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            (before, after) = (level(&peaks[..cut], &season_now), level(&peaks[cut..], &season_now));
            season_now = season(peaks, |day| if day < begins { before } else { after });
        }
        let fitted = |day: u64| if day < begins { before } else { after } * season_now[weekday(day)];
        let leaves = peaks.iter().map(|peak| (peak.value - fitted(peak.day)).abs()).sum();
        WeekStep { before, after, leaves }
    }
}

/// The factor of each weekday: the median of its days over what was fitted, 1 on average.
fn season(peaks: &[DayPeak], fitted: impl Fn(u64) -> f64) -> [f64; WEEKDAYS] {
    let mut ratios: [Vec<f64>; WEEKDAYS] = Default::default();
    for peak in peaks {
        let fitted = fitted(peak.day);
        if fitted > 0.0 {
            ratios[weekday(peak.day)].push(peak.value / fitted);
        }
    }
    let factors = ratios.map(|ratios| if ratios.is_empty() { 0.0 } else { median(&ratios) });
    let used: Vec<f64> = factors.into_iter().filter(|factor| *factor > 0.0).collect();
    let mean = used.iter().sum::<f64>() / used.len().max(1) as f64;
    factors.map(|factor| if mean > 0.0 { factor / mean } else { 0.0 })
}

/// Days that are whole weeks apart, the earlier one first.
fn pairs(peaks: &[DayPeak]) -> impl Iterator<Item = (&DayPeak, &DayPeak)> {
    peaks.iter().enumerate().flat_map(move |(at, one)| {
        let later = peaks[at + 1..].iter();
        later.filter(|other| (other.day - one.day).is_multiple_of(WEEK)).map(move |other| (one, other))
    })
}

fn weekday(day: u64) -> usize {
    (day % WEEK) as usize
}

/// From the last day to this one, as a number that is zero or negative.
fn back(last: u64, day: u64) -> f64 {
    -((last - day) as f64)
}

#[cfg(test)]
mod tests;
