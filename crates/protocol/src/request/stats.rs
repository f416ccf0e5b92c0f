//! `stats` and what may follow it.
//!
//! memcached takes any beginning of most topics for the topic: `stats r` resets.

use super::Request;
use crate::limits::SLAB_CLASSES;
use crate::number;
use crate::reply::line;
use crate::words::{Sentence, Words};

/// What `stats` is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsTopic {
    /// Nothing: the general statistics.
    General,
    /// `reset`
    Reset,
    /// `detail`; or the error, which stands back behind "not allowed".
    Detail(Result<DetailCommand, &'static [u8]>),
    /// `settings`
    Settings,
    /// `cachedump`; or the error, which stands back behind "not allowed".
    Cachedump(Result<Cachedump, &'static [u8]>),
    /// `conns`
    Connections,
    /// `extstore`
    Extstore,
    /// `items`
    Items,
    /// `slabs`
    Slabs,
    /// `sizes`
    Sizes,
    /// None that memcached knows: `ERROR`, unless the server has topics of its own.
    Other,
}

/// `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailCommand {
    /// Count by prefix.
    On,
    /// Do not.
    Off,
    /// Print the counts.
    Dump,
}

/// `stats cachedump`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cachedump {
    /// The slab class.
    pub class: u32,
    /// At most so many items; 0 is all.
    pub limit: u32,
}

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
