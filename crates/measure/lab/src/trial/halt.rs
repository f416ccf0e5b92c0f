//! Pauses that a signal ends.

use crate::error::Error;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Request to stop, set by another thread.
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<(Mutex<bool>, Condvar)>);

impl Halt {
    /// Stop.
    pub fn set(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Sleeps for this long, and no longer than until it is set.
    pub fn pause(&self, time: Duration) -> Result<(), Error> {
        let set = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (set, _) =
            self.0.1.wait_timeout_while(set, time, |set| !*set).unwrap_or_else(PoisonError::into_inner);
        if *set { Err(Error::Halted) } else { Ok(()) }
    }
}
