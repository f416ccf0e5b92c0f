//! Null proxy: decides nothing.
//!
//! Each client has a connection of its own to a back end, chosen in turn. The proxy parses only as much of the text
//! protocol as it needs to find the ends of requests and replies, copies whole ones, and so sends once to each peer in
//! a turn.

use std::collections::VecDeque;

use net::{CloseReason, Dial, Handler, Link, Next, Opened, Origin, Place, Progress, Turn, Unreachable};
use stdx::gather::Gather;

/// Time limit for connecting to a back end.
const DIAL_TIMEOUT_MS: u32 = 1000;

/// Bytes that a peer has not taken, beyond which nothing more is received for it until it has taken all of them.
const BLOCKED_MAX: usize = 1 << 20;

/// The longest valid line: a get with many keys.
const LINE_MAX: usize = 8 * 1024;

/// Clients and their back ends.
pub(crate) struct NullProxy {
    places: Vec<Place>,
    next_place: usize,
    pairs: Vec<Pair>,
    free: VecDeque<usize>,
}

/// A client and its connection to a back end.
#[derive(Default)]
struct Pair {
    client: Option<Link>,
    back_end: Option<Link>,
    dialling: bool,
    /// The dial failed. The client is told when it sends a request: a reply that overtakes the request would be lost
    /// with the connection.
    refused: Option<Unreachable>,
}

/// One of the two ends of a pair.
pub(crate) struct PairEnd {
    pair: usize,
    is_client: bool,
    /// Bytes of a body, with its line end, that are still to be forwarded.
    body_left: usize,
}

impl NullProxy {
    /// A proxy for these back ends.
    pub(crate) fn new(places: Vec<Place>) -> NullProxy {
        NullProxy { places, next_place: 0, pairs: Vec::new(), free: VecDeque::new() }
    }

    /// The other end of a pair.
    fn other(&self, end: &PairEnd) -> Option<Link> {
        let pair = &self.pairs[end.pair];
        if end.is_client { pair.back_end } else { pair.client }
    }

    fn new_client(&mut self, client: Link, turn: &mut Turn<Vec<u8>>) -> usize {
        let number = self.free.pop_front().unwrap_or_else(|| {
            self.pairs.push(Pair::default());
            self.pairs.len() - 1
        });
        let place = self.places[self.next_place % self.places.len()].clone();
        self.next_place += 1;
        let dialled = turn.dial(Dial { place, timeout_ms: DIAL_TIMEOUT_MS, tls: None }, number as u64);
        let (dialling, refused) = (dialled.is_ok(), dialled.err());
        self.pairs[number] = Pair { client: Some(client), back_end: None, dialling, refused };
        number
    }

    /// Handles input of an end whose other end is not there (yet or any more).
    fn without_other(&self, end: &PairEnd, input: &[u8], output: &mut Gather<Vec<u8>>) -> Progress {
        match self.pairs[end.pair].refused {
            _ if !end.is_client => Progress { consumed: input.len(), next: Next::Read },
            Some(why) if !input.is_empty() => {
                output.copy(format!("SERVER_ERROR back end: {why}\r\n").as_bytes());
                Progress { consumed: input.len(), next: Next::Close(CloseReason::Normal) }
            }
            Some(_) => Progress { consumed: 0, next: Next::Read },
            None => Progress { consumed: 0, next: Next::Wait },
        }
    }

    /// Makes a pair of which nothing is left available again.
    fn let_go(&mut self, number: usize) {
        let pair = &self.pairs[number];
        if pair.client.is_none() && pair.back_end.is_none() && !pair.dialling {
            self.free.push_back(number);
        }
    }
}

impl Handler for NullProxy {
    type Connection = PairEnd;
    type Held = Vec<u8>;

    fn on_open(&mut self, opened: &Opened, turn: &mut Turn<Vec<u8>>) -> PairEnd {
        match opened.origin {
            Origin::Accepted { .. } => {
                PairEnd { pair: self.new_client(opened.link, turn), is_client: true, body_left: 0 }
            }
            Origin::Dialled { tag } => {
                let number = tag as usize;
                let pair = &mut self.pairs[number];
                (pair.back_end, pair.dialling) = (Some(opened.link), false);
                match pair.client {
                    Some(client) => turn.wake(client),
                    None => turn.abort(opened.link),
                }
                PairEnd { pair: number, is_client: false, body_left: 0 }
            }
        }
    }

    fn on_unreachable(&mut self, tag: u64, why: Unreachable, turn: &mut Turn<Vec<u8>>) {
        let pair = &mut self.pairs[tag as usize];
        (pair.dialling, pair.refused) = (false, Some(why));
        match pair.client {
            Some(client) => turn.wake(client),
            None => self.let_go(tag as usize),
        }
    }

    #[inline]
    fn on_bytes(
        &mut self,
        end: &mut PairEnd,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        let Some(other) = self.other(end) else { return self.without_other(end, input, output) };
        if turn.blocked(other) > BLOCKED_MAX {
            return Progress { consumed: 0, next: Next::Wait };
        }
        let Some(consumed) = whole(end, input) else {
            return Progress { consumed: 0, next: Next::Close(CloseReason::Error) };
        };
        if let Some(output) = turn.output(other) {
            output.copy(&input[..consumed]);
        }
        Progress { consumed, next: Next::Read }
    }

    fn on_drained(&mut self, end: &mut PairEnd, turn: &mut Turn<Vec<u8>>) {
        if let Some(other) = self.other(end) {
            turn.wake(other);
        }
    }

    fn on_close(&mut self, end: PairEnd, _reason: CloseReason, turn: &mut Turn<Vec<u8>>) {
        let pair = &mut self.pairs[end.pair];
        if end.is_client {
            pair.client = None;
            pair.back_end.into_iter().for_each(|back_end| turn.abort(back_end));
        } else {
            pair.back_end = None;
            // Its last output is sent first.
            pair.client.into_iter().for_each(|client| turn.close(client));
        }
        self.let_go(end.pair);
    }
}

/// How much of `input` can be forwarded: whole lines, and bodies as they come. `None` for an invalid line.
fn whole(end: &mut PairEnd, input: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let body = end.body_left.min(input.len() - at);
        at += body;
        end.body_left -= body;
        let left = &input[at..];
        let Some(len) = left.iter().position(|&byte| byte == b'\n') else {
            return (left.len() <= LINE_MAX).then_some(at);
        };
        end.body_left = body_len(&left[..len], end.is_client)?;
        at += len + 1;
    }
}

/// The length of the body that follows a line, with its line end: of `set key flags exptime BYTES`, `VALUE key flags
/// BYTES` and the like. `None` for an invalid length.
fn body_len(line: &[u8], is_request: bool) -> Option<usize> {
    let verb_ends = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let place = match (&line[..verb_ends], is_request) {
        (b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas", true) => 4,
        (b"VALUE", false) => 3,
        _ => return Some(0),
    };
    let number = line.trim_ascii_end().split(|&byte| byte == b' ').nth(place)?;
    let len: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some(len as usize + 2)
}
