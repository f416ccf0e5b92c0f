//! A view of a network for other threads: counters and the list of connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stdx::clock::Now;
use stdx::counter::{Counter, Sum, since};

use crate::handler::{Activity, Opened};
use crate::kernel::frame_ports::FramePorts;
use crate::network::connection_table::{ConnectionTable, ListenerCounters, WorkerCounters};
use crate::network::limit::ConnectionLimit;
use crate::network::worker_choice::WorkerChoice;
use crate::options::DriverChoice;
use crate::secure::handshakes::{HandshakeCounters, HandshakeCounts};

/// Reads the state of a network from any thread. Cheap to clone.
#[derive(Clone)]
pub struct View {
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) tables: Arc<[Arc<ConnectionTable>]>,
    pub(crate) handshakes: Arc<HandshakeCounters>,
    pub(crate) choice: Arc<WorkerChoice>,
    pub(crate) ports: Option<Arc<FramePorts>>,
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
    /// Number of pauses of accepting, caused by the limit or a lack of file descriptors.
    pub listen_disabled_num: u64,
    /// Total length of these pauses.
    pub time_in_listen_disabled_us: u64,
    /// Whether connections are being accepted.
    pub accepting: bool,
    /// Bytes received.
    pub bytes_read: u64,
    /// Bytes sent.
    pub bytes_written: u64,
    /// Number of times that a handler returned [`crate::Next::Again`].
    pub yields: u64,
    /// Connections closed by the idle timeout.
    pub idle_kicks: u64,
    /// TLS sessions that a record ended which was none, or was damaged.
    pub sessions_failed: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams that could not be sent for lack of room.
    pub datagrams_dropped: u64,
    /// Datagrams that the receive buffers of the network's sockets had no room for.
    pub datagrams_overflowed: u64,
    /// What came and went below the sockets, if anything may.
    pub frames: Option<FrameCounts>,
    /// Dialled connections now, which are not in `connections`.
    pub dialled: u64,
    /// Failed dials so far.
    pub unreachable: u64,
    /// Receive queues beyond the number of workers, which made the assignment begin anew.
    pub unexpected_napi_ids: u64,
    /// Connections that were dealt in turn because no worker was for their CPU or receive queue.
    pub round_robin_fallback: u64,
}

impl Counts {
    /// Differences since `earlier`; current values stay as they are.
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
            sessions_failed: since(|counts| counts.sessions_failed),
            datagrams: since(|counts| counts.datagrams),
            datagrams_dropped: since(|counts| counts.datagrams_dropped),
            datagrams_overflowed: since(|counts| counts.datagrams_overflowed),
            frames: self.frames.map(|now| now.since(&earlier.frames.unwrap_or_default())),
            unreachable: since(|counts| counts.unreachable),
            unexpected_napi_ids: since(|counts| counts.unexpected_napi_ids),
            round_robin_fallback: since(|counts| counts.round_robin_fallback),
            ..*self
        }
    }
}

/// What has happened at the ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Queues with a port.
    pub queues: u64,
    /// Those of them whose driver copies nothing.
    pub copying_nothing: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Frames that are no sound datagram for the address.
    pub refused: u64,
    /// Replies that went by the kernel's sockets.
    pub by_socket: u64,
}

impl FrameCounts {
    /// Differences since `earlier`; numbers of queues stay as they are.
    fn since(&self, earlier: &FrameCounts) -> FrameCounts {
        FrameCounts {
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.saturating_sub(earlier.sent),
            refused: self.refused.saturating_sub(earlier.refused),
            by_socket: self.by_socket.saturating_sub(earlier.by_socket),
            ..*self
        }
    }
}

/// An open connection.
#[derive(Clone, Debug)]
pub struct ConnectionEntry {
    /// Its addresses and origin.
    pub opened: Opened,
    /// The worker that serves it.
    pub worker: usize,
    /// Seconds since its last activity.
    pub idle_s: u32,
    /// Its current activity.
    pub activity: Activity,
}

/// Position in a listing of the connections ([`View::connections_from`]).
#[derive(Clone, Copy, Debug)]
pub struct ConnectionCursor {
    worker: usize,
    place: usize,
    /// The last connection number when the listing began. Later connections are left out, so that the listing ends
    /// however many arrive, and a descriptor that is used again is not listed twice.
    last_id: u64,
}

impl View {
    /// All counters, each exact by itself.
    pub fn counts(&self) -> Counts {
        let sum = |of: fn(&WorkerCounters) -> &Counter| {
            self.tables.iter().map(|table| of(&table.counters)).collect::<Sum>().value()
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
            sessions_failed: sum(|counters| &counters.sessions_failed),
            datagrams: sum(|counters| &counters.datagrams),
            datagrams_dropped: sum(|counters| &counters.datagrams_dropped),
            datagrams_overflowed: sum(|counters| &counters.datagrams_overflowed),
            frames: self.ports.as_ref().map(|ports| ports.counts()),
            dialled: sum(|counters| &counters.dialled),
            unreachable: sum(|counters| &counters.unreachable),
            unexpected_napi_ids: self.choice.unexpected_ids.load(Ordering::Relaxed),
            round_robin_fallback: self.choice.fallbacks.load(Ordering::Relaxed),
        }
    }

    /// Connections from the listener of this number: now, and in all.
    pub fn of_listener(&self, listener: usize) -> (u64, u64) {
        let sum = |of: fn(&ListenerCounters) -> &Counter| {
            let counters = self.tables.iter().filter_map(|table| table.by_listener.get(listener));
            counters.map(of).collect::<Sum>().value()
        };
        (sum(|counters| &counters.present), sum(|counters| &counters.opened))
    }

    /// TLS handshakes.
    pub fn handshakes(&self) -> HandshakeCounts {
        self.handshakes.counts()
    }

    /// Begins a listing of the connections.
    pub fn cursor(&self) -> ConnectionCursor {
        ConnectionCursor { worker: 0, place: 0, last_id: self.limit.last_id() }
    }

    /// Continues it, by worker: looks at the next `places`, in use or free, and calls `each` for the open connections.
    /// A connection that closes meanwhile may be left out; none is listed twice. False at the end.
    pub fn connections_from(
        &self,
        cursor: &mut ConnectionCursor,
        places: usize,
        now: Now,
        mut each: impl FnMut(&ConnectionEntry),
    ) -> bool {
        let mut left = places;
        while let Some(table) = self.tables.get(cursor.worker) {
            if left == 0 {
                return true;
            }
            let (present, looked_at) = table.connections_from(cursor.place, left);
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
                    each(&ConnectionEntry { opened, worker, idle_s, activity });
                }
            }
        }
        false
    }

    /// The error with which the kernel refused io_uring to a worker.
    pub fn uring_refused(&self, worker: usize) -> Option<io::Error> {
        error(&self.tables[worker].counters.refused)
    }

    /// The error with which the kernel refused a worker shorter time slices than others have.
    pub fn slice_refused(&self, worker: usize) -> Option<io::Error> {
        error(&self.tables[worker].counters.slice_refused)
    }

    /// Lines for the operator about what was asked for the workers' placement and refused: one of each kind.
    pub(crate) fn refusal_lines(&self) -> Vec<String> {
        let refused = |of: fn(&WorkerCounters) -> &Counter| {
            first_of(self.tables.iter().filter_map(|table| error(of(&table.counters))).collect())
        };
        let pin = refused(|counters| &counters.pin_refused).map(|(error, count)| {
            let of = self.tables.len();
            format!(
                "the kernel does not move {count} of {of} threads to their CPUs: {error}; they run anywhere"
            )
        });
        let busy_poll = refused(|counters| &counters.busy_poll_refused)
            .map(|(error, _)| format!("the kernel refuses busy polling: {error}; it needs Linux 6.9"));
        pin.into_iter().chain(busy_poll).collect()
    }

    /// The driver of a worker; `Auto` before it has run.
    pub fn driver(&self, worker: usize) -> DriverChoice {
        match self.tables[worker].counters.driver.value() {
            0 => DriverChoice::Auto,
            1 => DriverChoice::Epoll,
            _ => DriverChoice::Uring,
        }
    }
}

/// The first of these errors, and how many there are.
fn first_of(errors: Vec<io::Error>) -> Option<(io::Error, usize)> {
    let count = errors.len();
    errors.into_iter().next().map(|error| (error, count))
}

/// The error that a counter holds.
fn error(counter: &Counter) -> Option<io::Error> {
    let error = i32::try_from(counter.value()).unwrap_or_default();
    (error != 0).then(|| io::Error::from_raw_os_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::FakeConnections;

    const PLACES: usize = 100;

    /// The numbers of the listed connections, at most `PLACES` in a step; `meanwhile` is called after each step.
    fn list(
        connections: &mut FakeConnections,
        mut meanwhile: impl FnMut(&mut FakeConnections, usize),
    ) -> Vec<u64> {
        let view = connections.view();
        let (mut cursor, mut listed) = (view.cursor(), Vec::new());
        for step in 0.. {
            let before = listed.len();
            let more = view.connections_from(&mut cursor, PLACES, Now::default(), |present| {
                listed.push(present.opened.id.0)
            });
            assert!(listed.len() - before <= PLACES, "{} in one step", listed.len() - before);
            if !more {
                break;
            }
            meanwhile(connections, step);
        }
        listed
    }

    #[test]
    fn all_connections_are_listed_once_in_steps() {
        for count in [0, 1, 99, 100, 101, 300, 301, 5000] {
            let mut connections = FakeConnections::new(3);
            (0..count).for_each(|_| _ = connections.open());
            let mut listed = list(&mut connections, |_, _| {});
            listed.sort_unstable();
            assert!(listed.iter().copied().eq(1..=count), "{count}: {} are listed", listed.len());
        }
    }

    #[test]
    fn changes_during_a_listing_neither_repeat_nor_hide_connections() {
        let mut connections = FakeConnections::new(2);
        let mut present: Vec<u64> = (0..5000).map(|_| connections.open()).collect();
        let mut gone = Vec::new();
        let mut listed = list(&mut connections, |connections, step| {
            // Before the cursor and behind it; their places are used again at once, and more connections follow.
            for number in 0..40 {
                let leaver = present.swap_remove((step * 977 + number * 131) % present.len());
                connections.close(leaver);
                gone.push(leaver);
            }
            (0..60).for_each(|_| _ = connections.open());
        });
        assert!(gone.len() > 1500, "{} have gone", gone.len());
        listed.sort_unstable();
        assert!(listed.windows(2).all(|pair| pair[0] < pair[1]), "a connection is listed twice");
        assert!(present.iter().all(|id| listed.binary_search(id).is_ok()), "one that stays is listed");
        assert!(listed.iter().all(|id| *id <= 5000), "a later one is not");
    }
}
