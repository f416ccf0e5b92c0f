//! `watch`: a live log of what the server does, for who asks.
//!
//! A request costs one relaxed load while nobody watches. A watcher that reads too slowly loses lines, and
//! is told how many; nobody waits for it.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

pub(crate) use protocol::request::Streams;
use protocol::uri;

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

/// The log that all workers write to and all watchers read from.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The union of what all watchers want.
    wanted: AtomicU16,
    watchers: Mutex<Vec<Watcher>>,
    /// Number of the last line.
    line: AtomicU64,
    pub(crate) watcher_sent: AtomicU64,
    pub(crate) watcher_skipped: AtomicU64,
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

/// There are [`WATCHERS_MAX`] watchers already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyWatchers;

impl Log {
    /// The streams that somebody watches.
    #[inline]
    pub(crate) fn wanted(&self) -> Streams {
        Streams::from_bits(self.wanted.load(Relaxed))
    }

    /// Adds a watcher; `id` is unique among watchers (a connection has at most one).
    pub(crate) fn add(&self, id: u64, streams: Streams, buffer_len: usize) -> Result<(), TooManyWatchers> {
        let mut watchers = self.lock();
        if watchers.len() == WATCHERS_MAX {
            return Err(TooManyWatchers);
        }
        watchers.push(Watcher { id, streams, waiting: Vec::new(), skipped: 0, buffer_len });
        self.update_wanted(&watchers);
        Ok(())
    }

    /// Removes a watcher whose connection has closed.
    pub(crate) fn remove(&self, id: u64) {
        let mut watchers = self.lock();
        watchers.retain(|watcher| watcher.id != id);
        self.update_wanted(&watchers);
    }

    pub(crate) fn watchers(&self) -> usize {
        self.lock().len()
    }

    /// Gives `line` to everyone who watches `stream`; `line` is without time and number. `unix_ms` is the
    /// time of day.
    pub(crate) fn write(&self, stream: Streams, unix_ms: u64, line: std::fmt::Arguments<'_>) {
        let number = self.line.fetch_add(1, Relaxed) + 1;
        let (seconds, micros) = (unix_ms / 1000, unix_ms % 1000 * 1000);
        let text = format!("ts={seconds}.{micros} gid={number} {line}\n");
        for watcher in self.lock().iter_mut().filter(|watcher| watcher.streams.intersects(stream)) {
            if watcher.waiting.len() + text.len() > watcher.buffer_len {
                watcher.skipped += 1;
                self.watcher_skipped.fetch_add(1, Relaxed);
            } else {
                watcher.waiting.extend_from_slice(text.as_bytes());
                self.watcher_sent.fetch_add(1, Relaxed);
            }
        }
    }

    /// Moves what waits for watcher `id` to `output`.
    pub(crate) fn take(&self, id: u64, output: &mut Vec<u8>) {
        let mut watchers = self.lock();
        let Some(watcher) = watchers.iter_mut().find(|watcher| watcher.id == id) else { return };
        output.append(&mut watcher.waiting);
        if watcher.skipped > 0 {
            let mut note = String::new();
            let _ = writeln!(note, "[skipped={}]", std::mem::take(&mut watcher.skipped));
            output.extend_from_slice(note.as_bytes());
        }
    }

    fn update_wanted(&self, watchers: &[Watcher]) {
        let union = watchers.iter().fold(Streams::NONE, |union, watcher| union.union(watcher.streams));
        self.wanted.store(union.bits(), Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Watcher>> {
        self.watchers.lock().expect("no panic while logging")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_gets_its_streams_and_is_told_what_it_missed() {
        let log = Log::default();
        assert!(!log.wanted().intersects(Streams::FETCHERS));
        log.add(1, Streams::FETCHERS, 60).unwrap();
        assert!(log.wanted().intersects(Streams::FETCHERS));
        log.write(Streams::MUTATIONS, 0, format_args!("type=item_store"));
        log.write(Streams::FETCHERS, 1_002_003, format_args!("type=item_get key=a"));
        log.write(Streams::FETCHERS, 1_002_003, format_args!("type=item_get key=b"));
        let mut output = Vec::new();
        log.take(1, &mut output);
        assert_eq!(output, b"ts=1002.3000 gid=2 type=item_get key=a\n[skipped=1]\n");
        log.remove(1);
        assert_eq!(log.wanted(), Streams::NONE);
    }

    #[test]
    fn there_is_a_limit_to_watchers() {
        let log = Log::default();
        for id in 0..WATCHERS_MAX as u64 {
            log.add(id, Streams::FETCHERS, 1000).unwrap();
        }
        assert_eq!(log.add(99, Streams::FETCHERS, 1000), Err(TooManyWatchers));
    }
}
