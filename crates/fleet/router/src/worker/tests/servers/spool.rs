//! Deletes that fail, and the log that takes them.

use std::sync::Arc;
use std::time::Duration;

use super::Conversation;
use crate::servers::spool::{SpoolFormat, SpoolQueue, WaitingDelete, write_record};
use crate::shared::Settings;

const POOL: &str = r#"{"pools": {"A": {"servers": ["a:1"]}}, "route": "PoolRoute|A"}"#;

struct Logged {
    conversation: Conversation,
    queue: Arc<SpoolQueue>,
}

impl Logged {
    fn new(config: &str) -> Logged {
        let queue = Arc::new(SpoolQueue::default());
        let settings = Settings { spool: Some(Arc::clone(&queue)), ..Settings::default() };
        Logged { conversation: Conversation::with_settings(config, settings), queue }
    }

    fn play(&mut self, script: &str) {
        self.conversation.play(script);
    }

    /// The deletes that wait, as the lines of a file.
    #[track_caller]
    fn take(&mut self, expected: &[&str]) -> Vec<WaitingDelete> {
        let deletes = self.queue.take(Duration::ZERO);
        let line = |delete: &WaitingDelete| {
            let mut line = Vec::new();
            write_record(&mut line, &delete.record(), 0, &SpoolFormat::One);
            String::from_utf8(line).expect("ASCII")
        };
        let content = |line: String| line.trim_end().replace(r#"["AS1.0",0.000,"C","#, "");
        let found: Vec<String> = deletes.iter().map(|delete| content(line(delete))).collect();
        assert_eq!(found, expected);
        deletes
    }

    fn report(&mut self, deletes: &[WaitingDelete], is_written: bool) {
        self.queue.report(deletes, is_written);
        self.conversation.settle(self.conversation.router);
    }
}

#[test]
fn a_delete_that_fails_is_answered_once_it_is_in_the_log() {
    let mut logged = Logged::new(POOL);
    logged.play("> delete k\na> delete k\na!\nnothing");
    let deletes = logged.take(&[r#"["a",1,"delete k\r\n"]]"#]);
    logged.report(&deletes, true);
    logged.play("< NOT_FOUND");
    // One that could not be written has its error.
    logged.play("> delete k\na> delete k\na!\nnothing");
    let deletes = logged.take(&[r#"["a",1,"delete k\r\n"]]"#]);
    logged.report(&deletes, false);
    logged.play("< SERVER_ERROR remote error\n> delete k\na> delete k\na< DELETED\n< DELETED");
    logged.take(&[]);
    logged.conversation.end();
}

#[test]
fn deletes_for_an_unavailable_server_and_late_ones_are_logged() {
    let mut logged = Logged::new(POOL);
    logged.play("> delete slow\na> delete slow\nwait 1001");
    let deletes = logged.take(&[r#"["a",1,"delete slow\r\n"]]"#]);
    logged.report(&deletes, true);
    logged.play("< NOT_FOUND\na< DELETED\na!\na down\n> delete k\nwait 1100");
    let deletes = logged.take(&[r#"["a",1,"delete k\r\n"]]"#]);
    logged.report(&deletes, true);
    // The server is unavailable by now: nothing is sent.
    logged.play("< NOT_FOUND\n> delete l");
    let deletes = logged.take(&[r#"["a",1,"delete l\r\n"]]"#]);
    logged.report(&deletes, true);
    logged.play("< NOT_FOUND");
}

#[test]
fn a_log_that_hangs_keeps_nobody_waiting_for_long() {
    let mut logged = Logged::new(POOL);
    logged.play("> delete k\na> delete k\na!\nwait 900\nnothing\nwait 200\n< SERVER_ERROR remote error");
    let deletes = logged.take(&[r#"["a",1,"delete k\r\n"]]"#]);
    logged.report(&deletes, true);
    logged.play("> get k\na> get k\na< END\n< END");
    logged.conversation.end();
}

#[test]
fn only_what_a_log_can_repeat_goes_there() {
    let mut logged = Logged::new(POOL);
    logged.play("> set k 0 0 1\\r\\nx\na> set k 0 0 1\na> x\na!\n< SERVER_ERROR remote error");
    logged.play("> md k I T30\na> md k I T30 O1\na!\n< SERVER_ERROR remote error");
    logged.play("> md k q O7\na> md k O7\na!\nnothing\n> mn");
    let deletes = logged.take(&[r#"["a",1,"delete k\r\n"]]"#]);
    logged.report(&deletes, true);
    logged.play("< NF O7\n< MN");
}

#[test]
fn pools_have_logs_of_their_own_and_some_have_none() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}}, "route": {"type": "AllSyncRoute",
        "children": [{"type": "PoolRoute", "pool": "A", "asynclog": false}, {"type": "PoolRoute", "pool": "B", "asynclog_name": "x"}]}}"#;
    let mut logged = Logged::new(config);
    logged.play("> delete k\na> delete k\nb> delete k\nb!\na< DELETED\nnothing");
    let deletes = logged.take(&[r#"["b",1,"delete k\r\n"]]"#]);
    assert_eq!(deletes[0].record().pool, "x");
    logged.report(&deletes, true);
    logged.play(
        "< NOT_FOUND\n> delete k\na> delete k\nb> delete k\na!\nb< DELETED\n< SERVER_ERROR remote error",
    );
    logged.take(&[]);
    logged.conversation.end();
}

#[test]
fn a_log_with_too_many_deletes_takes_no_more() {
    let mut logged = Logged::new(POOL);
    logged.play("a down");
    let mut count = 0;
    for _ in 0..12 {
        logged.play(&format!("1> {}", "delete k\\r\\n".repeat(1000).trim_end_matches("\\r\\n")));
        logged.play("wait 1100");
        count += 1000;
    }
    let waiting = logged.queue.take(Duration::ZERO).len();
    assert!(count == 12_000 && waiting == crate::servers::spool::WAITING_MAX, "{waiting}");
}

#[test]
fn a_log_takes_the_deletes_of_a_pattern_that_fail_elsewhere() {
    let config = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]},
            "C": {"servers": ["c:1"], "keep_routing_prefix": true}},
        "routes": {"/././": "PoolRoute|A", "/x/one/": "PoolRoute|B", "/y/one/": "PoolRoute|C"}}"#;
    let mut logged = Logged::new(config);
    logged.play(
        "> delete /*/o*/k
         b> delete k
         c> delete /*/o*/k
         b< DELETED
         < DELETED
         c!",
    );
    logged.take(&[r#"["c",1,"delete /*/o*/k\r\n"]]"#]);
}
