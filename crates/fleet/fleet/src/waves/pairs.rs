//! Matched pairs: hosts of equal cluster, zone, role, class and plan, drawn from names and the change's number.
//!
//! No random number: two controllers that hear the same hosts draw the same pairs. The draw is written to the register before
//! anybody is told, so it does not matter if they heard different ones.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stdx::prng::mix;

use super::figures::Logs;
use super::plan::{ChangeNumber, ChangePlan};
use crate::ZoneName;

/// A host that is changed, and its control.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MatchedPair {
    pub(super) changed: usize,
    pub(super) control: usize,
    /// The difference between the two before the change.
    pub(super) before: Logs,
}

/// At most `most` pairs among hosts of one kind that may take part, so ordered that every beginning has each zone and cluster by its share.
pub(super) fn draw(
    plan: &ChangePlan,
    hosts: &[usize],
    may_take_part: impl Fn(usize) -> bool,
    most: usize,
) -> Vec<MatchedPair> {
    let mut cells = BTreeMap::<_, Vec<(u64, usize)>>::new();
    for place in hosts.iter().copied().filter(|place| may_take_part(*place)) {
        let host = &plan.hosts[place];
        let lot = lot(plan.number, host.host.as_str());
        cells.entry((&host.zone, &host.clusters, host.role)).or_default().push((lot, place));
    }
    let mut order = Vec::new();
    for mut cell in cells.into_values() {
        cell.sort_unstable();
        let pairs = (cell.len() / 2) as u128;
        for (rank, two) in cell.chunks_exact(2).enumerate() {
            // The middle of the pair's part of its cell, as a fraction of 2^64.
            let quota = ((2 * rank as u128 + 1) << 63) / pairs;
            let pair = MatchedPair { changed: two[0].1, control: two[1].1, before: Logs::default() };
            order.push((quota, two[0].0, pair));
        }
    }
    order.sort_by_key(|(quota, lot, _)| (*quota, *lot));
    order.into_iter().map(|(_, _, pair)| pair).take(most).collect()
}

/// Zones in an order that changes with the change, so that no zone is always the first to suffer.
pub(super) fn zones(plan: &ChangePlan) -> Vec<&ZoneName> {
    let zones: BTreeSet<&ZoneName> = plan.hosts.iter().map(|host| &host.zone).collect();
    let mut order: Vec<_> = zones.into_iter().map(|zone| (lot(plan.number, zone.as_str()), zone)).collect();
    order.sort();
    order.into_iter().map(|(_, zone)| zone).collect()
}

/// A number that orders names, another one for each change.
pub(super) fn lot(seed: ChangeNumber, name: &str) -> u64 {
    name.bytes()
        .fold(mix(seed.0), |state, byte| mix(state ^ u64::from(byte)).wrapping_add(0x9e37_79b9_7f4a_7c15))
}
