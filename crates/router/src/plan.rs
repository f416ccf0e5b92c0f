//! Plans: a configuration as the workers use it. Routes as nodes in one array, and the servers that they name.
//!
//! A plan does not change. A request ends on the plan that it began with.

use std::collections::HashMap;
use std::fmt;

use net::{Place, ServerName};

use crate::config_facts::ConfigFacts;
use crate::hash::Selector;
use crate::health::GuardLimits;
use crate::key::RoutedKey;
use crate::operation::{Operation, OperationClass};
use crate::outcome::Outcome;
use crate::plan_pools::PlanPools;

/// Index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub u32);

/// Index of a server among those of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub u32);

/// A server and the way to it. Equal ones of two plans share their connections.
#[derive(Clone, Debug)]
pub struct DestinationSpec {
    /// `host:port` as configured, for reports. Its health is that of all connections to it.
    pub name: String,
    /// Which of several connections to the server (`additional_fanout`); 0 for the first.
    pub connection: u32,
    /// Where it is.
    pub place: ServerPlace,
    /// With TLS, to a server of this name.
    pub tls: Option<ServerName<'static>>,
    /// With TCP Fast Open.
    pub fast_open: bool,
    /// Gets go over UDP.
    pub udp: bool,
    /// Time limit for a reply.
    pub timeout_ms: u32,
    /// Time limit for a connection.
    pub connect_timeout_ms: u32,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPlace {
    /// At this address.
    Fixed(Place),
    /// At an address of this name, which is looked up while the router runs.
    Named {
        /// The name.
        host: std::sync::Arc<str>,
        /// The port.
        port: u16,
    },
}

impl DestinationSpec {
    /// Whether a connection made for one can serve the other.
    pub fn is_same(&self, other: &DestinationSpec) -> bool {
        self.tls == other.tls
            && self.name == other.name
            && self.connection == other.connection
            && self.place == other.place
            && self.fast_open == other.fast_open
            && self.udp == other.udp
            && self.timeout_ms == other.timeout_ms
            && self.connect_timeout_ms == other.connect_timeout_ms
    }
}

/// A route.
#[derive(Debug)]
pub enum Node {
    /// A server.
    Server {
        /// Which.
        server: ServerId,
        /// It gets keys with their routing prefix.
        keep_prefix: bool,
    },
    /// Answers as if there were no item.
    Null,
    /// Answers an error, with this message.
    Error(Outcome, Box<str>),
    /// The child that the key's hash names.
    Hash {
        /// The function.
        hash: Selector,
        /// As many as the function distinguishes.
        children: Box<[NodeId]>,
    },
    /// Any child.
    Random(Box<[NodeId]>),
    /// A child by the command, else the default.
    ByOperation {
        /// By mcrouter's name of the operation.
        children: HashMap<&'static str, NodeId>,
        /// For all others.
        default: NodeId,
    },
    /// A child by what the command does.
    ByClass {
        /// By class.
        children: HashMap<OperationClass, NodeId>,
        /// For all others.
        default: NodeId,
    },
    /// A child by the longest matching prefix of the key.
    ByPrefix {
        /// Sorted by length, the longest first.
        children: Vec<(Box<[u8]>, NodeId)>,
        /// For keys that match none.
        default: Option<NodeId>,
    },
    /// A route that asks several children, or asks one and decides then.
    Compound(Compound),
}

/// A route that needs the replies of its children.
#[derive(Debug)]
pub struct Compound {
    /// What it does with them.
    pub kind: CompoundKind,
    /// At least one.
    pub children: Box<[NodeId]>,
}

/// How a compound route asks its children.
#[derive(Clone, Debug)]
pub enum CompoundKind {
    /// All; the worst reply.
    AllSync,
    /// All; the first that is not an error.
    AllFastest,
    /// All; the reply of the first.
    AllInitial,
    /// All; no reply is waited for.
    AllAsync,
    /// All; the reply that most give.
    AllMajority,
    /// One after the other, until one is not an error.
    Failover(Box<FailoverErrors>),
    /// One after the other, until one has the item.
    MissFailover {
        /// If none has it: the best reply rather than the last.
        best: bool,
    },
}

/// The outcomes after which another child is asked, for each class of operations; `None` for mcrouter's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailoverErrors {
    /// `gets`
    pub gets: Option<Box<[Outcome]>>,
    /// `updates`
    pub updates: Option<Box<[Outcome]>>,
    /// `deletes`
    pub deletes: Option<Box<[Outcome]>>,
}

impl FailoverErrors {
    /// Whether another child is asked.
    pub fn applies(&self, operation: Operation, outcome: Outcome) -> bool {
        let list = match operation.class() {
            OperationClass::Get => &self.gets,
            OperationClass::Update => &self.updates,
            OperationClass::Delete => &self.deletes,
            // mcrouter has no list for these.
            OperationClass::Arithmetic | OperationClass::Touch => &None,
        };
        match list {
            Some(list) => list.contains(&outcome),
            None => outcome.is_failover_error(),
        }
    }
}

/// Where a request goes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RouteStep<'p> {
    /// To a server.
    Server { server: ServerId, keep_prefix: bool },
    /// Nowhere: this is its answer.
    Answer(Option<(Outcome, &'p str)>),
    /// To the children of this node.
    Compound(NodeId),
}

/// Routes by routing prefix.
#[derive(Debug, Default)]
pub struct Roots {
    /// For keys without a prefix.
    pub default: Option<NodeId>,
    /// By prefix, with its slashes; those for several routes (`/*/*/`, `/region/*/`), too.
    pub by_prefix: HashMap<Box<[u8]>, NodeId>,
    /// All prefixes, in the order of the configuration.
    pub routes: Vec<(Box<[u8]>, NodeId)>,
    /// Keys with a prefix that is not known go to the default route.
    pub invalid_to_default: bool,
}

impl Roots {
    /// The route for a prefix that has none of its own: that of the region's cluster `fallback`.
    #[cold]
    fn fallback(&self, prefix: &[u8]) -> Option<NodeId> {
        let region = prefix.split(|byte| *byte == b'/').nth(1).unwrap_or_default();
        let fallback = [b"/", region, b"/fallback/"].concat();
        let found = self.by_prefix.get(&fallback[..]).copied();
        found.or(self.default.filter(|_| self.invalid_to_default))
    }
}

/// A compiled configuration.
#[derive(Debug, Default)]
pub struct RoutePlan {
    /// Counts the configurations of this process.
    pub generation: u64,
    /// All routes.
    pub nodes: Vec<Node>,
    /// The top of the routes.
    pub roots: Roots,
    /// All servers.
    pub servers: Vec<std::sync::Arc<DestinationSpec>>,
    /// Pools that guard their servers (`tko_tracker`), with the names of these.
    pub guards: Vec<(String, GuardLimits, Vec<String>)>,
    /// The route to all servers at once, for `flush_all`; `None` without servers.
    pub everywhere: Option<NodeId>,
    /// All pools.
    pub pools: PlanPools,
    /// What it was made from.
    pub facts: Option<std::sync::Arc<ConfigFacts>>,
}

impl RoutePlan {
    /// Sockets that each worker may have to all servers.
    pub fn sockets(&self) -> usize {
        self.servers.iter().map(|spec| 1 + usize::from(spec.udp)).sum()
    }

    /// The names of servers that are looked up; some of them several times.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &std::sync::Arc<str>> {
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
            None => self.roots.fallback(key.prefix()),
        }
    }

    /// Follows routes that choose one child, from `node` to one that does not. `random` is any number.
    #[inline]
    pub(crate) fn step(
        &self,
        mut node: NodeId,
        operation: Operation,
        key: &RoutedKey<'_>,
        mut random: impl FnMut() -> u64,
    ) -> RouteStep<'_> {
        loop {
            node = match &self.nodes[node.0 as usize] {
                Node::Server { server, keep_prefix } => {
                    return RouteStep::Server { server: *server, keep_prefix: *keep_prefix };
                }
                Node::Hash { hash, children } => children[hash.select(key.routing())],
                Node::Null => return RouteStep::Answer(None),
                Node::Error(outcome, message) => return RouteStep::Answer(Some((*outcome, message))),
                Node::Random(children) => children[(random() % children.len() as u64) as usize],
                Node::ByOperation { children, default } => {
                    children.get(operation.name()).copied().unwrap_or(*default)
                }
                Node::ByClass { children, default } => {
                    children.get(&operation.class()).copied().unwrap_or(*default)
                }
                Node::ByPrefix { children, default } => {
                    let found = children.iter().find(|(prefix, _)| key.bare().starts_with(prefix));
                    match found.map(|(_, child)| *child).or(*default) {
                        Some(child) => child,
                        None => return RouteStep::Answer(Some((Outcome::LocalError, NO_ROUTE))),
                    }
                }
                Node::Compound(_) => return RouteStep::Compound(node),
            };
        }
    }

    /// The compound route at `node`.
    pub(crate) fn compound(&self, node: NodeId) -> &Compound {
        match &self.nodes[node.0 as usize] {
            Node::Compound(compound) => compound,
            other => unreachable!("a step ended at {other:?}"),
        }
    }
}

/// mcrouter's words for a key that no route is for.
pub(crate) const NO_ROUTE: &str = "RootRoute: No rh found";

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
