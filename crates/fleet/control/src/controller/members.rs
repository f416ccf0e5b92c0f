//! Members: what is known of each, and which of them may take a slot.

use fleet::{Excluded, FleetMember, MemberId, UnfitMember};

use super::Controller;
use crate::turn::{MemberOrder, MemberReport, TurnReport};

/// What a member is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
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

impl Controller {
    /// Members that take no slot now: those that are not empty, do not answer, whose agent has not spoken, or that are in
    /// quarantine with or without their host.
    pub(super) fn excluded(&self) -> Excluded {
        let unfit = |member: &FleetMember| Some((member.id.clone(), self.unfit(member)?));
        self.register.view().inventory().members().filter_map(unfit).collect()
    }

    /// The first cause why a member takes no slot now.
    fn unfit(&self, member: &FleetMember) -> Option<UnfitMember> {
        let probe = self.probes.answers(&member.id);
        match self.member_state(&member.id) {
            MemberState::InSlot { .. } => return Some(UnfitMember::InSlot),
            MemberState::Spare | MemberState::Stale => {}
        }
        if self.watch.quarantine().check(self.now, &member.id, &member.host).is_err() {
            return Some(UnfitMember::Quarantined);
        }
        match probe {
            None => return Some(UnfitMember::NotProbed),
            Some(false) => return Some(UnfitMember::NoAnswer),
            Some(true) => {}
        }
        match (self.member_state(&member.id), self.report_of(&member.id)) {
            (MemberState::Stale, None) => Some(UnfitMember::NoAgent),
            (MemberState::Stale, Some(_)) => Some(UnfitMember::NotEmptied),
            _ => None,
        }
    }

    /// What a member is for.
    pub(super) fn member_state(&self, member: &MemberId) -> MemberState {
        if let Some((cluster, slot)) = self.register.view().slot_of(member) {
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

    /// A router has a text with a member that has no slot any more: it may store something there which it, or others, replace
    /// or delete elsewhere. Silent routers count, too: nothing but their agent is known to be away.
    fn may_be_written_to(&self, member: &MemberId) -> bool {
        self.agents.oldest_read().is_some_and(|oldest| oldest.0 < self.flushes_wanted(member))
    }

    /// What the agent beside a member says of it. What the agent of another host says of it does not count.
    pub(super) fn report_of(&self, member: &MemberId) -> Option<&MemberReport> {
        let host = &self.register.view().inventory().get(member)?.host;
        self.agents.get(host)?.report().members.iter().find(|report| report.member == *member)
    }

    /// The order to be emptied that a member without a slot must have carried out: the number behind that generation, for it
    /// misses the deletes that come after. What was before the generations that are kept is not known, so the oldest of them
    /// counts for a member that has no slot in any.
    fn flushes_wanted(&self, member: &MemberId) -> u64 {
        let oldest = self.register.view().generations().keys().next().map_or(1, |oldest| oldest.0);
        self.register.view().last_slot(member).map_or(0, |last| last.0 + 1).max(oldest)
    }

    /// Orders for the members of a host. One that has left its slot is emptied when no router uses it any more; one that has a
    /// slot gets its cluster's file.
    pub(super) fn member_orders(&self, report: &TurnReport) -> Vec<MemberOrder> {
        let is_rolled_out = self.is_rolled_out();
        let orders = report.members.iter().filter_map(|one| {
            let is_known = self.register.view().inventory().get(&one.member).is_some();
            // All routers have loaded a generation without it. Before, one of them may store in it what is deleted elsewhere.
            let is_unused = is_rolled_out
                || self.register.view().last_slot(&one.member).is_none_or(|last| self.settled() > Some(last));
            let is_stale = self.member_state(&one.member) == MemberState::Stale;
            let is_emptied = is_stale && is_unused;
            let keep_empty = self.register.view().slot_of(&one.member).is_none()
                && is_unused
                && self.may_be_written_to(&one.member);
            let flushes = match self.emptying.get(&one.member) {
                Some(order) => *order,
                None if is_emptied || keep_empty => self.flushes_wanted(&one.member),
                None => 0,
            };
            let cluster_file = self.cluster_file_of(one);
            let has_order = is_known && (flushes > 0 || cluster_file.is_some());
            has_order.then(|| MemberOrder { member: one.member.clone(), flushes, keep_empty, cluster_file })
        });
        orders.collect()
    }
}
