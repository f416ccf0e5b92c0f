//! Requests and replies byte by byte.

use stdx::prng::Prng;

use super::*;

/// A request with these lengths in its header, whatever follows it.
fn header(opcode: u8, key: u16, extras: u8, body: u32) -> Vec<u8> {
    let mut bytes = vec![REQUEST_MAGIC, opcode];
    bytes.extend(key.to_be_bytes());
    bytes.extend([extras, 0, 0, 0]);
    bytes.extend(body.to_be_bytes());
    bytes.extend(b"opaq");
    bytes.extend(7u64.to_be_bytes());
    bytes
}

fn request(opcode: Opcode, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = header(opcode as u8, key.len() as u16, extras.len() as u8, body);
    bytes.extend([extras, key, value].concat());
    bytes
}

/// The command, and whether it is quiet.
#[track_caller]
fn head(bytes: &[u8]) -> (BinaryCommand<'_>, bool) {
    check::check(bytes);
    match parse(bytes) {
        BinaryParsed::Head { request, .. } => {
            assert_eq!((request.cas, request.reply_to.opaque), (7, *b"opaq"));
            assert_eq!(request.reply_to.opcode, bytes[1]);
            (request.command, request.quiet)
        }
        parsed => panic!("{parsed:?}"),
    }
}

#[track_caller]
fn check(bytes: &[u8], expected: BinaryCommand<'_>, quiet: bool) {
    assert_eq!(head(bytes), (expected, quiet), "{}", bytes.escape_ascii());
}

#[test]
fn opcodes_have_the_numbers_of_memcached() {
    assert_eq!(Opcode::ALL.len(), 35);
    for number in 0..=u8::MAX {
        let found = Opcode::ALL.iter().find(|opcode| **opcode as u8 == number);
        assert_eq!(Opcode::of(number), found.copied());
    }
    let quiet: Vec<u8> = Opcode::ALL.iter().filter(|code| code.is_quiet()).map(|code| *code as u8).collect();
    let expected = [0x09, 0x0d, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1e, 0x24];
    assert_eq!(quiet, expected);
}

#[test]
fn requests_have_their_extras_key_and_value() {
    use crate::request::{ArithmeticMode, SetMode};
    let get = |with_key, exptime| BinaryCommand::Get { key: b"key", with_key, exptime };
    check(&request(Opcode::Get, b"", b"key", b""), get(false, None), false);
    check(&request(Opcode::GetKQ, b"", b"key", b""), get(true, None), true);
    check(&request(Opcode::GatK, b"\0\0\x01\x02", b"key", b""), get(true, Some(258)), false);
    check(&request(Opcode::GatQ, b"\xff\0\0\0", b"key", b""), get(false, Some(0xff00_0000)), true);
    let touch = BinaryCommand::Touch { key: b"\0 \n", exptime: 9 };
    check(&request(Opcode::Touch, b"\0\0\0\x09", b"\0 \n", b""), touch, false);
    let store = |mode, flags, exptime| {
        BinaryCommand::Store(BinaryStore { mode, key: b"key", flags, exptime, len: 5 })
    };
    let set = request(Opcode::SetQ, b"\0\0\0\x01\0\0\0\x02", b"key", b"value");
    check(&set, store(SetMode::Set, 1, 2), true);
    check(&request(Opcode::Prepend, b"", b"key", b"value"), store(SetMode::Prepend, 0, 0), false);
    let extras = [3u64.to_be_bytes(), 4u64.to_be_bytes()].concat();
    let count =
        |create| BinaryCommand::Arithmetic { mode: ArithmeticMode::Decrement, key: b"n", delta: 3, create };
    let with = |exptime: u32| [&extras[..], &exptime.to_be_bytes()].concat();
    check(&request(Opcode::Decrement, &with(5), b"n", b""), count(Some((4, 5))), false);
    check(&request(Opcode::DecrementQ, &with(u32::MAX), b"n", b""), count(None), true);
    check(&request(Opcode::Flush, b"", b"", b""), BinaryCommand::Flush { exptime: 0 }, false);
    check(&request(Opcode::FlushQ, b"\0\0\0\x07", b"", b""), BinaryCommand::Flush { exptime: 7 }, true);
    check(&request(Opcode::Stat, b"", b"items", b""), BinaryCommand::Stat { name: b"items" }, false);
    let sasl = BinaryCommand::Sasl { is_first: true, mechanism: b"PLAIN", len: 4 };
    check(&request(Opcode::SaslAuth, b"", b"PLAIN", b"\0u\0p"), sasl, false);
}

#[test]
fn lengths_that_do_not_suit_the_opcode_are_refused() {
    for opcode in Opcode::ALL {
        for (key, extras, value) in
            [(0, 0, 0), (0, 4, 0), (3, 1, 0), (3, 255, 1), (0, 0, 1), (251, 0, 0), (0, 9, 9)]
        {
            let bytes = header(*opcode as u8, key, extras, u32::from(key) + u32::from(extras) + value);
            check::check(&bytes);
            let BinaryParsed::Head { request, .. } = parse(&bytes) else { continue };
            let is_allowed = match request.command {
                BinaryCommand::Refused { status, rest } => {
                    assert_eq!(status, ReplyStatus::InvalidArguments);
                    assert_eq!(rest, usize::from(key) + usize::from(extras));
                    continue;
                }
                BinaryCommand::Noop
                | BinaryCommand::Version
                | BinaryCommand::Quit
                | BinaryCommand::SaslList => (key, extras, value) == (0, 0, 0),
                BinaryCommand::Stat { .. } => (key, extras) == (0, 0),
                BinaryCommand::Flush { .. } => (key, value) == (0, 0) && extras == 0,
                _ => false,
            };
            assert!(is_allowed, "{opcode:?} {key} {extras} {value}: {request:?}");
        }
    }
    // Lengths that contradict each other are an unknown command, whatever the opcode.
    for (key, extras, body) in [(4, 0, 3), (1, 255, 255), (u16::MAX, 0, 0), (u16::MAX, 255, 65_789)] {
        let rest = usize::from(key) + usize::from(extras);
        let refused = BinaryCommand::Refused { status: ReplyStatus::UnknownCommand, rest };
        check(&header(0, key, extras, body), refused, false);
        check(&header(0xff, key, extras, body), refused, false);
    }
}

#[test]
fn an_unknown_request_is_dropped_with_its_value() {
    let mut bytes = header(0x1b, 3, 2, 105);
    check::check(&bytes);
    assert_eq!(parse(&bytes), BinaryParsed::Incomplete);
    bytes.extend(b"exkey");
    check(&bytes, BinaryCommand::Unknown { rest: 100 }, false);
}

#[test]
fn a_packet_may_announce_a_gigabyte() {
    let mut bytes = header(Opcode::Append as u8, 1, 0, 1 << 30);
    bytes.push(b'k');
    let BinaryParsed::Head { request, .. } = parse(&bytes) else { panic!("a whole head") };
    assert_eq!(request.value_len(), (1 << 30) - 1);
    let refused = BinaryCommand::Refused { status: ReplyStatus::InvalidArguments, rest: 1 };
    check(&header(Opcode::Append as u8, 1, 0, (1 << 30) + 1), refused, false);
    check(&header(0xff, 1, 0, u32::MAX), refused, false);
}

#[test]
fn what_is_no_request_is_recognised_by_its_first_byte() {
    assert_eq!(parse(b""), BinaryParsed::Incomplete);
    assert_eq!(parse(b"\x80"), BinaryParsed::Incomplete);
    assert_eq!(parse(b"g"), BinaryParsed::NoRequest);
    assert_eq!(parse(b"\x81\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), BinaryParsed::NoRequest);
}

#[test]
fn replies_are_spelled_as_in_memcached() {
    let to = ReplyTo { opcode: 0x0c, opaque: [1, 2, 3, 4] };
    let check = |write: &dyn Fn(&mut Vec<u8>), expected: &[u8]| {
        let mut out = b"before".to_vec();
        write(&mut out);
        assert_eq!(out.strip_prefix(b"before").expect("appended").escape_ascii().to_string(), {
            expected.escape_ascii().to_string()
        });
    };
    check(
        &|out| reply::value_head(out, to, b"key", 5, 100, 9),
        b"\x81\x0c\0\x03\x04\0\0\0\0\0\0\x6b\x01\x02\x03\x04\0\0\0\0\0\0\0\x09\0\0\0\x05key",
    );
    check(
        &|out| reply::success(out, to, 1),
        b"\x81\x0c\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04\0\0\0\0\0\0\0\x01",
    );
    check(
        &|out| reply::error(out, to, ReplyStatus::NotFound),
        b"\x81\x0c\0\0\0\0\0\x01\0\0\0\x09\x01\x02\x03\x04\0\0\0\0\0\0\0\0Not found",
    );
    check(
        &|out| reply::missing_key(out, to, b"k"),
        b"\x81\x0c\0\x01\0\0\0\x01\0\0\0\x01\x01\x02\x03\x04\0\0\0\0\0\0\0\0k",
    );
    check(
        &|out| reply::number(out, to, 258, 3),
        b"\x81\x0c\0\0\0\0\0\0\0\0\0\x08\x01\x02\x03\x04\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x01\x02",
    );
    check(
        &|out| reply::stat(out, [9; 4], "threads", 4),
        b"\x81\x10\0\x07\0\0\0\0\0\0\0\x08\x09\x09\x09\x09\0\0\0\0\0\0\0\0threads4",
    );
    check(&|out| reply::stat(out, [0; 4], "", ""), b"\x81\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
}

/// A short run of what `dev/fuzz/` explores.
#[test]
fn any_bytes_are_a_request_or_none() {
    let mut prng = Prng::new(7);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..prng.below(64)).map(|_| prng.below(256) as u8).collect();
        // Nearly a request: known opcodes and short lengths.
        for (at, bound) in [(0, 0), (1, 0x28), (2, 1), (3, 8), (4, 24), (8, 1), (9, 1), (10, 1), (11, 40)] {
            if let Some(byte) = bytes.get_mut(at).filter(|_| prng.below(8) > 0) {
                *byte = if at == 0 { REQUEST_MAGIC } else { prng.below(bound + 1) as u8 };
            }
        }
        check::check(&bytes);
    }
}
