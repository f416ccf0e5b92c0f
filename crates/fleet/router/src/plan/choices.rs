//! Sources of a route's choice beside the plan and the request: random numbers, the time, the state of routes.

use std::sync::Arc;

use stdx::clock::Now;
use stdx::prng::Prng;

use crate::message::operation::Operation;
use crate::plan::NodeId;
use crate::shared::route_state::{FailoverState, OutstandingState, RouteState, StateKey, StateSpec};
use crate::slab::Id;
use crate::stats::shadow_counts::ShadowCounts;

/// Of one worker.
pub(crate) struct Choices {
    prng: Prng,
    /// Counts the workers of a router.
    pub(crate) worker: usize,
    pub(crate) now: Now,
    /// Seconds since 1970; 0 if unknown.
    pub(crate) unix_s: i64,
    /// Shadows that get the present request, and are still to be asked.
    pub(crate) shadows: Vec<NodeId>,
    /// The shadow whose reply to the present request is compared: its place among the children of its route.
    compared: Option<(u16, Arc<ShadowCounts>)>,
    /// What routes have counted since the worker has taken it.
    pub(crate) counted: RouteCounts,
    /// The state of the routes of each plan that is in use, by its generation; the newest last.
    plans: Vec<(u64, Vec<RouteState>)>,
}

/// Events at routes that statistics name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteCounts {
    /// Requests at a DevNullRoute.
    pub(crate) dropped: u64,
    /// Errors after which a FailoverRoute may ask another child, of servers that were asked.
    pub(crate) failed_over: u64,
    /// Errors after which a FailoverRoute may ask another child, of servers that are unavailable.
    pub(crate) unavailable: u64,
}

impl Choices {
    pub(crate) fn new(seed: u64, worker: usize) -> Choices {
        Choices {
            prng: Prng::new(seed),
            worker,
            now: Now::default(),
            unix_s: 0,
            shadows: Vec::new(),
            compared: None,
            counted: RouteCounts::default(),
            plans: Vec::new(),
        }
    }

    /// Another plan is in force. Of earlier ones those are kept that `is_used` names.
    pub(crate) fn adopt(&mut self, generation: u64, specs: &[StateSpec], is_used: impl Fn(u64) -> bool) {
        self.plans.retain(|(earlier, _)| is_used(*earlier));
        let states = specs.iter().map(|spec| RouteState::new(spec, self.now));
        self.plans.push((generation, states.collect()));
    }

    /// Any number.
    #[inline]
    pub(crate) fn random(&mut self) -> u64 {
        self.prng.next_u64()
    }

    /// Any number from 0 to below 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        self.prng.unit()
    }

    /// Whether a shadow of the present request is compared.
    pub(crate) fn has_compared(&self) -> bool {
        self.compared.is_some()
    }

    /// Compares a shadow, which is not among `shadows`, and is taken by [`Choices::take_compared`].
    pub(crate) fn compare(&mut self, child: u16, counts: Arc<ShadowCounts>) {
        self.compared = Some((child, counts));
    }

    /// The shadow that is compared.
    pub(crate) fn take_compared(&mut self) -> Option<(u16, Arc<ShadowCounts>)> {
        self.compared.take()
    }

    /// The state of a FailoverRoute.
    pub(crate) fn failover(&mut self, id: StateKey) -> &mut FailoverState {
        match self.state(id) {
            RouteState::Failover(state) => state,
            _ => unreachable!("a state has one route"),
        }
    }

    /// Whether a RateLimitRoute lets a request pass.
    pub(crate) fn permits(&mut self, id: StateKey, operation: Operation) -> bool {
        let now = self.now;
        match self.state(id) {
            RouteState::Rates(state) => state.permits(operation, now),
            _ => unreachable!("a state has one route"),
        }
    }

    /// The state of a limit of outstanding requests.
    pub(crate) fn outstanding(&mut self, id: StateKey) -> &mut OutstandingState {
        match self.state(id) {
            RouteState::Outstanding(state) => state,
            _ => unreachable!("a state has one route"),
        }
    }

    /// A client has gone: the frames of those of its requests that need not wait any more.
    pub(crate) fn leave(&mut self, client: Id) -> Vec<Id> {
        let mut frames = Vec::new();
        for state in self.plans.iter_mut().flat_map(|(_, states)| states) {
            if let RouteState::Outstanding(state) = state
                && state.waiting() > 0
            {
                state.leave(client, &mut frames);
            }
        }
        frames
    }

    fn state(&mut self, id: StateKey) -> &mut RouteState {
        let StateKey { generation, id } = id;
        let found = self.plans.iter_mut().rev().find(|(other, _)| *other == generation);
        let (_, states) = found.expect("a plan is adopted before requests begin on it");
        &mut states[id.0 as usize]
    }
}
