//! Floods of keys, bytes and connections.

use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};

use super::target::{Attack, datagram_address, wrong};

/// What a server says to a client beyond its limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// As many as once filled 64 MB with index pages.
const COLLIDING: u64 = 87_600;
const PER_ROUND: u64 = 1_000;

pub(super) const COLLIDING_KEYS: Attack = Attack {
    name: "colliding keys",
    about: "keys that a multiplying hash could not tell apart, whatever its seed",
    round: |target| {
        let mut connection = target.connect()?;
        for first in (0..COLLIDING).step_by(PER_ROUND as usize) {
            let some = first..(first + PER_ROUND).min(COLLIDING);
            let mut requests: Vec<u8> = some.flat_map(colliding_set).collect();
            requests.extend_from_slice(b"mn\r\n");
            connection.write_all(&requests)?;
            let mut answer = [0; 4];
            connection.read_exact(&mut answer)?;
            // Other attacks may have taken all connections. The end of such a connection can overtake its last words.
            if answer == TOO_MANY[..4] {
                let mut rest = Vec::new();
                connection.read_to_end(&mut rest)?;
                if rest == TOO_MANY[4..] {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
            }
            if answer != *b"MN\r\n" {
                return Err(wrong(format!(
                    "a quiet set was answered {:?}",
                    answer.escape_ascii().to_string()
                )));
            }
            target.idle(Duration::from_millis(100));
        }
        Ok(())
    },
};

/// Their first eight bytes are a factor of the hash turned to zero, the next eight are free, the rest is the same.
fn colliding_set(number: u64) -> Vec<u8> {
    let mut key = 0xb7e1_5162_8aed_2a6b_u64.to_le_bytes().to_vec();
    key.extend(number.to_le_bytes());
    key.extend([b'x'; 16]);
    [b"ms ", BASE64_STANDARD.encode(&key).as_bytes(), b" 1 b q\r\nv\r\n"].concat()
}

pub(super) const GARBAGE: Attack = Attack {
    name: "garbage",
    about: "lines without an end, meaningless lengths, bytes of no protocol",
    round: |target| {
        for bytes in [
            vec![b'g'; 70_000],
            b"set a 0 0 -1\r\nset a 0 0 99999999999999999999\r\nget \xff\xfe\r\nms a 4294967297\r\n".to_vec(),
            [b"get ".as_slice(), &[b'k'; 60_000]].concat(),
            (0..=255).filter(|byte| *byte != 0x80).cycle().skip(1).take(10_000).collect(),
        ] {
            let mut connection = target.send(&bytes)?;
            // Any reply is accepted.
            let _ = connection.read(&mut [0; 4096]);
        }
        Ok(())
    },
};

pub(super) const BINARY_PROTOCOL: Attack = Attack {
    name: "binary protocol",
    about: "packets whose lengths lie, values that are announced and do not come, thousands of requests without reading",
    round: |target| {
        // A `get` whose key is longer than its body is answered, and then the connection ends.
        let mut connection = target.send(&[packet(0x00, 3, 0, 2).as_slice(), b"key"].concat())?;
        let mut answer = Vec::new();
        match connection.read_to_end(&mut answer) {
            Ok(_) if answer.first() == Some(&0x81) => {}
            Ok(_) => return Err(wrong(format!("a lie was answered {}", answer.escape_ascii()))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error),
        }
        let set = [packet(0x01, 1, 8, 1_000_000).as_slice(), b"12345678kv"].concat();
        let stuck = (0..50).map(|_| target.send(&set)).collect::<io::Result<Vec<_>>>()?;
        // `stat`, and a quiet `append` to nothing.
        let append = [packet(0x19, 1, 0, 2).as_slice(), b"-v"].concat();
        let unread =
            [packet(0x10, 0, 0, 0).repeat(1000), append.repeat(1000)].map(|flood| target.send(&flood));
        target.idle(Duration::from_secs(1));
        drop((stuck, unread));
        Ok(())
    },
};

/// The header of a packet.
fn packet(opcode: u8, key: u8, extras: u8, body: u32) -> Vec<u8> {
    let mut header = vec![0x80, opcode, 0, key, extras, 0, 0, 0];
    header.extend(body.to_be_bytes());
    header.extend([0; 12]);
    header
}

pub(super) const CHURN: Attack = Attack {
    name: "churn",
    about: "50 connections at a time send half a word and close",
    round: |target| (0..50).try_for_each(|_| target.send(b"get hal").map(drop)),
};

pub(super) const READERS_THAT_DO_NOT_READ: Attack = Attack {
    name: "silent readers",
    about: "20 connections ask for a large value again and again, and read nothing",
    round: |target| {
        let body = vec![b'v'; 500_000];
        target.ask(&[b"set unread 0 0 500000\r\n", body.as_slice(), b"\r\n"].concat(), b"\r\n")?;
        let ask = |_| target.send(&b"get unread\r\n".repeat(500));
        let connections = (0..20).map(ask).collect::<io::Result<Vec<_>>>()?;
        target.idle(Duration::from_secs(3));
        drop(connections);
        Ok(())
    },
};

/// Datagrams of a round, each from another sender.
const DATAGRAMS_PER_ROUND: usize = 500;

pub(super) const DATAGRAMS: Attack = Attack {
    name: "datagrams",
    about: "datagrams of ever new senders: large replies that nobody reads, 30,000 keys, reports, halves, garbage",
    round: |target| {
        let at = datagram_address(target)?;
        let value = vec![b'v'; 500_000];
        target.ask(&[b"set datagram 0 0 500000\r\n", value.as_slice(), b"\r\n"].concat(), b"\r\n")?;
        let frame = b"\0\x01\0\0\0\x01\0\0";
        let datagrams: [Vec<u8>; 8] = [
            [frame, &b"get datagram datagram\r\n"[..]].concat(),
            [frame, &[&b"get"[..], &b" k".repeat(30_000), b"\r\n"].concat()[..]].concat(),
            [frame, &b"stats\r\n".repeat(8_000)[..]].concat(),
            [frame, &b"append datagram 0 0 1\r\nx\r\n".repeat(1_000)[..]].concat(),
            [frame, &b"set half 0 0 1000000\r\nv"[..]].concat(),
            [frame, &[0xff; 60_000][..]].concat(),
            b"\0\x01\0\x05\0\x09\0\0get datagram\r\n".to_vec(),
            Vec::new(),
        ];
        for datagram in datagrams.iter().cycle().take(DATAGRAMS_PER_ROUND) {
            let socket = UdpSocket::bind(("127.0.0.1", 0))?;
            // A full buffer loses it.
            let _ = socket.send_to(datagram, at);
        }
        target.idle(Duration::from_millis(200));
        Ok(())
    },
};
