//! Changes of hosts: what people begin, halt, resume and undo, and what goes on by itself. Each decision is in the register before
//! anybody is told.

use std::collections::BTreeSet;

use admin::api::ApiReply;
use fleet::HostId;
use fleet::figures::shadow::GateState;
use fleet::waves::{
    ChangeError, ChangeEvent, ChangeNumber, ChangePlan, ChangeState, FleetChange, HostsAlike, SignalSource,
    WaveSettings,
};
use serde_json::json;

use crate::audit::{AuditReach, WHY_LEN_MAX};
use crate::controller::Controller;
use crate::controller::acting::tuning::unknown;
use crate::controller::answers::changes::{
    ChangeSeen, change_document, history_document, shown_document, write_by_hand,
};
use crate::controller::answers::replies::{document, refusal, register_away};
use crate::controller::audit_trail::AuditAct;
use crate::controller::changes::draft::DraftedChange;
use crate::controller::changes::{HostsNow, OpenChange};
use crate::controller::planning::changes::{change_draft, settings_of};
use crate::decisions::changes::{CHANGES_OPEN_MAX, ChangeEnd, ChangeRecord, ChangeRow, RECORD_LEN_MAX};
use crate::register::RegisterError;
use crate::service::access::controller_of;
use crate::service::authorise::ControlVerb;
use crate::service::questions::changes::{ChangeSteer, ChangeWanted};
use crate::service::turn::TuneWhat;
use crate::words::in_full;
use stdx::clock::Now;
use stdx::escape;
use stdx::words::counted;

/// Attempts to have what a person wants decided: a decision that waits is written first, and another controller may be faster.
const ATTEMPTS: usize = 5;
/// Changes that a register from a backup may lack, for their numbers not to be given twice.
const NUMBERS_LOST_MAX: u64 = 10_000;
/// Time until the register is asked again that did not take a decision, or did not have a record.
const RETRY_MS: u64 = 1_000;

impl Controller {
    /// Takes what an agent says of changes of its host.
    pub(crate) fn hear_of_changes(&mut self, host: &HostId) {
        let Some(record) = self.agents.get(host) else { return };
        self.tuning.changes.hear(record, self.agents.figures().book(), self.now);
    }

    /// Follows what the register has of changes: new ones, decisions of other controllers, and those that are over.
    pub(crate) fn follow_changes(&mut self) {
        let rows: Vec<ChangeRow> = self.register.view().changes().open().cloned().collect();
        let open: BTreeSet<ChangeNumber> = rows.iter().map(|row| row.number).collect();
        self.tuning.changes.keep(&open);
        for row in rows {
            if let Err(error) = self.follow_change(&row) {
                self.log.add(format!("change {} is not followed for now: {}", row.number, in_full(&error)));
                self.register.read_soon(Now::at_ms(self.now.ms() + RETRY_MS));
            }
        }
    }

    fn follow_change(&mut self, row: &ChangeRow) -> Result<(), RegisterError> {
        let (progress, revision) = self.register.change_progress(row.number)?;
        let is_new = match self.tuning.changes.get_mut(row.number) {
            Some(open) => {
                let before = open.change().version();
                open.adopt(progress, revision, self.now);
                open.change().version() != before
            }
            None => {
                let record = self.register.change_record(row)?;
                self.tuning.changes.begin(record, (progress, revision), self.now);
                true
            }
        };
        if is_new {
            self.tell_of_change(row.number);
        }
        Ok(())
    }

    /// Puts new orders at the seats of hosts that a change has told something, and says where it is.
    fn tell_of_change(&mut self, number: ChangeNumber) {
        let Some(open) = self.tuning.changes.get_mut(number) else { return };
        let line = open.take_new_state().map(|state| format!("change {number} is {}", state_words(&state)));
        line.into_iter().for_each(|line| self.log.add(line));
        let Some(open) = self.tuning.changes.get(number) else { return };
        for (host, ..) in open.change().told() {
            self.give_orders(host);
        }
    }

    /// Lets changes go on, and writes what was decided. The first controller by name does it, and another one when that is away.
    pub(crate) fn advance_changes(&mut self) {
        let (view, agents, health) = (self.register.view(), &self.agents, &self.health);
        self.tuning.changes.sweep(|| HostsNow::new(view, agents, health), self.now);
        self.judge_gates();
        if !self.tuning.changes.act(self.now) || self.register.away().is_some() {
            return;
        }
        let waits_ms = self.peers.waits_ms(self.now);
        for number in self.tuning.changes.numbers() {
            let Some(open) = self.tuning.changes.get(number) else { continue };
            if open.is_due(waits_ms, self.now)
                && let Err(error) = self.write_unasked(number)
            {
                self.log.add(format!("change {number} waits for the register: {}", in_full(&error)));
                self.tuning.changes.act_after(Now::at_ms(self.now.ms() + RETRY_MS));
            }
        }
    }

    /// Tells changes what their gates say now.
    fn judge_gates(&mut self) {
        let gated = self.tuning.changes.iter().filter(|(_, open)| open.hears_most());
        let gated =
            gated.filter_map(|(number, open)| Some((number, self.figures_source().gate_state(open.gate()?))));
        for (number, state) in gated.collect::<Vec<_>>() {
            if let Some(open) = self.tuning.changes.get_mut(number) {
                open.hear_gate(&state, self.now);
            }
        }
    }

    /// Writes what a change has decided by itself. A halt and an undo are in the audit log before; they are not put off because the log
    /// cannot be written.
    fn write_unasked(&mut self, number: ChangeNumber) -> Result<(), RegisterError> {
        let Some(open) = self.tuning.changes.get_mut(number) else { return Ok(()) };
        let halting = match open.change().state() {
            ChangeState::Halted(cause) => Some((ControlVerb::ChangeHalt, cause)),
            ChangeState::Undoing { cause, .. } => Some((ControlVerb::ChangeUndo, cause)),
            _ => None,
        };
        let Some((verb, cause)) = halting.filter(|_| open.begin_recording()) else {
            return self.write_change(number);
        };
        let own = controller_of(&self.settings.fleet, self.settings.host.as_str());
        let why = format!("change {number}: {cause}");
        let why = escape::line(&why);
        let why = &why[..why.floor_char_boundary(WHY_LEN_MAX)];
        let act = AuditAct { who: &own, verb, reach: AuditReach::Nothing, plan: None, why };
        let mut written = None;
        let reply = self.recorded(&act, |this| {
            let outcome = this.write_change(number);
            let reply = match &outcome {
                Ok(()) => document(String::new(), json!({})),
                Err(error) => register_away(error),
            };
            written = Some(outcome);
            reply
        });
        written.unwrap_or_else(|| {
            self.log.add(format!("change {number} halts, which the audit log does not have: {}", reply.json));
            self.write_change(number)
        })
    }

    /// Writes what a change has decided, if anything waits. If another controller was first, its decision is taken.
    fn write_change(&mut self, number: ChangeNumber) -> Result<(), RegisterError> {
        let Some(open) = self.tuning.changes.get(number) else { return Ok(()) };
        let Some(progress) = open.change().to_write().cloned() else { return Ok(()) };
        let end = progress.is_over().then(|| end_of(&open.change().state(), self.unix_s));
        let decided = (&progress, open.revision());
        match self.register.write_change_progress(number, decided, end)? {
            Some(revision) => {
                if let Some(open) = self.tuning.changes.get_mut(number) {
                    open.written(revision, self.now);
                }
            }
            None => {
                self.register.read_soon(self.now);
                let (progress, revision) = self.register.change_progress(number)?;
                if let Some(open) = self.tuning.changes.get_mut(number) {
                    open.adopt(progress, revision, self.now);
                }
            }
        }
        self.tell_of_change(number);
        let open: BTreeSet<ChangeNumber> =
            self.register.view().changes().open().map(|row| row.number).collect();
        self.tuning.changes.keep(&open);
        Ok(())
    }

    /// The change that would be made of the plans of a question.
    pub(crate) fn show_change(&mut self, wanted: &ChangeWanted) -> ApiReply {
        let drafted = match self.drafted(wanted) {
            Ok(drafted) => drafted,
            Err(reply) => return reply,
        };
        let mut draft = drafted.draft.clone();
        let mut needed: Vec<(HostsAlike, String)> = Vec::new();
        // The rest is shown all the same, so that all that is in the way is seen at once.
        let plan = loop {
            match ChangePlan::new(draft.clone(), &self.tuning.changes.plans()) {
                Ok(plan) => break plan,
                Err(error @ (ChangeError::NoPair { .. } | ChangeError::TooFewPairs { .. })) => {
                    let why = error.to_string();
                    let (ChangeError::NoPair { kind, .. } | ChangeError::TooFewPairs { kind, .. }) = error
                    else {
                        return refusal(422, &why);
                    };
                    draft.accepted.insert(kind.clone());
                    needed.push((kind, why));
                }
                Err(error @ ChangeError::Overlap { .. }) => return refusal(409, &error.to_string()),
                Err(ChangeError::NoHosts) => {
                    let mut text = no_hosts(&drafted);
                    if !drafted.by_hand.is_empty() {
                        text.push('\n');
                        write_by_hand(&mut text, &drafted).expect("writing to memory does not fail");
                    }
                    return refusal(422, text.trim_end());
                }
                Err(error) => return refusal(422, &error.to_string()),
            }
        };
        self.tuning.changes.shown.note(&drafted);
        shown_document(&drafted, &plan, &needed)
    }

    /// Begins a change, if it is the one that was shown.
    pub(crate) fn begin_change(&mut self, wanted: &ChangeWanted, shown: &str, by: (&str, &str)) -> ApiReply {
        self.read();
        if let Some(away) = self.register.away() {
            return refusal(503, &format!("nothing is begun without the register: {away}"));
        }
        let drafted = match self.drafted(wanted) {
            Ok(drafted) => drafted,
            Err(reply) => return reply,
        };
        if drafted.digest.as_str() != shown {
            return self.differs(shown, &drafted);
        }
        match &drafted.gate {
            Some((_, GateState::NotYet(why))) => {
                let hint = "`control shadow gate GATE --wait SECONDS` waits for it";
                return refusal(409, &format!("the gate is not fulfilled yet: {why}\n  hint: {hint}"));
            }
            Some((_, GateState::Missed(why))) => return refusal(422, &format!("the gate is missed: {why}")),
            Some((_, GateState::Fulfilled(_))) | None => {}
        }
        let list = self.register.view().changes();
        let open = list.open().count();
        if open >= CHANGES_OPEN_MAX {
            let most =
                format!("{open} changes are on their way, and at most {CHANGES_OPEN_MAX} are accepted");
            return refusal(409, &format!("{most}\n  hint: wait for the end of one, or undo it"));
        }
        if let Some(unknown) = list.open().find(|row| self.tuning.changes.get(row.number).is_none()) {
            let number = unknown.number;
            return refusal(
                503,
                &format!("change {number} is on its way, and its hosts are not known here yet"),
            );
        }
        let number = ChangeNumber(list.last.max(self.number_told(list.last)) + 1);
        let plan = match self.planned(&drafted, number) {
            Ok(plan) => plan,
            Err(error @ ChangeError::Overlap { .. }) => return refusal(409, &error.to_string()),
            Err(error) => return refusal(422, &error.to_string()),
        };
        let hosts = HostsNow::new(self.register.view(), &self.agents, &self.health);
        if plan.hosts.iter().all(|host| hosts.is_frozen(host)) {
            let error = "all hosts of the change are in frozen scopes";
            return refusal(
                409,
                &format!("{error}\n  hint: `control status` names them, and `control thaw` ends a freeze"),
            );
        }
        let DraftedChange { act, objective, gate, .. } = drafted;
        self.write_new(ChangeRecord { plan, act, objective, gate: gate.map(|(gate, _)| gate) }, by)
    }

    fn write_new(&mut self, record: ChangeRecord, (who, why): (&str, &str)) -> ApiReply {
        let (number, hosts) = (record.plan.number, record.plan.hosts.len());
        let text = serde_json::to_string(&record).expect("it has names, texts and numbers");
        if text.len() > RECORD_LEN_MAX {
            let found = text.len();
            return refusal(
                422,
                &format!(
                    "the change has {found} bytes, and at most {RECORD_LEN_MAX} are kept\n  hint: begin it for a part of the hosts, and then for the rest"
                ),
            );
        }
        let row = ChangeRow {
            number,
            sha256: String::new(),
            parts: 0,
            what: record.plan.what.clone(),
            who: who.to_owned(),
            why: why.to_owned(),
            unix_s: self.unix_s,
            hosts,
            end: None,
        };
        match self.register.create_change(&text, row) {
            Ok(true) => {}
            Ok(false) => return self.overtaken(),
            Err(error) => return register_away(&error),
        }
        self.follow_changes();
        let text = format!(
            "change {number} has begun: {} of {}\n`control tune status {number}` says where it is\n",
            record.plan.what,
            counted(hosts, "host")
        );
        document(text, json!({"number": number, "hosts": hosts}))
    }

    /// The highest number of a change that hosts tell of: a register from a backup lacks the last ones.
    fn number_told(&self, last: u64) -> u64 {
        let words = self.agents.iter().filter_map(|(_, record)| record.report().changes.as_ref());
        let numbers = words.flat_map(|changes| &changes.words).map(|word| word.change.0);
        // One host must not use the numbers up.
        numbers.filter(|number| *number <= last.saturating_add(NUMBERS_LOST_MAX)).max().unwrap_or_default()
    }

    /// The refusal of a plan that is another one now, with the hosts that make the difference.
    fn differs(&self, shown: &str, drafted: &DraftedChange) -> ApiReply {
        let hosts = self.tuning.changes.shown.differing(shown, drafted);
        let who = match &hosts[..] {
            [] => "the fleet or the settings of its waves have changed meanwhile".to_owned(),
            hosts => {
                let names: Vec<&str> = hosts.iter().take(3).map(HostId::as_str).collect();
                let more = hosts.len() - names.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{}{more} would change something else now, or cannot be changed", names.join(", "))
            }
        };
        refusal(409, &format!("the plan is not the one that was shown: {who}\n  hint: look at the new plan"))
    }

    /// What is made of the plans of a question.
    fn drafted(&self, wanted: &ChangeWanted) -> Result<DraftedChange, ApiReply> {
        let Some(open) = self.tuning.get(&wanted.id) else { return Err(unknown(&wanted.id)) };
        let TuneWhat::Plan(wish) = &open.ask.what else {
            return Err(refusal(422, &format!("the question {} was not for a plan", wanted.id)));
        };
        if wanted.terms.objective.is_some() && !self.tuning.changes.asks_objectives() {
            let error = "this controller asks no Prometheus for objectives";
            let hint = "`control serve --prometheus http://HOST:PORT` gives it one";
            return Err(refusal(422, &format!("{error}\n  hint: {hint}")));
        }
        let policy =
            self.register.view().policy().map_or_else(WaveSettings::default, |policy| policy.waves.clone());
        let settings = settings_of(&policy, &wanted.terms.settings).map_err(|error| refusal(422, &error))?;
        let places = self.host_places();
        let asked = self.answers_of(open, &places);
        let gate = wanted.terms.gate.as_ref().map(|gate| self.figures_source().gate_state(gate));
        change_draft(&asked, &self.agents, (wish, settings), (&wanted.terms, gate))
            .map_err(|error| refusal(422, &error))
    }

    fn planned(&self, drafted: &DraftedChange, number: ChangeNumber) -> Result<ChangePlan, ChangeError> {
        let mut draft = drafted.draft.clone();
        draft.number = number;
        ChangePlan::new(draft, &self.tuning.changes.plans())
    }

    /// All that is known of a change, or the list of the last ones.
    pub(crate) fn changes_document(&self, number: Option<ChangeNumber>) -> ApiReply {
        let list = self.register.view().changes();
        let Some(number) = number else {
            let state =
                |row: &ChangeRow| self.tuning.changes.get(row.number).map(|open| open.change().state());
            return history_document(list, state);
        };
        let Some(row) = list.row(number) else { return unknown_change(number) };
        if let Some(open) = self.tuning.changes.get(number) {
            return change_document(&ChangeSeen {
                row,
                change: open.change(),
                objective: open.objective(),
                asks_objectives: self.tuning.changes.asks_objectives(),
                gate: open.gate().map(|gate| (gate, Some(self.figures_source().gate_state(gate)))),
                is_deaf: !open.hears_most(),
            });
        }
        let known = self
            .register
            .change_record(row)
            .and_then(|record| Ok((record, self.register.change_progress(number)?.0)));
        match known {
            Ok((ChangeRecord { plan, objective, gate, .. }, progress)) => {
                let change = FleetChange::resume(plan, progress, self.now);
                change_document(&ChangeSeen {
                    row,
                    change: &change,
                    objective: objective.as_deref(),
                    asks_objectives: self.tuning.changes.asks_objectives(),
                    gate: gate.as_ref().map(|gate| (gate, None)),
                    is_deaf: false,
                })
            }
            Err(error) => register_away(&error),
        }
    }

    /// Does what a person wants of a change.
    pub(crate) fn steer_change(&mut self, number: ChangeNumber, act: ChangeSteer, why: &str) -> ApiReply {
        self.read();
        let Some(row) = self.register.view().changes().row(number).cloned() else {
            return unknown_change(number);
        };
        if let Err(reply) = self.open_again(&row, act) {
            return reply;
        }
        let Some(open) = self.tuning.changes.get_mut(number) else {
            return refusal(
                503,
                &format!("change {number} is on its way, and this controller could not read it yet"),
            );
        };
        let state = open.change().state();
        if !may(act, &state) {
            return refusal(409, &format!("change {number} is {}", state_words(&state)));
        }
        let reason = why.to_owned();
        let event = match act {
            ChangeSteer::Halt => {
                ChangeEvent::Signal { from: SignalSource::Person, reason, about: BTreeSet::new() }
            }
            ChangeSteer::Resume => ChangeEvent::Resume,
            ChangeSteer::Undo => ChangeEvent::Undo { reason },
        };
        open.on(event, self.now);
        for _ in 0..ATTEMPTS {
            if let Err(error) = self.write_change(number) {
                return register_away(&error);
            }
            let Some(open) = self.tuning.changes.get_mut(number) else { break };
            if is_as_wanted(act, open) {
                break;
            }
            open.on(ChangeEvent::Tick, self.now);
        }
        match self.tuning.changes.get(number) {
            Some(open) if !is_as_wanted(act, open) => self.overtaken(),
            Some(open) => {
                let state = open.change().state();
                let text = format!("change {number} is {}\n", state_words(&state));
                document(text, json!({"number": number, "state": state.word()}))
            }
            None => self.steered_to_end(number, act),
        }
    }

    /// A change that is not open any more: it has come to the end that was wanted, or another controller was faster.
    fn steered_to_end(&mut self, number: ChangeNumber, act: ChangeSteer) -> ApiReply {
        self.read();
        let end = self.register.view().changes().row(number).and_then(|row| row.end.as_ref());
        match (act, end.map(|end| end.state.as_str())) {
            (ChangeSteer::Undo, Some(state @ "undone")) | (ChangeSteer::Resume, Some(state @ "done")) => {
                document(format!("change {number} is {state}\n"), json!({"number": number, "state": state}))
            }
            _ => self.overtaken(),
        }
    }

    /// Takes a change that is done up again, so that it is undone.
    fn open_again(&mut self, row: &ChangeRow, act: ChangeSteer) -> Result<(), ApiReply> {
        let (number, Some(end)) = (row.number, &row.end) else { return Ok(()) };
        if act != ChangeSteer::Undo || end.state != "done" {
            return Err(refusal(
                409,
                &format!("change {number} is {}, and nothing of it is on its way", end.state),
            ));
        }
        let known = self
            .register
            .change_record(row)
            .and_then(|record| Ok((record, self.register.change_progress(number)?)));
        let (record, progress) = known.map_err(|error| register_away(&error))?;
        let open = self.tuning.changes.iter();
        if let Some((other, _)) = open
            .filter(|(other, _)| *other != number)
            .find(|(_, open)| open.plan().hosts.iter().any(|host| record.plan.has(&host.host)))
        {
            let error = format!("change {other} is on its way on hosts of change {number}");
            return Err(refusal(409, &format!("{error}\n  hint: wait for its end, or undo it first")));
        }
        if let Some(newer) = self.newer_on_same_hosts(&record).map_err(|error| register_away(&error))? {
            let error = format!("change {newer} was made on hosts of change {number} since");
            return Err(refusal(409, &format!("{error}\n  hint: undo that one first")));
        }
        self.tuning.changes.begin(record, progress, self.now);
        Ok(())
    }

    /// A later change that is done, of hosts that a change has.
    fn newer_on_same_hosts(&self, record: &ChangeRecord) -> Result<Option<ChangeNumber>, RegisterError> {
        let is_newer = |row: &&ChangeRow| {
            row.number > record.plan.number && row.end.as_ref().is_some_and(|end| end.state == "done")
        };
        for row in self.register.view().changes().rows.iter().filter(is_newer) {
            let newer = self.register.change_record(row)?;
            if newer.plan.hosts.iter().any(|host| record.plan.has(&host.host)) {
                return Ok(Some(row.number));
            }
        }
        Ok(None)
    }
}

fn may(act: ChangeSteer, state: &ChangeState) -> bool {
    match act {
        ChangeSteer::Halt => matches!(state, ChangeState::Going { .. }),
        ChangeSteer::Resume => matches!(state, ChangeState::Halted(_)),
        ChangeSteer::Undo => {
            matches!(state, ChangeState::Going { .. } | ChangeState::Halted(_) | ChangeState::Done)
        }
    }
}

/// The register has it.
fn is_as_wanted(act: ChangeSteer, open: &OpenChange) -> bool {
    let state = open.change().state();
    let is_so = match act {
        ChangeSteer::Halt => matches!(state, ChangeState::Halted(_) | ChangeState::Undoing { .. }),
        ChangeSteer::Resume => matches!(state, ChangeState::Going { .. } | ChangeState::Done),
        ChangeSteer::Undo => matches!(state, ChangeState::Undoing { .. } | ChangeState::Undone(_)),
    };
    is_so && open.is_decided_in_register()
}

fn end_of(state: &ChangeState, unix_s: i64) -> ChangeEnd {
    let why = match state {
        ChangeState::Undone(cause) => Some(cause.to_string()),
        _ => None,
    };
    ChangeEnd { state: state.word().to_owned(), why, unix_s }
}

fn state_words(state: &ChangeState) -> String {
    match state {
        ChangeState::Going { .. } => "going on".to_owned(),
        ChangeState::Halted(cause) => format!("halted: {cause}"),
        ChangeState::Undoing { cause, .. } => format!("being undone: {cause}"),
        ChangeState::Done => "done".to_owned(),
        ChangeState::Undone(cause) => format!("undone: {cause}"),
    }
}

fn unknown_change(number: ChangeNumber) -> ApiReply {
    refusal(404, &format!("there is no change {number}\n  hint: `control tune history` lists the last ones"))
}

fn no_hosts(drafted: &DraftedChange) -> String {
    let first = drafted.left.first().map_or(String::new(), |(host, why)| format!("; {host}: {why}"));
    format!("no host can be changed, of {}{first}", counted(drafted.left.len(), "host"))
}
