//! Limits of the protocol, each with its name.

/// The longest key in bytes, after base64 decoding.
pub const KEY_LEN_MAX: usize = 250;

/// A line that has not ended after this many bytes ends the connection, unless it is a `get` or `gets`.
pub const LINE_LEN_MAX: usize = 2048;

/// The most spaces before the `get` of a line longer than [`LINE_LEN_MAX`].
pub const LEADING_SPACES_MAX: usize = 100;

/// memcached reads this many words of a line, the command included, and ignores what follows. The keys of `get`,
/// `gets`, `gat` and `gats` are not limited.
pub const WORDS_MAX: usize = 23;

/// memcached searches this many bytes of a line for words. The keys of `get`, `gets`, `gat` and `gats` are not limited.
pub const WORDS_SPAN_MAX: usize = 65_534;

/// The most words of a meta command: the command, the key, and the rest.
pub const META_WORDS_MAX: usize = 20;

/// The longest opaque word, its letter `O` included.
pub const OPAQUE_LEN_MAX: usize = 32;

/// The longest value that a head may announce: with its line end it must fit 31 bits.
pub const VALUE_LEN_MAX: usize = i32::MAX as usize - 2;

/// The longest body of a packet, its extras and its key included, that a header may announce: the largest `-I`.
pub const PACKET_BODY_LEN_MAX: usize = 1 << 30;

/// The shortest line that memcached accepts, its line end included.
pub const LINE_LEN_MIN: usize = 4;

/// `verbosity` levels above this one mean this one.
pub const VERBOSITY_MAX: u32 = 2;

/// The smallest memory limit that `cache_memlimit` takes, in MB.
pub const MEMLIMIT_MEGABYTES_MIN: u32 = 8;

/// memcached takes a greater number given to `cache_memlimit` for bytes, and refuses it.
pub const MEMLIMIT_MEGABYTES_MAX: u32 = 1_000_000_000;

/// The numbers of slab classes are below this one, from 1 on.
pub const SLAB_CLASSES: u32 = 64;

/// The longest pause of the crawler between items that `lru_crawler sleep` takes, in microseconds.
pub const CRAWLER_SLEEP_US_MAX: u32 = 1_000_000;

/// The longest `user password` of a login.
pub const LOGIN_LEN_MAX: usize = 16_384;

/// The shortest line of a login, its line feed not counted.
pub const LOGIN_LINE_LEN_MIN: usize = 6;

/// The longest line of a reply, its line end included. memcached's longest answer about one item has a key in base64
/// and every return flag, about 700 bytes; a statistic is shorter. A longer line is not part of the protocol, so a
/// client need not keep more than this of a line whose end has not arrived.
pub const REPLY_LINE_LEN_MAX: usize = 2048;

/// The longest number in a reply, in digits: as many as the largest 64-bit number has.
pub const REPLY_NUMBER_LEN_MAX: usize = 20;

/// The longest body that a reply may announce: no request could have stored a longer value.
pub const REPLY_BODY_LEN_MAX: usize = VALUE_LEN_MAX;

/// How much of a refused reply an error message shows, in bytes.
pub const FOUND_SHOWN_MAX: usize = 64;
