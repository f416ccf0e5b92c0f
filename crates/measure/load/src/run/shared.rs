//! State that the threads of a run share: the phase of the run, and what each has done so far.

use os::cpu_time::{self, ThreadTimes};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// The phase of the run; workers look once a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Load, but not counted.
    WarmUp,
    /// The window is open.
    Measure,
    /// For probes: they ask nothing more, and wait for pending replies.
    Drain,
    /// All threads end.
    Stop,
}

/// When an open loop begins, and which of its requests count; in nanoseconds of the clock.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) at_ns: u64,
    /// By intended time.
    pub(crate) window_ns: Range<u64>,
}

/// State that the threads of a run share.
#[derive(Debug)]
pub(crate) struct RunState {
    phase: AtomicU8,
    open_ns: AtomicU64,
    start: Mutex<Option<Start>>,
    started: Condvar,
    pub(crate) workers: Vec<WorkerSlot>,
}

/// One worker's counters, shown to the others, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerSlot {
    /// Requests and keys completed in the present phase; of an open loop, since it began.
    requests: AtomicU64,
    keys: AtomicU64,
    /// The kernel's number of the thread, 0 before it runs.
    pub(crate) thread: AtomicI32,
    /// The thread's times when it ended, 0 before.
    ended_run_ns: AtomicU64,
    ended_wait_ns: AtomicU64,
}

impl RunState {
    pub(crate) fn new(workers: usize, phase: Phase) -> RunState {
        RunState {
            phase: AtomicU8::new(phase as u8),
            open_ns: AtomicU64::new(0),
            start: Mutex::new(None),
            started: Condvar::new(),
            workers: (0..workers).map(|_| WorkerSlot::default()).collect(),
        }
    }

    /// Lets the workers begin.
    pub(crate) fn begin(&self, start: Start) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        self.started.notify_all();
    }

    /// Waits until the workers may begin; `None` if the run is over before.
    pub(crate) fn start(&self) -> Option<Start> {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        while start.is_none() && self.phase() != Phase::Stop {
            start = self.started.wait(start).unwrap_or_else(PoisonError::into_inner);
        }
        start.clone()
    }

    /// Opens the window.
    pub(crate) fn open(&self, at_ns: u64) {
        self.open_ns.store(at_ns, Ordering::Relaxed);
        self.enter(Phase::Measure);
    }

    /// When the window was opened.
    pub(crate) fn open_ns(&self) -> u64 {
        self.open_ns.load(Ordering::Relaxed)
    }

    /// Makes open loops stop sending.
    pub(crate) fn drain(&self) {
        self.enter(Phase::Drain);
    }

    /// Ends the run, also for threads that wait for its beginning.
    pub(crate) fn stop(&self) {
        // With the lock: a thread that has just looked at the phase is waiting by now.
        let _waiting = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        self.enter(Phase::Stop);
        self.started.notify_all();
    }

    /// A run never goes back: of two threads that set the phase, the later phase is right.
    fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Release);
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            2 => Phase::Drain,
            _ => Phase::Stop,
        }
    }

    /// Requests and keys completed by all workers.
    pub(crate) fn total(&self) -> (u64, u64) {
        self.workers.iter().fold((0, 0), |(requests, keys), slot| {
            (requests + slot.requests.load(Ordering::Relaxed), keys + slot.keys.load(Ordering::Relaxed))
        })
    }
}

impl WorkerSlot {
    /// How long the thread has run, and waited for a CPU.
    pub(crate) fn time(&self) -> ThreadTimes {
        // In this order: a thread that is gone has left its times here before.
        match cpu_time::of_thread(self.thread.load(Ordering::Relaxed)) {
            ThreadTimes { run_ns: 0, .. } => ThreadTimes {
                run_ns: self.ended_run_ns.load(Ordering::Acquire),
                wait_ns: self.ended_wait_ns.load(Ordering::Relaxed),
                slices: 0,
            },
            running => running,
        }
    }

    /// The calling thread, whose slot it is, is about to end.
    pub(crate) fn end(&self) {
        let ThreadTimes { run_ns, wait_ns, .. } = cpu_time::of_this_thread();
        self.ended_wait_ns.store(wait_ns, Ordering::Relaxed);
        self.ended_run_ns.store(run_ns, Ordering::Release);
    }

    /// Shows how many requests and keys are completed.
    #[inline]
    pub(crate) fn publish(&self, (requests, keys): (u64, u64)) {
        self.requests.store(requests, Ordering::Relaxed);
        self.keys.store(keys, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_cpu_time_of_a_thread_that_ends_is_never_gone() {
        for _ in 0..200 {
            let slot = WorkerSlot::default();
            thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    slot.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                    // Where other guests of the machine take the CPU, the kernel may count a short run as nothing.
                    while cpu_time::this_thread_ns() == 0 {}
                    slot.end();
                });
                let mut has_run = false;
                while !worker.is_finished() {
                    let cpu_ns = slot.time().run_ns;
                    assert!(cpu_ns > 0 || !has_run, "it had run");
                    has_run |= cpu_ns > 0;
                }
            });
            assert!(slot.time().run_ns > 0);
        }
    }
}
