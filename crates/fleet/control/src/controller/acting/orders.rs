//! Orders of agents: what each of them shall do, put at its seat.

use std::collections::HashSet;

use fleet::{GenerationNumber, HostId, RouterId};
use stdx::log_level::LogLevel;

use crate::controller::Controller;
use crate::controller::observing::agents::AgentRecord;
use crate::controller::observing::member_facts::{MemberFacts, MemberState};
use crate::service::turn::{MemberOrder, RouterOrder, TurnOrders, TurnReport};

/// Whether orders may be others than at the seats.
#[derive(Default)]
pub(crate) struct OrdersDue {
    is_due: bool,
    /// The target, and whether all routers have it, when all agents had their orders last.
    given_for: Option<(GenerationNumber, bool)>,
}

impl OrdersDue {
    /// All agents get orders at the next moment if this is so.
    pub(crate) fn if_so(&mut self, is_due: bool) {
        self.is_due |= is_due;
    }

    /// Whether all agents get orders now. They do when the target is another one, or all routers have it now.
    fn take(&mut self, now: Option<(GenerationNumber, bool)>) -> bool {
        let is_due = self.is_due || self.given_for != now;
        (self.is_due, self.given_for) = (false, now);
        is_due
    }
}

impl Controller {
    /// Makes the texts of the lists of routers that the register has.
    pub(crate) fn follow_router_lists(&mut self) {
        let (texts, is_other) = self.router_lists.follow(self.register.view().router_lists());
        self.seats.set_router_lists(texts);
        self.orders.if_so(is_other);
    }

    /// Puts orders at the seats of agents that get other ones than they have. Those of an agent that has its turn follow at once, so
    /// this is about routers whose wave has come, and about members that no router uses any more.
    pub(crate) fn give_new_orders(&mut self) {
        for line in self.cluster_files.release(self.rollout.is_rolled_out(), &self.agents) {
            self.log.say(LogLevel::Warning, &line);
        }
        let now = self.register.target().map(|target| (target, self.rollout.is_rolled_out()));
        let admitted = self.rollout.take_admitted();
        if self.orders.take(now) {
            for host in self.agents.hosts() {
                self.give_orders(host);
            }
        } else if !admitted.is_empty() {
            let admitted: HashSet<RouterId> = admitted.into_iter().collect();
            let is_meant = |record: &AgentRecord| {
                record.report().routers.iter().any(|report| admitted.contains(&report.router))
            };
            for (host, _) in self.agents.iter().filter(|(_, record)| is_meant(record)) {
                self.give_orders(host);
            }
        }
    }

    /// Puts an agent's orders at its seat.
    pub(crate) fn give_orders(&self, host: &HostId) {
        let Some(record) = self.agents.get(host).filter(|record| record.is_direct()) else { return };
        let routers = record.report().routers.iter().filter_map(|report| {
            let (generation, digest) = self.rollout.wanted(report)?;
            Some(RouterOrder { router: report.router.clone(), generation, digest })
        });
        let routers = routers.collect();
        let (members, lists) = (self.member_orders(record.report()), self.router_lists.orders(record));
        let (tune, changes) = (self.tuning.orders(record.report()), self.tuning.changes.orders(host));
        let standard = self.tuning.standards.of(host, self.register.view());
        let orders = TurnOrders { routers, members, lists, tune, changes, standard, ..TurnOrders::default() };
        // An agent without a seat has been told so.
        let _ = self.seats.set_orders(host, orders);
    }

    /// Orders for the members of a host. One that has left its slot is emptied when no router uses it any more; one that has a
    /// slot gets its cluster's file.
    fn member_orders(&self, report: &TurnReport) -> Vec<MemberOrder> {
        let view = self.register.view();
        let facts = MemberFacts::new(view, &self.agents, &self.probes, &self.health, self.now);
        let is_rolled_out = self.rollout.is_rolled_out();
        let orders = report.members.iter().filter_map(|one| {
            let is_known = view.inventory().get(&one.member).is_some();
            // All routers have loaded a generation without it. Before, one of them may store in it what is deleted elsewhere.
            let is_unused = is_rolled_out
                || view.last_slot(&one.member).is_none_or(|last| self.rollout.settled(view) > Some(last));
            let is_stale = facts.state(&one.member) == MemberState::Stale;
            let is_emptied = is_stale && is_unused;
            let keep_empty =
                view.slot_of(&one.member).is_none() && is_unused && facts.may_be_written_to(&one.member);
            let flushes = match self.drains.emptying().get(&one.member) {
                Some(order) => *order,
                None if is_emptied || keep_empty => facts.flushes_wanted(&one.member),
                None => 0,
            };
            let sweep = self.drains.sweeping().get(&one.member).cloned();
            let cluster_file = self.cluster_files.file_of(one, view);
            let has_order = is_known && (flushes > 0 || sweep.is_some() || cluster_file.is_some());
            let member = one.member.clone();
            has_order.then_some(MemberOrder { member, flushes, keep_empty, sweep, cluster_file })
        });
        orders.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_due_when_the_target_or_its_rollout_is_another_one() {
        let mut due = OrdersDue::default();
        assert!(!due.take(None));
        assert!(
            due.take(Some((GenerationNumber(1), false))) && !due.take(Some((GenerationNumber(1), false)))
        );
        assert!(due.take(Some((GenerationNumber(1), true))));
        due.if_so(true);
        due.if_so(false);
        assert!(due.take(Some((GenerationNumber(1), true))) && !due.take(Some((GenerationNumber(1), true))));
    }
}
