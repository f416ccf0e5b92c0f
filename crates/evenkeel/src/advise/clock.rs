//! The clock of a busy CPU, and the times for which a CPU stops.
//!
//! In a virtual machine /proc/cpuinfo has the frequency of the time stamp counter, which is not the clock that a busy CPU runs at.

use std::hint::black_box;
use std::io;
use std::thread;
use std::time::Duration;

use advise::multiply;
use fleet::advise::{CpuStops, InputFigure};
use os::clock::{Stopwatch, pause};
use os::cpu_time::this_thread_ns;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Multiplications of one count: a third of a second of a build with optimisation.
const MULTIPLICATIONS: u64 = 500_000_000;
/// Of those that have to wait for each other, on x86 processors since 2006 and on Arm's of servers (4 on some; then the clock is too
/// low by a quarter).
const CYCLES_OF_EACH: f64 = 3.0;
/// Counts: the middle one is the clock, the others are its range.
const COUNTS: usize = 5;

/// Counts multiplications.
pub(super) fn count_clock_ghz() -> InputFigure {
    let mut counts: Vec<f64> = (0..COUNTS).map(|_| count()).collect();
    counts.sort_by(f64::total_cmp);
    let source = "multiplications that wait for each other, counted when this table was made";
    InputFigure::measured(counts[COUNTS / 2], counts[0], counts[COUNTS - 1], source)
}

fn count() -> f64 {
    let begin = this_thread_ns();
    black_box(multiply(MULTIPLICATIONS));
    MULTIPLICATIONS as f64 * CYCLES_OF_EACH / (this_thread_ns() - begin) as f64
}

/// A CPU is watched as a server uses it: busy for nine tenths of the time, so that others get what a server leaves them.
const BUSY: Duration = Duration::from_micros(900);
const IDLE: Duration = Duration::from_micros(100);
/// The watch is cut into pieces of this length, whose differences give the range.
const PIECE: Duration = Duration::from_secs(1);

/// Stops of these CPUs, each watched for so many seconds; of all together.
pub(super) fn watch_stops(cpus: &[usize], seconds: u32, limit: Duration) -> io::Result<CpuStops> {
    let watch = |cpu: usize| -> io::Result<Vec<Piece>> {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        Ok((0..seconds).map(|_| Piece::watched(limit)).collect())
    };
    let watched: Vec<io::Result<Vec<Piece>>> = thread::scope(|scope| {
        let watching: Vec<_> = cpus.iter().map(|cpu| scope.spawn(move || watch(*cpu))).collect();
        let joined = watching.into_iter().map(|thread| thread.join());
        joined.map(|pieces| pieces.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut sums = vec![Piece::default(); seconds as usize];
    for of_cpu in watched {
        for (piece, sum) in of_cpu?.iter().zip(&mut sums) {
            sum.beyond += piece.beyond;
            sum.short_us += piece.short_us;
        }
    }
    let figure = |of: fn(&Piece) -> f64| {
        let count = f64::from(seconds);
        let mean = sums.iter().map(of).sum::<f64>() / count;
        let variance = sums.iter().map(|sum| (of(sum) - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let off = 2.0 * (variance / count).sqrt();
        InputFigure::measured(mean, (mean - off).max(0.0), mean + off, format!("watched for {seconds} s"))
    };
    Ok(CpuStops { beyond: figure(|piece| piece.beyond), short_us: figure(|piece| piece.short_us) })
}

/// Stops of one piece of the watch.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// The share of its time beyond the limit.
    beyond: f64,
    /// Squares of the others by its time, in µs.
    short_us: f64,
}

impl Piece {
    fn watched(limit: Duration) -> Piece {
        let watch = Stopwatch::start();
        let (mut before, mut idle_at) = (Duration::ZERO, BUSY);
        let (mut beyond, mut squares) = (Duration::ZERO, 0.0);
        let mut is_awake = true;
        while before < PIECE {
            let now = watch.passed();
            let gap = now - before;
            match is_awake {
                true if gap <= limit => squares += (gap.as_secs_f64() * 1e6).powi(2),
                true => beyond += gap - limit,
                // It wakes up some time later than it asked for, also on an idle CPU.
                false => beyond += gap.saturating_sub(limit + IDLE),
            }
            (before, is_awake) = (now, true);
            if now >= idle_at {
                pause(IDLE);
                (is_awake, idle_at) = (false, now + IDLE + BUSY);
            }
        }
        let seconds = before.as_secs_f64();
        Piece { beyond: beyond.as_secs_f64() / seconds, short_us: squares / (seconds * 1e6) }
    }
}
