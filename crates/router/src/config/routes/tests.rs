//! Configurations that are refused, each with its line.

use super::{CompileOptions, compile};
use crate::config::json::parse;

#[track_caller]
fn refused(config: &str, expected: &str) {
    let json = parse(0, config.as_bytes()).expect("JSON");
    let mut resolve = |_: &str, port: u16| Ok(([127, 0, 0, 1], port).into());
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
            "\"normal\": \"NullRoute\", \"failover_limit\": 5".to_owned(),
            "line 2: `failover_limit` is not supported",
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
    let mut resolve = |_: &str, port: u16| Ok(([127, 0, 0, 1], port).into());
    compile(&json, 1, &CompileOptions::default(), &mut resolve).expect("a configuration");
}
