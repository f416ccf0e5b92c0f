//! Comparison of a server with a transcript.

use crate::parse::{Action, ExpectedReply, Transcript, TranscriptStep};
use crate::text::{Bindings, Extent, Text};
use std::collections::BTreeMap;
use std::fmt;

/// The peer of a transcript: a server, from its clients' side.
///
/// Connections are numbered and opened by their first use. An `Err` is a sentence for the report.
pub trait Peer {
    /// Sends all of `bytes`. If the server has closed the connection already, they are dropped.
    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), String>;

    /// Waits for more from the server and appends it to `received`.
    fn receive(&mut self, connection: usize, received: &mut Vec<u8>) -> Result<ReceivedOutput, String>;

    /// Closes the client's direction; [`Peer::receive`] continues until the server has closed, too.
    fn close(&mut self, connection: usize) -> Result<(), String>;

    /// Lets this many seconds pass.
    fn advance(&mut self, seconds: u32) -> Result<(), String>;

    /// Seconds since 1970, by the server's clock.
    fn unix_time(&self) -> u64;
}

/// The result of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivedOutput {
    /// At least one byte.
    Some,
    /// Nothing, and nothing more will arrive unless something is sent first.
    Nothing,
    /// The server has closed: the connection is over, and its number is free for a new one.
    Closed,
}

/// The place where a server differs from the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The transcript's name.
    pub name: String,
    /// The line in the file.
    pub line: usize,
    /// The transcript's expectation.
    pub expected: String,
    /// The actual output.
    pub got: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.txt:{}: expected {}\n    got {}", self.name, self.line, self.expected, self.got)
    }
}

/// Runs the client's steps of `transcript` against `peer`, up to the first difference.
///
/// # Errors
/// Describes the difference.
pub fn run(transcript: &Transcript, peer: &mut impl Peer) -> Result<(), Mismatch> {
    let mut run = Run { peer, bindings: Bindings::new(), connections: BTreeMap::new() };
    let failure = |step: Option<&TranscriptStep>, (expected, got)| Mismatch {
        name: transcript.name.clone(),
        line: step.map_or(0, |step| step.line),
        expected,
        got,
    };
    let mut steps = transcript.steps.iter().peekable();
    while let Some(step) = steps.next() {
        let done = match &step.action {
            Action::Send(connection, text) => {
                let mut bytes = run.fill(text);
                // Neighbouring requests are sent together, pipelined.
                while let Some(Action::Send(next, text)) = steps.peek().map(|step| &step.action)
                    && next == connection
                {
                    bytes = bytes.and_then(|mut bytes| {
                        bytes.extend(run.fill(text)?);
                        Ok(bytes)
                    });
                    steps.next();
                }
                bytes.and_then(|bytes| run.send(*connection, &bytes))
            }
            Action::Expect(connection, expected) => run.expect(*connection, expected),
            Action::Close(connection) => run.close(*connection),
            Action::Advance(seconds) => {
                run.peer.advance(*seconds).map_err(|error| ("time to pass".into(), error))
            }
        };
        done.map_err(|difference| failure(Some(step), difference))?;
    }
    run.finish().map_err(|difference| failure(transcript.steps.last(), difference))
}

/// The expected and the actual output.
type Difference = (String, String);

struct Run<'p, P> {
    peer: &'p mut P,
    bindings: Bindings,
    connections: BTreeMap<usize, Connection>,
}

/// Received output that was not expected yet.
#[derive(Default)]
struct Connection {
    received: Vec<u8>,
    closed: bool,
}

impl<P: Peer> Run<'_, P> {
    fn fill(&self, text: &Text) -> Result<Vec<u8>, Difference> {
        let filled = text.fill(&self.bindings, || self.peer.unix_time());
        filled.map_err(|error| (format!("to send {:?}", text.source()), error))
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) -> Result<(), Difference> {
        self.connections.entry(connection).or_default();
        self.peer.send(connection, bytes).map_err(|error| (format!("to send {}", show(bytes)), error))
    }

    fn close(&mut self, connection: usize) -> Result<(), Difference> {
        self.peer.close(connection).map_err(|error| ("to close".into(), error))?;
        self.closed(connection)?;
        self.connections.remove(&connection);
        Ok(())
    }

    fn expect(&mut self, connection: usize, expected: &ExpectedReply) -> Result<(), Difference> {
        match expected {
            ExpectedReply::Next(text) => {
                let received = self.take(connection, text.extent(), text.source())?;
                if text.matches(&received, &mut self.bindings) {
                    return Ok(());
                }
                Err((show(text.source().as_bytes()), show(&received)))
            }
            ExpectedReply::Among { lines, exact, end } => self.among(connection, lines, *exact, end),
            ExpectedReply::Closed => {
                self.closed(connection)?;
                // The same number means a new connection from here on.
                self.connections.remove(&connection);
                Ok(())
            }
        }
    }

    fn among(
        &mut self,
        connection: usize,
        lines: &[Text],
        exact: bool,
        end: &Text,
    ) -> Result<(), Difference> {
        let mut missing: Vec<&Text> = lines.iter().collect();
        loop {
            let source = missing.first().map_or(end.source(), |text| text.source());
            let received = self.take(connection, Extent::Lines(1), source)?;
            if let Some(found) = missing.iter().position(|text| text.matches(&received, &mut self.bindings)) {
                missing.remove(found);
            } else if end.matches(&received, &mut self.bindings) {
                return match missing.first() {
                    Some(text) => Err((text.source().to_owned(), format!("the end, {}", show(&received)))),
                    None => Ok(()),
                };
            } else if exact {
                return Err((source.to_owned(), show(&received)));
            }
        }
    }

    /// Checks that the server has closed and has sent nothing unexpected.
    fn closed(&mut self, connection: usize) -> Result<(), Difference> {
        let expected = || "nothing more, and the end of the connection".to_owned();
        let Connection { mut received, mut closed } =
            self.connections.remove(&connection).unwrap_or_default();
        while received.is_empty() && !closed {
            match self.peer.receive(connection, &mut received).map_err(|error| (expected(), error))? {
                ReceivedOutput::Some => {}
                ReceivedOutput::Nothing => return Err((expected(), "an open connection".to_owned())),
                ReceivedOutput::Closed => closed = true,
            }
        }
        self.connections.insert(connection, Connection { received: Vec::new(), closed });
        if received.is_empty() { Ok(()) } else { Err((expected(), show(&received))) }
    }

    fn finish(mut self) -> Result<(), Difference> {
        let open: Vec<usize> = self.connections.keys().copied().collect();
        open.into_iter().try_for_each(|connection| self.close(connection))
    }

    /// Removes the expected extent from the front of the received output, and waits for it if necessary.
    fn take(&mut self, connection: usize, extent: Extent, expected: &str) -> Result<Vec<u8>, Difference> {
        let state = self.connections.entry(connection).or_default();
        loop {
            let end = match extent {
                Extent::Bytes(count) => (state.received.len() >= count).then_some(count),
                Extent::Lines(count) => nth_line_end(&state.received, count),
            };
            if let Some(end) = end {
                return Ok(state.received.drain(..end).collect());
            }
            let difference = |got: String| (show(expected.as_bytes()), got);
            let outcome = if state.closed {
                ReceivedOutput::Closed
            } else {
                self.peer.receive(connection, &mut state.received).map_err(difference)?
            };
            match outcome {
                ReceivedOutput::Some => {}
                ReceivedOutput::Nothing => return Err(difference(format!("only {}", show(&state.received)))),
                ReceivedOutput::Closed => {
                    state.closed = true;
                    return Err(difference(format!("{} and a closed connection", show(&state.received))));
                }
            }
        }
    }
}

/// The end of the `count`th line.
fn nth_line_end(bytes: &[u8], count: usize) -> Option<usize> {
    bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').nth(count - 1).map(|(index, _)| index + 1)
}

/// Bytes as readable text, without the middle of very long ones.
fn show(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 400;
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    if bytes.is_empty() {
        "nothing".to_owned()
    } else if bytes.len() <= SHOWN_MAX {
        format!("\"{}\"", text(bytes))
    } else {
        let half = SHOWN_MAX / 2;
        format!("\"{}…{}\" ({} bytes)", text(&bytes[..half]), text(&bytes[bytes.len() - half..]), bytes.len())
    }
}

#[cfg(test)]
mod tests;
