//! Fleets of the world of changes: few hosts with short waves for faults, and many with the usual ones.

use fleet::waves::{
    ChangeDraft, ChangeError, ChangeNumber, ChangePlan, FigureKind, HostRole, OnHalt, PlannedHost,
    WaveSettings,
};
use stdx::prng::Prng;

use super::bug::WaveBug;
use super::noise::PlantedEffect;
use super::resizing::ResizeSizes;

pub(super) const CONTROLLERS: usize = 3;

/// Standard deviation of a host's figures between two times: little, so that a seed is about faults.
const SIGMA_OF_FEW: f64 = 0.004;
/// The usual one, which looks have to do with.
const SIGMA_OF_MANY: f64 = 0.02;
/// Of many hosts, each has a server and so many routers.
const ROUTERS_PER_HOST: usize = 4;
const FAULTS_OF_FEW: usize = 8;
/// There is one fault for so many of many hosts.
const HOSTS_PER_FAULT: usize = 100;

/// Which faults a seed has.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultPlan {
    pub(super) count: usize,
    /// From the first to the last.
    pub(super) length_s: u64,
    /// People and signals halt the change, let it go on, take it back, and begin another one.
    pub(super) has_people: bool,
}

/// How many hosts there are, and of which kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WaveSize {
    pub(super) hosts: usize,
    /// Hosts of a cluster.
    of_cluster: usize,
    /// The first host of the second class.
    second_class: usize,
}

impl WaveSize {
    /// Four clusters of 20 hosts of the first class, one of 8 of the second, whose few pairs take turns.
    pub(super) const FEW: WaveSize = WaveSize { hosts: 88, of_cluster: 20, second_class: 80 };

    /// Clusters as large as those of the simulated fleet; a tenth of the hosts is of the second class.
    pub(super) fn many(hosts: usize) -> WaveSize {
        WaveSize { hosts, of_cluster: 71, second_class: hosts - hosts / 10 }
    }

    pub(super) fn cluster(self, host: usize) -> usize {
        host / self.of_cluster
    }

    pub(super) fn class(self, host: usize) -> usize {
        usize::from(host >= self.second_class)
    }
}

/// What a seed is about.
#[derive(Clone, Debug)]
pub(super) struct WaveShape {
    pub(super) size: WaveSize,
    pub(super) resize: ResizeSizes,
    settings: WaveSettings,
    /// Standard deviation of a host's figures between two times.
    pub(super) sigma: f64,
    pub(super) faults: FaultPlan,
    /// A person takes back a change that is not over then, in seconds.
    pub(super) person_s: u64,
    /// It is over after so many seconds.
    pub(super) length_s: u64,
    pub(super) restarts: bool,
    /// What the change does to hosts of the class.
    pub(super) effect: PlantedEffect,
    pub(super) harmed_class: Option<usize>,
    /// It is a version that loses the items of each host that gets it, which the agent beside it sees.
    pub(super) loses_items: bool,
}

impl WaveShape {
    pub(super) fn draw(seed: u64) -> WaveShape {
        let mut prng = Prng::new(seed ^ 0x5a4e);
        let restarts = prng.below(3) == 0;
        let on_halt = if prng.below(3) == 0 { OnHalt::Keep } else { OnHalt::Undo };
        let harmed_class = (prng.below(3) == 0).then(|| prng.below(2) as usize);
        let effect = PlantedEffect { p99: 0.15, ..PlantedEffect::default() };
        let loses_items = restarts && prng.below(3) == 0;
        let settings = WaveSettings {
            pairs_max: 28,
            shares: vec![25, 50],
            baseline_ms: 60_000,
            look_ms: 60_000,
            turn_ms: 30_000,
            zone_ms: 20_000,
            figures_ms: 120_000,
            confirm_ms: CONFIRM_S * 1000,
            on_halt,
            // A version that fails on one host goes to no other one.
            troubled_max: if restarts { 0 } else { 2 },
            ..WaveSettings::default()
        };
        WaveShape {
            size: WaveSize::FEW,
            resize: ResizeSizes { slots: 8, grown: 10, routers: 1 },
            settings,
            sigma: SIGMA_OF_FEW,
            faults: FaultPlan { count: FAULTS_OF_FEW, length_s: 2_400, has_people: true },
            person_s: 3_600,
            length_s: 3 * 3_600,
            restarts,
            effect,
            harmed_class,
            loses_items,
        }
    }

    /// A tuning with the usual times, of so many hosts. It does what the effect says.
    pub(super) fn of_many(hosts: usize, effect: PlantedEffect) -> WaveShape {
        let settings = WaveSettings {
            confirm_ms: CONFIRM_S * 1000,
            // Of thousands of hosts some have a full disk on any day.
            troubled_max: hosts / 200,
            ..WaveSettings::default()
        };
        WaveShape {
            size: WaveSize::many(hosts),
            resize: ResizeSizes { slots: 60, grown: 71, routers: ROUTERS_PER_HOST },
            settings,
            sigma: SIGMA_OF_MANY,
            faults: FaultPlan { count: hosts / HOSTS_PER_FAULT, length_s: 3_600, has_people: false },
            person_s: 4 * 3_600,
            length_s: 6 * 3_600,
            restarts: false,
            harmed_class: (effect != PlantedEffect::default()).then_some(0),
            effect,
            loses_items: false,
        }
    }

    /// The change with this number, of hosts from `first` on.
    pub(super) fn plan(
        &self,
        number: u64,
        first: usize,
        running: &[&ChangePlan],
        bugs: &[WaveBug],
    ) -> Result<ChangePlan, ChangeError> {
        let size = self.size;
        let name = |text: String| text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"));
        let host = |number: usize| PlannedHost {
            host: name(format!("h{number:05}")),
            zone: format!("z{}", zone(number)).parse().unwrap_or_else(|error| unreachable!("{error}")),
            class: (!bugs.contains(&WaveBug::ClassUnseen)).then(|| format!("class{}", size.class(number))),
            group: "g1".to_owned(),
            role: HostRole::Server,
            is_last: false,
            clusters: [format!("c{}", size.cluster(number))
                .parse()
                .unwrap_or_else(|error| unreachable!("{error}"))]
            .into(),
        };
        let draft = ChangeDraft {
            number: ChangeNumber(number),
            what: "a tuning".to_owned(),
            hosts: (first..size.hosts).map(host).collect(),
            promised: vec![FigureKind::RequestsPerCpuS],
            restarts: self.restarts && !bugs.contains(&WaveBug::RestartsHidden),
            takes_turns: true,
            accepted: Default::default(),
            settings: self.settings.clone(),
        };
        ChangePlan::new(draft, running)
    }
}

/// A host goes back by itself after so many seconds.
pub(super) const CONFIRM_S: u64 = 60;

pub(super) fn zone(host: usize) -> usize {
    host % 3
}
