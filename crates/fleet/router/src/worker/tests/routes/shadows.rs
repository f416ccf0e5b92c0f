//! Shadows: what they get, and that nothing depends on what they do with it.

use super::config_notes;
use super::{Conversation, compiled, play};
use crate::config::CompileOptions;
use crate::config::json::parse;
use crate::reports::facts::{ProcessFacts, ReportFacts};

/// A route over server a whose requests server b gets, too.
fn shadowed(shadow: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1"]}}, "B": {{"servers": ["b:1"]}}}}, "route": {{"type": "PoolRoute",
            "pool": "A", "shadows": [{{"target": "PoolRoute|B", {shadow}}}]}}}}"#
    )
    .replace('\n', " ")
}

/// All of them.
const ALL: &str = r#""index_range": [0, 1], "key_fraction_range": [0, 1]"#;

#[test]
fn a_shadow_gets_the_same_requests_and_its_replies_are_dropped() {
    play(
        &shadowed(ALL),
        "> get k
         a> get k
         b> get k
         b<| VALUE k 0 5\\r\\nother\\r\\nEND\\r\\n
         nothing
         a<| VALUE k 0 2\\r\\nhi\\r\\nEND\\r\\n
         < VALUE k 0 2
         < hi
         < END
         > set k 0 0 2 noreply\\r\\nhi
         a> set k 0 0 2
         a> hi
         b> set k 0 0 2
         b> hi
         a< STORED
         b< SERVER_ERROR out of memory
         nothing
         > /././k delete
         < ERROR
         > delete /././k
         a> delete k
         b> delete k
         a< DELETED
         < DELETED
         b< NOT_FOUND
         > mg k v q\\r\\nmn
         a> mg k v O1
         b> mg k v O1
         a< EN
         < MN
         b< VA 1 O1\\r\\nx
         nothing",
    );
}

#[test]
fn a_multiget_stays_one_get_with_copies_beside_it() {
    play(
        &shadowed(ALL),
        "> get k l m
         a> get k l m
         b> get k
         b> get l
         b> get m
         a< VALUE l 0 1\\r\\nx\\r\\nEND
         < VALUE l 0 1
         < x
         < END
         b!
         nothing",
    );
    let some = shadowed(r#""keys_to_shadow": ["l", "x"]"#);
    play(&some, "> get k l m\na> get k l m\nb> get l\na< END\n< END\nb< END\nnothing");
    play(
        &some,
        "> get x|#|1\na> get x|#|1\nb> get x|#|1\na< END\n< END\nb< END\n> get y\na> get y\na< END\n< END",
    );
}

#[test]
fn without_ranges_there_are_no_shadows() {
    let none = "> get k l\na> get k l\na< END\n< END";
    play(&shadowed(r#""key_fraction_range": [0, 1]"#), none);
    play(&shadowed(r#""index_range": [0, 1]"#), none);
    play(&shadowed(r#""index_range": [1, 2], "key_fraction_range": [0, 1]"#), none);
    play(&shadowed(&format!(r#"{ALL}, "requests_fraction": 0.0"#)), none);
    play(&shadowed(r#""keys_to_shadow": []"#), none);
}

#[test]
fn a_range_of_servers_is_shadowed() {
    let config = r#"{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}, "D": {"servers": ["d:1"]}}, "route": {"type":
        "PoolRoute", "pool": "A", "shadows": [
            {"target": "PoolRoute|D", "index_range": [1, 2], "key_fraction_range": [0, 1]}]}}"#;
    play(
        &config.replace('\n', " "),
        "> get abc\na> get abc\na< END\n< END\n> get key:1 key:3 abc\na> get abc\nb> get key:1 key:3\nd> get key:1\nd> get key:3\na< END\nb< END\n< END\nd< END\nd< END",
    );
}

#[test]
fn a_shadow_route_has_children_and_may_have_shadows_itself() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}, "C": {"servers": ["c:1"]}},
        "route": {"type": "AllSyncRoute", "children": {"type": "ShadowRoute", "children": ["PoolRoute|A", "NullRoute"],
            "shadows": [{"index_range": [0, 1], "key_fraction_range": [0, 1], "target": {"type": "ShadowRoute", "children":
                "PoolRoute|B", "shadows": [{"index_range": [0, 1], "key_fraction_range": [0, 1], "target": "PoolRoute|C"}]}}]}}}"#;
    play(
        &config.replace('\n', " "),
        "> delete k\na> delete k\nb> delete k\nc> delete k\nc!\nb!\nnothing\na< DELETED\n< NOT_FOUND\nnothing",
    );
}

#[test]
fn a_shadow_that_never_answers_or_is_gone_keeps_nothing_waiting() {
    let mut conversation = Conversation::new(&shadowed(ALL));
    for _ in 0..6 {
        conversation.play("> get k\na> get k\na< END\n< END\nwait 600");
    }
    // Three requests in a row have waited too long: it is unavailable.
    conversation.play("b> get k\nb> get k\nb> get k");
    conversation.play("> get k\na> get k\na< END\n< END");
    let host = conversation.host("b");
    let received = std::mem::take(&mut conversation.world.handler::<super::End>(host).received);
    assert!(received.len() < 5 * b"get k\r\n".len(), "{}", received.escape_ascii());
    assert_eq!(conversation.worker().flights.len(), 0);
    let mut conversation = Conversation::new(&shadowed(ALL));
    conversation.stop("b");
    conversation.play("> get k\na> get k\na< END\n< END\n> get k\na> get k\na< END\n< END");
    conversation.end();
    let mut conversation = Conversation::new(&shadowed(ALL));
    conversation.play("b down\n> get k\na> get k\na< END\n< END\nwait 5000");
    assert_eq!(conversation.worker().flights.len(), 0);
}

#[test]
fn requests_that_a_shadow_has_not_answered_are_limited() {
    let settings = crate::Settings { shadows_max: 3, ..crate::Settings::default() };
    let mut conversation = Conversation::with_settings(&shadowed(ALL), settings);
    for key in 0..5 {
        conversation.play(&format!("> get k{key}\na> get k{key}\na< END\n< END"));
    }
    conversation.play("b> get k0\nb> get k1\nb> get k2\nnothing\nb< END\n> get l\na> get l\nb> get l\na< END\n< END\n> get m\na> get m\na< END\n< END\nnothing");
    conversation.play("b< END\nb< END\nb< END");
    conversation.end();
}

#[test]
fn a_request_that_a_shadow_has_let_wait_too_long_no_longer_counts() {
    let settings = crate::Settings { shadows_max: 1, ..crate::Settings::default() };
    let mut conversation = Conversation::with_settings(&shadowed(ALL), settings);
    conversation
        .play("> get k\na> get k\nb> get k\na< END\n< END\n> get l\na> get l\na< END\n< END\nnothing");
    conversation.play("wait 1100\n> get m\na> get m\nb> get m\na< END\n< END\nb< END\nb< END");
    let counts: Vec<usize> =
        conversation.worker().servers.destinations().iter().map(|place| place.queue.shadows()).collect();
    assert_eq!(counts, [0, 0]);
    conversation.end();
}

#[test]
fn a_shadow_that_does_not_read_costs_a_bounded_amount() {
    let mut conversation = Conversation::new(&shadowed(ALL));
    let value = "v".repeat(1 << 20);
    conversation.play("b down");
    for _ in 0..12 {
        conversation.play(&format!("> set k 0 0 {}\\r\\n{value}", value.len()));
        conversation.play(&format!("a> set k 0 0 {}\na> {value}\na< STORED\n< STORED", value.len()));
    }
    let unsent: Vec<usize> =
        conversation.worker().servers.destinations().iter().map(|place| place.connection.unsent()).collect();
    assert!(
        unsent.iter().all(|unsent| *unsent <= crate::servers::destination::UNSENT_MAX + (2 << 20)),
        "{unsent:?}"
    );
    conversation.play("wait 5000");
    assert_eq!(conversation.worker().flights.len(), 0);
}

#[test]
fn requests_are_drawn_by_their_fraction() {
    let mut conversation = Conversation::new(&shadowed(&format!(r#"{ALL}, "requests_fraction": 0.25"#)));
    let keys: Vec<String> = (0..200).map(|key| format!("k{key}")).collect();
    let line = keys.join(" ");
    for _ in 0..5 {
        conversation.play(&format!("> get {line}\na> get {line}\na< END\n< END"));
        let host = conversation.host("b");
        let received = std::mem::take(&mut conversation.world.handler::<super::End>(host).received);
        let copies = received.iter().filter(|byte| **byte == b'\n').count();
        assert!((25..=75).contains(&copies), "{copies} of 200");
        conversation.play(&format!("b<| {}", "END\\r\\n".repeat(copies)));
    }
    conversation.end();
}

#[test]
fn a_variable_moves_the_range_while_the_plan_stays() {
    let config = shadowed(r#""index_range": [0, 1], "key_fraction_range_rv": "key_fraction_range_b""#);
    let mut conversation = Conversation::new(&config);
    let vary = |conversation: &Conversation, text: &str| {
        let json = parse(0, text.as_bytes()).expect("JSON");
        conversation.shared.plan().update_variables(&json).len()
    };
    let (none, all) =
        ("> get k\na> get k\na< END\n< END\nnothing", "> get k\na> get k\nb> get k\na< END\n< END\nb< END");
    conversation.play(none);
    assert_eq!(vary(&conversation, r#"{"key_fraction_range_b": [0, 1]}"#), 0);
    conversation.play(all);
    assert_eq!(vary(&conversation, r#"{"key_fraction_range_b": [1, 0]}"#), 1);
    conversation.play(all);
    assert_eq!(vary(&conversation, r#"{"key_fractions": {"b": 0.0}}"#), 0);
    conversation.play(none);
    conversation.end();
}

#[test]
fn a_wrong_shadow_is_left_out_with_a_line() {
    #[track_caller]
    fn check(shadow: &str, expected: &str) {
        let config = format!(
            "{{\"pools\": {{\"A\": {{\"servers\": [\"a:1\"]}}}}, \"named_handles\": {{\"h\": \"PoolRoute|A\"}}, \"route\": {{\"type\": \"PoolRoute\", \"pool\": \"A\",\n\"shadows\": {shadow}}}}}"
        );
        let notes = config_notes(&config);
        assert!(
            matches!(&notes[..], [note] if note.starts_with(&format!("a shadow is left out: line 2: {expected}"))),
            "{notes:?}"
        );
        play(&config.replace('\n', " "), "> get k\na> get k\na< END\n< END");
    }
    check("5", "expected an array (`shadows`), found the number 5");
    check("[5]", "expected an object (a shadow), found the number 5");
    check("[{}]", "expected `target` in a shadow, found none");
    check(r#"[{"target": "NoRoute|x"}]"#, "expected a named handle or one of");
    check(r#"[{"target": "h", "index_range": [2, 1]}]"#, "expected the smaller index first, found [2, 1]");
    check(r#"[{"target": "h", "index_range": [-1, 1]}]"#, "expected an integer of at least 0");
    check(r#"[{"target": "h", "index_range": 5}]"#, "expected an array (`index_range`)");
    check(r#"[{"target": "h", "key_fraction_range": [0.5, 0.4]}]"#, "expected two numbers from 0 to 1");
    check(r#"[{"target": "h", "key_fraction_range": [0, 2]}]"#, "expected a number from 0 to 1");
    check(r#"[{"target": "h", "key_fraction_range": [0]}]"#, "expected an array of two numbers");
    check(r#"[{"target": "h", "requests_fraction": "all"}]"#, "expected a number");
    check(r#"[{"target": "h", "key_fraction_range_rv": 5}]"#, "expected a string");
    check(
        r#"[{"target": "h", "keys_to_shadow": ["a"], "index_range": [0, 1]}]"#,
        "expected either `keys_to_shadow` or `index_range`, found both",
    );
}

#[test]
fn a_handle_whose_shadow_was_left_out_can_still_be_used() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}}, "named_handles": {"h": {"type": "AllSyncRoute", "children":
        ["PoolRoute|A", {"type": "PoolRoute", "pool": "A", "shadows": [{"target": "h"}]}]}}, "route": "h"}"#;
    let notes = config_notes(config);
    assert!(notes[0].contains("found a circle at `h`"), "{notes:?}");
    play(
        &config.replace('\n', " "),
        "> delete k\na> delete k\na> delete k\na< DELETED\na< DELETED\n< DELETED",
    );
}

#[test]
fn replies_of_a_shadow_are_compared() {
    let config = shadowed(&format!(r#"{ALL}, "compare_fraction": 1"#));
    let mut conversation = Conversation::new(&config);
    let options = CompileOptions { compares_shadows: true, ..CompileOptions::default() };
    let plan = compiled(&config, 2, &conversation.places, &options);
    conversation.shared.replace(plan);
    let value = |server: &str, value: &str| {
        format!("{server}<| VALUE k 0 {}\\r\\n{value}\\r\\nEND\\r\\n\n", value.len())
    };
    let asked = "> get k\na> get k\nb> get k\n";
    let answered = |value: &str| format!("< VALUE k 0 {}\n< {value}\n< END\n", value.len());
    // The same, the shadow first; another value; another size, the shadow late; a miss; an error; no reply.
    conversation.play(
        &[asked, &value("b", "hi"), "nothing\nwait 100\n", &value("a", "hi"), &answered("hi")].concat(),
    );
    conversation.play(&[asked, &value("a", "hi"), &answered("hi"), &value("b", "ho")].concat());
    conversation
        .play(&[asked, &value("a", "hi"), &answered("hi"), "wait 200\n", &value("b", "hello")].concat());
    conversation.play(&[asked, &value("a", "hi"), &answered("hi"), "b< END\n"].concat());
    conversation.play(&[asked, "a< END\n< END\nb!\n"].concat());
    conversation.play(
        "> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\nb> set k 0 0 1\nb> x\na< STORED\n< STORED\nwait 1100",
    );
    let report = conversation.shared.plan().shadow_report();
    let [shadow] = &report.shadows[..] else { panic!("{report:?}") };
    let outcomes: Vec<String> = shadow
        .outcomes
        .iter()
        .map(|(normal, shadow, count)| format!("{} {} {count}", normal.name(), shadow.name()))
        .collect();
    assert_eq!(
        outcomes,
        ["found found 3", "found notfound 1", "notfound remote_error 1", "stored timeout 1"]
    );
    assert_eq!((shadow.same_values, shadow.other_values, shadow.other_sizes), (1, 1, 1));
    assert_eq!((shadow.compared(), shadow.hits()), (6, (5, 3)));
    let slowest_us = [&shadow.normal, &shadow.shadow].map(|times| times.below_us(1000));
    assert!((100_000..200_000).contains(&slowest_us[0]) && slowest_us[1] >= 1_000_000, "{shadow:?}");
    assert_eq!(shadow.name, "shadow in line 1");
    // Another plan begins anew, and without the flag nothing is compared.
    conversation.play(&format!("b< STORED\nplan {config}"));
    assert!(conversation.shared.plan().shadow_report().shadows.is_empty());
    conversation.end();
}

#[test]
fn a_shadow_has_the_name_that_the_configuration_gives_it() {
    let config = shadowed(&format!(r#"{ALL}, "compare_fraction": 1, "name": "web->new""#));
    assert_eq!(config_notes(&config), [""; 0]);
    let mut conversation = Conversation::new(&config);
    let options = CompileOptions { compares_shadows: true, ..CompileOptions::default() };
    conversation.shared.replace(compiled(&config, 2, &conversation.places, &options));
    conversation.play("> get k\na> get k\nb> get k\nb< END\na<| VALUE k 0 1\\r\\nx\\r\\nEND\\r\\n\n< VALUE k 0 1\n< x\n< END");
    assert_eq!(conversation.shared.plan().shadow_report().shadows[0].name, "web->new");
    let (unix_s, process) = (1000, ProcessFacts::default());
    let facts = ReportFacts { now: conversation.world.now(), unix_s, process };
    let network = conversation.world.view(conversation.router).counts();
    let json: String = conversation.shared.statistics_json(&facts, &network).split_whitespace().collect();
    let part = "\"shadows\":{\"by_name\":{\"web->new\":{\"compared\":1,\"normal_hits\":1,";
    assert!(json.contains(part) && json.contains("\"other_outcomes\":1,"), "{json}");
    let wrong = shadowed(&format!(r#"{ALL}, "name": 5"#));
    assert!(config_notes(&wrong)[0].contains("a shadow is left out: line 1: expected a string"));
    conversation.end();
}

#[test]
fn compared_requests_of_a_multiget_fly_alone_and_others_do_not() {
    let config = shadowed(r#""keys_to_shadow": ["l"], "compare_fraction": 1"#);
    let mut conversation = Conversation::new(&config);
    let options = CompileOptions { compares_shadows: true, ..CompileOptions::default() };
    conversation.shared.replace(compiled(&config, 2, &conversation.places, &options));
    conversation.play("> get k l m\na> get l\na> get k m\nb> get l\na< END\na< END\n< END\nb< END");
    assert_eq!(conversation.shared.plan().shadow_report().shadows[0].compared(), 1);
    conversation.play("> get k l\ngone\na> get l\na> get k\nb> get l\nb< END\na< END\na< END");
    assert_eq!(conversation.shared.plan().shadow_report().shadows[0].compared(), 2);
    conversation.end();
}

#[test]
fn a_shadow_with_shadows_of_its_own_stands_beside_one_that_is_compared() {
    let shadow = |target: &str, compared: &str| {
        format!(
            r#"{{"target": {target}, "index_range": [0, 1], "key_fraction_range": [0, 1], "compare_fraction": {compared}}}"#
        )
    };
    for inner_compared in ["0", "1"] {
        let inner = shadow("\"PoolRoute|D\"", inner_compared);
        let inner = format!(r#"{{"type": "PoolRoute", "pool": "C", "shadows": [{inner}]}}"#);
        let shadows = [shadow("\"PoolRoute|B\"", "1"), shadow(&inner, "0")].join(", ");
        let config =
            super::config(&format!(r#"{{"type": "PoolRoute", "pool": "A", "shadows": [{shadows}]}}"#));
        let mut conversation = Conversation::new(&config);
        let options = CompileOptions { compares_shadows: true, ..CompileOptions::default() };
        conversation.shared.replace(compiled(&config, 2, &conversation.places, &options));
        conversation.play(
            "> get k
             a> get k
             b> get k
             c> get k
             d> get k
             b< END
             c< END
             d< END
             nothing
             a< END
             < END",
        );
        let compared: Vec<u64> = conversation
            .shared
            .plan()
            .shadow_report()
            .shadows
            .iter()
            .map(|shadow| shadow.compared())
            .collect();
        assert_eq!(compared.iter().sum::<u64>(), 1 + u64::from(inner_compared == "1"), "{compared:?}");
        conversation.end();
    }
}

#[test]
fn a_shadow_that_lies_loses_its_connection_and_nobody_else_notices() {
    play(
        &shadowed(ALL),
        "> get k
         a> get k
         b> get k
         b< VALUE other 0 1\\r\\nx\\r\\nEND
         b closed
         nothing
         a< END
         < END
         > get k
         a> get k
         b> get k
         a< END
         < END
         b<| END\\r\\nEND\\r\\n
         b closed
         > delete k
         a> delete k
         b> delete k
         b< STORED
         b closed
         a< DELETED
         < DELETED",
    );
}

#[test]
fn copies_end_on_the_plan_that_they_began_with() {
    play(
        &shadowed(ALL),
        &format!(
            "> get k
             a> get k
             b> get k
             plan {}
             > get l
             a> get l
             b< END
             a< END
             a< END
             < END
             < END
             gone
             back
             > get m
             a> get m
             a< END
             < END",
            super::ONE
        ),
    );
}
