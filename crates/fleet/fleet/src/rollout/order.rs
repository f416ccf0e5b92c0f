//! The order in which routers get their turn: from names and the generation's number, the same for every controller.

use std::collections::{BTreeMap, BTreeSet};

use stdx::prng::mix;

use crate::{GenerationNumber, RouterId, ZoneName};

/// Routers in an order of which every beginning has each zone by its share.
pub(super) fn spread<'a>(
    seed: GenerationNumber,
    routers: Vec<(&'a RouterId, &'a ZoneName)>,
) -> Vec<&'a RouterId> {
    let mut by_zone = BTreeMap::<&ZoneName, Vec<(u64, &RouterId)>>::new();
    for (router, zone) in routers {
        by_zone.entry(zone).or_default().push((lot(seed, router.as_str()), router));
    }
    let mut order = Vec::new();
    for (_, mut routers) in by_zone {
        routers.sort();
        let size = routers.len() as u128;
        for (rank, (lot, router)) in routers.into_iter().enumerate() {
            // The middle of the router's part of its zone, as a fraction of 2^64: exact enough to order by.
            let quota = ((2 * rank as u128 + 1) << 63) / size;
            order.push((quota, lot, router));
        }
    }
    order.sort();
    order.into_iter().map(|(_, _, router)| router).collect()
}

/// Zones in an order that changes with the generation, so that no zone is always the first to suffer.
pub(super) fn zones(seed: GenerationNumber, zones: BTreeSet<&ZoneName>) -> Vec<&ZoneName> {
    let mut order = zones.into_iter().map(|zone| (lot(seed, zone.as_str()), zone)).collect::<Vec<_>>();
    order.sort();
    order.into_iter().map(|(_, zone)| zone).collect()
}

fn lot(seed: GenerationNumber, name: &str) -> u64 {
    name.bytes()
        .fold(mix(seed.0), |state, byte| mix(state ^ u64::from(byte)).wrapping_add(0x9e37_79b9_7f4a_7c15))
}
