//! The same random calls to the directory, the model and a real etcd: the same answers.

use std::time::Duration;

use control::register::{
    DirectoryRegister, KeyPrefix, LeaseAnswer, LeaseId, Register, RegisterEntry, RegisterEvent, RegisterKey,
    RegisterWatch, Revision, SimulatedRegister, Transaction, TransactionOutcome, WatchStep,
};
use stdx::prng::Prng;

use crate::register::cluster::Cluster;
use crate::register::{PATIENCE, Scratch, key, prefix};

/// Calls of a script: enough for each kind to meet each state that few keys have.
const CALLS: usize = 400;

/// Few, so that they meet.
const KEYS: [&str; 8] = ["/f/target", "/f/hosts/a", "/f/hosts/b", "/f/hosts/c", "/f/l", "/g/x", "/g/y", "/h"];
const PREFIXES: [&str; 4] = ["/", "/f/", "/f/hosts/", "/g/"];

/// A value, and the lease that it ends with.
type Value = (String, Option<usize>);

#[derive(Clone, Debug)]
enum Call {
    Get(RegisterKey),
    Range(KeyPrefix),
    PutIf(Vec<(RegisterKey, Revision)>, Vec<(RegisterKey, Option<Value>)>),
    Grant,
    KeepAlive(usize),
    Revoke(usize),
    Compact(Revision),
    Watch(KeyPrefix, Revision),
}

/// One register, with the leases that the script has granted so far, by their order.
struct Side {
    name: &'static str,
    register: Box<dyn Register>,
    leases: Vec<LeaseId>,
    watches: Vec<Box<dyn RegisterWatch>>,
}

impl Side {
    fn new(name: &'static str, register: impl Register + 'static) -> Side {
        Side { name, register: Box::new(register), leases: Vec::new(), watches: Vec::new() }
    }

    /// The answer as text, with leases by their order.
    fn answer(&mut self, call: &Call) -> String {
        let shown = |entry: RegisterEntry| {
            let lease = entry.lease.map(|lease| self.leases.iter().position(|known| *known == lease));
            format!(
                "{}={:?}@{}~{lease:?}",
                entry.key,
                String::from_utf8_lossy(&entry.value),
                entry.revision.0
            )
        };
        match call {
            Call::Get(key) => format!("{:?}", self.register.get(key).expect("an answer").map(shown)),
            Call::Range(prefix) => {
                let range = self.register.range(prefix).expect("an answer");
                let entries: Vec<String> = range.entries.into_iter().map(shown).collect();
                format!("{}: {entries:?}", range.revision)
            }
            Call::PutIf(compared, writes) => {
                let (first, rest) = compared.split_first().expect("one at least");
                let mut transaction = Transaction::if_revision(first.0.clone(), first.1);
                for (key, revision) in rest {
                    transaction = transaction.and_if(key.clone(), *revision);
                }
                for (key, body) in writes {
                    transaction = match body {
                        None => transaction.delete(key.clone()),
                        Some((value, None)) => transaction.put(key.clone(), value.as_bytes()),
                        Some((value, Some(lease))) => {
                            transaction.put_leased(key.clone(), value.as_bytes(), self.leases[*lease])
                        }
                    };
                }
                self.register.put_if(&transaction).map_or_else(
                    |error| format!("{error}"),
                    |outcome| match outcome {
                        TransactionOutcome::Committed(revision) => format!("committed at {revision}"),
                        other => format!("{other:?}"),
                    },
                )
            }
            Call::Grant => {
                let lease = self.register.grant(Duration::from_secs(3600)).expect("a lease");
                self.leases.push(lease.id);
                format!("{:?}", lease.ttl)
            }
            Call::KeepAlive(lease) => match self.register.keep_alive(self.leases[*lease]).expect("an answer")
            {
                LeaseAnswer::Kept(ttl) => format!("{ttl:?}"),
                LeaseAnswer::Lost => "lost".to_owned(),
            },
            Call::Revoke(lease) => format!("{:?}", self.register.revoke(self.leases[*lease]).is_ok()),
            Call::Compact(revision) => format!("{:?}", self.register.compact(*revision).is_ok()),
            Call::Watch(prefix, after) => {
                self.watches.push(self.register.watch(prefix, *after));
                String::new()
            }
        }
    }
}

/// The next call, of which some fail.
fn call(prng: &mut Prng, model: &SimulatedRegister, leases: usize) -> Call {
    let any_key = |prng: &mut Prng| key(KEYS[prng.below(KEYS.len() as u64) as usize]);
    let any_prefix = |prng: &mut Prng| prefix(PREFIXES[prng.below(PREFIXES.len() as u64) as usize]);
    let contents = model.backup();
    let (now, compacted) = (contents.revision().0, contents.compacted().0);
    let revision = |prng: &mut Prng| Revision(prng.below(now + 3));
    match prng.below(40) {
        0..4 => Call::Get(any_key(prng)),
        4..7 => Call::Range(any_prefix(prng)),
        7 => Call::Grant,
        8..10 if leases > 0 => Call::KeepAlive(prng.below(leases as u64) as usize),
        10 if leases > 0 => Call::Revoke(prng.below(leases as u64) as usize),
        11 if prng.below(4) == 0 => Call::Compact(Revision(2 + compacted / 2 + prng.below(now))),
        12 => Call::Watch(any_prefix(prng), Revision(prng.below(now + 1))),
        _ => {
            let (mut compared, mut writes) = (Vec::new(), Vec::new());
            for at in 0..=prng.below(3) {
                let one = any_key(prng);
                if compared.iter().any(|(known, _)| *known == one) {
                    continue;
                }
                let found = contents.get(&one).map_or(Revision::ABSENT, |entry| entry.revision);
                let expected = if prng.below(8) == 0 { revision(prng) } else { found };
                compared.push((one.clone(), expected));
                if at == 0 || prng.below(2) == 0 {
                    let lease =
                        (leases > 0 && prng.below(4) == 0).then(|| prng.below(leases as u64) as usize);
                    let value = format!("v{}", prng.below(1000));
                    writes.push((one, (prng.below(4) > 0).then_some((value, lease))));
                }
            }
            Call::PutIf(compared, writes)
        }
    }
}

fn shown(events: &[RegisterEvent]) -> Vec<String> {
    let shown = |event: &RegisterEvent| {
        format!(
            "{}@{} {:?}",
            event.key,
            event.revision.0,
            event.value.as_deref().map(String::from_utf8_lossy)
        )
    };
    events.iter().map(shown).collect()
}

/// Compares one watch of all sides; whether it goes on. The first side has the model.
fn check_watch(sides: &mut [Side], at: usize, context: &str) -> bool {
    let (model, others) = sides.split_first_mut().expect("the model");
    let expected = model.watches[at].next(Duration::ZERO).expect("an answer");
    for side in others {
        let name = side.name;
        let mut next = |wait: Duration| side.watches[at].next(wait).expect("an answer");
        match &expected {
            WatchStep::Changes(expected) => {
                let mut found = Vec::new();
                while found.len() < expected.len() {
                    match next(PATIENCE) {
                        WatchStep::Changes(more) => found.extend(more),
                        other => panic!("{other:?}, {context}"),
                    }
                }
                // etcd's order within one revision is that of the transaction, too.
                assert_eq!(shown(&found), shown(expected), "{}, {context}", name);
            }
            WatchStep::Compacted(_) => assert_eq!(next(PATIENCE), expected, "{}, {context}", name),
            WatchStep::Quiet => {
                assert_eq!(next(Duration::ZERO), WatchStep::Quiet, "{}, {context}", name);
            }
        }
    }
    !matches!(expected, WatchStep::Compacted(_))
}

#[track_caller]
fn check(seed: u64, members: usize) {
    let Some(cluster) = Cluster::start(members) else { return };
    let folder = Scratch::new();
    let model = SimulatedRegister::default();
    let directory = DirectoryRegister::open(&folder.0).expect("a directory");
    let mut sides = [
        Side::new("the model", model.client()),
        Side::new("the directory", directory),
        Side::new("etcd", cluster.register()),
    ];
    let mut prng = Prng::new(seed);
    let mut open: Vec<usize> = Vec::new();
    for number in 0..CALLS {
        let call = call(&mut prng, &model, sides[0].leases.len());
        let context = format!("call {number} of seed {seed}: {call:?}");
        let expected = sides[0].answer(&call);
        for side in &mut sides[1..] {
            assert_eq!(side.answer(&call), expected, "{}, {context}", side.name);
        }
        if matches!(call, Call::Watch(..)) {
            open.push(sides[0].watches.len() - 1);
        }
        open.retain(|at| check_watch(&mut sides, *at, &context));
    }
    let everything = Call::Range(prefix("/"));
    let expected = sides[0].answer(&everything);
    for side in &mut sides[1..] {
        assert_eq!(side.answer(&everything), expected, "{}, at the end of seed {seed}", side.name);
    }
    let again = {
        let [.., directory, _] = &mut sides;
        directory.watches.clear();
        directory.register = Box::new(SimulatedRegister::default());
        DirectoryRegister::open(&folder.0).expect("the same directory")
    };
    // Leases ended with the process, and so did their keys.
    let kept = model.range(&prefix("/")).expect("an answer").entries;
    let kept: Vec<_> = kept.into_iter().filter(|entry| entry.lease.is_none()).collect();
    assert_eq!(again.range(&prefix("/")).expect("an answer").entries, kept, "seed {seed}, opened again");
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("EVENKEEL_TEST_SEEDS").unwrap_or("0..2".to_owned());
    let (from, to) = given.split_once("..").expect("EVENKEEL_TEST_SEEDS is FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn a_directory_the_model_and_one_etcd_answer_the_same() {
    seeds().for_each(|seed| check(seed, 1));
}

#[test]
fn a_directory_the_model_and_three_members_of_etcd_answer_the_same() {
    check(seeds().start + 1_000_000, 3);
}
