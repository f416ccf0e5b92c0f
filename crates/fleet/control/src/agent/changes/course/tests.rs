//! A change on a host that a test plays: random orders, steps that fail, an agent that is killed, a host that starts again.

use std::collections::BTreeSet;

use fleet::tuning::AnswerDigest;
use fleet::waves::{ChangeNumber, HostOrder};
use stdx::prng::Prng;

use super::*;
use crate::service::turn::{HostAct, PlanWish};

const CONFIRM_S: u64 = 60;

fn order(version: u64, attempt: Option<u32>) -> ChangeOrder {
    let own: AnswerDigest = "0".repeat(64).parse().expect("a digest");
    let act = HostAct::Tune { wish: PlanWish::Profile("memcached".to_owned()), own };
    let order = HostOrder { change: ChangeNumber(1), version, attempt };
    ChangeOrder { order, act, confirm_ms: CONFIRM_S * 1000 }
}

fn at(second: u64) -> Now {
    Now::at_ms(second * 1000)
}

/// A host, and its agent.
struct PlayedHost {
    /// What is really so; the second at which it goes back.
    has: Option<(u32, ActPhase)>,
    until: u64,
    boot: u32,
    second: u64,
    course: ChangeCourse,
    /// What is on the agent's disk.
    kept: ChangeRecord,
    begun: BTreeSet<u32>,
}

fn refused<T>() -> Result<T, String> {
    Err("no space left on device".to_owned())
}

/// What may go wrong with a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It says that it has failed, and has done nothing.
    Fails,
    /// It says that it has failed, and has done it all the same.
    Lies,
    /// Its process ends in the middle.
    Ends,
}

impl PlayedHost {
    fn new() -> PlayedHost {
        let kept = ChangeRecord { order: order(1, None), tried: None };
        let course = ChangeCourse::new(kept.clone());
        PlayedHost { has: None, until: 0, boot: 0, second: 1, course, kept, begun: BTreeSet::new() }
    }

    fn boot(&self) -> String {
        self.boot.to_string()
    }

    fn keep(&mut self) {
        self.kept = self.course.record().clone();
    }

    /// The agent is killed and started again.
    fn kill(&mut self) {
        self.course = ChangeCourse::new(self.kept.clone());
    }

    fn pass(&mut self, seconds: u64) {
        self.second += seconds;
        if matches!(self.has, Some((_, ActPhase::Waiting(_)))) && self.until <= self.second {
            self.has = None;
        }
    }

    fn state(&self) -> ActState {
        match self.has {
            None => ActState::AsBefore,
            Some((attempt, ActPhase::Waiting(_))) => {
                let left = Duration::from_secs(self.until - self.second);
                ActState::There { attempt, phase: ActPhase::Waiting(left) }
            }
            Some((attempt, phase)) => ActState::There { attempt, phase },
        }
    }

    /// One step. Whether there was one.
    fn step(&mut self, fault: Fault, is_killed: bool) -> bool {
        let now = at(self.second);
        match self.course.next(now) {
            CourseStep::Rest => return false,
            CourseStep::Look => {
                let found = if fault == Fault::Fails { refused() } else { Ok(self.state()) };
                let boot = self.boot();
                self.course.looked(found, &boot, now);
            }
            CourseStep::Begin(attempt) => {
                assert!(self.begun.insert(attempt), "attempt {attempt} is begun twice");
                let boot = self.boot();
                self.course.begin(attempt, &boot);
                self.keep();
                assert_eq!(self.has, None, "it is begun over another one");
                self.until = self.second + CONFIRM_S;
                let waiting = ActPhase::Waiting(Duration::ZERO);
                self.has = match fault {
                    Fault::None | Fault::Lies => Some((attempt, waiting)),
                    Fault::Fails => None,
                    Fault::Ends => Some((attempt, ActPhase::Interrupted)),
                };
                let said = if fault == Fault::None { Ok(BegunAct::Done) } else { refused() };
                if !is_killed {
                    self.course.has_begun(said);
                }
            }
            CourseStep::Keep(attempt) => {
                if let (Some((had, phase @ ActPhase::Waiting(_))), false) =
                    (&mut self.has, fault == Fault::Fails)
                    && *had == attempt
                {
                    *phase = ActPhase::Kept;
                }
                if !is_killed {
                    self.course.has_kept(if fault == Fault::None { Ok(()) } else { refused() }, now);
                }
            }
            CourseStep::GoBack(attempt) => {
                match fault {
                    Fault::None | Fault::Lies if self.has.is_some_and(|(had, _)| had == attempt) => {
                        self.has = None
                    }
                    Fault::Ends => {
                        self.has = self.has.map(|(had, _)| (had, ActPhase::Interrupted));
                    }
                    _ => {}
                }
                if !is_killed {
                    self.course.has_gone_back(if fault == Fault::None { Ok(()) } else { refused() }, now);
                }
            }
        }
        if is_killed {
            self.kill();
        }
        true
    }

    /// Steps without faults until nothing is to be done any more.
    fn settle(&mut self, hears: bool) {
        for _ in 0..200 {
            while self.step(Fault::None, false) {}
            if let Some(attempt) = self.course.waiting().filter(|_| hears) {
                let version = self.course.record().order.order.version;
                self.course.hear(attempt, version);
            }
            self.pass(5);
        }
    }

    #[track_caller]
    fn says(&self, expected: &HostWord) {
        assert_eq!(self.course.word().as_ref(), Some(expected));
    }
}

#[test]
fn whatever_happens_the_host_is_as_it_says_in_the_end_and_no_attempt_is_begun_twice() {
    for seed in 0..3000 {
        let (mut lot, mut host) = (Prng::new(seed), PlayedHost::new());
        let (mut version, mut attempt, mut told) = (1, 0, None);
        for _ in 0..60 {
            match lot.below(10) {
                0 => {
                    version += 1;
                    told = match told {
                        None => {
                            attempt += 1;
                            Some(attempt)
                        }
                        Some(_) => None,
                    };
                    assert_eq!(host.course.take(&order(version, told)), Ok(true), "seed {seed}");
                    host.keep();
                }
                // One that is out of date.
                1 if version > 1 => {
                    let old = order(version - 1, told.xor(Some(attempt)));
                    assert_eq!(host.course.take(&old), Ok(false), "seed {seed}");
                }
                2 => host.pass(lot.below(2 * CONFIRM_S)),
                3 if lot.below(3) == 0 => {
                    (host.has, host.boot) = (None, host.boot + 1);
                    host.kill();
                }
                3 => {
                    let heard = host.course.waiting();
                    heard.into_iter().for_each(|attempt| host.course.hear(attempt, version));
                }
                _ => {
                    let fault =
                        [Fault::None, Fault::None, Fault::None, Fault::Fails, Fault::Lies, Fault::Ends];
                    let fault = fault[lot.below(6) as usize];
                    host.step(fault, lot.below(6) == 0);
                }
            }
            // A full disk keeps what it has.
            if lot.below(4) > 0 {
                host.keep();
            }
        }
        // A controller says it in every turn.
        assert!(host.course.take(&order(version, told)).is_ok());
        host.settle(true);
        let word = host.course.word();
        match (told, host.has, &word) {
            (Some(told), Some((has, ActPhase::Kept)), Some(HostWord::Changed { attempt })) => {
                assert!(told == has && told == *attempt, "seed {seed}");
            }
            (_, None, Some(HostWord::AsBefore | HostWord::Lapsed { .. } | HostWord::Failed { .. })) => {}
            _ => panic!("seed {seed}: told {told:?}, has {:?}, says {word:?}", host.has),
        }
    }
}

/// A host that keeps attempt 1, and one that only tries it.
fn host_with(is_kept: bool) -> PlayedHost {
    let mut host = PlayedHost::new();
    assert_eq!(host.course.take(&order(2, Some(1))), Ok(true));
    (0..3).for_each(|_| assert!(host.step(Fault::None, false)));
    host.says(&HostWord::Trying { attempt: 1 });
    if is_kept {
        host.settle(true);
        host.says(&HostWord::Changed { attempt: 1 });
    }
    host.keep();
    host
}

#[test]
fn a_restart_of_the_host_takes_everything_back_and_begins_nothing_again() {
    for (is_kept, word) in [(true, HostWord::AsBefore), (false, HostWord::Lapsed { attempt: 1 })] {
        let mut host = host_with(is_kept);
        (host.has, host.boot) = (None, 1);
        host.kill();
        // Nothing is said before it is known.
        assert_eq!(host.course.word(), None);
        host.settle(true);
        host.says(&word);
        assert_eq!(host.course.take(&order(3, Some(2))), Ok(true));
        host.settle(true);
        host.says(&HostWord::Changed { attempt: 2 });
    }
}

#[test]
fn a_look_that_fails_is_no_trouble_of_a_host_that_keeps_a_change() {
    let mut host = host_with(true);
    host.pass(1000);
    assert!(host.step(Fault::Fails, false));
    host.says(&HostWord::Changed { attempt: 1 });
    host.kill();
    assert!(host.step(Fault::Fails, false));
    assert_eq!(host.course.word(), None, "it is not known");
    // Then it shall go back, and cannot.
    assert_eq!(host.course.take(&order(3, None)), Ok(true));
    let reason = "look how the host is: no space left on device".to_owned();
    host.says(&HostWord::Stuck { reason });
    host.settle(false);
    host.says(&HostWord::AsBefore);
}

#[test]
fn a_host_that_cannot_look_any_more_says_so_of_a_change_that_it_keeps() {
    for is_killed in [false, true] {
        let mut host = host_with(true);
        host.pass(1000);
        if is_killed {
            host.kill();
        }
        for _ in 1..BLIND_LOOKS_MAX {
            assert!(host.step(Fault::Fails, false));
            assert!(!matches!(host.course.word(), Some(HostWord::Stuck { .. })), "it may be busy");
            host.pass(PAUSE_MAX.as_secs());
        }
        assert!(host.step(Fault::Fails, false));
        host.says(&HostWord::Stuck { reason: "look how the host is: no space left on device".to_owned() });
        // When it can be looked at again, all is well.
        host.settle(true);
        host.says(&HostWord::Changed { attempt: 1 });
    }
}

#[test]
fn what_may_be_there_without_a_note_is_asked_unless_it_is_known_to_be_back() {
    let mut host = PlayedHost::new();
    assert_eq!(host.course.may_be_unnoted(), Some(0), "an agent with another folder may have begun it");
    // It is there, and cannot go back.
    let there = ActState::There { attempt: 0, phase: ActPhase::Interrupted };
    host.course.looked(Ok(there), "0", at(1));
    assert_eq!(host.course.next(at(1)), CourseStep::GoBack(0));
    host.course.has_gone_back(refused(), at(1));
    host.says(&HostWord::Stuck { reason: "no space left on device".to_owned() });
    // A person has put the one before back.
    host.settle(false);
    host.says(&HostWord::AsBefore);
    assert_eq!(host.course.may_be_unnoted(), None);
    assert_eq!(host.course.take(&order(2, Some(1))), Ok(true));
    host.settle(true);
    host.says(&HostWord::Changed { attempt: 1 });
    assert_eq!(host.course.may_be_unnoted(), Some(1));
}

#[test]
fn another_change_of_this_number_waits_until_the_first_one_is_taken_back() {
    let mut host = host_with(true);
    let mut other = order(1, Some(1));
    let HostAct::Tune { own, .. } = &mut other.act else { panic!("it is a tuning") };
    *own = "1".repeat(64).parse().expect("a digest");
    let error = host.course.take(&other).expect_err("something is there");
    assert!(error.contains("has to be taken back first"), "{error}");
    host.has = None;
    host.pass(1000);
    assert!(host.step(Fault::None, false));
    assert_eq!(host.course.take(&other), Ok(true), "though its version is lower");
}
