//! All of the binary: a verb for each job.
//!
//! Nothing is decided here: a verb's flags are parsed and passed to the crate that does the work. A failure is printed
//! once, here, as `evenkeel: <verb>: <what>: <why>` and hints, with an exit status by its kind (`failure`).
//!
//! A library, because a build begins one before the libraries below it are finished, and a binary only afterwards.

use std::ffi::OsString;
use std::process::ExitCode;

mod advise;
mod agent;
mod containers;
mod control;
mod failure;
mod lab;
mod peers;
mod process;
mod route;
mod serve;
mod terminal;
mod top;
mod tune;
mod up;
mod verbs;

/// Carries out the verb of the command line.
pub fn main() -> ExitCode {
    process::sys::look_names_up_without_libraries();
    process::sys::end_by_signals_as_first_process();
    // A process that was started through /proc/self/exe is called `exe` otherwise, which nobody looks for. Without a name
    // it works as well.
    let _ = rustix::thread::set_name(c"evenkeel");
    let typed: Vec<OsString> = verbs::with_verb(std::env::args_os().collect());
    match verbs::run(&typed) {
        Ok(status) => status,
        Err(failure) => {
            let status = failure.report(verbs::name(&typed));
            process::background::tell_failure(failure.status());
            status
        }
    }
}
