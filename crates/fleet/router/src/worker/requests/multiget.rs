//! A `get` of several keys: one request to each server, also where the line is longer than a buffer.

use std::sync::Arc;

use net::Turn;
use protocol::Request;
use protocol::key::{Key, KeyRun, Step};
use protocol::request::Get;

use crate::client::SlotNumber;
use crate::client::state::{ClientState, LongGet, RequestProgress};
use crate::flight::FlightReply;
use crate::message::key::RoutedKey;
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::request::{LINE_END, RequestBody, RoutedRequest, around, offset};
use crate::plan::{NodeId, RouteStep};
use crate::servers::destination::{ReplyKind, ReplyTarget};
use crate::slab::Id;
use crate::worker::RouteWorker;
use crate::worker::servers::{KeyLine, KeysNotSent};

/// Keys of one line that are routed at once, to each server in one request. Of a longer line the rest follows as a client with
/// as many requests is read from: whoever asks for thousands of large values in one line does not get all of them in front of
/// what others ask for. Ten times the average of Facebook's pools (24).
const KEYS_AT_ONCE: usize = 256;

impl RouteWorker {
    /// A `get` of several keys: one request to each server.
    pub(crate) fn route_keys(
        &mut self,
        state: &mut ClientState,
        get: &Get<'_>,
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) -> RequestProgress {
        if get.keys.any_too_long() {
            self.answer_now(state.id, protocol::reply::line::BAD_FORMAT, turn);
            return RequestProgress::Go(line.len());
        }
        let operation = Operation::of(&Request::Get(*get)).expect("a get has an operation");
        let Some(slot) = self.clients.open_values(state.id) else { return RequestProgress::Close };
        let mut before = line;
        let mut keys = get.keys.into_iter();
        for index in 0.. {
            if index == KEYS_AT_ONCE
                && keys.unread() > 0
                && matches!(operation, Operation::Get | Operation::Gets)
            {
                self.send_groups(state.id, slot, operation, before, line, turn);
                let run = KeyRun::resume(operation == Operation::Gets);
                self.set_run(state, LongGet { run, slot, operation });
                let line_end = if line.ends_with(LINE_END) { 2 } else { 1 };
                return RequestProgress::Go(line.len() - line_end - keys.unread());
            }
            let Some(key) = keys.next() else { break };
            let Ok(key) = key else { continue };
            if index == 0 {
                before = around(line, key.as_bytes()).0;
            }
            self.route_key(state.id, slot, operation, before, key, line, turn);
        }
        self.send_groups(state.id, slot, operation, before, line, turn);
        self.clients.close_values(state.id, slot, turn);
        RequestProgress::Go(line.len())
    }

    /// Notes one key of several for its server; or starts its flight.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn route_key(
        &mut self,
        client: Id,
        slot: SlotNumber,
        operation: Operation,
        before: &[u8],
        key: Key<'_>,
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let Some(part) = self.clients.add_part(client, slot) else { return };
        let routed = RoutedKey::new(key.as_bytes());
        let target = ReplyTarget::Part(client, slot, part);
        if self.is_about_router(operation, key.as_bytes(), target, turn) {
            return;
        }
        let message = RoutedRequest {
            operation,
            expected: ReplyKind::Values,
            before,
            key: routed,
            shown: &[],
            after: LINE_END,
            opaque: &[],
            body: RequestBody::None,
        };
        self.cells.request(operation);
        let is_sample = self.samples.count(routed.full, self.now);
        match self.plans.first_step(&mut self.choices, operation, &routed) {
            RouteStep::Server { server, keep_prefix, .. } => {
                let place = (self.plans.place(server), keep_prefix);
                if !self.answer_hot(place, &message, target, is_sample, turn)
                    && !self.add_to_group(place, None, &routed, part, line)
                    && let Err(not_sent) = self.send(place.0, &message, keep_prefix, target, turn)
                {
                    let reply = FlightReply::error(not_sent.outcome, &not_sent.message);
                    self.deliver_whole(target, operation, reply, turn);
                }
            }
            RouteStep::Answer(answer) => {
                let reply = FlightReply::without_server(answer, operation, ReplyKind::Values);
                self.deliver_whole(target, operation, reply, turn);
            }
            RouteStep::Compound(node, log) => match self.normal_place(node, operation, &routed) {
                Some(place) => {
                    if !self.answer_hot(place, &message, target, is_sample, turn)
                        && !self.add_to_group(place, Some(node), &routed, part, line)
                    {
                        self.send_normal(node, place, &message, target, turn);
                    }
                }
                None => self.fly(node, log, &message, target, turn),
            },
        }
        if !self.choices.shadows.is_empty() {
            self.fly_shadows(&message, turn);
        }
    }

    /// Notes a key for its destination. False: it is to be sent alone.
    fn add_to_group(
        &mut self,
        (place, keep_prefix): (u32, bool),
        failover: Option<NodeId>,
        key: &RoutedKey<'_>,
        part: u32,
        line: &[u8],
    ) -> bool {
        let cut = if keep_prefix { 0 } else { key.prefix_len as u8 };
        let span = KeySpan { start: offset(line, key.full) as u32, len: key.full.len() as u8, cut, part };
        self.keys.add(place, failover, span)
    }

    /// Sends the keys that were noted.
    fn send_groups(
        &mut self,
        client: Id,
        slot: SlotNumber,
        operation: Operation,
        before: &[u8],
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let groups = self.keys.take();
        for group in &groups {
            let request = KeyLine { operation, before, line, keys: &group.keys };
            let result = self.send_keys(group.place, request, (client, slot), turn);
            match (result, group.failover) {
                (Ok(()), Some(node)) => {
                    self.servers.note_late_failover(group.place, self.plans.late_failover(node));
                }
                (Ok(()), None) => {}
                (Err(KeysNotSent { why, sent }), failover) => {
                    for key in &group.keys[sent..] {
                        let reply = FlightReply::error(why.outcome, &why.message);
                        let target = ReplyTarget::Part(client, slot, key.part);
                        match failover.map(|node| self.plans.late_failover(node)) {
                            Some(late) => {
                                let key = key.client_key(line);
                                self.fail_over(late, operation, key, target, reply, turn);
                            }
                            None => self.deliver_whole(target, operation, reply, turn),
                        }
                    }
                }
            }
        }
        self.keys.keep(groups);
    }

    pub(crate) fn begin_long_get(&mut self, state: &mut ClientState, run: KeyRun) {
        let operation = if run.with_cas() { Operation::Gets } else { Operation::Get };
        if let Some(slot) = self.clients.open_values(state.id) {
            self.set_run(state, LongGet { run, slot, operation });
        }
    }

    fn set_run(&mut self, state: &mut ClientState, run: LongGet) {
        state.run = Some(run);
        self.clients.expect_keys(state.id);
    }

    /// Routes the keys of a long line that are there.
    pub(crate) fn continue_long_get(
        &mut self,
        state: &mut ClientState,
        input: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) -> RequestProgress {
        let Some(LongGet { mut run, slot, operation }) = state.run.take() else {
            return RequestProgress::More;
        };
        let before: &[u8] = if operation == Operation::Gets { b"gets " } else { b"get " };
        let (mut at, mut keys) = (0, 0);
        loop {
            if keys == KEYS_AT_ONCE {
                self.send_groups(state.id, slot, operation, before, input, turn);
                state.run = Some(LongGet { run, slot, operation });
                return RequestProgress::Go(at);
            }
            match run.step(&input[at..]) {
                Step::Key { key, .. } if memchr::memchr(0, key.as_bytes()).is_some() => {
                    self.send_groups(state.id, slot, operation, before, input, turn);
                    self.clients.close_values(state.id, slot, turn);
                    return self.refuse_line(state.id, turn);
                }
                Step::Key { key, consumed } => {
                    (at, keys) = (at + consumed, keys + 1);
                    self.route_key(state.id, slot, operation, before, key, input, turn);
                }
                Step::More { consumed } => {
                    at += consumed;
                    self.send_groups(state.id, slot, operation, before, input, turn);
                    state.run = Some(LongGet { run, slot, operation });
                    return if at == 0 { RequestProgress::More } else { RequestProgress::Go(at) };
                }
                Step::End { outcome, consumed } => {
                    at += consumed;
                    self.send_groups(state.id, slot, operation, before, input, turn);
                    if let Err(line) = outcome {
                        self.clients.refuse_values(state.id, slot, line);
                    }
                    self.clients.close_values(state.id, slot, turn);
                    return RequestProgress::Go(at);
                }
            }
        }
    }
}
