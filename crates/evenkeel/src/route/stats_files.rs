//! Files about a running router for programs that read mcrouter's: statistics, sources of the configuration, options under
//! `--stats-root`, and fifos under `--debug-fifo-root`, into which nothing is ever written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use net::clock::Clock;
use os::clock::pause;
use router::RouterShared;
use router::flags::RouteOptions;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::lines::notice;
use super::reports::facts;

/// The shortest interval: an operator who asks for less gets this.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// What the thread works with.
pub(super) struct StatsFiles {
    shared: Arc<RouterShared>,
    clock: Clock,
    root: PathBuf,
    /// The beginning of all names, mcrouter's.
    prefix: String,
    interval: Duration,
}

/// mcrouter's beginning of names.
fn prefix(options: &RouteOptions) -> String {
    format!("libmcrouter.{}.{}", options.service_name, options.name_of_router()).replace('/', "_")
}

impl StatsFiles {
    /// `None` without `--stats-root`, or with an interval of 0.
    pub(super) fn new(
        options: &RouteOptions,
        shared: &Arc<RouterShared>,
        clock: Clock,
    ) -> Option<StatsFiles> {
        let root = options.stats_root.clone().filter(|_| options.stats_interval_ms > 0)?;
        let interval = Duration::from_millis(options.stats_interval_ms).max(INTERVAL_MIN);
        Some(StatsFiles { shared: Arc::clone(shared), clock, root, prefix: prefix(options), interval })
    }

    /// Runs until the process ends. A failure is a line, once until it has passed.
    pub(super) fn run(self) {
        let mut has_complained = false;
        loop {
            match self.write() {
                Ok(()) => has_complained = false,
                Err(_) if has_complained => {}
                Err(error) => {
                    has_complained = true;
                    notice(&format!("statistics are not written to {}: {error}", self.root.display()));
                }
            }
            pause(self.interval);
        }
    }

    fn write(&self) -> io::Result<()> {
        // It may have been removed.
        fs::create_dir_all(&self.root)?;
        let facts = facts(self.clock);
        self.replace("stats", &self.shared.ods_json(&self.prefix, &facts))?;
        self.replace("config_sources_info", &self.shared.config_sources_json())?;
        self.replace("startup_options", &self.shared.options_json(facts.process.id))
    }

    fn replace(&self, suffix: &str, text: &str) -> io::Result<()> {
        os::file::replace(&self.root.join(format!("{}.{suffix}", self.prefix)), format!("{text}\n"))
    }
}

/// Makes the debug fifos, unless they are there. A failure is a line.
pub(super) fn make_fifos(options: &RouteOptions) {
    let Some(root) = &options.debug_fifo_root else { return };
    let made = ["client", "server"]
        .iter()
        .try_for_each(|end| make_fifo(root, &format!("{}.{end}.debugfifo", prefix(options))));
    if let Err(error) = made {
        notice(&format!("there are no debug fifos in {}: {error}", root.display()));
    }
}

fn make_fifo(root: &Path, name: &str) -> io::Result<()> {
    fs::create_dir_all(root)?;
    match mknodat(CWD, root.join(name), FileType::Fifo, Mode::from_raw_mode(0o666), 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        made => made.map_err(io::Error::from),
    }
}
