//! Pages over HTTP (`--metrics-listen`): metrics for Prometheus, readiness, statistics in JSON.

use std::sync::Arc;

use admin::Source;
use net::clock::Clock;
use net::{DriverChoice, View};
use router::RouterShared;

use super::reports::facts;

/// Where the pages come from.
pub(super) struct RoutePages {
    pub(super) shared: Arc<RouterShared>,
    pub(super) view: View,
    pub(super) clock: Clock,
    pub(super) workers: usize,
}

impl Source for RoutePages {
    fn metrics(&self) -> String {
        self.shared.metrics(&facts(self.clock), &self.view.counts())
    }

    fn readiness(&self) -> Result<(), String> {
        let runs = |worker: &usize| self.view.driver(*worker) != DriverChoice::Auto;
        match (0..self.workers).filter(runs).count() {
            all if all == self.workers => Ok(()),
            some => Err(format!("{some} of {} threads have started", self.workers)),
        }
    }

    fn report(&self, name: &str) -> Option<String> {
        match name {
            "stats" => Some(self.shared.statistics_json(&facts(self.clock), &self.view.counts())),
            "servers" => Some(self.shared.servers_json(&facts(self.clock))),
            "hot_keys" => self.shared.hot_keys_json(&facts(self.clock)),
            _ => None,
        }
    }
}
