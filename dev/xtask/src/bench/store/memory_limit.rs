//! Resident memory compared with the limit `-m`, whatever is stored.

use std::time::Duration;

use anyhow::Result;
use end_to_end::clock;
use stdx::prng::Prng;

use super::content::Values;
use super::density::{KEY_LEN, key};
use super::report::{Goal, MIB, Row, progress};
use super::server::{BenchServer, ServerKind, Subjects};

/// Values between these lengths, until their bytes are this many times the memory.
struct Phase {
    name: &'static str,
    len: (u64, u64),
    times: f64,
}

/// Each leaves the memory to the next one: many records and a large index, sizes of every kind, few large
/// values, and back.
const PHASES: [Phase; 4] = [
    Phase { name: "tiny", len: (1, 40), times: 0.25 },
    Phase { name: "mixed", len: (1, 8192), times: 1.5 },
    Phase { name: "large", len: (16 << 10, 512 << 10), times: 1.5 },
    Phase { name: "mixed again", len: (1, 8192), times: 1.0 },
];

const CHURNED_MEGABYTES: u64 = 64;
/// Longer than the kernel needs to come round.
const CHURNED: Duration = Duration::from_secs(25);
/// One of this many values is large: half of the bytes.
const SMALL_PER_LARGE: u64 = 160;
const BYTES_PER_SECOND: f64 = 60e6;
/// Bytes that are sent before the clock is looked at again.
const BURST: usize = 256 * 1024;

/// Resident memory besides that of `-m`, in MiB: program, stacks, buffers.
const BASE: f64 = 8.0;

pub(crate) fn measure(subjects: &Subjects, seed: u64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let (ours, peer) = std::thread::scope(|scope| {
        let ours = scope.spawn(|| churn(&subjects.ours, seed));
        let peer = churn(&subjects.peer, seed);
        (ours.join().expect("churning does not panic"), peer)
    });
    let (ours, peer) = (ours?, peer?);
    let limit = CHURNED_MEGABYTES as f64;
    let measure = format!("most RSS, -m {CHURNED_MEGABYTES}, {} s of all sizes", CHURNED.as_secs());
    rows.push(
        Row::new("memory-limit", measure, "MiB", ours, peer)
            .goal(Goal::at_most(1.05 * limit + BASE, limit + BASE)),
    );
    for megabytes in [64, 256, 1024] {
        let ours = fill(&subjects.ours, megabytes, seed)?;
        let peer = fill(&subjects.peer, megabytes, seed)?;
        let limit = megabytes as f64;
        rows.push(
            Row::new("memory-limit", format!("most RSS, -m {megabytes}"), "MiB", ours.peak, peer.peak)
                .goal(Goal::at_most(1.05 * limit + BASE, limit + BASE))
                .note(format!("after {}; empty {:.1} and {:.1}", ours.settled, ours.empty, peer.empty)),
        );
    }
    Ok(rows)
}

/// Resident memory, in MiB.
struct Filled {
    empty: f64,
    peak: f64,
    /// After each phase, in words.
    settled: String,
}

/// Stores values of all sizes for a while, and says the most that was resident, in MiB. What the kernel does
/// behind a server's back (it looks for huge pages to make every ten seconds) shows in time only.
fn churn(kind: &ServerKind, seed: u64) -> Result<f64> {
    let values = Values::new();
    let server = BenchServer::start(kind, CHURNED_MEGABYTES)?;
    let mut client = server.connect()?;
    let mut prng = Prng::new(seed);
    let (start, mut number, mut bytes) = (clock::now(), 0, 0.0);
    while start.elapsed() < CHURNED {
        let Phase { len, .. } = PHASES[1 + usize::from(prng.below(SMALL_PER_LARGE) == 0)];
        let len = draw(len, &mut prng);
        client.push_set(key(number), 0, values.get(number, len));
        bytes += (KEY_LEN + len) as f64;
        number += 1;
        if client.out.len() > len + BURST {
            client.barrier()?;
            clock::pass_until(start + Duration::from_secs_f64(bytes / BYTES_PER_SECOND));
        }
    }
    let peak = server.peak_bytes()? as f64 / MIB;
    progress(format!(
        "memory-limit -m {CHURNED_MEGABYTES:<4} {:<10} most {peak:.1} MiB with all sizes",
        server.name
    ));
    Ok(peak)
}

/// Evenly over the logarithm: as many between 10 and 20 as between 1000 and 2000.
fn draw((least, most): (u64, u64), prng: &mut Prng) -> usize {
    (least as f64 * ((most as f64 / least as f64).ln() * prng.unit()).exp()) as usize
}

fn fill(kind: &ServerKind, megabytes: u64, seed: u64) -> Result<Filled> {
    let values = Values::new();
    let server = BenchServer::start(kind, megabytes)?;
    let mut client = server.connect()?;
    let mut prng = Prng::new(seed);
    let (mut number, mut settled) = (0, Vec::new());
    for Phase { name, len, times } in PHASES {
        let mut bytes = times * (megabytes << 20) as f64;
        while bytes > 0.0 {
            let len = draw(len, &mut prng);
            client.push_set(key(number), 0, values.get(number, len));
            client.send_much()?;
            bytes -= (KEY_LEN + len) as f64;
            number += 1;
        }
        client.barrier()?;
        settled.push(format!("{name} {:.0}", server.settled_bytes()? as f64 / MIB));
    }
    let peak = server.peak_bytes()? as f64 / MIB;
    let settled = settled.join(", ");
    progress(format!("memory-limit -m {megabytes:<4} {:<10} most {peak:.1} MiB; {settled}", server.name));
    Ok(Filled { empty: server.empty_bytes as f64 / MIB, peak, settled })
}
