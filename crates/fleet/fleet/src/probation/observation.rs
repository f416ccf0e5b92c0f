//! Observations of a router: its process, its file, what it has loaded, its counts.

use serde::{Deserialize, Serialize};

use crate::TextDigest;

/// Fewer failed requests than this are no evidence: one server that restarts fails as many in a moment.
const ERRORS_MIN: u64 = 50;

/// A share of errors, in thousandths, that is normal where nothing is known: a router that had no traffic.
const UNKNOWN_PER_MILLE: u128 = 50;

/// Requests before a text that make a share of errors known.
const KNOWN_REQUESTS_MIN: u64 = 1_000;

/// A router at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterObservation {
    /// Its process: a value that differs when it was started again (its start time and number). `None` when none runs.
    pub process: Option<u64>,
    /// The digest that it answers with; `None` if it does not answer.
    pub loaded: Option<TextDigest>,
    /// The digest of its file; `None` if it cannot be read.
    pub file: Option<TextDigest>,
    /// Its counts, if it answers.
    pub counts: Option<RouterCounts>,
    /// Servers that it marks as unavailable.
    pub lost: Vec<LostServer>,
}

/// A server that a router marks as unavailable (TKO).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostServer {
    /// The router's name of it: it differs if the same server is asked in another way (protocol, TLS).
    pub name: String,
    /// It has answered a request since the router knows it by this name.
    pub has_answered: bool,
}

/// Requests that a router has answered, or the difference of two such counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterCounts {
    /// All.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Requests to servers that failed because the server was not reached or did not answer. A client may have been answered
    /// all the same (failover), so there may be more than `errors`.
    #[serde(default)]
    pub of_servers: u64,
}

impl RouterCounts {
    /// What was counted since `start`; `None` if the counts were reset.
    pub(super) fn since(self, start: RouterCounts) -> Option<RouterCounts> {
        let requests = self.requests.checked_sub(start.requests)?;
        let errors = self.errors.checked_sub(start.errors)?;
        let of_servers = self.of_servers.saturating_sub(start.of_servers);
        Some(RouterCounts { requests, errors, of_servers })
    }

    /// The rest without so many errors, or without all of them.
    pub(super) fn without(self, errors: u64) -> RouterCounts {
        let errors = errors.min(self.errors);
        let requests = self.requests.saturating_sub(errors);
        RouterCounts { requests, errors: self.errors - errors, ..self }
    }

    /// Whether the share of errors is more than twice that of `before`, or of a normal share if too little is known.
    pub(super) fn is_twice_as_bad(self, before: RouterCounts) -> bool {
        if self.errors < ERRORS_MIN {
            return false;
        }
        let (errors, requests) = (u128::from(self.errors), u128::from(self.requests.max(self.errors)));
        if before.requests < KNOWN_REQUESTS_MIN {
            return errors * 1000 > 2 * UNKNOWN_PER_MILLE * requests;
        }
        errors * u128::from(before.requests) > 2 * u128::from(before.errors) * requests
    }
}
