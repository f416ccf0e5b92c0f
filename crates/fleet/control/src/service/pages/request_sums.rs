//! Families of requests: by cluster, by view, and by the pools of a view.

use fleet::figures::{ClusterCounts, ShadowCompared};
use stdx::exposition::{Exposition, FamilyKind};

use crate::controller::{LevelSums, RequestSums};

/// A family: its name, its help, and what of the sums it counts.
type Family<T> = (&'static str, &'static str, fn(&T) -> u64);

pub(super) fn write(text: &mut Exposition, sums: &RequestSums) {
    use FamilyKind::{Counter, Gauge};
    let (servers, routers) = sums.known;
    let mut known = text.family(
        "evenkeel_control_figures_members",
        Gauge,
        "Servers and routers whose agents tell figures.",
    );
    known.sample(&[("kind", "server")], servers);
    known.sample(&[("kind", "router")], routers);
    let of_clusters: [Family<ClusterCounts>; 3] = [
        (
            "evenkeel_control_cluster_requests_total",
            "Requests to members with a slot of the cluster, since this controller began.",
            |counts| counts.requests,
        ),
        ("evenkeel_control_cluster_hits_total", "Gets of them that found their item.", |counts| counts.hits),
        ("evenkeel_control_cluster_misses_total", "Gets of them that did not.", |counts| counts.misses),
    ];
    for (name, help, count) in of_clusters {
        let mut family = text.family(name, Counter, help);
        for (cluster, counts) in &sums.clusters {
            family.sample(&[("cluster", cluster.as_str())], count(counts));
        }
    }
    let of_views: [Family<LevelSums>; 2] = [
        (
            "evenkeel_control_view_requests_total",
            "Requests of clients to the routers of the view, since this controller began.",
            |level| level.requests,
        ),
        ("evenkeel_control_view_errors_total", "Those of them that were answered with an error.", |level| {
            level.errors
        }),
    ];
    for (name, help, count) in of_views {
        let mut family = text.family(name, Counter, help);
        for level in sums.levels.iter().filter(|level| level.pool.is_none()) {
            family.sample(&[("view", level.view.as_str())], count(level));
        }
    }
    let of_pools: [Family<LevelSums>; 3] = [
        (
            "evenkeel_control_pool_requests_total",
            "Requests of the view's routers to the servers of the pool, since this controller began.",
            |level| level.requests,
        ),
        (
            "evenkeel_control_pool_errors_total",
            "Those of them that were not answered well, whatever the reason.",
            |level| level.errors,
        ),
        (
            "evenkeel_control_pool_timeouts_total",
            "Those of the errors that were not answered in time.",
            |level| level.timeouts,
        ),
    ];
    for (name, help, count) in of_pools {
        let mut family = text.family(name, Counter, help);
        for level in &sums.levels {
            if let Some(pool) = &level.pool {
                family.sample(&[("view", level.view.as_str()), ("pool", pool)], count(level));
            }
        }
    }
    let mut availability = text.family(
        "evenkeel_control_view_availability",
        Gauge,
        "Share of the clients' requests of the last hour that were answered without an error; absent without requests.",
    );
    for level in sums.levels.iter().filter(|level| level.pool.is_none()) {
        if let Some(share) = level.availability_1h {
            availability.sample(&[("view", level.view.as_str())], share);
        }
    }
    let of_shadows: [Family<ShadowCompared>; 2] = [
        (
            "evenkeel_control_shadow_compared_total",
            "Replies that the view's routers compared with a shadow's, since this controller began.",
            |counts| counts.compared,
        ),
        ("evenkeel_control_shadow_differed_total", "Those of them that differed.", |counts| counts.differed),
    ];
    for (name, help, count) in of_shadows {
        let mut family = text.family(name, Counter, help);
        for (view, counts) in &sums.shadows {
            family.sample(&[("view", view.as_str())], count(counts));
        }
    }
    text.single(
        "evenkeel_control_figures_left_out_total",
        Counter,
        "How often a view or pool was not counted, because there are more than are kept.",
        sums.levels_left_out,
    );
}
