//! Fixed reply lines: each line that memcached sends, defined once.

macro_rules! lines {
    ($($name:ident = $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: &[u8] = concat!($text, "\r\n").as_bytes();
        )*
    };
}

lines! {
    STORED = "STORED";
    NOT_STORED = "NOT_STORED";
    EXISTS = "EXISTS";
    NOT_FOUND = "NOT_FOUND";
    DELETED = "DELETED";
    TOUCHED = "TOUCHED";
    OK = "OK";
    RESET = "RESET";
    END = "END";
    ERROR = "ERROR";
    META_NOOP = "MN";
    META_MISS = "EN";

    BAD_FORMAT = "CLIENT_ERROR bad command line format";
    BAD_LINE = "CLIENT_ERROR bad command line";
    BAD_TERMINATION = "CLIENT_ERROR bad command line termination";
    BAD_DATA_CHUNK = "CLIENT_ERROR bad data chunk";
    NON_NUMERIC = "CLIENT_ERROR cannot increment or decrement non-numeric value";
    INVALID_DELTA = "CLIENT_ERROR invalid numeric delta argument";
    INVALID_EXPTIME = "CLIENT_ERROR invalid exptime argument";
    TOO_LARGE = "SERVER_ERROR object too large for cache";
    OUT_OF_MEMORY_STORING = "SERVER_ERROR out of memory storing object";
    OUT_OF_MEMORY_READING = "SERVER_ERROR out of memory writing get response";
    OUT_OF_MEMORY_STATS = "SERVER_ERROR out of memory writing stats";
    OUT_OF_MEMORY_VIVIFYING = "SERVER_ERROR Out of memory allocating new item";
    OUT_OF_MEMORY = "SERVER_ERROR out of memory";
    LINE_TOO_LONG = "SERVER_ERROR output line too long";

    META_INVALID_FLAG = "CLIENT_ERROR invalid flag";
    META_DUPLICATE_FLAG = "CLIENT_ERROR duplicate flag";
    META_INVALID_OR_DUPLICATE_FLAG = "CLIENT_ERROR invalid or duplicate flag";
    META_TOO_MANY_FLAGS = "CLIENT_ERROR options flags are too long";
    META_BAD_KEY = "CLIENT_ERROR error decoding key";
    META_BAD_TOKEN = "CLIENT_ERROR bad token in command line format";
    META_BAD_INITIAL = "CLIENT_ERROR invalid numeric initial value";
    META_BAD_DELTA = "CLIENT_ERROR invalid numeric delta value";
    META_LONG_OPAQUE = "CLIENT_ERROR opaque token too long";
    META_SET_BAD_MODE = "CLIENT_ERROR invalid mode for ms M token";
    META_ARITHMETIC_BAD_MODE = "CLIENT_ERROR invalid mode for ma M token";

    FLUSH_NOT_ALLOWED = "CLIENT_ERROR flush_all not allowed";
    SHUTDOWN_NOT_ENABLED = "SERVER_ERROR: shutdown not enabled";
    SHUTDOWN_BAD_MODE = "CLIENT_ERROR invalid shutdown mode";
    TLS_NOT_ENABLED = "Error TLS not enabled";
    TOO_MANY_CONNECTIONS = "ERROR Too many open connections";

    STATS_DETAIL_USAGE = "CLIENT_ERROR usage: stats detail on|off|dump";
    STATS_DETAIL_NOT_ALLOWED = "CLIENT_ERROR stats detail not allowed";
    STATS_CACHEDUMP_NOT_ALLOWED = "CLIENT_ERROR stats cachedump not allowed";
    STATS_HOT_NOT_ALLOWED = "CLIENT_ERROR stats evenkeel hot not allowed";
    STATS_BAD_CLASS = "CLIENT_ERROR Illegal slab id";

    WATCH_NOT_ALLOWED = "CLIENT_ERROR watch commands not allowed";
    WATCH_PIPELINED = "ERROR cannot pipeline other commands before watch";
    WATCHER_TOO_MANY = "WATCHER_TOO_MANY log watcher limit reached";
    WATCHER_FAILED = "WATCHER_FAILED failed to add log watcher";

    MEMLIMIT_TOO_SMALL = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
    MEMLIMIT_NOT_MEGABYTES = "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
    MEMLIMIT_FAILED = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";

    CRAWLER_DISABLED = "CLIENT_ERROR lru crawler disabled";
    CRAWLER_RUNNING = "BUSY currently processing crawler request";
    CRAWLER_BAD_CLASS = "BADCLASS invalid class id";
    CRAWLER_NOTHING = "NOTSTARTED no items to crawl";
    CRAWLER_FAILED = "ERROR an unknown error happened";
    CRAWLER_START_FAILED = "ERROR failed to start lru crawler thread";
    CRAWLER_STOP_FAILED = "ERROR failed to stop lru crawler thread";
    CRAWLER_LONG_SLEEP = "CLIENT_ERROR sleep must be one second or less";
    CRAWLER_LOCKED = "ERROR locked try again later";
    METADUMP_NOT_ALLOWED = "ERROR metadump not allowed";
    METADUMP_PIPELINED = "ERROR cannot pipeline other commands before metadump";
    MGDUMP_NOT_ALLOWED = "ERROR key dump not allowed";
    MGDUMP_PIPELINED = "ERROR cannot pipeline other commands before mgdump";

    REASSIGN_DISABLED = "CLIENT_ERROR slab reassignment disabled";
    REASSIGN_RUNNING = "BUSY currently processing reassign request";
    REASSIGN_BAD_CLASS = "BADCLASS invalid src or dst class id";
    REASSIGN_NO_SPARE = "NOSPARE source class has no spare pages";
    REASSIGN_SAME = "SAME src and dst class are identical";
    AUTOMOVE_BAD_WINDOW = "CLIENT_ERROR automove window too low or too high";
    LRU_BAD_PERCENTAGES = "ERROR hot and warm pcts must not exceed 80";
    LRU_BAD_FACTORS = "ERROR hot/warm age factors must be greater than 0";

    UNAUTHENTICATED = "CLIENT_ERROR unauthenticated";
    AUTH_FAILURE = "CLIENT_ERROR authentication failure";
    NOT_PERMITTED = "CLIENT_ERROR not permitted by role";
    AUTH_TOO_LONG = "CLIENT_ERROR auth token too long";
    AUTH_BAD_FORMAT = "CLIENT_ERROR bad authentication token format";
}
