//! Listening sockets from the process that started this one: `--listen-fd`, and systemd's socket activation
//! (sd_listen_fds(3)).

use std::ffi::OsString;
use std::ops::Range;
use std::os::fd::OwnedFd;

use server::options::{FIRST_INHERITED, Listen};

use crate::failure::Failure;
use crate::process::sys;

/// More sockets than any service has: a wrong number must not be tried one by one.
const PASSED_MAX: i32 = 1024;

/// All variables of the protocol, the names of sockets (which nothing here needs) and newer ones included.
const VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"];

/// The descriptors of the sockets that systemd has passed to this process. The variables leave the environment, so that
/// no other process takes them for its own. There must be no other thread yet.
pub(crate) fn passed() -> Result<Range<i32>, Failure> {
    let (pid, count) = (std::env::var_os("LISTEN_PID"), std::env::var_os("LISTEN_FDS"));
    sys::forget_variables(&VARIABLES);
    descriptors(pid, count, std::process::id()).map_err(|problem| Failure::usage(problem, None))
}

/// The same, from the values of LISTEN_PID and LISTEN_FDS. Those for another process are none, as with sd_listen_fds.
fn descriptors(pid: Option<OsString>, count: Option<OsString>, own_pid: u32) -> Result<Range<i32>, String> {
    let (Some(pid), Some(count)) = (pid, count) else { return Ok(0..0) };
    let (pid, count) = (pid.to_string_lossy(), count.to_string_lossy());
    let pid: u32 =
        pid.parse().map_err(|_| format!("LISTEN_PID: expected the number of a process, found `{pid}`"))?;
    if pid != own_pid {
        return Ok(0..0);
    }
    let in_range = count.parse().ok().filter(|count| (0..=PASSED_MAX).contains(count));
    let count = in_range
        .ok_or_else(|| format!("LISTEN_FDS: expected a number from 0 to {PASSED_MAX}, found `{count}`"))?;
    Ok(FIRST_INHERITED..FIRST_INHERITED + count)
}

/// The sockets of the inherited listeners, in their order. To be called once, before the process keeps any descriptor
/// of its own.
pub(crate) fn take(listeners: &[Listen]) -> Result<Vec<OwnedFd>, Failure> {
    let numbers = listeners.iter().filter_map(|listen| match listen {
        Listen::Inherited(number) => Some(*number),
        Listen::Tcp { .. } | Listen::Udp { .. } | Listen::Unix { .. } => None,
    });
    let take = |number| {
        sys::inherited_descriptor(number).map_err(|error| {
            Failure::system(format!("listen on descriptor {number}"), error)
                .hint("it must be open in the process that starts this one, without close-on-exec")
        })
    };
    numbers.map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_PID: u32 = 77;

    #[track_caller]
    fn check(pid: Option<&str>, count: Option<&str>, expected: Result<Range<i32>, &str>) {
        let found = descriptors(pid.map(Into::into), count.map(Into::into), OWN_PID);
        assert_eq!(found, expected.map_err(str::to_owned), "{pid:?} {count:?}");
    }

    #[test]
    fn sockets_for_this_process_begin_at_the_first_descriptor_that_is_no_standard_stream() {
        check(Some("77"), Some("1"), Ok(3..4));
        check(Some("77"), Some("1024"), Ok(3..1027));
        check(Some("77"), Some("0"), Ok(3..3));
    }

    #[test]
    fn sockets_for_another_process_are_none() {
        check(None, None, Ok(0..0));
        check(None, Some("2"), Ok(0..0));
        check(Some("77"), None, Ok(0..0));
        check(Some("78"), Some("2"), Ok(0..0));
        // Whatever they are: they are not for this process.
        check(Some("78"), Some("a lot"), Ok(0..0));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for bad in ["1000000", "1025", "-1", "", "x", "1 ", "99999999999999999999"] {
            let expected = format!("LISTEN_FDS: expected a number from 0 to 1024, found `{bad}`");
            check(Some("77"), Some(bad), Err(&expected));
        }
        for bad in ["", "x", "-77", "77.0"] {
            let expected = format!("LISTEN_PID: expected the number of a process, found `{bad}`");
            check(Some(bad), Some("1"), Err(&expected));
        }
    }
}
