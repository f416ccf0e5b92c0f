//! One thread of load: exchange with the kernel, read replies, compose requests, again.

use crate::clock::now_ns;
use crate::compose::Composer;
use crate::conversation::{Conversation, Reading};
use crate::engine::{Engine, Wait};
use crate::error::Error;
use crate::outbox::Outbox;
use crate::plan::Items;
use crate::tally::Tally;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};

/// Where the run is; workers look once a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Load, but nothing is counted.
    WarmUp,
    /// The window is open.
    Measure,
    /// The window is closed.
    Stop,
}

/// What the threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    phase: AtomicU8,
    pub(crate) workers: Vec<Slot>,
}

/// What one worker shows to the others, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// Requests and keys completed in the present phase.
    pub(crate) requests: AtomicU64,
    pub(crate) keys: AtomicU64,
    /// The kernel's number of the thread, 0 before it runs.
    pub(crate) thread: AtomicI32,
    /// The thread's CPU time when it ended, 0 before.
    pub(crate) ended_cpu_ns: AtomicU64,
}

impl Shared {
    pub(crate) fn new(workers: usize, phase: Phase) -> Shared {
        let workers = (0..workers).map(|_| Slot::default()).collect();
        Shared { phase: AtomicU8::new(phase as u8), workers }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            _ => Phase::Stop,
        }
    }
}

/// One thread's connections and their load.
pub(crate) struct Worker<'a, E> {
    pub(crate) engine: E,
    pub(crate) composer: Composer<'a>,
    pub(crate) items: &'a Items,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) verify: bool,
    pub(crate) gather: usize,
    /// The worker is done after this many requests of the window.
    pub(crate) requests_max: Option<u64>,
    pub(crate) shared: &'a Shared,
    pub(crate) slot: &'a Slot,
}

impl<E: Engine> Worker<'_, E> {
    /// Loads the server until the window closes, the requests are used up or the composer has none left.
    pub(crate) fn run(mut self) -> Result<Tally, Error> {
        let mut conversations: Vec<Conversation> = Vec::new();
        conversations.resize_with(self.connections, Conversation::default);
        let mut tally = Tally::new();
        let mut outbox = Outbox::default();
        let mut served: Vec<usize> = (0..self.connections).collect();
        let mut phase = self.shared.phase();
        loop {
            let more = self.fill(&served, &mut conversations, &mut outbox);
            let sent_ns = now_ns();
            outbox.connections().for_each(|connection| conversations[connection].stamp(sent_ns));
            self.engine.exchange(&outbox, Wait { gather: self.gather })?;
            let done_ns = now_ns();
            outbox.clear();
            served.clear();
            let now = self.shared.phase();
            if now != phase {
                if now == Phase::Stop {
                    break;
                }
                phase = now;
                tally = Tally::new();
            }
            let mut reading = Reading { items: self.items, verify: self.verify, done_ns, tally: &mut tally };
            self.engine.arrivals(|connection, bytes| {
                served.push(connection);
                conversations[connection].receive(bytes, &mut reading)
            })?;
            self.slot.requests.store(tally.requests(), Ordering::Relaxed);
            self.slot.keys.store(tally.keys(), Ordering::Relaxed);
            let enough =
                self.requests_max.is_some_and(|max| phase == Phase::Measure && tally.requests() >= max);
            if enough || (!more && conversations.iter().all(|conversation| conversation.outstanding() == 0)) {
                break;
            }
        }
        tally.settle();
        Ok(tally)
    }

    /// Tops up every connection that was served; `false` once there is nothing left to ask.
    #[inline]
    fn fill(&mut self, served: &[usize], conversations: &mut [Conversation], outbox: &mut Outbox) -> bool {
        let mut more = true;
        for &connection in served {
            let conversation = &mut conversations[connection];
            let start = outbox.bytes.len();
            let mut composed = 0;
            while more && conversation.outstanding() < self.depth {
                more = self.composer.compose(&mut outbox.bytes, conversation);
                composed += usize::from(more);
            }
            if composed > 0 {
                conversation.close_batch(composed);
                outbox.address(connection, start);
            }
        }
        more
    }
}
