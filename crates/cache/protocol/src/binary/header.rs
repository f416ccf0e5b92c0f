//! Headers of requests, and what a reply repeats of them.

use super::opcode::Opcode;

/// The first byte of every request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// The first byte of every reply.
pub const REPLY_MAGIC: u8 = 0x81;

/// Length of a header.
pub const HEADER_LEN: usize = 24;

/// What a reply repeats of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The opcode, known or not.
    pub opcode: u8,
    /// Bytes that have a meaning for the client alone.
    pub opaque: [u8; 4],
}

/// The header of a request. memcached looks neither at the data type nor at the number of the virtual bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestHeader {
    pub(super) reply_to: ReplyTo,
    pub(super) key_len: usize,
    pub(super) extras_len: usize,
    /// Length of extras, key and value together.
    pub(super) body_len: usize,
    pub(super) cas: u64,
}

impl RequestHeader {
    #[inline]
    pub(super) fn read(bytes: &[u8; HEADER_LEN]) -> RequestHeader {
        let [_, opcode, k0, k1, extras, _type, _v0, _v1, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = *bytes;
        RequestHeader {
            reply_to: ReplyTo { opcode, opaque: [o0, o1, o2, o3] },
            key_len: usize::from(u16::from_be_bytes([k0, k1])),
            extras_len: usize::from(extras),
            body_len: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            cas: u64::from_be_bytes(cas),
        }
    }

    #[inline]
    pub(super) fn opcode(&self) -> Option<Opcode> {
        Opcode::of(self.reply_to.opcode)
    }
}
