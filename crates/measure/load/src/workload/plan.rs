//! Plan that workers follow: derived from the description of the run, here alone, after every check.

use crate::engine::target::Target;
use crate::engine::trust::Tls;
use crate::engine::udp;
use crate::types::arrivals::pace::{OpenLoopPace, Sleep, Timing};
use crate::types::churn::{ChurnPlan, Storm};
use crate::types::description::server_processes::ServerProcesses;
use crate::types::description::{Description, EngineChoice};
use crate::types::error::Error;
use crate::types::mix::{Command, Mix};
use crate::types::part::Part;
use crate::types::part::Share;
use crate::types::popularity::Popularity;
use crate::types::probes::Probes;
use crate::types::span::Span;
use crate::workload::asked::RequestedLoad;
use crate::workload::chooser::Chooser;
use crate::workload::items::Items;
use crate::workload::keyspace::{ItemKeys, ItemValues};
use crate::workload::trace::Trace;
use os::clock::unix_s;
use std::ops::Range;
use std::time::Duration;

/// A run that can be carried out without further checks.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// As requested, for all machines together.
    pub(crate) run: Description,
    /// The part that is this machine's.
    pub(crate) part: Part,
    pub(crate) target: Target,
    /// With encryption.
    pub(crate) tls: Option<Tls>,
    pub(crate) items: Items,
    pub(crate) asked: RequestedLoad,
    pub(crate) chooser: Chooser,
    /// Of this machine.
    pub(crate) connections: usize,
    /// Of this machine. At least one of the two limits is set, or a trace ends the run.
    pub(crate) requests: Option<u64>,
    pub(crate) duration: Option<Duration>,
    /// Replies end when the kernel has them.
    pub(crate) stamped: bool,
    /// If connections come and go.
    pub(crate) churn: Option<ChurnPlan>,
    /// If there are probes besides the load.
    pub(crate) probes: Option<Probes>,
    /// The server, if its CPU time is measured here.
    pub(crate) server_pid: Option<ServerProcesses>,
    /// How open loops wait for the next request: the load's and, but for slots, the probes'.
    pub(crate) sleep: Sleep,
    /// Of an open loop.
    pub(crate) pace: Option<OpenLoopPace>,
    /// The trace that gives the pace.
    pub(crate) trace: Option<Trace>,
}

impl RunPlan {
    /// The plan of a machine that carries out this part of the run.
    pub(crate) fn new(run: &Description, part: Part) -> Result<RunPlan, Error> {
        check(run, part).map_err(Error::Arguments)?;
        let mut filled = run.clone();
        let asked = RequestedLoad::fill(&mut filled).map_err(Error::Arguments)?;
        filled.arrivals.take_if(|_| run.rate.is_none());
        filled.duration = run.window().map(Span);
        let keys = check_items(run, &asked).map_err(Error::Arguments)?;
        let values = ItemValues::new(&asked.value_size);
        if run.udp {
            check_udp(run, &asked.mix, keys.longest() + values.longest()).map_err(Error::Arguments)?;
        }
        let start = unix_s();
        let expiry = asked.ttl.expiry(start);
        let trace = run.trace.clone().map(|path| Trace { path, speed: run.speed, rate: run.rate });
        let timing = match &trace {
            Some(_) => Some(Timing::Trace),
            None => run.rate.map(|rate| Timing::Law(rate, asked.arrivals)),
        };
        Ok(RunPlan {
            target: Target::of(run)?,
            tls: run.tls.then(|| Tls::new(run, Target::host(run))).transpose()?,
            items: Items { count: run.keys, keys, values, expiry, start },
            chooser: Chooser::new(run.keys, asked.popularity),
            connections: part.share(run.connections as u64) as usize,
            requests: run.requests.map(|requests| part.share(requests)),
            duration: run.window(),
            stamped: stamped(run),
            churn: churn(run, part).map_err(Error::Arguments)?,
            probes: probes(run).map_err(Error::Arguments)?,
            server_pid: run.server_pid.clone(),
            sleep: Sleep::of(run),
            pace: timing.map(|timing| OpenLoopPace { timing, sleep: Sleep::of(run) }),
            // With a trace these flags have no effect.
            run: if trace.is_some() { run.clone() } else { filled },
            trace,
            part,
            asked,
        })
    }

    /// When the window opens and closes, if the load begins at `at_ns`.
    pub(crate) fn window_ns(&self, at_ns: u64) -> Range<u64> {
        let open_ns = at_ns + self.run.warm_up.0.as_nanos() as u64;
        open_ns..self.duration.map_or(u64::MAX, |duration| open_ns + duration.as_nanos() as u64)
    }

    /// The transport of the requests, in one word.
    pub(crate) fn transport(&self) -> &'static str {
        match &self.target {
            Target::Unix(_) => "unix",
            Target::Tcp(_) if self.run.udp => "udp",
            Target::Tcp(_) if self.tls.is_some() => "tls",
            Target::Tcp(_) => "tcp",
        }
    }

    /// Whether conversations have to track the items of requests.
    pub(crate) fn tracks(&self) -> bool {
        self.run.verify || self.run.backfill
    }

    /// The items that a prefill stores, and as many counters if the commands need them.
    pub(crate) fn fills(&self) -> u64 {
        self.items.count.saturating_mul(if self.asked.mix.has(Command::counts) { 2 } else { 1 })
    }

    /// The number of worker `index`, and the number of all workers, over all machines.
    pub(crate) fn thread(&self, index: usize) -> Share {
        let Part { index: part, of } = self.part;
        Share { index: part * self.run.threads + index, threads: of * self.run.threads }
    }

    /// How many of `total` belong to worker `index`: the first ones take the remainder.
    pub(crate) fn share(&self, total: u64, index: usize) -> u64 {
        let threads = self.run.threads as u64;
        total / threads + u64::from((index as u64) < total % threads)
    }
}

/// Errors in the numbers of a run, each by itself and in combination.
fn check(run: &Description, part: Part) -> Result<(), String> {
    for (name, value) in [
        ("connections", run.connections),
        ("threads", run.threads),
        ("depth", run.depth),
        ("multiget", run.multiget),
    ] {
        if value == 0 {
            return Err(format!("--{name} must be at least 1"));
        }
    }
    if run.keys == 0 || run.requests == Some(0) {
        return Err(String::from("--keys and --requests must be at least 1"));
    }
    if run.duration.is_some_and(|span| span.0.is_zero()) {
        return Err(String::from("--duration must be above 0"));
    }
    let threads = run.threads.saturating_mul(part.of);
    if run.connections < threads {
        let whose = if part.of > 1 { " of all agents" } else { "" };
        return Err(format!("{threads} threads{whose} need as many connections"));
    }
    if run.requests.is_some_and(|requests| requests < part.of as u64) {
        return Err(String::from("--requests must be at least 1 for each agent"));
    }
    if run.depth.saturating_mul(run.multiget) > IN_FLIGHT_MAX {
        return Err(format!("--depth times --multiget must be at most {IN_FLIGHT_MAX}"));
    }
    if run.udp && (run.socket.is_some() || run.tls) || run.tls && run.socket.is_some() {
        return Err(String::from("--udp, --tls and --socket exclude each other"));
    }
    if let Some(Span(timeout)) = run.timeout {
        if run.udp {
            return Err(String::from("--timeout is for connections: datagrams have --udp-timeout"));
        }
        if timeout < TIMEOUT_MIN {
            return Err(format!("--timeout must be at least {TIMEOUT_MIN:?}, not {}", Span(timeout)));
        }
    }
    if !(run.speed > 0.0 && run.speed.is_finite()) {
        return Err(format!("--speed must be above 0, not {}", run.speed));
    }
    check_pace(run)
}

/// Errors in the pacing of requests and the reading of replies.
fn check_pace(run: &Description) -> Result<(), String> {
    if let Some(rate) = run.rate {
        check_rate("--rate", rate)?;
    }
    if run.rate.is_none()
        && run.trace.is_none()
        && (run.arrivals.is_some() || run.slot.is_some() || run.spin.is_some() && run.probes.is_none())
    {
        return Err(String::from(
            "--arrivals, --spin and --slot are for an open loop: use --rate or --search, too",
        ));
    }
    if let Some(slot) = run.slot
        && !(SLOT_MIN..=SLOT_MAX).contains(&slot.0)
    {
        return Err(format!("--slot must be between {SLOT_MIN:?} and {SLOT_MAX:?}, not {slot}"));
    }
    if stamped(run) && (run.udp || run.socket.is_some() || run.engine == EngineChoice::Epoll) {
        return Err(String::from(
            "--kernel-timestamps and --slot are for TCP, driven by io_uring: not with --udp, --socket or --engine epoll",
        ));
    }
    Ok(())
}

/// The keys, or an error about them.
fn check_items(run: &Description, asked: &RequestedLoad) -> Result<ItemKeys, String> {
    let mix = &asked.mix;
    if matches!(asked.popularity, Popularity::Hot { keys, .. } if keys >= run.keys) {
        return Err(format!("{} of {} keys: some have to be cold", asked.popularity, run.keys));
    }
    if run.verify && mix.has(|command| matches!(command, Command::Append | Command::Prepend)) {
        return Err(String::from("append and prepend change values, which --verify would find wrong"));
    }
    let keys = ItemKeys::new(run.keys, &asked.key_size)?;
    if mix.has(Command::counts) && !keys.have_prefix() {
        return Err(String::from(
            "incr and decr need keys of at least 4 bytes and the digits of the largest number",
        ));
    }
    Ok(keys)
}

/// Whether replies end when the kernel has them: in slots they wait to be read.
fn stamped(run: &Description) -> bool {
    run.kernel_timestamps || run.slot.is_some()
}

/// A thread does not wake up in less.
const SLOT_MIN: Duration = Duration::from_micros(10);
/// A longer one would keep replies from being read for so long that servers run out of room for them.
const SLOT_MAX: Duration = Duration::from_millis(10);

fn probes(run: &Description) -> Result<Option<Probes>, String> {
    let Some((connections, rate)) = run.probes.zip(run.probe_rate) else { return Ok(None) };
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

fn churn(run: &Description, part: Part) -> Result<Option<ChurnPlan>, String> {
    let Description { reconnect_after: after, churn: rate, storm, connections, .. } = run;
    if after.is_none() && rate.is_none() && storm.is_none() {
        return Ok(None);
    }
    if run.udp || run.socket.is_some() || run.engine == EngineChoice::Uring || stamped(run) {
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
    if let (Some(storm), Some(duration)) = (storm, &run.duration)
        && storm.at.0 >= duration.0
    {
        return Err(format!("--storm {storm} comes when the window of {duration} is over"));
    }
    if storm.is_some_and(|storm| storm.connections > *connections) {
        return Err(format!("--storm has more than the {connections} connections that there are"));
    }
    let share = |storm: Storm| part.share(storm.connections as u64) as usize;
    let storm = storm.map(|storm| Storm { connections: share(storm), ..storm });
    Ok(Some(ChurnPlan { after: *after, rate: *rate, storm }))
}

/// More than a machine opens.
const CHURN_MAX: f64 = 1e6;

/// Requests that datagrams do not allow.
fn check_udp(run: &Description, mix: &Mix, item_max: usize) -> Result<(), String> {
    if run.engine == EngineChoice::Uring {
        return Err(String::from("--udp is without io_uring: leave out --engine"));
    }
    if run.udp_timeout.0 < UDP_TIMEOUT_MIN {
        return Err(format!("--udp-timeout must be at least {UDP_TIMEOUT_MIN:?}"));
    }
    if run.depth > udp::DEPTH_MAX {
        return Err(format!("--depth of --udp must be at most {}", udp::DEPTH_MAX));
    }
    if run.multiget > 1 {
        // Each value is a message of its own there, with the same id and sequence numbers from 0.
        return Err(String::from(
            "--multiget is not for --udp: memcached numbers the datagrams of every value from 0, so a loss could not be told from a miss",
        ));
    }
    if (run.prefill || run.backfill || mix.has(Command::is_store))
        && item_max + SET_WORDS_MAX > udp::REQUEST_MAX
    {
        return Err(format!(
            "a set must fit a datagram: keys and values of --udp must be at most {} bytes together",
            udp::REQUEST_MAX - SET_WORDS_MAX
        ));
    }
    Ok(())
}

/// The bytes of a request besides key and value: a packet's header and extras, which are longer than `prepend `,
/// ` 0 2147483647 65507` and two line ends.
const SET_WORDS_MAX: usize = 32;
/// Late replies are looked for every millisecond.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Shorter than a server that the scheduler delays once may need.
const UDP_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Pending keys per connection: bounds the memory of a conversation.
const IN_FLIGHT_MAX: usize = 1 << 20;
/// A request in twelve days: a lower rate is useless.
const RATE_MIN: f64 = 1e-6;
/// A request each nanosecond: a higher rate has no schedule in whole nanoseconds.
const RATE_MAX: f64 = 1e9;
