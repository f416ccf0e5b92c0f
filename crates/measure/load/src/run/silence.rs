//! Silence of a server that does not answer any more, noticed where nothing else would end the run.

/// How long a server has not answered.
#[derive(Debug)]
pub(crate) struct Silence {
    looked_ns: u64,
    /// What was answered at the latest look.
    progress: u64,
    seconds: u64,
}

/// A server that answers nothing for this many seconds, while requests are pending, will not answer them. A failover
/// takes less, and so does a server that swaps.
pub(crate) const SECONDS_MAX: u64 = 30;
const LOOK_EVERY_NS: u64 = 1_000_000_000;

impl Silence {
    pub(crate) fn new(now_ns: u64) -> Silence {
        Silence { looked_ns: now_ns, progress: 0, seconds: 0 }
    }

    /// Whether it has lasted too long, now, with so much answered; `waits` is true while requests are pending. A turn
    /// counts as a second at most: a generator that was suspended has not waited.
    #[inline]
    pub(crate) fn is_too_long(&mut self, now_ns: u64, progress: u64, waits: impl FnOnce() -> bool) -> bool {
        if now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY_NS {
            return false;
        }
        self.looked_ns = now_ns;
        let has_heard = std::mem::replace(&mut self.progress, progress) != progress;
        self.seconds = if has_heard || !waits() { 0 } else { self.seconds + 1 };
        self.seconds >= SECONDS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second in which it lasts too long, of those in which something is on its way and something is heard.
    #[track_caller]
    fn check(waits: impl Fn(u64) -> bool, hears: impl Fn(u64) -> bool, expected: Option<u64>) {
        let mut silence = Silence::new(0);
        // Something was answered in the beginning.
        let mut progress = 1;
        let found = (1..200).find(|second| {
            progress += u64::from(hears(*second));
            // Turns between two looks change nothing.
            assert!(!silence.is_too_long((second - 1) * LOOK_EVERY_NS + 5, progress, || true));
            silence.is_too_long(second * LOOK_EVERY_NS, progress, || waits(*second))
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_server_is_given_up_after_its_time() {
        check(|_| true, |_| false, Some(SECONDS_MAX + 1));
        check(|_| true, |second| second == 100, Some(SECONDS_MAX + 1));
        check(|_| true, |second| second <= 10, Some(SECONDS_MAX + 10));
        check(|_| true, |second| second % SECONDS_MAX == 0, None);
        check(|_| false, |_| false, None);
        check(|second| second > 50, |_| false, Some(SECONDS_MAX + 50));
    }

    #[test]
    fn a_generator_that_was_suspended_has_not_waited() {
        let mut silence = Silence::new(0);
        assert!(!(1..10).any(|n| silence.is_too_long(n * 3600 * LOOK_EVERY_NS, 0, || true)));
    }
}
