//! The lines of replies, told apart by their first byte and then by the word that it begins.

use memchr::memchr;

use super::reply::MalformedReply;
use super::returned::ReturnFlags;
use crate::limits::{KEY_LEN_MAX, REPLY_BODY_LEN_MAX, REPLY_NUMBER_LEN_MAX};

/// A line of a reply, without its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// `VALUE <key> <flags> <len>[ <cas>]`: a body of `len` bytes follows.
    Value(Value<'a>),
    /// `VA <len> <flags>*`: a body of `len` bytes follows.
    MetaValue {
        /// Length of the value, without the line end.
        len: usize,
        /// The facts that the request asked for.
        flags: ReturnFlags<'a>,
    },
    /// `END`: after the values of a `get`, after statistics, after a dump.
    End,
    /// `STORED`
    Stored,
    /// `NOT_STORED`
    NotStored,
    /// `EXISTS`: the item's CAS is another one.
    Exists,
    /// `NOT_FOUND`
    NotFound,
    /// `DELETED`
    Deleted,
    /// `TOUCHED`
    Touched,
    /// `OK`
    Ok,
    /// `RESET`: the statistics were reset.
    Reset,
    /// Only digits: the value of a counter.
    Number(u64),
    /// `VERSION <text>`
    Version(&'a [u8]),
    /// `STAT <name> <value>`; the value may have spaces, or be missing.
    Stat {
        /// Up to the first space.
        name: &'a [u8],
        /// What follows it.
        value: &'a [u8],
    },
    /// `HD`: done, or found.
    Header(ReturnFlags<'a>),
    /// `EN`: `mg` or `me` found nothing. Also the end of a `mgdump`.
    Miss(ReturnFlags<'a>),
    /// `NS`: not stored.
    MetaNotStored(ReturnFlags<'a>),
    /// `EX`: the item's CAS is another one.
    MetaExists(ReturnFlags<'a>),
    /// `NF`: no such item.
    MetaNotFound(ReturnFlags<'a>),
    /// `MN`: all earlier requests have been answered.
    Noop,
    /// `ME <key> <name>=<value>*`
    Debug {
        /// As in the line: in base64 if the item was stored with a base64 key.
        key: &'a [u8],
        /// The pairs, with single spaces between them.
        facts: &'a [u8],
    },
    /// `BUSY <text>`: this task is running already, and only one at a time may run.
    Busy(&'a [u8]),
    /// `ERROR`, `CLIENT_ERROR <text>` or `SERVER_ERROR <text>`.
    Error {
        /// Which one.
        kind: ErrorKind,
        /// The whole line.
        line: &'a [u8],
    },
    /// Any other line. From memcached: rows of dumps, events for watchers, and errors of administrative commands other
    /// than `BUSY` (`BADCLASS …` and others).
    Unknown(&'a [u8]),
}

/// The line before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// The client's flags: 32 bits, or 64 where memcached was built for that.
    pub flags: u64,
    /// Length of the value, without the line end.
    pub len: usize,
    /// If the request asked for it (`gets`, `gats`).
    pub cas: Option<u64>,
}

/// The first word of an error line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// `ERROR`: no such command; or `ERROR <text>`, from a server that has too many connections and closes this one, or
    /// has no dump to offer.
    Error,
    /// `CLIENT_ERROR`
    Client,
    /// `SERVER_ERROR`
    Server,
}

impl Line<'_> {
    /// The length of the body after the line, without the body's own line end.
    #[inline]
    pub fn body(&self) -> Option<usize> {
        match *self {
            Line::Value(Value { len, .. }) | Line::MetaValue { len, .. } => Some(len),
            _ => None,
        }
    }
}

/// Parses a line without its line end.
///
/// A line that only begins like a known one is unknown. It is an error if it leaves open whether a body follows, or if
/// its number is malformed.
#[inline]
pub(super) fn classify(line: &[u8]) -> Result<Line<'_>, MalformedReply<'_>> {
    Ok(match line {
        [b'V', rest @ ..] => return starting_with_v(rest, line),
        b"STORED" => Line::Stored,
        [b'E', b'N', b'D'] => Line::End,
        [b'E', b'N', rest @ ..] => meta_reply(rest, line, Line::Miss),
        [b'E', b'X', b'I', b'S', b'T', b'S'] => Line::Exists,
        [b'E', b'X', rest @ ..] => meta_reply(rest, line, Line::MetaExists),
        [b'E', b'R', b'R', b'O', b'R', rest @ ..] => error(ErrorKind::Error, rest, line),
        [b'H', b'D', rest @ ..] => meta_reply(rest, line, Line::Header),
        [b'S', rest @ ..] => return starting_with_s(rest, line),
        [b'N', b'O', b'T', b'_', rest @ ..] => match rest {
            b"FOUND" => Line::NotFound,
            b"STORED" => Line::NotStored,
            _ => Line::Unknown(line),
        },
        [b'N', b'S', rest @ ..] => meta_reply(rest, line, Line::MetaNotStored),
        [b'N', b'F', rest @ ..] => meta_reply(rest, line, Line::MetaNotFound),
        [b'M', b'N'] => Line::Noop,
        [b'M', b'E', b' ', rest @ ..] => {
            let (key, facts) = word(rest);
            Line::Debug { key, facts }
        }
        [b'0'..=b'9', ..] => return starting_with_digit(line),
        b"DELETED" => Line::Deleted,
        b"TOUCHED" => Line::Touched,
        _ => rare(line),
    })
}

/// `VALUE`, `VA` and `VERSION`, after the first letter.
#[inline]
fn starting_with_v<'a>(rest: &'a [u8], line: &'a [u8]) -> Result<Line<'a>, MalformedReply<'a>> {
    match rest {
        [b'A', b'L', b'U', b'E', b' ', rest @ ..] => {
            value(rest).map(Line::Value).ok_or(MalformedReply { found: line, accepted: VALUE })
        }
        [b'A', b' ', rest @ ..] => match length(rest) {
            Some((len, [])) => Ok(Line::MetaValue { len, flags: ReturnFlags::NONE }),
            Some((len, [b' ', flags @ ..])) => Ok(Line::MetaValue { len, flags: ReturnFlags::new(flags) }),
            _ => Err(MalformedReply { found: line, accepted: META_VALUE }),
        },
        [b'E', b'R', b'S', b'I', b'O', b'N', b' ', version @ ..] => Ok(Line::Version(version)),
        // A body would follow, of unknown length.
        b"A" => Err(MalformedReply { found: line, accepted: META_VALUE }),
        b"ALUE" => Err(MalformedReply { found: line, accepted: VALUE }),
        _ => Ok(Line::Unknown(line)),
    }
}

const VALUE: &str = "VALUE with a key of 1 to 250 bytes, flags and a length of at most 2 GiB, perhaps a CAS";
const META_VALUE: &str = "VA with a length of at most 2 GiB, perhaps flags";

#[inline]
fn value(text: &[u8]) -> Option<Value<'_>> {
    let (key, text) = text.split_at(memchr(b' ', text).filter(|len| (1..=KEY_LEN_MAX).contains(len))?);
    let (flags, text) = number(&text[1..])?;
    let (len, text) = length(text.strip_prefix(b" ")?)?;
    let cas = match text {
        [] => None,
        _ => match number(text.strip_prefix(b" ")?)? {
            (cas, []) => Some(cas),
            _ => return None,
        },
    };
    Some(Value { key, flags, len, cas })
}

/// `STAT` and `SERVER_ERROR`, after the first letter.
#[inline]
fn starting_with_s<'a>(rest: &'a [u8], line: &'a [u8]) -> Result<Line<'a>, MalformedReply<'a>> {
    Ok(match rest {
        [b'T', b'A', b'T', b' ', rest @ ..] => match word(rest) {
            ([], _) => return Err(MalformedReply { found: line, accepted: "STAT with a name" }),
            (name, value) => Line::Stat { name, value },
        },
        [b'E', b'R', b'V', b'E', b'R', b'_', b'E', b'R', b'R', b'O', b'R', rest @ ..] => {
            error(ErrorKind::Server, rest, line)
        }
        _ => Line::Unknown(line),
    })
}

/// A line that begins with a digit.
#[inline]
fn starting_with_digit(line: &[u8]) -> Result<Line<'_>, MalformedReply<'_>> {
    match number(line) {
        Some((number, [])) => Ok(Line::Number(number)),
        None if line.iter().all(u8::is_ascii_digit) => {
            Err(MalformedReply { found: line, accepted: "a number of 64 bits, in at most 20 digits" })
        }
        _ => Ok(Line::Unknown(line)),
    }
}

/// Lines that are rare under load.
#[cold]
fn rare(line: &[u8]) -> Line<'_> {
    match line {
        b"OK" => Line::Ok,
        b"RESET" => Line::Reset,
        [b'B', b'U', b'S', b'Y', b' ', text @ ..] => Line::Busy(text),
        [b'C', b'L', b'I', b'E', b'N', b'T', b'_', b'E', b'R', b'R', b'O', b'R', rest @ ..] => {
            error(ErrorKind::Client, rest, line)
        }
        _ => Line::Unknown(line),
    }
}

/// A meta reply of two letters, with flags or without.
#[inline]
fn meta_reply<'a>(rest: &'a [u8], line: &'a [u8], code: fn(ReturnFlags<'a>) -> Line<'a>) -> Line<'a> {
    match rest {
        [] => code(ReturnFlags::NONE),
        [b' ', flags @ ..] => code(ReturnFlags::new(flags)),
        _ => Line::Unknown(line),
    }
}

/// memcached writes one of its errors with a colon after the first word.
#[cold]
fn error<'a>(kind: ErrorKind, rest: &'a [u8], line: &'a [u8]) -> Line<'a> {
    match rest {
        [] | [b' ' | b':', ..] => Line::Error { kind, line },
        _ => Line::Unknown(line),
    }
}

/// The text before the first space, and the text after it.
#[inline]
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b' ', text) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

/// The length of a body at the start of `text`, and what follows it.
#[inline]
fn length(text: &[u8]) -> Option<(usize, &[u8])> {
    let (len, rest) = number(text)?;
    let len = usize::try_from(len).ok().filter(|&len| len <= REPLY_BODY_LEN_MAX)?;
    Some((len, rest))
}

/// The digits at the start of `text`, and what follows them.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    let mut len = 0;
    while let Some(digit @ 0..=9) = text.get(len).map(|byte| byte.wrapping_sub(b'0')) {
        if len == REPLY_NUMBER_LEN_MAX {
            return None;
        }
        // Only the last of so many digits can overflow.
        number = match len < REPLY_NUMBER_LEN_MAX - 1 {
            true => number * 10 + u64::from(digit),
            false => number.checked_mul(10)?.checked_add(u64::from(digit))?,
        };
        len += 1;
    }
    (len > 0).then(|| (number, &text[len..]))
}
