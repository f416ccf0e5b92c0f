//! Changes of hosts that are on their way: what hosts say, their figures, and what each is told.
//!
//! Decisions are those of `fleet::waves`; the register has them before anybody is told. What is heard is in memory, and heard again
//! after a restart.

pub(crate) mod draft;
mod facts;
mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::HostId;
use fleet::figures::FigureBook;
use fleet::waves::{ChangeEvent, ChangeNumber, ChangePlan, ChangeProgress};
use stdx::clock::Now;

use super::observing::agents::AgentRecord;
use crate::decisions::changes::ChangeRecord;
use crate::probe::objective::{ObjectiveAnswer, ObjectiveBoard};
use crate::register::Revision;
use crate::service::turn::ChangeOrder;
use draft::ShownChanges;
pub(crate) use facts::HostsNow;
pub(crate) use open::OpenChange;

/// Interval of decisions: hosts say news all the time while a wave goes on, and each decision looks at all hosts of the change.
const ACT_EVERY_MS: u64 = 250;
/// Interval of looks for hosts that are silent, frozen or gone.
const SWEEP_EVERY_MS: u64 = 1_000;

/// Changes that are on their way.
#[derive(Default)]
pub(crate) struct FleetChanges {
    open: BTreeMap<ChangeNumber, OpenChange>,
    act_at: Now,
    sweep_at: Now,
    /// Plans that were shown lately, so that hosts can be named that have changed since.
    pub(crate) shown: ShownChanges,
    /// Where objectives are asked from; none if this controller asks no Prometheus.
    board: Option<Arc<ObjectiveBoard>>,
}

impl FleetChanges {
    /// Goes on with what the register has of a change that is not known here yet.
    pub(crate) fn begin(
        &mut self,
        record: ChangeRecord,
        (progress, revision): (ChangeProgress, Revision),
        now: Now,
    ) {
        let number = record.plan.number;
        self.open.insert(number, OpenChange::new(record, (progress, revision), now));
        // Hosts that are silent are found before anything is decided.
        self.sweep_at = now;
        self.put_objectives();
    }

    /// Puts objectives on this board from now on.
    pub(crate) fn ask_objectives_on(&mut self, board: Option<Arc<ObjectiveBoard>>) {
        self.board = board;
        self.put_objectives();
    }

    /// Whether objectives are asked by this controller.
    pub(crate) fn asks_objectives(&self) -> bool {
        self.board.is_some()
    }

    fn put_objectives(&self) {
        let Some(board) = &self.board else { return };
        let wanted =
            |(number, open): (&ChangeNumber, &OpenChange)| Some((*number, open.objective()?.to_owned()));
        board.set(self.open.iter().filter_map(wanted).collect());
    }

    /// Takes what has come of an objective.
    pub(crate) fn hear_objective(&mut self, answer: ObjectiveAnswer, now: Now) {
        if let Some(open) = self.open.get_mut(&answer.change) {
            open.hear_objective(answer.outcome, now);
        }
    }

    /// Forgets changes that are over.
    pub(crate) fn keep(&mut self, open: &BTreeSet<ChangeNumber>) {
        self.open.retain(|number, _| open.contains(number));
        self.put_objectives();
    }

    /// Those that are on their way.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChangeNumber, &OpenChange)> {
        self.open.iter().map(|(number, change)| (*number, change))
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> Vec<ChangeNumber> {
        self.open.keys().copied().collect()
    }

    /// One that is on its way.
    pub(crate) fn get(&self, number: ChangeNumber) -> Option<&OpenChange> {
        self.open.get(&number)
    }

    /// The same to act on.
    pub(crate) fn get_mut(&mut self, number: ChangeNumber) -> Option<&mut OpenChange> {
        self.open.get_mut(&number)
    }

    /// Their plans.
    pub(crate) fn plans(&self) -> Vec<&ChangePlan> {
        self.open.values().map(|open| open.change().plan()).collect()
    }

    /// Takes what an agent says of its host. It costs a look into a table of each change.
    pub(crate) fn hear(&mut self, record: &AgentRecord, book: &FigureBook, now: Now) {
        for open in self.open.values_mut() {
            open.hear(record, book, now);
        }
    }

    /// What a host is told.
    pub(crate) fn orders(&self, host: &HostId) -> Vec<ChangeOrder> {
        self.open.values().filter_map(|open| open.order(host)).collect()
    }

    /// Takes what is so of all hosts, if it is time.
    pub(crate) fn sweep<'c>(&mut self, hosts: impl FnOnce() -> HostsNow<'c>, now: Now) {
        if self.open.is_empty() || now < self.sweep_at {
            return;
        }
        let hosts = hosts();
        self.sweep_at = Now::at_ms(now.ms() + SWEEP_EVERY_MS);
        let asks_objectives = self.asks_objectives();
        self.open.values_mut().for_each(|open| open.look(&hosts, asks_objectives, now));
    }

    /// Decides nothing before this moment.
    pub(crate) fn act_after(&mut self, moment: Now) {
        self.act_at = self.act_at.max(moment);
    }

    /// Decides what is due. False if it is not time, or nothing is on its way.
    pub(crate) fn act(&mut self, now: Now) -> bool {
        if self.open.is_empty() || now < self.act_at {
            return false;
        }
        self.act_at = Now::at_ms(now.ms() + ACT_EVERY_MS);
        let decided = self.open.values_mut().filter(|open| open.may_decide());
        decided.for_each(|open| open.on(ChangeEvent::Tick, now));
        true
    }
}
