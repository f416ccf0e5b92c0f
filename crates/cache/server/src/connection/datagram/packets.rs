//! Requests of the binary protocol in a datagram.

use protocol::binary::{BinaryCommand, BinaryParsed, ReplyStatus, ReplyTo, parse, reply};
use store::NewValue;

use super::{Flow, REPLY_MAX};
use crate::commands::binary::{Sasl, joins};
use crate::commands::remaining::Remaining;
use crate::connection::output::Output;
use crate::reports::Report;
use crate::worker::Worker;

impl Worker {
    /// Serves the requests of a datagram. Bytes that are no request, and what follows them, are not answered.
    pub(super) fn serve_packets(&mut self, datagram: &[u8], fd: i32, output: &mut Output) {
        let mut at = 0;
        while at < datagram.len() {
            let (to, flow) = match self.serve_packet(&datagram[at..], fd, output) {
                Some(served) => served,
                None => return,
            };
            if output.len() > REPLY_MAX {
                *output = Output::default();
                return reply::error(output.copied(), to, ReplyStatus::TooLarge);
            }
            match flow {
                Flow::Go(consumed) => at = at.saturating_add(consumed),
                Flow::End => return,
            }
        }
    }

    /// Serves the request that `input` starts with, if it does.
    fn serve_packet(&mut self, input: &[u8], fd: i32, output: &mut Output) -> Option<(ReplyTo, Flow)> {
        let BinaryParsed::Head { request, consumed } = parse(input) else { return None };
        let to = request.reply_to;
        let end = consumed + request.value_len();
        let Some(value) = input.get(consumed..end) else {
            reply::error(output.copied(), to, ReplyStatus::InvalidArguments);
            return Some((to, Flow::End));
        };
        if request.command == BinaryCommand::Discover {
            // A short question with a long answer; clients with auto-discovery use TCP.
            reply::error(output.copied(), to, ReplyStatus::UnknownCommand);
            return Some((to, Flow::Go(end)));
        }
        let mut value = NewValue::Bytes(value);
        if let (Some(condition), Some(name)) = (joins(&request), request.key()) {
            match self.begin_join_to(name, condition, &input[..consumed], value) {
                // Each attempt costs as much as many requests: one in a datagram.
                Ok(_) => {
                    reply::error(output.copied(), to, ReplyStatus::TooLarge);
                    return Some((to, Flow::End));
                }
                Err(at_once) => value = at_once,
            }
        }
        let is_open = &mut Sasl::Open;
        let flow = match self.execute_binary(is_open, fd, &request, None, value, output) {
            None => Flow::Go(end),
            Some(Remaining::Refused(swallowed)) => Flow::Go(end.saturating_add(swallowed)),
            Some(Remaining::Leave { to, status, .. }) => {
                reply::error(output.copied(), to, status);
                Flow::End
            }
            Some(Remaining::Report(report)) if matches!(*report, Report::Statistics(..)) => {
                if self.serve_report(*report, output) { Flow::Go(end) } else { Flow::End }
            }
            Some(Remaining::Report(_)) => {
                reply::error(output.copied(), to, ReplyStatus::UnknownCommand);
                Flow::Go(end)
            }
            Some(Remaining::Close(_) | Remaining::Keys { .. } | Remaining::Join(_) | Remaining::Watch) => {
                Flow::End
            }
        };
        Some((to, flow))
    }
}
