//! Rows of the comparison: the work, the servers' flags, and the ratios that must be.

/// One row of the table.
#[derive(Debug)]
pub(super) struct NetworkRow {
    pub(super) name: &'static str,
    pub(super) service: Service,
    pub(super) work: Work,
    /// The row whose figure of memcached is the base, if it is not this one.
    pub(super) base: Option<&'static str>,
    /// Ours ÷ memcached's.
    pub(super) of_memcached: Option<Bound>,
    /// Ours ÷ the null server's.
    pub(super) of_null: Option<Bound>,
    /// Ours by itself, in the unit of the work.
    pub(super) alone: Option<Bound>,
}

/// What a server must be started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// One worker on one CPU, TCP and UDP.
    Plain,
    /// One worker on one CPU, TLS.
    Tls,
    /// One worker, TCP plain and with TLS, and the endpoint of metrics.
    Watched,
    /// Two workers on the two CPUs that the load has, too.
    Crowded,
}

/// What is done to a server, and so what its figure is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// `evenkeel load` with these words: requests per server CPU-second.
    Requests(&'static [&'static str]),
    /// The same on the server's CPUs: the 99th percentile of latency in microseconds.
    Latency(&'static [&'static str]),
    /// Connections, one after the other, with a handshake and one request each: server CPU in microseconds for each.
    Handshakes { version: TlsVersion, resumed: bool },
    /// Connections opened anew at the same time: the 99th percentile of opening one in milliseconds.
    Storm,
    /// Scrapes of the metrics beside 10,000 idle connections: the median in milliseconds.
    Scrape,
    /// Plain gets at half of what the worker can do, with and without 500 full handshakes of TLS a second on another CPU: the
    /// ratio of the 99th percentiles of the time in the server.
    BesideHandshakes,
    /// Connections that have sent one request and nothing since: bytes of resident memory for each.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsVersion {
    V1_2,
    V1_3,
}

/// A ratio or a figure that ours must reach.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    pub(super) fn is_met(self, value: f64) -> bool {
        match self {
            AtLeast(least) => value >= least,
            AtMost(most) => value <= most,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AtLeast(least) => write!(f, "≥ {least}"),
            AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

impl Work {
    /// The unit of the figure.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Work::Requests(_) => "/CPU-s",
            Work::Latency(_) => "µs p99",
            Work::Handshakes { .. } => "CPU-µs",
            Work::Storm => "ms p99",
            Work::Scrape => "ms",
            Work::BesideHandshakes => "× p99",
            Work::Idle => "bytes",
        }
    }
}

const fn row(name: &'static str, service: Service, work: Work, must: Bound) -> NetworkRow {
    NetworkRow { name, service, work, base: None, of_memcached: Some(must), of_null: None, alone: None }
}

const fn handshakes(version: TlsVersion, resumed: bool) -> Work {
    Work::Handshakes { version, resumed }
}

use Bound::{AtLeast, AtMost};
use Service::{Crowded, Plain, Tls, Watched};
use TlsVersion::{V1_2, V1_3};

/// All rows. A resumed handshake of TLS 1.2 is compared with memcached's full one.
#[rustfmt::skip]
pub(super) static ROWS: [NetworkRow; 16] = [
    row("udp-64-peers", Plain, Work::Requests(&["--udp", "--connections", "64"]), AtLeast(1.5)),
    row("udp-burst", Plain, Work::Requests(&["--udp", "--depth", "64", "--connections", "1"]), AtLeast(3.0)),
    NetworkRow { of_null: Some(AtLeast(0.8)),
        ..row("tls-get-d1", Tls, Work::Requests(&["--tls", "--connections", "50"]), AtLeast(1.15)) },
    NetworkRow { of_null: Some(AtLeast(0.8)),
        ..row("tls-get-d16", Tls, Work::Requests(&["--tls", "--depth", "16", "--connections", "50"]), AtLeast(1.5)) },
    row("binary-get-d1", Plain, Work::Requests(&["--protocol", "binary", "--connections", "50"]), AtLeast(1.2)),
    row("binary-get-d16", Plain,
        Work::Requests(&["--protocol", "binary", "--depth", "16", "--connections", "50"]), AtLeast(2.0)),
    row("handshake-1.2", Tls, handshakes(V1_2, false), AtMost(1.0)),
    row("handshake-1.3", Tls, handshakes(V1_3, false), AtMost(1.0)),
    NetworkRow { base: Some("handshake-1.2"),
        ..row("resumed-1.2", Tls, handshakes(V1_2, true), AtMost(0.333)) },
    row("resumed-1.3", Tls, handshakes(V1_3, true), AtMost(1.0)),
    row("crowded-get-d1", Crowded, Work::Latency(&["--connections", "64"]), AtMost(1.0)),
    NetworkRow { of_memcached: None, alone: Some(AtMost(1000.0)),
        ..row("storm", Plain, Work::Storm, AtMost(1.0)) },
    NetworkRow { of_memcached: None, alone: Some(AtMost(5.0)),
        ..row("scrape", Watched, Work::Scrape, AtMost(1.0)) },
    NetworkRow { of_memcached: None, alone: Some(AtMost(1.5)),
        ..row("get-handshakes", Watched, Work::BesideHandshakes, AtMost(1.0)) },
    row("idle-plain", Plain, Work::Idle, AtMost(1.0)),
    NetworkRow { alone: Some(AtMost(6144.0)), ..row("idle-tls", Tls, Work::Idle, AtMost(1.0)) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_another_row_of_the_same_unit() {
        for row in &ROWS {
            let Some(base) = row.base else { continue };
            let base = ROWS.iter().find(|other| other.name == base).expect("a row");
            assert_eq!(base.work.unit(), row.work.unit(), "{}", row.name);
        }
    }

    #[test]
    fn a_bound_is_met_at_its_value() {
        assert!(AtLeast(1.5).is_met(1.5) && !AtLeast(1.5).is_met(1.49));
        assert!(AtMost(1.0).is_met(1.0) && !AtMost(1.0).is_met(f64::NAN));
    }
}
