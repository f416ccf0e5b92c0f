//! Lock holder: the process that has a file locked, as the kernel knows it, with its command and age.
//!
//! The recorded process id alone is not enough: the process that locked a file may have ended and left the lock to a
//! child, and its id may be in use again. So the lock is searched among the files that the process has open.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use os::process_stat::{self, ProcessStat, field};

/// Characters of a command that are shown.
const COMMAND_CHARS_MAX: usize = 60;

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its command: `evenkeel tune apply`.
    pub command: String,
    /// Its age, in seconds.
    pub age_s: u64,
    /// Whether it is stopped, and does not go on by itself.
    pub is_stopped: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { pid, command, age_s, is_stopped } = self;
        write!(f, "PID {pid}: `{command}`, started {age_s} s ago")?;
        if *is_stopped { f.write_str(", stopped") } else { Ok(()) }
    }
}

/// The process that holds the lock of this file (flock(2)); none if that cannot be seen from here, as in another PID
/// namespace.
pub(super) fn holder(file: &File) -> Option<Holder> {
    let metadata = file.metadata().ok()?;
    let inode = metadata.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut pids = locks.lines().filter_map(|line| locker(line, &inode));
    pids.find_map(|pid| has_locked(pid, &inode).then(|| described(pid)).flatten())
}

/// The process in a line of proc_locks(5), if it is about a lock of this inode:
/// `1: FLOCK  ADVISORY  WRITE 812 00:2f:1234 0 EOF`. Without the device, which is another one there than in stat(2) on
/// btrfs and overlayfs.
fn locker(line: &str, inode: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK");
    let is_of_inode = words.clone().nth(4)?.rsplit(':').next() == Some(inode);
    words.nth(3)?.parse().ok().filter(|pid| is_of_inode && *pid > 0)
}

/// Whether one of the files that a process has open is locked by it.
fn has_locked(pid: u32, inode: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    texts.any(|text| {
        text.lines().filter_map(|line| line.strip_prefix("lock:")).any(|line| locker(line, inode).is_some())
    })
}

fn described(pid: u32) -> Option<Holder> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).ok();
    let stat = process_stat::read(pid).ok()?;
    let stat = ProcessStat::parse(&stat)?;
    let started_s = stat.field::<u64>(field::STARTED)? / rustix::param::clock_ticks_per_second();
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime_s: u64 = uptime.split('.').next()?.parse().ok()?;
    Some(Holder {
        pid,
        command: command(&read("cmdline")?),
        age_s: uptime_s.saturating_sub(started_s),
        is_stopped: matches!(stat.field(field::STATE)?, 'T' | 't'),
    })
}

/// The program's name and its verbs, without flags. Always one line, whatever the process calls itself.
fn command(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split('\0').filter(|word| !word.is_empty());
    let program = words.next().unwrap_or("?");
    let program = program.rsplit('/').next().unwrap_or(program);
    let verbs = words.take_while(|word| !word.starts_with('-')).take(2);
    let all: Vec<&str> = [program].into_iter().chain(verbs).collect();
    let shown = |character: char| if character.is_control() { '?' } else { character };
    all.join(" ").chars().map(shown).take(COMMAND_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::shapes::Scratch;

    #[test]
    fn a_command_is_its_program_and_verbs_in_one_line() {
        for (line, expected) in [
            ("/usr/bin/evenkeel\0tune\0apply\0--strategy\0xps\0", "evenkeel tune apply"),
            ("evenkeel\0tune\0", "evenkeel tune"),
            ("evenkeel\0--root\0/x\0", "evenkeel"),
            ("e\nvil\0tu\x1bne\0", "e?vil tu?ne"),
            ("", "?"),
        ] {
            assert_eq!(command(line.as_bytes()), expected);
        }
    }

    #[test]
    fn a_lock_is_known_by_its_kind_and_inode() {
        let line = "1: FLOCK  ADVISORY  WRITE 812 00:2f:1234 0 EOF";
        assert_eq!(locker(line, "1234"), Some(812));
        assert_eq!(locker(line, "234"), None);
        assert_eq!(locker("2: POSIX  ADVISORY  WRITE 812 00:2f:1234 0 EOF", "1234"), None);
        // One that waits for it, and one in another PID namespace.
        assert_eq!(locker("1: -> FLOCK  ADVISORY  WRITE 813 00:2f:1234 0 EOF", "1234"), Some(813));
        assert_eq!(locker("1: FLOCK  ADVISORY  WRITE 0 00:2f:1234 0 EOF", "1234"), None);
    }

    #[test]
    fn a_process_that_does_not_have_the_lock_is_not_named() {
        let scratch = Scratch::new("holder");
        let path = scratch.path().join("lock");
        let (one, other) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        assert_eq!(holder(&other), None);
        one.lock().unwrap();
        let found = holder(&other).unwrap();
        assert_eq!((found.pid, found.is_stopped), (std::process::id(), false));
        let inode = one.metadata().unwrap().ino().to_string();
        assert!(!has_locked(std::os::unix::process::parent_id(), &inode));
    }
}
