//! Memory after a change of the value size: full of short values, then only longer ones are written.
//!
//! What memory holds of the new size is measured by asking for a sample of the youngest keys, as many as a
//! server holds that has never seen another size; `me` asks without making an item look used.

use std::time::Duration;

use anyhow::{Result, bail};
use end_to_end::clock;
use protocol::client::{Line, command};

use super::client::StoreClient;
use super::content::Values;
use super::density::{key, store};
use super::report::{Goal, Row, progress};
use super::server::{BenchServer, ServerKind, Subjects};

const MEGABYTES: u64 = 256;
const SHORT: usize = 100;
const LONG: usize = 1000;
/// More short values than fit.
const SHORT_STORED: u64 = 2_500_000;
/// More long values than fit.
const LONG_STORED: u64 = 400_000;
/// Numbers of long values start here.
const LONG_FIRST: u64 = 1 << 32;
/// Values per second, where there is a rate.
const RATE: u64 = 20_000;
/// Written before the clock is looked at again.
const BURST: u64 = 1_000;
/// Keys that are asked for to see how things stand.
const SAMPLE: u64 = 2_000;
/// Things are looked at so often.
const INTERVAL: Duration = Duration::from_millis(250);
/// The time limit.
const PATIENCE: Duration = Duration::from_secs(30);
/// The share of memory that must serve the new size.
const ENOUGH: f64 = 0.9;

/// How the new values come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    /// At `RATE`, or else as fast as the server takes them.
    at_rate: bool,
    /// Old values have been read before, and every new one is read once.
    read: bool,
}

const WAYS: [Way; 3] = [
    Way { name: "20 k/s", at_rate: true, read: false },
    Way { name: "20 k/s, all values read once", at_rate: true, read: true },
    Way { name: "as fast as possible", at_rate: false, read: false },
];

pub(crate) fn measure(subjects: &Subjects) -> Result<Vec<Row>> {
    let room = (room(&subjects.ours)?, room(&subjects.peer)?);
    let (at_rate, fast): (Vec<Way>, Vec<Way>) = WAYS.into_iter().partition(|way| way.at_rate);
    let mut rows = Vec::new();
    // A rate leaves the processors mostly idle, so those are measured at the same time.
    let shifted = std::thread::scope(|scope| {
        let start = |kind, room, way| scope.spawn(move || shift(kind, room, way));
        let started = at_rate
            .iter()
            .map(|way| (*way, start(&subjects.ours, room.0, *way), start(&subjects.peer, room.1, *way)));
        let started: Vec<_> = started.collect();
        let joined = started
            .into_iter()
            .map(|(way, ours, peer)| (way, ours.join().expect("no panic"), peer.join().expect("no panic")));
        joined.collect::<Vec<_>>()
    });
    for (way, ours, peer) in shifted {
        rows.push(row(way, room.0, &ours?, &peer?));
    }
    for way in fast {
        let (ours, peer) = (shift(&subjects.ours, room.0, way)?, shift(&subjects.peer, room.1, way)?);
        rows.push(row(way, room.0, &ours, &peer));
    }
    Ok(rows)
}

fn row(way: Way, room: u64, ours: &Shifted, peer: &Shifted) -> Row {
    // At a rate, the time for writing counts for none of them.
    let written = if way.at_rate { ENOUGH * room as f64 / RATE as f64 } else { 0.0 };
    let mut note = format!(
        "at the end {:.0} % after {} written, {:.0} % after {}",
        100.0 * ours.share,
        ours.written,
        100.0 * peer.share,
        peer.written
    );
    if way.at_rate {
        note += &format!("; writing alone takes {written:.1} s");
    }
    let measure = format!("90 % serve the new size, {}", way.name);
    let goal = Goal::at_most(5.0 + written, 1.0 + written);
    Row::new("shift", measure, "s", ours.seconds, peer.seconds).goal(goal).note(note)
}

/// How many long values fit when there is nothing else.
fn room(kind: &ServerKind) -> Result<u64> {
    let server = BenchServer::start(kind, MEGABYTES)?;
    let mut client = server.connect()?;
    store(&mut client, &Values::new(), LONG_FIRST..LONG_FIRST + LONG_STORED, LONG)?;
    client.statistic("curr_items")
}

struct Shifted {
    /// Infinite if it was not enough in the end.
    seconds: f64,
    share: f64,
    written: u64,
}

fn shift(kind: &ServerKind, room: u64, way: Way) -> Result<Shifted> {
    let values = Values::new();
    let server = BenchServer::start(kind, MEGABYTES)?;
    let mut client = server.connect()?;
    store(&mut client, &values, 0..SHORT_STORED, SHORT)?;
    if way.read {
        read(&mut client, 0..SHORT_STORED)?;
    }
    let start = clock::now();
    let (mut written, mut look_at, mut share) = (0, start + INTERVAL, 0.0);
    let mut seconds = f64::INFINITY;
    while start.elapsed() < PATIENCE {
        if way.at_rate {
            clock::pass_until(start + Duration::from_secs(1).mul_f64(written as f64 / RATE as f64));
        }
        let burst = LONG_FIRST + written..LONG_FIRST + written + BURST;
        store(&mut client, &values, burst.clone(), LONG)?;
        if way.read {
            read(&mut client, burst)?;
        }
        written += BURST;
        if clock::now() < look_at {
            continue;
        }
        share = share_of_youngest(&mut client, written, room)?;
        if share >= ENOUGH {
            seconds = start.elapsed().as_secs_f64();
            break;
        }
        look_at = clock::now() + INTERVAL;
    }
    progress(format!(
        "shift {:<30} {:<10} {seconds:.1} s, {:.0} % of room for {room} after {written} written",
        way.name,
        server.name,
        100.0 * share
    ));
    Ok(Shifted { seconds, share, written })
}

/// Gets the items of these numbers.
fn read(client: &mut StoreClient, numbers: std::ops::Range<u64>) -> Result<()> {
    let end = numbers.end;
    for first in numbers.step_by(100) {
        let keys = (first..(first + 100).min(end)).map(key);
        command::get(&mut client.out, keys);
        client.send()?;
        client.items(|_, _| Ok(()))?;
    }
    Ok(())
}

/// Of the last `room` values written, how many are there, as a share of `room`.
fn share_of_youngest(client: &mut StoreClient, written: u64, room: u64) -> Result<f64> {
    let youngest = written.min(room);
    for place in 0..SAMPLE {
        let number = LONG_FIRST + written - 1 - place * youngest / SAMPLE;
        command::meta_debug(&mut client.out, key(number));
    }
    client.send()?;
    let mut found = 0;
    for _ in 0..SAMPLE {
        match client.line()? {
            Line::Miss(_) => {}
            Line::Debug { .. } => found += 1,
            line => bail!("expected ME or EN, got {line}"),
        }
    }
    Ok(found as f64 / SAMPLE as f64 * youngest as f64 / room as f64)
}
