//! Routes that choose one child, or are the end of the way: those that nearly every request passes.
//!
//! They are one type without indirection for the sake of speed. What a plan, a compiler or a report asks of them stands
//! here and in the plan's own steps, without an arm for others, so that a new one is missed nowhere.

use std::collections::HashMap;

use crate::message::key::RoutedKey;
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::plan::hash::{Selector, spooky32};
use crate::plan::key_policies::KeyPolicies;
use crate::plan::node_id::{LogId, NodeId, ServerId};
use crate::shared::route_state::StateId;

/// A route that chooses one child, or is the end of the way. On the way of every request.
#[derive(Debug)]
pub(crate) enum PlainRoute {
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
}

/// A move of keys from one route to another, each key at its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    /// Has all keys before.
    pub(crate) from: NodeId,
    /// Has all keys afterwards.
    pub(crate) to: NodeId,
    /// Both: for deletes while keys move.
    pub(crate) both: NodeId,
    /// When deletes begin to go to both, in seconds since 1970.
    pub(crate) start_s: i64,
    /// Keys begin to move this many seconds later, and take as long. At least 1.
    pub(crate) interval_s: u32,
}

impl Migration {
    /// The route of a request at a time.
    pub(super) fn child(&self, operation: Operation, key: &RoutedKey<'_>, unix_s: i64) -> NodeId {
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

/// The name of a route in reports.
pub(crate) enum NodeName {
    /// A server: that of the plan.
    Server(ServerId, bool),
    /// A log: that of the plan.
    Log(LogId),
    /// This one.
    Text(String),
    /// None: it stands for a part of what mcrouter's `root` does, the choice by prefixes, of routing and of keys.
    OfRoot,
}

impl PlainRoute {
    /// mcrouter's name of it.
    pub(crate) fn name(&self) -> NodeName {
        NodeName::Text(match self {
            PlainRoute::Server { server, keep_prefix } => return NodeName::Server(*server, *keep_prefix),
            PlainRoute::Logged { log, .. } => return NodeName::Log(*log),
            PlainRoute::ByPrefix { .. } => return NodeName::OfRoot,
            PlainRoute::Error(outcome, message) if message.is_empty() => {
                format!("error|log|mc_res_{}", outcome.name())
            }
            PlainRoute::Error(outcome, message) => format!("error|log|mc_res_{}|{message}", outcome.name()),
            PlainRoute::Hash { hash, .. } => format!("selection|hash|{}", hash.name()),
            PlainRoute::Null => "null".to_owned(),
            PlainRoute::DevNull => "devnull".to_owned(),
            PlainRoute::Random(_) => "random".to_owned(),
            PlainRoute::ByOperation { .. } => "operation-selector".to_owned(),
            PlainRoute::ByClass { .. } => "routing-group".to_owned(),
            PlainRoute::Migrate(_) => "migrate".to_owned(),
            PlainRoute::RateLimit { .. } => "rate-limit".to_owned(),
            PlainRoute::ByWorker(_) => "by-worker".to_owned(),
            PlainRoute::Blackhole { .. } => "blackhole".to_owned(),
        })
    }

    /// The children that a request for a key may go to.
    pub(crate) fn reached(&self, operation: Operation, key: &RoutedKey<'_>) -> Vec<NodeId> {
        match self {
            PlainRoute::Server { .. } | PlainRoute::Null | PlainRoute::DevNull | PlainRoute::Error(..) => {
                Vec::new()
            }
            PlainRoute::Hash { hash, children } => vec![children[hash.select(key.routing())]],
            PlainRoute::Random(children) => children.to_vec(),
            PlainRoute::ByOperation { children, default } => {
                vec![children.get(operation.name()).copied().unwrap_or(*default)]
            }
            PlainRoute::ByClass { children, default } => {
                vec![children.get(&operation.class()).copied().unwrap_or(*default)]
            }
            PlainRoute::ByPrefix { children, default } => {
                by_key_prefix(children, *default, key).into_iter().collect()
            }
            PlainRoute::Logged { child, .. } => vec![*child],
            PlainRoute::Migrate(migration) => vec![migration.from, migration.to],
            PlainRoute::RateLimit { target, fallback, .. } => {
                [*target].into_iter().chain(*fallback).collect()
            }
            PlainRoute::ByWorker(children) => children.first().copied().into_iter().collect(),
            PlainRoute::Blackhole { blackhole, default, .. } => vec![*default, *blackhole],
        }
    }

    /// The most servers that a request asks from this node on, of which each child asks `of(child)`.
    pub(crate) fn fan_out(&self, of: &dyn Fn(&NodeId) -> u32) -> u32 {
        match self {
            PlainRoute::Server { .. } => 1,
            PlainRoute::Logged { child, .. } => of(child),
            PlainRoute::Null | PlainRoute::DevNull | PlainRoute::Error(..) => 0,
            PlainRoute::Hash { children, .. }
            | PlainRoute::Random(children)
            | PlainRoute::ByWorker(children) => children.iter().map(of).max().unwrap_or(0),
            PlainRoute::ByOperation { children, default } => {
                children.values().chain([default]).map(of).max().unwrap_or(0)
            }
            PlainRoute::ByClass { children, default } => {
                children.values().chain([default]).map(of).max().unwrap_or(0)
            }
            PlainRoute::ByPrefix { children, default } => {
                children.iter().map(|(_, child)| child).chain(default).map(of).max().unwrap_or(0)
            }
            // `both` has all children of the others.
            PlainRoute::Migrate(migration) => of(&migration.both),
            PlainRoute::RateLimit { target, fallback, .. } => {
                fallback.iter().chain([target]).map(of).max().unwrap_or(0)
            }
            PlainRoute::Blackhole { blackhole, default, .. } => of(blackhole).max(of(default)),
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
