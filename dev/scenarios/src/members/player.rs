//! A process that plays a part of the agents, and says all the time what they have seen.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::clock;
use end_to_end::process::raise_open_files;

use super::agents::{Part, play};
use super::counts::{COUNTS, TurnCounts};

/// Between two reports of a process.
const REPORT_EVERY: Duration = Duration::from_millis(20);

/// The process, ended with this value.
pub(super) struct Player {
    child: Child,
    counts: Arc<Mutex<[u64; COUNTS]>>,
}

impl Player {
    /// Starts this program once more.
    pub(super) fn begin(part: &Part, file: &Path) -> Result<Player> {
        std::fs::write(file, serde_json::to_vec(part)?)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("agents").arg(file).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("start a process that plays agents")?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let counts: Arc<Mutex<[u64; COUNTS]>> = Arc::default();
        let said = Arc::clone(&counts);
        std::thread::Builder::new().spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(new) = serde_json::from_str(&line) {
                    *said.lock().unwrap_or_else(PoisonError::into_inner) = new;
                }
            }
        })?;
        Ok(Player { child, counts })
    }

    /// In the order of the counts' fields.
    pub(super) fn counts(&self) -> [u64; COUNTS] {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays what a file says, for ever.
pub(crate) fn play_part(file: &Path) -> Result<()> {
    raise_open_files(super::FILES)?;
    let part: Part = serde_json::from_slice(&std::fs::read(file)?).context("a part")?;
    let counts: Arc<TurnCounts> = Arc::default();
    let reported = Arc::clone(&counts);
    std::thread::Builder::new().spawn(move || {
        loop {
            println!("{}", serde_json::json!(reported.all()));
            clock::pass(REPORT_EVERY);
        }
    })?;
    play(&part, &counts)
}
