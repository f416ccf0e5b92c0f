//! Invariants of changes of hosts, checked in every second from what hosts really have.

use std::collections::{BTreeMap, BTreeSet};

use fleet::HostId;
use fleet::waves::{ChangeProgress, ChangeState, FleetChange};
use stdx::clock::Now;

use super::agents::{ChangedHost, HasChange};
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
    places: BTreeMap<HostId, usize>,
    /// The last second in which a controller or the register was not well.
    ill: u64,
    signalled: Option<u64>,
}

impl WaveChecker {
    pub(super) fn new(world: &WaveWorld) -> WaveChecker {
        let reader = FleetChange::begin(world.register.plan.clone(), Now::default());
        let places = world.hosts.iter().enumerate().map(|(place, host)| (host.host.clone(), place)).collect();
        WaveChecker {
            seen: ChangeProgress::default(),
            reader,
            told: BTreeMap::new(),
            steps: BTreeMap::new(),
            before: vec![HasChange::AsBefore; world.hosts.len()],
            places,
            ill: 0,
            signalled: None,
        }
    }

    /// The state of the change as a word.
    pub(super) fn end(&self) -> &'static str {
        self.reader.state().word()
    }

    pub(super) fn check(&mut self, world: &WaveWorld) -> Option<WaveViolation> {
        if world.desks.iter().any(|desk| !desk.is_well(world.now)) || world.now < world.register.away_until {
            self.ill = world.now;
        }
        let found = self
            .check_register(world)
            .or_else(|| self.check_counted(world))
            .or_else(|| self.check_begun(world))
            .or_else(|| check_harm(world))
            .or_else(|| check_loss(world))
            .or_else(|| check_second(world))
            .or_else(|| {
                let routes = world.register.generations.check(&world.hosts);
                routes.err().map(|(invariant, words)| violation(world, invariant, words))
            });
        self.before = world.hosts.iter().map(|host| host.has).collect();
        found
    }

    /// W1: decisions form one chain. W4: in an undo, steps go back from the last to the first.
    fn check_register(&mut self, world: &WaveWorld) -> Option<WaveViolation> {
        let progress = &world.register.progress;
        if *progress == self.seen {
            return None;
        }
        if let Some((before, after)) = world.register.broken {
            return Some(violation(
                world,
                "W1",
                format!("version {after} was written over version {before}"),
            ));
        }
        // Several controllers may write in one second: an undo, and before it that a host could not apply the change.
        let is_one_decision = progress.version == self.seen.version + 1;
        self.seen = progress.clone();
        self.reader = FleetChange::resume(world.register.plan.clone(), progress.clone(), Now::default());
        let told: Vec<(HostId, u32, Option<u32>)> =
            self.reader.told().map(|(host, step, attempt)| (host.clone(), step, attempt)).collect();
        for (host, step, attempt) in &told {
            let Some(attempt) = attempt else { continue };
            let key = (host.clone(), *attempt);
            if self.told.contains_key(&key) {
                continue;
            }
            self.told.insert(key, world.now);
            // The steps are remembered as they were when hosts were told.
            self.steps.insert(host.clone(), (*step, false));
            if let Some(found) = self.check_heard(world, host) {
                return Some(found);
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
        let found = if is_undoing && is_one_decision { self.check_order(world, &told) } else { None };
        for (host, step, attempt) in told {
            self.steps.entry(host).or_insert((step, false)).1 = attempt.is_some();
        }
        found
    }

    /// W13: nobody is told that is not heard from.
    fn check_heard(&self, world: &WaveWorld, host: &HostId) -> Option<WaveViolation> {
        let heard = world.hosts[self.places[host]].heard;
        // What was decided before may be written later.
        let is_late = heard.max(self.ill) + NEWS_S < world.now;
        is_late.then(|| {
            violation(world, "W13", format!("{host} is told, which was heard in second {heard} last"))
        })
    }

    fn check_order(&self, world: &WaveWorld, told: &[(HostId, u32, Option<u32>)]) -> Option<WaveViolation> {
        let step = |host: &HostId| self.steps.get(host).map_or(0, |(step, _)| *step);
        let newly = told.iter().filter(|(host, _, attempt)| {
            attempt.is_none() && self.steps.get(host).is_some_and(|(_, was_on)| *was_on)
        });
        let newly: BTreeSet<u32> = newly.map(|(host, ..)| step(host)).collect();
        let (first, last) = (*newly.first()?, *newly.last()?);
        if first != last {
            let words = format!("hosts of step {first} go back at once with hosts of step {last}");
            return Some(violation(world, "W4", words));
        }
        let late = told.iter().find(|(host, _, attempt)| attempt.is_some() && step(host) > first);
        late.map(|(host, ..)| {
            let words = format!("a host of step {first} goes back before {host} of step {}", step(host));
            violation(world, "W4", words)
        })
    }

    /// W2: who is counted as changed has the change, and is heard.
    fn check_counted(&self, world: &WaveWorld) -> Option<WaveViolation> {
        let changes = world.desks.iter().filter_map(|desk| desk.change());
        let counted = changes.flat_map(FleetChange::changed).map(|host| &world.hosts[self.places[host]]);
        for host in counted {
            let name = &host.host;
            if !matches!(host.has, HasChange::Kept { .. }) && host.since + NEWS_S < world.now {
                let words = format!("{name} is counted as changed, and has {:?}", host.has);
                return Some(violation(world, "W2", words));
            }
            if host.heard + NEWS_S < world.now {
                let words =
                    format!("{name} is counted as changed, and was heard in second {} last", host.heard);
                return Some(violation(world, "W2", words));
            }
        }
        None
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

/// W9: a change that harms a class reaches its canaries only, which are at most every second of its hosts. A person who lets it go on
/// excuses the others.
fn check_harm(world: &WaveWorld) -> Option<WaveViolation> {
    let harmed = world.shape.harmed_class.filter(|_| world.resumed == 0)?;
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
    let mut of_clusters = vec![0usize; world.hosts.len()];
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
