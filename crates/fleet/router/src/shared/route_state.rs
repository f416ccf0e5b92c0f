//! State of routes between requests: tokens, failures, requests that wait. Each worker has its own, as each of mcrouter's
//! threads has.
//!
//! With a new plan all begins anew.

mod outstanding;

use stdx::clock::Now;

use crate::message::operation::{Operation, OperationClass};
use crate::shared::token_bucket::TokenBucket;

pub(crate) use outstanding::{Admission, OutstandingState};

/// Index of a route's state among those of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateId(pub u32);

/// A route's state, with the generation of its plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateKey {
    pub(crate) generation: u64,
    pub(crate) id: StateId,
}

/// How often a FailoverRoute may ask another child, relative to its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverLimit {
    /// Failovers per request, from 0 to 1.
    pub rate: f64,
    /// Failovers in a row that the rate does not limit.
    pub burst: f64,
}

/// What a route has to remember.
#[derive(Clone, Copy, Debug)]
pub enum StateSpec {
    /// A FailoverRoute: its limit, and the number of children whose failures are counted.
    Failover {
        /// Failovers that it may make.
        limit: Option<FailoverLimit>,
        /// 0 if failures are not counted.
        counted: usize,
    },
    /// A RateLimitRoute.
    Rates(Rates),
    /// A server of a pool with `max_outstanding`: so many requests without a reply.
    Outstanding(usize),
}

/// Limits of a RateLimitRoute, by class of operations. Others are not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// `gets_rate`, `gets_burst`
    pub gets: Option<RequestRate>,
    /// `sets_rate`, `sets_burst`
    pub sets: Option<RequestRate>,
    /// `deletes_rate`, `deletes_burst`
    pub deletes: Option<RequestRate>,
}

/// How many requests are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    /// In a second.
    pub per_second: f64,
    /// At once.
    pub burst: f64,
}

/// What a route remembers.
pub(crate) enum RouteState {
    Failover(FailoverState),
    Rates(Box<RateState>),
    Outstanding(OutstandingState),
}

/// What a RateLimitRoute remembers.
pub(crate) struct RateState {
    gets: Option<TokenBucket>,
    sets: Option<TokenBucket>,
    deletes: Option<TokenBucket>,
}

/// What a FailoverRoute remembers.
#[derive(Default)]
pub(crate) struct FailoverState {
    limit: Option<TokenBucket>,
    /// Requests that its first child has answered.
    requests: u64,
    /// For each child, its failures in a row.
    failures: Vec<u32>,
}

/// Requests before the first, so that a burst is allowed at once: mcrouter's number.
const EARLIER_REQUESTS: f64 = 1e6;

impl RouteState {
    pub(crate) fn new(spec: &StateSpec, now: Now) -> RouteState {
        match *spec {
            StateSpec::Failover { limit, counted } => RouteState::Failover(FailoverState {
                limit: limit
                    .map(|FailoverLimit { rate, burst }| TokenBucket::new(rate, burst, -EARLIER_REQUESTS)),
                requests: 0,
                failures: vec![0; counted],
            }),
            StateSpec::Rates(Rates { gets, sets, deletes }) => {
                let bucket = |rate: RequestRate| TokenBucket::new(rate.per_second, rate.burst, seconds(now));
                let (gets, sets, deletes) = (gets.map(bucket), sets.map(bucket), deletes.map(bucket));
                RouteState::Rates(Box::new(RateState { gets, sets, deletes }))
            }
            StateSpec::Outstanding(max) => RouteState::Outstanding(OutstandingState::new(max)),
        }
    }
}

fn seconds(now: Now) -> f64 {
    now.us as f64 / 1e6
}

impl RateState {
    /// Takes a token for a request, if it needs one.
    pub(crate) fn permits(&mut self, operation: Operation, now: Now) -> bool {
        let bucket = match operation.class() {
            OperationClass::Get => &mut self.gets,
            OperationClass::Update => &mut self.sets,
            OperationClass::Delete => &mut self.deletes,
            OperationClass::Arithmetic | OperationClass::Touch => &mut None,
        };
        bucket.as_mut().is_none_or(|bucket| bucket.take(seconds(now)))
    }
}

impl FailoverState {
    /// The first child has answered a request.
    pub(crate) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// Takes a token for asking another child.
    pub(crate) fn allows(&mut self) -> bool {
        let requests = self.requests as f64;
        self.limit.as_mut().is_none_or(|bucket| bucket.take(requests))
    }

    /// A child has answered.
    pub(crate) fn note(&mut self, child: u16, is_error: bool) {
        if let Some(failures) = self.failures.get_mut(usize::from(child)) {
            *failures = if is_error { failures.saturating_add(1) } else { 0 };
        }
    }

    /// All children but the first, the one with the fewest failures first; of equal ones, that of the configuration.
    pub(crate) fn by_failures(&self) -> Vec<u16> {
        let mut order: Vec<u16> = (1..self.failures.len() as u16).collect();
        order.sort_by_key(|child| self.failures[usize::from(*child)]);
        order
    }
}
