//! `stats` and its topics.
//!
//! memcached accepts any prefix of most topics: `stats r` resets.

use super::types::{Cachedump, DetailCommand, Request, StatsTopic};
use crate::limits::SLAB_CLASSES;
use crate::number;
use crate::reply::line;
use crate::words::{Sentence, Words};

pub(super) fn parse(line: &[u8]) -> Request<'_> {
    let mut args = Words::of_line(line);
    args.next();
    Request::Stats { topic: topic(&Sentence::of_line(line)), args }
}

fn topic(sentence: &Sentence<'_>) -> StatsTopic {
    let is = |topic: &[u8]| sentence.abbreviates(1, topic);
    match sentence.word(1) {
        None => StatsTopic::General,
        _ if is(b"reset") => StatsTopic::Reset,
        _ if is(b"detail") => StatsTopic::Detail(detail(sentence)),
        _ if is(b"settings") => StatsTopic::Settings,
        _ if is(b"cachedump") => StatsTopic::Cachedump(cachedump(sentence)),
        _ if is(b"conns") => StatsTopic::Connections,
        _ if is(b"extstore") => StatsTopic::Extstore,
        Some(b"items") => StatsTopic::Items,
        Some(b"slabs") => StatsTopic::Slabs,
        Some(b"sizes") => StatsTopic::Sizes,
        Some(b"proxy" | b"proxyfuncs") => StatsTopic::Proxy,
        Some(b"evenkeel") if sentence.word(2) == Some(b"hot") => StatsTopic::HotKeys,
        Some(b"evenkeel") if sentence.word(2) == Some(b"times") => StatsTopic::Times,
        Some(_) => StatsTopic::Other,
    }
}

fn detail(sentence: &Sentence<'_>) -> Result<DetailCommand, &'static [u8]> {
    let is = |command: &[u8]| sentence.abbreviates(2, command);
    match () {
        () if is(b"on") => Ok(DetailCommand::On),
        () if is(b"off") => Ok(DetailCommand::Off),
        () if is(b"dump") => Ok(DetailCommand::Dump),
        () => Err(line::STATS_DETAIL_USAGE),
    }
}

fn cachedump(sentence: &Sentence<'_>) -> Result<Cachedump, &'static [u8]> {
    let (Some(class), Some(limit)) = (sentence.word(2), sentence.word(3)) else {
        return Err(line::BAD_LINE);
    };
    let (Some(class), Some(limit)) = (number::u32_word(class), number::u32_word(limit)) else {
        return Err(line::BAD_FORMAT);
    };
    if class >= SLAB_CLASSES {
        return Err(line::STATS_BAD_CLASS);
    }
    Ok(Cachedump { class, limit })
}
