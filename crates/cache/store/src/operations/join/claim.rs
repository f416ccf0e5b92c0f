//! Claims: they serialize joins to one key.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::{Mutex, lock};

/// The hashes of keys with a join under way, and whether that join waits for values that are being received.
#[derive(Debug, Default)]
pub(crate) struct Joins(Mutex<HashMap<u64, bool>>);

/// The exclusive right to join to a key, released on drop.
#[derive(Debug)]
pub(crate) struct Claim {
    joins: Arc<Joins>,
    hash: u64,
}

impl Claim {
    /// An error means that another join has the claim, and says whether that join waits.
    pub(super) fn take(joins: &Arc<Joins>, hash: u64) -> Result<Claim, bool> {
        let mut claimed = lock(&joins.0);
        match claimed.get(&hash) {
            Some(waits) => Err(*waits),
            None => {
                claimed.insert(hash, false);
                Ok(Claim { joins: Arc::clone(joins), hash })
            }
        }
    }

    pub(super) fn set_waits(&self, waits: bool) {
        lock(&self.joins.0).insert(self.hash, waits);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.joins.0).remove(&self.hash);
    }
}
