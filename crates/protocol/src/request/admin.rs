//! The administrative commands.
//!
//! Most of them are found by their first word wherever it stands on the line, and take any beginning of an
//! option for the option. Whether a command is allowed is checked by the server, in memcached before the
//! arguments are looked at: where that matters, the error is part of the request.

use super::{Refused, Request, dispatch};
use crate::limits::{
    CRAWLER_SLEEP_US_MAX, MEMLIMIT_MEGABYTES_MAX, MEMLIMIT_MEGABYTES_MIN, SLAB_CLASSES, VERBOSITY_MAX,
};
use crate::number;
use crate::reply::line;
use crate::words::{Sentence, abbreviates};

/// How to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// At once, as for SIGINT.
    Immediate,
    /// As for SIGUSR1.
    Graceful,
}

/// Events that a watcher wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Streams(u16);

/// The names of [`Streams`], bit by bit, in the order in which abbreviations are tried.
const STREAM_NAMES: [&str; 10] = [
    "rawcmds",
    "evictions",
    "fetchers",
    "mutations",
    "sysevents",
    "connevents",
    "proxyreqs",
    "proxyevents",
    "proxyuser",
    "deletions",
];

impl Streams {
    /// Nothing.
    pub const NONE: Streams = Streams(0);
    /// `rawcmds`, which memcached accepts and never sends.
    pub const RAW_COMMANDS: Streams = Streams(1);
    /// `evictions`
    pub const EVICTIONS: Streams = Streams(1 << 1);
    /// `fetchers`, the default
    pub const FETCHERS: Streams = Streams(1 << 2);
    /// `mutations`
    pub const MUTATIONS: Streams = Streams(1 << 3);
    /// `sysevents`
    pub const SYSTEM_EVENTS: Streams = Streams(1 << 4);
    /// `connevents`
    pub const CONNECTION_EVENTS: Streams = Streams(1 << 5);
    /// `proxyreqs`
    pub const PROXY_REQUESTS: Streams = Streams(1 << 6);
    /// `proxyevents`
    pub const PROXY_EVENTS: Streams = Streams(1 << 7);
    /// `proxyuser`
    pub const PROXY_USER: Streams = Streams(1 << 8);
    /// `deletions`
    pub const DELETIONS: Streams = Streams(1 << 9);

    /// Both together.
    pub const fn union(self, other: Streams) -> Streams {
        Streams(self.0 | other.0)
    }

    /// Whether the two have a stream in common.
    pub const fn intersects(self, other: Streams) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits, for an atomic.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The other way round; unknown bits are dropped.
    pub const fn from_bits(bits: u16) -> Streams {
        Streams(bits & ((1 << STREAM_NAMES.len()) - 1))
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = STREAM_NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0);
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

/// `lru_crawler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruCrawlerCommand {
    /// `enable`
    Enable,
    /// `disable`
    Disable,
    /// `crawl`: reclaim what has expired. `None` is a bad class.
    Crawl(Option<CrawlerClasses>),
    /// `metadump`: print what is known about every item. `None` is a bad class.
    Metadump(Option<CrawlerClasses>),
    /// `mgdump`: print an `mg` command for every item. `None` is a bad class.
    Mgdump(Option<CrawlerClasses>),
    /// `tocrawl`: look at so many items per run; 0 is all.
    Tocrawl(u32),
    /// `sleep`: pause between items, in microseconds.
    Sleep(u32),
}

/// Where to look for items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlerClasses {
    /// `all`: every slab class.
    All,
    /// `hash`: in the order of the index.
    Hash,
    /// Some slab classes, one bit each.
    Some(u64),
}

/// `slabs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlabsCommand {
    /// `reassign`: from class, to class. Or the error, which stands back behind "disabled".
    Reassign(Result<(i32, i32), &'static [u8]>),
    /// `automove`
    Automove(Automove),
}

/// `slabs automove`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Automove {
    /// 0 is off, 1 is on, 2 is aggressive.
    Level(u32),
    /// `ratio`
    Ratio(f64),
    /// `freeratio`
    FreeRatio(f64),
    /// `window`
    Window(u32),
}

/// `lru`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LruCommand {
    /// `tune`
    Tune {
        /// Share of the hot queue in percent.
        hot_percent: u32,
        /// Share of the warm queue in percent.
        warm_percent: u32,
        /// Age limit of the hot queue, as a factor.
        hot_factor: f64,
        /// Age limit of the warm queue, as a factor.
        warm_factor: f64,
    },
    /// `mode`. `ERROR` where there is no maintainer.
    Mode(LruMode),
    /// `temp_ttl`: items that live shorter go to a queue of their own; `None` turns that off.
    /// `ERROR` where there is no maintainer.
    TempTtl(Option<u32>),
}

/// `lru mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruMode {
    /// One queue.
    Flat,
    /// Hot, warm and cold.
    Segmented,
}

/// `extstore`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExtstoreKnob {
    /// `free_memchunks`, accepted and ignored.
    FreeMemchunks,
    /// `item_size`
    ItemSize(u32),
    /// `item_age`
    ItemAge(u32),
    /// `low_ttl`
    LowTtl(u32),
    /// `recache_rate`
    RecacheRate(u32),
    /// `compact_under`
    CompactUnder(u32),
    /// `drop_under`
    DropUnder(u32),
    /// `max_sleep`
    MaxSleep(u32),
    /// `max_frag`
    MaxFragmentation(f64),
    /// `drop_unread`
    DropUnread(bool),
}

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
        Some(b"refresh_certs") => Ok(Request::RefreshCerts { noreply }),
        _ => return dispatch::unknown(sentence),
    };
    request.map_err(|reply| Refused::unless(noreply, reply))
}

/// `watch` never looks for `noreply`.
pub(super) fn watch<'a>(sentence: &Sentence<'a>) -> Request<'a> {
    let stream = |word: &[u8]| STREAM_NAMES.iter().position(|name| abbreviates(word, name.as_bytes()));
    let mut streams = Ok(if sentence.count() == 1 { Streams::FETCHERS } else { Streams::NONE });
    for number in 1..sentence.count() {
        let named = sentence.word(number).and_then(stream);
        streams = match (streams, named) {
            (Ok(streams), Some(bit)) => Ok(streams.union(Streams(1 << bit))),
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
        _ => None,
    }
}
