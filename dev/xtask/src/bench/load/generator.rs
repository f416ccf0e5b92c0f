//! Load generators that can be compared, and their command lines.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use protocol::client::{Line, command};

use super::super::store::client::StoreClient;
use super::{Arguments, CONNECTIONS, KEYS, OPEN_RATE, PORT, Pace, Workload};

/// A program that makes load.
pub(super) enum Generator {
    Evenkeel(PathBuf),
    /// Another version of ours.
    Peer(PathBuf),
    Memtier(PathBuf),
    /// It neither reads replies nor takes times: a floor.
    Crusher(PathBuf),
}

impl Generator {
    pub(super) fn at(path: &Path) -> Generator {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let of = match &*name {
            "mc-crusher" => Generator::Crusher,
            name if name.contains("evenkeel") => Generator::Peer,
            _ => Generator::Memtier,
        };
        of(path.to_owned())
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Generator::Evenkeel(_) => "evenkeel load",
            Generator::Peer(_) => "peer evenkeel load",
            Generator::Memtier(_) => "memtier_benchmark",
            Generator::Crusher(_) => "mc-crusher",
        }
    }

    /// memtier_benchmark takes `--multi-key-get`, but asks memcached for one key at a time all the same; mc-crusher
    /// has no rate.
    pub(super) fn can(&self, workload: &Workload) -> bool {
        match self {
            Generator::Evenkeel(_) | Generator::Peer(_) => true,
            Generator::Memtier(_) => workload.keys_per_get == 1,
            Generator::Crusher(_) => workload.pace == Pace::Closed,
        }
    }

    /// Each has keys of its own.
    pub(super) fn prefill(&self, arguments: &Arguments) -> Result<()> {
        let mut command = match self {
            Generator::Evenkeel(path) | Generator::Peer(path) => {
                ours(arguments, path, &["--prefill", "--requests", "1"])
            }
            Generator::Memtier(path) => {
                let each = (KEYS / CONNECTIONS).to_string();
                memtier(arguments, path, &["--ratio", "1:0", "--key-pattern", "P:P", "-n", &each])
            }
            Generator::Crusher(_) => return store_crusher_keys(),
        };
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("prefill")?;
        ensure!(status.success(), "{} did not store its keys", self.name());
        Ok(())
    }

    pub(super) fn command(&self, arguments: &Arguments, workload: &Workload) -> Result<Command> {
        let (depth, keys) = (workload.depth.to_string(), workload.keys_per_get.to_string());
        Ok(match self {
            Generator::Evenkeel(path) | Generator::Peer(path) => {
                let requests = workload.requests.to_string();
                let words = ["--requests", &requests, "--depth", &depth, "--multiget", &keys];
                let mut command = ours(arguments, path, &words);
                if workload.pace != Pace::Closed {
                    command.args(["--rate", &OPEN_RATE.to_string()]);
                }
                if let Pace::Slots(slot) = workload.pace {
                    command.args(["--slot", slot]);
                }
                command
            }
            Generator::Memtier(path) => {
                let each = (workload.requests / CONNECTIONS).to_string();
                let words = ["--ratio", "0:1", "--key-pattern", "R:R", "-n", &each, "--pipeline", &depth];
                let mut command = memtier(arguments, path, &words);
                if workload.pace != Pace::Closed {
                    command.args(["--rate-limiting", &(OPEN_RATE / CONNECTIONS).to_string()]);
                }
                command
            }
            Generator::Crusher(path) => crusher(arguments, path, workload)?,
        })
    }
}

fn pinned(arguments: &Arguments, path: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &arguments.turns.load_cpu.to_string()]).arg(path);
    command
}

fn ours(arguments: &Arguments, path: &Path, rest: &[&str]) -> Command {
    let mut command = pinned(arguments, path);
    command.args([
        "load",
        "--port",
        &PORT.to_string(),
        "--connections",
        &CONNECTIONS.to_string(),
        "--warm-up",
        "0",
    ]);
    command.args(["--keys", &KEYS.to_string()]).args(rest);
    command
}

fn memtier(arguments: &Arguments, path: &Path, rest: &[&str]) -> Command {
    let mut command = pinned(arguments, path);
    command.args([
        "-s",
        "127.0.0.1",
        "-p",
        &PORT.to_string(),
        "-P",
        "memcache_text",
        "-t",
        "1",
        "--hide-histogram",
    ]);
    command
        .args(["-c", &CONNECTIONS.to_string(), "-d", "100", "--key-maximum", &KEYS.to_string()])
        .args(rest);
    command
}

/// mc-crusher runs by time, and reads what it does from a file.
fn crusher(arguments: &Arguments, path: &Path, workload: &Workload) -> Result<Command> {
    let Workload { depth, keys_per_get, .. } = workload;
    let send = match keys_per_get {
        1 => format!("ascii_get,pipelines={depth}"),
        keys => format!("ascii_mget,mget_count={keys}"),
    };
    let line = format!(
        "send={send},recv=blind_read,conns={CONNECTIONS},key_prefix={CRUSHER_PREFIX},key_count={KEYS},live_rand=1\n"
    );
    let (reader, mut writer) = std::io::pipe().context("make a pipe")?;
    writer.write_all(line.as_bytes())?;
    let mut command = pinned(arguments, path);
    command.args([
        "--ip",
        "127.0.0.1",
        "--port",
        &PORT.to_string(),
        "--timeout",
        "3",
        "--conf",
        "/dev/stdin",
    ]);
    command.stdin(reader);
    Ok(command)
}

const CRUSHER_PREFIX: &str = "crush:";

/// mc-crusher's keys have no leading zeros.
fn store_crusher_keys() -> Result<()> {
    let server = TcpStream::connect(("127.0.0.1", PORT)).context("store mc-crusher's keys")?;
    let mut client = StoreClient::new(server)?;
    for number in 0..=KEYS {
        let key = format!("{CRUSHER_PREFIX}{number}");
        client.push_set(|out: &mut Vec<u8>| out.extend_from_slice(key.as_bytes()), 0, &[b'x'; 100]);
    }
    command::version(&mut client.out);
    client.send()?;
    let line = client.line()?;
    ensure!(matches!(line, Line::Version(_)), "the server did not take mc-crusher's keys: {line}");
    Ok(())
}
