//! Request lines, appended to a buffer: what [`crate::request::parse`] reads.
//!
//! Only the lines: after the line of a storage command, the caller appends the value and a line end.

use super::flag::Flag;
use crate::key::Key;
use crate::meta::MetaKey;
use crate::number::{write_i64, write_u64};
use crate::request::{ArithmeticMode, Verb};

/// A source of a key: appends it to a line.
///
/// A function generates its key: it appends 1 to 250 bytes, none of which is a space or a line end. A [`Key`] holds one
/// that was checked.
pub trait AppendKey {
    /// Appends the key.
    fn append(self, out: &mut Vec<u8>);
}

impl AppendKey for Key<'_> {
    #[inline]
    fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

/// As it was written. One in base64 needs [`Flag::Binary`] with it.
impl AppendKey for MetaKey<'_> {
    #[inline]
    fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_written());
    }
}

impl<F: FnOnce(&mut Vec<u8>)> AppendKey for F {
    #[inline]
    fn append(self, out: &mut Vec<u8>) {
        self(out);
    }
}

/// Whether the server answers a classic command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Yes.
    Wanted,
    /// No: `noreply`. The server may answer an error all the same, and the client cannot tell to which request it
    /// belongs.
    Unwanted,
}

/// `get <key>*`. At least one key.
#[inline]
pub fn get<K: AppendKey>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = K>) {
    retrieve(out, b"get", keys);
}

/// `gets <key>*`: with the CAS. At least one key.
#[inline]
pub fn gets<K: AppendKey>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = K>) {
    retrieve(out, b"gets", keys);
}

#[inline]
fn retrieve<K: AppendKey>(out: &mut Vec<u8>, command: &[u8], keys: impl IntoIterator<Item = K>) {
    out.extend_from_slice(command);
    for key in keys {
        out.push(b' ');
        key.append(out);
    }
    out.extend_from_slice(END);
}

/// The arguments of a storage command that describe the value after its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueAttributes {
    /// The client's flags.
    pub flags: u32,
    /// 0 is never, negative is at once, up to 30 days is from now, and more is Unix time.
    pub exptime: i32,
    /// Length of the value, without the line end.
    pub len: usize,
}

/// `set`, `add`, `replace`, `append`, `prepend` or `cas`: the line before a value.
#[inline]
pub fn store(out: &mut Vec<u8>, verb: Verb, key: impl AppendKey, stored: ValueAttributes, reply: Reply) {
    let word: &[u8] = match verb {
        Verb::Set => b"set ",
        Verb::Add => b"add ",
        Verb::Replace => b"replace ",
        Verb::Append => b"append ",
        Verb::Prepend => b"prepend ",
        Verb::Cas(_) => b"cas ",
    };
    out.extend_from_slice(word);
    key.append(out);
    out.push(b' ');
    write_u64(out, u64::from(stored.flags));
    out.push(b' ');
    write_i64(out, i64::from(stored.exptime));
    out.push(b' ');
    write_u64(out, stored.len as u64);
    if let Verb::Cas(cas) = verb {
        out.push(b' ');
        write_u64(out, cas);
    }
    end(out, reply);
}

/// `delete <key>`.
#[inline]
pub fn delete(out: &mut Vec<u8>, key: impl AppendKey, reply: Reply) {
    out.extend_from_slice(b"delete ");
    let start = out.len();
    key.append(out);
    // As the last word of the line, a key of this name would mean that no reply is requested.
    if reply == Reply::Wanted && out[start..] == *b"noreply" {
        out.extend_from_slice(b" 0");
    }
    end(out, reply);
}

/// `incr <key> <delta>`, or `decr`.
#[inline]
pub fn arithmetic(out: &mut Vec<u8>, mode: ArithmeticMode, key: impl AppendKey, delta: u64, reply: Reply) {
    out.extend_from_slice(match mode {
        ArithmeticMode::Increment => b"incr ",
        ArithmeticMode::Decrement => b"decr ",
    });
    key.append(out);
    out.push(b' ');
    write_u64(out, delta);
    end(out, reply);
}

/// `touch <key> <exptime>`.
#[inline]
pub fn touch(out: &mut Vec<u8>, key: impl AppendKey, exptime: i32, reply: Reply) {
    out.extend_from_slice(b"touch ");
    key.append(out);
    out.push(b' ');
    write_i64(out, i64::from(exptime));
    end(out, reply);
}

/// `mg <key> <flag>*`.
#[inline]
pub fn meta_get(out: &mut Vec<u8>, key: impl AppendKey, flags: &[Flag<'_>]) {
    meta(out, b"mg ", key, flags);
}

/// A line of `mg <key> <flag>*` for each key.
#[inline]
pub fn meta_get_each<K: AppendKey>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = K>, flags: &[Flag<'_>]) {
    // The flags are written once: every further line has a copy of what follows the key of the first one.
    let mut written = 0..0;
    for key in keys {
        out.extend_from_slice(b"mg ");
        key.append(out);
        if written.is_empty() {
            let start = out.len();
            flagged(out, flags);
            written = start..out.len();
        } else {
            out.extend_from_within(written.clone());
        }
    }
}

/// `ms <key> <len> <flag>*`: the line before a value.
#[inline]
pub fn meta_set(out: &mut Vec<u8>, key: impl AppendKey, len: usize, flags: &[Flag<'_>]) {
    out.extend_from_slice(b"ms ");
    key.append(out);
    out.push(b' ');
    write_u64(out, len as u64);
    flagged(out, flags);
}

/// `md <key> <flag>*`.
#[inline]
pub fn meta_delete(out: &mut Vec<u8>, key: impl AppendKey, flags: &[Flag<'_>]) {
    meta(out, b"md ", key, flags);
}

/// `ma <key> <flag>*`.
#[inline]
pub fn meta_arithmetic(out: &mut Vec<u8>, key: impl AppendKey, flags: &[Flag<'_>]) {
    meta(out, b"ma ", key, flags);
}

/// `me <key>`, with the key as text.
pub fn meta_debug(out: &mut Vec<u8>, key: impl AppendKey) {
    meta(out, b"me ", key, &[]);
}

/// `mn`: its reply comes after the replies to all earlier requests.
#[inline]
pub fn meta_noop(out: &mut Vec<u8>) {
    out.extend_from_slice(b"mn\r\n");
}

/// `version`
pub fn version(out: &mut Vec<u8>) {
    out.extend_from_slice(b"version\r\n");
}

/// `stats`, or `stats <topic>` if it is not empty.
pub fn stats(out: &mut Vec<u8>, topic: &'static str) {
    out.extend_from_slice(b"stats");
    if !topic.is_empty() {
        out.push(b' ');
        out.extend_from_slice(topic.as_bytes());
    }
    out.extend_from_slice(END);
}

#[inline]
fn meta(out: &mut Vec<u8>, command: &[u8; 3], key: impl AppendKey, flags: &[Flag<'_>]) {
    out.extend_from_slice(command);
    key.append(out);
    flagged(out, flags);
}

#[inline]
fn flagged(out: &mut Vec<u8>, flags: &[Flag<'_>]) {
    for flag in flags {
        flag.write(out);
    }
    out.extend_from_slice(END);
}

#[inline]
fn end(out: &mut Vec<u8>, reply: Reply) {
    out.extend_from_slice(match reply {
        Reply::Wanted => END,
        Reply::Unwanted => b" noreply\r\n",
    });
}

const END: &[u8] = b"\r\n";
