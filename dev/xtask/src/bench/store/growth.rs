//! Latency while the index grows: one connection gets, one request at a time, while another one writes.
//!
//! The figure is the median over windows of a second of each window's p99.9: what else the machine does in
//! some of them does not count. Writing delays gets even
//! if nothing grows, so the fill is compared with sets of keys that exist, at the same rate.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, ensure};
use end_to_end::clock;
use protocol::client::command;
use stdx::prng::Prng;

use super::client::StoreClient;
use super::content::Values;
use super::density::{key, store};
use super::report::{Goal, Row, progress};
use super::server::{BenchServer, ServerKind, Subjects};

const MEGABYTES: u64 = 1024;
const BEFORE: u64 = 1_000_000;
const AFTER: u64 = 4_000_000;
const VALUE_LEN: usize = 20;
/// Sets per second.
const RATE: u64 = 300_000;
/// Sets sent together: a server needs some 50 µs for them.
const BURST: u64 = 60;
/// Gets without any writes.
const QUIET: Duration = Duration::from_secs(3);
/// Times that all keys are overwritten before the fill.
const OVERWRITTEN: u64 = 2;
const WINDOW: Duration = Duration::from_secs(1);

pub(crate) fn measure(subjects: &Subjects, seed: u64) -> Result<Vec<Row>> {
    let ours = grow(&subjects.ours, seed)?;
    let peer = grow(&subjects.peer, seed)?;
    let row = |name: &str, of: fn(&Grown) -> Latency| {
        let (ours, peer) = (of(&ours), of(&peer));
        let note = format!(
            "p50 {:.0} and {:.0}, p99.9 of the worst second {:.0} and {:.0}, most {:.0} and {:.0}",
            ours.p50, peer.p50, ours.worst, peer.worst, ours.most, peer.most
        );
        Row::new("growth", format!("p99.9 of a get, {name}"), "µs", ours.p999, peer.p999).note(note)
    };
    let ratio = |grown: &Grown| grown.growing.p999 / grown.overwriting.p999;
    Ok(vec![
        row("nobody writes", |grown| grown.quiet),
        row("1 M keys overwritten", |grown| grown.overwriting),
        row("1 M to 4 M items", |grown| grown.growing),
        Row::new("growth", "p99.9 growing ÷ overwriting", "×", ratio(&ours), ratio(&peer))
            .goal(Goal::at_most(2.0, 1.2)),
    ])
}

struct Grown {
    quiet: Latency,
    overwriting: Latency,
    growing: Latency,
}

/// Microseconds.
#[derive(Clone, Copy)]
struct Latency {
    p50: f64,
    p999: f64,
    /// p99.9 of the worst window.
    worst: f64,
    most: f64,
}

fn grow(kind: &ServerKind, seed: u64) -> Result<Grown> {
    let values = Values::new();
    let server = BenchServer::start(kind, MEGABYTES)?;
    let (mut getter, mut setter) = (server.connect()?, server.connect()?);
    store(&mut setter, &values, 0..BEFORE, VALUE_LEN)?;
    server.settled_bytes()?;
    let mut prng = Prng::new(seed);
    let start = clock::now();
    let quiet = gets(&mut getter, &mut prng, || start.elapsed() >= QUIET)?;
    let mut while_storing = |times: u64, numbers: Range<u64>| {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let written =
                    (0..times).try_for_each(|_| store_at_rate(&mut setter, &values, numbers.clone()));
                done.store(true, Relaxed);
                written
            });
            let latency = gets(&mut getter, &mut prng, || done.load(Relaxed));
            writing.join().expect("no panic")?;
            latency
        })
    };
    let overwriting = while_storing(OVERWRITTEN, 0..BEFORE)?;
    let growing = while_storing(1, BEFORE..AFTER)?;
    let items = setter.statistic("curr_items")?;
    ensure!(items == AFTER, "{} holds {items} items of {AFTER}", server.name);
    progress(format!(
        "growth {:<10} p99.9 quiet {:.0}, overwriting {:.0}, growing {:.0} µs; most {:.0}, {:.0}, {:.0} µs",
        server.name, quiet.p999, overwriting.p999, growing.p999, quiet.most, overwriting.most, growing.most
    ));
    Ok(Grown { quiet, overwriting, growing })
}

/// Gets of random keys, one after the other.
fn gets(client: &mut StoreClient, prng: &mut Prng, is_over: impl Fn() -> bool) -> Result<Latency> {
    let mut windows: Vec<Vec<u64>> = vec![Vec::new()];
    let mut window_start = clock::now();
    while !is_over() {
        command::get(&mut client.out, [key(prng.below(BEFORE))]);
        let mut found = 0;
        let sent = clock::now();
        client.send()?;
        client.items(|_, _| {
            found += 1;
            Ok(())
        })?;
        let received = clock::now();
        ensure!(found == 1, "an item is missing although there is memory for all");
        if received - window_start >= WINDOW {
            window_start = received;
            windows.push(Vec::new());
        }
        windows.last_mut().expect("there is a first").push((received - sent).as_nanos() as u64);
    }
    // The last one is not whole.
    if windows.len() > 1 {
        windows.pop();
    }
    Ok(latency(windows))
}

fn latency(mut windows: Vec<Vec<u64>>) -> Latency {
    let mut p999: Vec<u64> = windows.iter_mut().map(|window| quantile(window, 0.999)).collect();
    let mut all = windows.concat();
    let [p50, p999, worst, most] = [
        quantile(&mut all, 0.5),
        quantile(&mut p999, 0.5),
        quantile(&mut p999, 1.0),
        quantile(&mut all, 1.0),
    ]
    .map(|nanoseconds| nanoseconds as f64 / 1e3);
    Latency { p50, p999, worst, most }
}

/// The value that this share of all is below; 0 where there are none.
fn quantile(values: &mut [u64], share: f64) -> u64 {
    values.sort_unstable();
    let place = (share * values.len() as f64) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn store_at_rate(client: &mut StoreClient, values: &Values, numbers: Range<u64>) -> Result<()> {
    let start = clock::now();
    let (from, end) = (numbers.start, numbers.end);
    for first in numbers.step_by(BURST as usize) {
        clock::pass_until(start + Duration::from_secs(1).mul_f64((first - from) as f64 / RATE as f64));
        for number in first..(first + BURST).min(end) {
            client.push_set(key(number), 0, values.get(number, VALUE_LEN));
        }
        client.send()?;
    }
    client.barrier()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_second_does_not_count() {
        let quiet: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let disturbed = vec![9_000_000; 1000];
        let latency = latency(vec![quiet.clone(), disturbed, quiet]);
        assert_eq!((latency.p999, latency.worst, latency.most), (1000.0, 9000.0, 9000.0));
    }
}
