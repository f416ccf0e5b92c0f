//! Processes of servers and routers: which program they run, whether they have ended, and those that a change left behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use fleet::tuning::AnswerDigest;
use os::process_stat::{self, ProcessStat, field};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::agent::settings::ProcessLook;
use crate::service::turn::ProcessReport;

/// Verbs of processes that serve clients: another one of the same program is not ended.
const SERVING: [&[u8]; 2] = [b"serve", b"route"];

/// The variable that a reload has in its environment, with the path of the link.
pub(super) const STARTED_BY: &str = "EVENKEEL_UPGRADE_LINK";

/// A process and its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) pid: u32,
    pub(super) digest: AnswerDigest,
}

/// A process, which no later one with the same number is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    started: u64,
}

/// The process of a server or router.
pub(super) fn pid(look: &ProcessLook) -> Option<u32> {
    match look() {
        ProcessReport::Running { pid } => Some(pid),
        ProcessReport::Restarting { .. } | ProcessReport::Down => None,
    }
}

impl Process {
    /// The process with this number, if it has not ended.
    pub(super) fn of(pid: u32) -> Option<Process> {
        let text = process_stat::read(pid).ok()?;
        let stat = ProcessStat::parse(&text).filter(ProcessStat::lives)?;
        Some(Process { pid, started: stat.field(field::STARTED)? })
    }

    /// Whether it has not ended.
    pub(super) fn lives(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Time since its start.
    pub(super) fn age(self) -> Duration {
        let ticks = ticks_now().saturating_sub(self.started);
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Ends it at once. Whether it was there.
    pub(super) fn end(self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return false };
        // The handle is this process's if it lives still.
        self.lives() && pidfd_send_signal(&handle, Signal::KILL).is_ok()
    }
}

/// Clock ticks since the start of the system, as `/proc/PID/stat` counts them.
pub(super) fn ticks_now() -> u64 {
    let ms = os::clock::since_boot_ms();
    ms * rustix::param::clock_ticks_per_second() / 1000
}

/// Processes of a program that a reload of this link has started since, that serve clients by their command line, and are none of these. Those
/// of a unit are known by its control group, the others by their environment: somebody else may have started a server of his own meanwhile.
pub(super) fn strays(program: &Path, since: u64, link: &Path, serving: &[u32]) -> Vec<Process> {
    let Ok(wanted) = fs::metadata(program) else { return Vec::new() };
    let is_program = |pid: u32| {
        let found = fs::metadata(format!("/proc/{pid}/exe"));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    let groups: Vec<String> = serving.iter().filter_map(|pid| group(*pid)).collect();
    let (variable, own) = (format!("{STARTED_BY}={}", link.display()), group(std::process::id()));
    let is_ours = |pid: u32| {
        let group = group(pid).filter(|group| Some(group) != own.as_ref());
        group.is_some_and(|group| groups.contains(&group))
            || os::processes::has_in_environment(pid, &variable)
    };
    // After a start of the system since then, nothing is left of what the change has started.
    let is_since = |process: &Process| since <= process.started && since <= ticks_now();
    let pids = os::processes::all().into_iter();
    pids.filter(|pid| !serving.contains(pid) && is_program(*pid) && is_ours(*pid))
        .filter(|pid| verb(*pid).is_some_and(|verb| SERVING.contains(&&*verb)))
        .filter_map(Process::of)
        .filter(is_since)
        .collect()
}

/// The control group of a process.
fn group(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

fn verb(pid: u32) -> Option<Vec<u8>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    words.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec)
}
