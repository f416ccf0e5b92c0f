//! Destinations and routes of a request: `route` and `route_handles`.

use std::fmt::Write;
use std::sync::Arc;

use super::service::TEXT_MAX;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::plan::key_tracer::KeyTracer;
use crate::plan::plain_route::NodeName;
use crate::plan::{NodeId, RoutePlan};

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
        let children = plan.nodes[node.0 as usize].reached(operation, &key, plan);
        let below = match name_of(plan, node) {
            Some(name) => {
                let _ = writeln!(out, "{:depth$}{name}", "");
                depth + 1
            }
            None => depth,
        };
        waiting.extend(children.into_iter().rev().map(|child| (child, below)));
    }
    cut(&mut out);
    out
}

/// mcrouter's name of a route; `None` for a part of its `root`.
pub(super) fn name_of(plan: &RoutePlan, node: NodeId) -> Option<String> {
    match plan.nodes[node.0 as usize].name() {
        NodeName::Server(server, keep_prefix) => {
            let spec = &plan.servers[server.0 as usize];
            let (pool, index) = plan.pools.place_of(node).unwrap_or_default();
            let security = if spec.tls.is_some() { "ssl" } else { "plain" };
            Some(format!(
                "host|pool={pool}|id={index}|ap={}:ascii:{security}:notcompressed|timeout={}ms|\
                 keep_routing_prefix={keep_prefix}|msb=0",
                spec.name, spec.timeout_ms
            ))
        }
        NodeName::Log(log) => Some(format!("asynclog:{}", plan.logs[usize::from(log.0)])),
        NodeName::Text(name) => Some(name),
        NodeName::OfRoot => None,
    }
}
