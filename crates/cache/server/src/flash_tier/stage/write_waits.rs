//! Requests that wait to be stored, because the disks have not written yet what left memory before.
//!
//! Without that, what is stored faster than the disks write is lost. Requests for items that are there wait for nobody here.

use std::collections::{BTreeMap, HashMap};

use net::Link;
use stdx::clock::Now;

/// A request waits so long at most; then it is served, and what it pushes out of memory is lost. A fifth of the time after which clients
/// and routers usually give up, because several such requests of a pipeline may wait one after the other.
const WAIT_US: u64 = 200_000;
/// When the disks have done nothing for so long they hang, and nobody waits until they do something. A disk that others write to as well
/// pauses for less.
const HANGS_US: u64 = 2_000_000;
/// The interval at which the disks are looked at.
const LOOK_US: u64 = 1_000;
/// Connections woken at a time: more requests than the room is for would only wait again.
const WOKEN_MAX: usize = 64;

/// The connections whose next request waits.
#[derive(Default)]
pub(super) struct WriteWaits {
    /// Since when. It stays until the request is served.
    since: HashMap<Link, Now>,
    /// Those that were not woken, by that time and their place among the connections.
    asleep: BTreeMap<(u64, usize), Link>,
    /// What the disks had done, and when that was first seen.
    progress: Option<(u64, Now)>,
}

impl WriteWaits {
    /// Whether a request has to wait. `progress` rises whenever the disks have done something.
    pub(super) fn must_wait(&mut self, link: Link, progress: u64, now: Now) -> bool {
        let seen = self.progress.filter(|(seen, _)| *seen == progress);
        let (_, began) = *self.progress.insert(seen.unwrap_or((progress, now)));
        let since = *self.since.entry(link).or_insert(now);
        if now.us.saturating_sub(began.us) >= HANGS_US || now.us.saturating_sub(since.us) >= WAIT_US {
            self.since.remove(&link);
            return false;
        }
        self.asleep.insert((since.us, link.place()), link);
        true
    }

    /// The disks are not behind, so the request of this connection is served.
    pub(super) fn pass(&mut self, link: Link) {
        self.progress = None;
        if !self.since.is_empty() {
            self.since.remove(&link);
        }
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, link: Link) {
        if let Some(since) = self.since.remove(&link) {
            self.asleep.remove(&(since.us, link.place()));
        }
    }

    /// All connections are gone.
    pub(super) fn clear(&mut self) {
        *self = WriteWaits::default();
    }

    /// When it has to be looked at next.
    pub(super) fn deadline(&self, now: Now) -> Option<Now> {
        (!self.asleep.is_empty()).then_some(Now { us: now.us + LOOK_US })
    }

    /// Wakes those that have waited for longest, if the disks are not behind any more, and whoever has waited long enough.
    pub(super) fn wake(&mut self, now: Now, is_behind: impl FnOnce() -> bool, mut wake: impl FnMut(Link)) {
        if self.asleep.is_empty() {
            return;
        }
        let mut woken = if is_behind() { 0 } else { WOKEN_MAX };
        while let Some(longest) = self.asleep.first_entry() {
            if woken == 0 && now.us.saturating_sub(longest.key().0) < WAIT_US {
                break;
            }
            woken = woken.saturating_sub(1);
            wake(longest.remove());
        }
    }
}
