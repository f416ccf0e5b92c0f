//! Self-test: the open loop against a server whose latencies are known from theory.
//!
//! The server answers every get with a miss, and stalls for 100 ms of each second. A request that is due `t` into
//! such a stall waits for the rest of it, so the share of all requests that take longer than `x` is `(100 ms - x) / 1 s`:
//! p95 is 50 ms, p99 90 ms, p99.9 99 ms. A generator that counts from the moment of sending finds a p99 of well below a
//! millisecond, because the connections that wait for the server ask it nothing.
//!
//! The requests that queued up in a stall are answered in order, which takes a while, here a few milliseconds: the
//! server measures it, by counting, and theory includes it. Arrivals are constant, so that counting is exact.

use crate::measure::verdict::RunVerdict;
use crate::report::json::write_json;
use crate::report::summary::Summary;
use crate::run::measure;
use crate::types::arguments::Arguments;
use crate::types::arrivals::Arrivals;
use crate::types::clock::now_ns;
use crate::types::description::Description;
use crate::types::error::Error;
use crate::types::part::Part;
use crate::types::span::Span;
use crate::workload::plan::RunPlan;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use serde::Serialize;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The theory, the measurement, and whether they agree.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTest {
    /// They agree, and the run itself is VALID.
    pub passed: bool,
    /// Percentiles.
    pub quantiles: Vec<Quantile>,
    /// Requests per second asked for.
    pub rate_asked: f64,
    /// Requests per second that were answered.
    pub rate_got: f64,
    /// How often the server stalled in the window.
    pub stalls: usize,
    /// Length of the measured window.
    pub seconds: f64,
    /// The verdict on the run.
    pub verdict: RunVerdict,
}

/// One percentile.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantile {
    /// In percent.
    pub percent: f64,
    /// From the length of the stalls, and the time it took to catch up.
    pub theory_ms: f64,
    /// From intended to done.
    pub measured_ms: f64,
    /// From sent to done: what a generator without a schedule would report.
    pub from_sent_ms: f64,
}

/// How far a percentile may be off.
const OFF_MAX: f64 = 0.05;
/// How far the rate may be off.
const RATE_OFF_MAX: f64 = 0.01;
const RATE: f64 = 10_000.0;
/// So few that at most one request in 200 is on its way when a stall begins: with more of them, or deeper ones, times
/// from sending would look right, too.
const CONNECTIONS: usize = 50;
const DURATION: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_millis(500);
const PERCENTS: [f64; 3] = [95.0, 99.0, 99.9];
const EVERY_NS: u64 = 1_000_000_000;
const STALL_NS: u64 = 100_000_000;

/// Runs the test with the arguments' engine, threads, CPUs and duration.
pub fn self_test(arguments: &Arguments, progress: &mut dyn Write) -> Result<SelfTest, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::SelfTest)?;
    let address = listener.local_addr().map_err(Error::SelfTest)?;
    let plan = RunPlan::new(&with_server(&arguments.run, address), Part::WHOLE)?;
    let ended = AtomicBool::new(false);
    let (measured, stalls) = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &ended));
        let measured = measure(&plan, progress);
        ended.store(true, Ordering::Relaxed);
        (measured, server.join())
    });
    let mut stalls = stalls.map_err(|_| Error::Panic)?.map_err(Error::SelfTest)?;
    let measured = measured?;
    // The measuring thread may have seen it end late, or, when the last request had its reply, early.
    let window_ns = plan.window_ns(measured.open.at_ns.saturating_sub(plan.run.warm_up.0.as_nanos() as u64));
    stalls
        .retain(|stall| stall.begun_ns < window_ns.end && stall.begun_ns + stall.still_ns > window_ns.start);
    let of = |histogram: &hdrhistogram::Histogram<u64>, percent: f64| {
        histogram.value_at_quantile(percent / 100.0) as f64 / 1e6
    };
    let quantiles = PERCENTS
        .iter()
        .map(|&percent| Quantile {
            percent,
            theory_ms: theory_ns(&stalls, &window_ns, 1.0 - percent / 100.0) / 1e6,
            measured_ms: of(&measured.tally.latency_ns, percent),
            from_sent_ms: measured.tally.waits.as_ref().map_or(0.0, |waits| of(&waits.service_ns, percent)),
        })
        .collect();
    let test = SelfTest::judge(quantiles, stalls.len(), &Summary::new(&plan, measured));
    if let Some(path) = &arguments.json {
        write_json(&test, path)?;
    }
    Ok(test)
}

fn with_server(given: &Description, address: SocketAddr) -> Description {
    Description {
        server: Some(address.to_string()),
        rate: Some(RATE),
        arrivals: Some(Arrivals::Constant),
        connections: CONNECTIONS.max(given.threads),
        depth: 1,
        duration: Some(given.duration.unwrap_or(Span(DURATION))),
        warm_up: Span(WARM_UP),
        ..given.clone()
    }
}

/// One stall of the server.
#[derive(Clone, Copy, Debug)]
struct Stall {
    begun_ns: u64,
    still_ns: u64,
    /// How long it took afterwards to answer the queued requests; `None`: it never did.
    caught_up_ns: Option<u64>,
}

/// Answers every line with a miss, but stalls in the first 100 ms of each second; returns when it did.
fn serve(listener: &TcpListener, ended: &AtomicBool) -> io::Result<Vec<Stall>> {
    let mut connections: Vec<TcpStream> = Vec::new();
    let mut stalls: Vec<Stall> = Vec::new();
    let mut answered = 0;
    let mut buffer = vec![0; 16 * 1024];
    while !ended.load(Ordering::Relaxed) {
        let now = now_ns();
        if now % EVERY_NS < STALL_NS {
            sleep_until(now - now % EVERY_NS + STALL_NS);
            stalls.push(Stall { begun_ns: now, still_ns: now_ns() - now, caught_up_ns: None });
            answered = 0;
        }
        let mut sockets = vec![PollFd::new(listener, PollFlags::IN)];
        sockets.extend(connections.iter().map(|connection| PollFd::new(connection, PollFlags::IN)));
        let patience_ns = (EVERY_NS - now_ns() % EVERY_NS).min(LOOK_EVERY_NS);
        poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: patience_ns as i64 }))?;
        let ready: Vec<bool> = sockets.iter().map(|socket| !socket.revents().is_empty()).collect();
        for at in (0..connections.len()).rev().filter(|at| ready[at + 1]) {
            match answer(&connections[at], &mut buffer) {
                Ok(Some(lines)) => answered += lines,
                // The generator has gone, or has ended with replies unread.
                Ok(None) | Err(_) => drop(connections.remove(at)),
            }
        }
        if let Some(stall) = stalls.last_mut().filter(|stall| stall.caught_up_ns.is_none()) {
            stall.catch_up(answered, now_ns());
        }
        if ready[0] {
            let (connection, _) = listener.accept()?;
            connection.set_nodelay(true)?;
            connections.push(connection);
        }
    }
    Ok(stalls)
}

/// How often the server looks whether the test has ended.
const LOOK_EVERY_NS: u64 = 50_000_000;

impl Stall {
    /// This many requests have been answered since it began.
    fn catch_up(&mut self, answered: usize, now_ns: u64) {
        let since_ns = now_ns - self.begun_ns;
        // One in each connection may be on its way.
        if (answered + CONNECTIONS) as f64 >= RATE * since_ns as f64 / 1e9 {
            self.caught_up_ns = Some(since_ns - self.still_ns);
        }
    }
}

fn sleep_until(until_ns: u64) {
    let until =
        Timespec { tv_sec: (until_ns / 1_000_000_000) as i64, tv_nsec: (until_ns % 1_000_000_000) as i64 };
    // Whether a signal cut the stall short, the clock shows afterwards.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

/// The number of lines received; `None` once the other side has gone.
fn answer(mut connection: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let len = connection.read(buffer)?;
    let lines = buffer[..len].iter().filter(|byte| **byte == b'\n').count();
    connection.write_all(&b"END\r\n".repeat(lines))?;
    Ok((len > 0).then_some(lines))
}

/// The time that this share of all requests of the window exceed, if they arrive evenly and each waits for the end of the
/// stall that it arrives in, and then for those before it.
///
/// A stall of S and C to catch up: all that arrive within S + C are answered one after the other within C. So their
/// latencies fall evenly from S to 0, and the first (S - x) / S of them take longer than x. Of a stall across an edge of
/// the window, those count that arrive inside.
fn theory_ns(stalls: &[Stall], window_ns: &Range<u64>, share: f64) -> f64 {
    let known: Vec<f64> =
        stalls.iter().filter_map(|stall| stall.caught_up_ns).map(|catch_up| catch_up as f64).collect();
    let catch_up_ns = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let (open_ns, close_ns) = (window_ns.start as f64, window_ns.end as f64);
    let exceeding = |latency_ns: f64| {
        let of = |stall: &Stall| {
            let (begun_ns, still_ns) = (stall.begun_ns as f64, stall.still_ns as f64);
            let until_ns = begun_ns + (1.0 - latency_ns / still_ns).max(0.0) * (still_ns + catch_up_ns);
            (until_ns.min(close_ns) - begun_ns.max(open_ns)).max(0.0)
        };
        stalls.iter().map(of).sum::<f64>() / (close_ns - open_ns)
    };
    let longest_ns = stalls.iter().map(|stall| stall.still_ns).max().unwrap_or_default();
    let (mut low, mut high) = (0.0, longest_ns as f64);
    // To the nanosecond, from a second or less.
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        *(if exceeding(middle) > share { &mut low } else { &mut high }) = middle;
    }
    high
}

impl SelfTest {
    fn judge(quantiles: Vec<Quantile>, stalls: usize, summary: &Summary) -> SelfTest {
        // The requests of a stall at the end of the window that are answered after it are part of the theory.
        let mut verdict = summary.verdict.clone();
        verdict.reasons.retain(|reason| reason.what != "overloaded");
        verdict.valid = verdict.reasons.is_empty();
        let seconds = summary.seconds;
        let rate_got = summary.requests as f64 / seconds;
        let agrees = quantiles.iter().all(|quantile| quantile.off().abs() <= OFF_MAX)
            && (rate_got / RATE - 1.0).abs() <= RATE_OFF_MAX;
        SelfTest {
            passed: agrees && verdict.valid,
            quantiles,
            rate_asked: RATE,
            rate_got,
            stalls,
            seconds,
            verdict,
        }
    }
}

impl Quantile {
    /// How far the measured time is from theory, as a share of it.
    pub fn off(&self) -> f64 {
        self.measured_ms / self.theory_ms - 1.0
    }
}

impl fmt::Display for SelfTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "self-test: a server that stands still for 100 ms of each second, {RATE} requests/s, {CONNECTIONS} \
             connections, {:.1} s",
            self.seconds
        )?;
        writeln!(f, "  {:<8}{:>12}{:>12}{:>10}   counted from sending", "", "theory", "measured", "off")?;
        for quantile in &self.quantiles {
            writeln!(
                f,
                "  {:<8}{:>9.1} ms{:>9.1} ms{:>8.1} %{:>20.1} ms",
                format!("p{}", quantile.percent),
                quantile.theory_ms,
                quantile.measured_ms,
                quantile.off() * 100.0,
                quantile.from_sent_ms
            )?;
        }
        let off = (self.rate_got / self.rate_asked - 1.0) * 100.0;
        writeln!(f, "  {:<8}{:>10.0}/s{:>10.0}/s{off:>8.1} %", "rate", self.rate_asked, self.rate_got)?;
        if !self.verdict.valid {
            return write!(f, "{}", self.verdict);
        }
        match self.passed {
            true => writeln!(f, "VALID: within 5 % of theory, and within 1 % of the rate"),
            false => writeln!(
                f,
                "INVALID: off by more than 5 %, or by more than 1 % of the rate; other programs on these CPUs?"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
