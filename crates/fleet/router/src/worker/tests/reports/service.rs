//! `get __mcrouter__.NAME`.

use super::*;

impl Conversation {
    /// The value of a key about the router.
    #[track_caller]
    pub(crate) fn about(&mut self, request: &str) -> String {
        let client = self.clients[2];
        let key = format!("__mcrouter__.{request}");
        self.send(client, &format!("get {key}\\r\\n"));
        let received = std::mem::take(&mut self.world.handler::<End>(client).received);
        let text = String::from_utf8(received).expect("text");
        let (head, rest) = text.split_once("\r\n").expect("a line");
        let len = head.strip_prefix(&format!("VALUE {key} 0 ")).expect("a value").parse().expect("a length");
        let (value, end) = rest.split_at(len);
        assert_eq!(end, "\r\nEND\r\n");
        value.to_owned()
    }
}

const FAILOVER: &str = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "B": {"servers": ["c:1"]}},
    "route": {"type": "OperationSelectorRoute",
        "default_policy": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]},
        "operation_policies": {
            "get": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]},
            "gets": {"type": "MissFailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "NullRoute"]},
            "touch": {"type": "ErrorRoute", "response": "no\ntouch"}}}}"#;

#[test]
fn a_route_is_told_by_its_servers_and_as_a_tree() {
    let mut conversation = Conversation::new(FAILOVER);
    assert_eq!(conversation.about("route(get,abc)"), "a:1");
    assert_eq!(conversation.about("route(set,abc,def)"), "a:1\r\nc:1");
    assert_eq!(conversation.about("route(gets,abc)"), "a:1\r\nc:1");
    assert_eq!(conversation.about("route(touch,abc)"), "");
    let host = |pool: &str, id: u8, name: &str| {
        format!(
            "host|pool={pool}|id={id}|ap={name}:ascii:plain:notcompressed|timeout=1000ms|keep_routing_prefix=false|msb=0"
        )
    };
    let expected = format!(
        "proxy\n root\n  operation-selector\n   failover\n    asynclog:A\n     selection|hash|Ch3\n      {}\n    asynclog:B\n     {}",
        host("A", 0, "a:1"),
        host("B", 0, "c:1")
    );
    assert_eq!(conversation.about("route_handles(get,abc)"), expected);
    let expected = "proxy\n root\n  operation-selector\n   error|log|mc_res_local_error|no\ntouch";
    assert_eq!(conversation.about("route_handles(touch,abc)"), expected);
    let pools = format!(
        "{{\n  \"A\": [\n    \"{}\",\n    \"{}\"\n  ],\n  \"B\": [\n    \"{}\"\n  ]\n}}",
        host("A", 0, "a:1"),
        host("A", 1, "b:1"),
        host("B", 0, "c:1")
    );
    assert_eq!(conversation.about("pools"), pools);
    assert_eq!(conversation.about("failure_domains(B)"), "{\n  \"c:1\": \"0()\"\n}");
    assert_eq!(conversation.about("failure_domains(none)"), "{}");
    conversation.replace(
        r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"], "failure_domains": [7, "rack-2", 0]}}, "route": "PoolRoute|A"}"#,
    );
    let rack = crate::plan::hash::spooky32(b"rack-2", 0);
    let expected = format!("{{\n  \"a:1\": \"7()\",\n  \"b:1\": \"{rack}()\",\n  \"c:1\": \"0()\"\n}}");
    assert_eq!(conversation.about("failure_domains(A)"), expected);
    conversation.expect_nothing();
}

#[test]
fn routes_have_mcrouters_names_in_a_tree() {
    let null = r#""NullRoute""#;
    for (route, expected) in [
        (r#"{"type": "LoggingRoute", "target": "NullRoute"}"#.to_owned(), "logging"),
        (
            format!(r#"{{"type": "LatencyInjectionRoute", "child": {null}, "total_latency_ms": 1}}"#),
            "latency-injection",
        ),
        (format!(r#"{{"type": "WarmUpRoute", "cold": {null}, "warm": {null}}}"#), "warm-up"),
        (
            format!(r#"{{"type": "L1L2CacheRoute", "l1": {null}, "l2": {null}, "upgradingL1Exptime": 5}}"#),
            "l1l2-cache",
        ),
        (
            format!(r#"{{"type": "L1L2SizeSplitRoute", "l1": {null}, "l2": {null}, "threshold": 5}}"#),
            "l1l2-sizesplit",
        ),
        (
            format!(r#"{{"type": "KeySplitRoute", "destination": {null}, "replicas": 2, "all_sync": true}}"#),
            "keysplit",
        ),
        (r#"{"type": "PoolRoute", "pool": "A", "max_outstanding": 5}"#.to_owned(), "outstanding-limit"),
        (format!(r#"{{"type": "ModifyExptimeRoute", "target": {null}, "exptime": 5}}"#), "modify-exptime"),
    ] {
        let mut conversation = Conversation::new(&routes::config(&route));
        let tree = conversation.about("route_handles(get,abc)");
        let found = tree.lines().any(|line| line.trim() == expected);
        assert!(found, "{route}: {tree}");
    }
}

#[test]
fn a_route_and_the_requests_that_follow_it_agree() {
    let mut conversation = Conversation::new(THREE);
    for number in 0..50 {
        let key = format!("key:{number}");
        let server = conversation.about(&format!("route(get,{key})"));
        let name = server.strip_suffix(":1").expect("a server").to_owned();
        let script = format!("> get {key}\n{name}> get {key}\n{name}< END\n< END");
        conversation.play(&script);
    }
    conversation.end();
}

#[test]
fn keys_about_the_router_are_answered_among_others() {
    play(
        ONE,
        "> get abc __mcrouter__.version def
         a> get abc def
         a< VALUE def 0 1
         a< x
         a< END
         < VALUE __mcrouter__.version 0 6
         < 1.6.45
         < VALUE def 0 1
         < x
         < END
         > get __mcrouter__.verbosity
         < VALUE __mcrouter__.verbosity 0 1
         < 0
         < END
         > get __mcrouter__.verbosity(2)
         < VALUE __mcrouter__.verbosity(2) 0 6
         < 0 -> 2
         < END
         > verbosity 1
         < OK
         > get __mcrouter__.verbosity
         < VALUE __mcrouter__.verbosity 0 1
         < 1
         < END
         > gets __mcrouter__.version
         a> gets __mcrouter__.version
         a< END
         < END
         > set __mcrouter__.version 0 0 1
         > x
         a> set __mcrouter__.version 0 0 1
         a> x
         a< STORED
         < STORED",
    );
}

#[test]
fn what_is_wrong_with_a_question_is_the_value() {
    let mut conversation = Conversation::new(ONE);
    for (request, expected) in [
        ("nothing", "ERROR: unknown command: nothing"),
        ("", "ERROR: unknown command: "),
        ("route", "ERROR: route: 2 args expected"),
        ("route(get)", "ERROR: route: 2 args expected"),
        ("route(me,x)", "ERROR: route: unknown request me"),
        ("route_handles(x,y)", "ERROR: route: unknown request x"),
        ("options(a,b)", "ERROR: options: 0 or 1 args expected"),
        ("options(a)", "ERROR: options: option a not found"),
        ("verbosity(x)", "ERROR: expected a number, got x"),
        ("verbosity(1,2)", "ERROR: expected at most 1 argument, got 2"),
        ("config_file", "ERROR: nothing is known of the configuration"),
        ("config_md5_digest", "ERROR: no config md5 digest found!"),
        ("failure_domains", "ERROR: failure_domains: 1 arg expected"),
        ("get_bucket", "ERROR: get_bucket: 1 arg (key) expected"),
        ("route(get,)", ""),
        ("route(get,/a/b/)", ""),
        ("route(get,/unknown/prefix/x)", ""),
    ] {
        assert_eq!(conversation.about(request), expected, "{request}");
    }
    conversation.expect_nothing();
}

#[test]
fn rubbish_in_a_key_is_answered_with_its_length() {
    let mut conversation = Conversation::new(ONE);
    let client = conversation.clients[0];
    let mut prng = stdx::prng::Prng::new(5);
    for _ in 0..300 {
        let mut key = b"__mcrouter__.route(get,".to_vec();
        let room = 250 - key.len() as u64;
        let bytes = (0..1 + prng.below(room)).map(|_| prng.below(256) as u8);
        key.extend(bytes.filter(|byte| !byte.is_ascii_whitespace() && !matches!(byte, 0 | 0x0b)));
        if prng.below(2) == 0 {
            key.truncate(249);
            key.push(b')');
        }
        let line = [b"get ", &key[..], b"\r\n"].concat();
        conversation.world.handler::<End>(client).to_send.extend_from_slice(&line);
        conversation.settle(client);
        let received = std::mem::take(&mut conversation.world.handler::<End>(client).received);
        let head = [b"VALUE ", &key[..], b" 0 "].concat();
        assert!(received.starts_with(&head), "{}", received.escape_ascii());
        let rest = String::from_utf8_lossy(&received[head.len()..]).into_owned();
        let len: usize = rest.split("\r\n").next().expect("a line").parse().expect("a length");
        let digits = len.to_string().len();
        assert_eq!(received.len(), head.len() + digits + 2 + len + b"\r\nEND\r\n".len());
    }
    conversation.end();
}

#[test]
fn a_route_to_thousands_of_servers_is_cut() {
    let servers: Vec<String> = (0..10_000).map(|number| format!("\"a:{}\"", number + 1)).collect();
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": [{}]}}}}, "route": {{"type": "AllSyncRoute", "children": "Pool|A"}}}}"#,
        servers.join(",")
    );
    let mut conversation = Conversation::new(&config);
    for request in ["route(set,abc)", "route_handles(set,abc)", "failure_domains(A)"] {
        let text = conversation.about(request);
        assert!(
            text.ends_with("\n(the rest is left out)") && text.len() <= 64 * 1024,
            "{request}: {}",
            text.len()
        );
    }
    let pools = conversation.about("pools");
    assert!(pools.contains("id=9999|"), "{}", pools.len());
}
