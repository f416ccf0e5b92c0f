//! Replies of a router to one request of the text protocol.

use std::io::{ErrorKind, Read, Result};
use std::net::TcpStream;

/// Reads until the reply is whole: a line, or values up to their `END`.
pub(crate) fn read_reply(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let (mut reply, mut part) = (Vec::new(), [0; 1024]);
    loop {
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => reply.extend_from_slice(&part[..len]),
        }
        let is_line = !reply.starts_with(b"VALUE") && reply.ends_with(b"\r\n");
        if is_line || reply.ends_with(b"\r\nEND\r\n") {
            return Ok(reply);
        }
    }
}
