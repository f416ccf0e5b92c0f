//! `flush_all`, `shutdown`, and what they may not do.

use super::*;

fn enabled(config: &str, script: &str) -> Conversation {
    let settings = Settings { flush_enabled: true, ..Settings::default() };
    let add = |world: &mut World, options: &Options| world.add(End::default(), &[PORT], options);
    let mut conversation = Conversation::with_all(config, 1, settings, add);
    conversation.play(script);
    conversation.end();
    conversation
}

#[test]
fn flush_all_reaches_all_servers_of_the_configuration_or_none() {
    play(
        THREE,
        "> flush_all
         < SERVER_ERROR Command disabled
         > flush_all noreply
         > mn
         < MN
         nothing",
    );
    let two = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}}, "route": {
        "type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    let mut conversation = enabled(
        two,
        "> flush_all
         > get abc
         a> flush_all
         a> get abc
         b> flush_all
         a< OK
         a< END
         b< OK
         < OK
         < END
         > flush_all 30 noreply
         a> flush_all 30
         b> flush_all 30
         a< OK
         b< OK
         > mn
         < MN
         > flush_all x
         < CLIENT_ERROR invalid exptime argument",
    );
    let stats = conversation.stats("all");
    assert_eq!((&*stats["cmd_flushall_count"], &*stats["proxy_reqs_processing"]), ("2", "0"));
}

#[test]
fn the_worst_reply_of_all_servers_answers_flush_all() {
    enabled(
        r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}}, "route": "PoolRoute|A"}"#,
        "> flush_all
         a> flush_all
         b> flush_all
         a< OK
         b< SERVER_ERROR not now
         < SERVER_ERROR not now
         > flush_all
         a> flush_all
         b> flush_all
         a< OK
         wait 1200
         < SERVER_ERROR Reply timeout
         > flush_all
         a> flush_all
         b> flush_all
         a< DELETED
         a closed
         b< OK
         b< OK
         < SERVER_ERROR remote error",
    );
    enabled(
        ONE,
        "> flush_all
         a> flush_all
         a< OK
         < OK",
    );
}

#[test]
fn shutdown_asks_the_process_to_stop_and_quit_does_not() {
    let mut conversation = play(
        ONE,
        "> quit
         closed",
    );
    assert!(!conversation.shared.is_asked_to_stop());
    conversation.play(
        "1> shutdown
         1 closed",
    );
    assert!(conversation.shared.is_asked_to_stop());
}

#[test]
fn shutdown_can_be_forbidden() {
    let settings = Settings { shutdown_enabled: false, ..Settings::default() };
    let add = |world: &mut World, options: &Options| world.add(End::default(), &[PORT], options);
    let mut conversation = Conversation::with_all(ONE, 1, settings, add);
    conversation.play(
        "> shutdown
         < SERVER_ERROR: shutdown not enabled
         > shutdown graceful
         < SERVER_ERROR: shutdown not enabled
         > mn
         < MN",
    );
    assert!(!conversation.shared.is_asked_to_stop());
    conversation.end();
}
