//! Slots of keys: which one a pool's hash gives a key to, found as a router does.

use std::collections::BTreeMap;

use router::{KeyTracer, Operation};
use serde_json::{Value, json};

use super::route_check::CheckedRoutes;

/// Attributes of a pool that say which slot a key belongs to.
const OF_THE_HASH: [&str; 3] = ["hash", "weights", "tags"];

/// The slots of a pool.
pub(crate) struct PoolOwners(KeyTracer);

impl PoolOwners {
    /// Those of a pool with these attributes and so many slots.
    ///
    /// # Errors
    /// What no router takes.
    pub(crate) fn new(pool: &BTreeMap<String, Value>, slots: usize) -> Result<PoolOwners, String> {
        let attributes = pool.iter().filter(|(name, _)| OF_THE_HASH.contains(&name.as_str()));
        let mut pool: serde_json::Map<String, Value> =
            attributes.map(|(name, value)| (name.clone(), value.clone())).collect();
        // Nobody connects to them: the port is the number of the slot, and 10,000 are the most.
        let servers: Vec<String> = (1..=slots).map(|number| format!("127.0.0.1:{number}")).collect();
        pool.insert("servers".to_owned(), json!(servers));
        // A router reads the hash of a route, and the weights and tags of its pool.
        let mut route = json!({"type": "PoolRoute", "pool": "pool"});
        if let Some(hash) = pool.remove("hash") {
            route["hash"] = hash;
        }
        let text = json!({"pools": {"pool": pool}, "route": route}).to_string();
        let routes = CheckedRoutes::compile("the pool", &text)?;
        Ok(PoolOwners(routes.tracer(0)))
    }

    /// The place of a key's slot. None of a key that no router would ask for.
    pub(crate) fn slot_of(&mut self, key: &[u8]) -> Option<usize> {
        // A server's keys have no routing prefix, and what looks like one belongs to the key.
        let key = [b"/././", key].concat();
        let server = self.0.servers(Operation::Get, &key, 1).into_iter().next()?;
        let number: usize = server.rsplit_once(':')?.1.parse().ok()?;
        number.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pool: Value, key: &[u8], slots: usize) {
        let pool: BTreeMap<String, Value> = serde_json::from_value(pool).expect("attributes");
        let mut owners = PoolOwners::new(&pool, slots).expect("a router takes it");
        let mut attributes = json!(pool);
        attributes["servers"] = json!((0..slots).map(|at| format!("s{at}:7")).collect::<Vec<_>>());
        let mut route = json!({"type": "PoolRoute", "pool": "web"});
        if let Some(hash) = attributes.get("hash") {
            route["hash"] = hash.clone();
        }
        let text = json!({"pools": {"web": attributes}, "route": route}).to_string();
        let routes = CheckedRoutes::compile("web", &text).expect("a router takes it");
        let expected = routes.servers_of(Operation::Get, key, 0);
        let found = owners.slot_of(key).map(|slot| format!("s{slot}:7"));
        assert_eq!(found.as_ref(), expected.first());
    }

    #[test]
    fn a_key_has_the_slot_that_routers_give_it() {
        for number in 0..200 {
            let key = format!("key:{number}|#|behind");
            check(json!({}), key.as_bytes(), 7);
            check(json!({"hash": "Crc32"}), key.as_bytes(), 7);
            check(json!({"hash": {"hash_func": "Ch3", "salt": "x"}}), key.as_bytes(), 7);
            check(json!({"weights": [1, 0.5, 1], "server_timeout": 9}), key.as_bytes(), 3);
            check(json!({"hash": "Rendezvous", "tags": ["a", "b", "c"]}), key.as_bytes(), 3);
        }
    }

    #[test]
    fn a_key_that_begins_like_a_prefix_is_a_key() {
        let mut owners = PoolOwners::new(&BTreeMap::new(), 3).expect("a router takes it");
        assert!(owners.slot_of(b"/west/c1/key").is_some());
        assert_eq!(owners.slot_of(b""), None);
    }
}
