//! A router's page: what it counts besides requests and errors, and the requests to the servers of its pools.

use std::collections::BTreeMap;

use fleet::figures::shadow::{ShadowTally, time_bucket};
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

#[derive(Clone, Debug, Deserialize)]
struct ShadowObject {
    compared: u64,
    differed: u64,
    /// Configurations that were loaded. A router of an older version does not say it, nor what each shadow is.
    loads: Option<u64>,
    #[serde(default)]
    by_name: BTreeMap<String, ShadowCountsObject>,
}

#[derive(Clone, Debug, Deserialize)]
struct ShadowCountsObject {
    compared: u64,
    other_outcomes: u64,
    other_values: u64,
    other_sizes: u64,
    normal_hits: u64,
    shadow_hits: u64,
    normal_us: Vec<(u64, u64)>,
    shadow_us: Vec<(u64, u64)>,
}

impl ShadowObject {
    fn tallies(&self) -> BTreeMap<String, ShadowTally> {
        let Some(loads) = self.loads else { return BTreeMap::new() };
        self.by_name.iter().map(|(name, counts)| (name.clone(), counts.tally(loads))).collect()
    }
}

impl ShadowCountsObject {
    fn tally(&self, loads: u64) -> ShadowTally {
        let mut times: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
        // The end of a range is the first time that is not in it.
        let bucket = |end_us: u64| time_bucket(end_us.saturating_sub(1));
        for (end_us, count) in &self.normal_us {
            let cell = times.entry(bucket(*end_us)).or_default();
            cell.0 = cell.0.saturating_add(*count);
        }
        for (end_us, count) in &self.shadow_us {
            let cell = times.entry(bucket(*end_us)).or_default();
            cell.1 = cell.1.saturating_add(*count);
        }
        ShadowTally {
            loads,
            compared: self.compared,
            other_outcomes: self.other_outcomes,
            other_values: self.other_values,
            other_sizes: self.other_sizes,
            hits: [self.normal_hits, self.shadow_hits],
            times: times.into_iter().map(|(bucket, (normal, shadow))| (bucket, normal, shadow)).collect(),
        }
    }
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
            shadows: route.shadows.as_ref().map(|shadows| (shadows.compared, shadows.differed)),
            compared: route.shadows.as_ref().map(ShadowObject::tallies).unwrap_or_default(),
            pools: pools.map(|(name, counts)| (name.clone(), pool(counts))).collect(),
        }
    }
}
