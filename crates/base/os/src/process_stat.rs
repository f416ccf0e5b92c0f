//! /proc/PID/stat and /proc/PID/task/TID/stat: one line of fields after a name that may contain any character.

use std::fs;
use std::io;
use std::str::FromStr;

/// Fields by their number in proc_pid_stat(5).
pub mod field {
    /// `R`, `S`, `Z` and others.
    pub const STATE: usize = 3;
    /// Its parent process.
    pub const PARENT: usize = 4;
    /// Its process group.
    pub const GROUP: usize = 5;
    /// Its session.
    pub const SESSION: usize = 6;
    /// `PF_*` of the kernel's linux/sched.h.
    pub const FLAGS: usize = 9;
    /// Page faults that needed no disk.
    pub const MINOR_FAULTS: usize = 10;
    /// Page faults that needed one.
    pub const MAJOR_FAULTS: usize = 12;
    /// User time, in ticks.
    pub const USER_TIME: usize = 14;
    /// System time, in ticks.
    pub const SYSTEM_TIME: usize = 15;
    /// User time of children that have ended and were waited for, in ticks.
    pub const CHILDREN_USER_TIME: usize = 16;
    /// System time of children that have ended and were waited for, in ticks.
    pub const CHILDREN_SYSTEM_TIME: usize = 17;
    /// From -20 to 19.
    pub const NICE: usize = 19;
    /// When it was started, in ticks since boot.
    pub const STARTED: usize = 22;
    /// Size of its address space, in bytes.
    pub const VIRTUAL_BYTES: usize = 23;
    /// Pages in memory.
    pub const RESIDENT_PAGES: usize = 24;
    /// The CPU on which it ran last.
    pub const CPU: usize = 39;
    /// From 1 to 99 with a real-time policy; else 0.
    pub const RT_PRIORITY: usize = 40;
    /// As in sched(7).
    pub const POLICY: usize = 41;
}

/// One parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat<'t> {
    name: &'t str,
    /// The fields from number 3 on.
    fields: &'t str,
}

impl<'t> ProcessStat<'t> {
    /// Reads a line. The name may have spaces and parentheses, but ends with the last one.
    pub fn parse(text: &'t str) -> Option<ProcessStat<'t>> {
        let (head, fields) = text.rsplit_once(')')?;
        Some(ProcessStat { name: head.split_once('(')?.1, fields })
    }

    /// The name of the process.
    pub fn name(&self) -> &'t str {
        self.name
    }

    /// A field by its [number](field); `None` if there are fewer, or it does not parse.
    pub fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        self.fields.split_ascii_whitespace().nth(number.checked_sub(field::STATE)?)?.parse().ok()
    }

    /// Whether it has not ended; a zombie has ended.
    pub fn lives(&self) -> bool {
        self.field::<char>(field::STATE).is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    /// CPU time of it and its threads, in ticks.
    pub fn ticks(&self) -> Option<u64> {
        Some(self.field::<u64>(field::USER_TIME)? + self.field::<u64>(field::SYSTEM_TIME)?)
    }

    /// CPU time of its children that have ended and were waited for, in ticks.
    pub fn children_ticks(&self) -> Option<u64> {
        let user: u64 = self.field(field::CHILDREN_USER_TIME)?;
        Some(user + self.field::<u64>(field::CHILDREN_SYSTEM_TIME)?)
    }
}

/// The line of a process or of a thread. A name need not be UTF-8.
pub fn read(id: u32) -> io::Result<String> {
    fs::read(format!("/proc/{id}/stat")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let text = format!("7 (a) b (c) {}", fields.join(" ").replacen('3', "T", 1));
        let stat = ProcessStat::parse(&text).expect("a name and fields");
        assert_eq!((stat.name(), stat.field(field::STATE)), ("a) b (c", Some('T')));
        assert_eq!((stat.field(field::POLICY), stat.field(field::RT_PRIORITY)), (Some(41), Some(40)));
        assert_eq!((stat.ticks(), stat.children_ticks()), (Some(29), Some(33)));
    }

    #[test]
    fn missing_fields_are_none() {
        let short = ProcessStat::parse("7 (short) S 1").expect("a name");
        assert_eq!((short.field::<u32>(field::POLICY), short.ticks()), (None, None));
        assert_eq!(short.field::<u32>(field::STATE), None, "it is no number");
        assert_eq!((ProcessStat::parse(""), ProcessStat::parse("nonsense")), (None, None));
    }

    #[test]
    fn a_zombie_does_not_live() {
        for (state, lives) in [("R", true), ("S", true), ("Z", false), ("X", false)] {
            let text = format!("7 (x) {state} 1");
            assert_eq!(ProcessStat::parse(&text).expect("a name").lives(), lives, "{state}");
        }
        let own = read(std::process::id()).expect("own process");
        assert!(ProcessStat::parse(&own).expect("a name").lives());
    }
}
