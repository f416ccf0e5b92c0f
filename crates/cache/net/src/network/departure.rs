//! The departure of a network's connections: how far its threads are with handing them over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Shared by the threads of a network.
#[derive(Debug)]
pub(crate) struct Departure {
    /// The listeners stay open, and a thread that ends does not end the others.
    leaving: AtomicBool,
    /// Nothing more is accepted.
    acceptor_ended: AtomicBool,
    /// Workers that are told to stop hand over what is at rest.
    decided: AtomicBool,
    /// All connections were at rest then: what has begun since ends soon.
    was_at_rest: AtomicBool,
    /// By worker: all its connections were at rest after its last round.
    at_rest: Box<[AtomicBool]>,
}

/// What begins between a worker's last word that all is at rest and the decision may end: a request that waits for a read does so
/// in 0.1 s, and most of them in less than a millisecond.
pub(crate) const LAST_ROUNDS_US: u64 = 150_000;

/// Between two looks at how far the threads are.
const LOOK_EVERY: Duration = Duration::from_micros(200);

impl Departure {
    pub(crate) fn new(workers: usize) -> Departure {
        Departure {
            leaving: AtomicBool::new(false),
            acceptor_ended: AtomicBool::new(false),
            decided: AtomicBool::new(false),
            was_at_rest: AtomicBool::new(false),
            at_rest: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Nobody leaves any more.
    pub(crate) fn reset(&self) {
        let flags = [&self.leaving, &self.acceptor_ended, &self.decided, &self.was_at_rest];
        flags.into_iter().chain(&self.at_rest).for_each(|flag| flag.store(false, SeqCst));
    }

    pub(crate) fn begin(&self) {
        self.leaving.store(true, SeqCst);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(SeqCst)
    }

    pub(crate) fn note_end_of_acceptor(&self) {
        self.acceptor_ended.store(true, SeqCst);
    }

    pub(crate) fn note(&self, worker: usize, at_rest: bool) {
        self.at_rest[worker].store(at_rest, SeqCst);
    }

    pub(crate) fn decide(&self, was_at_rest: bool) {
        self.was_at_rest.store(was_at_rest, SeqCst);
        self.decided.store(true, SeqCst);
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.decided.load(SeqCst)
    }

    /// Whether what has begun since it was decided may end: nothing else keeps the worker.
    pub(crate) fn was_at_rest(&self) -> bool {
        self.was_at_rest.load(SeqCst)
    }

    /// Waits until nothing more is accepted, at most so long.
    pub(crate) fn wait_for_acceptor(&self, patience: Duration) {
        wait(patience, || self.acceptor_ended.load(SeqCst));
    }

    /// Waits until all connections are at rest, at most so long. False: they are not.
    pub(crate) fn wait_for_rest(&self, patience: Duration) -> bool {
        wait(patience, || self.at_rest.iter().all(|flag| flag.load(SeqCst)))
    }
}

pub(crate) fn wait(patience: Duration, is_over: impl Fn() -> bool) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a thread that waits for others")]
    let began = Instant::now();
    while !is_over() {
        if began.elapsed() >= patience {
            return false;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    true
}

/// A worker's part in the end of its network.
pub(crate) struct WorkerDeparture {
    network: Arc<Departure>,
    /// The worker's number.
    worker: usize,
    /// It says after each round whether all connections are at rest.
    draining: bool,
    stopping: bool,
}

impl WorkerDeparture {
    pub(crate) fn new(network: Arc<Departure>, worker: usize) -> WorkerDeparture {
        WorkerDeparture { network, worker, draining: false, stopping: false }
    }

    /// From now on [`WorkerDeparture::note`] says whether all connections are at rest.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Tells the network whether all connections are at rest, if it wants to know.
    pub(crate) fn note(&self, is_at_rest: impl FnOnce() -> bool) {
        if self.draining {
            self.network.note(self.worker, is_at_rest());
        }
    }

    /// Whether what has begun since it was decided may end.
    pub(crate) fn serves_to_rest(&self) -> bool {
        self.network.was_at_rest()
    }

    /// Whether connections are handed over, and not closed.
    pub(crate) fn is_decided(&self) -> bool {
        self.network.is_decided()
    }
}
