//! Servers that a router has lost while a text is on probation, and the errors that such losses explain.
//!
//! A server that ends takes its share of the requests with it, whatever text the router has. A text with a wrong address looks
//! the same in the counts of errors. What tells them apart is the server: one that has answered this router under the same
//! name (address, protocol, TLS), or that the router had lost before the text came, is not the text's fault. One that never
//! answered is: while the router has lost one of those, no error is explained. Except for one that the router had before the
//! text, if another one is lost that is not the text's fault: it stands in for that one, as a gutter in a zone that is cut off.
//!
//! Errors are explained while the router marks such a server as unavailable, and until the look after that, because it may
//! have come back at any time in between. What the router counts at other times speaks against the text.

use std::collections::BTreeSet;

use stdx::clock::Now;

use super::observation::{RouterCounts, RouterObservation};

/// A router marks a server as unavailable at its first failure to connect, or after some timeouts. What has failed before is
/// counted before it is explained, so errors of servers wait for the next look (a second later, or some milliseconds while
/// another router of the host loads a text).
const DOUBT_MS: u64 = 500;

/// Losses during one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Servers whose loss is not the text's fault.
    known: BTreeSet<String>,
    /// Servers that the router had when the text came, whether it has asked them or not.
    had: BTreeSet<String>,
    /// At the last look, such servers were lost and no others.
    is_explained: bool,
    /// Errors since the text was loaded that are explained.
    explained: u64,
    /// Since when errors of servers are more than explained.
    doubted: Option<Now>,
}

impl Losses {
    /// When a text comes: what was lost before is known, and so is which servers the router had.
    pub(super) fn begin(latest: Option<&RouterObservation>, had: BTreeSet<String>) -> Losses {
        let lost = latest.into_iter().flat_map(|latest| &latest.lost);
        Losses { known: lost.map(|server| server.name.clone()).collect(), had, ..Losses::default() }
    }

    /// The router counts from nothing again: another process, or another text.
    pub(super) fn begin_again(&mut self) {
        let (known, had) = (std::mem::take(&mut self.known), std::mem::take(&mut self.had));
        *self = Losses { known, had, ..Losses::default() };
    }

    /// Whether the counts since the text was loaded speak against it.
    pub(super) fn blame(
        &mut self,
        seen: &RouterObservation,
        counts: RouterCounts,
        before: RouterCounts,
        now: Now,
    ) -> bool {
        let have_answered = seen.lost.iter().filter(|server| server.has_answered);
        self.known.extend(have_answered.map(|server| server.name.clone()));
        // Alone, it speaks against the text: new routes may send requests to a pool that nobody has used or can reach.
        let stands_in = seen.lost.iter().any(|server| self.known.contains(&server.name));
        if stands_in {
            let had = seen.lost.iter().filter(|server| self.had.contains(&server.name));
            self.known.extend(had.map(|server| server.name.clone()));
        }
        let has_stranger = seen.lost.iter().any(|server| !self.known.contains(&server.name));
        let is_explained = !has_stranger && !seen.lost.is_empty();
        if is_explained || self.is_explained && !has_stranger {
            self.explained = counts.of_servers.min(counts.errors);
        }
        self.is_explained = is_explained;
        let explained = if has_stranger { 0 } else { self.explained };
        if !counts.without(explained).is_twice_as_bad(before) {
            self.doubted = None;
            return false;
        }
        let doubted = *self.doubted.get_or_insert(now);
        has_stranger
            || counts.without(counts.of_servers).is_twice_as_bad(before)
            || now.ms().saturating_sub(doubted.ms()) >= DOUBT_MS
    }
}
