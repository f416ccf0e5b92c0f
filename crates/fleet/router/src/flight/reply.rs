//! Replies of flights.

use crate::client::{HeldOutput, ReplyBytes};
use crate::message::answer;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::RoutedRequest;
use crate::servers::destination::{ReplyKind, is_usual};

/// The end of a flight, or of a part of it.
pub struct FlightReply<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) answer: ReplyBytes<'a>,
}

impl FlightReply<'_> {
    /// Its bytes, to be kept.
    pub(crate) fn into_output(self) -> HeldOutput {
        match self.answer {
            ReplyBytes::Gathered(output) => output,
            ReplyBytes::Copied(bytes) => {
                let mut output = HeldOutput::default();
                output.copy(bytes);
                output
            }
        }
    }
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

    /// The same for a whole request: a meta reply repeats its opaque and its key, if they were asked for.
    pub(crate) fn own(error: Option<(Outcome, &str)>, message: &RoutedRequest<'_>) -> FlightReply<'static> {
        let reply = FlightReply::without_server(error, message.operation, message.expected);
        let FlightReply { outcome, answer: ReplyBytes::Copied(line) } = reply else { return reply };
        if line.is_empty() || !message.operation.is_meta() {
            return FlightReply { outcome, answer: ReplyBytes::Copied(line) };
        }
        let mut output = HeldOutput::default();
        answer::write_meta(output.copied(), line, message.client_key(), message.after);
        FlightReply { outcome, answer: ReplyBytes::Gathered(output) }
    }

    /// An error with a message.
    pub(crate) fn error(outcome: Outcome, message: &str) -> FlightReply<'static> {
        let mut line = HeldOutput::default();
        answer::write_error(line.copied(), outcome, message);
        FlightReply { outcome, answer: ReplyBytes::Gathered(line) }
    }
}
