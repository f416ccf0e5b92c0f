//! Shadows of a route: which requests are sent to another route, too, and which of these are compared.
//!
//! The client gets the normal reply at once. Source: mcrouter/routes/ShadowSettings.h.

use std::sync::Arc;

use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::flight::leg::Marks;
use crate::flight::reply::FlightReply;
use crate::message::key::RoutedKey;
use crate::plan::NodeId;
use crate::plan::choices::Choices;
use crate::plan::hash::spooky32;
use crate::routes::copies::comparing::Comparing;
use crate::routes::form::{AddRoute, Compile, Fields, RouteDefinition, RouteForm};
use crate::routes::route::{Crossing, Decision, FirstStep, Numbers, Opening, Paths, Route, Scene};
use crate::shared::variables::KeyRange;
use crate::shared::variables::RuntimeVariable;
use crate::stats::shadow_counts::ShadowCounts;

/// The first child; each of the others gets the requests that its rule names, and its replies are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    pub(crate) rules: Box<[Arc<ShadowRule>]>,
}

/// Requests to send to a shadow, beside the route that answers them.
#[derive(Debug)]
pub(crate) struct ShadowRule {
    /// Which keys.
    pub(crate) keys: ShadowKeys,
    /// How many of their requests, from 0 to 1.
    pub(crate) requests_fraction: f64,
    /// How many of these are compared, from 0 to 1, and what has been found.
    pub(crate) comparison: Option<(f64, Arc<ShadowCounts>)>,
}

/// Keys whose requests a shadow gets.
#[derive(Debug)]
pub(crate) enum ShadowKeys {
    /// By their hash.
    Range(Arc<KeyRange>),
    /// These, sorted.
    List(Box<[Box<[u8]>]>),
}

/// From this fraction on, all: mcrouter's tolerance.
const ALL: f64 = 1.0 - 0.00001;

impl ShadowRule {
    /// Whether the shadow gets a request. `random` is any number from 0 to below 1.
    pub(crate) fn applies(&self, key: &RoutedKey<'_>, random: impl FnOnce() -> f64) -> bool {
        let routing = key.routing();
        let has_key = match &self.keys {
            ShadowKeys::Range(range) => range.contains(spooky32(routing, 0)),
            ShadowKeys::List(keys) => keys.binary_search_by(|listed| (**listed).cmp(routing)).is_ok(),
        };
        has_key && is_drawn(self.requests_fraction, random)
    }

    /// Whether a request that the shadow gets is compared.
    pub(crate) fn compares(&self, random: impl FnOnce() -> f64) -> bool {
        self.comparison.as_ref().is_some_and(|(fraction, _)| is_drawn(*fraction, random))
    }
}

impl Route for Shadow {
    type Progress = Box<Comparing>;

    fn name(&self) -> Option<&'static str> {
        Some("shadow")
    }

    /// Notes the shadows that get a request. It begins only if one is compared: that one is not among those noted.
    fn crossing(
        &self,
        children: &[NodeId],
        key: &RoutedKey<'_>,
        choices: &mut Choices,
        _: &dyn Paths,
    ) -> Crossing {
        if choices.has_compared() {
            // They have been drawn for this request.
            return Crossing::Stop;
        }
        for (rule, child) in self.rules.iter().zip(1..) {
            if !rule.applies(key, || choices.unit()) {
                continue;
            }
            match &rule.comparison {
                Some((_, counts)) if !choices.has_compared() && rule.compares(|| choices.unit()) => {
                    choices.compare(child, Arc::clone(counts));
                }
                _ => choices.shadows.push(children[usize::from(child)]),
            }
        }
        if choices.has_compared() { Crossing::Stop } else { Crossing::On(children[0]) }
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Box<Comparing>> {
        let (shadow, counts) = opening.compared.take().expect("it was drawn on the way");
        let comparing = Comparing::new(counts, opening.choices.now);
        FirstStep::AskAll(Box::new(comparing), Numbers::Pair(0, shadow))
    }

    fn replied<'a>(
        &self,
        comparing: &mut Box<Comparing>,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        comparing.note(scene.child, scene.message.operation, &reply, scene.choices.now);
        if scene.child == 0 { Decision::Done(reply) } else { Decision::Wait }
    }

    fn replied_late(&self, comparing: &mut Box<Comparing>, scene: &mut Scene<'_>, reply: &FlightReply<'_>) {
        comparing.note(scene.child, scene.message.operation, reply, scene.choices.now);
    }

    fn marks(&self, child: u16, marks: Marks) -> Marks {
        if child == 0 { marks } else { marks.of_shadow() }
    }
}

fn is_drawn(fraction: f64, random: impl FnOnce() -> f64) -> bool {
    fraction >= ALL || random() < fraction
}

const SHADOW: Fields = (
    "a shadow",
    &[
        "compare_fraction",
        "index_range",
        "key_fraction_range",
        "key_fraction_range_rv",
        "keys_to_shadow",
        "name",
        "requests_fraction",
        "target",
    ],
);

/// Of the requests that a shadow gets, how many are compared, unless the configuration says so.
const COMPARE_FRACTION: f64 = 0.1;

/// A shadow, and the children that have it.
struct Target {
    rule: Arc<ShadowRule>,
    target: NodeId,
    /// First child, and the one behind the last.
    indices: (usize, usize),
}

impl<C: AddRoute<Shadow>> RouteForm<C> for Shadow {
    const FORM: Fields = ("ShadowRoute", &["bucketize", "children", "shadow_policy", "shadows"]);

    fn compile(compiler: &mut C, definition: RouteDefinition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let object = definition.json().object("a ShadowRoute")?;
        let children = compiler.list(object.require("children")?)?;
        shadowed(compiler, children, &object)
    }
}

/// The children of a PoolRoute or a ShadowRoute with the shadows that it names. A shadow that is wrong is left out with a
/// line, as in mcrouter: a mistake in a test of other servers must not keep the route itself from working.
pub(crate) fn shadowed(
    compiler: &mut impl AddRoute<Shadow>,
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
        note_left_out(compiler, &json.wrong("an array (`shadows`)"));
        return Ok(children);
    };
    let shadows: Vec<Target> = items.iter().filter_map(|item| shadow_or_note(compiler, item)).collect();
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
        compiler.add_route(Shadow { rules }, children, json)
    };
    children.into_iter().enumerate().map(shadowed).collect()
}

fn shadow_or_note(compiler: &mut impl Compile, json: &Json) -> Option<Target> {
    let found = compiler.attempt(|compiler| target(compiler, json));
    if let Err(error) = &found {
        note_left_out(compiler, error);
    }
    found.ok()
}

fn note_left_out(compiler: &mut impl Compile, error: &ConfigError) {
    compiler.note(format!("a shadow is left out: line {}: {}", error.place().line, error.message()));
}

fn target(compiler: &mut impl Compile, json: &Json) -> Result<Target, ConfigError> {
    let object = json.object("a shadow")?;
    compiler.note_unknown(&object, SHADOW);
    let target = object.require("target")?;
    let indices = indices(&object)?;
    let keys = keys(compiler, &object)?;
    let requests_fraction = object.number("requests_fraction", f64::MIN..=f64::INFINITY)?.unwrap_or(1.0);
    let fraction = object.number("compare_fraction", 0.0..=1.0)?.unwrap_or(COMPARE_FRACTION);
    let name = object.string("name")?;
    let target = compiler.single(target)?;
    let counts = if fraction > 0.0 { compiler.add_shadow_counts(json, name) } else { None };
    let comparison = counts.map(|counts| (fraction, counts));
    let rule = Arc::new(ShadowRule { keys, requests_fraction, comparison });
    Ok(Target { rule, target, indices })
}

fn keys(compiler: &mut impl Compile, object: &Object<'_>) -> Result<ShadowKeys, ConfigError> {
    const RANGES: [&str; 3] = ["index_range", "key_fraction_range", "key_fraction_range_rv"];
    if let Some(json) = object.get("keys_to_shadow") {
        let keys = json.array("`keys_to_shadow`")?.iter();
        let keys = keys.map(|key| key.string("a key to shadow").map(|key| key.as_bytes().into()));
        let mut keys: Box<[Box<[u8]>]> = keys.collect::<Result<_, _>>()?;
        if !keys.is_empty() {
            if let Some(name) = RANGES.iter().find(|name| object.get(name).is_some()) {
                return Err(json.error(format!("expected either `keys_to_shadow` or `{name}`, found both")));
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
        compiler.add_variable(RuntimeVariable::KeyRange(Arc::clone(&range))).map_err(wrong)?;
    }
    Ok(ShadowKeys::Range(range))
}

/// `index_range`: the children that have a shadow.
fn indices(object: &Object<'_>) -> Result<(usize, usize), ConfigError> {
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

#[cfg(test)]
mod tests {
    use stdx::prng::Prng;

    use super::*;

    fn rule(keys: ShadowKeys, requests_fraction: f64) -> ShadowRule {
        ShadowRule { keys, requests_fraction, comparison: None }
    }

    /// Of 10,000 keys with the request of each, how many a shadow gets.
    fn drawn(rule: &ShadowRule) -> usize {
        let mut prng = Prng::new(7);
        let keys = (0..10_000).map(|key| format!("key:{key}"));
        keys.filter(|key| rule.applies(&RoutedKey::new(key.as_bytes()), || prng.unit())).count()
    }

    fn range(start: f64, end: f64) -> ShadowKeys {
        ShadowKeys::Range(Arc::new(KeyRange::new(start, end, None).expect("a range")))
    }

    #[test]
    fn fractions_are_of_keys_and_of_requests() {
        assert_eq!(drawn(&rule(range(0.0, 1.0), 1.0)), 10_000);
        assert_eq!(drawn(&rule(range(0.0, 0.0), 1.0)), 0);
        let share = |rule: &ShadowRule, expected: usize| {
            let found = drawn(rule);
            assert!(found.abs_diff(expected) < 150, "{found}, expected {expected}");
        };
        share(&rule(range(0.25, 0.5), 1.0), 2500);
        share(&rule(range(0.0, 1.0), 0.1), 1000);
        share(&rule(range(0.5, 1.0), 0.5), 2500);
        assert_eq!(drawn(&rule(range(0.0, 1.0), 0.0)), 0);
        assert_eq!(drawn(&rule(range(0.0, 1.0), -1.0)), 0);
        assert_eq!(drawn(&rule(range(0.0, 1.0), 0.999_999)), 10_000);
    }

    #[test]
    fn listed_keys_are_those_that_are_hashed() {
        let rule = rule(ShadowKeys::List(Box::new([(*b"a").into(), (*b"key:7").into()])), 1.0);
        let applies = |key: &str| rule.applies(&RoutedKey::new(key.as_bytes()), || 0.0);
        assert!(applies("a") && applies("/r/c/a") && applies("a|#|b") && applies("key:7"));
        assert!(!applies("b") && !applies("key:77"));
        assert_eq!(drawn(&rule), 1);
    }
}
