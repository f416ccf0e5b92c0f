//! Flushes of members outside slots: what was missed there is emptied before a slot is entered.
//!
//! A member without a slot gets no deletes, so its values are old. Only a [`FlushedMember`] becomes an [`EnteringMember`], and
//! only a flush that was seen makes a [`StaleMember`] flushed: the types leave no other way.

use stdx::clock::Now;

use crate::MemberId;

/// A router with an old file may have written to the member since its flush; after this it is flushed again.
const FLUSH_VALID_MS: u64 = 60_000;

/// A member outside a slot, with values that may be old.
#[derive(Debug, PartialEq, Eq)]
pub struct StaleMember {
    member: MemberId,
    /// Flushes before it was known to be stale.
    flushes: u64,
}

impl StaleMember {
    /// A member outside a slot, and the number of flushes that its agent reports now. A new member is one, too: nobody
    /// knows what its port answered before.
    pub fn new(member: MemberId, flushes: u64) -> StaleMember {
        StaleMember { member, flushes }
    }

    /// Takes a later report. The number must have grown; one that fell belongs to a host that was set up again, and counts
    /// from there.
    pub fn reported(self, flushes: u64, now: Now) -> Result<FlushedMember, StaleMember> {
        if flushes > self.flushes {
            return Ok(FlushedMember { member: self.member, flushes, at: now });
        }
        Err(StaleMember { member: self.member, flushes })
    }

    /// Which.
    pub fn member(&self) -> &MemberId {
        &self.member
    }
}

/// A member outside a slot that was seen to be flushed.
#[derive(Debug, PartialEq, Eq)]
pub struct FlushedMember {
    member: MemberId,
    flushes: u64,
    at: Now,
}

impl FlushedMember {
    /// Lets it enter a slot, unless the flush is too long ago.
    pub fn enter(self, now: Now) -> Result<EnteringMember, StaleMember> {
        if now.ms().saturating_sub(self.at.ms()) > FLUSH_VALID_MS {
            return Err(StaleMember { member: self.member, flushes: self.flushes });
        }
        Ok(EnteringMember { member: self.member })
    }
}

/// An empty member, which may be given a slot in the next generation.
#[derive(Debug, PartialEq, Eq)]
pub struct EnteringMember {
    member: MemberId,
}

impl EnteringMember {
    /// Which.
    pub fn into_member(self) -> MemberId {
        self.member
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports of flushes one second apart, then the wait in seconds until it enters.
    #[track_caller]
    fn check(first: u64, reports: &[u64], wait: u64, enters: bool) {
        let mut stale = StaleMember::new("m1".parse().expect("a name"), first);
        for (second, flushes) in reports.iter().enumerate() {
            let now = Now::at_ms(second as u64 * 1000);
            match stale.reported(*flushes, now) {
                Ok(flushed) => {
                    let entered = flushed.enter(Now::at_ms(now.ms() + wait * 1000));
                    assert_eq!(entered.is_ok(), enters, "{reports:?}");
                    return;
                }
                Err(still) => stale = still,
            }
        }
        assert!(!enters, "{reports:?}: {} is stale", stale.member());
    }

    #[test]
    fn a_member_enters_after_a_flush_that_was_seen() {
        check(7, &[7, 7, 8], 5, true);
        check(7, &[7, 7, 7], 5, false);
        check(0, &[], 5, false);
    }

    #[test]
    fn a_host_that_counts_anew_needs_another_flush() {
        check(7, &[0, 0], 5, false);
        check(7, &[0, 1], 5, true);
        check(7, &[3, 2, 2], 5, false);
    }

    #[test]
    fn a_flush_long_ago_does_not_count() {
        check(7, &[8], 60, true);
        check(7, &[8], 61, false);
    }
}
