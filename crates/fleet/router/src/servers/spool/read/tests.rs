//! Records that are read, and lines that are refused.

use protocol::{Parsed, Request, parse};
use stdx::prng::Prng;

use super::*;
use crate::servers::spool::{SpoolFormat, SpoolRecord, write_record};

fn formats() -> [SpoolFormat; 2] {
    [SpoolFormat::One, SpoolFormat::Two { service: "mcrouter \"1\"".to_owned(), region: "r".to_owned() }]
}

/// The line of a record, without its end.
fn written(server: &str, key: &[u8], format: &SpoolFormat) -> Vec<u8> {
    let mut line = Vec::new();
    write_record(&mut line, &SpoolRecord { server, key, pool: "A" }, 1_289_416_829_036, format);
    assert_eq!(line.pop(), Some(b'\n'));
    line
}

/// What is sent for a key is one delete of this key, and nothing else.
#[track_caller]
fn is_one_delete(key: &[u8]) {
    let line = [b"delete ", key, b"\r\n"].concat();
    match parse(&line) {
        Parsed::Head { request: Request::Delete { key: parsed, noreply: false }, consumed } => {
            assert_eq!((parsed.as_bytes(), consumed), (key, line.len()));
        }
        other => panic!("{}: {other:?}", line.escape_ascii()),
    }
}

#[test]
fn what_is_written_is_read() {
    let mut prng = Prng::new(7);
    for round in 0..20_000 {
        let len = 1 + prng.below(250) as usize;
        let key: Vec<u8> = (0..len).map(|_| prng.below(256) as u8).collect();
        let server = ["10.0.0.1:11302", "[::1]:5", "unix:/run/a b.sock", "cache-0.cache:11211"][round % 4];
        for format in formats() {
            let line = written(server, &key, &format);
            assert!(!line.contains(&b'\n'), "a record is one line");
            let pool = (format != SpoolFormat::One).then(|| "A".to_owned());
            match read_record(&line) {
                Ok(read) => {
                    assert_eq!(read, SpooledDelete { server: server.to_owned(), key: key.clone(), pool });
                    is_one_delete(&read.key);
                }
                // No client can have sent it.
                Err(RecordError::Key(_)) => assert!(key.iter().any(|byte| b" \r\n".contains(byte))),
                Err(error) => panic!("{}: {error}", line.escape_ascii()),
            }
        }
    }
}

#[test]
fn damaged_records_are_refused_or_are_still_one_delete() {
    let mut prng = Prng::new(8);
    for round in 0..200_000 {
        let mut line = written("10.0.0.1:11302", b"some\"key\\\x01\xff", &formats()[round % 2]);
        for _ in 0..=prng.below(3) {
            let at = prng.below(line.len() as u64) as usize;
            match prng.below(4) {
                0 => line.truncate(at.max(1)),
                1 => line[at] = prng.below(256) as u8,
                2 => drop(line.remove(at)),
                _ => line.insert(at, b"\"\\,:[]{}\n\r u"[prng.below(12) as usize]),
            }
            if line.is_empty() {
                break;
            }
        }
        if let Ok(read) = read_record(&line) {
            is_one_delete(&read.key);
        }
    }
    for _ in 0..100_000 {
        let line: Vec<u8> = (0..prng.below(80)).map(|_| prng.below(256) as u8).collect();
        assert!(read_record(&line).is_err(), "{}", line.escape_ascii());
    }
}

#[test]
fn every_beginning_of_a_record_is_cut() {
    for format in formats() {
        let line = written("h:5", b"k", &format);
        for len in 0..line.len() {
            assert!(matches!(read_record(&line[..len]), Err(RecordError::Cut { .. })), "{len}");
        }
    }
}

#[test]
fn records_of_mcrouter_are_read_in_any_order_of_their_members() {
    let read = |line: &str| read_record(line.as_bytes()).expect(line);
    let one = read(r#"["AS1.0",1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]"#);
    assert_eq!((&*one.server, &*one.key, one.pool), ("10.0.0.1:11302", &b"foo"[..], None));
    let two = read(
        r#"["AS2.0",1.2e9,"C",{"a":{"al":1,"x":[true,null,{}]},"k":"f\u00e9\ud83d\ude00","p":"pool","h":"[::1]:5"}]"#,
    );
    assert_eq!((&*two.server, &*two.key), ("[::1]:5", "fé😀".as_bytes()));
    assert_eq!(two.pool.as_deref(), Some("pool"));
}

#[track_caller]
fn refused(line: &str, expected: &str) {
    let error = read_record(line.as_bytes()).expect_err(line);
    assert_eq!(error.to_string(), expected, "{line}");
}

#[test]
fn everything_but_a_delete_is_refused() {
    let one = |command: &str| format!(r#"["AS1.0",1.5,"C",["h",5,"{command}"]]"#);
    let command = "expected the command `delete KEY`, found";
    refused(&one(r"flush_all\r\n"), &format!(r"{command} `flush_all\r\n`"));
    refused(&one("delete k"), &format!("{command} `delete k`"));
    refused(&one(r"DELETE k\r\n"), &format!(r"{command} `DELETE k\r\n`"));
    let key = "expected a key of 1 to 250 bytes without spaces and ends of lines, found";
    refused(&one(r"delete k 0\r\n"), &format!("{key} `k 0`"));
    refused(&one(r"delete k noreply\r\n"), &format!("{key} `k noreply`"));
    refused(&one(r"delete \r\n"), &format!("{key} ``"));
    refused(&one(r"delete a\r\nflush_all\r\n"), &format!(r"{key} `a\r\nflush_all`"));
    refused(&one(r"delete a\nflush_all\r\n"), &format!(r"{key} `a\nflush_all`"));
    refused(&one(r"delete a\r\r\n"), &format!(r"{key} `a\r`"));
    refused(&one(&format!(r"delete {}\r\n", "k".repeat(251))), &format!("{key} `{}…`", "k".repeat(40)));
    let two = |members: &str| format!(r#"["AS2.0",1.5,"C",{{{members}}}]"#);
    refused(&two(r#""h":"[h]:5","p":"A","k":"a b""#), &format!("{key} `a b`"));
    refused(&two(r#""h":"[h]:5","k":"a""#), "expected the members `h`, `p` and `k`, found no `p`");
    refused(&two(r#""k":"a","k":"b""#), &format!("{command} a record with two members `k`"));
    refused(&two(r#""k":"a","op":"touch""#), &format!("{command} a record with a member `op`"));
    refused(r#"["AS3.0",1.5,"C",{}]"#, "expected format AS1.0 or AS2.0, found `AS3.0`");
    refused(r#"["AS1.0",1.5,"D",[]]"#, &format!("{command} a record of the kind `D`"));
    refused(&(one(r"delete k\r\n") + "x"), "expected the end of the line at byte 41, found `x`");
    refused("", "the line ends where `[` is expected");
    refused("\0\0", r"expected `[` at byte 1, found `\x00\x00`");
}

#[test]
fn a_server_is_a_host_and_a_port_or_a_path() {
    let with = |host: &str, port: &str| format!(r#"["AS1.0",1.5,"C",["{host}",{port},"delete k\r\n"]]"#);
    let wrong = "expected a host and a port, or a path and port 0, found";
    for (host, port) in
        [("", "5"), ("h", "0"), ("h", "65536"), ("h", "-1"), ("h", "5.0"), ("h i", "5"), ("/a", "5")]
    {
        refused(&with(host, port), &format!("{wrong} `{host}` and {port}"));
    }
    refused(&with(r"h\u0000", "5"), &format!(r"{wrong} `h\x00` and 5"));
    let two = |place: &str| format!(r#"["AS2.0",1.5,"C",{{"h":"{place}","p":"A","k":"a"}}]"#);
    refused(&two("h:5"), &format!("{wrong} `h:5`"));
    refused(&two("[h]5"), &format!("{wrong} `[h]5`"));
}

#[test]
fn attributes_are_not_deeper_than_the_stack() {
    let deep = "[".repeat(100_000);
    let line = format!(r#"["AS2.0",1.5,"C",{{"a":{deep}"#);
    let error = read_record(line.as_bytes()).expect_err("too deep");
    assert!(error.to_string().starts_with("expected a value that is not so deep"), "{error}");
}
