//! Facts from outside of the router for its reports: the time, the process, the command line, loads of configurations.

use stdx::clock::Now;

/// What changes while the router runs.
#[derive(Clone, Debug, Default)]
pub struct ReportFacts {
    /// The moment, by the clock of the workers.
    pub now: Now,
    /// The same, in seconds since 1970.
    pub unix_s: u64,
    /// The process.
    pub process: ProcessFacts,
}

/// Figures of the process.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct ProcessFacts {
    pub id: u32,
    pub parent: u32,
    pub user_s: f64,
    pub system_s: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
}

/// What does not change while the router runs.
#[derive(Clone, Debug, Default)]
pub struct StartupFacts {
    /// The words of the command line, after the name of the program.
    pub command_line: String,
    /// The time of the start, in seconds since 1970.
    pub started_s: u64,
    /// Options by mcrouter's names, and their values.
    pub options: Vec<(String, String)>,
    /// Identifies the host, for routes that choose by it.
    pub host_id: u32,
}

/// Loads of configurations.
#[derive(Clone, Debug, Default)]
pub struct ConfigLoads {
    /// Time of the last attempt, in seconds since 1970.
    pub last_attempt_s: u64,
    /// Time of the last one that succeeded.
    pub last_success_s: u64,
    /// Attempts so far.
    pub attempts: u64,
    /// Those that failed.
    pub failures: u64,
    /// The one in force is a copy that was kept on disk.
    pub is_from_dump: bool,
}

impl ConfigLoads {
    /// An attempt has ended.
    pub fn note(&mut self, unix_s: u64, succeeded: bool) {
        self.attempts += 1;
        self.last_attempt_s = unix_s;
        if succeeded {
            self.last_success_s = unix_s;
            self.is_from_dump = false;
        } else {
            self.failures += 1;
        }
    }
}
