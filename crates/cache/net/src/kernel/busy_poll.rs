//! Busy polling of an epoll set: an ioctl(2) of Linux 6.9.

#![expect(unsafe_code, reason = "an ioctl of epoll that has no safe wrapper")]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Packets of one look at a receive queue. The kernel's own number is 8; more than 64 need a privilege (CAP_NET_ADMIN).
const BUDGET: u16 = 64;

/// Lets waits on this set poll the receive queue of its connections for `busy_poll_us` before they sleep. The queue's
/// interrupts stay off meanwhile, if the host defers them (`napi_defer_hard_irqs`).
pub(crate) fn set_busy_poll(epoll: impl AsFd, busy_poll_us: u32) -> Result<(), Errno> {
    let parameters = libc::epoll_params {
        busy_poll_usecs: busy_poll_us,
        busy_poll_budget: BUDGET,
        prefer_busy_poll: 1,
        __pad: 0,
    };
    let epoll = epoll.as_fd();
    // SAFETY: the kernel reads one `epoll_params` at the pointer, which outlives the call. The descriptor is borrowed, so it
    // is open.
    let result = unsafe { libc::ioctl(epoll.as_raw_fd(), libc::EPIOCSPARAMS, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use rustix::event::epoll::{CreateFlags, create};

    use super::*;

    /// Time, budget and preference that the kernel has for a set.
    fn busy_poll(epoll: impl AsFd) -> Result<(u32, u16, u8), Errno> {
        let mut found =
            libc::epoll_params { busy_poll_usecs: 0, busy_poll_budget: 0, prefer_busy_poll: 0, __pad: 0 };
        // SAFETY: the kernel writes one `epoll_params` at the pointer, which outlives the call.
        let result = unsafe { libc::ioctl(epoll.as_fd().as_raw_fd(), libc::EPIOCGPARAMS, &raw mut found) };
        let found = (found.busy_poll_usecs, found.busy_poll_budget, found.prefer_busy_poll);
        if result == 0 { Ok(found) } else { Err(last_error()) }
    }

    #[test]
    fn the_kernel_has_what_was_set() {
        let epoll = create(CreateFlags::CLOEXEC).expect("an epoll set");
        match set_busy_poll(&epoll, 50) {
            Ok(()) => assert_eq!(busy_poll(&epoll), Ok((50, BUDGET, 1))),
            // Linux before 6.9, or one built without busy polling.
            Err(error) => assert!(matches!(error, Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP), "{error}"),
        }
    }

    #[test]
    fn a_time_beyond_the_kernels_limit_and_another_descriptor_are_refused() {
        let epoll = create(CreateFlags::CLOEXEC).expect("an epoll set");
        assert!(set_busy_poll(&epoll, u32::MAX).is_err());
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(set_busy_poll(&reader, 50), Err(Errno::NOTTY));
    }
}
