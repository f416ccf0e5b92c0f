//! Requests of the binary protocol, appended to a buffer, and the heads of its replies.
//!
//! After a storage request, the caller appends the value, which has no end of its own. Replies are matched to requests by
//! the number that a request brings and its reply repeats.

use super::command::AppendKey;
use super::reply::MalformedReply;
use crate::binary::{HEADER_LEN, Opcode, REPLY_MAGIC, REQUEST_MAGIC};
use crate::limits::{FOUND_SHOWN_MAX, KEY_LEN_MAX};

/// The expiry of an increment or decrement that creates no item.
const CREATE_NOTHING: u32 = u32::MAX;

/// `get` and its variants: any opcode whose request is a key and nothing else, `delete` among them.
#[inline]
pub fn of_key(out: &mut Vec<u8>, opcode: Opcode, number: u32, key: impl AppendKey) {
    append(out, opcode, number, &[], key, 0);
}

/// `touch` and `gat`: a key and its new expiry.
pub fn touch(out: &mut Vec<u8>, opcode: Opcode, number: u32, key: impl AppendKey, exptime: u32) {
    append(out, opcode, number, &exptime.to_be_bytes(), key, 0);
}

/// `set`, `add`, `replace`, without client flags. `len` bytes of the value follow.
#[inline]
pub fn store(out: &mut Vec<u8>, opcode: Opcode, number: u32, key: impl AppendKey, exptime: u32, len: usize) {
    let mut extras = [0; 8];
    extras[4..].copy_from_slice(&exptime.to_be_bytes());
    append(out, opcode, number, &extras, key, len);
}

/// `append`, `prepend`. `len` bytes of the value follow.
pub fn join(out: &mut Vec<u8>, opcode: Opcode, number: u32, key: impl AppendKey, len: usize) {
    append(out, opcode, number, &[], key, len);
}

/// `increment`, `decrement`, of an item that exists.
pub fn arithmetic(out: &mut Vec<u8>, opcode: Opcode, number: u32, key: impl AppendKey, delta: u64) {
    let mut extras = [0; 20];
    extras[..8].copy_from_slice(&delta.to_be_bytes());
    extras[16..].copy_from_slice(&CREATE_NOTHING.to_be_bytes());
    append(out, opcode, number, &extras, key, 0);
}

/// `noop`, `version`: a header alone.
pub fn bare(out: &mut Vec<u8>, opcode: Opcode, number: u32) {
    append(out, opcode, number, &[], |_: &mut Vec<u8>| {}, 0);
}

/// Appends header, extras and key of a request whose value of `len` bytes follows.
#[inline]
fn append(out: &mut Vec<u8>, opcode: Opcode, number: u32, extras: &[u8], key: impl AppendKey, len: usize) {
    let start = out.len();
    let mut header = [0; HEADER_LEN];
    header[0] = REQUEST_MAGIC;
    header[1] = opcode as u8;
    header[4] = extras.len() as u8;
    header[12..16].copy_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(extras);
    let key_start = out.len();
    key.append(out);
    let key_len = out.len() - key_start;
    out[start + 2..start + 4].copy_from_slice(&(key_len as u16).to_be_bytes());
    let body_len = extras.len() + key_len + len;
    out[start + 8..start + 12].copy_from_slice(&(body_len as u32).to_be_bytes());
}

/// A reply before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyPacket<'a> {
    /// The opcode of the request.
    pub opcode: u8,
    /// The status: [`crate::binary::ReplyStatus::of`] knows those of memcached.
    pub status: u16,
    /// The number of the request.
    pub number: u32,
    /// The item's CAS unique, or 0.
    pub cas: u64,
    /// The item's key, where the request asked for it.
    pub key: &'a [u8],
    /// Length of the value, or of the text of an error.
    pub value_len: usize,
}

/// The start of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketParsed<'a> {
    /// The head is not complete.
    Incomplete,
    /// A whole head.
    Head {
        /// The head.
        packet: ReplyPacket<'a>,
        /// Length of header, extras and key.
        consumed: usize,
    },
}

/// Reads the head of the reply that `input` starts with.
#[inline]
pub fn parse(input: &[u8]) -> Result<PacketParsed<'_>, MalformedReply<'_>> {
    let Some(head_len) = head_len(input)? else { return Ok(PacketParsed::Incomplete) };
    let Some(head) = input.get(..head_len) else { return Ok(PacketParsed::Incomplete) };
    let [_, opcode, _, _, extras_len, _, s0, s1, b0, b1, b2, b3, n0, n1, n2, n3, cas @ ..] =
        *head.first_chunk::<HEADER_LEN>().expect("a head has a header");
    let body_len = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
    let packet = ReplyPacket {
        opcode,
        status: u16::from_be_bytes([s0, s1]),
        number: u32::from_be_bytes([n0, n1, n2, n3]),
        cas: u64::from_be_bytes(cas),
        key: &head[HEADER_LEN + usize::from(extras_len)..],
        value_len: body_len - (head_len - HEADER_LEN),
    };
    Ok(PacketParsed::Head { packet, consumed: head_len })
}

/// Length of the head that `input` starts with; `None` if not even its header has arrived.
#[inline]
pub(super) fn head_len(input: &[u8]) -> Result<Option<usize>, MalformedReply<'_>> {
    if input.first().is_some_and(|&first| first != REPLY_MAGIC) {
        return Err(malformed(input, "a packet, which begins with the byte 0x81"));
    }
    let Some(header) = input.first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let body_len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if key_len > KEY_LEN_MAX {
        const { assert!(KEY_LEN_MAX == 250, "the message says the limit") };
        return Err(malformed(input, "a packet with a key of at most 250 bytes"));
    }
    let rest = usize::from(header[4]) + key_len;
    if rest > body_len {
        return Err(malformed(input, "a packet whose extras and key are within its body"));
    }
    Ok(Some(HEADER_LEN + rest))
}

#[cold]
fn malformed<'a>(input: &'a [u8], accepted: &'static str) -> MalformedReply<'a> {
    MalformedReply { found: &input[..input.len().min(FOUND_SHOWN_MAX)], accepted }
}
