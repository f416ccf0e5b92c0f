//! Changes that are played with noisy figures and no faults: how often they are judged rightly.

use fleet::HostId;
use fleet::waves::{
    ChangeDraft, ChangeEvent, ChangeNumber, ChangePlan, ChangeState, ChangeWave, FigureKind, FleetChange,
    HaltCause, HostRole, HostWord, LookVerdict, PlannedHost, WaitsFor, WaveSettings,
};
use stdx::clock::Now;

use super::noise::{Noise, PlantedEffect};

/// Words of a host in each time.
const WORDS: u64 = 3;

/// A fleet for trials.
#[derive(Clone, Debug)]
pub struct TrialFleet {
    /// Clusters, in three zones; half of them have hosts of the first class, if there are two.
    pub clusters: usize,
    /// Hosts of a cluster.
    pub hosts: usize,
    /// Classes of hosts.
    pub classes: usize,
    /// Standard deviation of a host's ratio of after and before, as a share of one.
    pub sigma: f64,
    /// What the change does.
    pub effect: PlantedEffect,
}

/// What became of a number of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialOutcomes {
    /// Changes.
    pub runs: usize,
    /// Halted, for any reason.
    pub halted: usize,
    /// Halted before any host had the change that was no canary.
    pub in_canaries: usize,
    /// Halted because harm was shown; the others could not be judged.
    pub worse: usize,
    /// Said to be better at any look.
    pub better: usize,
    /// All hosts have the change at the end.
    pub done: usize,
    /// Hosts that had the change at the same time at most, over the runs that were halted: the median.
    pub reached_median: usize,
}

impl TrialFleet {
    fn plan(&self, seed: u64, settings: &WaveSettings) -> ChangePlan {
        let name = |text: String| text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"));
        let host = |number: usize| {
            let cluster = number / self.hosts;
            PlannedHost {
                host: name(format!("h{number:05}")),
                zone: format!("z{}", number % 3).parse().unwrap_or_else(|error| unreachable!("{error}")),
                class: Some(format!("class{}", cluster % self.classes)),
                group: "g1".to_owned(),
                role: HostRole::Server,
                is_last: false,
                clusters: [format!("c{cluster}").parse().unwrap_or_else(|error| unreachable!("{error}"))]
                    .into(),
            }
        };
        let draft = ChangeDraft {
            number: ChangeNumber(seed),
            what: "a tuning".to_owned(),
            hosts: (0..self.clusters * self.hosts).map(host).collect(),
            promised: vec![FigureKind::RequestsPerCpuS],
            restarts: false,
            takes_turns: true,
            accepted: Default::default(),
            settings: settings.clone(),
        };
        ChangePlan::new(draft, &[]).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

/// One change on its way, whose hosts obey at once.
struct TrialRun<'f> {
    fleet: &'f TrialFleet,
    change: FleetChange,
    noise: Noise,
    names: Vec<HostId>,
    /// The attempt with which a host has the change.
    has: Vec<Option<u32>>,
    time: u64,
    now: Now,
    reached: usize,
    is_beyond_canaries: bool,
}

impl TrialRun<'_> {
    /// Until the change has come to its end.
    fn play(&mut self) -> Option<HaltCause> {
        for number in 0..self.names.len() {
            self.say(number, HostWord::AsBefore);
        }
        loop {
            self.change.on(ChangeEvent::Tick, self.now);
            if let Some(progress) = self.change.to_write() {
                let version = progress.version;
                self.change.written(version);
                self.obey();
                continue;
            }
            match self.change.state() {
                ChangeState::Done => return None,
                ChangeState::Halted(cause)
                | ChangeState::Undoing { cause, .. }
                | ChangeState::Undone(cause) => {
                    return Some(cause);
                }
                ChangeState::Going { waits_for: WaitsFor::Time, wave } => {
                    self.is_beyond_canaries |= !matches!(wave, ChangeWave::Baseline | ChangeWave::Canaries);
                    // While a zone runs nobody looks.
                    let until = self.change.next_call().unwrap_or_default();
                    if until.ms() - self.now.ms() > self.change.plan().settings.zone_ms {
                        self.measure();
                    }
                }
                state => unreachable!("hosts obey at once, and it is {state:?}"),
            }
            self.now = self.change.next_call().unwrap_or_else(|| unreachable!("a time is waited for"));
        }
    }

    fn say(&mut self, number: usize, word: HostWord) {
        self.change.note(ChangeEvent::Said { host: self.names[number].clone(), word }, self.now);
    }

    fn obey(&mut self) {
        for number in 0..self.names.len() {
            let Some(order) = self.change.order(&self.names[number]) else { continue };
            if order.attempt != self.has[number] {
                self.has[number] = order.attempt;
                let changed = |attempt| HostWord::Changed { attempt };
                self.say(number, order.attempt.map_or(HostWord::AsBefore, changed));
            }
        }
        self.reached = self.reached.max(self.has.iter().flatten().count());
    }

    fn measure(&mut self) {
        self.time += 1;
        for number in 0..self.names.len() {
            let cluster = number / self.fleet.hosts;
            let is_hit = !self.fleet.effect.first_class_only || cluster.is_multiple_of(self.fleet.classes);
            let effect = if self.has[number].is_some() && is_hit {
                self.fleet.effect
            } else {
                PlantedEffect::default()
            };
            let figures = self.noise.figures(number, cluster, self.time, &effect);
            for _ in 0..WORDS {
                self.change
                    .note(ChangeEvent::Measured { host: self.names[number].clone(), figures }, self.now);
            }
        }
    }
}

/// Plays changes with seeds from `first` on.
pub fn play_trials(fleet: &TrialFleet, settings: &WaveSettings, first: u64, runs: usize) -> TrialOutcomes {
    let mut outcomes = TrialOutcomes { runs, ..TrialOutcomes::default() };
    let mut reached = Vec::new();
    for seed in (first..).take(runs) {
        let plan = fleet.plan(seed, settings);
        let names: Vec<HostId> = plan.hosts.iter().map(|host| host.host.clone()).collect();
        let mut run = TrialRun {
            fleet,
            change: FleetChange::begin(plan, Now::default()),
            noise: Noise::new(stdx::prng::mix(seed), fleet.sigma),
            has: vec![None; names.len()],
            names,
            time: 0,
            now: Now::default(),
            reached: 0,
            is_beyond_canaries: false,
        };
        let cause = run.play();
        let mut looks = run.change.looks().into_values().flatten().map(|look| &look.verdict);
        outcomes.better += usize::from(looks.any(|verdict| *verdict == LookVerdict::Better));
        outcomes.done += usize::from(cause.is_none());
        if let Some(cause) = cause {
            outcomes.halted += 1;
            outcomes.in_canaries += usize::from(!run.is_beyond_canaries);
            outcomes.worse += usize::from(matches!(cause, HaltCause::Worse { .. }));
            reached.push(run.reached);
        }
    }
    reached.sort_unstable();
    outcomes.reached_median = reached.get(reached.len() / 2).copied().unwrap_or_default();
    outcomes
}
