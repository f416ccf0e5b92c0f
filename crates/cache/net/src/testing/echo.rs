//! A handler for tests that echoes every line, except these commands:
//!
//! ```text
//! hold N    N times `h` from held memory, and a line end
//! copy N    N times `c`, copied, and a line end
//! body N    N bytes follow, received into memory of the handler; the reply is their number and sum
//! spin N    N lines, one in each turn
//! watch     a line with each tick, without end
//! quit      closes
//! tell N T  the line T to connection N; the reply is the number of unsent bytes of that one
//! pause 0   no further output until another connection sends `wake` with this one's number
//! wake N    see `pause`
//! end N     closes connection N
//! alarm MS  the line `alarm`, MS milliseconds later
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::event_loop::turn::{Link, Turn};
use crate::handler::{Activity, CloseReason, Handler, Next, Opened, Progress};

/// Lines echoed in one turn.
pub(crate) const LINES_PER_TURN_MAX: usize = 8;

/// An event that the handler reports to the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EchoEvent {
    Opened(u64),
    Closed(u64, CloseReason),
}

pub(crate) struct EchoHandler {
    /// The test's channel; it may be closed.
    pub(crate) tell: Sender<EchoEvent>,
    links: BTreeMap<u64, Link>,
    /// When to send it, and to which connection.
    alarms: Vec<(Now, Link)>,
}

impl EchoHandler {
    /// One without a test that reads its events.
    pub(crate) fn alone() -> EchoHandler {
        EchoHandler::new(std::sync::mpsc::channel().0)
    }

    pub(crate) fn new(tell: Sender<EchoEvent>) -> EchoHandler {
        EchoHandler { tell, links: BTreeMap::new(), alarms: Vec::new() }
    }
}

pub(crate) struct EchoConnection {
    id: u64,
    link: Link,
    state: EchoState,
}

enum EchoState {
    Repeating,
    Swallowing {
        memory: Vec<u8>,
        filled: usize,
    },
    Spinning {
        left: usize,
    },
    Watching,
    /// Until it is woken.
    Pausing,
}

impl Handler for EchoHandler {
    type Connection = EchoConnection;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Vec<u8>>) -> EchoConnection {
        self.links.insert(opened.id.0, opened.link);
        let _closed = self.tell.send(EchoEvent::Opened(opened.id.0));
        EchoConnection { id: opened.id.0, link: opened.link, state: EchoState::Repeating }
    }

    fn on_bytes(
        &mut self,
        connection: &mut EchoConnection,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let mut consumed = 0;
        let mut lines = 0;
        let next = loop {
            let left = &input[consumed..];
            match &mut connection.state {
                EchoState::Pausing => {
                    connection.state = EchoState::Repeating;
                    break Next::Wait;
                }
                EchoState::Watching => {
                    output.copy(b"tick\n");
                    break Next::Later;
                }
                EchoState::Spinning { left } => {
                    output.copy(format!("{left}\n").as_bytes());
                    *left -= 1;
                    if *left == 0 {
                        connection.state = EchoState::Repeating;
                    }
                    break Next::Again;
                }
                EchoState::Swallowing { memory, filled } => {
                    let len = left.len().min(memory.len() - *filled);
                    memory[*filled..][..len].copy_from_slice(&left[..len]);
                    *filled += len;
                    consumed += len;
                    if *filled < memory.len() {
                        break Next::Read;
                    }
                    connection.finish_body(output);
                }
                EchoState::Repeating => {
                    let Some(end) = left.iter().position(|&byte| byte == b'\n') else { break Next::Read };
                    if lines == LINES_PER_TURN_MAX {
                        break Next::Again;
                    }
                    lines += 1;
                    consumed += end + 1;
                    if self.obey(connection, &left[..end], output, turn) {
                        continue;
                    }
                    if !connection.obey(&left[..end], output) {
                        break Next::Close(CloseReason::Normal);
                    }
                }
            }
        };
        Progress { consumed, next }
    }

    fn body<'c>(&mut self, connection: &'c mut EchoConnection) -> Option<&'c mut [u8]> {
        match &mut connection.state {
            EchoState::Swallowing { memory, filled } => Some(&mut memory[*filled..]),
            _ => None,
        }
    }

    fn on_body(
        &mut self,
        connection: &mut EchoConnection,
        received: usize,
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Next {
        let EchoState::Swallowing { memory, filled } = &mut connection.state else {
            panic!("no body was expected")
        };
        *filled += received;
        if *filled == memory.len() {
            connection.finish_body(output);
        }
        Next::Read
    }

    fn pack(&self, connection: &EchoConnection) -> Option<Vec<u8>> {
        matches!(connection.state, EchoState::Repeating).then(|| b"repeating".to_vec())
    }

    fn unpack(&mut self, _connection: &mut EchoConnection, state: &[u8]) -> bool {
        state == b"repeating"
    }

    fn activity(&self, connection: &EchoConnection) -> Activity {
        match connection.state {
            EchoState::Swallowing { .. } => Activity::Body,
            EchoState::Watching => Activity::Watching,
            _ => Activity::Reading,
        }
    }

    fn deadline(&self) -> Option<Now> {
        self.alarms.iter().map(|(at, _)| *at).min()
    }

    fn on_deadline(&mut self, turn: &mut Turn<Vec<u8>>) {
        let now = turn.now();
        for (_, link) in self.alarms.extract_if(.., |(at, _)| *at <= now) {
            if let Some(output) = turn.output(link) {
                output.copy(b"alarm\n");
            }
        }
    }

    fn on_close(&mut self, connection: EchoConnection, reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {
        self.links.remove(&connection.id);
        let _closed = self.tell.send(EchoEvent::Closed(connection.id, reason));
    }
}

impl EchoHandler {
    /// Executes a command about other connections or time; `false` if the line is none.
    fn obey(
        &mut self,
        connection: &mut EchoConnection,
        line: &[u8],
        output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> bool {
        let text = String::from_utf8_lossy(line);
        let mut words = text.splitn(3, ' ');
        let (Some(word), number) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()))
        else {
            return false;
        };
        let Some(number) = number else { return false };
        let link = self.links.get(&number).copied();
        match (word, link) {
            ("tell", Some(link)) => {
                let Some(other) = turn.output(link) else { panic!("it has not been closed") };
                other.copy(words.next().unwrap_or_default().as_bytes());
                other.copy(b"\n");
                output.copy(format!("{} unsent\n", turn.unsent(link)).as_bytes());
            }
            ("tell", None) => output.copy(b"gone\n"),
            ("wake", Some(link)) => turn.wake(link),
            ("end", Some(link)) => turn.close(link),
            ("pause", _) => connection.state = EchoState::Pausing,
            ("alarm", _) => self.alarms.push((Now { us: turn.now().us + number * 1000 }, connection.link)),
            _ => return false,
        }
        true
    }
}

impl EchoConnection {
    /// Executes a command, or echoes the line; `false` to close.
    fn obey(&mut self, line: &[u8], output: &mut Gather<Vec<u8>>) -> bool {
        let text = String::from_utf8_lossy(line);
        let (word, number) = text.split_once(' ').unwrap_or((&text, ""));
        match (word, number.parse::<usize>()) {
            ("quit", _) => return false,
            ("watch", _) => self.state = EchoState::Watching,
            ("spin", Ok(left)) if left > 0 => self.state = EchoState::Spinning { left },
            ("body", Ok(len)) if len > 0 => {
                self.state = EchoState::Swallowing { memory: vec![0; len], filled: 0 };
            }
            ("hold", Ok(len)) => {
                output.hold(vec![b'h'; len]);
                output.copy(b"\n");
            }
            ("copy", Ok(len)) => {
                output.copy(&vec![b'c'; len]);
                output.copy(b"\n");
            }
            _ => {
                output.copy(line);
                output.copy(b"\n");
            }
        }
        true
    }

    fn finish_body(&mut self, output: &mut Gather<Vec<u8>>) {
        let EchoState::Swallowing { memory, .. } = &self.state else { panic!("no body is there") };
        output.copy(body_reply(memory).as_bytes());
        self.state = EchoState::Repeating;
    }
}

/// The reply to a body.
pub(crate) fn body_reply(body: &[u8]) -> String {
    let sum: u64 = body.iter().map(|&byte| u64::from(byte)).sum();
    format!("{} {sum}\n", body.len())
}
