//! Warm-up of a new member in a slot: its end by hit ratio, or by time.

use stdx::clock::Now;

use super::budget::UnitShare;

/// Warm is within one point of the peers.
const WITHIN: f64 = 0.01;
/// Gets in a window that prove a ratio: at 0.95 the standard error is 0.2 points.
const GETS_MIN: u64 = 10_000;
/// Windows in a row: the hottest keys come first, and one burst of them is no proof.
const WINDOWS: u32 = 2;
/// A member that learns an item with every get is full after 35 minutes; the rest is for the skew of its keys.
const WARM_UP_MAX_MS: u64 = 3_600_000;

/// Gets of a member since its process was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HitCounts {
    /// Found.
    pub hits: u64,
    /// Not found.
    pub misses: u64,
}

impl HitCounts {
    /// The difference; none if the process was started again.
    fn since(self, before: HitCounts) -> Option<HitCounts> {
        let hits = self.hits.checked_sub(before.hits)?;
        Some(HitCounts { hits, misses: self.misses.checked_sub(before.misses)? })
    }

    fn ratio(self) -> Option<f64> {
        let gets = self.hits.saturating_add(self.misses);
        (gets >= GETS_MIN).then(|| self.hits as f64 / gets as f64)
    }
}

/// The state of a warm-up.
#[derive(Clone, Debug, PartialEq)]
pub enum WarmUpStep {
    /// Not warm yet. The warmth is unknown before there is evidence.
    Warming {
        /// Its hit ratio as a part of its peers'.
        warmth: Option<UnitShare>,
    },
    /// As warm as its peers.
    Warm,
    /// Not as warm as its peers, and all that its source had has expired: asking it on costs a request for each miss.
    SourceEmpty,
    /// The time is over.
    TimedOut {
        /// What was seen last, for people.
        note: String,
    },
}

/// The warm-up of one member. Once over, it stays over.
#[derive(Clone, Debug)]
pub struct WarmUp {
    since: Now,
    source_lasts_ms: Option<u64>,
    window: Option<(HitCounts, HitCounts)>,
    windows: u32,
    warmth: Option<UnitShare>,
    end: Option<WarmUpStep>,
}

impl WarmUp {
    /// It has the slot since now.
    pub fn new(now: Now) -> WarmUp {
        WarmUp { since: now, source_lasts_ms: None, window: None, windows: 0, warmth: None, end: None }
    }

    /// It has the slot since now, and is warmed from a gutter, which gets nothing more for this slot.
    pub fn from_gutter(now: Now, exptime_s: u32) -> WarmUp {
        WarmUp { source_lasts_ms: Some(u64::from(exptime_s) * 1000), ..WarmUp::new(now) }
    }

    /// Takes counts of the member, and the sum of its peers'.
    pub fn step(&mut self, now: Now, own: HitCounts, peers: HitCounts) -> WarmUpStep {
        if let Some(end) = &self.end {
            return end.clone();
        }
        self.compare(own, peers);
        let age_ms = now.ms().saturating_sub(self.since.ms());
        if self.windows >= WINDOWS {
            self.end = Some(WarmUpStep::Warm);
        } else if self.source_lasts_ms.is_some_and(|lasts_ms| age_ms >= lasts_ms) {
            self.end = Some(WarmUpStep::SourceEmpty);
        } else if age_ms >= WARM_UP_MAX_MS {
            let seen = self.warmth.map_or("too few gets to tell its hit ratio".to_owned(), |warmth| {
                format!("its hit ratio is {:.3} of its peers'", warmth.get())
            });
            let minutes = WARM_UP_MAX_MS / 60_000;
            let note = format!(
                "warm-up ended after {minutes} min although the member is not as warm as its peers: {seen}; compare its \
                 evictions and memory with theirs"
            );
            self.end = Some(WarmUpStep::TimedOut { note });
        }
        self.end.clone().unwrap_or(WarmUpStep::Warming { warmth: self.warmth })
    }

    /// Ends the window if both sides have enough in it.
    fn compare(&mut self, own: HitCounts, peers: HitCounts) {
        let (own_before, peers_before) = *self.window.get_or_insert((own, peers));
        let Some(own_window) = own.since(own_before) else {
            // Started again, so empty again.
            (self.window, self.windows, self.warmth) = (Some((own, peers)), 0, UnitShare::new(0.0));
            return;
        };
        let Some(peers_window) = peers.since(peers_before) else {
            self.window = Some((own, peers));
            return;
        };
        let (Some(own_ratio), Some(peers_ratio)) = (own_window.ratio(), peers_window.ratio()) else { return };
        self.window = Some((own, peers));
        // Peers without hits are no measure of warmth.
        self.warmth = UnitShare::new((own_ratio / peers_ratio.max(f64::MIN_POSITIVE)).min(1.0));
        self.windows =
            if own_ratio + WITHIN >= peers_ratio && peers_ratio > 0.0 { self.windows + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of (own hits, own misses) beside peers with 95 of 100 hits, one a minute.
    #[track_caller]
    fn check(windows: &[(u64, u64)], expected: &str) {
        let mut warm_up = WarmUp::new(Now::at_ms(0));
        let (mut own, mut peers) = (HitCounts::default(), HitCounts::default());
        warm_up.step(Now::at_ms(0), own, peers);
        let mut step = WarmUpStep::Warm;
        for (minute, (hits, misses)) in windows.iter().enumerate() {
            own = HitCounts { hits: own.hits + hits, misses: own.misses + misses };
            peers = HitCounts { hits: peers.hits + 95_000, misses: peers.misses + 5_000 };
            step = warm_up.step(Now::at_ms((minute as u64 + 1) * 60_000), own, peers);
        }
        let found = format!("{step:?};");
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn a_member_is_warm_after_two_windows_near_its_peers() {
        check(&[(9_410, 590)], "Warming");
        check(&[(9_410, 590), (9_410, 590)], "Warm;");
        check(&[(9_410, 590), (9_390, 610), (9_410, 590)], "Warming { warmth: Some(UnitShare(0.990");
        check(&[(5_000, 5_000)], "0.526");
    }

    #[test]
    fn few_gets_prove_nothing_and_add_up() {
        check(&[(4_999, 0)], "Warming { warmth: None }");
        check(&[(5_000, 0), (5_000, 0), (5_000, 0), (5_000, 0)], "Warm;");
        check(&[(0, 0); 59], "Warming { warmth: None }");
    }

    #[test]
    fn a_warm_up_ends_after_an_hour_with_a_note() {
        check(&[(5_000, 5_000); 60], "its hit ratio is 0.526 of its peers'");
        check(&[(0, 0); 60], "too few gets to tell");
    }

    #[test]
    fn a_gutter_warms_until_its_items_have_expired() {
        let mut warm_up = WarmUp::from_gutter(Now::at_ms(5_000), 60);
        let counts = |hits, misses| HitCounts { hits, misses };
        let step = |warm_up: &mut WarmUp, at_ms: u64| {
            warm_up.step(Now::at_ms(at_ms), counts(at_ms, at_ms), counts(at_ms * 19, at_ms))
        };
        assert!(matches!(step(&mut warm_up, 64_999), WarmUpStep::Warming { .. }));
        assert_eq!(step(&mut warm_up, 65_000), WarmUpStep::SourceEmpty);
        assert_eq!(step(&mut warm_up, 65_001), WarmUpStep::SourceEmpty, "it stays over");
    }

    #[test]
    fn a_member_that_was_started_again_is_cold_again() {
        let mut warm_up = WarmUp::new(Now::at_ms(0));
        let counts = |hits, misses| HitCounts { hits, misses };
        let peers = |minute: u64| counts(minute * 95_000, minute * 5_000);
        warm_up.step(Now::at_ms(0), counts(0, 0), peers(0));
        warm_up.step(Now::at_ms(1), counts(10_000, 0), peers(1));
        let step = warm_up.step(Now::at_ms(2), counts(9_000, 0), peers(2));
        assert_eq!(step, WarmUpStep::Warming { warmth: UnitShare::new(0.0) });
        warm_up.step(Now::at_ms(3), counts(19_000, 0), peers(3));
        assert_eq!(warm_up.step(Now::at_ms(4), counts(29_000, 0), peers(4)), WarmUpStep::Warm);
        assert_eq!(warm_up.step(Now::at_ms(5), counts(0, 0), peers(4)), WarmUpStep::Warm, "it stays over");
    }

    #[test]
    fn peers_without_hits_prove_no_warmth() {
        let mut warm_up = WarmUp::new(Now::at_ms(0));
        for minute in 0..10 {
            let all_missed = HitCounts { hits: 0, misses: minute * 20_000 };
            let step = warm_up.step(Now::at_ms(minute), all_missed, all_missed);
            assert!(matches!(step, WarmUpStep::Warming { .. }), "{step:?}");
        }
    }
}
