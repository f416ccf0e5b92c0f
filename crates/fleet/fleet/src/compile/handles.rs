//! Named handles of a cluster with a gutter or a warm-up: `"route": "web"` in place of `"route": "PoolRoute|web"`.
//!
//! ```text
//! web        all slots warm:  web:plain
//!            one is cold:     HashRoute over one child a slot: web:plain, and web:cold at the cold slot
//! web:plain  PoolRoute|web, and its gutter for the members that do not answer
//! web:cold   the same; gets that miss are looked up in the warm source, and deletes go to both
//! ```
//!
//! Whatever the handle, a key's own server is the one that `PoolRoute|web` chooses: the choice between `web:plain` and
//! `web:cold` only says who is asked after it. Names of clusters have no `:`, so no handle has that of another cluster.

use serde_json::json;

use super::text_parts::object;
use crate::generation::{ClusterRecord, WarmSource};

/// The handles of a cluster, in the order of their names; none if nothing answers for it.
pub(super) fn of(cluster: &ClusterRecord) -> Vec<String> {
    if cluster.gutter.is_none() && cluster.warm_up.is_none() {
        return Vec::new();
    }
    let name = cluster.name.as_str();
    let handle = |name: String, route: String| format!("  {}: {route}", json!(name));
    let pool = object(&[("type", json!("PoolRoute")), ("pool", json!(name))]);
    let plain = with_gutter(cluster, &pool);
    let source = cluster.warm_source().filter(|_| cluster.slots.iter().any(|slot| slot.is_cold));
    let Some(source) = source else { return vec![handle(name.to_owned(), plain)] };
    vec![
        handle(name.to_owned(), by_slot(cluster)),
        handle(format!("{name}:cold"), cold(cluster, &pool, source)),
        handle(format!("{name}:plain"), plain),
    ]
}

/// A route, and the gutter if that fails.
fn with_gutter(cluster: &ClusterRecord, route: &str) -> String {
    let Some(gutter) = &cluster.gutter else { return route.to_owned() };
    let failover = json!(format!("PoolRoute|{}", gutter.cluster));
    let exptime = gutter.exptime_s;
    format!(
        "{{\"type\":\"FailoverWithExptimeRoute\",\"normal\":{route},\"failover\":{failover},\"failover_exptime\":{exptime}}}"
    )
}

/// The choice of a slot, as the pool's own route makes it, so that only keys of cold slots go another way.
fn by_slot(cluster: &ClusterRecord) -> String {
    let name = cluster.name.as_str();
    let child =
        |is_cold: bool| json!(format!("{name}:{}", if is_cold { "cold" } else { "plain" })).to_string();
    let children: Vec<String> = cluster.slots.iter().map(|slot| child(slot.is_cold)).collect();
    let hash = match cluster.pool.get("weights") {
        Some(weights) => object(&[("hash_func", json!("WeightedCh3")), ("weights", weights.clone())]),
        None => json!("Ch3").to_string(),
    };
    format!("{{\"type\":\"HashRoute\",\"hash\":{hash},\"children\":[{}]}}", children.join(","))
}

/// The route of cold slots. A delete that missed the source would be undone by the next get that misses.
fn cold(cluster: &ClusterRecord, pool: &str, source: WarmSource<'_>) -> String {
    let warm = json!(format!("PoolRoute|{}", source.cluster));
    let exptime = source.exptime_s;
    let reads = format!("{{\"type\":\"WarmUpRoute\",\"cold\":{pool},\"warm\":{warm},\"exptime\":{exptime}}}");
    let deletes = format!("{{\"type\":\"AllSyncRoute\",\"children\":[{pool},{warm}]}}");
    format!(
        "{{\"type\":\"OperationSelectorRoute\",\"default_policy\":{},\"operation_policies\":{{\"delete\":{}}}}}",
        with_gutter(cluster, &reads),
        with_gutter(cluster, &deletes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::SlotRecord;
    use crate::policy::{GutterPolicy, WarmUpPolicy};

    fn cluster(cold: &[bool]) -> ClusterRecord {
        let name = |text: &str| text.parse().expect("a name");
        let slots = cold.iter().enumerate().map(|(at, is_cold)| SlotRecord {
            id: format!("s{at}").parse().expect("a name"),
            member: format!("m{at}").parse().expect("a name"),
            address: format!("m{at}:1"),
            is_cold: *is_cold,
            drain: None,
        });
        let gutter = GutterPolicy { cluster: name("spares"), exptime_s: 30 };
        let slots = slots.collect();
        ClusterRecord {
            name: name("web"),
            pool: [].into(),
            gutter: Some(gutter),
            warm_up: None,
            resize: None,
            slots,
        }
    }

    const PLAIN: &str = r#"{"type":"FailoverWithExptimeRoute","normal":{"type":"PoolRoute","pool":"web"},"failover":"PoolRoute|spares","failover_exptime":30}"#;

    #[test]
    fn a_cluster_without_a_substitute_has_no_handle() {
        let none = ClusterRecord { gutter: None, ..cluster(&[true, false]) };
        assert_eq!(of(&none), Vec::<String>::new());
    }

    #[test]
    fn a_handle_of_warm_slots_is_the_pool_and_its_gutter() {
        assert_eq!(of(&cluster(&[false, false])), [format!("  \"web\": {PLAIN}")]);
        let warm_up = Some(WarmUpPolicy { cluster: "b".parse().expect("a name"), exptime_s: 9 });
        let alone = ClusterRecord { gutter: None, warm_up, ..cluster(&[false]) };
        assert_eq!(of(&alone), [r#"  "web": {"type":"PoolRoute","pool":"web"}"#]);
    }

    #[test]
    fn a_cold_slot_alone_is_warmed() {
        let handles = of(&cluster(&[false, true, false]));
        assert_eq!(
            handles[0],
            r#"  "web": {"type":"HashRoute","hash":"Ch3","children":["web:plain","web:cold","web:plain"]}"#
        );
        let warm = r#""default_policy":{"type":"FailoverWithExptimeRoute","normal":{"type":"WarmUpRoute","cold":{"type":"PoolRoute","pool":"web"},"warm":"PoolRoute|spares","exptime":30},"#;
        let both = r#""operation_policies":{"delete":{"type":"FailoverWithExptimeRoute","normal":{"type":"AllSyncRoute","children":[{"type":"PoolRoute","pool":"web"},"PoolRoute|spares"]},"#;
        assert!(handles[1].contains(warm) && handles[1].contains(both), "{}", handles[1]);
        assert_eq!(handles[2..], [format!("  \"web:plain\": {PLAIN}")]);
    }

    #[test]
    fn weights_of_the_pool_choose_the_slot() {
        let pool = [("weights".to_owned(), json!([0.5, 1.0]))].into();
        let handles = of(&ClusterRecord { pool, ..cluster(&[true, false]) });
        assert!(
            handles[0].contains(r#""hash":{"hash_func":"WeightedCh3","weights":[0.5,1.0]}"#),
            "{}",
            handles[0]
        );
    }
}
