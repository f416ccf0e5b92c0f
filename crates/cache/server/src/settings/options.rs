//! Options of a server: all values checked, all defaults filled in.
//!
//! Nothing here accesses the system: no socket is opened, no name resolved, no file read. Code that gets an
//! [`Options`] does not check it again.

use std::path::PathBuf;

use net::FramesFrom;

pub mod auth;
mod echo;
mod extstore;
mod flash;
mod flash_check;
mod frames;
mod listen;
mod meaning;
mod memory_share;
mod protocol;
mod settings;
mod tls;
pub mod udp;

#[cfg(test)]
mod tests;

pub use auth::{Auth, ReadFile};
pub use echo::Echo;
pub use extstore::ExtstoreSettings;
pub use flash::FlashOptions;
pub use listen::{FIRST_INHERITED, Listen, MetricsAddress};
pub use memory_share::MemoryFound;
pub use protocol::Protocol;
pub use tls::{TlsGiven, TlsOptions};
pub use udp::UdpLimits;

/// The user that root becomes without `-u`: every Linux has it, and it owns nothing.
pub const USER_DEFAULT: &str = "nobody";

/// All options of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `-m`: memory for items, in bytes.
    pub memory_limit_bytes: u64,
    /// What that is a share of, in words, if `-m` is one.
    pub memory_share: Option<String>,
    /// `-I`: the largest item (key, value and its administration), in bytes.
    pub item_size_max_bytes: u64,
    /// Not `-M`: evict old items when memory is full, instead of refusing new ones.
    pub evictions: bool,
    /// `-o optimise`: what eviction keeps low.
    pub optimise: store::Optimise,
    /// `-o policy`: how items are evicted; `None`: as a sample of the keys shows to be best.
    pub policy: Option<store::EvictionPolicy>,
    /// Not `-C`: items carry a compare-and-swap number.
    pub cas: bool,
    /// `-L`: ask for large pages.
    pub large_pages: bool,

    /// Addresses to listen on; none where `-p 0` is all that is given.
    pub listeners: Vec<Listen>,
    /// `-b`: how many connections may wait to be accepted; `None` for as many as the system allows.
    pub backlog: Option<u32>,
    /// How many connections may wait to be accepted, as the kernel has granted it; `None` before the sockets are bound.
    pub backlog_granted: Option<u32>,
    /// `--fast-open`: how many connections with data in the SYN may be pending; 0 for no TCP Fast Open.
    pub fast_open: u32,
    /// Who gets replies over UDP, and how much.
    pub udp: UdpLimits,
    /// `--udp-xdp`: interfaces from which datagrams are taken below the kernel's sockets.
    pub frames: Option<FramesFrom>,
    /// `-B`: the protocol that every connection speaks whose listener has none of its own.
    pub protocol: Protocol,

    /// `-c`: maximum number of concurrent connections.
    pub connection_limit: u32,
    /// It is the default, which gives way to the limit on open files.
    pub connection_limit_is_default: bool,
    /// `-o maxconns_fast`: beyond the limit, answer with an error and close, instead of accepting later.
    pub maxconns_fast: bool,
    /// `-o idle_timeout`: close a connection without requests for this many seconds.
    pub idle_timeout_s: Option<u32>,

    /// `-t`: threads that serve connections.
    pub threads: usize,
    /// `-R`: requests of one connection per turn.
    pub requests_per_turn: u32,
    /// `--driver`: the interface for socket I/O.
    pub driver: Driver,
    /// `--pin`: a CPU for each thread.
    pub pin: bool,
    /// `--busy-poll`: how long a thread polls for packets before it sleeps; 0 for not at all.
    pub busy_poll_us: u32,

    /// `-A`: the `shutdown` command works.
    pub shutdown: bool,
    /// Not `-F`: the `flush_all` command works.
    pub flush_all: bool,
    /// Not `-X`: `stats cachedump`, `stats detail` and `lru_crawler metadump` work.
    pub dumping: bool,
    /// Not `-W`: the `watch` command works.
    pub watch: bool,
    /// `-Y`: users and passwords; connections must log in first.
    pub auth: Option<Auth>,
    /// `-S`: they do so by SASL, in the binary protocol.
    pub sasl: bool,

    /// `-Z`: what listeners with TLS show and ask, from files that are not read yet.
    pub tls: Option<TlsOptions>,
    /// The same as typed, for `stats settings`.
    pub tls_given: TlsGiven,

    /// `-D`: the byte that ends the prefix of a key in `stats detail`.
    pub prefix_delimiter: u8,
    /// `-D` given: collect statistics by prefix from the start.
    pub detail: bool,
    /// `-o track_sizes`: `stats sizes` counts.
    pub track_sizes: bool,
    /// `-o watcher_logbuf_size`: bytes of log queued for one watcher.
    pub watcher_log_bytes: u32,
    /// `-o worker_logbuf_size`: bytes of the store's events queued before they become log lines.
    pub worker_log_bytes: u32,
    /// `--metrics-listen`: where metrics are served over HTTP.
    pub metrics: Option<MetricsAddress>,
    /// `--cluster-file`: the members that clients with auto-discovery are told.
    pub cluster_file: Option<PathBuf>,
    /// `-e`: the file that holds items, over a restart.
    pub memory_file: Option<PathBuf>,
    /// `-o ext_path` and others: the flash tier.
    pub flash: FlashOptions,
    /// `--takeover`: where a server waits for its successor, and that one finds it.
    pub takeover: Option<PathBuf>,
    /// `-v`, counted.
    pub verbosity: u8,

    /// Lines for the log: flags without effect, and why.
    pub notes: Vec<String>,
    /// Lines that are shown at every start: values that were not taken as typed, and what the operator does not get.
    pub warnings: Vec<String>,
    /// Options of the process rather than the server.
    pub process: Process,
    /// Settings of memcached subsystems that Evenkeel does not have.
    pub echo: Echo,
}

/// Options that the binary applies to its own process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// `-d`: go to the background.
    pub daemonize: bool,
    /// `-P`: write the process id here.
    pub pidfile: Option<PathBuf>,
    /// `-u`: the user to become, when started as root; [`USER_DEFAULT`] if none is named.
    pub user: Option<String>,
    /// `-k`: lock all memory.
    pub lock_memory: bool,
    /// `-r`: raise the limit on core files.
    pub core_dumps: bool,
}

/// The interface for socket I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The better one that the kernel allows.
    Auto,
    /// Readiness, then one system call per connection and direction.
    Epoll,
    /// Submissions and completions in rings.
    Uring,
}

impl Options {
    /// Whether datagrams are served.
    pub fn has_udp(&self) -> bool {
        self.listeners.iter().any(|listen| matches!(listen, Listen::Udp { .. }))
    }
}

impl Default for Options {
    /// The defaults of `evenkeel serve`.
    fn default() -> Self {
        Self {
            memory_limit_bytes: 64 * stdx::units::MIB,
            memory_share: None,
            item_size_max_bytes: stdx::units::MIB,
            evictions: true,
            optimise: store::Optimise::default(),
            policy: None,
            cas: true,
            large_pages: false,
            listeners: vec![Listen::Tcp { host: None, port: 11211, secure: None, protocol: None }],
            backlog: None,
            backlog_granted: None,
            fast_open: 0,
            udp: UdpLimits::default(),
            frames: None,
            protocol: Protocol::Auto,
            connection_limit: 1024,
            connection_limit_is_default: true,
            maxconns_fast: true,
            idle_timeout_s: None,
            threads: 4,
            requests_per_turn: 256,
            driver: Driver::Auto,
            pin: false,
            busy_poll_us: 0,
            shutdown: false,
            flush_all: true,
            dumping: true,
            watch: true,
            auth: None,
            sasl: false,
            tls: None,
            tls_given: TlsGiven::default(),
            prefix_delimiter: b':',
            detail: false,
            track_sizes: false,
            watcher_log_bytes: 256 * 1024,
            worker_log_bytes: 64 * 1024,
            metrics: None,
            cluster_file: None,
            memory_file: None,
            flash: FlashOptions::default(),
            takeover: None,
            verbosity: 0,
            notes: Vec::new(),
            warnings: Vec::new(),
            process: Process::default(),
            echo: Echo::default(),
        }
    }
}
