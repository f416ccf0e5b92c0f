//! Server under comparison: started with a memory limit, measured from outside, ended.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use end_to_end::clock;

use super::super::process::BenchProcess;
use super::client::StoreClient;

/// Which server, and where its program is.
#[derive(Clone, Debug)]
pub(crate) struct ServerKind {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Words before the flags that both have.
    pub(crate) verb: &'static [&'static str],
}

/// The two that are compared.
#[derive(Debug)]
pub(crate) struct Subjects {
    pub(crate) ours: ServerKind,
    pub(crate) peer: ServerKind,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct BenchServer {
    pub(crate) name: String,
    process: BenchProcess,
    port: u16,
    /// Resident bytes before the first item.
    pub(crate) empty_bytes: u64,
}

impl BenchServer {
    pub(crate) fn start(kind: &ServerKind, megabytes: u64) -> Result<BenchServer> {
        let port = free_port()?;
        let (megabytes, port_word) = (megabytes.to_string(), port.to_string());
        let flags = ["-u", "root", "-t", "1", "-l", "127.0.0.1", "-m", &megabytes, "-p", &port_word];
        let process = BenchProcess::start(&kind.path, &[kind.verb, &flags].concat(), None)?;
        let mut server = BenchServer { name: kind.name.clone(), process, port, empty_bytes: 0 };
        server.process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        server.connect()?.barrier()?;
        server.empty_bytes = server.settled_bytes()?;
        Ok(server)
    }

    pub(crate) fn connect(&self) -> Result<StoreClient> {
        let stream = TcpStream::connect(("127.0.0.1", self.port));
        StoreClient::new(stream.with_context(|| format!("connect to {}", self.name))?)
    }

    /// Resident bytes of this moment.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// The most bytes that have ever been resident.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// Resident bytes once the server's own threads have come to rest (memcached doubles its hash table in
    /// the background, and has both for a while).
    pub(crate) fn settled_bytes(&self) -> Result<u64> {
        let mut before = self.resident_bytes()?;
        for _ in 0..20 {
            clock::pass(Duration::from_millis(200));
            let after = self.resident_bytes()?;
            if before.abs_diff(after) < 64 * 1024 {
                return Ok(after);
            }
            before = after;
        }
        Ok(before)
    }

    fn status(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = text.lines().find(|line| line.starts_with(field));
        let kilobytes =
            line.and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse().ok());
        let kilobytes: u64 = kilobytes.with_context(|| format!("find {field} in {path}"))?;
        Ok(kilobytes * 1024)
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("bind a port of the kernel's choice")?;
    Ok(listener.local_addr()?.port())
}
