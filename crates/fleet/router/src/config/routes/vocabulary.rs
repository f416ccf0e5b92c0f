//! Fields of routes, pools and what stands in them: those that mcrouter or this router knows, so that a typing error is seen.
//!
//! Configurations of mcrouter may have any field, so one that is not known is a line and no error. Fields that mcrouter knows
//! and that have no effect here are known.

/// The name of an object's kind, and its fields.
pub(super) type Fields = (&'static str, &'static [&'static str]);

/// Fields of every route.
pub(super) const OF_ROUTES: [&str; 2] = ["type", "name"];

/// A pool, wherever it stands.
pub(super) const POOL: Fields = (
    "a pool",
    &[
        "additional_fanout",
        "cluster",
        "compression",
        "connect_timeout",
        "disable_request_deadline_check",
        "enable_compression",
        "error_on_empty",
        "failure_domains",
        "hostnames",
        "hot_cache",
        "inherit",
        "keep_routing_prefix",
        "name",
        "port_override",
        "port_override_cross_dc",
        "port_override_within_dc",
        "props",
        "protocol",
        "qos",
        "region",
        "security_mech",
        "security_mech_cross_dc",
        "security_mech_within_dc",
        "server_timeout",
        "servers",
        "service_id_override",
        "services",
        "tags",
        "tcp_fast_open",
        "tko_tracker",
        "transport",
        "tw_job",
        "type",
        "use_ssl",
        "weights",
    ],
);

pub(super) const TKO_TRACKER: Fields = (
    "a tko_tracker",
    &[
        "num_tko_threshold_lower",
        "num_tko_threshold_upper",
        "percent_tko_threshold_lower",
        "percent_tko_threshold_upper",
    ],
);

pub(super) const SHADOW: Fields = (
    "a shadow",
    &[
        "compare_fraction",
        "index_range",
        "key_fraction_range",
        "key_fraction_range_rv",
        "keys_to_shadow",
        "requests_fraction",
        "target",
    ],
);

pub(super) const RATES: Fields =
    ("rates", &["deletes_burst", "deletes_rate", "gets_burst", "gets_rate", "sets_burst", "sets_rate"]);

pub(super) const FAILOVER_LIMIT: Fields = ("a failover_limit", &["burst", "rate"]);

pub(super) const FAILOVER_ERRORS: Fields = ("failover_errors", &["deletes", "gets", "updates"]);

pub(super) const FAILOVER_POLICY: Fields = (
    "a failover_policy",
    &[
        "enable_failure_domains",
        "exclude_errors",
        "hash",
        "ignore_normal_reply_index",
        "max_error_tries",
        "max_tries",
        "tags",
        "type",
        "weights",
    ],
);

/// The hash of a pool, which may also be a LatestRoute or a LoadBalancerRoute in disguise.
pub(super) const HASH: Fields = (
    "a hash",
    &[
        "algorithm",
        "bucketization_keyspace",
        "bucketize",
        "failover_count",
        "failover_errors",
        "failover_limit",
        "failover_policy",
        "failover_tag",
        "hash_func",
        "load_ttl_ms",
        "salt",
        "tags",
        "thread_local_failover",
        "total_buckets",
        "weights",
        "weights_rv",
    ],
);
