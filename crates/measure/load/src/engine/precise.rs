//! Waiting for an epoll instance to the microsecond.
//!
//! `epoll_wait` counts in whole milliseconds, which an open loop is late by. `epoll_pwait2` does not, but kernels before
//! 5.11 lack it, and seccomp rules that do not know it end the process or refuse it. `ppoll` is everywhere, and an
//! epoll instance can be read from once it has events: a call more, of waits that are no whole milliseconds.

use crate::types::error::Error;
use rustix::event::epoll::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Waits for events, at most this long; as many as fit replace those that were there.
pub(super) fn wait(epoll: &OwnedFd, events: &mut Vec<Event>, at_most: Duration) -> Result<(), Error> {
    events.clear();
    let failed = |error: Errno| Error::Exchange(error.into());
    let is_whole = at_most.subsec_nanos().is_multiple_of(1_000_000);
    if !is_whole {
        match poll(&mut [PollFd::new(epoll, PollFlags::IN)], Some(&timespec(at_most))) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let timeout = timespec(if is_whole { at_most } else { Duration::ZERO });
    match epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}
