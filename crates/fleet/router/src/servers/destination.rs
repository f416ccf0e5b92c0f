//! Destinations: a server as one worker sees it. Its connection, and the exchanges that wait for their replies.
//!
//! Nothing here dials or hands over a reply: what is to be done is returned. Requests are written to the outputs of a turn.

mod arrival;
mod connection;
mod exchange;
mod hot_side;
mod large;
mod queue;
mod tokens;

use std::sync::Arc;

use stdx::clock::Now;

use crate::plan::DestinationSpec;
use crate::servers::health::Health;
use crate::servers::udp::UdpSide;
use crate::stats::DestinationCells;

#[cfg(test)]
pub(crate) use connection::UNSENT_MAX;
pub(crate) use connection::{DestinationConnection, DestinationState};
pub(crate) use exchange::{Exchange, FailedExchange, LateFailover, ReplyKind, ReplyTarget};
pub(crate) use hot_side::{HotNote, HotSide};
#[cfg(test)]
pub(crate) use queue::EXCHANGES_MAX;
pub(crate) use queue::{Delivery, ExchangeQueue, Malformed, Read, is_usual};
pub(crate) use tokens::ReplyToken;

/// A server, for one worker: its parts, each with its own state.
pub(crate) struct Destination {
    pub(crate) spec: Arc<DestinationSpec>,
    pub(crate) health: Arc<Health>,
    pub(crate) cells: Arc<DestinationCells>,
    pub(crate) connection: DestinationConnection,
    pub(crate) queue: ExchangeQueue,
    /// Its datagrams, if gets go over UDP.
    pub(crate) udp: Option<Box<UdpSide>>,
    /// An entry among the worker's timers.
    pub(crate) has_timer: bool,
    /// The interval after the last probe, without its random part, while this worker probes the server.
    pub(crate) probe_interval_ms: Option<u32>,
}

impl Destination {
    pub(crate) fn new(spec: Arc<DestinationSpec>, health: Arc<Health>) -> Destination {
        let cells = Arc::new(DestinationCells::new(Arc::clone(&spec), Arc::clone(&health)));
        Destination {
            spec,
            health,
            cells,
            connection: DestinationConnection::default(),
            queue: ExchangeQueue::default(),
            udp: None,
            has_timer: false,
            probe_interval_ms: None,
        }
    }

    /// Time limit for a reply.
    pub(crate) fn timeout_us(&self) -> u64 {
        u64::from(self.spec.timeout_ms) * 1000
    }

    /// When the oldest exchange that has not timed out does.
    pub(crate) fn next_timeout(&self) -> Option<Now> {
        self.queue.next_timeout(self.timeout_us())
    }

    /// Takes the oldest exchange that should have a reply by `now`.
    pub(crate) fn expire(&mut self, now: Now) -> Option<FailedExchange> {
        (self.next_timeout()? <= now).then(|| self.queue.expire())
    }

    /// The connection is gone, or there is none: takes all exchanges, except those that have timed out before.
    pub(crate) fn fail_all(&mut self) -> Vec<FailedExchange> {
        self.connection.lose();
        self.queue.fail_all()
    }
}
