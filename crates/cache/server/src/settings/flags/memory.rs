//! Flags for the memory of items.

use ::flags::{Effect, Given, Kind, Set};
use stdx::units::{GIB, KIB, MIB};

use super::low::{Flag, LowArgs};

/// The maximum item size of the protocol and the store, as in memcached.
const ITEM_SIZE_MAX: u64 = GIB;
/// As in memcached: below, a long key with a short value might not fit.
const ITEM_SIZE_MIN: u64 = KIB;

const NO_SLABS: &str = "memory has no slab classes; items of all sizes share it";
const NO_CRAWLER: &str = "expired items are reclaimed without a crawler thread";
const NO_MAINTAINER: &str = "eviction queues are kept up by the workers themselves";
const READERS: &str = "workers read from flash themselves, by io_uring";
const INDEX: &str = "the index sizes itself to the items";

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        short: Some('m'),
        name: "memory-limit",
        value: "num",
        kind: Kind::SizeOrShare { unit: MIB, min: MIB, max: store::MEMORY_LIMIT_MAX },
        default: Some("64"),
        doc: "Memory for items, in megabytes, or auto, or a share: 80%",
        details: "A unit may follow: -m 4g. Less than 3 counts as 3. A share is one of the memory limit of the control group, or of \
            the host's memory where there is none. auto is as much as the limit leaves for items, or 75% of the host's memory. \
            The start-up line says what it is.",
        effect: Effect::Works,
        set: |low, given| match given {
            Given::Share(share) => low.memory_share = Some(share),
            // A limit below the store's minimum is raised to it; the start-up line shows the result.
            size => {
                low.memory_share = None;
                low.options.memory_limit_bytes = size.number::<u64>().max(store::MEMORY_LIMIT_MIN);
            }
        },
    },
    Flag {
        short: Some('I'),
        name: "max-item-size",
        value: "size",
        kind: Kind::Size { unit: 1, min: ITEM_SIZE_MIN, max: ITEM_SIZE_MAX },
        default: Some("1m"),
        doc: "Largest item, from 1k to 1g",
        details: "Bytes, or with k, m or g. It may not exceed half of the memory limit (-m).",
        effect: Effect::Works,
        set: |low, given| low.options.item_size_max_bytes = given.number(),
    },
    Flag {
        short: Some('M'),
        name: "disable-evictions",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "When memory is full, refuse new items; keep the old",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.evictions = false,
    },
    Flag {
        short: Some('C'),
        name: "disable-cas",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Items carry no compare-and-swap number",
        details: "Items are no smaller for it; `cas` and the C flag of meta commands no longer compare.",
        effect: Effect::Works,
        set: |low, _| low.options.cas = false,
    },
    Flag {
        short: Some('k'),
        name: "lock-memory",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Lock all memory, so that none of it is swapped out",
        details: "If the system refuses (RLIMIT_MEMLOCK), the server says so and runs without.",
        effect: Effect::Works,
        set: |low, _| low.options.process.lock_memory = true,
    },
    Flag {
        short: Some('L'),
        name: "enable-largepages",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Use large memory pages",
        details: "",
        effect: Effect::Without("the kernel chooses the size of pages (transparent_hugepage)"),
        set: |low, _| low.options.large_pages = true,
    },
    Flag {
        short: Some('f'),
        name: "slab-growth-factor",
        value: "num",
        kind: Kind::Real { above: 1.0, max: f64::MAX },
        default: Some("1.25"),
        doc: "Growth factor of chunk sizes",
        details: "",
        effect: Effect::Without(NO_SLABS),
        set: |low, given| low.options.echo.growth_factor = given.real(),
    },
    Flag {
        short: Some('n'),
        name: "slab-min-size",
        value: "bytes",
        kind: Kind::Number { min: 1, max: i32::MAX as i64 },
        default: Some("48"),
        doc: "Least space for key, value and flags",
        details: "",
        effect: Effect::Without(NO_SLABS),
        set: |low, given| low.options.echo.chunk_size = given.number(),
    },
    Flag {
        short: Some('e'),
        name: "memory-file",
        value: "file",
        kind: Kind::Text,
        default: None,
        doc: "Keep items in a file, over a restart",
        details: "The file belongs on tmpfs or on a DAX device with room for -m: it is the memory of the items. After an \
            orderly end (SIGTERM, SIGINT, SIGUSR1, `shutdown`) the next server with the same file has all items, their \
            expiration and their CAS uniques; -m, -I and -t may differ. What else is needed is written to file.meta at \
            the end, with checksums of everything, and removed at the start. After any other end, or if one checksum is \
            wrong, the server starts empty and says why.",
        effect: Effect::Works,
        set: |low, given| low.options.memory_file = Some(given.text().into()),
    },
];

/// A sub-option for a memcached subsystem that does not exist here.
const fn without(name: &'static str, doc: &'static str, why: &'static str, set: Set<LowArgs>) -> Flag {
    let effect = Effect::Without(why);
    Flag { short: None, name, value: "", kind: Kind::Switch, default: None, doc, details: "", effect, set }
}

/// A sub-option of extstore that works.
const fn flash(name: &'static str, doc: &'static str, details: &'static str, set: Set<LowArgs>) -> Flag {
    let effect = Effect::Works;
    Flag { short: None, name, value: "", kind: Kind::Switch, default: None, doc, details, effect, set }
}

const PERCENT: Kind = Kind::Number { min: 1, max: 79 };
/// memcached takes any number of 32 bits.
const ANY: Kind = Kind::Number { min: 0, max: u32::MAX as i64 };
const COUNT: Kind = Kind::Number { min: 1, max: u32::MAX as i64 };
const FACTOR: Kind = Kind::Real { above: 0.0, max: f64::MAX };

pub(super) const OPTIONS: &[Flag] = &[
    Flag {
        short: None,
        name: "optimise",
        value: "what",
        kind: Kind::OneOf(&["objects", "bytes"]),
        default: Some("objects"),
        doc: "What eviction keeps low: gets that miss, or bytes of them",
        details: "With objects, small items are kept rather than large ones that are read as often.",
        effect: Effect::Works,
        set: |low, given| {
            low.options.optimise = match given.text() {
                "bytes" => store::Optimise::Bytes,
                _ => store::Optimise::Objects,
            }
        },
    },
    Flag {
        short: None,
        name: "policy",
        value: "policy",
        kind: Kind::Text,
        default: Some("auto"),
        doc: "How items are evicted",
        details: "auto: as a sample of the keys shows to be best. Otherwise size or plain (whether uses are weighed against the \
            size), the percent of memory for new items, the uses that keep a new item, and the percent of memory whose \
            evicted items are remembered: size:10:1:200.",
        effect: Effect::Works,
        set: |low, given| low.policy = Some(given.text().into()),
    },
    Flag {
        short: None,
        name: "track_sizes",
        value: "",
        kind: Kind::Switch,
        default: None,
        doc: "Let `stats sizes` count items by size when it is asked",
        details: "",
        effect: Effect::Works,
        set: |low, _| low.options.track_sizes = true,
    },
    without("hashpower", "First size of the hash table, as a power of two", INDEX, |low, given| {
        low.options.echo.hashpower = given.number();
    })
    .takes("num", Kind::Number { min: 12, max: 32 }, ""),
    without("no_hashexpand", "Keep the hash table at its first size", INDEX, |_, _| {}),
    without(
        "hash_algorithm",
        "How keys are hashed",
        "keys are hashed with a seed of this process's own",
        |low, given| {
            low.options.echo.hash_algorithm = match given.text() {
                "jenkins" => "jenkins",
                "xxh3" => "xxh3",
                _ => "murmur3",
            }
        },
    )
    .takes("name", Kind::OneOf(&["jenkins", "murmur3", "xxh3"]), "murmur3"),
    without("slab_reassign", "Move memory between slab classes", NO_SLABS, |low, _| {
        low.options.echo.slab_reassign = true;
    }),
    without("no_slab_reassign", "Do not move memory between slab classes", NO_SLABS, |low, _| {
        low.options.echo.slab_reassign = false
    }),
    without("slab_automove", "How eagerly memory moves between slab classes", NO_SLABS, |low, given| {
        low.options.echo.slab_automove = given.number();
    })
    .takes("num", Kind::NumberOr { bare: 1, min: 0, max: 2 }, "1"),
    without("no_slab_automove", "Never move memory between slab classes unasked", NO_SLABS, |low, _| {
        low.options.echo.slab_automove = 0
    }),
    without(
        "slab_automove_ratio",
        "Difference of ages that moves memory between classes",
        NO_SLABS,
        |low, given| {
            low.options.echo.slab_automove_ratio = given.real();
        },
    )
    .takes("ratio", Kind::Real { above: 0.0, max: 1.0 }, "0.8"),
    without(
        "slab_automove_window",
        "Seconds over which ages of classes are compared",
        NO_SLABS,
        |low, given| {
            low.options.echo.slab_automove_window = given.number();
        },
    )
    .takes("num", Kind::Number { min: 3, max: 1800 }, "10"),
    without("slab_sizes", "Chunk sizes of slab classes, one by one", NO_SLABS, |_, _| {}).takes(
        "list",
        Kind::Text,
        "",
    ),
    without("slab_chunk_max", "Largest chunk of an item", NO_SLABS, |low, given| {
        low.options.echo.slab_chunk_max_bytes = given.number::<u32>() * KIB as u32;
    })
    .takes("kilobytes", Kind::Number { min: 1, max: 1024 }, "512"),
    without("no_chunked_items", "Keep each large item in one chunk", NO_SLABS, |low, _| {
        low.options.echo.slab_chunk_max_bytes = MIB as u32;
    }),
    without(
        "tail_repair_time",
        "Time after which a locked item is dropped",
        "items cannot stay locked",
        |low, given| {
            low.options.echo.tail_repair_time_s = given.number();
        },
    )
    .takes("seconds", Kind::Number { min: 10, max: i32::MAX as i64 }, ""),
    without("lru_crawler", "Look for expired items in a thread", NO_CRAWLER, |low, _| {
        low.options.echo.lru_crawler = true;
    }),
    without("no_lru_crawler", "Do not look for expired items in a thread", NO_CRAWLER, |low, _| {
        low.options.echo.lru_crawler = false
    }),
    without("lru_crawler_sleep", "Pause of the crawler between two items", NO_CRAWLER, |low, given| {
        low.options.echo.lru_crawler_sleep_us = given.number();
    })
    .takes("µs", Kind::Number { min: 0, max: 1_000_000 }, "100"),
    without(
        "lru_crawler_tocrawl",
        "Items that the crawler looks at per run; 0 is all",
        NO_CRAWLER,
        |low, given| {
            low.options.echo.lru_crawler_tocrawl = given.number();
        },
    )
    .takes("num", Kind::Number { min: 0, max: u32::MAX as i64 }, "0"),
    without("lru_maintainer", "Sort the LRU in a thread", NO_MAINTAINER, |low, _| {
        let echo = &mut low.options.echo;
        (echo.lru_maintainer, echo.lru_segmented) = (true, true);
    }),
    without("no_lru_maintainer", "Do not sort the LRU in a thread", NO_MAINTAINER, |low, _| {
        let echo = &mut low.options.echo;
        (echo.lru_maintainer, echo.lru_segmented) = (false, false);
    }),
    without("hot_lru_pct", "Share of memory for new items, in percent", NO_MAINTAINER, |low, given| {
        low.options.echo.hot_lru_pct = given.number();
    })
    .takes("num", PERCENT, "20"),
    without("warm_lru_pct", "Share of memory for items in use, in percent", NO_MAINTAINER, |low, given| {
        low.options.echo.warm_lru_pct = given.number();
    })
    .takes("num", PERCENT, "40"),
    without("hot_max_factor", "How old a new item gets before it is cold", NO_MAINTAINER, |low, given| {
        low.options.echo.hot_max_factor = given.real();
    })
    .takes("num", FACTOR, "0.2"),
    without(
        "warm_max_factor",
        "How old an item in use gets before it is cold",
        NO_MAINTAINER,
        |low, given| {
            low.options.echo.warm_max_factor = given.real();
        },
    )
    .takes("num", FACTOR, "2.0"),
    without(
        "temporary_ttl",
        "Keep items that live shorter in an LRU of their own",
        NO_MAINTAINER,
        |low, given| {
            low.options.echo.temp_lru = true;
            low.options.echo.temporary_ttl_s = given.number();
        },
    )
    .takes("seconds", Kind::Number { min: 0, max: u32::MAX as i64 }, ""),
    without(
        "modern",
        "Defaults of the next version",
        "there are no defaults waiting for a next version",
        |_, _| {},
    ),
    without(
        "no_modern",
        "Defaults of memcached 1.4",
        "memcached 1.4 has slab classes and threads that are not here (it does turn maxconns_fast off)",
        |low, _| {
            let echo = &mut low.options.echo;
            (echo.slab_reassign, echo.slab_automove) = (false, 0);
            (echo.lru_crawler, echo.lru_maintainer, echo.lru_segmented) = (false, false, false);
            (echo.slab_chunk_max_bytes, echo.hash_algorithm) = (MIB as u32, "jenkins");
            // The only one of them that has an effect here.
            low.options.maxconns_fast = false;
        },
    ),
    flash(
        "ext_path",
        "File or device for items on flash, and its size",
        "FILE:SIZE, with m, g, t or p; :BUCKET may follow (default, compact, lowttl, chunked, coldcompact, old). May be given \
            several times. Items that memory has no room for are written there, and read when they are asked for. What was \
            there before the start is used only with -e and --takeover. Not with -M or -U.",
        |low, given| low.ext_paths.push(given.text().into()),
    )
    .takes("file:size", Kind::List, ""),
    flash(
        "ext_page_size",
        "Size of the pages of flash that are reused as a whole",
        "In megabytes, from 1 to 4096; a whole number of write buffers. Where there is no room for five pages, smaller ones are used.",
        |low, given| low.options.flash.segment_bytes = given.number::<u64>() * MIB,
    )
    .takes("megabytes", Kind::Number { min: 1, max: 4096 }, "64"),
    flash(
        "ext_wbuf_size",
        "Size of write buffers for flash",
        "In megabytes: 1, 2, 4, 8, 16, 32 or 64; of another number the next smaller one. There are nine of them, within -m; where \
            they would have more than a seventh of it, smaller ones are used.",
        |low, given| low.options.flash.piece_bytes = given.number::<u64>() * MIB,
    )
    .takes("megabytes", Kind::Number { min: 1, max: 4096 }, "4"),
    without("ext_threads", "Threads that read from flash", READERS, |_, _| {}).takes("num", COUNT, "1"),
    without("ext_io_depth", "Requests to flash under way per thread", READERS, |_, _| {}).takes("num", COUNT, "1"),
    flash(
        "ext_item_size",
        "Least size of an item that goes to flash",
        "In bytes, as -I counts them. Smaller items are dropped when there is no memory for them.",
        |low, given| low.options.echo.extstore.item_size = given.number(),
    )
    .takes("bytes", ANY, "512"),
    without(
        "ext_item_age",
        "Idle time that sends an item to flash before memory is short",
        "items go to flash when memory is short, whatever their age",
        |low, given| low.options.echo.extstore.item_age_s = given.number(),
    )
    .takes("seconds", ANY, ""),
    flash(
        "ext_low_ttl",
        "Items with less time to live than this share pages on flash",
        "In seconds; 0 is none. They go to the paths with the bucket lowttl, if there are any.",
        |low, given| low.options.echo.extstore.low_ttl_s = given.number(),
    )
    .takes("seconds", ANY, "0"),
    flash(
        "ext_recache_rate",
        "How many uses on flash bring one item back to memory",
        "Counted are uses of items that were used on flash before; 0 is never.",
        |low, given| low.options.echo.extstore.recache_rate = given.number(),
    )
    .takes("num", ANY, "2000"),
    flash(
        "ext_compact_under",
        "Free pages of flash below which one is emptied",
        "By default one in a hundred, at least two; at most half of them. The larger of this and ext_drop_under counts.",
        |low, given| low.options.echo.extstore.compact_under = given.number(),
    )
    .takes("pages", ANY, ""),
    flash(
        "ext_drop_under",
        "Free pages of flash below which items are dropped",
        "A page that is emptied is freed of garbage and of unused items at once, so this is the same as ext_compact_under.",
        |low, given| low.options.echo.extstore.drop_under = given.number(),
    )
    .takes("pages", ANY, ""),
    without(
        "ext_max_sleep",
        "Longest pause of the threads for flash",
        "the thread for flash sleeps until there is something to do",
        |low, given| low.options.echo.extstore.max_sleep_us = given.number(),
    )
    .takes("µs", ANY, "1000000"),
    flash(
        "ext_max_frag",
        "Share of a page on flash that may be written again",
        "At most so much of a page that is emptied is kept: the items that were used there most. 0.12 by default; memcached's is \
            0.8. More means more bytes written to the device for each one stored: 1.14 with 0.12, 5 with 0.8.",
        |low, given| low.options.echo.extstore.max_frag = Some(given.real()),
    )
    .takes("share", Kind::Real { above: -1.0, max: f64::MAX }, ""),
    flash(
        "ext_write_rate",
        "Megabytes per second written to flash, on average",
        "All paths together, as many as the disk's endurance allows; a megabyte is 1,000,000 bytes. Where they do not suffice, items that \
            were used since they were stored are written, and others are dropped. Without it everything is written. Not memcached's.",
        |low, given| low.options.echo.extstore.write_rate_mb_s = given.real(),
    )
    .takes("MB/s", Kind::Real { above: 0.0, max: f64::MAX }, ""),
    flash(
        "ext_dwpd",
        "The same as drive writes per day, of the size in ext_path",
        "From the disk's data sheet: ext_dwpd=1 with 1 TB is ext_write_rate=11.6. Not with ext_write_rate. Not memcached's.",
        |low, given| low.ext_dwpd = Some(given.real()),
    )
    .takes("number", Kind::Real { above: 0.0, max: f64::MAX }, ""),
    without(
        "ext_drop_unread",
        "Drop items that were not read when flash is compacted",
        "they are dropped in any case",
        |low, _| low.options.echo.extstore.drop_unread = true,
    ),
    without(
        "slab_automove_freeratio",
        "Share of memory kept free for what comes from flash",
        NO_SLABS,
        |low, given| low.options.echo.slab_automove_freeratio = given.real(),
    )
    .takes("ratio", Kind::Real { above: -1.0, max: f64::MAX }, "0.01"),
];
