//! The binary protocol, only as far as refusing it needs: a request's header, and the error reply.
//!
//! Layout: memcached's `protocol_binary.h`, "request header" and "response header". All numbers are big-endian.

/// The first byte of every request, and so the first byte that a client of the binary protocol sends.
pub const REQUEST_MAGIC: u8 = 0x80;

/// Length of a header.
pub const HEADER_LEN: usize = 24;

const REPLY_MAGIC: u8 = 0x81;
/// Status 0x0081 and its text: memcached's answer to an unknown opcode.
const UNKNOWN_COMMAND: [u8; 2] = [0x00, 0x81];
const UNKNOWN_COMMAND_TEXT: &[u8; 15] = b"Unknown command";

/// Length of [`Refusal::reply`].
pub const REFUSAL_LEN: usize = HEADER_LEN + UNKNOWN_COMMAND_TEXT.len();

/// The reply to a request, and how much of the request is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error reply: the request's opcode and opaque, status "unknown command".
    pub reply: [u8; REFUSAL_LEN],
    /// Bytes after the header: extras, key and value.
    pub body_len: usize,
}

/// Refuses the request that `input` starts with. `None` until its header is whole.
pub fn refuse(input: &[u8]) -> Option<Refusal> {
    let header = input.first_chunk::<HEADER_LEN>()?;
    let mut reply = [0; REFUSAL_LEN];
    reply[0] = REPLY_MAGIC;
    reply[1] = header[1];
    reply[6..8].copy_from_slice(&UNKNOWN_COMMAND);
    reply[11] = UNKNOWN_COMMAND_TEXT.len() as u8;
    reply[12..16].copy_from_slice(&header[12..16]);
    reply[HEADER_LEN..].copy_from_slice(UNKNOWN_COMMAND_TEXT);
    let body_len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    Some(Refusal { reply, body_len: usize::try_from(body_len).unwrap_or(usize::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_repeats_opcode_and_opaque_and_has_the_length_of_the_body() {
        let mut request =
            *b"\x80\x0b\x00\x03\x08\0\0\0\0\0\x01\x02\xde\xad\xbe\xef\x01\x02\x03\x04\x05\x06\x07\x08";
        let refusal = refuse(&request).expect("a whole header");
        assert_eq!(
            refusal.reply.escape_ascii().to_string(),
            r"\x81\x0b\x00\x00\x00\x00\x00\x81\x00\x00\x00\x0f\xde\xad\xbe\xef\x00\x00\x00\x00\x00\x00\x00\x00Unknown command"
        );
        assert_eq!(refusal.body_len, 0x102);
        request[8..12].fill(0xff);
        assert_eq!(refuse(&request).expect("a whole header").body_len, 0xffff_ffff);
        assert_eq!(refuse(&request[..HEADER_LEN - 1]), None);
    }
}
