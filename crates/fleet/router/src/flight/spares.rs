//! Memory of requests that have ended, for later ones.

use crate::message::request::StoredRequest;

/// Requests whose memory is kept for later ones.
const SPARE_MAX: usize = 1024;

/// Requests without content.
#[derive(Default)]
pub(crate) struct Spares {
    requests: Vec<StoredRequest>,
}

impl Spares {
    /// An empty request.
    pub(crate) fn take(&mut self) -> StoredRequest {
        self.requests.pop().unwrap_or_default()
    }

    /// Keeps a request's memory for a later one.
    pub(crate) fn give(&mut self, mut request: StoredRequest) {
        if self.requests.len() < SPARE_MAX {
            request.clear();
            self.requests.push(request);
        }
    }
}
