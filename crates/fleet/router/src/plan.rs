//! Plans: a configuration as the workers use it. Routes as nodes in one array, and the servers that they name.
//!
//! A plan does not change. A request ends on the plan that it began with.

pub(crate) mod choices;
pub(crate) mod config_facts;
mod destination_spec;
pub mod hash;
mod key_policies;
pub(crate) mod key_tracer;
pub(crate) mod node;
pub(crate) mod node_id;
mod paths;
pub(crate) mod plain_route;
pub(crate) mod pools;

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::json::Json;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::routing_prefix::PrefixPattern;
use crate::plan::choices::Choices;
use crate::plan::config_facts::ConfigFacts;
use crate::plan::plain_route::{PlainRoute, by_key_prefix};
use crate::plan::pools::PlanPools;
use crate::routes::route::Crossing;
use crate::servers::health::GuardLimits;
use crate::shared::route_state::{StateId, StateKey, StateSpec};
use crate::shared::variables::RuntimeVariable;
use crate::stats::shadow_counts::{ShadowCounts, ShadowReport};

pub(crate) use crate::plan::destination_spec::DestinationSpec;
pub use crate::plan::destination_spec::ServerPlace;
pub use crate::plan::node_id::NodeId;
pub(crate) use crate::plan::node_id::{LogId, ServerId};
pub(crate) use key_policies::{KeyPolicies, KeyPolicy};
pub(crate) use node::{Compound, Node};
pub(crate) use paths::FailureDomains;

/// Where a request goes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RouteStep<'p> {
    /// To a server.
    Server { server: ServerId, keep_prefix: bool, log: Option<LogId> },
    /// Nowhere: this is its answer.
    Answer(Option<(Outcome, &'p str)>),
    /// To the children of this node.
    Compound(NodeId, Option<LogId>),
}

/// Routes by routing prefix.
#[derive(Debug, Default)]
pub struct Roots {
    /// For keys without a prefix.
    pub default: Option<NodeId>,
    /// By prefix, with its slashes.
    pub by_prefix: HashMap<Box<[u8]>, NodeId>,
    /// For keys whose prefix is a pattern: the route to all that match, whose first child is the default route.
    pub broadcast: Option<NodeId>,
    /// Keys with a prefix that no route is for go to the default route.
    pub invalid_to_default: bool,
}

impl Roots {
    /// All of them; most of them several times.
    pub(crate) fn nodes_mut(&mut self) -> impl Iterator<Item = &mut NodeId> {
        self.by_prefix.values_mut().chain(&mut self.default).chain(&mut self.broadcast)
    }

    /// The route for a prefix that none has: a pattern, or that of a cluster for which the region's `fallback` stands in.
    #[cold]
    fn not_found(&self, prefix: &[u8]) -> Option<NodeId> {
        if PrefixPattern::of(prefix).is_some() {
            return self.broadcast;
        }
        let region = prefix.split(|byte| *byte == b'/').nth(1).unwrap_or_default();
        let fallback = [b"/", region, b"/fallback/"].concat();
        let found = self.by_prefix.get(&fallback[..]).copied();
        found.or(self.default.filter(|_| self.invalid_to_default))
    }
}

/// A compiled configuration.
#[derive(Debug, Default)]
pub struct RoutePlan {
    /// Counts the configurations of this process, from 1.
    pub generation: u64,
    /// All routes.
    pub(crate) nodes: Vec<Node>,
    /// The top of the routes.
    pub roots: Roots,
    /// All servers.
    pub servers: Vec<Arc<DestinationSpec>>,
    /// Pools that guard their servers (`tko_tracker`), with the names of these.
    pub guards: Vec<(String, GuardLimits, Vec<String>)>,
    /// The route to all servers at once, for `flush_all`; `None` without servers.
    pub everywhere: Option<NodeId>,
    /// All pools.
    pub pools: PlanPools,
    /// What it was made from.
    pub facts: Option<Arc<ConfigFacts>>,
    /// What routes remember between requests.
    pub states: Vec<StateSpec>,
    /// Names of the logs for deletes that fail.
    pub logs: Vec<Arc<str>>,
    /// Failure domains of servers.
    pub failure_domains: FailureDomains,
    /// What depends on runtime variables.
    pub variables: Vec<RuntimeVariable>,
    /// Shadows that are compared.
    pub compared: Vec<Arc<ShadowCounts>>,
    /// Lines for the operator: what the configuration says and is not done.
    pub notes: Vec<String>,
}

impl RoutePlan {
    /// Takes new values of runtime variables. Returns what is wrong with them: there, the old ones stay.
    pub fn update_variables(&self, variables: &Json) -> Vec<String> {
        self.variables.iter().filter_map(|variable| variable.update(variables).err()).collect()
    }

    /// What has been found about shadows since this plan is in force.
    pub fn shadow_report(&self) -> ShadowReport {
        ShadowReport { shadows: self.compared.iter().map(|counts| counts.comparison()).collect() }
    }

    /// Sockets that each worker may have to all servers.
    pub fn sockets(&self) -> usize {
        self.servers.iter().map(|spec| 1 + usize::from(spec.udp)).sum()
    }

    /// The names of servers that are looked up; some of them several times.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.servers.iter().filter_map(|spec| match &spec.place {
            ServerPlace::Named { host, .. } => Some(host),
            ServerPlace::Fixed(_) => None,
        })
    }

    /// The route at the top for a key.
    #[inline]
    pub(crate) fn root(&self, key: &RoutedKey<'_>) -> Option<NodeId> {
        if key.prefix_len == 0 {
            return self.roots.default;
        }
        match self.roots.by_prefix.get(key.prefix()) {
            Some(node) => Some(*node),
            None => self.roots.not_found(key.prefix()),
        }
    }

    /// Follows routes that choose one child, from `node` to one that does not.
    #[inline]
    pub(crate) fn step(
        &self,
        mut node: NodeId,
        operation: Operation,
        key: &RoutedKey<'_>,
        choices: &mut Choices,
    ) -> RouteStep<'_> {
        let mut log = None;
        loop {
            node =
                match &self.nodes[node.0 as usize] {
                    Node::Plain(PlainRoute::Server { server, keep_prefix }) => {
                        return RouteStep::Server { server: *server, keep_prefix: *keep_prefix, log };
                    }
                    Node::Plain(PlainRoute::Hash { hash, children }) => children[hash.select(key.routing())],
                    Node::Plain(PlainRoute::Logged { log: inner, child }) => {
                        log = Some(*inner);
                        *child
                    }
                    Node::Plain(PlainRoute::Null) => return RouteStep::Answer(None),
                    Node::Plain(PlainRoute::DevNull) => {
                        choices.counted.dropped += 1;
                        return RouteStep::Answer(None);
                    }
                    Node::Plain(PlainRoute::Error(outcome, message)) => {
                        return RouteStep::Answer(Some((*outcome, message)));
                    }
                    Node::Plain(PlainRoute::Random(children)) => {
                        children[(choices.random() % children.len() as u64) as usize]
                    }
                    Node::Plain(PlainRoute::ByOperation { children, default }) => {
                        children.get(operation.name()).copied().unwrap_or(*default)
                    }
                    Node::Plain(PlainRoute::ByClass { children, default }) => {
                        children.get(&operation.class()).copied().unwrap_or(*default)
                    }
                    Node::Plain(PlainRoute::ByPrefix { children, default }) => {
                        match by_key_prefix(children, *default, key) {
                            Some(child) => child,
                            None => return RouteStep::Answer(Some((Outcome::LocalError, NO_ROUTE))),
                        }
                    }
                    Node::Plain(PlainRoute::Migrate(migration)) => {
                        migration.child(operation, key, choices.unix_s)
                    }
                    Node::Plain(PlainRoute::RateLimit { state, target, fallback }) => {
                        match (choices.permits(self.state(*state), operation), fallback) {
                            (true, _) => *target,
                            (false, Some(fallback)) => *fallback,
                            (false, None) => return RouteStep::Answer(None),
                        }
                    }
                    Node::Plain(PlainRoute::ByWorker(children)) => children[choices.worker % children.len()],
                    Node::Plain(PlainRoute::Blackhole { policies, blackhole, default }) => {
                        if policies.hold(key) { *blackhole } else { *default }
                    }
                    Node::Compound(Compound { kind, children }) => {
                        match kind.crossing(children, key, choices, self) {
                            Crossing::Stop => return RouteStep::Compound(node, log),
                            Crossing::On(child) => child,
                            Crossing::Nowhere => {
                                return RouteStep::Answer(Some((Outcome::LocalError, NO_ROUTE)));
                            }
                        }
                    }
                };
        }
    }

    /// The server to which a route leads that depends on nothing but the key, and whether it gets keys with their prefix. Logs
    /// on the way, which are for deletes, are passed over.
    #[inline]
    pub(crate) fn direct(&self, mut node: NodeId, key: &RoutedKey<'_>) -> Option<(ServerId, bool)> {
        loop {
            node = match &self.nodes[node.0 as usize] {
                Node::Plain(PlainRoute::Server { server, keep_prefix }) => {
                    return Some((*server, *keep_prefix));
                }
                Node::Plain(PlainRoute::Hash { hash, children }) => children[hash.select(key.routing())],
                Node::Plain(PlainRoute::Logged { child, .. }) => *child,
                Node::Plain(PlainRoute::Null)
                | Node::Plain(PlainRoute::DevNull)
                | Node::Plain(PlainRoute::Error(..))
                | Node::Plain(PlainRoute::Random(_))
                | Node::Plain(PlainRoute::ByOperation { .. })
                | Node::Plain(PlainRoute::ByClass { .. })
                | Node::Plain(PlainRoute::ByPrefix { .. })
                | Node::Plain(PlainRoute::Migrate(_))
                | Node::Plain(PlainRoute::RateLimit { .. })
                | Node::Plain(PlainRoute::ByWorker(_))
                | Node::Plain(PlainRoute::Blackhole { .. })
                | Node::Compound(_) => return None,
            };
        }
    }

    /// The server that a route asks first, if its reply is final unless it is an error, and it is known without asking
    /// anything else.
    #[inline]
    pub(crate) fn normal_server(
        &self,
        node: NodeId,
        operation: Operation,
        key: &RoutedKey<'_>,
    ) -> Option<(ServerId, bool)> {
        let Compound { kind, children } = self.compound(node);
        if !kind.is_first_enough(operation) {
            return None;
        }
        self.direct(children[0], key)
    }

    /// A route's state, as the worker's choices find it.
    pub(crate) fn state(&self, id: StateId) -> StateKey {
        StateKey { generation: self.generation, id }
    }

    /// The compound route at `node`.
    pub(crate) fn compound(&self, node: NodeId) -> &Compound {
        let node = &self.nodes[node.0 as usize];
        let Node::Compound(compound) = node else { unreachable!("a step ended at {node:?}") };
        compound
    }
}

/// mcrouter's words for a key that no route is for.
pub(crate) const NO_ROUTE: &str = "RootRoute: No rh found";
