//! Agents of the world of changes: what their hosts really have, and the journal that takes back what was not confirmed.

use fleet::HostId;
use fleet::waves::{HostOrder, HostWord};

use super::resizing::HostRoutes;

/// A host and its agent. Times are seconds.
#[derive(Clone, Debug)]
pub(super) struct ChangedHost {
    pub(super) host: HostId,
    pub(super) cluster: usize,
    pub(super) class: usize,
    pub(super) has: HasChange,
    /// Attempts up to this one have come to nothing.
    lapsed: Option<u32>,
    failed: Option<u32>,
    /// The newest decision that it has heard of.
    seen: u64,
    /// It is away until then.
    pub(super) away_until: u64,
    pub(super) faults: HostFaults,
    /// What it shall be changed to.
    pub(super) changes_to: ChangedTo,
    /// Its items are lost.
    pub(super) has_lost_items: bool,
    pub(super) frozen_since: Option<u64>,
    pub(super) is_aside: bool,
    pub(super) has_left: bool,
    /// What its routers read, and its server has lost of keys that are not its own.
    pub(super) routes: HostRoutes,
    /// The generation for which its server is emptied or swept, and since when.
    cleans: Option<(usize, u64)>,
    /// The controller that it speaks to.
    pub(super) controller: usize,
    pub(super) next_turn: u64,
    /// When it was heard last, by any controller.
    pub(super) heard: u64,
    /// Since when it has not had the change, or has it.
    pub(super) since: u64,
}

/// What is wrong with a host besides.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFaults {
    /// It speaks, and hears nothing, until then.
    pub(super) deaf_until: u64,
    /// The change cuts it off: it hears nothing for so many seconds after it has begun.
    pub(super) is_cut_off_for: u64,
    pub(super) disk_is_full: bool,
    pub(super) plan_differs: bool,
}

/// What a change makes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedTo {
    Sound,
    /// Its items are lost, and its agent sees it.
    LosesItems,
    /// Its items are lost, and its agent does not look.
    LosesItemsUnseen,
}

/// Seconds until a server is emptied or swept.
const CLEANED_S: u64 = 20;

/// What a host really has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HasChange {
    AsBefore,
    Trying { attempt: u32, until: u64 },
    Kept { attempt: u32 },
}

impl ChangedHost {
    pub(super) fn new(
        host: HostId,
        (cluster, class): (usize, usize),
        controller: usize,
        changes_to: ChangedTo,
    ) -> ChangedHost {
        ChangedHost {
            host,
            cluster,
            class,
            has: HasChange::AsBefore,
            lapsed: None,
            failed: None,
            seen: 0,
            away_until: 0,
            faults: HostFaults::default(),
            changes_to,
            has_lost_items: false,
            frozen_since: None,
            is_aside: false,
            has_left: false,
            routes: HostRoutes { loaded: 1, cleaned: 0 },
            cleans: None,
            controller,
            next_turn: 0,
            heard: 0,
            since: 0,
        }
    }

    pub(super) fn is_away(&self, now: u64) -> bool {
        self.has_left || now < self.away_until
    }

    pub(super) fn has_it(&self) -> bool {
        self.has != HasChange::AsBefore
    }

    /// The host starts again. What was not confirmed is gone; so is what is not made to last, if it is unlucky.
    pub(super) fn reboot(&mut self, now: u64, for_s: u64, loses_it: bool) {
        self.away_until = now + for_s;
        match self.has {
            HasChange::Trying { attempt, .. } => self.lapse(attempt, now),
            HasChange::Kept { .. } if loses_it => self.become_now(HasChange::AsBefore, now),
            _ => {}
        }
    }

    /// The journal's time.
    pub(super) fn tick(&mut self, now: u64) {
        if let HasChange::Trying { attempt, until } = self.has
            && until <= now
        {
            self.lapse(attempt, now);
        }
    }

    fn lapse(&mut self, attempt: u32, now: u64) {
        self.lapsed = Some(attempt);
        self.become_now(HasChange::AsBefore, now);
    }

    fn become_now(&mut self, has: HasChange, now: u64) {
        (self.has, self.since) = (has, now);
    }

    pub(super) fn word(&self) -> HostWord {
        match (self.has, self.lapsed, self.failed) {
            (HasChange::Trying { attempt, .. }, ..) => HostWord::Trying { attempt },
            (HasChange::Kept { attempt }, ..) => HostWord::Changed { attempt },
            (HasChange::AsBefore, _, Some(attempt)) => {
                HostWord::Failed { attempt, reason: "no space left on device".to_owned() }
            }
            (HasChange::AsBefore, Some(attempt), None) => HostWord::Lapsed { attempt },
            (HasChange::AsBefore, None, None) => HostWord::AsBefore,
        }
    }

    /// Does what it is told.
    pub(super) fn obey(&mut self, order: HostOrder, now: u64, confirm_s: u64) {
        if order.version < self.seen {
            return;
        }
        self.seen = order.version;
        match (order.attempt, self.has) {
            // It hears its controller while it shall have the change: it keeps it.
            (Some(told), HasChange::Trying { attempt, .. }) if told == attempt => {
                self.become_now(HasChange::Kept { attempt }, now);
            }
            (Some(told), HasChange::Kept { attempt }) if told == attempt => {}
            (_, HasChange::Trying { .. } | HasChange::Kept { .. }) => {
                self.become_now(HasChange::AsBefore, now);
            }
            (Some(told), HasChange::AsBefore) if self.is_new(told) => {
                if self.faults.disk_is_full || self.faults.plan_differs {
                    self.failed = Some(told);
                    return;
                }
                self.has_lost_items |= self.changes_to != ChangedTo::Sound;
                if self.changes_to == ChangedTo::LosesItems {
                    // The agent counts them before and after: the host has the old version again.
                    self.failed = Some(told);
                    return;
                }
                self.become_now(HasChange::Trying { attempt: told, until: now + confirm_s }, now);
                self.faults.deaf_until =
                    self.faults.deaf_until.max(now + std::mem::take(&mut self.faults.is_cut_off_for));
            }
            (_, HasChange::AsBefore) => {}
        }
    }

    /// Loads routes, and has its server emptied or swept, if it is told.
    pub(super) fn load(&mut self, generation: usize, cleans: bool, now: u64) {
        self.routes.loaded = self.routes.loaded.max(generation);
        if !cleans {
            return;
        }
        match self.cleans {
            Some((begun, since)) if begun == generation => {
                if since + CLEANED_S <= now {
                    self.routes.cleaned = generation;
                }
            }
            _ => self.cleans = Some((generation, now)),
        }
    }

    fn is_new(&self, told: u32) -> bool {
        self.lapsed.is_none_or(|lapsed| lapsed < told) && self.failed.is_none_or(|failed| failed < told)
    }
}
