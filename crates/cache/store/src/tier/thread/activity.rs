//! The states of the thread of a flash tier, from its work to its end.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use crate::sync::{Mutex, MutexGuard, lock};

const RUNNING: u8 = 0;
const FINISHING: u8 = 1;
const FINISHED: u8 = 2;

/// Whether there is to be an end, and a lock for changes.
#[derive(Debug, Default)]
pub(crate) struct FlashActivity {
    state: AtomicU8,
    /// Held by the thread while it changes the index or the pieces, and not while it waits for a device: one that hangs must not
    /// keep others from taking the rest away.
    changes: Mutex<()>,
}

/// The thread, in the middle of its work.
pub(crate) struct ThreadAtWork<'t> {
    activity: &'t FlashActivity,
    guard: Option<MutexGuard<'t, ()>>,
}

impl FlashActivity {
    /// Nothing more is begun; what is in memory is written.
    pub(crate) fn begin_finish(&self) {
        // What is finished stays so.
        let _ = self.state.compare_exchange(RUNNING, FINISHING, SeqCst, SeqCst);
    }

    /// Takes note that nothing is left to be written, unless the tier goes on.
    pub(crate) fn note_finished(&self) {
        let _ = self.state.compare_exchange(FINISHING, FINISHED, SeqCst, SeqCst);
    }

    /// The thread does nothing from now on.
    pub(crate) fn stay(&self) {
        self.state.store(FINISHED, SeqCst);
    }

    pub(crate) fn resume(&self) {
        self.state.store(RUNNING, SeqCst);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.load(SeqCst) == RUNNING
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state.load(SeqCst) == FINISHED
    }

    /// Waits until the thread changes nothing, or waits for a device.
    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        lock(&self.changes)
    }

    pub(crate) fn begin_work(&self) -> ThreadAtWork<'_> {
        ThreadAtWork { activity: self, guard: Some(self.lock_changes()) }
    }
}

impl ThreadAtWork<'_> {
    /// Waits for a device. Meanwhile others may have ended the work: see [`FlashActivity::is_finished`].
    pub(crate) fn wait_for<T>(&mut self, device: impl FnOnce() -> T) -> T {
        self.guard = None;
        let result = device();
        self.guard = Some(self.activity.lock_changes());
        result
    }
}
