//! The end of a process with its parent, for processes that `evenkeel up` and agents start.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::failure::Failure;

/// The variable of the environment with the parent's process id.
pub(crate) const VARIABLE: &str = "EVENKEEL_PARENT";

/// Asks the kernel to end this process with its parent, if the environment names one. To be called after the process has
/// become another user: that clears the request (PR_SET_PDEATHSIG of prctl(2)).
pub(crate) fn follow() -> Result<(), Failure> {
    let Some(parent) =
        std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).and_then(Pid::from_raw)
    else {
        return Ok(());
    };
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| Failure::system("end with the parent process", error))?;
    // It may have ended before the request.
    match getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(Failure::other(anyhow::anyhow!("the parent process {parent} ({VARIABLE}) has ended"))),
    }
}
