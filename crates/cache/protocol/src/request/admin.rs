//! The administrative commands.
//!
//! Most of them are recognised by their first word even on an indented line, and accept any prefix of an option for the
//! option. The server checks whether a command is allowed; memcached does so before it parses the arguments: where that
//! matters, the error is part of the request.

use super::types::{
    Automove, CrawlerClasses, ExtstoreKnob, LruCommand, LruCrawlerCommand, LruMode, Refused, Request,
    STREAM_NAMES, ShutdownMode, SlabsCommand, Streams,
};
use crate::discovery::DISCOVERY_NAME;
use crate::limits::{
    CRAWLER_SLEEP_US_MAX, MEMLIMIT_MEGABYTES_MAX, MEMLIMIT_MEGABYTES_MIN, SLAB_CLASSES, VERBOSITY_MAX,
};
use crate::number;
use crate::reply::line;
use crate::words::{Sentence, abbreviates};

pub(super) fn parse<'a>(sentence: &Sentence<'a>) -> Result<Request<'a>, Refused> {
    let noreply = sentence.noreply();
    let request = match sentence.word(0) {
        Some(b"flush_all") => Ok(Request::FlushAll { delay: flush_delay(sentence), noreply }),
        Some(b"verbosity") => verbosity(sentence).map(|level| Request::Verbosity { level, noreply }),
        Some(b"shutdown") => Ok(Request::Shutdown { mode: shutdown(sentence), noreply }),
        Some(b"cache_memlimit") => {
            cache_memlimit(sentence).map(|megabytes| Request::CacheMemlimit { megabytes, noreply })
        }
        Some(b"lru_crawler") => lru_crawler(sentence).map(|command| Request::LruCrawler { command, noreply }),
        Some(b"slabs") => slabs(sentence).map(|command| Request::Slabs { command, noreply }),
        Some(b"lru") => lru(sentence).map(|command| Request::Lru { command, noreply }),
        Some(b"extstore") => {
            extstore(sentence).map(|knob| Request::Extstore { knob, noreply }).ok_or(line::ERROR)
        }
        // Nothing else of `config` is known: clients only ask for this.
        Some(b"config")
            if sentence.count() == 3
                && sentence.word(1) == Some(b"get")
                && sentence.word(2) == Some(DISCOVERY_NAME) =>
        {
            Ok(Request::Discover)
        }
        Some(b"refresh_certs") => Ok(Request::RefreshCerts { noreply }),
        _ => return unknown(sentence),
    };
    request.map_err(|reply| Refused::unless(noreply, reply))
}

/// An unknown command: an error, or the end of the connection for an HTTP request. A browser or a program that was made to send one
/// speaks: lines behind it may be commands that somebody has hidden there.
fn unknown<'a>(sentence: &Sentence<'a>) -> Result<Request<'a>, Refused> {
    let has_version = sentence.last().is_some_and(|word| word.starts_with(b"HTTP/"));
    // Of HTTP/0.9, or damaged: memcached goes on.
    let has_path = sentence.word(0).is_some_and(|word| HTTP_METHODS.contains(&word))
        && sentence.word(1).is_some_and(|word| word.starts_with(b"/"));
    if sentence.count() > 1 && (has_version || has_path) {
        return Err(Refused::closing());
    }
    Err(Refused::unless(sentence.noreply(), line::ERROR))
}

const HTTP_METHODS: [&[u8]; 9] =
    [b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE"];

/// `watch` does not recognise `noreply`.
pub(super) fn watch<'a>(sentence: &Sentence<'a>) -> Request<'a> {
    let stream = |word: &[u8]| STREAM_NAMES.iter().position(|name| abbreviates(word, name.as_bytes()));
    let mut streams = Ok(if sentence.count() == 1 { Streams::FETCHERS } else { Streams::NONE });
    for number in 1..sentence.count() {
        let named = sentence.word(number).and_then(stream);
        streams = match (streams, named) {
            (Ok(streams), Some(bit)) => Ok(streams.union(Streams::from_bits(1 << bit))),
            _ => Err(line::ERROR),
        };
    }
    Request::Watch { streams }
}

fn u32_at(sentence: &Sentence<'_>, number: usize) -> Option<u32> {
    sentence.word(number).and_then(number::u32_word)
}

fn i32_at(sentence: &Sentence<'_>, number: usize) -> Option<i32> {
    sentence.word(number).and_then(number::i32_word)
}

fn f64_at(sentence: &Sentence<'_>, number: usize) -> Option<f64> {
    sentence.word(number).and_then(number::f64_word)
}

fn flush_delay(sentence: &Sentence<'_>) -> Result<i32, &'static [u8]> {
    let bare = 1 + usize::from(sentence.noreply());
    if sentence.count() == bare {
        return Ok(0);
    }
    i32_at(sentence, 1).ok_or(line::INVALID_EXPTIME)
}

fn verbosity(sentence: &Sentence<'_>) -> Result<u32, &'static [u8]> {
    u32_at(sentence, 1).map(|level| level.min(VERBOSITY_MAX)).ok_or(line::BAD_FORMAT)
}

fn shutdown(sentence: &Sentence<'_>) -> Result<ShutdownMode, &'static [u8]> {
    match sentence.count() {
        1 => Ok(ShutdownMode::Immediate),
        2 if sentence.abbreviates(1, b"graceful") => Ok(ShutdownMode::Graceful),
        _ => Err(line::SHUTDOWN_BAD_MODE),
    }
}

fn cache_memlimit(sentence: &Sentence<'_>) -> Result<u32, &'static [u8]> {
    match u32_at(sentence, 1).ok_or(line::ERROR)? {
        0..MEMLIMIT_MEGABYTES_MIN => Err(line::MEMLIMIT_TOO_SMALL),
        megabytes @ MEMLIMIT_MEGABYTES_MIN..=MEMLIMIT_MEGABYTES_MAX => Ok(megabytes),
        _ => Err(line::MEMLIMIT_NOT_MEGABYTES),
    }
}

fn lru_crawler(sentence: &Sentence<'_>) -> Result<LruCrawlerCommand, &'static [u8]> {
    let is = |option: &[u8]| sentence.abbreviates(1, option);
    let classes = || crawler_classes(sentence.word(2).unwrap_or_default());
    match sentence.count() {
        3 if is(b"crawl") => Ok(LruCrawlerCommand::Crawl(classes())),
        3 if is(b"metadump") => Ok(LruCrawlerCommand::Metadump(classes())),
        3 if is(b"mgdump") => Ok(LruCrawlerCommand::Mgdump(classes())),
        3 if is(b"tocrawl") => u32_at(sentence, 2).map(LruCrawlerCommand::Tocrawl).ok_or(line::BAD_FORMAT),
        3 if is(b"sleep") => match u32_at(sentence, 2).ok_or(line::BAD_FORMAT)? {
            pause @ 0..=CRAWLER_SLEEP_US_MAX => Ok(LruCrawlerCommand::Sleep(pause)),
            _ => Err(line::CRAWLER_LONG_SLEEP),
        },
        2 if is(b"enable") => Ok(LruCrawlerCommand::Enable),
        2 if is(b"disable") => Ok(LruCrawlerCommand::Disable),
        _ => Err(line::ERROR),
    }
}

/// A list of classes with commas between them; empty places do not count.
fn crawler_classes(word: &[u8]) -> Option<CrawlerClasses> {
    match word {
        b"all" => return Some(CrawlerClasses::All),
        b"hash" => return Some(CrawlerClasses::Hash),
        _ => {}
    }
    let mut classes = 0;
    for class in word.split(|&byte| byte == b',').filter(|class| !class.is_empty()) {
        match number::c_flags(class)? {
            class @ 1..SLAB_CLASSES => classes |= 1 << class,
            _ => return None,
        }
    }
    Some(CrawlerClasses::Some(classes))
}

fn slabs(sentence: &Sentence<'_>) -> Result<SlabsCommand, &'static [u8]> {
    let is = |option: &[u8]| sentence.abbreviates(1, option);
    match sentence.count() {
        4 if is(b"reassign") => {
            let classes = i32_at(sentence, 2).zip(i32_at(sentence, 3));
            Ok(SlabsCommand::Reassign(classes.ok_or(line::BAD_FORMAT)))
        }
        3.. if is(b"automove") => automove(sentence).map(SlabsCommand::Automove),
        _ => Err(line::ERROR),
    }
}

fn automove(sentence: &Sentence<'_>) -> Result<Automove, &'static [u8]> {
    let is = |option: &[u8]| sentence.abbreviates(2, option);
    if is(b"ratio") {
        f64_at(sentence, 3).map(Automove::Ratio).ok_or(line::ERROR)
    } else if is(b"freeratio") {
        f64_at(sentence, 3).map(Automove::FreeRatio).ok_or(line::ERROR)
    } else if is(b"window") {
        match u32_at(sentence, 3).ok_or(line::BAD_FORMAT)? {
            window @ 3..=1800 => Ok(Automove::Window(window)),
            _ => Err(line::AUTOMOVE_BAD_WINDOW),
        }
    } else {
        match u32_at(sentence, 2).ok_or(line::BAD_FORMAT)? {
            level @ 0..=2 => Ok(Automove::Level(level)),
            _ => Err(line::ERROR),
        }
    }
}

fn lru(sentence: &Sentence<'_>) -> Result<LruCommand, &'static [u8]> {
    let is = |option: &[u8]| sentence.abbreviates(1, option);
    match sentence.count() {
        6.. if is(b"tune") => lru_tune(sentence),
        3.. if is(b"mode") && sentence.abbreviates(2, b"flat") => Ok(LruCommand::Mode(LruMode::Flat)),
        3.. if is(b"mode") && sentence.abbreviates(2, b"segmented") => {
            Ok(LruCommand::Mode(LruMode::Segmented))
        }
        3.. if is(b"mode") => Err(line::ERROR),
        3.. if is(b"temp_ttl") => {
            let ttl = i32_at(sentence, 2).ok_or(line::ERROR)?;
            Ok(LruCommand::TempTtl(u32::try_from(ttl).ok()))
        }
        _ => Err(line::ERROR),
    }
}

fn lru_tune(sentence: &Sentence<'_>) -> Result<LruCommand, &'static [u8]> {
    let numbers =
        || Some((u32_at(sentence, 2)?, u32_at(sentence, 3)?, f64_at(sentence, 4)?, f64_at(sentence, 5)?));
    let (hot_percent, warm_percent, hot_factor, warm_factor) = numbers().ok_or(line::ERROR)?;
    if hot_percent.wrapping_add(warm_percent) > 80 {
        return Err(line::LRU_BAD_PERCENTAGES);
    }
    if warm_factor <= 0.0 || hot_factor <= 0.0 {
        return Err(line::LRU_BAD_FACTORS);
    }
    Ok(LruCommand::Tune { hot_percent, warm_percent, hot_factor, warm_factor })
}

fn extstore(sentence: &Sentence<'_>) -> Option<ExtstoreKnob> {
    let is = |knob: &[u8]| sentence.abbreviates(1, knob);
    let value = || u32_at(sentence, 2);
    match sentence.count() {
        4.. if is(b"free_memchunks") => {
            u32_at(sentence, 3)?;
            value().filter(|&class| class < SLAB_CLASSES).map(|_| ExtstoreKnob::FreeMemchunks)
        }
        3.. if is(b"item_size") => value().map(ExtstoreKnob::ItemSize),
        3.. if is(b"item_age") => value().map(ExtstoreKnob::ItemAge),
        3.. if is(b"low_ttl") => value().map(ExtstoreKnob::LowTtl),
        3.. if is(b"recache_rate") => value().map(ExtstoreKnob::RecacheRate),
        3.. if is(b"compact_under") => value().map(ExtstoreKnob::CompactUnder),
        3.. if is(b"drop_under") => value().map(ExtstoreKnob::DropUnder),
        3.. if is(b"max_sleep") => value().map(ExtstoreKnob::MaxSleep),
        3.. if is(b"max_frag") => f64_at(sentence, 2).map(ExtstoreKnob::MaxFragmentation),
        3.. if is(b"drop_unread") => value().map(|value| ExtstoreKnob::DropUnread(value != 0)),
        3.. if is(b"write_rate") => f64_at(sentence, 2).map(ExtstoreKnob::WriteRate),
        _ => None,
    }
}
