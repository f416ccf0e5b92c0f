//! Traps of etcd's gateway that a real etcd can be led into.

use std::time::Duration;

use control::register::{
    DirectoryRegister, EtcdLimits, EtcdRegister, EtcdSettings, LeaseAnswer, LeaseId, Register, Revision,
    SimulatedRegister, TRANSACTION_LEN_MAX, Transaction, TransactionOutcome, WatchStep,
};

use tls::ClientSettings;

use crate::register::cluster::Cluster;
use crate::register::{PATIENCE, Scratch, check_failure, committed, create, key, prefix};

#[test]
fn a_lease_that_has_ended_is_lost_and_its_keys_are_deleted() {
    let Some(cluster) = Cluster::start(1) else { return };
    let register = cluster.register();
    let lease = register.grant(Duration::from_secs(2)).expect("a lease");
    let leader =
        Transaction::if_revision(key("/leader"), Revision::ABSENT).put_leased(key("/leader"), "me", lease.id);
    let since = committed(&register, &leader);
    let mut watch = register.watch(&prefix("/"), since);
    let WatchStep::Changes(changes) = watch.next(PATIENCE).expect("an answer") else { panic!("no change") };
    assert_eq!((changes.len(), &changes[0].value), (1, &None));
    assert_eq!(register.keep_alive(lease.id).expect("an answer"), LeaseAnswer::Lost);
    assert_eq!(register.keep_alive(LeaseId(77)).expect("an answer"), LeaseAnswer::Lost);
    assert_eq!(register.put_if(&leader).expect("an answer"), TransactionOutcome::LeaseLost);
    register.revoke(lease.id).expect("it has ended already");
    for ttl in [Duration::from_secs(1), Duration::from_millis(2500), Duration::from_secs(3601)] {
        check_failure(register.grant(ttl), "2 to 3600 whole seconds are accepted");
    }
}

#[test]
fn a_watch_from_a_compacted_revision_says_so_although_its_stream_stays_open() {
    let Some(cluster) = Cluster::start(1) else { return };
    let register = cluster.register();
    let last = ["/a", "/b", "/c"].map(|key| committed(&register, &create(key, "")))[2];
    register.compact(last).expect("it is there");
    check_failure(register.compact(last), "compacted");
    check_failure(register.compact(Revision(last.0 + 9)), "future revision");
    let mut watch = register.watch(&prefix("/"), Revision::FIRST);
    for _ in 0..2 {
        assert_eq!(watch.next(PATIENCE).expect("an answer"), WatchStep::Compacted(last));
    }
    let range = register.range(&prefix("/")).expect("an answer");
    let mut anew = register.watch(&prefix("/"), range.revision);
    committed(&register, &create("/d", ""));
    assert!(
        matches!(anew.next(PATIENCE).expect("an answer"), WatchStep::Changes(changes) if changes.len() == 1)
    );
}

#[test]
fn a_range_in_many_parts_is_whole_or_an_error() {
    let Some(cluster) = Cluster::start(1) else { return };
    let limits = EtcdLimits { page_keys: 4, page_len: 64 << 10, ..EtcdLimits::default() };
    let register = cluster.register_with(limits);
    for number in 0..26 {
        // One in four does not fit a part with another one, and one not even alone.
        let len = if number == 13 { 100 << 10 } else { 40 << 10 };
        let value = "v".repeat(if number % 4 == 1 { len } else { 10 });
        committed(&register, &create(&format!("/f/{number:02}"), &value));
    }
    committed(&register, &create("/g", ""));
    let range = register.range(&prefix("/f/")).expect("an answer");
    let keys: Vec<String> = range.entries.iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(keys, (0..26).map(|number| format!("/f/{number:02}")).collect::<Vec<_>>());
    assert_eq!(range.entries[13].value.len(), 100 << 10);
    let too_few = cluster.register_with(EtcdLimits { range_keys: 25, ..limits });
    check_failure(too_few.range(&prefix("/f/")), "it has more than 25 keys");
    let too_short = cluster.register_with(EtcdLimits { range_len: 64 << 10, ..limits });
    check_failure(too_short.range(&prefix("/f/")), "it has more than 65536 bytes of keys and values");
    let single = cluster.register_with(EtcdLimits { answer_len: 64 << 10, ..limits });
    check_failure(single.range(&prefix("/f/")), "bytes in one key");
}

#[test]
fn the_longest_transaction_is_taken_by_every_register() {
    let folder = Scratch::new();
    let cluster = Cluster::start(1);
    let mut registers: Vec<Box<dyn Register>> = vec![
        Box::new(SimulatedRegister::default()),
        Box::new(DirectoryRegister::open(&folder.0).expect("a directory")),
    ];
    registers.extend(cluster.as_ref().map(|cluster| Box::new(cluster.register()) as Box<dyn Register>));
    for register in &registers {
        let longest = create("/a", &"\u{1}".repeat(TRANSACTION_LEN_MAX - 4));
        committed(&**register, &longest);
        let entry = register.get(&key("/a")).expect("an answer").expect("a value");
        assert_eq!(entry.value.len(), TRANSACTION_LEN_MAX - 4);
        check_failure(
            register.put_if(&create("/b", &"v".repeat(TRANSACTION_LEN_MAX))),
            "bytes of keys and values",
        );
        let many = (0..127).fold(create("/c", ""), |all, at| all.put(key(&format!("/c/{at}")), ""));
        committed(&**register, &many);
        let range = register.range(&prefix("/c/")).expect("an answer");
        assert_eq!(range.entries.len(), 127);
    }
}

#[test]
fn a_key_of_another_program_is_named_and_not_passed_over() {
    let Some(cluster) = Cluster::start(1) else { return };
    let register = cluster.register();
    // "/f/a b"
    cluster.ask(0, "/v3/kv/put", r#"{"key":"L2YvYSBi","value":"eA=="}"#).expect("an answer");
    let error = register.range(&prefix("/f/")).expect_err("a foreign key");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert!(cause.contains(r#"the key "/f/a b" is not"#), "{cause}");
    assert_eq!(register.range(&prefix("/g/")).expect("an answer").entries, []);
}

#[test]
fn a_token_that_etcd_has_forgotten_is_renewed() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    for (path, request) in [
        ("/v3/auth/user/add", r#"{"name":"root","password":"secret"}"#),
        ("/v3/auth/role/add", r#"{"name":"root"}"#),
        ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("/v3/auth/user/add", r#"{"name":"nobody","password":"n"}"#),
        ("/v3/auth/enable", "{}"),
    ] {
        let answer = cluster.ask(0, path, request).expect("an answer");
        assert!(answer["header"].is_object(), "{path}: {answer}");
    }
    check_failure(cluster.register().get(&key("/a")), "user name is empty");
    check_failure(cluster.register_as("root", "wrong").get(&key("/a")), "authentication failed");
    check_failure(cluster.register_as("nobody", "n").get(&key("/a")), "permission denied");
    let mut refused = cluster.register_as("nobody", "n").watch(&prefix("/"), Revision::FIRST);
    check_failure(refused.next(PATIENCE), "permission denied");
    let register = cluster.register_as("root", "secret");
    let since = committed(&register, &create("/a", ""));
    let mut watch = register.watch(&prefix("/"), since);
    assert_eq!(watch.next(Duration::ZERO).expect("an answer"), WatchStep::Quiet);
    // etcd keeps tokens in memory.
    cluster.kill(0);
    cluster.restart(0);
    crate::register::until("an etcd that answers", || register.get(&key("/a")).ok());
    committed(&register, &create("/b", ""));
    assert!(
        matches!(watch.next(PATIENCE).expect("an answer"), WatchStep::Changes(changes) if changes.len() == 1)
    );
    cluster.kill(0);
    cluster.restart(0);
    // The watch is the first to see that the token is not known any more.
    crate::register::until("an etcd that answers", || match watch.next(Duration::from_secs(1)) {
        Ok(WatchStep::Quiet) => cluster.ask(0, "/v3/maintenance/status", "{}").map(drop),
        _ => None,
    });
    committed(&register, &create("/c", ""));
    assert!(
        matches!(watch.next(PATIENCE).expect("an answer"), WatchStep::Changes(changes) if changes.len() == 1)
    );
}

#[test]
fn over_tls_both_sides_show_certificates() {
    let Some((cluster, register)) = Cluster::start_over_tls() else { return };
    let since = committed(&register, &create("/a", ""));
    let mut watch = register.watch(&prefix("/"), since);
    committed(&register, &create("/b", ""));
    assert!(
        matches!(watch.next(PATIENCE).expect("an answer"), WatchStep::Changes(changes) if changes.len() == 1)
    );
    let limits = EtcdLimits { operation: Duration::from_millis(100), ..EtcdLimits::default() };
    let client = |tls| {
        let settings = EtcdSettings { limits, ..cluster.tls_settings(tls) };
        EtcdRegister::new(&settings).expect("a client")
    };
    let without = ClientSettings { authorities: Some(cluster.authority()), ..ClientSettings::default() };
    check_failure(client(without).get(&key("/a")), "reach the register");
    let stranger =
        ClientSettings { authorities: Some(tls::system_authorities().into()), ..ClientSettings::default() };
    if tls::system_authorities().exists() {
        check_failure(client(stranger).get(&key("/a")), "UnknownIssuer");
    }
}
