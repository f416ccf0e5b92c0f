//! Files of mcrouter's tests that are refused here, or have a field that is not known, and why. `mcrouter-cases` fails if one of
//! them is valid, or another is not.

/// Why files are refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reason {
    /// For who reads the table.
    pub(super) why: &'static str,
    /// What the error says.
    pub(super) words: &'static str,
}

const THRIFT: Reason =
    Reason { why: "Thrift is a protocol of its own, on ports of its own", words: "found `thrift`" };
const BUCKETS: Reason = Reason { why: "pools have no buckets", words: "`bucketize` is not supported" };
const SHARD_SPLITS: Reason =
    Reason { why: "shards are not split: KeySplitRoute is there", words: "`shard_splits` is not supported" };
const SLOW_WARM_UP: Reason = Reason {
    why: "servers are not warmed up by a share of their keys",
    words: "`slow_warmup` is not supported",
};
const LEASES: Reason =
    Reason { why: "clients cannot send lease commands", words: "`enable_lease_pairing` is not supported" };
const LOAD_BALANCER: Reason =
    Reason { why: "servers do not tell their load in text", words: "found hash function `LoadBalancer`" };
const TYPING_ERROR: Reason = Reason {
    why: "valid, and has a field that mcrouter does not read",
    words: "`default` is not known in OperationSelectorRoute",
};
const OLD_FIELD: Reason = Reason {
    why: "valid, and has a field of an older mcrouter",
    words: "`pool_locality` is not known in a pool",
};
const OTHER_ROUTE: Reason =
    Reason { why: "a route of Facebook's own services", words: "expected a named handle or one of" };
const NO_POOL: Reason = Reason {
    why: "its pools come from elsewhere, or mcrouter refuses it, too",
    words: "expected the name of a pool",
};
const WRONG_SERVER: Reason = Reason {
    why: "mcrouter refuses it, too: a server that is none",
    words: "expected `type` in a route, found none",
};
const WRONG_NUMBER: Reason =
    Reason { why: "mcrouter refuses it, too: a number out of its range", words: "expected an integer from" };
const NO_ROUTE: Reason = Reason {
    why: "no configuration: a file beside one",
    words: "expected `route` or `routes`, found neither",
};
const TEMPLATE: Reason =
    Reason { why: "a template: the test replaces a word", words: "expected a value, found `S`" };
const TEMPLATE_PORT: Reason =
    Reason { why: "a template: the test replaces a word", words: "found the string \"localhost:PORT\"" };

/// Files below a checkout, in the order of their names.
pub(super) const REFUSED: &[(&str, Reason)] = &[
    ("mcrouter/test/cpp_unit_tests/files/libmcrouter_invalid_pools.json", WRONG_SERVER),
    ("mcrouter/test/cpp_unit_tests/files/memcache_local_config.json", TEMPLATE_PORT),
    ("mcrouter/test/cpp_unit_tests/test_foreach_client.json", SHARD_SPLITS),
    ("mcrouter/test/invalid_config.json", NO_POOL),
    ("mcrouter/test/mcrouter_test_bucketized_poolroute_bucketized.json", BUCKETS),
    ("mcrouter/test/mcrouter_test_bucketized_poolroute_nonbucketized.json", BUCKETS),
    ("mcrouter/test/runtime_vars_file.json", NO_ROUTE),
    ("mcrouter/test/test_axon_log.json", BUCKETS),
    ("mcrouter/test/test_axon_log_alldelete.json", BUCKETS),
    ("mcrouter/test/test_basic_l1_l2_sizesplit_retry_invalid.json", WRONG_NUMBER),
    ("mcrouter/test/test_deterministic_failover3.json", OTHER_ROUTE),
    ("mcrouter/test/test_deterministic_failover4.json", OTHER_ROUTE),
    ("mcrouter/test/test_dump_config_invalid.json", OTHER_ROUTE),
    ("mcrouter/test/test_lease_pairing_basic.json", LEASES),
    ("mcrouter/test/test_lease_pairing_nested.json", LEASES),
    ("mcrouter/test/test_loadbalancer_route.json", LOAD_BALANCER),
    ("mcrouter/test/test_loadbalancer_route_thrift.json", THRIFT),
    ("mcrouter/test/test_mcrefill.json", OTHER_ROUTE),
    ("mcrouter/test/test_migrated_pools.json", TEMPLATE),
    ("mcrouter/test/test_migrated_pools_failover.json", TEMPLATE),
    ("mcrouter/test/test_poolstats_config.json", NO_ROUTE),
    ("mcrouter/test/test_regional_replicated_pools.json", NO_POOL),
    ("mcrouter/test/test_same_pool_failover.json", TYPING_ERROR),
    ("mcrouter/test/test_shadow.json", OLD_FIELD),
    ("mcrouter/test/test_shard_splits.json", SHARD_SPLITS),
    ("mcrouter/test/test_shadow_with_file_config.json", NO_ROUTE),
    ("mcrouter/test/test_slow_warmup.json", SLOW_WARM_UP),
    ("mcrouter/test/test_thrift.json", THRIFT),
    ("mcrouter/test/test_thrift_gut.json", THRIFT),
];
