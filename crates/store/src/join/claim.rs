//! Claims: joins to one key come one after the other.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::{Mutex, lock};

/// The keys that are joined to, by their hashes, and whether that waits for others that are being received.
#[derive(Debug, Default)]
pub(crate) struct Joins(Mutex<HashMap<u64, bool>>);

/// The right to join to one of them, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    joins: Arc<Joins>,
    hash: u64,
}

impl Claim {
    /// If another join has it: whether that one waits.
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
