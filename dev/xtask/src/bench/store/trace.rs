//! Traces from published parameters: Facebook's ETC pool, and clusters of Twitter's (cache-trace, 2020).
//!
//! Each pattern has the published laws of sizes, the skew, the mix of requests and the spread of lifetimes.
//! Where only a mean is published, lengths are log-normal around it; popularity does not drift. Lifetimes of
//! hours and days become seconds, so that items expire within the run; what outlives it, never does. A cache that
//! has served for days has seen every key, so all are stored before the trace starts, in the order in which each was
//! last asked for; those that are mortal have expired by then, as most of them would have. A miss is an item that was evicted, that has expired or that was
//! deleted, never a first sight. The latter two would be misses in endless memory, too, and short lifetimes make
//! them many more than they really are.

use std::ops::Range;

use stdx::prng::Prng;

use super::content::{KEY_LEN_MAX, KEY_LEN_MIN};
use super::laws::{Length, ZipfLaw};

/// The properties of a trace.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    key: Length,
    value: Length,
    alpha: f64,
    /// Different keys: their items are several times the memory.
    keys: u64,
    /// Shares of keys and the seconds of their lifetime; the rest does not expire.
    lifetimes: &'static [(f64, u16)],
    /// Shares of sets, deletes and increments; the rest are gets.
    mix: [f64; 3],
    /// Requests per second.
    rate: u32,
}

/// Length of a trace.
const SECONDS: u32 = 13;
/// Requests from this second on are counted: until then what was stored at first gives way.
const COUNTED_FROM: u32 = 5;
/// Requests that are sent together: what they miss is stored with the next ones.
const TOGETHER: usize = 64;
/// Fewer where values are large: the replies must fit into what kernels buffer.
const TOGETHER_LARGE: usize = 8;
/// Mean length of an item that is large in this sense.
const LARGE: u64 = 4096;
/// A prime that divides no pattern's number of keys, so that its multiples reach every item.
const STRIDE: u64 = 1_000_003;
/// Longer values are refused: 1 MiB less what servers put around it.
const LEN_MAX: f64 = 900_000.0;

#[rustfmt::skip]
pub(crate) const PATTERNS: [Pattern; 10] = [
    Pattern { name: "etc", key: Length::EtcKey, value: Length::EtcValue, alpha: 0.99, keys: 1_500_000,
        lifetimes: &[], mix: [0.032, 0.0, 0.0], rate: 200_000 },
    Pattern { name: "cluster52", key: Length::Fixed(20), value: Length::Around(273.0), alpha: 1.21, keys: 1_500_000,
        lifetimes: &[(0.65, 6), (0.07, 3)], mix: [0.07, 0.0, 0.0], rate: 200_000 },
    Pattern { name: "cluster25", key: Length::Fixed(49), value: Length::Around(28.0), alpha: 0.99, keys: 3_000_000,
        lifetimes: &[], mix: [0.05, 0.0, 0.0], rate: 200_000 },
    Pattern { name: "cluster44", key: Length::Fixed(25), value: Length::Around(22.0), alpha: 1.41, keys: 4_000_000,
        lifetimes: &[], mix: [0.02, 0.0, 0.0], rate: 200_000 },
    Pattern { name: "cluster27", key: Length::Fixed(66), value: Length::Around(8.0), alpha: 1.07, keys: 4_000_000,
        lifetimes: &[(0.25, 6), (0.20, 1), (0.18, 2), (0.06, 2)], mix: [0.15, 0.0, 0.0], rate: 200_000 },
    Pattern { name: "cluster29", key: Length::Fixed(36), value: Length::Around(799.0), alpha: 1.23, keys: 500_000,
        lifetimes: &[(0.67, 6)], mix: [0.13, 0.0, 0.0], rate: 150_000 },
    Pattern { name: "cluster22", key: Length::Fixed(54), value: Length::Fixed(4), alpha: 0.76, keys: 3_000_000,
        lifetimes: &[(0.85, 6), (0.11, 1)], mix: [0.10, 0.0, 0.18], rate: 200_000 },
    Pattern { name: "cluster14", key: Length::Fixed(96), value: Length::Around(414.0), alpha: 1.30, keys: 1_000_000,
        lifetimes: &[], mix: [0.13, 0.22, 0.0], rate: 200_000 },
    Pattern { name: "cluster37", key: Length::Fixed(72), value: Length::Around(20_134.0), alpha: 0.43, keys: 15_000,
        lifetimes: &[(0.91, 3)], mix: [0.37, 0.0, 0.0], rate: 8_000 },
    Pattern { name: "cluster50", key: Length::Fixed(18), value: Length::Around(67_485.0), alpha: 1.28, keys: 6_000,
        lifetimes: &[(0.73, 5)], mix: [0.48, 0.0, 0.0], rate: 2_500 },
];

/// A trace, ready to be replayed.
#[derive(Debug)]
pub(crate) struct BenchTrace {
    pub(crate) items: Vec<TraceItem>,
    pub(crate) requests: Vec<TraceRequest>,
    pub(crate) rate: u32,
    together: usize,
    /// The item of rank r, counted from 1, is asked for in proportion to r^-alpha.
    alpha: f64,
    /// Values are numbers, because some requests count.
    pub(crate) counts: bool,
}

/// The value of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceItem {
    pub(crate) value_len: u32,
    pub(crate) lifetime: u16,
    pub(crate) key_len: u8,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceRequest {
    pub(crate) item: u32,
    pub(crate) verb: TraceVerb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceVerb {
    Get,
    Set,
    Delete,
    Count,
}

impl BenchTrace {
    /// The same seed gives the same trace, for ever.
    pub(crate) fn new(pattern: &Pattern, seed: u64) -> BenchTrace {
        let mut prng = Prng::new(seed);
        let items: Vec<TraceItem> = (0..pattern.keys).map(|_| pattern.item(&mut prng)).collect();
        let zipf = ZipfLaw::new(pattern.keys, pattern.alpha);
        let mut request = |_| {
            let verb = choose(
                prng.unit(),
                pattern.mix.into_iter().zip([TraceVerb::Set, TraceVerb::Delete, TraceVerb::Count]),
            );
            let rank = zipf.draw(&mut prng);
            // Not the most wanted items are deleted most: by the published misses, most that are deleted are
            // not asked for soon.
            let item = if verb == Some(TraceVerb::Delete) { rank * STRIDE % pattern.keys } else { rank };
            TraceRequest { item: item as u32, verb: verb.unwrap_or(TraceVerb::Get) }
        };
        let requests = (0..SECONDS * pattern.rate).map(&mut request).collect();
        let mut trace = BenchTrace {
            items,
            requests,
            rate: pattern.rate,
            together: TOGETHER,
            alpha: pattern.alpha,
            counts: pattern.mix[2] > 0.0,
        };
        if trace.bytes() / pattern.keys > LARGE {
            trace.together = TOGETHER_LARGE;
        }
        trace
    }

    /// Number of the first request that counts.
    pub(crate) fn counted_from(&self) -> usize {
        (COUNTED_FROM * self.rate) as usize
    }

    /// The requests in groups that are sent together.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (together, len) = (self.together, self.requests.len());
        (0..len).step_by(together).map(move |first| first..(first + together).min(len))
    }

    /// A group's requests, in order; a second request for the same item would add nothing.
    pub(crate) fn asked(&self, group: Range<usize>, asked: &mut Vec<u32>) {
        asked.clear();
        for request in &self.requests[group] {
            if request.verb == TraceVerb::Get && !asked.contains(&request.item) {
                asked.push(request.item);
            }
        }
    }

    /// All items, by how long ago each was last asked for in an endless history: the longest first. What a
    /// cache that drops the least recently used holds after this, it holds for ever.
    pub(crate) fn history(&self, seed: u64) -> Vec<u32> {
        let mut prng = Prng::new(seed);
        // The time since an event that comes at random is exponential; its mean is the time between two.
        let mut age = |rank: usize| -(1.0 - prng.unit()).ln() * ((rank + 1) as f64).powf(self.alpha);
        let mut aged: Vec<(f32, u32)> =
            (0..self.items.len()).map(|rank| (age(rank) as f32, rank as u32)).collect();
        aged.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        aged.into_iter().map(|(_, item)| item).collect()
    }

    /// The share of gets that would miss even with endless memory: expired and deleted items.
    pub(crate) fn unavoidable(&self) -> f64 {
        // Servers count whole seconds: what is stored late in one lives that much shorter.
        let gone_at = |item: u32, second: usize| match self.items[item as usize].lifetime {
            0 => usize::MAX,
            lifetime => second + usize::from(lifetime),
        };
        let immortal = |item: &TraceItem| if item.lifetime == 0 { usize::MAX } else { 0 };
        let mut gone: Vec<usize> = self.items.iter().map(immortal).collect();
        let (mut gets, mut misses, mut asked) = (0, 0, Vec::new());
        for group in self.groups() {
            let second = group.start / self.rate as usize;
            for request in &self.requests[group.clone()] {
                match request.verb {
                    TraceVerb::Set => gone[request.item as usize] = gone_at(request.item, second),
                    TraceVerb::Delete => gone[request.item as usize] = 0,
                    TraceVerb::Get | TraceVerb::Count => {}
                }
            }
            let counts = group.start >= self.counted_from();
            self.asked(group, &mut asked);
            asked.retain(|item| {
                gets += usize::from(counts);
                gone[*item as usize] <= second
            });
            misses += if counts { asked.len() } else { 0 };
            for &item in &asked {
                gone[item as usize] = gone_at(item, second);
            }
        }
        misses as f64 / gets.max(1) as f64
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.value_len) + u64::from(item.key_len)).sum()
    }
}

impl Pattern {
    fn item(&self, prng: &mut Prng) -> TraceItem {
        let key_len = self.key.draw(prng).round().clamp(KEY_LEN_MIN as f64, KEY_LEN_MAX as f64) as u8;
        let value_len = self.value.draw(prng).round().clamp(1.0, LEN_MAX) as u32;
        let lifetime = choose(prng.unit(), self.lifetimes.iter().copied()).unwrap_or(0);
        TraceItem { value_len, lifetime, key_len }
    }
}

/// The thing whose share of 1 `drawn` falls into.
fn choose<T>(mut drawn: f64, shares: impl IntoIterator<Item = (f64, T)>) -> Option<T> {
    shares.into_iter().find_map(|(share, thing)| {
        drawn -= share;
        (drawn < 0.0).then_some(thing)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_trace_with_the_mix_of_its_pattern() {
        let pattern = PATTERNS.iter().find(|pattern| pattern.name == "cluster37").expect("listed");
        let (trace, again) = (BenchTrace::new(pattern, 1), BenchTrace::new(pattern, 1));
        assert_eq!(format!("{:?}", trace.requests), format!("{:?}", again.requests));
        let sets = trace.requests.iter().filter(|request| request.verb == TraceVerb::Set).count();
        let share = sets as f64 / trace.requests.len() as f64;
        assert!((share - 0.37).abs() < 0.01, "{share}");
        let mortal = trace.items.iter().filter(|item| item.lifetime == 3).count();
        assert!((mortal as f64 / trace.items.len() as f64 - 0.91).abs() < 0.01, "{mortal}");
    }

    #[test]
    fn endless_memory_misses_only_what_has_expired_or_was_deleted() {
        let (get, set, delete) = (TraceVerb::Get, TraceVerb::Set, TraceVerb::Delete);
        let check = |lifetime: u16, verbs: &[TraceVerb], expected: f64| {
            let item = TraceItem { value_len: 1, lifetime, key_len: 8 };
            let before = std::iter::repeat_n(&set, COUNTED_FROM as usize).chain(verbs);
            let requests = before.map(|verb| TraceRequest { item: 0, verb: *verb }).collect();
            let trace =
                BenchTrace { items: vec![item], requests, rate: 1, together: 1, alpha: 1.0, counts: false };
            assert_eq!(trace.unavoidable(), expected, "{verbs:?}");
        };
        check(0, &[get, get], 0.0);
        check(1, &[get, get], 1.0);
        check(2, &[get, get, get, get], 0.5);
        check(0, &[delete, get, get, set], 0.5);
    }

    #[test]
    fn history_has_every_item_once_and_the_wanted_ones_late() {
        let trace =
            BenchTrace::new(PATTERNS.iter().find(|pattern| pattern.name == "cluster50").expect("listed"), 1);
        let history = trace.history(1);
        let place = |item: u32| history.iter().position(|other| *other == item).expect("every item is there");
        let mean = |items: Range<u32>| items.clone().map(place).sum::<usize>() / items.len();
        assert_eq!(history.len(), trace.items.len());
        assert!(mean(0..100) > mean(100..1000) && mean(100..1000) > mean(1000..6000));
    }
}
