//! A drained slot: a route in place of the server in its pool, and a pool for each of the slot's two members.
//!
//! ```text
//! reads   the slot's own member; while it is warmed up, misses are looked up in the other one
//! deletes both
//! sets    the slot's own member, and the item goes out of the other one: whichever a router reads, it finds nothing older
//! ```
//!
//! The route stands where the server stood, so no key changes its slot, and it is reached however a person's routes name the
//! pool: as a handle, as `PoolRoute|web`, or as one of several children.

use serde_json::{Value, json};

use super::text_parts::{attributes, object};
use crate::drain::{DrainPhase, SlotDrain};
use crate::generation::{ClusterRecord, SlotRecord};

/// How long copies live that the old member gives to the new one, in seconds, unless the cluster's warm-up says it: a router does
/// not see how long the item would. It is also how long a copy can be old that crosses a delete on its way.
const COPY_EXPTIME_S: u32 = 600;
/// Attributes of a pool that are about all of its servers together, or done once around the slot.
pub(super) const OF_THE_WHOLE: [&str; 4] = ["hash", "weights", "failure_domains", "compression"];

/// What stands in the pool's list for a slot.
pub(super) fn server(cluster: &ClusterRecord, slot: &SlotRecord) -> String {
    let Some(drain) = &slot.drain else { return json!(slot.address).to_string() };
    // What fails is written down once, for the pool.
    let alone = |member: &str| {
        object(&[
            ("type", json!("PoolRoute")),
            ("pool", json!(pool_name(cluster, slot, member))),
            ("asynclog", json!(false)),
        ])
    };
    let (read, other) = (alone(slot.member.as_str()), alone(drain.other.as_str()));
    moving(&read, &other, drain.phase, copy_exptime_s(cluster))
}

/// How long copies live that a member gives to the one that gets its keys.
pub(super) fn copy_exptime_s(cluster: &ClusterRecord) -> u32 {
    cluster.warm_up.as_ref().map_or(COPY_EXPTIME_S, |warm_up| warm_up.exptime_s)
}

/// The route of keys with two owners: the one that is read, and the other one.
pub(super) fn moving(read: &str, other: &str, phase: DrainPhase, exptime_s: u32) -> String {
    let gets = match phase {
        DrainPhase::ReadNew => {
            format!("{{\"type\":\"WarmUpRoute\",\"cold\":{read},\"warm\":{other},\"exptime\":{exptime_s}}}")
        }
        DrainPhase::ReadOld | DrainPhase::NewOnly => read.to_owned(),
    };
    let expired = format!("{{\"type\":\"ModifyExptimeRoute\",\"target\":{other},\"exptime\":-1}}");
    format!(
        "{{\"type\":\"OperationSelectorRoute\",\"default_policy\":{gets},\"operation_policies\":{{\
         \"delete\":{{\"type\":\"AllSyncRoute\",\"children\":[{read},{other}]}},\
         \"set\":{{\"type\":\"AllInitialRoute\",\"children\":[{read},{expired}]}}}}}}"
    )
}

/// The pools of the two members, one server each, with the attributes of the cluster's.
pub(super) fn pools(cluster: &ClusterRecord) -> Vec<String> {
    let drained = cluster.slots.iter().filter_map(|slot| Some((slot, slot.drain.as_ref()?)));
    drained.flat_map(|(slot, drain)| two(cluster, slot, drain)).collect()
}

fn two(cluster: &ClusterRecord, slot: &SlotRecord, drain: &SlotDrain) -> [String; 2] {
    let pool = |member: &str, address: &str| {
        let name = json!(pool_name(cluster, slot, member));
        let servers = json!([address]).to_string();
        let is_own = |name: &str| !OF_THE_WHOLE.contains(&name);
        format!("  {name}: {}", attributes(&cluster.pool, is_own, &servers))
    };
    let mut members = [(&slot.member, &slot.address), (&drain.other, &drain.other_address)];
    members.sort_unstable();
    members.map(|(member, address)| pool(member.as_str(), address))
}

/// Names of clusters have no `:`, so this is no other cluster's pool.
fn pool_name(cluster: &ClusterRecord, slot: &SlotRecord, member: &str) -> Value {
    json!(format!("{}:{}:{member}", cluster.name, slot.id))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::generation::{FleetContent, ViewRecord};
    use crate::policy::WarmUpPolicy;

    fn content(phase: DrainPhase) -> FleetContent {
        let slot = |at: usize| SlotRecord {
            id: format!("s{at}").parse().expect("a name"),
            member: format!("m{at}").parse().expect("a name"),
            address: format!("m{at}:1"),
            is_cold: false,
            drain: None,
        };
        let mut slots: Vec<SlotRecord> = (0..3).map(slot).collect();
        let (other, other_address) = ("new".parse().expect("a name"), "new:1".to_owned());
        slots[1].drain = Some(SlotDrain { phase: DrainPhase::ReadOld, other, other_address, warm_up_s: 60 });
        let pool = BTreeMap::from([
            ("server_timeout".to_owned(), json!(50)),
            ("weights".to_owned(), json!([1, 1, 1])),
        ]);
        let name = "web".parse().expect("a name");
        let cluster =
            ClusterRecord { name, pool, gutter: None, warm_up: None, shadow: None, resize: None, slots };
        let name = "main".parse().expect("a name");
        let routes = "{\"route\": \"PoolRoute|web\"}".to_owned();
        let view = ViewRecord { name, clusters: Vec::new(), route_prefix: None, routes, pools_at: 1 };
        FleetContent { clusters: vec![cluster], views: vec![view] }.in_drain_phase(phase)
    }

    fn text(content: &FleetContent) -> String {
        crate::texts(content).into_values().next().expect("a view")
    }

    const OLD: &str = r#"{"type":"PoolRoute","pool":"web:s1:m1","asynclog":false}"#;
    const NEW: &str = r#"{"type":"PoolRoute","pool":"web:s1:new","asynclog":false}"#;

    #[test]
    fn a_route_stands_in_the_place_of_the_drained_server() {
        let text = text(&content(DrainPhase::ReadOld));
        let expected = format!(
            r#"  "web": {{"server_timeout":50,"servers":["m0:1",{{"type":"OperationSelectorRoute","default_policy":{OLD},"operation_policies":{{"delete":{{"type":"AllSyncRoute","children":[{OLD},{NEW}]}},"set":{{"type":"AllInitialRoute","children":[{OLD},{{"type":"ModifyExptimeRoute","target":{NEW},"exptime":-1}}]}}}}}},"m2:1"],"weights":[1,1,1]}},"#
        );
        assert!(text.contains(&expected), "{text}");
        assert!(
            text.contains(
                "  \"web:s1:m1\": {\"server_timeout\":50,\"servers\":[\"m1:1\"]},\n  \
                 \"web:s1:new\": {\"server_timeout\":50,\"servers\":[\"new:1\"]}\n}"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_new_member_is_read_and_warmed_up_and_then_read_alone() {
        let warm = text(&content(DrainPhase::ReadNew));
        let gets = format!(
            r#""default_policy":{{"type":"WarmUpRoute","cold":{NEW},"warm":{OLD},"exptime":600}},"operation_policies":{{"delete":{{"type":"AllSyncRoute","children":[{NEW},{OLD}]}}"#
        );
        assert!(warm.contains(&gets), "{warm}");
        let alone = text(&content(DrainPhase::NewOnly));
        assert!(
            alone.contains(&format!(r#""default_policy":{NEW},"operation_policies":{{"delete""#)),
            "{alone}"
        );
        let plain = text(&content(DrainPhase::NewOnly).without_drain());
        assert!(plain.contains(r#""servers":["m0:1","new:1","m2:1"]"#) && !plain.contains("m1"), "{plain}");
    }

    #[test]
    fn copies_live_as_long_as_the_clusters_warm_up_says() {
        let mut content = content(DrainPhase::ReadNew);
        let cluster = "b".parse().expect("a name");
        content.clusters[0].warm_up = Some(WarmUpPolicy { cluster, exptime_s: 9 });
        assert!(text(&content).contains(&format!("\"warm\":{OLD},\"exptime\":9}}")));
    }
}
