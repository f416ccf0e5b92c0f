//! Plans of random histories.

pub(super) const POOL: &str =
    r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": "PoolRoute|A"}"#;
pub(super) const FAILOVER: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}, "B": {"servers": ["c:1", "a:1"]}},
    "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
pub(super) const COPIES: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "B": {"servers": ["c:1", "a:1"]}},
    "route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", {"type": "AllFastestRoute", "children": "Pool|B"}]}}"#;

/// Routes that change requests or copy items. Where items stand for misses, and where keys get an end, no other plan finds
/// them.
pub(super) const DERIVED: [&str; 8] = [
    r#"{"type": "ModifyKeyRoute", "target": {"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B"},
        "set_key_suffix": "@1"}"#,
    r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B", "enable_metaget": true}"#,
    r#"{"type": "L1L2CacheRoute", "l1": {"type": "ModifyKeyRoute", "target": "PoolRoute|A", "set_key_suffix": "@2"},
        "l2": "PoolRoute|B", "upgradingL1Exptime": 9, "ncacheExptime": 9, "ncacheUpdatePeriod": 3}"#,
    r#"{"type": "StagingRoute", "warm": "PoolRoute|A", "staging": "PoolRoute|B"}"#,
    r#"{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 3, "all_sync": true, "first_hit": true}"#,
    r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": {"type": "WarmUpRoute", "cold": "PoolRoute|B",
        "warm": "PoolRoute|A"}, "start_time": -1000, "interval": 1000}"#,
    r#"{"type": "ModifyKeyRoute", "target": {"type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 4000,
        "batch_size": 2, "hide_reply_flag": true}, "set_key_suffix": "@3"}"#,
    r#"{"type": "ModifyKeyRoute", "target": {"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "l2": {"type": "ModifyKeyRoute",
        "target": "PoolRoute|B", "set_key_suffix": "@5"}, "threshold": 5000}, "set_key_suffix": "@4"}"#,
];

pub(super) const LIMITED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": {"type": "RateLimitRoute",
    "rates": {"gets_rate": 500, "sets_rate": 300}, "fallback": "PoolRoute|A", "target": {"type": "FailoverRoute",
        "children": [{"type": "PoolRoute", "pool": "A", "max_outstanding": 2}, "Pool|A"], "failover_limit": {"rate": 0.2},
        "failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 3, "max_error_tries": 2}}}}"#;
pub(super) const SHADOWED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "C": {"servers": ["c:1", "a:1"]}}, "route": {
    "type": "PoolRoute", "pool": "A", "shadows": [
        {"target": "PoolRoute|C", "index_range": [0, 2], "key_fraction_range": [0, 1], "compare_fraction": 0.5},
        {"target": {"type": "PoolRoute", "pool": "C", "max_outstanding": 1}, "index_range": [0, 1],
         "key_fraction_range": [0.2, 0.9], "requests_fraction": 0.5}]}}"#;
pub(super) const DELAYED: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}}, "route": {"type": "FailoverRoute",
    "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 3}, "children": ["PoolRoute|A", {"type": "PoolRoute",
        "pool": "A", "hash": {"salt": "x"}, "max_outstanding": 3}, {"type": "LatencyInjectionRoute", "before_latency_ms": 3,
        "total_latency_percentile_ms": [[50, 5], [100, 40]], "child": "PoolRoute|A"}]}}"#;

/// A plan with one of these routes.
pub(super) fn derived(route: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1", "b:1"]}}, "B": {{"servers": ["c:1", "b:1"]}}}}, "route": {route}}}"#
    )
}

/// Plans in which keys that begin with `h:` belong to c alone, and all others to a and b.
pub(super) const HONEST: [&str; 3] = [
    r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "C": {"servers": ["c:1"]}}, "route": {"type": "PrefixSelectorRoute",
        "policies": {"h:": "PoolRoute|C"}, "wildcard": "PoolRoute|A"}}"#,
    r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]}}, "route": {
        "type": "PrefixSelectorRoute", "policies": {"h:": "PoolRoute|C"}, "wildcard": {"type": "FailoverRoute",
            "children": ["PoolRoute|A", "PoolRoute|B"]}}}"#,
    r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "C": {"servers": ["c:1"]}}, "route": {"type": "PrefixSelectorRoute",
        "policies": {"h:": "PoolRoute|C"}, "wildcard": {"type": "AllFastestRoute", "children": [
            {"type": "MissFailoverRoute", "children": "Pool|A"}, {"type": "ModifyKeyRoute", "set_key_suffix": "@1", "target": {
                "type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 4000, "batch_size": 3,
                    "hide_reply_flag": true}}]}}}"#,
];
