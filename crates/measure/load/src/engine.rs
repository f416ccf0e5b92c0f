//! Engines: ways to the kernel, one exchange per turn, by io_uring or by epoll, encrypted or not, or as datagrams.

pub(crate) mod connecting;
mod datagrams;
pub(crate) mod epoll;
pub(crate) mod files;
pub(crate) mod outbox;
mod precise;
mod reopening;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod tls;
pub(crate) mod trust;
pub(crate) mod udp;
pub(crate) mod uring;

use crate::engine::outbox::Outbox;
use crate::types::clock;
use crate::types::error::Error;
use std::io;
use std::time::Duration;

/// Moves bytes for a set of connections, numbered from 0.
pub(crate) trait Engine {
    /// Its name in the summary.
    const NAME: &'static str;

    /// Sends what the outbox holds and waits for replies. What a socket does not take at once is kept and sent when
    /// it can be: the outbox is free afterwards.
    fn exchange(&mut self, outbox: &Outbox, wait: Wait) -> Result<(), Error>;

    /// CLOCK_MONOTONIC in nanoseconds, or a simulation's time.
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    /// Passes what the last exchange received, by connection, with the time of arrival (by `now_ns`): as the kernel
    /// reports it, if it was asked to; data read after another receive may have come after the exchange. `None`: it
    /// was there by then.
    fn arrivals(
        &mut self,
        each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// Closes a connection, if it is open, and opens it anew: `Opened` or `Ended` reports what has come of it.
    fn reopen(&mut self, connection: usize) -> Result<(), Error>;

    /// Closes a connection, or gives up the attempt to open it. Nothing is reported of it until it is opened anew.
    fn close(&mut self, connection: usize);

    /// Passes all other events since the last call.
    fn events(&mut self, each: impl FnMut(ConnectionEvent)) -> Result<(), Error>;
}

/// What can happen besides bytes that arrive. The worker decides what follows from it.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The pending requests of this connection, if any, will not be answered; it stays open.
    Lost(usize),
    /// A connection is open again; opening took this long.
    Opened { connection: usize, took_ns: u64 },
    /// A connection, or the attempt to open it anew, has ended. This may be reported more than once.
    Ended { connection: usize, error: Error },
    /// The server's host refuses datagrams.
    Unreachable(Error),
    /// The TLS handshake of a connection is complete, after this time; it resumed an earlier session or began a new
    /// one.
    Agreed { took_ns: u64, is_resumed: bool },
    /// This many datagrams came that answer no request: too late, or twice.
    Stray(u64),
}

/// How long an exchange waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Replies worth waking up for: fewer end the wait only after `gather_time`.
    pub(crate) gather: usize,
    pub(crate) gather_time: Duration,
    /// Without any reply it ends after this long; zero only looks.
    pub(crate) at_most: Duration,
}

/// The longest wait, so that the worker sees that the window has closed.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);
/// How long replies may gather: as long as a slow server needs for ten large replies. A closed loop with three
/// quarters of its requests still on their way does not starve the server meanwhile.
pub(crate) const GATHER_TIME: Duration = Duration::from_micros(500);
/// Room for the replies of one receive: a large pipeline of small values, or a part of a large one.
pub(crate) const RECEIVE_LEN: usize = 16 * 1024;

/// Classifies a receive or send that returned an error or nothing.
pub(crate) fn failed(connection: usize, error: Option<io::Error>) -> Error {
    match error {
        Some(source) => Error::Broken { connection, source },
        None => Error::Closed { connection },
    }
}

/// The engine is not available.
pub(crate) fn failed_to_start(engine: &'static str, source: io::Error) -> Error {
    Error::Engine { engine, source }
}
