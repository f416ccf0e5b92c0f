//! Replies: functions that append to the output. The caller decides what to answer; the spelling is here.

pub mod dump;
pub mod line;
mod meta;

pub use crate::meta::MetaCommand;
pub use meta::{Code, ItemFacts, ReplyKey, meta_reply};

use crate::number::Backward;

/// `VALUE <key> <flags> <len>[ <cas>]`, the line before a value.
#[inline]
pub fn value_head(out: &mut Vec<u8>, key: &[u8], flags: u32, len: usize, cas: Option<u64>) {
    // Three spaces, 10 + 20 + 20 digits, and the line end.
    let mut tail = Backward::<55>::new();
    tail.byte(b'\n');
    tail.byte(b'\r');
    if let Some(cas) = cas {
        tail.number(cas);
        tail.byte(b' ');
    }
    tail.number(len as u64);
    tail.byte(b' ');
    tail.number(u64::from(flags));
    tail.byte(b' ');
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.extend_from_slice(tail.written());
}

/// A number on a line of its own: the reply to `incr` and `decr`.
#[inline]
pub fn number_line(out: &mut Vec<u8>, number: u64) {
    let mut line = Backward::<22>::new();
    line.byte(b'\n');
    line.byte(b'\r');
    line.number(number);
    out.extend_from_slice(line.written());
}

/// `VERSION <version>`.
pub fn version(out: &mut Vec<u8>, version: &str) {
    out.extend_from_slice(b"VERSION ");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `MEMLIMIT_TOO_SMALL …`, where a server needs more than memcached's 8 MB.
pub fn memlimit_too_small(out: &mut Vec<u8>, megabytes_min: u64) {
    let reply = format!("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than {megabytes_min}m\r\n");
    out.extend_from_slice(reply.as_bytes());
}

/// `STAT <name> <value>`.
pub fn stat(out: &mut Vec<u8>, name: impl std::fmt::Display, value: impl std::fmt::Display) {
    use std::io::Write;
    write!(out, "STAT {name} {value}\r\n").expect("writing to a Vec does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(out.escape_ascii().to_string(), expected);
    }

    #[test]
    fn lines_are_spelled_as_in_memcached() {
        check(|out| value_head(out, b"k", 0, 5, None), "VALUE k 0 5\\r\\n");
        check(|out| value_head(out, b"k", u32::MAX, 10, Some(42)), "VALUE k 4294967295 10 42\\r\\n");
        check(|out| number_line(out, u64::MAX), "18446744073709551615\\r\\n");
        check(|out| version(out, "1.6.45"), "VERSION 1.6.45\\r\\n");
        check(|out| stat(out, "pid", 7), "STAT pid 7\\r\\n");
        check(|out| stat(out, format_args!("items:{}:age", 3), "x"), "STAT items:3:age x\\r\\n");
    }
}
