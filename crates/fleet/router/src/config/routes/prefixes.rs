//! The top of the routes: routing prefixes, and key prefixes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Compiler, forms};
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::message::operation::OperationClass;
use crate::message::routing_prefix::{self, RoutingPrefix};
use crate::plan::plain_route::PlainRoute;
use crate::plan::{Compound, Node, NodeId};
use crate::routes::copies::broadcast::{Broadcast, BroadcastPlace};
use crate::routes::form::Compile;
use crate::routes::limits::logging::Logging;
use crate::routes::requests::big_value::add_in_parts;
use crate::routes::steps::prefix_selector;

/// Routing prefixes of a configuration.
const ROOTS_MAX: usize = 10_000;

/// A route with its prefix.
struct Root {
    prefix: RoutingPrefix,
    top: Top,
}

/// A route at the top.
#[derive(Clone, Copy)]
struct Top {
    node: NodeId,
    /// The part of it that chooses by the beginning of keys; itself, if it does not.
    by_key: NodeId,
}

impl Compiler<'_, '_> {
    /// `route`, or `routes` with their prefixes.
    pub(super) fn roots(&mut self, top: &Object<'_>) -> Result<(), ConfigError> {
        let mut roots: Vec<Root> = Vec::new();
        match (top.get("route"), top.get("routes")) {
            (Some(_), Some(routes)) => {
                return Err(routes.error("expected either `route` or `routes`, found both"));
            }
            (None, None) => {
                return Err(ConfigError::new(top.place(), "expected `route` or `routes`, found neither"));
            }
            (Some(route), None) => {
                let prefix = self.options.default_prefix.clone();
                roots.push(Root { prefix, top: self.top(route)? });
            }
            (None, Some(routes)) => match &routes.value {
                JsonValue::Array(items) => {
                    for item in items {
                        let object = item.object("an item of `routes`")?;
                        let top = self.top(object.require("route")?)?;
                        for alias in object.require("aliases")?.array("`aliases`")? {
                            roots.push(Root { prefix: prefix(alias.string("an alias")?, alias)?, top });
                        }
                    }
                }
                _ => {
                    for (alias, route) in routes.object("`routes`")?.entries() {
                        roots.push(Root { prefix: prefix(alias, route)?, top: self.top(route)? });
                    }
                }
            },
        }
        if roots.len() > ROOTS_MAX {
            let message = format!("expected at most {ROOTS_MAX} routing prefixes, found {}", roots.len());
            return Err(ConfigError::new(top.place(), message));
        }
        let default = &self.options.default_prefix;
        let roots = ordered(roots, default);
        let Some(own) = roots.first().filter(|root| root.prefix == *default) else {
            let message = format!("expected a route for the default prefix {default}, found none");
            return Err(ConfigError::new(top.place(), message));
        };
        self.plan.roots.default = Some(own.top.node);
        self.plan.roots.invalid_to_default = self.options.invalid_to_default;
        for Root { prefix, top } in &roots {
            // A key's prefix with a star is a pattern, also where a route has the very same.
            if !prefix.as_str().contains('*') {
                self.plan.roots.by_prefix.insert(prefix.as_str().as_bytes().into(), top.node);
            }
        }
        let children: Vec<NodeId> = roots.iter().map(|root| root.top.node).collect();
        let places = roots
            .into_iter()
            .map(|Root { prefix, top }| BroadcastPlace { prefix, by_key: top.by_key })
            .collect();
        let broadcast = Compound::new(Broadcast { places }, children);
        self.plan.roots.broadcast = Some(self.add_at(Node::Compound(broadcast), top.place())?);
        if self.options.log_requests { self.log_all(top) } else { Ok(()) }
    }

    /// A log in front of all routes.
    fn log_all(&mut self, top: &Object<'_>) -> Result<(), ConfigError> {
        let mut logged = HashMap::new();
        let all: Vec<NodeId> = self.plan.roots.nodes_mut().map(|node| *node).collect();
        for node in all {
            if let Entry::Vacant(entry) = logged.entry(node) {
                let compound = Compound::new(Logging, vec![node]);
                entry.insert(self.add_at(Node::Compound(compound), top.place())?);
            }
        }
        self.plan.roots.nodes_mut().for_each(|node| *node = logged[&*node]);
        Ok(())
    }

    /// A route at the top, with long values in parts if that is asked for.
    fn top(&mut self, json: &Json) -> Result<Top, ConfigError> {
        let by_key = self.by_key_prefix(json)?;
        let mut node = match self.options.big_value {
            Some(big) => add_in_parts(self, big, by_key, json)?,
            None => by_key,
        };
        if self.options.only_gets {
            let default = self.add_plain(PlainRoute::Null, json)?;
            node = self.add_plain(
                PlainRoute::ByClass { children: [(OperationClass::Get, node)].into(), default },
                json,
            )?;
        }
        Ok(Top { node, by_key })
    }

    /// A route at the top: by the beginning of keys, or the same for all.
    fn by_key_prefix(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let selector = match &json.value {
            JsonValue::Object(_) => Some(json.object("a route")?)
                .filter(|object| object.get("type").and_then(Json::as_str) == Some("PrefixSelectorRoute")),
            _ => None,
        };
        let Some(selector) = selector else { return self.single(json) };
        forms::note_unknown(self, &selector, "PrefixSelectorRoute");
        prefix_selector::at_the_top(self, &selector, json)
    }
}

/// Routes in the order in which a request for several of them reaches them: that of `default` first, whose reply is the
/// answer. Of a prefix that stands twice, the last route counts, as in mcrouter.
fn ordered(roots: Vec<Root>, default: &RoutingPrefix) -> Vec<Root> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut found: Vec<Root> = Vec::new();
    for root in roots {
        match places.entry(root.prefix.to_string()) {
            Entry::Occupied(place) => found[*place.get()] = root,
            Entry::Vacant(place) => {
                place.insert(found.len());
                found.push(root);
            }
        }
    }
    found.sort_by_key(|root| root.prefix != *default);
    found
}

fn prefix(text: &str, json: &Json) -> Result<RoutingPrefix, ConfigError> {
    let error = || json.error(format!("expected {}, found {text:?}", routing_prefix::EXPECTED));
    RoutingPrefix::parse(text).ok_or_else(error)
}
