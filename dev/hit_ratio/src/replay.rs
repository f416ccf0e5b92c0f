//! A trace through a real server: a client that asks for items and stores what it misses.
//!
//! Over one connection, in batches of items that all differ: first the gets, then the sets of what was missed. So a server
//! sees what a client of one thread would send, without a wait for each reply.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use stdx::prng::mix;

use crate::trace::{ItemTrace, ReplayedRequest};

/// A server that is asked, as `NAME=COMMAND`; the command gets its port and its memory at its end.
#[derive(Clone, Debug)]
pub(crate) struct ReplayedServer {
    pub(crate) name: String,
    command: Vec<String>,
}

/// What a replay has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) misses: u64,
    pub(crate) missed_bytes: u64,
    /// Bytes of keys and values that were there at the end.
    pub(crate) stored_bytes: u64,
}

/// Gets sent at once.
const BATCH: usize = 256;
/// Bytes of their values, at most: what is sent must fit the buffers of sockets.
const BATCH_BYTES: u64 = 2 << 20;
/// Attempts to start a server: its port may have been taken meanwhile.
const STARTS_MAX: u32 = 5;
/// Waits of 50 ms for a server to listen.
const WAITS_MAX: u32 = 600;
const KEY_LEN: u64 = 16;

impl std::str::FromStr for ReplayedServer {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplayedServer, String> {
        let Some((name, command)) = text.split_once('=') else {
            return Err("expected NAME=COMMAND, for example memcached=/usr/bin/memcached".into());
        };
        let command: Vec<String> = command.split_whitespace().map(Into::into).collect();
        if name.is_empty() || command.is_empty() {
            return Err("expected NAME=COMMAND, found an empty one".into());
        }
        Ok(ReplayedServer { name: name.into(), command })
    }
}

impl ReplayedServer {
    /// Replays the trace against a new process with so many megabytes.
    pub(crate) fn replay(&self, trace: &ItemTrace, megabytes: u64) -> Result<Replayed> {
        let (mut process, stream) = self.start(megabytes)?;
        let replayed = Client::new(stream)?.replay(trace);
        process.kill().and_then(|()| process.wait()).with_context(|| format!("end {}", self.name))?;
        replayed.with_context(|| format!("replay against {}", self.name))
    }

    fn start(&self, megabytes: u64) -> Result<(Child, TcpStream)> {
        for _ in 0..STARTS_MAX {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut process = Command::new(&self.command[0])
                .args(&self.command[1..])
                .args(["-l", "127.0.0.1", "-p", &port.to_string(), "-m", &megabytes.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| format!("start {}", self.command[0]))?;
            for _ in 0..WAITS_MAX {
                if let Ok(stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    return Ok((process, stream));
                }
                if process.try_wait()?.is_some() {
                    break;
                }
                os::clock::pause(Duration::from_millis(50));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        bail!("{} does not listen: {:?}", self.name, self.command.join(" "))
    }
}

struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    line: String,
    value: Vec<u8>,
}

impl Client {
    fn new(stream: TcpStream) -> Result<Client> {
        stream.set_nodelay(true)?;
        let value = vec![b'v'; 2 << 20];
        Ok(Client {
            reader: BufReader::with_capacity(1 << 20, stream.try_clone()?),
            writer: stream,
            line: String::new(),
            value,
        })
    }

    fn replay(&mut self, trace: &ItemTrace) -> Result<Replayed> {
        let mut replayed = Replayed::default();
        let mut batch_of = vec![0_u32; trace.items];
        let mut rest = &trace.requests[..];
        let mut batch = 0;
        while !rest.is_empty() {
            batch += 1;
            let mut bytes = 0;
            let is_new = |request: &&ReplayedRequest| {
                bytes += request.bytes;
                bytes <= BATCH_BYTES.max(request.bytes)
                    && std::mem::replace(&mut batch_of[request.item as usize], batch) != batch
            };
            let len = rest.iter().take(BATCH).take_while(is_new).count().max(1);
            let (now, later) = rest.split_at(len);
            rest = later;
            let sizes = self.sizes(now)?;
            let missed =
                now.iter().zip(&sizes).filter(|(_, size)| size.is_none()).map(|(request, _)| request);
            replayed.misses += missed.clone().count() as u64;
            replayed.missed_bytes += missed.clone().map(|request| request.bytes).sum::<u64>();
            self.store(missed)?;
        }
        let mut last = vec![None; trace.items];
        trace.requests.iter().for_each(|request| last[request.item as usize] = Some(*request));
        let all: Vec<ReplayedRequest> = last.into_iter().flatten().collect();
        for some in all.chunks(BATCH) {
            let sizes = self.sizes(some)?;
            replayed.stored_bytes += sizes.into_iter().flatten().map(|size| size + KEY_LEN).sum::<u64>();
        }
        Ok(replayed)
    }

    /// The sizes of the items' values, where they are found.
    fn sizes(&mut self, requests: &[ReplayedRequest]) -> Result<Vec<Option<u64>>> {
        let mut text = String::new();
        for request in requests {
            writeln!(text, "mg {} s\r", key(request.item))?;
        }
        self.writer.write_all(text.as_bytes())?;
        requests.iter().map(|_| self.size()).collect()
    }

    fn size(&mut self) -> Result<Option<u64>> {
        self.line.clear();
        self.reader.read_line(&mut self.line)?;
        let line = self.line.trim_end();
        match line.strip_prefix("HD s") {
            Some(size) => Ok(Some(size.parse().with_context(|| format!("expected a size, found {line:?}"))?)),
            None => {
                ensure!(line == "EN", "expected `HD s…` or `EN`, found {line:?}");
                Ok(None)
            }
        }
    }

    fn store<'r>(&mut self, requests: impl Iterator<Item = &'r ReplayedRequest>) -> Result<()> {
        let mut bytes = Vec::new();
        for request in requests {
            let len = (request.bytes - KEY_LEN) as usize;
            write!(bytes, "set {} 0 0 {len} noreply\r\n", key(request.item))?;
            bytes.extend_from_slice(&self.value[..len.min(self.value.len())]);
            bytes.extend_from_slice(b"\r\n");
        }
        self.writer.write_all(&bytes)?;
        Ok(())
    }
}

/// Keys of equal length, in no order.
fn key(item: u32) -> String {
    format!("k{:015x}", mix(u64::from(item) + 1) >> 4)
}
