//! Tally of what one worker counts.

use crate::measure::backlog::BacklogCounts;
use crate::measure::failures::{FailureKind, Failures};
use crate::measure::histogram::histogram;
use crate::measure::packed;
use crate::measure::seconds::{SecondCounts, Slots};
use crate::types::mix::Command;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts and latencies of the requests that were completed. The tallies of several machines are added like those of
/// several workers: this type is sent as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Requests by the number of their command.
    pub(crate) done: [u64; Command::ALL.len()],
    /// Of these, those that the state of the item did not allow.
    pub(crate) declined: [u64; Command::ALL.len()],
    /// Keys asked for by gets.
    pub(crate) keys_asked: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Sets of items that were missed.
    pub(crate) refills: u64,
    /// Values that do not belong to their key.
    pub(crate) wrong: u64,
    pub(crate) errors: u64,
    /// Failed requests of the seconds that have been told of.
    pub(crate) failures: Failures,
    /// Datagrams that answered no request.
    pub(crate) strays: u64,
    /// Of a closed loop: for how long a request had waited for its reply when the run ended.
    pub(crate) silence_ns: u64,
    /// Of an open loop: requests that were due and not answered, in the course of the window.
    pub(crate) backlog: BacklogCounts,
    /// How often each error line came; at most `LINES_MAX` of them.
    pub(crate) error_lines: BTreeMap<String, u64>,
    /// From sent to done in a closed loop, from intended to done in an open one; in the seconds that have been told of.
    #[serde(with = "packed")]
    pub(crate) latency_ns: Histogram<u64>,
    /// If connections come and go.
    pub(crate) churn: Option<Box<ChurnTally>>,
    /// Of encrypted connections: those of the whole run, which are few and mostly lie before the window.
    pub(crate) handshakes: Option<Box<Handshakes>>,
    /// Of an open loop.
    pub(crate) waits: Option<Box<Waits>>,
    /// If the kernel says when replies came: for how long it had them before they were read.
    pub(crate) unread: Option<Box<Unread>>,
    /// Requests and keys completed that were not intended in the window.
    #[serde(skip)]
    outside: (u64, u64),
    /// Requests of one turn have the same latency: counted here and recorded at once.
    #[serde(skip)]
    run: (u64, u64),
    /// The seconds that have not been told of.
    #[serde(skip)]
    pub(crate) slots: Slots,
}

/// The parts of an open-loop request's latency.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waits {
    /// From intended to sent: waiting for a connection included.
    #[serde(with = "packed")]
    pub(crate) slip_ns: Histogram<u64>,
    /// From possible to sent: the lateness of this program.
    #[serde(with = "packed")]
    pub(crate) late_ns: Histogram<u64>,
    /// From sent to done.
    #[serde(with = "packed")]
    pub(crate) service_ns: Histogram<u64>,
}

/// Replies that waited in the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Unread {
    #[serde(with = "packed")]
    pub(crate) waited_ns: Histogram<u64>,
}

/// Connections that came and went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ChurnTally {
    /// How long it took to open them.
    #[serde(with = "packed")]
    pub(crate) took_ns: Histogram<u64>,
    pub(crate) refused: u64,
    pub(crate) timed_out: u64,
    /// Closed by the server.
    pub(crate) closed: u64,
    /// Ended otherwise: reset, given up after a timeout or a malformed reply.
    pub(crate) broken: u64,
}

impl ChurnTally {
    pub(crate) fn opened(&mut self, took_ns: u64) {
        self.took_ns.saturating_record(took_ns);
    }
}

/// How connections agreed on their encryption.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Handshakes {
    #[serde(with = "packed")]
    pub(crate) took_ns: Histogram<u64>,
    /// How many went on with an earlier session.
    pub(crate) resumed: u64,
}

/// Servers have few errors; this bounds the memory for a server with many different ones.
const LINES_MAX: usize = 16;
const LINE_SHOWN_MAX: usize = 120;

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            done: [0; Command::ALL.len()],
            declined: [0; Command::ALL.len()],
            keys_asked: 0,
            hits: 0,
            misses: 0,
            refills: 0,
            wrong: 0,
            errors: 0,
            failures: Failures::default(),
            strays: 0,
            silence_ns: 0,
            backlog: BacklogCounts::default(),
            error_lines: BTreeMap::new(),
            latency_ns: histogram(),
            churn: None,
            handshakes: None,
            waits: None,
            unread: None,
            outside: (0, 0),
            run: (0, 0),
            slots: Slots::default(),
        }
    }

    /// For an open loop.
    pub(crate) fn open() -> Tally {
        let waits = Waits { slip_ns: histogram(), late_ns: histogram(), service_ns: histogram() };
        Tally { waits: Some(Box::new(waits)), ..Tally::new() }
    }

    /// Requests and keys completed, whether they count or not.
    pub(crate) fn completed(&self) -> (u64, u64) {
        (self.requests() + self.outside.0, self.keys() + self.outside.1)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.done.iter().sum()
    }

    pub(crate) fn gets(&self) -> u64 {
        self.done[Command::Get as usize] + self.done[Command::Gets as usize]
    }

    /// Sets that the server declined without an error.
    pub(crate) fn not_stored(&self) -> u64 {
        self.declined[Command::Set as usize]
    }

    /// Keys asked for or changed.
    pub(crate) fn keys(&self) -> u64 {
        self.keys_asked + self.requests() - self.gets()
    }

    /// One more request took `latency_ns`; by this time of it, it belongs to a second.
    #[inline]
    pub(crate) fn took(&mut self, at_ns: u64, latency_ns: u64) {
        if self.run.0 != latency_ns || !self.slots.is_current(at_ns) {
            self.settle();
            self.run.0 = latency_ns;
            if !self.slots.is_current(at_ns) {
                self.slots.turn_to(at_ns);
            }
        }
        self.run.1 += 1;
    }

    /// Requests failed, which by this time belong to a second.
    #[cold]
    pub(crate) fn fail(&mut self, at_ns: u64, kind: FailureKind, requests: u64) {
        self.settle();
        self.slots.fail(at_ns, kind, requests);
    }

    /// The seconds before this one, which get no more requests.
    pub(crate) fn close(&mut self, until: u64) -> Vec<(u64, SecondCounts)> {
        self.settle();
        let closed = self.slots.close(until);
        for (_, counts) in &closed {
            counts.latency_ns.iter().for_each(|latency_ns| add(&mut self.latency_ns, latency_ns));
            self.failures.add_all(&counts.failures);
        }
        closed
    }

    /// A request of an open loop waited for these times.
    #[inline]
    pub(crate) fn waited(&mut self, slip_ns: u64, late_ns: u64, service_ns: u64) {
        if let Some(waits) = &mut self.waits {
            self.slots.slipped(slip_ns);
            waits.slip_ns.saturating_record(slip_ns);
            waits.late_ns.saturating_record(late_ns);
            waits.service_ns.saturating_record(service_ns);
        }
    }

    /// A reply had waited in the kernel for this long.
    #[inline]
    pub(crate) fn unread(&mut self, unread_ns: u64) {
        let none = || Box::new(Unread { waited_ns: histogram() });
        self.unread.get_or_insert_with(none).waited_ns.saturating_record(unread_ns);
    }

    /// A request that was not intended in the window asked for this many keys, 0 for a change.
    pub(crate) fn outside(&mut self, keys: u32) {
        self.outside.0 += 1;
        self.outside.1 += u64::from(keys.max(1));
    }

    /// Adds the counts of connections that come and go.
    #[cold]
    pub(crate) fn churn(&mut self) -> &mut ChurnTally {
        let none =
            || Box::new(ChurnTally { took_ns: histogram(), refused: 0, timed_out: 0, closed: 0, broken: 0 });
        self.churn.get_or_insert_with(none)
    }

    /// A connection has completed its handshake.
    #[cold]
    pub(crate) fn agreed(&mut self, took_ns: u64, is_resumed: bool) {
        let none = || Box::new(Handshakes { took_ns: histogram(), resumed: 0 });
        let handshakes = self.handshakes.get_or_insert_with(none);
        handshakes.took_ns.saturating_record(took_ns);
        handshakes.resumed += u64::from(is_resumed);
    }

    /// The window of an open loop begins. The requests of the warm-up have not counted before; nor do other events in
    /// it.
    pub(crate) fn begin(&mut self) {
        (self.errors, self.wrong, self.strays) = (0, 0, 0);
        self.error_lines.clear();
        self.churn = None;
    }

    /// Takes over the handshakes that another tally has counted.
    pub(crate) fn take_handshakes_of(&mut self, other: Tally) {
        self.handshakes = other.handshakes;
    }

    /// Moves the pending run into the histogram of its second.
    pub(crate) fn settle(&mut self) {
        if self.run.1 > 0 {
            self.slots.latency_ns().saturating_record_n(self.run.0, self.run.1);
            self.run.1 = 0;
        }
    }

    #[cold]
    pub(crate) fn error(&mut self, line: &[u8]) {
        self.errors += 1;
        self.note(printable(line));
    }

    /// Counts a line to be shown, an error's or about a failure.
    pub(crate) fn note(&mut self, shown: String) {
        if self.error_lines.len() < LINES_MAX || self.error_lines.contains_key(&shown) {
            *self.error_lines.entry(shown).or_default() += 1;
        }
    }

    /// Adds another worker's counts, both after their last second.
    pub(crate) fn add(&mut self, other: &Tally) {
        let counts = self.done.iter_mut().chain(&mut self.declined);
        for (sum, count) in counts.zip(other.done.iter().chain(&other.declined)) {
            *sum += count;
        }
        self.keys_asked += other.keys_asked;
        self.hits += other.hits;
        self.misses += other.misses;
        self.refills += other.refills;
        self.wrong += other.wrong;
        self.errors += other.errors;
        self.failures.add_all(&other.failures);
        self.strays += other.strays;
        self.silence_ns = self.silence_ns.max(other.silence_ns);
        self.backlog.iter_mut().zip(other.backlog).for_each(|(sum, count)| *sum += count);
        for (line, times) in &other.error_lines {
            *self.error_lines.entry(line.clone()).or_default() += times;
        }
        add(&mut self.latency_ns, &other.latency_ns);
        if let Some(others) = &other.churn {
            let churn = self.churn();
            add(&mut churn.took_ns, &others.took_ns);
            churn.refused += others.refused;
            churn.timed_out += others.timed_out;
            churn.closed += others.closed;
            churn.broken += others.broken;
        }
        match (&mut self.handshakes, &other.handshakes) {
            (Some(handshakes), Some(others)) => {
                add(&mut handshakes.took_ns, &others.took_ns);
                handshakes.resumed += others.resumed;
            }
            (handshakes, others) => *handshakes = handshakes.take().or_else(|| others.clone()),
        }
        match (&mut self.waits, &other.waits) {
            (Some(waits), Some(others)) => {
                add(&mut waits.slip_ns, &others.slip_ns);
                add(&mut waits.late_ns, &others.late_ns);
                add(&mut waits.service_ns, &others.service_ns);
            }
            (waits, others) => *waits = waits.take().or_else(|| others.clone()),
        }
        match (&mut self.unread, &other.unread) {
            (Some(unread), Some(others)) => add(&mut unread.waited_ns, &others.waited_ns),
            (unread, others) => *unread = unread.take().or_else(|| others.clone()),
        }
    }
}

fn add(sum: &mut Histogram<u64>, other: &Histogram<u64>) {
    sum.add(other).expect("histograms of one shape");
}

/// A line from the wire for people: escaped and cut.
pub(crate) fn printable(line: &[u8]) -> String {
    line[..line.len().min(LINE_SHOWN_MAX)].escape_ascii().to_string()
}
