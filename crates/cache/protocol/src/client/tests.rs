//! Replies as memcached 1.6.45 sends them, and their parsed form, cut at any byte.

use super::*;
use crate::limits::{REPLY_BODY_LEN_MAX, REPLY_LINE_LEN_MAX};

/// Requests, replies to them, and the terse form of these: `;` ends a line, `|` a body.
const REPLIES: &[(&str, &str, &str)] = &[
    ("get a", "END\r\n", "End;"),
    ("get a", "VALUE a 0 5\r\nhello\r\nEND\r\n", "Value a flags=0 len=5; hello| End;"),
    ("get a b c", "VALUE a 7 0\r\n\r\nVALUE c 4294967295 2\r\n\r\n\r\nEND\r\n", {
        "Value a flags=7 len=0; | Value c flags=4294967295 len=2; \\r\\n| End;"
    }),
    ("get a", "VALUE a 0 8\r\nEND\r\nx\r\n\r\nEND\r\n", "Value a flags=0 len=8; END\\r\\nx\\r\\n| End;"),
    ("get a", "SERVER_ERROR out of memory writing get response\r\n", {
        "Server error SERVER_ERROR out of memory writing get response;"
    }),
    ("gets a", "VALUE a 1 1 18446744073709551615\r\nx\r\nEND\r\n", {
        "Value a flags=1 len=1 cas=18446744073709551615; x| End;"
    }),
    ("gat 10 a", "VALUE a 0 1\r\nx\r\nEND\r\n", "Value a flags=0 len=1; x| End;"),
    ("gats 10 a", "VALUE a 0 1 2\r\nx\r\nEND\r\n", "Value a flags=0 len=1 cas=2; x| End;"),
    ("gat x a", "CLIENT_ERROR invalid exptime argument\r\n", {
        "Client error CLIENT_ERROR invalid exptime argument;"
    }),
    ("set a 0 0 1", "STORED\r\n", "Stored;"),
    ("add a 0 0 1", "NOT_STORED\r\n", "NotStored;"),
    ("cas a 0 0 1 5", "EXISTS\r\n", "Exists;"),
    ("cas a 0 0 1 5", "NOT_FOUND\r\n", "NotFound;"),
    ("set a 0 0 9999999", "SERVER_ERROR object too large for cache\r\n", {
        "Server error SERVER_ERROR object too large for cache;"
    }),
    ("set a 0 0 1", "CLIENT_ERROR bad data chunk\r\nERROR\r\n", {
        "Client error CLIENT_ERROR bad data chunk; Error error ERROR;"
    }),
    ("delete a", "DELETED\r\n", "Deleted;"),
    ("delete a", "NOT_FOUND\r\n", "NotFound;"),
    ("incr a 1", "0\r\n", "Number 0;"),
    ("incr a 1", "18446744073709551615\r\n", "Number 18446744073709551615;"),
    ("incr a 1", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", {
        "Client error CLIENT_ERROR cannot increment or decrement non-numeric value;"
    }),
    ("touch a 1", "TOUCHED\r\n", "Touched;"),
    ("touch a 1", "NOT_FOUND\r\n", "NotFound;"),
    ("mg a", "HD\r\n", "Header \"\";"),
    ("mg a v", "EN\r\n", "Miss \"\";"),
    ("mg a v", "VA 0\r\n\r\n", "MetaValue 0 \"\"; |"),
    ("mg a v f k Oab c l h s t", "VA 3 f7 ka Oab c42 l3 h1 s3 t-1\r\nabc\r\n", {
        "MetaValue 3 \"f7 ka Oab c42 l3 h1 s3 t-1\" f=7 k=a O=ab c=42 l=3 h=true s=3 t=Forever; abc|"
    }),
    ("mg Zm9v b k t", "HD kZm9v b t30\r\n", "Header \"kZm9v b t30\" k=Zm9v b t=Seconds(30);"),
    ("mg a s R30", "HD s5 X W\r\n", "Header \"s5 X W\" s=5 W X;"),
    ("mg a s h", "HD s5 h0 Z X\r\n", "Header \"s5 h0 Z X\" h=false s=5 X Z;"),
    ("mg a k O1 v", "EN ka O1\r\n", "Miss \"ka O1\" k=a O=1;"),
    ("mg a v v", "CLIENT_ERROR duplicate flag\r\n", "Client error CLIENT_ERROR duplicate flag;"),
    ("ms a 1 c", "HD c5\r\n", "Header \"c5\" c=5;"),
    ("ms a 1 ME c", "NS c0\r\n", "MetaNotStored \"c0\" c=0;"),
    ("ms a 1 C1 O3", "EX O3\r\n", "MetaExists \"O3\" O=3;"),
    ("ms a 1 MR C1", "NF\r\n", "MetaNotFound \"\";"),
    ("md a k", "NF ka\r\n", "MetaNotFound \"ka\" k=a;"),
    ("md a C1", "EX\r\n", "MetaExists \"\";"),
    ("ma n v t", "VA 2 t98\r\n17\r\n", "MetaValue 2 \"t98\" t=Seconds(98); 17|"),
    ("ma n N0", "NS\r\n", "MetaNotStored \"\";"),
    ("me a", "ME a exp=-1 la=9 cas=4 fetch=no cls=1 size=65\r\n", {
        "Debug a (exp=-1 la=9 cas=4 fetch=no cls=1 size=65);"
    }),
    ("me a", "EN\r\n", "Miss \"\";"),
    ("mg a v q\r\nmg b v q\r\nmn", "VA 1\r\nx\r\nMN\r\n", "MetaValue 1 \"\"; x| Noop;"),
    ("mn", "MN\r\n", "Noop;"),
    ("version", "VERSION 1.6.45\r\n", "Version 1.6.45;"),
    ("verbosity 1", "OK\r\n", "Ok;"),
    ("flush_all", "CLIENT_ERROR flush_all not allowed\r\n", {
        "Client error CLIENT_ERROR flush_all not allowed;"
    }),
    ("stats", "STAT pid 7\r\nSTAT version 1.6.45\r\nSTAT rusage_user 0.073521\r\nEND\r\n", {
        "Stat pid (7); Stat version (1.6.45); Stat rusage_user (0.073521); End;"
    }),
    ("stats items", "STAT items:1:number 5\r\nEND\r\n", "Stat items:1:number (5); End;"),
    ("stats settings", "STAT inter 127.0.0.1, ::1\r\nSTAT auth_enabled_ascii \r\nSTAT x\r\nEND\r\n", {
        "Stat inter (127.0.0.1, ::1); Stat auth_enabled_ascii (); Stat x (); End;"
    }),
    ("stats reset", "RESET\r\n", "Reset;"),
    ("stats bogus", "ERROR\r\n", "Error error ERROR;"),
    ("stats detail dump", "PREFIX p get 2 hit 1 set 1 del 0\r\nEND\r\n", {
        "Unknown PREFIX p get 2 hit 1 set 1 del 0; End;"
    }),
    ("stats cachedump 1 1", "ITEM a [5 b; 0 s]\r\nEND\r\n", "Unknown ITEM a [5 b; 0 s]; End;"),
    ("lru_crawler metadump all", "OK\r\nkey=a exp=-1 la=9 cas=4 fetch=no cls=1 size=65 flags=0 \nEND\r\n", {
        "Ok; Unknown key=a exp=-1 la=9 cas=4 fetch=no cls=1 size=65 flags=0 ; End;"
    }),
    ("lru_crawler mgdump all", "OK\r\nmg AAEC b\r\nEN\r\n", "Ok; Unknown mg AAEC b; Miss \"\";"),
    ("lru_crawler crawl all", "BUSY currently processing crawler request\r\n", {
        "Busy currently processing crawler request;"
    }),
    ("lru_crawler crawl 70", "BADCLASS invalid class id\r\n", "Unknown BADCLASS invalid class id;"),
    ("slabs reassign 1 2", "BUSY currently processing reassign request\r\n", {
        "Busy currently processing reassign request;"
    }),
    ("shutdown", "SERVER_ERROR: shutdown not enabled\r\n", {
        "Server error SERVER_ERROR: shutdown not enabled;"
    }),
    ("watch fetchers", "OK\r\nts=1.2 gid=1 type=item_get key=a status=found clsid=1 cfd=3 size=5\n", {
        "Ok; Unknown ts=1.2 gid=1 type=item_get key=a status=found clsid=1 cfd=3 size=5;"
    }),
    ("(connecting)", "ERROR Too many open connections\r\n", {
        "Error error ERROR Too many open connections;"
    }),
    ("bogus", "ERROR\r\n", "Error error ERROR;"),
];

/// The pieces that a framer makes of a stream that arrives in `parts`, with joined bodies; and all bytes that it handed
/// out.
fn frame<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (String, Vec<u8>) {
    let mut framer = Framer::default();
    let (mut seen, mut forwarded) = (String::new(), Vec::new());
    for mut part in parts {
        loop {
            match framer.next(&mut part) {
                Ok(Some(Piece::Line { line, raw })) => {
                    seen.push_str(&format!("{}; ", terse(&line)));
                    forwarded.extend_from_slice(raw);
                }
                Ok(Some(Piece::Body { bytes, end })) => {
                    seen.push_str(&bytes.escape_ascii().to_string());
                    seen.push_str(if end { "| " } else { "" });
                    forwarded.extend_from_slice(bytes);
                    forwarded.extend_from_slice(if end { b"\r\n" } else { b"" });
                }
                Ok(None) => break,
                Err(broken) => return (format!("{seen}broken: {}", broken.accepted), forwarded),
            }
        }
        assert!(part.is_empty(), "everything is consumed");
    }
    (seen.trim_end().to_owned(), forwarded)
}

fn terse(line: &Line<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match *line {
        Line::Value(Value { key, flags, len, cas }) => {
            let cas = cas.map_or(String::new(), |cas| format!(" cas={cas}"));
            format!("Value {} flags={flags} len={len}{cas}", text(key))
        }
        Line::MetaValue { len, flags } => format!("MetaValue {len} {}", facts(flags)),
        Line::Header(flags) => format!("Header {}", facts(flags)),
        Line::Miss(flags) => format!("Miss {}", facts(flags)),
        Line::MetaNotStored(flags) => format!("MetaNotStored {}", facts(flags)),
        Line::MetaExists(flags) => format!("MetaExists {}", facts(flags)),
        Line::MetaNotFound(flags) => format!("MetaNotFound {}", facts(flags)),
        Line::Number(number) => format!("Number {number}"),
        Line::Version(version) => format!("Version {}", text(version)),
        Line::Stat { name, value } => format!("Stat {} ({})", text(name), text(value)),
        Line::Debug { key, facts } => format!("Debug {} ({})", text(key), text(facts)),
        Line::Busy(line) => format!("Busy {}", text(line)),
        Line::Error { kind, line } => format!("{kind:?} error {}", text(line)),
        Line::Unknown(line) => format!("Unknown {}", text(line)),
        simple => format!("{simple:?}"),
    }
}

fn facts(flags: ReturnFlags<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let returned = match flags.read() {
        Ok(returned) => returned,
        Err(broken) => return format!("broken: {}", broken.accepted),
    };
    assert_eq!(returned.key, flags.key());
    let mut words = vec![format!("{flags:?}")];
    words.extend(returned.flags.map(|flags| format!("f={flags}")));
    words.extend(returned.key.map(|key| format!("k={}", text(key))));
    words.extend(returned.is_binary.then(|| "b".to_owned()));
    words.extend(returned.opaque.map(|opaque| format!("O={}", text(opaque))));
    words.extend(returned.cas.map(|cas| format!("c={cas}")));
    words.extend(returned.idle_s.map(|idle_s| format!("l={idle_s}")));
    words.extend(returned.hit_before.map(|hit_before| format!("h={hit_before}")));
    words.extend(returned.size.map(|size| format!("s={size}")));
    words.extend(returned.ttl.map(|ttl| format!("t={ttl:?}")));
    words.extend(returned.won.then(|| "W".to_owned()));
    words.extend(returned.stale.then(|| "X".to_owned()));
    words.extend(returned.token_sent.then(|| "Z".to_owned()));
    words.join(" ")
}

/// Checks the stream as a whole, byte by byte, and cut at any two places.
#[track_caller]
fn check(stream: &[u8], expected: &str) {
    let parts = |first: usize, second: usize| [&stream[..first], &stream[first..second], &stream[second..]];
    let whole = frame([stream]);
    assert_eq!(whole.0, expected, "of {}", stream.escape_ascii());
    if !expected.contains("broken: ") {
        assert_eq!(whole.1, stream, "the forwarded bytes are the received ones");
    }
    assert_eq!(frame(stream.chunks(1)), whole, "byte by byte");
    for first in 0..=stream.len() {
        for second in first..=stream.len() {
            assert_eq!(frame(parts(first, second)), whole, "cut at {first} and {second}");
        }
    }
}

#[test]
fn replies_of_memcached_are_parsed_wherever_they_are_cut() {
    for (request, reply, expected) in REPLIES {
        assert_eq!(frame([reply.as_bytes()]).0, *expected, "to {request}");
        check(reply.as_bytes(), expected);
    }
}

#[test]
fn several_replies_are_parsed_in_order() {
    let stream: String = REPLIES.iter().map(|(_, reply, _)| *reply).collect();
    let expected: Vec<&str> = REPLIES.iter().map(|(.., expected)| *expected).collect();
    assert_eq!(frame([stream.as_bytes()]), (expected.join(" "), stream.clone().into_bytes()));
    assert_eq!(frame(stream.as_bytes().chunks(1)).1, stream.as_bytes());
}

#[test]
fn a_line_that_only_begins_like_a_known_one_is_unknown() {
    for line in [
        "",
        "-1",
        "1x",
        "1 2",
        "END ",
        "ENDS",
        "ENx",
        "HDx",
        "NSx",
        "NFx",
        "EXx",
        "EXISTSx",
        "MN ",
        "MNx",
        "ME",
        "M",
        "STOREDx",
        "STORE",
        "NOT_",
        "NOT_STORED ",
        "ERRORS",
        "CLIENT_ERRORS",
        "SERVER_ERRORx",
        "Error TLS not enabled",
        "VERSION",
        "VALUES",
        "VALUEx a 0 0",
        "V",
        "VAx",
        "VB 1",
        "OK ",
        "BUSY",
        "stored",
        " STORED",
        "\r",
        "S",
        "STAT",
    ] {
        let stream = format!("{line}\r\n");
        check(stream.as_bytes(), &format!("Unknown {};", line.escape_default()));
    }
}

#[test]
fn a_line_may_end_without_a_carriage_return() {
    check(b"STORED\nVA 1 k\nx\r\nEN\n", "Stored; MetaValue 1 \"k\" k=; x| Miss \"\";");
}

#[test]
fn a_length_or_a_number_out_of_bounds_is_an_error() {
    let most = REPLY_BODY_LEN_MAX;
    let value =
        "broken: VALUE with a key of 1 to 250 bytes, flags and a length of at most 2 GiB, perhaps a CAS";
    for line in [
        "VALUE",
        "VALUE ",
        "VALUE a",
        "VALUE a 0",
        "VALUE a 0 ",
        "VALUE a 0 x",
        "VALUE a 0 -1",
        "VALUE a 0 1x",
        "VALUE a 0 1 ",
        "VALUE a 0 1 x",
        "VALUE a 0 1 2 3",
        "VALUE a 0 1 2x",
        "VALUE a x 1",
        "VALUE a -1 1",
        "VALUE a  1",
        "VALUE  0 1",
        "VALUE a 0 +1",
        "VALUE a 0 18446744073709551616",
        "VALUE a 0 000000000000000000001",
        "VALUE a 18446744073709551616 1",
        "VALUE a 0 1 18446744073709551616",
        &format!("VALUE a 0 {}", most + 1),
        &format!("VALUE {} 0 1", "k".repeat(251)),
    ] {
        check(format!("{line}\r\n").as_bytes(), value);
    }
    for line in [
        "VA",
        "VA ",
        "VA x",
        "VA -1",
        "VA 1x",
        "VA  1",
        &format!("VA {}", most + 1),
        "VA 99999999999999999999",
    ] {
        check(format!("{line}\r\n").as_bytes(), "broken: VA with a length of at most 2 GiB, perhaps flags");
    }
    for line in ["18446744073709551616", "000000000000000000000", "99999999999999999999999999999"] {
        check(format!("{line}\r\n").as_bytes(), "broken: a number of 64 bits, in at most 20 digits");
    }
    check(b"STAT \r\n", "broken: STAT with a name");
    check(b"STAT  1\r\n", "broken: STAT with a name");
}

#[test]
fn the_longest_body_is_announced_and_not_kept() {
    let line = format!("VALUE {} 0 {REPLY_BODY_LEN_MAX}\r\n", "k".repeat(250));
    let Ok(Parsed::Head { body, consumed, .. }) = parse(line.as_bytes()) else { panic!("a head") };
    assert_eq!((body, consumed), (Some(REPLY_BODY_LEN_MAX), line.len()));
    let mut framer = Framer::default();
    assert!(framer.next(&mut line.as_bytes()).is_ok());
    let chunk = vec![b'x'; 1 << 20];
    let mut left = REPLY_BODY_LEN_MAX;
    while left > 0 {
        let bytes = &chunk[..left.min(chunk.len())];
        assert_eq!(framer.next(&mut &*bytes), Ok(Some(Piece::Body { bytes, end: false })));
        left -= bytes.len();
    }
    assert_eq!(framer.next(&mut &b"\r\n"[..]), Ok(Some(Piece::Body { bytes: b"", end: true })));
}

#[test]
fn a_body_must_end_with_a_line_end() {
    // How much of the body is handed out before the error depends on the cut; the error does not.
    for stream in [&b"VALUE a 0 3\r\nabcd\r\n"[..], b"VA 3\r\nab\r\n\r\n", b"VA 0\r\n\n\n", b"VA 1\r\na\rb"] {
        for cut in 0..stream.len() {
            let (seen, _) = frame([&stream[..cut], &stream[cut..]]);
            assert!(seen.ends_with("broken: the line end after a value"), "cut at {cut}: {seen}");
        }
    }
}

#[test]
fn a_line_is_too_long_wherever_it_is_cut() {
    let line = |len: usize| [vec![b'x'; len - 2], b"\r\n".to_vec()].concat();
    let refused = "broken: a line of at most 2048 bytes";
    for len in [REPLY_LINE_LEN_MAX - 1, REPLY_LINE_LEN_MAX, REPLY_LINE_LEN_MAX + 1, 5000, 100_000] {
        let line = line(len);
        let fits = len <= REPLY_LINE_LEN_MAX;
        for chunk in [1, 2, 64, 2047, 2048, 2049, 4000, len] {
            let (seen, _) = frame(line.chunks(chunk));
            let expected =
                if fits { format!("Unknown {};", "x".repeat(len - 2)) } else { refused.to_owned() };
            assert_eq!(seen, expected, "{len} bytes in pieces of {chunk}");
        }
    }
    let mut framer = Framer::default();
    let endless = vec![b'V'; 1 << 20];
    assert!(framer.next(&mut &endless[..]).is_err(), "and without an end");
    assert!(parse(&endless[..REPLY_LINE_LEN_MAX - 1]) == Ok(Parsed::Incomplete));
}

#[test]
fn malformed_return_flags_are_an_error_and_unknown_ones_are_skipped() {
    let check = |flags: &str, expected: &str| {
        let line = format!("HD {flags}\r\n");
        let Ok(Parsed::Head { line: Line::Header(flags), .. }) = parse(line.as_bytes()) else { panic!("HD") };
        let shown = flags.read().map_or_else(|broken| broken.to_string(), |_| facts(flags));
        assert_eq!(shown, expected);
    };
    let arguments = "return flags with numbers of 64 bits behind c, f, l, s and t, and 0 or 1 behind h";
    for bad in ["c", "cx", "c1x", "c-1", "c18446744073709551616", "f-1", "s", "t-2", "t", "l+1", "h", "h2"] {
        check(bad, &format!("found \"{bad}\", expected {arguments}"));
    }
    check("ka Oa ka", "found \"ka Oa ka\", expected each return flag once");
    check("ka  O  y7 ! 12 \u{e4}", "\"ka  O  y7 ! 12 \\xc3\\xa4\" k=a O=");
    check("W X Z", "\"W X Z\" W X Z");
}

#[test]
fn a_refused_line_is_shown_in_part() {
    let line = format!("VALUE {} 0 1\r\n", "k\u{1b}".repeat(200));
    let broken = parse(line.as_bytes()).expect_err("an overlong key").to_string();
    assert!(broken.starts_with("found \"VALUE k\\x1bk\\x1b") && broken.len() < 400, "{broken}");
}
