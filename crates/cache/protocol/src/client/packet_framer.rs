//! Replies of the binary protocol from bytes cut anywhere: heads as soon as they are whole, values as they arrive.

use super::packet::{PacketParsed, ReplyPacket, head_len, parse};
use super::reply::MalformedReply;
use crate::binary::HEADER_LEN;

/// A part of the stream of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketPiece<'a> {
    /// A whole head. If its value has a length, the value follows.
    Head(ReplyPacket<'a>),
    /// The next bytes of the announced value.
    Value {
        /// The bytes.
        bytes: &'a [u8],
        /// The value is complete.
        end: bool,
    },
}

/// The position in one connection's stream of replies. It cannot be used after an error.
#[derive(Debug, Default)]
pub struct PacketFramer {
    /// Bytes of the announced value that have not arrived.
    value_left: usize,
    /// The beginning of a head whose end has not arrived: at most a header, 255 bytes of extras and a key.
    carry: Vec<u8>,
    /// The head in `carry` was handed out.
    carry_is_used: bool,
}

impl PacketFramer {
    /// The next piece at the front of `input`, which moves on; `None` when more bytes are needed.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<PacketPiece<'a>>, MalformedReply<'a>> {
        if self.value_left > 0 {
            return Ok(self.value(input));
        }
        if !self.carry.is_empty() {
            if !self.carry_is_used {
                return self.rest_of_head(input);
            }
            self.carry.clear();
            self.carry_is_used = false;
        }
        match parse(input)? {
            PacketParsed::Incomplete => {
                self.carry.extend_from_slice(input);
                *input = &[];
                Ok(None)
            }
            PacketParsed::Head { packet, consumed } => {
                *input = &input[consumed..];
                self.value_left = packet.value_len;
                Ok(Some(PacketPiece::Head(packet)))
            }
        }
    }

    #[inline]
    fn value<'i>(&mut self, input: &mut &'i [u8]) -> Option<PacketPiece<'i>> {
        if input.is_empty() {
            return None;
        }
        let (bytes, rest) = input.split_at(self.value_left.min(input.len()));
        *input = rest;
        self.value_left -= bytes.len();
        Some(PacketPiece::Value { bytes, end: self.value_left == 0 })
    }

    /// Continues a head that began in an earlier receive: first its header, which says how long it is.
    #[cold]
    fn rest_of_head<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<PacketPiece<'a>>, MalformedReply<'a>> {
        self.carry_up_to(HEADER_LEN, input);
        // Parsed again below: an error here would borrow the carry for the whole function.
        if let Ok(Some(len)) = head_len(&self.carry) {
            self.carry_up_to(len, input);
        }
        match parse(&self.carry)? {
            PacketParsed::Incomplete => Ok(None),
            PacketParsed::Head { packet, .. } => {
                self.carry_is_used = true;
                self.value_left = packet.value_len;
                Ok(Some(PacketPiece::Head(packet)))
            }
        }
    }

    fn carry_up_to(&mut self, len: usize, input: &mut &[u8]) {
        let missing = len.saturating_sub(self.carry.len());
        let (here, rest) = input.split_at(missing.min(input.len()));
        self.carry.extend_from_slice(here);
        *input = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::{Opcode, ReplyStatus, ReplyTo, reply};
    use crate::fuzz::check_packets;
    use stdx::prng::Prng;

    fn to(opcode: Opcode) -> ReplyTo {
        ReplyTo { opcode: opcode as u8, opaque: [0, 0, 1, 2] }
    }

    /// What the stream says, cut in pieces of `size` bytes.
    fn read(stream: &[u8], size: usize) -> String {
        use std::fmt::Write;
        let (mut framer, mut text) = (PacketFramer::default(), String::new());
        for mut input in stream.chunks(size) {
            loop {
                match framer.next(&mut input) {
                    Ok(Some(PacketPiece::Head(packet))) => {
                        let ReplyPacket { opcode, status, number, cas, key, value_len } = packet;
                        let key = key.escape_ascii();
                        let _ = write!(text, "{opcode:x}:{status}#{number} cas={cas} {key}+{value_len};");
                    }
                    Ok(Some(PacketPiece::Value { bytes, end })) => {
                        let _ = write!(text, "{}{}", bytes.escape_ascii(), if end { "|" } else { "" });
                    }
                    Ok(None) => break,
                    Err(malformed) => return text + &malformed.to_string(),
                }
            }
        }
        text
    }

    #[test]
    fn replies_are_the_same_wherever_they_are_cut() {
        let mut stream = Vec::new();
        reply::value_head(&mut stream, to(Opcode::GetK), b"key", 5, 5, 9);
        stream.extend_from_slice(b"value");
        reply::error(&mut stream, to(Opcode::Get), ReplyStatus::NotFound);
        reply::value_head(&mut stream, to(Opcode::Get), b"", 0, 0, 1);
        reply::number(&mut stream, to(Opcode::Increment), 1, 3);
        reply::success(&mut stream, to(Opcode::Noop), 0);
        let expected = "c:0#258 cas=9 key+5;value|0:1#258 cas=0 +9;Not found|0:0#258 cas=1 +0;\
                        5:0#258 cas=3 +8;\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01|a:0#258 cas=0 +0;";
        for size in 1..=stream.len() {
            assert_eq!(read(&stream, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn other_bytes_are_refused_at_once() {
        for size in [1, 100] {
            let refused = read(b"ERROR Too many open connections\r\n", size);
            assert!(refused.ends_with("expected a packet, which begins with the byte 0x81"), "{refused}");
        }
        let mut header = [0; HEADER_LEN];
        header[0] = 0x81;
        header[3] = 251;
        header[11] = 251;
        assert!(read(&header, 24).contains("a key of at most 250 bytes"));
        header[3] = 1;
        header[11] = 0;
        assert!(read(&header, 5).contains("within its body"));
    }

    /// A short run of what `dev/fuzz/` explores.
    #[test]
    fn any_bytes_are_replies_or_an_error() {
        let mut prng = Prng::new(11);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..prng.below(80)).map(|_| prng.below(256) as u8).collect();
            // Nearly a reply, behind the two bytes that say where it is cut.
            for (at, bound) in [(2, 0), (4, 1), (5, 4), (6, 5), (10, 1), (11, 1), (12, 1), (13, 12)] {
                if let Some(byte) = bytes.get_mut(at).filter(|_| prng.below(8) > 0) {
                    *byte = if at == 2 { 0x81 } else { prng.below(bound + 1) as u8 };
                }
            }
            check_packets(&bytes);
        }
    }
}
