//! Facts about members: what is known of each from the register, agents and probes, and which of them may take a slot.

use std::collections::BTreeMap;

use fleet::health::HitCounts;
use fleet::{Excluded, FleetMember, FleetPolicy, GenerationNumber, MemberId, UnfitMember};
use stdx::clock::Now;

use super::agents::Agents;
use super::probes::MemberProbes;
use crate::controller::health::MemberHealth;
use crate::controller::register_mirror::FleetView;
use crate::controller::tuning::standards::HostStandards;
use crate::service::turn::{MemberReport, ProcessReport};

/// What a member is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// It has a slot of a cluster.
    InSlot {
        /// The cluster.
        cluster: String,
        /// The slot.
        slot: String,
    },
    /// It has none, and is empty: it may take one.
    Spare,
    /// It has none, and what it has may be old: it is emptied first.
    Stale,
}

/// What a member is and how it is, in one word for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemberCode {
    /// It has a slot, and answers.
    Serving,
    /// It has a slot that moves to another member, or comes from one.
    Draining,
    /// It has a slot, and a probe, its agent or its process is missing.
    Suspect,
    /// It has a slot, and counts as lost.
    Lost,
    /// It has a slot, and this controller has heard nothing of it: it began a moment ago.
    Unknown,
    /// It has no slot, and may take one.
    Spare,
    /// It has no slot, and takes none now: it does not answer, or its host does not meet its standard.
    Unfit,
    /// It has no slot, and is to be emptied before it may take one.
    Emptying,
    /// It or its host is in quarantine.
    Held,
}

impl MemberCode {
    /// All of them.
    pub(crate) const ALL: [MemberCode; 9] = [
        MemberCode::Serving,
        MemberCode::Draining,
        MemberCode::Suspect,
        MemberCode::Lost,
        MemberCode::Unknown,
        MemberCode::Spare,
        MemberCode::Unfit,
        MemberCode::Emptying,
        MemberCode::Held,
    ];

    /// The word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            MemberCode::Serving => "serving",
            MemberCode::Draining => "draining",
            MemberCode::Suspect => "suspect",
            MemberCode::Lost => "lost",
            MemberCode::Unknown => "unknown",
            MemberCode::Spare => "spare",
            MemberCode::Unfit => "unfit",
            MemberCode::Emptying => "emptying",
            MemberCode::Held => "held",
        }
    }
}

/// Those who know something of members, at one moment.
#[derive(Clone, Copy)]
pub(crate) struct MemberFacts<'c> {
    view: &'c FleetView,
    agents: &'c Agents,
    probes: &'c MemberProbes,
    health: &'c MemberHealth,
    now: Now,
}

impl<'c> MemberFacts<'c> {
    pub(crate) fn new(
        view: &'c FleetView,
        agents: &'c Agents,
        probes: &'c MemberProbes,
        health: &'c MemberHealth,
        now: Now,
    ) -> MemberFacts<'c> {
        MemberFacts { view, agents, probes, health, now }
    }

    /// The fleet as its register has it.
    pub(crate) fn view(&self) -> &'c FleetView {
        self.view
    }

    pub(crate) fn agents(&self) -> &'c Agents {
        self.agents
    }

    pub(crate) fn health(&self) -> &'c MemberHealth {
        self.health
    }

    /// The moment at which all this is so.
    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// Members that take no slot now: those that are not empty, do not answer, whose agent has not spoken, whose host does not meet its
    /// standard, or that are in quarantine with or without their host.
    pub(crate) fn excluded(&self) -> Excluded {
        self.excluded_by(self.view.policy())
    }

    /// The same by the standards of a policy that is not in force yet.
    pub(crate) fn excluded_by(&self, policy: Option<&FleetPolicy>) -> Excluded {
        let standards = HostStandards::by(policy, self.view, self.agents);
        let unfit = |member: &FleetMember| Some((member.id.clone(), self.unfit(member, &standards)?));
        self.view.inventory().members().filter_map(unfit).collect()
    }

    /// The first cause why a member takes no slot now.
    fn unfit(&self, member: &FleetMember, standards: &HostStandards<'_>) -> Option<UnfitMember> {
        match self.state(&member.id) {
            MemberState::InSlot { .. } => return Some(UnfitMember::InSlot),
            MemberState::Spare | MemberState::Stale => {}
        }
        if self.health.is_held(&member.id, &member.host, self.now) {
            return Some(UnfitMember::Quarantined);
        }
        match self.probes.answers(&member.id) {
            None => return Some(UnfitMember::NotProbed),
            Some(false) => return Some(UnfitMember::NoAnswer),
            Some(true) => {}
        }
        match (self.state(&member.id), self.report_of(&member.id)) {
            (MemberState::Stale, None) => Some(UnfitMember::NoAgent),
            (MemberState::Stale, Some(_)) => Some(UnfitMember::NotEmptied),
            // The last of all causes: a lost member's slot is given to such a one if there is nobody else.
            _ => standards.unfit(&member.host),
        }
    }

    /// What each member is and how it is.
    pub(crate) fn codes(&self) -> BTreeMap<MemberId, MemberCode> {
        let draining = self.view.current().and_then(|current| current.content.draining());
        let drained = draining.and_then(|(_, slot, _)| slot.drained());
        let standards = HostStandards::of(self.view, self.agents);
        let code = |member: &FleetMember| {
            let is_drained = drained.is_some_and(|(old, new)| [old, new].contains(&&member.id));
            (member.id.clone(), self.code(member, is_drained, &standards))
        };
        self.view.inventory().members().map(code).collect()
    }

    fn code(&self, member: &FleetMember, is_drained: bool, standards: &HostStandards<'_>) -> MemberCode {
        if self.health.is_held(&member.id, &member.host, self.now) {
            return MemberCode::Held;
        }
        // Nearly all members of a fleet are in slots and well, and all of them are looked at for a page: without the names of a state.
        if self.view.slot_of(&member.id).is_some() {
            return if self.is_lost(&member.id) {
                MemberCode::Lost
            } else if self.is_unheard_of(member) {
                MemberCode::Unknown
            } else if !self.is_well(member) {
                MemberCode::Suspect
            } else if is_drained {
                MemberCode::Draining
            } else {
                MemberCode::Serving
            };
        }
        match self.state(&member.id) {
            _ if is_drained => MemberCode::Draining,
            MemberState::Spare if self.unfit(member, standards).is_some() => MemberCode::Unfit,
            MemberState::Spare => MemberCode::Spare,
            MemberState::Stale | MemberState::InSlot { .. } => MemberCode::Emptying,
        }
    }

    /// Neither a probe nor an agent has said anything of it.
    fn is_unheard_of(&self, member: &FleetMember) -> bool {
        self.probes.answers(&member.id).is_none() && self.agents.get(&member.host).is_none()
    }

    /// Whether probes, its agent and its process say that it serves, as far as there are any: a member may have no agent, and is not
    /// probed at once.
    fn is_well(&self, member: &FleetMember) -> bool {
        if self.probes.answers(&member.id) == Some(false) {
            return false;
        }
        let Some(record) = self.agents.get(&member.host) else { return true };
        let report = record.report().members.iter().find(|report| report.member == member.id);
        let runs = report.is_none_or(|report| matches!(report.process, ProcessReport::Running { .. }));
        !record.is_silent() && runs
    }

    /// What a member is for.
    pub(crate) fn state(&self, member: &MemberId) -> MemberState {
        if let Some((cluster, slot)) = self.view.slot_of(member) {
            return MemberState::InSlot { cluster: cluster.name.to_string(), slot: slot.id.to_string() };
        }
        match self.report_of(member) {
            // It is emptied once more when the last router has left it, which may be so since the last look.
            Some(report)
                if report.is_kept_empty
                    && (self.agents.has_new_readers() || !self.may_be_written_to(member)) =>
            {
                MemberState::Stale
            }
            Some(report) if report.flushes >= self.flushes_wanted(member) => MemberState::Spare,
            _ => MemberState::Stale,
        }
    }

    /// A router has a text with a member that has no slot any more.
    pub(crate) fn may_be_written_to(&self, member: &MemberId) -> bool {
        self.agents.may_write_to(member, self.view)
    }

    /// What the agent beside a member says of it. What the agent of another host says of it does not count.
    pub(crate) fn report_of(&self, member: &MemberId) -> Option<&'c MemberReport> {
        let host = &self.view.inventory().get(member)?.host;
        self.agents.get(host)?.report().members.iter().find(|report| report.member == *member)
    }

    /// The order to be emptied that a member without a slot must have carried out.
    pub(crate) fn flushes_wanted(&self, member: &MemberId) -> u64 {
        self.view.flushes_wanted(member)
    }

    /// Whether a member has carried out the order to be emptied of this generation.
    pub(crate) fn is_emptied(&self, member: &MemberId, since: GenerationNumber) -> bool {
        self.report_of(member).is_some_and(|report| report.flushes >= since.0)
    }

    /// Whether a member answers, its agent speaks of it, and neither it nor its host is in quarantine.
    pub(crate) fn is_fit_to_be_read(&self, member: &MemberId) -> bool {
        let Some(host) = self.view.inventory().get(member).map(|member| &member.host) else { return false };
        !self.health.is_held(member, host, self.now)
            && self.probes.answers(member) == Some(true)
            && self.report_of(member).is_some()
    }

    /// What agents say of hits and misses.
    pub(crate) fn hit_counts(&self) -> BTreeMap<MemberId, HitCounts> {
        let reports = self.view.inventory().members().filter_map(|member| self.report_of(&member.id));
        let counts = |report: &MemberReport| HitCounts { hits: report.hits, misses: report.misses };
        reports.map(|report| (report.member.clone(), counts(report))).collect()
    }

    /// Whether a member answers nobody, as far as it is known: then there is nothing to move, and nothing to miss.
    pub(crate) fn is_lost(&self, member: &MemberId) -> bool {
        self.health.may_replace(member)
            || self.view.inventory().get(member).is_none()
            || self.is_gone_for(member, 0)
    }

    /// Probes have failed for so long.
    pub(crate) fn is_silent_for(&self, member: &MemberId, ms: u64) -> bool {
        self.probes.is_silent_for(member, ms, self.now)
    }

    /// No probe has answered for so long, and no agent says that it runs.
    pub(crate) fn is_gone_for(&self, member: &MemberId, ms: u64) -> bool {
        // That of few: the rest is looked up for them.
        if !self.is_silent_for(member, ms) {
            return false;
        }
        let host = self.view.inventory().get(member).map(|member| &member.host);
        let is_silent = host.and_then(|host| self.agents.get(host)).is_none_or(|record| record.is_silent());
        let runs = self
            .report_of(member)
            .is_some_and(|report| matches!(report.process, ProcessReport::Running { .. }));
        is_silent || !runs
    }
}
