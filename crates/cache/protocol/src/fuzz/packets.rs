//! Properties of the client's side of the binary protocol for any bytes: replies from a hostile server.

use std::fmt::Write;

use crate::binary::HEADER_LEN;
use crate::client::packet::{PacketParsed, parse};
use crate::client::{PacketFramer, PacketPiece};
use crate::limits::KEY_LEN_MAX;

/// Checks all properties of a stream of replies. Its first two bytes choose where it is cut.
pub fn check_packets(input: &[u8]) {
    let Some((&[first, second], stream)) = input.split_first_chunk::<2>() else { return };
    check_head(stream);
    let whole = frame(&[stream]);
    let mut cuts = [first, second].map(|cut| usize::from(cut) % (stream.len() + 1));
    cuts.sort_unstable();
    let parts = [&stream[..cuts[0]], &stream[cuts[0]..cuts[1]], &stream[cuts[1]..]];
    assert_eq!(frame(&parts), whole, "cut at {cuts:?}");
    let small: Vec<&[u8]> = stream.chunks(usize::from(first % 7) + 1).collect();
    assert_eq!(frame(&small), whole, "in small pieces");
}

/// A head has a header, is incomplete until its last byte, and does not depend on what follows it.
fn check_head(input: &[u8]) {
    let Ok(PacketParsed::Head { packet, consumed }) = parse(input) else { return };
    assert!((HEADER_LEN..=HEADER_LEN + 255 + KEY_LEN_MAX).contains(&consumed) && consumed <= input.len());
    for len in 0..consumed {
        assert_eq!(parse(&input[..len]), Ok(PacketParsed::Incomplete), "a part of a head is incomplete");
    }
    assert_eq!(parse(&input[..consumed]), Ok(PacketParsed::Head { packet, consumed }));
}

/// Everything that a stream says, and its end.
fn frame(parts: &[&[u8]]) -> String {
    let (mut framer, mut seen) = (PacketFramer::default(), String::new());
    for part in parts {
        let mut input = *part;
        loop {
            match framer.next(&mut input) {
                Ok(Some(PacketPiece::Head(packet))) => drop(write!(seen, "{packet:?}")),
                Ok(Some(PacketPiece::Value { bytes, end })) => {
                    let _ = write!(seen, "{}{}", bytes.escape_ascii(), if end { "|" } else { "" });
                }
                Ok(None) => break,
                Err(malformed) => return seen + malformed.accepted,
            }
        }
        assert!(input.is_empty(), "nothing is left over");
    }
    seen
}
