//! Clients of a worker: their windows, the memory that they share, and answers on their way out.
//!
//! What a request is, and where its answer comes from, is not known here.

use std::collections::VecDeque;
use std::sync::Arc;

use net::{CloseReason, Link, Next, Turn};
use stdx::clock::Now;

use super::held_memory::HeldMemory;
use super::state::{ArrivingBody, SpareBodies};
use super::{ClientWindow, ReplyBytes, SlotNumber, UNTAKEN_MAX, WindowMemory, share_of};
use crate::message::outcome::Outcome;
use crate::servers::destination::ReplyTarget;
use crate::shared::Settings;
use crate::slab::{Id, IdSlab};
use crate::stats::counted_pools::CountedPool;

/// Turns in which an answer waits for those to later requests of its client, to be sent with them. While any waits, the worker
/// only looks whether there is more to receive, and does not sleep: with a time of 250 µs instead, requests used as little
/// CPU, but clients with 16 requests in a pipeline got half as many answers per second.
const GATHERING_TURNS: u32 = 2;

/// The clients of a worker.
pub(crate) struct Clients {
    windows: IdSlab<ClientWindow>,
    /// Memory of the windows.
    memory: WindowMemory,
    spare_bodies: SpareBodies,
    /// Clients with answers that wait for later ones, and since which turn.
    gathering: VecDeque<(u32, Id)>,
    turn_number: u32,
    held: HeldMemory,
    /// A key of a multiget that fails is a miss.
    partial_multiget: bool,
    /// They go to another router, each when its requests have been answered: no request is begun.
    leaving: bool,
}

/// A client's request: its slot, and the part of it where it asks for several keys.
pub(crate) type RequestPart = (SlotNumber, u32);

impl Clients {
    pub(crate) fn new(settings: &Settings) -> Clients {
        Clients {
            windows: IdSlab::default(),
            memory: WindowMemory::default(),
            spare_bodies: SpareBodies::default(),
            gathering: VecDeque::new(),
            turn_number: 0,
            held: HeldMemory::new(settings.held_max),
            partial_multiget: settings.partial_multiget,
            leaving: false,
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.turn_number = self.turn_number.wrapping_add(1);
    }

    /// A client has connected.
    pub(crate) fn open(&mut self, link: Link) -> Id {
        self.windows.insert(ClientWindow::new(link))
    }

    /// A client is gone. Answers to its requests are dropped when they come.
    pub(crate) fn close(&mut self, client: Id) {
        self.windows.remove(client);
    }

    pub(crate) fn contains(&mut self, client: Id) -> bool {
        self.windows.get_mut(client).is_some()
    }

    /// From now on no request is begun, or all are read again.
    pub(crate) fn leave(&mut self, leaving: bool, turn: &mut Turn<Arc<[u8]>>) {
        self.leaving = leaving;
        if !leaving {
            let waiting: Vec<Id> =
                self.windows.iter().filter(|(_, window)| window.waits).map(|(id, _)| id).collect();
            waiting.into_iter().for_each(|client| self.wake_if_room(client, turn));
        }
    }

    /// A place in the client's window, for a request whose reply is answered.
    #[inline]
    pub(crate) fn slot_for(&mut self, client: Id, noreply: bool) -> ReplyTarget {
        match self.windows.get_mut(client) {
            Some(window) if noreply => ReplyTarget::Slot(client, window.open_silent_slot()),
            Some(window) => ReplyTarget::Slot(client, window.open_slot()),
            None => ReplyTarget::Nobody,
        }
    }

    /// A place for a `get` of several keys, until [`Clients::close_values`].
    pub(crate) fn open_values(&mut self, client: Id) -> Option<SlotNumber> {
        let window = self.windows.get_mut(client)?;
        Some(window.open_values(self.partial_multiget, &mut self.memory))
    }

    /// A place for the answer of one more key.
    pub(crate) fn add_part(&mut self, client: Id, slot: SlotNumber) -> Option<u32> {
        self.windows.get_mut(client).map(|window| window.add_part(slot))
    }

    /// More keys of a `get` line follow than have been routed.
    pub(crate) fn expect_keys(&mut self, client: Id) {
        if let Some(window) = self.windows.get_mut(client) {
            window.reads_keys = true;
        }
    }

    /// The line with the keys is not valid: this is the whole answer.
    pub(crate) fn refuse_values(&mut self, client: Id, slot: SlotNumber, line: &[u8]) {
        if let Some(window) = self.windows.get_mut(client) {
            window.refuse_values(slot, line);
        }
    }

    /// No more keys follow.
    pub(crate) fn close_values(&mut self, client: Id, slot: SlotNumber, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(window) = self.windows.get_mut(client)
            && let Some(output) = turn.output(window.link)
        {
            window.reads_keys = false;
            window.close_values(slot, output, &mut self.memory);
        }
        self.finish_if_idle(client, turn);
    }

    /// What happens to a client's input instead of being served; `None` if there is room for another request. `reads_keys`: it
    /// goes on with a line of keys.
    #[inline]
    pub(crate) fn held_up(&mut self, client: Id, reads_keys: bool) -> Option<Next> {
        let Some(window) = self.windows.get_mut(client) else {
            return Some(Next::Close(CloseReason::Normal));
        };
        if reads_keys && !window.has_room_for_keys() {
            return Some(Next::Close(CloseReason::Error));
        }
        // A line of keys that has begun is read to its end.
        if !window.has_room() || self.leaving && !reads_keys {
            window.waits = true;
            return Some(Next::Wait);
        }
        None
    }

    /// Memory for a body of `len` bytes behind the line `head`.
    pub(crate) fn take_body(&mut self, head: &[u8], len: usize) -> ArrivingBody {
        self.spare_bodies.take(head, len)
    }

    /// Keeps the memory of a body that was copied.
    pub(crate) fn keep_body(&mut self, body: ArrivingBody) {
        self.spare_bodies.keep(body);
    }

    /// A part of a body has arrived: so many bytes of memory are held for it.
    pub(crate) fn note_arriving(&mut self, client: Id, held: usize) {
        if let Some(window) = self.windows.get_mut(client) {
            window.arriving = held;
        }
    }

    /// A large value has arrived, of a request that is routed next.
    pub(crate) fn note_uploaded(&mut self, client: Id, len: usize) {
        if let Some(window) = self.windows.get_mut(client) {
            window.note_uploaded(len);
            window.arriving = 0;
        }
    }

    /// Closes a client that has sent something from which there is no way back. Its earlier requests are answered first.
    pub(crate) fn close_later(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) -> Next {
        let Some(window) = self.windows.get_mut(client) else { return Next::Close(CloseReason::Normal) };
        window.is_closing = true;
        if window.is_idle() {
            turn.close(window.link);
        }
        Next::Wait
    }

    /// Whether a client has all its answers.
    pub(crate) fn is_answered(&self, client: Id) -> bool {
        self.windows.get(client).is_some_and(|window| window.is_idle() && window.gathers_since.is_none())
    }

    /// A client sends no more. Whether it has requests without an answer, which it gets, and is closed then.
    pub(crate) fn close_when_answered(&mut self, client: Id) -> bool {
        let Some(window) = self.windows.get_mut(client) else { return false };
        window.is_closing |= !window.is_idle();
        window.is_closing
    }

    /// Answers a request.
    pub(crate) fn answer(
        &mut self,
        client: Id,
        slot: SlotNumber,
        answer: ReplyBytes<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let Some(window) = self.windows.get_mut(client) else { return };
        let link = window.link;
        let Some(output) = turn.output(link) else { return };
        self.held.note(answer.len());
        let is_large = matches!(answer, ReplyBytes::Gathered(_));
        if window.answer(slot, answer, output, &mut self.memory) && window.gathers_since.is_none() {
            window.gathers_since = Some(self.turn_number);
            self.gathering.push_back((self.turn_number, client));
        }
        if window.waits || window.is_closing {
            self.wake_if_room(client, turn);
            self.finish_if_idle(client, turn);
        }
        if is_large {
            self.close_if_untaken(client, turn);
        }
    }

    /// Answers one key of several.
    pub(crate) fn answer_part(
        &mut self,
        (client, slot, part): (Id, SlotNumber, u32),
        outcome: Outcome,
        answer: ReplyBytes<'_>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let Some(window) = self.windows.get_mut(client) else { return };
        let Some(output) = turn.output(window.link) else { return };
        self.held.note(answer.len());
        if outcome.is_error() {
            let line = match &answer {
                ReplyBytes::Copied(line) => line,
                ReplyBytes::Gathered(gathered) => gathered.front(),
            };
            window.fail_part(slot, line, output, &mut self.memory);
        } else {
            window.answer_part(slot, part, answer, output, &mut self.memory);
        }
        self.wake_if_room(client, turn);
        self.finish_if_idle(client, turn);
        self.close_if_untaken(client, turn);
    }

    /// Whether answers wait to be sent with later ones.
    pub(crate) fn gathers(&self) -> bool {
        !self.gathering.is_empty()
    }

    /// Sends answers that have been gathered for long enough.
    pub(crate) fn send_gathered(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some((since, client)) = self.gathering.front().copied()
            && self.turn_number.wrapping_sub(since) >= GATHERING_TURNS
        {
            self.gathering.pop_front();
            if let Some(window) = self.windows.get_mut(client)
                && window.gathers_since == Some(since)
                && let Some(output) = turn.output(window.link)
            {
                window.send_gathered(output, &mut self.memory);
                self.wake_if_room(client, turn);
            }
        }
    }

    /// Reads from a client again that waited for room.
    pub(crate) fn wake_if_room(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(window) = self.windows.get_mut(client)
            && window.waits
            && window.has_room()
        {
            window.waits = false;
            turn.wake(window.link);
        }
    }

    /// Closes a client that waits for its last answers only, once it has them.
    fn finish_if_idle(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(window) = self.windows.get_mut(client)
            && window.is_closing
            && window.is_idle()
        {
            turn.close(window.link);
        }
    }

    /// Closes a client that asks for large values and does not take them.
    fn close_if_untaken(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(window) = self.windows.get_mut(client)
            && turn.unsent(window.link) + window.parked() > UNTAKEN_MAX
        {
            turn.abort(window.link);
        }
    }

    /// A request is sent to a pool with statistics. The first one counts.
    pub(crate) fn note_pool(&mut self, client: Id, request: RequestPart, pool: CountedPool, begun: Now) {
        if let Some(window) = self.windows.get_mut(client) {
            window.pool_notes.note(request, pool, begun);
        }
    }

    /// The note of a request that has its answer.
    pub(crate) fn take_pool_note(&mut self, client: Id, request: RequestPart) -> Option<(CountedPool, Now)> {
        self.windows.get_mut(client)?.pool_notes.take(request)
    }

    /// So many bytes have arrived, for a client or from a server, that wait, or may.
    #[inline]
    pub(crate) fn note_held(&mut self, len: usize) {
        self.held.note(len);
    }

    /// Whether no large value is accepted now. One of `len` bytes is refused then.
    pub(crate) fn refuses_value(&mut self, len: usize) -> bool {
        if self.held.is_short() {
            // Time passes for the next look, too.
            self.held.note(len);
        }
        self.held.is_short()
    }

    /// Whether it is time to look at the memory that is held for requests and replies.
    #[inline]
    pub(crate) fn is_look_due(&self) -> bool {
        self.held.is_due()
    }

    /// Bytes of memory for requests and replies, at most.
    pub(crate) fn held_max(&self) -> usize {
        self.held.limit()
    }

    /// Bytes of memory that each client holds.
    pub(crate) fn held_by_each(&self, turn: &Turn<Arc<[u8]>>) -> Vec<(usize, Id)> {
        let held =
            |window: &ClientWindow| turn.unsent_memory(window.link, share_of) + window.memory(share_of);
        self.windows.iter().map(|(id, window)| (held(window), id)).collect()
    }

    /// Which of these clients to close while `held` bytes are held.
    pub(crate) fn heaviest(&self, held: usize, clients: Vec<(usize, Id)>) -> Vec<(usize, Id)> {
        self.held.to_close(held, clients)
    }

    /// The look at memory has been; so many bytes are held for servers. `again`: the next turn looks again.
    pub(crate) fn looked(&mut self, for_servers: usize, again: bool) {
        self.held.looked(for_servers, again);
    }

    /// Closes a client whatever it has not taken. False: it is gone already.
    pub(crate) fn abort(&mut self, client: Id, turn: &mut Turn<Arc<[u8]>>) -> bool {
        let Some(window) = self.windows.get_mut(client) else { return false };
        turn.abort(window.link);
        true
    }

    #[cfg(test)]
    pub(crate) fn windows(&self) -> &IdSlab<ClientWindow> {
        &self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> (Clients, Id) {
        let mut clients = Clients::new(&Settings::default());
        let client = clients.open(Link::default());
        (clients, client)
    }

    #[test]
    fn a_client_without_room_waits_and_one_that_is_gone_is_closed() {
        let (mut clients, client) = one();
        assert_eq!(clients.held_up(client, false), None);
        // As many as a connection may begin with.
        for _ in 0..16 {
            assert!(matches!(clients.slot_for(client, false), ReplyTarget::Slot(..)));
        }
        assert_eq!(clients.held_up(client, false), Some(Next::Wait));
        clients.close(client);
        assert_eq!(clients.held_up(client, false), Some(Next::Close(CloseReason::Normal)));
        assert_eq!(clients.slot_for(client, false), ReplyTarget::Nobody);
    }

    #[test]
    fn a_client_that_sends_no_more_is_kept_for_its_answers_only() {
        let (mut clients, client) = one();
        assert!(!clients.close_when_answered(client));
        clients.slot_for(client, true);
        assert!(clients.close_when_answered(client));
    }

    #[test]
    fn values_are_refused_while_most_memory_is_held_for_servers() {
        let (mut clients, _) = one();
        assert!(!clients.refuses_value(1));
        clients.looked(clients.held_max(), false);
        assert!(clients.refuses_value(1) && clients.is_look_due());
        clients.looked(0, false);
        assert!(!clients.refuses_value(1) && !clients.is_look_due());
    }
}
