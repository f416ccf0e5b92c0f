//! Steadiness of a member: the part of the last minutes in which it was away or late, and how often it fell.
//!
//! A verdict is about this moment, and each recovery would wipe away what was before: a member that is dead for four seconds
//! of eight would never be replaced.

use stdx::clock::Now;

use super::settings::HealthThresholds;
use super::verdict::MemberVerdict;

/// Two thirds of what is remembered come from this last time.
const MEMORY_MS: f32 = 64_000.0;
/// The longest step: a pass that comes late has not seen the time before it.
const STEP_MS_MAX: u64 = 2_000;
/// Falls in the window that make a member unsteady. Two are a restart that had to be done again.
pub(super) const FALLS: usize = 3;

/// What the three kinds of observers see in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenNow {
    /// The agent says that the process does not run.
    pub(super) agent: bool,
    /// The last probes from all zones have failed.
    pub(super) probes: bool,
    /// More than half of the routers do not ask it.
    pub(super) routers: bool,
    /// The last probes from most zones were answered late.
    pub(super) late: bool,
    /// One of the kinds is certain of it, so that this is not one lost packet.
    pub(super) is_away: bool,
}

/// What is remembered of a member. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steadiness {
    pub(super) agent: f32,
    pub(super) probes: f32,
    pub(super) routers: f32,
    pub(super) late: f32,
    was_away: bool,
    /// The last falls, the newest first.
    falls: [Option<Now>; FALLS],
}

impl Steadiness {
    /// Takes what was seen in a pass, so many milliseconds after the one before.
    pub(super) fn note(&mut self, now: Now, elapsed_ms: u64, seen: SeenNow) {
        let part = elapsed_ms.min(STEP_MS_MAX) as f32 / MEMORY_MS;
        for (share, is_seen) in [
            (&mut self.agent, seen.agent),
            (&mut self.probes, seen.probes),
            (&mut self.routers, seen.routers),
            (&mut self.late, seen.late),
        ] {
            *share += (if is_seen { 1.0 } else { 0.0 } - *share) * part;
        }
        if seen.is_away && !self.was_away {
            self.falls.rotate_right(1);
            self.falls[0] = Some(now);
        }
        self.was_away = seen.is_away;
    }

    /// The verdict of this moment, or a worse one because of the minutes before.
    pub(super) fn judge(
        &self,
        now: Now,
        verdict: MemberVerdict,
        settings: &HealthThresholds,
    ) -> MemberVerdict {
        use MemberVerdict as V;
        let reaches = |share: f32, percent: u8| share * 100.0 >= f32::from(percent);
        let is_unsteady = self.falls_within(now, settings) == FALLS;
        let kinds = [self.agent, self.probes, self.routers];
        let accusers = kinds.into_iter().filter(|share| reaches(*share, settings.flapping_percent)).count();
        match verdict {
            V::Healthy | V::ProcessDown | V::Disputed | V::RouterIll | V::AgentDead | V::Slow
                if is_unsteady && accusers >= 2 =>
            {
                V::Flapping
            }
            V::Healthy if is_unsteady => V::Unsteady,
            V::Healthy if reaches(self.late, settings.slow_percent) => V::Slow,
            other => other,
        }
    }

    /// Falls within the window, as far as they are counted.
    pub(super) fn falls_within(&self, now: Now, settings: &HealthThresholds) -> usize {
        let is_recent = |at: &Now| now.ms().saturating_sub(at.ms()) <= settings.flapping_window_ms;
        self.falls.iter().flatten().filter(|at| is_recent(at)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: SeenNow = SeenNow { agent: false, probes: true, routers: true, late: false, is_away: true };
    const LATE: SeenNow = SeenNow { agent: false, probes: false, routers: false, late: true, is_away: false };

    /// A member that is seen so for some seconds of each period, for so many periods; its verdict at the end, when it works.
    #[track_caller]
    fn check(seen: SeenNow, seconds: u64, period: u64, periods: u64, expected: MemberVerdict) {
        let (mut steadiness, settings) = (Steadiness::default(), HealthThresholds::default());
        for second in 0..period * periods {
            let seen = if second % period < seconds { seen } else { SeenNow::default() };
            steadiness.note(Now::at_ms(second * 1000), 1000, seen);
        }
        let now = Now::at_ms(period * periods * 1000);
        assert_eq!(steadiness.judge(now, MemberVerdict::Healthy, &settings), expected, "{steadiness:?}");
    }

    #[test]
    fn a_member_that_is_away_again_and_again_flaps() {
        check(AWAY, 4, 9, 2, MemberVerdict::Healthy);
        check(AWAY, 4, 9, 4, MemberVerdict::Flapping);
        check(SeenNow { routers: false, ..AWAY }, 4, 9, 9, MemberVerdict::Unsteady);
        check(AWAY, 1, 60, 3, MemberVerdict::Unsteady);
        check(AWAY, 1, 200, 9, MemberVerdict::Healthy);
    }

    #[test]
    fn one_long_outage_is_no_flapping() {
        check(AWAY, 60, 61, 1, MemberVerdict::Healthy);
    }

    #[test]
    fn a_member_that_is_late_now_and_then_is_slow() {
        check(LATE, 1, 3, 8, MemberVerdict::Slow);
        check(LATE, 1, 60, 10, MemberVerdict::Healthy);
    }

    #[test]
    fn what_was_seen_is_forgotten() {
        let (mut steadiness, settings) = (Steadiness::default(), HealthThresholds::default());
        for second in 0..100 {
            let seen = if second % 9 < 4 { AWAY } else { SeenNow::default() };
            steadiness.note(Now::at_ms(second * 1000), 1000, seen);
        }
        let mut last = 100;
        while steadiness.judge(Now::at_ms(last * 1000), MemberVerdict::Healthy, &settings)
            != MemberVerdict::Healthy
        {
            last += 1;
            steadiness.note(Now::at_ms(last * 1000), 1000, SeenNow::default());
        }
        assert!(last < 100 + 301, "{last}");
    }
}
