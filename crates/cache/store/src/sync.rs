//! Locks: std's; in unit tests, locks at which a schedule switches threads.

#[cfg(test)]
pub(crate) mod interleaving;

#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use crate::sync::interleaving::schedule::{Mutex, MutexGuard, pause};

/// A point where shared data is read without a lock: a test's schedule may switch threads here.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn pause() {}

/// Locks, even if a thread has panicked under this lock: no panic leaves the data inconsistent.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
