//! Hot keys: those with most of the requests, of the bytes, and of the misses, in the last five to ten seconds.
//!
//! Always counted, because nobody has turned it on when it happens. Each worker takes one access in several as a sample,
//! whatever its command, after gaps that are drawn at random. A sample goes into rankings of bounded size ([`ranking`]),
//! in a window of five seconds. Keys that samples show to be hot are counted one by one from then on ([`tracked`]). So an
//! access costs a comparison and a subtraction. Other threads read the windows; while one does, samples are left out, so
//! that no worker waits.

use std::sync::{Arc, Mutex};

use stdx::clock::Now;
use stdx::prng::Prng;

mod ranking;
mod report;
mod tracked;

use ranking::Ranking;
pub use report::{HotKey, HotKeys};
use tracked::Tracked;

/// Length of a window. Reports have the last whole one and the present one, so a key that becomes hot is reported with
/// its true share after two of them.
pub const WINDOW_US: u64 = 5_000_000;

/// Samples after which the gap between them is adapted.
const ADAPT_SAMPLES: u32 = 1024;
/// Time for these at the highest rate, 16,000 a second: a sample takes 300 ns of cache misses, so 0.5 % of a CPU.
const ADAPT_US_MIN: u64 = 64_000;
/// And at the lowest, half of that, below which the gap is shortened. Every access is a sample of a worker with up to so
/// many accesses a second.
const ADAPT_US_MAX: u64 = 128_000;
/// Samples after which the counts of tracked keys are moved into the window: until then they lack in it, in a second of a
/// busy worker 0.1 %.
const FLUSH_SAMPLES: u32 = 8;
/// The longest gap in the mean: enough for 16 million accesses a second.
const GAP_MAX: u32 = 1024;

/// One sample in so many counts for the bytes.
const BYTES_EVERY: u64 = 4;

/// An access to a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyAccess<'k> {
    /// As the client wrote it.
    pub key: &'k [u8],
    /// With a secret: one that clients cannot predict.
    pub hash: u64,
    /// Bytes of the value that was read or brought.
    pub bytes: u64,
    /// A read that found nothing.
    pub missed: bool,
}

/// What the present window says of a key that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyShare {
    /// Accesses to it that are certain.
    pub certain: u64,
    /// Accesses to all keys.
    pub accesses: u64,
    /// Accesses for which one sample stands.
    pub gap: u32,
}

/// A worker's choice of samples.
pub struct KeySampler {
    table: Arc<HotTable>,
    tracked: Box<Tracked>,
    prng: Prng,
    /// Accesses until the next sample, and of these at the last one.
    left: u32,
    drawn: u32,
    /// In the mean; 0 without samples.
    gap: u32,
    /// Samples since the gap was looked at, and when that was.
    samples: u32,
    looked_us: u64,
}

/// A worker's windows, which other threads read.
#[derive(Default)]
#[repr(align(128))]
pub struct HotTable {
    windows: Mutex<Windows>,
}

/// The present window and the one before.
#[derive(Default)]
struct Windows {
    present: HotWindow,
    last: HotWindow,
}

/// What was sampled in one window.
#[derive(Clone, Debug, Default)]
pub(crate) struct HotWindow {
    /// Counted since the start of the server.
    pub(crate) number: u64,
    /// Accesses, of which the samples were drawn.
    pub(crate) accesses: u64,
    pub(crate) requests: Ranking,
    pub(crate) bytes: Ranking,
    pub(crate) misses: Ranking,
}

impl KeySampler {
    /// One of a worker. `seed` is for the gaps.
    pub fn new(table: Arc<HotTable>, seed: u64) -> KeySampler {
        KeySampler {
            table,
            tracked: Box::default(),
            prng: Prng::new(seed),
            left: 1,
            drawn: 1,
            gap: 1,
            samples: 0,
            looked_us: 0,
        }
    }

    /// Counts an access, and returns whether it is a sample.
    #[inline]
    pub fn is_due(&mut self, hash: u64) -> bool {
        self.tracked.count(hash);
        self.left -= 1;
        self.left == 0
    }

    /// One that counts no key with every access: for who has a key's hash only when a sample is taken. See
    /// [`KeySampler::is_due_by_count`].
    pub fn by_samples_alone(table: Arc<HotTable>, seed: u64) -> KeySampler {
        let mut sampler = KeySampler::new(table, seed);
        sampler.tracked.is_off = true;
        sampler
    }

    /// Counts an access to any key, and returns whether it is a sample.
    #[inline]
    pub fn is_due_by_count(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// One that takes no samples.
    pub fn off() -> KeySampler {
        KeySampler { left: u32::MAX, gap: 0, ..KeySampler::new(Arc::default(), 0) }
    }

    /// Takes a sample. Returns what is known of its key; `None` if nothing is, or if the key is counted with every access.
    #[inline(never)]
    pub fn take(&mut self, access: &KeyAccess<'_>, now: Now) -> Option<KeyShare> {
        if self.gap == 0 {
            self.left = u32::MAX;
            return None;
        }
        let mut share = None;
        // A thread that reads holds the lock for some 100 µs: without this sample the rest is still true.
        if let Ok(mut windows) = self.table.windows.try_lock() {
            // Bytes by every fourth sample: half of the cost of a sample is the second ranking.
            let bytes_gap = match self.gap {
                1 => Some(1),
                gap => self.prng.next_u64().is_multiple_of(BYTES_EVERY).then_some(gap * BYTES_EVERY as u32),
            };
            let tracked = &mut *self.tracked;
            let window = windows.at(now, tracked);
            let certain = window.add(access, self.drawn, self.gap, bytes_gap, tracked);
            let accesses = window.accesses;
            share = certain.map(|certain| KeyShare { certain, accesses, gap: self.gap });
            if self.samples.is_multiple_of(FLUSH_SAMPLES) {
                tracked.flush(window);
                if self.gap == 1 {
                    tracked.clear();
                }
            }
        }
        self.adapt(now);
        self.drawn = 1 + self.prng.below(u64::from(2 * self.gap - 1)) as u32;
        self.left = self.drawn;
        share
    }

    /// Keeps the number of samples in a second within its limits.
    fn adapt(&mut self, now: Now) {
        self.samples += 1;
        let passed_us = now.us.saturating_sub(self.looked_us);
        let is_slow = passed_us > ADAPT_US_MAX;
        if self.samples < ADAPT_SAMPLES && !is_slow {
            return;
        }
        if is_slow {
            self.gap = (self.gap / 2).max(1);
        } else if passed_us < ADAPT_US_MIN {
            self.gap = (self.gap * 2).min(GAP_MAX);
        }
        (self.samples, self.looked_us) = (0, now.us);
    }
}

impl Windows {
    /// The window of this time, after the older ones have made room.
    fn at(&mut self, now: Now, tracked: &mut Tracked) -> &mut HotWindow {
        let number = now.us / WINDOW_US;
        if self.present.number != number {
            tracked.flush(&mut self.present);
            tracked.end_window(self.present.accesses);
            std::mem::swap(&mut self.present, &mut self.last);
            self.present.begin(number);
        }
        &mut self.present
    }
}

impl HotWindow {
    /// Empties it. Memory of keys is kept for the next ones.
    fn begin(&mut self, number: u64) {
        (self.number, self.accesses) = (number, 0);
        for ranking in [&mut self.requests, &mut self.bytes, &mut self.misses] {
            ranking.clear();
        }
    }

    /// Adds a sample that stands for the `drawn` accesses up to it, drawn so that one in `gap` is a sample. Returns how many
    /// accesses to its key are certain, unless the key is tracked.
    fn add(
        &mut self,
        access: &KeyAccess<'_>,
        drawn: u32,
        gap: u32,
        bytes_gap: Option<u32>,
        tracked: &mut Tracked,
    ) -> Option<u64> {
        self.accesses += u64::from(drawn);
        // A key that is tracked is counted with every access.
        let certain = (!tracked.has(access.hash)).then(|| self.requests.add(access, 1, gap));
        if let Some(certain) = certain {
            tracked.consider(access, certain, self.accesses, gap);
        }
        // Known exactly, whatever was sampled.
        self.requests.total = self.accesses;
        if let Some(gap) = bytes_gap.filter(|_| access.bytes > 0) {
            self.bytes.add(access, access.bytes, gap);
        }
        if access.missed {
            self.misses.add(access, 1, gap);
        }
        certain
    }
}

impl HotTable {
    /// Copies of the windows that are in the report of this time: the present one, and the whole one before.
    pub(crate) fn windows(&self, now: Now) -> Vec<HotWindow> {
        let number = now.us / WINDOW_US;
        let Ok(windows) = self.windows.lock() else { return Vec::new() };
        let both = [&windows.present, &windows.last].into_iter();
        both.filter(|window| window.accesses > 0 && window.number + 1 >= number).cloned().collect()
    }
}
