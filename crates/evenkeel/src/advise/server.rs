//! The workload of a running server: its statistics in memcached's words, read twice.

use std::io;
use std::time::Duration;

use advise::{AroundServer, ServerStats, measured_workload};
use fleet::advise::CacheWorkload;
use os::clock::{Stopwatch, pause};
use wire::{Deadline, ServerAddress, Wire};

use super::ask::STATUS_FILE;
use crate::failure::Failure;

/// It does not answer (EX_UNAVAILABLE).
pub(super) const STATUS_NO_ANSWER: u8 = 69;
/// Time for an answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of an answer, at most: `stats slabs` has 14 lines for each of 63 classes.
const ANSWER_LEN_MAX: usize = 256 * 1024;

/// What a server has said, twice.
pub(super) struct ServerAnswers {
    pub(super) stats: [ServerStats; 2],
    pub(super) seconds: f64,
    slabs: ServerStats,
    settings: ServerStats,
}

/// The workload of a server.
pub(super) fn workload(
    place: &ServerAddress,
    seconds: u32,
    around: &AroundServer,
) -> Result<CacheWorkload, Failure> {
    let answers = ask_twice(place, &around.name, seconds, &mut || Ok(()))?;
    let [before, after] = &answers.stats;
    measured_workload([before, after], answers.seconds, [&answers.slabs, &answers.settings], around)
        .map_err(|error| is_no_workload(&around.name, error))
}

/// Statistics that cannot be used.
pub(super) fn is_no_workload(name: &str, error: impl Into<anyhow::Error>) -> Failure {
    Failure::other(error).within(name).with_status(STATUS_FILE)
}

/// Asks, waits, and asks again on the same connection. What is to be read beside it is read after each of the two.
pub(super) fn ask_twice(
    place: &ServerAddress,
    name: &str,
    seconds: u32,
    beside: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<ServerAnswers, Failure> {
    let no_answer = |error: io::Error| {
        let failure = Failure::system(format!("ask {name} for its statistics"), error);
        failure
            .with_status(STATUS_NO_ANSWER)
            .hint("with TLS or a login, ask a server that is reached without")
    };
    let ask = |wire: &mut Wire, command: &str| {
        let answer = answer(wire, command).map_err(no_answer)?;
        ServerStats::parse(&answer).map_err(|error| is_no_workload(name, error))
    };
    let mut wire = Wire::connect(place, None, &Deadline::within(TIME_MAX)).map_err(no_answer)?;
    let watch = Stopwatch::start();
    let before = ask(&mut wire, "stats")?;
    beside()?;
    pause(Duration::from_secs(seconds.into()));
    let passed = watch.passed().as_secs_f64();
    let after = ask(&mut wire, "stats")?;
    beside()?;
    let slabs = ask(&mut wire, "stats slabs")?;
    let settings = ask(&mut wire, "stats settings")?;
    Ok(ServerAnswers { stats: [before, after], seconds: passed, slabs, settings })
}

/// What is answered, until `END` or an error in one line.
fn answer(wire: &mut Wire, command: &str) -> io::Result<String> {
    let deadline = Deadline::within(TIME_MAX);
    wire.send(format!("{command}\r\n").as_bytes(), &deadline)?;
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    let is_whole = |answer: &[u8]| {
        answer.ends_with(b"END\r\n") || (answer.ends_with(b"\r\n") && !answer.starts_with(b"STAT "))
    };
    while !is_whole(&answer) {
        let len = wire.receive(&mut piece, &deadline)?;
        answer.extend_from_slice(&piece[..len]);
        if answer.len() > ANSWER_LEN_MAX {
            return Err(io::Error::other(format!("expected at most {ANSWER_LEN_MAX} bytes of `{command}`")));
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
