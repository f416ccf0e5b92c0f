//! Failover as a plan has it: which errors, how many tries, in which order.
//!
//! Source: mcrouter/routes/FailoverRoute.h and FailoverPolicy.h.

use std::collections::HashMap;

use super::{FailoverErrors, Node, NodeId, RoutePlan};
use crate::hash::Selector;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::shared::route_state::StateId;

/// How a FailoverRoute asks its children, of which the first is the normal one.
#[derive(Clone, Debug)]
pub struct FailoverSettings {
    /// After which outcomes another child is asked.
    pub errors: FailoverErrors,
    /// In which order the others are asked.
    pub order: FailoverOrder,
    /// Errors after which no other child is asked. Those of servers that are unavailable (TKO) do not count.
    pub tries_max: u32,
    /// Errors that do not count.
    pub excluded: Box<[Outcome]>,
    /// Keys with a hash stop are sent to the other children with `:failover=1` behind them.
    pub has_tag: bool,
    /// What is remembered between requests: tokens, or failures of children.
    pub state: Option<StateId>,
}

/// The order in which the children of a FailoverRoute are asked.
#[derive(Clone, Debug)]
pub enum FailoverOrder {
    /// That of the configuration.
    InOrder,
    /// The one with the fewest failures in a row first; so many children at most.
    LeastFailures(usize),
    /// By hashes of the key with a number behind it.
    Deterministic(Box<DeterministicOrder>),
    /// By a Rendezvous hash of all children but the first.
    Rendezvous(Box<Selector>),
}

/// Parameters of a `DeterministicOrderPolicy`.
#[derive(Clone, Debug)]
pub struct DeterministicOrder {
    /// Over all children, the first included.
    pub hash: Selector,
    /// Children that are asked at most, the first included.
    pub asked_max: usize,
    /// Children of a failure domain with an unavailable server are passed over.
    pub has_domains: bool,
    /// The server that the normal child chose may be asked again.
    pub ignores_normal: bool,
}

/// Failure domains of servers: those of one domain tend to fail together.
#[derive(Clone, Debug, Default)]
pub struct FailureDomains(pub HashMap<NodeId, u32>);

impl FailureDomains {
    /// That of a server; 0 if it has none.
    pub(crate) fn of(&self, server: NodeId) -> u32 {
        self.0.get(&server).copied().unwrap_or(0)
    }
}

/// Where routes that depend on nothing but the request lead.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteTrace {
    /// The child that the last hash on the way has chosen.
    pub(crate) index: Option<usize>,
    /// The server's node.
    pub(crate) server: Option<NodeId>,
}

impl FailoverSettings {
    /// All children in order, without a limit.
    pub fn in_order(errors: FailoverErrors) -> FailoverSettings {
        FailoverSettings {
            errors,
            order: FailoverOrder::InOrder,
            tries_max: u32::MAX,
            excluded: Box::default(),
            has_tag: false,
            state: None,
        }
    }

    /// Whether a reply is the answer for sure, without a look at anything else.
    #[inline]
    pub(crate) fn is_final(&self, operation: Operation, outcome: Outcome) -> bool {
        self.state.is_none() && !self.errors.applies(operation, outcome)
    }
}

impl RoutePlan {
    /// The way of a request from `node` on. Of routes that ask several children, it goes on with the first.
    pub(crate) fn trace(&self, mut node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> RouteTrace {
        let mut trace = RouteTrace::default();
        loop {
            node = match &self.nodes[node.0 as usize] {
                Node::Server { .. } => {
                    trace.server = Some(node);
                    return trace;
                }
                Node::Hash { hash, children } => {
                    let index = hash.select(key.routing());
                    trace.index = Some(index);
                    children[index]
                }
                Node::ByOperation { children, default } => {
                    children.get(operation.name()).copied().unwrap_or(*default)
                }
                Node::ByClass { children, default } => {
                    children.get(&operation.class()).copied().unwrap_or(*default)
                }
                Node::RateLimit { target, .. } => *target,
                Node::Logged { child, .. } => *child,
                Node::Blackhole { policies, blackhole, default } => {
                    if policies.hold(key) {
                        *blackhole
                    } else {
                        *default
                    }
                }
                Node::Compound(compound) => compound.children[0],
                Node::Null
                | Node::DevNull
                | Node::Error(..)
                | Node::Random(_)
                | Node::ByWorker(_)
                | Node::Migrate(_)
                | Node::ByPrefix { .. } => return trace,
            };
        }
    }

    /// The failure domain of the server that a request reaches from `node` on; 0 if it has none.
    pub(crate) fn failure_domain(&self, node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> u32 {
        if self.failure_domains.0.is_empty() {
            return 0;
        }
        let server = self.trace(node, operation, key).server;
        server.map_or(0, |server| self.failure_domains.of(server))
    }
}
