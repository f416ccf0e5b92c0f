//! A server of ours, with a memory file or without, and requests to it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use rustix::process::{Pid, Signal, kill_process};

use super::super::process::built;

/// Between two attempts to reach a server: as exact as the times are.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Memory files, removed with this value.
pub(super) struct MemoryFolder(pub(super) PathBuf);

impl MemoryFolder {
    pub(super) fn new(parent: &Path) -> Result<MemoryFolder> {
        let path = parent.join(format!("evenkeel-bench-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(MemoryFolder(path))
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        // If it fails, the folder is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server, killed when dropped.
pub(super) struct Served {
    child: Child,
    port: u16,
}

impl Served {
    /// With a memory file (`-e`), a place for a successor (`--takeover`), or nothing.
    pub(super) fn start(
        port: u16,
        cpu: usize,
        megabytes: u64,
        more: Option<(&str, &Path)>,
    ) -> Result<Served> {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).arg(built("evenkeel"));
        command.args(["serve", "-u", "root", "-t", "1", "-l", "127.0.0.1", "-p", &port.to_string()]);
        command.args(["-m", &megabytes.to_string()]);
        if let Some((flag, path)) = more {
            command.arg(flag).arg(path);
        }
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().context("start taskset")?;
        Ok(Served { child, port })
    }

    /// Waits for the first reply.
    pub(super) fn first_reply(&mut self) -> Result<()> {
        let began = clock::now();
        while self.ask("version").is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at its start ({status})");
            }
            ensure!(began.elapsed() < clock::PATIENCE, "no reply");
            clock::pass(LOOK_EVERY);
        }
        Ok(())
    }

    /// The first line of the reply.
    fn ask(&self, request: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("{request}\r\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        ensure!(!line.is_empty(), "no reply");
        Ok(line)
    }

    /// Waits until it has ended by itself.
    pub(super) fn ended(mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }

    /// Items that are there.
    pub(super) fn items(&self) -> Result<u64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"stats\r\n")?;
        for line in BufReader::new(stream).lines() {
            if let Some(count) = line?.strip_prefix("STAT curr_items ") {
                return Ok(count.parse()?);
            }
        }
        bail!("no curr_items")
    }

    /// Ends it in an orderly way.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).context("a process")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }

    /// Runs the load generator on it, and returns what it says. Requests that fail while servers change are part of that.
    pub(super) fn load(&self, cpu: usize, words: &[String]) -> Result<serde_json::Value> {
        let json = std::env::temp_dir().join(format!("evenkeel-bench-{}.json", std::process::id()));
        let mut command = Command::new(built("evenkeel"));
        command.args(["load", "--cpu", &cpu.to_string(), "--port", &self.port.to_string()]);
        command.args(["--server-pid", &self.child.id().to_string()]).args(words).arg("--json").arg(&json);
        let output = command.stdin(Stdio::null()).output().context("start evenkeel load")?;
        let text = std::fs::read(&json).with_context(|| format!("read {}", json.display()))?;
        std::fs::remove_file(&json)?;
        let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let summary: serde_json::Value = serde_json::from_slice(&text).with_context(said)?;
        ensure!(output.status.success() || summary["failure"].is_null(), "load: {}", said());
        Ok(summary)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
