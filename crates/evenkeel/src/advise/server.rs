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
const STATUS_NO_ANSWER: u8 = 69;
/// Time for an answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of an answer, at most: `stats slabs` has 14 lines for each of 63 classes.
const ANSWER_LEN_MAX: usize = 256 * 1024;

/// Asks, waits, and asks again on the same connection.
pub(super) fn workload(
    place: &ServerAddress,
    seconds: u32,
    around: &AroundServer,
) -> Result<CacheWorkload, Failure> {
    let no_answer = |error: io::Error| {
        let failure = Failure::system(format!("ask {} for its statistics", around.name), error);
        failure
            .with_status(STATUS_NO_ANSWER)
            .hint("with TLS or a login, ask a server that is reached without")
    };
    let is_no_workload =
        |error| Failure::other(anyhow::Error::from(error)).within(&around.name).with_status(STATUS_FILE);
    let ask = |wire: &mut Wire, command: &str| {
        let answer = answer(wire, command).map_err(no_answer)?;
        ServerStats::parse(&answer).map_err(is_no_workload)
    };
    let mut wire = Wire::connect(place, None, &Deadline::within(TIME_MAX)).map_err(no_answer)?;
    let watch = Stopwatch::start();
    let before = ask(&mut wire, "stats")?;
    pause(Duration::from_secs(seconds.into()));
    let passed = watch.passed().as_secs_f64();
    let after = ask(&mut wire, "stats")?;
    let slabs = ask(&mut wire, "stats slabs")?;
    let settings = ask(&mut wire, "stats settings")?;
    measured_workload([&before, &after], passed, [&slabs, &settings], around).map_err(is_no_workload)
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
