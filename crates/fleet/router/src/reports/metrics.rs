//! Metrics of a running router in Prometheus' text format, for any thread.
//!
//! What the workers count is read, and none of them is asked for anything. Families with a server as a label have at most
//! [`SERVERS_SHOWN_MAX`] of them.

mod exporter;
mod ours;
pub(crate) mod server_figures;
mod shadows;

use stdx::exposition::Exposition;

use crate::reports::facts::ReportFacts;
use crate::shared::RouterShared;
use server_figures::AllServers;

impl RouterShared {
    /// All families: our own, then those of mcrouter_exporter. `network` is what the router's network has counted.
    pub fn metrics(&self, facts: &ReportFacts, network: &net::Counts) -> String {
        let (servers, mut text) = (AllServers::read(self), Exposition::default());
        ours::write(self, facts, network, &servers, &mut text);
        shadows::write(&self.plan().shadow_report(), &mut text);
        exporter::write(self, facts, &servers, &mut text);
        text.finish()
    }
}
