//! Placement of a subject: its CPUs, and the scheduler's policy.
//!
//! Both are inherited: a thread sets its own placement, starts the subject and ends. Nothing of the host is changed,
//! so nothing has to be undone.

use crate::error::Error;
use crate::experiment::Level;
use os::CpuSet;
use rustix::io::Errno;
use rustix::thread::{CpuSet as Mask, gettid, sched_getaffinity, sched_setaffinity};
use std::process::{Child, Command};
use tuner::apply::host::{FileHost, HostAccess};
use tuner::{Root, Setting};

/// The placement of a subject; fields that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// `policy=1 priority=1`, and the key that sets it.
    scheduling: Option<(String, String)>,
    /// CPUs, and the key that sets them.
    cpus: Option<(CpuSet, String)>,
}

/// sched(7), by name: the number of the policy, and the meaning of the number behind the colon.
const POLICIES: [(&str, u32, &str); 5] = [
    ("other", 0, "nice"),
    ("fifo", 1, "priority"),
    ("rr", 2, "priority"),
    ("batch", 3, "nice"),
    ("idle", 5, "nice"),
];

impl Placement {
    /// The placement of these levels; each comes with the name of its place. The last one that sets a field counts.
    /// Where none has CPUs, those of all subjects do.
    pub(crate) fn of<'e>(
        all: Option<&str>,
        levels: impl Iterator<Item = (String, &'e Level)>,
    ) -> Result<Placement, Error> {
        let mut placement = Placement::default();
        if let Some(text) = all {
            let place = "workload.subject_cpus".to_owned();
            placement.cpus = Some((cpus(text, &place)?, place));
        }
        for (place, level) in levels {
            if let Some(text) = &level.scheduler {
                let place = format!("{place}: scheduler");
                let scheduling = scheduling(text).ok_or_else(|| {
                    let what = format!(
                        "{text:?} is none of other:NICE, batch:NICE, idle, fifo:PRIORITY, rr:PRIORITY"
                    );
                    Error::place(&place, what)
                })?;
                placement.scheduling = Some((scheduling, place));
            }
            if let Some(text) = &level.cpus {
                let place = format!("{place}: cpus");
                placement.cpus = Some((cpus(text, &place)?, place));
            }
        }
        Ok(placement)
    }

    /// Starts a command with this placement.
    pub(crate) fn spawn(&self, mut command: Command, place: &str) -> Result<Child, Error> {
        let start = || {
            self.take()?;
            command.spawn().map_err(|error| Error::place(place, format!("start a shell: {error}")))
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("place".into()).spawn_scoped(scope, start);
            let thread = thread.map_err(|error| Error::place(place, format!("start a thread: {error}")))?;
            thread.join().expect("starting does not panic")
        })
    }

    /// Places this thread, and checks that it is in force.
    fn take(&self) -> Result<(), Error> {
        if let Some((cpus, place)) = &self.cpus {
            let mut mask = Mask::new();
            cpus.iter().for_each(|cpu| mask.set(cpu as usize));
            let failed = |error| {
                let why = match error {
                    Errno::INVAL => "none of them may be used here".to_owned(),
                    other => other.to_string(),
                };
                Error::place(place, format!("run on CPUs {cpus}: {why}"))
            };
            sched_setaffinity(None, &mask).map_err(failed)?;
            if sched_getaffinity(None).map_err(failed)? != mask {
                return Err(Error::place(
                    place,
                    format!("run on CPUs {cpus}: not all of them may be used here"),
                ));
            }
        }
        if let Some((wanted, place)) = &self.scheduling {
            let (setting, mut host) = (
                Setting::Thread { tid: gettid().as_raw_nonzero().get() as u32 },
                FileHost::new(Root::new("/")),
            );
            let failed =
                |error: std::io::Error| Error::place(place, format!("schedule it with {wanted}: {error}"));
            host.write(&setting, wanted).map_err(failed)?;
            let found = host.read(&setting).map_err(failed)?;
            if !setting.same(&found, wanted) {
                return Err(Error::place(place, format!("schedule it with {wanted}: it reads {found}")));
            }
        }
        Ok(())
    }
}

fn cpus(text: &str, place: &str) -> Result<CpuSet, Error> {
    let cpus = CpuSet::parse_list(text).map_err(|error| Error::place(place, error))?;
    if cpus.is_empty() || cpus.iter().any(|cpu| cpu as usize >= Mask::MAX_CPU) {
        return Err(Error::place(place, format!("{text:?} is no list of CPUs such as 0,2-3")));
    }
    Ok(cpus)
}

/// `fifo:1` as tuner writes it.
fn scheduling(text: &str) -> Option<String> {
    let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
    let (_, policy, meaning) = POLICIES.iter().find(|(known, ..)| *known == name)?;
    let number: i32 = number.map_or(Some(0), |number| number.parse().ok())?;
    let allowed = if *meaning == "priority" { 1..=99 } else { -20..=19 };
    // A real-time policy needs a priority; for a thread that is shared fairly, it is 0.
    let priority = if *meaning == "nice" { " priority=0" } else { "" };
    allowed.contains(&number).then(|| format!("policy={policy}{priority} {meaning}={number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(scheduling(text).as_deref(), expected, "{text}");
    }

    #[test]
    fn policies_have_their_numbers() {
        check("fifo:1", Some("policy=1 priority=1"));
        check("rr:99", Some("policy=2 priority=99"));
        check("other:-5", Some("policy=0 priority=0 nice=-5"));
        check("batch", Some("policy=3 priority=0 nice=0"));
        for wrong in ["fifo", "fifo:0", "fifo:100", "other:20", "deadline", "", "fifo:", "fifo:x"] {
            check(wrong, None);
        }
    }

    fn placement(level: &Level) -> Result<Placement, Error> {
        Placement::of(None, std::iter::once(("factor \"f\": level \"l\"".to_owned(), level)))
    }

    #[test]
    fn a_command_runs_where_and_how_it_is_told_and_nobody_else_does() {
        // The first CPU that this process may use: a test runs in a container, too.
        let own = sched_getaffinity(None).expect("own CPUs");
        let cpu = (0..Mask::MAX_CPU).find(|cpu| own.is_set(*cpu)).expect("one at least");
        let level =
            Level { scheduler: Some("batch:3".into()), cpus: Some(cpu.to_string()), ..Level::default() };
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status; cut -d' ' -f19,41 /proc/self/stat"]);
        command.stdout(std::process::Stdio::piped());
        let child = placement(&level).expect("a placement").spawn(command, "x").expect("a shell");
        let output = String::from_utf8(child.wait_with_output().expect("its output").stdout).expect("text");
        assert_eq!(output, format!("Cpus_allowed_list:\t{cpu}\n3 3\n"));
        assert_eq!(sched_getaffinity(None).expect("own CPUs"), own);
    }

    #[test]
    fn what_cannot_be_is_said_with_its_place() {
        let error = |level: Level| {
            let placed = placement(&level).and_then(|placement| placement.take());
            placed.expect_err("it cannot be").to_string()
        };
        let wrong = error(Level { scheduler: Some("fifo".into()), ..Level::default() });
        assert!(
            wrong.starts_with(
                "carry out factor \"f\": level \"l\": scheduler: \"fifo\" is none of other:NICE"
            ),
            "{wrong}"
        );
        let wrong = error(Level { cpus: Some("1023".into()), ..Level::default() });
        assert!(
            wrong.starts_with(
                "carry out factor \"f\": level \"l\": cpus: run on CPUs 1023: none of them may be used here"
            ),
            "{wrong}"
        );
    }
}
