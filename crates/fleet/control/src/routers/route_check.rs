//! Check of a routers' configuration before it is published: that a router takes it, and which keys change their server.

use std::net::SocketAddr;
use std::sync::Arc;

use router::config::{CompileOptions, Environment, compile, expand_config};
use router::{KeyTracer, Operation, RoutePlan, RoutingPrefix};
use stdx::prng::Prng;

/// Keys that are routed through the configuration before and after: a share of 1 in 100 is found with an error of 0.03 in 100. The tests
/// of this crate plan hundreds of changes, and ask for fewer, as a debug build does, which takes two seconds of CPU time for 100,000.
pub const KEYS_SAMPLED: usize = match (cfg!(test), cfg!(debug_assertions)) {
    (true, _) => 5_000,
    (false, true) => 20_000,
    (false, false) => 100_000,
};
/// Servers that a request may lead to and that are compared: a delete to all zones, and its failovers.
const SERVERS_COMPARED: usize = 32;

/// A configuration that a router takes.
#[derive(Clone, Debug)]
pub struct CheckedRoutes {
    plan: Arc<RoutePlan>,
}

/// How two configurations differ for keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteDifference {
    /// Keys that were routed.
    pub keys: usize,
    /// Those of which gets go to another server first.
    pub gets_moved: usize,
    /// Those of which sets go to other servers.
    pub sets_moved: usize,
    /// Of `gets_moved`, those of which deletes still reach the server that had answered gets.
    pub deletes_reach_both: usize,
}

impl RouteDifference {
    /// The share of keys of which gets go to another server first.
    pub fn share_moved(&self) -> f64 {
        if self.keys == 0 { 0.0 } else { self.gets_moved as f64 / self.keys as f64 }
    }

    /// For people: what it means.
    pub fn sentence(&self) -> String {
        if self.gets_moved == 0 && self.sets_moved == 0 {
            return format!("none of {} sampled keys changes its server", self.keys);
        }
        let deletes = match self.deletes_reach_both {
            both if both == self.gets_moved => "deletes reach both",
            0 => "deletes reach the new server only",
            _ => "deletes of a part of them reach both",
        };
        let percent = 100.0 * self.share_moved();
        format!("{percent:.2} % of the keys change their server ({} sampled); {deletes}", self.keys)
    }
}

impl CheckedRoutes {
    /// Compiles a configuration as a router does that is started without flags.
    ///
    /// # Errors
    /// The place of the first error, what was expected and what was found. `@import` is one: a router would read a file that
    /// this check does not see.
    pub fn compile(name: &str, text: &str) -> Result<CheckedRoutes, String> {
        CheckedRoutes::compile_for(name, text, None)
    }

    /// The same, as a router does that is started with this `--route-prefix`, if there is one.
    ///
    /// # Errors
    /// As [`CheckedRoutes::compile`].
    pub fn compile_for(name: &str, text: &str, route_prefix: Option<&str>) -> Result<CheckedRoutes, String> {
        let mut options = CompileOptions::default();
        if let Some(prefix) = route_prefix {
            options.default_prefix = RoutingPrefix::parse(prefix)
                .ok_or_else(|| format!("expected a routing prefix /region/cluster/, found `{prefix}`"))?;
        }
        let mut importer =
            |path: &str| Err(format!("expected a configuration that is complete, found @import of {path}"));
        let is_local = |_| false;
        let environment =
            Environment { globals: Vec::new(), importer: &mut importer, is_local: &is_local, seed: 1 };
        let expanded =
            expand_config(name, text.as_bytes(), environment).map_err(|error| error.to_string())?;
        // Names are looked up by routers, while they run.
        let mut resolve = |_: &str, _: u16| -> Option<SocketAddr> { None };
        let plan = compile(&expanded.root, 1, &options, &mut resolve);
        let plan = plan.map_err(|error| error.located(&expanded.sources).to_string())?;
        Ok(CheckedRoutes { plan: Arc::new(plan) })
    }

    /// Servers that get requests.
    pub fn servers(&self) -> usize {
        self.plan.servers.len()
    }

    /// The servers that a request for a key would go to, one after the other.
    pub fn servers_of(&self, operation: Operation, key: &[u8], unix_s: i64) -> Vec<String> {
        let mut tracer = self.tracer(unix_s);
        let servers = tracer.servers(operation, key, SERVERS_COMPARED);
        servers.into_iter().map(str::to_owned).collect()
    }

    /// Follows keys through it, at this time.
    pub(crate) fn tracer(&self, unix_s: i64) -> KeyTracer {
        KeyTracer::new(Arc::clone(&self.plan), unix_s).without_shadows()
    }

    /// Routes keys through this configuration and a later one. A fifth of them have each of at most four prefixes of this
    /// configuration, if it has any; the seed makes the keys.
    pub fn difference(&self, later: &CheckedRoutes, keys: usize, seed: u64, unix_s: i64) -> RouteDifference {
        let (mut before, mut after) = (self.tracer(unix_s), later.tracer(unix_s));
        let prefixes = self.prefixes();
        let (mut prng, mut found) = (Prng::new(seed), RouteDifference { keys, ..RouteDifference::default() });
        for number in 0..keys {
            let mut key = prefixes[number % prefixes.len()].to_vec();
            key.extend_from_slice(format!("key:{:016x}", prng.next_u64()).as_bytes());
            found.add(&mut before, &mut after, &key);
        }
        found
    }

    /// None, and those that name one route.
    pub(crate) fn prefixes(&self) -> Vec<&[u8]> {
        let single = self.plan.roots.by_prefix.keys();
        let mut prefixes: Vec<&[u8]> = single.map(|prefix| &**prefix).collect();
        prefixes.sort_unstable();
        prefixes.truncate(4);
        prefixes.insert(0, b"");
        prefixes
    }
}

impl RouteDifference {
    fn add(&mut self, before: &mut KeyTracer, after: &mut KeyTracer, key: &[u8]) {
        let most = SERVERS_COMPARED;
        self.sets_moved += usize::from(
            before.servers(Operation::Set, key, most) != after.servers(Operation::Set, key, most),
        );
        let had = before.servers(Operation::Get, key, 1);
        if had == after.servers(Operation::Get, key, 1) {
            return;
        }
        self.gets_moved += 1;
        let deletes = after.servers(Operation::Delete, key, most);
        self.deletes_reach_both += usize::from(had.iter().all(|server| deletes.contains(server)));
    }
}

#[cfg(test)]
mod generated;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(servers: usize, replaced: Option<usize>) -> String {
        let name = |number: usize| match replaced {
            Some(replaced) if replaced == number => "spare:11211".to_owned(),
            _ => format!("s{number}:11211"),
        };
        let servers: Vec<String> = (0..servers).map(|number| format!("{:?}", name(number))).collect();
        format!("[{}]", servers.join(","))
    }

    fn routes(servers: &str) -> CheckedRoutes {
        let text = format!(r#"{{"pools":{{"a":{{"servers":{servers}}}}},"route":"PoolRoute|a"}}"#);
        CheckedRoutes::compile("test", &text).expect("a router takes it")
    }

    #[track_caller]
    fn check_share(before: &str, after: &str, expected: f64) {
        let found = routes(before).difference(&routes(after), 20_000, 1, 0);
        let error = 4.0 * (expected * (1.0 - expected) / 20_000.0).sqrt();
        assert!((found.share_moved() - expected).abs() <= error, "{} for {expected}", found.share_moved());
        assert_eq!((found.sets_moved, found.deletes_reach_both), (found.gets_moved, 0));
    }

    #[test]
    fn a_replacement_in_place_moves_the_keys_of_its_slot_and_no_others() {
        check_share(&pool(71, None), &pool(71, None), 0.0);
        check_share(&pool(71, None), &pool(71, Some(35)), 1.0 / 71.0);
        check_share(&pool(2, None), &pool(2, Some(0)), 0.5);
    }

    #[test]
    fn a_slot_at_the_end_takes_its_share_and_one_that_goes_gives_it_back() {
        check_share(&pool(71, None), &pool(72, None), 1.0 / 72.0);
        check_share(&pool(72, None), &pool(71, None), 1.0 / 72.0);
    }

    #[test]
    fn sorted_slots_move_nearly_all_keys() {
        check_share(r#"["b:1","a:1"]"#, r#"["a:1","b:1"]"#, 1.0);
    }

    #[test]
    fn copies_for_a_shadow_move_no_key() {
        let pools = r#""pools":{"a":{"servers":["s0:1","s1:1"]},"b":{"servers":["t0:1"]}}"#;
        let shadow = r#""shadows":[{"target":"PoolRoute|b","index_range":[0,2],"key_fraction_range":[0,1]}]"#;
        let compiled = |rest: &str| {
            let text = format!(r#"{{{pools},"route":{{"type":"PoolRoute","pool":"a"{rest}}}}}"#);
            CheckedRoutes::compile("test", &text).expect("a router takes it")
        };
        let (alone, shadowed) = (compiled(""), compiled(&format!(",{shadow}")));
        let found = alone.difference(&shadowed, 1000, 1, 0);
        assert_eq!((found.gets_moved, found.sets_moved), (0, 0));
        let delete = |routes: &CheckedRoutes| routes.servers_of(Operation::Delete, b"k", 0);
        assert_eq!(delete(&shadowed), delete(&alone));
        assert_eq!(shadowed.servers(), 3);
    }

    #[test]
    fn deletes_that_go_to_both_servers_are_found() {
        let both = r#"{"pools":{"a":{"servers":["s0:11211","s1:11211"]},"b":{"servers":["s0:11211","spare:11211"]}},
            "route":{"type":"OperationSelectorRoute","default_policy":"PoolRoute|b",
            "operation_policies":{"delete":{"type":"AllSyncRoute","children":["PoolRoute|a","PoolRoute|b"]}}}}"#;
        let both = CheckedRoutes::compile("test", both).expect("a router takes it");
        let found = routes(&pool(2, None)).difference(&both, 1000, 1, 0);
        assert!(found.gets_moved > 400 && found.deletes_reach_both == found.gets_moved, "{found:?}");
        assert!(
            found.sentence().ends_with("of the keys change their server (1000 sampled); deletes reach both")
        );
    }

    #[test]
    fn keys_without_a_prefix_go_where_the_routers_own_prefix_leads() {
        let text = |west: &str| {
            let text = r#"{"pools":{"w":{"servers":["WEST"]},"e":{"servers":["e0:1"]}},
                "routes":[{"aliases":["/west/c1/"],"route":"PoolRoute|w"},{"aliases":["/east/c1/"],"route":"PoolRoute|e"}]}"#;
            text.replace("WEST", west)
        };
        let of = |west: &str, prefix: &str| {
            CheckedRoutes::compile_for("test", &text(west), Some(prefix)).expect("a router takes it")
        };
        let error =
            CheckedRoutes::compile("test", &text("w0:1")).expect_err("mcrouter's own prefix has no route");
        assert!(error.contains("expected a route for the default prefix /././, found none"), "{error}");
        assert_eq!(of("w0:1", "/west/c1/").servers_of(Operation::Get, b"k", 0), ["w0:1"]);
        assert_eq!(of("w0:1", "/east/c1/").servers_of(Operation::Get, b"k", 0), ["e0:1"]);
        // Of keys without a prefix, and with each of the two, those of the west move.
        let moved = |prefix: &str| of("w0:1", prefix).difference(&of("w1:1", prefix), 300, 1, 0).gets_moved;
        assert_eq!((moved("/west/c1/"), moved("/east/c1/")), (200, 100));
    }

    #[test]
    fn what_a_router_would_refuse_is_refused_with_its_place() {
        let refused = |text: &str| CheckedRoutes::compile("web.json", text).expect_err("no router takes it");
        assert!(
            refused("{\"route\":\n\"PoolRoute|a\"}").starts_with("web.json:2"),
            "{}",
            refused("{\"route\":\n\"PoolRoute|a\"}")
        );
        assert!(
            refused(r#"{"route":"@import(file:/etc/passwd)"}"#).contains("found @import of file:/etc/passwd")
        );
        assert!(!refused("").is_empty());
    }
}
