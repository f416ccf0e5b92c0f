//! Null server: keeps nothing, and has the same value for every key.
//!
//! It parses as much of the text protocol as it needs to find the ends of requests: the keys of `get`, and the length of what
//! is to be stored. Sets are skipped, and answered as if they had been stored.

use memchr::{memchr, memrchr};
use net::{Datagram, Handler, Next, Opened, Progress, Turn};
use stdx::gather::Gather;

/// The frame before a request or a reply in a datagram (protocol.txt, "UDP protocol").
const FRAME_LEN: usize = 8;

/// The end of a reply to `get`.
const END: &[u8] = b"END\r\n";

/// A server of one worker.
pub(crate) struct NullServer {
    /// What follows the key in the reply to a get of one key: flags, length, value, and the end.
    value: Vec<u8>,
    /// A datagram with a reply.
    datagram: Vec<u8>,
}

/// A body, with its line end, that has not arrived yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MissingBody {
    len: usize,
    is_silent: bool,
}

impl NullServer {
    /// A server whose values have this many bytes.
    pub(crate) fn new(value_len: usize) -> NullServer {
        let mut value = format!(" 0 {value_len}\r\n").into_bytes();
        value.resize(value.len() + value_len, b'x');
        value.extend_from_slice(b"\r\n");
        value.extend_from_slice(END);
        NullServer { value, datagram: Vec::new() }
    }

    /// Answers all whole requests in `input`, and returns their length.
    #[inline]
    fn answer(&self, missing: &mut MissingBody, input: &[u8], output: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            if missing.len > 0 {
                let taken = missing.len.min(input.len() - at);
                at += taken;
                missing.len -= taken;
                if missing.len > 0 {
                    return at;
                }
                if !missing.is_silent {
                    output.extend_from_slice(b"STORED\r\n");
                }
            }
            let Some(len) = memchr(b'\n', &input[at..]) else { return at };
            let line = &input[at..at + len];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            at += len + 1;
            match line {
                [b'g', b'e', b't', b' ', keys @ ..] => self.values(keys, output),
                b"mn" => output.extend_from_slice(b"MN\r\n"),
                _ => match body(line) {
                    Some(body) => *missing = body,
                    None => output.extend_from_slice(b"ERROR\r\n"),
                },
            }
        }
    }

    /// The value under each of these keys, and the end.
    #[inline]
    fn values(&self, mut keys: &[u8], output: &mut Vec<u8>) {
        while let Some(len) = memchr(b' ', keys) {
            if len > 0 {
                let (value, _) = self.value.split_at(self.value.len() - END.len());
                [b"VALUE ", &keys[..len], value].iter().for_each(|part| output.extend_from_slice(part));
            }
            keys = &keys[len + 1..];
        }
        [b"VALUE ", keys, &self.value].iter().for_each(|part| output.extend_from_slice(part));
    }
}

/// What a line announces, if it stores: `set KEY FLAGS EXPTIME LENGTH`, perhaps with `noreply`.
fn body(line: &[u8]) -> Option<MissingBody> {
    const STORING: [&[u8]; 5] = [b"set", b"add", b"replace", b"append", b"prepend"];
    let verb = &line[..memchr(b' ', line)?];
    let (line, is_silent) = match line.strip_suffix(b" noreply") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let len: u32 = std::str::from_utf8(&line[memrchr(b' ', line)? + 1..]).ok()?.parse().ok()?;
    STORING.contains(&verb).then_some(MissingBody { len: len as usize + 2, is_silent })
}

impl Handler for NullServer {
    type Connection = MissingBody;
    type Held = Vec<u8>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Vec<u8>>) -> MissingBody {
        MissingBody::default()
    }

    #[inline]
    fn on_bytes(
        &mut self,
        missing: &mut MissingBody,
        input: &[u8],
        output: &mut Gather<Vec<u8>>,
        _turn: &mut Turn<Vec<u8>>,
    ) -> Progress {
        Progress { consumed: self.answer(missing, input, output.copied()), next: Next::Read }
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Vec<u8>>) {
        let Some((frame, request)) = datagram.bytes.split_first_chunk::<FRAME_LEN>() else { return };
        let mut reply = std::mem::take(&mut self.datagram);
        reply.clear();
        reply.extend_from_slice(frame);
        self.answer(&mut MissingBody::default(), request, &mut reply);
        if reply.len() > FRAME_LEN {
            turn.send_datagram(datagram.from, &reply);
        }
        self.datagram = reply;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::sim::at_every_cut;

    #[track_caller]
    fn check(requests: &str, replies: &str) {
        let heard = at_every_cut(|| NullServer::new(3), requests.as_bytes());
        assert_eq!(
            (String::from_utf8_lossy(&heard.output).as_ref(), heard.closed),
            (replies, None),
            "{requests}"
        );
    }

    #[test]
    fn every_key_has_the_value() {
        check("get a\r\n", "VALUE a 0 3\r\nxxx\r\nEND\r\n");
        check(
            "get a  b\r\nget c\n",
            "VALUE a 0 3\r\nxxx\r\nVALUE b 0 3\r\nxxx\r\nEND\r\nVALUE c 0 3\r\nxxx\r\nEND\r\n",
        );
    }

    #[test]
    fn what_is_stored_is_skipped() {
        check("set a 0 0 5\r\nget b\r\nmn\r\n", "STORED\r\nMN\r\n");
        check(
            "append a 0 0 0\r\n\r\nadd a 0 0 1 noreply\r\nx\r\nget b\r\n",
            "STORED\r\nVALUE b 0 3\r\nxxx\r\nEND\r\n",
        );
    }

    #[test]
    fn other_requests_are_errors() {
        for request in ["stats", "set a 0 0 x", "set", "gets a", "delete a 1", ""] {
            check(&format!("{request}\r\n"), "ERROR\r\n");
        }
    }
}
