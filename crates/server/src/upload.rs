//! A storage command whose body did not come with its head.
//!
//! The body is received where it will be used: a small one into a buffer of its announced size, a large one
//! into the memory of the item that it will be.

use store::LargeValue;

use crate::execute::Body;

/// `\r\n` ends every body.
pub(crate) const LINE_END_LEN: usize = 2;

/// A head, and as much of the body as has arrived.
pub(crate) struct Upload {
    /// The head's line, to be parsed again when the body is whole: cheaper than keeping its meaning.
    head: Box<[u8]>,
    received: Received,
    filled: usize,
}

/// Where a body is received. Both include the line end.
pub(crate) enum Received {
    Small(Box<[u8]>),
    Large { value: LargeValue, line_end: [u8; LINE_END_LEN] },
}

impl Upload {
    /// Awaits a body of `len` bytes and its line end.
    pub(crate) fn small(head: &[u8], len: usize) -> Upload {
        let received = Received::Small(vec![0; len + LINE_END_LEN].into());
        Upload { head: head.into(), received, filled: 0 }
    }

    /// Awaits a body as long as `value`, and its line end.
    pub(crate) fn large(head: &[u8], value: LargeValue) -> Upload {
        Upload {
            head: head.into(),
            received: Received::Large { value, line_end: [0; LINE_END_LEN] },
            filled: 0,
        }
    }

    /// Where the next bytes belong. Not empty unless the body is full.
    pub(crate) fn free(&mut self) -> &mut [u8] {
        match &mut self.received {
            Received::Small(bytes) => &mut bytes[self.filled..],
            Received::Large { value, line_end } => match self.filled.checked_sub(value.len()) {
                None => &mut value.as_mut()[self.filled..],
                Some(beyond) => &mut line_end[beyond..],
            },
        }
    }

    /// So many more bytes are there.
    pub(crate) fn filled(&mut self, count: usize) {
        self.filled += count;
    }

    /// Takes what belongs to the body from the front of `input`, and returns how much that was.
    pub(crate) fn fill(&mut self, input: &[u8]) -> usize {
        let mut taken = 0;
        while taken < input.len() && !self.is_full() {
            let free = self.free();
            let count = free.len().min(input.len() - taken);
            free[..count].copy_from_slice(&input[taken..taken + count]);
            self.filled += count;
            taken += count;
        }
        taken
    }

    pub(crate) fn is_full(&self) -> bool {
        let len = match &self.received {
            Received::Small(bytes) => bytes.len(),
            Received::Large { value, line_end } => value.len() + line_end.len(),
        };
        self.filled == len
    }

    /// The head's line and the body.
    pub(crate) fn into_parts(self) -> (Box<[u8]>, Received) {
        (self.head, self.received)
    }
}

impl Received {
    pub(crate) fn into_body(self, small: &mut Box<[u8]>) -> Body<'_> {
        match self {
            Received::Small(bytes) => {
                *small = bytes;
                Body::Bytes(small)
            }
            Received::Large { value, line_end } => Body::Large { value, well_ended: &line_end == b"\r\n" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_whole_with_its_line_end_and_takes_no_more() {
        let mut upload = Upload::small(b"set a 0 0 3\r\n", 3);
        assert_eq!(upload.fill(b"x"), 1);
        upload.free()[0] = b'y';
        upload.filled(1);
        assert_eq!(upload.fill(b"z\r\nget b\r\n"), 3);
        assert!(upload.is_full());
        let (head, received) = upload.into_parts();
        assert_eq!(&*head, b"set a 0 0 3\r\n");
        let mut small = Box::default();
        assert!(matches!(received.into_body(&mut small), Body::Bytes(b"xyz\r\n")));
    }
}
