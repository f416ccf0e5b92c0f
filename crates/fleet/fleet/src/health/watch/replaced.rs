//! Replacements: what a generation replaces, and those of the last hour that others have made or that came before a start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stdx::clock::Now;

use super::HealthWatch;
use crate::MemberId;
use crate::health::quarantine::Quarantined;
use crate::health::roster::{Roster, SlotMember};

/// A slot that got another member, and whose losses that counts as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotReplacement {
    /// The slot, and the member that had it.
    #[serde(flatten)]
    pub place: SlotMember,
    /// It is a loss of the member: the next one within the hour is its second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_members_loss: bool,
    /// It is a loss of the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_hosts_loss: bool,
}

impl SlotReplacement {
    /// A replacement of a member that was lost, or that a person has replaced.
    pub fn new(place: SlotMember, was_lost: bool) -> SlotReplacement {
        SlotReplacement { place, is_members_loss: was_lost, is_hosts_loss: was_lost }
    }

    /// Counts no more as a loss of a member or host that somebody has released. Whether it did before.
    pub fn forgive(&mut self, whose: &Quarantined) -> bool {
        match whose {
            Quarantined::Member(member) if *member == self.place.member => {
                std::mem::take(&mut self.is_members_loss)
            }
            Quarantined::Host(host) if *host == self.place.host => std::mem::take(&mut self.is_hosts_loss),
            _ => false,
        }
    }

    fn losses(&self) -> impl Iterator<Item = Quarantined> {
        let member = self.is_members_loss.then(|| Quarantined::Member(self.place.member.clone()));
        member.into_iter().chain(self.is_hosts_loss.then(|| Quarantined::Host(self.place.host.clone())))
    }
}

impl HealthWatch {
    /// What another roster replaces, as this watch sees it: slots with another member. A drain replaces nobody: both members
    /// live, and a person has asked for it. The guard limits what happens by itself.
    pub fn replaced_by(&self, roster: &Roster) -> Vec<SlotReplacement> {
        let slots: BTreeMap<_, &MemberId> =
            roster.places.iter().map(|place| ((&place.cluster, &place.slot), &place.member)).collect();
        let places = self.roster.places.iter().enumerate().filter(|(_, place)| !roster.is_drained(place));
        let replaced = places.filter(|(_, place)| {
            slots.get(&(&place.cluster, &place.slot)).is_some_and(|new| **new != place.member)
        });
        let replacement = |(at, place): (usize, &SlotMember)| {
            let was_lost = self.members[at].verdict.is_suspect() || self.guard.is_granted(place);
            SlotReplacement::new(place.clone(), was_lost)
        };
        replaced.map(replacement).collect()
    }

    /// Takes a roster as [`HealthWatch::set_roster`] does, with replacements up to its generation that somebody has written
    /// down, the oldest first, each with its age. One that this roster shows is the same replacement, and not another one:
    /// what was written says whether it was a loss.
    pub fn set_roster_after(&mut self, now: Now, roster: Roster, written: &[(SlotReplacement, u64)]) {
        if roster.generation < self.roster.generation {
            return;
        }
        let mut seen = self.replaced_by(&roster);
        for (replaced, age_ms) in written {
            match seen.iter_mut().find(|seen| seen.place == replaced.place) {
                Some(seen) if !seen.is_members_loss && !seen.is_hosts_loss => seen.clone_from(replaced),
                Some(_) => {}
                None => self.remember_replacement(now, replaced, *age_ms),
            }
        }
        for replaced in seen {
            let was_lost = replaced.is_members_loss || replaced.is_hosts_loss;
            self.note_losses(now, &replaced);
            self.guard.note_replaced(replaced.place, now, was_lost);
        }
        self.take_roster(now, roster);
    }

    /// Notes a replacement of the last hour, after a start; the oldest first. A member that was lost then is in quarantine if
    /// it is lost once more. An age that reaches back behind the zero of this clock is cut off there.
    pub fn remember_replacement(&mut self, now: Now, replaced: &SlotReplacement, age_ms: u64) {
        let at = Now { us: now.us.saturating_sub(age_ms.saturating_mul(1000)) };
        self.note_losses(at, replaced);
        self.guard.note_replaced(replaced.place.clone(), at, false);
    }

    fn note_losses(&mut self, at: Now, replaced: &SlotReplacement) {
        replaced.losses().for_each(|whose| self.quarantine.note_loss_of(at, whose));
    }
}
