//! The arguments after every check: what workers believe.

use crate::agents::Part;
use crate::arguments::{Arguments, EngineChoice, Protocol, Span};
use crate::churn::ChurnPlan;
use crate::clock::unix_seconds;
use crate::engine::udp;
use crate::error::Error;
use crate::keyspace::{Keys, Values};
use crate::mix::{Command, Mix};
use crate::popularity::{Chooser, Popularity};
use crate::schedule::{Arrivals, Share};
use crate::target::Target;
use crate::tls::Tls;
use crate::trace::Trace;
use crate::ttl::Expiry;
use crate::workload::Asked;
use std::ops::Range;
use std::time::Duration;

/// A run that can be carried out as it stands.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    /// With datagrams: how long a reply is waited for.
    pub(crate) udp_timeout: Option<Duration>,
    /// With encryption.
    pub(crate) tls: Option<Tls>,
    pub(crate) items: Items,
    pub(crate) protocol: Protocol,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) depth: usize,
    pub(crate) multiget: usize,
    pub(crate) asked: Asked,
    pub(crate) chooser: Chooser,
    pub(crate) verify: bool,
    /// What a get misses is stored.
    pub(crate) backfill: bool,
    pub(crate) warm_up: Duration,
    /// At least one of the two limits is set, or a trace ends the run.
    pub(crate) duration: Option<Duration>,
    pub(crate) requests: Option<u64>,
    pub(crate) engine: EngineChoice,
    pub(crate) gather: usize,
    /// Replies end when the kernel has them.
    pub(crate) stamped: bool,
    /// If connections come and go.
    pub(crate) churn: Option<ChurnPlan>,
    /// If others ask besides the load.
    pub(crate) probes: Option<Probes>,
    /// How open loops wait for the next request: the load's and, but for slots, the probes'.
    pub(crate) sleep: Sleep,
    /// Of an open loop.
    pub(crate) pace: Option<Pace>,
    /// What a pace by a trace follows.
    pub(crate) trace: Option<Trace>,
    /// Which part of a load of several machines it is.
    pub(crate) part: Part,
    /// Where the random numbers of what is asked, and when, begin.
    pub(crate) seed: u64,
}

/// Connections that ask how slow the server is, besides the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probes {
    pub(crate) connections: usize,
    /// Requests per second of all of them together.
    pub(crate) rate: f64,
}

/// Whose requests it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The load's.
    Load,
    /// Those of connections that ask how slow the server is meanwhile.
    Probes,
}

/// When the requests of an open loop are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) timing: Timing,
    pub(crate) sleep: Sleep,
}

/// How an open loop waits for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Awake for as long before it is due as it takes to wake up, unless that is most of the time.
    Learned,
    /// Awake for so long before it is due, and after one was sent.
    Spin(Duration),
    /// A request waits so long for others: they are sent together, and what has come meanwhile is read.
    Slot(Duration),
}

impl Sleep {
    fn of(arguments: &Arguments) -> Sleep {
        match (arguments.spin, arguments.slot) {
            (_, Some(Span(slot))) => Sleep::Slot(slot),
            (Some(Span(spin)), None) => Sleep::Spin(spin),
            (None, None) => Sleep::Learned,
        }
    }

    /// Whether a thread is awake because somebody has said so.
    pub(crate) fn is_spin(self) -> bool {
        matches!(self, Sleep::Spin(spin) if !spin.is_zero())
    }

    /// How long a request waits for others, 0 if it does not.
    pub(crate) fn slot_ns(self) -> u64 {
        if let Sleep::Slot(slot) = self { slot.as_nanos() as u64 } else { 0 }
    }

    /// The same without slots: whoever asks little has nobody to wait for.
    pub(crate) fn alone(self) -> Sleep {
        if let Sleep::Slot(_) = self { Sleep::Learned } else { self }
    }
}

/// Who says when a request is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timing {
    /// Requests per second of all threads of this machine together, and how they come.
    Law(f64, Arrivals),
    /// The plan's trace.
    Trace,
}

/// The items that exist, shared by all workers.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) count: u64,
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    pub(crate) expiry: Expiry,
    /// When the run began, in seconds since 1970.
    pub(crate) start: u64,
}

impl Items {
    /// The expiration time of an item, as it is sent.
    #[inline]
    pub(crate) fn ttl(&self, item: u64) -> u64 {
        self.expiry.of(stdx::prng::mix(item ^ TTL_SALT))
    }

    /// Its time to live, in seconds.
    pub(crate) fn ttl_seconds(&self, item: u64) -> u64 {
        self.expiry.seconds(stdx::prng::mix(item ^ TTL_SALT))
    }
}

/// Keeps an item's time to live independent of its sizes.
const TTL_SALT: u64 = 0x7474_6c73;

impl Plan {
    pub(crate) fn new(arguments: &Arguments) -> Result<Plan, Error> {
        let refuse = |what: String| Err(Error::Arguments(what));
        for (name, value) in [
            ("connections", arguments.connections),
            ("threads", arguments.threads),
            ("depth", arguments.depth),
            ("multiget", arguments.multiget),
        ] {
            if value == 0 {
                return refuse(format!("--{name} must be at least 1"));
            }
        }
        if arguments.keys == 0 || arguments.requests == Some(0) {
            return refuse(String::from("--keys and --requests must be at least 1"));
        }
        if arguments.duration.is_some_and(|span| span.0.is_zero()) {
            return refuse(String::from("--duration must be above 0"));
        }
        if arguments.connections < arguments.threads {
            return refuse(format!("{} threads need as many connections", arguments.threads));
        }
        let asked = Asked::of(arguments).map_err(Error::Arguments)?;
        let mix = &asked.mix;
        if matches!(asked.popularity, Popularity::Hot { keys, .. } if keys >= arguments.keys) {
            return refuse(format!("{} of {} keys: some have to be cold", asked.popularity, arguments.keys));
        }
        if arguments.verify && mix.has(|command| matches!(command, Command::Append | Command::Prepend)) {
            return refuse(String::from("append and prepend change values, which --verify would find wrong"));
        }
        if arguments.depth * arguments.multiget > IN_FLIGHT_MAX {
            return refuse(format!("--depth times --multiget must be at most {IN_FLIGHT_MAX}"));
        }
        if let Some(rate) = arguments.rate {
            check_rate("--rate", rate).map_err(Error::Arguments)?;
        }
        if arguments.rate.is_none()
            && arguments.trace.is_none()
            && arguments.search.is_none()
            && (arguments.arrivals.is_some()
                || arguments.slot.is_some()
                || arguments.spin.is_some() && arguments.probes.is_none())
        {
            return refuse(String::from(
                "--arrivals, --spin and --slot are for an open loop: use --rate or --search, too",
            ));
        }
        if let Some(slot) = arguments.slot
            && !(SLOT_MIN..=SLOT_MAX).contains(&slot.0)
        {
            return refuse(format!("--slot must be between {SLOT_MIN:?} and {SLOT_MAX:?}, not {slot}"));
        }
        if stamped(arguments)
            && (arguments.udp || arguments.socket.is_some() || arguments.engine == EngineChoice::Epoll)
        {
            return refuse(String::from(
                "--kernel-timestamps and --slot are for TCP, driven by io_uring: not with --udp, --socket or --engine epoll",
            ));
        }
        let keys = Keys::new(arguments.keys, &asked.key_size).map_err(Error::Arguments)?;
        if mix.has(Command::counts) && !keys.have_prefix() {
            return refuse(String::from(
                "incr and decr need keys of at least 4 bytes and the digits of the largest number",
            ));
        }
        let start = unix_seconds();
        let expiry = asked.ttl.expiry(start);
        let values = Values::new(&asked.value_size);
        if arguments.udp {
            check_udp(arguments, mix, keys.longest() + values.longest()).map_err(Error::Arguments)?;
        }
        if !(arguments.speed > 0.0 && arguments.speed.is_finite()) {
            return refuse(format!("--speed must be above 0, not {}", arguments.speed));
        }
        let trace = arguments.trace.clone().map(|path| Trace { path, speed: arguments.speed });
        let timing = match &trace {
            Some(_) => Some(Timing::Trace),
            None => arguments.rate.map(|rate| Timing::Law(rate, asked.arrivals)),
        };
        Ok(Plan {
            target: Target::of(arguments)?,
            tls: arguments.tls.then(|| Tls::new(arguments, Target::host(arguments))).transpose()?,
            udp_timeout: arguments.udp.then_some(arguments.udp_timeout.0),
            items: Items { count: arguments.keys, keys, values, expiry, start },
            protocol: arguments.protocol,
            connections: arguments.connections,
            threads: arguments.threads,
            depth: arguments.depth,
            multiget: arguments.multiget,
            chooser: Chooser::new(arguments.keys, asked.popularity),
            verify: arguments.verify,
            backfill: arguments.backfill,
            warm_up: arguments.warm_up.0,
            duration: arguments.window(),
            requests: arguments.requests,
            engine: arguments.engine,
            gather: arguments.gather.unwrap_or(GATHER).max(1),
            stamped: stamped(arguments),
            part: Part::WHOLE,
            seed: arguments.seed,
            churn: churn(arguments).map_err(Error::Arguments)?,
            probes: probes(arguments).map_err(Error::Arguments)?,
            sleep: Sleep::of(arguments),
            pace: timing.map(|timing| Pace { timing, sleep: Sleep::of(arguments) }),
            trace,
            asked,
        })
    }

    /// When the window opens and closes, if the load begins at `at_ns`.
    pub(crate) fn window_ns(&self, at_ns: u64) -> Range<u64> {
        let open_ns = at_ns + self.warm_up.as_nanos() as u64;
        open_ns..self.duration.map_or(u64::MAX, |duration| open_ns + duration.as_nanos() as u64)
    }

    /// What carries the requests, in one word.
    pub(crate) fn transport(&self) -> &'static str {
        match (&self.target, self.udp_timeout) {
            (Target::Unix(_), _) => "unix",
            (Target::Tcp(_), None) if self.tls.is_some() => "tls",
            (Target::Tcp(_), None) => "tcp",
            (Target::Tcp(_), Some(_)) => "udp",
        }
    }

    /// Whether conversations have to know which items were asked for.
    pub(crate) fn tracks(&self) -> bool {
        self.verify || self.backfill
    }

    /// What a prefill stores: the items and, if they are asked for, as many counters.
    pub(crate) fn fills(&self) -> u64 {
        self.items.count * if self.asked.mix.has(Command::counts) { 2 } else { 1 }
    }

    /// The number of worker `index`, and of how many, over all machines.
    pub(crate) fn thread(&self, index: usize) -> Share {
        let Part { index: part, of } = self.part;
        Share { index: part * self.threads + index, threads: of * self.threads }
    }

    /// How many of `total` belong to worker `index`: the first ones take the remainder.
    pub(crate) fn share(&self, total: u64, index: usize) -> u64 {
        let threads = self.threads as u64;
        total / threads + u64::from((index as u64) < total % threads)
    }
}

/// Whether replies end when the kernel has them: in slots they wait to be read.
fn stamped(arguments: &Arguments) -> bool {
    arguments.kernel_timestamps || arguments.slot.is_some()
}

/// A thread does not wake up more quickly.
const SLOT_MIN: Duration = Duration::from_micros(10);
/// A longer one would keep replies from being read for so long that servers run out of room for them.
const SLOT_MAX: Duration = Duration::from_millis(10);

fn probes(arguments: &Arguments) -> Result<Option<Probes>, String> {
    let Some((connections, rate)) = arguments.probes.zip(arguments.probe_rate) else { return Ok(None) };
    if connections == 0 {
        return Err(String::from("--probes must be at least 1"));
    }
    check_rate("--probe-rate", rate)?;
    Ok(Some(Probes { connections, rate }))
}

fn check_rate(flag: &str, rate: f64) -> Result<(), String> {
    match (RATE_MIN..=RATE_MAX).contains(&rate) {
        true => Ok(()),
        false => Err(format!("{flag} must be between {RATE_MIN:e} and {RATE_MAX:e} requests/s, not {rate}")),
    }
}

fn churn(arguments: &Arguments) -> Result<Option<ChurnPlan>, String> {
    let Arguments { reconnect_after: after, churn: rate, storm, connections, .. } = arguments;
    if after.is_none() && rate.is_none() && storm.is_none() {
        return Ok(None);
    }
    if arguments.udp
        || arguments.socket.is_some()
        || arguments.engine == EngineChoice::Uring
        || stamped(arguments)
    {
        return Err(String::from(
            "--reconnect-after, --churn and --storm are for TCP, driven by epoll: not with --udp, --socket, --engine uring, \
             --kernel-timestamps or --slot",
        ));
    }
    if *after == Some(0) {
        return Err(String::from("--reconnect-after must be at least 1"));
    }
    if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && *rate <= CHURN_MAX)) {
        return Err(format!("--churn must be above 0 and at most {CHURN_MAX} connections/s, not {rate}"));
    }
    if let (Some(storm), Some(duration)) = (storm, &arguments.duration)
        && storm.at.0 >= duration.0
    {
        return Err(format!("--storm {storm} comes when the window of {duration} is over"));
    }
    if storm.is_some_and(|storm| storm.connections > *connections) {
        return Err(format!("--storm has more than the {connections} connections that there are"));
    }
    Ok(Some(ChurnPlan { after: *after, rate: *rate, storm: *storm }))
}

/// More than a machine opens.
const CHURN_MAX: f64 = 1e6;

/// What cannot be asked by datagrams.
fn check_udp(arguments: &Arguments, mix: &Mix, item_max: usize) -> Result<(), String> {
    if arguments.engine == EngineChoice::Uring {
        return Err(String::from("--udp is without io_uring: leave out --engine"));
    }
    if arguments.udp_timeout.0 < UDP_TIMEOUT_MIN {
        return Err(format!("--udp-timeout must be at least {UDP_TIMEOUT_MIN:?}"));
    }
    if arguments.depth > udp::DEPTH_MAX {
        return Err(format!("--depth of --udp must be at most {}", udp::DEPTH_MAX));
    }
    if arguments.multiget > 1 {
        // Each value is a message of its own there, with the same id and sequence numbers from 0.
        return Err(String::from(
            "--multiget is not for --udp: memcached numbers the datagrams of every value from 0, so a loss could not be told from a miss",
        ));
    }
    if (arguments.prefill || arguments.backfill || mix.has(Command::is_store))
        && item_max + SET_WORDS_MAX > udp::REQUEST_MAX
    {
        return Err(format!(
            "a set must fit a datagram: keys and values of --udp must be at most {} bytes together",
            udp::REQUEST_MAX - SET_WORDS_MAX
        ));
    }
    Ok(())
}

/// Of a request with a value, besides key and value: `prepend `, ` 0 2147483647 65507` and two line ends.
const SET_WORDS_MAX: usize = 31;
/// Less is less than a server that is put off by the scheduler once needs.
const UDP_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Keys on their way per connection: bounds what a connection remembers.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// A request in twelve days: nobody waits for less.
const RATE_MIN: f64 = 1e-6;
/// A request each nanosecond: more has no schedule in whole nanoseconds.
const RATE_MAX: f64 = 1e9;
/// Measured: 64 saves the client nothing over 16, and 1 costs it 5 to 40 % more CPU per request.
const GATHER: usize = 16;
