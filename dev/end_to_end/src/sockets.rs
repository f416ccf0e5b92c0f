//! A real server as the peer of a transcript, with TLS or without.

pub(super) mod stream;

use crate::clock;
use crate::server::Server;
use crate::sockets::stream::ClientStream;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use transcript::{Peer, ReceivedOutput};

/// A second of a transcript in real time: at least one second of the server's clock has passed after it, at any phase
/// of that clock.
const SECOND: Duration = Duration::from_millis(1050);

/// The connections of one transcript to one server.
pub struct Sockets<'s> {
    server: &'s Server,
    tls: bool,
    streams: BTreeMap<usize, ClientStream>,
    began: Instant,
    /// The part of the time since then that the transcript requested.
    advanced: Duration,
}

impl Sockets<'_> {
    /// No connection yet. With `tls`, the server's listener speaks it.
    pub fn new(server: &Server, tls: bool) -> Sockets<'_> {
        Sockets { server, tls, streams: BTreeMap::new(), began: clock::now(), advanced: Duration::ZERO }
    }

    /// How much more time has passed than the transcript requested.
    pub fn delay(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.advanced)
    }

    fn stream(&mut self, connection: usize) -> Result<&mut ClientStream, String> {
        if !self.streams.contains_key(&connection) {
            let stream = ClientStream::open(self.server, self.tls).map_err(|error| format!("{error:#}"))?;
            self.streams.insert(connection, stream);
        }
        Ok(self.streams.get_mut(&connection).expect("just inserted"))
    }

    fn over(&mut self, connection: usize) -> ReceivedOutput {
        self.streams.remove(&connection);
        ReceivedOutput::Closed
    }
}

impl Peer for Sockets<'_> {
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String> {
        let stream = self.stream(connection)?;
        match stream.write_all(bytes).and_then(|()| stream.flush()) {
            // The server may close in the middle of a refused request: the next expectation shows whether it should.
            Err(error) if is_close(error.kind()) => Ok(()),
            other => other.map_err(|error| error.to_string()),
        }
    }

    fn receive(&mut self, connection: usize, received: &mut Vec<u8>) -> Result<ReceivedOutput, String> {
        let mut buffer = vec![0; 64 << 10];
        let stream = self.stream(connection)?;
        // The wait of a process that was stopped and continued may be interrupted.
        let read = loop {
            match stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => Ok(self.over(connection)),
            Ok(count) => {
                received.extend_from_slice(&buffer[..count]);
                Ok(ReceivedOutput::Some)
            }
            Err(error) if is_close(error.kind()) => Ok(self.over(connection)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(ReceivedOutput::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err("the session ends without close_notify".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn close(&mut self, connection: usize) -> Result<(), String> {
        self.stream(connection)?.finish();
        Ok(())
    }

    fn advance(&mut self, seconds: u32) -> Result<(), String> {
        let wanted = SECOND * seconds + Duration::from_millis(50);
        clock::pass(wanted);
        self.advanced += wanted;
        Ok(())
    }

    fn unix_time(&self) -> u64 {
        clock::unix_time()
    }
}

fn is_close(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}
