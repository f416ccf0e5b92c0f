//! Shadows of a route: which requests are sent to another route, too, and which of these are compared.
//!
//! The client gets the normal reply at once. Source: mcrouter/routes/ShadowSettings.h.

use std::sync::Arc;

use crate::flight::leg::Marks;
use crate::flight::reply::FlightReply;
use crate::hash::spooky32;
use crate::message::key::RoutedKey;
use crate::plan::NodeId;
use crate::plan::choices::Choices;
use crate::routes::copies::comparing::Comparing;
use crate::routes::route::{Crossing, Decision, FirstStep, Numbers, Opening, Paths, Route, Scene};
use crate::shared::variables::KeyRange;
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
