//! The lines of replies, told apart by their first byte and then by the word that it begins.

use memchr::memchr;

use super::reply::Broken;
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
        /// What the request asked to be told.
        flags: ReturnFlags<'a>,
    },
    /// `END`: of the values of a `get`, of statistics, of a dump.
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
    /// `RESET`: of statistics.
    Reset,
    /// Digits alone: what a counter is at.
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
    /// `MN`: everything asked before has been answered.
    Noop,
    /// `ME <key> <name>=<value>*`
    Debug {
        /// As the line has it: in base64 where the item's key came so.
        key: &'a [u8],
        /// The pairs, with single spaces between them.
        facts: &'a [u8],
    },
    /// `BUSY <text>`: the server does already what only goes on once.
    Busy(&'a [u8]),
    /// `ERROR`, `CLIENT_ERROR <text>` or `SERVER_ERROR <text>`.
    Error {
        /// Which one.
        kind: ErrorKind,
        /// The whole line.
        line: &'a [u8],
    },
    /// Any other line. Of memcached: rows of dumps, events for watchers, and what administration is refused with beyond
    /// `BUSY` (`BADCLASS …` and others).
    Unknown(&'a [u8]),
}

/// What stands before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// 1 to 250 bytes.
    pub key: &'a [u8],
    /// The client's flags: 32 bits, or 64 where memcached was built for that.
    pub flags: u64,
    /// Length of the value, without the line end.
    pub len: usize,
    /// If it was asked for (`gets`, `gats`).
    pub cas: Option<u64>,
}

/// Who is to blame.
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
    /// The length of the body behind the line, without the line end that it has, too.
    #[inline]
    pub fn body(&self) -> Option<usize> {
        match *self {
            Line::Value(Value { len, .. }) | Line::MetaValue { len, .. } => Some(len),
            _ => None,
        }
    }
}

/// What a line says, whose end has been taken off.
///
/// A line that begins like a known one and does not go on like it is unknown, unless it leaves open whether a body
/// follows, or has a number that is none.
#[inline]
pub(super) fn classify(line: &[u8]) -> Result<Line<'_>, Broken<'_>> {
    Ok(match line {
        [b'V', rest @ ..] => return valued(rest, line),
        b"STORED" => Line::Stored,
        [b'E', b'N', b'D'] => Line::End,
        [b'E', b'N', rest @ ..] => returning(rest, line, Line::Miss),
        [b'E', b'X', b'I', b'S', b'T', b'S'] => Line::Exists,
        [b'E', b'X', rest @ ..] => returning(rest, line, Line::MetaExists),
        [b'E', b'R', b'R', b'O', b'R', rest @ ..] => error(ErrorKind::Error, rest, line),
        [b'H', b'D', rest @ ..] => returning(rest, line, Line::Header),
        [b'S', rest @ ..] => return told(rest, line),
        [b'N', b'O', b'T', b'_', rest @ ..] => match rest {
            b"FOUND" => Line::NotFound,
            b"STORED" => Line::NotStored,
            _ => Line::Unknown(line),
        },
        [b'N', b'S', rest @ ..] => returning(rest, line, Line::MetaNotStored),
        [b'N', b'F', rest @ ..] => returning(rest, line, Line::MetaNotFound),
        [b'M', b'N'] => Line::Noop,
        [b'M', b'E', b' ', rest @ ..] => {
            let (key, facts) = word(rest);
            Line::Debug { key, facts }
        }
        [b'0'..=b'9', ..] => return counted(line),
        b"DELETED" => Line::Deleted,
        b"TOUCHED" => Line::Touched,
        _ => seldom(line),
    })
}

/// `VALUE`, `VA` and `VERSION`, behind the first letter.
#[inline]
fn valued<'a>(rest: &'a [u8], line: &'a [u8]) -> Result<Line<'a>, Broken<'a>> {
    match rest {
        [b'A', b'L', b'U', b'E', b' ', rest @ ..] => {
            value(rest).map(Line::Value).ok_or(Broken { found: line, accepted: VALUE })
        }
        [b'A', b' ', rest @ ..] => match length(rest) {
            Some((len, [])) => Ok(Line::MetaValue { len, flags: ReturnFlags::NONE }),
            Some((len, [b' ', flags @ ..])) => Ok(Line::MetaValue { len, flags: ReturnFlags::new(flags) }),
            _ => Err(Broken { found: line, accepted: META_VALUE }),
        },
        [b'E', b'R', b'S', b'I', b'O', b'N', b' ', version @ ..] => Ok(Line::Version(version)),
        // A body would follow these.
        b"A" => Err(Broken { found: line, accepted: META_VALUE }),
        b"ALUE" => Err(Broken { found: line, accepted: VALUE }),
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

/// `STAT` and `SERVER_ERROR`, behind the first letter.
#[inline]
fn told<'a>(rest: &'a [u8], line: &'a [u8]) -> Result<Line<'a>, Broken<'a>> {
    Ok(match rest {
        [b'T', b'A', b'T', b' ', rest @ ..] => match word(rest) {
            ([], _) => return Err(Broken { found: line, accepted: "STAT with a name" }),
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
fn counted(line: &[u8]) -> Result<Line<'_>, Broken<'_>> {
    match number(line) {
        Some((number, [])) => Ok(Line::Number(number)),
        None if line.iter().all(u8::is_ascii_digit) => {
            Err(Broken { found: line, accepted: "a number of 64 bits, in at most 20 digits" })
        }
        _ => Ok(Line::Unknown(line)),
    }
}

/// What no load consists of.
#[cold]
fn seldom(line: &[u8]) -> Line<'_> {
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
fn returning<'a>(rest: &'a [u8], line: &'a [u8], code: fn(ReturnFlags<'a>) -> Line<'a>) -> Line<'a> {
    match rest {
        [] => code(ReturnFlags::NONE),
        [b' ', flags @ ..] => code(ReturnFlags::new(flags)),
        _ => Line::Unknown(line),
    }
}

/// memcached writes one of its errors with a colon behind the first word.
#[cold]
fn error<'a>(kind: ErrorKind, rest: &'a [u8], line: &'a [u8]) -> Line<'a> {
    match rest {
        [] | [b' ' | b':', ..] => Line::Error { kind, line },
        _ => Line::Unknown(line),
    }
}

/// What comes before the first space, and what comes after it.
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
        // Only the last of so many digits may be too much.
        number = match len < REPLY_NUMBER_LEN_MAX - 1 {
            true => number * 10 + u64::from(digit),
            false => number.checked_mul(10)?.checked_add(u64::from(digit))?,
        };
        len += 1;
    }
    (len > 0).then(|| (number, &text[len..]))
}
