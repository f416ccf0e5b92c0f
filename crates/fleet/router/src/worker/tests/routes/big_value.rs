//! BigValueRoute: values of more than 10 bytes are kept in parts.

use super::config;
use super::{Conversation, play};
use crate::config::CompileOptions;
use crate::plan::Node;
use crate::plan::hash::spooky32;
use crate::plan::plain_route::PlainRoute;
use crate::routes::CompoundKind;
use crate::routes::requests::big_value::{BigValue, PART_SIZE};

fn big(fields: &str) -> String {
    config(&format!(
        r#"{{"type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 10, "batch_size": 2{fields}}}"#
    ))
}

const VALUE: &str = "aaaaaaaaaabbbbbbbbbbccccc";

/// The script with S for the hash of [`VALUE`].
fn with_suffix(script: &str) -> String {
    script.replace("SUFFIX", &spooky32(VALUE.as_bytes(), 10).to_string())
}

/// The index of [`VALUE`].
fn index() -> String {
    with_suffix("1-3-SUFFIX")
}

#[track_caller]
fn play_big(script: &str) {
    let index = index();
    let script =
        with_suffix(script).replace("VALUE_OF_K", VALUE).replace("INDEX_LEN", &index.len().to_string());
    play(&big(""), &script.replace("INDEX", &index));
}

#[test]
fn a_long_value_is_written_in_parts_and_then_its_index() {
    play_big(
        "> set k 1 9 10\\r\\naaaaaaaaaa
         a> set k 1 9 10
         a> aaaaaaaaaa
         a< STORED
         < STORED
         > set /././k 1 9 25\\r\\nVALUE_OF_K
         a> set k:0:SUFFIX 1 9 10
         a> aaaaaaaaaa
         a> set k:1:SUFFIX 1 9 10
         a> bbbbbbbbbb
         nothing
         a< STORED
         a> set k:2:SUFFIX 1 9 5
         a> ccccc
         a< STORED
         nothing
         a< STORED
         a> set k 32769 9 INDEX_LEN
         a> INDEX
         a< STORED
         < STORED
         > cas k 1 9 25 77\\r\\nVALUE_OF_K
         a> set k:0:SUFFIX 1 9 10
         a> aaaaaaaaaa
         a> set k:1:SUFFIX 1 9 10
         a> bbbbbbbbbb
         a< STORED\\r\\nSTORED
         a> set k:2:SUFFIX 1 9 5
         a> ccccc
         a< STORED
         a> cas k 32769 9 INDEX_LEN 77
         a> INDEX
         a< EXISTS
         < EXISTS
         > ms k 25 T9 F4 O7 k\\r\\nVALUE_OF_K
         a> ms k:0:SUFFIX 10 F4 T9 O1
         a> aaaaaaaaaa
         a> ms k:1:SUFFIX 10 F4 T9 O2
         a> bbbbbbbbbb
         a< HD O1\\r\\nHD O2
         a> ms k:2:SUFFIX 5 F4 T9 O3
         a> ccccc
         a< HD O3
         a> ms k INDEX_LEN F32772 T9 O7 k
         a> INDEX
         a< HD O7 kk
         < HD O7 kk",
    );
}

#[test]
fn a_part_that_is_not_stored_fails_the_set_and_no_index_is_written() {
    let first = "> set k 1 9 25\\r\\nVALUE_OF_K
         a> set k:0:SUFFIX 1 9 10
         a> aaaaaaaaaa
         a> set k:1:SUFFIX 1 9 10
         a> bbbbbbbbbb\n";
    for after in [
        "a< SERVER_ERROR out of memory\nnothing\na< STORED\n< SERVER_ERROR out of memory\nnothing",
        "a!\n< SERVER_ERROR remote error\nnothing",
        "a< STORED\na> set k:2:SUFFIX 1 9 5\na> ccccc\nwait 1100\n< SERVER_ERROR Reply timeout\nnothing",
        "a< DELETED\na closed\n< SERVER_ERROR remote error\nnothing",
    ] {
        play_big(&format!("{first}{after}"));
    }
}

#[test]
fn a_part_that_no_server_takes_makes_the_clients_own_reply() {
    let route = big("").replace("PoolRoute|A", "NullRoute");
    play(
        &route,
        &format!("> ms k 25 T9 O7 q k\\r\\n{VALUE}\n< NS O7 kk\n> set k 0 0 25\\r\\n{VALUE}\n< NOT_STORED"),
    );
}

#[test]
fn a_long_value_is_read_in_parts() {
    play_big(
        "> get /././k
         a> get k
         a< VALUE k 32769 INDEX_LEN\\r\\nINDEX\\r\\nEND
         a> get k:0:SUFFIX
         a> get k:1:SUFFIX
         a< VALUE k:0:SUFFIX 1 10\\r\\naaaaaaaaaa\\r\\nEND
         a> get k:2:SUFFIX
         a< VALUE k:1:SUFFIX 1 10\\r\\nbbbbbbbbbb\\r\\nEND\\r\\nVALUE k:2:SUFFIX 1 5\\r\\nccccc\\r\\nEND
         < VALUE /././k 32769 25
         < VALUE_OF_K
         < END
         > gats 9 k
         a> gats 9 k
         a< VALUE k 32769 8 66\\r\\n1-1-4711\\r\\nEND
         a> gat 9 k:0:4711
         a< VALUE k:0:4711 1 20000\\r\\n{x*20000}\\r\\nEND
         < VALUE k 32769 20000 66
         < {x*20000}
         < END
         > mg a2V5 b v s k T9 O5
         a> mg a2V5 b v s k T9 O5 f
         a< VA 8 b s8 ka2V5 O5 f32769\\r\\n1-1-4711
         a> mg a2V5OjA6NDcxMQ== b v T9 O1
         a< VA 5 b O1\\r\\nabcde
         < VA 5 b s5 ka2V5 O5
         < abcde
         > get j k
         a> get j
         a> get k
         a< VALUE j 0 1\\r\\nx\\r\\nEND\\r\\nVALUE k 32768 5\\r\\n1-1-7\\r\\nEND
         a> get k:0:7
         a< VALUE k:0:7 0 2\\r\\nyy\\r\\nEND
         < VALUE j 0 1
         < x
         < VALUE k 32768 2
         < yy
         < END
         > delete k
         a> delete k
         a< DELETED
         < DELETED",
    );
}

#[test]
fn a_part_that_is_missing_makes_a_miss_and_one_that_fails_an_error() {
    let first = "> get k
         a> get k
         a< VALUE k 32769 INDEX_LEN\\r\\nINDEX\\r\\nEND
         a> get k:0:SUFFIX
         a> get k:1:SUFFIX\n";
    for after in [
        "a< END\nnothing\na< VALUE k:1:SUFFIX 1 1\\r\\nx\\r\\nEND\n< END\nnothing",
        "a< END\nnothing\na< SERVER_ERROR x\n< SERVER_ERROR x\nnothing",
        "a!\n< SERVER_ERROR remote error\nnothing",
        "wait 1100\n< SERVER_ERROR Reply timeout\na< END\\r\\nEND\nnothing",
        "a< VALUE k:1:SUFFIX 1 1\\r\\nx\\r\\nEND\na closed\n< SERVER_ERROR remote error\nnothing",
    ] {
        play_big(&format!("{first}{after}"));
    }
    play_big(
        "> mg k v q\\r\\nmn
         a> mg k v f O1
         a< VA 8 f32768 O1\\r\\n1-1-4711
         a> mg k:0:4711 v O2
         a< EN
         < MN",
    );
}

#[test]
fn an_index_that_anybody_may_have_written_asks_for_little() {
    for value in
        ["1-0-7", "1-10001-7", "1-65537-7", "2-1-7", "1-1-7 x", "1-1-99999999999999999999", "", "hello"]
    {
        let len = value.len();
        play(
            &big(""),
            &format!("> get k\na> get k\na< VALUE k 32768 {len}\\r\\n{value}\\r\\nEND\n< END\nnothing"),
        );
    }
    play(&big(""), "> get k\na> get k\na< VALUE k 32768 20000\\r\\n{1*20000}\\r\\nEND\n< END\nnothing");
    // As many parts as it may name, of which only the first are asked for.
    play(
        &big(""),
        "> get k
         a> get k
         a< VALUE k 32768 9\\r\\n1-10000-7\\r\\nEND
         a> get k:0:7
         a> get k:1:7
         a< END\\r\\nEND
         < END
         nothing",
    );
    // No key has room for such a part.
    play(
        &big(""),
        "> get {k*248}
         a> get {k*248}
         a< VALUE {k*248} 32768 5\\r\\n1-1-7\\r\\nEND
         < END
         nothing",
    );
}

#[test]
fn a_key_without_room_for_a_part_is_not_split() {
    play(
        &big(""),
        "> set {k*239} 0 0 11\\r\\naaaaaaaaaab
         a> set {k*239} 0 0 11
         a> aaaaaaaaaab
         a< STORED
         < STORED
         > append k 0 0 11\\r\\naaaaaaaaaab
         a> append k 0 0 11
         a> aaaaaaaaaab
         a< STORED
         < STORED",
    );
}

#[test]
fn the_mark_may_be_hidden() {
    play(
        &big(r#", "hide_reply_flag": true"#),
        "> get k
         a> get k
         a< VALUE k 32769 5\\r\\n1-1-7\\r\\nEND
         a> get k:0:7
         a< VALUE k:0:7 1 1\\r\\nx\\r\\nEND
         < VALUE k 1 1
         < x
         < END
         > mg k f v
         a> mg k f v O1
         a< VA 5 f32769 O1\\r\\n1-1-7
         a> mg k:0:7 v O2
         a< VA 0 O2\\r\\n
         < VA 0 f1
         <",
    );
}

#[test]
fn values_of_megabytes_pass_in_both_directions() {
    let route = big("").replace("\"split_threshold\": 10", "\"split_threshold\": 400000");
    let value = "v".repeat(1_000_000);
    let suffix = spooky32(value.as_bytes(), 400_000);
    let index = format!("1-3-{suffix}");
    let len = index.len();
    play(
        &route,
        &format!(
            "> set k 0 0 1000000\\r\\n{{v*1000000}}
             a> set k:0:{suffix} 0 0 400000
             a> {{v*400000}}
             a> set k:1:{suffix} 0 0 400000
             a> {{v*400000}}
             a< STORED\\r\\nSTORED
             a> set k:2:{suffix} 0 0 200000
             a> {{v*200000}}
             a< STORED
             a> set k 32768 0 {len}
             a> {index}
             a< STORED
             < STORED
             > get k
             a> get k
             a< VALUE k 32768 {len}\\r\\n{index}\\r\\nEND
             a> get k:0:{suffix}
             a> get k:1:{suffix}
             a< VALUE k:0:{suffix} 0 400000\\r\\n{{v*400000}}\\r\\nEND
             a> get k:2:{suffix}
             a< VALUE k:1:{suffix} 0 400000\\r\\n{{v*400000}}\\r\\nEND
             a< VALUE k:2:{suffix} 0 200000\\r\\n{{v*200000}}\\r\\nEND
             < VALUE k 32768 1000000
             < {{v*1000000}}
             < END"
        ),
    );
}

#[test]
fn values_that_are_put_together_are_bounded() {
    let mut conversation = Conversation::new(&big(""));
    conversation.worker().flights.assembled.limit(30 + 2 * PART_SIZE);
    let read = |len: usize, reply: &str| {
        format!(
            "> get k
             a> get k
             a< VALUE k 32768 5\\r\\n1-2-7\\r\\nEND
             a> get k:0:7
             a> get k:1:7
             a< VALUE k:0:7 0 20\\r\\n{{x*20}}\\r\\nEND
             a< VALUE k:1:7 0 {len}\\r\\n{{x*{len}}}\\r\\nEND
             {reply}\n"
        )
    };
    let too_much = read(11, "< SERVER_ERROR too many big values at a time");
    let enough = read(10, "< VALUE k 32768 30\n< {x*30}\n< END");
    conversation.play(&format!("{too_much}{enough}{too_much}{enough}"));
    conversation.end();
}

#[test]
fn a_client_that_leaves_and_another_plan_do_not_stop_a_set() {
    let mut conversation = Conversation::new(&big(""));
    let suffix = spooky32(VALUE.as_bytes(), 10);
    conversation.play(&format!(
        "> set k 1 9 25\\r\\n{VALUE}
         a> set k:0:{suffix} 1 9 10
         a> aaaaaaaaaa
         a> set k:1:{suffix} 1 9 10
         a> bbbbbbbbbb
         gone"
    ));
    conversation.replace(&config("\"PoolRoute|C\""));
    let index = index();
    let len = index.len();
    conversation.play(&format!(
        "a< STORED\\r\\nSTORED
         a> set k:2:{suffix} 1 9 5
         a> ccccc
         a< STORED
         a> set k 32769 9 {len}
         a> {index}
         a< STORED
         nothing"
    ));
    conversation.end();
}

#[test]
fn the_flag_puts_every_route_at_the_top_into_parts() {
    let options = CompileOptions {
        big_value: Some(BigValue { threshold: 10, batch: 10, hides_flag: false }),
        ..CompileOptions::default()
    };
    let config = r#"{"routes": {"/././": "NullRoute", "/a/b/": "ErrorRoute|x"}}"#;
    let plan = super::compiled(config, 1, &super::Places::new(), &options);
    for root in plan.roots.by_prefix.values() {
        let Node::Plain(PlainRoute::ByClass { children, .. }) = &plan.nodes[root.0 as usize] else {
            panic!("{root}")
        };
        let node = children[&crate::OperationClass::Get];
        assert!(matches!(plan.compound(node).kind, CompoundKind::BigValue(_)));
    }
}

#[test]
fn values_that_are_written_in_parts_are_bounded() {
    let mut conversation = Conversation::new(&big(""));
    conversation.worker().flights.assembled.limit(49);
    let suffix = spooky32(VALUE.as_bytes(), 10);
    conversation.play(&format!(
        "> set k 0 0 25 noreply\\r\\n{VALUE}
         a> set k:0:{suffix} 0 0 10
         a> aaaaaaaaaa
         a> set k:1:{suffix} 0 0 10
         a> bbbbbbbbbb
         > set l 0 0 25 noreply\\r\\n{VALUE}
         1> set m 0 0 25\\r\\n{VALUE}
         1< SERVER_ERROR too many big values at a time
         nothing
         a< STORED\\r\\nSERVER_ERROR out of memory
         a> set k:2:{suffix} 0 0 5
         a> ccccc
         a< STORED
         nothing
         1> set m 0 0 25\\r\\n{VALUE}
         a> set m:0:{suffix} 0 0 10
         a> aaaaaaaaaa
         a> set m:1:{suffix} 0 0 10
         a> bbbbbbbbbb
         a!
         1< SERVER_ERROR remote error"
    ));
    conversation.end();
}

#[test]
fn empty_parts_count_too() {
    let mut conversation = Conversation::new(&big(""));
    conversation.worker().flights.assembled.limit(10 * PART_SIZE);
    conversation.play(
        "> get k
         a> get k
         a< VALUE k 32768 9\\r\\n1-10000-7\\r\\nEND
         a> get k:0:7
         a> get k:1:7",
    );
    for part in 0..10 {
        conversation.play(&format!("a< VALUE k:{part}:7 0 0\\r\\n\\r\\nEND\na> get k:{}:7", part + 2));
    }
    conversation.play(
        "a< VALUE k:10:7 0 0\\r\\n\\r\\nEND
         nothing
         a< VALUE k:11:7 0 0\\r\\n\\r\\nEND
         < SERVER_ERROR too many big values at a time",
    );
    conversation.end();
}

/// The parts of a value of two, of which the first may be small, from server b.
fn read_from_b(first: usize, second: usize) -> String {
    format!(
        "b> get k
         b< VALUE k 32768 5\\r\\n1-2-9\\r\\nEND
         b> get k:0:9
         b> get k:1:9
         b< VALUE k:0:9 0 {first}\\r\\n{{a*{first}}}\\r\\nEND
         b< VALUE k:1:9 0 {second}\\r\\n{{b*{second}}}\\r\\nEND\n"
    )
}

#[test]
fn a_copy_of_a_value_in_parts_is_whole() {
    let big = |pool: &str, threshold: u32| {
        format!(
            r#"{{"type": "BigValueRoute", "target": {pool}, "split_threshold": {threshold}, "batch_size": 2}}"#
        )
    };
    let route =
        |warm: &str| config(&format!(r#"{{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": {warm}}}"#));
    for (first, second) in [(20_000, 20_000), (20_000, 5), (5, 20_000), (5, 5)] {
        let len = first + second;
        play(
            &route(&big("\"PoolRoute|B\"", 20_000)),
            &format!(
                "> get k
                 a> get k
                 a< END
                 {}< VALUE k 32768 {len}
                 < {{a*{first}}}{{b*{second}}}
                 < END
                 a> add k 32768 0 {len}
                 a> {{a*{first}}}{{b*{second}}}
                 a< STORED",
                read_from_b(first, second)
            ),
        );
    }
}

#[test]
fn a_value_in_parts_is_whole_under_the_cas_of_its_mark() {
    let route = r#"{"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "threshold": 10, "ttl_threshold": 0,
        "l2": {"type": "BigValueRoute", "target": "PoolRoute|B", "split_threshold": 20000, "batch_size": 2}}"#;
    play(
        &config(&route.replace('\n', " ")),
        &format!(
            "> gets k
             a> gets k
             a< VALUE k 32 0 7\\r\\n\\r\\nEND
             {}< VALUE k 32768 40000 7
             < {{a*20000}}{{b*20000}}
             < END",
            read_from_b(20_000, 20_000)
        ),
    );
}

#[test]
fn parts_that_were_written_with_another_threshold_have_other_keys() {
    let [ten, twelve] = [10, 12].map(|threshold| spooky32(VALUE.as_bytes(), threshold));
    let mut conversation = Conversation::new(&big(""));
    for (suffix, first) in [
        (ten, "a> set k:0:SUFFIX 0 0 10\na> aaaaaaaaaa"),
        (twelve, "a> set k:0:SUFFIX 0 0 12\na> aaaaaaaaaabb"),
    ] {
        conversation
            .play(&format!("> set k 0 0 25\\r\\n{VALUE}\n{}", first.replace("SUFFIX", &suffix.to_string())));
        conversation.reset(conversation.host("a"));
        conversation.world.handler::<super::End>(conversation.host("a")).received.clear();
        conversation.play("< SERVER_ERROR remote error");
        conversation.replace(&big("").replace("\"split_threshold\": 10", "\"split_threshold\": 12"));
    }
    assert_ne!(ten, twelve);
    conversation.end();
}
