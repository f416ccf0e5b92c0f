//! Threads that read files for a worker where io_uring is refused.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use rustix::io::{Errno, pread, retry_on_intr};

use crate::files::file_read::{FileRead, FinishedRead};
use crate::network::message_queue::notify;

/// Threads of a worker: enough that one slow read does not delay all others, and few enough that sixteen workers have fewer
/// than a disk has places in its queue.
const THREADS: usize = 2;

/// A queue of reads and the threads that carry them out.
pub(crate) struct ReadThreads {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// There is something in the queue, or it is over.
    changed: Condvar,
    /// Notified of each read that has finished.
    eventfd: Arc<OwnedFd>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<FileRead>,
    /// The tag of each thread's read.
    running: [Option<u64>; THREADS],
    finished: Vec<FinishedRead>,
    stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work of a thread.
    fn work(&self, number: usize) {
        let mut state = self.lock();
        while !state.stopping {
            let Some(mut read) = state.queue.pop_front() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.running[number] = Some(read.tag);
            drop(state);
            let result = read_now(&mut read);
            state = self.lock();
            state.running[number] = None;
            if !state.stopping {
                state.finished.push(FinishedRead::Done(read, result));
                notify(&self.eventfd);
            }
        }
    }
}

fn read_now(read: &mut FileRead) -> Result<usize, Errno> {
    let position = read.position()?;
    let FileRead { file, block, .. } = read;
    let fd = file.fd()?;
    retry_on_intr(|| pread(fd, block.rest(), position))
}

impl ReadThreads {
    /// Starts the threads; one of them is enough.
    pub(crate) fn start(eventfd: Arc<OwnedFd>) -> Result<ReadThreads, Errno> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), eventfd });
        for number in 0..THREADS {
            let thread = Arc::clone(&shared);
            let started = Builder::new().name(format!("reads-{number}")).spawn(move || thread.work(number));
            match started {
                Ok(_detached) => {}
                Err(error) if number == 0 => return Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
                Err(_) => break,
            }
        }
        Ok(ReadThreads { shared })
    }

    pub(crate) fn begin(&mut self, reads: Vec<FileRead>) {
        self.shared.lock().queue.extend(reads);
        self.shared.changed.notify_all();
    }

    pub(crate) fn take_finished(&mut self, finished: &mut Vec<FinishedRead>) {
        finished.append(&mut self.shared.lock().finished);
    }

    /// Adds what has finished, and reports the rest as cancelled. A read that a thread is in the middle of stays with that
    /// thread, which ends after it: nothing waits for a disk that does not answer.
    pub(crate) fn end(self, finished: &mut Vec<FinishedRead>) {
        let mut state = self.shared.lock();
        finished.append(&mut state.finished);
        let queue = std::mem::take(&mut state.queue);
        finished.extend(queue.into_iter().map(|read| FinishedRead::Done(read, Err(Errno::CANCELED))));
        let running = state.running.into_iter().flatten();
        finished.extend(running.map(|tag| FinishedRead::Lost(tag, Errno::CANCELED)));
        state.stopping = true;
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
    }
}
