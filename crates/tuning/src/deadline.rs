//! Deadlines of plans that nobody confirms: who undoes them then, whatever becomes of the process that has applied it.
//!
//! Where systemd runs, a timer of its: nothing that ends processes or sessions ends that. Elsewhere a process of its own. If
//! that one is killed, the next job does it (`state.rs`).

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

/// How long the process sleeps at most: it notices a confirmation that late, which nobody waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long it waits at least before it looks again: also while it cannot do what it should.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// And at most, while something cannot be undone.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);

/// systemd has so long to set a timer; if it hangs, a process of our own does as well, and nobody waits for the lock.
const TIMER_TIME_MAX: Duration = Duration::from_secs(10);

/// Has the plan undone at its deadline by a process that calls [`undo_at_deadline`]. To be called before the first change,
/// so that a plan that cuts this process off is undone, too.
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
    // systemd would put something else in the place of these.
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
    // The same program, also if another one has been installed under its name meanwhile.
    let program = if root.is_live() { "/proc/self/exe".into() } else { program };
    in_silence(Command::new(program).args(&words)).spawn().map_err(failed)?;
    Ok(())
}

/// Without a terminal, and with the signals that this process has blocked.
fn in_silence(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    unblock_in(command);
    command
}

/// Whether what systemd starts sees the host as this process does: not so in a container or a network namespace.
fn is_systemds_host(root: &Root) -> bool {
    let is_shared = |namespace: &str| {
        let here = root.link(&format!("/proc/self/ns/{namespace}"));
        here.is_some() && here == root.link(&format!("/proc/1/ns/{namespace}"))
    };
    // sd_booted(3)
    root.is_live() && Path::new("/run/systemd/system").is_dir() && is_shared("net") && is_shared("mnt")
}

/// Waits until a plan is confirmed or undone; undoes it when its time is over. Knows nothing but the journal.
pub fn undo_at_deadline(root: &Root, state: &StateDirectory, journal: &Path) -> Result<(), Error> {
    // Whoever started this may go, and the terminal with them. Who leads a group of processes already needs no other one.
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
            // It was read before, so it may be again: also by whoever enters at the deadline.
            Err(_) if deadline.is_some() => {}
            Err(error) => return Err(Error::other(error)),
        }
        let Some(end) = deadline else { unreachable!("it is known, or has returned") };
        let left = Duration::from_millis(end.saturating_sub(since_boot_ms()));
        // Under the lock nobody confirms it any more, and who enters undoes what is overdue.
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
                    // A driver that is being reset, for instance, takes its settings again soon.
                    again = (2 * again).min(LOOK_AGAIN_MAX);
                }
            }
        }
        pause(left.clamp(again, LOOK_EVERY.max(again)));
    }
}
