//! HdrHistogram's interval log: the latencies of every second, for the tools that read such logs.
//!
//! Version 1.3 of the log, as HistogramLogWriter of the Java library writes it: one line for each second with its start,
//! its length, its longest latency in milliseconds and the histogram of nanoseconds (V2, compressed, base64). The last one
//! is as long as what is left of the window.

use crate::measure::histogram::histogram;
use crate::measure::seconds::Whole;
use crate::report::follower::{AgentNow, Follower};
use crate::report::summary::Second;
use crate::types::clock::now_ns;
use crate::types::error::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use os::clock::unix_time;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes the log besides the follower of the run.
pub(crate) struct HdrLog<'a> {
    inner: &'a mut dyn Follower,
    path: PathBuf,
    file: BufWriter<File>,
    warm_up: Duration,
}

impl<'a> HdrLog<'a> {
    pub(crate) fn new(
        inner: &'a mut dyn Follower,
        path: &Path,
        warm_up: Duration,
    ) -> Result<HdrLog<'a>, Error> {
        let path = path.to_path_buf();
        match File::create(&path) {
            Ok(file) => Ok(HdrLog { inner, path, file: BufWriter::new(file), warm_up }),
            Err(source) => Err(Error::Output { path, source }),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|source| Error::Output { path: self.path.clone(), source })
    }

    fn intervals(&mut self, whole: &[Whole], seconds: f64) -> Result<(), Error> {
        whole.iter().try_for_each(|whole| self.write(&line(whole, seconds)))
    }
}

/// Start and length in seconds, of a window of so many; the start counts from the window's beginning, which the header
/// gives.
fn line(Whole { interval, counts }: &Whole, seconds: f64) -> String {
    let none = histogram();
    let latency_ns = counts.latency_ns.as_ref().unwrap_or(&none);
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(latency_ns, &mut bytes).expect("a vector takes everything");
    let longest_ms = latency_ns.max() as f64 / 1e6;
    let len_s = (seconds - interval.second as f64).clamp(0.001, 1.0);
    format!("{}.000,{len_s:.3},{longest_ms:.3},{}\n", interval.second, STANDARD.encode(bytes))
}

/// The header of a log; the window opens at this time.
fn head(opens_unix_s: f64) -> String {
    format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {opens_unix_s:.3} (seconds since epoch)]\n\
         #[BaseTime: {opens_unix_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
    )
}

impl Follower for HdrLog<'_> {
    fn stored(&mut self, items: u64, of: u64) -> Result<(), Error> {
        self.inner.stored(items, of)
    }

    fn filled(&mut self, items: u64) -> Result<(), Error> {
        self.inner.filled(items)
    }

    fn ready(&mut self, wait_ns: u64) -> Result<u64, Error> {
        let begins_ns = self.inner.ready(wait_ns)?;
        let opens_in_s = begins_ns.saturating_sub(now_ns()) as f64 / 1e9 + self.warm_up.as_secs_f64();
        self.write(&head(unix_time().as_secs_f64() + opens_in_s))?;
        Ok(begins_ns)
    }

    fn second(&mut self, second: &Second, whole: Vec<Whole>) -> Result<(), Error> {
        self.intervals(&whole, f64::INFINITY)?;
        self.inner.second(second, whole)
    }

    fn agents(&mut self, agents: &[AgentNow]) -> Result<(), Error> {
        self.inner.agents(agents)
    }

    fn closed(&mut self, whole: Vec<Whole>, seconds: f64) -> Result<(), Error> {
        self.intervals(&whole, seconds)?;
        self.inner.closed(whole, seconds)
    }

    fn asks_every(&self) -> Option<Duration> {
        self.inner.asks_every()
    }

    fn leaves(&mut self) -> Result<bool, Error> {
        self.inner.leaves()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::seconds::{SecondCounts, SecondStats};
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn the_log_is_read_by_the_librarys_own_reader() {
        let mut latency_ns = Histogram::<u64>::new_with_max(100_000_000_000, 3).expect("constants that fit");
        latency_ns.saturating_record_n(2_500_000, 7);
        let whole = |second| Whole {
            interval: SecondStats { second, ..SecondStats::default() },
            counts: SecondCounts { latency_ns: Some(latency_ns.clone()), ..SecondCounts::default() },
        };
        let log = head(1_700_000_000.25) + &line(&whole(0), f64::INFINITY) + &line(&whole(1), 1.5);
        let (mut starts, mut lengths) = (Vec::new(), Vec::new());
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            match entry.expect("a line that is understood") {
                LogEntry::BaseTime(time) => assert_eq!(time.as_secs_f64(), 1_700_000_000.25),
                LogEntry::StartTime(_) => {}
                LogEntry::Interval(interval) => {
                    starts.push(interval.start_timestamp().as_secs());
                    lengths.push(interval.duration().as_millis());
                    assert_eq!(interval.max(), 2.501);
                    let bytes = STANDARD.decode(interval.encoded_histogram()).expect("base64");
                    let read: Histogram<u64> =
                        Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
                    assert_eq!(read, latency_ns);
                }
            }
        }
        assert_eq!((starts, lengths), (vec![0, 1], vec![1000, 500]));
    }
}
