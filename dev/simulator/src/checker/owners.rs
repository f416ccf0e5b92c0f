//! I8, I9: while a member is drained, no delete is lost, and its keys have two owners for a bounded time only.

use fleet::drain::DrainPhase;

use super::InvariantChecker;

/// A phase that waits for a silent router.
const FENCE_MS: u64 = 300_000;
/// Routers that are heard take this long for a phase: two turns of 20 s, and the way.
const PHASE_MS: u64 = 60_000;
/// Two phases are waited for.
const OWNERS_MAX_MS: u64 = 2 * (FENCE_MS + PHASE_MS);

/// Which routers read and delete where, of one drained member.
#[derive(Debug)]
pub(crate) struct KeyOwners {
    pub(crate) host: usize,
    /// The old member answers.
    pub(crate) is_open: bool,
    /// Routers that serve, by their phase: none yet, and the three.
    phases: [usize; 4],
    /// For how long controllers could have ended it.
    for_ms: u64,
}

fn place(phase: Option<DrainPhase>) -> usize {
    match phase {
        None => 0,
        Some(DrainPhase::ReadOld) => 1,
        Some(DrainPhase::ReadNew) => 2,
        Some(DrainPhase::NewOnly) => 3,
    }
}

impl KeyOwners {
    /// All routers read the old member, and delete from it alone.
    pub(crate) fn new(host: usize, routers: usize) -> KeyOwners {
        KeyOwners { host, is_open: true, phases: [routers, 0, 0, 0], for_ms: 0 }
    }

    /// A router begins to serve with this phase, after none or another one.
    pub(crate) fn enters(&mut self, phase: Option<DrainPhase>) {
        self.phases[place(phase)] += 1;
    }

    /// A router leaves this phase.
    pub(crate) fn leaves(&mut self, phase: Option<DrainPhase>) {
        self.phases[place(phase)] -= 1;
    }

    /// I8, of a value that a router has stored and another one deletes.
    pub(crate) fn check(&self, checker: &mut InvariantChecker, at_ms: u64) {
        let [old_alone, _, _, new_alone] = self.phases;
        let (read_old, read_new) = (self.phases[0] + self.phases[1], self.phases[2] + self.phases[3]);
        checker.require(!self.is_open || old_alone == 0 || read_new == 0, at_ms, "I8", || {
            format!("{read_new} routers read the new member, and {old_alone} delete from the old one alone")
        });
        checker.require(!self.is_open || new_alone == 0 || read_old == 0, at_ms, "I8", || {
            format!("{read_old} routers read the old member, and {new_alone} delete from the new one alone")
        });
    }

    /// I9, of a second in which controllers can act or not.
    pub(crate) fn pass(&mut self, checker: &mut InvariantChecker, at_ms: u64, second_ms: u64, can_act: bool) {
        let has_two = self.is_open && self.phases[1..].iter().sum::<usize>() > 0;
        self.for_ms += if has_two && can_act { second_ms } else { 0 };
        let for_s = self.for_ms / 1000;
        checker.require(self.for_ms <= OWNERS_MAX_MS, at_ms, "I9", || {
            format!("keys of host {} have two owners for {for_s} s", self.host)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phases of two routers, and whether the old member is open: the broken invariant.
    #[track_caller]
    fn check(phases: [Option<DrainPhase>; 2], is_open: bool, expected: Option<&str>) {
        let mut owners = KeyOwners::new(7, 2);
        for phase in phases {
            owners.leaves(None);
            owners.enters(phase);
        }
        owners.is_open = is_open;
        let mut checker = InvariantChecker::default();
        owners.check(&mut checker, 0);
        assert_eq!(checker.into_first().map(|found| found.invariant), expected, "{phases:?}");
    }

    #[test]
    fn a_delete_must_reach_what_is_read() {
        use DrainPhase::*;
        check([None, Some(ReadOld)], true, None);
        check([Some(ReadOld), Some(ReadNew)], true, None);
        check([Some(ReadNew), Some(NewOnly)], true, None);
        check([None, Some(ReadNew)], true, Some("I8"));
        check([None, Some(NewOnly)], true, Some("I8"));
        check([Some(ReadOld), Some(NewOnly)], true, Some("I8"));
        check([None, Some(NewOnly)], false, None);
    }

    #[test]
    fn two_owners_are_counted_while_controllers_can_act() {
        let (mut owners, mut checker) = (KeyOwners::new(7, 1), InvariantChecker::default());
        owners.pass(&mut checker, 0, OWNERS_MAX_MS + 1, true);
        assert!(!checker.has_found(), "one owner is no wonder");
        owners.leaves(None);
        owners.enters(Some(DrainPhase::ReadOld));
        owners.pass(&mut checker, 0, OWNERS_MAX_MS, true);
        owners.pass(&mut checker, 0, 1, false);
        assert!(!checker.has_found());
        owners.pass(&mut checker, 0, 1, true);
        assert!(checker.has_found());
    }
}
