//! `evenkeel serve`: start of a server from a command line, and its orderly shutdown.
//!
//! The order matters. Inherited sockets are taken before the process opens anything that could be mistaken for one;
//! limits are raised and sockets are bound while the process may still be root; it goes to the background before there
//! are threads, which a fork does not copy; memory is locked before there is much of it; and signals are blocked before
//! threads start, so that only one thread receives them.
//!
//! So each stage of the start is a type, and the method that leads to the next one consumes it:
//!
//! ```text
//!  serve/as_root.rs    ParsedCommand ── bind ──► BoundServer ── drop_privileges ──┐    all that root does
//!  serve/as_user.rs    UnprivilegedServer ◄──────────────────────────────────────┘
//!                      UnprivilegedServer ── prepare ──► PreparedServer ── start ──┐   files of the user, the items, threads
//!  serve/running.rs    RunningServer ◄────────────────────────────────────────────┘   until the server ends
//! ```

use server::flags;

use crate::failure::Failure;
use crate::terminal::output::print;
use as_root::ParsedCommand;
pub(crate) use lines::refused;

mod as_root;
mod as_user;
mod companions;
mod devices;
mod lines;
mod port_file;
mod reload;
mod running;
mod serving_process;
mod start_line;

const LICENSE: &str = "\
evenkeel is free software under the Apache License, Version 2.0:
https://www.apache.org/licenses/LICENSE-2.0
";

/// Serves until a signal ends it.
pub(crate) fn run(low: flags::LowArgs) -> Result<(), Failure> {
    if low.license {
        return print(LICENSE.as_bytes());
    }
    let is_check = low.check;
    let parsed = ParsedCommand::of(low)?;
    if is_check {
        return Ok(());
    }
    let bound = parsed.bind()?;
    let prepared = bound.drop_privileges()?.prepare()?;
    prepared.start()?.serve_to_the_end()
}
