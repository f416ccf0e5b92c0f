//! Halt, resumption and undo of a change.

use std::collections::BTreeSet;

use super::hosts::after;
use super::progress::ChangeStage;
use super::types::{HaltCause, SignalSource};
use super::{Asked, FleetChange, OnHalt};

impl FleetChange {
    /// True if what was asked for is a decision.
    pub(super) fn decide_asked(&mut self) -> bool {
        let by_hand =
            |reason| HaltCause::Signal { from: SignalSource::Person, reason, about: BTreeSet::new() };
        let asked = self.asked.take();
        let is_decided = match (asked.clone(), &self.progress.stage) {
            (Some(Asked::Halt(cause)), ChangeStage::Going) => self.halt(cause),
            // Also of a change that has come to its end.
            (Some(Asked::Undo(reason)), ChangeStage::Going | ChangeStage::Done) => {
                self.begin_undo(by_hand(reason))
            }
            (Some(Asked::Undo(_)), ChangeStage::Halted(cause)) => self.begin_undo(cause.clone()),
            (Some(Asked::Resume), ChangeStage::Halted(_)) => {
                self.excuse();
                true
            }
            _ => false,
        };
        self.deciding = asked.filter(|_| is_decided);
        is_decided
    }

    /// Nobody else gets it. A host that has not said that it keeps it goes back: nothing is left half done.
    pub(super) fn halt(&mut self, cause: HaltCause) -> bool {
        let is_by_hand = matches!(cause, HaltCause::Signal { from: SignalSource::Person, .. });
        if self.plan.settings.on_halt == OnHalt::Undo && !is_by_hand {
            return self.begin_undo(cause);
        }
        let told = self.progress.told.iter();
        let on_their_way = told.filter(|(place, told)| !self.hosts.may_keep(**place, **told));
        let on_their_way: Vec<usize> = on_their_way.map(|(place, _)| *place).collect();
        self.progress.turn_off(on_their_way);
        self.progress.stage = ChangeStage::Halted(cause);
        self.settle(None);
        true
    }

    /// A person lets it go on: what has halted it does so no more.
    fn excuse(&mut self) {
        let ChangeStage::Halted(cause) = std::mem::take(&mut self.progress.stage) else { return };
        let wave = self.progress.wave;
        match cause {
            HaltCause::Worse { kind, .. }
            | HaltCause::CannotTell { kind, .. }
            | HaltCause::NoFigures { kind, .. } => {
                let trial = self.progress.trials.iter_mut().find(|trial| trial.kind == kind);
                trial.into_iter().for_each(|trial| trial.excuse(wave));
            }
            HaltCause::Troubled { .. } => {
                let told = self.progress.told.iter();
                let troubled = told.filter(|(place, told)| self.hosts.trouble(**place, **told).is_some());
                self.progress.excused.extend(troubled.map(|(place, _)| *place));
            }
            HaltCause::Signal { about, .. } => self.progress.excused_signals.extend(about),
        }
    }

    /// What is over is excused no more.
    pub(super) fn forget_over(&mut self) -> bool {
        let before = self.progress.excused_signals.len();
        self.progress.excused_signals.retain(|about| !self.over.contains(about));
        self.progress.excused_signals.len() != before
    }

    fn begin_undo(&mut self, cause: HaltCause) -> bool {
        self.progress.stage = ChangeStage::Undoing(cause);
        self.settle(None);
        true
    }

    /// One step after the other goes back, the last one first. Nobody waits for hosts that are away, and they are not forgotten: the change
    /// is undone when all that were told have said that they are as before.
    pub(super) fn go_back(&mut self) -> bool {
        if self.forget_gone() {
            return true;
        }
        let (on, off): (Vec<_>, Vec<_>) = self.progress.told.iter().partition(|(_, told)| told.is_on);
        let Some(last) = on.iter().map(|(_, told)| told.step).max() else {
            let is_undone = off.iter().all(|(place, _)| self.hosts.is_as_before(**place));
            if let (true, ChangeStage::Undoing(cause)) = (is_undone, &self.progress.stage) {
                self.progress.stage = ChangeStage::Undone(cause.clone());
            }
            return is_undone;
        };
        let awaited = || off.iter().filter(|(place, _)| self.is_awaited_back(**place));
        if awaited().any(|(_, told)| told.step > last) {
            return false;
        }
        let next = on.iter().filter(|(_, told)| told.step == last).map(|(place, _)| **place);
        let next: Vec<usize> = if self.plan.restarts {
            self.one_of_each_cluster(next, awaited().map(|(place, _)| **place))
        } else {
            next.collect()
        };
        self.progress.turn_off(next.iter().copied());
        !next.is_empty()
    }

    /// It was told to go back, and others wait until it has.
    fn is_awaited_back(&self, place: usize) -> bool {
        let is_late = after(self.hosts.ordered(place), self.plan.settings.confirm_ms) <= self.hosts.now;
        let has_given_up = self.hosts.is_away(place) || self.hosts.is_stuck(place) || is_late;
        !self.hosts.is_as_before(place) && !has_given_up
    }

    /// Those whose clusters have nobody under way, and one of each.
    pub(super) fn one_of_each_cluster(
        &self,
        next: impl Iterator<Item = usize>,
        under_way: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        let mut busy: BTreeSet<_> = under_way.flat_map(|place| &self.plan.hosts[place].clusters).collect();
        let mut is_free = |place: &usize| {
            let clusters = &self.plan.hosts[*place].clusters;
            let is_free = clusters.iter().all(|cluster| !busy.contains(cluster));
            busy.extend(clusters.iter().filter(|_| is_free));
            is_free
        };
        next.filter(|place| is_free(place)).collect()
    }

    /// Hosts that were taken out of the inventory are no part of it any more.
    pub(super) fn forget_gone(&mut self) -> bool {
        let before = self.progress.told.len();
        self.progress.told.retain(|place, _| !self.hosts.has_left(*place));
        self.progress.told.len() != before
    }
}
