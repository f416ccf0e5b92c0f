//! Capacity that is left on hosts that run: readings of servers, controllers and Prometheus as states of hosts, and these as text and JSON.
//!
//! When something binds is decided in `fleet::advise::running`. Nothing here asks anybody: documents are arguments.

mod fleet_figures;
mod history;
mod limits;
mod page;
mod report;
mod seen;
mod server;

pub use fleet_figures::{FleetDocuments, fleet_clusters, fleet_groups};
pub use history::{HistoryQuery, HistorySubject, UseHistory, history_queries};
pub use limits::HostKnown;
pub use page::{HostCounters, ServerPageReading};
pub use report::{running_json, running_text};
pub use seen::{ServerSeen, server_seen};
pub use server::{ServerReadings, server_group};

use fleet::advise::running::HostUse;

/// Hosts that belong together: those of a cluster, or the one that was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningGroup {
    /// Of which cluster they are; none if no controller was asked.
    pub cluster: Option<String>,
    /// Its hosts.
    pub hosts: Vec<HostUse>,
}
