//! Reasons why io_uring is not in use, and remedies.

use std::io;

use rustix::io::Errno;

/// The kernel's switch for io_uring (Linux 6.6).
const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";

const SYSTEM_CALLS: &str = "allow io_uring_setup, io_uring_enter and io_uring_register there";

/// The kernel's reason and a remedy, in one line.
pub(crate) fn refused(error: &io::Error) -> String {
    explain(error, std::fs::read_to_string(SWITCH).ok().as_deref().map(str::trim))
}

fn explain(error: &io::Error, switch: Option<&str>) -> String {
    let help = match (Errno::from_io_error(error), switch) {
        (Some(Errno::PERM), Some("2")) => {
            "kernel.io_uring_disabled is 2, which forbids it to all; 0 allows it".to_owned()
        }
        (Some(Errno::PERM), Some("1")) => {
            "kernel.io_uring_disabled is 1, which allows it to the group kernel.io_uring_group; 0 allows it to all".into()
        }
        (Some(Errno::PERM | Errno::ACCESS), _) => {
            format!("a seccomp profile forbids it, as those of containers do; {SYSTEM_CALLS}")
        }
        (Some(Errno::NOSYS), _) => {
            format!("the kernel was built without it, or a container's seccomp profile hides it; {SYSTEM_CALLS}")
        }
        (Some(Errno::INVAL), _) => "it needs Linux 5.19 or later".to_owned(),
        (Some(Errno::NOMEM), _) => "the limit on locked memory is too low (`ulimit -l`)".to_owned(),
        _ => return format!("io_uring: {error}"),
    };
    format!("io_uring: {error}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: Errno, switch: Option<&str>, expected: &str) {
        let line = explain(&errno.into(), switch);
        assert!(line.starts_with("io_uring: ") && line.contains(expected) && !line.contains('\n'), "{line}");
    }

    #[test]
    fn every_refusal_has_a_remedy() {
        check(Errno::PERM, Some("2"), "kernel.io_uring_disabled is 2");
        check(Errno::PERM, Some("1"), "kernel.io_uring_group");
        check(Errno::PERM, Some("0"), "seccomp profile forbids it");
        check(Errno::PERM, None, "io_uring_setup");
        check(Errno::NOSYS, None, "hides it");
        check(Errno::INVAL, None, "Linux 5.19");
        check(Errno::NOMEM, None, "ulimit -l");
        check(Errno::MFILE, None, "os error 24");
    }
}
