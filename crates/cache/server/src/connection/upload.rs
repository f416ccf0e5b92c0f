//! Uploads: storage commands whose body did not arrive with the head.
//!
//! The body is received without a copy: a small one into a buffer of its announced size, a large one into the
//! memory of its future item, which is charged as the body arrives. Large uploads share a limited amount of
//! memory: beyond it an upload first waits, and is then refused. An upload that has memory must make
//! progress.

use protocol::{Parsed, Request, parse};
use store::{Error, LARGE_VALUE_MIN, NewValue, PartialValue};

use crate::commands::request::{Body, KEY_BUFFER, LINE_END_LEN};
use crate::connection::dialect::Dialect;
use crate::connection::flow::Flow;
use crate::connection::output::Output;
use crate::worker::Worker;

/// An upload makes progress if this many bytes arrive within the times below.
const PROGRESS_MIN: usize = 64 * 1024;
/// Time limit while other uploads wait for the share.
const STALLED_MS: u64 = 2_000;
/// Time limit otherwise.
const IDLE_MS: u64 = 30_000;
/// Time that an upload waits for the share: longer than the other uploads may stall meanwhile.
pub(crate) const WAIT_MS: u64 = 5_000;

/// A head, and the part of the body that has arrived.
pub(crate) struct Upload {
    dialect: Dialect,
    /// The head, parsed again when the body is complete: cheaper than keeping the parsed request.
    head: Box<[u8]>,
    received: Received,
    /// Received bytes of the body and, of a text command, its line end.
    filled: usize,
    /// Input was left unread, because there was no room.
    starved: bool,
}

/// The buffer of a body, with the line end of a text command.
pub(crate) enum Received {
    Small(Box<[u8]>),
    Large(Large),
}

/// A large body that is being received.
pub(crate) struct Large {
    len: usize,
    /// `None` until the body begins to arrive and the share has room.
    value: Option<PartialValue>,
    line_end: [u8; LINE_END_LEN],
    /// 0 in the binary protocol.
    line_end_len: usize,
    /// When it last made progress or, without a value, began to wait; and the number of bytes at that time.
    since_ms: Option<u64>,
    progress: usize,
}

/// Result of a request for room.
enum Room {
    Found,
    /// In the next turn.
    Soon,
    /// After other uploads are complete.
    Later,
}

impl Upload {
    /// An upload of `len` bytes, and of their line end if it is text.
    pub(crate) fn new(dialect: Dialect, head: &[u8], len: usize) -> Upload {
        let line_end_len = dialect.value_end_len();
        let received = if len < LARGE_VALUE_MIN {
            Received::Small(vec![0; len + line_end_len].into())
        } else {
            let line_end = [0; LINE_END_LEN];
            Received::Large(Large { len, value: None, line_end, line_end_len, since_ms: None, progress: 0 })
        };
        Upload { dialect, head: head.into(), received, filled: 0, starved: false }
    }

    /// The buffer for the next bytes. Empty if the body is complete, or if there is no room yet.
    fn free(&mut self) -> &mut [u8] {
        match &mut self.received {
            Received::Small(bytes) => &mut bytes[self.filled..],
            Received::Large(large) => match (self.filled.checked_sub(large.len), &mut large.value) {
                (None, None) => &mut [],
                (None, Some(value)) => value.room(),
                (Some(beyond), _) => &mut large.line_end[beyond..large.line_end_len],
            },
        }
    }

    /// Notes that `count` more bytes were received.
    pub(crate) fn filled(&mut self, count: usize) {
        if let Received::Large(Large { len, value: Some(value), .. }) = &mut self.received
            && self.filled < *len
        {
            value.fill(count);
        }
        self.filled += count;
    }

    /// Copies bytes of the body from the front of `input`, as far as there is room. Returns how many.
    fn fill(&mut self, input: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let free = self.free();
            let count = free.len().min(input.len() - taken);
            if count == 0 {
                return taken;
            }
            free[..count].copy_from_slice(&input[taken..taken + count]);
            self.filled(count);
            taken += count;
        }
    }

    fn is_full(&self) -> bool {
        self.missing() == 0
    }

    /// Whether it has its part of the share, or needs none.
    fn has_begun(&self) -> bool {
        !matches!(self.received, Received::Large(Large { value: None, .. }))
    }

    /// Bytes that are still missing.
    fn missing(&self) -> usize {
        let len = match &self.received {
            Received::Small(bytes) => bytes.len(),
            Received::Large(large) => large.len + large.line_end_len,
        };
        len - self.filled
    }

    /// The head.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The head, and the body.
    pub(crate) fn into_parts(self) -> (Box<[u8]>, Received) {
        (self.head, self.received)
    }
}

impl Received {
    /// The body of a text command.
    pub(crate) fn into_body(self, small: &mut Box<[u8]>) -> Body<'_> {
        match self {
            Received::Small(bytes) => {
                *small = bytes;
                Body::Bytes(small)
            }
            Received::Large(Large { value, line_end, .. }) => {
                let value = value.expect("a body that is whole has begun").into_value();
                if &line_end == b"\r\n" { Body::Value(NewValue::Large(value)) } else { Body::BadEnd }
            }
        }
    }

    /// The value of a request of the binary protocol.
    pub(crate) fn into_value(self, small: &mut Box<[u8]>) -> NewValue<'_> {
        match self {
            Received::Small(bytes) => {
                *small = bytes;
                NewValue::Bytes(small)
            }
            Received::Large(Large { value, .. }) => {
                NewValue::Large(value.expect("a body that is whole has begun").into_value())
            }
        }
    }
}

impl Worker {
    /// Starts the upload of a storage command, or refuses it. An error is the number of bytes to drop.
    pub(crate) fn start_upload(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        fd: i32,
        output: &mut Output,
    ) -> Result<Upload, usize> {
        let mut buffer = KEY_BUFFER;
        let (key_len, len, flags) = match request {
            Request::Store(store) => (store.key.as_bytes().len(), store.len, store.flags),
            Request::MetaSet { key, flags, len, .. } => {
                (key.bytes(&mut buffer).len(), *len, flags.client_flags())
            }
            _ => unreachable!("only storage commands have a body"),
        };
        match self.shared.store.check_size(key_len, flags, len) {
            Ok(()) => Ok(Upload::new(Dialect::Text, head, len)),
            Err(error) => {
                self.refuse_store(request, &error, fd, output);
                Err(len + LINE_END_LEN)
            }
        }
    }

    /// The buffer for the next bytes of `upload`, if there is memory for it at once.
    pub(crate) fn room_for<'u>(&mut self, upload: &'u mut Upload) -> Option<&'u mut [u8]> {
        if upload.starved || upload.is_full() {
            return None;
        }
        if upload.free().is_empty() && !matches!(self.find_room(upload), Ok(Room::Found)) {
            // The input then goes to a buffer, and `receive` decides.
            return None;
        }
        Some(upload.free())
    }

    /// Consumes bytes of `upload` from the front of `input`. Returns how many, and how to continue:
    /// `Flow::Go` once it is complete.
    pub(crate) fn receive(
        &mut self,
        upload: &mut Upload,
        input: &[u8],
        fd: i32,
        output: &mut Output,
    ) -> (usize, Flow) {
        let mut taken = 0;
        loop {
            taken += upload.fill(&input[taken..]);
            upload.starved = taken < input.len() && !upload.is_full();
            if upload.is_full() {
                return (taken, Flow::Go);
            }
            if !upload.starved {
                let stalled = self.has_stalled(upload);
                let flow = match &upload.received {
                    _ if stalled => self.give_up(upload, &Error::OutOfMemory, fd, output),
                    // Looked at now and then, whether it gets on.
                    Received::Large(Large { value: Some(_), .. }) => Flow::Later,
                    _ => Flow::Wait,
                };
                return (taken, flow);
            }
            if !output.is_empty() && !upload.has_begun() {
                // A client that does not read gets no part of the uploads' share: first its output must be
                // sent.
                return (taken, Flow::Yield);
            }
            match self.find_room(upload) {
                Ok(Room::Found) => {}
                Ok(Room::Soon) => return (taken, Flow::Yield),
                Ok(Room::Later) if !self.has_waited(upload) => return (taken, Flow::Later),
                Ok(Room::Later) => return (taken, self.give_up(upload, &Error::OutOfMemory, fd, output)),
                Err(error) => return (taken, self.give_up(upload, &error, fd, output)),
            }
        }
    }

    /// Requests room for the next bytes of a large body.
    fn find_room(&mut self, upload: &mut Upload) -> Result<Room, Error> {
        let Received::Large(large) = &mut upload.received else { return Ok(Room::Found) };
        if large.value.is_none() {
            let Some(value) = self.store.begin_value(large.len, self.second)? else { return Ok(Room::Later) };
            (large.value, large.since_ms) = (Some(value), None);
        }
        let Some(value) = &mut large.value else { return Ok(Room::Later) };
        let found = self.store.extend_value(value, self.second)?;
        Ok(if found { Room::Found } else { Room::Soon })
    }

    /// Whether an upload that has memory makes no progress.
    fn has_stalled(&self, upload: &mut Upload) -> bool {
        let Upload { received: Received::Large(large @ Large { value: Some(_), .. }), filled, .. } = upload
        else {
            return false;
        };
        let since_ms = *large.since_ms.get_or_insert(self.now.ms());
        if *filled >= large.progress + PROGRESS_MIN {
            (large.since_ms, large.progress) = (Some(self.now.ms()), *filled);
            return false;
        }
        let limit_ms = if self.store.uploads_are_waiting(self.second) { STALLED_MS } else { IDLE_MS };
        self.now.ms().saturating_sub(since_ms) > limit_ms
    }

    /// Whether an upload has waited for the share for too long.
    fn has_waited(&self, upload: &mut Upload) -> bool {
        let Received::Large(large) = &mut upload.received else { return false };
        let since_ms = *large.since_ms.get_or_insert(self.now.ms());
        self.now.ms().saturating_sub(since_ms) > WAIT_MS
    }

    /// Refuses a partly received body; the rest is dropped.
    fn give_up(&mut self, upload: &mut Upload, error: &Error, fd: i32, output: &mut Output) -> Flow {
        if let Received::Large(large) = &mut upload.received {
            large.value = None;
        }
        match upload.dialect {
            Dialect::Text => {
                let Parsed::Head { request, .. } = parse(&upload.head) else {
                    unreachable!("the head was parsed before")
                };
                self.refuse_store(&request, error, fd, output);
            }
            Dialect::Binary => self.refuse_upload(&upload.head, error, fd, output),
        }
        Flow::Swallow(upload.missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_complete_with_its_line_end_and_takes_no_more() {
        let mut upload = Upload::new(Dialect::Text, b"set a 0 0 3\r\n", 3);
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
