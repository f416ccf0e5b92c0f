//! Texts that routers read: a view's routes with the pools of its clusters put in, and handles of those with a gutter.
//!
//! The text is the same for the same content, byte by byte: routers reload only what has changed, and a digest says what is
//! loaded. Pools, handles and attributes are in the order of their names, slots in their own.

use std::collections::BTreeMap;

use serde_json::json;

use crate::ViewName;
use crate::generation::{ClusterRecord, FleetContent, ViewRecord};
use text_parts::attributes;

mod drained;
mod handles;
mod resized;
mod text_parts;

/// The texts of all views, in mcrouter's language.
pub fn texts(content: &FleetContent) -> BTreeMap<ViewName, String> {
    content.views.iter().map(|view| (view.name.clone(), text(content, view))).collect()
}

fn text(content: &FleetContent, view: &ViewRecord) -> String {
    let mut clusters: Vec<&ClusterRecord> =
        content.clusters.iter().filter(|cluster| content.is_in(cluster, view)).collect();
    clusters.sort_unstable_by_key(|cluster| &cluster.name);
    let with_drain = |cluster: &&ClusterRecord| {
        [vec![pool(cluster)], drained::pools(cluster), resized::pools(cluster)].concat()
    };
    let pools: Vec<String> = clusters.iter().flat_map(with_drain).collect();
    let handles: Vec<String> = clusters.into_iter().flat_map(handles::of).collect();
    let handles = match handles.is_empty() {
        true => String::new(),
        false => format!(",\n\"named_handles\": {{\n{}\n}}", handles.join(",\n")),
    };
    let (before, after) = view.routes.split_at(view.pools_at);
    // A comma before the end of an object is one of a person's habits, and no router's.
    let comma = if after.trim_start().starts_with('}') { "" } else { "," };
    let mut text = format!("{before}\n\"pools\": {{\n{}\n}}{handles}{comma}{after}", pools.join(",\n"));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn pool(cluster: &ClusterRecord) -> String {
    let server =
        |(at, slot)| resized::server(cluster, at, slot).unwrap_or_else(|| drained::server(cluster, slot));
    let servers: Vec<String> = cluster.slots.iter().enumerate().map(server).collect();
    let servers = format!("[{}]", servers.join(","));
    format!("  {}: {}", json!(cluster.name.as_str()), attributes(&cluster.pool, |_| true, &servers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::SlotRecord;

    fn cluster(name: &str, members: &[&str]) -> ClusterRecord {
        let slots = members.iter().enumerate().map(|(number, member)| SlotRecord {
            id: format!("s{number}").parse().expect("a name"),
            member: member.parse().expect("a name"),
            address: format!("{member}:1"),
            is_cold: false,
            drain: None,
        });
        let pool = [("hash".to_owned(), json!("Ch3")), ("a".to_owned(), json!({"z": 1, "b": [2]}))];
        let name = name.parse().expect("a name");
        ClusterRecord {
            name,
            pool: pool.into(),
            gutter: None,
            warm_up: None,
            shadow: None,
            resize: None,
            slots: slots.collect(),
        }
    }

    fn content(routes: &str, pools_at: usize) -> FleetContent {
        let clusters = vec![cluster("web", &["m9", "m1", "m5"]), cluster("ads", &["m7"])];
        let name = "main".parse().expect("a name");
        let view = ViewRecord {
            name,
            clusters: Vec::new(),
            route_prefix: None,
            routes: routes.to_owned(),
            pools_at,
        };
        FleetContent { clusters, views: vec![view] }
    }

    #[test]
    fn pools_are_in_the_order_of_their_names_and_slots_in_their_own() {
        let content = content("// Ours\n{ \"route\": \"PoolRoute|web\" }", 9);
        let expected = "// Ours\n{\n\"pools\": {\n  \
             \"ads\": {\"a\":{\"b\":[2],\"z\":1},\"hash\":\"Ch3\",\"servers\":[\"m7:1\"]},\n  \
             \"web\": {\"a\":{\"b\":[2],\"z\":1},\"hash\":\"Ch3\",\"servers\":[\"m9:1\",\"m1:1\",\"m5:1\"]}\n\
             }, \"route\": \"PoolRoute|web\" }\n";
        assert_eq!(texts(&content).into_values().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn a_view_has_the_pools_that_it_names() {
        let mut content = content("{}", 1);
        content.views[0].clusters = vec!["ads".parse().expect("a name")];
        let text = texts(&content).into_values().next().expect("a view");
        assert!(text.contains("\"ads\"") && !text.contains("\"web\"") && text.ends_with("}}\n"), "{text}");
    }
}
