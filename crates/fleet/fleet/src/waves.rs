//! A change of hosts on its way through a fleet: canaries by matched pairs, looks, waves, halt and undo.
//!
//! A state machine without I/O, for whatever is done to a host: a tuning, a new version of the binary. [`FleetChange::on`] takes what
//! happened, [`FleetChange::order`] says what a host is told, [`FleetChange::next_call`] when [`ChangeEvent::Tick`] is due.
//!
//! **Writes.** The register has two keys of a change. [`ChangePlan`] is written once, before anything else. [`ChangeProgress`] is
//! written before every decision takes effect: the draw of pairs, the figures before the change, hosts that are told or told to go
//! back, a look's verdict, the next wave, a halt, an undo, the end. [`FleetChange::to_write`] has what is to be written, if its
//! version is one above that in the register; orders follow from what [`FleetChange::written`] has confirmed, and nothing else is decided
//! meanwhile. A controller whose write was refused reads the other one's and goes on from it: [`FleetChange::adopt`]. One that begins with
//! a record hears the hosts again ([`FleetChange::resume`]): what they say is in memory only, and the time of a look begins anew.
//!
//! **Hosts.** A host that has applied the change goes back by itself unless it hears its controller in time. So it has the change when it
//! says so of the attempt that it was told, and at no other time; one that is not heard from is neither changed nor as before.

mod figures;
mod going;
mod hosts;
mod judge;
mod objective;
mod outline;
mod pairs;
mod plan;
mod progress;
mod settings;
#[cfg(test)]
mod tests;
mod trial;
mod types;
mod undo;

use std::collections::{BTreeMap, BTreeSet};

use stdx::clock::Now;

use crate::HostId;
pub use figures::{FigureKind, HostFigures};
use hosts::{HostTable, after};
pub use judge::{LookFigure, LookReport, LookVerdict};
pub use objective::{OBJECTIVE_MISSES, ObjectiveCount, ObjectiveError, check_objective};
pub use outline::{ChangeOutline, KindJudged, KindOutline, WaveOutline};
pub use plan::{ChangeDraft, ChangeError, ChangeNumber, ChangePlan, HostRole, HostsAlike, PlannedHost};
pub use progress::ChangeProgress;
use progress::ChangeStage;
pub use settings::{OnHalt, WaveSettings, WaveSettingsError};
pub use types::{
    ChangeEvent, ChangeState, ChangeWave, HaltCause, HostOrder, HostWord, LeftOut, SignalSource, WaitsFor,
};

/// One change on its way.
#[derive(Clone, Debug)]
pub struct FleetChange {
    plan: ChangePlan,
    /// As decided.
    progress: ChangeProgress,
    /// As it is in the register.
    written: ChangeProgress,
    hosts: HostTable,
    /// Since when all that were told have the change: figures are taken from then on.
    settled_since: Option<Now>,
    /// What has to stop it, or was asked for, and is not decided yet.
    asked: Option<Asked>,
    /// What was asked for and is decided, until the register has it: if another controller was first, it is asked for again.
    deciding: Option<Asked>,
    /// What signals were about and is over, as it was heard here.
    over: BTreeSet<String>,
    /// What does not allow it to go on, and why, as it was heard here.
    withheld: BTreeMap<SignalSource, String>,
    /// Something has happened since the last decision.
    is_changed: bool,
    /// When it has to look again although nothing happens.
    due: Option<Now>,
}

/// What was asked for from outside.
#[derive(Clone, Debug, PartialEq)]
enum Asked {
    Halt(HaltCause),
    Undo(String),
    Resume,
}

impl FleetChange {
    /// Begins a plan that is in the register.
    pub fn begin(plan: ChangePlan, now: Now) -> FleetChange {
        FleetChange::resume(plan, ChangeProgress::default(), now)
    }

    /// Goes on with what the register has of it.
    pub fn resume(plan: ChangePlan, progress: ChangeProgress, now: Now) -> FleetChange {
        let hosts = HostTable::new(plan.hosts.len(), plan.settings.silence_ms, now);
        let (settled_since, asked, deciding, is_changed, due) = (None, None, None, true, None);
        let written = progress.clone();
        FleetChange {
            over: BTreeSet::new(),
            withheld: BTreeMap::new(),
            plan,
            progress,
            written,
            hosts,
            settled_since,
            asked,
            deciding,
            is_changed,
            due,
        }
    }

    /// Takes what happened, and acts on it.
    pub fn on(&mut self, event: ChangeEvent, now: Now) {
        self.note(event, now);
        self.act();
    }

    /// Takes what happened; the next `Tick` acts on it. What a host says again costs one look into a table, whatever the size of the fleet.
    pub fn note(&mut self, event: ChangeEvent, now: Now) {
        self.hosts.now = self.hosts.now.max(now);
        let place = |host: &HostId| self.plan.place(host);
        let hosts = &mut self.hosts;
        let is_news = match event {
            ChangeEvent::Said { host, word } => place(&host).is_some_and(|place| hosts.say(place, word)),
            ChangeEvent::Wordless { host } => place(&host).is_some_and(|place| hosts.say_nothing(place)),
            ChangeEvent::Measured { host, figures } => {
                // A look whose time is over waits for it.
                let place = place(&host).filter(|_| self.settled_since.is_some());
                place.is_some_and(|place| hosts.measure(place, &figures))
            }
            ChangeEvent::Silent { host, since } => {
                place(&host).is_some_and(|place| hosts.fall_silent(place, since))
            }
            ChangeEvent::Frozen { host } => place(&host).is_some_and(|place| hosts.freeze(place, true)),
            ChangeEvent::Thawed { host } => place(&host).is_some_and(|place| hosts.freeze(place, false)),
            ChangeEvent::PlanDiffers { host } => place(&host).is_some_and(|place| hosts.differ(place)),
            ChangeEvent::SteppedAside { host, reason } => {
                place(&host).is_some_and(|place| hosts.step_aside(place, Some(reason)))
            }
            ChangeEvent::NotAside { host } => place(&host).is_some_and(|place| hosts.step_aside(place, None)),
            ChangeEvent::Left { host } => place(&host).is_some_and(|place| hosts.leave(place)),
            ChangeEvent::Signal { from, reason, about } => {
                self.over.retain(|over| !about.contains(over));
                self.ask(Asked::Halt(HaltCause::Signal { from, reason, about }));
                true
            }
            ChangeEvent::SignalOver { about } => {
                let is_excused = self.progress.excused_signals.contains(&about);
                self.over.insert(about) && is_excused
            }
            ChangeEvent::Withheld { by, reason } => self.withheld.insert(by, reason).is_none(),
            ChangeEvent::Allowed { by } => self.withheld.remove(&by).is_some(),
            ChangeEvent::Undo { reason } => {
                self.ask(Asked::Undo(reason));
                true
            }
            ChangeEvent::Resume => {
                self.ask(Asked::Resume);
                true
            }
            ChangeEvent::Tick => false,
        };
        self.is_changed |= is_news;
    }

    /// An undo is stronger than a halt, and a halt than leave to go on.
    fn ask(&mut self, asked: Asked) {
        let rank = |asked: &Asked| match asked {
            Asked::Resume => 0,
            Asked::Halt(_) => 1,
            Asked::Undo(_) => 2,
        };
        if self.asked.as_ref().is_none_or(|before| rank(before) < rank(&asked)) {
            self.asked = Some(asked);
        }
    }

    /// The decision that the register has to take first.
    pub fn to_write(&self) -> Option<&ChangeProgress> {
        (self.progress.version != self.written.version).then_some(&self.progress)
    }

    /// The register has taken the decision of this version.
    pub fn written(&mut self, version: u64) {
        if version != self.progress.version || self.to_write().is_none() {
            return;
        }
        self.deciding = None;
        self.have_written(self.progress.clone());
        self.is_changed = true;
        self.act();
    }

    /// The register has a decision of another controller. An older one than this controller has written is no news.
    pub fn adopt(&mut self, progress: ChangeProgress) {
        if progress.version < self.written.version || progress == self.written {
            return;
        }
        self.have_written(progress.clone());
        self.progress = progress;
        self.settle(None);
        self.is_changed = true;
        if let Some(asked) = self.deciding.take() {
            self.ask(asked);
        }
    }

    /// The time of orders that are new begins.
    fn have_written(&mut self, progress: ChangeProgress) {
        for (place, told) in &progress.told {
            if self.written.told.get(place) != Some(told) {
                self.hosts.order(*place);
            }
        }
        self.written = progress;
    }

    /// Decides at most one thing, if something is new or due and the register has taken what was decided before.
    fn act(&mut self) {
        let is_due = self.is_changed || self.due.is_some_and(|due| due <= self.hosts.now);
        if !is_due || self.to_write().is_some() {
            return;
        }
        self.is_changed = false;
        let is_decided = self.decide_asked() || self.forget_over() || self.decide();
        if is_decided {
            self.progress.version += 1;
        }
        self.due = self.next_call();
    }

    fn decide(&mut self) -> bool {
        match self.progress.stage {
            ChangeStage::Going => self.go_on(),
            ChangeStage::Undoing(_) => self.go_back(),
            ChangeStage::Halted(_) | ChangeStage::Done | ChangeStage::Undone(_) => false,
        }
    }

    /// A person has seen this of a signal: it halts nothing until it is over.
    pub fn is_excused(&self, about: &str) -> bool {
        self.progress.excused_signals.contains(about)
    }

    /// What a host is told; none for a host that has had no order.
    pub fn order(&self, host: &HostId) -> Option<HostOrder> {
        let told = self.written.told.get(&self.plan.place(host)?)?;
        let attempt = told.is_on.then_some(told.attempt);
        Some(HostOrder { change: self.plan.number, version: self.written.version, attempt })
    }

    /// The version of the decision that orders follow from.
    pub fn version(&self) -> u64 {
        self.written.version
    }

    /// Hosts go back, as the register has it.
    pub fn goes_back(&self) -> bool {
        matches!(self.written.stage, ChangeStage::Undoing(_))
    }

    /// Hosts that have had an order: the step in which each was told, and the attempt if it shall have the change.
    pub fn told(&self) -> impl Iterator<Item = (&HostId, u32, Option<u32>)> {
        let told = self.written.told.iter();
        told.map(|(place, told)| {
            (&self.plan.hosts[*place].host, told.step, told.is_on.then_some(told.attempt))
        })
    }

    /// The plan.
    pub fn plan(&self) -> &ChangePlan {
        &self.plan
    }

    /// Hosts that keep the change, as they have said themselves.
    pub fn changed(&self) -> impl Iterator<Item = &HostId> {
        let told = self.progress.told.iter();
        let changed = told.filter(|(place, told)| self.hosts.is_changed(**place, **told));
        changed.map(|(place, _)| &self.plan.hosts[*place].host)
    }

    /// Hosts that do not get the change, and why; those whose turn has not come are not among them.
    pub fn left_out(&self) -> impl Iterator<Item = (&HostId, LeftOut)> {
        (0..self.plan.hosts.len()).filter(|place| !self.progress.is_on(*place)).filter_map(|place| {
            let told = self.progress.told.get(&place).copied();
            self.hosts.left_out(place, told).map(|why| (&self.plan.hosts[place].host, why))
        })
    }

    /// Looks at each kind of hosts so far.
    pub fn looks(&self) -> BTreeMap<&HostsAlike, &[LookReport]> {
        self.progress.trials.iter().map(|trial| (&trial.kind, &*trial.looks)).collect()
    }

    /// Where it is.
    pub fn state(&self) -> ChangeState {
        match &self.progress.stage {
            ChangeStage::Going => {
                let waits_for = match (self.to_write(), self.awaited(), self.withheld.first_key_value()) {
                    (Some(_), ..) => WaitsFor::Register,
                    (None, Some(place), _) => WaitsFor::Host(self.plan.hosts[place].host.clone()),
                    (None, None, Some((by, reason))) => WaitsFor::Signal { by: *by, reason: reason.clone() },
                    (None, None, None) => WaitsFor::Time,
                };
                ChangeState::Going { wave: self.wave(), waits_for }
            }
            ChangeStage::Halted(cause) => ChangeState::Halted(cause.clone()),
            ChangeStage::Undoing(cause) => {
                let told = self.progress.told.keys();
                let left = told.filter(|place| !self.hosts.is_as_before(**place)).count();
                ChangeState::Undoing { cause: cause.clone(), left }
            }
            ChangeStage::Done => ChangeState::Done,
            ChangeStage::Undone(cause) => ChangeState::Undone(cause.clone()),
        }
    }

    /// When `Tick` is due although nothing happens.
    pub fn next_call(&self) -> Option<Now> {
        let settings = &self.plan.settings;
        let is_going = match self.progress.stage {
            ChangeStage::Going => true,
            ChangeStage::Undoing(_) => false,
            ChangeStage::Halted(_) | ChangeStage::Done | ChangeStage::Undone(_) => return None,
        };
        let look = self.settled_since.filter(|_| is_going).into_iter().flat_map(|since| {
            let at = after(since, self.hold_ms());
            [at, after(at, settings.figures_ms)]
        });
        let silences = (0..self.plan.hosts.len()).filter_map(|place| self.hosts.away_at(place));
        let orders = self.progress.told.iter();
        let orders = orders.filter(|(place, told)| !self.is_settled(**place, **told));
        let orders = orders.flat_map(|(place, told)| {
            let ordered = self.hosts.ordered(*place);
            [settings.confirm_ms, self.late_ms(*place, *told)].map(|ms| after(ordered, ms))
        });
        look.chain(silences).chain(orders).filter(|due| *due > self.hosts.now).min()
    }

    /// It is as it was told, as it has said itself.
    fn is_settled(&self, place: usize, told: progress::ToldHost) -> bool {
        if told.is_on { self.hosts.is_changed(place, told) } else { self.hosts.is_as_before(place) }
    }

    /// Figures are taken from this moment on, or not at all.
    fn settle(&mut self, since: Option<Now>) {
        self.settled_since = since;
        self.hosts.forget_figures();
    }
}
