//! The drain of a member: its keys move to another one while both may be read, without a lost delete.
//!
//! | phase | reads | deletes |
//! |---|---|---|
//! | [`ReadOld`](DrainPhase::ReadOld) | old | both |
//! | [`ReadNew`](DrainPhase::ReadNew) | new, warmed up from old | both |
//! | [`NewOnly`](DrainPhase::NewOnly) | new | both |
//!
//! In the last phase, too, deletes go to both: a router that has not come to it yet still copies from the old member what the
//! new one misses. Only when all have it, the routes forget the old one.
//!
//! A phase begins when every router has acknowledged the one before. A router that does not is fenced: after
//! [`DrainSettings::fence_ms`] the old member flushes (and closes its listener, if it can), so that this router gets misses or
//! errors in place of old data, and the others go on with the new member alone. That costs the warm-up.
//!
//! The bound: two owners of a key at most for the time in which routers acknowledge two phases, each phase at most for the
//! fence, and the warm-up. No I/O, no clock.

mod slot;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stdx::clock::Now;

use crate::RouterId;

pub use slot::{DRAINS_MAX, SlotDrain};

/// What routers do with the keys of the drained member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainPhase {
    /// The old member is read, both get deletes.
    ReadOld,
    /// The new member is read and warmed up from the old one, both get deletes.
    ReadNew,
    /// The new member alone is read, both get deletes.
    NewOnly,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// Routers shall have this phase; without time passing it waits for their acknowledgements.
    Routers(DrainPhase),
    /// The old member shall close its listener and flush; the routers' phase stays until it has.
    Fencing,
    /// All routers have left the old member, which shall close its listener and flush.
    Retiring,
    /// The old member is closed and empty, and every router that is heard from has left it.
    Done,
}

/// Times of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainSettings {
    /// How long a phase waits for a router.
    pub fence_ms: u64,
    /// How long the new member is warmed up once all routers read it.
    pub warm_up_ms: u64,
}

impl Default for DrainSettings {
    /// Longer than a controller's restart with all agents coming back (30 s) and a router's restart; short enough that
    /// an operator waits for it.
    fn default() -> DrainSettings {
        DrainSettings { fence_ms: 300_000, warm_up_ms: 0 }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variant says what its router and phase are")]
pub enum DrainEvent {
    /// A router is known from now on; it reads the old member.
    Appeared { router: RouterId },
    /// A router was taken out of the inventory: its process is gone.
    Left { router: RouterId },
    /// A router has loaded the routes of a phase.
    Acknowledged { router: RouterId, phase: DrainPhase },
    /// The old member has closed its listener and flushed, or its host is gone.
    OldClosed,
    /// The new member needs no further warm-up.
    Warm,
    /// A moment passed.
    Tick,
}

/// A drain on its way.
#[derive(Clone, Debug)]
pub struct Drain {
    settings: DrainSettings,
    /// The phase that each router has acknowledged.
    routers: BTreeMap<RouterId, Option<DrainPhase>>,
    phase: DrainPhase,
    since: Now,
    /// Since when all routers have the phase.
    settled: Option<Now>,
    is_warm: bool,
    old_is: OldMember,
    now: Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldMember {
    Open,
    Fenced,
    Closed,
}

impl Drain {
    /// Begins with the routers of the inventory.
    pub fn begin(routers: impl IntoIterator<Item = RouterId>, settings: DrainSettings, now: Now) -> Drain {
        Drain::resume(routers, DrainPhase::ReadOld, settings, now)
    }

    /// Goes on with a phase that began before: who has acknowledged it is not known any more, and the fence counts from now.
    pub fn resume(
        routers: impl IntoIterator<Item = RouterId>,
        phase: DrainPhase,
        settings: DrainSettings,
        now: Now,
    ) -> Drain {
        let routers = routers.into_iter().map(|router| (router, None)).collect();
        let (settled, old_is) = (None, OldMember::Open);
        let mut drain = Drain { settings, routers, phase, since: now, settled, is_warm: false, old_is, now };
        drain.advance();
        drain
    }

    /// Takes what happened.
    pub fn on(&mut self, event: DrainEvent, now: Now) {
        self.on_all([event], now);
    }

    /// Takes what happened at one moment: of many routers, in one step.
    pub fn on_all(&mut self, events: impl IntoIterator<Item = DrainEvent>, now: Now) {
        self.now = self.now.max(now);
        events.into_iter().for_each(|event| self.take(event));
        self.advance();
    }

    fn take(&mut self, event: DrainEvent) {
        match event {
            DrainEvent::Appeared { router } => drop(self.routers.entry(router).or_insert(None)),
            DrainEvent::Left { router } => drop(self.routers.remove(&router)),
            DrainEvent::Acknowledged { router, phase } => {
                if let Some(has) = self.routers.get_mut(&router) {
                    *has = (*has).max(Some(phase));
                }
            }
            DrainEvent::OldClosed => {
                self.old_is = OldMember::Closed;
                self.begin_phase(DrainPhase::NewOnly);
            }
            DrainEvent::Warm => self.is_warm = true,
            DrainEvent::Tick => {}
        }
    }

    /// What is to be done.
    pub fn state(&self) -> DrainState {
        match (self.old_is, self.phase) {
            (OldMember::Fenced, _) => DrainState::Fencing,
            (OldMember::Open, DrainPhase::NewOnly) if self.behind().is_none() => DrainState::Retiring,
            (OldMember::Closed, _) if self.behind().is_none() || self.is_overdue() => DrainState::Done,
            (_, phase) => DrainState::Routers(phase),
        }
    }

    /// The phase that every router shall have.
    pub fn phase(&self) -> DrainPhase {
        self.phase
    }

    /// A router that has not acknowledged the phase.
    pub fn behind(&self) -> Option<&RouterId> {
        self.routers.iter().find(|(_, has)| **has < Some(self.phase)).map(|(router, _)| router)
    }

    /// When `Tick` is due although nothing happens.
    pub fn next_call(&self) -> Option<Now> {
        let waits = matches!(self.state(), DrainState::Routers(_));
        let due = self.settled.map_or_else(|| self.fence(), |since| after(since, self.settings.warm_up_ms));
        waits.then_some(due).filter(|due| *due > self.now)
    }

    fn fence(&self) -> Now {
        after(self.since, self.settings.fence_ms)
    }

    fn is_overdue(&self) -> bool {
        self.fence() <= self.now
    }

    fn advance(&mut self) {
        if self.old_is != OldMember::Open {
            return;
        }
        while self.phase < DrainPhase::NewOnly && self.behind().is_none() && self.is_warmed_up() {
            let next =
                if self.phase == DrainPhase::ReadOld { DrainPhase::ReadNew } else { DrainPhase::NewOnly };
            self.begin_phase(next);
        }
        // A router that still deletes from the old member alone must not find it any more before others read the new one.
        if self.behind().is_some() && self.is_overdue() {
            self.old_is = OldMember::Fenced;
        }
    }

    /// Whether the phase may end that all routers have.
    fn is_warmed_up(&mut self) -> bool {
        if self.phase != DrainPhase::ReadNew {
            return true;
        }
        let since = *self.settled.get_or_insert(self.now);
        self.is_warm || after(since, self.settings.warm_up_ms) <= self.now
    }

    fn begin_phase(&mut self, phase: DrainPhase) {
        if phase > self.phase {
            self.phase = phase;
            (self.since, self.settled) = (self.now, None);
        }
    }
}

fn after(moment: Now, ms: u64) -> Now {
    Now { us: moment.us.saturating_add(ms.saturating_mul(1000)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::prng::Prng;

    fn router(number: u64) -> RouterId {
        format!("r{number}").parse().expect("a name")
    }

    fn acknowledged(number: u64, phase: DrainPhase) -> DrainEvent {
        DrainEvent::Acknowledged { router: router(number), phase }
    }

    #[track_caller]
    fn check(routers: u64, events: &[(u64, DrainEvent)], expected: DrainState) {
        let mut drain = Drain::begin((0..routers).map(router), DrainSettings::default(), Now::default());
        for (second, event) in events {
            drain.on(event.clone(), Now::at_ms(second * 1000));
        }
        assert_eq!(drain.state(), expected);
    }

    #[test]
    fn a_phase_begins_when_all_have_acknowledged_the_one_before() {
        use DrainPhase::*;
        check(2, &[(1, acknowledged(0, ReadOld))], DrainState::Routers(ReadOld));
        check(
            2,
            &[(1, acknowledged(0, ReadOld)), (2, acknowledged(1, ReadOld))],
            DrainState::Routers(ReadNew),
        );
        check(
            1,
            &[(1, acknowledged(0, ReadOld)), (2, acknowledged(0, ReadNew))],
            DrainState::Routers(NewOnly),
        );
        check(1, &[(1, acknowledged(0, NewOnly))], DrainState::Retiring);
        check(1, &[(1, acknowledged(0, NewOnly)), (2, DrainEvent::OldClosed)], DrainState::Done);
        check(0, &[], DrainState::Retiring);
    }

    #[test]
    fn a_silent_router_is_fenced_before_the_others_read_the_new_member() {
        use DrainPhase::*;
        let first = (1, acknowledged(0, ReadOld));
        check(2, &[first.clone(), (299, DrainEvent::Tick)], DrainState::Routers(ReadOld));
        check(2, &[first.clone(), (300, DrainEvent::Tick)], DrainState::Fencing);
        let closed = (301, DrainEvent::OldClosed);
        check(2, &[first.clone(), (300, DrainEvent::Tick), closed.clone()], DrainState::Routers(NewOnly));
        check(2, &[first, (300, DrainEvent::Tick), closed, (601, DrainEvent::Tick)], DrainState::Done);
    }

    #[test]
    fn the_new_member_is_warmed_up_after_all_routers_read_it_and_before_it_is_alone() {
        use DrainPhase::*;
        let settings = DrainSettings { warm_up_ms: 60_000, ..DrainSettings::default() };
        let mut drain = Drain::resume([router(0), router(1)], ReadNew, settings, Now::default());
        drain.on(acknowledged(0, ReadNew), Now::at_ms(100_000));
        drain.on(acknowledged(1, ReadNew), Now::at_ms(200_000));
        assert_eq!(drain.next_call(), Some(Now::at_ms(260_000)));
        drain.on(DrainEvent::Tick, Now::at_ms(259_999));
        assert_eq!(drain.state(), DrainState::Routers(ReadNew));
        let mut early = drain.clone();
        early.on(DrainEvent::Warm, Now::at_ms(259_999));
        assert_eq!(early.state(), DrainState::Routers(NewOnly));
        drain.on(DrainEvent::Tick, Now::at_ms(260_000));
        assert_eq!(drain.state(), DrainState::Routers(NewOnly));
    }

    #[test]
    fn a_drain_that_is_resumed_asks_all_routers_for_the_phase_again() {
        use DrainPhase::*;
        let begin = Now::at_ms(1_000_000);
        let mut drain = Drain::resume([router(0)], NewOnly, DrainSettings::default(), begin);
        assert_eq!(
            (drain.state(), drain.next_call()),
            (DrainState::Routers(NewOnly), Some(Now::at_ms(1_300_000)))
        );
        drain.on_all([acknowledged(0, NewOnly), DrainEvent::Appeared { router: router(1) }], begin);
        assert_eq!(drain.behind(), Some(&router(1)));
        drain.on(acknowledged(1, NewOnly), begin);
        assert_eq!(drain.state(), DrainState::Retiring);
    }

    #[test]
    fn a_router_that_left_is_not_waited_for() {
        check(1, &[(1, DrainEvent::Left { router: router(0) })], DrainState::Retiring);
    }

    /// While the old member is open: a router that deletes from the old one alone and one that reads the new one never
    /// exist together, nor one that reads the old one and one that deletes from the new one alone.
    fn random_history(seed: u64) {
        let mut prng = Prng::new(seed);
        let count = 1 + prng.below(5);
        let mut drain = Drain::begin((0..count).map(router), DrainSettings::default(), Now::default());
        let mut has = vec![None; count as usize];
        for _ in 0..100 {
            let now = Now { us: drain.now.us + prng.below(30_000_000) };
            let some = prng.below(count);
            let event = if prng.below(3) == 0 {
                DrainEvent::Tick
            } else {
                has[some as usize] = Some(drain.phase());
                acknowledged(some, drain.phase())
            };
            drain.on(event, now);
            if drain.state() == DrainState::Fencing {
                drain.on(DrainEvent::OldClosed, now);
            }
            let is_open = drain.old_is == OldMember::Open;
            let first = has.iter().min().expect("a router");
            assert!(
                !is_open || drain.phase() == DrainPhase::ReadOld || *first >= Some(DrainPhase::ReadOld),
                "seed {seed}: new is read, and a delete may miss it"
            );
            assert!(
                !is_open || drain.phase() < DrainPhase::NewOnly || *first >= Some(DrainPhase::ReadNew),
                "seed {seed}: old is read, and a delete may miss it"
            );
        }
        while let Some(next) = drain.next_call() {
            drain.on(DrainEvent::Tick, next);
        }
        assert!(!matches!(drain.state(), DrainState::Routers(_)), "seed {seed}: {:?}", drain.state());
    }

    #[test]
    fn random_histories_lose_no_delete() {
        (0..500).for_each(random_history);
    }
}
