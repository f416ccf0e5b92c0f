//! Changes of the configuration while the router runs: its files are looked at every second.
//!
//! A configuration that cannot be used changes nothing: the one in force stays, and a line says why.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use net::Nudge;
use router::{RoutePlan, RouterShared};

use super::configuration::{Configuration, Watched};
use super::lines::{counted, notice};

/// Interval at which files are looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Reload {
    pub(super) configuration: Configuration,
    pub(super) shared: Arc<RouterShared>,
    pub(super) nudge: Nudge,
    pub(super) workers: usize,
    /// The most servers for which the router has connections.
    pub(super) servers_max: usize,
    /// Whether files are looked at; without, only SIGHUP counts.
    pub(super) is_watching: bool,
    /// Time between a change and its use: who writes several files has time to finish.
    pub(super) delay_ms: u64,
}

impl Reload {
    /// Runs as long as `hurry` has a sender, each of whose messages is a request to read the files now.
    pub(super) fn run(self, mut files: Watched, hurry: &Receiver<()>) {
        for generation in 2.. {
            if !self.wait_for_change(&files, hurry) {
                return;
            }
            let mut attempt = self.configuration.load(generation);
            let plan = attempt.take_plan();
            self.shared.note_config(|loads| loads.note(os::clock::unix_s(), plan.is_ok()));
            match plan {
                Ok(plan) => self.put_in_force(plan),
                Err(failure) => notice(&format!("the configuration stays as it was: {failure}")),
            }
            files = attempt.files;
        }
    }

    /// Whether there is a change; `false` for the end.
    fn wait_for_change(&self, files: &Watched, hurry: &Receiver<()>) -> bool {
        loop {
            match hurry.recv_timeout(LOOK) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) if self.is_watching && files.has_changed() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let waited = hurry.recv_timeout(Duration::from_millis(self.delay_ms));
        !matches!(waited, Err(RecvTimeoutError::Disconnected))
    }

    fn put_in_force(&self, plan: RoutePlan) {
        let count = plan.servers.len();
        if count > self.servers_max {
            return notice(&format!(
                "the configuration stays as it was: expected at most {} servers, found {count}; start the router again \
                 for more",
                self.servers_max
            ));
        }
        self.shared.replace(plan);
        (0..self.workers).for_each(|worker| self.nudge.nudge(worker));
        notice(&format!("a new configuration is in force: {}", counted(count, "server")));
    }
}
