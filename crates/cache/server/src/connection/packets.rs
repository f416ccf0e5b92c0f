//! Requests of the binary protocol on a connection: planned, executed, and what remains of them.

use net::CloseReason;
use protocol::binary::{BinaryParsed, BinaryRequest, ReplyStatus, parse, reply};
use store::{Key, NewValue};

use super::Connection;
use crate::commands::binary::{BinaryTail, Sasl, joins, plan};
use crate::commands::remaining::Remaining;
use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output};
use crate::connection::upload::Received;
use crate::settings::rights::needed_for_packet;
use crate::worker::{BATCH, Worker};

impl Connection {
    /// Serves whole requests. Returns how much input was consumed, and how to continue.
    pub(super) fn packets(
        &mut self,
        worker: &mut Worker,
        input: &[u8],
        output: &mut Output,
        turns_left: &mut usize,
    ) -> (usize, Flow) {
        // Fast path: one whole request needs no plan.
        if let BinaryParsed::Head { request, consumed } = parse(input)
            && consumed + request.value_len() == input.len()
            && self.sasl == Sasl::Open
        {
            let key = request.key().map(|key| worker.store.key(key));
            if worker.has_flash() && self.packet_waits(worker, &request, key) {
                return (0, Flow::Sleep);
            }
            *turns_left -= 1;
            let (head, value) = input.split_at(consumed);
            return match self.execute_packet(worker, &request, key, head, NewValue::Bytes(value), output) {
                None => (input.len(), Flow::Wait),
                Some(remaining) => (input.len(), self.settle(remaining)),
            };
        }
        let mut batch = [const { None }; BATCH];
        // The outcome of an authentication decides about the requests after it.
        let sasl = self.sasl;
        let room = if sasl == Sasl::Open { BATCH.min(*turns_left) } else { 1 };
        let (planned, tail) = plan(worker, sasl, input, &mut batch[..room]);
        let mut at = 0;
        if worker.has_flash() && sasl == Sasl::Open {
            self.read_packets_ahead(worker, &batch[..planned]);
        }
        for planned in batch[..planned].iter().flatten() {
            if worker.has_flash()
                && self.sasl == Sasl::Open
                && self.packet_waits(worker, &planned.request, planned.key)
            {
                return (at, Flow::Sleep);
            }
            *turns_left -= 1;
            let (head, value) = input[at..planned.end].split_at(planned.head_len);
            at = planned.end;
            let value = NewValue::Bytes(value);
            let remaining = self.execute_packet(worker, &planned.request, planned.key, head, value, output);
            if let Some(remaining) = remaining {
                return (at, self.settle(remaining));
            }
            if output.len() >= OUTPUT_MAX || self.sasl != sasl {
                return (at, Flow::Go);
            }
        }
        match tail {
            BinaryTail::Nothing => (at, if at == input.len() { Flow::Wait } else { Flow::Go }),
            BinaryTail::Head => (at, Flow::Wait),
            BinaryTail::NoRequest => (input.len(), Flow::Close(CloseReason::Error)),
            BinaryTail::Value { request, head_len }
                if self.refuses(worker, || needed_for_packet(&request)) =>
            {
                reply::error(output.copied(), request.reply_to, ReplyStatus::AuthError);
                (at + head_len, Flow::Swallow(request.value_len()))
            }
            BinaryTail::Value { request, head_len } => {
                let head = &input[at..at + head_len];
                let started = worker.start_binary_upload(&request, head, self.fd, output);
                (at + head_len, self.begin_body(started))
            }
        }
    }

    /// Executes a complete request, or begins to: a join may take several turns.
    #[inline]
    fn execute_packet(
        &mut self,
        worker: &mut Worker,
        request: &BinaryRequest<'_>,
        key: Option<Key<'_>>,
        head: &[u8],
        mut value: NewValue<'_>,
        output: &mut Output,
    ) -> Option<Remaining> {
        if self.refuses(worker, || needed_for_packet(request)) {
            reply::error(output.copied(), request.reply_to, ReplyStatus::AuthError);
            return None;
        }
        if let (Some(condition), Some(name)) = (joins(request), request.key()) {
            match worker.begin_join_to(name, condition, head, value) {
                Ok(joining) => return Some(Remaining::Join(Box::new(joining))),
                Err(at_once) => value = at_once,
            }
        }
        worker.execute_binary(&mut self.sasl, self.fd, request, key, value, output)
    }

    /// Executes the request whose value has arrived.
    pub(super) fn finish_packet(
        &mut self,
        worker: &mut Worker,
        head: &[u8],
        received: Received,
        output: &mut Output,
    ) -> Option<Remaining> {
        let mut small = Box::default();
        let value = received.into_value(&mut small);
        self.execute_packet(worker, &kept(head), None, head, value, output)
    }

    /// Executes the request of a head that was kept.
    pub(super) fn execute_kept(
        &mut self,
        worker: &mut Worker,
        head: &[u8],
        value: NewValue<'_>,
        output: &mut Output,
    ) -> Option<Remaining> {
        worker.execute_binary(&mut self.sasl, self.fd, &kept(head), None, value, output)
    }
}

/// The request of a head that was kept.
pub(super) fn kept(head: &[u8]) -> BinaryRequest<'_> {
    match parse(head) {
        BinaryParsed::Head { request, .. } => request,
        _ => unreachable!("the head was parsed before"),
    }
}
