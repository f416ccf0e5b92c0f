//! Leases against a given clock: grant, keep alive, expire. Reads no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use stdx::clock::Now;

use super::error::RegisterError;
use super::numbers::{LEASE_S_MAX, LEASE_S_MIN, LEASES_MAX, LeaseId};

/// Whether a lease can have this time to live.
///
/// # Errors
/// Unless it is a number of whole seconds within the limits.
pub(crate) fn check_ttl(ttl: Duration) -> Result<u64, RegisterError> {
    let seconds = ttl.as_secs();
    if ttl.subsec_nanos() == 0 && (LEASE_S_MIN..=LEASE_S_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err(RegisterError::LeaseTime(ttl))
}

/// All leases that are alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseTable {
    last: i64,
    leases: BTreeMap<LeaseId, Lease>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl: Duration,
    deadline_us: u64,
}

impl LeaseTable {
    /// No lease yet; the numbers given will be above `last`.
    pub(crate) fn after(last: i64) -> LeaseTable {
        LeaseTable { last, leases: BTreeMap::new() }
    }

    /// A new lease; none at the limit.
    pub(crate) fn grant(&mut self, ttl: Duration, now: Now) -> Option<LeaseId> {
        if self.leases.len() >= LEASES_MAX {
            return None;
        }
        self.last += 1;
        let id = LeaseId(self.last);
        self.leases.insert(id, Lease { ttl, deadline_us: after(now, ttl) });
        Some(id)
    }

    /// Lets a lease live for its time once more; none if it is lost.
    pub(crate) fn keep_alive(&mut self, id: LeaseId, now: Now) -> Option<Duration> {
        let lease = self.leases.get_mut(&id)?;
        lease.deadline_us = after(now, lease.ttl);
        Some(lease.ttl)
    }

    /// Whether it is alive.
    pub(crate) fn is_alive(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    /// Ends a lease; whether there was one.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> bool {
        self.leases.remove(&id).is_some()
    }

    /// The leases whose time is over, in their order. They stay until they are revoked.
    pub(crate) fn expired(&self, now: Now) -> Vec<LeaseId> {
        self.leases.iter().filter(|(_, lease)| lease.deadline_us <= now.us).map(|(id, _)| *id).collect()
    }

    /// Gives all leases their whole time again, as a new leader of etcd does: it does not know how much had passed.
    pub(crate) fn renew_all(&mut self, now: Now) {
        for lease in self.leases.values_mut() {
            lease.deadline_us = after(now, lease.ttl);
        }
    }
}

fn after(now: Now, ttl: Duration) -> u64 {
    now.us + ttl.as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn a_lease_lives_for_its_time_after_the_last_keep_alive() {
        let mut table = LeaseTable::default();
        let id = table.grant(TTL, Now::at_ms(0)).expect("a lease");
        assert_eq!(table.expired(Now::at_ms(9_999)), []);
        assert_eq!(table.keep_alive(id, Now::at_ms(9_999)), Some(TTL));
        assert_eq!(table.expired(Now::at_ms(19_998)), []);
        assert_eq!(table.expired(Now::at_ms(19_999)), [id]);
        assert!(table.revoke(id));
        assert_eq!(table.keep_alive(id, Now::at_ms(20_000)), None);
        assert!(!table.is_alive(id) && !table.revoke(id));
    }

    #[test]
    fn a_new_leader_gives_the_whole_time_again() {
        let mut table = LeaseTable::default();
        let id = table.grant(TTL, Now::at_ms(0)).expect("a lease");
        table.renew_all(Now::at_ms(8_000));
        assert_eq!(table.expired(Now::at_ms(17_000)), []);
        assert_eq!(table.expired(Now::at_ms(18_000)), [id]);
    }

    #[test]
    fn at_the_limit_no_lease_is_granted_until_one_ends() {
        let mut table = LeaseTable::default();
        let ids: Vec<LeaseId> =
            (0..LEASES_MAX).map(|_| table.grant(TTL, Now::at_ms(0)).expect("a lease")).collect();
        assert_eq!(table.grant(TTL, Now::at_ms(0)), None);
        assert!(table.revoke(ids[0]));
        let next = table.grant(TTL, Now::at_ms(0)).expect("a lease");
        assert!(!ids.contains(&next), "a number is never given twice");
    }
}
