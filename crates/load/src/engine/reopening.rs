//! Connections of an engine that are opened anew while the others go on.

use super::ConnectionEvent;
use crate::engine::connecting::{self, TcpServer};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Connections that are being opened, since when, and the results of others.
#[derive(Debug)]
pub(crate) struct Reopening {
    server: TcpServer,
    /// By connection: when its present attempt began; `None`: it is open, or waits in `retries`.
    began_ns: Vec<Option<u64>>,
    /// Attempts in their order, including those that have ended.
    attempts: VecDeque<(u64, usize)>,
    /// Refused connections, and when to try again.
    retries: VecDeque<(u64, usize)>,
    pub(crate) news: Vec<ConnectionEvent>,
}

/// Longer than the kernel takes to send the first packet three times.
const ATTEMPT_NS_MAX: u64 = 5_000_000_000;
/// After a refusal: so that a server which is gone is not flooded.
const RETRY_AFTER_NS: u64 = 100_000_000;

impl Reopening {
    pub(crate) fn new(server: TcpServer, connections: usize) -> Reopening {
        Reopening {
            server,
            began_ns: vec![None; connections],
            attempts: VecDeque::new(),
            retries: VecDeque::new(),
            news: Vec::new(),
        }
    }

    /// Begins to connect; `None` if that is refused at once.
    pub(crate) fn begin(&mut self, connection: usize, now_ns: u64) -> Option<OwnedFd> {
        match connecting::begin(self.server) {
            Ok(socket) => {
                self.began_ns[connection] = Some(now_ns);
                self.attempts.push_back((now_ns, connection));
                Some(socket)
            }
            Err(_) => {
                self.refused(connection, now_ns);
                None
            }
        }
    }

    pub(crate) fn is_on_its_way(&self, connection: usize) -> bool {
        self.began_ns[connection].is_some()
    }

    /// Handles the kernel's result of the attempt.
    pub(crate) fn ended(&mut self, connection: usize, is_open: bool, now_ns: u64) {
        let Some(began_ns) = self.began_ns[connection].take() else { return };
        match is_open {
            true => self.news.push(ConnectionEvent::Opened { connection, took_ns: now_ns - began_ns }),
            false => self.refused(connection, now_ns),
        }
    }

    /// Counts a refusal, and tries again a little later. Of a fast open it becomes known when the connection counts as
    /// open already.
    pub(crate) fn refused(&mut self, connection: usize, now_ns: u64) {
        self.news.push(ConnectionEvent::Refused);
        self.retries.push_back((now_ns + RETRY_AFTER_NS, connection));
    }

    /// When a connection that was refused is tried again.
    pub(crate) fn next_at_ns(&self) -> Option<u64> {
        self.retries.front().map(|(at_ns, _)| *at_ns)
    }

    /// The next connection to try again, because it was not answered or the time after a refusal is over.
    pub(crate) fn next_retry(&mut self, now_ns: u64) -> Option<usize> {
        while let Some((began_ns, connection)) = self.attempts.front().copied() {
            let is_over = self.began_ns[connection] != Some(began_ns);
            if !is_over && now_ns.saturating_sub(began_ns) < ATTEMPT_NS_MAX {
                break;
            }
            self.attempts.pop_front();
            if !is_over {
                self.began_ns[connection] = None;
                self.news.push(ConnectionEvent::TimedOut);
                return Some(connection);
            }
        }
        self.retries.pop_front_if(|(at_ns, _)| *at_ns <= now_ns).map(|(_, connection)| connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn attempts_end_open_refused_or_too_late() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut reopening = Reopening::new(TcpServer { address, fast_open: false }, 3);
        let sockets = [0, 1, 2].map(|connection| reopening.begin(connection, 1000));
        assert!(sockets.iter().all(Option::is_some));
        reopening.ended(0, true, 1500);
        reopening.ended(1, false, 2000);
        assert_eq!(
            reopening.news,
            [ConnectionEvent::Opened { connection: 0, took_ns: 500 }, ConnectionEvent::Refused]
        );
        assert_eq!(reopening.next_at_ns(), Some(2000 + RETRY_AFTER_NS));
        assert_eq!(reopening.next_retry(2000 + RETRY_AFTER_NS - 1), None);
        assert_eq!(reopening.next_retry(2000 + RETRY_AFTER_NS), Some(1));
        assert!(!reopening.is_on_its_way(1) && reopening.is_on_its_way(2));
        assert_eq!(reopening.next_retry(1000 + ATTEMPT_NS_MAX), Some(2));
        assert_eq!(reopening.next_retry(u64::MAX), None);
        assert_eq!(reopening.news[2..], [ConnectionEvent::TimedOut]);
    }
}
