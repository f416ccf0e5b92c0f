//! Percent-encoding of keys, as `lru_crawler metadump` and `watch` print them.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `key` with everything but letters, digits and `-._~` percent-encoded.
pub fn encode(out: &mut Vec<u8>, key: &[u8]) {
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Appends the bytes that [`encode`] made `text` of; a `%` without two hex digits stands for itself.
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
    fn everything_but_the_unreserved_is_encoded_and_comes_back() {
        let mut text = Vec::new();
        encode(&mut text, b"aZ9-._~ %:/\xff\0");
        assert_eq!(text, b"aZ9-._~%20%25%3A%2F%FF%00");
        let mut bytes = Vec::new();
        decode(&mut bytes, &text);
        assert_eq!(bytes, b"aZ9-._~ %:/\xff\0");
    }

    #[test]
    fn a_lone_percent_sign_stands_for_itself() {
        let mut bytes = Vec::new();
        decode(&mut bytes, b"50%%2g%4");
        assert_eq!(bytes, b"50%%2g%4");
    }
}
