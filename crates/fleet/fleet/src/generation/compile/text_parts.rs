//! Parts of a text: pools and objects, with their keys in an order of their own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A pool with these servers and some of these attributes, in the order of their names.
pub(super) fn attributes(
    pool: &BTreeMap<String, Value>,
    is_meant: impl Fn(&str) -> bool,
    servers: &str,
) -> String {
    let meant = pool.iter().filter(|(name, _)| is_meant(name));
    let mut pool: BTreeMap<&str, String> =
        meant.map(|(name, value)| (name.as_str(), value.to_string())).collect();
    pool.insert("servers", servers.to_owned());
    let entries: Vec<String> = pool.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    format!("{{{}}}", entries.join(","))
}

/// An object with its keys in this order, whatever order the map of a JSON library has.
pub(super) fn object(entries: &[(&str, Value)]) -> String {
    let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    format!("{{{}}}", entries.join(","))
}
