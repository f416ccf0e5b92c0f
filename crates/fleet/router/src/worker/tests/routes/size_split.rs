//! L1L2SizeSplitRoute: a is l1, b is l2. Values of 5 bytes and more are large.

use super::config;
use super::{Conversation, play};

fn split(fields: &str) -> String {
    config(&format!(
        r#"{{"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "threshold": 5{fields}}}"#
    ))
}

#[test]
fn a_large_value_goes_to_l2_and_its_mark_to_l1() {
    play(
        &split(""),
        "> set k 1 0 4\\r\\nabcd
         a> set k 1 0 4
         a> abcd
         a< STORED
         < STORED
         > set k 1 9 5\\r\\nabcde
         b> set k 1 9 5
         b> abcde
         nothing
         b< STORED
         a> set k 33 9 0
         a>
         a< STORED
         < STORED
         > set k 1 9 20000 noreply\\r\\n{x*20000}
         b> set k 1 9 20000
         b> {x*20000}
         b< STORED
         a> set k 33 9 0
         a>
         a< STORED
         > ms k 5 T9 F4 O7 k\\r\\nabcde
         b> ms k 5 T9 F4 O7 k
         b> abcde
         b< HD O7 kk
         a> ms k 0 F36 T9 O7 k
         a>
         a< HD O7 kk
         < HD O7 kk
         > ms a2V5 5 b q\\r\\nabcde\\r\\nmn
         b> ms a2V5 5 b O1
         b> abcde
         b< HD O1
         a> ms a2V5 0 F32 b O1
         a>
         a< HD O1
         < MN",
    );
}

#[test]
fn a_set_that_fails_in_either_cache_fails() {
    let set = "> set k 1 9 5\\r\\nabcde\nb> set k 1 9 5\nb> abcde\n";
    play(&split(""), &format!("{set}b< SERVER_ERROR x\n< SERVER_ERROR x\nnothing"));
    play(&split(""), &format!("{set}b!\n< SERVER_ERROR remote error\nnothing"));
    play(&split(""), &format!("{set}b< STORED\na> set k 33 9 0\na>\na!\n< SERVER_ERROR remote error"));
    play(
        &split(""),
        &format!("{set}b< STORED\na> set k 33 9 0\na>\nwait 1100\n< SERVER_ERROR Reply timeout"),
    );
}

#[test]
fn some_large_values_stay_in_l1() {
    let at_l1 = |request: &str, body: &str| {
        format!("> {request}\\r\\n{body}\na> {request}\na> {body}\na< STORED\n< STORED\n")
    };
    play(&split(r#", "ttl_threshold": 60"#), &at_l1("set k 0 59 5", "abcde"));
    play(&split(""), &at_l1("set {k*232} 0 0 5", "abcde"));
    for request in ["add k 0 0 5", "replace k 0 0 5", "append k 0 0 5", "cas k 0 0 5 9"] {
        play(&split(""), &at_l1(request, "abcde"));
    }
    play(&split("").replace("\"threshold\": 5", "\"threshold\": 0"), &at_l1("set k 0 0 5", "abcde"));
    play(
        &split(""),
        "> delete k\na> delete k\na< DELETED\n< DELETED\n> ms k 5 C9\\r\\nabcde\na> ms k 5 C9 O1\na> abcde\na< HD O1\n< HD",
    );
}

#[test]
fn both_caches_may_get_the_whole_value() {
    play(
        &split(r#", "both_full_set": true"#),
        "> set k 1 9 20000\\r\\n{x*20000}
         a> set k 1 9 20000
         a> {x*20000}
         a< STORED
         < STORED
         b> set k 1 9 20000
         b> {x*20000}
         b!
         > set k 1 9 5\\r\\nabcde
         a> set k 1 9 5
         a> abcde
         a< NOT_STORED
         < NOT_STORED
         nothing",
    );
}

#[test]
fn a_mark_leads_to_the_value() {
    play(
        &split(""),
        "> get k
         a> get k
         a< VALUE k 1 4\\r\\nabcd\\r\\nEND
         < VALUE k 1 4
         < abcd
         < END
         > get /././k
         a> get k
         a< VALUE k 33 0\\r\\n\\r\\nEND
         b> get k
         b< VALUE k 1 20000\\r\\n{x*20000}\\r\\nEND
         < VALUE /././k 1 20000
         < {x*20000}
         < END
         > gets k
         a> gets k
         a< VALUE k 33 0 77\\r\\n\\r\\nEND
         b> get k
         b< VALUE k 1 20000\\r\\n{x*20000}\\r\\nEND
         < VALUE k 1 20000 77
         < {x*20000}
         < END
         > gats 9 k
         a> gats 9 k
         a< VALUE k 33 0 77\\r\\n\\r\\nEND
         b> gat 9 k
         b< VALUE k 1 5\\r\\nabcde\\r\\nEND
         < VALUE k 1 5 77
         < abcde
         < END
         > mg k v c k O5
         a> mg k v c k O5 f
         a< VA 0 c77 kk O5 f33\\r\\n
         b> mg k v c k O5
         b< VA 5 c3 kk O5\\r\\nabcde
         < VA 5 c77 kk O5
         < abcde
         > mg k v
         a> mg k v f O1
         a< VA 4 f1 O1\\r\\nabcd
         < VA 4
         < abcd
         > mg k s
         a> mg k s f O2
         a< HD s0 f33 O2
         b> mg k s O1
         b< HD s5 O1
         < HD s5
         > get j k
         a> get j
         a> get k
         a< VALUE j 33 0\\r\\n\\r\\nEND\\r\\nVALUE k 0 1\\r\\nx\\r\\nEND
         b> get j
         b< VALUE j 0 5\\r\\nabcde\\r\\nEND
         < VALUE j 0 5
         < abcde
         < VALUE k 0 1
         < x
         < END",
    );
}

#[test]
fn a_mark_may_have_the_number_of_its_value() {
    play(
        &split(""),
        "> get k
         a> get k
         a< VALUE k 33 3\\r\\n987\\r\\nEND
         b> get k|==|987
         b< VALUE k|==|987 1 5\\r\\nabcde\\r\\nEND
         < VALUE k 1 5
         < abcde
         < END
         > get k
         a> get k
         a< VALUE k 33 3\\r\\n987\\r\\nEND
         b> get k|==|987
         b< END
         < END
         a> gets k
         a< VALUE k 33 3 55\\r\\n987\\r\\nEND
         a> cas k 0 -1 0 55
         a>
         a< STORED
         > mg a2V5 b v
         a> mg a2V5 b v f O1
         a< VA 3 b f33 O1\\r\\n987
         b> mg a2V5fD09fDk4Nw== b v O1
         b< EN
         < EN b
         a> mg a2V5 b v f c O2
         a< VA 3 b f33 c8 O2\\r\\n988
         nothing",
    );
}

#[test]
fn a_mark_without_its_value_is_a_miss_and_forgotten_if_nobody_has_changed_it() {
    play(
        &split(""),
        "> get k
         a> get k
         a< VALUE k 33 0\\r\\n\\r\\nEND
         b> get k
         b< END
         < END
         nothing
         > gets k
         a> gets k
         a< VALUE k 33 0 77\\r\\n\\r\\nEND
         b> get k
         b< END
         < END
         a> cas k 0 -1 0 77
         a>
         a< EXISTS
         > mg k v c q\\r\\nmn
         a> mg k v c f O1
         a< VA 0 c77 f32 O1\\r\\n
         b> mg k v c O1
         b< EN
         < MN
         a> ms k 0 C77 T-1 O2
         a>
         a!
         > get k
         a> get k
         a< VALUE k 33 0\\r\\n\\r\\nEND
         b> get k
         b!
         < SERVER_ERROR remote error
         > get k
         a> get k
         a!
         < SERVER_ERROR remote error",
    );
}

#[test]
fn a_value_that_only_looks_like_a_mark_is_a_value_and_no_part_of_a_key() {
    for value in ["x 0 0 1", "0987", "-1", "+1", "99999999999999999999", "a\\r\\nflush_all"] {
        let len = value.replace("\\r\\n", "..").len();
        let lines: String = value.split("\\r\\n").map(|line| format!("< {line}\n")).collect();
        play(
            &split(""),
            &format!(
                "> get k\na> get k\na< VALUE k 32 {len}\\r\\n{value}\\r\\nEND\n< VALUE k 32 {len}\n{lines}< END\nnothing"
            ),
        );
    }
    play(
        &split(""),
        "> get k
         a> get k
         a< VALUE k 32 20000\\r\\n{1*20000}\\r\\nEND
         < VALUE k 32 20000
         < {1*20000}
         < END",
    );
}

#[test]
fn a_client_that_leaves_and_another_plan_leave_no_value_without_its_mark() {
    let mut conversation = Conversation::new(&split(""));
    conversation.play("> set k 1 9 20000\\r\\n{x*20000}\nb> set k 1 9 20000\nb> {x*20000}\ngone");
    conversation.replace(&config("\"PoolRoute|C\""));
    conversation.play("b< STORED\na> set k 33 9 0\na>\na< STORED\nnothing");
    conversation.end();
}
