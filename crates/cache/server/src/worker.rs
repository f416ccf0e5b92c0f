//! The worker: its store handle, its counters, and its view of the current turn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use net::{Address, Link};
use stdx::clock::Now;
use store::{Handle, Prefetched};

use crate::connection::output::Output;
use crate::figures::counters::Counters;
use crate::figures::histogram::Times;
use crate::figures::service_times::{ClassCounts, ServiceTimes};
use crate::flash_tier::stage::FlashStage;
use crate::reports::steps::Steps;
use crate::shared::Shared;
use crate::watch::Streams;
use ::hot_keys::KeySampler;

/// Pipelined requests parsed before the first is executed, so that memory for the later ones is prefetched
/// while the earlier ones are served. 16 hide the latency; 32 measured the same.
pub(crate) const BATCH: usize = 16;

/// Serves the connections of one of `net`'s workers.
pub struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Handle,
    pub(crate) counters: Arc<Counters>,
    pub(crate) service_times: Arc<ServiceTimes>,
    pub(crate) wait_times: Arc<Times>,
    pub(crate) key_sampler: KeySampler,
    /// One worker logs those of all.
    pub(crate) logs_hot_keys: bool,
    /// The last window of which they were logged.
    pub(crate) hot_keys_logged: u64,
    /// At the end of the last round.
    pub(crate) counted: ClassCounts,
    /// Keys whose index buckets are being prefetched, and whose items come next.
    pub(crate) fetching: Vec<Prefetched>,
    /// The second of this turn, in the store's time.
    pub(crate) second: u32,
    /// The time of this turn.
    pub(crate) now: Now,
    /// The streams with watchers, as of the beginning of this turn.
    pub(crate) watched: Streams,
    /// Connections that wait for other uploads, and when they are woken.
    pub(crate) sleepers: Vec<Link>,
    pub(crate) look_at: Now,
    /// The output of the present datagram; empty between two.
    pub(crate) datagram_output: Output,
    /// Scheduling of reports.
    pub(crate) steps: Steps,
    /// Whether uses are counted by prefix, as of the beginning of this turn.
    pub(crate) detail: bool,
    /// With `--cluster-file`.
    pub(crate) discovers: bool,
    /// Reads of the flash tier, if there is one.
    pub(crate) stage: Option<Box<FlashStage>>,
    /// The connection that is served.
    pub(crate) serving: Link,
    /// Whether its client may change items, with or without a request that says so by its letters.
    pub(crate) may_write: bool,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Worker {
        let store = shared.store.handle();
        let counters = Arc::clone(&shared.counters[number]);
        let service_times = Arc::clone(&shared.service_times[number]);
        let wait_times = Arc::clone(&shared.wait_times[number]);
        let seed = store.key(b"hot keys").hash() ^ number as u64;
        let key_sampler = match shared.options.dumping {
            true => KeySampler::new(Arc::clone(&shared.hot_tables[number]), seed),
            // With -X nobody may see keys, so none are kept.
            false => KeySampler::off(),
        };
        let now = Now::default();
        let watched = Streams::NONE;
        Worker {
            store,
            counters,
            service_times,
            wait_times,
            key_sampler,
            logs_hot_keys: number == 0,
            hot_keys_logged: u64::MAX,
            counted: ClassCounts::default(),
            fetching: Vec::new(),
            second: now.second(),
            now,
            watched,
            sleepers: Vec::new(),
            look_at: now,
            datagram_output: Output::default(),
            steps: Steps::default(),
            detail: false,
            discovers: shared.discovery.is_some(),
            stage: (!shared.flash_files.is_empty())
                .then(|| FlashStage::new(shared.flash_files.clone(), Arc::clone(&shared.flash_reads)).into()),
            serving: Link::default(),
            may_write: true,
            shared,
        }
    }

    /// Gives back what its handle has taken in advance.
    pub(crate) fn rest(&mut self) {
        self.store.rest();
        if let Some(stage) = &mut self.stage {
            stage.rest();
        }
    }

    /// Prefetches the items whose index buckets have arrived.
    #[inline]
    pub(crate) fn fetch_items(&mut self) {
        for prefetched in self.fetching.drain(..) {
            self.store.prefetch_item(prefetched);
        }
    }

    /// Writes a line for the watchers of `stream`. Without watchers the line is not formatted.
    #[inline]
    pub(crate) fn log(&self, stream: Streams, line: fmt::Arguments<'_>) {
        if self.watched.intersects(stream) {
            self.shared.log.write(stream, self.shared.unix_ms(self.now), line);
        }
    }

    /// Counts a client of the binary protocol that cannot log in, because that takes the text protocol; the first one
    /// is reported to the operator.
    #[cold]
    pub(crate) fn note_excluded(&self, client: &Address) {
        self.counters.binary_refused.add(1);
        if !self.shared.binary_noticed.swap(true, Relaxed) {
            (self.shared.notice)(&format!(
                "{client} uses the binary protocol, in which clients can log in only with -S: its request was refused and \
                 the connection closed. Later ones are only counted, in `evenkeel_binary_refused` of `stats`"
            ));
        }
    }

    /// The second at which an item with `exptime` expires.
    #[inline]
    pub(crate) fn expiry(&self, exptime: impl Into<i64>) -> u32 {
        self.shared.expiry(exptime.into(), self.now)
    }
}
