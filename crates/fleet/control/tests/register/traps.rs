//! Traps of etcd's gateway that a real etcd falls into only by chance: a scripted one does it on request.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control::register::{
    EtcdLimits, EtcdUser, LeaseAnswer, LeaseId, Register, RegisterEvent, Revision, Transaction,
    TransactionOutcome, WatchStep,
};
use os::clock::Stopwatch;

use crate::register::scripted::{Act, ScriptedEtcd};
use crate::register::{PATIENCE, check_failure, create, key, prefix};

fn code(text: &str) -> String {
    STANDARD.encode(text)
}

fn say(body: &str) -> Act {
    Act::Say(body.to_owned())
}

fn header(revision: u64) -> String {
    format!(r#""header":{{"revision":"{revision}"}}"#)
}

/// A key as an answer has it.
fn kv(key: &str, value: &str, revision: u64) -> String {
    let (key, value) = (code(key), code(value));
    format!(
        r#"{{"key":"{key}","value":"{value}","create_revision":"{revision}","mod_revision":"{revision}"}}"#
    )
}

fn range(revision: u64, kvs: &[String], more: bool, count: usize) -> Act {
    let more = if more { r#","more":true"# } else { "" };
    say(&format!(r#"{{{},"kvs":[{}],"count":"{count}"{more}}}"#, header(revision), kvs.join(",")))
}

/// The answer to a transaction that only reads.
fn reads(revision: u64, kvs: &[Option<String>]) -> Act {
    let one = |kv: &Option<String>| match kv {
        Some(kv) => format!(r#"{{"response_range":{{"kvs":[{kv}],"count":"1"}}}}"#),
        None => r#"{"response_range":{}}"#.to_owned(),
    };
    let responses: Vec<String> = kvs.iter().map(one).collect();
    say(&format!(r#"{{{},"succeeded":true,"responses":[{}]}}"#, header(revision), responses.join(",")))
}

fn written(revision: u64) -> Act {
    say(&format!(r#"{{{},"succeeded":true,"responses":[{{"response_put":{{}}}}]}}"#, header(revision)))
}

fn conflict(revision: u64, found: u64) -> Act {
    let found = kv("/a", "", found);
    say(&format!(r#"{{{},"responses":[{{"response_range":{{"kvs":[{found}]}}}}]}}"#, header(revision)))
}

/// A write that can happen only once.
fn update() -> Transaction {
    Transaction::if_revision(key("/a"), Revision(5)).put(key("/a"), "mine")
}

/// How a write ends: a text of the outcome, and the members that were asked.
#[track_caller]
fn check_write(transaction: &Transaction, script: Vec<(&str, Act)>, expected: &str, members: &[usize]) {
    let etcd = ScriptedEtcd::start(3, script);
    let answer = match etcd.impatient().put_if(transaction) {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => format!("{error}"),
    };
    assert!(answer.contains(expected), "{answer}");
    assert_eq!(etcd.finish().iter().map(|came| came.member).collect::<Vec<_>>(), members);
}

/// The two reads of a look that finds `/a` like this.
fn look(found: Option<(&str, u64)>) -> [(&'static str, Act); 2] {
    let found = found.map(|(value, revision)| kv("/a", value, revision));
    [("txn", reads(9, std::slice::from_ref(&found))), ("txn", reads(9, std::slice::from_ref(&found)))]
}

#[test]
fn a_write_without_an_answer_is_settled_by_a_look_at_its_key() {
    let hang = || vec![("txn", Act::Hang)];
    // It has happened, or somebody else has written the same.
    let unknown = "learn whether a write to /a was carried out: /a was changed meanwhile";
    check_write(&update(), [hang(), look(Some(("mine", 7))).into()].concat(), unknown, &[0, 1, 1]);
    // It has not: once more.
    let again = [hang(), look(Some(("old", 5))).into(), vec![("txn", written(10))]].concat();
    check_write(&update(), again, "Committed(Revision(10))", &[0, 1, 1, 1]);
    // It happens just behind the look.
    let behind = [
        hang(),
        look(Some(("old", 5))).into(),
        vec![("txn", conflict(10, 10))],
        look(Some(("mine", 10))).into(),
    ];
    check_write(&update(), behind.concat(), unknown, &[0, 1, 1, 1, 1, 1]);
    // Somebody's value is there: ours may have been there before it.
    check_write(&update(), [hang(), look(Some(("other", 8))).into()].concat(), unknown, &[0, 1, 1]);
}

#[test]
fn what_a_create_without_an_answer_did_is_not_known_and_it_is_sent_once() {
    let hang = || vec![("txn", Act::Hang)];
    // Never created, or created and deleted since, or created later: a second one could be its second time.
    let unknown = "/v3/kv/txn: no answer within 1s; it is absent, or was deleted since";
    check_write(&create("/a", "mine"), [hang(), look(None).into()].concat(), unknown, &[0, 1, 1]);
    // Ours, or the same bytes of somebody else.
    let unknown = "learn whether a write to /a was carried out: /a was changed meanwhile";
    check_write(
        &create("/a", "mine"),
        [hang(), look(Some(("mine", 7))).into()].concat(),
        unknown,
        &[0, 1, 1],
    );
    // A member that was not reached has not taken it.
    let nobody = [("txn", Act::Fail(404, "no page".to_owned())), ("txn", written(7))];
    check_write(&create("/a", "mine"), nobody.into(), "Committed(Revision(7))", &[0, 1]);
}

#[test]
fn a_write_whose_leader_was_lost_is_settled_the_same_way() {
    let complaint = |status: i64, why: &str| {
        Act::Fail(503, format!(r#"{{"error":"{why}","message":"{why}","code":{status}}}"#))
    };
    for act in [
        complaint(1, "context canceled"),
        complaint(2, "raft proposal dropped"),
        complaint(4, "context deadline exceeded"),
        complaint(8, "etcdserver: mvcc: database space exceeded"),
        complaint(14, "etcdserver: request timed out"),
        complaint(14, "etcdserver: leader changed"),
        say(r#"{"error":{"grpc_code":2,"http_code":500,"message":"stream error"}}"#),
        Act::Fail(500, r#"{"error":"a message without a status"}"#.to_owned()),
        // Cut in the middle, a 502 of something between, and its page in the place of the answer.
        Act::StreamCut(vec![r#"{"header":"#.to_owned()]),
        Act::Fail(502, "<html>".to_owned()),
        say("<html>"),
    ] {
        let lost = || vec![("txn", act.clone())];
        let changed = "learn whether a write to /a was carried out: /a was changed meanwhile";
        check_write(&update(), [lost(), look(Some(("mine", 7))).into()].concat(), changed, &[0, 1, 1]);
        let again = [lost(), look(Some(("old", 5))).into(), vec![("txn", written(10))]].concat();
        check_write(&update(), again, "Committed(Revision(10))", &[0, 1, 1, 1]);
    }
}

#[test]
fn a_write_with_a_clear_answer_is_made_once() {
    let create = create("/a", "mine");
    check_write(&create, vec![("txn", written(7))], "Committed(Revision(7))", &[0]);
    check_write(&create, vec![("txn", conflict(9, 5))], "Conflict", &[0]);
    let lease = r#"{"error":"x","message":"etcdserver: requested lease not found","code":5}"#;
    check_write(&create, vec![("txn", Act::Fail(404, lease.to_owned()))], "LeaseLost", &[0]);
    for (code, why) in [
        (3, "etcdserver: user name is empty"),
        (7, "permission denied"),
        (9, "a state"),
        (12, "unknown call"),
    ] {
        let refusal = format!(r#"{{"error":"x","message":"{why}","code":{code}}}"#);
        let expected = "accepted by the register: http://127.0.0.1:";
        check_write(&create, vec![("txn", Act::Fail(400, refusal))], expected, &[0]);
    }
    // It has an answer, but not one that says what happened.
    check_write(&create, vec![("txn", say("{}"))], "learn whether a write to /a was carried out", &[0]);
}

/// An answer of something that has the port of a member, and what is said of it.
fn pages() -> [(Act, &'static str); 5] {
    let page = "<html><body>It works!</body></html>";
    // Longer than any answer without keys.
    let long = format!("<html>{}", "x".repeat(200 << 10));
    [
        (say(page), r#"says 200 OK and "<html><body>It works!"#),
        (say(&long), r#"says 200 OK and "<html>xxx"#),
        (say(""), "says 200 OK and nothing"),
        (Act::Fail(404, page.to_owned()), r#"says 404 Not Found and "<html><body>It works!"#),
        (Act::Fail(302, String::new()), "says 302 Found and nothing"),
    ]
}

#[test]
fn a_member_that_is_no_etcd_is_passed_over() {
    for (act, _) in pages() {
        let script = vec![
            ("range", act.clone()),
            ("range", range(9, &[], false, 0)),
            ("range", range(9, &[], false, 0)),
        ];
        let etcd = ScriptedEtcd::start(2, script);
        let register = etcd.patient();
        assert_eq!(register.get(&key("/a")).expect("an answer"), None);
        assert_eq!(register.get(&key("/a")).expect("an answer"), None);
        // The one that has answered stays the first.
        assert_eq!(etcd.finish().iter().map(|came| came.member).collect::<Vec<_>>(), [0, 1, 1]);
        check_watch(
            vec![
                ("watch", act),
                ("watch", Act::StreamOpen(vec![created(1), events(2, &[put("/f/a", 2)], false)])),
            ],
            patient(),
            &[("/f/a", 2)],
            &[(0, "1"), (1, "1")],
        );
    }
}

#[test]
fn what_was_found_in_the_place_of_each_member_is_told() {
    let limits = EtcdLimits { operation: Duration::from_millis(50), ..patient() };
    for (act, expected) in pages() {
        let many = |path| (0..9).map(|_| (path, act.clone())).collect();
        let etcd = ScriptedEtcd::start(1, many("range"));
        check_failure(etcd.register(limits).get(&key("/a")), expected);
        let etcd = ScriptedEtcd::start(1, many("keepalive"));
        check_failure(etcd.register(limits).keep_alive(LeaseId(7)), "is it the client port of an etcd?");
        let etcd = ScriptedEtcd::start(1, many("watch"));
        check_failure(etcd.register(limits).watch(&prefix("/"), Revision::FIRST).next(PATIENCE), "watch");
    }
    let unwell = r#"{"error":"x","message":"etcdserver: no leader","code":14}"#;
    let both = || [("range", say("<html>")), ("range", Act::Fail(503, unwell.to_owned()))];
    let etcd = ScriptedEtcd::start(2, (0..40).flat_map(|_| both()).collect());
    let limits = EtcdLimits { operation: Duration::from_secs(2), ..patient() };
    let said = etcd.register(limits).get(&key("/a")).expect_err("no etcd").to_string();
    assert!(said.contains(r#"says 200 OK and "<html>""#) && said.contains("no leader"), "{said}");
}

#[test]
fn a_delete_without_an_answer_is_never_taken_for_ours() {
    let etcd = ScriptedEtcd::start(
        2,
        vec![("txn", Act::Hang), ("txn", reads(9, &[None])), ("txn", reads(9, &[None]))],
    );
    let token = Transaction::if_revision(key("/token"), Revision(5)).delete(key("/token"));
    check_failure(etcd.impatient().put_if(&token), "learn whether a write to /token was carried out");
    etcd.finish();
}

#[test]
fn a_call_ends_in_its_time_when_no_member_says_anything() {
    let hang = |path| (0..40).map(|_| (path, Act::Hang)).collect();
    let limits = EtcdLimits {
        attempt: Duration::from_millis(50),
        operation: Duration::from_millis(300),
        range: Duration::from_millis(300),
        ..EtcdLimits::default()
    };
    let passed = Stopwatch::start();
    let etcd = ScriptedEtcd::start(3, hang("range"));
    check_failure(etcd.register(limits).get(&key("/a")), "no answer within 50ms");
    let etcd = ScriptedEtcd::start(3, hang("txn"));
    check_failure(
        etcd.register(limits).put_if(&create("/a", "")),
        "learn whether a write to /a was carried out",
    );
    let etcd = ScriptedEtcd::start(3, hang("watch"));
    let mut watch = etcd.register(limits).watch(&prefix("/"), Revision::FIRST);
    check_failure(watch.next(Duration::ZERO), "reach the register");
    // An answer that begins and does not go on.
    let etcd = ScriptedEtcd::start(
        3,
        (0..40).map(|_| ("range", Act::StreamOpen(vec![r#"{"header":"#.to_owned()]))).collect(),
    );
    check_failure(etcd.register(limits).range(&prefix("/")), "does not go on");
    assert!(passed.passed() < PATIENCE, "{:?}", passed.passed());
}

#[track_caller]
fn check_range(script: Vec<(&str, Act)>, expected: Result<&[&str], &str>) {
    let etcd = ScriptedEtcd::start(1, script);
    match (etcd.patient().range(&prefix("/f/")), expected) {
        (Ok(range), Ok(expected)) => {
            let keys: Vec<&str> = range.entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(keys, expected);
        }
        (answer, Err(expected)) => check_failure(answer, expected),
        (answer, Ok(expected)) => panic!("{answer:?}, expected: {expected:?}"),
    }
    etcd.finish();
}

#[test]
fn a_range_is_never_believed_in_part() {
    let [a, b, c] = ["/f/a", "/f/b", "/f/c"].map(|key| kv(key, "", 3));
    let one = |kv: &String, more| range(9, std::slice::from_ref(kv), more, 2);
    check_range(vec![("range", one(&a, true)), ("range", one(&b, false))], Ok(&["/f/a", "/f/b"]));
    // Cut off without a word, and with a word that nothing follows.
    check_range(vec![("range", one(&a, false))], Err("has 1 keys, and counts 2"));
    check_range(vec![("range", range(9, &[], true, 2))], Err("says that there are more keys, and has none"));
    // The same part again, and a key from elsewhere.
    check_range(vec![("range", one(&a, true)), ("range", one(&a, false))], Err("keys out of order"));
    let elsewhere = kv("/g/a", "", 3);
    check_range(vec![("range", one(&elsewhere, false))], Err("of another range"));
    // Compacted between the parts: from the beginning.
    let compacted =
        r#"{"error":"x","message":"etcdserver: mvcc: required revision has been compacted","code":11}"#;
    check_range(
        vec![
            ("range", one(&a, true)),
            ("range", Act::Fail(400, compacted.to_owned())),
            ("range", range(20, &[b, c], false, 2)),
        ],
        Ok(&["/f/b", "/f/c"]),
    );
    for nothing in ["{}", r#"{"header":{}}"#, r#"{"kvs":[]}"#] {
        check_range(vec![("range", say(nothing))], Err("etcd's answer to a range"));
    }
}

#[test]
fn the_parts_of_a_range_are_read_at_one_revision() {
    let [a, b] = ["/f/a", "/f/b"].map(|key| vec![kv(key, "", 3)]);
    let etcd =
        ScriptedEtcd::start(1, vec![("range", range(9, &a, true, 2)), ("range", range(11, &b, false, 2))]);
    let answer = etcd.patient().range(&prefix("/f/")).expect("a range");
    assert_eq!(answer.revision, Revision(9), "to watch from");
    let came = etcd.finish();
    assert_eq!(came[0].body.get("revision"), None);
    assert_eq!(came[1].body["revision"], 9);
    assert_eq!(came[1].body["key"], code("/f/a\0"));
}

#[test]
fn an_answer_above_its_limit_is_an_error() {
    let limits =
        EtcdLimits { attempt: PATIENCE, operation: PATIENCE, answer_len: 1000, ..EtcdLimits::default() };
    let long = kv("/a", &"v".repeat(1000), 3);
    let etcd = ScriptedEtcd::start(1, vec![("range", range(9, &[long], false, 1))]);
    check_failure(etcd.register(limits).get(&key("/a")), "longer than any that was asked for");
    etcd.finish();
    // A message of a stream that never ends.
    let endless = vec![created(1), "x".repeat(2000)];
    let etcd = ScriptedEtcd::start(1, vec![("watch", Act::StreamOpen(endless))]);
    let mut watch = etcd.register(limits).watch(&prefix("/"), Revision::FIRST);
    check_failure(watch.next(PATIENCE), "it has more than 1000 bytes");
    etcd.finish();
}

#[test]
fn a_register_that_goes_back_is_not_believed() {
    let etcd = ScriptedEtcd::start(
        1,
        vec![
            ("range", range(9, &[], false, 0)),
            ("range", range(8, &[], false, 0)),
            ("txn", written(8)),
            ("range", range(9, &[], false, 0)),
        ],
    );
    let register = etcd.patient();
    assert_eq!(register.get(&key("/a")).expect("an answer"), None);
    check_failure(register.get(&key("/a")), "went back from revision 9 to revision 8");
    check_failure(register.put_if(&create("/a", "")), "went back from revision 9 to revision 8");
    assert_eq!(register.get(&key("/a")).expect("an answer"), None);
    etcd.finish();
}

#[test]
fn leases_without_a_time_are_lost_and_complaints_under_200_are_errors() {
    let etcd = ScriptedEtcd::start(
        1,
        vec![
            ("keepalive", say(&format!(r#"{{"result":{{{},"ID":"7","TTL":"10"}}}}"#, header(3)))),
            ("keepalive", say(&format!(r#"{{"result":{{{},"ID":"7"}}}}"#, header(3)))),
            ("keepalive", say(r#"{"error":{"grpc_code":7,"http_code":403,"message":"permission denied"}}"#)),
            ("keepalive", say("{}")),
            ("keepalive", say(&format!(r#"{{"result":{{{},"ID":"8","TTL":"10"}}}}"#, header(3)))),
            ("grant", say(&format!("{{{}}}", header(3)))),
            ("grant", say(&format!(r#"{{{},"ID":"7","TTL":"0"}}"#, header(3)))),
        ],
    );
    let register = etcd.patient();
    let keep = || register.keep_alive(LeaseId(7));
    assert_eq!(keep().expect("an answer"), LeaseAnswer::Kept(Duration::from_secs(10)));
    assert_eq!(keep().expect("an answer"), LeaseAnswer::Lost);
    check_failure(keep(), "permission denied");
    check_failure(keep(), "etcd's answer to a kept lease");
    check_failure(keep(), "which is another one");
    check_failure(register.grant(Duration::from_secs(10)), "etcd's answer to the grant of a lease");
    check_failure(register.grant(Duration::from_secs(10)), "for 0 s");
    etcd.finish();
}

#[test]
fn a_token_is_renewed_once_and_then_it_is_refused() {
    let invalid = || {
        let invalid = r#"{"error":"x","message":"etcdserver: invalid auth token","code":16}"#;
        Act::Fail(401, invalid.to_owned())
    };
    let token = |token: &str| say(&format!(r#"{{{},"token":"{token}"}}"#, header(1)));
    let etcd = ScriptedEtcd::start(
        1,
        vec![
            ("authenticate", token("one")),
            ("range", range(9, &[], false, 0)),
            ("range", invalid()),
            ("authenticate", token("two")),
            ("range", range(9, &[], false, 0)),
            ("range", invalid()),
            ("authenticate", token("three")),
            ("range", invalid()),
        ],
    );
    let register = etcd.register_as(EtcdUser { name: "u".to_owned(), password: "p".to_owned() });
    for _ in 0..2 {
        assert_eq!(register.get(&key("/a")).expect("an answer"), None);
    }
    check_failure(register.get(&key("/a")), "invalid auth token");
    let tokens: Vec<Option<String>> = etcd.finish().into_iter().map(|came| came.token).collect();
    let tokens: Vec<&str> = tokens.iter().map(|token| token.as_deref().unwrap_or("-")).collect();
    assert_eq!(tokens[..3], ["-", "one", "one"]);
    assert_eq!(tokens[4..6], ["two", "two"]);
    assert_eq!(tokens[7], "three");
}

fn created(revision: u64) -> String {
    format!(r#"{{"result":{{{},"created":true}}}}"#, header(revision))
}

fn events(revision: u64, events: &[String], fragment: bool) -> String {
    let fragment = if fragment { r#","fragment":true"# } else { "" };
    format!(r#"{{"result":{{{},"events":[{}]{fragment}}}}}"#, header(revision), events.join(","))
}

fn put(key: &str, revision: u64) -> String {
    format!(r#"{{"kv":{}}}"#, kv(key, "v", revision))
}

fn keys(changes: &[RegisterEvent]) -> Vec<(&str, u64)> {
    changes.iter().map(|change| (change.key.as_str(), change.revision.0)).collect()
}

/// What a watch after revision 1 says, up to a number of changes, and where its streams were opened from.
#[track_caller]
fn check_watch(
    script: Vec<(&str, Act)>,
    limits: EtcdLimits,
    expected: &[(&str, u64)],
    opened: &[(usize, &str)],
) {
    let etcd = ScriptedEtcd::start(2, script);
    let mut watch = etcd.register(limits).watch(&prefix("/f/"), Revision::FIRST);
    let mut found = Vec::new();
    while found.len() < expected.len() {
        match watch.next(PATIENCE).expect("an answer") {
            WatchStep::Changes(changes) => found.extend(changes),
            other => panic!("{other:?} after {:?}", keys(&found)),
        }
    }
    assert_eq!(keys(&found), expected);
    let came = etcd.finish();
    let starts: Vec<(usize, String)> = came
        .iter()
        .filter_map(|came| {
            let start = came.body["create_request"]["start_revision"].as_str()?;
            Some((came.member, start.to_owned()))
        })
        .collect();
    let starts: Vec<(usize, &str)> = starts.iter().map(|(member, start)| (*member, &**start)).collect();
    assert_eq!(starts, opened);
}

fn patient() -> EtcdLimits {
    EtcdLimits { attempt: PATIENCE, operation: PATIENCE, ..EtcdLimits::default() }
}

#[test]
fn a_stream_that_ends_or_complains_goes_on_at_the_next_member_where_it_was() {
    let first = || vec![created(1), events(2, &[put("/f/a", 2)], false)];
    // The next member tells the known change once more.
    let second =
        || ("watch", Act::StreamOpen(vec![created(2), events(3, &[put("/f/a", 2), put("/f/b", 3)], false)]));
    let expected = [("/f/a", 2), ("/f/b", 3)];
    let opened = [(0, "1"), (1, "2")];
    check_watch(vec![("watch", Act::StreamCut(first())), second()], patient(), &expected, &opened);
    let complaint = r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#;
    let complains = [first(), vec![complaint.to_owned()]].concat();
    check_watch(vec![("watch", Act::StreamOpen(complains)), second()], patient(), &expected, &opened);
}

#[test]
fn a_change_in_parts_is_told_as_a_whole() {
    let parts = vec![
        created(1),
        events(2, &[put("/f/a", 2)], true),
        events(2, &[put("/f/b", 2)], true),
        events(2, &[put("/f/c", 2)], false),
    ];
    let etcd = ScriptedEtcd::start(1, vec![("watch", Act::StreamOpen(parts))]);
    let mut watch = etcd.patient().watch(&prefix("/f/"), Revision::FIRST);
    let WatchStep::Changes(changes) = watch.next(PATIENCE).expect("an answer") else { panic!("no change") };
    assert_eq!(keys(&changes), [("/f/a", 2), ("/f/b", 2), ("/f/c", 2)]);
    etcd.finish();
    // Parts whose rest does not come are told by the next stream, once.
    check_watch(
        vec![
            ("watch", Act::StreamCut(vec![created(1), events(2, &[put("/f/a", 2)], true)])),
            ("watch", Act::StreamOpen(vec![created(2), events(2, &[put("/f/a", 2), put("/f/b", 2)], false)])),
        ],
        patient(),
        &[("/f/a", 2), ("/f/b", 2)],
        &[(0, "1"), (1, "1")],
    );
}

#[test]
fn a_silent_stream_is_left_when_a_read_knows_more_than_it() {
    let limits = EtcdLimits { silence: Duration::from_millis(20), ..patient() };
    let silent = || ("watch", Act::StreamOpen(vec![created(1), events(2, &[put("/f/a", 2)], false)]));
    let rest = |event: String| ("watch", Act::StreamOpen(vec![created(9), events(9, &[event], false)]));
    // Nothing is missed: it stays. Then a key is newer.
    check_watch(
        vec![
            silent(),
            ("range", range(5, &[], false, 1)),
            ("range", range(9, &[kv("/f/b", "", 9)], false, 2)),
            rest(put("/f/b", 9)),
        ],
        limits,
        &[("/f/a", 2), ("/f/b", 9)],
        &[(0, "1"), (1, "2")],
    );
    // A delete leaves no newer key, but fewer.
    let delete = format!(r#"{{"type":"DELETE","kv":{{"key":"{}","mod_revision":"9"}}}}"#, code("/f/a"));
    check_watch(
        vec![silent(), ("range", range(9, &[], false, 0)), rest(delete)],
        limits,
        &[("/f/a", 2), ("/f/a", 9)],
        &[(0, "1"), (1, "2")],
    );
}

#[test]
fn progress_moves_a_watch_past_what_others_write() {
    let progress = format!(r#"{{"result":{{{}}}}}"#, header(50));
    check_watch(
        vec![
            ("watch", Act::StreamCut(vec![created(1), progress])),
            ("watch", Act::StreamOpen(vec![created(50), events(51, &[put("/f/a", 51)], false)])),
        ],
        patient(),
        &[("/f/a", 51)],
        &[(0, "1"), (1, "50")],
    );
}

#[test]
fn a_cancelled_watch_says_why_and_one_of_an_older_register_is_not_believed() {
    let answer = |message: String, after: u64| {
        let mut script = vec![("watch", Act::StreamOpen(vec![message]))];
        if after > 1 {
            script.insert(0, ("range", range(after, &[], false, 0)));
        }
        let etcd = ScriptedEtcd::start(1, script);
        let answer = etcd.patient().watch(&prefix("/f/"), Revision(after)).next(PATIENCE);
        etcd.finish();
        answer
    };
    // Its header has no revision.
    let canceled = |rest: &str| format!(r#"{{"result":{{"header":{{}},"canceled":true{rest}}}}}"#);
    let compacted = answer(canceled(r#","compact_revision":"70""#), 5).expect("an answer");
    assert_eq!(compacted, WatchStep::Compacted(Revision(70)));
    check_failure(answer(canceled(r#","cancel_reason":"no room""#), 5), "etcd cancels a watch: no room");
    check_failure(answer(r#"{"nonsense":1}"#.to_owned(), 5), "etcd's answer to a watch");
}

#[test]
fn a_watch_at_a_member_that_lags_is_believed_unless_the_register_went_back() {
    let watch_at = |revision: u64, read: Act| {
        let messages = vec![created(revision), events(9, &[put("/f/a", 9)], false)];
        let script = vec![("range", range(5, &[], false, 0)), ("watch", Act::StreamOpen(messages))];
        let etcd = ScriptedEtcd::start(1, [script, vec![("range", read)]].concat());
        let answer = etcd.patient().watch(&prefix("/f/"), Revision(5)).next(PATIENCE);
        let read = etcd.finish().pop().expect("three requests").body;
        assert_eq!(read.get("serializable"), None, "a linearizable read");
        answer
    };
    let WatchStep::Changes(changes) = watch_at(4, range(5, &[], false, 0)).expect("it lags") else {
        panic!("no change")
    };
    assert_eq!(keys(&changes), [("/f/a", 9)]);
    check_failure(watch_at(4, range(4, &[], false, 0)), "went back from revision 5 to revision 4");
}

#[test]
fn a_watch_without_the_right_tries_a_new_token_once() {
    for reason in ["permission denied", "rpc error: code = Unauthenticated desc = invalid auth token"] {
        let canceled = format!(
            r#"{{"result":{{"header":{{}},"created":true,"canceled":true,"cancel_reason":"{reason}"}}}}"#
        );
        let refused = || ("watch", Act::StreamOpen(vec![canceled.clone()]));
        let etcd = ScriptedEtcd::start(1, vec![refused(), refused()]);
        let mut watch = etcd.patient().watch(&prefix("/f/"), Revision::FIRST);
        check_failure(watch.next(PATIENCE), reason);
        etcd.finish();
    }
}

#[test]
fn a_conflict_names_the_key_and_both_revisions() {
    let etcd = ScriptedEtcd::start(1, vec![("txn", conflict(9, 5))]);
    let outcome = etcd.patient().put_if(&create("/a", "")).expect("an answer");
    let (expected, found) = (Revision::ABSENT, Revision(5));
    assert_eq!(outcome, TransactionOutcome::Conflict { key: key("/a"), expected, found });
    let body = &etcd.finish()[0].body;
    assert_eq!(body["compare"][0]["mod_revision"], "0");
    assert_eq!(body["success"][0]["request_put"]["key"], code("/a"));
}
