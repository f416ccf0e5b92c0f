//! Observation of a host: its facts, and its counters over some seconds.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tuner::{Capture, Facts, Reading, Root, Series};

use super::memcached;
use crate::failure::Failure;

/// Which host to look at.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Host {
    /// A captured host: a directory with its /proc and /sys, or a file written by `check --save`
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) root: PathBuf,
    /// A process to look at as a service, which a plan then concerns alone; may be repeated. Known servers are found
    /// without it
    #[arg(long = "pid", value_name = "PID")]
    pub(super) pids: Vec<u32>,
    /// A unit of systemd, whose processes are meant as with --pid: memcached, or memcached.service; may be repeated
    #[arg(long = "unit", value_name = "NAME")]
    units: Vec<String>,
}

impl Host {
    /// What is so on it.
    pub(super) fn facts(&self) -> Result<Facts, Failure> {
        if self.root.is_file() {
            return saved(&self.root).map(|capture| capture.facts);
        }
        tuner::probe(&Root::new(&self.root), &self.named()?).map_err(Failure::other)
    }

    /// The processes that were named, themselves or by their unit.
    pub(super) fn named(&self) -> Result<Vec<u32>, Failure> {
        let of_unit = |unit: &String| {
            let pids = match self.root.is_file() {
                true => saved(&self.root)?.facts.pids_of_unit(unit),
                false => tuner::observe::probe::pids_of_unit(&Root::new(&self.root), unit),
            };
            if pids.is_empty() {
                let error = anyhow::anyhow!("find a process of the unit {unit}");
                return Err(
                    Failure::other(error).hint(format!("`systemctl status {unit}` says whether it runs"))
                );
            }
            Ok(pids)
        };
        let of_units: Vec<Vec<u32>> = self.units.iter().map(of_unit).collect::<Result<_, _>>()?;
        Ok(self.pids.iter().copied().chain(of_units.into_iter().flatten()).collect())
    }
}

/// How often counters are read: a condition that lasts shows in each of the windows.
const WINDOWS: u32 = 3;

/// Facts, and counters over so many seconds. A captured host does not move: its counters are taken as they are.
pub(crate) fn observe(host: &Host, seconds: u32) -> Result<Capture, Failure> {
    observe_with(host, seconds, &[])
}

/// Such a look, which asks these caches at each reading, too.
pub(super) fn observe_with(host: &Host, seconds: u32, caches: &[String]) -> Result<Capture, Failure> {
    if host.root.is_file() {
        return saved(&host.root);
    }
    let root = Root::new(&host.root);
    let facts = host.facts()?;
    let readings = match root.is_live() {
        true => measured(seconds, |at_ms| {
            let mut reading = tuner::read(&root, &facts, at_ms).map_err(Failure::other)?;
            // That one does not answer is what the empty answer says.
            let asked =
                caches.iter().map(|cache| (cache.clone(), memcached::stats(cache).unwrap_or_default()));
            reading.caches = asked.collect();
            Ok(reading)
        })?,
        false => vec![
            tuner::read(&root, &facts, 0).map_err(Failure::other)?,
            tuner::read(&root, &facts, 1).map_err(Failure::other)?,
        ],
    };
    let series = Series::new(readings).expect("readings were taken one after the other");
    Ok(Capture { facts, series })
}

fn saved(path: &PathBuf) -> Result<Capture, Failure> {
    let what = format!("read {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Failure::system(&what, error))?;
    Capture::parse(&text).map_err(Failure::other)
}

/// Readings at the beginning and at the end of each window.
fn measured(
    seconds: u32,
    mut read: impl FnMut(u64) -> Result<Reading, Failure>,
) -> Result<Vec<Reading>, Failure> {
    let clock = Clock::start();
    let mut readings = vec![read(0)?];
    for window in 1..=WINDOWS {
        let end = Duration::from_secs(u64::from(seconds)) * window / WINDOWS;
        while let Some(left) = end.checked_sub(clock.passed()).filter(|left| !left.is_zero()) {
            progress(&format!("measuring: {} of {seconds} s", clock.passed().as_secs()));
            pause(left.min(Duration::from_secs(1)));
        }
        readings.push(read(clock.ms())?);
    }
    progress("");
    Ok(readings)
}

/// One line of a terminal that is written over and over.
pub(super) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        // It is for somebody who waits; nothing is lost without.
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "counters of the host say nothing without time between two readings"
)]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Time since it was started.
pub(super) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "rates need to know how much time has passed")]
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn passed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(super) fn ms(&self) -> u64 {
        self.passed().as_millis() as u64
    }
}
