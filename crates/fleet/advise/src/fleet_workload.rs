//! Workloads of a fleet's clusters, from the figures that a controller has of their servers.

use std::collections::{BTreeMap, BTreeSet};

use fleet::advise::{CacheWorkload, InputFigure};
use serde_json::Value;

use crate::controller_answers::{FiguresAnswer, ServerRow, sum};
use crate::server_stats::{ITEM_OVERHEAD, ITEM_OVERHEAD_OURS, KEY_BYTES, RATE_RANGE};

/// What a controller cannot know.
#[derive(Clone, Debug, PartialEq)]
pub struct AroundFleet<'a> {
    /// One cluster, or all of them.
    pub cluster: Option<&'a str>,
    /// The busiest minute as a multiple of now.
    pub peak: f64,
    /// The latency that is wanted.
    pub p99_ms: f64,
    /// Zones; none: those that the cluster's servers are in.
    pub zones: Option<u32>,
    /// Whether the other zones carry everything when one is lost.
    pub survives_zone: bool,
    /// The share of each limit that may be used.
    pub headroom: f64,
}

/// Why figures are no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FleetWorkloadError {
    /// It is no answer of a controller.
    #[error("{0}")]
    NoAnswer(String),
    /// No cluster of this name has a server.
    #[error("no server of the cluster `{0}` has figures: expected one of {1}")]
    NoCluster(String, String),
    /// No server has a slot.
    #[error("no server of the fleet has a slot, or none has figures yet: agents tell them every 15 s")]
    NoServer,
    /// What is unknown of all servers of a cluster.
    #[error(
        "`{0}` of the cluster `{1}` is not known: its agents have told no figures of the last two minutes"
    )]
    Unknown(&'static str, String),
    /// A cluster that nobody uses.
    #[error("the cluster `{0}` has {1}: measure it under load, when it is filled")]
    Idle(String, &'static str),
    /// One zone of one.
    #[error(
        "the servers of the cluster `{0}` are in one zone: without a second one none can be lost (--survive-zone)"
    )]
    OneZone(String),
}

/// The workload of each cluster, by name.
///
/// # Errors
/// The first thing that keeps figures from being one.
pub fn fleet_workloads(
    figures: &Value,
    around: &AroundFleet<'_>,
) -> Result<Vec<CacheWorkload>, FleetWorkloadError> {
    let figures = FiguresAnswer::parse(figures).map_err(FleetWorkloadError::NoAnswer)?;
    let mut clusters: BTreeMap<&str, Vec<&ServerRow>> = BTreeMap::new();
    for row in &figures.servers {
        if let Some(cluster) = &row.cluster {
            clusters.entry(cluster).or_default().push(row);
        }
    }
    if clusters.is_empty() {
        return Err(FleetWorkloadError::NoServer);
    }
    if let Some(asked) = around.cluster.filter(|asked| !clusters.contains_key(asked)) {
        let names: Vec<&str> = clusters.into_keys().collect();
        return Err(FleetWorkloadError::NoCluster(asked.to_owned(), names.join(", ")));
    }
    let asked = clusters.into_iter().filter(|(name, _)| around.cluster.is_none_or(|asked| asked == *name));
    asked.map(|(name, rows)| workload(name, &rows, around)).collect()
}

/// Servers that store in this time have no items yet; both is said by the name of what is not there.
fn workload(
    name: &str,
    rows: &[&ServerRow],
    around: &AroundFleet<'_>,
) -> Result<CacheWorkload, FleetWorkloadError> {
    let known: Vec<_> = rows.iter().filter_map(|row| row.fresh()).collect();
    // Hashing gives each server a like share: those of which nothing is known are taken to be as the others.
    let all = rows.len() as f64 / known.len().max(1) as f64;
    let source = format!("figures of {} of {} servers", known.len(), rows.len());
    let figure = |what: &'static str, of: fn(&fleet::figures::ServerRates) -> Option<f64>| {
        let found = sum(&known, of).map(|sum| sum * all);
        found.ok_or_else(|| FleetWorkloadError::Unknown(what, name.to_owned()))
    };
    let rate = |value: f64| {
        let value = value * around.peak;
        InputFigure::measured(value, value * (1.0 - RATE_RANGE), value * (1.0 + RATE_RANGE), source.clone())
    };
    let exact = |value: f64| InputFigure::measured(value, value, value, source.clone());
    let (hits, misses) = (
        figure("hits_per_s", |rates| rates.hits_per_s)?,
        figure("misses_per_s", |rates| rates.misses_per_s)?,
    );
    let gets = hits + misses;
    let others = (figure("requests_per_s", |rates| rates.requests_per_s)? - gets).max(0.0);
    if gets + others <= 0.0 {
        return Err(FleetWorkloadError::Idle(name.to_owned(), "no requests now"));
    }
    let items = figure("items", |rates| rates.items)?;
    if items <= 0.0 {
        return Err(FleetWorkloadError::Idle(name.to_owned(), "no items"));
    }
    let bytes = figure("memory_used_bytes", |rates| rates.memory_used_bytes)?;
    // Only a server of ours has a page.
    let is_ours = rows.iter().all(|row| row.page.is_some());
    let overhead = if is_ours { ITEM_OVERHEAD_OURS } else { ITEM_OVERHEAD };
    let item_bytes = (bytes / items - overhead).max(1.0);
    let (key, key_low, key_high) = KEY_BYTES;
    let key = key.min((item_bytes / 2.0).max(1.0));
    let value = (item_bytes - key).max(0.0);
    // What kind of server it is is not known without a page: the header is that of either.
    let header = if is_ours { 0.0 } else { ITEM_OVERHEAD - ITEM_OVERHEAD_OURS };
    let zones = zones(name, rows, around)?;
    let connections = known.iter().filter_map(|rates| rates.connections).reduce(f64::max);
    Ok(CacheWorkload {
        name: format!("{name}, {} servers", rows.len()),
        get: rate(gets),
        set: InputFigure {
            // Deletes, touches and `incr` are among them; the figures of a fleet do not tell them apart.
            source: format!("{source}: what is no get counts as a set"),
            ..rate(others)
        },
        delete: exact(0.0),
        multiget: exact(0.0),
        multiget_keys: exact(1.0),
        pipeline: InputFigure::assumed(1.0, 1.0, 4.0, "no figure has it; each request alone costs most"),
        hit_ratio: match gets > 0.0 {
            true => exact(hits / gets),
            false => InputFigure::assumed(0.95, 0.8, 1.0, "there were no gets"),
        },
        key_bytes: InputFigure::assumed(key, key_low.min(key), key_high.max(key), "no figure has it"),
        value_bytes: InputFigure::measured(value, value * 0.95, value * 1.05 + header, source.clone()),
        value_p99_bytes: None,
        items: exact(items),
        hot_items: None,
        hot_hits: None,
        miss_curve: Vec::new(),
        p99_ms: InputFigure::chosen(around.p99_ms),
        tls_share: InputFigure::assumed(0.0, 0.0, 1.0, "no figure has it"),
        udp_share: exact(0.0),
        connections: match connections {
            Some(connections) => exact(connections),
            None => return Err(FleetWorkloadError::Unknown("connections", name.to_owned())),
        },
        zones,
        spare_share: InputFigure::chosen(if around.survives_zone { 1.0 / f64::from(zones) } else { 0.0 }),
        headroom: InputFigure::chosen(around.headroom),
        spike: InputFigure::assumed(1.0, 1.0, 2.0, "the busiest second is that of the minute's mean"),
        backend_usd_per_million: None,
        is_real_time: false,
        unspread_queues: None,
    })
}

fn zones(name: &str, rows: &[&ServerRow], around: &AroundFleet<'_>) -> Result<u32, FleetWorkloadError> {
    let found: BTreeSet<&str> = rows.iter().map(|row| row.zone.as_str()).collect();
    let zones = around.zones.unwrap_or(u32::try_from(found.len()).unwrap_or(u32::MAX));
    match around.survives_zone && zones < 2 {
        true => Err(FleetWorkloadError::OneZone(name.to_owned())),
        false => Ok(zones),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(id: &str, zone: &str, point: Value) -> Value {
        json!({"id": id, "host": "h", "zone": zone, "cluster": "web", "page": "10.0.0.1:9150", "points": [point]})
    }

    fn point(age_s: i64) -> Value {
        json!({"at_unix": 1, "age_s": age_s, "requests_per_s": 1100.0, "hits_per_s": 900.0, "misses_per_s": 100.0,
               "memory_used_bytes": 199_000.0, "items": 1000.0, "connections": 41.0})
    }

    const AROUND: AroundFleet<'static> = AroundFleet {
        cluster: None,
        peak: 2.0,
        p99_ms: 1.0,
        zones: None,
        survives_zone: true,
        headroom: 0.75,
    };

    #[test]
    fn a_cluster_is_the_sum_of_its_servers() {
        let figures = json!({"servers": [row("m1", "a", point(5)), row("m2", "b", point(5))]});
        let found = fleet_workloads(&figures, &AROUND).expect("a workload");
        let [web] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((web.name.as_str(), web.zones, web.spare_share.value), ("web, 2 servers", 2, 0.5));
        assert_eq!((web.get.value, web.set.value, web.hit_ratio.value), (4000.0, 400.0, 0.9));
        assert_eq!((web.items.value, web.key_bytes.value + web.value_bytes.value), (2000.0, 199.0 - 20.5));
        assert_eq!(web.connections.value, 41.0, "each client connects to every server");
        assert_eq!(web.check(), Ok(()));
    }

    #[test]
    fn servers_of_which_nothing_is_known_are_as_the_others_and_named() {
        let figures = json!({"servers": [row("m1", "a", point(5)), row("m2", "b", point(900))]});
        let web = &fleet_workloads(&figures, &AROUND).expect("a workload")[0];
        assert_eq!((web.get.value, web.get.source.as_str()), (4000.0, "figures of 1 of 2 servers"));
    }

    #[test]
    fn what_is_no_workload_is_named() {
        let check = |figures: &Value, around: &AroundFleet<'_>, expected: &str| {
            let error = fleet_workloads(figures, around).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        };
        let one = json!({"servers": [row("m1", "a", point(5))]});
        check(&one, &AROUND, "are in one zone");
        let near = AroundFleet { survives_zone: false, ..AROUND };
        check(
            &one,
            &AroundFleet { cluster: Some("ads"), ..near.clone() },
            "`ads` has figures: expected one of web",
        );
        check(&json!({"servers": []}), &near, "no server of the fleet has a slot");
        check(
            &json!({"servers": [row("m1", "a", point(500))]}),
            &near,
            "`hits_per_s` of the cluster `web` is not known",
        );
        let mut empty = point(5);
        empty["items"] = json!(0.0);
        check(&json!({"servers": [row("m1", "a", empty)]}), &near, "has no items");
        let mut idle = point(5);
        for name in ["requests_per_s", "hits_per_s", "misses_per_s"] {
            idle[name] = json!(0.0);
        }
        check(&json!({"servers": [row("m1", "a", idle)]}), &near, "has no requests now");
        check(&json!({}), &near, "understand the controller's figures");
    }
}
