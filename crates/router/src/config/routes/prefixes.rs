//! The top of the routes: routing prefixes, and key prefixes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Compiler;
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::operation::OperationClass;
use crate::plan::{Compound, CompoundKind, Node, NodeId};

/// Routing prefixes of a configuration.
const ROOTS_MAX: usize = 10_000;

impl Compiler<'_, '_> {
    /// `route`, or `routes` with their prefixes.
    pub(super) fn roots(&mut self, top: &Object<'_>) -> Result<(), ConfigError> {
        let mut roots: Vec<(String, NodeId)> = Vec::new();
        match (top.get("route"), top.get("routes")) {
            (Some(_), Some(routes)) => {
                return Err(routes.error("expected either `route` or `routes`, found both"));
            }
            (None, None) => {
                return Err(ConfigError::new(top.place(), "expected `route` or `routes`, found neither"));
            }
            (Some(route), None) => {
                let node = self.top(route)?;
                roots.push((self.options.default_prefix.clone(), node));
            }
            (None, Some(routes)) => match &routes.value {
                JsonValue::Array(items) => {
                    for item in items {
                        let object = item.object("an item of `routes`")?;
                        let node = self.top(object.require("route")?)?;
                        for alias in object.require("aliases")?.array("`aliases`")? {
                            roots.push((prefix(alias.string("an alias")?, alias)?, node));
                        }
                    }
                }
                _ => {
                    for (alias, route) in routes.object("`routes`")?.entries() {
                        let node = self.top(route)?;
                        roots.push((prefix(alias, route)?, node));
                    }
                }
            },
        }
        let default = self.options.default_prefix.clone();
        let own = roots.iter().find(|(prefix, _)| *prefix == default).map(|(_, node)| *node);
        let Some(own) = own else {
            let message = format!("expected a route for the default prefix {default}, found none");
            return Err(ConfigError::new(top.place(), message));
        };
        self.plan.roots.default = Some(own);
        self.plan.roots.invalid_to_default = self.options.invalid_to_default;
        self.plan.roots.routes =
            roots.iter().map(|(prefix, node)| (prefix.as_bytes().into(), *node)).collect();
        self.broadcasts(&roots, &default, top)?;
        for (prefix, node) in roots {
            self.plan.roots.by_prefix.insert(prefix.into_bytes().into(), node);
        }
        if self.options.log_requests { self.log_all(top) } else { Ok(()) }
    }

    /// A log in front of all routes.
    fn log_all(&mut self, top: &Object<'_>) -> Result<(), ConfigError> {
        let mut logged = HashMap::new();
        let mut all: Vec<NodeId> = self.plan.roots.by_prefix.values().copied().collect();
        all.extend(self.plan.roots.default);
        for node in all {
            if let Entry::Vacant(entry) = logged.entry(node) {
                let compound = Compound { kind: CompoundKind::Log, children: Box::new([node]) };
                entry.insert(self.add_at(Node::Compound(compound), top.place())?);
            }
        }
        let roots = &mut self.plan.roots;
        roots.by_prefix.values_mut().chain(&mut roots.default).for_each(|node| *node = logged[&*node]);
        Ok(())
    }

    /// `/*/*/`, and `/region/*/` for each region: the local route answers, the others get copies.
    fn broadcasts(
        &mut self,
        roots: &[(String, NodeId)],
        default: &str,
        top: &Object<'_>,
    ) -> Result<(), ConfigError> {
        if roots.len() > ROOTS_MAX {
            let message = format!("expected at most {ROOTS_MAX} routing prefixes, found {}", roots.len());
            return Err(ConfigError::new(top.place(), message));
        }
        let region_of = |prefix: &str| prefix.split('/').nth(1).unwrap_or_default().to_owned();
        let mut regions: Vec<String> = roots.iter().map(|(prefix, _)| region_of(prefix)).collect();
        regions.sort_unstable();
        regions.dedup();
        let mut patterns: Vec<(String, Option<String>)> = vec![("/*/*/".to_owned(), None)];
        patterns.extend(regions.into_iter().map(|region| (format!("/{region}/*/"), Some(region))));
        for (pattern, region) in patterns {
            let is_meant = |prefix: &str| region.as_ref().is_none_or(|region| region_of(prefix) == *region);
            let chosen = roots.iter().filter(|(prefix, _)| is_meant(prefix));
            // The local one first: its reply is the answer.
            let mut chosen: Vec<_> = chosen.map(|(prefix, node)| (prefix != default, *node)).collect();
            chosen.sort_by_key(|(is_other, _)| *is_other);
            let mut children: Vec<NodeId> = Vec::new();
            for (_, node) in chosen {
                if !children.contains(&node) {
                    children.push(node);
                }
            }
            let node = match children[..] {
                [only] => only,
                _ => {
                    let compound = Compound { kind: CompoundKind::AllInitial, children: children.into() };
                    self.add_at(Node::Compound(compound), top.place())?
                }
            };
            self.plan.roots.by_prefix.insert(pattern.into_bytes().into(), node);
        }
        Ok(())
    }

    /// A route at the top, with long values in parts if that is asked for.
    fn top(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let node = self.by_key_prefix(json)?;
        let node = match self.options.big_value {
            Some(big) => self.in_parts(big, node, json)?,
            None => node,
        };
        if !self.options.only_gets {
            return Ok(node);
        }
        let default = self.add(Node::Null, json)?;
        self.add(Node::ByClass { children: [(OperationClass::Get, node)].into(), default }, json)
    }

    /// A route at the top: by the beginning of keys, or the same for all.
    fn by_key_prefix(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let selector = match &json.value {
            JsonValue::Object(_) => Some(json.object("a route")?)
                .filter(|object| object.get("type").and_then(Json::as_str) == Some("PrefixSelectorRoute")),
            _ => None,
        };
        let Some(selector) = selector else { return self.single(json) };
        self.note_unknown_of_route(&selector, "PrefixSelectorRoute");
        let (policies, wildcard) = (selector.get("policies"), selector.get("wildcard"));
        if policies.is_none() && wildcard.is_none() {
            return Err(
                json.error("expected `policies` or `wildcard` in a PrefixSelectorRoute, found neither")
            );
        }
        let mut children: Vec<(Box<[u8]>, NodeId)> = Vec::new();
        if let Some(policies) = policies {
            for (prefix, route) in policies.object("`policies`")?.entries() {
                children.push((prefix.as_bytes().into(), self.single(route)?));
            }
        }
        children.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let default = wildcard.map(|route| self.single(route)).transpose()?;
        self.add(Node::ByPrefix { children, default }, json)
    }
}

/// `/region/cluster/`.
fn prefix(text: &str, json: &Json) -> Result<String, ConfigError> {
    let slashes = text.bytes().filter(|byte| *byte == b'/').count();
    if slashes != 3 || !text.starts_with('/') || !text.ends_with('/') {
        return Err(json.error(format!("expected a routing prefix /region/cluster/, found {text:?}")));
    }
    Ok(text.to_owned())
}
