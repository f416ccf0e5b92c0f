//! Changes of the configuration while the router runs: notes of the kernel, and a look at its files every second.
//!
//! A configuration that cannot be used changes nothing: the one in force stays, and a line says why. However often files
//! change, a load follows the last one after [`APART`] at the earliest.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use net::Nudge;
use os::clock::{Stopwatch, pause};
use router::{RoutePlan, RouterShared};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{read, write};
use stdx::words::counted;

use super::config_dump::ConfigDump;
use super::file_watch::FileWatch;
use super::variables::Variables;
use super::{Attempt, Configuration};
use crate::process::watched::WatchedFiles;
use crate::route::lines::{inform, notice};
use crate::route::shadow_file::ShadowFile;
use crate::route::tls::RouterTls;

/// Interval at which files are looked at, whatever the kernel says of them.
const LOOK: Duration = Duration::from_secs(1);

/// Shortest time between two looks, in a folder with many changes of other files.
const GLANCE: Duration = Duration::from_millis(20);

/// Shortest time from one load to the next.
const APART: Duration = Duration::from_millis(100);

pub(crate) struct Reload {
    pub(crate) configuration: Configuration,
    pub(crate) variables: Variables,
    pub(crate) shadow_file: ShadowFile,
    pub(crate) tls: RouterTls,
    pub(crate) shared: Arc<RouterShared>,
    pub(crate) nudge: Nudge,
    pub(crate) workers: usize,
    /// The most servers for which the router has connections.
    pub(crate) servers_max: usize,
    /// Whether files are looked at; without, only SIGHUP counts.
    pub(crate) is_watching: bool,
    /// Time between a change and its use: who writes several files has time to finish.
    pub(crate) delay: Duration,
    /// At most so much more of it, at random: many routers do not load at once.
    pub(crate) jitter: Duration,
    /// Time after a load in which nothing is looked at.
    pub(crate) rest: Duration,
    pub(crate) dump: Option<ConfigDump>,
}

/// Wakes the thread that reloads.
#[derive(Clone)]
pub(crate) struct ReloadBell(Arc<OwnedFd>);

impl ReloadBell {
    pub(crate) fn new() -> std::io::Result<ReloadBell> {
        Ok(ReloadBell(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Asks for a load now.
    pub(crate) fn ring(&self) {
        // It fails only if it was rung 2^64 times before.
        let _ = write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until it is rung, or `also` is readable, at most this long. Whether it was rung.
    fn wait(&self, also: Option<&OwnedFd>, at_most: Duration) -> bool {
        let mut all = vec![PollFd::new(&*self.0, PollFlags::IN)];
        all.extend(also.map(|also| PollFd::new(also, PollFlags::IN)));
        let time = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        if poll(&mut all, Some(&time)).is_err() {
            // Nothing that can be waited for: at least the look remains.
            pause(LOOK.min(at_most));
        }
        let mut count = [0; 8];
        read(&*self.0, &mut count[..]).is_ok()
    }
}

impl Reload {
    /// Runs as long as the process. `first` is the load of the start.
    pub(crate) fn run(mut self, mut first: Attempt, bell: &ReloadBell) {
        if !first.is_from_dump {
            self.keep(&mut first);
        }
        let mut files = first.files;
        for generation in 2.. {
            self.wait_for_change(&files, bell);
            self.configuration.set_variables(self.variables.present());
            let mut attempt = self.configuration.load(generation);
            let plan = attempt.take_plan().map_err(|failure| failure.to_string());
            let result = plan.and_then(|plan| self.put_in_force(plan));
            self.shared.note_config(|loads| loads.note(os::clock::unix_s(), result.is_ok()));
            match result {
                Ok(servers) => {
                    inform(&format!("a new configuration is in force: {}", counted(servers, "server")));
                    self.keep(&mut attempt);
                }
                Err(why) => notice(&format!("the configuration stays as it was: {why}")),
            }
            files = attempt.files;
            pause(self.rest.max(APART));
        }
    }

    fn keep(&mut self, attempt: &mut Attempt) {
        let texts = std::mem::take(&mut attempt.texts);
        if let Some(dump) = &mut self.dump {
            dump.keep(&texts);
        }
    }

    fn wait_for_change(&mut self, files: &WatchedFiles, bell: &ReloadBell) {
        let watch = match self.is_watching {
            true => FileWatch::new(files.paths()),
            false => FileWatch::default(),
        };
        // What changed before it was watched.
        let mut has_changed = self.is_watching && files.has_changed();
        let mut looked = Stopwatch::start();
        while !has_changed {
            let began = Stopwatch::start();
            if bell.wait(watch.descriptor(), LOOK) {
                return self.read_tls();
            }
            watch.drain();
            // Other files may change more often: who replaces a certificate has time to replace its key.
            if looked.passed() >= LOOK {
                looked = Stopwatch::start();
                let is_read = self.tls.reload_if_changed();
                self.use_tls(is_read);
                self.variables.look(|| self.shared.plan());
                self.shadow_file.look(|| self.shared.plan().shadow_report());
            }
            has_changed = self.is_watching && files.has_changed();
            pause(GLANCE.saturating_sub(began.passed()));
        }
        let jitter = self.jitter.mul_f64(random_part());
        if bell.wait(None, self.delay + jitter) {
            self.read_tls();
        }
    }

    /// For SIGHUP: reads certificates and keys, whether they have changed or not.
    fn read_tls(&mut self) {
        let is_read = self.tls.reload();
        self.use_tls(is_read);
    }

    /// New connections to servers begin with what was read.
    fn use_tls(&self, is_read: bool) {
        if is_read {
            self.shared.set_tls(self.tls.in_force());
        }
    }

    /// Puts a plan in force. Returns the number of its servers.
    fn put_in_force(&self, plan: RoutePlan) -> Result<usize, String> {
        let count = plan.servers.len();
        if plan.sockets() > self.servers_max {
            return Err(format!(
                "expected at most {} servers, found {count}; start the router again for more",
                self.servers_max
            ));
        }
        plan.notes.iter().for_each(|note| notice(note));
        self.shared.replace(plan);
        (0..self.workers).for_each(|worker| self.nudge.nudge(worker));
        Ok(count)
    }
}

/// A random number from 0 to 1.
fn random_part() -> f64 {
    crate::route::random().map_or(0.5, |number| (number >> 11) as f64 / (1_u64 << 53) as f64)
}
