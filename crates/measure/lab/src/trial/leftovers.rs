//! Leftovers of a run: its processes that still exist when it is over, or was killed.
//!
//! A mark in the environment identifies them whatever has become of their parents. Some lose it (`sudo`, `env -i`, a
//! server that overwrites its title), so that the process groups of commands are written down, too, and every process
//! that was started by an identified one belongs to them. A daemon can lose all of these: while the run lives, such
//! orphans become its children.

use crate::error::Error;
use crate::trial::halt::Halt;
use os::clock::Stopwatch;
use os::process_stat::{self, ProcessStat, field};
use os::processes;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, test_kill_process_group, waitpid,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable that every process of a run has.
pub(crate) const VARIABLE: &str = "EVENKEEL_LAB_RUN";

/// The time that killed processes may take to be gone: the kernel frees their memory first.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// The identification of a run's processes.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    name: String,
    /// A file with a line for each group.
    groups: PathBuf,
    /// Orphans of the run become children of this process.
    adopts: bool,
}

/// A process group as it began. The number alone is used again when all of it have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    /// Also the process that leads it.
    number: u32,
    session: u32,
    /// When its leader began, in ticks since boot.
    begun: u64,
    boot_id: String,
}

/// Of /proc/PID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    name: String,
    lives: bool,
    parent: u32,
    group: u32,
    session: u32,
    begun: u64,
}

impl Mark {
    pub(crate) fn new(name: &str, groups: PathBuf) -> Mark {
        Mark { name: name.to_owned(), groups, adopts: false }
    }

    /// From now on, whoever is left by its parent becomes a child of this process rather than of init. In between trials
    /// this process must have no other children.
    pub(crate) fn adopt(&mut self) -> Result<(), Error> {
        let failed = |errno: rustix::io::Errno| Error::place("the run", format!("adopt orphans: {errno}"));
        set_child_subreaper(Some(getpid())).map_err(failed)?;
        self.adopts = true;
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes down a group that has just begun, with its leader's number. It is useless after a crash of the host, so
    /// it need not be on the disk.
    pub(crate) fn begins(&self, leader: u32) -> Result<(), Error> {
        let Some(process) = Process::of(leader) else { return Ok(()) };
        let group =
            Group { number: leader, session: process.session, begun: process.begun, boot_id: boot_id() };
        let line = serde_json::to_string(&group).expect("it is plain data") + "\n";
        let file = OpenOptions::new().create(true).append(true).open(&self.groups);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(Error::io("write to", &self.groups))
    }

    /// Forgets a group all of whose members have ended: while others keep running, its number may be given to strangers.
    pub(crate) fn ends(&self, leader: u32) -> Result<(), Error> {
        let draft = self.groups.with_extension("groups-draft");
        let others = groups(&self.groups).into_iter().filter(|group| group.number != leader);
        let line = |group| serde_json::to_string(&group).expect("it is plain data") + "\n";
        let written = std::fs::write(&draft, others.map(line).collect::<String>());
        written.and_then(|()| std::fs::rename(&draft, &self.groups)).map_err(Error::io("write", &self.groups))
    }

    /// Ends every process that is left, and forgets the groups.
    pub(crate) fn end(&self) -> Result<(), Error> {
        let (clock, patience) = (Stopwatch::start(), Halt::default());
        // A process found once is looked for until it is gone, even if all that identified it has gone before.
        let mut known = Known::new();
        loop {
            let left = self.left(&mut known);
            if self.adopts {
                reap(&known);
            }
            if left.is_empty() {
                break;
            }
            if clock.passed() >= END_TIME_MAX {
                let left: Vec<String> =
                    left.iter().map(|process| format!("{} ({})", process.pid, process.name)).collect();
                return Err(Error::NotRestored(format!(
                    "of run {}, process {} still lives",
                    self.name,
                    left.join(", ")
                )));
            }
            left.iter().for_each(|process| kill(process.pid));
            // A killed process is still there for a moment, and may have started another before.
            let _ = patience.pause(Duration::from_millis(5));
        }
        match std::fs::remove_file(&self.groups) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &self.groups)(error))
            }
            _ => Ok(()),
        }
    }

    fn left(&self, known: &mut Known) -> Vec<Process> {
        let (all, boot_id) = (Process::all(), boot_id());
        let groups: Vec<Group> =
            groups(&self.groups).into_iter().filter(|it| it.boot_id == boot_id).collect();
        let variable = format!("{VARIABLE}={}", self.name);
        let own = std::process::id();
        let is_root = |process: &&Process| {
            process.pid != own
                && (self.adopts && process.parent == own
                    || known.get(&process.pid) == Some(&process.begun)
                    || groups.iter().any(|group| group.has(process, &all))
                    || processes::has_in_environment(process.pid, &variable))
        };
        let mut found: Known = all.iter().filter(is_root).map(|it| (it.pid, it.begun)).collect();
        loop {
            let is_new = |it: &&Process| {
                it.pid != own && found.contains_key(&it.parent) && !found.contains_key(&it.pid)
            };
            let new: Known = all.iter().filter(is_new).map(|it| (it.pid, it.begun)).collect();
            if new.is_empty() {
                break;
            }
            found.extend(new);
        }
        let left = all.into_iter().filter(|it| it.lives && found.contains_key(&it.pid)).collect();
        *known = found;
        left
    }
}

impl Group {
    /// While its leader exists, the leader's start time shows whether it is still this group. When it has gone, only
    /// members of this group can have the number, as long as there are any.
    fn has(&self, process: &Process, all: &[Process]) -> bool {
        process.group == self.number
            && match all.iter().find(|leader| leader.pid == self.number) {
                Some(leader) => leader.begun == self.begun,
                None => process.session == self.session && process.begun >= self.begun,
            }
    }
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        Process::parse(pid, &process_stat::read(pid).ok()?)
    }

    fn parse(pid: u32, text: &str) -> Option<Process> {
        let stat = ProcessStat::parse(text)?;
        Some(Process {
            pid,
            name: stat.name().to_owned(),
            lives: stat.lives(),
            parent: stat.field(field::PARENT)?,
            group: stat.field(field::GROUP)?,
            session: stat.field(field::SESSION)?,
            begun: stat.field(field::STARTED)?,
        })
    }

    fn all() -> Vec<Process> {
        processes::all().into_iter().filter_map(Process::of).collect()
    }
}

/// Processes by their number, and when each began: the number may be given to another.
pub(crate) type Known = BTreeMap<u32, u64>;

/// A process and all that it has started, as long as it exists.
pub(crate) fn family(head: u32) -> Known {
    let processes = processes::with_descendants(head).into_iter();
    processes.filter_map(|pid| Some((pid, Process::of(pid)?.begun))).collect()
}

/// Ends the remaining ones. Those that are still there then are found again when the run is over.
pub(crate) fn end(family: &Known) {
    let is_left = |(pid, begun): &(u32, u64)| {
        Process::of(*pid).is_some_and(|process| process.lives && process.begun == *begun)
    };
    let (clock, patience) = (Stopwatch::start(), Halt::default());
    let mut left: Vec<(u32, u64)> = family.iter().map(|(pid, begun)| (*pid, *begun)).collect();
    loop {
        left.retain(is_left);
        if left.is_empty() || clock.passed() >= END_TIME_MAX {
            return;
        }
        left.iter().for_each(|(pid, _)| kill(*pid));
        let _ = patience.pause(Duration::from_millis(5));
    }
}

/// Takes leave of children that have ended: otherwise they stay as zombies until this process ends.
fn reap(known: &Known) {
    for pid in known.keys() {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        // Most are no children of this process.
        let _ = waitpid(pid, WaitOptions::NOHANG);
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether a member of a group is alive.
pub(crate) fn has_members(group: Pid) -> bool {
    // Zombies that are not reaped yet count there.
    test_kill_process_group(group) != Err(rustix::io::Errno::SRCH)
        && Process::all().iter().any(|it| it.lives && i64::from(it.group) == i64::from(group.as_raw_pid()))
}

/// A line that is cut off is of a command that was not started to its end.
fn groups(path: &Path) -> Vec<Group> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::trial::process::{NO_ENV, ShellCommand};

    #[test]
    fn a_number_that_was_given_to_another_group_is_none_of_ours() {
        let group = Group { number: 7, session: 3, begun: 100, boot_id: String::new() };
        let process = |pid, session, begun| Process {
            pid,
            name: String::new(),
            lives: true,
            parent: 1,
            group: 7,
            session,
            begun,
        };
        let check = |all: &[Process], expected: bool| {
            assert_eq!(all.iter().any(|process| group.has(process, all)), expected, "{all:?}");
        };
        check(&[process(7, 3, 100)], true);
        check(&[process(7, 3, 101), process(8, 3, 102)], false);
        check(&[process(8, 3, 102)], true);
        check(&[process(8, 4, 102)], false);
    }

    /// A command that starts a process, which writes its number to `pid`, and ends or not; its group is ended before, as
    /// after a trial, or was not, as after a kill: no process is left.
    #[track_caller]
    fn check(name: &str, text: &str, ends_first: bool) {
        let scratch = Scratch::new(name);
        let mark = Mark::new(&format!("{name}-{}", std::process::id()), scratch.path().join("groups"));
        let halt = Halt::default();
        let pid = scratch.path().join("pid");
        let text = text.replace("PID", &pid.display().to_string());
        let line = ShellCommand {
            text: &text,
            place: "x",
            env: &NO_ENV,
            mark: &mark,
            log: scratch.path().join("log"),
            output: None,
            placement: None,
        };
        let mut group = line.start().expect("a shell");
        let clock = Stopwatch::start();
        let number = loop {
            // It is written in one piece.
            let text = std::fs::read_to_string(&pid).unwrap_or_default();
            if let Ok(number) = text.trim().parse::<u32>() {
                break number;
            }
            assert!(clock.passed() < Duration::from_secs(60), "{text:?}");
            let _ = group.wait(&halt, Duration::from_millis(5)).expect("it can be asked");
        };
        if ends_first {
            drop(group);
        }
        mark.end().expect("no process is left");
        let process = Process::of(number);
        assert!(process.as_ref().is_none_or(|it| !it.lives), "{process:?}");
        assert!(!scratch.path().join("groups").exists());
    }

    #[test]
    fn a_group_that_has_ended_is_forgotten_and_the_others_are_not() {
        let scratch = Scratch::new("left-forgotten");
        let mark = Mark::new("left-forgotten", scratch.path().join("groups"));
        let line = ShellCommand {
            text: "exec sleep 1000",
            place: "x",
            env: &NO_ENV,
            mark: &mark,
            log: scratch.path().join("log"),
            output: None,
            placement: None,
        };
        let [ended, lives] = [(); 2].map(|()| line.start().expect("a shell"));
        let pids = [ended.pid(), lives.pid()];
        drop(ended);
        mark.ends(pids[0]).expect("it is written");
        let left: Vec<u32> = groups(&mark.groups).into_iter().map(|group| group.number).collect();
        assert_eq!(left, pids[1..]);
    }

    #[test]
    fn whoever_a_run_has_started_is_found() {
        for ends_first in [false, true] {
            check("left-marked", "exec setsid sh -c 'echo $$ > PID; exec sleep 1000'", ends_first);
            check("left-leader", "exec env -i sh -c 'echo $$ > PID; exec sleep 1000'", ends_first);
            check("left-orphan", "env -i sh -c 'echo $$ > PID; exec sleep 1000' & exit 0", ends_first);
            check("left-child", "env -i setsid sh -c 'echo $$ > PID; exec sleep 1000'; true", ends_first);
        }
    }
}
