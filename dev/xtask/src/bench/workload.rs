//! The workloads of the comparison, with the ratios that we aim for.

/// One row of the table.
#[derive(Debug)]
pub(crate) struct BenchWorkload {
    pub(crate) name: &'static str,
    /// Arguments of the load generator.
    pub(crate) load: &'static [&'static str],
    /// Requests go over the unix socket.
    pub(crate) unix: bool,
    /// Requests are datagrams.
    pub(crate) udp: bool,
    /// The data: workloads with the same data share their servers.
    pub(crate) data: Data,
    pub(crate) meta: bool,
    /// Ours ÷ memcached: what it must be, and what would be splendid.
    pub(crate) goal: Goal,
}

/// The items stored before the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) keys: u64,
    pub(crate) value_len: u64,
}

/// The comparison with memcached, and the aim.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Requests or keys per server CPU-second, at least these ratios.
    PerCpu { must: f64, stretch: f64 },
    /// Median latency, at most these ratios.
    P50 { must: f64, stretch: f64 },
}

const SMALL: Data = Data { keys: 1_000_000, value_len: 100 };
const MANY: Data = Data { keys: 4_000_000, value_len: 100 };
const PAGE: Data = Data { keys: 100_000, value_len: 4096 };
const LARGE: Data = Data { keys: 8_000, value_len: 65_536 };

const fn get(
    name: &'static str,
    load: &'static [&'static str],
    data: Data,
    must: f64,
    stretch: f64,
) -> BenchWorkload {
    let goal = Goal::PerCpu { must, stretch };
    BenchWorkload { name, load, unix: false, udp: false, data, meta: false, goal }
}

/// All rows.
pub(crate) static WORKLOADS: [BenchWorkload; 18] = [
    get("get-d1-c64", &["--depth", "1", "--connections", "64"], SMALL, 1.25, 1.38),
    get("get-d1-c500", &["--depth", "1", "--connections", "500"], SMALL, 1.2, 1.3),
    get("get-d16", &["--depth", "16", "--connections", "64"], SMALL, 2.2, 2.8),
    get("get-d64", &["--depth", "64", "--connections", "64"], SMALL, 4.5, 7.5),
    get("multiget-16", &["--multiget", "16", "--connections", "64"], SMALL, 2.2, 3.0),
    get("multiget-100", &["--multiget", "100", "--connections", "64"], SMALL, 3.0, 5.0),
    BenchWorkload { meta: true, ..get("mg-d16", &["--protocol", "meta", "--depth", "16"], SMALL, 2.2, 2.8) },
    BenchWorkload {
        unix: true,
        ..get("unix-get-d1", &["--depth", "1", "--connections", "64"], SMALL, 1.4, 1.6)
    },
    BenchWorkload {
        udp: true,
        ..get("udp-get-d1", &["--udp", "--depth", "1", "--connections", "64"], SMALL, 1.5, 1.74)
    },
    // One peer, whose requests arrive together.
    BenchWorkload {
        udp: true,
        ..get("udp-get-burst", &["--udp", "--depth", "64", "--connections", "1"], SMALL, 3.0, 6.2)
    },
    BenchWorkload {
        goal: Goal::P50 { must: 1.03, stretch: 1.0 },
        ..get("one-connection", &["--depth", "1", "--connections", "1"], SMALL, 0.0, 0.0)
    },
    get("set-d1", &["--gets", "0", "--depth", "1"], SMALL, 1.2, 1.35),
    get("set-d16", &["--gets", "0", "--depth", "16"], SMALL, 1.8, 2.5),
    get("get-d1-4M", &["--depth", "1", "--connections", "64"], MANY, 1.35, 1.5),
    get("get-d16-4M", &["--depth", "16", "--connections", "64"], MANY, 3.0, 4.3),
    get("get-4KB", &["--depth", "1", "--connections", "64"], PAGE, 1.3, 1.5),
    get("get-64KB", &["--depth", "1", "--connections", "64"], LARGE, 1.2, 1.35),
    get("get-d1-c1000", &["--depth", "1", "--connections", "1000"], SMALL, 1.25, 1.4),
];

/// The workloads by the data they need, in the order of first appearance.
pub(crate) fn groups<'a>(workloads: &[&'a BenchWorkload]) -> Vec<Vec<&'a BenchWorkload>> {
    let mut groups: Vec<Vec<&BenchWorkload>> = Vec::new();
    for &workload in workloads {
        match groups.iter_mut().find(|group| group[0].data == workload.data) {
            Some(group) => group.push(workload),
            None => groups.push(vec![workload]),
        }
    }
    groups
}
