//! Invariants of changes of hosts, checked in every second from what hosts really have.

use std::collections::{BTreeMap, BTreeSet};

use fleet::HostId;
use fleet::waves::{ChangeProgress, ChangeState, FleetChange};
use stdx::clock::Now;

use super::agents::{ChangedHost, HasChange};
use super::shape::HOSTS;
use super::world::{SIGNAL_S, WaveViolation, WaveWorld, is_half};

/// A word is passed on within so many seconds, and a host that is not heard for ten seconds is passed on as silent.
const NEWS_S: u64 = 30;
/// Freezing reaches all controllers within so many seconds, and what they have decided before is written.
const FREEZE_S: u64 = 12;

/// What was seen of a run.
pub(super) struct WaveChecker {
    /// What the register had last.
    seen: ChangeProgress,
    /// A reader of the register, which hears nobody.
    reader: FleetChange,
    /// Attempts that the register has had, of each host, and when they came.
    told: BTreeMap<(HostId, u32), u64>,
    /// The step in which a host was told last, and whether it shall have the change.
    steps: BTreeMap<HostId, (u32, bool)>,
    /// What hosts had in the second before.
    before: Vec<HasChange>,
    signalled: Option<u64>,
}

impl WaveChecker {
    pub(super) fn new(world: &WaveWorld) -> WaveChecker {
        let reader = FleetChange::begin(world.register.plan.clone(), Now::default());
        let (told, steps, before) = (BTreeMap::new(), BTreeMap::new(), vec![HasChange::AsBefore; HOSTS]);
        WaveChecker { seen: ChangeProgress::default(), reader, told, steps, before, signalled: None }
    }

    /// The state of the change as a word.
    pub(super) fn end(&self) -> &'static str {
        self.reader.state().word()
    }

    pub(super) fn check(&mut self, world: &WaveWorld) -> Option<WaveViolation> {
        let found = self
            .check_register(world)
            .or_else(|| self.check_counted(world))
            .or_else(|| self.check_begun(world))
            .or_else(|| check_harm(world))
            .or_else(|| check_loss(world))
            .or_else(|| check_second(world));
        self.before = world.hosts.iter().map(|host| host.has).collect();
        found
    }

    /// W1: decisions form one chain. W4: in an undo, steps go back from the last to the first.
    fn check_register(&mut self, world: &WaveWorld) -> Option<WaveViolation> {
        let progress = &world.register.progress;
        if *progress == self.seen {
            return None;
        }
        // Several controllers may write in one second, each one version more.
        if progress.version <= self.seen.version {
            let words =
                format!("version {} was written over version {}", progress.version, self.seen.version);
            return Some(violation(world, "W1", words));
        }
        self.seen = progress.clone();
        self.reader = FleetChange::resume(world.register.plan.clone(), progress.clone(), Now::default());
        let told: Vec<(HostId, u32, Option<u32>)> =
            self.reader.told().map(|(host, step, attempt)| (host.clone(), step, attempt)).collect();
        for (host, _, attempt) in &told {
            if let Some(attempt) = attempt {
                self.told.entry((host.clone(), *attempt)).or_insert(world.now);
            }
        }
        if self.reader.state() == ChangeState::Done
            && self.signalled.is_some_and(|at| at + 2 * SIGNAL_S < world.now)
        {
            return Some(violation(world, "W10", "a signal against the change has not halted it".to_owned()));
        }
        if matches!(self.reader.state(), ChangeState::Undone(_)) {
            let found = self.check_end(world);
            if found.is_some() {
                return found;
            }
        }
        let is_undoing = matches!(self.reader.state(), ChangeState::Undoing { .. });
        let found = if is_undoing { self.check_order(world, &told) } else { None };
        for (host, step, attempt) in told {
            let entry = self.steps.entry(host).or_insert((step, false));
            // The steps are remembered as they were when hosts were told.
            *entry = (if attempt.is_some() && !is_undoing { step } else { entry.0 }, attempt.is_some());
        }
        found
    }

    fn check_order(&self, world: &WaveWorld, told: &[(HostId, u32, Option<u32>)]) -> Option<WaveViolation> {
        let step = |host: &HostId| self.steps.get(host).map_or(0, |(step, _)| *step);
        let newly = told.iter().filter(|(host, _, attempt)| {
            attempt.is_none() && self.steps.get(host).is_some_and(|(_, was_on)| *was_on)
        });
        let first = newly.map(|(host, ..)| step(host)).min()?;
        let late = told.iter().find(|(host, _, attempt)| attempt.is_some() && step(host) > first);
        late.map(|(host, ..)| {
            let words = format!("a host of step {first} goes back before {host} of step {}", step(host));
            violation(world, "W4", words)
        })
    }

    /// W2: who is counted as changed has the change.
    fn check_counted(&self, world: &WaveWorld) -> Option<WaveViolation> {
        let hosts: BTreeMap<&HostId, &ChangedHost> =
            world.hosts.iter().map(|host| (&host.host, host)).collect();
        let changes = world.desks.iter().filter_map(|desk| desk.change());
        let mut counted = changes.flat_map(FleetChange::changed).filter_map(|host| hosts.get(host));
        let wrong = counted
            .find(|host| !matches!(host.has, HasChange::Kept { .. }) && host.since + NEWS_S < world.now);
        wrong.map(|host| {
            violation(world, "W2", format!("{} is counted as changed, and has {:?}", host.host, host.has))
        })
    }

    /// W3: no host begins that the register has not told. W5: no frozen host is told. W6: where something restarts, one host of a
    /// cluster begins at a time.
    fn check_begun(&self, world: &WaveWorld) -> Option<WaveViolation> {
        let mut begun = BTreeSet::new();
        for (number, host) in world.hosts.iter().enumerate() {
            let HasChange::Trying { attempt, .. } = host.has else { continue };
            if self.before[number] == host.has {
                continue;
            }
            let Some(told) = self.told.get(&(host.host.clone(), attempt)) else {
                let words =
                    format!("{} begins attempt {attempt}, which the register does not have", host.host);
                return Some(violation(world, "W3", words));
            };
            if host.frozen_since.is_some_and(|since| since + FREEZE_S < *told) {
                return Some(violation(world, "W5", format!("{} is told while it is frozen", host.host)));
            }
            begun.insert(host.cluster);
        }
        let is_twice = |cluster: &&usize| {
            let under_way = world.hosts.iter().filter(|host| host.cluster == **cluster && is_half(host));
            under_way.count() > 1
        };
        let twice = begun.iter().find(is_twice).filter(|_| world.shape.restarts);
        twice.map(|cluster| violation(world, "W6", format!("two hosts of cluster {cluster} restart at once")))
    }

    /// W7: at the end no host is left half done. Done: all have the change that are not left out; undone: none has it.
    pub(super) fn check_end(&self, world: &WaveWorld) -> Option<WaveViolation> {
        let state = self.reader.state();
        let wrong = |host: &&ChangedHost| match state {
            ChangeState::Undone(_) => host.has_it() && !host.has_left,
            _ => is_half(host) && !host.has_left,
        };
        let wrong = world.hosts.iter().find(wrong);
        if let Some(host) = wrong {
            let words = format!("the change is {}, and {} has {:?}", state.word(), host.host, host.has);
            return Some(violation(world, "W7", words));
        }
        None
    }

    /// A signal came while the change was on its way.
    pub(super) fn signal(&mut self, at: u64) {
        if matches!(self.reader.state(), ChangeState::Going { .. }) {
            self.signalled.get_or_insert(at);
        }
    }
}

/// W9: a change that harms a class reaches its canaries only, which are at most every second of its hosts.
fn check_harm(world: &WaveWorld) -> Option<WaveViolation> {
    let harmed = world.shape.harmed_class?;
    let of_class = || world.hosts.iter().filter(|host| host.class == harmed);
    let (all, reached) = (of_class().count(), of_class().filter(|host| host.has_it()).count());
    (reached > all / 2).then(|| {
        violation(world, "W9", format!("{reached} of {all} hosts of the class that it harms have the change"))
    })
}

/// W12: a version that loses items is stopped by the first hosts, which get it at the same time: one of each cluster. A person who lets it go
/// on excuses these.
fn check_loss(world: &WaveWorld) -> Option<WaveViolation> {
    let lost = world.hosts.iter().filter(|host| host.has_lost_items);
    let mut of_clusters = [0usize; HOSTS];
    lost.for_each(|host| of_clusters[host.cluster] += 1);
    let most = of_clusters.iter().position(|count| *count > 1 + world.resumed)?;
    let words = format!("{} hosts of cluster {most} have lost their items", of_clusters[most]);
    Some(violation(world, "W12", words))
}

/// W11: a host belongs to one change at a time.
fn check_second(world: &WaveWorld) -> Option<WaveViolation> {
    let is_going = !world.register.progress.is_over();
    world.second.as_ref().filter(|_| is_going).map(|second| {
        violation(world, "W11", format!("the change {} has begun over hosts of the change 1", second.number))
    })
}

fn violation(world: &WaveWorld, invariant: &'static str, words: String) -> WaveViolation {
    WaveViolation { invariant, words, at_s: world.now }
}
