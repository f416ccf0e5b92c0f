//! Named handles of a cluster with a gutter, a warm-up or a shadow: `"route": "web"` in place of `"route": "PoolRoute|web"`.
//!
//! ```text
//! web        all slots warm:  web:plain
//!            one is cold:     HashRoute over one child a slot: web:plain, and web:cold at the cold slot
//! web:plain  PoolRoute|web, and its gutter for the members that do not answer
//! web:cold   the same; gets that miss are looked up in the warm source, and deletes go to both
//! web:shadowed  the pool with its shadow, where two of these ask it
//! ```
//!
//! Whatever the handle, a key's own server is the one that `PoolRoute|web` chooses: the choice between `web:plain` and
//! `web:cold` only says who is asked after it. Names of clusters have no `:`, so no handle has that of another cluster.

use serde_json::json;

use super::text_parts::object;
use crate::generation::{ClusterRecord, WarmSource};
use crate::policy::ShadowedKeys;

/// The handles of a cluster, in the order of their names; none if nothing answers for it.
pub(super) fn of(cluster: &ClusterRecord) -> Vec<String> {
    if cluster.gutter.is_none() && cluster.warm_up.is_none() && cluster.shadow.is_none() {
        return Vec::new();
    }
    let name = cluster.name.as_str();
    let handle = |name: String, route: String| format!("  {}: {route}", json!(name));
    let pool = pool(cluster);
    let source = cluster.warm_source().filter(|_| cluster.slots.iter().any(|slot| slot.is_cold));
    let Some(source) = source else { return vec![handle(name.to_owned(), with_gutter(cluster, &pool))] };
    let by_slot = handle(name.to_owned(), by_slot(cluster));
    // A shadow's replies are compared in one place, so its pool is named.
    let (asked, shadowed) = match (&cluster.shadow, &cluster.gutter) {
        (None, _) => (pool.clone(), None),
        (Some(_), None) => (json!(format!("{name}:plain")).to_string(), None),
        (Some(_), Some(_)) => {
            let shadowed = format!("{name}:shadowed");
            (json!(shadowed).to_string(), Some(handle(shadowed, pool.clone())))
        }
    };
    let cold = handle(format!("{name}:cold"), cold(cluster, &asked, source));
    let plain = if cluster.gutter.is_none() { pool } else { with_gutter(cluster, &asked) };
    let plain = handle(format!("{name}:plain"), plain);
    [by_slot, cold, plain].into_iter().chain(shadowed).collect()
}

/// The pool, and who gets copies of its requests. The index of a server is that of its slot.
fn pool(cluster: &ClusterRecord) -> String {
    let mut route = vec![("type", json!("PoolRoute")), ("pool", json!(cluster.name.as_str()))];
    let Some(shadow) = &cluster.shadow else { return object(&route) };
    let has_substitute = cluster.gutter.is_some() || cluster.warm_up.is_some();
    // Without these, a person's routes have named the pool with its hash until now, and no key may move because of a shadow.
    if let Some(hash) = cluster.pool.get("hash").filter(|_| !has_substitute) {
        route.push(("hash", hash.clone()));
    }
    let mut entry = vec![
        ("name", json!(shadow.name())),
        ("target", json!(format!("PoolRoute|{}", shadow.to))),
        ("requests_fraction", json!(shadow.share)),
        ("compare_fraction", json!(shadow.compare)),
    ];
    match &shadow.keys {
        Some(ShadowedKeys::List(keys)) => entry.push(("keys_to_shadow", json!(keys))),
        range => {
            let range = if let Some(ShadowedKeys::Range(range)) = range { *range } else { [0.0, 1.0] };
            entry.push(("index_range", json!([0, cluster.slots.len()])));
            entry.push(("key_fraction_range", json!(range)));
        }
    }
    let (route, entry) = (object(&route), object(&entry));
    format!("{},\"shadows\":[{entry}]}}", &route[..route.len() - 1])
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
            shadow: None,
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

    fn shadowed(keys: &str, cluster: ClusterRecord) -> ClusterRecord {
        let shadow = format!("from = \"web\"\nto = \"new\"\nshare = 0.5\n{keys}");
        ClusterRecord { shadow: Some(toml::from_str(&shadow).expect("a shadow")), ..cluster }
    }

    const SHADOW: &str = r#""shadows":[{"name":"web->new","target":"PoolRoute|new","requests_fraction":0.5,"compare_fraction":0.1,"#;

    #[test]
    fn a_shadow_is_at_the_pool_of_all_slots() {
        let alone = shadowed("keys = [0, 0.25]", ClusterRecord { gutter: None, ..cluster(&[false, true]) });
        let expected = format!(
            r#"  "web": {{"type":"PoolRoute","pool":"web",{SHADOW}"index_range":[0,2],"key_fraction_range":[0.0,0.25]}}]}}"#
        );
        assert_eq!(of(&alone), std::slice::from_ref(&expected));
        let pool = [("hash".to_owned(), json!({"hash_func": "Crc32"}))].into();
        let other = of(&ClusterRecord { pool, ..alone });
        let hash = r#""pool":"web","hash":{"hash_func":"Crc32"},"shadows""#;
        assert_eq!(other, [expected.replace(r#""pool":"web","shadows""#, hash)]);
        let listed = of(&shadowed("keys = [\"a\"]", cluster(&[false])));
        assert!(
            listed[0].contains(&format!(r#"{SHADOW}"keys_to_shadow":["a"]}}]}},"failover""#)),
            "{listed:?}"
        );
        let all = of(&shadowed("", cluster(&[false])));
        assert!(all[0].contains(r#""index_range":[0,1],"key_fraction_range":[0.0,1.0]}"#), "{all:?}");
    }

    #[test]
    fn a_shadow_is_written_once_while_a_slot_is_cold() {
        let warm_up = Some(WarmUpPolicy { cluster: "b".parse().expect("a name"), exptime_s: 9 });
        for gutter in [None, cluster(&[]).gutter] {
            let one =
                shadowed("", ClusterRecord { gutter, warm_up: warm_up.clone(), ..cluster(&[false, true]) });
            let handles = of(&one);
            let places = handles.iter().filter(|handle| handle.contains("\"shadows\""));
            assert_eq!(places.count(), 1, "{handles:?}");
            let name = if one.gutter.is_some() { "web:shadowed" } else { "web:plain" };
            assert!(handles[1].contains(&format!(r#""cold":"{name}","warm""#)), "{handles:?}");
            assert!(handles[1].contains(&format!(r#""children":["{name}","PoolRoute|b"]"#)), "{handles:?}");
        }
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
