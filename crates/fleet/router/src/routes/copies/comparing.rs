//! Replies that are compared: outcome, value and time of each.

use std::sync::Arc;

use stdx::clock::Now;

use crate::client::ReplyBytes;
use crate::flight::reply::FlightReply;
use crate::message::operation::{Operation, OperationClass};
use crate::message::outcome::Outcome;
use crate::plan::hash::murmur64a;
use crate::stats::shadow_counts::{ReplyDigest, ShadowCounts};

/// A comparison that waits for replies.
pub(crate) struct Comparing {
    counts: Arc<ShadowCounts>,
    begun: Now,
    normal: Option<ReplyDigest>,
    shadow: Option<ReplyDigest>,
}

impl Comparing {
    pub(crate) fn new(counts: Arc<ShadowCounts>, now: Now) -> Comparing {
        Comparing { counts, begun: now, normal: None, shadow: None }
    }

    /// A reply of the normal child (0) or of the shadow.
    pub(crate) fn note(&mut self, child: u16, operation: Operation, reply: &FlightReply<'_>, now: Now) {
        let latency_us = now.us.saturating_sub(self.begun.us);
        let value = value_of(operation, reply.outcome, &reply.answer);
        let digest = Some(ReplyDigest { outcome: reply.outcome, value, latency_us });
        match child {
            0 => self.normal = digest,
            _ => self.shadow = digest,
        }
        if let (Some(normal), Some(shadow)) = (self.normal, self.shadow) {
            self.counts.note(normal, shadow);
        }
    }
}

/// Size and hash of the value of a reply, if it is a get that found one.
fn value_of(operation: Operation, outcome: Outcome, answer: &ReplyBytes<'_>) -> Option<(usize, u64)> {
    if outcome != Outcome::Found || operation.class() != OperationClass::Get {
        return None;
    }
    let gathered;
    let bytes = match answer {
        ReplyBytes::Copied(bytes) => bytes,
        ReplyBytes::Gathered(output) => {
            gathered = output.to_vec();
            &*gathered
        }
    };
    let body = &bytes[memchr::memchr(b'\n', bytes)? + 1..];
    let body = if operation.has_values() { body.strip_suffix(b"END\r\n")? } else { body };
    let value = body.strip_suffix(b"\r\n")?;
    Some((value.len(), murmur64a(value, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_without_lines_and_keys() {
        let value =
            |operation, bytes: &'static [u8]| value_of(operation, Outcome::Found, &ReplyBytes::Copied(bytes));
        let found = value(Operation::Get, b"VALUE k 0 2\r\nhi\r\nEND\r\n");
        assert_eq!(found, Some((2, murmur64a(b"hi", 0))));
        assert_eq!(found, value(Operation::Gets, b"VALUE /a/b/k 7 2 5\r\nhi\r\nEND\r\n"));
        assert_eq!(found, value(Operation::MetaGet, b"VA 2 O1 f7\r\nhi\r\n"));
        assert_ne!(found, value(Operation::Get, b"VALUE k 0 2\r\nho\r\nEND\r\n"));
        assert_eq!(value(Operation::MetaGet, b"HD\r\n"), None);
        assert_eq!(value(Operation::Set, b"VALUE k 0 2\r\nhi\r\nEND\r\n"), None);
        let mut held = crate::client::HeldOutput::default();
        held.copy(b"VALUE k 0 2\r\n");
        held.hold(Arc::from(&b"hi"[..]));
        held.copy(b"\r\nEND\r\n");
        assert_eq!(found, value_of(Operation::Get, Outcome::Found, &ReplyBytes::Gathered(held)));
    }
}
