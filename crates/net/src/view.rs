//! A network seen from outside: counters and who is connected.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stdx::clock::Now;
use stdx::counter::{Counter, Sum, since};

use crate::handler::{Activity, Opened};
use crate::limit::Limit;
use crate::options::DriverChoice;
use crate::roster::{Counters, Roster};

/// Looks at a network from any thread. Cheap to clone.
#[derive(Clone)]
pub struct View {
    pub(crate) limit: Arc<Limit>,
    pub(crate) rosters: Arc<[Arc<Roster>]>,
}

/// Sums over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted connections now.
    pub connections: u64,
    /// Connections accepted so far.
    pub accepted: u64,
    /// Connections refused at the limit so far.
    pub rejected: u64,
    /// Records kept for connections, in use or free.
    pub connection_structures: u64,
    /// How often accepting has been stopped, because of the limit or for want of file descriptors.
    pub listen_disabled_num: u64,
    /// For how long in all.
    pub time_in_listen_disabled_us: u64,
    /// Whether connections are being accepted.
    pub accepting: bool,
    /// Bytes received.
    pub bytes_read: u64,
    /// Bytes sent.
    pub bytes_written: u64,
    /// How often a handler said [`crate::Next::Again`].
    pub yields: u64,
    /// Connections closed by the idle timeout.
    pub idle_kicks: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams that were to be sent and found no room.
    pub datagrams_dropped: u64,
    /// Dialled connections now, which are not in `connections`.
    pub dialled: u64,
    /// Dials so far that came to nothing.
    pub unreachable: u64,
}

impl Counts {
    /// What has been counted since `earlier`; what tells how things are stays as it is.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let since = |of: fn(&Counts) -> u64| since(of(self), of(earlier));
        Counts {
            accepted: since(|counts| counts.accepted),
            rejected: since(|counts| counts.rejected),
            listen_disabled_num: since(|counts| counts.listen_disabled_num),
            time_in_listen_disabled_us: since(|counts| counts.time_in_listen_disabled_us),
            bytes_read: since(|counts| counts.bytes_read),
            bytes_written: since(|counts| counts.bytes_written),
            yields: since(|counts| counts.yields),
            idle_kicks: since(|counts| counts.idle_kicks),
            datagrams: since(|counts| counts.datagrams),
            datagrams_dropped: since(|counts| counts.datagrams_dropped),
            unreachable: since(|counts| counts.unreachable),
            ..*self
        }
    }
}

/// A connection that is there.
#[derive(Clone, Debug)]
pub struct Present {
    /// What it is.
    pub opened: Opened,
    /// Which worker serves it.
    pub worker: usize,
    /// Seconds since something happened on it.
    pub idle_s: u32,
    /// What it is in the middle of.
    pub activity: Activity,
}

/// How far a listing of those who are connected has come ([`View::present_from`]).
#[derive(Clone, Copy, Debug)]
pub struct PresentCursor {
    worker: usize,
    place: usize,
    /// The last connection's number when it began. Those who came later are left out, so that it ends however many come, and
    /// a descriptor that is used again is not listed twice.
    last_id: u64,
}

impl View {
    /// All counters, each exact by itself.
    pub fn counts(&self) -> Counts {
        let sum = |of: fn(&Counters) -> &Counter| {
            self.rosters.iter().map(|roster| of(&roster.counters)).collect::<Sum>().value()
        };
        let accepting = !self.limit.is_paused();
        Counts {
            connections: self.limit.current() as u64,
            accepted: self.limit.accepted.load(Ordering::Relaxed),
            rejected: self.limit.rejected.load(Ordering::Relaxed),
            connection_structures: sum(|counters| &counters.places),
            listen_disabled_num: self.limit.pauses.load(Ordering::Relaxed),
            time_in_listen_disabled_us: self.limit.paused_us(),
            accepting,
            bytes_read: sum(|counters| &counters.bytes_read),
            bytes_written: sum(|counters| &counters.bytes_written),
            yields: sum(|counters| &counters.yields),
            idle_kicks: sum(|counters| &counters.idle_kicks),
            datagrams: sum(|counters| &counters.datagrams),
            datagrams_dropped: sum(|counters| &counters.datagrams_dropped),
            dialled: sum(|counters| &counters.dialled),
            unreachable: sum(|counters| &counters.unreachable),
        }
    }

    /// Begins to list everyone who is connected now.
    pub fn cursor(&self) -> PresentCursor {
        PresentCursor { worker: 0, place: 0, last_id: self.limit.last_id() }
    }

    /// Goes on with it, by worker: looks at the next `places`, in use or free, and calls `each` for who is still there.
    /// Who goes meanwhile may be left out; nobody is listed twice. False once all have been looked at.
    pub fn present_from(
        &self,
        cursor: &mut PresentCursor,
        places: usize,
        now: Now,
        mut each: impl FnMut(&Present),
    ) -> bool {
        let mut left = places;
        while let Some(roster) = self.rosters.get(cursor.worker) {
            if left == 0 {
                return true;
            }
            let (present, looked_at) = roster.present_from(cursor.place, left);
            let worker = cursor.worker;
            if looked_at < left {
                (cursor.worker, cursor.place) = (worker + 1, 0);
            } else {
                cursor.place += looked_at;
            }
            left -= looked_at;
            for (opened, second, activity) in present {
                if opened.id.0 <= cursor.last_id {
                    let idle_s = now.second().saturating_sub(second);
                    each(&Present { opened, worker, idle_s, activity });
                }
            }
        }
        false
    }

    /// Why a worker does not use io_uring, if it wanted to.
    pub fn uring_refused(&self, worker: usize) -> Option<io::Error> {
        let error = i32::try_from(self.rosters[worker].counters.refused.value()).unwrap_or_default();
        (error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// The driver that a worker found it could use; `Auto` before it has run.
    pub fn driver(&self, worker: usize) -> DriverChoice {
        match self.rosters[worker].counters.driver.value() {
            0 => DriverChoice::Auto,
            1 => DriverChoice::Epoll,
            _ => DriverChoice::Uring,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Crowd;

    const PLACES: usize = 100;

    /// The numbers of those who are listed, of whom there may be `PLACES` in a step; `meanwhile` comes behind each step.
    fn list(crowd: &mut Crowd, mut meanwhile: impl FnMut(&mut Crowd, usize)) -> Vec<u64> {
        let view = crowd.view();
        let (mut cursor, mut listed) = (view.cursor(), Vec::new());
        for step in 0.. {
            let before = listed.len();
            let more = view.present_from(&mut cursor, PLACES, Now::default(), |present| {
                listed.push(present.opened.id.0)
            });
            assert!(listed.len() - before <= PLACES, "{} in one step", listed.len() - before);
            if !more {
                break;
            }
            meanwhile(crowd, step);
        }
        listed
    }

    #[test]
    fn all_are_listed_once_in_steps() {
        for count in [0, 1, 99, 100, 101, 300, 301, 5000] {
            let mut crowd = Crowd::new(3);
            (0..count).for_each(|_| _ = crowd.enter());
            let mut listed = list(&mut crowd, |_, _| {});
            listed.sort_unstable();
            assert!(listed.iter().copied().eq(1..=count), "{count}: {} are listed", listed.len());
        }
    }

    #[test]
    fn who_comes_and_goes_meanwhile_is_not_listed_twice_and_hides_nobody() {
        let mut crowd = Crowd::new(2);
        let mut present: Vec<u64> = (0..5000).map(|_| crowd.enter()).collect();
        let mut gone = Vec::new();
        let mut listed = list(&mut crowd, |crowd, step| {
            // In front of the cursor and behind it; their places are used again at once, and there are more.
            for number in 0..40 {
                let leaver = present.swap_remove((step * 977 + number * 131) % present.len());
                crowd.leave(leaver);
                gone.push(leaver);
            }
            (0..60).for_each(|_| _ = crowd.enter());
        });
        assert!(gone.len() > 1500, "{} have gone", gone.len());
        listed.sort_unstable();
        assert!(listed.windows(2).all(|pair| pair[0] < pair[1]), "somebody is listed twice");
        assert!(present.iter().all(|id| listed.binary_search(id).is_ok()), "who stays is listed");
        assert!(listed.iter().all(|id| *id <= 5000), "who came later is not");
    }
}
