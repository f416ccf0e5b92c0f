//! Base64 (RFC 4648, padded), with a decoder exactly as forgiving as memcached's.
//!
//! memcached skips characters outside the alphabet, requires a multiple of four of the others, and ignores everything
//! after the first padded block.

use crate::limits::KEY_LEN_MAX;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Marks bytes outside the alphabet in [`VALUES`].
const NONE: u8 = 0x80;

/// The six bits of every character; `=` counts as zero.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values[b'=' as usize] = 0;
    values
};

/// Room for a decoded key.
pub type KeyBuffer = [u8; KEY_LEN_MAX];

/// Decodes the base64 form of a key (at most [`KEY_LEN_MAX`] bytes); `None` if memcached refuses it.
pub fn decode<'b>(text: &[u8], buffer: &'b mut KeyBuffer) -> Option<&'b [u8]> {
    let alphabetic = text.iter().filter(|&&byte| VALUES[usize::from(byte)] != NONE).count();
    if alphabetic == 0 || !alphabetic.is_multiple_of(4) || alphabetic / 4 * 3 > buffer.len() {
        return None;
    }
    let mut len = 0;
    let mut block = [0u8; 4];
    let mut filled = 0;
    let mut padding = 0;
    for &byte in text {
        let value = VALUES[usize::from(byte)];
        if value == NONE {
            continue;
        }
        padding += usize::from(byte == b'=');
        block[filled] = value;
        filled += 1;
        if filled < 4 {
            continue;
        }
        filled = 0;
        let [a, b, c, d] = block;
        buffer[len..len + 3].copy_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
        len += 3;
        match padding {
            0 => {}
            1 | 2 => {
                len -= padding;
                break;
            }
            _ => return None,
        }
    }
    Some(&buffer[..len])
}

/// Appends the base64 form of `bytes`.
pub fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    let letter = |bits: u8| ALPHABET[usize::from(bits & 63)];
    let mut blocks = bytes.chunks_exact(3);
    for block in &mut blocks {
        let [a, b, c] = [block[0], block[1], block[2]];
        out.extend_from_slice(&[letter(a >> 2), letter(a << 4 | b >> 4), letter(b << 2 | c >> 6), letter(c)]);
    }
    match *blocks.remainder() {
        [a] => out.extend_from_slice(&[letter(a >> 2), letter(a << 4), b'=', b'=']),
        [a, b] => out.extend_from_slice(&[letter(a >> 2), letter(a << 4 | b >> 4), letter(b << 2), b'=']),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&[u8]>) {
        assert_eq!(decode(text.as_bytes(), &mut [0; KEY_LEN_MAX]), expected, "of {text:?}");
    }

    #[test]
    fn decodes_blocks_and_padding() {
        check("Zm9v", Some(b"foo"));
        check("Zm8=", Some(b"fo"));
        check("Zg==", Some(b"f"));
        check("/+8A", Some(b"\xff\xef\0"));
    }

    #[test]
    fn accepts_what_memcached_accepts() {
        check("Z!m\t9v", Some(b"foo"));
        check("Zg==Zm9v", Some(b"f"));
        check("Zg==Zm9", None);
        check("!!!!", None);
        check("Zm9", None);
        check("Z===", None);
        check("====", None);
        check("", None);
        check("=AAA", Some(b"\0\0"));
    }

    #[test]
    fn encoded_bytes_decode_to_themselves() {
        let bytes: Vec<u8> = (0..=186).map(|number| (number * 7) as u8).collect();
        for len in 1..=bytes.len() {
            let mut text = Vec::new();
            encode(&mut text, &bytes[..len]);
            assert_eq!(decode(&text, &mut [0; KEY_LEN_MAX]), Some(&bytes[..len]));
        }
    }
}
