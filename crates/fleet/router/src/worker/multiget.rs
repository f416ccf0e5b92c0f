//! A `get` of several keys: one request to each server, also where the line is longer than a buffer.

use std::sync::Arc;

use net::Turn;
use protocol::Request;
use protocol::key::{Key, KeyRun, Step};
use protocol::request::Get;

use super::RouteWorker;
use super::requests::{LINE_END, around, first_step, offset};
use crate::client::SlotNumber;
use crate::client::state::{ClientState, LongGet, RequestProgress};
use crate::flight::FlightReply;
use crate::message::key::RoutedKey;
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::plan::{NodeId, RouteStep};
use crate::servers::destination::{ReplyKind, ReplyTarget};
use crate::slab::Id;

/// Keys of one line that are routed at once, to each server in one request. Of a longer line the rest follows as a client with
/// as many requests is read from: whoever asks for thousands of large values in one line does not get all of them in front of
/// what others ask for. Ten times the average of Facebook's pools (24).
const KEYS_AT_ONCE: usize = 256;

impl RouteWorker {
    /// A `get` of several keys: one request to each server.
    pub(super) fn route_keys(
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
        let partial = self.shared.settings.partial_multiget;
        let Some(client) = self.clients.get_mut(state.id) else { return RequestProgress::Close };
        let slot = client.open_values(partial, &mut self.memory);
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
        self.close_values(state.id, slot, turn);
        RequestProgress::Go(line.len())
    }

    fn close_values(&mut self, client: Id, slot: SlotNumber, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(state) = self.clients.get_mut(client)
            && let Some(output) = turn.output(state.link)
        {
            state.reads_keys = false;
            state.close_values(slot, output, &mut self.memory);
        }
        self.finish_if_idle(client, turn);
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
        let Some(state) = self.clients.get_mut(client) else { return };
        let part = state.add_part(slot);
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
        let is_sample = self.hot.count(routed.full, self.now);
        match first_step(&self.plan, &mut self.choices, operation, &routed) {
            RouteStep::Server { server, keep_prefix, .. } => {
                let place = (self.places[server.0 as usize], keep_prefix);
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
        self.keys.add(place, &mut self.destinations[place as usize].group, failover, span)
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
        let mut groups = std::mem::take(&mut self.keys.groups);
        for mut group in groups.drain(..) {
            self.destinations[group.place as usize].group = None;
            let target = ReplyTarget::Values(client, slot);
            let result = self.send_keys(group.place, (before, line), &group.keys, operation, target, turn);
            match (result, group.failover) {
                (Ok(()), Some(node)) => self.note_late_failover(group.place, node),
                (Ok(()), None) => {}
                (Err(not_sent), failover) => {
                    for key in &group.keys {
                        let reply = FlightReply::error(not_sent.outcome, &not_sent.message);
                        let target = ReplyTarget::Part(client, slot, key.part);
                        match failover.map(|node| self.late_failover(node)) {
                            Some(late) => {
                                let key = key.client_key(line);
                                self.fail_over(late, operation, key, target, reply, turn);
                            }
                            None => self.deliver_whole(target, operation, reply, turn),
                        }
                    }
                }
            }
            group.keys.clear();
            self.keys.spare.push(group);
        }
        self.keys.groups = groups;
    }

    pub(super) fn begin_long_get(&mut self, state: &mut ClientState, run: KeyRun) {
        let operation = if run.with_cas() { Operation::Gets } else { Operation::Get };
        if let Some(client) = self.clients.get_mut(state.id) {
            let slot = client.open_values(self.shared.settings.partial_multiget, &mut self.memory);
            self.set_run(state, LongGet { run, slot, operation });
        }
    }

    fn set_run(&mut self, state: &mut ClientState, run: LongGet) {
        state.run = Some(run);
        if let Some(client) = self.clients.get_mut(state.id) {
            client.reads_keys = true;
        }
    }

    /// Routes the keys of a long line that are there.
    pub(super) fn continue_long_get(
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
                    self.close_values(state.id, slot, turn);
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
                    if let (Err(line), Some(client)) = (outcome, self.clients.get_mut(state.id)) {
                        client.refuse_values(slot, line);
                    }
                    self.close_values(state.id, slot, turn);
                    return RequestProgress::Go(at);
                }
            }
        }
    }
}
