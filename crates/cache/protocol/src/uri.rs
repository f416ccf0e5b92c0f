//! Percent-encoding of keys: of every reserved byte, for `lru_crawler metadump` and `watch`, or of unreadable ones
//! only.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `key` with everything but letters, digits and `-._~` percent-encoded.
pub fn encode(out: &mut Vec<u8>, key: &[u8]) {
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(&escaped(byte));
        }
    }
}

/// Appends `key` unchanged if it [is readable](is_readable); in any other key, `%` and everything unreadable are
/// percent-encoded. So no key can end a line, add a word, or send control characters to a terminal.
pub fn encode_unreadable(out: &mut Vec<u8>, key: &[u8]) {
    if is_readable(key) {
        return out.extend_from_slice(key);
    }
    for chunk in key.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            if is_readable_character(character) && character != '%' {
                out.extend_from_slice(bytes);
            } else {
                bytes.iter().for_each(|&byte| out.extend_from_slice(&escaped(byte)));
            }
        }
        chunk.invalid().iter().for_each(|&byte| out.extend_from_slice(&escaped(byte)));
    }
}

/// Whether all of it is visible ASCII, or letters and digits of other scripts.
pub fn is_readable(key: &[u8]) -> bool {
    str::from_utf8(key).is_ok_and(|text| text.chars().all(is_readable_character))
}

/// Unicode has many line ends, blanks and invisible characters; letters and digits are none of them.
fn is_readable_character(character: char) -> bool {
    character.is_ascii_graphic() || !character.is_ascii() && character.is_alphanumeric()
}

fn escaped(byte: u8) -> [u8; 3] {
    [b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

/// Appends the decoded bytes of `text`; a `%` without two hex digits stands for itself.
pub fn decode(out: &mut Vec<u8>, text: &[u8]) {
    let hex = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        if let (b'%', [high, low, tail @ ..]) = (byte, tail)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            out.push(high << 4 | low);
            rest = tail;
        } else {
            out.push(*byte);
            rest = tail;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bytes_are_encoded_and_decoded_again() {
        let mut text = Vec::new();
        encode(&mut text, b"aZ9-._~ %:/\xff\0");
        assert_eq!(text, b"aZ9-._~%20%25%3A%2F%FF%00");
        let mut bytes = Vec::new();
        decode(&mut bytes, &text);
        assert_eq!(bytes, b"aZ9-._~ %:/\xff\0");
    }

    #[test]
    fn a_readable_key_stays_and_unreadable_characters_are_encoded() {
        let check = |key: &[u8], expected: &str| {
            let mut text = Vec::new();
            encode_unreadable(&mut text, key);
            assert_eq!(text.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
        };
        check(b"user/1?a=%20", "user/1?a=%20");
        check("\u{43f}\u{440}\u{435}\u{444}1".as_bytes(), "\u{43f}\u{440}\u{435}\u{444}1");
        check(b"a\r\nEND", "a%0D%0AEND");
        check(b"a b%\x1b[2J\0\x7f", "a%20b%25%1B[2J%00%7F");
        // Latin-1; a Unicode line separator, next line, no-break space, right-to-left override.
        check(b"caf\xe9", "caf%E9");
        check("a\u{2028}\u{85}\u{a0}\u{202e}b".as_bytes(), "a%E2%80%A8%C2%85%C2%A0%E2%80%AEb");
    }

    #[test]
    fn a_lone_percent_sign_stands_for_itself() {
        let mut bytes = Vec::new();
        decode(&mut bytes, b"50%%2g%4");
        assert_eq!(bytes, b"50%%2g%4");
    }
}
