//! Plans of a worker: the one in force, and earlier ones on which requests still are.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use stdx::clock::Now;

use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::plan::choices::Choices;
use crate::plan::{self, NodeId, RoutePlan, RouteStep, ServerId};
use crate::servers::destination::LateFailover;

/// Microseconds after a server's timeout in which its last request of an earlier plan has certainly failed.
const SLACK_US: u64 = 1_000_000;

/// Plans that are held for such requests. With more reloads in a second or two, the first ones' gets fail without another try.
const HELD_MAX: usize = 16;

/// The plans of a worker.
#[derive(Default)]
pub(super) struct WorkerPlans {
    current: Arc<RoutePlan>,
    /// The destination of each server of `current`.
    places: Arc<[u32]>,
    /// Plans that flights may still be on, with their destinations.
    earlier: Vec<(Weak<RoutePlan>, Arc<[u32]>)>,
    /// Earlier plans for gets whose routes are still to be asked if they fail, and until when.
    held: VecDeque<(Now, Arc<RoutePlan>)>,
}

impl WorkerPlans {
    /// The plan in force.
    #[inline]
    pub(super) fn current(&self) -> &Arc<RoutePlan> {
        &self.current
    }

    /// The destination of a server of the plan in force.
    #[inline]
    pub(super) fn place(&self, server: ServerId) -> u32 {
        self.places[server.0 as usize]
    }

    /// The destination of each server of the plan in force.
    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }

    /// Where a request goes first.
    #[inline]
    pub(super) fn first_step(
        &self,
        choices: &mut Choices,
        operation: Operation,
        key: &RoutedKey<'_>,
    ) -> RouteStep<'_> {
        if key.bare().is_empty() {
            // A line without a key would make a server read the body as commands.
            return RouteStep::Answer(Some((Outcome::BadKey, "")));
        }
        match self.current.root(key) {
            Some(root) => self.current.step(root, operation, key, choices),
            None => RouteStep::Answer(Some((Outcome::LocalError, plan::NO_ROUTE))),
        }
    }

    /// The destination of a server of `plan`.
    pub(super) fn destination_of(&self, plan: &Arc<RoutePlan>, server: ServerId) -> Option<u32> {
        if Arc::ptr_eq(plan, &self.current) {
            return self.places.get(server.0 as usize).copied();
        }
        let (_, places) = self.earlier.iter().find(|(earlier, _)| earlier.as_ptr() == Arc::as_ptr(plan))?;
        places.get(server.0 as usize).copied()
    }

    /// The FailoverRoute at `node` of the plan in force, for a get without a flight.
    pub(super) fn late_failover(&self, node: NodeId) -> LateFailover {
        LateFailover { node, generation: self.current.generation as u32 }
    }

    /// The plan of such a get.
    pub(super) fn of_generation(&self, generation: u32) -> Option<Arc<RoutePlan>> {
        if self.current.generation as u32 == generation {
            return Some(Arc::clone(&self.current));
        }
        let mut earlier = self.earlier.iter().filter_map(|(plan, _)| plan.upgrade());
        earlier.find(|plan| plan.generation as u32 == generation)
    }

    /// Another plan is about to be used: the present one is held as long as gets on it may fail, which servers with a time limit of
    /// `timeout_ms` have not answered.
    pub(super) fn hold(&mut self, timeout_ms: u32, now: Now) {
        let until = Now { us: now.us + u64::from(timeout_ms) * 1000 + SLACK_US };
        self.held.push_back((until, Arc::clone(&self.current)));
        if self.held.len() > HELD_MAX {
            self.held.pop_front();
        }
    }

    /// Goes on with a plan whose servers have these destinations. Requests that have begun end on theirs.
    pub(super) fn replace(&mut self, plan: Arc<RoutePlan>, places: Arc<[u32]>) {
        self.forget_ended();
        self.earlier.push((Arc::downgrade(&self.current), Arc::clone(&self.places)));
        (self.current, self.places) = (plan, places);
        self.forget_ended();
    }

    /// Servers of the plan in force have other destinations.
    pub(super) fn move_to(&mut self, places: Arc<[u32]>) {
        self.places = places;
    }

    /// The generations of earlier plans with requests.
    pub(super) fn earlier_generations(&self) -> Vec<u64> {
        self.earlier.iter().filter_map(|(plan, _)| plan.upgrade()).map(|plan| plan.generation).collect()
    }

    /// The destinations that these plans name.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> {
        let all = self.earlier.iter().map(|(_, places)| places).chain([&self.places]);
        all.flat_map(|places| places.iter().copied())
    }

    /// Whether requests may still be on an earlier plan.
    #[inline]
    pub(super) fn has_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Forgets plans whose last requests have ended. Whether there were some: nothing names their servers any more.
    pub(super) fn release(&mut self, now: Now) -> bool {
        self.held.retain(|(until, _)| *until > now);
        let before = self.earlier.len();
        self.forget_ended();
        self.earlier.len() < before
    }

    fn forget_ended(&mut self) {
        self.earlier.retain(|(plan, _)| plan.strong_count() > 0);
    }

    /// Plans beside the one in force: those with requests, and those that are held.
    #[cfg(test)]
    pub(super) fn len_earlier(&self) -> (usize, usize) {
        (self.earlier.len(), self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(generation: u64) -> Arc<RoutePlan> {
        Arc::new(RoutePlan { generation, ..RoutePlan::default() })
    }

    #[test]
    fn an_earlier_plan_is_known_as_long_as_a_request_is_on_it() {
        let (mut plans, first) = (WorkerPlans::default(), plan(1));
        plans.replace(Arc::clone(&first), [5, 6].into());
        plans.replace(plan(2), [6, 7].into());
        assert_eq!((plans.destination_of(&first, ServerId(0)), plans.place(ServerId(0))), (Some(5), 6));
        assert_eq!(plans.earlier_generations(), [1]);
        assert_eq!(plans.named().collect::<Vec<_>>(), [5, 6, 6, 7]);
        assert!(!plans.release(Now::default()), "a request is on it");
        drop(first);
        assert!(plans.release(Now::default()) && !plans.has_earlier());
        assert_eq!(plans.named().collect::<Vec<_>>(), [6, 7]);
    }

    #[test]
    fn a_plan_is_held_until_its_gets_cannot_fail_any_more() {
        let mut plans = WorkerPlans::default();
        plans.replace(plan(1), [].into());
        plans.hold(200, Now::at_ms(0));
        plans.replace(plan(2), [].into());
        assert!(!plans.release(Now::at_ms(1199)) && plans.of_generation(1).is_some());
        assert!(plans.release(Now::at_ms(1200)) && plans.of_generation(1).is_none());
    }
}
