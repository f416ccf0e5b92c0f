//! Rosters: the connections of a worker, and its counters; written by the worker, read by anyone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stdx::clock::Now;
use stdx::counter::Counter;

use crate::handler::{Activity, Opened};

/// Places per chunk of activity records.
const CHUNK: usize = 1024;

/// The second of the last activity, by place, and what it was ([`pack`]). Sixteen connections share a cache line, and the records never
/// move: the worker writes one per connection and round, without a lock.
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

/// What is shared about a worker.
pub(crate) struct Roster {
    present: Mutex<Entries>,
    pub(crate) counters: Counters,
}

#[derive(Default)]
struct Entries {
    opened: Vec<Option<Opened>>,
    activity: Vec<Arc<Records>>,
}

/// Sums that only the worker writes.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) places: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) yields: Counter,
    pub(crate) idle_kicks: Counter,
    pub(crate) datagrams: Counter,
    pub(crate) datagrams_dropped: Counter,
    pub(crate) dialled: Counter,
    pub(crate) unreachable: Counter,
    /// 0 until the worker runs, then 1 for epoll, 2 for io_uring.
    pub(crate) driver: Counter,
    /// The error with which the kernel refused io_uring; 0: it was not asked for, or did not.
    pub(crate) refused: Counter,
}

impl Roster {
    pub(crate) fn new() -> Roster {
        Roster { present: Mutex::default(), counters: Counters::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is connected at `count` places from `place` on, with the second of their last activity, and what they are
    /// in the middle of; and how many of these places there are. The worker waits meanwhile if somebody comes or goes.
    pub(crate) fn present_from(&self, place: usize, count: usize) -> (Vec<(Opened, u32, Activity)>, usize) {
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

/// The worker's side of its roster.
pub(crate) struct Keeper {
    roster: Arc<Roster>,
    /// The worker's own way to the records, without the lock.
    activity: Vec<Arc<Records>>,
}

impl Keeper {
    pub(crate) fn new(roster: Arc<Roster>) -> Keeper {
        Keeper { roster, activity: Vec::new() }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.roster.counters
    }

    pub(crate) fn enter(&mut self, index: u32, opened: Opened, now: Now) {
        let place = index as usize;
        let mut entries = self.roster.entries();
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
        self.touch(index, now.second(), Activity::Reading);
    }

    pub(crate) fn leave(&mut self, index: u32) {
        self.roster.entries().opened[index as usize] = None;
    }

    /// Something happened on the connection.
    #[inline]
    pub(crate) fn touch(&self, index: u32, second: u32, activity: Activity) {
        let place = index as usize;
        self.activity[place / CHUNK][place % CHUNK].store(pack(second, activity), Ordering::Relaxed);
    }

    /// The connection is in the middle of something else, although nothing happened on it.
    pub(crate) fn turn_to(&self, index: u32, activity: Activity) {
        self.touch(index, self.last_second(index), activity);
    }

    /// The second in which something happened last.
    pub(crate) fn last_second(&self, index: u32) -> u32 {
        let place = index as usize;
        unpack(self.activity[place / CHUNK][place % CHUNK].load(Ordering::Relaxed)).0
    }
}
