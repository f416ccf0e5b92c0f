//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.

use super::types::{ArithmeticMode, Refused, Request, SetMode};
use crate::base64;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::meta::{self, MetaFlags, MetaKey};
use crate::number;
use crate::reply::line;
use crate::words::Words;

/// `letter` is the second one of the command.
pub(super) fn parse(letter: u8, line: &[u8]) -> Result<Request<'_>, Refused> {
    let mut words = Words::of_line(line);
    words.next();
    let key = words.next().ok_or(Refused::line(line::BAD_FORMAT))?;
    match letter {
        b'g' => {
            let (key, flags) = parse_flags(key, words).map_err(Refused::line)?;
            Ok(Request::MetaGet { key, flags })
        }
        b's' => set(key, words),
        b'd' => {
            let (key, flags) = parse_flags(key, words).map_err(Refused::line)?;
            Ok(Request::MetaDelete { key, flags })
        }
        b'a' => arithmetic(key, words).map_err(Refused::line),
        _ => debug(key, words).map_err(Refused::line),
    }
}

fn parse_flags<'a>(key: &'a [u8], words: Words<'a>) -> Result<(MetaKey<'a>, MetaFlags<'a>), &'static [u8]> {
    let (key, flags) = meta::parse(key, words, 2)?;
    flags.check_opaque()?;
    Ok((key, flags))
}

fn set<'a>(key: &'a [u8], mut words: Words<'a>) -> Result<Request<'a>, Refused> {
    let len = words
        .next()
        .and_then(number::i32_word)
        .and_then(|len| usize::try_from(len).ok())
        .filter(|&len| len <= VALUE_LEN_MAX)
        .ok_or(Refused::line(line::BAD_FORMAT))?;
    // If a word's first character starts no flag, memcached sees no words at all, and so no length.
    if words.clone().any(|word| !meta::starts_flag(word)) {
        return Err(Refused::line(line::BAD_FORMAT));
    }
    let request = || {
        let (key, flags) = meta::parse(key, words, 3)?;
        let mode = SetMode::of_flag(flags.mode).ok_or(line::META_SET_BAD_MODE)?;
        flags.check_opaque()?;
        Ok(Request::MetaSet { key, flags, len, mode })
    };
    request().map_err(|reply| Refused::line(reply).with_body(len))
}

fn arithmetic<'a>(key: &'a [u8], words: Words<'a>) -> Result<Request<'a>, &'static [u8]> {
    if words.clone().any(|word| !meta::starts_flag(word)) {
        return Err(line::BAD_FORMAT);
    }
    // `ma` has one error for everything that is wrong with the flags.
    let (key, flags) = meta::parse(key, words, 2).map_err(|_| line::META_INVALID_OR_DUPLICATE_FLAG)?;
    let mode = ArithmeticMode::of_flag(flags.mode).ok_or(line::META_ARITHMETIC_BAD_MODE)?;
    flags.check_opaque()?;
    Ok(Request::MetaArithmetic { key, flags, mode })
}

/// `me` reads one flag only, and only if another word follows it.
fn debug<'a>(key: &'a [u8], mut words: Words<'a>) -> Result<Request<'a>, &'static [u8]> {
    let well_formed = words.clone().all(meta::starts_flag);
    if !well_formed || key.len() > KEY_LEN_MAX {
        return Err(line::BAD_FORMAT);
    }
    let binary = words.next() == Some(b"b") && words.next().is_some();
    if binary && base64::decode(key, &mut [0; KEY_LEN_MAX]).is_none() {
        return Err(line::BAD_FORMAT);
    }
    Ok(Request::MetaDebug { key: MetaKey::new(key, binary) })
}
