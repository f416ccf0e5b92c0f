//! Quarantine: members and hosts that were lost again soon after they had been replaced.
//!
//! It ends by a person or at a time that a person named, never because something looks well again.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use stdx::clock::Now;

use crate::{HostId, MemberId};

/// Losses of one host within this are one event: its members die together.
const ONE_EVENT_MS: u64 = 60_000;
/// Two losses within this are flapping.
const FLAPPING_MS: u64 = 3_600_000;
/// Members and hosts with a record. A fleet of 25,000 that loses its 5 % in an hour has 1,250 members and as many hosts.
pub const RECORDS_MAX: usize = 4_096;

/// A member or a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quarantined {
    /// A member.
    Member(MemberId),
    /// A host, with all its members.
    Host(HostId),
}

impl fmt::Display for Quarantined {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Quarantined::Member(member) => write!(formatter, "member/{member}"),
            Quarantined::Host(host) => write!(formatter, "host/{host}"),
        }
    }
}

#[derive(Clone, Debug)]
struct LossRecord {
    last: Now,
    held: Option<Held>,
}

#[derive(Clone, Debug)]
struct Held {
    reason: String,
    until: Option<Now>,
}

/// Why a member must not enter a slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuarantineError {
    /// It or its host is in quarantine.
    #[error("use {what}: in quarantine, because {reason}; release it by hand once the cause is known")]
    Held {
        /// The member or host.
        what: String,
        /// Why.
        reason: String,
    },
    /// No room for more records, so that nothing is known about the member.
    #[error(
        "use {member}: {RECORDS_MAX} members and hosts have records and nobody released any; release some"
    )]
    Full {
        /// The member.
        member: MemberId,
    },
}

/// Records of losses, and who is held because of them.
#[derive(Clone, Debug, Default)]
pub struct QuarantineBook {
    records: BTreeMap<Quarantined, LossRecord>,
    is_full: bool,
}

impl QuarantineBook {
    /// Notes that a lost member was replaced.
    pub fn note_loss(&mut self, now: Now, member: &MemberId, host: &HostId) {
        self.note_loss_of(now, Quarantined::Member(member.clone()));
        self.note_loss_of(now, Quarantined::Host(host.clone()));
    }

    /// Notes that a lost member was replaced, for the member or its host alone.
    pub fn note_loss_of(&mut self, now: Now, whose: Quarantined) {
        let one_event_ms = if matches!(whose, Quarantined::Host(_)) { ONE_EVENT_MS } else { 0 };
        self.note(now, whose, one_event_ms);
    }

    fn note(&mut self, now: Now, whose: Quarantined, one_event_ms: u64) {
        self.forget_old(now);
        if self.records.len() >= RECORDS_MAX && !self.records.contains_key(&whose) {
            self.is_full = true;
            return;
        }
        let Some(record) = self.records.get_mut(&whose) else {
            self.records.insert(whose, LossRecord { last: now, held: None });
            return;
        };
        let age_ms = now.ms().saturating_sub(record.last.ms());
        if age_ms < one_event_ms {
            return;
        }
        record.last = now;
        if age_ms > FLAPPING_MS {
            // What a person holds stays held; an hour apart is a loss of its own.
            return;
        }
        let reason = format!("it was lost twice within {} min", age_ms.div_ceil(60_000));
        record.held.get_or_insert(Held { reason, until: None });
    }

    /// Holds as a person asks, until a moment or a release. False if there is no room.
    pub fn hold(&mut self, now: Now, whose: Quarantined, reason: &str, until: Option<Now>) -> bool {
        self.forget_old(now);
        if self.records.len() >= RECORDS_MAX && !self.records.contains_key(&whose) {
            return false;
        }
        let reason = reason.chars().take(REASON_LEN_MAX).collect();
        self.records.insert(whose, LossRecord { last: now, held: Some(Held { reason, until }) });
        true
    }

    /// Ends a quarantine, as a person asks. The next loss counts as the first.
    pub fn release(&mut self, whose: &Quarantined) -> bool {
        let was_held = self.records.remove(whose).is_some_and(|record| record.held.is_some());
        self.is_full &= self.records.len() >= RECORDS_MAX;
        was_held
    }

    /// Who is held until somebody releases them, and why, by their names.
    pub fn held(&self) -> impl Iterator<Item = (&Quarantined, &str)> {
        let held = self.records.iter().filter_map(|(whose, record)| Some((whose, record.held.as_ref()?)));
        held.filter(|(_, held)| held.until.is_none()).map(|(whose, held)| (whose, &*held.reason))
    }

    /// Checks that a member may enter a slot.
    pub fn check(&self, now: Now, member: &MemberId, host: &HostId) -> Result<(), QuarantineError> {
        // As a rule there are none, and every member of a fleet is checked.
        let whose = (!self.records.is_empty())
            .then(|| [Quarantined::Member(member.clone()), Quarantined::Host(host.clone())]);
        for whose in whose.into_iter().flatten() {
            let held = self.records.get(&whose).and_then(|record| record.held.as_ref());
            if let Some(held) = held.filter(|held| held.until.is_none_or(|until| now < until)) {
                let what = match &whose {
                    Quarantined::Member(member) => format!("member {member}"),
                    Quarantined::Host(host) => format!("host {host}"),
                };
                return Err(QuarantineError::Held { what, reason: held.reason.clone() });
            }
        }
        if self.is_full { Err(QuarantineError::Full { member: member.clone() }) } else { Ok(()) }
    }

    fn forget_old(&mut self, now: Now) {
        if self.records.len() < RECORDS_MAX {
            return;
        }
        self.records.retain(|_, record| match &record.held {
            Some(held) => held.until.is_none_or(|until| now < until),
            None => now.ms().saturating_sub(record.last.ms()) <= FLAPPING_MS,
        });
        self.is_full &= self.records.len() >= RECORDS_MAX;
    }
}

/// Longest reason that a person gives.
const REASON_LEN_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn name<T: std::str::FromStr<Err = crate::NameError>>(text: &str) -> T {
        text.parse().expect("a name")
    }

    /// Losses as (second, member, host); then whether m1 on h1 may enter a slot at a second.
    #[track_caller]
    fn check(losses: &[(u64, &str, &str)], at: u64, may_enter: bool) {
        let mut book = QuarantineBook::default();
        for (second, member, host) in losses {
            book.note_loss(Now::at_ms(second * 1000), &name(member), &name(host));
        }
        let found = book.check(Now::at_ms(at * 1000), &name("m1"), &name("h1"));
        assert_eq!(found.is_ok(), may_enter, "{found:?}");
    }

    #[test]
    fn a_member_that_is_lost_twice_in_an_hour_is_held_for_good() {
        check(&[(0, "m1", "h1")], 10, true);
        check(&[(0, "m1", "h1"), (3000, "m1", "h2")], 10_000_000, false);
        check(&[(0, "m1", "h1"), (3601, "m1", "h2")], 3602, true);
    }

    #[test]
    fn a_host_whose_members_die_together_was_lost_once() {
        check(&[(0, "m1", "h1"), (1, "m2", "h1"), (20, "m3", "h1")], 30, true);
        check(&[(0, "m2", "h1"), (61, "m3", "h1")], 70, false);
    }

    #[test]
    fn a_person_or_a_named_time_ends_it() {
        let mut book = QuarantineBook::default();
        let (member, host) = (name("m1"), name("h1"));
        let whose = Quarantined::Host(name("h1"));
        assert!(book.hold(Now::at_ms(0), whose.clone(), "bad memory", Some(Now::at_ms(5000))));
        let error = book.check(Now::at_ms(4999), &member, &host).expect_err("held");
        assert!(error.to_string().starts_with("use host h1: in quarantine, because bad memory;"), "{error}");
        assert_eq!(book.check(Now::at_ms(5000), &member, &host), Ok(()));
        assert!(book.hold(Now::at_ms(0), whose.clone(), "bad memory", None));
        assert!(book.check(Now { us: u64::MAX }, &member, &host).is_err());
        assert!(book.release(&whose));
        assert_eq!(book.check(Now::at_ms(1), &member, &host), Ok(()));
        assert!(!book.release(&whose));
    }

    #[test]
    fn a_full_book_lets_nothing_enter_until_there_is_room() {
        let mut book = QuarantineBook::default();
        for at in 0..RECORDS_MAX {
            book.hold(Now::at_ms(0), Quarantined::Member(name(&format!("x{at}"))), "", None);
        }
        assert!(!book.hold(Now::at_ms(0), Quarantined::Member(name("m9")), "", None));
        assert_eq!(book.check(Now::at_ms(0), &name("m1"), &name("h1")), Ok(()), "nothing was missed yet");
        book.note_loss(Now::at_ms(0), &name("m1"), &name("h1"));
        assert!(matches!(
            book.check(Now::at_ms(0), &name("m1"), &name("h1")),
            Err(QuarantineError::Full { .. })
        ));
        assert!(book.release(&Quarantined::Member(name("x7"))));
        assert_eq!(book.check(Now::at_ms(0), &name("m1"), &name("h1")), Ok(()));
        assert_eq!(book.records.len(), RECORDS_MAX - 1);
    }
}
