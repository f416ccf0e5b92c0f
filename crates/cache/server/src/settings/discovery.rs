//! Auto-discovery: the list of members that clients are told, and that another thread reads from a file.

use std::sync::{Arc, PoisonError};

use protocol::discovery::{DISCOVERY_KEY, DiscoveryState};

use crate::connection::output::Output;
use crate::shared::Shared;
use crate::worker::Worker;

/// Where the list of members is put.
pub struct DiscoveryBoard(pub(crate) Arc<Shared>);

impl DiscoveryBoard {
    /// Tells all workers.
    pub fn replace(&self, state: DiscoveryState) {
        if let Some(present) = &self.0.discovery {
            *present.write().unwrap_or_else(PoisonError::into_inner) = state;
        }
    }
}

impl Worker {
    /// Answers a `get` of the key that stands for the list, whatever item is stored under it: otherwise a client could send
    /// all others to servers of its choice. False: it is another key, or there is no list.
    #[cold]
    pub(crate) fn tell_members(&self, key: &[u8], output: &mut Output) -> bool {
        if key != DISCOVERY_KEY {
            return false;
        }
        let list = self.shared.discovery_list();
        if let Some(list) = &list {
            list.value(output.copied());
        }
        list.is_some()
    }
}
