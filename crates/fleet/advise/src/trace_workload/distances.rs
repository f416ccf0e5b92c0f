//! Stack distances of a sample of keys: the bytes of other items that were used since the last use of this one. A cache that evicts what
//! was used longest ago has a hit where it keeps more than that.

use std::collections::{BTreeMap, HashMap};

use super::TracedRequest;

/// Keys of the sample, at most: with more, errors do not shrink visibly (FAST 2015), and each use of one adds up to log₂ of them.
const KEYS_MAX: usize = 16 * 1024;
/// Uses are numbered from 0; when all numbers are taken, keys are numbered anew.
const NUMBERS: usize = 8 * KEYS_MAX;
/// Distances fall into classes, each larger than the one before by this factor: 3 %, as the sample is.
const CLASS_FACTOR: f64 = 1.03;
/// Points of a curve.
const POINTS: usize = 20;

/// A key of the sample.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    number: usize,
    key_bytes: u32,
    value_bytes: u32,
    is_size_known: bool,
}

impl Sampled {
    fn bytes(&self) -> f64 {
        f64::from(self.key_bytes) + f64::from(self.value_bytes)
    }
}

/// The sample, and what it has seen.
#[derive(Debug)]
pub(super) struct StackDistances {
    /// By hash, so that the highest can be left out.
    keys: BTreeMap<u64, Sampled>,
    /// Keys with this hash or a higher one are not sampled.
    below: u64,
    /// Bytes by the number of a key's last use: a binary indexed tree of sums.
    sums: Vec<f64>,
    next: usize,
    /// Gets with a distance, by class; each counts for as many as the sample left out.
    hits: HashMap<u32, f64>,
    /// Gets of keys that were not seen before, or not since they were deleted.
    first_reads: f64,
}

impl Default for StackDistances {
    fn default() -> Self {
        StackDistances {
            keys: BTreeMap::new(),
            below: u64::MAX,
            sums: vec![0.0; NUMBERS + 1],
            next: 0,
            hits: HashMap::new(),
            first_reads: 0.0,
        }
    }
}

impl StackDistances {
    /// A get.
    pub(super) fn read(&mut self, request: &TracedRequest) {
        if request.key_hash >= self.below {
            return;
        }
        let weight = 1.0 / self.share();
        match self.keys.get(&request.key_hash).copied() {
            Some(key) => {
                // With its own bytes, which the cache has to keep, too.
                let bytes = (self.sum(NUMBERS) - self.sum(key.number) + key.bytes()) * weight;
                *self.hits.entry(class(bytes)).or_default() += weight;
            }
            None => self.first_reads += weight,
        }
        self.used(request);
    }

    /// A set.
    pub(super) fn write(&mut self, request: &TracedRequest) {
        if request.key_hash < self.below {
            self.used(request);
        }
    }

    /// A delete.
    pub(super) fn remove(&mut self, key_hash: u64) {
        if let Some(key) = self.keys.remove(&key_hash) {
            self.add(key.number, -key.bytes());
        }
    }

    /// The share of keys that are sampled.
    fn share(&self) -> f64 {
        self.below as f64 / u64::MAX as f64
    }

    /// The key is the one that was used last.
    fn used(&mut self, request: &TracedRequest) {
        if self.next == NUMBERS {
            self.renumber();
        }
        let before = self.keys.remove(&request.key_hash);
        if let Some(key) = before {
            self.add(key.number, -key.bytes());
        }
        // A get that does not know the size is of the item that is there.
        let is_size_known = request.value_bytes > 0;
        let (value_bytes, is_size_known) = match before {
            Some(key) if !is_size_known => (key.value_bytes, key.is_size_known),
            _ => (request.value_bytes, is_size_known),
        };
        let number = self.next;
        self.next += 1;
        let key = Sampled { number, key_bytes: request.key_bytes, value_bytes, is_size_known };
        self.keys.insert(request.key_hash, key);
        self.add(number, key.bytes());
        if self.keys.len() > KEYS_MAX
            && let Some((hash, highest)) = self.keys.pop_last()
        {
            self.add(highest.number, -highest.bytes());
            self.below = hash;
        }
    }

    /// Keys get the numbers from 0 on, in the order of their last uses.
    fn renumber(&mut self) {
        let mut order: Vec<(usize, u64)> = self.keys.iter().map(|(hash, key)| (key.number, *hash)).collect();
        order.sort_unstable();
        self.sums.fill(0.0);
        for (number, (_, hash)) in order.iter().enumerate() {
            let Some(key) = self.keys.get_mut(hash) else { continue };
            key.number = number;
            let bytes = key.bytes();
            self.add(number, bytes);
        }
        self.next = order.len();
    }

    fn add(&mut self, number: usize, bytes: f64) {
        let mut place = number + 1;
        while place <= NUMBERS {
            self.sums[place] += bytes;
            place += place & place.wrapping_neg();
        }
    }

    /// Of all numbers up to this one.
    fn sum(&self, number: usize) -> f64 {
        let (mut place, mut sum) = ((number + 1).min(NUMBERS), 0.0);
        while place > 0 {
            sum += self.sums[place];
            place -= place & place.wrapping_neg();
        }
        sum
    }

    /// What was seen; `None` if no size is known.
    pub(super) fn sample(self) -> Option<TraceSample> {
        let share = self.share();
        let mut values: Vec<u32> =
            self.keys.values().filter(|key| key.is_size_known).map(|key| key.value_bytes).collect();
        if values.is_empty() {
            return None;
        }
        values.sort_unstable();
        let mean = |sum: f64, count: usize| sum / count as f64;
        let key_sum: f64 = self.keys.values().map(|key| f64::from(key.key_bytes)).sum();
        let value_bytes = mean(values.iter().map(|len| f64::from(*len)).sum(), values.len());
        let mut hits: Vec<(f64, f64)> = self
            .hits
            .into_iter()
            .map(|(class, count)| (CLASS_FACTOR.powf(f64::from(class)), count))
            .collect();
        hits.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all_hits: f64 = hits.iter().map(|(_, count)| count).sum();
        let gets = all_hits + self.first_reads;
        Some(TraceSample {
            items: self.keys.len() as f64 / share,
            key_bytes: mean(key_sum, self.keys.len()).max(1.0),
            value_bytes,
            value_p99_bytes: f64::from(values[(values.len() - 1) * 99 / 100]),
            hit_ratio: if gets > 0.0 { all_hits / gets } else { 0.0 },
            hits,
            gets,
        })
    }
}

fn class(bytes: f64) -> u32 {
    (bytes.max(1.0).ln() / CLASS_FACTOR.ln()).ceil() as u32
}

/// What a sample says of all keys.
#[derive(Debug)]
pub(super) struct TraceSample {
    /// Keys that are there at the end.
    pub(super) items: f64,
    pub(super) key_bytes: f64,
    pub(super) value_bytes: f64,
    pub(super) value_p99_bytes: f64,
    /// Of a cache that keeps everything.
    pub(super) hit_ratio: f64,
    /// Bytes that a cache has to keep, and how many gets are hits then that were none with less.
    hits: Vec<(f64, f64)>,
    gets: f64,
}

impl TraceSample {
    fn bytes(&self) -> f64 {
        self.items * (self.key_bytes + self.value_bytes)
    }

    /// Of all hits, the share that a cache has which keeps this share of the bytes.
    pub(super) fn hits_within(&self, share: f64) -> f64 {
        let within = share * self.bytes();
        let all: f64 = self.hits.iter().map(|(_, count)| count).sum();
        let those: f64 = self.hits.iter().filter(|(bytes, _)| *bytes <= within).map(|(_, count)| count).sum();
        if all > 0.0 { those / all } else { 0.0 }
    }

    /// Bytes, and the share of gets that are hits, rising in both.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for point in 1..=POINTS {
            let share = point as f64 / POINTS as f64;
            let ratio =
                if point == POINTS { self.hit_ratio } else { self.hits_within(share) * self.hit_ratio };
            if self.gets > 0.0 && ratio > curve.last().map_or(0.0, |last| last.1) {
                curve.push((share * self.bytes(), ratio));
            }
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::super::TracedClass;
    use super::*;
    use stdx::prng::{Prng, mix};

    fn get(key: u64, value_bytes: u32) -> TracedRequest {
        TracedRequest { at_ns: 0, class: TracedClass::Get, key_hash: mix(key), key_bytes: 10, value_bytes }
    }

    /// A cycle over ten keys of 100 bytes: a cache of all of them has hits, one of nine none.
    #[test]
    fn a_cycle_is_all_or_nothing() {
        let mut distances = StackDistances::default();
        (0..100).for_each(|number| distances.read(&get(number % 10, 90)));
        let sample = distances.sample().expect("sizes");
        assert_eq!((sample.items, sample.hit_ratio), (10.0, 0.9));
        assert_eq!(sample.hits_within(0.9), 0.0);
        assert_eq!(sample.hits_within(1.03), 1.0);
        assert_eq!(sample.curve(), [(1_000.0, 0.9)]);
    }

    #[test]
    fn what_was_deleted_is_read_for_the_first_time_again() {
        let mut distances = StackDistances::default();
        distances.write(&get(1, 90));
        distances.read(&get(1, 0));
        distances.remove(mix(1));
        distances.read(&get(1, 90));
        assert_eq!(distances.sample().expect("sizes").hit_ratio, 0.5);
    }

    /// Half a million keys with random gets, of which a thirtieth is sampled: a cache of half of them has half of the hits.
    #[test]
    fn a_sample_has_the_curve_of_all_keys() {
        const KEYS: u64 = 500_000;
        let mut random = Prng::new(1);
        let mut distances = StackDistances::default();
        (0..KEYS).for_each(|key| distances.write(&get(key, 90)));
        (0..2_000_000).for_each(|_| distances.read(&get(random.below(KEYS), 0)));
        assert!(distances.keys.len() <= KEYS_MAX);
        let sample = distances.sample().expect("sizes");
        assert!((sample.items / KEYS as f64 - 1.0).abs() < 0.03, "{} items", sample.items);
        assert_eq!((sample.hit_ratio, sample.value_bytes, sample.value_p99_bytes), (1.0, 90.0, 90.0));
        for share in [0.25, 0.5, 0.75] {
            let found = sample.hits_within(share);
            assert!((found - share).abs() < 0.03, "{share}: {found}");
        }
        let curve = sample.curve();
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{curve:?}");
    }
}
