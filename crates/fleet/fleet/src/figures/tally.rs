//! Tallies: what an agent reads of a server or router and says with its turn.
//!
//! Their names in JSON are short: a tally has at most 400 bytes, so that 25,000 members make less than 700 KB/s. Counters are those since the
//! start of the process. What an agent could not read is left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figures::shadow::{ShadowTally, fit_shadows};

/// Pools in one tally.
pub const POOLS_PER_TALLY_MAX: usize = 64;
/// Longest name of a pool in bytes. Longer ones are left out.
pub const POOL_NAME_LEN_MAX: usize = 63;

/// A server, by the answer to `stats`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberTally {
    /// When it was read, in milliseconds by the agent's clock.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// How long it runs.
    #[serde(rename = "up", skip_serializing_if = "Option::is_none")]
    pub uptime_s: Option<u64>,
    /// Keys that were asked for, and other commands.
    #[serde(rename = "req", skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Gets that found their item.
    #[serde(rename = "hit", skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Gets that did not.
    #[serde(rename = "miss", skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Bytes from clients.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Bytes to clients.
    #[serde(rename = "out", skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Items that made room for others.
    #[serde(rename = "evict", skip_serializing_if = "Option::is_none")]
    pub evictions: Option<u64>,
    /// Memory of items, now.
    #[serde(rename = "used", skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// What it may have.
    #[serde(rename = "limit", skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Of clients, now.
    #[serde(rename = "conn", skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Items, now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// CPU time of the process.
    #[serde(rename = "cpu", skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// What only Evenkeel's page has; none if it has no page or that did not answer yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<ServerPageTally>,
}

/// A server's page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerPageTally {
    /// Its process, which does not travel: the agent compares it with that beside it.
    #[serde(skip)]
    pub pid: Option<u64>,
    /// When it was read, in milliseconds by the agent's clock: a page that does not answer any more keeps this.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// How long the server runs, by its own clock.
    #[serde(rename = "up")]
    pub uptime_ms: u64,
    /// Time in which its workers were ready and had no CPU, of all together.
    #[serde(rename = "ready", skip_serializing_if = "Option::is_none")]
    pub ready_ms: Option<u64>,
    /// Its worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u64>,
    /// Time that 99 % of the input waited less for its worker, since some readings ago.
    #[serde(rename = "wait", skip_serializing_if = "Option::is_none")]
    pub wait_p99_us: Option<u64>,
    /// Time that 99 % of the gets took less, since some readings ago.
    #[serde(rename = "service", skip_serializing_if = "Option::is_none")]
    pub service_p99_us: Option<u64>,
}

/// A router, by the answer to `stats count`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouterTally {
    /// When it was read, in milliseconds by the agent's clock.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// Its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    /// Requests of clients that were answered.
    #[serde(rename = "req", skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Those of them that were answered with an error.
    #[serde(rename = "err", skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// What only Evenkeel's page has; none if it has no page or that did not answer yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<RouterPageTally>,
}

/// A router's page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouterPageTally {
    /// Its process, which does not travel: the agent compares it with that beside it.
    #[serde(skip)]
    pub pid: Option<u64>,
    /// When it was read, in milliseconds by the agent's clock: a page that does not answer any more keeps this.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// How long the router runs, by its own clock.
    #[serde(rename = "up")]
    pub uptime_ms: u64,
    /// Requests to servers that were not answered in time.
    #[serde(rename = "late", skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// Gets that found their item.
    #[serde(rename = "hit", skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Gets that did not.
    #[serde(rename = "miss", skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Bytes from clients and servers.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Bytes to clients and servers.
    #[serde(rename = "out", skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Requests that another server was asked for, because one did not answer.
    #[serde(rename = "fail", skip_serializing_if = "Option::is_none")]
    pub failovers: Option<u64>,
    /// Servers that are not asked because they do not answer (TKO), now.
    #[serde(rename = "tko", skip_serializing_if = "Option::is_none")]
    pub unavailable_servers: Option<u64>,
    /// Connections of clients, now.
    #[serde(rename = "conn", skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    /// Time that 99 % of the replies of servers took less, since some readings ago.
    #[serde(rename = "p99", skip_serializing_if = "Option::is_none")]
    pub reply_p99_us: Option<u64>,
    /// CPU time of the process.
    #[serde(rename = "cpu", skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Requests whose reply was compared with a shadow's, and those of them whose replies differed.
    #[serde(rename = "shadow", skip_serializing_if = "Option::is_none")]
    pub shadows: Option<(u64, u64)>,
    /// What was found about the shadows of clusters, by their names.
    #[serde(rename = "cmp", skip_serializing_if = "BTreeMap::is_empty")]
    pub compared: BTreeMap<String, ShadowTally>,
    /// Requests to the servers of pools, by name. A router with more pools than fit says some of them in each turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolTally>,
}

/// Requests to the servers of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 3]", into = "[u64; 3]")]
pub struct PoolTally {
    /// All.
    pub requests: u64,
    /// Those of them without a good answer, whatever the reason.
    pub errors: u64,
    /// Those of the errors that were not answered in time.
    pub timeouts: u64,
}

impl From<[u64; 3]> for PoolTally {
    fn from([requests, errors, timeouts]: [u64; 3]) -> PoolTally {
        PoolTally { requests, errors, timeouts }
    }
}

impl From<PoolTally> for [u64; 3] {
    fn from(PoolTally { requests, errors, timeouts }: PoolTally) -> [u64; 3] {
        [requests, errors, timeouts]
    }
}

/// Bytes of a tally in JSON.
const TALLY_LEN_MAX: usize = 400;

impl RouterTally {
    /// Leaves out pools that do not fit into 400 bytes, and shadows that do not fit into bytes of their own. Others go with the next turn,
    /// whose number this is: each comes in its time.
    pub fn fitted(mut self, turn: u64) -> RouterTally {
        let compared = self.page.as_mut().map(|page| std::mem::take(&mut page.compared));
        let mut fitted = self.with_fitted_pools(turn);
        if let (Some(page), Some(compared)) = (&mut fitted.page, compared) {
            page.compared = fit_shadows(compared, turn);
        }
        fitted
    }

    fn with_fitted_pools(mut self, turn: u64) -> RouterTally {
        let Some(page) = &mut self.page else { return self };
        let pools: Vec<(String, PoolTally)> = std::mem::take(&mut page.pools).into_iter().collect();
        if pools.is_empty() {
            return self;
        }
        let bare = serde_json::to_string(&self).map_or(TALLY_LEN_MAX, |json| json.len());
        // `,"pools":{}`
        let mut left = TALLY_LEN_MAX.saturating_sub(bare + 11);
        // Turns in which all have their time, if each is as long as the longest.
        let len = |(name, pool): &(String, PoolTally)| {
            serde_json::to_string(&(name, pool)).map_or(TALLY_LEN_MAX, |json| json.len())
        };
        let longest = pools.iter().map(len).max().unwrap_or(1);
        let per_turn = (left / longest).clamp(1, POOLS_PER_TALLY_MAX);
        let first = (turn % pools.len().div_ceil(per_turn) as u64) as usize * per_turn;
        let mut sent = BTreeMap::new();
        for pool in pools.iter().cycle().skip(first).take(pools.len().min(POOLS_PER_TALLY_MAX)) {
            // One goes at least: otherwise none ever would.
            if left < len(pool) && !sent.is_empty() {
                break;
            }
            left = left.saturating_sub(len(pool));
            sent.insert(pool.0.clone(), pool.1);
        }
        if let Some(page) = &mut self.page {
            page.pools = sent;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A server of the largest kind, after a year.
    fn large_server() -> MemberTally {
        let page = ServerPageTally {
            pid: None,
            at_ms: 31_536_000_000,
            uptime_ms: 31_536_000_000,
            ready_ms: Some(315_360_000_000),
            workers: Some(64),
            wait_p99_us: Some(10_240),
            service_p99_us: Some(10_240),
        };
        let count = Some(1_135_296_000_000);
        let bytes = Some(1_387_584_000_000_000);
        MemberTally {
            at_ms: 31_536_000_000,
            pid: Some(4_194_304),
            uptime_s: Some(31_536_000),
            requests: count,
            hits: count,
            misses: Some(135_296_000_000),
            received_bytes: bytes,
            sent_bytes: bytes,
            evictions: Some(135_296_000_000),
            memory_used_bytes: Some(98_784_247_808),
            memory_limit_bytes: Some(98_784_247_808),
            connections: Some(100_000),
            items: Some(1_000_000_000),
            cpu_ms: Some(315_360_000_000),
            page: Some(page),
        }
    }

    fn large_router(pools: usize) -> RouterTally {
        let count = Some(1_135_296_000_000);
        let page = RouterPageTally {
            pid: None,
            at_ms: 31_536_000_000,
            uptime_ms: 31_536_000_000,
            timeouts: Some(35_296_000),
            hits: count,
            misses: Some(135_296_000_000),
            received_bytes: Some(1_387_584_000_000_000),
            sent_bytes: Some(1_387_584_000_000_000),
            failovers: Some(35_296_000),
            unavailable_servers: Some(12),
            clients: Some(1000),
            reply_p99_us: Some(10_240),
            cpu_ms: Some(315_360_000_000),
            shadows: Some((1_135_296_000, 1_135_296)),
            compared: BTreeMap::new(),
            pools: (0..pools)
                .map(|number| (format!("c{number:02}"), [1_135_296_000, 35_296, 5296].into()))
                .collect(),
        };
        RouterTally {
            at_ms: 31_536_000_000,
            pid: Some(4_194_304),
            requests: count,
            errors: Some(35_296_000),
            page: Some(page),
        }
    }

    fn len(tally: &impl Serialize) -> usize {
        serde_json::to_string(tally).expect("JSON").len()
    }

    #[test]
    fn the_largest_tally_has_400_bytes_at_most() {
        assert!(len(&large_server()) <= TALLY_LEN_MAX, "{}", len(&large_server()));
        for turn in 0..100 {
            let sent = large_router(70).fitted(turn);
            assert!(len(&sent) <= TALLY_LEN_MAX, "{}", len(&sent));
        }
    }

    #[test]
    fn each_of_many_pools_goes_in_its_time() {
        let all: BTreeSet<String> = large_router(70).page.expect("it has one").pools.into_keys().collect();
        let (mut seen, mut turn) = (BTreeSet::new(), 3);
        while seen != all {
            seen.extend(large_router(70).fitted(turn).page.expect("it has one").pools.into_keys());
            turn += 1;
            assert!(turn < 80, "{seen:?}");
        }
        let few = large_router(2);
        assert_eq!(few.clone().fitted(9), few, "all of few go with each turn");
    }

    #[test]
    fn a_name_that_is_longer_than_a_tally_goes_alone() {
        let mut router = large_router(2);
        let pools = &mut router.page.as_mut().expect("it has one").pools;
        pools.insert("x".repeat(400), PoolTally::default());
        let sent: BTreeSet<usize> = (0..6)
            .flat_map(|turn| router.clone().fitted(turn).page.expect("it has one").pools.into_keys())
            .map(|name| name.len())
            .collect();
        assert_eq!(sent, [3, 400].into());
    }

    #[test]
    fn what_another_version_leaves_out_or_adds_is_no_error() {
        let tally: MemberTally =
            serde_json::from_str(r#"{"at":5,"new":[1],"page":{"other":1}}"#).expect("a tally");
        assert_eq!(
            tally,
            MemberTally { at_ms: 5, page: Some(ServerPageTally::default()), ..MemberTally::default() }
        );
        assert_eq!(serde_json::to_string(&MemberTally::default()).expect("JSON"), r#"{"at":0}"#);
        let same: MemberTally =
            serde_json::from_str(&serde_json::to_string(&large_server()).expect("JSON")).expect("a tally");
        assert_eq!(same, large_server());
    }
}
