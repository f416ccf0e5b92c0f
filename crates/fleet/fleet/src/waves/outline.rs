//! The outline of a change before it begins: kinds with their pairs, sizes of waves, and the least time that it takes.

use serde::Serialize;

use super::pairs;
use super::plan::{ChangePlan, HostsAlike};

/// Parts of a block of turns: on, off, off, on.
const PARTS: u64 = 4;

/// How a change goes if nothing halts it and every look can tell at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeOutline {
    /// Kinds of hosts, by class and plan.
    pub kinds: Vec<KindOutline>,
    /// Waves, in their order.
    pub waves: Vec<WaveOutline>,
    /// Sum of the times of all waves: what hosts need to apply the change comes on top.
    pub least_ms: u64,
}

/// A kind of hosts, and how it is judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindOutline {
    /// Which.
    pub kind: HostsAlike,
    /// How many they are.
    pub hosts: usize,
    /// Pairs of equal cluster, zone and role that can be drawn, as far as a look needs them.
    pub pairs: usize,
    /// How it is judged.
    pub judged: KindJudged,
}

/// How a kind of hosts is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KindJudged {
    /// By pairs.
    ByPairs,
    /// By pairs that have the change and have it not in turns.
    InTurns,
    /// Not at all, as a person has accepted.
    Unjudged,
    /// Nobody has accepted that it cannot be judged: the plan is refused.
    Refused,
}

/// A wave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaveOutline {
    /// In words.
    pub wave: String,
    /// Hosts that have the change at its end.
    pub hosts: usize,
    /// How long it lasts at least, in all zones together.
    pub ms: u64,
}

impl ChangePlan {
    /// How the change goes.
    pub fn outline(&self) -> ChangeOutline {
        let settings = &self.settings;
        let kinds = self.kinds().into_iter().map(|(kind, hosts)| {
            let pairs = pairs::draw(self, &hosts, |_| true, settings.pairs_max).len();
            let judged = match pairs {
                _ if self.accepted.contains(&kind) => KindJudged::Unjudged,
                _ if pairs >= settings.pairs => KindJudged::ByPairs,
                1.. if self.takes_turns => KindJudged::InTurns,
                _ => KindJudged::Refused,
            };
            KindOutline { kind, hosts: hosts.len(), pairs, judged }
        });
        let kinds: Vec<KindOutline> = kinds.collect();
        let zones: Vec<usize> = pairs::zones(self)
            .into_iter()
            .map(|zone| self.hosts.iter().filter(|host| host.zone == *zone).count())
            .collect();
        let between_ms = settings.zone_ms * zones.len().saturating_sub(1) as u64;
        let (mut told, turns_ms) = self.canaries(&kinds);
        let baseline =
            WaveOutline { wave: "figures before the change".to_owned(), hosts: 0, ms: settings.baseline_ms };
        let canaries = WaveOutline {
            wave: "canaries".to_owned(),
            hosts: told,
            ms: turns_ms.unwrap_or(settings.look_ms),
        };
        let mut waves = vec![baseline, canaries];
        for percent in &settings.shares {
            let share = |hosts: &usize| (hosts * usize::from(*percent)).div_ceil(100);
            told = told.max(zones.iter().map(share).sum());
            let wave = format!("{percent} % of each zone");
            waves.push(WaveOutline { wave, hosts: told, ms: between_ms + settings.look_ms });
        }
        let ms = settings.zone_ms * zones.len() as u64;
        waves.push(WaveOutline { wave: "the rest, zone by zone".to_owned(), hosts: self.hosts.len(), ms });
        let least_ms = waves.iter().map(|wave| wave.ms).sum();
        ChangeOutline { kinds, waves, least_ms }
    }

    /// Hosts of the first look, and the time of turns if all kinds need them.
    fn canaries(&self, kinds: &[KindOutline]) -> (usize, Option<u64>) {
        let units = self.settings.units(0);
        let of_kind = |kind: &KindOutline| match kind.judged {
            KindJudged::ByPairs => units.min(kind.pairs),
            KindJudged::InTurns => kind.pairs,
            KindJudged::Unjudged | KindJudged::Refused => 0,
        };
        let hosts = kinds.iter().map(of_kind).sum();
        let turning = kinds.iter().filter(|kind| kind.judged == KindJudged::InTurns);
        let blocks = turning.map(|kind| units.div_ceil(kind.pairs) as u64).max();
        let is_by_pairs = kinds.iter().any(|kind| kind.judged == KindJudged::ByPairs);
        let part_ms = if is_by_pairs { self.settings.look_ms } else { self.settings.turn_ms };
        (hosts, blocks.map(|blocks| blocks * PARTS * part_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waves::tests::draft;

    #[track_caller]
    fn check(hosts: usize, expected: &[(&str, usize, u64)]) {
        let outline = ChangePlan::new(draft(hosts), &[]).expect("a plan").outline();
        let waves: Vec<(&str, usize, u64)> =
            outline.waves.iter().map(|wave| (&*wave.wave, wave.hosts, wave.ms / 60_000)).collect();
        assert_eq!(waves, expected);
        assert_eq!(outline.least_ms / 60_000, expected.iter().map(|(.., min)| min).sum::<u64>());
    }

    #[test]
    fn waves_have_the_sizes_and_times_of_the_settings() {
        check(
            1_000,
            &[
                ("figures before the change", 0, 10),
                ("canaries", 8, 10),
                ("1 % of each zone", 10, 11),
                ("5 % of each zone", 50, 11),
                ("25 % of each zone", 250, 11),
                ("the rest, zone by zone", 1_000, 2),
            ],
        );
        // Five pairs: two blocks of four parts.
        check(
            12,
            &[
                ("figures before the change", 0, 10),
                ("canaries", 6, 40),
                ("1 % of each zone", 6, 11),
                ("5 % of each zone", 6, 11),
                ("25 % of each zone", 6, 11),
                ("the rest, zone by zone", 12, 2),
            ],
        );
    }
}
