//! A server's page: how long input waited, how long gets took, and how long its workers waited for a CPU.

use std::collections::BTreeMap;

use fleet::figures::ServerPageTally;
use serde::Deserialize;

use super::WatchedPage;
use super::times::PageTimes;

/// What is read of the page; the rest of it is skipped.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ServerPage {
    uptime_us: u64,
    #[serde(default)]
    stats: StatsObject,
    #[serde(default)]
    threads: BTreeMap<String, ThreadTime>,
    #[serde(default)]
    wait: PageTimes,
    #[serde(default)]
    service: BTreeMap<String, PageTimes>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct StatsObject {
    pid: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ThreadTime {
    /// Ready to run, without a CPU.
    wait_ns: u64,
}

/// Threads that answer requests.
const WORKER: &str = "worker-";
/// The class of commands whose times are told.
const CLASS: &str = "get";

impl WatchedPage for ServerPage {
    type Tally = ServerPageTally;

    fn parse(page: &[u8]) -> Result<ServerPage, String> {
        serde_json::from_slice(page).map_err(|error| format!("expected the page of a server: {error}"))
    }

    fn uptime_us(&self) -> u64 {
        self.uptime_us
    }

    fn tally(&self, since: Option<&ServerPage>, at_ms: u64) -> ServerPageTally {
        let workers = self.threads.iter().filter(|(name, _)| name.starts_with(WORKER));
        let waits: Vec<u64> = workers.map(|(_, time)| time.wait_ns).collect();
        let service = |page: &ServerPage| page.service.get(CLASS).cloned().unwrap_or_default();
        ServerPageTally {
            pid: self.stats.pid,
            at_ms,
            uptime_ms: self.uptime_us / 1000,
            ready_ms: (!waits.is_empty())
                .then(|| waits.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns)) / 1_000_000),
            workers: (!waits.is_empty()).then_some(waits.len() as u64),
            wait_p99_us: since.and_then(|since| self.wait.p99_since(&since.wait)),
            service_p99_us: since.and_then(|since| service(self).p99_since(&service(since))),
        }
    }
}
