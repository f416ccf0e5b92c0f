//! Description of a run, in one type for all: the command line gives it, agents get it, a `RunPlan` is derived from it,
//! and the result contains it.
//!
//! A flag is a field here, with its help; its consequences are in workload/plan.rs. In JSON a field has the flag's
//! name, and distributions and quantities with units are text in the flag's notation.

pub(crate) mod server_processes;

use self::server_processes::ServerProcesses;
use crate::types::arrivals::Arrivals;
use crate::types::churn::Storm;
use crate::types::error::Error;
use crate::types::mix::Mix;
use crate::types::popularity::Popularity;
use crate::types::profiles::Workload;
use crate::types::sizes::ItemSizes;
use crate::types::span::Span;
use crate::types::ttl::Ttls;
use clap::{Args, FromArgMatches};
use os::CpuList;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A run as requested; for several machines, of all of them together.
#[derive(Clone, Debug, PartialEq, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Server to load, by name or address
    #[arg(long, default_value = "127.0.0.1", help_heading = "Target")]
    pub host: String,
    /// TCP port of the server
    #[arg(long, default_value_t = 11211, help_heading = "Target")]
    pub port: u16,
    /// Server to load, as HOST:PORT in one word
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["host", "port"], help_heading = "Target")]
    pub server: Option<String>,
    /// Unix socket of the server, instead of TCP
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "server"], help_heading = "Target")]
    pub socket: Option<PathBuf>,
    /// Send each request as a datagram, with memcached's UDP frame
    #[arg(long, conflicts_with = "socket", help_heading = "Target")]
    pub udp: bool,
    /// Of --udp: a request without a reply for this long counts as lost
    #[arg(long, requires = "udp", default_value = "500ms", value_name = "TIME", help_heading = "Target")]
    pub udp_timeout: Span,
    /// Send the first request of a connection with its SYN, if the server gave the kernel a cookie before (TCP Fast Open)
    #[arg(long, conflicts_with_all = ["socket", "udp"], help_heading = "Target")]
    pub fast_open: bool,
    /// Encrypt connections
    #[arg(long, conflicts_with_all = ["socket", "udp"], help_heading = "Target")]
    pub tls: bool,
    /// Of --tls: trust the authorities whose certificates are in this file (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls",
        default_value = "/etc/ssl/certs/ca-certificates.crt",
        help_heading = "Target"
    )]
    pub tls_ca: PathBuf,
    /// Of --tls: trust any certificate
    #[arg(long, requires = "tls", help_heading = "Target")]
    pub tls_insecure: bool,
    /// Of --tls: this version alone, 1.2 or 1.3 [default: the newest that the server has]
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"], requires = "tls", help_heading = "Target")]
    pub tls_version: Option<String>,
    /// Of --tls: resume no session, so that every handshake is a whole one
    #[arg(long, requires = "tls", help_heading = "Target")]
    pub tls_no_resumption: bool,
    /// Report requests per CPU-second of this process, the server (must run on this machine); several: PID,PID
    #[arg(long, value_name = "PID", help_heading = "Target")]
    pub server_pid: Option<ServerProcesses>,

    /// Send this many requests per second, whatever the server does (an open loop)
    #[arg(long, value_name = "N", help_heading = "Shape of the load")]
    pub rate: Option<f64>,
    /// Times between the requests of --rate: poisson, constant, pareto or pareto:SHAPE [default: poisson]
    #[arg(long, value_name = "LAW", help_heading = "Shape of the load")]
    pub arrivals: Option<Arrivals>,
    /// Replay this trace, in an open loop by its times, or at --rate if it has none: lines of timestamp,key,key
    /// size,value size,client id,operation,TTL, or of the columns that a first line names, or what Redis' MONITOR prints
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "arrivals", "gets", "mix", "multiget", "keys", "key_size", "value_size", "ttl", "popularity", "workload",
            "prefill", "backfill", "verify", "requests", "udp",
        ],
        help_heading = "Shape of the load"
    )]
    pub trace: Option<PathBuf>,
    /// Replay this many times as fast
    #[arg(
        long,
        value_name = "TIMES",
        default_value_t = 1.0,
        requires = "trace",
        help_heading = "Shape of the load"
    )]
    pub speed: f64,
    /// Keep the threads of --rate and --probes awake for this long before and after each request, or always: they are
    /// less late and burn their CPUs [default: before each request, as long as waking up takes, unless that is most of the
    /// time]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1h")]
    #[arg(value_name = "TIME", help_heading = "Shape of the load")]
    pub spin: Option<Span>,
    /// Let a request of --rate wait this long for others, so that the thread wakes up once for all of them and for what has
    /// come meanwhile, at less CPU time. Latency still counts from when a request was due, and ends when the kernel had its
    /// reply (over TCP or TLS, with io_uring)
    #[arg(long, value_name = "TIME", conflicts_with = "spin", help_heading = "Shape of the load")]
    pub slot: Option<Span>,
    /// Connections, over all threads
    #[arg(long, default_value_t = 64, value_name = "N", help_heading = "Shape of the load")]
    pub connections: usize,
    /// Close a connection after this many requests and open it anew
    #[arg(long, value_name = "N", help_heading = "Shape of the load")]
    pub reconnect_after: Option<u64>,
    /// Close and open anew this many connections per second, at random times (poisson)
    #[arg(long, value_name = "RATE", help_heading = "Shape of the load")]
    pub churn: Option<f64>,
    /// Close and open anew N connections at once, at this time after the window was opened: 500@3s
    #[arg(long, value_name = "N@TIME", help_heading = "Shape of the load")]
    pub storm: Option<Storm>,
    /// Besides the load, measure latency on this many connections of their own, in an open loop; nothing of the
    /// load's figures includes them. With --agents they are this machine's, which has nothing else to do
    #[arg(
        long,
        value_name = "N",
        requires = "probe_rate",
        conflicts_with = "trace",
        help_heading = "Shape of the load"
    )]
    pub probes: Option<usize>,
    /// Requests per second of all --probes together, at random times (poisson)
    #[arg(long, value_name = "RATE", requires = "probes", help_heading = "Shape of the load")]
    pub probe_rate: Option<f64>,
    /// Requests on their way per connection; of --rate, at most
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Shape of the load")]
    pub depth: usize,
    /// Threads that generate load
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Shape of the load")]
    pub threads: usize,
    /// Share of the requests that are gets, the others are sets: 0.9 is memtier's --ratio=1:9
    /// [default: 1]
    #[arg(long, value_name = "SHARE", conflicts_with = "mix", help_heading = "Shape of the load")]
    pub gets: Option<f64>,
    /// Commands and their shares: get=0.9,set=0.08,delete=0.02; also gets, add, replace, append, prepend, incr, decr and
    /// touch
    #[arg(long, value_name = "SHARES", help_heading = "Shape of the load")]
    pub mix: Option<Mix>,
    /// Keys per get
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Shape of the load")]
    pub multiget: usize,
    /// Commands to use: get, set and so on, mg, ms, md and ma, or the packets of the binary protocol
    #[arg(long, value_enum, default_value_t = CommandProtocol::Text, help_heading = "Shape of the load")]
    pub protocol: CommandProtocol,

    /// Number of distinct keys
    #[arg(long, default_value_t = 100_000, value_name = "N", help_heading = "Items")]
    pub keys: u64,
    /// Ask as a published workload does: etc, twitter:c52, …; list shows them. Other flags override it
    #[arg(long, value_name = "NAME", help_heading = "Items")]
    pub workload: Option<Workload>,
    /// Bytes per key: 14, 10-40 (each equally likely), 14:9,30-40:1 (a list with weights), exp:MEAN,
    /// gpareto:LOC,SCALE,SHAPE, gev:LOC,SCALE,SHAPE or fb_key [default: 14]
    #[arg(long, value_name = "SIZES", help_heading = "Items")]
    pub key_size: Option<ItemSizes>,
    /// Bytes per value, likewise: 100, 64-4k, 100:9,16k:1, exp:MEAN, gpareto:…, gev:… or fb_value [default: 100]
    #[arg(long, value_name = "SIZES", help_heading = "Items")]
    pub value_size: Option<ItemSizes>,
    /// Times to live of items: 0 (for ever), 3600, 10m-2h, 1d:9,30d:1 (a list with weights); s, m, h, d [default: 0]
    #[arg(long, value_name = "TIMES", help_heading = "Items")]
    pub ttl: Option<Ttls>,
    /// Which keys are asked for: uniform, zipf, zipf:EXPONENT or hot:SHARE,KEYS [default: uniform]
    #[arg(long, value_name = "LAW", help_heading = "Items")]
    pub popularity: Option<Popularity>,
    /// Start of the random numbers; items and their values do not depend on it
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Items")]
    pub seed: u64,
    /// Store every item that a get misses, at once and besides the requests that are counted
    #[arg(long, help_heading = "Items")]
    pub backfill: bool,
    /// Store every key before the run
    #[arg(long, help_heading = "Items")]
    pub prefill: bool,
    /// Check that every value is the one that belongs to its key
    #[arg(long, help_heading = "Items")]
    pub verify: bool,

    /// Length of the measured window: 10, 10s, 500ms, 2m [default: 10s unless --requests is given]
    #[arg(long, value_name = "TIME", help_heading = "Run")]
    pub duration: Option<Span>,
    /// End the window after this many requests
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub requests: Option<u64>,
    /// Load the server this long before the window opens
    #[arg(long, default_value = "1s", value_name = "TIME", help_heading = "Run")]
    pub warm_up: Span,
    /// Wait this long for a reply, or for a connection to send a request on; then the request has failed, and a connection
    /// without a reply is closed and opened anew [default: as long as the run lasts]
    #[arg(long, value_name = "TIME", conflicts_with = "udp", help_heading = "Run")]
    pub timeout: Option<Span>,
    /// End the run when a connection ends, a request times out or a reply is none, instead of counting that
    #[arg(long, help_heading = "Run")]
    pub fail_fast: bool,
    /// Show the run on the terminal, second by second; q ends it
    #[arg(long, help_heading = "Run")]
    pub live: bool,
    /// Write the requests of the window to this file, as a trace that --trace replays (of one machine, without --agents)
    #[arg(long, value_name = "FILE", conflicts_with = "trace", help_heading = "Run")]
    pub record: Option<PathBuf>,
    /// Bind the threads to these CPUs, in turn: 1, 2,3 or 4-7
    #[arg(long, value_name = "CPUS", help_heading = "Run")]
    pub cpu: Option<CpuList>,
    /// How to talk to the kernel; auto takes io_uring where it is allowed
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto, help_heading = "Run")]
    pub engine: EngineChoice,
    /// A reply ends when the kernel has received it (SO_TIMESTAMPNS), not when this program reads it; the time
    /// between is shown as `unread`; over TCP or TLS, with io_uring
    #[arg(long, help_heading = "Run")]
    pub kernel_timestamps: bool,
    /// Connections whose replies may gather before a turn, for at most 0.5 ms and never more than a quarter of the
    /// thread's; in an open loop only with --kernel-timestamps (io_uring only)
    #[arg(long, default_value_t = GATHER, value_name = "N", help_heading = "Run")]
    pub gather: usize,
}

impl Description {
    /// The length of the window, if that ends it.
    pub(crate) fn window(&self) -> Option<Duration> {
        match (self.duration, self.requests) {
            (Some(span), _) => Some(span.0),
            (None, None) if self.trace.is_none() => Some(WINDOW),
            _ => None,
        }
    }

    /// As agents get it and results contain it.
    pub(crate) fn json(&self) -> Result<String, Error> {
        // The only possible error is a file name that is not UTF-8.
        serde_json::to_string(self)
            .map_err(|error| Error::Arguments(format!("JSON cannot have them: {error}")))
    }

    /// Flags that differ from their defaults, as words of a command line; some can be left out.
    pub(crate) fn flags(&self, without: &[&str]) -> Vec<String> {
        let fields = |run: &Description| match serde_json::to_value(run) {
            Ok(Value::Object(fields)) => fields,
            // A file name need not be text.
            _ => Map::new(),
        };
        let defaults = fields(&Description::default());
        let differs = |(name, value): &(String, Value)| {
            !value.is_null() && defaults.get(name) != Some(value) && !without.contains(&name.as_str())
        };
        let word = |(name, value): (String, Value)| match (name.replace('_', "-"), value) {
            (name, Value::Bool(_)) => format!("--{name}"),
            (name, Value::String(text)) => format!("--{name}={text}"),
            (name, value) => format!("--{name}={value}"),
        };
        fields(self).into_iter().filter(differs).map(word).collect()
    }

    /// The description that these flags give.
    pub fn of<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Description, clap::Error> {
        let command = Description::augment_args(clap::Command::new("run").no_binary_name(true));
        command.try_get_matches_from(flags).and_then(|matches| Description::from_arg_matches(&matches))
    }
}

/// Measured: 64 saves the client nothing over 16, and 1 costs it 5 to 40 % more CPU per request.
const GATHER: usize = 16;
const WINDOW: Duration = Duration::from_secs(10);

/// The description without any flag.
impl Default for Description {
    fn default() -> Description {
        Description::of([]).expect("no flag is required")
    }
}

/// In JSON these are text, as on the command line.
macro_rules! as_text {
    ($($kind:ty),+) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}

as_text!(Arrivals, Mix, Popularity, ItemSizes, Span, Storm, Ttls, Workload);

/// The commands in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandProtocol {
    /// `get`, `set`, `delete`, …
    Text,
    /// `mg`, `ms`, `md` and `ma`.
    Meta,
    /// The packets of the binary protocol.
    Binary,
}

impl fmt::Display for CommandProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommandProtocol::Text => "text",
            CommandProtocol::Meta => "meta",
            CommandProtocol::Binary => "binary",
        })
    }
}

/// The way to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineChoice {
    /// io_uring, or epoll where io_uring is refused.
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

#[cfg(test)]
mod tests;
