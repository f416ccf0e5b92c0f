//! A cluster that grows and shrinks back while a change goes through the hosts. Phases follow each other as in `control`: the
//! generation says which it is, the machine of `fleet::drain` says when the next one may begin.

use std::collections::{BTreeMap, BTreeSet};

use fleet::drain::{Drain, DrainEvent, DrainPhase, DrainSettings, DrainState};
use fleet::{ClusterRecord, FleetContent, HostId, RouterId, SlotRecord};
use stdx::clock::Now;

use super::agents::ChangedHost;
use super::bug::WaveBug;

/// No time ends a phase for a router that has not loaded it.
const NO_FENCE_MS: u64 = u64::MAX;
const WARM_UP_S: u32 = 60;
/// When the cluster is to grow; it shrinks back as soon as it has grown.
const GROWS_S: u64 = 120;

/// Slots before and after the growth.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResizeSizes {
    pub(super) slots: usize,
    pub(super) grown: usize,
    /// On each host.
    pub(super) routers: usize,
}

/// Generations, of which the last one is in force. A number is a place in the list and one.
#[derive(Clone, Debug)]
pub(super) struct Generations {
    sizes: ResizeSizes,
    all: Vec<FleetContent>,
    /// Resizes that are done.
    pub(super) done: usize,
}

/// What a host has of a resize, as it says itself; nothing of one that has not been heard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HostRoutes {
    /// The generation that its routers have loaded.
    pub(super) loaded: usize,
    /// The newest generation for which its member was emptied or swept.
    pub(super) cleaned: usize,
}

/// What a controller knows of a resize.
#[derive(Clone, Debug)]
pub(super) struct ResizeDesk {
    read: usize,
    /// What each host has said.
    said: Vec<HostRoutes>,
    has_left: Vec<bool>,
    machine: Option<(usize, Drain)>,
}

impl Generations {
    pub(super) fn new(sizes: ResizeSizes, hosts: &[HostId]) -> Generations {
        let views = Vec::new();
        let first = FleetContent { clusters: vec![cluster(sizes.slots, hosts)], views };
        Generations { sizes, all: vec![first], done: 0 }
    }

    /// The number of the newest.
    pub(super) fn newest(&self) -> usize {
        self.all.len()
    }

    fn content(&self, number: usize) -> &FleetContent {
        &self.all[number - 1]
    }

    /// Nothing is wanted any more.
    pub(super) fn is_over(&self) -> bool {
        self.done == 2
    }

    /// The layout that routers with this generation read, and those that get their deletes.
    fn owners(&self, number: usize) -> (usize, BTreeSet<usize>) {
        let cluster = &self.content(number).clusters[0];
        let deleted = match &cluster.resize {
            Some(resize) => [resize.from, resize.to].into(),
            None => [cluster.slots.len()].into(),
        };
        (cluster.read_slots().len(), deleted)
    }

    /// An operator begins the next resize, if it is time and none is on its way.
    pub(super) fn begin(&mut self, now: u64, hosts: &[HostId]) {
        let current = &self.all[self.all.len() - 1];
        if now < GROWS_S || self.is_over() || current.resizing().is_some() {
            return;
        }
        let slots = if self.done == 0 { self.sizes.grown } else { self.sizes.slots };
        self.all.push(current.clone().with_resize(&cluster(slots, hosts), WARM_UP_S));
    }

    /// W14: what one router reads gets the deletes of every other one. W15: members that get keys have none from before when they are read.
    pub(super) fn check(&self, hosts: &[ChangedHost]) -> Result<(), (&'static str, String)> {
        let loaded: BTreeSet<usize> =
            hosts.iter().filter(|host| !host.has_left).map(|host| host.routes.loaded).collect();
        let owners: Vec<_> = loaded.iter().map(|number| (number, self.owners(*number))).collect();
        for (number, (_, deleted)) in &owners {
            if let Some((other, (read, _))) = owners.iter().find(|(_, (read, _))| !deleted.contains(read)) {
                let words = format!(
                    "routers with generation {other} read {read} slots, and those with {number} do not delete there"
                );
                return Err(("W14", words));
            }
        }
        let Some(last) = loaded.last().copied() else { return Ok(()) };
        let Some((cluster, resize)) = self.content(last).resizing() else { return Ok(()) };
        if resize.phase == DrainPhase::ReadOld {
            return Ok(());
        }
        let began = (1..=last).rev().find(|number| {
            self.content(*number).resizing().is_some_and(|(_, resize)| resize.phase == DrainPhase::ReadOld)
        });
        let dirty =
            gaining(cluster).find(|slot| !hosts[*slot].has_left && Some(hosts[*slot].routes.cleaned) < began);
        match dirty {
            Some(slot) => Err(("W15", format!("the member of slot {slot} is read and has keys from before"))),
            None => Ok(()),
        }
    }

    /// A host that a resize waits for has left the fleet for good: another member would take its slot, which is not played here.
    pub(super) fn is_excused(&self, hosts: &[ChangedHost]) -> bool {
        hosts[..self.sizes.grown].iter().any(|host| host.has_left)
    }
}

impl ResizeDesk {
    pub(super) fn new(hosts: usize) -> ResizeDesk {
        let said = vec![HostRoutes::default(); hosts];
        ResizeDesk { read: 1, said, has_left: vec![false; hosts], machine: None }
    }

    /// What it tells routers to load.
    pub(super) fn read(&self) -> usize {
        self.read
    }

    /// The members that are emptied or swept now, by their slots.
    pub(super) fn cleaning(&self, generations: &Generations) -> std::ops::Range<usize> {
        match generations.content(self.read).resizing() {
            Some((cluster, resize)) if resize.phase == DrainPhase::ReadOld => gaining(cluster),
            _ => 0..0,
        }
    }

    pub(super) fn hear(&mut self, host: usize, routes: HostRoutes, bugs: &[WaveBug]) {
        let cleaned = if bugs.contains(&WaveBug::SweepAssumed) { self.read } else { routes.cleaned };
        self.said[host] = HostRoutes { cleaned, ..routes };
    }

    /// A host is not heard from.
    pub(super) fn miss(&mut self, host: usize, bugs: &[WaveBug]) {
        if bugs.contains(&WaveBug::SilentRouterCounted) {
            self.said[host].loaded = self.read;
        }
    }

    /// A host and its routers are gone.
    pub(super) fn leave(&mut self, host: usize) {
        self.has_left[host] = true;
    }

    /// Hears of generations that others have published.
    pub(super) fn read_register(&mut self, generations: &Generations) {
        self.read = generations.newest();
    }

    /// One second: the next generation, if the phase may end.
    pub(super) fn tick(&mut self, clock: Now, may_write: bool, generations: &mut Generations) {
        let Some((cluster, resize)) = generations.content(self.read).resizing() else {
            self.machine = None;
            return;
        };
        let (read, routers) = (self.read, generations.sizes.routers);
        if self.machine.as_ref().is_none_or(|(since, _)| *since != read) {
            let all =
                (0..self.said.len()).flat_map(|host| (0..routers).map(move |router| router_id(host, router)));
            let settings =
                DrainSettings { fence_ms: NO_FENCE_MS, warm_up_ms: u64::from(resize.warm_up_s) * 1000 };
            self.machine = Some((read, Drain::resume(all, resize.phase, settings, clock)));
        }
        let Some((_, machine)) = &mut self.machine else { return };
        let mut events = vec![DrainEvent::Tick];
        for (host, said) in self.said.iter().enumerate() {
            let of_host = (0..routers).map(|router| router_id(host, router));
            if self.has_left[host] {
                events.extend(of_host.map(|router| DrainEvent::Left { router }));
            } else if said.loaded >= read {
                events.extend(of_host.map(|router| DrainEvent::Acknowledged { router, phase: resize.phase }));
            }
        }
        machine.on_all(events, clock);
        let next = match (machine.state(), resize.phase) {
            (DrainState::Routers(next), phase) if next > phase => Some(next),
            (DrainState::Routers(_), _) => return,
            (DrainState::Retiring | DrainState::Done, DrainPhase::NewOnly) => None,
            (DrainState::Retiring | DrainState::Done | DrainState::Fencing, _) => Some(DrainPhase::NewOnly),
        };
        let is_clean = resize.phase != DrainPhase::ReadOld
            || gaining(cluster).all(|slot| self.said[slot].cleaned >= read);
        if !is_clean || !may_write || generations.newest() != read {
            return;
        }
        let content = generations.content(read).clone();
        generations.all.push(match next {
            Some(next) => content.in_resize_phase(next),
            None => content.with_resize_done(),
        });
        generations.done += usize::from(next.is_none());
        self.read = generations.newest();
    }
}

/// Slots whose members get keys.
fn gaining(cluster: &ClusterRecord) -> std::ops::Range<usize> {
    let Some(resize) = &cluster.resize else { return 0..0 };
    if resize.grows() { resize.from..resize.to } else { 0..resize.to }
}

fn router_id(host: usize, router: usize) -> RouterId {
    let text = format!("r{host:05}-{router}");
    text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"))
}

fn cluster(slots: usize, hosts: &[HostId]) -> ClusterRecord {
    let name = |text: &str| text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"));
    let slot = |(number, host): (usize, &HostId)| SlotRecord {
        id: format!("s{number}").parse().unwrap_or_else(|error| unreachable!("{error}")),
        member: host.as_str().parse().unwrap_or_else(|error| unreachable!("{error}")),
        address: format!("{host}:11211"),
        is_cold: false,
        drain: None,
    };
    ClusterRecord {
        name: name("c0"),
        pool: BTreeMap::new(),
        gutter: None,
        warm_up: None,
        shadow: None,
        resize: None,
        slots: hosts.iter().take(slots).enumerate().map(slot).collect(),
    }
}
