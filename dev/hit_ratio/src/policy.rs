//! The common side of all published policies.

use crate::trace::ReplayedRequest;

/// A cache that stores what it does not have.
pub(crate) trait PublishedPolicy {
    /// Whether it has the item of the request; otherwise it stores it.
    fn get(&mut self, request: &ReplayedRequest) -> bool;
}
