//! Outlook of a resource: whether it binds, when it will, or why that is not known.

use stdx::calendar::{DAY_S, utc};

use super::{NoTrend, ResourceState, TREND_DAYS_MIN, UseTrend};

/// Weeks beyond which nothing is foretold.
pub const OUTLOOK_WEEKS_MAX: f64 = 52.0;

/// When a resource binds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UseOutlook {
    /// The cloud has held packets back: it binds now, whatever the figures say.
    AllowanceMet,
    /// The limit is reached.
    Reached,
    /// Full, as a cache is meant to be.
    Full,
    /// It grows, and reaches the limit in so many weeks.
    Binds {
        /// With the fastest growth of the interval.
        soonest: f64,
        /// With the growth found.
        middle: f64,
        /// With the slowest; none if that is beyond what is foretold.
        latest: Option<f64>,
    },
    /// Whether it grows is not sure; if it does, not before so many weeks.
    NotBefore(f64),
    /// Not within [`OUTLOOK_WEEKS_MAX`], even with the fastest growth.
    NotForAYear,
    /// There is no trend: history is missing.
    NoTrend(NoTrend),
    /// Nobody was asked for history.
    NoHistoryAsked,
    /// The limit is not known.
    NoLimit,
    /// The use is not known.
    NoUse,
}

/// When a resource binds.
pub fn outlook(state: &ResourceState) -> UseOutlook {
    if !state.met.is_empty() {
        return UseOutlook::AllowanceMet;
    }
    let Some(used) = state.most_used() else { return UseOutlook::NoUse };
    let Some(limit) = &state.limit else { return UseOutlook::NoLimit };
    if used >= limit.value * if state.resource.may_be_full() { FULL } else { 1.0 } {
        return if state.resource.may_be_full() { UseOutlook::Full } else { UseOutlook::Reached };
    }
    match state.trend {
        None => UseOutlook::NoHistoryAsked,
        Some(Err(why)) => UseOutlook::NoTrend(why),
        Some(Ok(trend)) => foretold(&trend, used, limit.value),
    }
}

/// `2026-11-21` of a date with a time.
const DATE_LEN: usize = 10;

/// A server evicts a little below its limit, since it keeps some segments free.
const FULL: f64 = 0.97;

fn foretold(trend: &UseTrend, used: f64, limit: f64) -> UseOutlook {
    let left = limit - used;
    let weeks = |per_week: f64| {
        let growth = per_week * trend.level;
        (growth > 0.0).then(|| left / growth).filter(|weeks| *weeks <= OUTLOOK_WEEKS_MAX)
    };
    let range = trend.per_week;
    match (weeks(range.high), range.low > 0.0) {
        (None, _) => UseOutlook::NotForAYear,
        (Some(soonest), false) => UseOutlook::NotBefore(soonest),
        (Some(soonest), true) => UseOutlook::Binds {
            soonest,
            middle: left / (range.middle * trend.level),
            latest: weeks(range.low),
        },
    }
}

impl UseOutlook {
    /// What binds soonest comes first; what is not known comes behind what is known.
    pub fn order(&self) -> f64 {
        match self {
            Self::AllowanceMet => -2.0,
            Self::Reached => -1.0,
            Self::Binds { middle, .. } => *middle,
            Self::NotBefore(weeks) => OUTLOOK_WEEKS_MAX + weeks,
            Self::NotForAYear => 3.0 * OUTLOOK_WEEKS_MAX,
            Self::Full => 4.0 * OUTLOOK_WEEKS_MAX,
            Self::NoTrend(_) | Self::NoHistoryAsked => 5.0 * OUTLOOK_WEEKS_MAX,
            Self::NoLimit | Self::NoUse => 6.0 * OUTLOOK_WEEKS_MAX,
        }
    }

    /// For programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::AllowanceMet => "allowance_met",
            Self::Reached => "reached",
            Self::Full => "full",
            Self::Binds { .. } => "binds",
            Self::NotBefore(_) => "not_before",
            Self::NotForAYear => "not_for_a_year",
            Self::NoTrend(_) | Self::NoHistoryAsked => "no_trend",
            Self::NoLimit => "limit_unknown",
            Self::NoUse => "use_unknown",
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::AllowanceMet => "binds now: the cloud has held packets back".to_owned(),
            Self::Reached => "binds now: the limit is reached".to_owned(),
            Self::Full => "full, and evicts".to_owned(),
            Self::Binds { soonest, middle, latest } => binds_words(*soonest, *middle, *latest),
            Self::NotBefore(weeks) => {
                format!("not before {}; whether it grows is not sure", weeks_words(weeks.floor()))
            }
            Self::NotForAYear => "not before a year".to_owned(),
            Self::NoTrend(why) => why.words(),
            Self::NoHistoryAsked => "no trend: no history (--prometheus)".to_owned(),
            Self::NoLimit => "the limit is not known".to_owned(),
            Self::NoUse => "the use is not known".to_owned(),
        }
    }
}

impl NoTrend {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::NoHistory => "no trend: there is no history of it".to_owned(),
            Self::TooShort { days, since: None } => {
                format!("no trend: {} of history, {TREND_DAYS_MIN} are needed", days_words(days))
            }
            Self::TooShort { days, since: Some(day) } => format!(
                "no trend: {} since the step on {}, {TREND_DAYS_MIN} are needed",
                days_words(days),
                &utc(day * DAY_S)[..DATE_LEN]
            ),
        }
    }
}

fn days_words(days: usize) -> String {
    stdx::words::counted(days, "day")
}

fn binds_words(soonest: f64, middle: f64, latest: Option<f64>) -> String {
    let about = weeks_words(middle.round());
    let (from, to) = (soonest.floor(), latest.map(f64::ceil));
    match to {
        _ if middle < 1.0 => "binds within a week".to_owned(),
        Some(to) if from == to || to <= 1.0 => format!("binds in {about}"),
        Some(to) => format!("binds in {about} ({from} to {to})"),
        None if middle <= OUTLOOK_WEEKS_MAX => format!("binds in {about} ({from} to more than a year)"),
        None => format!("binds in more than a year, {from} weeks at the soonest"),
    }
}

fn weeks_words(weeks: f64) -> String {
    stdx::words::counted(weeks as usize, "week")
}

#[cfg(test)]
mod tests {
    use super::super::{AllowanceMet, GrowthRange, UseLimit, UsedResource};
    use super::*;

    fn state(used: f64, limit: Option<f64>, trend: Option<Result<UseTrend, NoTrend>>) -> ResourceState {
        let limit = limit.map(|value| UseLimit { value, source: "a test".into() });
        ResourceState { used: Some(used), limit, trend, ..ResourceState::unknown(UsedResource::Packets) }
    }

    fn grows(level: f64, low: f64, middle: f64, high: f64) -> Option<Result<UseTrend, NoTrend>> {
        let per_week = GrowthRange { low, middle, high };
        Some(Ok(UseTrend { level, per_week, days: 28, since: None }))
    }

    #[track_caller]
    fn check(state: &ResourceState, words: &str) {
        assert_eq!(outlook(state).words(), words);
    }

    #[test]
    fn growth_says_when_and_how_sure_that_is() {
        check(&state(50.0, Some(100.0), grows(50.0, 0.1, 0.2, 0.4)), "binds in 5 weeks (2 to 10)");
        check(
            &state(50.0, Some(100.0), grows(50.0, 0.01, 0.1, 0.4)),
            "binds in 10 weeks (2 to more than a year)",
        );
        check(&state(90.0, Some(100.0), grows(90.0, 0.1, 0.2, 0.3)), "binds within a week");
        check(
            &state(50.0, Some(100.0), grows(50.0, -0.1, 0.05, 0.2)),
            "not before 5 weeks; whether it grows is not sure",
        );
        check(&state(50.0, Some(100.0), grows(50.0, -0.01, 0.0, 0.01)), "not before a year");
        check(&state(50.0, Some(100.0), grows(50.0, -0.3, -0.2, -0.1)), "not before a year");
        check(
            &state(50.0, Some(100.0), grows(50.0, 0.001, 0.01, 0.03)),
            "binds in more than a year, 33 weeks at the soonest",
        );
    }

    #[test]
    fn what_is_used_now_and_more_than_ever_counts() {
        check(&state(100.0, Some(100.0), grows(50.0, 0.0, 0.0, 0.0)), "binds now: the limit is reached");
        assert_eq!(state(10.0, Some(100.0), grows(50.0, 0.0, 0.0, 0.0)).share(), Some(0.5));
    }

    #[test]
    fn an_allowance_is_proof_whatever_the_figures_say() {
        let mut met = state(1.0, Some(100.0), grows(1.0, 0.0, 0.0, 0.0));
        met.met.push(AllowanceMet { name: "pps".into(), packets: Some(7.0), when: "in 10 s".into() });
        check(&met, "binds now: the cloud has held packets back");
        assert!(outlook(&met).order() < UseOutlook::Reached.order());
    }

    #[test]
    fn memory_of_a_cache_may_be_full() {
        let memory = ResourceState { resource: UsedResource::Memory, ..state(98.0, Some(100.0), None) };
        check(&memory, "full, and evicts");
    }

    #[test]
    fn what_is_not_known_is_said() {
        check(&state(1.0, None, None), "the limit is not known");
        check(&state(1.0, Some(2.0), None), "no trend: no history (--prometheus)");
        let short = Some(Err(NoTrend::TooShort { days: 3, since: None }));
        check(&state(1.0, Some(2.0), short), "no trend: 3 days of history, 14 are needed");
        let step = Some(Err(NoTrend::TooShort { days: 1, since: Some(20_000) }));
        check(&state(1.0, Some(2.0), step), "no trend: 1 day since the step on 2024-10-04, 14 are needed");
        check(&ResourceState::unknown(UsedResource::Cpu), "the use is not known");
        let nothing = state(1.0, Some(0.0), None);
        assert_eq!(nothing.share(), None);
    }
}
