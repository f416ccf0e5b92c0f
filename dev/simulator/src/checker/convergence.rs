//! I11 and I19: after the last fault lost members have successors, and routers the newest generation, or somebody says why not;
//! flapping ends.

use std::collections::BTreeMap;

use fleet::health::GuardScope;

use super::InvariantChecker;
use crate::controllers::Excuse;
use crate::shape::FleetShape;

/// The time that everything has.
const CONVERGED_MS: u64 = 60_000;
/// A member that has not died for this long does not flap.
const STEADY_MS: u64 = 30_000;
/// A new leader knows nothing for this long.
const WINDOW_MS: u64 = 60_000;

/// What is known of the quiet at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calm {
    /// The end of the last fault.
    pub(crate) since_ms: u64,
    /// When the leader began; none without a leader or without a register.
    pub(crate) leader_since_ms: Option<u64>,
    /// When the newest generation was published.
    pub(crate) committed_ms: u64,
    /// Routers that could have it, and have an older one.
    pub(crate) behind: usize,
    /// No rollout of routes is on its way.
    pub(crate) is_rolled_out: bool,
}

/// Slots whose members are dead, with the time since when nothing excuses it.
#[derive(Debug, Default)]
pub(crate) struct Convergence {
    dead: BTreeMap<usize, u64>,
    /// Slots whose members flap: since when, and when the member has died last.
    flapping: BTreeMap<usize, (u64, u64)>,
}

impl Convergence {
    pub(crate) fn died(&mut self, now_ms: u64, slot: usize) {
        self.dead.insert(slot, now_ms);
    }

    pub(crate) fn works(&mut self, slot: usize) {
        self.dead.remove(&slot);
    }

    /// Its member has died again and again within the last minute.
    pub(crate) fn flaps(&mut self, now_ms: u64, slot: usize) {
        self.flapping.entry(slot).or_insert((now_ms, now_ms)).1 = now_ms;
    }

    /// It has another member.
    pub(crate) fn is_steady(&mut self, slot: usize) {
        self.flapping.remove(&slot);
    }

    /// Whether routers that are behind are of interest: whoever counts them need not do it before.
    pub(crate) fn is_due(now_ms: u64, calm: &Calm) -> bool {
        quiet_since(calm).is_some_and(|quiet_ms| now_ms > quiet_ms.max(calm.committed_ms) + CONVERGED_MS)
    }

    /// I11 and I19, once a second.
    pub(crate) fn pass(
        &mut self,
        checker: &mut InvariantChecker,
        now_ms: u64,
        shape: &FleetShape,
        zone_of: impl Fn(usize) -> String,
        calm: &Calm,
        excuses: &[Excuse],
    ) {
        let Some(quiet_ms) = quiet_since(calm) else { return };
        let is_excused = |slot: usize| {
            let cluster = format!("c{:02}", slot / shape.slots);
            let covers = |excuse: &Excuse| match excuse {
                Excuse::Frozen(GuardScope::Fleet) => true,
                Excuse::Frozen(GuardScope::Zone(zone)) => zone.as_str() == zone_of(slot),
                Excuse::Frozen(GuardScope::Cluster(name)) => name.as_str() == cluster,
                Excuse::Slot(excused) => *excused == slot,
            };
            !calm.is_rolled_out || excuses.iter().any(covers)
        };
        self.flapping.retain(|_, (_, last_ms)| now_ms - *last_ms <= STEADY_MS);
        for (slot, (since_ms, last_ms)) in &mut self.flapping {
            if is_excused(*slot) {
                *since_ms = now_ms;
            }
            // Whether it flaps still is known only when it dies again.
            let late = last_ms.saturating_sub(quiet_ms.max(*since_ms));
            checker.require(late <= CONVERGED_MS, now_ms, "I19", || {
                format!("slot {slot} has a flapping member for {} s, and nobody says why", late / 1000)
            });
        }
        for (slot, since_ms) in &mut self.dead {
            if is_excused(*slot) {
                *since_ms = now_ms;
            }
            let late = now_ms.saturating_sub(quiet_ms.max(*since_ms));
            checker.require(late <= CONVERGED_MS, now_ms, "I11", || {
                format!("slot {slot} has a dead member for {} s, and nobody says why", late / 1000)
            });
        }
        let is_late = calm.is_rolled_out && Convergence::is_due(now_ms, calm) && calm.behind > 0;
        checker.require(!is_late, now_ms, "I11", || {
            format!("{} routers have not loaded the newest generation", calm.behind)
        });
    }
}

fn quiet_since(calm: &Calm) -> Option<u64> {
    calm.leader_since_ms.map(|since_ms| calm.since_ms.max(since_ms + WINDOW_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot whose member died at 100 s, with the leader's begin and excuses until `excused_s`: whether it is too late at
    /// `now_s`.
    #[track_caller]
    fn check(leader_since_s: Option<u64>, excused_s: u64, now_s: u64, is_found: bool) {
        let calm = Calm {
            since_ms: 0,
            leader_since_ms: leader_since_s.map(|since| since * 1000),
            committed_ms: 0,
            behind: 0,
            is_rolled_out: true,
        };
        let (mut convergence, mut checker) = (Convergence::default(), InvariantChecker::default());
        convergence.died(100_000, 3);
        for second in 100..=now_s {
            let excuses =
                if second <= excused_s { vec![Excuse::Frozen(GuardScope::Fleet)] } else { Vec::new() };
            let (shape, zone) = (FleetShape::small(), |_| "za".to_owned());
            convergence.pass(&mut checker, second * 1000, &shape, zone, &calm, &excuses);
        }
        assert_eq!(checker.has_found(), is_found, "{:?}", checker.into_first());
    }

    #[test]
    fn a_flapping_member_is_replaced_in_time_or_steady_again() {
        for (until_s, replaced_s, is_found) in [(400, 400, true), (400, 150, false), (150, 400, false)] {
            let (mut convergence, mut checker) = (Convergence::default(), InvariantChecker::default());
            let calm = Calm {
                since_ms: 0,
                leader_since_ms: Some(0),
                committed_ms: 0,
                behind: 0,
                is_rolled_out: true,
            };
            for second in 100..400 {
                if second == replaced_s {
                    convergence.is_steady(3);
                } else if second % 10 == 0 && second < until_s.min(replaced_s) {
                    convergence.flaps(second * 1000, 3);
                }
                let (shape, zone) = (FleetShape::small(), |_| "za".to_owned());
                convergence.pass(&mut checker, second * 1000, &shape, zone, &calm, &[]);
            }
            assert_eq!(checker.has_found(), is_found, "{until_s} {replaced_s}: {:?}", checker.into_first());
        }
    }

    #[test]
    fn a_dead_member_is_replaced_in_time_or_somebody_says_why() {
        check(Some(0), 0, 160, false);
        check(Some(0), 0, 161, true);
        check(Some(90), 0, 210, false);
        check(Some(90), 0, 211, true);
        check(None, 0, 1000, false);
        check(Some(0), 500, 560, false);
        check(Some(0), 500, 561, true);
    }
}
