//! Statistics of pools: whose requests, and in which of them.

use super::*;
use crate::stats::counted_pools::CountedPools;

const CONFIG: &str = r#"{
    "pools": {
        "west": {"servers": ["a:1"]},
        "west.1": {"servers": ["a:1"]},
        "east": {"servers": ["c:1"]},
        "other": {"servers": ["d:1"]}
    },
    "route": {"type": "PrefixSelectorRoute", "policies": {
        "w": "PoolRoute|west", "x": "PoolRoute|west.1", "e": "PoolRoute|east",
        "f": {"type": "FailoverRoute", "children": ["PoolRoute|east", "PoolRoute|west"]},
        "c": {"type": "ModifyKeyRoute", "set_routing_prefix": "/a/b/", "target": "PoolRoute|east"}
    }, "wildcard": "PoolRoute|other"}
}"#;

fn counting(names: &str) -> Conversation {
    let (pools, refused) =
        CountedPools::parse(format!(r#"{{"stats_enabled_pools": {names}}}"#).as_bytes()).expect("names");
    assert_eq!(refused, [""; 0]);
    let settings = Settings { counted_pools: Arc::new(pools), ..Settings::default() };
    Conversation::with_settings(CONFIG, settings)
}

impl Conversation {
    /// The five statistics of a name; times as `0`, or as `some`.
    #[track_caller]
    fn pool(&mut self, name: &str, expected: &str) {
        let stats = self.stats("count");
        let figure =
            |what: &str| stats.get(&format!("{name}.{what}")).map_or("none", String::as_str).to_owned();
        let time = |what: &str| match &*figure(what) {
            "0" => "0".to_owned(),
            text => text.parse::<u64>().map_or(text.to_owned(), |_| "some".to_owned()),
        };
        let found = format!(
            "requests={} errors={} connections={} duration={} total={}",
            figure("requests.sum"),
            figure("final_result_error.sum"),
            figure("connections"),
            time("duration_us.avg"),
            time("total_duration_us.avg"),
        );
        assert_eq!(found, expected, "{name}");
    }

    fn time(&mut self, name: &str) -> u64 {
        self.stats("ods")[name].parse().expect("a number")
    }
}

#[test]
fn a_pool_counts_under_the_longest_name_and_one_server_of_two_pools_in_both() {
    let mut conversation = counting(r#"["west", "west.", "none"]"#);
    conversation.pool("west", "requests=0 errors=0 connections=0 duration=0 total=0");
    conversation.play(
        "> get w
         a> get w
         wait 20
         a< END
         < END
         > set x1 0 0 1
         > y
         a> set x1 0 0 1
         a> y
         a< STORED
         < STORED
         > get x x2 x3
         a> get x x2 x3
         wait 20
         a< VALUE x2 0 1
         a< y
         a< END
         < VALUE x2 0 1
         < y
         < END
         > get e
         c> get e
         c< END
         < END",
    );
    conversation.pool("west", "requests=1 errors=0 connections=1 duration=some total=some");
    conversation.pool("west.", "requests=4 errors=0 connections=1 duration=some total=some");
    conversation.pool("none", "requests=0 errors=0 connections=0 duration=0 total=0");
    conversation.pool("east", "requests=none errors=none connections=none duration=none total=none");
    conversation.pool("west.1", "requests=none errors=none connections=none duration=none total=none");
    conversation.play("nothing");
}

#[test]
fn a_request_belongs_to_the_first_pool_that_it_went_to() {
    let mut conversation = counting(r#"["west", "east"]"#);
    // East answers an error at once, and west after a while: its time and the whole request's differ.
    conversation.play(
        "> delete f
         c> delete f
         wait 30
         c< SERVER_ERROR busy
         a> delete f
         wait 30
         a< DELETED
         < DELETED
         > get f
         c> get f
         wait 30
         c< SERVER_ERROR busy
         a> get f
         wait 30
         a< END
         < END",
    );
    conversation.pool("east", "requests=2 errors=0 connections=1 duration=some total=some");
    conversation.pool("west", "requests=2 errors=0 connections=1 duration=some total=0");
    let (east, west) = (conversation.time("east.duration_us.avg"), conversation.time("west.duration_us.avg"));
    let total = conversation.time("east.total_duration_us.avg");
    assert!(east >= 30_000 && west >= 30_000, "{east} {west}");
    assert!(total >= east + west, "{total} of {east} and {west}");
}

#[test]
fn an_error_counts_where_its_client_gets_it() {
    let mut conversation = counting(r#"["east", "west"]"#);
    conversation.play(
        "> get e
         c> get e
         c< SERVER_ERROR out of memory
         < SERVER_ERROR out of memory
         > get e f w
         a> get w
         c> get f
         c> get e
         a< END
         c< SERVER_ERROR out of memory
         a> get f
         a< END
         c< SERVER_ERROR out of memory
         < SERVER_ERROR out of memory
         > set e 0 0 1 noreply
         > y
         c> set e 0 0 1
         c> y
         wait 1200
         nothing",
    );
    conversation.pool("east", "requests=4 errors=3 connections=1 duration=some total=some");
    conversation.pool("west", "requests=2 errors=0 connections=1 duration=some total=some");
}

#[test]
fn a_server_that_is_unavailable_is_not_asked() {
    let mut conversation = counting(r#"["east", "west"]"#);
    conversation.play("c down\n > get e\n wait 1200\n < SERVER_ERROR connection timeout\n");
    let asked = conversation.stats("count")["east.requests.sum"].clone();
    conversation.play(
        "> get e
         < SERVER_ERROR Server unavailable. Reason: connect_timeout
         > delete f
         a> delete f
         a< DELETED
         < DELETED",
    );
    assert_eq!(conversation.stats("count")["east.requests.sum"], asked);
    // The request went to west first.
    conversation.pool("west", "requests=1 errors=0 connections=1 duration=some total=some");
}

#[test]
fn counts_stay_when_a_configuration_names_no_such_pool_any_more() {
    let mut conversation = counting(r#"["west"]"#);
    conversation.play("> get w\n a> get w\n wait 5\n a< END\n < END\n");
    conversation.play(r#"plan {"pools": {"other": {"servers": ["d:1"]}}, "route": "PoolRoute|other"}"#);
    conversation.play("wait 3000");
    conversation.pool("west", "requests=1 errors=0 connections=0 duration=some total=some");
}

#[test]
fn a_client_that_leaves_takes_its_notes_with_it() {
    let mut conversation = counting(r#"["west"]"#);
    conversation
        .play("> get w\n a> get w\n gone\n a< END\n back\n > get w\n a> get w\n wait 5\n a< END\n < END\n");
    conversation.pool("west", "requests=2 errors=0 connections=1 duration=some total=some");
    let clients = conversation.worker().clients.windows();
    let left: usize = clients.values().map(|client| client.pool_notes()).sum();
    assert_eq!(left, 0);
}

#[test]
fn the_groups_are_those_that_mcrouter_gives_them() {
    let mut conversation = counting(r#"["west"]"#);
    let has = |stats: &BTreeMap<String, String>| stats.keys().any(|name| name.starts_with("west."));
    let found = ["", "detailed", "ods", "count", "all", "cmd"].map(|group| has(&conversation.stats(group)));
    assert_eq!(found, [false, false, true, true, true, false]);
}
