//! Hot values below routes that ask several servers, or copy what they read.

use super::*;

#[test]
fn shadows_get_their_requests_and_their_servers_are_asked() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}, "S": {"servers": ["b:1"], "hot_cache": {}}},
        "route": {"type": "PoolRoute", "pool": "A", "shadows": [
            {"target": "PoolRoute|S", "index_range": [0, 1], "key_fraction_range": [0, 1]}]}}"#;
    let mut conversation = Conversation::new(config);
    let answered = "b> get k\nb< VALUE k 0 1\\r\\ny\\r\\nEND\n";
    (0..GETS).for_each(|_| conversation.play(&format!("{GET}{answered}")));
    for _ in 0..3 {
        conversation.play(&format!("> get k\n< VALUE k 3 1\n< x\n< END\n{answered}nothing"));
    }
    conversation.end();
}

#[test]
fn copies_to_several_servers_may_have_one_answer_from_here() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}, "B": {"servers": ["b:1"]}},
        "route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    let mut conversation = Conversation::new(config);
    let both = "> get k\na> get k\na< VALUE k 3 1\\r\\nx\\r\\nEND\nb> get k\nb< VALUE k 3 1\\r\\nx\\r\\nEND\n< VALUE k 3 1\n< x\n< END";
    (0..GETS).for_each(|_| conversation.play(both));
    conversation
        .play("> get k\nb> get k\nnothing\nb< VALUE k 3 1\\r\\nx\\r\\nEND\n< VALUE k 3 1\n< x\n< END");
    // The worst answer counts, as ever.
    conversation.play("> get k\nb> get k\nb< END\n< END");
    conversation.end();
}

#[test]
fn a_get_whose_answer_nobody_waits_for_is_sent() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}, "B": {"servers": ["b:1"], "hot_cache": {}}},
        "route": {"type": "AllInitialRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    let mut conversation = Conversation::new(config);
    (0..GETS).for_each(|_| conversation.play(&format!("{GET}b> get k\nb< VALUE k 0 1\\r\\ny\\r\\nEND")));
    conversation.play("> get k\n< VALUE k 3 1\n< x\n< END\nb> get k\nb< END");
    conversation.end();
}

#[test]
fn what_a_route_copies_is_from_the_server() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}, "B": {"servers": ["b:1"], "hot_cache": {}}},
        "route": {"type": "WarmUpRoute", "cold": "PoolRoute|B", "warm": "PoolRoute|A", "exptime": 9}}"#;
    let mut conversation = Conversation::new(config);
    let copied = "> get k\nb> get k\nb< END\na> get k\na< VALUE k 3 1\\r\\nx\\r\\nEND\n< VALUE k 3 1\n< x\n< END\n\
        b> add k 3 9 1\nb> x\nb< NOT_STORED";
    (0..GETS + 3).for_each(|_| conversation.play(copied));
    // What is found in the first place is no copy.
    conversation.play("> get k\nb> get k\nb< VALUE k 3 1\\r\\nx\\r\\nEND\n< VALUE k 3 1\n< x\n< END");
    conversation.play(HIT);
    conversation.end();
}

#[test]
fn a_failover_is_another_server_with_values_of_its_own() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"], "hot_cache": {}}, "B": {"servers": ["b:1"]}},
        "route": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    let mut conversation = Conversation::warm(config);
    conversation.play(&format!("{GET}{HIT}"));
    // The first does not take the update: its value is gone all the same, because the second has the new one.
    conversation.play(
        "> set k 0 0 1\\r\\ny
         a> set k 0 0 1
         a> y
         a!
         b> set k 0 0 1
         b> y
         b< STORED
         < STORED
         > get k
         a> get k
         a< END
         < END",
    );
    conversation.end();
}
