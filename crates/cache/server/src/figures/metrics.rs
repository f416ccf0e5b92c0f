//! Metrics of a running server, for any thread.
//!
//! A [`Monitor`] reads what the workers count, and asks none of them for anything: a worker that is busy, or has no CPU,
//! delays no scrape. Counts are those since the start: `stats reset` does not change them.

use std::sync::Arc;

use net::DriverChoice;
use serde_json::{Map, Value};
use stdx::clock::Now;
use stdx::exposition::Exposition;

use crate::shared::Shared;
use crate::worker::Worker;

mod exporter;
mod json;
mod ours;
mod statistics;

use statistics::Statistics;

/// Reads a server. Cheap to clone.
#[derive(Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
}

impl Monitor {
    pub(crate) fn new(shared: Arc<Shared>) -> Monitor {
        Monitor { shared }
    }

    /// Reads the server of a worker.
    pub fn of(worker: &Worker) -> Monitor {
        Monitor::new(Arc::clone(&worker.shared))
    }

    /// All families in Prometheus' text format: those of memcached_exporter, then our own.
    pub fn metrics(&self, now: Now) -> String {
        let (figures, mut text) = (self.shared.since_start(), Exposition::default());
        exporter::write(&Statistics::read(&self.shared, &figures, now), &mut text);
        ours::write(&self.shared, &figures, now, &mut text);
        text.finish()
    }

    /// The report `stats`: a JSON object.
    pub fn report(&self, now: Now) -> String {
        self.report_with(now, Map::new())
    }

    /// The same with further fields: what a process knows beside its server.
    pub fn report_with(&self, now: Now, beside: Map<String, Value>) -> String {
        let figures = self.shared.since_start();
        let statistics = Statistics::read(&self.shared, &figures, now);
        let mut report = json::report(&self.shared, &statistics, &figures, now);
        report.extend(beside);
        Value::Object(report).to_string()
    }

    /// Whether all workers serve; the error is a clause that says why not.
    pub fn readiness(&self) -> Result<(), String> {
        let threads = self.shared.options.threads;
        let runs = |worker: &usize| self.shared.network.driver(*worker) != DriverChoice::Auto;
        match (0..threads).filter(runs).count() {
            all if all == threads => Ok(()),
            some => Err(format!("{some} of {threads} workers have started")),
        }
    }
}
