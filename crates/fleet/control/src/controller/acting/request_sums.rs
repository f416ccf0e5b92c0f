//! Requests of clusters, views and pools, for a controller's metrics: never of single members, which Prometheus scrapes itself.

use std::collections::BTreeMap;

use fleet::figures::{ClusterCounts, FigureBook, LevelRow, ShadowCompared};
use fleet::{ClusterName, ViewName};
use stdx::clock::Now;

/// What is known of requests at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestSums {
    /// Servers and routers with figures.
    pub(crate) known: (usize, usize),
    /// By cluster.
    pub(crate) clusters: BTreeMap<ClusterName, ClusterCounts>,
    /// Comparisons with shadows, by view.
    pub(crate) shadows: BTreeMap<ViewName, ShadowCompared>,
    /// By view and pool.
    pub(crate) levels: Vec<LevelSums>,
    /// How often a view or pool was left out.
    pub(crate) levels_left_out: u64,
}

/// A view, or the servers of one of its pools.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LevelSums {
    pub(crate) view: ViewName,
    /// None for what clients asked.
    pub(crate) pool: Option<String>,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) timeouts: u64,
    /// In the last hour.
    pub(crate) availability_1h: Option<f64>,
}

impl RequestSums {
    /// Of all figures.
    pub(crate) fn of(book: &FigureBook, now: Now) -> RequestSums {
        let level = |row: LevelRow<'_>| LevelSums {
            view: row.view.clone(),
            pool: row.pool.map(str::to_owned),
            requests: row.requests,
            errors: row.errors,
            timeouts: row.timeouts,
            availability_1h: row.availability_1h,
        };
        RequestSums {
            known: book.known(),
            clusters: book.clusters().clone(),
            shadows: book.shadows().clone(),
            levels: book.levels(now).map(level).collect(),
            levels_left_out: book.levels_left_out(),
        }
    }
}
