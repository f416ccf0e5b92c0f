//! Reads of a worker's files by the machine's kernel: with a ring, or with threads where io_uring is refused.
//!
//! Independent of the driver and its ring, which is empty between two calls: these reads outlive a round. An eventfd in the
//! worker's epoll set reports their completions. A worker that reads no file has none of this.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::files::file_read::{FileRead, FinishedRead, READS_LIMIT};
use crate::files::file_ring::FileRing;
use crate::files::read_threads::ReadThreads;
use crate::kernel::driver::Poll;
use crate::network::message_queue::new_eventfd;

/// Epoll data of the eventfd that reports finished reads.
pub(crate) const READS: u64 = u64::MAX - 1;

/// Time that a worker which ends waits for reads in flight. A disk answers within milliseconds; a network file system that has
/// lost its server answers never.
const DRAIN_MS: u64 = 1000;

/// The file reads of a worker.
pub(crate) struct FileReads {
    reads_max: usize,
    /// Without io_uring from the start.
    threads_only: bool,
    /// Since the first read.
    started: Option<(Arc<OwnedFd>, Way)>,
}

enum Way {
    Ring(Box<FileRing>),
    Threads(ReadThreads),
}

impl FileReads {
    /// Prepares for at most `reads_max` reads in flight.
    pub(crate) fn new(reads_max: usize) -> FileReads {
        FileReads { reads_max: reads_max.clamp(1, READS_LIMIT), threads_only: false, started: None }
    }

    /// Begins reads. Those that fail at once, or are finished already, are added to `finished`.
    pub(crate) fn begin(&mut self, poll: &Poll, reads: Vec<FileRead>, finished: &mut Vec<FinishedRead>) {
        if let Err(error) = self.start(poll) {
            return finished.extend(reads.into_iter().map(|read| FinishedRead::Done(read, Err(error))));
        }
        let Some((eventfd, way)) = &mut self.started else { return };
        match way {
            Way::Threads(threads) => threads.begin(reads),
            Way::Ring(ring) => {
                let begun = ring.begin(reads, finished);
                ring.take_finished(finished);
                if let Err(error) = begun {
                    ring.give_up(error, finished);
                    // Where that fails, too, the next read tries again.
                    let threads = ReadThreads::start(Arc::clone(eventfd));
                    self.threads_only = true;
                    self.started = threads.ok().map(|threads| (Arc::clone(eventfd), Way::Threads(threads)));
                }
            }
        }
    }

    /// Adds the reads that have finished since the last call.
    pub(crate) fn take_finished(&mut self, finished: &mut Vec<FinishedRead>) {
        match &mut self.started {
            Some((_, Way::Ring(ring))) => ring.take_finished(finished),
            Some((_, Way::Threads(threads))) => threads.take_finished(finished),
            None => {}
        }
    }

    /// Ends all reads: adds those that finish within a moment, and reports the others as cancelled.
    pub(crate) fn end(&mut self, finished: &mut Vec<FinishedRead>) {
        match self.started.take() {
            Some((eventfd, Way::Ring(mut ring))) => {
                ring.drain(&eventfd, DRAIN_MS, finished);
                ring.give_up(Errno::CANCELED, finished);
            }
            Some((_, Way::Threads(threads))) => threads.end(finished),
            None => {}
        }
    }

    /// Sets up what the first read needs.
    fn start(&mut self, poll: &Poll) -> Result<(), Errno> {
        if self.started.is_some() {
            return Ok(());
        }
        let eventfd = Arc::new(new_eventfd()?);
        let ring = if self.threads_only { None } else { FileRing::new(self.reads_max, &eventfd).ok() };
        let way = match ring {
            Some(ring) => Way::Ring(Box::new(ring)),
            None => Way::Threads(ReadThreads::start(Arc::clone(&eventfd))?),
        };
        poll.add(&eventfd, READS, EventFlags::IN | EventFlags::ET)?;
        self.started = Some((eventfd, way));
        Ok(())
    }
}

#[cfg(test)]
impl FileReads {
    /// The same without io_uring.
    pub(crate) fn with_threads() -> FileReads {
        FileReads { reads_max: 0, threads_only: true, started: None }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started.is_some()
    }

    /// The ring, if there is one.
    pub(crate) fn ring(&self) -> Option<&FileRing> {
        match &self.started {
            Some((_, Way::Ring(ring))) => Some(ring),
            _ => None,
        }
    }
}
