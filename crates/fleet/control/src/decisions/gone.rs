//! Hosts that have left the fleet for good: every controller forgets what their agents have said.

use fleet::HostId;
use serde::{Deserialize, Serialize};

use super::FleetDecisions;
use crate::register::RegisterError;

/// Hosts that are kept, the latest. A controller that reads the register once a minute misses none.
pub(crate) const GONE_MAX: usize = 256;

const GONE: &str = "gone";

/// A host that has left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GoneHost {
    /// Which. It may come back, and leave again.
    pub host: HostId,
    /// When, by the wall clock of the controller that was told: seconds since 1970.
    pub unix_s: i64,
}

impl FleetDecisions {
    /// Hosts that have left, the oldest first.
    ///
    /// # Errors
    /// If the register cannot be asked or believed.
    pub fn gone(&self) -> Result<Vec<GoneHost>, RegisterError> {
        Ok(self.list(GONE)?.0)
    }

    /// Adds hosts that have left. The oldest go when there are too many.
    ///
    /// # Errors
    /// If the register cannot be asked, or others change the list all the time.
    pub fn note_gone(&self, hosts: &[GoneHost]) -> Result<(), RegisterError> {
        let change = |list: &mut Vec<GoneHost>| {
            list.retain(|gone| hosts.iter().all(|host| host.host != gone.host));
            list.extend(hosts.iter().cloned());
        };
        self.change(GONE, GONE_MAX, change).map(drop)
    }
}
