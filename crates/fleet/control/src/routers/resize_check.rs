//! Check of a resize before it begins: that each phase reads what it shall, and that deletes reach both owners of the keys that move.
//!
//! A pool's hash, a view's routes and a person's own attributes decide together where a key goes. So nothing is concluded from
//! their names: sampled keys are followed through the texts of all phases.

use std::collections::BTreeMap;

use router::{KeyTracer, Operation};
use stdx::prng::Prng;

use super::pool_owners::PoolOwners;
use super::route_check::CheckedRoutes;

/// Servers that a delete may lead to and that are looked at.
const SERVERS_COMPARED: usize = 64;

/// A view's texts, from that in force to the end of a resize.
pub(crate) struct ResizeTexts {
    pub(crate) before: CheckedRoutes,
    pub(crate) read_old: CheckedRoutes,
    pub(crate) read_new: CheckedRoutes,
    pub(crate) new_only: CheckedRoutes,
    pub(crate) after: CheckedRoutes,
}

/// The pool in which members that stay are swept: their agents know the owners of keys from it alone.
pub(crate) struct SweptPool {
    pub(crate) owners: PoolOwners,
    /// Addresses of the slots, in their order.
    pub(crate) addresses: Vec<String>,
}

struct Tracers([KeyTracer; 5]);

impl ResizeTexts {
    /// The share of keys that move, of so many.
    ///
    /// # Errors
    /// Why these routes cannot be resized by phases.
    pub(crate) fn check(
        &self,
        mut swept: Option<SweptPool>,
        keys: usize,
        unix_s: i64,
    ) -> Result<f64, &'static str> {
        let texts = [&self.before, &self.read_old, &self.read_new, &self.new_only, &self.after];
        let mut tracers = Tracers(texts.map(|text| text.tracer(unix_s)));
        let places: BTreeMap<String, usize> = swept
            .iter()
            .flat_map(|pool| pool.addresses.iter().cloned().enumerate())
            .map(|(at, address)| (address, at))
            .collect();
        let prefixes = self.before.prefixes();
        let (mut prng, mut moved) = (Prng::new(1), 0);
        for number in 0..keys {
            let bare = format!("key:{:016x}", prng.next_u64());
            let key = [prefixes[number % prefixes.len()], bare.as_bytes()].concat();
            let (before, is_moved) = tracers.check(&key)?;
            moved += usize::from(is_moved);
            if let (Some(pool), Some(place)) = (&mut swept, before.and_then(|server| places.get(&server)))
                && pool.owners.slot_of(bare.as_bytes()) != Some(*place)
            {
                return Err(
                    "a view's routes choose the servers of its keys otherwise than the pool's own `hash` does, or change keys on their way, \
                     so an agent cannot tell which keys of a server are not its own",
                );
            }
        }
        Ok(moved as f64 / keys as f64)
    }
}

impl Tracers {
    /// The server that a key is read from before, and whether it is another one in the end.
    fn check(&mut self, key: &[u8]) -> Result<(Option<String>, bool), &'static str> {
        let Tracers(tracers) = self;
        let mut read = |at: usize| -> Option<String> {
            tracers[at].servers(Operation::Get, key, 1).first().map(|server| (*server).to_owned())
        };
        let [before, read_old, read_new, new_only, after] = [0, 1, 2, 3, 4].map(&mut read);
        if read_old != before || read_new != after || new_only != after {
            return Err(
                "its hash moves keys between slots that stay, or a view's routes choose its servers by another `hash` than its `pool.hash` says; in the phases of \
                 a resize, only slots that are added or go have other keys",
            );
        }
        for tracer in &mut tracers[1..4] {
            let deletes = tracer.servers(Operation::Delete, key, SERVERS_COMPARED);
            let reaches =
                |owner: &Option<String>| owner.as_deref().is_none_or(|owner| deletes.contains(&owner));
            if !reaches(&before) || !reaches(&after) {
                return Err(
                    "in a view's routes, deletes of keys that move do not reach both of their servers",
                );
            }
        }
        let is_moved = before != after;
        Ok((before, is_moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::drain::DrainPhase;
    use fleet::{ClusterRecord, FleetContent, SlotRecord, ViewRecord, texts};
    use serde_json::{Value, json};

    fn content(slots: usize, pool: &Value, routes: &str) -> FleetContent {
        let slot = |at: usize| SlotRecord {
            id: format!("s{at}").parse().expect("a name"),
            member: format!("m{at}").parse().expect("a name"),
            address: format!("10.0.0.{at}:1"),
            is_cold: false,
            drain: None,
        };
        let json = json!({"name": "web", "pool": pool, "slots": (0..slots).map(slot).collect::<Vec<_>>()});
        let web: ClusterRecord = serde_json::from_value(json).expect("a cluster");
        let json = json!({"name": "main", "clusters": [], "routes": routes, "pools_at": 1});
        let view: ViewRecord = serde_json::from_value(json).expect("a view");
        FleetContent { clusters: vec![web], views: vec![view] }
    }

    /// The share of keys that move, or why they do not.
    fn share(
        from: (usize, Value),
        to: (usize, Value),
        routes: &str,
        keys: usize,
    ) -> Result<f64, &'static str> {
        let (old, new) = (content(from.0, &from.1, routes), content(to.0, &to.1, routes));
        let first = old.clone().with_resize(&new.clusters[0], 60);
        let compiled = |content: &FleetContent| {
            let text = texts(content).into_values().next().expect("a view");
            CheckedRoutes::compile("main", &text).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        let phase = |phase| compiled(&first.clone().in_resize_phase(phase));
        let texts = ResizeTexts {
            before: compiled(&old),
            read_old: phase(DrainPhase::ReadOld),
            read_new: phase(DrainPhase::ReadNew),
            new_only: phase(DrainPhase::NewOnly),
            after: compiled(&new),
        };
        let addresses = (0..from.0).map(|at| format!("10.0.0.{at}:1")).collect();
        let pool = serde_json::from_value(from.1.clone()).expect("attributes");
        let owners = PoolOwners::new(&pool, from.0).expect("a router takes it");
        let swept = (to.0 < from.0).then_some(SweptPool { owners, addresses });
        texts.check(swept, keys, 0)
    }

    /// A pool of so many slots, and a route over it with the hash that the pool says.
    #[track_caller]
    fn check(from: usize, to: usize, keys: usize, pool: impl Fn(usize) -> Value) {
        let mut route = json!({"type": "PoolRoute", "pool": "web"});
        if let Some(hash) = pool(from).get("hash") {
            route["hash"] = hash.clone();
        }
        let routes = json!({"route": route}).to_string();
        let expected = 1.0 - from.min(to) as f64 / from.max(to) as f64;
        let error = 4.0 * (expected * (1.0 - expected) / keys as f64).sqrt();
        let found = share((from, pool(from)), (to, pool(to)), &routes, keys).expect("it can be resized");
        assert!((found - expected).abs() <= error, "{from} to {to}: {found} for {expected}");
    }

    #[test]
    fn the_share_that_moves_is_that_of_the_slots_that_are_added_or_go() {
        check(4, 6, 100_000, |_| json!({}));
        let tags = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>();
        for (from, to) in [(6, 4), (1, 2), (2, 1), (3, 71)] {
            check(from, to, 5_000, |_| json!({}));
            check(from, to, 5_000, |_| json!({"hash": {"hash_func": "Ch3", "salt": "x"}}));
            check(from, to, 5_000, |count| json!({"weights": vec![1.0; count]}));
            check(from, to, 5_000, |count| json!({"hash": "Rendezvous", "tags": tags(count)}));
        }
    }

    const POOL: &str = r#"{"route": "PoolRoute|web"}"#;

    #[test]
    fn what_moves_keys_between_slots_that_stay_is_refused() {
        let refused = |from: (usize, Value), to: (usize, Value), routes: &str| {
            let error = share(from, to, routes, 5_000).expect_err("it is refused");
            assert!(error.contains("its hash moves keys between slots that stay"), "{error}");
        };
        let crc = || json!({"hash": "Crc32"});
        let by_crc = r#"{"route": {"type": "PoolRoute", "pool": "web", "hash": "Crc32"}}"#;
        refused((4, crc()), (6, crc()), by_crc);
        let weights = |weights: &[f64]| json!({"weights": weights});
        refused((2, weights(&[1.0, 1.0])), (3, weights(&[0.5, 1.0, 1.0])), POOL);
        // The pool says nothing of the hash of these routes.
        let salted = r#"{"route": {"type": "PoolRoute", "pool": "web", "hash": {"salt": "x"}}}"#;
        refused((4, json!({})), (6, json!({})), salted);
    }

    #[test]
    fn routes_in_which_an_agent_would_not_find_the_owner_are_refused_to_shrink() {
        let routes =
            r#"{"route": {"type": "ModifyKeyRoute", "ensure_key_prefix": "x:", "target": "PoolRoute|web"}}"#;
        let error = share((6, json!({})), (4, json!({})), routes, 5_000).expect_err("it is refused");
        assert!(error.contains("change keys on their way"), "{error}");
        assert!(share((4, json!({})), (6, json!({})), routes, 5_000).is_ok());
    }
}
