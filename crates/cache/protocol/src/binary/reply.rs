//! Packets of replies.

use super::header::{HEADER_LEN, REPLY_MAGIC, ReplyTo};
use super::opcode::Opcode;
use super::status::ReplyStatus;

/// Length of the client's flags, the extras of a value.
const FLAGS_LEN: usize = 4;

/// The lengths in a header. The body is extras, key and value together.
#[derive(Clone, Copy, Default)]
struct Lengths {
    extras: usize,
    key: usize,
    value: usize,
}

#[inline]
fn header(to: ReplyTo, status: ReplyStatus, lengths: Lengths, cas: u64) -> [u8; HEADER_LEN] {
    let Lengths { extras, key, value } = lengths;
    let mut header = [0; HEADER_LEN];
    header[0] = REPLY_MAGIC;
    header[1] = to.opcode;
    header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
    header[4] = extras as u8;
    header[6..8].copy_from_slice(&(status as u16).to_be_bytes());
    header[8..12].copy_from_slice(&((extras + key + value) as u32).to_be_bytes());
    header[12..16].copy_from_slice(&to.opaque);
    header[16..].copy_from_slice(&cas.to_be_bytes());
    header
}

/// A packet without extras and key.
fn packet(out: &mut Vec<u8>, to: ReplyTo, status: ReplyStatus, cas: u64, value: &[u8]) {
    out.extend_from_slice(&header(to, status, Lengths { value: value.len(), ..Lengths::default() }, cas));
    out.extend_from_slice(value);
}

/// An item before its value of `len` bytes. `key` is empty if the reply has none.
#[inline]
pub fn value_head(out: &mut Vec<u8>, to: ReplyTo, key: &[u8], flags: u32, len: usize, cas: u64) {
    let lengths = Lengths { extras: FLAGS_LEN, key: key.len(), value: len };
    // One piece: appending it is cheaper than appending its parts.
    let mut head = [0; HEADER_LEN + FLAGS_LEN];
    head[..HEADER_LEN].copy_from_slice(&header(to, ReplyStatus::Success, lengths, cas));
    head[HEADER_LEN..].copy_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&head);
    if !key.is_empty() {
        out.extend_from_slice(key);
    }
}

/// Success, without anything but the CAS unique of a stored item; 0 if there is none.
#[inline]
pub fn success(out: &mut Vec<u8>, to: ReplyTo, cas: u64) {
    out.extend_from_slice(&header(to, ReplyStatus::Success, Lengths::default(), cas));
}

/// An error and its text.
pub fn error(out: &mut Vec<u8>, to: ReplyTo, status: ReplyStatus) {
    packet(out, to, status, 0, status.text().as_bytes());
}

/// No item under this key, which the reply repeats.
pub fn missing_key(out: &mut Vec<u8>, to: ReplyTo, key: &[u8]) {
    let lengths = Lengths { key: key.len(), ..Lengths::default() };
    out.extend_from_slice(&header(to, ReplyStatus::NotFound, lengths, 0));
    out.extend_from_slice(key);
}

/// The result of an increment or decrement.
pub fn number(out: &mut Vec<u8>, to: ReplyTo, value: u64, cas: u64) {
    packet(out, to, ReplyStatus::Success, cas, &value.to_be_bytes());
}

/// Success with a text, such as a version.
pub fn text(out: &mut Vec<u8>, to: ReplyTo, text: &str) {
    packet(out, to, ReplyStatus::Success, 0, text.as_bytes());
}

/// Another step of an authentication is needed; the server has nothing to say in it.
pub fn auth_continue(out: &mut Vec<u8>, to: ReplyTo) {
    packet(out, to, ReplyStatus::AuthContinue, 0, b"");
}

/// One statistic. A packet without name and value ends the list.
pub fn stat(out: &mut Vec<u8>, opaque: [u8; 4], name: impl std::fmt::Display, value: impl std::fmt::Display) {
    use std::io::Write;
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    write!(out, "{name}").expect("writing to a Vec does not fail");
    let key = out.len() - start - HEADER_LEN;
    write!(out, "{value}").expect("writing to a Vec does not fail");
    let value = out.len() - start - HEADER_LEN - key;
    let to = ReplyTo { opcode: Opcode::Stat as u8, opaque };
    let header = header(to, ReplyStatus::Success, Lengths { key, value, extras: 0 }, 0);
    out[start..start + HEADER_LEN].copy_from_slice(&header);
}
