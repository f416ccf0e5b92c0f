//! Misses with the same memory: traces replayed at a fixed rate, so that items expire alike.
//!
//! Three at the same time: ours and the peer with the same `-m`, and the peer with an `-m` that makes its
//! resident memory equal to ours.

use std::ops::Range;
use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use protocol::client::command::{self, AppendKey, Reply};
use protocol::request::ArithmeticMode;

use super::client::StoreClient;
use super::content::{Values, number_in, push_key};
use super::report::{Goal, MIB, Row, progress};
use super::server::{BenchServer, Subjects};
use super::trace::{BenchTrace, PATTERNS, Pattern, TraceVerb};

const MEGABYTES: u64 = 64;

/// `only`: what the names of the traces must contain.
pub(crate) fn measure(subjects: &Subjects, seed: u64, only: Option<&str>) -> Result<Vec<Row>> {
    let wanted = |pattern: &&Pattern| only.is_none_or(|only| pattern.name.contains(only));
    let mut rows = Vec::new();
    let (mut equal_limit, mut equal_rss) = (Reductions::default(), Reductions::default());
    for pattern in PATTERNS.iter().filter(wanted) {
        let trace = BenchTrace::new(pattern, seed);
        let history = trace.history(seed);
        let floor = 100.0 * trace.unavoidable();
        progress(format!(
            "misses {:<10} working set {:.1} × the memory, {floor:.2} % of the gets must miss",
            pattern.name,
            trace.bytes() as f64 / (MEGABYTES << 20) as f64
        ));
        // A server ends with the thread that started it.
        let ours = BenchServer::start(&subjects.ours, MEGABYTES)?;
        let peer = BenchServer::start(&subjects.peer, MEGABYTES)?;
        let (ours, peer) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| Player::filled(ours, MEGABYTES, &trace, &history));
            let peer = Player::filled(peer, MEGABYTES, &trace, &history);
            (ours.join().expect("filling does not panic"), peer)
        });
        let (ours, peer) = (ours?, peer?);
        let megabytes = equal_megabytes(&ours.server, &peer.server)?;
        let equal = BenchServer::start(&subjects.peer, megabytes)?;
        let equal = Player::filled(equal, megabytes, &trace, &history)?;
        let [ours, peer, equal] = play_all([ours, peer, equal])?;
        for (what, peer, reductions) in [
            (format!("-m {MEGABYTES} both"), peer, &mut equal_limit),
            (format!("equal RSS (peer -m {megabytes})"), equal, &mut equal_rss),
        ] {
            let avoidable = reductions.add(ours.missing, peer.missing, floor);
            let note = format!(
                "RSS {:.1} and {:.1} MiB; {floor:.2} % must miss, of the others {avoidable:.1} % fewer",
                ours.resident / MIB,
                peer.resident / MIB,
            );
            let measure = format!("{}, {what}", pattern.name);
            rows.push(Row::new("misses", measure, "%", ours.missing, peer.missing).note(note));
        }
    }
    ensure!(
        !rows.is_empty(),
        "no trace has such a name; there are: {}",
        PATTERNS.map(|pattern| pattern.name).join(", ")
    );
    rows.extend(equal_limit.rows("-m equal"));
    let goals = [Goal::at_least(10.0, 20.0), Goal::at_least(0.0, 0.0), Goal::at_least(10.0, 20.0), None];
    rows.extend(equal_rss.rows("RSS equal").into_iter().zip(goals).map(|(row, goal)| row.goal(goal)));
    Ok(rows)
}

/// By how many percent misses are fewer than the peer's, trace by trace.
#[derive(Default)]
struct Reductions {
    all: Vec<f64>,
    /// Of those that more memory would have avoided.
    avoidable: Vec<f64>,
}

impl Reductions {
    /// Takes percentages of gets; returns the reduction of avoidable misses.
    fn add(&mut self, ours: f64, peer: f64, floor: f64) -> f64 {
        let avoidable = 100.0 * (1.0 - (ours - floor) / (peer - floor));
        self.all.push(100.0 * (1.0 - ours / peer));
        self.avoidable.push(avoidable);
        avoidable
    }

    fn rows(self, what: &str) -> [Row; 4] {
        let row = |which: &str, reduction| {
            Row::alone("misses", format!("{what}: fewer {which} trace"), "%", reduction)
        };
        let [all, avoidable] = [self.all, self.avoidable].map(|mut reductions| {
            reductions.sort_by(f64::total_cmp);
            reductions
        });
        [
            row("misses, median", middle(&all)),
            row("misses, worst", all[0]),
            row("avoidable misses, median", middle(&avoidable)),
            row("avoidable misses, worst", avoidable[0]),
        ]
    }
}

/// The median of sorted numbers.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// The peer's `-m` with which its resident memory would be as large as ours; both are full.
fn equal_megabytes(ours: &BenchServer, peer: &BenchServer) -> Result<u64> {
    let above_empty = |bytes: u64| bytes.saturating_sub(peer.empty_bytes) as f64;
    let ratio = above_empty(ours.settled_bytes()?) / above_empty(peer.settled_bytes()?);
    Ok((MEGABYTES as f64 * ratio).round().max(1.0) as u64)
}

/// Replays the trace on all of them, each second of it in the same second.
fn play_all<const N: usize>(players: [Player<'_>; N]) -> Result<[Replayed; N]> {
    let ready = Barrier::new(N);
    let replayed = std::thread::scope(|scope| {
        let replays = players.map(|mut player| {
            let ready = &ready;
            scope.spawn(move || player.replay(ready))
        });
        replays.map(|replay| replay.join().expect("a replay does not panic"))
    });
    let mut all = Vec::new();
    for replayed in replayed {
        all.push(replayed?);
    }
    all.try_into().map_err(|_| anyhow::anyhow!("as many replays as players"))
}

/// After this long, an item with a lifetime of a second is gone.
const FILLED_EXPIRES: Duration = Duration::from_millis(1100);
/// Less than this does not change what expires.
const LATE: Duration = Duration::from_millis(500);

/// The results of a trace.
struct Replayed {
    /// Percent of the counted gets.
    missing: f64,
    /// Resident bytes at the end.
    resident: f64,
}

/// Sends the requests of a trace, and stores what they miss.
struct Player<'t> {
    server: BenchServer,
    megabytes: u64,
    client: StoreClient,
    values: Values,
    trace: &'t BenchTrace,
    /// Items that were just asked for, and those among them that were not there.
    asked: Vec<u32>,
    missed: Vec<u32>,
}

/// The key of an item of the trace, for a line.
fn key(trace: &BenchTrace, item: u32) -> impl AppendKey + use<> {
    let len = usize::from(trace.items[item as usize].key_len);
    move |out: &mut Vec<u8>| push_key(out, u64::from(item), len)
}

impl<'t> Player<'t> {
    /// Stores every item once, in this order.
    fn filled(
        server: BenchServer,
        megabytes: u64,
        trace: &'t BenchTrace,
        history: &[u32],
    ) -> Result<Player<'t>> {
        let (client, values) = (server.connect()?, Values::new());
        let (asked, missed) = (Vec::new(), Vec::new());
        let mut player = Player { server, megabytes, client, values, trace, asked, missed };
        for &item in history {
            // One that is not to live for ever has had its time when the trace starts.
            player.set(item, trace.items[item as usize].lifetime.min(1));
            player.client.send_much()?;
        }
        player.client.barrier()?;
        Ok(player)
    }

    fn replay(&mut self, ready: &Barrier) -> Result<Replayed> {
        let (mut gets, mut misses, mut late) = (0, 0, Duration::ZERO);
        clock::pass(FILLED_EXPIRES);
        ready.wait();
        let start = clock::now();
        for group in self.trace.groups() {
            let first = group.start;
            let due = Duration::from_secs_f64(first as f64 / f64::from(self.trace.rate));
            late = late.max(clock::pass_until(start + due));
            self.play(group).with_context(|| format!("replay on {}", self.server.name))?;
            if first >= self.trace.counted_from() {
                gets += self.asked.len();
                misses += self.missed.len();
            }
        }
        let missing = 100.0 * misses as f64 / gets.max(1) as f64;
        let resident = self.server.resident_bytes()? as f64;
        // A replay that is late by seconds lets other items expire than the trace does.
        let late = if late > LATE { format!(", late by {late:.1?}") } else { String::new() };
        progress(format!(
            "misses   {:<10} -m {:<3} {misses:>8} of {gets} gets = {missing:.2} %, RSS {:.1} MiB{late}",
            self.server.name,
            self.megabytes,
            resident / MIB,
        ));
        Ok(Replayed { missing, resident })
    }

    fn play(&mut self, group: Range<usize>) -> Result<()> {
        for item in std::mem::take(&mut self.missed) {
            self.set(item, self.trace.items[item as usize].lifetime);
        }
        for request in &self.trace.requests[group.clone()] {
            match request.verb {
                TraceVerb::Get => {}
                TraceVerb::Set => self.set(request.item, self.trace.items[request.item as usize].lifetime),
                TraceVerb::Delete => {
                    let key = key(self.trace, request.item);
                    command::delete(&mut self.client.out, key, Reply::Unwanted);
                }
                TraceVerb::Count => {
                    let (mode, key) = (ArithmeticMode::Increment, key(self.trace, request.item));
                    command::arithmetic(&mut self.client.out, mode, key, 1, Reply::Unwanted);
                }
            }
        }
        self.trace.asked(group, &mut self.asked);
        if self.asked.is_empty() {
            return self.client.send_much();
        }
        let keys = self.asked.iter().map(|item| key(self.trace, *item));
        command::get(&mut self.client.out, keys);
        self.client.send()?;
        self.receive()
    }

    fn set(&mut self, number: u32, lifetime: u16) {
        let item = &self.trace.items[number as usize];
        let value = if self.trace.counts {
            b"1000"
        } else {
            self.values.get(u64::from(number), item.value_len as usize)
        };
        self.client.push_set(key(self.trace, number), u32::from(lifetime), value);
    }

    /// Items come in the order in which they were asked for; those left out are missing.
    fn receive(&mut self) -> Result<()> {
        let (mut next, missed) = (0, &mut self.missed);
        let (asked, trace, values) = (&self.asked, self.trace, &self.values);
        self.client.items(|key, value| {
            let number = number_in(key).context("a key that nobody asked for")?;
            while asked.get(next).is_some_and(|asked| u64::from(*asked) != number) {
                missed.push(asked[next]);
                next += 1;
            }
            ensure!(next < asked.len(), "item {number} came although it was not its turn");
            let expected = values.get(number, trace.items[number as usize].value_len as usize);
            ensure!(trace.counts || value == expected, "item {number} has a wrong value");
            next += 1;
            Ok(())
        })?;
        missed.extend(&asked[next..]);
        Ok(())
    }
}
