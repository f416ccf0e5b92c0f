//! Locks: std's; or, in unit tests, ones that let a schedule decide who goes next.

#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use crate::interleaving::schedule::{Mutex, MutexGuard, pause};

/// Where something shared is looked at without a lock: a test's schedule may go on elsewhere.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn pause() {}

/// Locks, whether or not someone has panicked under this lock: the data is whole at every panic there is.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
