//! A memcached client for measurements: the text protocol, requests gathered before they are sent.
//!
//! Replies are read only where one is due: sets go with `noreply`, and a barrier says when the server has
//! dealt with all of them.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail, ensure};

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    /// Requests not yet sent. Callers append; [`Client::send`] is the only one that empties it.
    pub(crate) out: Vec<u8>,
    input: Vec<u8>,
    /// Received, and not yet looked at: `input[start..end]`.
    start: usize,
    end: usize,
}

/// Requests of so many bytes are sent without waiting for more.
const OUT_LEN: usize = 64 * 1024;
/// Room for replies at first.
const INPUT_LEN: usize = 256 * 1024;

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Result<Client> {
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        Ok(Client { stream, out: Vec::new(), input: vec![0; INPUT_LEN], start: 0, end: 0 })
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

    /// A set without a reply; `key` appends the key.
    pub(crate) fn push_set(&mut self, key: impl FnOnce(&mut Vec<u8>), ttl: u32, value: &[u8]) {
        self.out.extend_from_slice(b"set ");
        key(&mut self.out);
        let _ = write!(self.out, " 0 {ttl} {} noreply\r\n", value.len());
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Waits until the server has dealt with everything sent so far.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        self.out.extend_from_slice(b"mn\r\n");
        self.send()?;
        let line = self.line()?;
        ensure!(line == b"MN", "expected MN, got {:?}", String::from_utf8_lossy(line));
        Ok(())
    }

    /// One of the server's general statistics.
    pub(crate) fn statistic(&mut self, name: &str) -> Result<u64> {
        self.out.extend_from_slice(b"stats\r\n");
        self.send()?;
        let mut found = None;
        loop {
            let line = String::from_utf8_lossy(self.line()?).into_owned();
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["END"] => return found.with_context(|| format!("find {name} in stats")),
                ["STAT", known, value] if known == name => found = value.parse().ok(),
                ["STAT", ..] => {}
                _ => bail!("expected STAT or END, got {line:?}"),
            }
        }
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> Result<&[u8]> {
        let mut looked_at = 0;
        loop {
            let found = self.input[self.start + looked_at..self.end].iter().position(|byte| *byte == b'\n');
            if let Some(found) = found {
                let (first, end) = (self.start, self.start + looked_at + found);
                self.start = end + 1;
                return Ok(self.input[first..end].trim_ascii_end());
            }
            looked_at = self.end - self.start;
            self.receive()?;
        }
    }

    /// The items that one `get` finds, up to its END: `each` gets key and value.
    pub(crate) fn items(&mut self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        loop {
            let line = self.line()?;
            if line == b"END" {
                return Ok(());
            }
            let words = line.strip_prefix(b"VALUE ").and_then(key_and_len);
            let Some((key_len, len)) = words else {
                bail!("expected VALUE or END, got {:?}", String::from_utf8_lossy(line));
            };
            // The line stays where it is until its value is there, too: `receive` moves both.
            let line_len = line.len() + 2;
            self.start -= line_len;
            while self.end - self.start < line_len + len + 2 {
                self.receive()?;
            }
            let key_at = self.start + b"VALUE ".len();
            let value_at = self.start + line_len;
            each(&self.input[key_at..key_at + key_len], &self.input[value_at..value_at + len])?;
            self.start += line_len + len + 2;
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
                self.input.resize(2 * self.input.len(), 0);
            }
        }
        let received = self.stream.read(&mut self.input[self.end..]).context("receive replies")?;
        ensure!(received > 0, "the server closed the connection");
        self.end += received;
        Ok(())
    }
}

/// `<key> <flags> <len>`: the lengths of the key and of the value.
fn key_and_len(words: &[u8]) -> Option<(usize, usize)> {
    let key_len = words.iter().position(|byte| *byte == b' ')?;
    let len_at = words.iter().rposition(|byte| *byte == b' ')? + 1;
    let len = std::str::from_utf8(&words[len_at..]).ok()?.parse().ok()?;
    Some((key_len, len))
}
