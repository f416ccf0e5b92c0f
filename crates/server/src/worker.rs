//! One worker's half of the server: its way into the store, its counters, what it sees of the moment.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use net::{Address, Link};
use stdx::clock::Now;
use store::{Handle, Prefetched};

use crate::counters::Counters;
use crate::reports::steps::Steps;
use crate::shared::Shared;
use crate::watch::Streams;

/// So many pipelined requests are looked at before the first is executed, so that the memory they need is on
/// its way while the earlier ones are served. 16 hide the latency; 32 measured the same.
pub(crate) const BATCH: usize = 16;

/// Serves the connections of one of `net`'s workers.
pub struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Handle,
    pub(crate) counters: Arc<Counters>,
    /// Keys whose index buckets are on their way, and whose items will be asked for next.
    pub(crate) fetching: Vec<Prefetched>,
    /// The second of this turn, as the store counts.
    pub(crate) second: u32,
    /// The moment of this turn.
    pub(crate) now: Now,
    /// What somebody watches, as of the beginning of this turn.
    pub(crate) watched: Streams,
    /// Connections that wait for others' uploads, and when they look again.
    pub(crate) sleepers: Vec<Link>,
    pub(crate) look_at: Now,
    /// Which connection goes on with its report.
    pub(crate) steps: Steps,
    /// Whether uses are counted by prefix, as of the beginning of this turn.
    pub(crate) detail: bool,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Worker {
        let store = shared.store.handle();
        let counters = Arc::clone(&shared.counters[number]);
        let now = Now::default();
        let watched = Streams::NONE;
        Worker {
            store,
            counters,
            fetching: Vec::new(),
            second: now.second(),
            now,
            watched,
            sleepers: Vec::new(),
            look_at: now,
            steps: Steps::default(),
            detail: false,
            shared,
        }
    }

    /// Has the items fetched whose buckets must have come by now.
    #[inline]
    pub(crate) fn fetch_items(&mut self) {
        for prefetched in self.fetching.drain(..) {
            self.store.prefetch_item(prefetched);
        }
    }

    /// Writes a line for those who watch `stream`. Formatting costs nothing where nobody does.
    #[inline]
    pub(crate) fn log(&self, stream: Streams, line: fmt::Arguments<'_>) {
        if self.watched.intersects(stream) {
            self.shared.log.write(stream, self.shared.unix_ms(self.now), line);
        }
    }

    /// Counts a client that has been refused because it speaks the binary protocol, and tells the operator of the first.
    #[cold]
    pub(crate) fn note_binary(&self, client: &Address) {
        self.counters.binary_refused.add(1);
        if !self.shared.binary_noticed.swap(true, Relaxed) {
            (self.shared.notice)(&format!(
                "{client} speaks memcached's binary protocol, which is not there: it has been told so and closed. All \
                 that follow are counted in `evenkeel_binary_refused` of `stats`, without a line"
            ));
        }
    }

    /// The second at which an item expires whose client said `exptime`.
    #[inline]
    pub(crate) fn expiry(&self, exptime: i32) -> u32 {
        self.shared.expiry(exptime, self.now)
    }
}
