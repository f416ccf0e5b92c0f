//! Configurations that are refused, each with its line.

use super::{CompileOptions, compile};
use crate::config::json::parse;

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
        default_prefix: "/west/c/".to_owned(),
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
        &pool("\"a:1\"", "\"protocol\": \"caret\""),
        "line 3: expected ascii as `protocol` of a pool, found `caret`",
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
