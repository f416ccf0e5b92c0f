//! Observation of a host: its facts, and its counters over some seconds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use tuner::{Capture, Facts, Reading, Root, Series};

use crate::error::Error;
use crate::memcached;
use crate::progress::JobProgress;

/// The host to observe, and its services.
#[derive(Clone, Debug)]
pub struct ObservedHost {
    /// A directory with its /proc and /sys, or a file with a capture.
    pub root: PathBuf,
    /// Processes to treat as services; without any, known servers are found.
    pub pids: Vec<u32>,
    /// systemd units, whose processes are treated in the same way.
    pub units: Vec<String>,
    /// Called with the progress of a measurement.
    pub progress: fn(&JobProgress),
}

impl ObservedHost {
    /// Its facts.
    pub fn facts(&self) -> Result<Facts, Error> {
        if self.root.is_file() {
            return saved(&self.root).map(|capture| capture.facts);
        }
        tuner::probe(&Root::new(&self.root), &self.named()?).map_err(Error::other)
    }

    /// The named processes, including those of the named units.
    pub(crate) fn named(&self) -> Result<Vec<u32>, Error> {
        let of_unit = |unit: &String| {
            let pids = match self.root.is_file() {
                true => saved(&self.root)?.facts.pids_of_unit(unit),
                false => tuner::observe::probe::pids_of_unit(&Root::new(&self.root), unit),
            };
            if pids.is_empty() {
                return Err(Error::refused(format_args!("find a process of the unit {unit}"))
                    .with_hint(format!("`systemctl status {unit}` says whether it runs")));
            }
            Ok(pids)
        };
        let of_units: Vec<Vec<u32>> = self.units.iter().map(of_unit).collect::<Result<_, _>>()?;
        Ok(self.pids.iter().copied().chain(of_units.into_iter().flatten()).collect())
    }
}

/// The number of windows of counters: a lasting condition shows in each of them.
const WINDOWS: u32 = 3;

/// Facts, and counters over this many seconds. A captured host does not change: its counters are used as they are.
pub fn observe(host: &ObservedHost, seconds: u32) -> Result<Capture, Error> {
    observe_with(host, seconds, &[])
}

/// The same, with queries of these caches at each reading.
pub fn observe_with(host: &ObservedHost, seconds: u32, caches: &[String]) -> Result<Capture, Error> {
    if host.root.is_file() {
        return saved(&host.root);
    }
    let root = Root::new(&host.root);
    let facts = host.facts()?;
    let readings = match root.is_live() {
        true => measured(seconds, host.progress, |at_ms| {
            let mut reading = tuner::read(&root, &facts, at_ms).map_err(Error::other)?;
            // An empty answer means that the cache did not answer.
            let asked =
                caches.iter().map(|cache| (cache.clone(), memcached::stats(cache).unwrap_or_default()));
            reading.caches = asked.collect();
            Ok(reading)
        })?,
        false => vec![
            tuner::read(&root, &facts, 0).map_err(Error::other)?,
            tuner::read(&root, &facts, 1).map_err(Error::other)?,
        ],
    };
    let series = Series::new(readings).expect("readings were taken one after the other");
    Ok(Capture { facts, series })
}

fn saved(path: &Path) -> Result<Capture, Error> {
    let what = format!("read {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Error::system(&what, error))?;
    Capture::parse(&text).map_err(Error::other)
}

/// Readings at the beginning and at the end of each window.
fn measured(
    seconds: u32,
    progress: fn(&JobProgress),
    mut read: impl FnMut(u64) -> Result<Reading, Error>,
) -> Result<Vec<Reading>, Error> {
    let watch = Stopwatch::start();
    let mut readings = vec![read(0)?];
    for window in 1..=WINDOWS {
        let end = Duration::from_secs(u64::from(seconds)) * window / WINDOWS;
        while let Some(left) = end.checked_sub(watch.passed()).filter(|left| !left.is_zero()) {
            progress(&JobProgress::Measuring { passed_s: watch.passed().as_secs(), seconds });
            pause(left.min(Duration::from_secs(1)));
        }
        readings.push(read(watch.ms())?);
    }
    progress(&JobProgress::Over);
    Ok(readings)
}
