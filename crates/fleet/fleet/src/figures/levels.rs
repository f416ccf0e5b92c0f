//! Service levels: requests and errors of views and of their pools, and failovers of views, by the minute, for a day.

use std::collections::BTreeMap;

use crate::ViewName;

/// Minutes that are kept: a day.
pub const MINUTES_KEPT: usize = 1440;
/// Views and pools whose minutes are kept, 12 KB each, and 12 KB more of a view whose failovers are told. What comes beyond is counted as
/// left out.
pub const LEVELS_MAX: usize = 1024;
/// Minutes that stand for now: with fewer, some routers' turns are missing.
const NOW_MINUTES: u64 = 5;

/// Of all routers of a view: what clients asked them, or what they asked the servers of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LevelName {
    view: ViewName,
    /// None for what clients asked.
    pool: Option<Box<str>>,
}

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelPlace(u16);

/// Requests of a minute, and those of them that went wrong; `f32::NAN` if none is known.
#[derive(Clone, Copy, Debug)]
struct Minute {
    requests: f32,
    errors: f32,
}

const UNKNOWN: Minute = Minute { requests: f32::NAN, errors: f32::NAN };

/// A day of a row.
struct Level {
    name: LevelName,
    answered: Day,
    /// Requests of clients of those routers that tell their failovers, and these in place of errors; none before any has.
    failovers: Option<Day>,
    counts: [u64; 3],
}

/// Minutes of a day.
struct Day {
    minutes: Box<[Minute]>,
    /// The last minute that something was counted in, of those since the controller's clock began.
    newest: u64,
    /// From when on, and until when, in milliseconds.
    since_ms: u64,
    until_ms: u64,
}

/// All rows.
#[derive(Default)]
pub(super) struct ServiceLevels {
    places: BTreeMap<LevelName, LevelPlace>,
    levels: Vec<Level>,
    left_out: u64,
}

/// What has happened to the requests of a row since the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelGrowth {
    /// The interval, in milliseconds by the controller's clock.
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) timeouts: u64,
}

/// A row for people and programs. What is not known is none.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelRow<'l> {
    /// Of its routers.
    pub view: &'l ViewName,
    /// The pool whose servers were asked; none for what clients asked.
    pub pool: Option<&'l str>,
    /// In the last five minutes.
    pub requests_per_s: Option<f64>,
    /// Share of the requests that were answered well, in the last five minutes.
    pub availability_5min: Option<f64>,
    /// In the last hour.
    pub availability_1h: Option<f64>,
    /// In the last day.
    pub availability_24h: Option<f64>,
    /// Failovers over requests, in the last five minutes; none of a pool: a failover leads from one to another.
    pub failovers_5min: Option<f64>,
    /// In the last hour.
    pub failovers_1h: Option<f64>,
    /// In the last day.
    pub failovers_24h: Option<f64>,
    /// Requests since the controller began.
    pub requests: u64,
    /// Those of them that went wrong.
    pub errors: u64,
    /// Those of the errors that were not answered in time.
    pub timeouts: u64,
}

impl ServiceLevels {
    /// The place of a row, which begins with it if it is new. None if there is no room.
    pub(super) fn place(&mut self, view: &ViewName, pool: Option<&str>, now_ms: u64) -> Option<LevelPlace> {
        let name = LevelName { view: view.clone(), pool: pool.map(Into::into) };
        if let Some(place) = self.places.get(&name) {
            return Some(*place);
        }
        if self.levels.len() >= LEVELS_MAX {
            self.left_out += 1;
            return None;
        }
        let place = LevelPlace(u16::try_from(self.levels.len()).ok()?);
        let answered = Day::new(now_ms);
        self.levels.push(Level { name: name.clone(), answered, failovers: None, counts: [0; 3] });
        self.places.insert(name, place);
        Some(place)
    }

    /// Forgets rows of which nothing was heard for a day, if all places are taken. Whether places have changed: those that are
    /// remembered elsewhere are no longer right.
    pub(super) fn make_room(&mut self, now_ms: u64) -> bool {
        let (now, before) = (minute(now_ms), self.levels.len());
        if before < LEVELS_MAX {
            return false;
        }
        self.levels.retain(|level| level.answered.newest + MINUTES_KEPT as u64 > now);
        let name = |(place, level): (usize, &Level)| (level.name.clone(), LevelPlace(place as u16));
        self.places = self.levels.iter().enumerate().map(name).collect();
        self.levels.len() != before
    }

    /// Counts what has happened in an interval, evenly over its minutes.
    pub(super) fn count(&mut self, place: LevelPlace, growth: &LevelGrowth) {
        let Some(level) = self.levels.get_mut(usize::from(place.0)) else { return };
        for (sum, new) in level.counts.iter_mut().zip([growth.requests, growth.errors, growth.timeouts]) {
            *sum = sum.saturating_add(new);
        }
        level.answered.count(growth);
    }

    /// Counts failovers, which stand in the place of errors, or requests of a router that tells its failovers. Both have intervals of
    /// their own: a router's page is read at other times than its counters.
    pub(super) fn count_failovers(&mut self, place: LevelPlace, growth: &LevelGrowth) {
        let Some(level) = self.levels.get_mut(usize::from(place.0)) else { return };
        level.failovers.get_or_insert_with(|| Day::new(growth.from_ms)).count(growth);
    }

    /// All rows, by view and pool.
    pub(super) fn rows(&self, now_ms: u64) -> impl Iterator<Item = LevelRow<'_>> {
        let now = minute(now_ms);
        self.places.values().filter_map(move |place| {
            let level = self.levels.get(usize::from(place.0))?;
            let wrong = |day: &Day, minutes| {
                let (requests, wrong, _) = day.over(now, minutes)?;
                (requests > 0.0).then(|| wrong / requests)
            };
            let availability = |minutes| Some((1.0 - wrong(&level.answered, minutes)?).clamp(0.0, 1.0));
            let failovers = |minutes| wrong(level.failovers.as_ref()?, minutes);
            let [requests, errors, timeouts] = level.counts;
            Some(LevelRow {
                view: &level.name.view,
                pool: level.name.pool.as_deref(),
                requests_per_s: level
                    .answered
                    .over(now, NOW_MINUTES)
                    .filter(|(.., known_ms)| *known_ms > 0)
                    .map(|(requests, _, known_ms)| requests * 1000.0 / known_ms as f64),
                availability_5min: availability(NOW_MINUTES),
                availability_1h: availability(60),
                availability_24h: availability(MINUTES_KEPT as u64),
                failovers_5min: failovers(NOW_MINUTES),
                failovers_1h: failovers(60),
                failovers_24h: failovers(MINUTES_KEPT as u64),
                requests,
                errors,
                timeouts,
            })
        })
    }

    /// Rows that were wanted while there was no room, as often as they were.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Day {
    fn new(now_ms: u64) -> Day {
        let minutes = vec![UNKNOWN; MINUTES_KEPT].into_boxed_slice();
        Day { minutes, newest: minute(now_ms), since_ms: u64::MAX, until_ms: 0 }
    }

    /// Counts what has happened in an interval, evenly over its minutes.
    fn count(&mut self, growth: &LevelGrowth) {
        let LevelGrowth { from_ms, to_ms, requests, errors, .. } = *growth;
        // The end is no part of the interval.
        let last = minute(to_ms.saturating_sub(1).max(from_ms));
        self.advance(last);
        (self.since_ms, self.until_ms) = (self.since_ms.min(from_ms), self.until_ms.max(to_ms));
        let oldest = self.newest.saturating_sub(MINUTES_KEPT as u64 - 1);
        let whole_ms = to_ms.saturating_sub(from_ms);
        for at in minute(from_ms).max(oldest)..=last {
            let (begin, end) = ((at * 60_000).max(from_ms), ((at + 1) * 60_000).min(to_ms));
            let share = if whole_ms == 0 { 1.0 } else { end.saturating_sub(begin) as f64 / whole_ms as f64 };
            if share > 0.0 {
                self.minutes[(at % MINUTES_KEPT as u64) as usize]
                    .add(requests as f64 * share, errors as f64 * share);
            }
        }
    }

    /// Nothing is known of the minutes that have begun since.
    fn advance(&mut self, to: u64) {
        let first = (self.newest + 1).max(to.saturating_sub(MINUTES_KEPT as u64 - 1));
        for at in first..=to {
            self.minutes[(at % MINUTES_KEPT as u64) as usize] = UNKNOWN;
        }
        self.newest = self.newest.max(to);
    }

    /// Requests and errors of this minute and those before it, and how many milliseconds of them are known. None without any.
    fn over(&self, now: u64, minutes: u64) -> Option<(f64, f64, u64)> {
        let oldest =
            (now + 1).saturating_sub(minutes).max(self.newest.saturating_sub(MINUTES_KEPT as u64 - 1));
        let known = (oldest..=now.min(self.newest))
            .map(|at| (at, self.minutes[(at % MINUTES_KEPT as u64) as usize]))
            .filter(|(_, minute)| !minute.requests.is_nan());
        let known_ms = |at: u64| {
            let (begin, end) = ((at * 60_000).max(self.since_ms), ((at + 1) * 60_000).min(self.until_ms));
            end.saturating_sub(begin)
        };
        known.fold(None, |sum: Option<(f64, f64, u64)>, (at, minute)| {
            let (requests, errors, ms) = sum.unwrap_or_default();
            Some((
                requests + f64::from(minute.requests),
                errors + f64::from(minute.errors),
                ms + known_ms(at),
            ))
        })
    }
}

impl Minute {
    fn add(&mut self, requests: f64, errors: f64) {
        if self.requests.is_nan() {
            *self = Minute { requests: 0.0, errors: 0.0 };
        }
        self.requests = (f64::from(self.requests) + requests) as f32;
        self.errors = (f64::from(self.errors) + errors) as f32;
    }
}

fn minute(ms: u64) -> u64 {
    ms / 60_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    fn view() -> ViewName {
        "main".parse().expect("a name")
    }

    fn growth(from_s: u64, to_s: u64, requests: u64, errors: u64) -> LevelGrowth {
        LevelGrowth { from_ms: from_s * 1000, to_ms: to_s * 1000, requests, errors, timeouts: 0 }
    }

    /// Availability now, in the last hour and the last day.
    fn seen(levels: &ServiceLevels, now_s: u64) -> [Option<f64>; 3] {
        let row = levels.rows(now_s * 1000).next().expect("a row");
        [row.availability_5min, row.availability_1h, row.availability_24h]
    }

    #[test]
    fn errors_leave_each_window_in_its_time() {
        let mut levels = ServiceLevels::default();
        let place = levels.place(&view(), None, 0).expect("there is room");
        assert_eq!(seen(&levels, 0), [None; 3], "nothing was asked");
        for minute in 0..1500 {
            let errors = if minute < 1 { 60 } else { 0 };
            levels.count(place, &growth(minute * 60, minute * 60 + 60, 600, errors));
        }
        let levels_at = |minutes: u64| {
            let mut levels = ServiceLevels::default();
            let place = levels.place(&view(), None, 0).expect("there is room");
            (0..minutes).for_each(|minute| {
                levels.count(
                    place,
                    &growth(minute * 60, minute * 60 + 60, 600, if minute == 0 { 60 } else { 0 }),
                );
            });
            seen(&levels, minutes * 60 - 1)
        };
        assert_eq!(levels_at(1), [Some(0.9); 3]);
        assert_eq!(levels_at(6)[0], Some(1.0));
        assert!(levels_at(6)[1] < Some(1.0));
        assert_eq!(levels_at(61)[1], Some(1.0));
        assert!(levels_at(1440)[2] < Some(1.0));
        assert_eq!(seen(&levels, 1500 * 60 - 1), [Some(1.0); 3]);
    }

    #[test]
    fn failovers_are_shares_of_the_requests_of_those_that_tell_them() {
        let mut levels = ServiceLevels::default();
        let place = levels.place(&view(), None, 0).expect("there is room");
        let failovers = |levels: &ServiceLevels, now_s: u64| {
            let row = levels.rows(now_s * 1000).next().expect("a row");
            [row.failovers_5min, row.failovers_1h, row.failovers_24h]
        };
        levels.count(place, &growth(0, 60, 1000, 10));
        assert_eq!(failovers(&levels, 59), [None; 3], "none has told them");
        levels.count_failovers(place, &growth(0, 60, 500, 0));
        assert_eq!(failovers(&levels, 59), [Some(0.0); 3], "none is a number");
        levels.count_failovers(place, &growth(0, 60, 0, 750));
        assert_eq!(failovers(&levels, 59), [Some(1.5); 3], "a request may have several");
        assert_eq!(seen(&levels, 59), [Some(0.99); 3], "they are no errors");
        assert_eq!(failovers(&levels, 400), [None, Some(1.5), Some(1.5)], "each window in its time");
    }

    #[test]
    fn a_long_interval_is_spread_over_its_minutes() {
        let mut levels = ServiceLevels::default();
        let place = levels.place(&view(), Some("web"), 0).expect("there is room");
        // Nothing was heard for ten minutes.
        levels.count(place, &growth(30, 630, 6000, 60));
        let row = levels.rows(630_000).next().expect("a row");
        assert_eq!(row.availability_5min, Some(0.99));
        let rate = row.requests_per_s.expect("it is known");
        assert!((rate - 10.0).abs() < 0.01, "{rate}");
        assert_eq!((row.pool, row.requests, row.errors), (Some("web"), 6000, 60));
        // Two days later nothing of it counts.
        assert_eq!(seen(&levels, 2 * 86_400), [None; 3]);
    }

    #[test]
    fn a_moment_counts_whole_and_an_interval_of_days_in_its_last_day() {
        let mut levels = ServiceLevels::default();
        let place = levels.place(&view(), None, 0).expect("there is room");
        levels.count(place, &growth(90, 90, 10, 1));
        assert_eq!(seen(&levels, 90), [Some(0.9); 3]);
        levels.count(place, &growth(90, 90 + 3 * 86_400, 3_000_000, 0));
        assert_eq!(seen(&levels, 90 + 3 * 86_400), [Some(1.0); 3]);
    }

    #[test]
    fn what_is_counted_is_what_a_simple_sum_says() {
        let mut prng = Prng::new(3);
        let mut levels = ServiceLevels::default();
        let place = levels.place(&view(), None, 0).expect("there is room");
        let (mut at_s, mut all) = (0, Vec::new());
        for _ in 0..20_000 {
            let to_s = at_s + 1 + prng.below(40);
            let (requests, errors) = (prng.below(1000) + 1, prng.below(2));
            levels.count(place, &growth(at_s, to_s, requests, errors));
            all.push((at_s, to_s, requests as f64, errors as f64));
            at_s = to_s;
        }
        let now = at_s / 60;
        for (window, found) in [(5, 0), (60, 1), (1440, 2)] {
            let begin = (now + 1 - window) * 60;
            let (mut requests, mut errors) = (0.0, 0.0);
            for (from, to, more, wrong) in &all {
                let inside = to.saturating_sub(begin.max(*from)) as f64 / (to - from) as f64;
                requests += more * inside;
                errors += wrong * inside;
            }
            let availability = seen(&levels, at_s)[found].expect("it is known");
            assert!((availability - (1.0 - errors / requests)).abs() < 1e-6, "{window}: {availability}");
        }
    }

    #[test]
    fn rows_have_a_bound_and_old_ones_make_room() {
        let mut levels = ServiceLevels::default();
        let name = |number: usize| format!("p{number}");
        for number in 0..LEVELS_MAX {
            assert!(levels.place(&view(), Some(&name(number)), 0).is_some());
        }
        assert!(levels.place(&view(), None, 0).is_none() && levels.left_out() == 1);
        assert!(!levels.make_room(60_000), "all of them are young");
        let day_ms = 86_400_000;
        let place = levels.place(&view(), Some(&name(5)), 0).expect("it is there");
        levels.count(place, &growth(86_400, 86_400, 1, 0));
        assert!(levels.make_room(day_ms));
        assert_eq!(
            levels.rows(day_ms).map(|row| row.pool.map(str::to_owned)).collect::<Vec<_>>(),
            [Some(name(5))]
        );
        assert!(levels.place(&view(), None, day_ms).is_some());
    }
}
