//! Routes for tests and experiments: delays, and keys that disappear.

use crate::message::key::RoutedKey;

/// Times that a LatencyInjectionRoute adds, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddedLatency {
    /// Before a request is sent.
    pub before_ms: u64,
    /// After its reply.
    pub after_ms: u64,
    /// A request takes at least as long, all in all.
    pub total: TotalLatency,
}

/// The least time of a request, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum TotalLatency {
    /// Always this one.
    Fixed(u64),
    /// By percentiles, in growing order: up to the first one, the first time, and so on; beyond the last, the last time.
    Percentiles(Box<[(f64, u64)]>),
}

impl Default for TotalLatency {
    fn default() -> TotalLatency {
        TotalLatency::Fixed(0)
    }
}

impl TotalLatency {
    /// The time for one request. `percentile` is random, from 0 to 100.
    pub(crate) fn sample(&self, percentile: impl FnOnce() -> f64) -> u64 {
        let points = match self {
            TotalLatency::Fixed(ms) => return *ms,
            TotalLatency::Percentiles(points) => points,
        };
        let percentile = percentile();
        let found = points.iter().find(|(point, _)| percentile < *point).or(points.last());
        found.map_or(0, |(_, ms)| *ms)
    }
}

/// The keys for which a BlackholeRoute answers without the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPolicies(pub Option<Box<[KeyPolicy]>>);

/// A condition for keys, with their routing prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPolicy {
    /// This key.
    Equals(Box<[u8]>),
    /// Any other key.
    NotEquals(Box<[u8]>),
}

impl KeyPolicies {
    /// Whether one of them holds. Without policies for keys, all do: mcrouter's rule.
    pub(crate) fn hold(&self, key: &RoutedKey<'_>) -> bool {
        self.0.as_ref().is_none_or(|policies| {
            policies.iter().any(|policy| match policy {
                KeyPolicy::Equals(other) => key.full == &**other,
                KeyPolicy::NotEquals(other) => key.full != &**other,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_first_percentile_above() {
        let points = TotalLatency::Percentiles(Box::new([(50.0, 10), (99.0, 20), (99.9, 300)]));
        let times =
            [0.0, 49.9, 50.0, 98.9, 99.0, 99.89, 99.95].map(|percentile| points.sample(|| percentile));
        assert_eq!(times, [10, 10, 20, 20, 300, 300, 300]);
        assert_eq!(TotalLatency::Percentiles(Box::default()).sample(|| 5.0), 0);
    }

    #[test]
    fn without_policies_for_keys_all_keys_are_meant_and_with_an_empty_list_none() {
        let hold = |policies: Option<Box<[KeyPolicy]>>| {
            ["a", "b"].map(|key| KeyPolicies(policies.clone()).hold(&RoutedKey::new(key.as_bytes())))
        };
        assert_eq!(hold(None), [true, true]);
        assert_eq!(hold(Some(Box::default())), [false, false]);
        assert_eq!(hold(Some(Box::new([KeyPolicy::Equals((*b"a").into())]))), [true, false]);
        assert_eq!(hold(Some(Box::new([KeyPolicy::NotEquals((*b"a").into())]))), [false, true]);
    }
}
