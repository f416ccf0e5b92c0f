//! Progress of a change: the record of decisions, in the register before anybody is told.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::trial::KindTrial;
use super::types::HaltCause;

/// What has been decided so far. A controller that reads it and hears the hosts again goes on from there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeProgress {
    /// Grows by one with every decision: of two controllers that decide, one is refused by the register.
    pub version: u64,
    pub(super) stage: ChangeStage,
    /// Pairs are drawn.
    pub(super) is_drawn: bool,
    /// Figures before the change are taken.
    pub(super) is_measured: bool,
    /// 0 for the canaries, then a number for each share, then the rest.
    pub(super) wave: usize,
    /// The place of the zone that has its turn, in the change's order of zones.
    pub(super) zone: usize,
    /// Hosts that were told together have the same step; an undo goes through them from the last to the first.
    pub(super) step: u32,
    /// Hosts that have had an order, by their places in the plan.
    pub(super) told: BTreeMap<usize, ToldHost>,
    /// Kinds of hosts that are judged.
    pub(super) trials: Vec<KindTrial>,
    /// Hosts whose trouble halts nothing, as a person has said.
    pub(super) excused: BTreeSet<usize>,
    /// What stands behind signals and halts nothing, as a person has said.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) excused_signals: BTreeSet<String>,
}

/// Where a change is, without what follows from its hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeStage {
    /// On its way.
    #[default]
    Going,
    /// Until a person decides.
    Halted(HaltCause),
    /// Hosts go back.
    Undoing(HaltCause),
    /// At its end.
    Done,
    /// All hosts are as before.
    Undone(HaltCause),
}

/// A host that has had an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u32, bool)", into = "(u32, u32, u32, bool)")]
pub(super) struct ToldHost {
    /// Counts the times that it was told to change.
    pub(super) attempt: u32,
    /// When, among the others.
    pub(super) step: u32,
    /// Times that it went back by itself.
    pub(super) lapses: u32,
    /// It shall have the change; if not, it shall be as before.
    pub(super) is_on: bool,
}

impl From<(u32, u32, u32, bool)> for ToldHost {
    fn from((attempt, step, lapses, is_on): (u32, u32, u32, bool)) -> ToldHost {
        ToldHost { attempt, step, lapses, is_on }
    }
}

impl From<ToldHost> for (u32, u32, u32, bool) {
    fn from(told: ToldHost) -> (u32, u32, u32, bool) {
        (told.attempt, told.step, told.lapses, told.is_on)
    }
}

impl ChangeProgress {
    /// It has come to an end: nothing is on its way, and its hosts are free for another change.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, ChangeStage::Done | ChangeStage::Undone(_))
    }

    pub(super) fn is_on(&self, place: usize) -> bool {
        self.told.get(&place).is_some_and(|told| told.is_on)
    }

    /// Tells hosts to change, as one step.
    pub(super) fn turn_on(&mut self, places: impl IntoIterator<Item = usize>) {
        self.step += 1;
        for place in places {
            let before = self.told.get(&place).copied();
            let (attempt, lapses) = before.map_or((0, 0), |told| (told.attempt, told.lapses));
            let told = ToldHost { attempt: attempt + 1, step: self.step, lapses, is_on: true };
            self.told.insert(place, told);
        }
    }

    /// Tells hosts to be as before.
    pub(super) fn turn_off(&mut self, places: impl IntoIterator<Item = usize>) {
        for place in places {
            if let Some(told) = self.told.get_mut(&place) {
                told.is_on = false;
            }
        }
    }
}
