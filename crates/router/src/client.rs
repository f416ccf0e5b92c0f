//! Clients: the window of requests that have no answer yet, and answers in the order of requests.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use net::Link;
use stdx::gather::Gather;

/// Bytes for a socket. Large values are held.
pub(crate) type HeldOutput = Gather<Arc<[u8]>>;

/// Requests of a client without an answer. A client that sends more is not read from until the first has its answer.
pub(crate) const WINDOW_MAX: usize = 1024;

/// Bytes of answers that wait for an earlier one, and of answers that the client has not taken, beyond which it is not
/// read from.
pub(crate) const PARKED_MAX: usize = 1 << 20;

/// Bytes of the same beyond which the client is closed: one that asked for many large values at once and takes none.
pub(crate) const UNTAKEN_MAX: usize = 256 << 20;

/// Bytes of large values in requests without an answer, from which on a client is not read from:
/// as memcached reads no further before it has stored a value. Otherwise one that sends many would fill what a server
/// has to take, and others' requests would be refused.
pub(crate) const UPLOADED_MAX: usize = 1 << 20;

/// The longest value that is accepted from a client or a server.
pub(crate) const VALUE_MAX: usize = 128 << 20;

const END: &[u8] = b"END\r\n";

/// The place of a request in its client's window: counted from the first request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotNumber(u32);

/// A client's connection.
pub(crate) struct ClientWindow {
    pub(crate) link: Link,
    slots: VecDeque<Slot>,
    /// The number of the first slot.
    first: u32,
    /// Bytes of answers that wait for an earlier one.
    parked: usize,
    /// Bytes of large values that it has sent since it last had no request without an answer.
    uploaded: usize,
    /// It returned [`net::Next::Wait`], and is to be woken.
    pub(crate) waits: bool,
    /// It is closed once all its requests have been answered.
    pub(crate) is_closing: bool,
}

/// A request's place in the order of answers.
enum Slot {
    Waiting,
    Ready(HeldOutput),
    Values(Box<Values>),
}

/// The answer to a `get` of several keys, while it is collected.
#[derive(Default)]
struct Values {
    parts: Vec<Part>,
    /// Parts without an answer.
    waiting: usize,
    copied: Vec<u8>,
    /// The first error line: the whole answer.
    error: Option<Vec<u8>>,
    /// A part that fails is a miss (`--partial-multiget`).
    partial: bool,
    /// More keys may follow.
    open: bool,
}

/// The answer for one key.
enum Part {
    None,
    Copied(Range<usize>),
    Held(Box<HeldOutput>),
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
            parked: 0,
            uploaded: 0,
            waits: false,
            is_closing: false,
        }
    }

    /// Whether there is room for another request.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < WINDOW_MAX
            && self.parked <= PARKED_MAX
            && (self.uploaded < UPLOADED_MAX || self.slots.is_empty())
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

    /// Bytes of answers that wait for an earlier one.
    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// A place for the next request.
    #[inline]
    pub(crate) fn open_slot(&mut self) -> SlotNumber {
        self.slots.push_back(Slot::Waiting);
        SlotNumber(self.first.wrapping_add(self.slots.len() as u32 - 1))
    }

    /// A place for a `get` of several keys. It is open until [`ClientWindow::close_values`].
    pub(crate) fn open_values(&mut self, partial: bool) -> SlotNumber {
        self.slots.push_back(Slot::Values(Box::new(Values { partial, open: true, ..Values::default() })));
        SlotNumber(self.first.wrapping_add(self.slots.len() as u32 - 1))
    }

    /// A place for the answer of one more key.
    pub(crate) fn add_part(&mut self, number: SlotNumber) -> u32 {
        self.parked += size_of::<Part>();
        let values = self.values(number).expect("the slot is open");
        values.parts.push(Part::None);
        values.waiting += 1;
        values.parts.len() as u32 - 1
    }

    /// The line with the keys is not valid: this is the whole answer.
    pub(crate) fn refuse_values(&mut self, number: SlotNumber, line: &[u8]) {
        if let Some(values) = self.values(number) {
            values.error = Some(line.to_vec());
        }
    }

    /// No more keys follow.
    pub(crate) fn close_values(&mut self, number: SlotNumber, output: &mut HeldOutput) {
        if let Some(values) = self.values(number) {
            values.open = false;
        }
        self.flush(output);
    }

    fn place(&self, number: SlotNumber) -> usize {
        number.0.wrapping_sub(self.first) as usize
    }

    fn values(&mut self, number: SlotNumber) -> Option<&mut Values> {
        let place = self.place(number);
        match self.slots.get_mut(place) {
            Some(Slot::Values(values)) => Some(values),
            _ => None,
        }
    }

    /// Answers a request. Each slot is answered once.
    #[inline]
    pub(crate) fn answer(&mut self, number: SlotNumber, answer: ReplyBytes<'_>, output: &mut HeldOutput) {
        let place = self.place(number);
        if place == 0 {
            answer.write(output);
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
            if !self.slots.is_empty() {
                self.flush(output);
            }
            return;
        }
        let mut parked = HeldOutput::default();
        answer.write(&mut parked);
        self.parked += parked.len();
        self.slots[place] = Slot::Ready(parked);
    }

    /// Answers one key of several: values without `END`, or nothing for a miss.
    pub(crate) fn answer_part(
        &mut self,
        number: SlotNumber,
        part: u32,
        answer: ReplyBytes<'_>,
        output: &mut HeldOutput,
    ) {
        let Some(values) = self.values(number) else { return };
        let mut parked = 0;
        match answer {
            ReplyBytes::Copied(b"") => {}
            ReplyBytes::Copied(bytes) => {
                let start = values.copied.len();
                values.copied.extend_from_slice(bytes);
                values.parts[part as usize] = Part::Copied(start..values.copied.len());
                parked = bytes.len();
            }
            ReplyBytes::Gathered(gathered) => {
                parked = gathered.len();
                values.parts[part as usize] = Part::Held(Box::new(gathered));
            }
        }
        values.waiting -= 1;
        self.parked += parked;
        self.flush(output);
    }

    /// One key of several has failed.
    pub(crate) fn fail_part(&mut self, number: SlotNumber, line: &[u8], output: &mut HeldOutput) {
        let Some(values) = self.values(number) else { return };
        values.waiting -= 1;
        if !values.partial && values.error.is_none() {
            values.error = Some(line.to_vec());
        }
        self.flush(output);
    }

    /// Writes all answers that no earlier one keeps waiting.
    fn flush(&mut self, output: &mut HeldOutput) {
        while let Some(slot) = self.slots.front_mut() {
            match slot {
                Slot::Waiting => return,
                Slot::Ready(parked) => {
                    self.parked -= parked.len();
                    output.append(std::mem::take(parked));
                }
                Slot::Values(values) if values.open || values.waiting > 0 => return,
                Slot::Values(values) => self.parked -= values.write(output),
            }
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

impl Values {
    /// Writes the whole answer. Returns the bytes that were parked for it.
    fn write(&mut self, output: &mut HeldOutput) -> usize {
        let parked = |part: &Part| match part {
            Part::Held(gathered) => gathered.len(),
            _ => 0,
        };
        let parked = self.parts.len() * size_of::<Part>()
            + self.copied.len()
            + self.parts.iter().map(parked).sum::<usize>();
        if let Some(line) = &self.error {
            output.copy(line);
            return parked;
        }
        for part in self.parts.drain(..) {
            match part {
                Part::None => {}
                Part::Copied(range) => output.copy(&self.copied[range]),
                Part::Held(gathered) => output.append(*gathered),
            }
        }
        output.copy(END);
        parked
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
        let [a, b, c] = [(); 3].map(|()| client.open_slot());
        client.answer(c, ReplyBytes::Copied(b"c"), &mut output);
        client.answer(b, ReplyBytes::Copied(b"b"), &mut output);
        assert_eq!((text(&mut output).as_str(), client.parked()), ("", 2));
        client.answer(a, ReplyBytes::Copied(b"a"), &mut output);
        assert_eq!((text(&mut output).as_str(), client.parked(), client.is_idle()), ("abc", 0, true));
    }

    #[test]
    fn values_leave_in_the_order_of_keys_once_all_are_there() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let slot = client.open_values(false);
        let parts: Vec<u32> = (0..3).map(|_| client.add_part(slot)).collect();
        client.answer_part(slot, parts[2], ReplyBytes::Copied(b"three "), &mut output);
        client.answer_part(slot, parts[0], ReplyBytes::Copied(b"one "), &mut output);
        client.answer_part(slot, parts[1], ReplyBytes::Copied(b""), &mut output);
        assert_eq!(text(&mut output), "", "more keys may follow");
        client.close_values(slot, &mut output);
        assert_eq!((text(&mut output).as_str(), client.parked()), ("one three END\r\n", 0));
    }

    #[test]
    fn one_key_that_fails_makes_the_whole_answer_an_error_unless_it_may_be_partial() {
        for (partial, expected) in [(false, "SERVER_ERROR x\r\n"), (true, "two END\r\n")] {
            let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
            let slot = client.open_values(partial);
            let parts: Vec<u32> = (0..3).map(|_| client.add_part(slot)).collect();
            client.close_values(slot, &mut output);
            client.fail_part(slot, b"SERVER_ERROR x\r\n", &mut output);
            client.answer_part(slot, parts[1], ReplyBytes::Copied(b"two "), &mut output);
            client.fail_part(slot, b"SERVER_ERROR y\r\n", &mut output);
            assert_eq!((text(&mut output).as_str(), client.parked()), (expected, 0));
        }
    }

    #[test]
    fn a_window_has_room_until_it_is_full_or_too_much_is_parked() {
        let (mut client, mut output) = (ClientWindow::new(Link::default()), HeldOutput::default());
        let first = client.open_slot();
        let second = client.open_slot();
        assert!(client.has_room());
        client.answer(second, ReplyBytes::Copied(&vec![b'x'; PARKED_MAX + 1]), &mut output);
        assert!(!client.has_room());
        client.answer(first, ReplyBytes::Copied(b"a"), &mut output);
        assert!(client.has_room() && client.is_idle());
        (0..WINDOW_MAX).for_each(|_| {
            client.open_slot();
        });
        assert!(!client.has_room());
    }
}
