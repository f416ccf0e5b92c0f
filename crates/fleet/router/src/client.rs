//! Clients: the window of requests that have no answer yet, and answers in the order of requests.

pub(crate) mod clients;
mod held_memory;
mod parked;
pub(crate) mod state;
mod values;

use std::collections::VecDeque;
use std::sync::Arc;

use net::Link;
use stdx::gather::Gather;

use crate::stats::pool_notes::PoolNotes;
use parked::{ParkedAnswer, ParkedAnswers, WindowMemory};
use values::{CollectedValues, PART_SIZE};

/// Bytes for a socket. Large values are held.
pub(crate) type HeldOutput = Gather<Arc<[u8]>>;

/// The bytes that a held piece counts for one of those who hold it: reports may be on their way to many clients, and values to
/// several servers.
pub(crate) fn share_of(held: &Arc<[u8]>) -> usize {
    held.len() / Arc::strong_count(held).max(1)
}

/// Requests of a client without an answer. A client that sends more is not read from until the first has its answer.
pub(crate) const WINDOW_MAX: usize = 1024;

/// Bytes of answers that wait for an earlier one, and of answers that the client has not taken, beyond which it is not
/// read from.
pub(crate) const PARKED_MAX: usize = 1 << 20;

/// Bytes of answers that could be sent, but wait for those to later requests, so that one packet takes them all: what a
/// connection's buffer in `net` takes. More are sent at once.
const GATHERED_MAX: usize = 16 << 10;

/// Bytes of the same beyond which the client is closed: one that asked for many large values at once and takes none.
pub(crate) const UNTAKEN_MAX: usize = 256 << 20;

/// Bytes of large values in requests without an answer, from which on a client is not read from:
/// as memcached reads no further before it has stored a value. Otherwise one that sends many would fill what a server
/// has to take, and others' requests would be refused.
pub(crate) const UPLOADED_MAX: usize = 1 << 20;

/// Bytes of replies that a client may wait for, by the length of those that it had. One that has asked for more is not read from:
/// on their way to it, its large values would keep those of others waiting behind them on the servers' connections. Four
/// values of memcached's usual limit, or a whole window of 4 KiB each.
const AWAITED_MAX: usize = 4 << 20;

/// Length of a reply before there was one: a connection may begin with 16 requests at once. If these are for large values, they
/// are in front of what others ask the same servers for.
const REPLY_LEN_FIRST: u32 = 256 << 10;

/// The longest value that is accepted from a client or a server.
pub(crate) const VALUE_MAX: usize = 128 << 20;

/// The place of a request in its client's window: counted from the first request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotNumber(u32);

/// A client's connection.
pub(crate) struct ClientWindow {
    link: Link,
    slots: VecDeque<Slot>,
    /// The number of the first slot.
    first: u32,
    /// Slots without a whole answer.
    unanswered: usize,
    /// The same, with each key of a `get` counted.
    awaited: u32,
    /// Length of its replies, lately.
    reply_len: u32,
    /// A `get` line of which only some keys have been routed.
    reads_keys: bool,
    answers: ParkedAnswers,
    /// For statistics of pools: by the slot and the part of a request; the part is 0 where there is one.
    pool_notes: PoolNotes<(SlotNumber, u32)>,
    /// Bytes of answers that wait for an earlier one, or are gathered.
    parked: usize,
    /// The turn in which the first of the answers came that are gathered.
    gathers_since: Option<u32>,
    /// Bytes of memory for a value that is being received.
    arriving: usize,
    /// Bytes of large values that it has sent since it last had no request without an answer.
    uploaded: usize,
    /// It returned [`net::Next::Wait`], and is to be woken.
    waits: bool,
    /// It is closed once all its requests have been answered.
    is_closing: bool,
}

/// A request's place in the order of answers.
enum Slot {
    Waiting,
    /// The same, for a request with `noreply`: its answer is not sent.
    Silent,
    Copied(ParkedAnswer),
    Held(Box<HeldOutput>),
    Values(Box<CollectedValues>),
}

/// An answer on its way to a slot.
pub(crate) enum ReplyBytes<'a> {
    Copied(&'a [u8]),
    Gathered(HeldOutput),
}

impl ReplyBytes<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            ReplyBytes::Copied(bytes) => bytes.len(),
            ReplyBytes::Gathered(gathered) => gathered.len(),
        }
    }

    fn write(self, output: &mut HeldOutput) {
        match self {
            ReplyBytes::Copied(bytes) => output.copy(bytes),
            ReplyBytes::Gathered(gathered) => output.append(gathered),
        }
    }
}

impl ClientWindow {
    pub(crate) fn new(link: Link) -> ClientWindow {
        ClientWindow {
            link,
            slots: VecDeque::new(),
            first: 0,
            unanswered: 0,
            awaited: 0,
            reply_len: REPLY_LEN_FIRST,
            reads_keys: false,
            gathers_since: None,
            answers: ParkedAnswers::default(),
            pool_notes: PoolNotes::default(),
            parked: 0,
            arriving: 0,
            uploaded: 0,
            waits: false,
            is_closing: false,
        }
    }

    /// Whether there is room for another request.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        if self.awaited as usize * self.reply_len as usize >= AWAITED_MAX {
            return false;
        }
        self.reads_keys
            || self.slots.len() < WINDOW_MAX
                && self.parked <= PARKED_MAX
                && (self.uploaded < UPLOADED_MAX || self.slots.is_empty())
    }

    /// A request, or a key of several, has its reply.
    #[inline]
    fn note_reply(&mut self, len: usize) {
        self.awaited -= 1;
        let (len, mean) = (len.min(VALUE_MAX) as u32, self.reply_len);
        // Long ones count at once, short ones after some time.
        self.reply_len = if len > mean { mean + (len - mean) / 2 } else { mean - (mean - len) / 8 };
    }

    /// A large value has arrived, of a request that is routed next.
    pub(crate) fn note_uploaded(&mut self, len: usize) {
        if self.slots.is_empty() {
            self.uploaded = 0;
        }
        self.uploaded += len;
    }

    /// Whether the rest of a `get` line is read: its values stay parked until its end has been read, so only the limit of
    /// what a client may leave untaken ends it.
    pub(crate) fn has_room_for_keys(&self) -> bool {
        self.parked <= UNTAKEN_MAX
    }

    /// Whether all requests have been answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Requests without an answer.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Requests that belong to a pool with statistics.
    #[cfg(test)]
    pub(crate) fn pool_notes(&self) -> usize {
        self.pool_notes.len()
    }

    /// Bytes of answers that wait for an earlier one.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// Bytes of memory for answers that wait for an earlier one, with each held piece as `share` says, and for a value that is
    /// being received.
    pub(crate) fn memory(&self, share: impl Fn(&Arc<[u8]>) -> usize) -> usize {
        if self.parked == 0 {
            return self.arriving;
        }
        let held_by_others = |held: &HeldOutput| held.len().saturating_sub(held.memory(&share));
        let of_others: usize = self
            .slots
            .iter()
            .map(|slot| match slot {
                Slot::Waiting | Slot::Silent | Slot::Copied(_) => 0,
                Slot::Held(held) => held_by_others(held),
                Slot::Values(values) => values.held().map(held_by_others).sum(),
            })
            .sum();
        self.parked.saturating_sub(of_others) + self.arriving
    }

    /// A place for the next request.
    #[inline]
    pub(crate) fn open_slot(&mut self) -> SlotNumber {
        self.unanswered += 1;
        self.awaited += 1;
        self.slots.push_back(Slot::Waiting);
        SlotNumber(self.first.wrapping_add(self.slots.len() as u32 - 1))
    }

    /// A place for a request with `noreply`. It counts in the window as others do, so that a client whose servers are slow is
    /// not read from, and its requests are not refused for what it sends too fast.
    #[inline]
    pub(crate) fn open_silent_slot(&mut self) -> SlotNumber {
        let number = self.open_slot();
        // Its reply is a line.
        self.awaited -= 1;
        if let Some(last) = self.slots.back_mut() {
            *last = Slot::Silent;
        }
        number
    }

    /// A place for a `get` of several keys. It is open until [`ClientWindow::close_values`].
    pub(crate) fn open_values(&mut self, partial: bool, memory: &mut WindowMemory) -> SlotNumber {
        self.unanswered += 1;
        self.slots.push_back(Slot::Values(memory.take_values(partial)));
        SlotNumber(self.first.wrapping_add(self.slots.len() as u32 - 1))
    }

    /// A place for the answer of one more key.
    pub(crate) fn add_part(&mut self, number: SlotNumber) -> u32 {
        self.parked += PART_SIZE;
        self.awaited += 1;
        self.values(number).expect("the slot is open").add_part()
    }

    /// The line with the keys is not valid: this is the whole answer.
    pub(crate) fn refuse_values(&mut self, number: SlotNumber, line: &[u8]) {
        if let Some(values) = self.values(number) {
            values.refuse(line);
        }
    }

    /// No more keys follow.
    pub(crate) fn close_values(
        &mut self,
        number: SlotNumber,
        output: &mut HeldOutput,
        memory: &mut WindowMemory,
    ) {
        let Some(values) = self.values(number) else { return };
        values.close();
        if values.is_whole() {
            self.unanswered -= 1;
            self.flush(output, memory);
        }
    }

    fn place(&self, number: SlotNumber) -> usize {
        number.0.wrapping_sub(self.first) as usize
    }

    fn values(&mut self, number: SlotNumber) -> Option<&mut CollectedValues> {
        let place = self.place(number);
        match self.slots.get_mut(place) {
            Some(Slot::Values(values)) => Some(values),
            _ => None,
        }
    }

    /// Answers a request. Each slot is answered once. True: the answer could be sent, but waits for those that follow, until
    /// [`ClientWindow::send_gathered`].
    #[inline]
    pub(crate) fn answer(
        &mut self,
        number: SlotNumber,
        answer: ReplyBytes<'_>,
        output: &mut HeldOutput,
        memory: &mut WindowMemory,
    ) -> bool {
        self.unanswered -= 1;
        let place = self.place(number);
        let answer = match self.slots[place] {
            Slot::Silent => ReplyBytes::Copied(b""),
            _ => {
                self.note_reply(answer.len());
                answer
            }
        };
        if self.slots.len() == 1 {
            answer.write(output);
            self.slots.clear();
            self.first = self.first.wrapping_add(1);
            return false;
        }
        self.parked += answer.len();
        self.slots[place] = match answer {
            ReplyBytes::Copied(bytes) => Slot::Copied(self.answers.add(bytes, memory)),
            ReplyBytes::Gathered(gathered) => Slot::Held(Box::new(gathered)),
        };
        if self.unanswered == 0 || self.parked > GATHERED_MAX {
            self.flush(output, memory);
            return false;
        }
        place == 0
    }

    /// Sends the answers that only wait for further ones.
    pub(crate) fn send_gathered(&mut self, output: &mut HeldOutput, memory: &mut WindowMemory) {
        self.flush(output, memory);
    }

    /// Answers one key of several: values without `END`, or nothing for a miss.
    pub(crate) fn answer_part(
        &mut self,
        number: SlotNumber,
        part: u32,
        answer: ReplyBytes<'_>,
        output: &mut HeldOutput,
        memory: &mut WindowMemory,
    ) {
        let len = answer.len();
        let Some(values) = self.values(number) else { return };
        let parked = values.answer(part, answer);
        let is_whole = values.is_whole();
        self.parked += parked;
        self.note_reply(len);
        if is_whole {
            self.unanswered -= 1;
            self.flush(output, memory);
        }
    }

    /// One key of several has failed.
    pub(crate) fn fail_part(
        &mut self,
        number: SlotNumber,
        line: &[u8],
        output: &mut HeldOutput,
        memory: &mut WindowMemory,
    ) {
        let Some(values) = self.values(number) else { return };
        values.fail(line);
        let is_whole = values.is_whole();
        self.note_reply(line.len());
        if is_whole {
            self.unanswered -= 1;
            self.flush(output, memory);
        }
    }

    /// Writes all answers that no earlier one keeps waiting.
    fn flush(&mut self, output: &mut HeldOutput, memory: &mut WindowMemory) {
        self.gathers_since = None;
        while let Some(slot) = self.slots.front_mut() {
            self.parked -= match slot {
                Slot::Waiting | Slot::Silent => break,
                Slot::Copied(answer) => self.answers.write(*answer, output, memory),
                Slot::Held(gathered) => {
                    let len = gathered.len();
                    output.append(std::mem::take(gathered));
                    len
                }
                Slot::Values(values) if !values.is_whole() => break,
                Slot::Values(values) => values.write(output),
            };
            if let Some(Slot::Values(values)) = self.slots.pop_front() {
                memory.keep_values(values);
            }
            self.first = self.first.wrapping_add(1);
        }
        if self.answers.is_untidy() {
            self.answers.tidy(self.slots.iter_mut().filter_map(|slot| match slot {
                Slot::Copied(answer) => Some(answer),
                _ => None,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(output: &mut HeldOutput) -> String {
        let text = String::from_utf8(output.to_vec()).expect("ASCII");
        output.clear();
        text
    }

    #[test]
    fn answers_leave_in_the_order_of_requests() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        let [a, b, c] = [(); 3].map(|()| client.open_slot());
        client.answer(c, ReplyBytes::Copied(b"c"), &mut output, &mut memory);
        client.answer(b, ReplyBytes::Copied(b"b"), &mut output, &mut memory);
        assert_eq!((text(&mut output).as_str(), client.parked()), ("", 2));
        client.answer(a, ReplyBytes::Copied(b"a"), &mut output, &mut memory);
        assert_eq!((text(&mut output).as_str(), client.parked(), client.is_idle()), ("abc", 0, true));
    }

    #[test]
    fn an_empty_answer_leaves_after_the_last_one_that_has_bytes() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        let [a, b, c] = [(); 3].map(|()| client.open_slot());
        client.answer(b, ReplyBytes::Copied(b"b"), &mut output, &mut memory);
        client.answer(c, ReplyBytes::Copied(b""), &mut output, &mut memory);
        client.answer(a, ReplyBytes::Copied(b"a"), &mut output, &mut memory);
        assert_eq!((text(&mut output).as_str(), client.parked(), client.is_idle()), ("ab", 0, true));
    }

    #[test]
    fn values_leave_in_the_order_of_keys_once_all_are_there() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        let slot = client.open_values(false, &mut memory);
        let parts: Vec<u32> = (0..3).map(|_| client.add_part(slot)).collect();
        client.answer_part(slot, parts[2], ReplyBytes::Copied(b"three "), &mut output, &mut memory);
        client.answer_part(slot, parts[0], ReplyBytes::Copied(b"one "), &mut output, &mut memory);
        client.answer_part(slot, parts[1], ReplyBytes::Copied(b""), &mut output, &mut memory);
        assert_eq!(text(&mut output), "", "more keys may follow");
        client.close_values(slot, &mut output, &mut memory);
        assert_eq!((text(&mut output).as_str(), client.parked()), ("one three END\r\n", 0));
    }

    #[test]
    fn one_key_that_fails_makes_the_whole_answer_an_error_unless_it_may_be_partial() {
        for (partial, expected) in [(false, "SERVER_ERROR x\r\n"), (true, "two END\r\n")] {
            let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
            let mut memory = WindowMemory::default();
            let slot = client.open_values(partial, &mut memory);
            let parts: Vec<u32> = (0..3).map(|_| client.add_part(slot)).collect();
            client.close_values(slot, &mut output, &mut memory);
            client.fail_part(slot, b"SERVER_ERROR x\r\n", &mut output, &mut memory);
            client.answer_part(slot, parts[1], ReplyBytes::Copied(b"two "), &mut output, &mut memory);
            client.fail_part(slot, b"SERVER_ERROR y\r\n", &mut output, &mut memory);
            assert_eq!((text(&mut output).as_str(), client.parked()), (expected, 0));
        }
    }

    #[test]
    fn a_window_has_room_until_it_is_full_or_too_much_is_parked() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        let first = client.open_slot();
        let second = client.open_slot();
        assert!(client.has_room());
        client.answer(second, ReplyBytes::Copied(&vec![b'x'; PARKED_MAX + 1]), &mut output, &mut memory);
        assert!(!client.has_room());
        client.answer(first, ReplyBytes::Copied(b"a"), &mut output, &mut memory);
        assert!(client.has_room() && client.is_idle());
        (0..WINDOW_MAX).for_each(|_| {
            client.open_slot();
        });
        assert!(!client.has_room());
    }

    #[test]
    fn a_client_whose_replies_are_long_has_fewer_requests_at_a_time() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        let mut exchange = |client: &mut ClientWindow, len: usize| {
            let mut slots = Vec::new();
            while client.has_room() {
                slots.push(client.open_slot());
            }
            for slot in &slots {
                client.answer(*slot, ReplyBytes::Copied(&vec![b'x'; len]), &mut output, &mut memory);
            }
            output.clear();
            slots.len()
        };
        let rounds =
            |client: &mut ClientWindow, len, exchange: &mut dyn FnMut(&mut ClientWindow, usize) -> usize| {
                [(); 3].map(|()| exchange(client, len))
            };
        assert_eq!(rounds(&mut client, 100, &mut exchange), [16, 136, WINDOW_MAX]);
        assert_eq!(rounds(&mut client, 64 << 10, &mut exchange), [WINDOW_MAX, 65, 65]);
        assert_eq!(rounds(&mut client, 1 << 20, &mut exchange), [65, 5, 5]);
        assert_eq!(rounds(&mut client, 8 << 20, &mut exchange), [5, 1, 1]);
        assert_eq!(rounds(&mut client, 10, &mut exchange), [1, 1, 1]);
    }

    #[test]
    fn answers_that_are_not_sent_have_no_place_in_the_memory_of_the_others() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        for text in ["text ", &"x".repeat(GATHERED_MAX)] {
            let [a, b, c, d] = [(); 4].map(|()| client.open_slot());
            let silent = client.open_silent_slot();
            client.answer(b, ReplyBytes::Copied(text.as_bytes()), &mut output, &mut memory);
            client.answer(c, ReplyBytes::Copied(b""), &mut output, &mut memory);
            client.answer(silent, ReplyBytes::Copied(b"STORED\r\n"), &mut output, &mut memory);
            client.answer(a, ReplyBytes::Copied(b""), &mut output, &mut memory);
            client.answer(d, ReplyBytes::Copied(b""), &mut output, &mut memory);
            assert!(text == self::text(&mut output) && client.is_idle() && client.parked() == 0);
            let alone = client.open_silent_slot();
            client.answer(alone, ReplyBytes::Copied(b"STORED\r\n"), &mut output, &mut memory);
            assert!(output.is_empty() && client.is_idle());
        }
    }

    #[test]
    fn a_pipeline_that_is_never_empty_keeps_no_more_than_what_waits() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let mut memory = WindowMemory::default();
        let mut gate = client.open_slot();
        for number in 0..10_000_u32 {
            let [a, next_gate, b] = [(); 3].map(|()| client.open_slot());
            let answer = format!("{number:064}");
            client.answer(b, ReplyBytes::Copied(answer.as_bytes()), &mut output, &mut memory);
            client.answer(a, ReplyBytes::Copied(answer.as_bytes()), &mut output, &mut memory);
            assert!(client.answer(gate, ReplyBytes::Copied(b""), &mut output, &mut memory));
            client.send_gathered(&mut output, &mut memory);
            let before = if number == 0 { String::new() } else { format!("{:064}", number - 1) };
            assert_eq!((text(&mut output), client.parked()), (before + &answer, 64));
            assert!(client.answers.capacity() < 256 << 10, "{} bytes", client.answers.capacity());
            gate = next_gate;
        }
        client.answer(gate, ReplyBytes::Copied(b""), &mut output, &mut memory);
        assert_eq!((client.parked(), client.len(), client.answers.capacity()), (0, 0, 0));
    }
}
