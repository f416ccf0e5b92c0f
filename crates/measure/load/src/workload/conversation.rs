//! Conversation on one connection: pending requests, and the replies to them.

mod kind;
mod packets;

pub(crate) use kind::RequestKind;

use crate::measure::failures::FailureKind;
use crate::measure::tally::{Tally, printable};
use crate::types::error::Error;
use crate::types::mix::Command;
use crate::workload::items::Items;
use kind::{ReplyOutcome, outcome};
use protocol::client::{ErrorKind, Framer, Line, MalformedReply, PacketFramer, Piece, Value};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;

/// Matches the replies of a connection to its requests.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    framer: Framer,
    /// In the binary protocol, in place of `framer`; and whether the value of the latest packet is an item's.
    packets: PacketFramer,
    value_is_wanted: bool,
    ledger: Ledger,
    /// Something that is no reply has come: nothing more is read.
    is_broken: bool,
}

/// Requests that are not yet answered.
#[derive(Debug, Default)]
struct Ledger {
    pending: VecDeque<Pending>,
    /// The number of the next request, which only packets have.
    next_number: u32,
    /// Requests that were sent together, oldest first.
    batches: VecDeque<Batch>,
    /// Where items are tracked: those of all pending gets, in the order of the requests.
    asked: VecDeque<u64>,
    /// In an open loop: when each pending request should have been sent.
    intended: VecDeque<Intended>,
    body: Body,
    /// A key to compare with.
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Pending {
    kind: RequestKind,
    /// Values that have arrived.
    found: u32,
    /// Keys of a get without a value so far, and how many of these are before the place where the latest value was; only
    /// where items are tracked.
    unanswered: u32,
    passed: u32,
    /// The end of the key of a get that asks for one, where items are not tracked and the reply names it; of a set before
    /// the run, the item's number and one.
    key_end: Option<NonZeroU64>,
    /// An error line or a wrong value was part of the reply.
    has_failed: bool,
}

/// The last eight bytes of a key, in which numbered keys differ: enough to see that a server answers another request.
#[inline]
fn key_end(key: &[u8]) -> Option<NonZeroU64> {
    let end = match key.last_chunk() {
        Some(end) => u64::from_le_bytes(*end),
        None => key.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    };
    NonZeroU64::new(end)
}

/// How the reply to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Keys without a value are misses.
    Answered,
    /// A change that the item's state did not allow: it exists, or it does not.
    Declined,
    /// Nothing is known about keys without a value.
    Error,
}

#[derive(Clone, Copy, Debug)]
struct Intended {
    /// By the schedule.
    at_ns: u64,
    /// The earliest time at which it was due and a connection had room.
    possible_ns: u64,
}

#[derive(Debug)]
struct Batch {
    sent_ns: u64,
    left: u32,
}

/// The value that is arriving.
#[derive(Debug, Default)]
struct Body {
    /// The item that it should belong to; without verification, or for a wrong key, none.
    item: Option<u64>,
    offset: usize,
    wrong: bool,
}

/// The worker's state for reading replies.
pub(crate) struct ReplyContext<'a> {
    pub(crate) items: &'a Items,
    pub(crate) verify: bool,
    /// Whether the items of requests are tracked.
    pub(crate) track: bool,
    /// Replies are packets.
    pub(crate) packets: bool,
    /// Takes the items that were not found.
    pub(crate) missed: Option<&'a mut VecDeque<u64>>,
    pub(crate) done_ns: u64,
    /// If the kernel reports arrival times: how long it held them.
    pub(crate) unread_ns: Option<u64>,
    /// Of an open loop: only requests intended in here count.
    pub(crate) window_ns: Range<u64>,
    pub(crate) tally: &'a mut Tally,
}

impl Conversation {
    /// Requests on their way.
    #[inline]
    pub(crate) fn outstanding(&self) -> usize {
        self.ledger.pending.len()
    }

    /// The number of the next request.
    #[inline]
    pub(crate) fn next_number(&self) -> u32 {
        self.ledger.next_number
    }

    /// When the request was sent whose reply comes next.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.ledger.batches.front().map(|batch| batch.sent_ns)
    }

    /// A request was composed; the items of a get matter only where they are tracked.
    #[inline]
    pub(crate) fn expect(&mut self, kind: RequestKind) {
        self.ledger.expect(kind, None);
    }

    /// A get of one key was composed, whose item is not tracked. The reply has to be about that key.
    #[inline]
    pub(crate) fn expect_value(&mut self, kind: RequestKind, key: &[u8]) {
        self.ledger.expect(kind, key_end(key));
    }

    /// A set was composed that is repeated if its connection ends.
    #[inline]
    pub(crate) fn expect_stored(&mut self, kind: RequestKind, item: u64) {
        self.ledger.expect(kind, NonZeroU64::new(item + 1));
    }

    /// Where items are tracked: the latest request will ask for `item` too.
    #[inline]
    pub(crate) fn expect_item(&mut self, item: u64) {
        self.ledger.asked.push_back(item);
    }

    /// The latest request should have been sent at `at_ns` and could have been at `possible_ns`.
    #[inline]
    pub(crate) fn intend(&mut self, at_ns: u64, possible_ns: u64) {
        self.ledger.intended.push_back(Intended { at_ns, possible_ns });
    }

    /// The latest `requests` are sent together.
    #[inline]
    pub(crate) fn close_batch(&mut self, requests: usize) {
        self.ledger.batches.push_back(Batch { sent_ns: 0, left: requests as u32 });
    }

    /// The latest batch is about to be sent.
    #[inline]
    pub(crate) fn stamp(&mut self, sent_ns: u64) {
        if let Some(batch) = self.ledger.batches.back_mut() {
            batch.sent_ns = sent_ns;
        }
    }

    /// Pending requests will not be answered. Sets that are to be repeated go to `missed`, if that is there; the time of
    /// each other that counts is passed on, `None` without a schedule.
    #[cold]
    pub(crate) fn abandon(
        &mut self,
        mut missed: Option<&mut VecDeque<u64>>,
        window_ns: &Range<u64>,
        mut each: impl FnMut(Option<u64>),
    ) {
        let Ledger { pending, intended, .. } = &self.ledger;
        for (at, Pending { kind, key_end, .. }) in pending.iter().enumerate() {
            let at_ns = intended.get(at).map(|intended| intended.at_ns);
            match (kind, key_end, &mut missed) {
                (RequestKind::Change(..) | RequestKind::Refill(_), Some(item), Some(missed)) => {
                    missed.push_back(item.get() - 1);
                }
                (RequestKind::Refill(_), None, _) => {}
                _ if at_ns.is_none_or(|at_ns| window_ns.contains(&at_ns)) => each(at_ns),
                _ => {}
            }
        }
        *self = Conversation::default();
    }

    /// Whether any request was answered on this connection.
    pub(crate) fn has_answered(&self) -> bool {
        self.ledger.next_number as usize != self.ledger.pending.len()
    }

    /// Of an open loop: when the oldest pending request was due.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        self.ledger.intended.iter().map(|intended| intended.at_ns).min()
    }

    /// Pending requests that would count: no sets of missed items, and for an open loop those intended in the window.
    pub(crate) fn unanswered(&self, window_ns: &Range<u64>) -> u64 {
        let Ledger { pending, intended, .. } = &self.ledger;
        let counts = |at: usize| {
            intended.get(at).is_none_or(|intended: &Intended| window_ns.contains(&intended.at_ns))
        };
        let asked = |pending: &Pending| !matches!(pending.kind, RequestKind::Refill(_));
        pending.iter().enumerate().filter(|(at, pending)| asked(pending) && counts(*at)).count() as u64
    }

    /// Takes received bytes and counts the requests that they complete. After an error nothing more is read.
    #[inline]
    pub(crate) fn receive(&mut self, input: &[u8], reading: &mut ReplyContext<'_>) -> Result<(), Error> {
        if self.is_broken {
            return Ok(());
        }
        let received = match reading.packets {
            true => self.receive_packets(input, reading),
            false => self.receive_lines(input, reading),
        };
        self.is_broken = received.is_err();
        received
    }

    #[inline]
    fn receive_lines(&mut self, mut input: &[u8], reading: &mut ReplyContext<'_>) -> Result<(), Error> {
        while let Some(piece) = self.framer.next(&mut input).map_err(broken)? {
            match piece {
                Piece::Line { line, raw } => self.ledger.line(&line, raw, reading)?,
                Piece::Body { bytes, end } => self.ledger.body(bytes, end, reading),
            }
        }
        Ok(())
    }
}

impl Ledger {
    #[inline]
    fn expect(&mut self, kind: RequestKind, key_end: Option<NonZeroU64>) {
        self.next_number = self.next_number.wrapping_add(1);
        let unanswered = kind.keys();
        self.pending.push_back(Pending { kind, found: 0, unanswered, passed: 0, key_end, has_failed: false });
    }

    /// The number of the request at the front.
    #[inline]
    fn oldest(&self) -> u32 {
        self.next_number.wrapping_sub(self.pending.len() as u32)
    }

    #[inline]
    fn line(&mut self, line: &Line<'_>, raw: &[u8], reading: &mut ReplyContext<'_>) -> Result<(), Error> {
        let Some(&Pending { kind, found, key_end: asked, .. }) = self.pending.front() else {
            return Err(unexpected(raw, "nothing: no request is on its way"));
        };
        match (kind, line) {
            (RequestKind::Get { keys, .. }, Line::Value(Value { key, .. })) => {
                if found == keys {
                    return Err(unexpected(raw, "END: every key has its value"));
                }
                if asked.is_some() && asked != key_end(key) {
                    return Err(unexpected(raw, "VALUE with the key that was asked for"));
                }
                if reading.track {
                    self.find_item(Some(key), reading);
                }
            }
            (RequestKind::MetaGets { keys, .. }, Line::MetaValue { .. }) if found == keys => {
                return Err(unexpected(raw, "MN: every key has its value"));
            }
            (RequestKind::MetaGet(_) | RequestKind::MetaGets { .. }, Line::MetaValue { flags, .. }) => {
                if reading.track {
                    self.find_item(flags.key(), reading);
                }
            }
            (RequestKind::Get { .. }, Line::End)
            | (RequestKind::MetaGet(_), Line::Miss(_))
            | (RequestKind::MetaGets { .. }, Line::Noop) => {
                self.complete(Ending::Answered, reading);
            }
            // The connection exceeds the server's limit: the server closes it, whatever was asked.
            (kind, Line::Error { kind: ErrorKind::Error, line }) if *line != b"ERROR" => {
                return Err(unexpected(raw, kind.expected()));
            }
            (kind, Line::Error { line, .. }) => {
                reading.tally.error(line);
                self.fail();
                // Within quiet gets an error answers one key; `MN` still ends the request.
                if !matches!(kind, RequestKind::MetaGets { .. }) {
                    self.complete(Ending::Error, reading);
                }
            }
            (kind, line) => {
                let (command, protocol) = match kind {
                    RequestKind::Change(command, protocol) => (command, protocol),
                    RequestKind::Refill(protocol) => (Command::Set, protocol),
                    _ => return Err(unexpected(raw, kind.expected())),
                };
                match outcome(command, protocol, line) {
                    Some(ReplyOutcome::Done) => self.complete(Ending::Answered, reading),
                    Some(ReplyOutcome::Declined) => self.complete(Ending::Declined, reading),
                    None => return Err(unexpected(raw, kind.expected())),
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn body(&mut self, bytes: &[u8], end: bool, reading: &mut ReplyContext<'_>) {
        if reading.verify {
            self.verify(bytes, end, reading);
        }
        if let Some(pending) = self.pending.front_mut()
            && end
        {
            pending.found += 1;
            if matches!(pending.kind, RequestKind::MetaGet(_) | RequestKind::PacketGet(_)) {
                self.complete(Ending::Answered, reading);
            }
        }
    }

    fn verify(&mut self, bytes: &[u8], end: bool, reading: &mut ReplyContext<'_>) {
        let body = &mut self.body;
        let values = &reading.items.values;
        if let Some(item) = body.item {
            body.wrong |= !values.matches(item, body.offset, bytes);
            body.offset += bytes.len();
            body.wrong |= end && body.offset != values.size(item);
        }
        if end && body.wrong {
            reading.tally.wrong += 1;
            self.fail();
        }
    }

    /// The reply that is arriving is not as it should be.
    #[cold]
    fn fail(&mut self) {
        self.pending.iter_mut().take(1).for_each(|pending| pending.has_failed = true);
    }

    /// The reply to the request at the front is whole.
    #[inline]
    fn complete(&mut self, ending: Ending, reading: &mut ReplyContext<'_>) {
        let Some(Pending { kind, found, unanswered, has_failed, .. }) = self.pending.pop_front() else {
            return;
        };
        if reading.track {
            let unanswered = self.asked.drain(..unanswered as usize);
            if let Some(missed) = reading.missed.as_mut().filter(|_| ending == Ending::Answered) {
                missed.extend(unanswered);
            }
        }
        let sent_ns = self.sent();
        let intended = self.intended.pop_front();
        let tally = &mut *reading.tally;
        if matches!(kind, RequestKind::Refill(_)) {
            tally.refills += u64::from(reading.window_ns.contains(&reading.done_ns));
            return;
        }
        if intended.is_some_and(|intended| !reading.window_ns.contains(&intended.at_ns)) {
            return tally.outside(kind.keys());
        }
        tally.done[kind.command() as usize] += 1;
        match kind.keys() {
            0 => tally.declined[kind.command() as usize] += u64::from(ending == Ending::Declined),
            keys => {
                tally.keys_asked += u64::from(keys);
                tally.hits += u64::from(found);
                if ending == Ending::Answered {
                    tally.misses += u64::from(keys.saturating_sub(found));
                }
            }
        }
        if let Some(unread_ns) = reading.unread_ns {
            tally.unread(unread_ns);
        }
        // With a clock that was set meanwhile the reply may seem to come before its request.
        let done_ns = reading.done_ns.max(sent_ns);
        match intended {
            None => tally.took(done_ns, done_ns - sent_ns),
            Some(Intended { at_ns, possible_ns }) => {
                tally.took(at_ns, done_ns - at_ns);
                tally.waited(sent_ns - at_ns, sent_ns.saturating_sub(possible_ns), done_ns - sent_ns);
            }
        }
        // A refusal to store is no failure of an add or a replace.
        let is_refused = ending == Ending::Declined && kind.command() == Command::Set;
        if has_failed || is_refused {
            tally.fail(intended.map_or(done_ns, |intended| intended.at_ns), FailureKind::ErrorReply, 1);
        }
    }

    /// When the request at the front was sent.
    #[inline]
    fn sent(&mut self) -> u64 {
        let Some(batch) = self.batches.front_mut() else { return 0 };
        let sent_ns = batch.sent_ns;
        batch.left -= 1;
        if batch.left == 0 {
            self.batches.pop_front();
        }
        sent_ns
    }

    /// A server sends values in the order of the keys and leaves out missing ones, so the search begins where the
    /// latest one was. A proxy that asks several servers sends them as they come.
    fn find_item(&mut self, key: Option<&[u8]>, reading: &mut ReplyContext<'_>) {
        self.body = Body { item: None, offset: 0, wrong: true };
        let (Some(key), Some(pending)) = (key, self.pending.front_mut()) else { return };
        let (passed, unanswered) = (pending.passed as usize, pending.unanswered as usize);
        let Ledger { asked, scratch, .. } = self;
        let fits = |at: &usize| reading.items.keys.is(key, asked[*at], scratch);
        let Some(at) = (passed..unanswered).chain(0..passed).find(fits) else { return };
        (pending.passed, pending.unanswered) = (at as u32, pending.unanswered - 1);
        self.body = Body { item: asked.remove(at), offset: 0, wrong: false };
    }
}

#[cold]
fn broken(broken: MalformedReply<'_>) -> Error {
    Error::Reply { line: printable(broken.found), expected: broken.accepted }
}

#[cold]
fn unexpected(raw: &[u8], expected: &'static str) -> Error {
    let line = raw.strip_suffix(b"\n").unwrap_or(raw);
    Error::Reply { line: printable(line.strip_suffix(b"\r").unwrap_or(line)), expected }
}
