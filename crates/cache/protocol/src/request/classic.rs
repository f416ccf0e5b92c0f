//! The classic commands that concern items: retrieval, storage, deletion, arithmetic, touch.
//!
//! Words after those that a command needs are ignored, except that a last word `noreply` always counts.

use super::types::{ArithmeticMode, Get, Refused, Request, Store, Verb};
use crate::key::{Key, Keys};
use crate::limits::VALUE_LEN_MAX;
use crate::number;
use crate::reply::line;
use crate::words::{Sentence, Words};

pub(super) fn get(line: &[u8], with_cas: bool) -> Result<Request<'_>, Refused> {
    let mut words = Words::of_line(line);
    words.next();
    let keys = keys_or_refusal(line, words)?;
    Ok(Request::Get(Get { with_cas, exptime: None, keys }))
}

pub(super) fn gat(line: &[u8], with_cas: bool) -> Result<Request<'_>, Refused> {
    let mut words = Words::of_line(line);
    words.next();
    let exptime = words.next().unwrap_or_default();
    let keys = keys_or_refusal(line, words)?;
    match number::i32_word(exptime) {
        Some(exptime) => Ok(Request::Get(Get { with_cas, exptime: Some(exptime), keys })),
        None => Err(Refused::line(line::INVALID_EXPTIME)),
    }
}

/// The keys are those of the whole line, of any length; but the first must be in the part that is searched for words.
fn keys_or_refusal<'a>(line: &'a [u8], words: Words<'a>) -> Result<Keys<'a>, Refused> {
    match words.clone().next() {
        Some(_) => Ok(Keys::within(&line[line.len() - words.rest().len()..])),
        None => Err(Refused::line(line::BAD_FORMAT)),
    }
}

pub(super) fn store(line: &[u8], verb: Verb) -> Result<Request<'_>, Refused> {
    let sentence = Sentence::of_line(line);
    // With a malformed length, no body can be discarded: it is parsed as commands.
    let len = sentence
        .word(4)
        .and_then(number::i32_word)
        .and_then(|len| usize::try_from(len).ok())
        .filter(|&len| len <= VALUE_LEN_MAX)
        .ok_or(Refused::line(line::BAD_FORMAT))?;
    let noreply = sentence.noreply();
    let store = || {
        let key = Key::from_word(sentence.word(1)?).ok()?;
        let flags = number::c_flags(sentence.rest_from(2))?;
        let exptime = number::c_exptime(sentence.rest_from(3))?;
        let verb = match verb {
            Verb::Cas(_) => Verb::Cas(sentence.word(5).and_then(number::u64_word)?),
            verb => verb,
        };
        Some(Store { verb, key, flags, exptime, len, noreply })
    };
    match store() {
        Some(store) => Ok(Request::Store(store)),
        None => Err(Refused::unless(noreply, line::BAD_FORMAT).with_body(len)),
    }
}

pub(super) fn delete(line: &[u8]) -> Result<Request<'_>, Refused> {
    let (sentence, noreply) = at_least(2, line)?;
    let key = key(&sentence)?;
    Ok(Request::Delete { key, noreply })
}

pub(super) fn arithmetic(line: &[u8], mode: ArithmeticMode) -> Result<Request<'_>, Refused> {
    let (sentence, noreply) = at_least(3, line)?;
    let key = key(&sentence)?;
    match sentence.word(2).and_then(number::u64_word) {
        Some(delta) => Ok(Request::Arithmetic { mode, key, delta, noreply }),
        None => Err(Refused::unless(noreply, line::INVALID_DELTA)),
    }
}

pub(super) fn touch(line: &[u8]) -> Result<Request<'_>, Refused> {
    let (sentence, noreply) = at_least(3, line)?;
    let key = key(&sentence)?;
    match sentence.word(2).and_then(number::i32_word) {
        Some(exptime) => Ok(Request::Touch { key, exptime, noreply }),
        None => Err(Refused::unless(noreply, line::INVALID_EXPTIME)),
    }
}

/// A line with too few words is answered even if `noreply` is one of them.
fn at_least(words: usize, line: &[u8]) -> Result<(Sentence<'_>, bool), Refused> {
    let sentence = Sentence::of_line(line);
    if sentence.count() < words {
        return Err(Refused::line(line::BAD_FORMAT));
    }
    let noreply = sentence.noreply();
    Ok((sentence, noreply))
}

fn key<'a>(sentence: &Sentence<'a>) -> Result<Key<'a>, Refused> {
    let word = sentence.word(1).unwrap_or_default();
    Key::from_word(word).map_err(|error| Refused::unless(sentence.noreply(), error.reply()))
}
