//! A cluster that is resized: routes in place of the servers of the last slots, and pools for both owners of their keys.
//!
//! ```text
//! "web"         the slots of the larger layout; in place of the servers of those that are added or go, a route
//! "web:fewer"   the servers of the smaller layout: the other owner of the keys that move
//! "web:s4:m4"   the server of such a slot alone
//! ```
//!
//! The pool `web` has the larger layout in all phases, so a key that does not move finds its server where it was, and no route
//! more is asked for it. Whatever way a person's routes name the pool, they come to the routes in it.

use serde_json::{Value, json};

use super::drained::{OF_THE_WHOLE, copy_exptime_s, moving};
use super::text_parts::{attributes, object};
use crate::drain::DrainPhase;
use crate::generation::{ClusterRecord, SlotRecord};
use crate::resize::ClusterResize;

/// What stands in the pool's list for a slot whose keys move.
pub(super) fn server(cluster: &ClusterRecord, at: usize, slot: &SlotRecord) -> Option<String> {
    let resize = cluster.resize.as_ref().filter(|resize| at >= resize.fewer())?;
    // What fails is written down once, for the pool.
    let alone = |pool: Value, hash: Option<&Value>| {
        let mut route = vec![("type", json!("PoolRoute")), ("pool", pool), ("asynclog", json!(false))];
        route.extend(hash.map(|hash| ("hash", hash.clone())));
        object(&route)
    };
    // A route has its own hash, and only the pool's attribute says which one that of a person's routes is.
    let hash = resize.fewer_pool.get("hash");
    let (slot, fewer) = (alone(slot_pool(cluster, slot), None), alone(fewer_pool(cluster), hash));
    let (old, new) = if resize.grows() { (fewer, slot) } else { (slot, fewer) };
    let (read, other) = match resize.phase {
        DrainPhase::ReadOld => (old, new),
        DrainPhase::ReadNew | DrainPhase::NewOnly => (new, old),
    };
    Some(moving(&read, &other, resize.phase, copy_exptime_s(cluster)))
}

/// The pools of the owners, in the order of their names.
pub(super) fn pools(cluster: &ClusterRecord) -> Vec<String> {
    let Some(resize) = &cluster.resize else { return Vec::new() };
    let is_own = |name: &str| !OF_THE_WHOLE.contains(&name);
    let alone = cluster.slots[resize.fewer()..].iter().map(|slot| {
        let servers = json!([slot.address]).to_string();
        (slot_pool(cluster, slot), attributes(&cluster.pool, is_own, &servers))
    });
    let mut pools: Vec<(String, String)> =
        alone.chain([fewer(cluster, resize)]).map(|(name, pool)| (name.to_string(), pool)).collect();
    pools.sort_unstable();
    pools.into_iter().map(|(name, pool)| format!("  {name}: {pool}")).collect()
}

fn fewer(cluster: &ClusterRecord, resize: &ClusterResize) -> (Value, String) {
    let servers: Vec<&str> =
        cluster.slots[..resize.fewer()].iter().map(|slot| slot.address.as_str()).collect();
    // Values are compressed once, around the pool.
    let is_meant = |name: &str| name != "compression";
    (fewer_pool(cluster), attributes(&resize.fewer_pool, is_meant, &json!(servers).to_string()))
}

/// Names of clusters have no `:`, so these are no other cluster's pools.
fn fewer_pool(cluster: &ClusterRecord) -> Value {
    json!(format!("{}:fewer", cluster.name))
}

fn slot_pool(cluster: &ClusterRecord, slot: &SlotRecord) -> Value {
    json!(format!("{}:{}:{}", cluster.name, slot.id, slot.member))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::generation::{FleetContent, ViewRecord};

    fn content(slots: usize) -> FleetContent {
        let slot = |at: usize| SlotRecord {
            id: format!("s{at}").parse().expect("a name"),
            member: format!("m{at}").parse().expect("a name"),
            address: format!("m{at}:1"),
            is_cold: false,
            drain: None,
        };
        let (name, slots) = ("web".parse().expect("a name"), (0..slots).map(slot).collect());
        let pool =
            BTreeMap::from([("server_timeout".to_owned(), json!(50)), ("hash".to_owned(), json!("Ch3"))]);
        let cluster =
            ClusterRecord { name, pool, gutter: None, warm_up: None, shadow: None, resize: None, slots };
        let name = "main".parse().expect("a name");
        let routes = "{\"route\": \"PoolRoute|web\"}".to_owned();
        let view = ViewRecord { name, clusters: Vec::new(), route_prefix: None, routes, pools_at: 1 };
        FleetContent { clusters: vec![cluster], views: vec![view] }
    }

    fn text(from: usize, to: usize, phase: DrainPhase) -> String {
        let content = content(from).with_resize(&content(to).clusters[0], 60).in_resize_phase(phase);
        crate::texts(&content).into_values().next().expect("a view")
    }

    const FEWER: &str = r#"{"type":"PoolRoute","pool":"web:fewer","asynclog":false,"hash":"Ch3"}"#;
    const SLOT: &str = r#"{"type":"PoolRoute","pool":"web:s2:m2","asynclog":false}"#;

    #[test]
    fn a_route_stands_in_place_of_the_slots_that_are_added_and_of_no_other() {
        let text = text(2, 3, DrainPhase::ReadOld);
        let expected = format!(
            r#"  "web": {{"hash":"Ch3","server_timeout":50,"servers":["m0:1","m1:1",{{"type":"OperationSelectorRoute","default_policy":{FEWER},"operation_policies":{{"delete":{{"type":"AllSyncRoute","children":[{FEWER},{SLOT}]}},"#
        );
        assert!(text.contains(&expected), "{text}");
        let pools = "  \"web:fewer\": {\"hash\":\"Ch3\",\"server_timeout\":50,\"servers\":[\"m0:1\",\"m1:1\"]},\n  \
                     \"web:s2:m2\": {\"server_timeout\":50,\"servers\":[\"m2:1\"]}\n}";
        assert!(text.contains(pools), "{text}");
    }

    #[track_caller]
    fn check_gets(from: usize, to: usize, phase: DrainPhase, expected: &str) {
        let text = text(from, to, phase);
        assert!(text.contains(&format!(r#""default_policy":{expected},"operation_policies""#)), "{text}");
    }

    #[test]
    fn the_old_owner_is_read_then_the_new_one_warmed_up_then_that_alone() {
        let warm = |new: &str, old: &str| {
            format!(r#"{{"type":"WarmUpRoute","cold":{new},"warm":{old},"exptime":600}}"#)
        };
        for (from, to, old, new) in [(2, 3, FEWER, SLOT), (3, 2, SLOT, FEWER)] {
            check_gets(from, to, DrainPhase::ReadOld, old);
            check_gets(from, to, DrainPhase::ReadNew, &warm(new, old));
            check_gets(from, to, DrainPhase::NewOnly, new);
        }
    }
}
