//! Choices by host instead of by key: the order of `LatestRoute`, the child of `HostIdRoute`.

use super::error::HashError;
use super::rendezvous::combine;
use super::spooky::{spooky64, twang_mix64};
use super::weighted_ch3::{select, share};

/// The children that a host asks, in order, at most `limit` of them. Of one child or none, all.
///
/// `thread` is 0, or the worker's number if each worker shall have an order of its own.
pub fn latest_order(
    host_id: u32,
    thread: u64,
    salt: &str,
    weights: &[f64],
    limit: usize,
) -> Result<Vec<usize>, HashError> {
    let mut shares = weights.iter().map(|&weight| share(weight)).collect::<Result<Vec<_>, _>>()?;
    let mut left: Vec<usize> = (0..weights.len()).collect();
    if left.len() <= 1 {
        return Ok(left);
    }
    let mut hash = combine(0, u64::from(host_id));
    if thread != 0 {
        hash = combine(hash, thread);
    }
    if !salt.is_empty() {
        hash = with_salt(hash, salt);
    }
    let mut order = Vec::new();
    for round in 0..limit.min(left.len()) {
        let at = select(hash.to_string().as_bytes(), &shares);
        order.push(left.swap_remove(at));
        shares.swap_remove(at);
        hash = combine(hash, round as u64);
    }
    Ok(order)
}

/// The child that a host always asks. Panics if there is none.
pub fn host_child(host_id: u32, salt: &str, count: usize) -> usize {
    let hash = u64::from(host_id);
    let hash = if salt.is_empty() { hash } else { with_salt(hash, salt) };
    (hash % count as u64) as usize
}

fn with_salt(hash: u64, salt: &str) -> u64 {
    combine(twang_mix64(hash), spooky64(salt.as_bytes(), 0))
}
