//! Deadlines of plans that are not confirmed: they are undone even if the process that applied them is gone.
//!
//! With systemd, a systemd timer does it, which survives the end of processes and sessions; otherwise a separate
//! process. If that one is killed, the next job does it (`state.rs`).

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use os::clock::{pause, since_boot_ms};
use os::command::succeeds_within;
use os::signals::unblock_in;
use tuner::Root;
use tuner::apply::journal::{Journal, PlanState};
use tuner::apply::rollback::is_overdue;

use crate::error::Error;
use crate::state::{LOCK_TIME_MAX, StateDirectory};

/// The longest sleep of the process: it detects a confirmation that late, which does no harm.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The shortest wait before it checks again, also after a failure to undo.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The longest wait after failures to undo.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// How long systemd may take to set a timer. If it hangs, a separate process does the same, and the lock is not held
/// for long.
const TIMER_TIME_MAX: Duration = Duration::from_secs(10);

/// Starts a process that calls [`undo_at_deadline`]. To be called before the first change, so that a plan that cuts the
/// connection to this process is undone, too.
pub(crate) fn watch_over(
    root: &Root,
    given: &Path,
    journal: &Journal,
    state: &StateDirectory,
    within: Duration,
) -> Result<(), Error> {
    let failed = |error: io::Error| Error::system("start the process that would undo it", error);
    let absolute = |path: &Path| std::path::absolute(path).map_err(failed);
    let program = std::env::current_exe().map_err(failed)?;
    let mut words =
        vec!["tune".into(), "watch-over".into(), "--root".into(), absolute(given)?.into_os_string()];
    words.extend(["--state".into(), absolute(&state.path)?.into_os_string()]);
    words.push(absolute(journal.path())?.into_os_string());
    // systemd would expand these characters.
    let is_plain = |word: &OsString| !word.as_encoded_bytes().iter().any(|byte| b"$%".contains(byte));
    if is_systemds_host(root) && program.is_file() && words.iter().all(is_plain) {
        let mut timer = Command::new("systemd-run");
        timer.arg("--quiet").arg("--collect").arg(format!("--on-active={}s", within.as_secs()));
        timer.arg("--timer-property=AccuracySec=100ms");
        timer.arg("--description=Undo a plan of evenkeel tune unless it is confirmed");
        timer.arg("--").arg(&program).args(&words);
        if succeeds_within(in_silence(&mut timer), TIMER_TIME_MAX) {
            return Ok(());
        }
    }
    // The same program, even if another one has replaced its file meanwhile.
    let program = if root.is_live() { "/proc/self/exe".into() } else { program };
    in_silence(Command::new(program).args(&words)).spawn().map_err(failed)?;
    Ok(())
}

/// Without a terminal, and with the default handling of signals.
fn in_silence(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    unblock_in(command);
    command
}

/// Whether processes of systemd are in the same namespaces as this one: false in a container or a network namespace.
fn is_systemds_host(root: &Root) -> bool {
    let is_shared = |namespace: &str| {
        let here = root.link(&format!("/proc/self/ns/{namespace}"));
        here.is_some() && here == root.link(&format!("/proc/1/ns/{namespace}"))
    };
    // sd_booted(3)
    root.is_live() && Path::new("/run/systemd/system").is_dir() && is_shared("net") && is_shared("mnt")
}

/// Waits until a plan is confirmed or undone; undoes it at its deadline. Needs only the journal.
pub fn undo_at_deadline(root: &Root, state: &StateDirectory, journal: &Path) -> Result<(), Error> {
    // Survive the end of the user's session and terminal. The call fails for the leader of a process group, which needs
    // no new session.
    let _ = rustix::process::setsid();
    let (mut again, mut deadline) = (LOOK_AGAIN, None);
    loop {
        match Journal::open(journal) {
            Ok(Some(journal)) => match (journal.confirm_by_ms().or(deadline), journal.state()) {
                (Some(end), PlanState::Applied | PlanState::Unfinished) => deadline = Some(end),
                _ => return Ok(()),
            },
            Ok(None) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            // It was readable before and may be so again; at the deadline, another job may find it readable, too.
            Err(_) if deadline.is_some() => {}
            Err(error) => return Err(Error::other(error)),
        }
        let Some(end) = deadline else { unreachable!("it is known, or has returned") };
        let left = Duration::from_millis(end.saturating_sub(since_boot_ms()));
        // Under the lock no process can confirm it any more, and entering undoes overdue plans.
        if left.is_zero() {
            match state.enter_for_deadlines(root, LOCK_TIME_MAX) {
                Err(error) if error.signal().is_some() => return Err(error),
                Err(_) => {}
                Ok(entered) => {
                    let is_left =
                        |found: &Journal| found.path() == journal && is_overdue(found, &entered.here, end);
                    if entered.journals.all().is_ok_and(|all| !all.iter().any(is_left)) {
                        return Ok(());
                    }
                    // A driver that is being reset, for example, accepts settings again soon.
                    again = (2 * again).min(LOOK_AGAIN_MAX);
                }
            }
        }
        pause(left.clamp(again, LOOK_EVERY.max(again)));
    }
}
