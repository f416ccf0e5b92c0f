//! One server or router that gets another program, and the proof that it has it and has lost nothing.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use fleet::figures::MemberTally;
use fleet::tuning::AnswerDigest;
use os::clock::{Stopwatch, pause};

use super::connects::{Connecting, Connects};
use super::processes::{self, Process, STARTED_BY};
use super::program::{KnownDigests, shown};
use super::reload::{Ran, run};
use crate::agent::server_stats::tally_in;
use crate::agent::settings::{UpgradedKind, UpgradedMember};
use crate::agent::tuning::program::check_way;
use crate::wire::converse;

/// Interval of looks at the process.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time for an answer to `stats` and `version`.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Bytes of an answer: `stats` has some 5 KB.
const ANSWER_LEN_MAX: usize = 64 * 1024;
/// Items that must be there afterwards, in percent of those before: clients delete, and times run out meanwhile.
const ITEMS_PERCENT_MIN: u64 = 99;

/// What a server or router shall have.
pub(super) struct Wanted<'a> {
    pub(super) digest: &'a AnswerDigest,
    pub(super) within: Duration,
    /// The link, by which what a reload has started is known.
    pub(super) link: &'a Path,
    /// It fails if a connect was refused, or items are lost. On the way back it is enough to be there.
    pub(super) is_strict: bool,
}

/// What has come of it.
#[derive(Debug)]
pub(super) enum Proof {
    /// It had the program already.
    HasIt,
    /// It has it now.
    Taken(TakenFigures),
}

/// Figures of one that was replaced.
#[derive(Debug)]
pub(super) struct TakenFigures {
    pid: u32,
    passed: Duration,
    connects: Connects,
    items: Option<(u64, u64)>,
}

impl fmt::Display for TakenFigures {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Connects { all, refused, unanswered, longest } = self.connects;
        let (pid, ms, longest) = (self.pid, self.passed.as_millis(), longest.as_millis());
        write!(
            formatter,
            "process {pid} after {ms} ms; of {all} connects {refused} refused, {unanswered} without an answer, the longest wait {longest} ms"
        )?;
        match self.items {
            Some((before, after)) => write!(formatter, "; {after} items after {before}"),
            None => Ok(()),
        }
    }
}

/// Has one server or router take the program of the link, unless it has it.
///
/// # Errors
/// What was not as it has to be.
pub(super) fn take_over(
    member: &UpgradedMember,
    wanted: &Wanted<'_>,
    digests: &mut KnownDigests,
) -> Result<Proof, String> {
    let watch = Stopwatch::start();
    let old = processes::pid(&member.process).and_then(Process::of);
    if has_it(member, wanted, digests).is_ok() {
        return Ok(Proof::HasIt);
    }
    let before = items(member);
    if wanted.is_strict && member.kind == UpgradedKind::Server && before.is_none() {
        return Err("it does not say how many items it has, so that nothing would prove that they are kept"
            .to_owned());
    }
    // A controller may be restarted.
    let is_reached = member.kind != UpgradedKind::Controller;
    let connecting = is_reached.then(|| Connecting::begin(&member.place)).transpose()?;
    let words: Vec<&OsStr> = member.reload.iter().map(OsStr::new).collect();
    let ran = check_reload(member)
        .and_then(|()| run(&words, Some((STARTED_BY, wanted.link.as_os_str())), wanted.within))
        .and_then(Ran::succeeded);
    // On the way back one that has ended may be started by its unit and not by a reload.
    let reloaded = match ran {
        Err(why) if wanted.is_strict => Err(format!("its reload: {why}")),
        ran => wait(member, wanted, digests, old, &watch).map_err(|why| {
            ran.err().map_or(why.clone(), |of_reload| format!("{why}; its reload: {of_reload}"))
        }),
    };
    let after = items(member);
    let connects = connecting.map_or_else(Connects::default, Connecting::taken);
    let pid = reloaded?;
    let figures = TakenFigures { pid, passed: watch.passed(), connects, items: before.zip(after) };
    if wanted.is_strict {
        check(member, &figures)?;
    }
    Ok(Proof::Taken(figures))
}

/// Nobody else could have put the program of a reload there: it runs as the agent does.
///
/// # Errors
/// Who could.
pub(super) fn check_reload(member: &UpgradedMember) -> Result<(), String> {
    let program = member.reload.first().ok_or("expected a command, found none")?;
    check_way(Path::new(program))
}

/// Waits until another process has the program and answers, and the old one has ended.
fn wait(
    member: &UpgradedMember,
    wanted: &Wanted<'_>,
    digests: &mut KnownDigests,
    old: Option<Process>,
    watch: &Stopwatch,
) -> Result<u32, String> {
    let found = || {
        has_it(member, wanted, digests).and_then(|pid| match old {
            Some(old) if old.lives() => Err(format!("the process {} from before has not ended", old.pid)),
            _ => Ok(pid),
        })
    };
    until(found, wanted.within, watch)
        .map_err(|why| format!("{why}, {} s after the reload", wanted.within.as_secs()))
}

/// Waits until one that had the program has it, should it not run or not answer just now.
///
/// # Errors
/// What is not as it was.
pub(super) fn still_has_it(
    member: &UpgradedMember,
    wanted: &Wanted<'_>,
    digests: &mut KnownDigests,
) -> Result<u32, String> {
    until(|| has_it(member, wanted, digests), wanted.within, &Stopwatch::start())
}

/// Looks again until it is found, or the time is over.
fn until(
    mut found: impl FnMut() -> Result<u32, String>,
    within: Duration,
    watch: &Stopwatch,
) -> Result<u32, String> {
    loop {
        match found() {
            Ok(pid) => return Ok(pid),
            Err(why) if watch.passed() > within => return Err(why),
            Err(_) => pause(LOOK_EVERY),
        }
    }
}

/// The process, if it has the program, and it is the one that answers.
fn has_it(member: &UpgradedMember, wanted: &Wanted<'_>, digests: &mut KnownDigests) -> Result<u32, String> {
    let runs = digests.running(member)?;
    if runs.digest != *wanted.digest {
        return Err(format!(
            "process {} runs another program ({}, and {} is expected)",
            runs.pid,
            shown(&runs.digest),
            shown(wanted.digest)
        ));
    }
    if member.kind == UpgradedKind::Controller {
        return is_ready(member).map(|()| runs.pid);
    }
    if member.kind == UpgradedKind::Router {
        let answer =
            converse(&member.place, b"version\r\n", ANSWER_WITHIN, ANSWER_LEN_MAX, |it| it.ends_with(b"\n"));
        return match answer {
            Ok(answer) if answer.starts_with(b"VERSION") => Ok(runs.pid),
            Ok(_) => Err("it does not answer `version`".to_owned()),
            Err(error) => Err(format!("it does not answer: {error}")),
        };
    }
    match tally(member)?.pid {
        Some(pid) if pid == u64::from(runs.pid) => Ok(runs.pid),
        Some(pid) => Err(format!("process {pid} answers, and its file names {}", runs.pid)),
        None => Err("its answer to `stats` has no pid".to_owned()),
    }
}

/// A controller says that it is ready: its register answers.
fn is_ready(member: &UpgradedMember) -> Result<(), String> {
    let request =
        format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", member.place.address);
    let line = |answer: &[u8]| answer.contains(&b'\n');
    let answer = converse(&member.place, request.as_bytes(), ANSWER_WITHIN, ANSWER_LEN_MAX, line)
        .map_err(|error| format!("it does not answer: {error}"))?;
    let text = String::from_utf8_lossy(&answer);
    let first = text.lines().next().unwrap_or_default();
    match first.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("it is not ready: {first}")),
    }
}

/// The processes of a server or router: the one that its file names, and the one that answers.
pub(super) fn serving(member: &UpgradedMember) -> Vec<u32> {
    let is_asked = member.kind != UpgradedKind::Controller;
    let answers =
        is_asked.then(|| tally(member).ok()).flatten().and_then(|tally| u32::try_from(tally.pid?).ok());
    processes::pid(&member.process).into_iter().chain(answers).collect()
}

fn items(member: &UpgradedMember) -> Option<u64> {
    if member.kind == UpgradedKind::Server { tally(member).ok()?.items } else { None }
}

fn tally(member: &UpgradedMember) -> Result<MemberTally, String> {
    let whole = |answer: &[u8]| answer.ends_with(b"END\r\n");
    let answer = converse(&member.place, b"stats\r\n", ANSWER_WITHIN, ANSWER_LEN_MAX, whole);
    answer.map(|answer| tally_in(&answer, 0)).map_err(|error| format!("it does not answer: {error}"))
}

fn check(member: &UpgradedMember, figures: &TakenFigures) -> Result<(), String> {
    let Connects { all, refused, .. } = figures.connects;
    if refused > 0 {
        return Err(format!("{refused} of {all} connects were refused meanwhile"));
    }
    match figures.items {
        Some((before, after)) if after.saturating_mul(100) < before.saturating_mul(ITEMS_PERCENT_MIN) => {
            Err(format!("it has {after} items after {before}; {ITEMS_PERCENT_MIN} % are expected at least"))
        }
        None if member.kind == UpgradedKind::Server => {
            Err("it does not say how many items it has".to_owned())
        }
        _ => Ok(()),
    }
}
