//! Connection tables: the connections of a worker, and its counters; written by the worker, read by any thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use stdx::clock::Now;
use stdx::counter::Counter;

use crate::handler::{Activity, Opened, Origin};

/// Places per chunk of activity records.
const CHUNK: usize = 1024;

/// Second and kind of each connection's last activity, by place ([`pack`]). Sixteen connections share a cache line, and
/// the records never move: the worker writes one per connection and round, without a lock.
type Records = [AtomicU32; CHUNK];

/// Bits of an activity's kind; the others hold seconds, enough for 17 years.
const KIND_BITS: u32 = 3;

fn pack(second: u32, activity: Activity) -> u32 {
    second << KIND_BITS | activity as u32
}

fn unpack(packed: u32) -> (u32, Activity) {
    let activity = match packed & ((1 << KIND_BITS) - 1) {
        1 => Activity::Body,
        2 => Activity::Swallowing,
        3 => Activity::Sending,
        4 => Activity::Watching,
        _ => Activity::Reading,
    };
    (packed >> KIND_BITS, activity)
}

/// The shared state of a worker.
pub(crate) struct ConnectionTable {
    present: Mutex<Entries>,
    pub(crate) counters: WorkerCounters,
    /// By the number of the listener.
    pub(crate) by_listener: Box<[ListenerCounters]>,
}

/// Connections from a listener, of a worker.
#[derive(Default)]
pub(crate) struct ListenerCounters {
    pub(crate) opened: Counter,
    pub(crate) present: Counter,
}

#[derive(Default)]
struct Entries {
    opened: Vec<Option<Opened>>,
    activity: Vec<Arc<Records>>,
}

/// Sums that only the worker writes.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    pub(crate) places: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) yields: Counter,
    pub(crate) idle_kicks: Counter,
    pub(crate) sessions_failed: Counter,
    pub(crate) datagrams: Counter,
    pub(crate) datagrams_dropped: Counter,
    pub(crate) datagrams_overflowed: Counter,
    pub(crate) dialled: Counter,
    pub(crate) unreachable: Counter,
    /// 0 until the worker runs, then 1 for epoll, 2 for io_uring.
    pub(crate) driver: Counter,
    /// The error with which the kernel refused io_uring; 0 if it was not refused or not asked for.
    pub(crate) refused: Counter,
    /// The error with which the kernel refused short time slices; 0 if it granted them.
    pub(crate) slice_refused: Counter,
    /// The error with which the kernel refused to move it to its CPU.
    pub(crate) pin_refused: Counter,
    /// The error with which the kernel refused busy polling.
    pub(crate) busy_poll_refused: Counter,
}

/// An error as a counter has it, 0 for none.
pub(crate) fn code(error: Option<Errno>) -> u64 {
    error.map_or(0, |error| u64::from(error.raw_os_error().unsigned_abs()))
}

impl ConnectionTable {
    pub(crate) fn new() -> ConnectionTable {
        ConnectionTable::for_listeners(0)
    }

    pub(crate) fn for_listeners(listeners: usize) -> ConnectionTable {
        let by_listener = (0..listeners).map(|_| ListenerCounters::default()).collect();
        ConnectionTable { present: Mutex::default(), counters: WorkerCounters::default(), by_listener }
    }

    fn listener(&self, opened: &Opened) -> Option<&ListenerCounters> {
        match opened.origin {
            Origin::Accepted { listener } => self.by_listener.get(usize::from(listener)),
            Origin::Dialled { .. } => None,
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections at `count` places from `place` on, with the second and the kind of their last activity; and how
    /// many of these places exist. A worker that opens or closes a connection waits meanwhile.
    pub(crate) fn connections_from(
        &self,
        place: usize,
        count: usize,
    ) -> (Vec<(Opened, u32, Activity)>, usize) {
        let entries = self.entries();
        let end = place.saturating_add(count).min(entries.opened.len());
        let places = place.min(end)..end;
        let at = |place: usize| {
            let packed = entries.activity[place / CHUNK][place % CHUNK].load(Ordering::Relaxed);
            let (second, activity) = unpack(packed);
            entries.opened[place].clone().map(|opened| (opened, second, activity))
        };
        (places.clone().filter_map(at).collect(), places.len())
    }
}

/// The worker's access to its table.
pub(crate) struct TableWriter {
    table: Arc<ConnectionTable>,
    /// The worker's own references to the records, without the lock.
    activity: Vec<Arc<Records>>,
}

impl TableWriter {
    pub(crate) fn new(table: Arc<ConnectionTable>) -> TableWriter {
        TableWriter { table, activity: Vec::new() }
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.table.counters
    }

    pub(crate) fn insert(&mut self, index: u32, opened: Opened, now: Now) {
        let place = index as usize;
        if let Some(counters) = self.table.listener(&opened) {
            counters.opened.add(1);
            counters.present.add(1);
        }
        let mut entries = self.table.entries();
        while self.activity.len() <= place / CHUNK {
            self.activity.push(Arc::new([const { AtomicU32::new(0) }; CHUNK]));
        }
        if entries.activity.len() < self.activity.len() {
            entries.activity.clone_from(&self.activity);
        }
        if entries.opened.len() <= place {
            entries.opened.resize_with(place + 1, || None);
        }
        entries.opened[place] = Some(opened);
        drop(entries);
        self.record_activity(index, now.second(), Activity::Reading);
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let removed = self.table.entries().opened[index as usize].take();
        if let Some(counters) = removed.as_ref().and_then(|opened| self.table.listener(opened)) {
            counters.present.sub(1);
        }
    }

    /// Records activity on the connection.
    #[inline]
    pub(crate) fn record_activity(&self, index: u32, second: u32, activity: Activity) {
        let place = index as usize;
        self.activity[place / CHUNK][place % CHUNK].store(pack(second, activity), Ordering::Relaxed);
    }

    /// Changes the kind of activity without a new time, because nothing happened on the connection.
    pub(crate) fn set_activity(&self, index: u32, activity: Activity) {
        self.record_activity(index, self.last_second(index), activity);
    }

    /// The second of the last activity.
    pub(crate) fn last_second(&self, index: u32) -> u32 {
        let place = index as usize;
        unpack(self.activity[place / CHUNK][place % CHUNK].load(Ordering::Relaxed)).0
    }
}
