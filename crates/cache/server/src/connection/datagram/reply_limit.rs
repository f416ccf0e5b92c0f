//! The limit on replies to addresses that may be forged.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Networks that are told apart. Two that share a cell share its allowance, so that memory is bounded whatever
/// addresses come.
const CELLS: usize = 4096;
/// Bits of a cell for the bytes of a second; the second is in those above.
const BYTES_BITS: u32 = 40;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// Bytes of replies to each network (/24 of IPv4, /56 of IPv6) in each second, for all workers together.
#[derive(Debug)]
pub(crate) struct ReplyLimit {
    /// Second and bytes of each cell.
    cells: Box<[AtomicU64]>,
    /// Random, so that nobody can choose addresses that share a cell with another's.
    hasher: RandomState,
    /// 0: no limit.
    bytes_per_second: u64,
}

impl ReplyLimit {
    pub(crate) fn new(bytes_per_second: u64) -> ReplyLimit {
        let cells = if bytes_per_second == 0 { 0 } else { CELLS };
        ReplyLimit {
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            bytes_per_second: bytes_per_second.min(BYTES_MASK),
        }
    }

    /// Whether a reply of `bytes` may go to this address now; if so, it is counted. One reply in a second may
    /// exceed the limit, so that none is too long for ever.
    ///
    /// Replies to the machine itself are free: datagrams with its addresses do not come from others.
    pub(crate) fn take(&self, to: IpAddr, second: u32, bytes: u64) -> bool {
        if self.cells.is_empty() || to.is_loopback() {
            return true;
        }
        let cell = &self.cells[self.hasher.hash_one(network(to)) as usize % CELLS];
        let second = u64::from(second) & (u64::MAX >> BYTES_BITS);
        let count = |cell: u64| {
            let used = if cell >> BYTES_BITS == second { cell & BYTES_MASK } else { 0 };
            let is_allowed = used == 0 || used + bytes <= self.bytes_per_second;
            is_allowed.then(|| second << BYTES_BITS | (used + bytes).min(BYTES_MASK))
        };
        cell.fetch_update(Relaxed, Relaxed, count).is_ok()
    }
}

/// The network of an address: what a provider gives to one customer, or more.
fn network(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address) >> 8),
        IpAddr::V6(address) => u128::from(address) >> 72 | 1 << 127,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_gets_so_many_bytes_in_a_second() {
        let limit = ReplyLimit::new(1000);
        let [a, neighbour] = ["192.0.2.1", "192.0.2.200"].map(address);
        assert!(limit.take(a, 5, 600) && limit.take(neighbour, 5, 400));
        assert!(!limit.take(a, 5, 1) && !limit.take(neighbour, 5, 1));
        assert!(limit.take(a, 6, 1000) && !limit.take(a, 6, 1));
        assert!(limit.take(a, 7, 5_000), "one reply is always allowed");
        assert!(!limit.take(a, 7, 1));
        let [b, other_customer] = ["2001:db8:0:100::1", "2001:db8:0:200::1"].map(address);
        assert!(limit.take(b, 7, 1000) && limit.take(other_customer, 7, 1000));
        assert!(!limit.take(address("2001:db8:0:1ff::1"), 7, 1), "of the same /56");
    }

    #[test]
    fn the_machine_itself_and_a_limit_of_zero_are_free() {
        let limit = ReplyLimit::new(10);
        assert!(
            (0..100).all(|_| limit.take(address("127.0.0.9"), 1, 10) && limit.take(address("::1"), 1, 10))
        );
        let none = ReplyLimit::new(0);
        assert!((0..100).all(|_| none.take(address("192.0.2.1"), 1, u64::MAX / 2)));
    }

    #[test]
    fn a_million_networks_take_no_more_than_their_cells() {
        let limit = ReplyLimit::new(1000);
        let networks = (0..1_000_000_u32).map(|number| IpAddr::from((number << 8).to_be_bytes()));
        let allowed = networks.filter(|network| limit.take(*network, 9, 1000)).count();
        assert!(allowed <= CELLS, "{allowed}");
        assert!(allowed > CELLS / 2, "{allowed}");
    }

    #[test]
    fn workers_count_together() {
        let limit = ReplyLimit::new(100_000);
        let to = address("192.0.2.1");
        let allowed: usize = std::thread::scope(|scope| {
            let worker = || (0..100_000).filter(|_| limit.take(to, 3, 10)).count();
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
        });
        assert_eq!(allowed, 10_000);
    }
}
