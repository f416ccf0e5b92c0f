//! The CPU time of a server on the coordinator's machine, while others load it.

use crate::types::clock::now_ns;
use crate::types::description::server_processes::ServerProcesses;
use crate::types::error::Error;
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Reads it at both ends of the window. Dropping it ends that.
pub(super) struct Meter {
    ended: Option<Sender<()>>,
    thread: JoinHandle<Result<u64, Error>>,
}

impl Meter {
    pub(super) fn start(server: ServerProcesses, window_ns: Range<u64>) -> Result<Meter, Error> {
        let (ended, all_ended) = channel::<()>();
        let thread = thread::Builder::new().name(String::from("meter")).spawn(move || {
            let wait = |until_ns: u64| {
                // The channel lasts until then, or until the load has ended: no message comes.
                let _ = all_ended.recv_timeout(Duration::from_nanos(until_ns.saturating_sub(now_ns())));
            };
            wait(window_ns.start);
            let before_ns = server.cpu_ns()?;
            wait(window_ns.end);
            Ok(server.cpu_ns()?.saturating_sub(before_ns))
        })?;
        Ok(Meter { ended: Some(ended), thread })
    }

    /// The window has closed.
    pub(super) fn end(&mut self) {
        self.ended = None;
    }

    /// CPU time that the server used in the window, in nanoseconds; the load has ended.
    pub(super) fn stop(mut self) -> Result<u64, Error> {
        self.end();
        self.thread.join().map_err(|_| Error::Panic)?
    }
}
