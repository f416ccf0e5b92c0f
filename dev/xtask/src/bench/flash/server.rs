//! A server with a flash tier: ours or memcached.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::super::process::{BenchProcess, built};
use super::arguments::Arguments;
use super::cleanup::ScratchFile;
use super::control_group::ControlGroup;

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
    // In this order: the process ends before its group and its file are removed.
    process: BenchProcess,
    program: PathBuf,
    words: Vec<String>,
    pub(super) port: u16,
    server_cpu: usize,
    pub(super) load_cpu: usize,
    group: Option<ControlGroup>,
    _file: ScratchFile,
    /// Where the load generator writes its summary.
    pub(super) summary: ScratchFile,
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
        FlashServer::start(arguments, name, path, PORT + place as u16, setup(name), &[])
    };
    programs.into_iter().enumerate().map(start).collect()
}

/// Ours alone, with more words on its command line.
pub(super) fn start_ours(arguments: &Arguments, setup: Setup, more: &[&str]) -> Result<FlashServer> {
    FlashServer::start(arguments, "evenkeel", built("evenkeel"), PORT, setup, more)
}

impl FlashServer {
    fn start(
        arguments: &Arguments,
        name: &'static str,
        program: PathBuf,
        port: u16,
        setup: Setup,
        more: &[&str],
    ) -> Result<FlashServer> {
        let file = ScratchFile::new(&arguments.folder, name)?;
        let summary = ScratchFile::new(&std::env::temp_dir(), &format!("{name}.json"))?;
        let path = format!("ext_path={}:{}m", file.path().display(), setup.flash_megabytes);
        let options = format!("{path},ext_page_size={},ext_threads=4", setup.page_megabytes);
        let (port_word, megabytes) = (port.to_string(), setup.megabytes.to_string());
        let mut words = vec!["-u", "root", "-t", "1", "-l", "127.0.0.1", "-p", &port_word, "-m", &megabytes];
        words.extend(["-c", "4096", "-o", &options]);
        words.extend(more);
        if name == "evenkeel" {
            words.insert(0, "serve");
        }
        let limit = setup.group_percent.map(|percent| (setup.megabytes * percent / 100) << 20);
        let group = limit.map(|bytes| ControlGroup::of_memory(name, bytes)).transpose()?;
        let (server_cpu, load_cpu) = (arguments.turns.server_cpu, arguments.turns.load_cpu);
        let process = BenchProcess::start(&program, &words, Some(server_cpu))?;
        if let Some(group) = &group {
            group.add(process.id())?;
        }
        let words = words.into_iter().map(str::to_owned).collect();
        let mut server = FlashServer {
            name,
            process,
            program,
            words,
            port,
            server_cpu,
            load_cpu,
            group,
            _file: file,
            summary,
        };
        server.process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(server)
    }

    /// Ends it in an orderly way.
    pub(super) fn end(&mut self) -> Result<()> {
        self.process.end()
    }

    /// Starts it again with the same words, and does not wait until it listens.
    pub(super) fn start_again(&mut self) -> Result<()> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.process = BenchProcess::start(&self.program, &words, Some(self.server_cpu))?;
        self.group.as_ref().map_or(Ok(()), |group| group.add(self.process.id()))
    }

    pub(super) fn server_id(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has an item; an error if it does not answer.
    pub(super) fn has(&self, key: &str) -> Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("get {key}\r\n").as_bytes())?;
        let mut reply = BufReader::new(stream);
        let mut line = String::new();
        reply.read_line(&mut line)?;
        ensure!(!line.is_empty(), "no reply");
        let Some(sizes) = line.strip_prefix(&format!("VALUE {key} 0 ")) else { return Ok(false) };
        // To the last byte: an answer is all of it.
        let mut value = vec![0; sizes.trim_end().parse::<usize>()? + 2];
        reply.read_exact(&mut value)?;
        Ok(true)
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

    /// Bytes that it has had written to disks, as the kernel counts them for the process.
    pub(super) fn device_written_bytes(&self) -> Result<f64> {
        let path = format!("/proc/{}/io", self.process.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        Ok(line.context("write_bytes")?.parse()?)
    }
}
