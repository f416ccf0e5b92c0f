//! The fleet of the world of changes: few hosts, of three kinds.

use fleet::waves::{
    ChangeDraft, ChangeError, ChangeNumber, ChangePlan, FigureKind, HostRole, OnHalt, PlannedHost,
    WaveSettings,
};
use stdx::prng::Prng;

use super::bug::WaveBug;
use super::noise::PlantedEffect;

/// Hosts: four clusters of 20 hosts of the first class, one of 8 of the second, whose few pairs take turns.
pub(super) const HOSTS: usize = 88;
pub(super) const CONTROLLERS: usize = 3;
const OF_CLUSTER: usize = 20;
/// The first host of the second class.
const SECOND_CLASS: usize = 80;

/// What a seed is about.
#[derive(Clone, Debug)]
pub(super) struct WaveShape {
    pub(super) restarts: bool,
    pub(super) on_halt: OnHalt,
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
        WaveShape { restarts, on_halt, effect, harmed_class, loses_items }
    }

    /// The change with this number, of hosts from `first` on.
    pub(super) fn plan(
        &self,
        number: u64,
        first: usize,
        running: &[&ChangePlan],
        bugs: &[WaveBug],
    ) -> Result<ChangePlan, ChangeError> {
        let name = |text: String| text.parse().unwrap_or_else(|error| unreachable!("{text}: {error}"));
        let host = |number: usize| PlannedHost {
            host: name(format!("h{number:03}")),
            zone: format!("z{}", zone(number)).parse().unwrap_or_else(|error| unreachable!("{error}")),
            class: (!bugs.contains(&WaveBug::ClassUnseen)).then(|| format!("class{}", class(number))),
            group: "g1".to_owned(),
            role: HostRole::Server,
            clusters: [format!("c{}", cluster(number))
                .parse()
                .unwrap_or_else(|error| unreachable!("{error}"))]
            .into(),
        };
        let settings = WaveSettings {
            pairs_max: 28,
            shares: vec![25, 50],
            baseline_ms: 60_000,
            look_ms: 60_000,
            turn_ms: 30_000,
            zone_ms: 20_000,
            figures_ms: 120_000,
            confirm_ms: CONFIRM_S * 1000,
            on_halt: self.on_halt,
            // A version that fails on one host goes to no other one.
            troubled_max: if self.restarts { 0 } else { 2 },
            ..WaveSettings::default()
        };
        let draft = ChangeDraft {
            number: ChangeNumber(number),
            what: "a tuning".to_owned(),
            hosts: (first..HOSTS).map(host).collect(),
            promised: vec![FigureKind::RequestsPerCpuS],
            restarts: self.restarts && !bugs.contains(&WaveBug::RestartsHidden),
            takes_turns: true,
            accepted: Default::default(),
            settings,
        };
        ChangePlan::new(draft, running)
    }
}

/// A host goes back by itself after so many seconds.
pub(super) const CONFIRM_S: u64 = 60;

pub(super) fn zone(host: usize) -> usize {
    host % 3
}

pub(super) fn cluster(host: usize) -> usize {
    host / OF_CLUSTER
}

pub(super) fn class(host: usize) -> usize {
    usize::from(host >= SECOND_CLASS)
}
