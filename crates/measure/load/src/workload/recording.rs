//! Recording of a run: its requests as a trace that `--trace` replays.
//!
//! While the load runs, a worker only notes which item was asked for, how and when (`Recorder`). A thread of its own
//! keeps these notes on the disk (spool.rs), and after the run they become the lines of a trace (write.rs): writing text
//! meanwhile would take from the CPUs of what is measured.

mod spool;
mod write;

use crate::types::error::Error;
use crate::types::mix::Command;
use crate::workload::items::Items;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// A recording in the making.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    file: File,
    spool: JoinHandle<Result<Vec<File>, Error>>,
    room: Arc<Room>,
}

/// What came of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) requests: u64,
    /// Requests that found no room, and those that came after the first of these.
    pub(crate) left_out: u64,
    /// When the first of them was asked, since the window opened.
    pub(crate) until_ns: u64,
}

/// One worker's notes.
#[derive(Debug)]
pub(crate) struct Recorder {
    worker: usize,
    /// What is asked at other times is no part of the recording.
    window_ns: Range<u64>,
    notes: Vec<Note>,
    /// Notes before this one have their time.
    timed: usize,
    latest_ns: u64,
    sender: Sender<Round>,
    room: Arc<Room>,
}

/// That a key was asked for or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// Since the window opened.
    at_ns: u64,
    command: Command,
    /// Of a command that counts: the number of its counter.
    item: u64,
}

/// Notes of one worker, in the order of asking.
type Round = (usize, Vec<Note>);

/// Notes on their way to the disk.
#[derive(Debug)]
struct Room {
    waiting: AtomicUsize,
    /// A recording without room ends here, for all workers.
    until_ns: AtomicU64,
    left_out: AtomicU64,
}

/// Notes that a worker passes on at once: worth the wake-up, and 100 kB.
const ROUND: usize = 4096;
/// Notes that wait for the disk, of all workers together: about 100 MB, and several seconds of a fast load.
const WAITING_MAX: usize = 1 << 22;

impl Recording {
    /// Begins one, and returns its recorders for this many workers.
    pub(crate) fn start(path: &Path, workers: usize) -> Result<(Recording, Vec<Recorder>), Error> {
        let path = path.to_path_buf();
        let file = File::create(&path).map_err(|source| Error::Output { path: path.clone(), source })?;
        let spools = spool::create(&path, workers)?;
        let room = Arc::new(Room {
            waiting: AtomicUsize::new(0),
            until_ns: AtomicU64::new(u64::MAX),
            left_out: AtomicU64::new(0),
        });
        let (sender, rounds) = channel();
        let spool = {
            let (path, room) = (path.clone(), Arc::clone(&room));
            let keep = move || spool::keep(&rounds, spools, &room, &path);
            thread::Builder::new().name(String::from("load-record")).spawn(keep)?
        };
        let recorder = |worker| Recorder {
            worker,
            window_ns: u64::MAX..u64::MAX,
            notes: Vec::with_capacity(ROUND),
            timed: 0,
            latest_ns: 0,
            sender: sender.clone(),
            room: Arc::clone(&room),
        };
        let recorders = (0..workers).map(recorder).collect();
        Ok((Recording { path, file, spool, room }, recorders))
    }

    /// Waits until the notes of workers that have ended are on the disk.
    pub(crate) fn join(self) -> Result<Notes, Error> {
        let Recording { path, file, spool, room } = self;
        let spools = spool.join().map_err(|_| Error::Panic)??;
        Ok(Notes { path, file, spools, room })
    }
}

/// A recording whose workers have ended.
#[derive(Debug)]
pub(crate) struct Notes {
    path: PathBuf,
    file: File,
    spools: Vec<File>,
    room: Arc<Room>,
}

impl Notes {
    /// Makes a trace of them.
    pub(crate) fn write(self, items: &Items) -> Result<Recorded, Error> {
        let Notes { path, file, spools, room } = self;
        let until_ns = room.until_ns.load(Ordering::Relaxed);
        let (requests, later) =
            write::merge(spools, file, items, until_ns).map_err(|source| Error::Output { path, source })?;
        Ok(Recorded { requests, left_out: room.left_out.load(Ordering::Relaxed) + later, until_ns })
    }
}

impl Recorder {
    /// What is asked from now on in this window is recorded.
    pub(crate) fn open(&mut self, window_ns: Range<u64>) {
        self.window_ns = window_ns;
    }

    /// A request was composed; [`Recorder::asked`] says when.
    #[inline]
    pub(crate) fn note(&mut self, command: Command, item: u64) {
        self.notes.push(Note { at_ns: 0, command, item });
    }

    /// The requests that were composed since the last call count as asked at this time.
    #[inline]
    pub(crate) fn asked(&mut self, at_ns: u64) {
        if !self.window_ns.contains(&at_ns) {
            return self.notes.truncate(self.timed);
        }
        // Replays keep the order of asking: a line is never before the one above it.
        self.latest_ns = self.latest_ns.max(at_ns - self.window_ns.start);
        for note in &mut self.notes[self.timed..] {
            note.at_ns = self.latest_ns;
        }
        self.timed = self.notes.len();
    }

    /// Passes on a full round.
    #[inline]
    pub(crate) fn turn(&mut self) -> Result<(), Error> {
        if self.notes.len() < ROUND { Ok(()) } else { self.send(WAITING_MAX) }
    }

    /// Passes on the rest.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        // At most a round and a turn of each worker: they fit in any case.
        self.send(usize::MAX)
    }

    fn send(&mut self, waiting_max: usize) -> Result<(), Error> {
        let notes = std::mem::replace(&mut self.notes, Vec::with_capacity(ROUND));
        self.timed = 0;
        let Some(first) = notes.first() else { return Ok(()) };
        let Room { waiting, until_ns, left_out } = &*self.room;
        let others = waiting.load(Ordering::Relaxed);
        if others > 0 && others.saturating_add(notes.len()) > waiting_max {
            until_ns.fetch_min(first.at_ns, Ordering::Relaxed);
        }
        if first.at_ns >= until_ns.load(Ordering::Relaxed) {
            left_out.fetch_add(notes.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        waiting.fetch_add(notes.len(), Ordering::Relaxed);
        // The receiver is gone when the disk has failed: `Recording::join` returns the error.
        self.sender.send((self.worker, notes)).map_err(|_| Error::Panic)
    }
}

#[cfg(test)]
mod tests;
