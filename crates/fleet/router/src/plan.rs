//! Plans: a configuration as the workers use it. Routes as nodes in one array, and the servers that they name.
//!
//! A plan does not change. A request ends on the plan that it began with.

pub(crate) mod choices;
pub(crate) mod config_facts;
mod failover;
pub(crate) mod key_tracer;
pub(crate) mod node_id;
pub(crate) mod pools;
mod shadow;
mod test_routes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use net::{Place, ServerName};

use crate::config::json::Json;
use crate::hash::{Selector, spooky32};
use crate::hot::cache::HotCacheSettings;
use crate::message::changes::{ExptimeChange, KeyChange};
use crate::message::key::RoutedKey;
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::message::routing_prefix::{PrefixPattern, RoutingPrefix};
use crate::plan::choices::Choices;
use crate::plan::config_facts::ConfigFacts;
use crate::plan::pools::PlanPools;
use crate::servers::compression::Compression;
use crate::servers::health::GuardLimits;
use crate::shared::route_state::{StateId, StateKey, StateSpec};
use crate::shared::variables::RuntimeVariable;
use crate::stats::counted_pools::CountedPool;
use crate::stats::shadow_counts::{ShadowCounts, ShadowReport};

pub use crate::plan::node_id::{LogId, NodeId, ServerId};
pub use failover::{DeterministicOrder, FailoverOrder, FailoverSettings, FailureDomains};

pub use shadow::{ShadowKeys, ShadowRule};
pub use test_routes::{AddedLatency, KeyPolicies, KeyPolicy, TotalLatency};

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
    /// Values that clients ask for again and again are kept in the router for a moment.
    pub hot_cache: Option<Arc<HotCacheSettings>>,
    /// Its requests count in the statistics of this pool. A server of two such pools has a connection for each: which of them
    /// a request is for would otherwise have to go with it.
    pub counted_as: Option<CountedPool>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerPlace {
    /// At this address.
    Fixed(Place),
    /// At an address of this name, which is looked up while the router runs.
    Named {
        /// The name.
        host: Arc<str>,
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
            && self.hot_cache == other.hot_cache
            && self.counted_as == other.counted_as
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
    /// Answers as if there were no item, and counts that.
    DevNull,
    /// Answers an error, with this message.
    Error(Outcome, Box<str>),
    /// The child that the key's hash names.
    Hash {
        /// The function.
        hash: Selector,
        /// As many as the function distinguishes.
        children: Box<[NodeId]>,
    },
    /// A child whose deletes go to a log if they fail.
    Logged {
        /// Which one.
        log: LogId,
        /// The route.
        child: NodeId,
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
    /// One of three children, by the time of day.
    Migrate(Migration),
    /// One route for as many requests as are allowed, another for the rest.
    RateLimit {
        /// What has been allowed.
        state: StateId,
        /// For requests that are allowed.
        target: NodeId,
        /// For the others; without, they are answered as if there were no item.
        fallback: Option<NodeId>,
    },
    /// A child for each worker, by its number.
    ByWorker(Box<[NodeId]>),
    /// One route for the keys for which policies hold, another for the rest.
    Blackhole {
        /// The policies.
        policies: KeyPolicies,
        /// For keys for which they hold.
        blackhole: NodeId,
        /// For the others.
        default: NodeId,
    },
    /// A route that asks several children, or asks one and decides then.
    Compound(Compound),
}

/// A move of keys from one route to another, each key at its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Has all keys before.
    pub from: NodeId,
    /// Has all keys afterwards.
    pub to: NodeId,
    /// Both: for deletes while keys move.
    pub both: NodeId,
    /// When deletes begin to go to both, in seconds since 1970.
    pub start_s: i64,
    /// Keys begin to move this many seconds later, and take as long. At least 1.
    pub interval_s: u32,
}

impl Migration {
    /// The route of a request at a time.
    fn child(&self, operation: Operation, key: &RoutedKey<'_>, unix_s: i64) -> NodeId {
        let interval_s = i64::from(self.interval_s);
        let after_s = unix_s.saturating_sub(self.start_s);
        let is_delete = operation.class() == OperationClass::Delete;
        if after_s < 0 {
            self.from
        } else if after_s >= 2 * interval_s {
            self.to
        } else if is_delete {
            self.both
        } else if after_s < interval_s + i64::from(spooky32(key.routing(), 0)) % interval_s {
            self.from
        } else {
            self.to
        }
    }
}

/// A route that needs the replies of its children.
#[derive(Debug)]
pub struct Compound {
    /// What it does with them.
    pub kind: CompoundKind,
    /// At least one.
    pub children: Box<[NodeId]>,
}

impl Compound {
    /// A child by its number. A route that asks a single child for several things numbers these.
    pub(crate) fn child(&self, number: u16) -> NodeId {
        *self.children.get(usize::from(number)).unwrap_or(&self.children[0])
    }
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
    /// Those whose routing prefix, which is in the same place, matches that of the key; the reply of the first.
    Broadcast(Box<[BroadcastPlace]>),
    /// All; no reply is waited for.
    AllAsync,
    /// All; the reply that most give.
    AllMajority,
    /// One after the other, until one is not an error.
    Failover(Box<FailoverSettings>),
    /// One after the other, until one has the item.
    MissFailover {
        /// If none has it: the best reply rather than the last.
        best: bool,
    },
    /// The only child, when it has few enough requests without a reply.
    Outstanding(StateId),
    /// The only child, with delays.
    Delay(Box<AddedLatency>),
    /// The only child; the request is logged.
    Log,
    /// The first child; each of the others gets the requests that its rule names, and its replies are dropped.
    Shadow(Box<[Arc<ShadowRule>]>),
    /// The child gets the request with another key.
    ModifyKey(Box<KeyChange>),
    /// The child gets the request with another time of expiry.
    ModifyExptime(ExptimeChange),
    /// Copies of an item under several keys.
    KeySplit(KeySplit),
    /// The first; the second is kept alike.
    Staging,
    /// The child, for values in parts.
    BigValue(BigValue),
    /// The first; the second for large values.
    SizeSplit(SizeSplit),
    /// The first; the second for what it does not have, with a copy into the first.
    Fill(Fill),
    /// The only child, which is a server, with compressed values.
    Compression(Arc<Compression>),
}

/// A child of a broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastPlace {
    /// Its routing prefix.
    pub prefix: RoutingPrefix,
    /// The route below it that chooses by the beginning of a key; the child itself, if none does.
    pub by_key: NodeId,
}

/// How a key is split into replicas: the key itself, and keys with `::1`, `::2` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySplit {
    /// 2 to 1000: as many as the route has children, which are all the same.
    pub replicas: u16,
    /// The one that this host uses.
    pub own: u16,
    /// A set goes to all.
    pub all_sync: bool,
    /// A get goes to all, and the first hit is its answer.
    pub first_hit: bool,
}

/// Which values are kept in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BigValue {
    /// Longer ones, in bytes: the length of parts. At least 1.
    pub threshold: u64,
    /// Parts that are asked for at a time; 0 for as many as possible.
    pub batch: u16,
    /// Clients do not see the mark of such a value among its flags.
    pub hides_flag: bool,
}

/// Which values are large, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeSplit {
    /// Values from this length on, in bytes; 0 for none.
    pub threshold: u64,
    /// Items with a sooner time of expiry are kept as if they were small, in seconds; 0 for none.
    pub ttl_threshold_s: u32,
    /// Both caches get a large value.
    pub both_full_set: bool,
}

/// How one cache is filled from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The time of expiry of copies; `None` for that of their originals.
    pub exptime: Option<u32>,
    /// Items that stand for misses.
    pub negative: Option<NegativeCache>,
    /// The second answers all reads while the first fails, also those that are about the item in the first.
    pub stands_in: bool,
}

/// Items in the first cache that stand for misses of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeCache {
    /// Their time of expiry.
    pub exptime: u32,
    /// The second cache is asked again every so many times that such an item is found; 0 for no such items.
    pub update_period: u32,
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
    /// For keys whose prefix is a pattern: a [`CompoundKind::Broadcast`], whose first child is the default route.
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
    pub nodes: Vec<Node>,
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
            node = match &self.nodes[node.0 as usize] {
                Node::Server { server, keep_prefix } => {
                    return RouteStep::Server { server: *server, keep_prefix: *keep_prefix, log };
                }
                Node::Hash { hash, children } => children[hash.select(key.routing())],
                Node::Logged { log: inner, child } => {
                    log = Some(*inner);
                    *child
                }
                Node::Null => return RouteStep::Answer(None),
                Node::DevNull => {
                    choices.counted.dropped += 1;
                    return RouteStep::Answer(None);
                }
                Node::Error(outcome, message) => return RouteStep::Answer(Some((*outcome, message))),
                Node::Random(children) => children[(choices.random() % children.len() as u64) as usize],
                Node::ByOperation { children, default } => {
                    children.get(operation.name()).copied().unwrap_or(*default)
                }
                Node::ByClass { children, default } => {
                    children.get(&operation.class()).copied().unwrap_or(*default)
                }
                Node::ByPrefix { children, default } => match by_key_prefix(children, *default, key) {
                    Some(child) => child,
                    None => return RouteStep::Answer(Some((Outcome::LocalError, NO_ROUTE))),
                },
                Node::Migrate(migration) => migration.child(operation, key, choices.unix_s),
                Node::RateLimit { state, target, fallback } => {
                    match (choices.permits(self.state(*state), operation), fallback) {
                        (true, _) => *target,
                        (false, Some(fallback)) => *fallback,
                        (false, None) => return RouteStep::Answer(None),
                    }
                }
                Node::ByWorker(children) => children[choices.worker % children.len()],
                Node::Blackhole { policies, blackhole, default } => {
                    if policies.hold(key) {
                        *blackhole
                    } else {
                        *default
                    }
                }
                Node::Compound(Compound { kind: CompoundKind::Shadow(rules), children }) => {
                    if choices.draw_shadows(rules, key, children) {
                        return RouteStep::Compound(node, log);
                    }
                    children[0]
                }
                Node::Compound(Compound { kind: CompoundKind::Broadcast(places), children }) => {
                    match self.targets(places, children, key)[..] {
                        [] if self.roots.invalid_to_default => children[0],
                        [] => return RouteStep::Answer(Some((Outcome::LocalError, NO_ROUTE))),
                        [only] => only,
                        _ => return RouteStep::Compound(node, log),
                    }
                }
                Node::Compound(_) => return RouteStep::Compound(node, log),
            };
        }
    }

    /// The routes of a broadcast for a key: each route once, however many prefixes lead there, and none that has no
    /// route for the key.
    #[cold]
    pub(crate) fn targets(
        &self,
        places: &[BroadcastPlace],
        children: &[NodeId],
        key: &RoutedKey<'_>,
    ) -> Vec<NodeId> {
        let Some(pattern) = PrefixPattern::of(key.prefix()) else { return Vec::new() };
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for (place, child) in places.iter().zip(children) {
            if !pattern.matches(&place.prefix) {
                continue;
            }
            let target = match &self.nodes[place.by_key.0 as usize] {
                Node::ByPrefix { children, default } => by_key_prefix(children, *default, key),
                _ => Some(place.by_key),
            };
            if target.is_some_and(|target| seen.insert(target)) {
                found.push(*child);
            }
        }
        found
    }

    /// The server to which a route leads that depends on nothing but the key, and whether it gets keys with their prefix. Logs
    /// on the way, which are for deletes, are passed over.
    #[inline]
    pub(crate) fn direct(&self, mut node: NodeId, key: &RoutedKey<'_>) -> Option<(ServerId, bool)> {
        loop {
            node = match &self.nodes[node.0 as usize] {
                Node::Server { server, keep_prefix } => return Some((*server, *keep_prefix)),
                Node::Hash { hash, children } => children[hash.select(key.routing())],
                Node::Logged { child, .. } => *child,
                _ => return None,
            };
        }
    }

    /// The server that a FailoverRoute asks first, if it is known for a get without asking anything else, and its reply is
    /// final unless it is an error.
    #[inline]
    pub(crate) fn normal_server(
        &self,
        node: NodeId,
        operation: Operation,
        key: &RoutedKey<'_>,
    ) -> Option<(ServerId, bool)> {
        let Compound { kind: CompoundKind::Failover(settings), children } = self.compound(node) else {
            return None;
        };
        let is_get = matches!(operation, Operation::Get | Operation::Gets);
        let has_plain_errors =
            || settings.errors.gets.as_ref().is_none_or(|list| list.iter().all(|outcome| outcome.is_error()));
        if !is_get || settings.state.is_some() || !has_plain_errors() {
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
        match &self.nodes[node.0 as usize] {
            Node::Compound(compound) => compound,
            other => unreachable!("a step ended at {other:?}"),
        }
    }
}

/// The child by the longest matching beginning of what is hashed of a key; they are sorted by it.
pub(crate) fn by_key_prefix(
    children: &[(Box<[u8]>, NodeId)],
    default: Option<NodeId>,
    key: &RoutedKey<'_>,
) -> Option<NodeId> {
    let found = children.iter().find(|(prefix, _)| key.routing().starts_with(prefix));
    found.map(|(_, child)| *child).or(default)
}

/// mcrouter's words for a key that no route is for.
pub(crate) const NO_ROUTE: &str = "RootRoute: No rh found";
