//! Figures of a controller: what it knows in numbers, for its metrics.

use std::collections::BTreeMap;

use fleet::GenerationNumber;
use fleet::waves::{ChangeState, WaitsFor};

use super::request_sums::RequestSums;
use crate::controller::Controller;
use crate::controller::answers::changes::ChangeCounts;
use crate::controller::answers::standards::waiting_hosts;
use crate::controller::audit_trail::DecisionCounts;
use crate::controller::observing::agents::AgentRecord;
use crate::controller::observing::member_facts::MemberCode;
use crate::controller::tuning::figures::TuneFigures;
use crate::controller::tuning::standards::HostStandards;
use crate::service::turn::{RouterReport, TextReport};

/// How a router is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RouterCode {
    /// It has the generation in force.
    Current,
    /// It has an older one: its turn in the rollout has not come, or it has not loaded it yet.
    Behind,
    /// It has refused or given back a text, has one of somebody else, or its agent cannot go on.
    Refusing,
    /// Its agent is not heard.
    Silent,
}

impl RouterCode {
    pub(super) const ALL: [RouterCode; 4] =
        [RouterCode::Current, RouterCode::Behind, RouterCode::Refusing, RouterCode::Silent];

    pub(super) fn word(self) -> &'static str {
        match self {
            RouterCode::Current => "current",
            RouterCode::Behind => "behind",
            RouterCode::Refusing => "refusing",
            RouterCode::Silent => "silent",
        }
    }

    pub(super) fn of(
        record: &AgentRecord,
        router: &RouterReport,
        target: Option<GenerationNumber>,
    ) -> RouterCode {
        match router.text {
            _ if record.is_silent() => RouterCode::Silent,
            TextReport::Refused { .. } | TextReport::Crashed { .. } | TextReport::Foreign => {
                RouterCode::Refusing
            }
            _ if router.trouble.is_some() => RouterCode::Refusing,
            _ if router.generation < target => RouterCode::Behind,
            _ => RouterCode::Current,
        }
    }
}

/// What a controller knows, in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControllerFigures {
    /// The generation in force, if there is one.
    pub(crate) generation: Option<u64>,
    /// Why the register does not answer, if it does not.
    pub(crate) register_away: Option<String>,
    /// Where the rollout is, if there is one.
    pub(crate) rollout: Option<&'static str>,
    /// How many members there are of each state; all states are there.
    pub(crate) members: BTreeMap<&'static str, u64>,
    /// The same of routers.
    pub(crate) routers: BTreeMap<&'static str, u64>,
    /// Agents, and those of them that are not heard.
    pub(crate) agents: u64,
    pub(crate) silent_agents: u64,
    /// Time since the turn of each agent, of the one whose last turn is longest ago.
    pub(crate) oldest_turn_ms: Option<u64>,
    /// Turns that were taken, also from other controllers.
    pub(crate) turns: u64,
    /// Scopes in which nothing changes.
    pub(crate) frozen_scopes: u64,
    /// Members and hosts in quarantine.
    pub(crate) held: u64,
    /// The last second of the controller's certificate, if it has one.
    pub(crate) certificate_end_s: Option<u64>,
    /// What is known of requests.
    pub(crate) requests: RequestSums,
    /// What is known of the tuning of hosts.
    pub(crate) tune: TuneFigures,
    /// Changes of hosts that are on their way, by state; all words of [`open_word`] are there.
    pub(crate) changes: BTreeMap<&'static str, u64>,
    /// Hosts of these changes by how they are; all words are there.
    pub(crate) change_hosts: BTreeMap<&'static str, u64>,
    /// Hosts that have a standard, by how they are; all words are there.
    pub(crate) standard_hosts: BTreeMap<&'static str, u64>,
    /// Hosts whose standard waits for a person.
    pub(crate) standards_waiting: u64,
    /// What has come of decisions, by verb and result.
    pub(crate) decisions: DecisionCounts,
    /// Acts and results that the audit log has not taken.
    pub(crate) audit_failures: u64,
}

/// The state of a change that is on its way, in a word. One that waits because something is not known has its own: what is not known may
/// become so in a moment, or only after a person has done something.
fn open_word(state: &ChangeState) -> &'static str {
    match state {
        ChangeState::Going { waits_for: WaitsFor::Signal { .. }, .. } => "waiting",
        state => state.word(),
    }
}

impl Controller {
    /// How many routers there are of each state; all states are there.
    pub(super) fn router_codes(&self) -> BTreeMap<&'static str, u64> {
        let mut routers: BTreeMap<_, _> = RouterCode::ALL.map(|code| (code.word(), 0)).into();
        let target = self.register.target();
        for (_, record) in self.agents.iter() {
            for router in &record.report().routers {
                *routers.entry(RouterCode::of(record, router, target).word()).or_default() += 1;
            }
        }
        routers
    }

    /// Its figures at this moment. It looks at every member once.
    pub(crate) fn figures(&self) -> ControllerFigures {
        let view = self.register.view();
        let mut members: BTreeMap<_, _> = MemberCode::ALL.map(|code| (code.word(), 0)).into();
        for code in self.facts().codes().into_values() {
            *members.entry(code.word()).or_default() += 1;
        }
        let routers = self.router_codes();
        let target = self.register.target();
        let mut changes: BTreeMap<_, _> =
            ["going", "waiting", "halted", "undoing"].map(|word| (word, 0)).into();
        let mut change_hosts: BTreeMap<_, _> = ChangeCounts::WORDS.map(|word| (word, 0)).into();
        for (_, open) in self.tuning.changes.iter() {
            *changes.entry(open_word(&open.change().state())).or_default() += 1;
            for (word, count) in ChangeCounts::of(open.change()).rows() {
                *change_hosts.entry(word).or_default() += count as u64;
            }
        }
        let standards = HostStandards::of(view, &self.agents);
        let ages = self.agents.iter().map(|(_, record)| self.now.ms().saturating_sub(record.heard().ms()));
        ControllerFigures {
            generation: target.map(|target| target.0),
            register_away: self.register.away().map(str::to_owned),
            rollout: self.rollout.state().map(|state| state.word()),
            members,
            routers,
            agents: self.agents.iter().count() as u64,
            silent_agents: self.agents.iter().filter(|(_, record)| record.is_silent()).count() as u64,
            oldest_turn_ms: ages.max(),
            turns: self.agents.turns(),
            frozen_scopes: view.frozen().len() as u64,
            held: self.health.held().count() as u64,
            certificate_end_s: self.signing.certificate_end_s(),
            requests: RequestSums::of(self.agents.figures().book(), self.now),
            tune: self.tuning.figures(&self.agents),
            changes,
            change_hosts,
            standard_hosts: standards.counts(),
            standards_waiting: waiting_hosts(&standards, &self.tuning.standards).len() as u64,
            decisions: self.trail.decided().clone(),
            audit_failures: self.trail.failures(),
        }
    }
}
