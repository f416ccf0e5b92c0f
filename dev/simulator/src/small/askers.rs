//! Connections that ask over the network: clients, and agents that ask the process beside them. Each has one connection and waits for
//! one answer at a time.

use net::Next;
use net::{CloseReason, Dial, Handler, Link, Opened, Origin, Place, Progress, Turn, Unreachable};
use stdx::gather::Gather;

/// Time for a connection.
const DIAL_MS: u32 = 500;

/// What came of a question, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) at_us: u64,
    /// `None` if the connection ended, or was never made.
    pub(super) text: Option<Vec<u8>>,
}

/// All of them on one host. Paths to it are never disturbed: clients and agents are near.
pub(super) struct Askers {
    all: Vec<Asker>,
}

struct Asker {
    place: Place,
    link: Option<Link>,
    is_dialling: bool,
    question: Option<Vec<u8>>,
    /// The question was sent, and its answer has not arrived.
    waits: bool,
    gives_up: bool,
    heard: Vec<u8>,
    answer: Option<Answer>,
}

impl Askers {
    pub(super) fn new(places: Vec<Place>) -> Askers {
        let asker = |place| Asker {
            place,
            link: None,
            is_dialling: false,
            question: None,
            waits: false,
            gives_up: false,
            heard: Vec::new(),
            answer: None,
        };
        Askers { all: places.into_iter().map(asker).collect() }
    }

    /// Lets one ask; the host is to be nudged. A question before that is forgotten, with its connection if it waits.
    pub(super) fn ask(&mut self, number: usize, question: &str) {
        let asker = &mut self.all[number];
        asker.gives_up = asker.waits;
        (asker.question, asker.answer) = (Some(question.as_bytes().to_vec()), None);
    }

    /// The answer, if there is one; once.
    pub(super) fn take(&mut self, number: usize) -> Option<Answer> {
        self.all[number].answer.take()
    }
}

impl Asker {
    fn lose(&mut self, at_us: u64) {
        if std::mem::take(&mut self.waits) || self.question.take().is_some() {
            self.answer = Some(Answer { at_us, text: None });
        }
        self.heard.clear();
    }

    fn say(&mut self, turn: &mut Turn<Vec<u8>>) {
        let Some(output) = self.link.and_then(|link| turn.output(link)) else { return };
        if let Some(question) = self.question.take() {
            output.copy(&question);
            self.waits = true;
        }
    }
}

impl Handler for Askers {
    type Connection = usize;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) -> usize {
        let Origin::Dialled { tag } = opened.origin else { unreachable!("nobody dials the askers") };
        let asker = &mut self.all[tag as usize];
        (asker.link, asker.is_dialling) = (Some(opened.link), false);
        asker.say(turn);
        tag as usize
    }

    fn on_bytes(
        &mut self,
        number: &mut usize,
        input: &[u8],
        _output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let asker = &mut self.all[*number];
        asker.heard.extend_from_slice(input);
        if asker.waits && is_whole(&asker.heard) {
            asker.waits = false;
            let text = Some(std::mem::take(&mut asker.heard));
            asker.answer = Some(Answer { at_us: turn.now().us, text });
        }
        Progress { consumed: input.len(), next: Next::Read }
    }

    fn on_close(&mut self, number: usize, _reason: CloseReason, turn: &mut Turn<Vec<u8>>) {
        let asker = &mut self.all[number];
        asker.link = None;
        // Who gave up asks again over another connection.
        if std::mem::take(&mut asker.gives_up) {
            (asker.waits, asker.heard) = (false, Vec::new());
        } else {
            asker.lose(turn.now().us);
        }
    }

    fn on_unreachable(&mut self, tag: u64, _why: Unreachable, turn: &mut Turn<Vec<u8>>) {
        let asker = &mut self.all[tag as usize];
        asker.is_dialling = false;
        asker.lose(turn.now().us);
    }

    fn end_turn(&mut self, turn: &mut Turn<Vec<u8>>) {
        for (number, asker) in self.all.iter_mut().enumerate().filter(|(_, asker)| asker.question.is_some()) {
            match asker.link {
                Some(link) if asker.gives_up => turn.abort(link),
                Some(_) => asker.say(turn),
                None if !asker.is_dialling => {
                    let dial = Dial { place: asker.place.clone(), timeout_ms: DIAL_MS, tls: None };
                    asker.is_dialling = turn.dial(dial, number as u64).is_ok();
                }
                None => {}
            }
        }
    }
}

/// Whether an answer of a text protocol has arrived as a whole.
fn is_whole(heard: &[u8]) -> bool {
    let has_list = heard.starts_with(b"VALUE ") || heard.starts_with(b"STAT ");
    if has_list { heard.ends_with(b"END\r\n") } else { heard.ends_with(b"\r\n") }
}
