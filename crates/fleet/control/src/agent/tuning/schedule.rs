//! Schedule of looks: once an hour, at a moment of the hour that follows from the host's name, so that 5,000 hosts do not look together.
//!
//! Reads no clock.

use std::time::Duration;

use fleet::HostId;
use stdx::prng::mix;

/// Interval of looks.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// When a host looks next, by a clock that began to run with the agent.
pub(super) struct LookSchedule {
    next: Duration,
}

impl LookSchedule {
    /// Of an agent that begins at this second since 1970: all agents that are started together still look at different moments.
    pub(super) fn new(host: &HostId, unix_s: u64) -> LookSchedule {
        let hour = LOOK_EVERY.as_secs();
        let lot = host.as_str().bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte))) % hour;
        LookSchedule { next: Duration::from_secs((lot + hour - unix_s % hour) % hour) }
    }

    /// Whether a look is due, and the next one is an hour later.
    pub(super) fn is_due(&mut self, passed: Duration) -> bool {
        if passed < self.next {
            return false;
        }
        // Of hours that were missed, while another run took long, none is made up for.
        while self.next <= passed {
            self.next += LOOK_EVERY;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_started_together_look_at_moments_all_over_the_hour() {
        let mut minutes = [0_u32; 60];
        for number in 0..5000 {
            let host: HostId = format!("cache-{number}.example").parse().expect("a name");
            let next = LookSchedule::new(&host, 1_700_000_000).next;
            minutes[(next.as_secs() / 60) as usize] += 1;
            // At the same moment of the hour, whenever its agent is started.
            let later = LookSchedule::new(&host, 1_700_000_600).next;
            assert_eq!((later.as_secs() + 600) % 3600, next.as_secs());
        }
        assert!(minutes.iter().all(|count| (40..140).contains(count)), "{minutes:?}");
    }

    #[test]
    fn a_look_is_due_once_an_hour() {
        let host: HostId = "h1".parse().expect("a name");
        let mut schedule = LookSchedule::new(&host, 0);
        let first = schedule.next;
        let mut due = |after: u64| schedule.is_due(first + Duration::from_secs(after));
        assert!(due(0) && !due(1) && !due(3599) && due(3600) && !due(3601));
        assert!(due(20_000) && !due(20_001), "what was missed is not made up for");
    }
}
