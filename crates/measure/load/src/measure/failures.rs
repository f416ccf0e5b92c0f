//! Failed requests, by kind.

use crate::types::error::Error;
use serde::{Deserialize, Serialize};
use std::io;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The reply was an error line, a wrong value, or a refusal to store.
    ErrorReply,
    /// No reply, or no connection to send it on, within `--timeout`.
    Timeout,
    /// The server closed the connection first.
    Closed,
    /// The connection broke first.
    Reset,
    /// A reply on its connection was no reply.
    Malformed,
    /// No whole reply came within `--udp-timeout`.
    LostDatagram,
    /// Of a closed loop: an attempt to open its connection failed.
    Unconnected,
    /// It was sent, and the run ended first.
    Unanswered,
    /// It was due, and never sent.
    Unsent,
}

/// Failed requests of the window, by kind. All requests of a connection that ends fail for the reason of its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failures {
    /// Answered, with an error line, a wrong value, or a refusal to store.
    pub error_replies: u64,
    /// Not answered within `--timeout`; of an open loop also those that waited as long for a connection with room.
    pub timeouts: u64,
    /// On their way when the server closed their connection.
    pub closed: u64,
    /// On their way when their connection broke: reset, unreachable, no longer encrypted.
    pub reset: u64,
    /// On their way when something that is no reply came on their connection.
    pub malformed: u64,
    /// Datagrams that no whole reply has come to within `--udp-timeout`.
    pub lost_datagrams: u64,
    /// Of a closed loop: attempts to open a connection that failed, of which a client would have told its user.
    pub unconnected: u64,
    /// Of an open loop: sent, and not answered within 2 s after the window.
    pub unanswered: u64,
    /// Of an open loop: due in the window, and never sent.
    pub unsent: u64,
}

impl Failures {
    pub(crate) fn add(&mut self, kind: FailureKind, requests: u64) {
        *self.of(kind) += requests;
    }

    pub(crate) fn add_all(&mut self, other: &Failures) {
        for kind in KINDS {
            let mut other = *other;
            *self.of(kind) += *other.of(kind);
        }
    }

    fn of(&mut self, kind: FailureKind) -> &mut u64 {
        match kind {
            FailureKind::ErrorReply => &mut self.error_replies,
            FailureKind::Timeout => &mut self.timeouts,
            FailureKind::Closed => &mut self.closed,
            FailureKind::Reset => &mut self.reset,
            FailureKind::Malformed => &mut self.malformed,
            FailureKind::LostDatagram => &mut self.lost_datagrams,
            FailureKind::Unconnected => &mut self.unconnected,
            FailureKind::Unanswered => &mut self.unanswered,
            FailureKind::Unsent => &mut self.unsent,
        }
    }

    /// Requests that were given up without a reply.
    pub(crate) fn lost(&self) -> u64 {
        self.timeouts + self.closed + self.reset + self.malformed + self.lost_datagrams
    }

    /// Those that failed with their connection, or with `--timeout`: a healthy server that keeps up has none.
    pub(crate) fn broken(&self) -> u64 {
        self.lost() - self.lost_datagrams + self.unconnected
    }

    /// Those that no reply was counted for.
    pub(crate) fn without_reply(&self) -> u64 {
        self.lost() + self.unconnected + self.unanswered + self.unsent
    }

    pub(crate) fn total(&self) -> u64 {
        self.error_replies + self.without_reply()
    }

    /// The share of requests that did not fail, beside so many that were answered; `None`: there was no request.
    pub(crate) fn availability(&self, answered: u64) -> Option<f64> {
        let all = answered + self.without_reply();
        (all > 0).then(|| answered.saturating_sub(self.error_replies) as f64 / all as f64)
    }

    /// Those that were given up or never answered, in words; empty without.
    pub(crate) fn told(&self) -> String {
        let told = [
            (self.timeouts, "timed out"),
            (self.closed, "closed by the server"),
            (self.reset, "reset"),
            (self.malformed, "with a malformed reply"),
            (self.unconnected, "without a connection"),
        ];
        let told = told.into_iter().filter(|(times, _)| *times > 0);
        told.map(|(times, what)| format!("{times} {what}")).collect::<Vec<_>>().join(", ")
    }
}

const KINDS: [FailureKind; 9] = [
    FailureKind::ErrorReply,
    FailureKind::Timeout,
    FailureKind::Closed,
    FailureKind::Reset,
    FailureKind::Malformed,
    FailureKind::LostDatagram,
    FailureKind::Unconnected,
    FailureKind::Unanswered,
    FailureKind::Unsent,
];

impl FailureKind {
    /// What has become of the requests of a connection that has ended so.
    pub(crate) fn of(error: &Error) -> FailureKind {
        match error {
            Error::Timeout { .. } => FailureKind::Timeout,
            Error::Reply { .. } => FailureKind::Malformed,
            Error::Broken { source, .. } if source.kind() != io::ErrorKind::UnexpectedEof => {
                FailureKind::Reset
            }
            Error::Handshake { .. } => FailureKind::Reset,
            _ => FailureKind::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn availability_is_the_share_of_all_requests_that_did_not_fail() {
        let failures = |kinds: &[FailureKind]| {
            let mut failures = Failures::default();
            kinds.iter().for_each(|kind| failures.add(*kind, 1));
            failures
        };
        let check = |kinds: &[FailureKind], answered, expected| {
            assert_eq!(failures(kinds).availability(answered), expected, "{kinds:?}");
        };
        check(&[], 0, None);
        check(&[], 3, Some(1.0));
        // An error line is a reply: its request is among the answered ones.
        check(&[FailureKind::ErrorReply], 4, Some(0.75));
        check(&KINDS, 2, Some(0.1));
        check(&[FailureKind::Unconnected], 0, Some(0.0));
        let mut sum = failures(&KINDS);
        sum.add_all(&failures(&[FailureKind::Reset]));
        assert_eq!((sum.reset, sum.total(), sum.lost()), (2, 10, 6));
    }
}
