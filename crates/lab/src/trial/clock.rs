//! Clocks of a trial: time that has passed, the time of day, and pauses that a signal ends.

use crate::error::Error;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "a trial takes time, and says how much")]
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn passed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "a record says when its trial began")]
pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Request to stop, set by another thread.
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<(Mutex<bool>, Condvar)>);

impl Halt {
    /// Stop.
    pub fn set(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Sleeps for so long, and no longer than until it is set.
    pub fn pause(&self, time: Duration) -> Result<(), Error> {
        let set = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (set, _) =
            self.0.1.wait_timeout_while(set, time, |set| !*set).unwrap_or_else(PoisonError::into_inner);
        if *set { Err(Error::Halted) } else { Ok(()) }
    }
}
