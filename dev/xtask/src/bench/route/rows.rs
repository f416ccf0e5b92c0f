//! Rows of the comparison of proxies: what the load sends, and what is measured.

/// One row of the table.
#[derive(Debug)]
pub(super) struct RouteRow {
    pub(super) name: &'static str,
    /// Words for `evenkeel load`.
    pub(super) words: &'static [&'static str],
    pub(super) figure: RouteFigure,
    /// In the meta protocol, which not every proxy speaks.
    pub(super) is_meta: bool,
    /// Ours with other routes is measured, too.
    pub(super) with_routes: bool,
}

/// What is measured of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteFigure {
    /// Keys per CPU-second of its process: more is better.
    KeysPerCpuSecond,
    /// The median latency of requests, in microseconds: less is better.
    P50Us,
    /// The 99th percentile of what single requests take beside a load of half of what the slowest proxy can, in
    /// microseconds from when they were sent: less is better.
    ProbesP99Us,
    /// Resident bytes for each of many idle clients: less is better.
    IdleBytes,
}

impl RouteFigure {
    /// A value, with its unit.
    pub(super) fn shown(self, value: f64) -> String {
        match self {
            RouteFigure::KeysPerCpuSecond => format!("{:.0} k/CPU-s", value / 1e3),
            RouteFigure::P50Us | RouteFigure::ProbesP99Us => format!("{value:.0} µs"),
            RouteFigure::IdleBytes => format!("{value:.0} B"),
        }
    }
}

const KEYS: RouteRow = RouteRow {
    name: "",
    words: &[],
    figure: RouteFigure::KeysPerCpuSecond,
    is_meta: false,
    with_routes: false,
};

/// All rows: values of 100 bytes, and 50 clients where the words say nothing else.
pub(super) static ROUTE_ROWS: [RouteRow; 9] = [
    RouteRow { name: "get-d1", words: &["--connections", "50", "--depth", "1"], ..KEYS },
    RouteRow { name: "get-d16", words: &["--connections", "50", "--depth", "16"], with_routes: true, ..KEYS },
    // The null proxy sends all keys to one server, so it is a bound that nobody who splits can reach.
    RouteRow { name: "multiget-20", words: &["--connections", "50", "--multiget", "20"], ..KEYS },
    RouteRow {
        name: "set-d16",
        words: &["--connections", "50", "--gets", "0", "--depth", "16"],
        with_routes: true,
        ..KEYS
    },
    // Half of all gets are for one key, which hot values answer.
    RouteRow {
        name: "hot-d16",
        words: &["--connections", "50", "--gets", "1", "--popularity", "hot:0.5,1", "--depth", "16"],
        with_routes: true,
        ..KEYS
    },
    RouteRow {
        name: "mg-d16",
        words: &["--connections", "50", "--protocol", "meta", "--depth", "16"],
        is_meta: true,
        ..KEYS
    },
    RouteRow { name: "p50-c1", words: &["--connections", "1"], figure: RouteFigure::P50Us, ..KEYS },
    RouteRow {
        name: "probes-p99",
        words: &["--connections", "50", "--probes", "4", "--probe-rate", "1000"],
        figure: RouteFigure::ProbesP99Us,
        ..KEYS
    },
    RouteRow { name: "idle", words: &[], figure: RouteFigure::IdleBytes, ..KEYS },
];

/// The route of one of our proxies. The second pool has the servers of the first one in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfiguredRoute {
    Pool,
    /// To a second pool, if the first one fails, which it does not here.
    Failover,
    /// To both pools.
    AllSync,
    /// To one pool, a tenth of the keys also to the other.
    Shadow,
    /// To one pool, whose hot values are kept in the proxy.
    HotCache,
}

impl ConfiguredRoute {
    pub(super) const ALL: [ConfiguredRoute; 5] = [
        ConfiguredRoute::Pool,
        ConfiguredRoute::Failover,
        ConfiguredRoute::AllSync,
        ConfiguredRoute::Shadow,
        ConfiguredRoute::HotCache,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ConfiguredRoute::Pool => "evenkeel",
            ConfiguredRoute::Failover => "FailoverRoute",
            ConfiguredRoute::AllSync => "AllSyncRoute",
            ConfiguredRoute::Shadow => "shadow of 10 %",
            ConfiguredRoute::HotCache => "hot values",
        }
    }

    /// Its configuration, for these servers.
    pub(super) fn configuration(self, servers: &[String]) -> String {
        let mut turned = servers.to_vec();
        turned.rotate_left(1);
        let route = match self {
            ConfiguredRoute::Pool | ConfiguredRoute::HotCache => r#""PoolRoute|A""#.to_owned(),
            ConfiguredRoute::Failover => {
                r#"{"type":"FailoverRoute","children":["PoolRoute|A","PoolRoute|B"]}"#.to_owned()
            }
            ConfiguredRoute::AllSync => {
                r#"{"type":"AllSyncRoute","children":["PoolRoute|A","PoolRoute|B"]}"#.to_owned()
            }
            ConfiguredRoute::Shadow => format!(
                r#"{{"type":"PoolRoute","pool":"A","shadows":[{{"target":"PoolRoute|B","index_range":[0,{}],"key_fraction_range":[0,0.1]}}]}}"#,
                servers.len()
            ),
        };
        let more = if self == ConfiguredRoute::HotCache { r#","hot_cache":{}"# } else { "" };
        let pool = |name: &str, servers: &[String]| format!(r#""{name}":{{"servers":{servers:?}{more}}}"#);
        format!(r#"{{"pools":{{{},{}}},"route":{route}}}"#, pool("A", servers), pool("B", &turned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_json_and_name_all_servers_twice() {
        let servers = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(str::to_owned);
        for route in ConfiguredRoute::ALL {
            let text = route.configuration(&servers);
            let json: serde_json::Value = serde_json::from_str(&text).expect(&text);
            assert_eq!(json["pools"]["B"]["servers"][0], "127.0.0.1:2");
            assert_eq!(json["pools"]["A"]["servers"].as_array().map(Vec::len), Some(3));
        }
    }
}
