//! Reports: whose one is, and that of a server, as far as `top` needs it. Servers of several versions may run at one time: what a report does
//! not have is missing in the picture.

use std::collections::BTreeMap;

use serde_json::Value;

use super::router::RouterReading;

/// A report of a server or of a router.
#[derive(Clone, Debug)]
pub(super) enum MemberReading {
    Server(ServerReading),
    Router(RouterReading),
}

impl MemberReading {
    /// The error is a clause for people.
    pub(super) fn parse(report: &str) -> Result<MemberReading, String> {
        let mut report: Value = serde_json::from_str(report).map_err(|_| NO_REPORT)?;
        let uptime_us = report["uptime_us"].as_u64().ok_or(NO_REPORT)?;
        // Only a router's has it.
        Ok(match report.get_mut("route").map(Value::take) {
            Some(route) => MemberReading::Router(RouterReading::new(route, uptime_us)),
            None => MemberReading::Server(ServerReading { report, uptime_us }),
        })
    }

    pub(super) fn uptime_us(&self) -> u64 {
        match self {
            MemberReading::Server(reading) => reading.uptime_us,
            MemberReading::Router(reading) => reading.uptime_us,
        }
    }
}

const NO_REPORT: &str = "the answer is no report of a server or router";

/// One report of a server.
#[derive(Clone, Debug)]
pub(super) struct ServerReading {
    report: Value,
    /// Microseconds since the server's start, by its own clock.
    pub(super) uptime_us: u64,
}

impl ServerReading {
    /// The error is a clause for people.
    #[cfg(test)]
    pub(super) fn parse(report: &str) -> Result<ServerReading, String> {
        match MemberReading::parse(report)? {
            MemberReading::Server(reading) => Ok(reading),
            MemberReading::Router(_) => Err("it is a router".to_owned()),
        }
    }

    pub(super) fn version(&self) -> &str {
        self.report["version"].as_str().unwrap_or("?")
    }

    /// A statistic of memcached's.
    pub(super) fn stat(&self, name: &str) -> Option<u64> {
        self.report["stats"][name].as_u64()
    }

    /// A field of an object.
    pub(super) fn number(&self, object: &str, name: &str) -> Option<u64> {
        self.report[object][name].as_u64()
    }

    pub(super) fn ghost_hits(&self) -> Option<u64> {
        self.report["ghost_hits"].as_u64()
    }

    /// Whether it has service times by class.
    pub(super) fn has_service(&self) -> bool {
        self.report["service"].is_object()
    }

    /// Counts of a class's service times by the end of their bucket, in microseconds.
    pub(super) fn service(&self, class: &str) -> BTreeMap<u64, u64> {
        pairs(&self.report["service"][class]["buckets"])
    }

    /// Counts of the waits of input, as of [`ServerReading::service`].
    pub(super) fn waits(&self) -> BTreeMap<u64, u64> {
        pairs(&self.report["wait"]["buckets"])
    }

    /// CPU time and waiting time of the threads with this prefix of their name, in nanoseconds.
    pub(super) fn threads(&self, prefix: &str) -> BTreeMap<String, (u64, u64)> {
        let threads = self.report["threads"].as_object();
        let threads = threads.into_iter().flatten().filter(|(name, _)| name.starts_with(prefix));
        let times = |times: &Value| Some((times["run_ns"].as_u64()?, times["wait_ns"].as_u64()?));
        threads.filter_map(|(name, value)| Some((name.clone(), times(value)?))).collect()
    }

    /// Keys and shares, the hottest first; `None` if the server lists no keys.
    pub(super) fn hot(&self, by: &str) -> Option<Vec<(String, f64)>> {
        let keys = self.report["hot"][by].as_array()?;
        let pair = |hot: &Value| Some((hot["key"].as_str()?.to_owned(), hot["share"].as_f64()?));
        Some(keys.iter().filter_map(pair).collect())
    }
}

/// Counts by the end of their bucket.
pub(super) fn pairs(buckets: &Value) -> BTreeMap<u64, u64> {
    let pair = |pair: &Value| Some((pair[0].as_u64()?, pair[1].as_u64()?));
    buckets.as_array().into_iter().flatten().filter_map(pair).collect()
}
