//! Scheduling attributes of threads: sched_getattr(2) and sched_setattr(2), which no safe library has.

#![expect(unsafe_code, reason = "two system calls that have no safe wrapper")]

use std::io;

/// sched(7): shared fairly.
pub const OTHER: u32 = 0;
/// sched(7): runs until it waits, before everything that is shared fairly.
pub const FIFO: u32 = 1;
/// sched(7): as before, but in turn with others of its priority.
pub const RR: u32 = 2;
/// sched(7): shared fairly, and woken without hurry.
const BATCH: u32 = 3;

/// The kernel's `struct sched_attr`, version 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingAttributes {
    size: u32,
    /// [`OTHER`], [`FIFO`] …
    pub policy: u32,
    flags: u64,
    /// Of a thread that is scheduled fairly.
    pub nice: i32,
    /// Of a real-time thread.
    pub priority: u32,
    /// For fair threads the length of a time slice, since Linux 6.12.
    pub runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const ATTRIBUTES_LEN: u32 = size_of::<SchedulingAttributes>() as u32;

/// The attributes of a thread; 0 for the calling one.
pub fn attributes(tid: u32) -> io::Result<SchedulingAttributes> {
    let mut attributes = SchedulingAttributes::default();
    // SAFETY: the structure outlives the call, which writes at most as many bytes as it is told that there are.
    done(unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, ATTRIBUTES_LEN, 0) })?;
    Ok(attributes)
}

/// Gives a thread, or with 0 the calling one, these attributes, which come from [`attributes`] and were changed.
pub fn set_attributes(tid: u32, attributes: &SchedulingAttributes) -> io::Result<()> {
    let attributes = SchedulingAttributes { size: ATTRIBUTES_LEN, ..*attributes };
    // SAFETY: the structure outlives the call, which reads as many bytes as `size` says.
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) })
}

/// Lets the calling thread have time slices of at most `slice_ns` (the kernel accepts 0.1 ms to 100 ms), which needs no
/// privilege. A real-time thread has no slices, and stays as it is.
///
/// Before Linux 6.12 the kernel ignores the request: that is an error, too.
pub fn shorten_slice(slice_ns: u64) -> io::Result<()> {
    const THIS_THREAD: u32 = 0;
    let now = attributes(THIS_THREAD)?;
    let is_short = (1..=slice_ns).contains(&now.runtime_ns);
    if !matches!(now.policy, OTHER | BATCH) || is_short {
        return Ok(());
    }
    set_attributes(THIS_THREAD, &SchedulingAttributes { runtime_ns: slice_ns, ..now })?;
    match attributes(THIS_THREAD)?.runtime_ns == slice_ns {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = 300_000;

    /// The attributes of a thread of its own after `work`.
    fn after(work: impl FnOnce() + Send + 'static) -> SchedulingAttributes {
        let thread = std::thread::spawn(move || {
            work();
            attributes(0).expect("a thread can read its own")
        });
        thread.join().expect("no panic")
    }

    /// Whether the kernel is older than slices; a new one that refuses is a failure.
    fn is_unsupported(outcome: &io::Result<()>) -> bool {
        outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP))
    }

    #[test]
    fn a_slice_gets_shorter_and_the_rest_stays() {
        let shortened = after(|| {
            let before = attributes(0).expect("it can be read");
            let outcome = shorten_slice(SLICE_NS);
            if is_unsupported(&outcome) {
                return eprintln!("the kernel has no slices for threads");
            }
            outcome.expect("it needs no privilege");
            let expected = SchedulingAttributes { runtime_ns: SLICE_NS, ..before };
            assert_eq!(attributes(0).expect("it can be read"), expected);
            shorten_slice(2 * SLICE_NS).expect("it is short enough");
        });
        assert!(shortened.runtime_ns == SLICE_NS || shortened.runtime_ns == 0, "{shortened:?}");
    }

    #[test]
    fn a_real_time_thread_stays_as_it_is() {
        let attributes = after(|| {
            let now = attributes(0).expect("it can be read");
            let real_time = SchedulingAttributes { policy: FIFO, priority: 1, runtime_ns: 0, ..now };
            if set_attributes(0, &real_time).is_err() {
                return eprintln!("no permission for real-time threads");
            }
            shorten_slice(SLICE_NS).expect("it needs none");
            assert_eq!(attributes(0).map(|now| (now.policy, now.priority)).ok(), Some((FIFO, 1)));
        });
        assert_ne!(attributes.runtime_ns, SLICE_NS);
    }

    #[test]
    fn a_slice_beyond_the_kernels_limits_is_not_granted() {
        after(|| assert!(shorten_slice(1).is_err(), "less than 0.1 ms"));
    }
}
