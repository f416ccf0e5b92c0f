//! A memcached client for measurements: the text protocol, requests gathered before they are sent.
//!
//! Replies are read only where one is due: sets go with `noreply`, and a barrier shows when the server has
//! dealt with all of them.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail, ensure};
use protocol::client::command::{self, AppendKey, Reply, ValueAttributes};
use protocol::client::{Line, Parsed, Value, parse};
use protocol::request::Verb;

/// One connection.
#[derive(Debug)]
pub(crate) struct StoreClient {
    stream: TcpStream,
    /// Requests not yet sent. Callers append; [`StoreClient::send`] is the only one that empties it.
    pub(crate) out: Vec<u8>,
    input: Vec<u8>,
    /// Received, and not yet looked at: `input[start..end]`.
    start: usize,
    end: usize,
}

/// Requests of this many bytes are sent without waiting for more.
const OUT_LEN: usize = 64 * 1024;
/// Room for replies at first.
const INPUT_LEN: usize = 256 * 1024;
/// Room for replies at most: no benchmark stores values of as much.
const INPUT_LEN_MAX: usize = 64 * INPUT_LEN;

impl StoreClient {
    pub(crate) fn new(stream: TcpStream) -> Result<StoreClient> {
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        Ok(StoreClient { stream, out: Vec::new(), input: vec![0; INPUT_LEN], start: 0, end: 0 })
    }

    /// Sends what has been gathered.
    pub(crate) fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).context("send requests")?;
        self.out.clear();
        Ok(())
    }

    /// Sends what has been gathered if it is worth a system call.
    pub(crate) fn send_much(&mut self) -> Result<()> {
        if self.out.len() >= OUT_LEN { self.send() } else { Ok(()) }
    }

    /// A set without a reply.
    pub(crate) fn push_set(&mut self, key: impl AppendKey, ttl: u32, value: &[u8]) {
        let exptime = i32::try_from(ttl).expect("seconds of a benchmark");
        let stored = ValueAttributes { flags: 0, exptime, len: value.len() };
        command::store(&mut self.out, Verb::Set, key, stored, Reply::Unwanted);
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Waits until the server has dealt with everything sent so far.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        command::meta_noop(&mut self.out);
        self.send()?;
        let line = self.line()?;
        ensure!(line == Line::Noop, "expected MN, got {line}");
        Ok(())
    }

    /// One of the server's general statistics.
    pub(crate) fn statistic(&mut self, wanted: &str) -> Result<u64> {
        command::stats(&mut self.out, "");
        self.send()?;
        let mut found = None;
        loop {
            match self.line()? {
                Line::End => return found.with_context(|| format!("find {wanted} in stats")),
                Line::Stat { name, value } if name == wanted.as_bytes() => {
                    found = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                }
                Line::Stat { .. } => {}
                line => bail!("expected STAT or END, got {line}"),
            }
        }
    }

    /// The next line, which has no body.
    pub(crate) fn line(&mut self) -> Result<Line<'_>> {
        while read(&self.input[self.start..self.end])?.is_none() {
            self.receive()?;
        }
        let (line, consumed) = read(&self.input[self.start..self.end])?.context("read a line once more")?;
        ensure!(line.body().is_none(), "expected no value, got {line}");
        self.start += consumed;
        Ok(line)
    }

    /// The items that one `get` finds, up to its END: `each` gets key and value.
    pub(crate) fn items(&mut self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        loop {
            let unread = &self.input[self.start..self.end];
            // The line stays where it is until its value is there, too: `receive` moves both.
            match read(unread)? {
                Some((Line::Value(Value { key, len, .. }), consumed)) => {
                    let end = consumed + len + b"\r\n".len();
                    if let Some(value) = unread.get(consumed..end) {
                        each(key, &value[..len])?;
                        self.start += end;
                        continue;
                    }
                }
                Some((Line::End, consumed)) => {
                    self.start += consumed;
                    return Ok(());
                }
                Some((line, _)) => bail!("expected VALUE or END, got {line}"),
                None => {}
            }
            self.receive()?;
        }
    }

    /// Appends what the server has to say to what is there.
    fn receive(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.input.len() {
            if self.start > 0 {
                self.input.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                ensure!(self.input.len() < INPUT_LEN_MAX, "the server sent a value that nobody stored");
                self.input.resize(2 * self.input.len(), 0);
            }
        }
        let received = self.stream.read(&mut self.input[self.end..]).context("receive replies")?;
        ensure!(received > 0, "the server closed the connection");
        self.end += received;
        Ok(())
    }
}

/// The head at the front of what was received, and its length; `None` if it is not whole.
fn read(unread: &[u8]) -> Result<Option<(Line<'_>, usize)>> {
    match parse(unread) {
        Ok(Parsed::Head { line, consumed, .. }) => Ok(Some((line, consumed))),
        Ok(Parsed::Incomplete) => Ok(None),
        Err(broken) => bail!("understand a reply: {broken}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A client of a server that answers only this, in pieces of `len` bytes.
    fn client(says: &[u8], len: usize) -> StoreClient {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (mut far, _) = listener.accept().expect("a connection");
        let says = says.to_vec();
        thread::spawn(move || {
            far.set_nodelay(true).expect("a socket");
            says.chunks(len).try_for_each(|piece| far.write_all(piece)).expect("a client that reads");
            // What is asked is read, too, until the client has gone.
            let _ = far.read_to_end(&mut Vec::new());
        });
        StoreClient::new(near).expect("a socket")
    }

    #[test]
    fn replies_are_read_however_they_arrive() {
        let large = "x".repeat(INPUT_LEN + 7);
        let says = format!(
            "MN\r\nVALUE a 0 5\r\nEND\r\n\r\nVALUE b 7 {} 9\r\n{large}\r\nEND\r\nSTAT pid 8\r\nSTAT curr_items 17\r\nEND\r\nEN\r\n",
            large.len()
        );
        for len in [1000, 70_000, says.len()] {
            let mut client = client(says.as_bytes(), len);
            client.barrier().expect("MN");
            let mut items = Vec::new();
            let each = |key: &[u8], value: &[u8]| {
                items.push((key.to_vec(), value.to_vec()));
                Ok(())
            };
            client.items(each).expect("items");
            let expected =
                [(b"a".to_vec(), b"END\r\n".to_vec()), (b"b".to_vec(), large.clone().into_bytes())];
            assert!(items == expected, "{} items in pieces of {len}", items.len());
            assert_eq!(client.statistic("curr_items").expect("stats"), 17);
            assert!(matches!(client.line(), Ok(Line::Miss(_))));
        }
    }

    #[test]
    fn other_replies_are_errors() {
        let error = |says: &str, ask: fn(&mut StoreClient) -> Result<()>| {
            ask(&mut client(says.as_bytes(), 3)).expect_err(says).to_string()
        };
        let items = |client: &mut StoreClient| client.items(|_, _| Ok(()));
        assert_eq!(error("ERROR\r\n", items), "expected VALUE or END, got \"ERROR\"");
        assert_eq!(error("VALUE a 0 1\r\n", StoreClient::barrier), "expected no value, got \"VALUE a 0 1\"");
        assert_eq!(error("STORED\r\n", StoreClient::barrier), "expected MN, got \"STORED\"");
        assert_eq!(
            error("VA x\r\n", items),
            "understand a reply: found \"VA x\", expected VA with a length of at most 2 GiB, perhaps flags"
        );
    }
}
