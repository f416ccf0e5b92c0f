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
    /// Connections now.
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
        }
    }

    /// Everyone who is connected, by worker.
    pub fn present(&self, now: Now) -> Vec<Present> {
        let of = |(worker, roster): (usize, &Arc<Roster>)| {
            let idle_s = move |second: u32| now.second().saturating_sub(second);
            roster.present().into_iter().map(move |(opened, second, activity)| Present {
                opened,
                worker,
                idle_s: idle_s(second),
                activity,
            })
        };
        self.rosters.iter().enumerate().flat_map(of).collect()
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
