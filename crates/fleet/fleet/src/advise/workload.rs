//! A workload: what a cluster of cache servers is asked for, in its busiest minute.

use super::InputFigure;

/// Requests per second of one class, at most: fifty times the largest fleet that has been published.
pub const RATE_MAX: f64 = 1e10;
/// Items of one workload, at most: beyond, it is several clusters. The largest published fleet has some 4 × 10¹¹ in 70 clusters.
pub const ITEMS_MAX: f64 = 1e11;
/// Bytes of a value, at most: the largest `-I` that a server takes.
const VALUE_BYTES_MAX: f64 = (1_u64 << 30) as f64;
/// Bytes of a key, at most, as in memcached's protocol.
const KEY_BYTES_MAX: f64 = 250.0;
/// Keys of one multiget, at most: longer lines are cut by clients.
const MULTIGET_KEYS_MAX: f64 = 10_000.0;
/// Requests that one client sends together on one connection, at most: what a worker serves in one turn of a connection.
const PIPELINE_MAX: f64 = 256.0;
/// Milliseconds of a latency target, at most: a cache that takes longer is no cache.
const P99_MS_MAX: f64 = 10_000.0;
/// Connections of one server, at most: more than there are file descriptors.
const CONNECTIONS_MAX: f64 = 1e7;
/// Points of a miss curve, at most: each is a cluster of its own to compute, for each figure that is changed. A smooth curve has no more.
const CURVE_POINTS_MAX: usize = 100;
/// Zones, at most.
const ZONES_MAX: u32 = 16;

/// A workload. Shares are from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheWorkload {
    /// Its name.
    pub name: String,
    /// Gets of one key per second.
    pub get: InputFigure,
    /// Sets per second; other commands that store count as sets.
    pub set: InputFigure,
    /// Deletes and touches per second.
    pub delete: InputFigure,
    /// Gets of several keys per second.
    pub multiget: InputFigure,
    /// Keys of one of them.
    pub multiget_keys: InputFigure,
    /// Requests that arrive together on one connection, on average.
    pub pipeline: InputFigure,
    /// The share of keys asked for that are found.
    pub hit_ratio: InputFigure,
    /// Bytes of a key.
    pub key_bytes: InputFigure,
    /// Bytes of a value, on average.
    pub value_bytes: InputFigure,
    /// The 99th percentile of the bytes of values.
    pub value_p99_bytes: Option<f64>,
    /// Items to keep.
    pub items: InputFigure,
    /// The share of the items that is used so often that memory has to serve it.
    pub hot_items: Option<InputFigure>,
    /// The share of hits that these items take.
    pub hot_hits: Option<InputFigure>,
    /// Bytes of items, and the share of gets that are hits with so many: rising in both.
    pub miss_curve: Vec<(f64, f64)>,
    /// The 99th percentile of latency in the server that is wanted, in milliseconds.
    pub p99_ms: InputFigure,
    /// The share of requests over TLS.
    pub tls_share: InputFigure,
    /// The share of gets over UDP.
    pub udp_share: InputFigure,
    /// Connections of each server: those of one client times the clients, since each client connects to every server.
    pub connections: InputFigure,
    /// Zones over which the servers are spread.
    pub zones: u32,
    /// The share of the servers that may be lost at once, while the others carry everything.
    pub spare_share: InputFigure,
    /// The share of each limit that the busiest minute may use.
    pub headroom: InputFigure,
    /// The busiest second as a multiple of the busiest minute.
    pub spike: InputFigure,
    /// What a million misses cost the backend, in USD.
    pub backend_usd_per_million: Option<InputFigure>,
    /// Whether the servers' threads have real-time priority.
    pub is_real_time: bool,
    /// Queues of a host's network card, if they are fewer than its CPUs and packets are not spread (RPS): each is served by one CPU.
    pub unspread_queues: Option<u32>,
}

/// Why a workload cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A figure out of its limits.
    #[error("`{what}` is {found}: expected {least} to {most}")]
    Limit {
        /// Which.
        what: &'static str,
        /// Its value, or an end of its range.
        found: f64,
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// A range that does not contain its value.
    #[error("`{what}` is {value} within {low} to {high}: expected 0 ≤ low ≤ value ≤ high")]
    Range {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The low end.
        low: f64,
        /// The high end.
        high: f64,
    },
    /// No request of any class.
    #[error("there are no requests: expected a rate above 0 for at least one of get, set, delete, multiget")]
    Idle,
    /// One of a pair is missing.
    #[error(
        "`hot_items` and `hot_hits` are given together: how many items memory has to serve, and the share of hits that they take"
    )]
    HalfHot,
    /// A curve that falls.
    #[error(
        "the miss curve: expected bytes and hit ratios that rise from point to point, found {0} bytes with {1}"
    )]
    Curve(f64, f64),
    /// A curve that is too long.
    #[error("the miss curve has {0} points: at most {CURVE_POINTS_MAX} are accepted")]
    CurveLength(usize),
    /// A host without a queue.
    #[error("`queues` is 0: expected 1 or more")]
    NoQueue,
    /// Zones.
    #[error("`zones` is {0}: expected 1 to {ZONES_MAX}")]
    Zones(u32),
}

impl CacheWorkload {
    /// Checks every figure against its limits.
    ///
    /// # Errors
    /// The first that is beyond one.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let share = (0.0, 1.0);
        let mut figures: Vec<(&'static str, &InputFigure, (f64, f64))> = vec![
            ("get", &self.get, (0.0, RATE_MAX)),
            ("set", &self.set, (0.0, RATE_MAX)),
            ("delete", &self.delete, (0.0, RATE_MAX)),
            ("multiget", &self.multiget, (0.0, RATE_MAX)),
            ("multiget_keys", &self.multiget_keys, (1.0, MULTIGET_KEYS_MAX)),
            ("pipeline", &self.pipeline, (1.0, PIPELINE_MAX)),
            ("hit_ratio", &self.hit_ratio, share),
            ("key_bytes", &self.key_bytes, (1.0, KEY_BYTES_MAX)),
            ("value_bytes", &self.value_bytes, (0.0, VALUE_BYTES_MAX)),
            ("count", &self.items, (1.0, ITEMS_MAX)),
            ("p99_ms", &self.p99_ms, (P99_MS_MIN, P99_MS_MAX)),
            ("tls_share", &self.tls_share, share),
            ("udp_share", &self.udp_share, share),
            ("clients", &self.connections, (0.0, CONNECTIONS_MAX)),
            ("largest_zone_share", &self.spare_share, (0.0, SPARE_SHARE_MAX)),
            ("headroom", &self.headroom, (HEADROOM_MIN, 1.0)),
            ("spike", &self.spike, (1.0, SPIKE_MAX)),
        ];
        figures.extend(self.hot_items.as_ref().map(|hot| ("hot_items", hot, share)));
        figures.extend(self.hot_hits.as_ref().map(|hot| ("hot_hits", hot, share)));
        let backend = self.backend_usd_per_million.as_ref();
        figures.extend(backend.map(|usd| ("usd_per_million_misses", usd, (0.0, BACKEND_USD_MAX))));
        figures.into_iter().try_for_each(|(what, figure, limits)| checked(what, figure, limits))?;
        if let Some(p99) = self.value_p99_bytes {
            within("value_p99_bytes", p99, (self.value_bytes.value, VALUE_BYTES_MAX))?;
        }
        if self.requests() <= 0.0 {
            return Err(WorkloadError::Idle);
        }
        if self.hot_items.is_some() != self.hot_hits.is_some() {
            return Err(WorkloadError::HalfHot);
        }
        if self.unspread_queues == Some(0) {
            return Err(WorkloadError::NoQueue);
        }
        if !(1..=ZONES_MAX).contains(&self.zones) {
            return Err(WorkloadError::Zones(self.zones));
        }
        self.check_curve()
    }

    fn check_curve(&self) -> Result<(), WorkloadError> {
        if self.miss_curve.len() > CURVE_POINTS_MAX {
            return Err(WorkloadError::CurveLength(self.miss_curve.len()));
        }
        let mut before = (0.0, 0.0);
        for &(bytes, ratio) in &self.miss_curve {
            let is_higher = bytes > before.0 && bytes.is_finite() && (before.1..=1.0).contains(&ratio);
            if !is_higher {
                return Err(WorkloadError::Curve(bytes, ratio));
            }
            before = (bytes, ratio);
        }
        Ok(())
    }

    /// Requests per second of all classes.
    pub fn requests(&self) -> f64 {
        self.get.value + self.set.value + self.delete.value + self.multiget.value
    }

    /// Keys that are asked for per second.
    pub fn keys_read(&self) -> f64 {
        self.get.value + self.multiget.value * self.multiget_keys.value
    }
}

/// A request takes some microseconds of CPU time, whatever its queue.
const P99_MS_MIN: f64 = 0.001;
/// More than this share of the servers as spare would be a second fleet.
pub(super) const SPARE_SHARE_MAX: f64 = 0.9;
/// Less than this share of a limit is a typing error for a share in percent.
const HEADROOM_MIN: f64 = 0.05;
/// A second with a hundred times the minute's rate is no rate.
const SPIKE_MAX: f64 = 100.0;
/// A miss for a dollar is no cache's.
const BACKEND_USD_MAX: f64 = 1e6;

fn checked(what: &'static str, figure: &InputFigure, limits: (f64, f64)) -> Result<(), WorkloadError> {
    let InputFigure { value, low, high, .. } = *figure;
    within(what, value, limits)?;
    match low <= value && value <= high && low >= 0.0 {
        true => Ok(()),
        false => Err(WorkloadError::Range { what, value, low, high }),
    }
}

/// NaN is in no range.
fn within(what: &'static str, found: f64, (least, most): (f64, f64)) -> Result<(), WorkloadError> {
    match (least..=most).contains(&found) {
        true => Ok(()),
        false => Err(WorkloadError::Limit { what, found, least, most }),
    }
}
