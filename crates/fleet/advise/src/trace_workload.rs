//! The workload of a trace: rates of its busiest minute, sizes, working set, and how many hits a smaller cache would have.
//!
//! The miss curve is of a sample of keys: those whose hash is lowest, at most `KEYS_MAX` of them (SHARDS of Waldspurger et al., FAST 2015,
//! with a fixed number of keys). Each sampled key stands for as many keys as the sample leaves out. Times to live are not looked at.

mod distances;

use std::collections::VecDeque;

use fleet::advise::{CacheWorkload, InputFigure};

use self::distances::StackDistances;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedClass {
    /// Reads.
    Get,
    /// Writes.
    Set,
    /// Deletes the item.
    Delete,
    /// Counts as a delete, and leaves the item.
    Touch,
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// Since the first one; never less than that of the one before.
    pub at_ns: u64,
    /// Its class.
    pub class: TracedClass,
    /// A hash of its key: any number is as likely as any other.
    pub key_hash: u64,
    /// Bytes of the key.
    pub key_bytes: u32,
    /// Bytes of the value; 0 of a get that does not know it.
    pub value_bytes: u32,
}

/// Why a trace is no workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// No request, or no time between them.
    #[error("the trace has {0} requests in {1} s: expected some, over a second or more")]
    Short(u64, u64),
    /// No item has a size.
    #[error("the trace stores nothing, and its gets have no sizes, so the size of items is not known")]
    Sizes,
}

/// Seconds of which the busiest minute is made.
const MINUTE_S: usize = 60;

/// Requests of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    sets: u64,
    deletes: u64,
}

impl Counts {
    fn all(&self) -> u64 {
        self.gets + self.sets + self.deletes
    }
}

/// A sum that grows by each request.
#[derive(Debug, Default)]
pub struct TraceSums {
    requests: u64,
    second: u64,
    last_minute: VecDeque<Counts>,
    busiest: Vec<Counts>,
    distances: StackDistances,
}

impl TraceSums {
    /// Adds the next request.
    pub fn add(&mut self, request: &TracedRequest) {
        let second = request.at_ns / 1_000_000_000;
        if self.requests == 0 {
            self.last_minute.push_back(Counts::default());
        }
        // Seconds without requests count, and a minute of them is as good as many.
        for _ in 0..(second - self.second).min(MINUTE_S as u64) {
            self.second_ended();
        }
        self.second = second;
        self.requests += 1;
        let Some(now) = self.last_minute.back_mut() else { return };
        match request.class {
            TracedClass::Get => now.gets += 1,
            TracedClass::Set => now.sets += 1,
            TracedClass::Delete | TracedClass::Touch => now.deletes += 1,
        }
        match request.class {
            TracedClass::Get => self.distances.read(request),
            TracedClass::Set => self.distances.write(request),
            TracedClass::Delete => self.distances.remove(request.key_hash),
            TracedClass::Touch => {}
        }
    }

    fn second_ended(&mut self) {
        let sum = |of: &mut dyn Iterator<Item = &Counts>| of.map(Counts::all).sum::<u64>();
        if sum(&mut self.last_minute.iter()) > sum(&mut self.busiest.iter()) {
            self.busiest = self.last_minute.iter().copied().collect();
        }
        if self.last_minute.len() == MINUTE_S {
            self.last_minute.pop_front();
        }
        self.last_minute.push_back(Counts::default());
    }

    /// The workload, for a cluster that gets all of these requests.
    ///
    /// # Errors
    /// If there are too few requests, or no sizes.
    pub fn workload(self, around: &AroundTrace) -> Result<CacheWorkload, TraceError> {
        if self.second == 0 {
            return Err(TraceError::Short(self.requests, self.second));
        }
        // The last second has not ended: it is no rate.
        let source = format!("{} requests in {} s of {}", self.requests, self.second + 1, around.name);
        let seconds = self.busiest.len() as f64;
        let rate = |of: fn(&Counts) -> u64| {
            let value = self.busiest.iter().map(of).sum::<u64>() as f64 / seconds * around.peak;
            InputFigure::measured(
                value,
                value * (1.0 - RATE_RANGE),
                value * (1.0 + RATE_RANGE),
                source.clone(),
            )
        };
        let mean = self.busiest.iter().map(Counts::all).sum::<u64>() as f64 / seconds;
        let most = self.busiest.iter().map(Counts::all).max().unwrap_or(0) as f64;
        let sample = self.distances.sample().ok_or(TraceError::Sizes)?;
        let measured = |value: f64, off: f64| {
            InputFigure::measured(value, value * (1.0 - off), value * (1.0 + off), source.clone())
        };
        let share = |value: f64| {
            InputFigure::measured(
                value,
                (value - SAMPLE_RANGE).max(0.0),
                (value + SAMPLE_RANGE).min(1.0),
                source.clone(),
            )
        };
        let curve = sample.curve();
        Ok(CacheWorkload {
            name: around.name.clone(),
            get: rate(|counts| counts.gets),
            set: rate(|counts| counts.sets),
            delete: rate(|counts| counts.deletes),
            multiget: InputFigure::chosen(0.0),
            multiget_keys: InputFigure::chosen(1.0),
            pipeline: InputFigure::assumed(1.0, 1.0, 4.0, "no trace has it; each request alone costs most"),
            hit_ratio: share(sample.hit_ratio),
            key_bytes: measured(sample.key_bytes, SAMPLE_RANGE),
            value_bytes: measured(sample.value_bytes, SAMPLE_RANGE),
            value_p99_bytes: Some(sample.value_p99_bytes.max(sample.value_bytes)),
            items: measured(sample.items, SAMPLE_RANGE),
            hot_items: Some(measured(HOT_ITEMS, 0.0)),
            hot_hits: Some(share(sample.hits_within(HOT_ITEMS))),
            miss_curve: if around.backend_usd_per_million.is_some() { curve } else { Vec::new() },
            p99_ms: InputFigure::chosen(around.p99_ms),
            tls_share: InputFigure::chosen(0.0),
            udp_share: InputFigure::chosen(0.0),
            connections: InputFigure::chosen(0.0),
            zones: around.zones,
            spare_share: InputFigure::chosen(match around.survives_zone {
                true => 1.0 / f64::from(around.zones),
                false => 0.0,
            }),
            headroom: InputFigure::chosen(around.headroom),
            spike: measured((most / mean).max(1.0), 0.0),
            backend_usd_per_million: around.backend_usd_per_million.map(InputFigure::stated),
            is_real_time: false,
            unspread_queues: None,
        })
    }
}

/// What a trace cannot know.
#[derive(Clone, Debug, PartialEq)]
pub struct AroundTrace {
    /// Which trace.
    pub name: String,
    /// The busiest minute of all as a multiple of the trace's.
    pub peak: f64,
    /// The latency that is wanted.
    pub p99_ms: f64,
    /// Zones.
    pub zones: u32,
    /// Whether the other zones carry everything when one is lost.
    pub survives_zone: bool,
    /// The share of each limit that may be used.
    pub headroom: f64,
    /// What a million misses cost, if the cheapest hit ratio is to be chosen.
    pub backend_usd_per_million: Option<f64>,
}

/// Rates of one minute are those of another within this share.
const RATE_RANGE: f64 = 0.1;
/// SHARDS with some thousand keys is off by 0.01 to 0.03 of the hit ratio (FAST 2015, table 2).
const SAMPLE_RANGE: f64 = 0.03;
/// The share of the items for which hits beside flash are counted: as where nothing is known.
const HOT_ITEMS: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> AroundTrace {
        AroundTrace {
            name: "test".to_owned(),
            peak: 1.0,
            p99_ms: 1.0,
            zones: 1,
            survives_zone: false,
            headroom: 0.75,
            backend_usd_per_million: None,
        }
    }

    fn request(at_ms: u64, class: TracedClass, key: u64, value_bytes: u32) -> TracedRequest {
        let key_hash = stdx::prng::mix(key);
        TracedRequest { at_ns: at_ms * 1_000_000, class, key_hash, key_bytes: 20, value_bytes }
    }

    /// Ten requests a second for two minutes, of which one minute has a hundred; a cycle over ten keys.
    #[test]
    fn the_busiest_minute_is_the_rate() {
        let mut sums = TraceSums::default();
        let mut number = 0;
        for second in 0..180_u64 {
            let rate = if (60..120).contains(&second) { 100 } else { 10 };
            for place in 0..rate {
                let at_ms = second * 1_000 + place * 1_000 / rate;
                let (class, bytes) =
                    if number % 10 == 9 { (TracedClass::Set, 300) } else { (TracedClass::Get, 0) };
                sums.add(&request(at_ms, class, number % 10, bytes));
                number += 1;
            }
        }
        let workload = sums.workload(&around()).expect("a workload");
        assert_eq!((workload.get.value, workload.set.value), (90.0, 10.0));
        assert_eq!((workload.items.value, workload.key_bytes.value), (10.0, 20.0));
        assert_eq!(workload.spike.value, 1.0);
        assert!(workload.hit_ratio.value > 0.99);
        workload.check().expect("within all limits");
    }

    #[test]
    fn what_has_no_time_or_size_is_refused() {
        let mut sums = TraceSums::default();
        sums.add(&request(0, TracedClass::Get, 1, 10));
        assert_eq!(sums.workload(&around()), Err(TraceError::Short(1, 0)));
        let mut sums = TraceSums::default();
        (0..3).for_each(|second| sums.add(&request(second * 1_000, TracedClass::Get, 1, 0)));
        assert_eq!(sums.workload(&around()), Err(TraceError::Sizes));
    }
}
