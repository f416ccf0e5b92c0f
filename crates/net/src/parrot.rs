//! A handler for tests. It repeats every line, except these:
//!
//! ```text
//! hold N    N times `h` from held memory, and a line end
//! copy N    the same with `c`, copied
//! body N    N bytes follow, received into memory of the handler's; the reply is their number and sum
//! spin N    N lines, one a turn
//! watch     a line with each tick, for ever
//! quit      closes
//! tell N T  the line T to connection N, which is answered with how much that one has not been sent
//! pause 0   says nothing more until somebody says `wake` with its number
//! wake N    see there
//! end N     closes connection N
//! alarm MS  `alarm`, so many milliseconds after the last time that it was set
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use stdx::clock::Now;
use stdx::gather::Gather;

use crate::handler::{Activity, CloseReason, Handler, Next, Opened, Progress};
use crate::turn::{Link, Turn};

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
    links: BTreeMap<u64, Link>,
    /// When to say it, and to whom.
    alarms: Vec<(Now, Link)>,
}

impl Parrot {
    /// One that tells nobody.
    pub(crate) fn alone() -> Parrot {
        Parrot::new(std::sync::mpsc::channel().0)
    }

    pub(crate) fn new(tell: Sender<Told>) -> Parrot {
        Parrot { tell, links: BTreeMap::new(), alarms: Vec::new() }
    }
}

pub(crate) struct Speech {
    id: u64,
    link: Link,
    mood: Mood,
}

enum Mood {
    Repeating,
    Swallowing {
        memory: Vec<u8>,
        filled: usize,
    },
    Spinning {
        left: usize,
    },
    Watching,
    /// Until it is woken up.
    Pausing,
}

impl Handler for Parrot {
    type Connection = Speech;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, _turn: &mut Turn<Vec<u8>>) -> Speech {
        self.links.insert(opened.id.0, opened.link);
        let _nobody_listens = self.tell.send(Told::Opened(opened.id.0));
        Speech { id: opened.id.0, link: opened.link, mood: Mood::Repeating }
    }

    fn on_bytes(
        &mut self,
        speech: &mut Speech,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let mut consumed = 0;
        let mut lines = 0;
        let next = loop {
            let left = &input[consumed..];
            match &mut speech.mood {
                Mood::Pausing => {
                    speech.mood = Mood::Repeating;
                    break Next::Wait;
                }
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
                    if self.obey(speech, &left[..end], output, turn) {
                        continue;
                    }
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
        _turn: &mut Turn<Vec<u8>>,
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

    fn on_close(&mut self, speech: Speech, reason: CloseReason, _turn: &mut Turn<Vec<u8>>) {
        self.links.remove(&speech.id);
        let _nobody_listens = self.tell.send(Told::Closed(speech.id, reason));
    }
}

impl Parrot {
    /// Does what a line asks for that is about other connections, or time; `false` if it does not.
    fn obey(
        &mut self,
        speech: &mut Speech,
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
            ("pause", _) => speech.mood = Mood::Pausing,
            ("alarm", _) => self.alarms.push((Now { us: turn.now().us + number * 1000 }, speech.link)),
            _ => return false,
        }
        true
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
