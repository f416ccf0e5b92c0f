//! memcached's UDP frame, and replies in several datagrams (protocol.txt, "UDP protocol").
//!
//! Datagrams may arrive twice, in any order, or never, and anybody may send one: what is kept of a reply is bounded,
//! and the caller decides whether a reply belongs to a request.

/// Length of a frame's head.
pub const HEAD_LEN: usize = 8;

/// The most datagrams of a reply that wait for an earlier one. Networks swap neighbouring datagrams, rarely dozens; and
/// if the first datagram of a reply was lost, waiting is of no use.
pub const AHEAD_MAX: usize = 64;

/// The most bytes of a reply that wait for an earlier datagram. memcached's datagrams have 1400 bytes, so that
/// [`AHEAD_MAX`] is reached first, but other senders may put up to 64 KiB in one.
pub const AHEAD_LEN_MAX: usize = 256 * 1024;

/// The head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Chosen by the client; the reply has it too.
    pub id: u16,
    /// Which datagram of the reply, from 0.
    pub sequence: u16,
    /// Datagrams of the reply: at least one more than `sequence`.
    pub total: u16,
}

impl Frame {
    /// The frame of a request, which is always one datagram.
    pub fn request(id: u16) -> Frame {
        Frame { id, sequence: 0, total: 1 }
    }

    /// The bytes before the payload. The last two are reserved and 0.
    pub fn to_bytes(self) -> [u8; HEAD_LEN] {
        let [id, sequence, total] = [self.id, self.sequence, self.total].map(u16::to_be_bytes);
        [id[0], id[1], sequence[0], sequence[1], total[0], total[1], 0, 0]
    }

    /// The head and the payload; `None` if it is too short for a head, or if the head's numbers contradict each other.
    /// The reserved bytes are ignored.
    pub fn read(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (head, payload) = datagram.split_first_chunk::<HEAD_LEN>()?;
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let frame = Frame { id: number(0), sequence: number(2), total: number(4) };
        (frame.sequence < frame.total).then_some((frame, payload))
    }
}

/// The datagrams of a reply that have arrived.
#[derive(Debug, Default)]
pub struct Parts {
    /// Datagrams of the reply, by the first one that arrived; 0 before that.
    total: u16,
    /// The next datagram to hand out.
    next: u16,
    /// Datagrams that arrived before an earlier one: at most [`AHEAD_MAX`], with at most [`AHEAD_LEN_MAX`] bytes.
    ahead: Vec<(u16, Vec<u8>)>,
    ahead_len: usize,
}

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was handed out, or waits for an earlier one.
    Yes,
    /// A duplicate, or part of another reply than the others: ignored.
    Stray,
    /// Too many datagrams or bytes wait already: dropped, as if the network had lost it.
    Dropped,
}

impl Parts {
    /// Hands out the payloads that are next in order: none for a stray, or while an earlier datagram is missing.
    pub fn take<E>(
        &mut self,
        frame: Frame,
        payload: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Taken, E> {
        let Frame { sequence, total, .. } = frame;
        let is_known = sequence < self.next || self.ahead.iter().any(|(other, _)| *other == sequence);
        if is_known || (self.total != 0 && self.total != total) {
            return Ok(Taken::Stray);
        }
        if sequence > self.next {
            return Ok(self.keep(frame, payload));
        }
        self.total = total;
        self.next += 1;
        each(payload)?;
        while let Some(at) = self.ahead.iter().position(|(sequence, _)| *sequence == self.next) {
            let (_, payload) = self.ahead.swap_remove(at);
            self.ahead_len -= payload.len();
            self.next += 1;
            each(&payload)?;
        }
        Ok(Taken::Yes)
    }

    fn keep(&mut self, frame: Frame, payload: &[u8]) -> Taken {
        if self.ahead.len() == AHEAD_MAX || payload.len() > AHEAD_LEN_MAX - self.ahead_len {
            return Taken::Dropped;
        }
        self.total = frame.total;
        self.ahead_len += payload.len();
        self.ahead.push((frame.sequence, payload.to_vec()));
        Taken::Yes
    }

    /// Whether all of them have been handed out.
    pub fn is_whole(&self) -> bool {
        self.total != 0 && self.next == self.total
    }

    /// Starts the next reply.
    pub fn clear(&mut self) {
        (self.total, self.next, self.ahead_len) = (0, 0, 0);
        self.ahead.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Takes a datagram of a reply of `total`, and appends what is handed out to `text`.
    fn take(parts: &mut Parts, sequence: u16, total: u16, payload: &[u8], text: &mut Vec<u8>) -> Taken {
        let taken = parts.take(Frame { id: 7, sequence, total }, payload, |bytes| {
            text.extend_from_slice(bytes);
            Ok::<(), Infallible>(())
        });
        let Ok(taken) = taken;
        taken
    }

    #[track_caller]
    fn check(order: &[u16], expected: &str, news: usize) {
        let mut parts = Parts::default();
        let (mut text, mut new) = (Vec::new(), 0);
        for &sequence in order {
            let taken = take(&mut parts, sequence, 5, sequence.to_string().as_bytes(), &mut text);
            new += usize::from(taken == Taken::Yes);
        }
        assert_eq!((text.as_slice(), new), (expected.as_bytes(), news), "{order:?}");
        assert_eq!(parts.is_whole(), expected.len() == 5, "{order:?}");
    }

    #[test]
    fn datagrams_are_read_in_their_order_and_once() {
        check(&[0, 1, 2, 3, 4], "01234", 5);
        check(&[2, 1, 0], "012", 3);
        check(&[1, 1, 0, 0, 2, 1], "012", 3);
        check(&[0, 3, 2], "0", 3);
        check(&[4, 3, 2, 1, 0], "01234", 5);
        check(&[], "", 0);
    }

    #[test]
    fn frames_are_those_of_the_protocol() {
        assert_eq!(Frame::request(0x1234).to_bytes(), [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
        let frame = Frame { id: 0x1234, sequence: 1, total: 258 };
        assert_eq!(frame.to_bytes(), [0x12, 0x34, 0, 1, 1, 2, 0, 0]);
        assert_eq!(Frame::read(b"\x12\x34\x00\x01\x01\x02\x00\x00END"), Some((frame, &b"END"[..])));
        assert_eq!(Frame::read(b"\x12\x34\x00\x01\x01\x02\xff\xff"), Some((frame, &b""[..])), "reserved");
        for bad in [&b"\x12\x34\x00\x01\x01\x02\x00"[..], b"", b"\x12\x34\x00\x02\x00\x02\x00\x00END"] {
            assert_eq!(Frame::read(bad), None);
        }
        assert_eq!(Frame::read(&[0; HEAD_LEN]), None, "a reply without datagrams");
    }

    #[test]
    fn a_hostile_reply_of_65535_datagrams_stays_within_the_memory_limits() {
        for (len, kept) in [(1, AHEAD_MAX), (65_499, AHEAD_LEN_MAX / 65_499), (0, AHEAD_MAX)] {
            let (mut parts, mut text) = (Parts::default(), Vec::new());
            let payload = vec![b'x'; len];
            let taken: Vec<Taken> = (1..u16::MAX)
                .map(|sequence| take(&mut parts, sequence, u16::MAX, &payload, &mut text))
                .collect();
            let count = taken.iter().take_while(|taken| **taken == Taken::Yes).count();
            assert_eq!(count, kept, "datagrams of {len} bytes");
            assert!(taken[count..].iter().all(|taken| *taken == Taken::Dropped), "datagrams of {len} bytes");
            assert_eq!((parts.ahead.len(), parts.ahead_len), (kept, kept * len));
            // A dropped datagram is accepted again when there is room.
            assert_eq!(take(&mut parts, 0, u16::MAX, &payload, &mut text), Taken::Yes);
            assert_eq!((text.len(), parts.ahead.len(), parts.ahead_len), ((kept + 1) * len, 0, 0));
            assert_eq!(take(&mut parts, kept as u16 + 1, u16::MAX, &payload, &mut text), Taken::Yes);
        }
    }

    #[test]
    fn the_longest_reply_is_whole_after_its_last_datagram() {
        let (mut parts, mut text) = (Parts::default(), Vec::new());
        for sequence in 0..u16::MAX {
            assert!(!parts.is_whole());
            assert_eq!(take(&mut parts, sequence, u16::MAX, b"x", &mut text), Taken::Yes);
        }
        assert!(parts.is_whole());
        assert_eq!(text.len(), usize::from(u16::MAX));
    }

    #[test]
    fn a_datagram_with_another_total_belongs_to_another_reply() {
        let (mut parts, mut text) = (Parts::default(), Vec::new());
        assert_eq!(take(&mut parts, 1, 3, b"b", &mut text), Taken::Yes);
        assert_eq!(take(&mut parts, 0, 2, b"?", &mut text), Taken::Stray);
        assert_eq!(take(&mut parts, 2, 4, b"?", &mut text), Taken::Stray);
        assert_eq!(take(&mut parts, 0, 3, b"a", &mut text), Taken::Yes);
        assert_eq!(take(&mut parts, 2, 3, b"c", &mut text), Taken::Yes);
        assert_eq!((text.as_slice(), parts.is_whole()), (&b"abc"[..], true));
        parts.clear();
        assert!(!parts.is_whole());
        assert_eq!(take(&mut parts, 0, 1, b"d", &mut text), Taken::Yes);
        assert!(parts.is_whole());
    }
}
