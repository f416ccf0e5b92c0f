//! Threads beside the workers, and how long the end waits.

use std::thread;
use std::time::Duration;

use super::lines::transient;
use crate::failure::Failure;

/// Time at the end for requests that are under way. Most have their answer in some milliseconds; a server that hangs delays the end by no more.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Starts a thread beside the workers, which runs until the process ends.
pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| transient(&format!("start thread {name}"), error))
}
