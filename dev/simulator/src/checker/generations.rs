//! I1, I2, I3, I4, I10, I14: the chain of generations, their slots and texts, who has loaded them, and what the audit says.

use super::InvariantChecker;
use crate::controllers::differences;
use crate::register::{AuditLine, Commit, RoutesKind};

/// Eight canaries, and as many in place of silent ones.
const CANARIES_MAX: usize = 16;

impl InvariantChecker {
    /// The generation that is in force at the beginning.
    pub(crate) fn begins_with(&mut self, number: u64) {
        self.accepted.insert(number);
    }

    /// I1, I4, I14: of what has become the target, and of what the audit says.
    pub(crate) fn commits(&mut self, at_ms: u64, commits: &[Commit], audit: &[AuditLine]) {
        for commit in commits {
            self.commit(at_ms, commit, audit);
        }
        let tell = |entry: &AuditLine| commits.iter().any(|commit| commit.after.number() == entry.number);
        for entry in audit {
            self.require(tell(entry), at_ms, "I14", || {
                format!("the audit has generation {}, which never was the target", entry.number)
            });
        }
    }

    fn commit(&mut self, at_ms: u64, commit: &Commit, audit: &[AuditLine]) {
        let (before, after) = (&commit.before, &commit.after);
        let (number, parent) = (after.number(), after.generation.parent.map(|parent| parent.0));
        let newest = self.accepted.last().copied().unwrap_or(0);
        self.require(parent == Some(before.number()), at_ms, "I1", || {
            format!("generation {number} has the parent {parent:?} and follows {}", before.number())
        });
        self.require(number > newest, at_ms, "I1", || {
            format!("generation {number} has a number that was used; the newest is {newest}")
        });
        self.accepted.insert(number);
        let entry = audit.iter().find(|entry| entry.number == number);
        let asked = entry.map_or(0, |entry| entry.changes.len());
        self.slots(at_ms, commit, asked);
        let changes = differences(&before.generation.content, &after.generation.content);
        self.require(entry.is_some_and(|entry| entry.changes == changes), at_ms, "I14", || {
            format!("generation {number} changes {changes:?}, and the audit has {entry:?}")
        });
    }

    /// I4: slots keep their order, so that each replacement changes the servers of one slot's keys.
    fn slots(&mut self, at_ms: u64, commit: &Commit, asked: usize) {
        let (old, new) = (&commit.before.generation.content, &commit.after.generation.content);
        for (old, new) in old.clusters.iter().zip(&new.clusters) {
            let is_same = |(old, new): (&fleet::SlotRecord, &fleet::SlotRecord)| old.id == new.id;
            let in_order =
                old.slots.len() == new.slots.len() && old.slots.iter().zip(&new.slots).all(is_same);
            self.require(in_order, at_ms, "I4", || format!("slots of {} have another order", new.name));
        }
        let moved = differences(old, new).len();
        self.require(moved <= asked, at_ms, "I4", || {
            format!("{asked} members are replaced, and the keys of {moved} slots change their server")
        });
    }

    /// I3: routes that crash routers get no further than the canaries, and nowhere once somebody has gone back.
    fn crashes(&mut self, at_ms: u64, number: u64, routes: RoutesKind) {
        if routes != RoutesKind::Deadly {
            return;
        }
        let loads = self.deadly_loads.entry(number).or_default();
        *loads += 1;
        let loads = *loads;
        self.require(loads <= CANARIES_MAX, at_ms, "I3", || {
            format!("{loads} routers have loaded generation {number}, which crashes them")
        });
        let is_left = self.known_crashes.contains(&number) && self.accepted.last() > Some(&number);
        self.require(!is_left, at_ms, "I3", || {
            format!(
                "a router loads generation {number}, which has crashed a canary and is not in force any more"
            )
        });
    }

    /// A controller has heard that the text of a generation crashed a router.
    pub(crate) fn crash_is_known(&mut self, number: u64) {
        self.known_crashes.insert(number);
    }

    /// I1, I2, I3, I10: a router loads a generation.
    pub(crate) fn loads(
        &mut self,
        at_ms: u64,
        before: u64,
        number: u64,
        routes: RoutesKind,
        has_controller: bool,
    ) {
        self.require(number > before, at_ms, "I1", || {
            format!("a router has generation {before}, and goes back to {number}")
        });
        self.require(routes != RoutesKind::Wrong, at_ms, "I2", || {
            format!("a router loads generation {number}, whose routes the check refuses")
        });
        self.crashes(at_ms, number, routes);
        let is_decided = has_controller && self.accepted.contains(&number);
        self.require(is_decided, at_ms, "I10", || {
            format!("a router loads generation {number}, which is not in any register")
        });
    }
}
