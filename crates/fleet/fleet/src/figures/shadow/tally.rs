//! Tallies of shadows: what a router has counted of each since its configuration was loaded, as an agent says it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::times::TIME_BUCKETS;

/// Shadows in one tally: as many as a policy has.
pub const SHADOWS_PER_TALLY_MAX: usize = crate::policy::SHADOWS_MAX;
/// Longest name in bytes: two clusters and an arrow.
const NAME_LEN_MAX: usize = 128;
/// Bytes of the shadows of one router in a turn, as JSON: those of a usual network take 400 each, and at least one goes in each turn.
const SHADOWS_LEN_MAX: usize = 1600;

/// A shadow, by one router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShadowTally {
    /// Configurations that the router has loaded: its counts are since the last one.
    #[serde(rename = "l")]
    pub loads: u64,
    /// Requests whose replies were compared.
    #[serde(rename = "c")]
    pub compared: u64,
    /// Those with another outcome.
    #[serde(rename = "o")]
    pub other_outcomes: u64,
    /// Those with another value of the same size.
    #[serde(rename = "v")]
    pub other_values: u64,
    /// Those with a value of another size.
    #[serde(rename = "s")]
    pub other_sizes: u64,
    /// Those that found or changed what they were for, at the cluster and at its shadow.
    #[serde(rename = "h")]
    pub hits: [u64; 2],
    /// By bucket of time: replies of the cluster, and of its shadow.
    #[serde(rename = "t")]
    pub times: Vec<(u8, u64, u64)>,
}

impl ShadowTally {
    /// Those that differed, whatever in.
    pub fn differed(&self) -> u64 {
        self.other_outcomes.saturating_add(self.other_values).saturating_add(self.other_sizes)
    }

    /// What has been counted since an earlier tally of the same process. None if the counts contradict each other.
    pub(super) fn since(&self, before: &ShadowTally) -> Option<ShadowTally> {
        if self.loads != before.loads {
            return self.is_consistent().then(|| self.clone());
        }
        let grown = |of: fn(&ShadowTally) -> u64| of(self).checked_sub(of(before));
        let old_times = |bucket: u8| {
            let found = before.times.iter().find(|(other, ..)| *other == bucket);
            found.map_or((0, 0), |(_, normal, shadow)| (*normal, *shadow))
        };
        let times = self.times.iter().map(|(bucket, normal, shadow)| {
            let old = old_times(*bucket);
            Some((*bucket, normal.checked_sub(old.0)?, shadow.checked_sub(old.1)?))
        });
        let growth = ShadowTally {
            loads: self.loads,
            compared: grown(|tally| tally.compared)?,
            other_outcomes: grown(|tally| tally.other_outcomes)?,
            other_values: grown(|tally| tally.other_values)?,
            other_sizes: grown(|tally| tally.other_sizes)?,
            hits: [grown(|tally| tally.hits[0])?, grown(|tally| tally.hits[1])?],
            times: times.collect::<Option<_>>()?,
        };
        Some(growth)
    }

    fn is_consistent(&self) -> bool {
        self.differed() <= self.compared && self.hits.iter().all(|hits| *hits <= self.compared)
    }

    /// Whether an agent of ours says it.
    fn is_sound(&self) -> bool {
        self.is_consistent()
            && self.times.len() <= TIME_BUCKETS
            && self.times.is_sorted_by(|(one, ..), (next, ..)| one < next)
    }
}

/// Leaves out what no agent of ours says.
pub fn limit_shadows(shadows: &mut BTreeMap<String, ShadowTally>) {
    shadows.retain(|name, tally| is_shadow(name) && tally.is_sound());
    while shadows.len() > SHADOWS_PER_TALLY_MAX {
        shadows.pop_last();
    }
}

/// Whether it is the name of a policy's shadow.
fn is_shadow(name: &str) -> bool {
    let is_cluster = |name: &str| name.parse::<crate::ClusterName>().is_ok();
    let pair = name.split_once("->").filter(|_| name.len() <= NAME_LEN_MAX);
    pair.is_some_and(|(from, to)| is_cluster(from) && is_cluster(to))
}

/// As many as fit into a turn of this number, so that each goes in its time.
pub(crate) fn fit_shadows(
    shadows: BTreeMap<String, ShadowTally>,
    turn: u64,
) -> BTreeMap<String, ShadowTally> {
    let count = shadows.len().max(1);
    let first = (turn % count as u64) as usize;
    let mut shadows: Vec<(String, ShadowTally)> =
        shadows.into_iter().filter(|(name, _)| is_shadow(name)).take(SHADOWS_PER_TALLY_MAX).collect();
    let middle = first.min(shadows.len());
    shadows.rotate_left(middle);
    let mut left = SHADOWS_LEN_MAX;
    let mut sent = BTreeMap::new();
    for (name, tally) in shadows {
        let len = serde_json::to_string(&(&name, &tally)).map_or(SHADOWS_LEN_MAX, |json| json.len());
        if len > left && !sent.is_empty() {
            break;
        }
        left = left.saturating_sub(len);
        sent.insert(name, tally);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(loads: u64, compared: u64) -> ShadowTally {
        ShadowTally {
            loads,
            compared,
            other_values: compared / 10,
            hits: [compared, compared],
            times: vec![(7, compared, 0), (9, 0, compared)],
            ..ShadowTally::default()
        }
    }

    #[test]
    fn what_has_grown_is_counted_and_another_configuration_begins_anew() {
        assert_eq!(tally(1, 30).since(&tally(1, 10)), Some(tally(1, 20)));
        assert_eq!(tally(1, 10).since(&tally(1, 10)).map(|growth| growth.compared), Some(0));
        assert_eq!(tally(2, 30).since(&tally(1, 10)), Some(tally(2, 30)), "all since it was loaded");
        assert_eq!(tally(1, 10).since(&tally(1, 30)), None, "a count that goes back is unknown");
    }

    #[test]
    fn what_no_agent_says_is_left_out() {
        let unsorted = ShadowTally { times: vec![(9, 1, 1), (7, 1, 1)], ..tally(1, 1) };
        let more = ShadowTally { other_values: 2, ..tally(1, 1) };
        let mut shadows: BTreeMap<String, ShadowTally> = [
            ("web->new", tally(1, 10)),
            ("shadow in line 8", tally(1, 10)),
            ("web->\u{1b}[2J", tally(1, 10)),
            ("a->b", unsorted),
            ("b->c", more),
        ]
        .map(|(name, tally)| (name.to_owned(), tally))
        .into();
        limit_shadows(&mut shadows);
        assert_eq!(shadows.into_keys().collect::<Vec<_>>(), ["web->new"]);
        let mut many: BTreeMap<_, _> = (0..100).map(|at| (format!("a->b{at}"), tally(1, 1))).collect();
        limit_shadows(&mut many);
        assert_eq!(many.len(), SHADOWS_PER_TALLY_MAX);
    }

    #[test]
    fn a_turn_has_as_many_as_fit_and_each_goes_in_its_time() {
        let long = ShadowTally {
            times: (0..TIME_BUCKETS as u8).map(|bucket| (bucket, 1_000_000_000, 1_000_000_000)).collect(),
            ..tally(1000, 1_000_000_000)
        };
        let all: BTreeMap<_, _> =
            (0..SHADOWS_PER_TALLY_MAX).map(|at| (format!("a->b{at}"), long.clone())).collect();
        let mut seen = std::collections::BTreeSet::new();
        for turn in 0..SHADOWS_PER_TALLY_MAX as u64 {
            let sent = fit_shadows(all.clone(), turn);
            // One alone may be longer: all of its buckets have something, and in a year's numbers.
            assert!(serde_json::to_string(&sent).expect("JSON").len() <= SHADOWS_LEN_MAX + 900);
            seen.extend(sent.into_keys());
        }
        assert_eq!(seen.len(), SHADOWS_PER_TALLY_MAX);
        let usual =
            ShadowTally { times: (10..24).map(|at| (at, 100_000, 100_000)).collect(), ..tally(9, 1_000_000) };
        let few: BTreeMap<_, _> = (0..3).map(|at| (format!("web->b{at}"), usual.clone())).collect();
        assert_eq!(fit_shadows(few.clone(), 5), few, "a few go with each turn");
        assert!(fit_shadows(BTreeMap::new(), 3).is_empty());
    }
}
