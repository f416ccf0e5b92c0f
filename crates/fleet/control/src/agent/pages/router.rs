//! A router's page: what it counts besides requests and errors, and the requests to the servers of its pools.

use std::collections::BTreeMap;

use fleet::figures::{POOL_NAME_LEN_MAX, PoolTally, RouterPageTally};
use serde::Deserialize;

use super::WatchedPage;
use super::times::PageTimes;

/// Pools that are told: a configuration may have thousands, and those of a fleet have a cluster each.
const POOLS_MAX: usize = 256;

/// What is read of the page; the rest of it is skipped.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RouterPage {
    uptime_us: u64,
    pid: Option<u64>,
    route: RouteObject,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RouteObject {
    timeouts: Option<u64>,
    get_hits: Option<u64>,
    get_misses: Option<u64>,
    bytes_read: Option<u64>,
    bytes_written: Option<u64>,
    failovers: Option<u64>,
    unavailable_servers: Option<u64>,
    clients: Option<u64>,
    cpu_us: Option<u64>,
    latency: PageTimes,
    pools: BTreeMap<String, PoolCounts>,
    shadows: Option<ShadowObject>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PoolCounts {
    requests: u64,
    errors: u64,
    timeouts: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ShadowObject {
    compared: u64,
    differed: u64,
}

impl WatchedPage for RouterPage {
    type Tally = RouterPageTally;

    fn parse(page: &[u8]) -> Result<RouterPage, String> {
        serde_json::from_slice(page).map_err(|error| format!("expected the page of a router: {error}"))
    }

    fn uptime_us(&self) -> u64 {
        self.uptime_us
    }

    fn tally(&self, since: Option<&RouterPage>, at_ms: u64) -> RouterPageTally {
        let route = &self.route;
        let is_name = |name: &str| name.len() <= POOL_NAME_LEN_MAX && !name.contains(char::is_control);
        let pools = route.pools.iter().filter(|(name, _)| is_name(name)).take(POOLS_MAX);
        let pool = |counts: &PoolCounts| PoolTally::from([counts.requests, counts.errors, counts.timeouts]);
        RouterPageTally {
            pid: self.pid,
            at_ms,
            uptime_ms: self.uptime_us / 1000,
            timeouts: route.timeouts,
            hits: route.get_hits,
            misses: route.get_misses,
            received_bytes: route.bytes_read,
            sent_bytes: route.bytes_written,
            failovers: route.failovers,
            unavailable_servers: route.unavailable_servers,
            clients: route.clients,
            reply_p99_us: since.and_then(|since| route.latency.p99_since(&since.route.latency)),
            cpu_ms: route.cpu_us.map(|us| us / 1000),
            shadows: route.shadows.map(|shadows| (shadows.compared, shadows.differed)),
            pools: pools.map(|(name, counts)| (name.clone(), pool(counts))).collect(),
        }
    }
}
