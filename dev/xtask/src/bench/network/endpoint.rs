//! The endpoint of metrics of a measured server: pages, and the server's own histograms of times.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A server that does not give a page within this is broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Fetches a page on a connection of its own.
pub(super) fn fetch(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("connect to the metrics")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).context("read a page")?;
    let (head, body) = reply.split_once("\r\n\r\n").context("a page has a head")?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
    Ok(body.to_owned())
}

/// Counts of times by the end of their bucket, in microseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeCounts(BTreeMap<u64, u64>);

/// What a server has counted: how long requests waited, and the service of gets.
#[derive(Clone, Debug)]
pub(super) struct ServerTimes {
    pub(super) wait: TimeCounts,
    pub(super) get: TimeCounts,
}

impl ServerTimes {
    pub(super) fn read(port: u16) -> Result<ServerTimes> {
        let report: Value =
            serde_json::from_str(&fetch(port, "/api/v1/stats")?).context("a report in JSON")?;
        let counts = |pointer: &str| {
            let pairs: Vec<(u64, u64)> =
                serde_json::from_value(report.pointer(pointer).cloned().unwrap_or_default())
                    .with_context(|| format!("no {pointer} in the report"))?;
            Ok::<_, anyhow::Error>(TimeCounts(pairs.into_iter().collect()))
        };
        Ok(ServerTimes { wait: counts("/wait/buckets")?, get: counts("/service/get/buckets")? })
    }

    /// The 99th percentile of waits and that of services since `before`, in microseconds.
    pub(super) fn p99_us_since(&self, before: &ServerTimes) -> Result<(u64, u64)> {
        Ok((self.wait.p99_us_since(&before.wait)?, self.get.p99_us_since(&before.get)?))
    }
}

/// Fewer do not have a 99th percentile.
const COUNT_MIN: u64 = 500;

impl TimeCounts {
    fn p99_us_since(&self, before: &TimeCounts) -> Result<u64> {
        let since = |(end, count): (&u64, &u64)| (*end, count - before.0.get(end).unwrap_or(&0));
        let counts: Vec<(u64, u64)> = self.0.iter().map(since).collect();
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        ensure!(all >= COUNT_MIN, "only {all} times were counted");
        let mut seen = 0;
        let reaches = |(_, count): &&(u64, u64)| {
            seen += count;
            seen * 100 >= all * 99
        };
        counts.iter().find(reaches).map(|(end, _)| *end).context("all counts reach it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_counted_in_between() {
        let before = TimeCounts(BTreeMap::from([(8, 1_000_000), (4096, 7)]));
        let mut after = before.clone();
        assert!(after.p99_us_since(&before).is_err(), "nothing was counted");
        after.0.extend([(8, 1_000_989), (16, 11)]);
        assert_eq!(after.p99_us_since(&before).expect("enough"), 16);
        after.0.insert(8, 1_010_000);
        assert_eq!(after.p99_us_since(&before).expect("enough"), 8);
    }
}
