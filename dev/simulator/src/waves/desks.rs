//! Controllers of the world of changes, and the register that they share.

use fleet::waves::{ChangeEvent, ChangePlan, ChangeProgress, FleetChange, SignalSource};
use stdx::clock::Now;

use super::agents::ChangedHost;
use super::bug::WaveBug;
use super::resizing::{Generations, HostRoutes, ResizeDesk};

/// A host that has said nothing for so many seconds is passed on as silent.
const SILENT_S: u64 = 10;

/// What is decided, as the register has it.
#[derive(Clone, Debug)]
pub(super) struct ChangeRegister {
    pub(super) plan: ChangePlan,
    pub(super) progress: ChangeProgress,
    /// It answers nobody until then, in seconds.
    pub(super) away_until: u64,
    /// A write that did not follow the version before it: the version that was there, and the one that was written.
    pub(super) broken: Option<(u64, u64)>,
    /// Routes of a cluster that is resized.
    pub(super) generations: Generations,
}

impl ChangeRegister {
    /// True if it was taken.
    fn put(&mut self, progress: &ChangeProgress, bugs: &[WaveBug]) -> bool {
        let is_next = progress.version == self.progress.version + 1;
        let is_taken = is_next || bugs.contains(&WaveBug::CompareLeftOut);
        if is_taken {
            if !is_next {
                self.broken = Some((self.progress.version, progress.version));
            }
            self.progress = progress.clone();
        }
        is_taken
    }

    fn read(&self, bugs: &[WaveBug]) -> ChangeProgress {
        let mut progress = self.progress.clone();
        if bugs.contains(&WaveBug::StepsLost)
            && let Ok(mut value) = serde_json::to_value(&progress)
        {
            let told = value["told"].as_object_mut().into_iter().flat_map(|told| told.values_mut());
            told.for_each(|told| told[1] = 0.into());
            progress = serde_json::from_value(value).unwrap_or(progress);
        }
        progress
    }
}

/// Where a controller dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeathPoint {
    BeforeWrite,
    AfterWrite,
    Now,
}

/// A controller.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    change: Option<FleetChange>,
    /// It does not run until then, in seconds.
    down_until: u64,
    /// It hears no agent until then.
    pub(super) cut_until: u64,
    /// It does not reach the register until then.
    pub(super) unregistered_until: u64,
    pub(super) dies: Option<(DeathPoint, u64)>,
    /// Its clock is ahead by so many seconds.
    pub(super) ahead_s: u64,
    heard: Vec<u64>,
    pub(super) routes: ResizeDesk,
    /// What was asked of it, and not passed on yet.
    pub(super) asked: Vec<ChangeEvent>,
}

impl Desk {
    pub(super) fn new(hosts: usize, ahead_s: u64) -> Desk {
        Desk {
            change: None,
            down_until: 0,
            cut_until: 0,
            unregistered_until: 0,
            dies: None,
            ahead_s,
            heard: vec![0; hosts],
            routes: ResizeDesk::new(hosts),
            asked: Vec::new(),
        }
    }

    pub(super) fn is_reachable(&self, now: u64) -> bool {
        self.change.is_some() && now >= self.cut_until
    }

    pub(super) fn change(&self) -> Option<&FleetChange> {
        self.change.as_ref()
    }

    pub(super) fn clock(&self, now: u64) -> Now {
        Now::at_ms((now + self.ahead_s) * 1000)
    }

    /// What a host has said to it or to another controller.
    pub(super) fn hear(
        &mut self,
        number: usize,
        (events, routes): (&[ChangeEvent], HostRoutes),
        now: u64,
        bugs: &[WaveBug],
    ) {
        if now < self.cut_until {
            return;
        }
        self.routes.hear(number, routes, bugs);
        let clock = self.clock(now);
        self.heard[number] = now;
        if let Some(change) = &mut self.change {
            events.iter().for_each(|event| change.note(event.clone(), clock));
        }
    }

    /// It hears agents and reaches the register, as far as that depends on it.
    pub(super) fn is_well(&self, now: u64) -> bool {
        self.is_reachable(now) && now >= self.unregistered_until
    }

    fn die(&mut self, now: u64, for_s: u64) {
        (self.change, self.dies, self.down_until) = (None, None, now + for_s);
        self.asked.clear();
    }

    /// One second.
    pub(super) fn tick(
        &mut self,
        now: u64,
        is_told: bool,
        register: &mut ChangeRegister,
        hosts: &[ChangedHost],
        bugs: &[WaveBug],
    ) {
        if let Some((DeathPoint::Now, for_s)) = self.dies {
            self.die(now, for_s);
        }
        let has_register = now >= register.away_until && now >= self.unregistered_until;
        let clock = self.clock(now);
        let is_new = self.change.is_none();
        if is_new {
            if now < self.down_until || !has_register {
                return;
            }
            let mut progress = register.read(bugs);
            if bugs.contains(&WaveBug::ControllerForgets) && progress.version > 0 {
                let version = std::mem::take(&mut progress).version;
                progress.version = version;
            }
            self.change = Some(FleetChange::resume(register.plan.clone(), progress, clock));
            self.heard = vec![now; hosts.len()];
            self.routes = ResizeDesk::new(hosts.len());
            self.routes.read_register(&register.generations);
        }
        let Some(change) = &mut self.change else { return };
        if is_told && has_register && register.progress.version > change.version() {
            change.adopt(register.read(bugs));
        }
        if is_told && has_register {
            self.routes.read_register(&register.generations);
        }
        for (number, (host, heard)) in hosts.iter().zip(&self.heard).enumerate() {
            if is_told || is_new {
                standing(host, bugs).into_iter().for_each(|event| change.note(event, clock));
            }
            if *heard + SILENT_S < now {
                self.routes.miss(number, bugs);
            }
            if host.has_left && (is_told || is_new) {
                self.routes.leave(number);
            }
            if *heard + SILENT_S < now && !bugs.contains(&WaveBug::SilenceHidden) {
                let since = Now::at_ms((heard + self.ahead_s) * 1000);
                change.note(ChangeEvent::Silent { host: host.host.clone(), since }, clock);
                if bugs.contains(&WaveBug::AwayIsAsBefore) {
                    let word = fleet::waves::HostWord::AsBefore;
                    change.note(ChangeEvent::Said { host: host.host.clone(), word }, clock);
                }
            }
        }
        self.routes.tick(clock, has_register, &mut register.generations);
        for event in self.asked.drain(..) {
            let is_signal = matches!(
                event,
                ChangeEvent::Signal { from: SignalSource::Guard | SignalSource::Objective, .. }
            );
            if !(is_signal && bugs.contains(&WaveBug::SignalsHidden)) {
                change.note(event, clock);
            }
        }
        change.on(ChangeEvent::Tick, clock);
        let Some(next) = change.to_write().cloned() else { return };
        if bugs.contains(&WaveBug::ToldBeforeWritten) {
            change.written(next.version);
        }
        if let Some((DeathPoint::BeforeWrite, for_s)) = self.dies {
            // The write may have been on its way for some seconds.
            if !bugs.contains(&WaveBug::ToldBeforeWritten) || now.is_multiple_of(7) {
                self.die(now, for_s);
            }
            return;
        }
        if !has_register {
            return;
        }
        let is_taken = register.put(&next, bugs);
        if let (true, Some((DeathPoint::AfterWrite, for_s))) = (is_taken, self.dies) {
            self.die(now, for_s);
        } else if is_taken {
            change.written(next.version);
        } else {
            change.adopt(register.read(bugs));
        }
    }
}

/// What controllers know of a host from elsewhere.
fn standing(host: &ChangedHost, bugs: &[WaveBug]) -> Vec<ChangeEvent> {
    let name = || host.host.clone();
    let mut events = Vec::new();
    if !bugs.contains(&WaveBug::FrozenIgnored) {
        let is_frozen = host.frozen_since.is_some();
        events.push(if is_frozen {
            ChangeEvent::Frozen { host: name() }
        } else {
            ChangeEvent::Thawed { host: name() }
        });
    }
    if host.faults.plan_differs {
        events.push(ChangeEvent::PlanDiffers { host: name() });
    }
    if host.is_aside {
        events.push(ChangeEvent::SteppedAside { host: name(), reason: "irqbalance is running".to_owned() });
    }
    if host.has_left {
        events.push(ChangeEvent::Left { host: name() });
    }
    events
}
