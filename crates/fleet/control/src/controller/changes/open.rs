//! One change on its way: the machine that decides, and what the register has of it.

use std::collections::{BTreeMap, BTreeSet};

use fleet::figures::FigureBook;
use fleet::figures::shadow::{GateState, ShadowGate};
use fleet::tuning::AnswerDigest;
use fleet::waves::{
    ChangeEvent, ChangeNumber, ChangePlan, ChangeProgress, ChangeState, FleetChange, HostWord,
    ObjectiveCount, SignalSource,
};
use fleet::{ClusterName, HostId, ZoneName};
use stdx::clock::Now;

use super::facts::{HostsNow, host_figures};
use crate::controller::observing::agents::AgentRecord;
use crate::decisions::changes::{ChangeAct, ChangeRecord};
use crate::register::Revision;
use crate::service::turn::{AsideWord, ChangeOrder, ChangeWord, ChangesReport};

/// What a signal of a gate is about.
const GATE: &str = "gate";
/// An answer about an objective counts for so long: four questions.
const OBJECTIVE_COUNTS_MS: u64 = 60_000;
/// So much longer a controller that hears few hosts leaves a decision to others.
const DEAF_WAITS_MS: u64 = 60_000;
/// Digits of a plan's digest in the label that a host's tuner shows.
const LABEL_DIGITS: usize = 12;
/// One in so many hosts without an order says whether a controller hears the fleet.
const UNTOLD_SHARE: usize = 4;

/// A change on its way.
pub(crate) struct OpenChange {
    act: ChangeAct,
    objective: Option<String>,
    missed: ObjectiveCount,
    /// What has come of the last question for the objective, and when.
    answer: Option<(Now, Result<(), String>)>,
    gate: Option<ShadowGate>,
    change: FleetChange,
    /// Of its progress in the register.
    revision: Revision,
    /// The decision that waits for the register, and since when.
    waiting: Option<(u64, Now)>,
    /// When the last point was of each host that is counted.
    counted: BTreeMap<HostId, u32>,
    /// Hosts whose agents are heard and say nothing of it, and since when.
    wordless: BTreeMap<HostId, Now>,
    /// Scopes that the guard had frozen at the last look.
    guarded: BTreeSet<String>,
    clusters: BTreeSet<ClusterName>,
    zones: BTreeSet<ZoneName>,
    /// Half of its hosts are heard here, or half of those that it has not touched. A controller that is cut off would take them for
    /// silent, and halt the change.
    hears_most: bool,
    /// Something was frozen at the last look.
    had_frozen: bool,
    /// The state that people were told of.
    said: &'static str,
    /// The decision that the audit log was told of.
    recorded: u64,
}

impl OpenChange {
    pub(super) fn new(
        record: ChangeRecord,
        (progress, revision): (ChangeProgress, Revision),
        now: Now,
    ) -> OpenChange {
        let ChangeRecord { plan, act, objective, gate } = record;
        let clusters = plan.hosts.iter().flat_map(|host| host.clusters.iter().cloned()).collect();
        let zones = plan.hosts.iter().map(|host| host.zone.clone()).collect();
        let change = FleetChange::resume(plan, progress, now);
        let said = change.state().word();
        let (waiting, counted, guarded) = (None, BTreeMap::new(), BTreeSet::new());
        let mut open = OpenChange {
            wordless: BTreeMap::new(),
            hears_most: false,
            had_frozen: false,
            missed: ObjectiveCount::default(),
            answer: None,
            gate,
            act,
            objective,
            change,
            revision,
            waiting,
            counted,
            guarded,
            clusters,
            zones,
            said,
            recorded: 0,
        };
        // Whoever has decided so far knew more.
        open.weigh_objective(true, now);
        if let Some(gate) = &open.gate {
            let reason = format!("{gate} was not looked at by this controller yet");
            open.change.note(ChangeEvent::Withheld { by: SignalSource::Gate, reason }, now);
        }
        open
    }

    /// The machine.
    pub(crate) fn change(&self) -> &FleetChange {
        &self.change
    }

    /// Its plan.
    pub(crate) fn plan(&self) -> &ChangePlan {
        self.change.plan()
    }

    /// What halts it besides.
    pub(crate) fn objective(&self) -> Option<&str> {
        self.objective.as_deref()
    }

    /// What had to be so before it began, and halts it if it is so no more.
    pub(crate) fn gate(&self) -> Option<&ShadowGate> {
        self.gate.as_ref()
    }

    /// Takes what its gate says. A gate that is missed halts the change until it is fulfilled again, or a person resumes it, who has seen that.
    /// While samples are too few, no further host is told.
    pub(crate) fn hear_gate(&mut self, state: &GateState, now: Now) {
        let (by, about) = (SignalSource::Gate, GATE.to_owned());
        match state {
            GateState::Missed(why) if self.halts_by(GATE) => {
                let (reason, about) = (why.clone(), [about].into());
                self.on(ChangeEvent::Signal { from: by, reason, about }, now);
            }
            GateState::Fulfilled(_) => {
                self.change.note(ChangeEvent::SignalOver { about }, now);
                self.change.note(ChangeEvent::Allowed { by }, now);
            }
            GateState::Missed(_) | GateState::NotYet(_) if self.change.is_excused(GATE) => {
                self.change.note(ChangeEvent::Allowed { by }, now);
            }
            GateState::NotYet(why) => {
                self.change.note(ChangeEvent::Withheld { by, reason: why.clone() }, now);
            }
            GateState::Missed(_) => {}
        }
    }

    /// It goes on, and nobody has said that this halts it no more.
    fn halts_by(&self, about: &str) -> bool {
        matches!(self.change.state(), ChangeState::Going { .. }) && !self.change.is_excused(about)
    }

    /// Of its progress in the register.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Takes what happened, and acts on it.
    pub(crate) fn on(&mut self, event: ChangeEvent, now: Now) {
        self.change.on(event, now);
        self.note_waiting(now);
    }

    /// The register has all that was decided.
    pub(crate) fn is_decided_in_register(&self) -> bool {
        self.change.to_write().is_none()
    }

    /// Whether the audit log is told of the decision that waits, which is once for each.
    pub(crate) fn begin_recording(&mut self) -> bool {
        let version = self.waiting.map_or(0, |(version, _)| version);
        self.said != self.change.state().word() && std::mem::replace(&mut self.recorded, version) != version
    }

    /// Enough of its hosts are heard here: otherwise nothing is decided here but what a person wants, and the way back.
    pub(crate) fn hears_most(&self) -> bool {
        self.hears_most
    }

    /// Something may be decided here. Hosts that go back must not wait until most are heard: those that are not may never be.
    pub(super) fn may_decide(&self) -> bool {
        self.hears_most || self.change.goes_back()
    }

    /// A decision has waited for so long that this controller writes it. One that hears few leaves the way back to another one for
    /// longer, which knows better whom it has to wait for.
    pub(crate) fn is_due(&self, waits_ms: u64, now: Now) -> bool {
        let waits_ms = waits_ms + if self.hears_most { 0 } else { DEAF_WAITS_MS };
        self.may_decide() && self.waiting.is_some_and(|(_, since)| since.ms() + waits_ms <= now.ms())
    }

    /// The register has taken the decision that waits.
    pub(crate) fn written(&mut self, revision: Revision, now: Now) {
        self.revision = revision;
        if let Some((version, _)) = self.waiting.take() {
            self.change.written(version);
        }
        self.note_waiting(now);
    }

    /// The register has this.
    pub(crate) fn adopt(&mut self, progress: ChangeProgress, revision: Revision, now: Now) {
        self.revision = revision;
        self.change.adopt(progress);
        self.note_waiting(now);
    }

    fn note_waiting(&mut self, now: Now) {
        let version = self.change.to_write().map(|progress| progress.version);
        self.waiting = version.map(|version| match self.waiting {
            Some((known, since)) if known == version => (version, since),
            _ => (version, now),
        });
    }

    /// Its state, if people were not told of it yet.
    pub(crate) fn take_new_state(&mut self) -> Option<ChangeState> {
        let state = self.change.state();
        let is_new = self.change.to_write().is_none() && self.said != state.word();
        is_new.then(|| {
            self.said = state.word();
            state
        })
    }

    /// What a host is told.
    pub(super) fn order(&self, host: &HostId) -> Option<ChangeOrder> {
        let order = self.change.order(host)?;
        let confirm_ms = self.plan().settings.confirm_ms;
        Some(ChangeOrder { order, act: self.act.of_host(host)?, confirm_ms })
    }

    /// Takes what an agent says of its host.
    pub(super) fn hear(&mut self, record: &AgentRecord, book: &FigureBook, now: Now) {
        let report = record.report();
        let host = &report.host;
        if !self.plan().has(host) {
            return;
        }
        let event = self.event_of(host, report.changes.as_ref(), now);
        self.change.note(event, now);
        let number = self.plan().number;
        let aside = report.changes.iter().flat_map(|changes| &changes.aside);
        let is_own = |aside: &&AsideWord| aside.change == number && self.is_meant(host, aside.own.as_ref());
        let aside = aside.into_iter().find(is_own);
        // What is heard now decides, so that a controller that has just begun decides the same.
        let aside = match aside.map(|aside| aside.reason.clone()) {
            Some(reason) => ChangeEvent::SteppedAside { host: host.clone(), reason },
            None => ChangeEvent::NotAside { host: host.clone() },
        };
        self.change.note(aside, now);
        let after = self.counted.get(host).copied();
        if let Some((at_s, figures)) = host_figures(report, book, after) {
            self.counted.insert(host.clone(), at_s);
            self.change.note(ChangeEvent::Measured { host: host.clone(), figures }, now);
        }
    }

    /// What a host says of this change. One that the register has not told of it is as before, as long as its agent could say otherwise.
    fn event_of(&mut self, host: &HostId, changes: Option<&ChangesReport>, now: Now) -> ChangeEvent {
        let number = self.plan().number;
        let said = changes.and_then(|changes| changes.words.iter().find(|word| word.change == number));
        let told = self.change.order(host);
        let is_told = told.is_some();
        let is_meant = said.is_some_and(|said| self.is_meant(host, said.own.as_ref()));
        let host = host.clone();
        match said {
            Some(said) if is_meant => {
                self.wordless.remove(&host);
                return ChangeEvent::Said { host, word: said.word.clone() };
            }
            // Nothing of the other change is on the host: its agent takes up this one when it is told.
            Some(ChangeWord {
                word: HostWord::AsBefore | HostWord::Lapsed { .. } | HostWord::Failed { .. },
                ..
            }) if !is_told => return ChangeEvent::Said { host, word: HostWord::AsBefore },
            Some(ChangeWord {
                own: Some(own),
                word: HostWord::Trying { .. } | HostWord::Changed { .. } | HostWord::Stuck { .. },
                ..
            }) => {
                self.wordless.remove(&host);
                let attempt = told.and_then(|order| order.attempt).unwrap_or_default();
                return ChangeEvent::Said {
                    host,
                    word: HostWord::Failed { attempt, reason: other(number, own) },
                };
            }
            Some(_) => {}
            None if !is_told && changes.is_some() => {
                return ChangeEvent::Said { host, word: HostWord::AsBefore };
            }
            None => {}
        }
        // The order is on its way to it, or its agent is an older one now.
        let since = *self.wordless.entry(host.clone()).or_insert(now);
        match since.ms() + self.plan().settings.confirm_ms <= now.ms() {
            true => ChangeEvent::Silent { host, since },
            false => ChangeEvent::Wordless { host },
        }
    }

    /// A word with this digest is one about this change, and not about another one with its number; that of an older agent may be either.
    fn is_meant(&self, host: &HostId, own: Option<&AnswerDigest>) -> bool {
        own.is_none_or(|own| self.act.own.get(host) == Some(own))
    }

    /// Takes what has come of its objective. One that is missed while nothing goes on halts nothing.
    pub(super) fn hear_objective(&mut self, outcome: Result<(), String>, now: Now) {
        self.answer = Some((now, outcome.clone()));
        self.weigh_objective(true, now);
        let is_going = matches!(self.change.state(), ChangeState::Going { .. });
        let missed = self.missed.note(if is_going { outcome } else { Ok(()) });
        if let Some(reason) = missed {
            let about = BTreeSet::new();
            self.change.note(ChangeEvent::Signal { from: SignalSource::Objective, reason, about }, now);
        }
    }

    /// An objective that was not met lately, by the last answer that was had here, tells no further host. Another controller that knows it to be met
    /// does, a moment later than this one would.
    fn weigh_objective(&mut self, is_asked: bool, now: Now) {
        if self.objective.is_none() {
            return;
        }
        let by = SignalSource::Objective;
        let fresh = self.answer.as_ref().filter(|(at, _)| at.ms() + OBJECTIVE_COUNTS_MS >= now.ms());
        let reason = match fresh {
            Some((_, Ok(()))) => return self.change.note(ChangeEvent::Allowed { by }, now),
            Some((_, Err(why))) => format!("it was missed the last time: {why}"),
            None if !is_asked => {
                "this controller asks no Prometheus (--prometheus); one that does goes on with the change"
                    .to_owned()
            }
            None if self.answer.is_none() => "Prometheus has not answered yet".to_owned(),
            None => format!("Prometheus was not asked within {} s", OBJECTIVE_COUNTS_MS / 1000),
        };
        self.change.note(ChangeEvent::Withheld { by, reason }, now);
    }

    /// Takes what is so of all of its hosts.
    pub(super) fn look(&mut self, hosts: &HostsNow<'_>, asks_objectives: bool, now: Now) {
        self.hears_most = self.hears_enough(hosts);
        self.weigh_objective(asks_objectives, now);
        let mut events = Vec::new();
        // Most of the time nothing is frozen, and thousands of hosts are looked at every second.
        let has_frozen = hosts.has_frozen();
        let is_told = std::mem::replace(&mut self.had_frozen, has_frozen) || has_frozen;
        for planned in &self.plan().hosts {
            let host = planned.host.clone();
            if is_told {
                events.push(match hosts.is_frozen(planned) {
                    true => ChangeEvent::Frozen { host: host.clone() },
                    false => ChangeEvent::Thawed { host: host.clone() },
                });
            }
            if hosts.has_left(&host) {
                events.push(ChangeEvent::Left { host });
            } else if let Some(since) = hosts.silent_since(&host) {
                events.push(ChangeEvent::Silent { host, since });
            }
        }
        let guarded: BTreeMap<String, String> = hosts.guarded(&self.clusters, &self.zones).collect();
        let halting: Vec<(&String, &String)> =
            guarded.iter().filter(|(scope, _)| self.halts_by(scope)).collect();
        if let Some((_, reason)) = halting.first() {
            let about = halting.iter().map(|(scope, _)| (*scope).clone()).collect();
            let reason = (*reason).clone();
            events.push(ChangeEvent::Signal { from: SignalSource::Guard, reason, about });
        }
        // One that this controller has not seen frozen may be so all the same: it has begun a moment ago.
        let over = self.guarded.iter().filter(|scope| !guarded.contains_key(*scope));
        events.extend(over.map(|scope| ChangeEvent::SignalOver { about: scope.clone() }));
        self.guarded = guarded.into_keys().collect();
        events.into_iter().for_each(|event| self.change.note(event, now));
    }

    /// This controller is not cut off. Hosts that have the change may all be silent because of it, which has to halt it: those that it has not
    /// touched say whether anybody is heard, as long as they are many.
    fn hears_enough(&self, hosts: &HostsNow<'_>) -> bool {
        let is_known = |host: &HostId| hosts.is_heard(host) || hosts.has_left(host);
        let all = &self.plan().hosts;
        let heard = all.iter().filter(|planned| is_known(&planned.host)).count();
        if heard * 2 >= all.len() {
            return true;
        }
        let told: BTreeSet<&HostId> = self.change.told().map(|(host, ..)| host).collect();
        let untold: Vec<&HostId> =
            all.iter().map(|planned| &planned.host).filter(|host| !told.contains(host)).collect();
        let heard = untold.iter().filter(|host| is_known(host)).count();
        untold.len() * UNTOLD_SHARE >= all.len() && heard * 2 >= untold.len()
    }
}

/// Why a host cannot have a change: its agent takes no order about it.
fn other(number: ChangeNumber, own: &AnswerDigest) -> String {
    let digest = &own.as_str()[..LABEL_DIGITS];
    format!(
        "it has another change under the number {number}, of the time before the register was restored: take that one back on the host first (`evenkeel tune status` names it as change-{number}-{digest})"
    )
}
