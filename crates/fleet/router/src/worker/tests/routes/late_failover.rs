//! Gets that have no flight until their normal server fails.

use super::config;
use super::{Conversation, play};

const FAILOVER: &str =
    r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]}"#;

fn failover() -> String {
    config(FAILOVER)
}

#[test]
fn a_get_has_no_flight_before_it_fails() {
    let mut conversation = Conversation::new(&failover());
    conversation.play("> get k\na> get k\n1> gets j k\na> gets j k");
    assert_eq!(conversation.worker().flights.len(), 0);
    conversation.play("a<| SERVER_ERROR x\\r\\nSERVER_ERROR x\\r\\n\nb> get k\nb> gets j\nb> gets k");
    assert_eq!(conversation.worker().flights.len(), 6, "frames and requests");
    conversation.play(
        "b<| SERVER_ERROR x\\r\\nVALUE j 0 1 7\\r\\nx\\r\\nEND\\r\\nEND\\r\\n
         1< VALUE j 0 1 7
         1< x
         1< END
         c> get k
         c< SERVER_ERROR y
         < SERVER_ERROR y",
    );
    conversation.end();
}

#[test]
fn it_fails_over_after_a_timeout_a_reset_and_no_connection() {
    for failure in ["wait 1100", "a!"] {
        play(
            &failover(),
            &format!(
                "> get j\\r\\nget k l\na> get j\na> get k l\n{failure}\nb> get j\nb> get k\nb> get l
            b<| END\\r\\nVALUE k 0 1\\r\\nx\\r\\nEND\\r\\nEND\\r\\n\n< END\n< VALUE k 0 1\n< x\n< END"
            ),
        );
    }
    let mut conversation = Conversation::new(&failover());
    conversation.stop("a");
    conversation.play(
        "> get j\nb> get j\nb< END\n< END\n> get k l\nb> get k\nb> get l\nb<| END\\r\\nEND\\r\\n\n< END",
    );
    conversation.end();
}

#[test]
fn an_unavailable_server_is_passed_over_at_once() {
    let failed = "> get k\na> get k\na!\nb> get k\nb< END\n< END\n".repeat(3);
    let mut conversation = Conversation::new(&failover());
    conversation.play(&failed);
    conversation.stop("a");
    conversation.play(
        "> get k
         b> get k
         b< END
         < END
         > get k
         b> get k
         b< END
         < END
         > get j k
         b> get j
         b> get k
         b< END
         b< END
         < END",
    );
    conversation.end();
}

#[test]
fn the_prefix_of_a_key_comes_back_after_a_failover() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"], "keep_routing_prefix": true}},
        "routes": {"/x/y/": {"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}, "/././": "PoolRoute|A"}}"#;
    play(
        &config.replace('\n', " "),
        "> get /x/y/k
         a> get k
         a!
         b> get /x/y/k
         b< VALUE /x/y/k 0 1\\r\\nx\\r\\nEND
         < VALUE /x/y/k 0 1
         < x
         < END
         > get /x/y/j k /x/y/l
         a> get k
         a> get j l
         a<| END\\r\\nSERVER_ERROR x\\r\\n
         b> get /x/y/j
         b> get /x/y/l
         b< VALUE /x/y/j 0 1\\r\\ny\\r\\nEND
         b< END
         < VALUE /x/y/j 0 1
         < y
         < END",
    );
}

#[test]
fn it_ends_on_the_plan_that_it_began_with() {
    let other = config(r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|C"]}"#);
    let mut conversation = Conversation::new(&failover());
    conversation.play("> get k\na> get k\n1> get j l\na> get j l");
    for plan in [&other, &config(r#""NullRoute""#), &other] {
        conversation.replace(plan);
        conversation.world.run_for(200_000);
    }
    conversation.play("2> get k\na> get k\na!\nb> get k\nb> get j\nb> get l\nc> get k");
    conversation.play("b<| END\\r\\nEND\\r\\nEND\\r\\n\nc< END\n< END\n1< END\n2< END");
    conversation.world.run_for(5_000_000);
    assert!(conversation.worker().plans.len_earlier() == (0, 0));
    conversation.end();
}

#[test]
fn gets_of_a_client_that_is_gone_are_not_sent_again() {
    play(&failover(), "> get j\na> get j\n1> get k\na> get k\ngone\na!\nb> get k\nb< END\n1< END\nnothing");
}

#[test]
fn replies_that_a_list_of_errors_names_are_final_or_not() {
    let with = |errors: &str| {
        let route = FAILOVER.replace("\"type\"", &format!("\"failover_errors\": {errors}, \"type\""));
        config(&route)
    };
    play(&with(r#"{"gets": ["timeout"]}"#), "> get k\na> get k\na!\n< SERVER_ERROR remote error");
    play(&with(r#"{"gets": ["timeout"]}"#), "> get k\na> get k\nwait 1100\nb> get k\nb< END\n< END");
}
