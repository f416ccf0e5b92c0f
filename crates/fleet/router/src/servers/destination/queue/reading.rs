//! The replies of a server, read for the exchanges that wait for them.
//!
//! Each is checked against its request: a server that answers without being asked, with another key or another kind of
//! reply is not trusted with the following ones, either.

use protocol::client::{ErrorKind, Line, Parsed, ReturnFlags, parse};

use super::super::exchange::{Exchange, LateFailover, ReplyKind, ReplyTarget};
use super::super::large::LargeReply;
use super::ExchangeQueue;
use crate::client::{ReplyBytes, VALUE_MAX};
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::message::request::without_line_end;

/// Values from this length on are received into memory of their own. Together with its line a shorter one fits the
/// network's buffers.
const LARGE_MIN: usize = 12 * 1024;

/// Digits of the longest number. Only `ma` has a value that a quiet request does not report.
const NUMBER_LEN_MAX: usize = 20;

const LINE_END: &[u8] = b"\r\n";
const VALUE_AND_END: &[u8] = b"\r\nEND\r\n";

/// A reply, or the part of one that is about one key.
pub(crate) struct Delivery<'a> {
    pub(crate) target: ReplyTarget,
    pub(crate) operation: Option<Operation>,
    pub(crate) outcome: Outcome,
    pub(crate) answer: ReplyBytes<'a>,
    /// It is an error, and this route is to be asked for [`ExchangeQueue::take_failed_key`].
    pub(crate) late_failover: Option<LateFailover>,
}

/// What a server sent is not a reply to what it was asked: what was found, and what was expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) found: String,
    pub(crate) expected: &'static str,
}

impl Malformed {
    fn new(found: &[u8], expected: &'static str) -> Malformed {
        let shown = &found[..found.len().min(protocol::limits::FOUND_SHOWN_MAX)];
        Malformed { found: shown.escape_ascii().to_string(), expected }
    }
}

/// Result of reading the start of the input.
pub(crate) enum Read<'a> {
    /// More bytes are needed.
    Incomplete,
    /// The input has been consumed up to here, and nothing is to be delivered.
    Nothing { consumed: usize },
    /// Something is to be delivered.
    Deliver { consumed: usize, delivery: Delivery<'a> },
}

impl ExchangeQueue {
    /// Reads at the start of `input`. A line that is not forwarded as it was received is written to `scratch`.
    pub(crate) fn read<'a>(
        &mut self,
        input: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Read<'a>, Malformed> {
        let Some(exchange) = self.exchanges.front().copied() else {
            return match input {
                [] => Ok(Read::Incomplete),
                _ => Err(Malformed::new(input, "nothing: all requests have been answered")),
            };
        };
        let parsed = parse(input).map_err(|error| Malformed::new(error.found, error.accepted))?;
        let Parsed::Head { line, consumed, .. } = parsed else { return Ok(Read::Incomplete) };
        let reading = Reading { exchange, line, input, consumed };
        match exchange.expected {
            ReplyKind::Values => self.values(reading, scratch),
            ReplyKind::Line => self.line(reading),
            ReplyKind::Meta { strip, quiet } => self.meta(reading, strip, quiet, scratch),
            ReplyKind::Version => self.version(reading),
        }
    }

    /// The large reply is whole.
    pub(crate) fn finish_large(&mut self) -> Result<Delivery<'static>, Malformed> {
        let large = self.large.take().expect("a large reply that is whole");
        let is_last = large.is_last;
        let outcome = if large.is_refused { Outcome::LocalError } else { Outcome::Found };
        let exchange = *self.exchanges.front().expect("it belongs to the first exchange");
        let output = large.into_output().ok_or(Malformed {
            found: "other bytes".to_owned(),
            expected: "the end of a reply after a large value",
        })?;
        let mut target = exchange.target;
        let late_failover = self.late_failover(outcome);
        if is_last {
            self.finish();
        } else {
            let part = self.take_token();
            self.exchanges[0].keys -= 1;
            if let ReplyTarget::Values(client, slot) = target {
                target = ReplyTarget::Part(client, slot, part);
            }
        }
        let answer = ReplyBytes::Gathered(output);
        Ok(Delivery { target, operation: exchange.operation, outcome, answer, late_failover })
    }

    /// The route to ask after this outcome of the first key without an answer.
    #[inline]
    fn late_failover(&mut self, outcome: Outcome) -> Option<LateFailover> {
        let exchange = self.exchanges.front()?;
        let late = exchange.late_failover.filter(|_| outcome.is_error() && exchange.keys > 0)?;
        self.failed_key.clear();
        self.failed_key.extend_from_slice(self.tokens.at(0)?.client_key());
        Some(late)
    }

    /// Removes the first token, and returns its part.
    fn take_token(&mut self) -> u32 {
        let token = self.tokens.at(0).expect("a token for each key");
        let (size, part) = (token.size(), token.part);
        self.tokens.pop(size);
        if self.expired > 0 {
            self.expired_tokens -= size;
        }
        part
    }

    /// The first exchange is complete.
    fn finish(&mut self) {
        let exchange = self.exchanges.pop_front().expect("an exchange");
        self.shadows -= usize::from(exchange.is_shadow);
        if exchange.is_noted
            && let Some(hot) = &mut self.hot
        {
            hot.end_first();
        }
        for _ in 0..exchange.keys {
            self.take_token();
        }
        self.expired = self.expired.saturating_sub(1);
    }

    fn deliver<'a>(
        &mut self,
        reading: &Reading<'_, '_>,
        consumed: usize,
        outcome: Outcome,
        answer: ReplyBytes<'a>,
    ) -> Read<'a> {
        let Exchange { target, operation, .. } = reading.exchange;
        let late_failover = self.late_failover(outcome);
        self.finish();
        Read::Deliver { consumed, delivery: Delivery { target, operation, outcome, answer, late_failover } }
    }

    fn line<'a>(&mut self, reading: Reading<'a, 'a>) -> Result<Read<'a>, Malformed> {
        let operation = reading.exchange.operation.expect("a request about a key");
        let outcome = outcome_of_line(operation, &reading.line)
            .ok_or_else(|| Malformed::new(reading.raw(), "a reply that suits the request"))?;
        Ok(self.deliver(&reading, reading.consumed, outcome, ReplyBytes::Copied(reading.raw())))
    }

    fn version<'a>(&mut self, reading: Reading<'a, 'a>) -> Result<Read<'a>, Malformed> {
        match reading.line {
            Line::Version(_) => {
                Ok(self.deliver(&reading, reading.consumed, Outcome::Done, ReplyBytes::Copied(b"")))
            }
            _ => Err(Malformed::new(reading.raw(), "VERSION")),
        }
    }

    /// Values, in the order of keys. Keys that are left out are misses.
    fn values<'a>(
        &mut self,
        reading: Reading<'a, 'a>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Read<'a>, Malformed> {
        let exchange = reading.exchange;
        let value = match reading.line {
            Line::Value(value) => value,
            Line::End if exchange.keys == 0 || !matches!(exchange.target, ReplyTarget::Values(..)) => {
                return Ok(self.deliver(
                    &reading,
                    reading.consumed,
                    Outcome::NotFound,
                    ReplyBytes::Copied(reading.raw()),
                ));
            }
            Line::End => return Ok(self.part(&reading, 0, Outcome::NotFound, ReplyBytes::Copied(b""))),
            Line::Error { kind, line } => {
                let outcome = outcome_of_error(kind, line);
                let answer = ReplyBytes::Copied(reading.raw());
                if matches!(exchange.target, ReplyTarget::Values(..)) && exchange.keys > 0 {
                    return Ok(self.part(&reading, 0, outcome, answer));
                }
                return Ok(self.deliver(&reading, reading.consumed, outcome, answer));
            }
            _ => return Err(Malformed::new(reading.raw(), "VALUE or END")),
        };
        let token = (exchange.keys > 0).then(|| self.tokens.at(0).expect("a token for each key"));
        let Some(token) = token else {
            return Err(Malformed::new(reading.raw(), "END: all keys have been answered"));
        };
        if token.sent != value.key {
            // Of several keys, this one may have been left out.
            if exchange.keys == 1 {
                return Err(Malformed::new(reading.raw(), "the key of the request"));
            }
            return Ok(match exchange.target {
                ReplyTarget::Values(..) => self.part(&reading, 0, Outcome::NotFound, ReplyBytes::Copied(b"")),
                _ => {
                    self.take_token();
                    self.exchanges[0].keys -= 1;
                    Read::Nothing { consumed: 0 }
                }
            });
        }
        let head: &[u8] = match token.shown {
            [] => reading.raw(),
            shown => {
                scratch.clear();
                scratch.extend_from_slice(b"VALUE ");
                scratch.extend_from_slice(shown);
                scratch.extend_from_slice(&reading.raw()[b"VALUE ".len() + value.key.len()..]);
                &*scratch
            }
        };
        let is_alone = exchange.keys == 1 && !matches!(exchange.target, ReplyTarget::Values(..));
        let end = if is_alone { VALUE_AND_END } else { LINE_END };
        if value.len >= LARGE_MIN {
            check_len(value.len, &reading)?;
            self.large = Some(LargeReply::new(head, value.len, end, is_alone));
            return Ok(Read::Nothing { consumed: reading.consumed });
        }
        let whole = reading.consumed + value.len + end.len();
        let Some(body) = reading.input.get(reading.consumed..whole) else { return Ok(Read::Incomplete) };
        if !body.ends_with(end) {
            return Err(Malformed::new(&body[value.len..], "the end of a reply after a value"));
        }
        let answer = if token.shown.is_empty() {
            ReplyBytes::Copied(&reading.input[..whole])
        } else {
            scratch.extend_from_slice(body);
            ReplyBytes::Copied(scratch)
        };
        Ok(match is_alone {
            true => self.deliver(&reading, whole, Outcome::Found, answer),
            false => self.part(&reading, whole, Outcome::Found, answer),
        })
    }

    /// Delivers what is about the first of several keys.
    fn part<'a>(
        &mut self,
        reading: &Reading<'_, '_>,
        consumed: usize,
        outcome: Outcome,
        answer: ReplyBytes<'a>,
    ) -> Read<'a> {
        let late_failover = self.late_failover(outcome);
        let part = self.take_token();
        self.exchanges[0].keys -= 1;
        let Exchange { target, operation, .. } = reading.exchange;
        let target = match target {
            ReplyTarget::Values(client, slot) => ReplyTarget::Part(client, slot, part),
            target => target,
        };
        Read::Deliver { consumed, delivery: Delivery { target, operation, outcome, answer, late_failover } }
    }

    fn meta<'a>(
        &mut self,
        reading: Reading<'a, 'a>,
        strip: bool,
        quiet: bool,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Read<'a>, Malformed> {
        let operation = reading.exchange.operation.expect("a request about a key");
        let Some((outcome, flags)) = outcome_of_meta(operation, &reading.line) else {
            return Err(Malformed::new(reading.raw(), "a meta reply that suits the request"));
        };
        let token = self.tokens.at(0).expect("a token for each meta request");
        let opaque = match flags.map(opaque_of) {
            Some(Ok(opaque)) => opaque,
            None => None,
            Some(Err(Repeated)) => return Err(Malformed::new(reading.raw(), "each flag once")),
        };
        // Errors repeat no opaque, and neither do misses of some versions.
        let may_lack =
            flags.is_none_or(|flags| flags.as_written().is_empty() && outcome == Outcome::NotFound);
        match opaque {
            Some(opaque) if opaque == token.sent => {}
            None if may_lack || operation == Operation::MetaDebug => {}
            _ => return Err(Malformed::new(reading.raw(), "the opaque of the request")),
        }
        if quiet && is_usual(operation, outcome) {
            return Ok(match reading.line.body() {
                None => self.deliver(&reading, reading.consumed, outcome, ReplyBytes::Copied(b"")),
                Some(len) if len > NUMBER_LEN_MAX => {
                    return Err(Malformed::new(reading.raw(), "a number of at most 20 digits"));
                }
                Some(len) => {
                    let whole = reading.consumed + len + LINE_END.len();
                    match reading.input.get(reading.consumed..whole) {
                        None => Read::Incomplete,
                        Some(body) if !body.ends_with(LINE_END) => {
                            return Err(Malformed::new(&body[len..], "the line end after a value"));
                        }
                        Some(_) => self.deliver(&reading, whole, outcome, ReplyBytes::Copied(b"")),
                    }
                }
            });
        }
        let changed = flags.filter(|_| strip || !token.shown.is_empty());
        let head: &[u8] = match changed {
            None => reading.raw(),
            Some(flags) => {
                rewrite_meta(reading.raw(), flags, strip, token.shown, scratch);
                &*scratch
            }
        };
        if let Line::Debug { key, .. } = reading.line
            && !token.shown.is_empty()
        {
            scratch.clear();
            scratch.extend_from_slice(b"ME ");
            scratch.extend_from_slice(token.shown);
            scratch.extend_from_slice(&reading.raw()[b"ME ".len() + key.len()..]);
            return Ok(self.deliver(&reading, reading.consumed, outcome, ReplyBytes::Copied(scratch)));
        }
        let Some(len) = reading.line.body() else {
            let answer = if changed.is_some() {
                ReplyBytes::Copied(scratch)
            } else {
                ReplyBytes::Copied(reading.raw())
            };
            return Ok(self.deliver(&reading, reading.consumed, outcome, answer));
        };
        if len >= LARGE_MIN {
            check_len(len, &reading)?;
            self.large = Some(LargeReply::new(head, len, LINE_END, true));
            return Ok(Read::Nothing { consumed: reading.consumed });
        }
        let whole = reading.consumed + len + LINE_END.len();
        let Some(body) = reading.input.get(reading.consumed..whole) else { return Ok(Read::Incomplete) };
        if !body.ends_with(LINE_END) {
            return Err(Malformed::new(&body[len..], "the line end after a value"));
        }
        let answer = if changed.is_some() {
            scratch.extend_from_slice(body);
            ReplyBytes::Copied(scratch)
        } else {
            ReplyBytes::Copied(&reading.input[..whole])
        };
        Ok(self.deliver(&reading, whole, outcome, answer))
    }
}

/// A line at the start of the input, and the exchange that it answers.
#[derive(Clone, Copy)]
struct Reading<'a, 'l> {
    exchange: Exchange,
    line: Line<'l>,
    input: &'a [u8],
    consumed: usize,
}

impl<'a> Reading<'a, '_> {
    /// The line with its end.
    fn raw(&self) -> &'a [u8] {
        &self.input[..self.consumed]
    }
}

/// The router holds a whole value: a server must not make it hold too much.
fn check_len(len: usize, reading: &Reading<'_, '_>) -> Result<(), Malformed> {
    const { assert!(VALUE_MAX == 128 << 20, "the message says the limit") };
    if len > VALUE_MAX {
        return Err(Malformed::new(reading.raw(), "a value of at most 128 MiB"));
    }
    Ok(())
}

/// A reply names a flag twice. No server does: two of its replies have become one line, which may even have the right opaque.
struct Repeated;

/// The opaque of a meta reply, if it has one.
fn opaque_of(flags: ReturnFlags<'_>) -> Result<Option<&[u8]>, Repeated> {
    let (mut seen, mut opaque) = (0_u128, None);
    for (letter, argument) in flags.words() {
        let flag = 1 << (letter & 0x7f);
        if seen & flag != 0 {
            return Err(Repeated);
        }
        seen |= flag;
        if letter == b'O' {
            opaque = Some(argument);
        }
    }
    Ok(opaque)
}

/// Writes a meta reply's line without the opaque, if it is the router's, and with the client's own key.
fn rewrite_meta(raw: &[u8], flags: ReturnFlags<'_>, strip: bool, shown: &[u8], out: &mut Vec<u8>) {
    out.clear();
    // The code, and the length of a value.
    let words = if raw.starts_with(b"VA ") { 2 } else { 1 };
    let head = raw.split(|byte| *byte == b' ').take(words).map(|word| word.len() + 1).sum::<usize>() - 1;
    out.extend_from_slice(without_line_end(&raw[..head.min(raw.len())]));
    for (letter, argument) in flags.words() {
        match letter {
            b'O' if strip => continue,
            b'k' if !shown.is_empty() => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(shown);
            }
            _ => {
                out.extend_from_slice(&[b' ', letter]);
                out.extend_from_slice(argument);
            }
        }
    }
    out.extend_from_slice(LINE_END);
}

/// Whether a quiet request has no reply after this outcome (protocol.txt, flag `q`).
pub(crate) fn is_usual(operation: Operation, outcome: Outcome) -> bool {
    match operation {
        Operation::MetaGet => outcome == Outcome::NotFound,
        Operation::MetaSet(_) => outcome == Outcome::Stored,
        Operation::MetaDelete => outcome == Outcome::Deleted,
        Operation::MetaArithmetic(_) => outcome == Outcome::Done,
        _ => false,
    }
}

fn outcome_of_error(kind: ErrorKind, line: &[u8]) -> Outcome {
    match kind {
        ErrorKind::Client => Outcome::ClientError,
        ErrorKind::Error => Outcome::RemoteError,
        // The numbers with which mcrouter's servers say that another server should be asked.
        ErrorKind::Server => match line.strip_prefix(b"SERVER_ERROR ").unwrap_or_default() {
            [b'3', b'0', b'1', b' ', ..] => Outcome::Shutdown,
            [b'3', b'0', b'2', b' ', ..] => Outcome::TryAgain,
            [b'3', b'0', b'7', b' ', ..] => Outcome::Busy,
            _ => Outcome::RemoteError,
        },
    }
}

/// The outcome of a classic reply that is one line; `None` if it does not suit the operation.
fn outcome_of_line(operation: Operation, line: &Line<'_>) -> Option<Outcome> {
    let outcome = match *line {
        Line::Error { kind, line } => return Some(outcome_of_error(kind, line)),
        Line::Stored => Outcome::Stored,
        Line::NotStored => Outcome::NotStored,
        Line::Exists => Outcome::Exists,
        Line::NotFound => Outcome::NotFound,
        Line::Deleted => Outcome::Deleted,
        Line::Touched => Outcome::Touched,
        Line::Number(_) => Outcome::Done,
        Line::Ok if operation == Operation::FlushAll => return Some(Outcome::Done),
        _ => return None,
    };
    if operation == Operation::FlushAll {
        return None;
    }
    let suits = match operation.class() {
        OperationClass::Update => {
            matches!(outcome, Outcome::Stored | Outcome::NotStored | Outcome::Exists | Outcome::NotFound)
        }
        OperationClass::Delete => matches!(outcome, Outcome::Deleted | Outcome::NotFound),
        OperationClass::Arithmetic => matches!(outcome, Outcome::Done | Outcome::NotFound),
        OperationClass::Touch => matches!(outcome, Outcome::Touched | Outcome::NotFound),
        OperationClass::Get => false,
    };
    suits.then_some(outcome)
}

/// The outcome of a meta reply and its flags; `None` if it does not suit the operation.
fn outcome_of_meta<'a>(operation: Operation, line: &Line<'a>) -> Option<(Outcome, Option<ReturnFlags<'a>>)> {
    Some(match (*line, operation.class()) {
        (Line::Error { kind, line }, _) => (outcome_of_error(kind, line), None),
        (Line::Debug { .. }, _) if operation == Operation::MetaDebug => (Outcome::Found, None),
        (Line::MetaValue { flags, .. }, OperationClass::Get) => (Outcome::Found, Some(flags)),
        (Line::MetaValue { flags, .. }, OperationClass::Arithmetic) => (Outcome::Done, Some(flags)),
        (Line::Header(flags), class) => (
            match class {
                OperationClass::Get => Outcome::Found,
                OperationClass::Update => Outcome::Stored,
                OperationClass::Delete => Outcome::Deleted,
                OperationClass::Arithmetic | OperationClass::Touch => Outcome::Done,
            },
            Some(flags),
        ),
        (Line::Miss(flags), OperationClass::Get) => (Outcome::NotFound, Some(flags)),
        (Line::MetaNotStored(flags), OperationClass::Update | OperationClass::Arithmetic) => {
            (Outcome::NotStored, Some(flags))
        }
        (
            Line::MetaExists(flags),
            OperationClass::Update | OperationClass::Delete | OperationClass::Arithmetic,
        ) => (Outcome::Exists, Some(flags)),
        (
            Line::MetaNotFound(flags),
            OperationClass::Update | OperationClass::Delete | OperationClass::Arithmetic,
        ) => (Outcome::NotFound, Some(flags)),
        _ => return None,
    })
}
