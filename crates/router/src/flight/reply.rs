//! Replies of flights: the end of one, or of a part of it.

use crate::answer;
use crate::client::{HeldOutput, ReplyBytes};
use crate::destination::{ReplyKind, is_usual};
use crate::operation::Operation;
use crate::outcome::Outcome;

/// The end of a flight, or of a part of it.
pub(crate) struct FlightReply<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) answer: ReplyBytes<'a>,
}

impl FlightReply<'static> {
    /// The reply where no server is asked: an error, or as if there were no item.
    pub(crate) fn without_server(
        error: Option<(Outcome, &str)>,
        operation: Operation,
        expected: ReplyKind,
    ) -> FlightReply<'static> {
        if let Some((outcome, message)) = error {
            return FlightReply::error(outcome, message);
        }
        let outcome = answer::default_outcome(operation);
        let quiet = matches!(expected, ReplyKind::Meta { quiet: true, .. });
        let line = match quiet && is_usual(operation, outcome) {
            true => b"",
            false => answer::line(operation, outcome),
        };
        FlightReply { outcome, answer: ReplyBytes::Copied(line) }
    }

    /// An error with a message.
    pub(crate) fn error(outcome: Outcome, message: &str) -> FlightReply<'static> {
        let mut line = HeldOutput::default();
        answer::write_error(line.copied(), outcome, message);
        FlightReply { outcome, answer: ReplyBytes::Gathered(line) }
    }
}
