//! The world of changes: hosts with agents, three controllers, a register, and faults. It goes on in seconds.

use std::collections::BTreeSet;

use fleet::HostId;
use fleet::waves::{ChangeEvent, ChangePlan, ChangeProgress, HostWord, SignalSource};
use stdx::prng::{Prng, mix};

use super::agents::{ChangedHost, ChangedTo, HasChange};
use super::bug::WaveBug;
use super::checker::WaveChecker;
use super::desks::{ChangeRegister, Desk};
use super::faults::{FIRST_FAULT_S, WaveFault, script};
use super::noise::{Noise, PlantedEffect};
use super::resizing::{Generations, HostRoutes};
use super::shape::{CONFIRM_S, CONTROLLERS, WaveShape, zone};

/// The longest time for which something is away.
const FAULT_S_MAX: u64 = 300;
/// A controller hears of what others have decided once in so many seconds.
const WATCH_S: u64 = 3;
/// A signal against the change lasts so many seconds.
pub(super) const SIGNAL_S: u64 = 120;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveViolation {
    /// Its name.
    pub invariant: &'static str,
    /// In words.
    pub words: String,
    /// When, in seconds.
    pub at_s: u64,
}

/// What became of one seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaveRun {
    /// The invariant that broke.
    pub violation: Option<WaveViolation>,
    /// The state of the change at the end, as a word.
    pub end: &'static str,
    /// Decisions that were written.
    pub writes: u64,
    /// Most hosts that had the change at one time.
    pub reached: usize,
    /// Resizes of a cluster that were done meanwhile.
    pub resizes: usize,
    /// Seconds until the end.
    pub took_s: u64,
}

pub(super) struct WaveWorld<'b> {
    pub(super) shape: WaveShape,
    bugs: &'b [WaveBug],
    pub(super) hosts: Vec<ChangedHost>,
    pub(super) desks: Vec<Desk>,
    pub(super) register: ChangeRegister,
    /// A second change that was begun over the same hosts.
    pub(super) second: Option<ChangePlan>,
    reached: usize,
    /// Times that a person has let it go on.
    pub(super) resumed: usize,
    /// Words that reach the other controllers in the next second.
    passed_on: Vec<(usize, usize, Vec<ChangeEvent>, HostRoutes)>,
    prng: Prng,
    noise: Noise,
    /// What speaks against the change, and until when: controllers hear it again and again.
    signal: Option<(SignalSource, u64)>,
    pub(super) now: u64,
}

/// Plays a seed until its end, or until an invariant breaks.
pub fn play_waves(seed: u64, bugs: &[WaveBug]) -> WaveRun {
    play(seed, WaveShape::draw(seed), bugs)
}

/// Plays a tuning with the usual times and noise, of so many hosts, with faults.
pub fn play_many(seed: u64, hosts: usize, effect: PlantedEffect) -> WaveRun {
    play(seed, WaveShape::of_many(hosts, effect), &[])
}

fn play(seed: u64, shape: WaveShape, bugs: &[WaveBug]) -> WaveRun {
    let plan = shape.plan(1, 0, &[], bugs).unwrap_or_else(|error| unreachable!("{error}"));
    let changes_to = match (shape.loses_items, bugs.contains(&WaveBug::LossUnseen)) {
        (false, _) => ChangedTo::Sound,
        (true, false) => ChangedTo::LosesItems,
        (true, true) => ChangedTo::LosesItemsUnseen,
    };
    let host = |number: usize| {
        let name = plan.hosts[number].host.clone();
        let kind = (shape.size.cluster(number), shape.size.class(number));
        ChangedHost::new(name, kind, number % CONTROLLERS, changes_to)
    };
    let hosts = shape.size.hosts;
    let names: Vec<HostId> = plan.hosts.iter().map(|host| host.host.clone()).collect();
    let generations = Generations::new(shape.resize, &names);
    let mut world = WaveWorld {
        hosts: (0..hosts).map(host).collect(),
        desks: (0..CONTROLLERS).map(|number| Desk::new(hosts, number as u64 * 300)).collect(),
        register: ChangeRegister {
            plan,
            progress: ChangeProgress::default(),
            away_until: 0,
            broken: None,
            generations,
        },
        second: None,
        resumed: 0,
        reached: 0,
        passed_on: Vec::new(),
        prng: Prng::new(seed),
        noise: Noise::new(mix(seed), shape.sigma),
        signal: None,
        now: 0,
        shape,
        bugs,
    };
    let mut checker = WaveChecker::new(&world);
    let mut faults = script(seed, &world.shape).into_iter().peekable();
    let last_fault = world.last_fault_s();
    while world.now < world.shape.length_s {
        world.now += 1;
        while let Some((_, fault)) = faults.next_if(|(at, _)| *at <= world.now) {
            if matches!(fault, WaveFault::Signal(_)) {
                checker.signal(world.now);
            }
            world.disturb(&fault);
        }
        world.second();
        world.reached = world.reached.max(world.hosts.iter().filter(|host| host.has_it()).count());
        let found = checker.check(&world);
        let is_over = world.register.progress.is_over() && world.now > last_fault && world.is_resized();
        let found = if is_over { found.or_else(|| checker.check_end(&world)) } else { found };
        if found.is_some() || is_over {
            return world.run(found, &checker);
        }
    }
    let resizes = world.register.generations.done;
    let words =
        format!("the change has not come to an end: {}; resizes that have: {resizes} of 2", checker.end());
    let found = WaveViolation { invariant: "W8", words, at_s: world.now };
    world.run(Some(found), &checker)
}

impl WaveWorld<'_> {
    fn run(&self, violation: Option<WaveViolation>, checker: &WaveChecker) -> WaveRun {
        WaveRun {
            violation,
            end: checker.end(),
            writes: self.register.progress.version,
            reached: self.reached,
            resizes: self.register.generations.done,
            took_s: self.now,
        }
    }

    /// The cluster has grown and shrunk back, if it can.
    fn is_resized(&self) -> bool {
        let generations = &self.register.generations;
        generations.is_over() || generations.is_excused(&self.hosts)
    }

    /// A change that is done is not taken back after another one has begun on its hosts.
    fn may_be_undone(&self) -> bool {
        self.second.is_none() || !self.register.progress.is_over()
    }

    /// All faults are over then.
    fn last_fault_s(&self) -> u64 {
        FIRST_FAULT_S + self.shape.faults.length_s + FAULT_S_MAX
    }

    fn disturb(&mut self, fault: &WaveFault) {
        let now = self.now;
        let ask = |desks: &mut Vec<Desk>, event: ChangeEvent| {
            // One controller is asked, which passes it on as long as it lives.
            let desk = desks.iter_mut().find(|desk| desk.is_reachable(now));
            desk.into_iter().for_each(|desk| desk.asked.push(event.clone()));
        };
        match fault {
            WaveFault::HostReboots { host, for_s, loses_it } => {
                self.hosts[*host].reboot(now, *for_s, *loses_it)
            }
            WaveFault::HostIsDeaf { host, for_s } => self.hosts[*host].faults.deaf_until = now + for_s,
            WaveFault::HostIsCutOff { host, for_s } => self.hosts[*host].faults.is_cut_off_for = *for_s,
            WaveFault::DiskIsFull { host } => self.hosts[*host].faults.disk_is_full = true,
            WaveFault::PlanDiffers { host } => self.hosts[*host].faults.plan_differs = true,
            WaveFault::StepsAside { host } => self.hosts[*host].is_aside = true,
            WaveFault::Leaves { host } => self.hosts[*host].has_left = true,
            WaveFault::ZoneFreezes { zone: frozen } => {
                let of_zone =
                    self.hosts.iter_mut().enumerate().filter(|(number, _)| zone(*number) == *frozen);
                of_zone.for_each(|(_, host)| host.frozen_since = host.frozen_since.or(Some(now)));
            }
            WaveFault::ZoneThaws { zone: frozen } => {
                let of_zone =
                    self.hosts.iter_mut().enumerate().filter(|(number, _)| zone(*number) == *frozen);
                of_zone.for_each(|(_, host)| host.frozen_since = None);
            }
            WaveFault::ControllerDies { controller, at, for_s } => {
                self.desks[*controller].dies = Some((*at, *for_s));
            }
            WaveFault::ControllerIsCut { controller, for_s } => {
                self.desks[*controller].cut_until = now + for_s
            }
            WaveFault::ControllerLosesRegister { controller, for_s } => {
                self.desks[*controller].unregistered_until = now + for_s;
            }
            WaveFault::ClockJumps { controller } => self.desks[*controller].ahead_s += 300,
            WaveFault::RegisterStops { for_s } => self.register.away_until = now + for_s,
            WaveFault::Signal(from) => {
                ask(&mut self.desks, speaking_against(*from));
            }
            WaveFault::PersonUndoes if self.may_be_undone() => {
                ask(&mut self.desks, ChangeEvent::Undo { reason: "it was a mistake".to_owned() });
            }
            WaveFault::PersonUndoes => {}
            WaveFault::PersonResumes => {
                self.resumed += 1;
                ask(&mut self.desks, ChangeEvent::Resume);
            }
            WaveFault::SecondChange => {
                let is_blind =
                    self.bugs.contains(&WaveBug::OverlapIgnored) || self.register.progress.is_over();
                let first = self.register.plan.clone();
                let running: &[&ChangePlan] = if is_blind { &[] } else { &[&first] };
                self.second = self.shape.plan(2, self.hosts.len() / 2, running, self.bugs).ok();
            }
        }
    }

    fn second(&mut self) {
        let now = self.now;
        for (desk, number, events, routes) in std::mem::take(&mut self.passed_on) {
            self.desks[desk].hear(number, (&events, routes), now, self.bugs);
        }
        if now >= self.register.away_until {
            let names = self.register.plan.hosts.iter().take(self.shape.resize.grown);
            let names: Vec<HostId> = names.map(|host| host.host.clone()).collect();
            self.register.generations.begin(now, &names);
        }
        for number in 0..self.hosts.len() {
            self.hosts[number].tick(now);
            if self.hosts[number].next_turn <= now && !self.hosts[number].is_away(now) {
                self.turn(number);
            }
        }
        if now == self.shape.person_s && self.may_be_undone() {
            let event = ChangeEvent::Undo { reason: "nobody wants it any more".to_owned() };
            self.desks.iter_mut().for_each(|desk| desk.asked.push(event.clone()));
        }
        let signal = self.signal.filter(|(_, until)| now < *until);
        let signal = signal.map(|(from, _)| speaking_against(from));
        // Each of them is the first one at times.
        for turn in 0..CONTROLLERS {
            let number = (turn + now as usize) % CONTROLLERS;
            let desk = &mut self.desks[number];
            desk.asked.extend(signal.clone());
            // It hears of what others have written some seconds later.
            let is_told = (now + number as u64).is_multiple_of(WATCH_S);
            desk.tick(now, is_told, &mut self.register, &self.hosts, self.bugs);
        }
    }

    /// A host says how it is, and hears what it shall be.
    fn turn(&mut self, number: usize) {
        let now = self.now;
        self.hosts[number].next_turn = now + 3 + self.prng.below(5);
        // A controller that does not reach its register is left.
        let is_good = |desk: &Desk| desk.is_reachable(now) && now >= desk.unregistered_until;
        let own = self.hosts[number].controller;
        let next =
            (own..own + CONTROLLERS).map(|desk| desk % CONTROLLERS).find(|desk| is_good(&self.desks[*desk]));
        let Some(desk) = next else { return };
        let host = &mut self.hosts[number];
        (host.controller, host.heard) = (desk, now);
        let name = host.host.clone();
        let word = passed_word(host.word(), self.bugs);
        let is_harmed = self.shape.harmed_class == Some(host.class) && host.has_it();
        let effect = if is_harmed { self.shape.effect } else { PlantedEffect::default() };
        let figures = self.noise.figures(number, host.cluster, now / 30, &effect);
        let events = vec![
            ChangeEvent::Said { host: name.clone(), word },
            ChangeEvent::Measured { host: name.clone(), figures },
        ];
        let routes = host.routes;
        self.desks[desk].hear(number, (&events, routes), now, self.bugs);
        let others = (0..CONTROLLERS).filter(|other| *other != desk);
        self.passed_on.extend(others.map(|other| (other, number, events.clone(), routes)));
        let order = self.desks[desk].change().and_then(|change| change.order(&name));
        if now < host.faults.deaf_until {
            return;
        }
        order.into_iter().for_each(|order| host.obey(order, now, CONFIRM_S));
        let told = &self.desks[desk].routes;
        let cleans = told.cleaning(&self.register.generations).contains(&number);
        host.load(told.read(), cleans, now);
    }
}

fn passed_word(word: HostWord, bugs: &[WaveBug]) -> HostWord {
    match word {
        HostWord::Failed { attempt, .. } if bugs.contains(&WaveBug::FailureCounted) => {
            HostWord::Changed { attempt }
        }
        HostWord::Trying { attempt } if bugs.contains(&WaveBug::LateCounted) => HostWord::Changed { attempt },
        word => word,
    }
}

/// A host that is on its way: neither as before nor confirmed.
pub(super) fn is_half(host: &ChangedHost) -> bool {
    matches!(host.has, HasChange::Trying { .. })
}

fn speaking_against(from: SignalSource) -> ChangeEvent {
    ChangeEvent::Signal { from, reason: "p99 of the shop".to_owned(), about: BTreeSet::new() }
}
