//! Warm upgrade of servers on Kubernetes: the pods of a StatefulSet get another image, or other flags, one after another.
//!
//! Kubernetes restarts a container in place when the image of its running pod is changed: the pod keeps its address and its volumes,
//! and so the file with the items (`serve -e`). Each server is asked before how many items it has, and after whether it has them
//! back; the first that has not ends the upgrade.
//!
//! ```text
//!  walk      for each pod, until it is as wanted:  look ──► decide ──► act
//!            look    pod (pod_facts) by the API server (api), items and flags by the server's page (server_page)
//!            decide  decision: a pure function of what was seen
//!            act     one patch: the image, and with it a record of what the server had (record)
//! ```
//!
//! Nothing is remembered in the process: what has begun is written in the pod by the same patch that begins it. So an upgrade that was
//! ended at any moment goes on when it is run again, and no server is restarted twice for it.

mod api;
mod api_place;
mod decision;
mod fields;
mod image;
mod outcome;
mod pod_facts;
mod record;
mod server_page;
mod walk;
mod wanted;

pub use api::{ApiFault, ApiServer};
pub use api_place::{ApiPlace, InClusterError};
pub use outcome::{PodEnding, PodOutcome, UpgradeHalt, UpgradeOutcome, UpgradeResult};
pub use walk::{UpgradeOptions, warm_upgrade};
