//! Ways of requests as far as they depend on nothing else, and the failure domains of the servers at their ends.

use std::collections::HashMap;

use super::{Node, NodeId, RoutePlan};
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::plan::plain_route::{PlainRoute, by_key_prefix};
use crate::routes::route::Paths;

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
struct RouteTrace {
    /// The child that the last hash on the way has chosen.
    index: Option<usize>,
    /// The server's node.
    server: Option<NodeId>,
}

impl RoutePlan {
    /// The way of a request from `node` on. Of routes that ask several children, it goes on with the first.
    fn trace(&self, mut node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> RouteTrace {
        let mut trace = RouteTrace::default();
        loop {
            node =
                match &self.nodes[node.0 as usize] {
                    Node::Plain(PlainRoute::Server { .. }) => {
                        trace.server = Some(node);
                        return trace;
                    }
                    Node::Plain(PlainRoute::Hash { hash, children }) => {
                        let index = hash.select(key.routing());
                        trace.index = Some(index);
                        children[index]
                    }
                    Node::Plain(PlainRoute::ByOperation { children, default }) => {
                        children.get(operation.name()).copied().unwrap_or(*default)
                    }
                    Node::Plain(PlainRoute::ByClass { children, default }) => {
                        children.get(&operation.class()).copied().unwrap_or(*default)
                    }
                    Node::Plain(PlainRoute::RateLimit { target, .. }) => *target,
                    Node::Plain(PlainRoute::Logged { child, .. }) => *child,
                    Node::Plain(PlainRoute::Blackhole { policies, blackhole, default }) => {
                        if policies.hold(key) { *blackhole } else { *default }
                    }
                    Node::Compound(compound) => compound.children[0],
                    Node::Plain(PlainRoute::Null)
                    | Node::Plain(PlainRoute::DevNull)
                    | Node::Plain(PlainRoute::Error(..))
                    | Node::Plain(PlainRoute::Random(_))
                    | Node::Plain(PlainRoute::ByWorker(_))
                    | Node::Plain(PlainRoute::Migrate(_))
                    | Node::Plain(PlainRoute::ByPrefix { .. }) => return trace,
                };
        }
    }
}

impl Paths for RoutePlan {
    fn last_choice(&self, node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> Option<usize> {
        self.trace(node, operation, key).index
    }

    fn failure_domain(&self, node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> u32 {
        if self.failure_domains.0.is_empty() {
            return 0;
        }
        let server = self.trace(node, operation, key).server;
        server.map_or(0, |server| self.failure_domains.of(server))
    }

    fn behind_prefixes(&self, node: NodeId, key: &RoutedKey<'_>) -> Option<NodeId> {
        if let Node::Plain(PlainRoute::ByPrefix { children, default }) = &self.nodes[node.0 as usize] {
            return by_key_prefix(children, *default, key);
        }
        Some(node)
    }

    fn has_default_for_all(&self) -> bool {
        self.roots.invalid_to_default
    }
}
