//! Keys whose routing prefix is a pattern: all routes whose prefix matches get a request.

use std::collections::HashSet;
use std::convert::Infallible;

use crate::flight::reply::FlightReply;
use crate::message::key::RoutedKey;
use crate::message::routing_prefix::{PrefixPattern, RoutingPrefix};
use crate::plan::NodeId;
use crate::plan::choices::Choices;
use crate::routes::route::{Crossing, Decision, FirstStep, Numbers, Opening, Paths, Route, Scene};

/// Those whose routing prefix, which is in the same place, matches that of the key; the reply of the first.
#[derive(Clone, Debug)]
pub(crate) struct Broadcast {
    pub(crate) places: Box<[BroadcastPlace]>,
}

/// A child of a broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BroadcastPlace {
    /// Its routing prefix.
    pub(crate) prefix: RoutingPrefix,
    /// The route below it that chooses by the beginning of a key; the child itself, if none does.
    pub(crate) by_key: NodeId,
}

impl Broadcast {
    /// The routes for a key, by their numbers: each route once, however many prefixes lead there, and none that has no route
    /// for the key.
    #[cold]
    fn targets(&self, key: &RoutedKey<'_>, plan: &dyn Paths) -> Vec<u16> {
        let Some(pattern) = PrefixPattern::of(key.prefix()) else { return Vec::new() };
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for (place, number) in self.places.iter().zip(0..) {
            if !pattern.matches(&place.prefix) {
                continue;
            }
            if plan.behind_prefixes(place.by_key, key).is_some_and(|target| seen.insert(target)) {
                found.push(number);
            }
        }
        found
    }
}

impl Route for Broadcast {
    type Progress = Infallible;

    fn name(&self) -> Option<&'static str> {
        None
    }

    fn crossing(
        &self,
        children: &[NodeId],
        key: &RoutedKey<'_>,
        _: &mut Choices,
        plan: &dyn Paths,
    ) -> Crossing {
        match self.targets(key, plan)[..] {
            [] if plan.has_default_for_all() => Crossing::On(children[0]),
            [] => Crossing::Nowhere,
            [only] => Crossing::On(children[usize::from(only)]),
            _ => Crossing::Stop,
        }
    }

    fn begin(&self, opening: &mut Opening<'_>) -> FirstStep<Infallible> {
        let targets = self.targets(&opening.message.key, opening.plan);
        let (first, others) = targets.split_first().expect("a key without routes crosses");
        let after = Numbers::List(others.into());
        FirstStep::Copy { before: Numbers::NONE, answer: Some(*first), after }
    }

    fn replied<'a>(&self, progress: &mut Infallible, _: &mut Scene<'_>, _: FlightReply<'a>) -> Decision<'a> {
        match *progress {}
    }

    fn reached(&self, children: &[NodeId], key: &RoutedKey<'_>, plan: &dyn Paths) -> Vec<NodeId> {
        match self.targets(key, plan) {
            targets if targets.is_empty() && plan.has_default_for_all() => vec![children[0]],
            targets => targets.into_iter().map(|number| children[usize::from(number)]).collect(),
        }
    }

    /// A route that has several prefixes gets one request.
    fn fan_out(&self, children: &[NodeId], of: &dyn Fn(&NodeId) -> u32) -> u32 {
        children.iter().collect::<HashSet<_>>().into_iter().map(of).fold(0, u32::saturating_add)
    }
}
