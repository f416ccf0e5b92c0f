//! A server that answers clients, until a signal, a request or a successor ends it.

use std::time::Duration;

use server::{Running, Stopped};
use stdx::words::counted;
use succession::memory_file::MemoryFile;
use succession::takeover::{OfferedServer, Successors, TakeoverOutcome};

use super::lines::notice;
use super::serving_process::ServingProcess;
use crate::failure::Failure;
use crate::process::pidfile::PidFile;
use crate::terminal::line_queue::{LAST_LINES, LINES};
use crate::terminal::log;

/// Time for the devices of flash to take what waits for them at the end of a server with a memory file: eight write buffers.
const FLASH_REST: Duration = Duration::from_secs(10);

/// A server whose threads run.
pub(super) struct RunningServer {
    process: ServingProcess,
    running: Running,
    successors: Option<Successors>,
    /// What no successor is offered. Its sockets stay bound until the items are left: a server that is started sooner finds its port in
    /// use, not the memory file.
    kept: Option<OfferedServer>,
    memory_file: Option<MemoryFile>,
    pidfile: Option<PidFile>,
    zero_unix_ms: u64,
}

impl RunningServer {
    pub(super) fn new(
        process: ServingProcess,
        running: Running,
        successors: Option<Successors>,
        kept: Option<OfferedServer>,
        memory_file: Option<MemoryFile>,
        pidfile: Option<PidFile>,
        zero_unix_ms: u64,
    ) -> RunningServer {
        RunningServer { process, running, successors, kept, memory_file, pidfile, zero_unix_ms }
    }

    /// Waits until the server has ended, and leaves its items to the next one.
    pub(super) fn serve_to_the_end(self) -> Result<(), Failure> {
        let RunningServer { process, mut running, successors, kept, memory_file, pidfile, zero_unix_ms } =
            self;
        let stopped = loop {
            let stopped = running.wait().map_err(Failure::other);
            match (stopped, &successors) {
                (Ok(stopped), Some(successors)) if stopped.is_handed_over() => {
                    match successors.hand_over(stopped) {
                        TakeoverOutcome::Taken => {
                            log::info("serve", "another process serves from now on");
                            LINES.finish(LAST_LINES);
                            // Without an end of its own: sockets, files and memory are the other one's.
                            std::process::exit(0);
                        }
                        TakeoverOutcome::GoOn(stopped) => {
                            running = stopped.go_on().map_err(Failure::other)?;
                        }
                    }
                }
                (stopped, _) => break stopped,
            }
        };
        // The `shutdown` command comes by no signal.
        process.supervisor().stopping();
        let ended = stopped.and_then(|stopped| match &memory_file {
            Some(file) => leave(file, stopped, zero_unix_ms),
            None => Ok(()),
        });
        if ended.is_ok() && process.options().verbosity > 0 {
            log::info("serve", "stopped");
        }
        LINES.finish(LAST_LINES);
        drop(pidfile);
        drop(kept);
        ended
    }
}

/// Leaves the items of a server that has ended to the next one.
fn leave(file: &MemoryFile, mut stopped: Stopped, zero_unix_ms: u64) -> Result<(), Failure> {
    if !stopped.finish_flash(FLASH_REST) {
        let (seconds, lost) = (FLASH_REST.as_secs(), stopped.give_up_flash());
        notice(&format!(
            "flash has taken no more within {seconds} s: {lost} items that waited to be written are lost"
        ));
    }
    let manifest = stopped.leave().expect("its items are in a file");
    file.leave(manifest, zero_unix_ms)?;
    log::info("serve", format_args!("{} left to the next server", counted(stopped.items() as usize, "item")));
    Ok(())
}
