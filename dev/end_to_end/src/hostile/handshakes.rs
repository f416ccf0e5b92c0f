//! Attacks with TLS handshakes.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use super::target::{Attack, secure_address};

/// Connections of a round.
const PER_ROUND: usize = 100;

pub(super) const HALF_HANDSHAKES: Attack = Attack {
    name: "half handshakes",
    about: "handshakes that stop after a signature, within a record, or are none; 100 at a time",
    round: |target| {
        let at = secure_address(target)?;
        let hello = client_hello();
        let cases: [&[u8]; 7] = [
            &hello,
            &hello[..hello.len() / 2],
            b"",
            b"get key\r\n",
            // A record that is announced, and does not come.
            b"\x16\x03\x01\x40\x00\x01",
            &[0x16; 20_000],
            // An alert, and an empty record of content.
            b"\x15\x03\x03\x00\x02\x02\x28\x17\x03\x03\x00\x00",
        ];
        let mut open = Vec::new();
        for bytes in cases.iter().cycle().take(PER_ROUND) {
            let mut stream = TcpStream::connect(at)?;
            // A server that has given the connection up already is right, too.
            let _ = stream.write_all(bytes);
            open.push(stream);
        }
        target.idle(Duration::from_millis(200));
        Ok(())
    },
};

/// A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2), to which a server answers with a key exchange that it has signed.
fn client_hello() -> Vec<u8> {
    let extensions: [&[u8]; 3] = [
        b"\x00\x0a\x00\x04\x00\x02\x00\x1d",                 // groups: X25519
        b"\x00\x0d\x00\x08\x00\x06\x04\x03\x08\x04\x04\x01", // signatures: ECDSA, RSA
        b"\x00\x0b\x00\x02\x01\x00",                         // uncompressed points
    ];
    let extensions = extensions.concat();
    let mut body = b"\x03\x03".to_vec();
    body.extend([7; 32]);
    // No session; two suites with ECDHE; no compression.
    body.extend(b"\x00\x00\x04\xc0\x2f\xc0\x2b\x01\x00\x00");
    body.push(extensions.len() as u8);
    body.extend(extensions);
    let record = [&[0x16, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8], &body[..]];
    record.concat()
}
