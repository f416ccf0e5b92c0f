//! Lateness of a thread that wakes up, and its compensation in an open loop.
//!
//! A thread that sleeps until a request is due wakes up some tens of microseconds later: the processor has to leave its
//! idle state, and a virtual one has to be given back first. What it takes here is learnt from each sleep. Then the thread
//! can sleep for that much less, and look at the clock for the rest of the time. Pure: time is given.

/// The lateness learnt so far.
#[derive(Debug, Default)]
pub(crate) struct Waking {
    /// All but a few wakings are less late than this.
    lead_ns: u64,
    /// The request before which there was last a choice.
    target_ns: u64,
    /// In the present period: for how long this thread would have been awake before requests.
    wanted_ns: u64,
    period_end_ns: u64,
    /// In the last one it was too long.
    is_too_much: bool,
}

/// A waking that is later is an accident, which cannot be made up for.
const LEAD_MAX_NS: u64 = 250_000;
/// One in this many wakings or a little more is later than learnt: latencies are reported to the 99.9th percentile,
/// and a run is not believed if its 99th percentile of lateness is too high.
const FORGET: u64 = 2048;
/// The largest share of the time, as a divisor, for which a thread stays awake before requests: where they are so frequent,
/// that costs more than it brings. What the requests themselves take is not counted out, or a thread that is busy with them
/// would seem to have little left to stay awake for: at 50,000 requests per second it cost a tenth more CPU time.
const SHARE_MAX: u64 = 2;
const PERIOD_NS: u64 = 100_000_000;

impl Waking {
    /// A sleep ended this much later than it should have.
    pub(crate) fn woke(&mut self, late_ns: u64) {
        let late_ns = late_ns.min(LEAD_MAX_NS);
        match late_ns.checked_sub(self.lead_ns) {
            Some(more_ns) => self.lead_ns += more_ns.div_ceil(2),
            None => self.lead_ns -= self.lead_ns.div_ceil(FORGET),
        }
    }

    /// How much earlier than necessary to wake up, so as not to be late.
    pub(crate) fn lead_ns(&self) -> u64 {
        self.lead_ns
    }

    /// For this long before a request that is due at `target_ns` the thread does not sleep.
    pub(crate) fn awake_ns(&mut self, now_ns: u64, target_ns: u64) -> u64 {
        if now_ns >= self.period_end_ns {
            self.is_too_much = self.wanted_ns * SHARE_MAX > PERIOD_NS;
            (self.wanted_ns, self.period_end_ns) = (0, now_ns + PERIOD_NS);
        }
        if target_ns != self.target_ns {
            self.wanted_ns += self.lead_ns.min(target_ns.saturating_sub(self.target_ns));
            self.target_ns = target_ns;
        }
        if self.is_too_much { 0 } else { self.lead_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    #[test]
    fn nearly_all_wakings_are_less_late_than_what_was_learnt() {
        let mut prng = Prng::new(1);
        // Exponential: 50 µs on average, one in a hundred 230.
        let mut late_ns = |mean: f64| (-(1.0 - prng.unit()).ln() * mean) as u64;
        let mut waking = Waking::default();
        for mean in [10_000.0, 30_000.0, 5_000.0] {
            (0..5_000).for_each(|_| waking.woke(late_ns(mean)));
            let missed = (0..5_000).filter(|_| {
                let late_ns = late_ns(mean);
                let is_missed = late_ns > waking.lead_ns();
                waking.woke(late_ns);
                is_missed
            });
            let missed = missed.count();
            assert!((1..60).contains(&missed), "{mean}: {missed} of 5000, {} ns", waking.lead_ns());
        }
        waking.woke(u64::MAX);
        assert!(waking.lead_ns() <= LEAD_MAX_NS);
    }

    #[test]
    fn nobody_stays_awake_for_most_of_the_time() {
        let awake = |every_ns: u64| {
            let mut waking = Waking::default();
            (0..50).for_each(|_| waking.woke(80_000));
            let awake = (1..100_000_000_u64 * 5 / every_ns).map(|request| {
                let target_ns = request * every_ns;
                // It is asked twice, because a reply has come meanwhile.
                waking.awake_ns(target_ns - every_ns, target_ns);
                waking.awake_ns(target_ns - every_ns / 2, target_ns)
            });
            let last = awake.last().expect("requests");
            last > 0
        };
        assert!(awake(1_000_000) && awake(500_000) && awake(200_000));
        assert!(!awake(100_000) && !awake(20_000));
    }

    #[test]
    fn a_thread_that_sends_for_half_of_the_time_sleeps_for_the_rest() {
        let mut waking = Waking::default();
        (0..50).for_each(|_| waking.woke(80_000));
        // Each is sent for 12 of the 20 µs between two of them.
        let awake =
            (1..50_000_u64).map(|request| waking.awake_ns(request * 20_000 - 8_000, request * 20_000));
        assert_eq!(awake.last(), Some(0));
    }
}
