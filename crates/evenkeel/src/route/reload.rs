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
use super::shadow_file::ShadowFile;
use super::variables::Variables;

/// Interval at which files are looked at.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Reload {
    pub(super) configuration: Configuration,
    pub(super) variables: Variables,
    pub(super) shadow_file: ShadowFile,
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

/// Tells the workers the time of day.
pub(super) fn tell_time(shared: &RouterShared) {
    shared.tell_time(i64::try_from(os::clock::unix_s()).unwrap_or(0));
}

impl Reload {
    /// Runs as long as `hurry` has a sender, each of whose messages is a request to read the files now.
    pub(super) fn run(mut self, mut files: Watched, hurry: &Receiver<()>) {
        for generation in 2.. {
            if !self.wait_for_change(&files, hurry) {
                return;
            }
            self.configuration.set_variables(self.variables.present());
            let mut attempt = self.configuration.load(generation);
            match attempt.take_plan() {
                Ok(plan) => self.put_in_force(plan),
                Err(failure) => notice(&format!("the configuration stays as it was: {failure}")),
            }
            files = attempt.files;
        }
    }

    /// Whether there is a change; `false` for the end.
    fn wait_for_change(&mut self, files: &Watched, hurry: &Receiver<()>) -> bool {
        loop {
            self.variables.look(|| self.shared.plan());
            self.shadow_file.look(|| self.shared.plan().shadow_report());
            match self.wait(LOOK, hurry) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) if self.is_watching && files.has_changed() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let mut left = Duration::from_millis(self.delay_ms);
        while !left.is_zero() {
            let part = left.min(LOOK);
            match self.wait(part, hurry) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => left -= part,
            }
        }
        true
    }

    /// Waits for a request. The workers have no clock that shows the time of day: they get it here, about once in a second.
    fn wait(&self, limit: Duration, hurry: &Receiver<()>) -> Result<(), RecvTimeoutError> {
        let waited = hurry.recv_timeout(limit);
        tell_time(&self.shared);
        waited
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
        plan.notes.iter().for_each(|note| notice(note));
        self.shared.replace(plan);
        (0..self.workers).for_each(|worker| self.nudge.nudge(worker));
        notice(&format!("a new configuration is in force: {}", counted(count, "server")));
    }
}
