//! Properties of parsed requests that hold for any bytes; `dev/fuzz/` checks them without end.

use super::{BinaryCommand, BinaryParsed, HEADER_LEN, REQUEST_MAGIC, parse};
use crate::limits::KEY_LEN_MAX;

/// Checks all properties for `input`; panics if one does not hold.
pub fn check(input: &[u8]) {
    let parsed = parse(input);
    let BinaryParsed::Head { request, consumed } = parsed else {
        let is_request = input.first().is_none_or(|&first| first == REQUEST_MAGIC);
        assert_eq!(is_request, parsed == BinaryParsed::Incomplete, "the first byte decides");
        return;
    };
    assert!(
        (HEADER_LEN..=input.len()).contains(&consumed),
        "a head has a header, and nothing beyond the input"
    );
    for len in 0..consumed {
        assert_eq!(parse(&input[..len]), BinaryParsed::Incomplete, "a part of a head is incomplete");
    }
    assert_eq!(parse(&input[..consumed]), parsed, "what follows a head does not matter");
    let key = request.key();
    assert!(key.is_none_or(|key| (1..=KEY_LEN_MAX).contains(&key.len())), "keys have a length");
    let body_len = u32::from_be_bytes([input[8], input[9], input[10], input[11]]) as usize;
    if let BinaryCommand::Unknown { rest } = request.command {
        assert_eq!(consumed + rest, HEADER_LEN + body_len, "an unknown request is dropped whole");
    }
    if request.value_len() > 0 {
        assert_eq!(consumed + request.value_len(), HEADER_LEN + body_len, "a value ends with the body");
    }
}
