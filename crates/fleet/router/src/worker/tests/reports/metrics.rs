//! Metrics for Prometheus: that they are as its format wants them, and bounded.

use stdx::exposition::{FamilyRead, read};

use super::*;
use crate::reports::metrics::server_figures::SERVERS_SHOWN_MAX;

impl Conversation {
    /// All families.
    pub(crate) fn families(&mut self) -> Vec<FamilyRead> {
        let facts = ReportFacts { now: self.world.now(), unix_s: 1000, process: ProcessFacts::default() };
        let text = self.shared.metrics(&facts, &self.world.view(self.router).counts());
        read(&text).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// The value of a sample by its name and labels: `name{label="value"}`.
    #[track_caller]
    pub(crate) fn sample(&mut self, wanted: &str) -> f64 {
        let families = self.families();
        let samples = families.iter().flat_map(|family| &family.samples);
        let named = samples.map(|sample| {
            let labels: Vec<String> =
                sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (format!("{}{{{}}}", sample.name, labels.join(",")), sample.value)
        });
        let found: Vec<f64> = named.filter(|(name, _)| name == wanted).map(|(_, value)| value).collect();
        match found[..] {
            [value] => value,
            _ => panic!("{wanted}: found {found:?}"),
        }
    }
}

#[test]
fn what_happened_is_in_the_metrics_by_server_and_pool() {
    let config = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}, "B": {"servers": ["b:1"]}},
        "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    let mut conversation = play(
        config,
        "> get abc
         a> get abc
         a< SERVER_ERROR no
         b> get abc
         b< END
         < END
         > get abc
         a> get abc
         b awaits 2000
         b> get abc
         b< END
         < END",
    );
    for (name, expected) in [
        ("evenkeel_route_requests_total{command=get}", 2.0),
        ("evenkeel_route_replies_total{result=success}", 2.0),
        ("evenkeel_route_sent_total{command=get,kind=normal}", 2.0),
        ("evenkeel_route_sent_total{command=get,kind=failover}", 2.0),
        ("evenkeel_route_results_total{result=timeout}", 1.0),
        ("evenkeel_route_failovers_total{}", 2.0),
        ("evenkeel_route_server_outcomes_total{server=a:1,outcome=error}", 1.0),
        ("evenkeel_route_server_outcomes_total{server=a:1,outcome=timeout}", 1.0),
        ("evenkeel_route_server_outcomes_total{server=b:1,outcome=success}", 2.0),
        ("evenkeel_route_pool_outcomes_total{pool=A,outcome=success}", 2.0),
        ("evenkeel_route_pool_outcomes_total{pool=A,outcome=timeout}", 1.0),
        ("evenkeel_route_pool_outcomes_total{pool=B,outcome=success}", 2.0),
        ("evenkeel_route_pool_servers{pool=A}", 3.0),
        ("evenkeel_route_server_available{server=a:1}", 1.0),
        ("evenkeel_route_config_generation{}", 1.0),
        ("evenkeel_route_clients{}", 3.0),
        ("mcrouter_command_count{cmd=get}", 2.0),
        ("mcrouter_result_all_count{reply=error}", 2.0),
        ("mcrouter_servers{state=up}", 2.0),
        ("mcrouter_server_memcached_timeout_count{server=a:1}", 1.0),
    ] {
        assert_eq!(conversation.sample(name), expected, "{name}");
    }
    // The timeout was waited for.
    assert!(conversation.sample("evenkeel_route_server_latency_seconds_sum{server=a:1}") >= 1.0);
    assert_eq!(conversation.sample("evenkeel_route_server_latency_seconds_count{server=a:1}"), 2.0);
    // Programs that watch it read the same in JSON.
    let facts = ReportFacts { now: conversation.world.now(), unix_s: 1000, process: ProcessFacts::default() };
    let network = conversation.world.view(conversation.router).counts();
    let json: String = conversation.shared.statistics_json(&facts, &network).split_whitespace().collect();
    for part in [
        "\"pools\":{\"A\":{\"errors\":2,\"requests\":4,\"timeouts\":1},\"B\":{\"errors\":0,\"requests\":2,\"timeouts\":0}},\"replies\"",
        "\"shadows\":null,\"threads\":1,\"timeouts\":1,",
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    let json: String = conversation.shared.servers_json(&facts).split_whitespace().collect();
    for part in [
        "{\"others\":0,\"servers\":{\"a:1\":{\"available\":true,\"latency\":{\"buckets\":[[",
        "\"error\":1,\"success\":0,\"timeout\":1,\"unavailable\":0},\"outstanding\":0},\"b:1\":{",
        &format!("\"uptime_us\":{}}}", facts.now.us),
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
}

#[test]
fn names_of_families_have_units_and_types() {
    let mut conversation = play(ONE, "");
    for family in conversation.families() {
        let name = &family.name;
        let is_counter = family.kind == "counter";
        if name.starts_with("evenkeel_") {
            assert_eq!(is_counter, name.ends_with("_total"), "{name}");
        }
    }
}

#[test]
fn servers_beyond_the_limit_are_one_series() {
    let servers: Vec<String> = (1..=SERVERS_SHOWN_MAX + 700).map(|port| format!("\"a:{port}\"")).collect();
    let config =
        format!(r#"{{"pools": {{"A": {{"servers": [{}]}}}}, "route": "PoolRoute|A"}}"#, servers.join(","));
    let mut conversation = Conversation::new(&config);
    assert_eq!(conversation.sample("evenkeel_route_servers_not_shown{}"), 700.0);
    assert_eq!(conversation.sample("evenkeel_route_servers{}"), 1200.0);
    assert_eq!(conversation.sample("evenkeel_route_server_outstanding{server=other}"), 0.0);
    let families = conversation.families();
    let most = families.iter().map(|family| family.samples.len()).max().expect("families");
    // The histogram: 20 buckets, sum and count.
    assert_eq!(most, (SERVERS_SHOWN_MAX + 1) * 22);
}

#[test]
fn a_get_of_several_keys_has_an_outcome_for_each_and_one_time_for_each_server() {
    let mut conversation = play(
        THREE,
        "> get abc key:1 key:3
         a> get abc
         b> get key:1 key:3
         a< END
         b< VALUE key:3 0 1
         b< z
         b< END
         < VALUE key:3 0 1
         < z
         < END",
    );
    let outcomes = "evenkeel_route_server_outcomes_total{server=b:1,outcome=success}";
    assert_eq!(conversation.sample(outcomes), 2.0);
    assert_eq!(conversation.sample("evenkeel_route_server_latency_seconds_count{server=b:1}"), 1.0);
    assert_eq!(conversation.sample("evenkeel_route_pool_latency_seconds_count{pool=A}"), 2.0);
}

#[test]
fn further_connections_to_a_server_are_counted_once_and_are_no_further_servers() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "additional_fanout": 3}}, "route": "PoolRoute|A"}"#;
    let mut conversation = Conversation::with_all(
        config,
        1,
        Settings { flush_enabled: true, ..Settings::default() },
        |world, options| world.add(End::default(), &[PORT], options),
    );
    for key in ["a", "b", "c", "d", "e", "f"] {
        conversation.play(&format!("> get {key}\na> get {key}\na< END\n< END"));
    }
    conversation.play("> flush_all\na> flush_all\na< OK\n< OK");
    conversation.end();
    for (name, expected) in [
        ("evenkeel_route_server_outcomes_total{server=a:1,outcome=success}", 7.0),
        ("evenkeel_route_pool_outcomes_total{pool=A,outcome=success}", 7.0),
        ("evenkeel_route_pool_servers{pool=A}", 1.0),
        ("evenkeel_route_pool_available_servers{pool=A}", 1.0),
        ("evenkeel_route_server_available{server=a:1}", 1.0),
    ] {
        assert_eq!(conversation.sample(name), expected, "{name}");
    }
}
