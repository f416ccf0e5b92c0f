//! Standards of hosts under faults: hosts that join, drift, crash and lose their controllers, while scopes are frozen and changes go on.
//!
//! Who may act is decided by `fleet::tuning::standards`; agents are played, with orders that are late and count for a minute.

use std::collections::BTreeMap;

use fleet::tuning::standards::{HostStandard, StandardHost, StandardSaid, StandardWord, granted};
use fleet::{FleetPolicy, HostId, TuningPolicy};
use stdx::prng::Prng;

/// Hosts of a run: twice as many as may be repaired at once, and some without work.
const HOSTS: usize = 12;
/// Seconds of a run.
const SECONDS: u64 = 2 * 3600;
/// Seconds for which an agent goes by an order.
const ORDER_COUNTS_S: u64 = 60;
/// Seconds from what a controller knows to what an agent does by it, at most: a turn, and the age of its order.
const LAG_S: u64 = 20 + ORDER_COUNTS_S;
/// Hosts with work that may be under repair at one time. Two at the same moment may have been told of different first ones.
const REPAIRS_MAX: usize = 2 * fleet::tuning::standards::REPAIRS_AT_ONCE_MAX;

/// An error that is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardBug {
    /// A controller does not know what is frozen.
    FrozenIgnored,
    /// A controller does not know which hosts are in a change.
    ChangeIgnored,
    /// A controller does not know which hosts have work.
    WorkIgnored,
    /// An agent that has lost its controllers goes by their last order.
    OldOrdersCount,
}

impl StandardBug {
    /// All of them.
    pub const ALL: [StandardBug; 4] = [
        StandardBug::FrozenIgnored,
        StandardBug::ChangeIgnored,
        StandardBug::WorkIgnored,
        StandardBug::OldOrdersCount,
    ];
}

/// What a run has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandardRun {
    /// The invariant that was broken first, and what was seen.
    pub violation: Option<(&'static str, String)>,
    /// Times that a host was tuned.
    pub tuned: usize,
    /// Those of them in which a host with work was repaired.
    pub repaired: usize,
}

/// A host with its agent.
struct PlayedHost {
    host: HostId,
    word: StandardWord,
    /// It met its standard, and was in no change since.
    has_met: bool,
    has_work: bool,
    frozen_since: Option<u64>,
    change_since: Option<u64>,
    /// The last order, and when it was heard.
    order: Option<(bool, u64)>,
    /// No controller is heard until then.
    cut_until: u64,
    next_turn: u64,
    /// When it is done with what it does.
    tuned_at: u64,
}

/// Plays two hours with these errors.
pub fn play_standards(seed: u64, bugs: &[StandardBug]) -> StandardRun {
    let policy = "fleet = \"f\"\n[[tuning]]\nprofile = \"memcached\"\ndrift = \"repair\"\n";
    let tunings = FleetPolicy::parse(policy).expect("a policy").tunings;
    let mut lot = Prng::new(seed);
    let mut hosts: Vec<PlayedHost> = (0..HOSTS).map(|at| PlayedHost::new(at, &mut lot)).collect();
    let mut run = StandardRun::default();
    for now in 0..SECONDS {
        for host in &mut hosts {
            host.happens(now, &mut lot);
        }
        let known: BTreeMap<HostId, bool> = grants(&hosts, &tunings[0], bugs);
        for host in &mut hosts {
            host.turn(now, &known, &mut lot);
            if !host.begins(now, bugs) {
                continue;
            }
            run.tuned += 1;
            run.repaired += usize::from(host.has_work);
            if run.violation.is_none() {
                run.violation = host.broken(now);
            }
            host.word = StandardWord::Tuning;
            host.tuned_at = now + 1 + lot.below(10);
        }
        let repaired = hosts.iter().filter(|host| host.has_work && host.word == StandardWord::Tuning).count();
        if repaired > REPAIRS_MAX && run.violation.is_none() {
            run.violation = Some(("S4", format!("{repaired} hosts with work are repaired at {now} s")));
        }
    }
    run
}

/// What a controller decides from what agents have said.
fn grants(hosts: &[PlayedHost], tuning: &TuningPolicy, bugs: &[StandardBug]) -> BTreeMap<HostId, bool> {
    let knows = |bug| !bugs.contains(&bug);
    let fact = |host: &PlayedHost| (host.host.clone(), host.word.clone());
    let said: Vec<(HostId, StandardWord)> = hosts.iter().map(fact).collect();
    let facts: Vec<StandardHost<'_>> = hosts
        .iter()
        .zip(&said)
        .map(|(played, (host, word))| StandardHost {
            host,
            standard: HostStandard::One(tuning),
            said: StandardSaid::Word(word),
            has_work: played.has_work && knows(StandardBug::WorkIgnored),
            is_frozen: played.frozen_since.is_some() && knows(StandardBug::FrozenIgnored),
            is_in_change: played.change_since.is_some() && knows(StandardBug::ChangeIgnored),
            // Nobody falls silent for the controllers here.
            is_cut_off: false,
        })
        .collect();
    let granted = granted(&facts);
    hosts.iter().map(|host| (host.host.clone(), granted.contains(&host.host))).collect()
}

impl PlayedHost {
    fn new(at: usize, lot: &mut Prng) -> PlayedHost {
        PlayedHost {
            host: format!("h{at:02}").parse().expect("a name"),
            word: lacks(),
            has_met: false,
            has_work: lot.below(4) > 0,
            frozen_since: None,
            change_since: None,
            order: None,
            cut_until: 0,
            next_turn: lot.below(15),
            tuned_at: 0,
        }
    }

    /// What happens to a host: about once in some minutes.
    fn happens(&mut self, now: u64, lot: &mut Prng) {
        if self.word == StandardWord::Tuning && now >= self.tuned_at {
            // One that hears no controller goes back.
            let is_kept = self.cut_until <= now;
            self.has_met |= is_kept;
            self.word = if is_kept { StandardWord::Meets } else { self.lacking() };
        }
        match lot.below(1200) {
            0 => self.frozen_since = if self.frozen_since.is_some() { None } else { Some(now) },
            1 => {
                // A change tunes the host, or takes that back.
                self.change_since = if self.change_since.is_some() { None } else { Some(now) };
                // It hears of the change with orders that do not let it act.
                (self.has_met, self.order) = (false, None);
            }
            2 => self.cut_until = now + lot.below(600),
            // Something sets it back, or the host is started again.
            3 | 4 if self.word == StandardWord::Meets => self.word = self.lacking(),
            5 if self.word == StandardWord::Meets => self.has_work = true,
            6 => self.has_work = false,
            // A change in waves has tuned it.
            7 if self.word != StandardWord::Tuning => (self.word, self.has_met) = (StandardWord::Meets, true),
            _ => {}
        }
        if matches!(self.word, StandardWord::Lacks { .. } | StandardWord::Drifted { .. }) {
            self.word = self.lacking();
        }
    }

    fn lacking(&self) -> StandardWord {
        let StandardWord::Lacks { settings, first } = lacks() else { return lacks() };
        if self.has_met { StandardWord::Drifted { settings, first } } else { lacks() }
    }

    fn turn(&mut self, now: u64, known: &BTreeMap<HostId, bool>, lot: &mut Prng) {
        if now >= self.next_turn && now >= self.cut_until {
            self.order = known.get(&self.host).map(|may_act| (*may_act, now));
            self.next_turn = now + 10 + lot.below(11);
        }
    }

    fn begins(&self, now: u64, bugs: &[StandardBug]) -> bool {
        let counts = |at: u64| now - at <= ORDER_COUNTS_S || bugs.contains(&StandardBug::OldOrdersCount);
        let is_lacking = matches!(self.word, StandardWord::Lacks { .. } | StandardWord::Drifted { .. });
        is_lacking && self.order.is_some_and(|(may_act, at)| may_act && counts(at))
    }

    /// What must not be so when it begins.
    fn broken(&self, now: u64) -> Option<(&'static str, String)> {
        let host = &self.host;
        let is_old = |since: Option<u64>| since.is_some_and(|since| now - since > LAG_S);
        if is_old(self.frozen_since) {
            return Some((
                "S1",
                format!("{host} is tuned at {now} s, frozen since {:?} s", self.frozen_since),
            ));
        }
        if is_old(self.change_since) {
            return Some((
                "S2",
                format!("{host} is tuned at {now} s, in a change since {:?} s", self.change_since),
            ));
        }
        let never_met = self.has_work && !self.has_met;
        never_met.then(|| ("S3", format!("{host} is tuned at {now} s beside its work, and has never met it")))
    }
}

fn lacks() -> StandardWord {
    StandardWord::Lacks { settings: 1, first: "a is 1, and 2 is wanted".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds without a bug.
    const SEEDS: u64 = 100;
    /// A hunt that has found nothing ends here.
    const SEEDS_MAX: u64 = 1_000;

    #[test]
    fn seeds_without_bugs_break_no_invariant_and_hosts_are_tuned_and_repaired() {
        let (mut tuned, mut repaired) = (0, 0);
        for seed in 1..=SEEDS {
            let run = play_standards(seed, &[]);
            assert_eq!(run.violation, None, "seed {seed}");
            (tuned, repaired) = (tuned + run.tuned, repaired + run.repaired);
        }
        assert!(repaired as u64 > SEEDS && tuned > repaired, "{tuned} of which {repaired} repaired");
    }

    #[test]
    fn planted_bugs_are_found() {
        let check = |bug: StandardBug, invariants: &[&str]| {
            let found = |seed| play_standards(seed, &[bug]).violation.map(|found| (seed, found));
            let (seed, (invariant, seen)) =
                (1..=SEEDS_MAX).find_map(found).unwrap_or_else(|| panic!("{bug:?} is not found"));
            println!("{bug:?}: seed {seed}, {invariant}");
            assert!(invariants.contains(&invariant), "{bug:?} with seed {seed}: {invariant}, {seen}");
            assert_eq!(play_standards(seed, &[]).violation, None, "seed {seed}, without a bug");
        };
        check(StandardBug::FrozenIgnored, &["S1"]);
        check(StandardBug::ChangeIgnored, &["S2"]);
        check(StandardBug::WorkIgnored, &["S3"]);
        check(StandardBug::OldOrdersCount, &["S1", "S2", "S3"]);
        assert_eq!(StandardBug::ALL.len(), 4);
    }

    #[test]
    fn equal_seeds_give_equal_histories() {
        assert_eq!(play_standards(3, &[]), play_standards(3, &[]));
    }
}
