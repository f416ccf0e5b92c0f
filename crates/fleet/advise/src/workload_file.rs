//! A workload in a file.

use fleet::advise::{CacheWorkload, InputFigure, WorkloadError};
use serde::Deserialize;

use crate::figure_file::FigureInFile;

/// Bytes of a workload's file, at most: a hundred points of a miss curve need a hundredth.
pub const WORKLOAD_LEN_MAX: usize = 1024 * 1024;

/// Why a file is no workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadFileError {
    /// Longer than any.
    #[error("the workload has {0} bytes, and at most {WORKLOAD_LEN_MAX} are accepted")]
    TooLong(usize),
    /// Not TOML, or a key that there is not.
    #[error("understand the workload: {0}")]
    Toml(String),
    /// A figure that cannot be read.
    #[error("the workload, `{0}`: {1}")]
    Figure(&'static str, String),
    /// Items twice, or not at all.
    #[error("the workload: expected `count` or `bytes` of [items], or a `curve`; found {0}")]
    Items(&'static str),
    /// A figure beyond its limit.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    name: String,
    requests: Requests,
    items: Items,
    latency: Latency,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    spare: Spare,
    #[serde(default)]
    backend: Backend,
    #[serde(default)]
    host: Host,
    /// Threads with real-time priority.
    #[serde(default)]
    real_time: bool,
}

/// Per second, in the busiest minute.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    get: Option<FigureInFile>,
    set: Option<FigureInFile>,
    delete: Option<FigureInFile>,
    multiget: Option<FigureInFile>,
    multiget_keys: Option<FigureInFile>,
    pipeline: Option<FigureInFile>,
    hit_ratio: Option<FigureInFile>,
    spike: Option<FigureInFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Items {
    count: Option<FigureInFile>,
    /// Of keys and values.
    bytes: Option<FigureInFile>,
    key_bytes: FigureInFile,
    value_bytes: FigureInFile,
    value_p99_bytes: Option<f64>,
    hot_items: Option<FigureInFile>,
    hot_hits: Option<FigureInFile>,
    #[serde(default)]
    curve: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    p99_ms: f64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    tls_share: Option<FigureInFile>,
    udp_share: Option<FigureInFile>,
    clients: Option<FigureInFile>,
    connections_per_client: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spare {
    zones: Option<u32>,
    /// Whether the other zones carry everything when one is lost.
    survive_zone: Option<bool>,
    /// In place of one zone of equal ones.
    largest_zone_share: Option<f64>,
    headroom: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    usd_per_million_misses: Option<FigureInFile>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    /// Queues of the network card.
    queues: Option<u32>,
    /// Whether packets are spread over all CPUs (RPS).
    rps: Option<bool>,
}

/// Zones, where a file does not say it: those of the usual region.
const ZONES: u32 = 1;
/// The share of each limit that the busiest minute may use, where a file does not say it: a quarter is for growth until somebody
/// orders, and for hosts of which hashing gives some a tenth more than others.
const HEADROOM: f64 = 0.75;
/// Hits, where a file does not say it: between the published caches (0.8 to 0.99).
const HIT_RATIO: (f64, f64, f64) = (0.95, 0.8, 1.0);
/// Requests that arrive together, where a file does not say it. One alone costs most.
const PIPELINE: (f64, f64, f64) = (1.0, 1.0, 4.0);
/// Keys of a multiget, where a file does not say it: Facebook's median (2013).
const MULTIGET_KEYS: (f64, f64, f64) = (24.0, 8.0, 95.0);
/// The busiest second, where a file does not say it.
const SPIKE: (f64, f64, f64) = (1.0, 1.0, 2.0);

/// Reads a workload.
///
/// # Errors
/// If the text is no workload, or a figure is beyond its limit.
pub fn parse_workload(text: &str) -> Result<CacheWorkload, WorkloadFileError> {
    if text.len() > WORKLOAD_LEN_MAX {
        return Err(WorkloadFileError::TooLong(text.len()));
    }
    let file: WorkloadFile = toml::from_str(text)
        .map_err(|error| WorkloadFileError::Toml(error.to_string().trim_end().to_owned()))?;
    let workload = file.meant()?;
    workload.check()?;
    Ok(workload)
}

fn given(
    name: &'static str,
    figure: &Option<FigureInFile>,
) -> Result<Option<InputFigure>, WorkloadFileError> {
    let meant = |figure: &FigureInFile| figure.meant().map_err(|why| WorkloadFileError::Figure(name, why));
    figure.as_ref().map(meant).transpose()
}

/// A share has no range beyond 0 and 1.
fn share(
    name: &'static str,
    figure: &Option<FigureInFile>,
) -> Result<Option<InputFigure>, WorkloadFileError> {
    let clamped = |figure: InputFigure| match figure.value <= 1.0 {
        true => InputFigure { high: figure.high.min(1.0), ..figure },
        false => figure,
    };
    Ok(given(name, figure)?.map(clamped))
}

fn assumed((value, low, high): (f64, f64, f64), why: &str) -> InputFigure {
    InputFigure::assumed(value, low, high, why)
}

impl WorkloadFile {
    fn meant(self) -> Result<CacheWorkload, WorkloadFileError> {
        let Self { name, requests, items, latency, network, spare, backend, host, real_time } = self;
        let none = || assumed((0.0, 0.0, 0.0), "the file does not say any");
        let required =
            |name, figure: &FigureInFile| figure.meant().map_err(|why| WorkloadFileError::Figure(name, why));
        let key_bytes = required("key_bytes", &items.key_bytes)?;
        let value_bytes = required("value_bytes", &items.value_bytes)?;
        let per_item = key_bytes.value + value_bytes.value;
        let at_least_1 = |figure: InputFigure| match figure.value >= 1.0 {
            true => InputFigure { low: figure.low.max(1.0), ..figure },
            false => figure,
        };
        let refused = |name, why: &str| Err(WorkloadFileError::Figure(name, why.to_owned()));
        if name.chars().any(char::is_control) {
            return refused("name", "expected a text without control characters");
        }
        let zones = spare.zones.unwrap_or(ZONES);
        if spare.survive_zone == Some(true) && zones == 1 {
            return refused("survive_zone", "expected `zones` of 2 or more, found 1");
        }
        if spare.largest_zone_share.is_some_and(|share| share < 1.0 / f64::from(zones.max(1))) {
            return refused("largest_zone_share", "expected at least one part of as many as there are zones");
        }
        let one_zone = match spare.survive_zone {
            Some(true) => 1.0 / f64::from(zones.max(1)),
            _ => 0.0,
        };
        let hit_ratio = share("hit_ratio", &requests.hit_ratio)?;
        if hit_ratio.is_some() && !items.curve.is_empty() {
            return refused("hit_ratio", "expected either this or a `curve`, which says it, found both");
        }
        let count = items_of(&items, per_item)?;
        let of_curve = hits_of_curve(&items.curve, count.value * per_item);
        Ok(CacheWorkload {
            name,
            get: given("get", &requests.get)?.unwrap_or_else(none),
            set: given("set", &requests.set)?.unwrap_or_else(none),
            delete: given("delete", &requests.delete)?.unwrap_or_else(none),
            multiget: given("multiget", &requests.multiget)?.unwrap_or_else(none),
            multiget_keys: given("multiget_keys", &requests.multiget_keys)?.map_or_else(
                || assumed(MULTIGET_KEYS, "the median of Facebook's web servers, 2013"),
                at_least_1,
            ),
            pipeline: given("pipeline", &requests.pipeline)?
                .map_or_else(|| assumed(PIPELINE, "each request comes alone, which costs most"), at_least_1),
            hit_ratio: hit_ratio
                .or(of_curve)
                .unwrap_or_else(|| assumed(HIT_RATIO, "between those of published caches")),
            items: count,
            key_bytes,
            value_bytes,
            value_p99_bytes: items.value_p99_bytes,
            hot_items: share("hot_items", &items.hot_items)?,
            hot_hits: share("hot_hits", &items.hot_hits)?,
            miss_curve: items.curve,
            p99_ms: InputFigure::chosen(latency.p99_ms),
            tls_share: share("tls_share", &network.tls_share)?.unwrap_or_else(none),
            udp_share: share("udp_share", &network.udp_share)?.unwrap_or_else(none),
            connections: connections(&network)?,
            zones,
            spare_share: InputFigure::chosen(spare.largest_zone_share.unwrap_or(one_zone)),
            headroom: InputFigure::chosen(spare.headroom.unwrap_or(HEADROOM)),
            spike: given("spike", &requests.spike)?.map_or_else(
                || assumed(SPIKE, "the busiest second is that of the minute's mean"),
                at_least_1,
            ),
            backend_usd_per_million: given("usd_per_million_misses", &backend.usd_per_million_misses)?,
            is_real_time: real_time,
            unspread_queues: host.queues.filter(|_| !host.rps.unwrap_or(false)),
        })
    }
}

/// A client with more connections to one server than a process can have files.
const CONNECTIONS_EACH_MAX: f64 = 1e6;

/// The connections that each server has.
fn connections(network: &Network) -> Result<InputFigure, WorkloadFileError> {
    let refused = |why: String| Err(WorkloadFileError::Figure("connections_per_client", why));
    let each = network.connections_per_client.unwrap_or(1.0);
    let Some(clients) = given("clients", &network.clients)? else {
        return match network.connections_per_client {
            Some(_) => refused("expected `clients` beside it, found none".to_owned()),
            None => Ok(InputFigure::chosen(0.0)),
        };
    };
    if !(0.0..=CONNECTIONS_EACH_MAX).contains(&each) {
        return refused(format!("expected 0 to {CONNECTIONS_EACH_MAX}, found {each}"));
    }
    Ok(InputFigure {
        value: clients.value * each,
        low: clients.low * each,
        high: clients.high * each,
        ..clients
    })
}

/// The share of hits at so many bytes: on a line between two points of the curve, and as at its ends beyond them.
fn hits_of_curve(curve: &[(f64, f64)], bytes: f64) -> Option<InputFigure> {
    let above = curve.iter().position(|point| point.0 >= bytes);
    let ratio = match above {
        Some(0) => curve[0].1,
        Some(index) => {
            let ((from, low), (to, high)) = (curve[index - 1], curve[index]);
            low + (high - low) * (bytes - from) / (to - from)
        }
        None => curve.last()?.1,
    };
    let high = (ratio * (1.0 + fleet::advise::STATED_RANGE)).min(1.0);
    Some(InputFigure { high: high.max(ratio), ..InputFigure::stated(ratio) })
}

fn items_of(items: &Items, per_item: f64) -> Result<InputFigure, WorkloadFileError> {
    let counted = |bytes: InputFigure| InputFigure {
        value: bytes.value / per_item,
        low: bytes.low / per_item,
        high: bytes.high / per_item,
        ..bytes
    };
    match (given("count", &items.count)?, given("bytes", &items.bytes)?, items.curve.last()) {
        (Some(count), None, _) => Ok(count),
        (None, Some(bytes), _) => Ok(counted(bytes)),
        (None, None, Some((bytes, _))) => Ok(counted(InputFigure::stated(*bytes))),
        (Some(_), Some(_), _) => Err(WorkloadFileError::Items("both of the first two")),
        (None, None, None) => Err(WorkloadFileError::Items("none of them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MODERATE;

    #[track_caller]
    fn check_refused(from: &str, to: &str, expected: &str) {
        assert!(MODERATE.contains(from), "{from}");
        let error = parse_workload(&MODERATE.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn wrong_workloads_are_named() {
        check_refused("get = 900_000", "get = -1", "`get` is -1: expected 0 to 10000000000");
        check_refused("get = 900_000", "get = nan", "`get` is NaN: expected");
        check_refused("get = 900_000", "get = inf", "`get` is inf: expected");
        check_refused("get = 900_000", "gets = 1", "unknown field `gets`, expected one of `get`, `set`");
        check_refused("get = 900_000\nset = 100_000", "", "there are no requests");
        check_refused(
            "count = 1_000_000_000",
            "count = 1_000_000_000_000",
            "`count` is 1000000000000: expected 1 to 100000000000",
        );
        check_refused("count = 1_000_000_000", "", "found none of them");
        check_refused("count = 1_000_000_000", "count = 1\nbytes = 1", "found both of the first two");
        check_refused("key_bytes = 40", "key_bytes = 0", "`key_bytes` is 0: expected 1 to 250");
        check_refused("key_bytes = 40", "key_bytes = \"x\"", "expected a number, or {");
        check_refused(
            "value_bytes = 500",
            "value_bytes = { value = 500, low = 600 }",
            "`value_bytes` is 500 within 600 to",
        );
        check_refused("p99_ms = 1", "p99_ms = 0", "`p99_ms` is 0: expected");
        check_refused("p99_ms = 1", "p99_ms = 1\n[spare]\nzones = 0", "`zones` is 0: expected 1 to 16");
        check_refused(
            "p99_ms = 1",
            "p99_ms = 1\n[spare]\nheadroom = 75",
            "`headroom` is 75: expected 0.05 to 1",
        );
        check_refused(
            "p99_ms = 1",
            "p99_ms = 1\n[network]\ntls_share = 60",
            "`tls_share` is 60: expected 0 to 1",
        );
        check_refused("value_bytes = 500", "value_bytes = 500\nhot_items = 0.2", "are given together");
        check_refused(
            "value_bytes = 500",
            "value_bytes = 500\ncurve = [[2e9, 0.9], [1e9, 0.95]]",
            "rise from point to point",
        );
        check_refused("name = \"test\"", "", "missing field `name`");
        check_refused(
            "set = 100_000\n[items]",
            "set = 100_000\nhit_ratio = 0.9\n[items]\ncurve = [[1e9, 0.9]]",
            "expected either this or a `curve`",
        );
    }

    #[test]
    fn what_is_not_said_is_assumed_and_says_so() {
        let workload = crate::testing::moderate();
        assert_eq!(workload.hit_ratio.basis, fleet::advise::FigureBasis::Assumed);
        assert_eq!(workload.get, InputFigure::stated(900_000.0));
        assert_eq!((workload.zones, workload.spare_share.value), (1, 0.0));
    }

    #[test]
    fn a_curve_says_how_many_hits_the_items_have() {
        let hits = |count: &str| {
            let items = format!("count = {count}\ncurve = [[100e9, 0.8], [500e9, 0.9], [1000e9, 0.92]]");
            let text = MODERATE.replace("count = 1_000_000_000", &items);
            parse_workload(&text).expect("a workload").hit_ratio.value
        };
        // Of 540 bytes each.
        assert_eq!(hits("100_000_000"), 0.8);
        let between = hits("1_000_000_000");
        assert!((between - (0.9 + 0.02 * 40.0 / 500.0)).abs() < 1e-9, "{between}");
        assert_eq!(hits("4_000_000_000"), 0.92);
    }

    #[test]
    fn bytes_clients_and_zones_are_counted() {
        let text = MODERATE.replace("count = 1_000_000_000", "bytes = 540e9")
            + "[network]\nclients = 4_000\nconnections_per_client = 8\n[spare]\nzones = 4\nsurvive_zone = true\n";
        let workload = parse_workload(&text).expect("a workload");
        assert_eq!(workload.items.value, 1e9);
        assert_eq!(workload.connections.value, 32_000.0);
        assert_eq!(workload.spare_share.value, 0.25);
    }
}
