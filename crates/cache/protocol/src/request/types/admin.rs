//! Values of the administrative commands and of `stats`.

/// How to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// At once, as for SIGINT.
    Immediate,
    /// As for SIGUSR1.
    Graceful,
}

/// Event streams that a watcher requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Streams(u16);

/// The names of [`Streams`], bit by bit, in the order in which abbreviations are tried.
pub(in crate::request) const STREAM_NAMES: [&str; 11] = [
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
    "hotkeys",
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

    /// `hotkeys`, which memcached does not have
    pub const HOT_KEYS: Streams = Streams(1 << 10);

    /// The streams of both.
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

    /// The streams with these bits; unknown bits are dropped.
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
    /// `metadump`: print the facts about every item. `None` is a bad class.
    Metadump(Option<CrawlerClasses>),
    /// `mgdump`: print an `mg` command for every item. `None` is a bad class.
    Mgdump(Option<CrawlerClasses>),
    /// `tocrawl`: the number of items per run; 0 is all.
    Tocrawl(u32),
    /// `sleep`: pause between items, in microseconds.
    Sleep(u32),
}

/// The items to visit.
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
    /// `reassign`: from class, to class. Or the error, which "disabled" precedes.
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
    /// `mode`. `ERROR` on a server without LRU maintainer.
    Mode(LruMode),
    /// `temp_ttl`: items with a shorter time to live go to a queue of their own; `None` turns that off. `ERROR` on a
    /// server without LRU maintainer.
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
    /// `write_rate`, which memcached does not have: megabytes per second
    WriteRate(f64),
}

/// The topic of `stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsTopic {
    /// Nothing: the general statistics.
    General,
    /// `reset`
    Reset,
    /// `detail`; or the error, which "not allowed" precedes.
    Detail(Result<DetailCommand, &'static [u8]>),
    /// `settings`
    Settings,
    /// `cachedump`; or the error, which "not allowed" precedes.
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
    /// `proxy` or `proxyfuncs`
    Proxy,
    /// `evenkeel hot`, which memcached does not have.
    HotKeys,
    /// `evenkeel times`, which memcached does not have.
    Times,
    /// Not a topic of memcached: `ERROR`, unless the server has topics of its own.
    Other,
}

/// `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailCommand {
    /// Count by prefix.
    On,
    /// Stop counting.
    Off,
    /// Print the counts.
    Dump,
}

/// `stats cachedump`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cachedump {
    /// The slab class.
    pub class: u32,
    /// The most items; 0 is all.
    pub limit: u32,
}
