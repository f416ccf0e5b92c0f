//! Deletes on their way from the workers to the thread that writes them, and back.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::plan::DestinationSpec;
use crate::slab::Id;

/// Deletes that wait to be written. Beyond it, a delete that fails is answered with its error.
pub(crate) const WAITING_MAX: usize = 10_000;

/// Where workers leave deletes that did not reach their server.
///
/// One thread takes and writes them, and reports each; the worker then answers the client. No delete is reported as
/// spooled that is not in a file.
#[derive(Debug, Default)]
pub struct SpoolQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<WaitingDelete>,
    /// By worker.
    written: Vec<Vec<(Id, bool)>>,
}

/// A delete to write.
#[derive(Debug)]
pub struct WaitingDelete {
    pub(crate) worker: usize,
    pub(crate) id: Id,
    pub(crate) server: Arc<DestinationSpec>,
    pub(crate) key: Vec<u8>,
    pub(crate) log: Arc<str>,
}

impl WaitingDelete {
    /// What is to be written.
    pub fn record(&self) -> super::SpoolRecord<'_> {
        super::SpoolRecord { server: &self.server.name, key: &self.key, pool: &self.log }
    }

    /// The worker that waits for it.
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl SpoolQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker by its number, which counts from 0.
    pub(crate) fn join(&self, worker: usize) {
        let mut state = self.state();
        let count = state.written.len().max(worker + 1);
        state.written.resize_with(count, Vec::new);
    }

    /// Leaves a delete; `false` if too many wait.
    pub(crate) fn leave(&self, delete: WaitingDelete) -> bool {
        let mut state = self.state();
        if state.waiting.len() >= WAITING_MAX {
            return false;
        }
        state.waiting.push(delete);
        self.changed.notify_one();
        true
    }

    /// All deletes that wait; waits for one at most so long.
    pub fn take(&self, time: Duration) -> Vec<WaitingDelete> {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, time, |state| state.waiting.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.waiting)
    }

    /// Reports what has become of them. Their workers are to be nudged then.
    pub fn report(&self, deletes: &[WaitingDelete], is_written: bool) {
        let mut state = self.state();
        for delete in deletes {
            state.written[delete.worker].push((delete.id, is_written));
        }
    }

    /// What has become of a worker's deletes.
    pub(crate) fn take_reports(&self, worker: usize) -> Vec<(Id, bool)> {
        std::mem::take(&mut self.state().written[worker])
    }
}
