//! Two controllers that write records of changes at the same time, with all of one between any two calls of the other: no part is left that
//! the list does not name.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use os::clock::{Stopwatch, pause};

use super::*;
use crate::decisions::SharedRegister;
use crate::register::{
    DirectoryRegister, EtcdRegister, EtcdSettings, GrantedLease, KeyPrefix, LeaseAnswer, LeaseId,
    RangeAnswer, Register, RegisterEntry, RegisterWatch, SimulatedRegister,
};
use crate::testing::Scratch;

/// Calls of one creation, and some more: the list, what is begun, three parts, the list again.
const CALLS: usize = 8;
/// Time until an etcd answers.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

type Act = Box<dyn FnOnce() + Send>;

/// Something else happens before one of the calls. If the controller ends there, that call and all later ones fail.
struct Interrupted {
    register: SharedRegister,
    before: Mutex<Option<(usize, Act)>>,
    ends: bool,
}

impl Interrupted {
    fn call(&self) -> Result<&SharedRegister, RegisterError> {
        let mut before = self.before.lock().expect("no panic");
        match before.take() {
            Some((0, act)) => act(),
            Some((left, act)) => {
                *before = Some((left - 1, act));
                return Ok(&self.register);
            }
            None => {}
        }
        match self.ends {
            true => Err(RegisterError::Unavailable("this controller has ended".to_owned())),
            false => Ok(&self.register),
        }
    }
}

impl Register for Interrupted {
    fn get(&self, key: &RegisterKey) -> Result<Option<RegisterEntry>, RegisterError> {
        self.call()?.get(key)
    }

    fn range(&self, prefix: &KeyPrefix) -> Result<RangeAnswer, RegisterError> {
        self.call()?.range(prefix)
    }

    fn put_if(&self, transaction: &Transaction) -> Result<TransactionOutcome, RegisterError> {
        self.call()?.put_if(transaction)
    }

    fn watch(&self, prefix: &KeyPrefix, after: Revision) -> Box<dyn RegisterWatch> {
        self.register.watch(prefix, after)
    }

    fn compact(&self, up_to: Revision) -> Result<(), RegisterError> {
        self.register.compact(up_to)
    }

    fn grant(&self, ttl: Duration) -> Result<GrantedLease, RegisterError> {
        self.register.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<LeaseAnswer, RegisterError> {
        self.register.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), RegisterError> {
        self.register.revoke(lease)
    }
}

fn decisions(register: SharedRegister, fleet: &str) -> FleetDecisions {
    FleetDecisions::new(register, &fleet.parse().expect("a name"))
}

/// Creates the next change, and says whether it was created. As a real record, the text has its number.
fn create(all: &FleetDecisions, text: &str) -> Result<bool, RegisterError> {
    let known = all.changes()?;
    let number = known.0.last + 1;
    Ok(all.create_change(&known, &format!("{number} {text}"), tests::row(number))?.is_some())
}

/// The parts that are there are those of the changes of the list, and of the record that it says to be begun.
#[track_caller]
fn check_parts(all: &FleetDecisions, what: &str) {
    let range = all.register.range(&all.prefix("change-texts")).expect("an answer");
    let found: BTreeSet<String> = range.entries.iter().map(|entry| entry.key.to_string()).collect();
    let (list, _) = all.changes().expect("an answer");
    let of = |sha256: &str, parts: usize| {
        (0..parts).map(|part| all.part_key(sha256, part).to_string()).collect::<Vec<_>>()
    };
    let named: BTreeSet<String> = list.rows.iter().flat_map(|row| of(&row.sha256, row.parts)).collect();
    let begun: BTreeSet<String> =
        list.begun.iter().flat_map(|begun| of(&begun.sha256, begun.parts)).collect();
    assert!(named.is_subset(&found), "{what}: a part is missing: {named:?} of {found:?}");
    let left: Vec<&String> =
        found.iter().filter(|key| !named.contains(*key) && !begun.contains(*key)).collect();
    assert!(left.is_empty(), "{what}: nobody names {left:?}");
}

/// One controller is interrupted before each of its calls by another one, and goes on or ends there.
fn check_register(register: &SharedRegister, name: &str) {
    let text = |letter: &str| letter.repeat(2 * PART_LEN + 10);
    let mut created = [0, 0];
    let cases = (0..CALLS)
        .flat_map(|at| [(false, false), (false, true), (true, false), (true, true)].map(|case| (at, case)));
    for (at, (ends, is_same)) in cases {
        let what = format!("{name}: before call {at}, the first one ends: {ends}, the same text: {is_same}");
        let fleet = format!("f{at}{}{}", u8::from(ends), u8::from(is_same));
        let other = decisions(Arc::clone(register), &fleet);
        let (act, second) = (other.clone(), Arc::new(Mutex::new(None)));
        let (second_text, note) = (text(if is_same { "a" } else { "b" }), Arc::clone(&second));
        let act: Act = Box::new(move || {
            *note.lock().expect("no panic") = Some(create(&act, &second_text).expect("an answer"));
        });
        let register = Arc::clone(register);
        let interrupted = Interrupted { register, before: Mutex::new(Some((at, act))), ends };
        let first = create(&decisions(Arc::new(interrupted), &fleet), &text("a")).unwrap_or_default();
        let second = *second.lock().expect("no panic");
        created = [created[0] + usize::from(first), created[1] + usize::from(second == Some(true))];
        check_parts(&other, &what);
        assert!(first || second == Some(true), "{what}: one of the two is always created");
        // Whatever was left over goes with the next one.
        assert!(create(&other, &text("c")).expect("an answer"), "{what}");
        check_parts(&other, &what);
        assert_eq!(other.changes().expect("an answer").0.begun, None, "{what}");
    }
    assert!(created.iter().all(|count| *count > 0), "{name}: both are seen: {created:?}");
}

#[test]
fn no_part_is_left_in_a_model_or_a_directory() {
    let model: SharedRegister = Arc::new(SimulatedRegister::default());
    check_register(&model, "model");
    let scratch = Scratch::new();
    let directory = DirectoryRegister::open(&scratch.path("register")).expect("a directory");
    let directory: SharedRegister = Arc::new(directory);
    check_register(&directory, "directory");
}

/// An etcd of one member, which ends with this value.
struct OneEtcd(Child);

impl Drop for OneEtcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_part_is_left_in_an_etcd() {
    let program = std::env::var_os("EVENKEEL_TEST_ETCD").unwrap_or_else(|| "/usr/bin/etcd".into());
    if !std::path::Path::new(&program).exists() {
        return eprintln!(
            "left out: there is no etcd (Debian: etcd-server); EVENKEEL_TEST_ETCD names another one"
        );
    }
    let scratch = Scratch::new();
    // A loopback address of its own, so that its ports are nobody else's.
    let [.., high, low] = std::process::id().to_be_bytes();
    let [client, peer] = [2379, 2380].map(|port| format!("http://127.79.{high}.{low}:{port}"));
    let mut etcd = Command::new(program);
    etcd.arg("--data-dir").arg(scratch.path("data")).args(["--unsafe-no-fsync", "--logger", "zap"]);
    etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    etcd.args(["--initial-cluster", &format!("default={peer}")]);
    etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _etcd = OneEtcd(etcd.spawn().expect("a process"));
    let settings = EtcdSettings { members: vec![client], ..EtcdSettings::default() };
    let register: SharedRegister = Arc::new(EtcdRegister::new(&settings).expect("a client"));
    let watch = Stopwatch::start();
    while decisions(Arc::clone(&register), "f").changes().is_err() {
        assert!(watch.passed() < BEGINS_WITHIN, "the etcd does not answer");
        pause(Duration::from_millis(50));
    }
    check_register(&register, "etcd");
}
