//! A server with a flash tier: ours or memcached.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::super::process::{BenchProcess, built};
use super::arguments::Arguments;
use super::memory_group::MemoryGroup;

/// What a server is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// `-m`
    pub(super) megabytes: u64,
    pub(super) flash_megabytes: u64,
    /// Of flash pages, `ext_page_size`.
    pub(super) page_megabytes: u64,
    /// The limit on its memory and page cache, in percent of `-m`; `None`: no limit.
    pub(super) group_percent: Option<u64>,
}

/// A running server, and its file.
pub(super) struct FlashServer {
    pub(super) name: &'static str,
    process: BenchProcess,
    port: u16,
    load_cpu: usize,
    // In this order: the process ends before its group can be removed.
    _group: Option<MemoryGroup>,
    file: PathBuf,
}

const PORT: u16 = 21_320;

/// The servers that are compared: the peer, if there is one, comes last.
pub(super) fn start_all(
    arguments: &Arguments,
    setup: impl Fn(&'static str) -> Setup,
) -> Result<Vec<FlashServer>> {
    let mut programs = vec![("evenkeel", built("evenkeel"))];
    programs.extend(arguments.peer.clone().map(|path| ("memcached", path)));
    let start = |(place, (name, path)): (usize, (&'static str, PathBuf))| {
        FlashServer::start(arguments, name, &path, PORT + place as u16, setup(name))
    };
    programs.into_iter().enumerate().map(start).collect()
}

impl FlashServer {
    fn start(
        arguments: &Arguments,
        name: &'static str,
        program: &Path,
        port: u16,
        setup: Setup,
    ) -> Result<FlashServer> {
        let file = arguments.folder.join(format!("flash-bench-{}-{name}", std::process::id()));
        let path = format!("ext_path={}:{}m", file.display(), setup.flash_megabytes);
        let options = format!("{path},ext_page_size={},ext_threads=4", setup.page_megabytes);
        let (port_word, megabytes) = (port.to_string(), setup.megabytes.to_string());
        let mut words = vec!["-u", "root", "-t", "1", "-l", "127.0.0.1", "-p", &port_word, "-m", &megabytes];
        words.extend(["-c", "4096", "-o", &options]);
        if name == "evenkeel" {
            words.insert(0, "serve");
        }
        let limit = setup.group_percent.map(|percent| (setup.megabytes * percent / 100) << 20);
        let group = limit.map(|bytes| MemoryGroup::new(name, bytes)).transpose()?;
        let process = BenchProcess::start(program, &words, Some(arguments.turns.server_cpu))?;
        if let Some(group) = &group {
            group.add(process.id())?;
        }
        let load_cpu = arguments.turns.load_cpu;
        let mut server = FlashServer { name, process, port, load_cpu, _group: group, file };
        server.process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(server)
    }

    /// Runs the load generator on it, and returns what it says.
    pub(super) fn load(&self, words: &[&str]) -> Result<serde_json::Value> {
        let json = std::env::temp_dir().join(format!("evenkeel-bench-{}.json", std::process::id()));
        let mut command = Command::new(built("evenkeel"));
        command.args(["load", "--cpu", &self.load_cpu.to_string(), "--port", &self.port.to_string()]);
        command.args(["--server-pid", &self.process.id().to_string(), "--key-size", "20"]);
        let output = command.args(words).arg("--json").arg(&json).stdin(Stdio::null()).output();
        let output = output.context("start evenkeel load")?;
        ensure!(output.status.success(), "load: {}", String::from_utf8_lossy(&output.stderr).trim());
        let text = std::fs::read(&json).with_context(|| format!("read {}", json.display()))?;
        std::fs::remove_file(&json)?;
        serde_json::from_slice(&text).context("parse the summary")
    }

    /// All of `stats`, and 0 for what a server does not have.
    pub(super) fn statistics(&self) -> Result<HashMap<String, f64>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"stats\r\n")?;
        let mut found = HashMap::new();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["STAT", name, value] => drop(found.insert(name.to_owned(), value.parse().unwrap_or(0.0))),
                ["END"] => break,
                _ => {}
            }
        }
        Ok(found)
    }

    /// Resident memory of its own, in bytes: without the pages of files.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes: u64 =
            line.and_then(|line| line.trim().strip_suffix(" kB")).context("RssAnon")?.parse()?;
        Ok(kilobytes << 10)
    }
}

impl Drop for FlashServer {
    fn drop(&mut self) {
        // The process still has it open; its blocks are free when that has ended.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A figure of the load generator's summary.
pub(super) fn figure(summary: &serde_json::Value, name: &str) -> Result<f64> {
    summary
        .pointer(name)
        .and_then(serde_json::Value::as_f64)
        .with_context(|| format!("no {name} in the summary"))
}
