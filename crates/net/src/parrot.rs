//! A handler for tests. It repeats every line, except these:
//!
//! ```text
//! hold N    N times `h` from held memory, and a line end
//! copy N    the same with `c`, copied
//! body N    N bytes follow, received into memory of the handler's; the reply is their number and sum
//! spin N    N lines, one a turn
//! watch     a line with each tick, for ever
//! quit      closes
//! ```

use std::sync::mpsc::Sender;

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::handler::{Activity, CloseReason, Handler, Next, Opened, Progress};

/// Lines repeated in one turn.
pub(crate) const LINES_PER_TURN_MAX: usize = 8;

/// What a parrot tells the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Opened(u64),
    Closed(u64, CloseReason),
}

pub(crate) struct Parrot {
    /// Where to tell; nobody may be listening.
    pub(crate) tell: Sender<Told>,
}

impl Parrot {
    /// One that tells nobody.
    pub(crate) fn alone() -> Parrot {
        Parrot { tell: std::sync::mpsc::channel().0 }
    }
}

pub(crate) struct Speech {
    id: u64,
    mood: Mood,
}

enum Mood {
    Repeating,
    Swallowing { memory: Vec<u8>, filled: usize },
    Spinning { left: usize },
    Watching,
}

impl Handler for Parrot {
    type Connection = Speech;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _now: Now) -> Speech {
        let _nobody_listens = self.tell.send(Told::Opened(opened.id.0));
        Speech { id: opened.id.0, mood: Mood::Repeating }
    }

    fn on_bytes(
        &mut self,
        speech: &mut Speech,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _now: Now,
    ) -> Progress {
        let mut consumed = 0;
        let mut lines = 0;
        let next = loop {
            let left = &input[consumed..];
            match &mut speech.mood {
                Mood::Watching => {
                    output.copy(b"tick\n");
                    break Next::Later;
                }
                Mood::Spinning { left } => {
                    output.copy(format!("{left}\n").as_bytes());
                    *left -= 1;
                    if *left == 0 {
                        speech.mood = Mood::Repeating;
                    }
                    break Next::Again;
                }
                Mood::Swallowing { memory, filled } => {
                    let len = left.len().min(memory.len() - *filled);
                    memory[*filled..][..len].copy_from_slice(&left[..len]);
                    *filled += len;
                    consumed += len;
                    if *filled < memory.len() {
                        break Next::Read;
                    }
                    speech.finish_body(output);
                }
                Mood::Repeating => {
                    let Some(end) = left.iter().position(|&byte| byte == b'\n') else { break Next::Read };
                    if lines == LINES_PER_TURN_MAX {
                        break Next::Again;
                    }
                    lines += 1;
                    consumed += end + 1;
                    if !speech.obey(&left[..end], output) {
                        break Next::Close(CloseReason::Normal);
                    }
                }
            }
        };
        Progress { consumed, next }
    }

    fn body<'c>(&mut self, speech: &'c mut Speech) -> Option<&'c mut [u8]> {
        match &mut speech.mood {
            Mood::Swallowing { memory, filled } => Some(&mut memory[*filled..]),
            _ => None,
        }
    }

    fn on_body(
        &mut self,
        speech: &mut Speech,
        received: usize,
        output: &mut Gather<Vec<u8>>,
        _now: Now,
    ) -> Next {
        let Mood::Swallowing { memory, filled } = &mut speech.mood else { panic!("no body was expected") };
        *filled += received;
        if *filled == memory.len() {
            speech.finish_body(output);
        }
        Next::Read
    }

    fn activity(&self, speech: &Speech) -> Activity {
        match speech.mood {
            Mood::Swallowing { .. } => Activity::Body,
            Mood::Watching => Activity::Watching,
            _ => Activity::Reading,
        }
    }

    fn on_close(&mut self, speech: Speech, reason: CloseReason, _now: Now) {
        let _nobody_listens = self.tell.send(Told::Closed(speech.id, reason));
    }
}

impl Speech {
    /// Does what a line asks for; `false` to close.
    fn obey(&mut self, line: &[u8], output: &mut Gather<Vec<u8>>) -> bool {
        let text = String::from_utf8_lossy(line);
        let (word, number) = text.split_once(' ').unwrap_or((&text, ""));
        match (word, number.parse::<usize>()) {
            ("quit", _) => return false,
            ("watch", _) => self.mood = Mood::Watching,
            ("spin", Ok(left)) if left > 0 => self.mood = Mood::Spinning { left },
            ("body", Ok(len)) if len > 0 => {
                self.mood = Mood::Swallowing { memory: vec![0; len], filled: 0 };
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
        let Mood::Swallowing { memory, .. } = &self.mood else { panic!("no body is there") };
        output.copy(body_reply(memory).as_bytes());
        self.mood = Mood::Repeating;
    }
}

/// The reply to a body.
pub(crate) fn body_reply(body: &[u8]) -> String {
    let sum: u64 = body.iter().map(|&byte| u64::from(byte)).sum();
    format!("{} {sum}\n", body.len())
}
