//! Standard error of an agent, passed on to ours line by line, so that it can give no orders to a terminal.

use super::super::talk;
use std::io::{self, BufReader, Write};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use stdx::escape;

/// What an agent says there, and what the shell or ssh says that starts it.
pub(super) struct Complaints {
    /// Disconnected when all of it has been passed on.
    ended: Receiver<()>,
}

/// A longer line is passed on in parts.
const LINE_MAX: usize = 8 << 10;

/// A process in the background that ssh leaves behind (ControlPersist) can have standard error open for ever.
const WAIT_MAX: Duration = Duration::from_secs(1);

impl Complaints {
    pub(super) fn pass_on(index: usize, said: ChildStderr) -> io::Result<Complaints> {
        let (sender, ended) = channel();
        thread::Builder::new().name(format!("complaints-{index}")).spawn(move || {
            let _ends_with_this: std::sync::mpsc::Sender<()> = sender;
            let mut said = BufReader::new(said);
            while let Ok(Some(line)) = talk::hear(&mut said, LINE_MAX) {
                let line = escape::lines(line.trim_end_matches(['\r', '\n'])).into_owned() + "\n";
                // Nobody is left to tell if our own standard error is gone.
                let _ = io::stderr().write_all(line.as_bytes());
            }
        })?;
        Ok(Complaints { ended })
    }

    /// The process has ended: waits until its last words are passed on.
    pub(super) fn wait(&self) {
        let _ = self.ended.recv_timeout(WAIT_MAX);
    }
}
