//! Connections of an engine that are opened anew while the others go on.

use super::{ConnectionEvent, failed};
use crate::engine::target::Target;
use crate::types::error::Error;
use rustix::net::sockopt;
use std::os::fd::OwnedFd;

/// Attempts to open connections, and what has become of connections.
#[derive(Debug)]
pub(crate) struct Reopening {
    /// `None` in tests whose connections cannot be opened anew.
    target: Option<Target>,
    /// By connection: when the attempt to open it began.
    began_ns: Vec<Option<u64>>,
    pub(crate) news: Vec<ConnectionEvent>,
}

impl Reopening {
    pub(crate) fn new(target: Option<Target>, connections: usize) -> Reopening {
        Reopening { target, began_ns: vec![None; connections], news: Vec::new() }
    }

    /// Begins to connect; `None` if that fails at once.
    pub(crate) fn begin(&mut self, connection: usize, now_ns: u64) -> Option<OwnedFd> {
        match self.target.as_ref()?.begin() {
            Ok(socket) => {
                self.began_ns[connection] = Some(now_ns);
                Some(socket)
            }
            Err(error) => {
                self.ended(connection, failed(connection, Some(error.into())));
                None
            }
        }
    }

    #[inline]
    pub(crate) fn is_on_its_way(&self, connection: usize) -> bool {
        self.began_ns[connection].is_some()
    }

    /// The attempt is given up, if there is one.
    pub(crate) fn give_up(&mut self, connection: usize) {
        self.began_ns[connection] = None;
    }

    /// Something has happened to a socket that is being opened. Returns whether it is open.
    pub(crate) fn settle(&mut self, connection: usize, socket: &OwnedFd, now_ns: u64) -> bool {
        let Some(began_ns) = self.began_ns[connection].take() else { return false };
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => {
                self.news.push(ConnectionEvent::Opened { connection, took_ns: now_ns - began_ns });
                true
            }
            Ok(Err(error)) | Err(error) => {
                self.ended(connection, failed(connection, Some(error.into())));
                false
            }
        }
    }

    #[cold]
    pub(crate) fn ended(&mut self, connection: usize, error: Error) {
        self.news.push(ConnectionEvent::Ended { connection, error });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::connecting::TcpServer;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::net::TcpListener;

    #[test]
    fn attempts_end_open_or_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let attempt = |address| {
            let target = Target::Tcp(TcpServer { address, fast_open: false });
            let mut reopening = Reopening::new(Some(target), 2);
            if let Some(socket) = reopening.begin(1, 1000) {
                assert!(reopening.is_on_its_way(1) && !reopening.is_on_its_way(0));
                poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).expect("an event");
                reopening.settle(1, &socket, 1500);
                assert!(!reopening.is_on_its_way(1));
            }
            format!("{:?}", reopening.news)
        };
        let opened = attempt(listener.local_addr().expect("an address"));
        assert_eq!(opened, "[Opened { connection: 1, took_ns: 500 }]");
        let refused = attempt(([127, 0, 0, 1], 1).into());
        assert!(
            refused.starts_with("[Ended { connection: 1, error: Broken ") && refused.contains("refused"),
            "{refused}"
        );
    }

    #[test]
    fn a_unix_socket_that_is_not_there_refuses() {
        let path = std::env::temp_dir().join("evenkeel-no-such-socket");
        let mut reopening = Reopening::new(Some(Target::Unix(path)), 1);
        assert!(reopening.begin(0, 0).is_none() && reopening.news.len() == 1);
    }
}
