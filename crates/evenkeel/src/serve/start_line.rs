//! The first line of a server for the operator.

use std::io::{self, ErrorKind};
use std::thread;

use server::Running;
use server::options::Options;
use stdx::words::counted;

use super::serving_process::ServingProcess;
use crate::process::privileges::TargetUser;
use crate::process::uring;
use crate::terminal::log;

/// Tells the operator that the server serves. `more` is the end of the line.
pub(super) fn announce(process: &ServingProcess, addresses: &[String], running: &Running, more: &str) {
    let start = start_line(process.options(), addresses, running, process.identity());
    log::info("serve", format_args!("{start}{more}"));
    if process.options().verbosity > 0
        && let Some(error) = running.slice_refused()
    {
        log::warning("serve", slice_refused(&error));
    }
}

fn start_line(
    options: &Options,
    addresses: &[String],
    running: &Running,
    identity: Option<&TargetUser>,
) -> String {
    let driver = match running.uring_refused() {
        None => running.driver().to_owned(),
        Some(error) => format!("{} ({})", running.driver(), uring::refused(&error)),
    };
    let megabytes = options.memory_limit_bytes / stdx::units::MIB;
    let share = options.memory_share.as_ref().map_or(String::new(), |words| format!(" ({words})"));
    let cpus = thread::available_parallelism().map_or(usize::MAX, usize::from);
    let threads = threads_on(options.threads, cpus);
    let places = if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
    format!(
        "evenkeel {} serves on {places}: {megabytes} MB for items{share}, {threads} driven by {driver}, at most {} connections{}",
        env!("CARGO_PKG_VERSION"),
        options.connection_limit,
        identity.map(TargetUser::said).unwrap_or_default(),
    )
}

/// `4 threads`; with the number of CPUs where threads have to share them, and replies wait for that.
fn threads_on(threads: usize, cpus: usize) -> String {
    match threads > cpus {
        true => format!("{} on {}", counted(threads, "thread"), counted(cpus, "CPU")),
        false => counted(threads, "thread"),
    }
}

/// The effect of the kernel's refusal, in one line.
fn slice_refused(error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::Unsupported => "it needs Linux 6.12 or later".to_owned(),
        _ => format!("{error}; a seccomp profile may forbid sched_setattr"),
    };
    format!("threads have no time slices of their own ({why}): where they share CPUs, replies take longer")
}

#[cfg(test)]
mod tests {
    use super::threads_on;

    #[test]
    fn threads_that_share_cpus_are_told_so() {
        let lines = [(1, 2), (4, 4), (4, 2), (2, 1)].map(|(threads, cpus)| threads_on(threads, cpus));
        assert_eq!(lines, ["1 thread", "4 threads", "4 threads on 2 CPUs", "2 threads on 1 CPU"]);
    }
}
