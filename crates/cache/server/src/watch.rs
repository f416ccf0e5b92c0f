//! `watch`: a live log of the server's events for watching clients.
//!
//! Without watchers a request costs one relaxed load. A watcher that reads too slowly loses lines, and gets
//! their number; no request waits for it.
//!
//! The lines are those of memcached, with its quirks: `fetchers` shows every lookup, also those of commands
//! that store, count or delete.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

pub(crate) use protocol::request::Streams;
use protocol::uri;
use stdx::counter::since;

/// At most this many watchers, as in memcached.
pub(crate) const WATCHERS_MAX: usize = 20;

/// A key as the log prints it: percent-encoded.
pub(crate) struct KeyName<'a>(pub(crate) &'a [u8]);

impl std::fmt::Display for KeyName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::new();
        uri::encode(&mut text, self.0);
        f.write_str(std::str::from_utf8(&text).expect("an encoded key is ASCII"))
    }
}

/// A key in a report for people: as it is if it is readable, otherwise encoded.
pub(crate) struct ReadableKey<'a>(pub(crate) &'a [u8]);

impl std::fmt::Display for ReadableKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::new();
        uri::encode_unreadable(&mut text, self.0);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// The log: written by all workers, read by all watchers.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The union of the streams of all watchers.
    wanted: AtomicU16,
    watchers: Mutex<Vec<Watcher>>,
    /// Number of the last line.
    line: AtomicU64,
    /// Events that were dropped before there was a line.
    dropped: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// Counts of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCounts {
    /// Events that were dropped before there was a line.
    pub(crate) worker_dropped: u64,
    /// Lines, independent of the number of watchers.
    pub(crate) worker_written: u64,
    /// Lines for which the buffer of a watcher had no room, counted per watcher.
    pub(crate) watcher_skipped: u64,
    /// Lines added to the buffer of a watcher, counted per watcher.
    pub(crate) watcher_sent: u64,
}

#[derive(Debug)]
struct Watcher {
    id: u64,
    streams: Streams,
    waiting: Vec<u8>,
    /// Lines dropped since the watcher last took some.
    skipped: u64,
    buffer_len: usize,
}

impl LogCounts {
    /// What has been counted since `earlier`.
    pub(crate) fn since(&self, earlier: &LogCounts) -> LogCounts {
        LogCounts {
            worker_dropped: since(self.worker_dropped, earlier.worker_dropped),
            worker_written: since(self.worker_written, earlier.worker_written),
            watcher_skipped: since(self.watcher_skipped, earlier.watcher_skipped),
            watcher_sent: since(self.watcher_sent, earlier.watcher_sent),
        }
    }
}

/// There are [`WATCHERS_MAX`] watchers already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyWatchers;

impl Log {
    /// The streams with watchers.
    #[inline]
    pub(crate) fn wanted(&self) -> Streams {
        Streams::from_bits(self.wanted.load(Relaxed))
    }

    /// Adds a watcher; `id` is unique among watchers (a connection has at most one). `changed` is called with
    /// the streams that are watched from now on, before another change can happen.
    pub(crate) fn add(
        &self,
        id: u64,
        streams: Streams,
        buffer_len: usize,
        changed: impl FnOnce(Streams),
    ) -> Result<(), TooManyWatchers> {
        let mut watchers = self.lock();
        if watchers.len() == WATCHERS_MAX {
            return Err(TooManyWatchers);
        }
        watchers.push(Watcher { id, streams, waiting: Vec::new(), skipped: 0, buffer_len });
        changed(self.update_wanted(&watchers));
        Ok(())
    }

    /// Removes a watcher whose connection has closed; as [`Log::add`].
    pub(crate) fn remove(&self, id: u64, changed: impl FnOnce(Streams)) {
        let mut watchers = self.lock();
        watchers.retain(|watcher| watcher.id != id);
        changed(self.update_wanted(&watchers));
    }

    pub(crate) fn watchers(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn counts(&self) -> LogCounts {
        LogCounts {
            worker_dropped: self.dropped.load(Relaxed),
            worker_written: self.line.load(Relaxed),
            watcher_skipped: self.skipped.load(Relaxed),
            watcher_sent: self.sent.load(Relaxed),
        }
    }

    /// Adds `line` to the buffers of all watchers of `stream`; `line` is without time and number. `unix_ms`
    /// is the time of day.
    pub(crate) fn write(&self, stream: Streams, unix_ms: u64, line: std::fmt::Arguments<'_>) {
        let number = self.line.fetch_add(1, Relaxed) + 1;
        let (seconds, micros) = (unix_ms / 1000, unix_ms % 1000 * 1000);
        let text = format!("ts={seconds}.{micros} gid={number} {line}\n");
        for watcher in self.lock().iter_mut().filter(|watcher| watcher.streams.intersects(stream)) {
            if watcher.waiting.len() + text.len() > watcher.buffer_len {
                watcher.skipped += 1;
                self.skipped.fetch_add(1, Relaxed);
            } else {
                watcher.waiting.extend_from_slice(text.as_bytes());
                self.sent.fetch_add(1, Relaxed);
            }
        }
    }

    /// Counts `count` events of `stream` that were dropped before they became lines.
    pub(crate) fn drop_lines(&self, stream: Streams, count: u64) {
        if count == 0 {
            return;
        }
        self.dropped.fetch_add(count, Relaxed);
        for watcher in self.lock().iter_mut().filter(|watcher| watcher.streams.intersects(stream)) {
            watcher.skipped += count;
        }
    }

    /// Moves the queued lines of watcher `id` to `output`.
    pub(crate) fn take(&self, id: u64, output: &mut Vec<u8>) {
        let mut watchers = self.lock();
        let Some(watcher) = watchers.iter_mut().find(|watcher| watcher.id == id) else { return };
        output.append(&mut watcher.waiting);
        if watcher.skipped > 0 {
            let mut note = String::new();
            let _ = writeln!(note, "skipped={}", std::mem::take(&mut watcher.skipped));
            output.extend_from_slice(note.as_bytes());
        }
    }

    fn update_wanted(&self, watchers: &[Watcher]) -> Streams {
        let union = watchers.iter().fold(Streams::NONE, |union, watcher| union.union(watcher.streams));
        self.wanted.store(union.bits(), Relaxed);
        union
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Watcher>> {
        self.watchers.lock().expect("no panic while logging")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_gets_its_streams_and_the_number_of_lost_lines() {
        let log = Log::default();
        assert!(!log.wanted().intersects(Streams::FETCHERS));
        log.add(1, Streams::FETCHERS, 60, |wanted| assert_eq!(wanted, Streams::FETCHERS)).unwrap();
        assert!(log.wanted().intersects(Streams::FETCHERS));
        log.write(Streams::MUTATIONS, 0, format_args!("type=item_store"));
        log.write(Streams::FETCHERS, 1_002_003, format_args!("type=item_get key=a"));
        log.write(Streams::FETCHERS, 1_002_003, format_args!("type=item_get key=b"));
        let mut output = Vec::new();
        log.take(1, &mut output);
        assert_eq!(output, b"ts=1002.3000 gid=2 type=item_get key=a\nskipped=1\n");
        log.drop_lines(Streams::EVICTIONS, 5);
        log.drop_lines(Streams::FETCHERS, 7);
        output.clear();
        log.take(1, &mut output);
        assert_eq!(output, b"skipped=7\n");
        let counts = log.counts();
        let LogCounts { worker_dropped, worker_written, watcher_skipped, watcher_sent } = counts;
        assert_eq!((worker_dropped, worker_written, watcher_skipped, watcher_sent), (12, 3, 1, 1));
        log.remove(1, |wanted| assert_eq!(wanted, Streams::NONE));
        assert_eq!(log.wanted(), Streams::NONE);
    }

    #[test]
    fn there_is_a_limit_to_watchers() {
        let log = Log::default();
        for id in 0..WATCHERS_MAX as u64 {
            log.add(id, Streams::FETCHERS, 1000, |_| {}).unwrap();
        }
        assert_eq!(log.add(99, Streams::FETCHERS, 1000, |_| {}), Err(TooManyWatchers));
    }
}
