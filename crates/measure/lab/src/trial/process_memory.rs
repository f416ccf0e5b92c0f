//! Memory of processes, as the kernel counts it: /proc/PID/smaps_rollup and status.

use std::{fs, io};

use rustix::io::Errno;

/// Bytes of one process, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessMemory {
    /// Resident; a page that several processes share counts for each of them.
    pub(super) resident: u64,
    /// Resident, where each shared page counts by the number of its processes.
    pub(super) proportional: u64,
    /// Resident and of no file.
    pub(super) anonymous: u64,
    /// The most that has been resident; of several processes the sum, though these need not have been at the same time.
    pub(super) peak: u64,
}

/// The memory of all of them. One that has ended has none; the kernel refuses those of other users, except to root.
pub(super) fn of(pids: &[u32]) -> io::Result<ProcessMemory> {
    let mut sum = ProcessMemory::default();
    for pid in pids {
        match of_one(*pid) {
            Ok(memory) => {
                sum.resident += memory.resident;
                sum.proportional += memory.proportional;
                sum.anonymous += memory.anonymous;
                sum.peak += memory.peak;
            }
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

fn of_one(pid: u32) -> io::Result<ProcessMemory> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let (rollup, status) = (read("smaps_rollup")?, read("status")?);
    Ok(ProcessMemory {
        resident: bytes(&rollup, "Rss:")?,
        proportional: bytes(&rollup, "Pss:")?,
        anonymous: bytes(&rollup, "Anonymous:")?,
        peak: bytes(&status, "VmHWM:")?,
    })
}

/// The kernel's answers about a process that has ended, or is about to.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

fn bytes(text: &str, name: &str) -> io::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes: Option<u64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    let missing = || io::Error::new(io::ErrorKind::InvalidData, format!("/proc has no {name} of a process"));
    kilobytes.map(|kilobytes| kilobytes << 10).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_counted() {
        let own = [std::process::id()];
        let before = of(&own).expect("its own");
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let with = of(&own).expect("its own");
        let grown = with.anonymous - before.anonymous;
        // Other tests of this process may have freed some meanwhile.
        assert!(grown >= 30 << 20, "{grown} bytes");
        assert!(
            with.resident >= with.anonymous
                && with.resident >= with.proportional
                && with.peak >= with.resident
        );
        drop(block);
    }

    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        child.wait().expect("it is ours");
        assert_eq!(of(&[child.id()]).expect("none"), ProcessMemory::default());
    }

    #[test]
    fn what_is_not_there_is_not_zero() {
        assert_eq!(bytes("Rss:   12 kB\nPss:  3 kB\n", "Pss:").expect("it is there"), 3 << 10);
        let error = bytes("Rss:   12 kB\n", "Pss:").expect_err("it is not there").to_string();
        assert_eq!(error, "/proc has no Pss: of a process");
    }
}
