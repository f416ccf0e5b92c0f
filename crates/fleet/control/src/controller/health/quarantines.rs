//! Quarantines: members and hosts that take no slot, here and in the register.

use std::collections::BTreeSet;

use fleet::health::Quarantined;
use fleet::{HostId, MemberId};
use stdx::clock::Now;

use super::MemberHealth;
use crate::decisions::{HELD_MAX, HeldRecord};

impl MemberHealth {
    /// Who is in quarantine, and why.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Quarantined, &str)> {
        self.watch.quarantine().held()
    }

    /// Whether a member takes no slot, because it or its host is in quarantine.
    pub(crate) fn is_held(&self, member: &MemberId, host: &HostId, now: Now) -> bool {
        self.watch.quarantine().check(now, member, host).is_err()
    }

    /// Takes what the register has. Quarantines that it had and has no more were ended by somebody.
    pub(crate) fn follow_quarantine(&mut self, records: &[HeldRecord], now: Now) {
        let held: BTreeSet<Quarantined> = records.iter().map(|held| held.whose.clone()).collect();
        let book = self.watch.quarantine_mut();
        for whose in self.kept_held.difference(&held) {
            book.release(whose);
        }
        let known: BTreeSet<Quarantined> = book.held().map(|(whose, _)| whose.clone()).collect();
        for record in records.iter().filter(|record| !known.contains(&record.whose)) {
            // A full book lets no member in, whoever it is.
            let _ = book.hold(now, record.whose.clone(), &record.reason, None);
        }
        self.kept_held = held;
    }

    /// Quarantines that the register does not have yet.
    pub(crate) fn unkept(&self) -> Vec<HeldRecord> {
        self.held()
            .filter(|(whose, _)| !self.kept_held.contains(whose))
            .map(|(whose, reason)| HeldRecord { whose: whose.clone(), reason: reason.to_owned() })
            .collect()
    }

    /// The register has these quarantines, and has let others go. Returns a line for each of those.
    pub(crate) fn note_kept(&mut self, kept: Vec<HeldRecord>, dropped: &[HeldRecord]) -> Vec<String> {
        self.kept_held.extend(kept.into_iter().map(|record| record.whose));
        let mut lines = Vec::new();
        for HeldRecord { whose, reason } in dropped {
            self.release(whose);
            lines.push(format!(
                "{whose} is out of quarantine ({reason}): {HELD_MAX} that came later are kept; release some by `control thaw`"
            ));
        }
        lines
    }

    /// Puts a member or host into quarantine, which the register has. False if there is no room.
    pub(crate) fn hold(&mut self, whose: &Quarantined, why: &str, now: Now) -> bool {
        self.watch.quarantine_mut().hold(now, whose.clone(), why, None)
    }

    /// Ends a quarantine, which the register has ended; whether there was one.
    pub(crate) fn release(&mut self, whose: &Quarantined) -> bool {
        self.kept_held.remove(whose);
        self.watch.quarantine_mut().release(whose)
    }

    /// Notes the loss of a member.
    #[cfg(test)]
    pub(crate) fn note_loss(&mut self, member: &MemberId, host: &HostId, now: Now) {
        self.watch.quarantine_mut().note_loss(now, member, host);
    }
}
