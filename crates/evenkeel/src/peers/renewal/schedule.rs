//! The schedule of renewals: the moment at which one is due, and pauses after failures.

use std::time::Duration;

use control::authority::renewal_due_s;
use control::identity::{FleetIdentity, FleetRole};
use stdx::prng::Prng;

/// The longest pause between two looks at the file. Another program may have replaced it, and a clock may have been set.
const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);
/// The shortest pause after a failure: half of the first one.
const RETRY_MIN: Duration = Duration::from_secs(60);
/// The longest pause after a failure. A third of a certificate's life, ten days, has 240 of them.
const RETRY_MAX: Duration = Duration::from_secs(60 * 60);

/// How long before its end a certificate that nobody renews is worth a line.
const WARNED_S: u64 = 30 * 86_400;

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) not_before_s: u64,
    pub(super) not_after_s: u64,
}

impl Life {
    /// The second at which it is renewed.
    pub(super) fn due_s(self, identity: &FleetIdentity) -> u64 {
        renewal_due_s(self.not_before_s, self.not_after_s, identity)
    }

    /// The second from which on people are told that nobody renews it: a month before its end, or after two thirds of a life
    /// that is shorter than three months.
    pub(super) fn warned_s(self) -> u64 {
        let life_s = self.not_after_s.saturating_sub(self.not_before_s);
        self.not_after_s - WARNED_S.min(life_s / 3)
    }

    /// How near its end is, for people, in words that stay the same until then.
    pub(super) fn end_shown(self, now_s: u64, identity: &FleetIdentity) -> String {
        match self.not_after_s.checked_sub(now_s) {
            Some(_) => {
                format!("it runs out within {} days", (self.not_after_s - self.warned_s()) / 86_400 + 1)
            }
            None => self.shown(now_s, identity),
        }
    }

    /// What is left of it, for people; in days, so that what stays wrong is said again on the next day only.
    pub(super) fn shown(self, now_s: u64, identity: &FleetIdentity) -> String {
        match self.not_after_s.checked_sub(now_s) {
            Some(left_s) => format!("it is valid for another {} days", left_s / 86_400),
            None if identity.role == FleetRole::Agent => {
                "it has run out, so start the agent again with --join and a token".to_owned()
            }
            None => "it has run out; `control certificate` makes another one".to_owned(),
        }
    }
}

/// Pauses between looks.
pub(super) struct Schedule {
    prng: Prng,
    /// Failures since the last success.
    failures: u32,
}

impl Schedule {
    pub(super) fn new(prng: Prng) -> Schedule {
        Schedule { prng, failures: 0 }
    }

    /// The pause while nothing is wrong.
    pub(super) fn after_success(&mut self, now_s: u64, due_s: u64) -> Duration {
        self.failures = 0;
        // A certificate that is due as soon as it is signed must not keep a controller busy.
        Duration::from_secs(due_s.saturating_sub(now_s)).clamp(RETRY_MIN, LOOK_EVERY)
    }

    /// The pause after a failure while there is nothing yet: what is missing may be there in a minute, as when a host joins.
    pub(super) fn after_failure_at_first(&mut self) -> Duration {
        self.failures = 0;
        self.after_failure()
    }

    /// The pause after a failure: twice as long each time, and different for each agent.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let most = RETRY_MIN.saturating_mul(1 << self.failures.min(10)).min(RETRY_MAX);
        let half = most / 2;
        half + Duration::from_secs(self.prng.below(half.as_secs() + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: u64 = 3600;
    const DAY_S: u64 = 24 * HOUR_S;

    fn identity() -> FleetIdentity {
        "evenkeel://prod/agent/h1".parse().expect("an identity")
    }

    #[test]
    fn a_certificate_is_due_after_two_thirds_of_its_life() {
        let begin_s = 1_800_000_000;
        let life = Life { not_before_s: begin_s, not_after_s: begin_s + 30 * DAY_S };
        let due_s = life.due_s(&identity());
        assert!((20 * DAY_S..22 * DAY_S).contains(&(due_s - begin_s)), "{due_s}");
        assert!(life.shown(begin_s, &identity()).contains("another 30 days"));
        assert!(life.shown(life.not_after_s + 1, &identity()).contains("--join"));
    }

    #[test]
    fn people_are_told_a_month_before_the_end_or_after_two_thirds_of_a_short_life() {
        for (life_days, days) in [(365, 335), (90, 60), (30, 20), (0, 0)] {
            let life = Life { not_before_s: 1000, not_after_s: 1000 + life_days * DAY_S };
            assert_eq!(life.warned_s(), 1000 + days * DAY_S, "{life_days} days");
        }
        let controller = "evenkeel://prod/controller/c1".parse().expect("an identity");
        assert!(
            Life { not_before_s: 0, not_after_s: 1 }.shown(2, &controller).contains("`control certificate`")
        );
    }

    #[test]
    fn until_then_the_file_is_looked_at_each_hour() {
        let mut schedule = Schedule::new(Prng::new(1));
        let mut check = |left_s: u64, expected_s: u64| {
            let wait = schedule.after_success(1000, 1000 + left_s);
            assert_eq!(wait.as_secs(), expected_s, "{left_s}");
        };
        check(20 * DAY_S, HOUR_S);
        check(HOUR_S + 1, HOUR_S);
        check(600, 600);
        check(1, 60);
        check(0, 60);
        assert_eq!(schedule.after_success(1000, 10), RETRY_MIN, "it was due before");
    }

    #[test]
    fn pauses_after_failures_grow_from_a_minute_to_an_hour_and_differ() {
        let mut schedule = Schedule::new(Prng::new(1));
        for most_s in [120, 240, 480, 960, 1920, 3600, 3600, 3600] {
            let wait_s = schedule.after_failure().as_secs();
            assert!((most_s / 2..=most_s).contains(&wait_s), "{wait_s} of {most_s}");
        }
        for _ in 0..10_000 {
            assert!((RETRY_MAX / 2..=RETRY_MAX).contains(&schedule.after_failure()));
        }
        let first = |seed| Schedule::new(Prng::new(seed)).after_failure();
        assert!((2..10).any(|seed| first(seed) != first(1)), "agents do not come together");
        assert!(schedule.after_failure_at_first().as_secs() <= 120);
        schedule.after_success(0, 0);
        assert!(schedule.after_failure().as_secs() <= 120, "a success begins again");
    }
}
