//! Shadows of a PoolRoute or a ShadowRoute. A shadow that is wrong is left out with a line, as in mcrouter: a mistake in a
//! test of other servers must not keep the route itself from working.

use std::sync::Arc;

use super::{Compiler, Definition, vocabulary};
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::plan::NodeId;
use crate::routes::copies::shadow::{Shadow, ShadowKeys, ShadowRule};
use crate::shared::variables::{KeyRange, RuntimeVariable};
use crate::stats::shadow_counts::ShadowCounts;

/// Shadows of a configuration that are compared: 8 KB each.
const COMPARED_MAX: usize = 1000;

/// Of the requests that a shadow gets, how many are compared, unless the configuration says so.
const COMPARE_FRACTION: f64 = 0.1;

/// A shadow, and the children that have it.
struct Target {
    rule: Arc<ShadowRule>,
    target: NodeId,
    /// First child, and the one behind the last.
    indices: (usize, usize),
}

/// A wrong field, where and why.
type Wrong = ConfigError;

impl Compiler<'_, '_> {
    pub(super) fn shadow_route(&mut self, definition: Definition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a ShadowRoute")?;
        let children = self.list(object.require("children")?)?;
        self.shadowed(children, &object)
    }

    /// The children of a route with the shadows that it names.
    pub(super) fn shadowed(
        &mut self,
        children: Vec<NodeId>,
        route: &Object<'_>,
    ) -> Result<Vec<NodeId>, ConfigError> {
        let Some(json) = route.get("shadows") else { return Ok(children) };
        if let Some(policy) = route.get("shadow_policy")
            && policy.string("`shadow_policy`")? != "default"
        {
            return Err(policy.wrong("default as `shadow_policy`"));
        }
        let JsonValue::Array(items) = &json.value else {
            self.note_shadow(&json.wrong("an array (`shadows`)"));
            return Ok(children);
        };
        let shadows: Vec<Target> = items.iter().filter_map(|item| self.shadow(item)).collect();
        let shadowed = |(index, child): (usize, NodeId)| {
            let is_meant = |shadow: &&Target| {
                matches!(shadow.rule.keys, ShadowKeys::List(_))
                    || (shadow.indices.0..shadow.indices.1).contains(&index)
            };
            let chosen: Vec<&Target> = shadows.iter().filter(is_meant).collect();
            if chosen.is_empty() {
                return Ok(child);
            }
            let rules = chosen.iter().map(|shadow| Arc::clone(&shadow.rule)).collect();
            let children = [child].into_iter().chain(chosen.iter().map(|shadow| shadow.target)).collect();
            self.with_children(Shadow { rules }, children, json)
        };
        children.into_iter().enumerate().map(shadowed).collect()
    }

    fn shadow(&mut self, json: &Json) -> Option<Target> {
        // What a target that is wrong leaves behind must not disturb other routes.
        let (pending, depth) = (self.pending.clone(), self.depth);
        let shadow = self.try_shadow(json);
        if let Err(error) = &shadow {
            (self.pending, self.depth) = (pending, depth);
            self.note_shadow(error);
        }
        shadow.ok()
    }

    fn try_shadow(&mut self, json: &Json) -> Result<Target, Wrong> {
        let object = json.object("a shadow")?;
        self.note_unknown(&object, vocabulary::SHADOW);
        let target = object.require("target")?;
        let indices = indices(&object)?;
        let keys = self.keys(&object)?;
        let requests_fraction = object.number("requests_fraction", f64::MIN..=f64::INFINITY)?.unwrap_or(1.0);
        let fraction = object.number("compare_fraction", 0.0..=1.0)?.unwrap_or(COMPARE_FRACTION);
        let target = self.single(target)?;
        let comparison =
            (self.options.compares_shadows && fraction > 0.0).then(|| self.comparison(fraction, json));
        let rule = Arc::new(ShadowRule { keys, requests_fraction, comparison: comparison.flatten() });
        Ok(Target { rule, target, indices })
    }

    fn comparison(&mut self, fraction: f64, json: &Json) -> Option<(f64, Arc<ShadowCounts>)> {
        if self.plan.compared.len() >= COMPARED_MAX {
            return None;
        }
        let counts = Arc::new(ShadowCounts::new(format!("shadow in line {}", json.place.line)));
        self.plan.compared.push(Arc::clone(&counts));
        Some((fraction, counts))
    }

    fn keys(&mut self, object: &Object<'_>) -> Result<ShadowKeys, Wrong> {
        const RANGES: [&str; 3] = ["index_range", "key_fraction_range", "key_fraction_range_rv"];
        if let Some(json) = object.get("keys_to_shadow") {
            let keys = json.array("`keys_to_shadow`")?.iter();
            let keys = keys.map(|key| key.string("a key to shadow").map(|key| key.as_bytes().into()));
            let mut keys: Box<[Box<[u8]>]> = keys.collect::<Result<_, _>>()?;
            if !keys.is_empty() {
                if let Some(name) = RANGES.iter().find(|name| object.get(name).is_some()) {
                    return Err(
                        json.error(format!("expected either `keys_to_shadow` or `{name}`, found both"))
                    );
                }
                keys.sort_unstable();
                return Ok(ShadowKeys::List(keys));
            }
        }
        let (mut start, mut end) = (0.0, 0.0);
        let range = object.get("key_fraction_range");
        if let Some(json) = range {
            let [first, last] = json.array("`key_fraction_range`")? else {
                return Err(json.wrong("an array of two numbers (`key_fraction_range`)"));
            };
            start = first.number("a fraction of keys", 0.0..=1.0)?;
            end = last.number("a fraction of keys", 0.0..=1.0)?;
        }
        let place = object.get("key_fraction_range_rv").or(range);
        let wrong = |error: String| match place {
            Some(json) => json.error(error),
            None => ConfigError::new(object.place(), error),
        };
        let name = object.string("key_fraction_range_rv")?.map(str::to_owned);
        let range = Arc::new(KeyRange::new(start, end, name.clone()).map_err(wrong)?);
        if name.is_some() {
            self.add_variable(RuntimeVariable::KeyRange(Arc::clone(&range))).map_err(wrong)?;
        }
        Ok(ShadowKeys::Range(range))
    }

    fn note_shadow(&mut self, error: &Wrong) {
        self.note(format!("a shadow is left out: line {}: {}", error.place().line, error.message()));
    }
}

/// `index_range`: the children that have a shadow.
fn indices(object: &Object<'_>) -> Result<(usize, usize), Wrong> {
    let Some(json) = object.get("index_range") else { return Ok((0, 0)) };
    let [start, end] = json.array("`index_range`")? else {
        return Err(json.wrong("an array of two numbers (`index_range`)"));
    };
    let index = |json: &Json| json.integer("an index of a server", 0..=i64::MAX).map(|index| index as usize);
    let (start, end) = (index(start)?, index(end)?);
    if start > end {
        return Err(json.error(format!("expected the smaller index first, found [{start}, {end}]")));
    }
    Ok((start, end))
}
