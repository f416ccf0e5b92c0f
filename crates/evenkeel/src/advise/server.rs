//! The workload of a running server: its statistics in memcached's words, read twice.

use std::io;
use std::time::Duration;

use advise::running::{HostCounters, ServerPageReading, ServerSeen, server_seen};
use advise::{AroundServer, ServerStats, measured_workload};
use fleet::advise::CacheWorkload;
use os::clock::{Stopwatch, pause};
use wire::{Deadline, ServerAddress, Wire};

use super::ask::STATUS_FILE;
use crate::failure::Failure;
use crate::peers::prometheus::{PrometheusClient, PrometheusServer};

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

/// What its page has said, twice; nothing of a server without one.
#[derive(Default)]
pub(super) struct PageAnswers {
    counters: Vec<HostCounters>,
    reports: Vec<ServerPageReading>,
}

/// The workload of a server, and what was seen beside it.
pub(super) fn workload(
    place: &ServerAddress,
    seconds: u32,
    page: Option<&PrometheusServer>,
    around: &AroundServer,
) -> Result<(CacheWorkload, ServerSeen), Failure> {
    let (answers, page) = ask_with_page(place, &around.name, seconds, page)?;
    let stats = [&answers.stats[0], &answers.stats[1]];
    let workload = measured_workload(stats, answers.seconds, [&answers.slabs, &answers.settings], around);
    workload
        .and_then(|workload| Ok((workload, server_seen(stats, page.reports())?)))
        .map_err(|error| is_no_workload(&around.name, error))
}

/// Asks a server and its page, waits, and asks again.
pub(super) fn ask_with_page(
    place: &ServerAddress,
    name: &str,
    seconds: u32,
    page: Option<&PrometheusServer>,
) -> Result<(ServerAnswers, PageAnswers), Failure> {
    let client = page.map(|page| page.client(None, None)).transpose()?;
    let mut said = PageAnswers::default();
    let answers = ask_twice(place, name, seconds, &mut || match (&client, page) {
        (Some(client), Some(page)) => said.read(client, page),
        _ => Ok(()),
    })?;
    Ok((answers, said))
}

impl PageAnswers {
    fn read(&mut self, client: &PrometheusClient, page: &PrometheusServer) -> Result<(), Failure> {
        let get = |path: &str| {
            let answer = client.get(path);
            answer.map_err(|error| {
                Failure::system(format!("ask {page} for {path}"), error).with_status(STATUS_NO_ANSWER)
            })
        };
        let is_none = |why: String| {
            let failure = Failure::other(anyhow::anyhow!("{page}: {why}")).with_status(STATUS_FILE);
            failure.hint(
                "--metrics takes the address of `evenkeel serve --metrics-listen`; a memcached has none",
            )
        };
        self.counters.extend(HostCounters::parse(&get("/metrics")?).map_err(is_none)?);
        self.reports.push(ServerPageReading::parse(&get("/api/v1/stats")?).map_err(is_none)?);
        Ok(())
    }

    /// Counters of the host, if both readings have them.
    pub(super) fn counters(&self) -> Option<[&HostCounters; 2]> {
        pair(&self.counters)
    }

    /// Reports of the server.
    pub(super) fn reports(&self) -> Option<[&ServerPageReading; 2]> {
        pair(&self.reports)
    }
}

fn pair<T>(readings: &[T]) -> Option<[&T; 2]> {
    match readings {
        [before, after] => Some([before, after]),
        _ => None,
    }
}

/// Statistics that cannot be used.
pub(super) fn is_no_workload(name: &str, error: impl Into<anyhow::Error>) -> Failure {
    Failure::other(error).within(name).with_status(STATUS_FILE)
}

/// Asks, waits, and asks again on the same connection. What is to be read beside it is read after each of the two.
fn ask_twice(
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
