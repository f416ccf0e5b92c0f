//! memcached's UDP frame, and a reply that comes in several datagrams (protocol.txt, "UDP protocol").

use super::mmsg::HEAD_LEN;

/// The head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Chosen by the client; the reply has it too.
    pub(crate) id: u16,
    /// Which datagram of the reply, from 0.
    pub(crate) sequence: u16,
    /// Datagrams of the reply.
    pub(crate) total: u16,
}

impl Frame {
    /// Of a request, which is always one datagram.
    pub(crate) fn request(id: u16) -> [u8; HEAD_LEN] {
        let [high, low] = id.to_be_bytes();
        [high, low, 0, 0, 0, 1, 0, 0]
    }

    /// The head and the payload; `None` if it is too short for a head, or one of no datagram.
    pub(crate) fn read(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (head, payload) = datagram.split_first_chunk::<HEAD_LEN>()?;
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let frame = Frame { id: number(0), sequence: number(2), total: number(4) };
        (frame.sequence < frame.total).then_some((frame, payload))
    }
}

/// What has arrived of a reply.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The next datagram to hand out.
    next: u16,
    /// Those that came before their turn.
    ahead: Vec<(u16, Vec<u8>)>,
}

impl Parts {
    /// Hands out what can be read now, in order: nothing for a duplicate or while an earlier one is missing. Says whether
    /// the datagram was new.
    pub(crate) fn take<E>(
        &mut self,
        sequence: u16,
        payload: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        if sequence < self.next || self.ahead.iter().any(|(other, _)| *other == sequence) {
            return Ok(false);
        }
        if sequence > self.next {
            self.ahead.push((sequence, payload.to_vec()));
            return Ok(true);
        }
        self.next += 1;
        each(payload)?;
        while let Some(at) = self.ahead.iter().position(|(sequence, _)| *sequence == self.next) {
            self.next += 1;
            each(&self.ahead.swap_remove(at).1)?;
        }
        Ok(true)
    }

    /// Whether all of them have been handed out.
    pub(crate) fn is_whole(&self, total: u16) -> bool {
        self.next == total
    }

    /// For the next reply.
    pub(crate) fn clear(&mut self) {
        self.next = 0;
        self.ahead.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[track_caller]
    fn check(order: &[u16], expected: &str, news: usize) {
        let mut parts = Parts::default();
        let (mut text, mut new) = (String::new(), 0);
        for &sequence in order {
            let taken = parts.take(sequence, sequence.to_string().as_bytes(), |bytes| {
                text.push_str(std::str::from_utf8(bytes).expect("digits"));
                Ok::<(), Infallible>(())
            });
            new += usize::from(taken == Ok(true));
        }
        assert_eq!((text.as_str(), new), (expected, news), "{order:?}");
    }

    #[test]
    fn datagrams_are_read_in_their_order_and_once() {
        check(&[0, 1, 2], "012", 3);
        check(&[2, 1, 0], "012", 3);
        check(&[1, 1, 0, 0, 2, 1], "012", 3);
        check(&[0, 3, 2], "0", 3);
        check(&[], "", 0);
    }

    #[test]
    fn frames_are_those_of_the_protocol() {
        assert_eq!(Frame::request(0x1234), [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
        let frame = Frame { id: 0x1234, sequence: 1, total: 258 };
        assert_eq!(Frame::read(b"\x12\x34\x00\x01\x01\x02\x00\x00END"), Some((frame, &b"END"[..])));
        for bad in [&b"\x12\x34\x00\x01\x01\x02\x00"[..], b"", b"\x12\x34\x00\x02\x00\x02\x00\x00END"] {
            assert_eq!(Frame::read(bad), None);
        }
    }
}
