//! Configurations that are refused, each with its line.

use super::{CompileOptions, compile};
use crate::config::json::parse;
use crate::message::routing_prefix::RoutingPrefix;

#[track_caller]
fn refused(config: &str, expected: &str) {
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    let error =
        compile(&json, 1, &CompileOptions::default(), &mut resolve).expect_err("is refused").to_string();
    assert!(error.starts_with(expected), "{config}: {error}");
}

#[test]
fn routes_that_contain_themselves_are_refused() {
    refused(
        "{\"named_handles\": {\n\"x\": {\"type\": \"AllSyncRoute\", \"children\": [\"NullRoute\",\n\"x\"]}},\n\"route\": \"x\"}",
        "line 3: expected routes that do not contain themselves, found a circle at `x`",
    );
    refused(
        "{\"pools\": {\"A\": {\"inherit\": \"B\"},\n\"B\": {\"inherit\": \"A\"}}, \"route\": \"PoolRoute|A\"}",
        "line 1: expected at most 16 pools that inherit, found more, or a circle",
    );
}

#[test]
fn routes_that_multiply_requests_are_refused() {
    let mut handles =
        "\"x0\": {\"type\": \"AllSyncRoute\", \"children\": [\"Pool|A\", \"Pool|A\"]}".to_owned();
    for level in 1..40 {
        let below = level - 1;
        handles.push_str(&format!(
            ",\n\"x{level}\": {{\"type\": \"AllSyncRoute\", \"children\": [\"x{below}\", \"x{below}\"]}}"
        ));
    }
    refused(
        &format!(
            "{{\"pools\": {{\"A\": {{\"servers\": [\"a:1\"]}}}}, \"named_handles\": {{{handles}}}, \"route\": \"x39\"}}"
        ),
        "line 15: expected at most 20000 requests to servers for one request, found more",
    );
}

#[test]
fn what_is_not_known_is_refused_where_it_stands() {
    refused("{\"route\":\n\"NoRoute|A\"}", "line 2: expected a named handle or one of");
    refused("{\"route\":\n\"PoolRoute|B\"}", "line 2: expected the name of a pool");
    refused("{}", "line 1: expected `route` or `routes`, found neither");
    refused(
        "{\"route\": \"NullRoute\",\n\"routes\": []}",
        "line 2: expected either `route` or `routes`, found both",
    );
    refused("{\"routes\": {\n\"/a/\": \"NullRoute\"}}", "line 2: expected a routing prefix /region/cluster/");
    refused(
        "{\"route\": {\"type\": \"AllSyncRoute\",\n\"children\": 5}}",
        "line 2: expected a route: an object",
    );
    refused(
        "{\"pools\": {\"A\": {\"servers\": [\n\"a\"]}}, \"route\": \"PoolRoute|A\"}",
        "line 2: expected a server",
    );
}

#[test]
fn routes_that_change_requests_are_refused_with_what_they_lack() {
    let route = |kind: &str, fields: &str| format!("{{\"route\": {{\"type\": \"{kind}\",\n{fields}}}}}");
    let null = "\"target\": \"NullRoute\"";
    for (kind, fields, expected) in [
        ("ModifyKeyRoute", "\"x\": 1".to_owned(), "line 1: expected `target` in a route, found none"),
        (
            "ModifyKeyRoute",
            format!("{null}, \"ensure_key_prefix\": \"a b\""),
            "line 2: expected at most 250 bytes without spaces",
        ),
        (
            "ModifyKeyRoute",
            format!("{null}, \"set_routing_prefix\": \"/a/\""),
            "line 2: expected a routing prefix /region/cluster/, or an empty string, found",
        ),
        (
            "ModifyKeyRoute",
            format!("{null}, \"replace_key_prefix\": \"a\", \"modify_inplace\": false"),
            "line 2: expected either `replace_key_prefix` or `modify_inplace`, found both",
        ),
        ("ModifyExptimeRoute", null.to_owned(), "line 1: expected `exptime`"),
        (
            "ModifyExptimeRoute",
            format!("{null}, \"exptime\": 5, \"action\": \"max\""),
            "line 2: expected set or min as `action`",
        ),
        (
            "ModifyExptimeRoute",
            format!("{null}, \"exptime\": 3000000000"),
            "line 2: expected an integer from -2147483648 to 2147483647",
        ),
        (
            "FailoverWithExptimeRoute",
            "\"normal\": \"NullRoute\", \"failover\": \"NullRoute\", \"failover_limit\": 5".to_owned(),
            "line 2: expected an object (`failover_limit`)",
        ),
        ("WarmUpRoute", "\"cold\": \"NullRoute\"".to_owned(), "line 1: expected `warm`"),
        (
            "WarmUpRoute",
            "\"cold\": \"NullRoute\", \"warm\": \"NullRoute\", \"exptime\": -1".to_owned(),
            "line 2: expected an integer from 0",
        ),
        (
            "L1L2CacheRoute",
            "\"l1\": \"NullRoute\", \"l2\": \"NullRoute\"".to_owned(),
            "line 1: expected `upgradingL1Exptime`",
        ),
        (
            "MigrateRoute",
            "\"from\": \"NullRoute\", \"to\": \"NullRoute\", \"start_time\": 5, \"interval\": 0".to_owned(),
            "line 2: expected an integer from 1",
        ),
        (
            "KeySplitRoute",
            "\"destination\": \"NullRoute\", \"replicas\": 1, \"all_sync\": true".to_owned(),
            "line 2: expected an integer from 2 to 1000",
        ),
        (
            "KeySplitRoute",
            "\"destination\": \"NullRoute\", \"replicas\": 2".to_owned(),
            "line 1: expected `all_sync`",
        ),
        (
            "BigValueRoute",
            format!("{null}, \"split_threshold\": 5, \"batch_size\": -1"),
            "line 2: expected an integer from 0 to 10000",
        ),
        ("BigValueRoute", format!("{null}, \"split_threshold\": 5"), "line 1: expected `batch_size`"),
        (
            "L1L2SizeSplitRoute",
            "\"l1\": \"NullRoute\", \"l2\": \"NullRoute\", \"threshold\": 5, \"retries\": 11".to_owned(),
            "line 2: expected an integer from 1 to 10",
        ),
        ("StagingRoute", "\"warm\": \"NullRoute\"".to_owned(), "line 1: expected `staging`"),
    ] {
        refused(&route(kind, &fields), expected);
    }
    refused(
        "{\"route\":\n\"WarmUpRoute|A\"}",
        "line 2: expected an object for WarmUpRoute, found its short form",
    );
}

#[test]
fn what_routes_ask_besides_counts_as_requests_to_servers() {
    let split = |inner: &str| {
        format!(
            "{{\"type\": \"KeySplitRoute\", \"destination\": {inner}, \"replicas\": 1000, \"all_sync\": true}}"
        )
    };
    let pools = "{\"pools\": {\"A\": {\"servers\": [\"a:1\"]}},\n\"route\":\n";
    refused(
        &format!("{pools}{}}}", split(&split("\"PoolRoute|A\""))),
        "line 3: expected at most 20000 requests to servers for one request, found more",
    );
    let mut route = "\"PoolRoute|A\"".to_owned();
    for _ in 0..8 {
        route = format!("{{\"type\": \"WarmUpRoute\", \"cold\": {route}, \"warm\": \"PoolRoute|A\"}}");
    }
    // Each level asks its cold side up to three times, and warm once.
    check_accepted(&format!("{pools}{route}}}"));
    let two_more = format!("{{\"type\": \"WarmUpRoute\", \"cold\": {route}, \"warm\": \"NullRoute\"}}");
    refused(
        &format!("{pools}{two_more}}}"),
        "line 3: expected at most 20000 requests to servers for one request, found more",
    );
}

#[track_caller]
fn check_accepted(config: &str) {
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    compile(&json, 1, &CompileOptions::default(), &mut resolve).expect("a configuration");
}

/// A FailoverRoute of two pools with these parameters, which stand in line 2.
#[track_caller]
fn refused_failover(parameters: &str, expected: &str) {
    let config = format!(
        "{{\"route\": {{\"type\": \"FailoverRoute\", \"children\": [\"NullRoute\", \"ErrorRoute\"],\n{parameters}}}}}"
    );
    refused(&config, &format!("line 2: {expected}"));
}

#[test]
fn failover_that_cannot_be_done_is_refused() {
    refused_failover("\"enable_lease_pairing\": true", "`enable_lease_pairing` is not supported");
    refused_failover("\"failover_limit\": 5", "expected an object (`failover_limit`)");
    refused_failover("\"failover_limit\": {\"burst\": 5}", "expected `rate` in `failover_limit`, found none");
    refused_failover(
        "\"failover_limit\": {\"rate\": \"1\"}",
        "expected a number (`rate` of a failover_limit), found",
    );
    refused_failover("\"failover_policy\": {}", "expected `type` in `failover_policy`, found none");
    refused_failover(
        "\"failover_policy\": {\"type\": \"Best\"}",
        "expected one of FailoverInOrderPolicy, LeastFailuresPolicy, DeterministicOrderPolicy, RendezvousPolicy, found",
    );
    let policy = |kind: &str, rest: &str| format!("\"failover_policy\": {{\"type\": \"{kind}\"{rest}}}");
    refused_failover(
        &policy("LeastFailuresPolicy", ""),
        "expected `max_tries` in `failover_policy`, found none",
    );
    refused_failover(
        &policy("LeastFailuresPolicy", ", \"max_tries\": 0"),
        "expected an integer from 1 to 4294967295 (`max_tries`",
    );
    refused_failover(
        &policy("DeterministicOrderPolicy", ", \"max_tries\": 1"),
        "expected `max_error_tries` in `failover_policy`",
    );
    refused_failover(
        &policy(
            "DeterministicOrderPolicy",
            ", \"max_tries\": 1, \"max_error_tries\": 1, \"hash\": {\"hash_func\": \"Crc32\"}",
        ),
        "expected Ch3 or WeightedCh3, found `Crc32`",
    );
    refused_failover(&policy("RendezvousPolicy", ""), "expected `tags` for Rendezvous, found none");
    refused_failover(
        &policy("RendezvousPolicy", ", \"tags\": [\"a\", \"b\"]"),
        "expected a tag for each of 1 children, found 2",
    );
}

#[test]
fn limits_that_allow_nothing_are_refused() {
    let rates = |rates: &str| {
        format!(
            "{{\"route\": {{\"type\": \"RateLimitRoute\", \"target\": \"NullRoute\",\n\"rates\": {rates}}}}}"
        )
    };
    refused(
        &rates("{\"gets_rate\": 0}"),
        "line 2: expected a number above 0 (`gets_rate`), found the number 0",
    );
    refused(
        &rates("{\"sets_rate\": -1.5}"),
        "line 2: expected a number above 0 (`sets_rate`), found the number -1.5",
    );
    refused(
        &rates("{\"deletes_rate\": 1, \"deletes_burst\": 0}"),
        "line 2: expected a number above 0 (`deletes_burst`), found the number 0",
    );
    refused(
        &rates("{\"gets_rate\": \"5\"}"),
        "line 2: expected a number (`gets_rate`), found the string \"5\"",
    );
    refused(&rates("5"), "line 2: expected an object (`rates`), found the number 5");
    refused(
        "{\"pools\": {\"A\": {\"servers\": []}}, \"route\": {\"type\": \"PoolRoute\", \"pool\": \"A\",\n\"max_outstanding\": -1}}",
        "line 2: expected an integer from 0 to 1000000 (`max_outstanding` of a PoolRoute), found the number -1",
    );
}

#[test]
fn routes_for_tests_are_refused_where_they_are_wrong() {
    let delay = |rest: &str| {
        format!("{{\"route\": {{\"type\": \"LatencyInjectionRoute\", \"child\": \"NullRoute\",\n{rest}}}}}")
    };
    refused(&delay("\"x\": 1"), "line 1: expected before_latency_ms, after_latency_ms");
    refused(&delay("\"before_latency_ms\": -1"), "line 2: expected an integer from 0 to 3600000");
    refused(&delay("\"before_latency_ms\": 1.5"), "line 2: expected an integer from 0 to 3600000");
    let percentiles = |list: &str| delay(&format!("\"total_latency_percentile_ms\": {list}"));
    refused(
        &percentiles("[[50, 1], [50, 2]]"),
        "line 2: expected a percentile above 50, found the number 50",
    );
    refused(&percentiles("[[0, 1]]"), "line 2: expected a percentile above 0, found the number 0");
    refused(&percentiles("[[101, 1]]"), "line 2: expected a number from 0 to 100 (a percentile)");
    refused(
        &percentiles("[[50]]"),
        "line 2: expected an array of a percentile and milliseconds, found an array of 1",
    );
    refused(&percentiles("[[50, -1]]"), "line 2: expected an integer from 0 to 3600000 (milliseconds)");
    let blackhole = |policies: &str| {
        format!(
            "{{\"route\": {{\"type\": \"BlackholeRoute\", \"default\": \"NullRoute\",\n\"policies\": {policies}}}}}"
        )
    };
    refused(&blackhole("{\"flags\": []}"), "line 2: expected `key` as a field of a policy, found `flags`");
    refused(
        &blackhole("{\"key\": [{\"op\": \"is\", \"value\": \"k\"}]}"),
        "line 2: expected equals or not_equals",
    );
    refused(
        &blackhole("{\"key\": [{\"op\": \"equals\", \"value\": 5}]}"),
        "line 2: expected a string (`value`",
    );
    refused(
        &blackhole("{\"key\": [{\"op\": \"equals\"}]}"),
        "line 2: expected `value` in a policy, found none",
    );
    let latest = |rest: &str| {
        format!(
            "{{\"route\": {{\"type\": \"LatestRoute\", \"children\": [\"NullRoute\", \"ErrorRoute\"],\n{rest}}}}}"
        )
    };
    refused(&latest("\"weights\": [1, 2]"), "line 1: expected a weight from 0 to 1, found 2");
    refused(&latest("\"weights\": [-1]"), "line 2: expected a number of at least 0 (a weight)");
    refused(&latest("\"failover_count\": -1"), "line 2: expected an integer of at least 0");
    refused(
        "{\"route\": {\"type\": \"HashRoute\", \"children\": [\"NullRoute\", \"ErrorRoute\"],\n\"hash_func\": \"WeightedCh3Rv\"}}",
        "line 1: expected `weights_rv`, found none",
    );
}

#[test]
fn guards_and_additional_connections_have_limits() {
    let pool = |field: &str| {
        format!(
            "{{\"pools\": {{\"A\": {{\"servers\": [\"a:1\", \"b:1\"],\n{field}}}}}, \"route\": \"PoolRoute|A\"}}"
        )
    };
    refused(
        &pool("\"tko_tracker\": {\"num_tko_threshold_upper\": 1}"),
        "line 2: expected thresholds of at least one server, found 1 and 0 of 2",
    );
    refused(
        &pool("\"tko_tracker\": {\"percent_tko_threshold_upper\": 49, \"num_tko_threshold_lower\": 1}"),
        "line 2: expected thresholds of at least one server, found 0 and 1 of 2",
    );
    refused(
        &pool("\"tko_tracker\": {\"percent_tko_threshold_upper\": 50, \"num_tko_threshold_lower\": 2}"),
        "line 2: expected a lower threshold of at most 1, found 2",
    );
    refused(&pool("\"tko_tracker\": 1"), "line 2: expected an object (a `tko_tracker`)");
    refused(
        &pool("\"additional_fanout\": 32768"),
        "line 2: expected an integer from 0 to 32767 (`additional_fanout` of a pool)",
    );
}

#[test]
fn the_distance_of_a_pool_does_not_change_the_time_for_connecting() {
    let config = r#"{"pools": {
        "A": {"servers": ["a:1"], "server_timeout": 300, "region": "east", "cluster": "c"},
        "B": {"servers": ["b:1"], "inherit": "A", "connect_timeout": 50}},
        "route": {"type": "AllSyncRoute", "children": ["Pool|A", "Pool|B"]}}"#;
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    let options = CompileOptions {
        default_prefix: RoutingPrefix::parse("/west/c/").expect("a prefix"),
        cross_region_timeout_ms: 700,
        ..CompileOptions::default()
    };
    let plan = compile(&json, 1, &options, &mut resolve).expect("a configuration");
    let times = plan.servers.iter().map(|spec| (spec.timeout_ms, spec.connect_timeout_ms));
    assert_eq!(times.collect::<Vec<_>>(), [(700, 300), (700, 50)]);
}

/// The servers of a pool with these fields: `name`, or `name tls(certificate's name)`.
#[track_caller]
fn servers(fields: &str, expected: &str) {
    let config = format!(r#"{{"pools": {{"A": {{{fields}}}}}, "route": "PoolRoute|A"}}"#);
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    let plan = compile(&json, 1, &CompileOptions::default(), &mut resolve).expect("a configuration");
    let shown = plan.servers.iter().map(|spec| match &spec.tls {
        Some(name) => format!("{} tls({})", spec.name, name.to_str()),
        None => spec.name.clone(),
    });
    assert_eq!(shown.collect::<Vec<_>>().join(", "), expected, "{fields}");
}

#[test]
fn servers_are_secured_by_their_own_words_or_by_those_of_their_pool() {
    let list =
        r#""servers": ["a:1", "b:1:ascii:plain", "c:1:ascii:ssl", "[::1]:1:ascii:fizz:notcompressed"]"#;
    let with = |fields: &str| format!("{list}{fields}");
    servers(&with(""), "a:1, b:1, c:1 tls(c), [::1]:1 tls(::1)");
    for name in ["ssl", "tls_to_plain", "fizz", "ktls12"] {
        servers(
            &with(&format!(r#", "security_mech": "{name}""#)),
            "a:1 tls(a), b:1, c:1 tls(c), [::1]:1 tls(::1)",
        );
    }
    servers(&with(r#", "use_ssl": true"#), "a:1 tls(a), b:1, c:1 tls(c), [::1]:1 tls(::1)");
    servers(
        &with(r#", "use_ssl": true, "security_mech": "plain""#),
        "a:1, b:1, c:1 tls(c), [::1]:1 tls(::1)",
    );
    // Every server is one of another data centre.
    servers(
        &with(r#", "security_mech_within_dc": "plain", "security_mech_cross_dc": "ssl""#),
        "a:1 tls(a), b:1 tls(b), c:1 tls(c), [::1]:1 tls(::1)",
    );
    servers(&with(r#", "security_mech_within_dc": "ssl""#), "a:1, b:1, c:1 tls(c), [::1]:1 tls(::1)");
    servers(
        &with(
            r#", "security_mech_within_dc": "plain", "security_mech_cross_dc": "plain", "security_mech": "ssl""#,
        ),
        "a:1, b:1, c:1, [::1]:1",
    );
}

#[test]
fn ports_are_overridden_by_those_of_the_pool() {
    let with = |fields: &str| format!(r#""servers": ["a:1", "b:2"], {fields}"#);
    servers(&with(r#""port_override": 7"#), "a:7, b:7");
    servers(&with(r#""port_override": 7, "port_override_cross_dc": 8"#), "a:8, b:8");
    servers(&with(r#""port_override": 7, "port_override_within_dc": 8"#), "a:7, b:7");
    // Then a server needs none of its own.
    servers(
        r#""servers": ["a", "b::ascii:ssl", "[::1]", "10.0.0.1:0", "unix:/x"], "port_override": 7"#,
        "a:7, b:7 tls(b), [::1]:7, 10.0.0.1:7, unix:/x",
    );
    for server in ["a", "[::1]", "a::ascii"] {
        refused(
            &format!("{{\"pools\": {{\"A\": {{\"servers\": [\n{server:?}]}}}}, \"route\": \"PoolRoute|A\"}}"),
            "line 2: expected a server with a port, host:port, because its pool has no `port_override`, found",
        );
    }
    for server in ["", ":7", "a:x", "[::1", "[::1]7", "[]:7", "unix:x"] {
        refused(
            &format!(
                "{{\"pools\": {{\"A\": {{\"servers\": [\n{server:?}], \"port_override\": 7}}}}, \"route\": \"PoolRoute|A\"}}"
            ),
            "line 2: expected a server: host:port, [IPv6 address]:port or unix:/path, found",
        );
    }
}

#[track_caller]
fn noted(config: &str, expected: &[&str]) {
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Some(([127, 0, 0, 1], port).into());
    let plan = compile(&json, 1, &CompileOptions::default(), &mut resolve).expect("a plan");
    assert_eq!(plan.notes, expected, "{config}");
}

#[test]
fn fields_that_no_such_route_has_are_noted() {
    let route = |route: &str| {
        format!("{{\"pools\": {{\"A\": {{\"servers\": [\"a:1\", \"b:1\"]}}}}, \"route\":\n{route}}}")
    };
    noted(
        &route(r#"{"type": "WarmUpRoute", "cold": "NullRoute", "warm": "NullRoute", "exptme": 5}"#),
        &["line 2: `exptme` is not known in WarmUpRoute, `exptime` is: it has no effect"],
    );
    noted(
        &route(
            r#"{"type": "PoolRoute", "pool": "A", "name": "x", "hash": {"hash_fun": "Crc32"}, "comment": "x"}"#,
        ),
        &[
            "line 2: `comment` is not known in PoolRoute: it has no effect",
            "line 2: `hash_fun` is not known in a hash, `hash_func` is: it has no effect",
        ],
    );
    noted(&route(r#"{"type": "HashRoute", "children": "Pool|A", "hash_func": "Crc32", "salt": "x"}"#), &[]);
    noted(
        &route(
            r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "NullRoute"], "failover_limit": {"rate": 1, "brust": 5},
                "failover_errors": {"get": ["tko"]}, "failover_policy": {"type": "LeastFailuresPolicy", "max_tires": 2, "max_tries": 2}}"#,
        ),
        &[
            "line 2: `brust` is not known in a failover_limit, `burst` is: it has no effect",
            "line 3: `get` is not known in failover_errors, `gets` is: it has no effect",
            "line 3: `max_tires` is not known in a failover_policy, `max_tries` is: it has no effect",
        ],
    );
    noted(
        &route(r#"{"type": "PrefixSelectorRoute", "wildcard": "NullRoute", "polices": {}}"#),
        &["line 2: `polices` is not known in PrefixSelectorRoute, `policies` is: it has no effect"],
    );
    noted(
        "{\"pools\": {\"A\": {\"servers\": [\"a:1\"], \"server_timout\": 5,\n\"tko_tracker\": {\"num_tko_threshold_upper\": 1, \
         \"num_tko_threshold_lower\": 1, \"x\": 1}}},\n\"route\": \"PoolRoute|A\"}",
        &[
            "line 1: `server_timout` is not known in a pool, `server_timeout` is: it has no effect",
            "line 2: `x` is not known in a tko_tracker: it has no effect",
        ],
    );
    noted(
        &route(
            r#"{"type": "PoolRoute", "pool": {"name": "B", "servers": ["a:1"], "regoin": "x"}, "rates": {"get_rate": 5}}"#,
        ),
        &[
            "line 2: `regoin` is not known in a pool, `region` is: it has no effect",
            "line 2: `get_rate` is not known in rates, `gets_rate` is: it has no effect",
        ],
    );
    noted(
        &route(
            r#"{"type": "PoolRoute", "pool": "A", "shadows": [{"target": "NullRoute", "index_rang": [0, 1]}]}"#,
        ),
        &["line 2: `index_rang` is not known in a shadow, `index_range` is: it has no effect"],
    );
}

#[test]
fn a_server_with_port_zero_is_noted() {
    let config = r#"{"pools": {"A": {"servers": ["a:0", "b:1"]}}, "route": "PoolRoute|A"}"#;
    noted(config, &["server a:0 is never reached: nothing can listen on port 0"]);
}

#[test]
fn servers_that_are_said_to_speak_caret_are_asked_in_text() {
    let line = "pool A: caret is not spoken: its servers are asked in memcached's text protocol, which mcrouter takes on the \
                same port";
    let pool = |fields: &str| format!("{{\"pools\": {{\"A\": {{{fields}}}}}, \"route\": \"PoolRoute|A\"}}");
    noted(&pool(r#""servers": ["a:1", "b:1"], "protocol": "caret""#), &[line]);
    noted(&pool(r#""servers": ["a:1:caret", "b:1:caret:plain"]"#), &[line]);
    noted(&pool(r#""servers": ["a:1:ascii", "b:1"], "protocol": "ASCII""#), &[]);
    servers(r#""servers": ["a:1:caret:ssl"]"#, "a:1 tls(a)");
}

#[test]
fn routing_groups_have_the_names_of_mcrouter() {
    let with = |fields: &str| format!("{{\"route\": {{\"type\": \"RoutingGroupRoute\",\n{fields}}}}}");
    for name in ["get", "update", "delete", "arithmetic", "touch", "touch_like", "GET_LIKE"] {
        refused(
            &with(&format!("\"routing_group_policies\": {{\"{name}\": \"NullRoute\"}}")),
            &format!(
                "line 2: expected get_like, update_like, delete_like or arithmetic_like, found group `{name}`"
            ),
        );
    }
    refused(&with("\"x\": 1"), "line 1: expected `default_policy` or `routing_group_policies`");
    refused(&with("\"routing_group_policies\": []"), "line 2: expected an object (`routing_group_policies`)");
}

#[test]
fn security_that_is_not_there_is_refused() {
    let pool = |servers: &str, fields: &str| {
        format!(
            "{{\"pools\": {{\"A\": {{\"servers\": [\n{servers}],\n{fields}}}}}, \"route\": \"PoolRoute|A\"}}"
        )
    };
    refused(
        &pool("\"a:1\"", "\"security_mech\": \"sasl\""),
        "line 3: expected plain, ssl, tls_to_plain, fizz, ktls12, found `sasl`",
    );
    refused(
        &pool("\"a:1:ascii:tls\"", ""),
        "line 2: expected plain, ssl, tls_to_plain, fizz, ktls12 in \"a:1:ascii:tls\", found `tls`",
    );
    refused(
        &pool("\"unix:/x\"", "\"use_ssl\": true"),
        "line 2: expected a server over TCP, because its pool uses TLS, found the string \"unix:/x\"",
    );
    refused(
        &pool("\"a b:1:ascii:ssl\"", ""),
        "line 2: expected a server with a name that a certificate can have",
    );
    refused(&pool("\"a:1\"", "\"port_override\": 0"), "line 3: expected an integer from 1 to 65535");
    refused(
        &pool("\"a:1\"", "\"protocol\": \"thrift\""),
        "line 3: expected ascii or caret as `protocol` of a pool, found `thrift`",
    );
}

#[test]
fn gets_over_udp_are_for_servers_over_tcp_without_tls() {
    let pool = |servers: &str, fields: &str| {
        format!(
            "{{\"pools\": {{\"A\": {{\"servers\": [\n{servers}],\n{fields}}}}}, \"route\": \"PoolRoute|A\"}}"
        )
    };
    let message = "line 2: expected a server over TCP without TLS, because gets of its pool go over UDP";
    refused(&pool("\"unix:/x\"", "\"transport\": \"udp\""), message);
    refused(&pool("\"a:1:ascii:ssl\"", "\"transport\": \"udp\""), message);
    refused(
        &pool("\"a:1\"", "\"transport\": \"sctp\""),
        "line 3: expected tcp or udp (`transport` of a pool)",
    );
}
