//! Destinations and routes of a request: `route` and `route_handles`.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::service::TEXT_MAX;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::plan::key_tracer::KeyTracer;
use crate::plan::{Compound, CompoundKind, Node, NodeId, RoutePlan, by_key_prefix};

/// Stands at the end of a text that was cut.
const CUT: &str = "\n(the rest is left out)";

/// Cuts a text that is too long.
pub(super) fn cut(text: &mut String) {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX - CUT.len()).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(CUT);
    }
}

/// The servers that would get a request for a key, one after the other.
pub(super) fn destinations(plan: &Arc<RoutePlan>, operation: Operation, key: &str, unix_s: i64) -> String {
    let mut tracer = KeyTracer::new(Arc::clone(plan), unix_s);
    // The shortest name has three bytes.
    let mut out = tracer.servers(operation, key.as_bytes(), TEXT_MAX / 3).join("\r\n");
    cut(&mut out);
    out
}

/// The routes through which a request for a key can go, as a tree.
pub(super) fn handles(plan: &RoutePlan, operation: Operation, key: &str) -> String {
    let key = RoutedKey::new(key.as_bytes());
    let mut out = "proxy\n root\n".to_owned();
    let mut waiting: Vec<(NodeId, usize)> = plan.root(&key).map(|root| (root, 2)).into_iter().collect();
    while let Some((node, depth)) = waiting.pop() {
        if out.len() > TEXT_MAX {
            break;
        }
        let children = children_of(plan, node, operation, &key);
        let children = children.into_iter().rev();
        if is_of_root(&plan.nodes[node.0 as usize]) {
            waiting.extend(children.map(|child| (child, depth)));
            continue;
        }
        let _ = writeln!(out, "{:depth$}{}", "", name_of(plan, node));
        waiting.extend(children.map(|child| (child, depth + 1)));
    }
    cut(&mut out);
    out
}

/// Whether it stands for a part of what mcrouter's `root` does: the choice by prefixes, of routing and of keys.
fn is_of_root(node: &Node) -> bool {
    matches!(node, Node::ByPrefix { .. } | Node::Compound(Compound { kind: CompoundKind::Broadcast(_), .. }))
}

/// The children of a route that a request for a key may go to.
fn children_of(plan: &RoutePlan, node: NodeId, operation: Operation, key: &RoutedKey<'_>) -> Vec<NodeId> {
    let node = &plan.nodes[node.0 as usize];
    if let Node::Hash { hash, children } = node {
        vec![children[hash.select(key.routing())]]
    } else if let Node::Random(children) = node {
        children.to_vec()
    } else if let Node::ByOperation { children, default } = node {
        vec![children.get(operation.name()).copied().unwrap_or(*default)]
    } else if let Node::ByClass { children, default } = node {
        vec![children.get(&operation.class()).copied().unwrap_or(*default)]
    } else if let Node::ByPrefix { children, default } = node {
        by_key_prefix(children, *default, key).into_iter().collect()
    } else if let Node::Logged { child, .. } = node {
        vec![*child]
    } else if let Node::Migrate(migration) = node {
        vec![migration.from, migration.to]
    } else if let Node::RateLimit { target, fallback, .. } = node {
        [*target].into_iter().chain(*fallback).collect()
    } else if let Node::ByWorker(children) = node {
        children.first().copied().into_iter().collect()
    } else if let Node::Blackhole { blackhole, default, .. } = node {
        vec![*default, *blackhole]
    } else if let Node::Compound(Compound { kind: CompoundKind::Broadcast(places), children }) = node {
        match plan.targets(places, children, key) {
            targets if targets.is_empty() && plan.roots.invalid_to_default => vec![children[0]],
            targets => targets,
        }
    } else if let Node::Compound(compound) = node {
        compound.children.to_vec()
    } else {
        Vec::new()
    }
}

/// mcrouter's name of a route.
pub(super) fn name_of(plan: &RoutePlan, node: NodeId) -> String {
    match &plan.nodes[node.0 as usize] {
        Node::Server { server, keep_prefix } => {
            let spec = &plan.servers[server.0 as usize];
            let (pool, index) = plan.pools.place_of(node).unwrap_or_default();
            let security = if spec.tls.is_some() { "ssl" } else { "plain" };
            format!(
                "host|pool={pool}|id={index}|ap={}:ascii:{security}:notcompressed|timeout={}ms|\
                 keep_routing_prefix={keep_prefix}|msb=0",
                spec.name, spec.timeout_ms
            )
        }
        Node::Error(outcome, message) if message.is_empty() => {
            format!("error|log|mc_res_{}", outcome.name())
        }
        Node::Error(outcome, message) => format!("error|log|mc_res_{}|{message}", outcome.name()),
        Node::Hash { hash, .. } => format!("selection|hash|{}", hash.name()),
        Node::DevNull => "devnull".to_owned(),
        Node::ByOperation { .. } => "operation-selector".to_owned(),
        Node::ByClass { .. } => "routing-group".to_owned(),
        Node::Compound(compound) => match &compound.kind {
            CompoundKind::Delay(_) => "latency-injection".to_owned(),
            CompoundKind::Fill(fill) if fill.negative.is_some() => "l1l2-cache".to_owned(),
            CompoundKind::Fill(_) => "warm-up".to_owned(),
            CompoundKind::KeySplit(_) => "keysplit".to_owned(),
            CompoundKind::Log => "logging".to_owned(),
            CompoundKind::Outstanding(_) => "outstanding-limit".to_owned(),
            CompoundKind::SizeSplit(_) => "l1l2-sizesplit".to_owned(),
            // Ours have the names of mcrouter's.
            other => kebab(other),
        },
        Node::Logged { log, .. } => format!("asynclog:{}", plan.logs[usize::from(log.0)]),
        other => kebab(other),
    }
}

/// The name of a variant, with hyphens: `AllSync` is `all-sync`.
fn kebab(variant: &impl fmt::Debug) -> String {
    struct FirstWord(String);
    impl Write for FirstWord {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for letter in text.chars() {
                match letter {
                    'A'..='Z' if self.0.is_empty() => self.0.push(letter.to_ascii_lowercase()),
                    'A'..='Z' => self.0.extend(['-', letter.to_ascii_lowercase()]),
                    'a'..='z' | '0'..='9' => self.0.push(letter),
                    // The fields follow, of which there may be thousands.
                    _ => return Err(fmt::Error),
                }
            }
            Ok(())
        }
    }
    let mut word = FirstWord(String::new());
    // The error ends the writing.
    let _ = write!(word, "{variant:?}");
    word.0
}
