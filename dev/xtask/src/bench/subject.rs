//! A server under comparison: how it is started, filled and measured.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::process::{BenchProcess, built};
use super::workload::BenchWorkload;
use super::{Arguments, DRIVERS};

/// The figures of one run of the load generator.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RunFigures {
    /// Requests, or keys where a request has many, per CPU-second of the server.
    pub(crate) per_server_cpu_s: f64,
    /// Requests per CPU-second of the load generator.
    pub(crate) per_client_cpu_s: f64,
    /// Requests per second of the clock: no claim, a sign of what the machine was doing.
    pub(crate) per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// A running server.
pub(crate) struct BenchSubject {
    pub(crate) name: String,
    kind: Kind,
    /// TCP and unix where one process listens on both; else one process each.
    processes: Vec<BenchProcess>,
    port: u16,
    socket: PathBuf,
}

/// How the load reaches a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tcp,
    Unix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Evenkeel(&'static str),
    /// Another build of ours.
    Peer(&'static str),
    Memcached,
    Pogocache,
    /// Answers every request with the same reply, over the same driver.
    Null(&'static str),
}

/// The subjects of one group of workloads.
pub(crate) struct Subjects(Vec<BenchSubject>);

impl std::ops::Deref for Subjects {
    type Target = Vec<BenchSubject>;

    fn deref(&self) -> &Vec<BenchSubject> {
        &self.0
    }
}

impl Subjects {
    /// Starts all subjects for `workload`'s data. The base of the ratios comes first.
    pub(crate) fn start(arguments: &Arguments, workload: &BenchWorkload) -> Result<Subjects> {
        let wanted = |driver: &&str| arguments.driver.as_ref().is_none_or(|only| only == driver);
        let drivers: Vec<&'static str> = DRIVERS.into_iter().filter(wanted).collect();
        let mut kinds = Vec::new();
        let memcached = vec![PathBuf::from("memcached")];
        let peers = if arguments.peer.is_empty() { &memcached } else { &arguments.peer };
        for peer in peers {
            let name = peer.file_name().unwrap_or_default().to_string_lossy();
            let kind = match name {
                _ if name.contains("memcached") => Kind::Memcached,
                _ if name.contains("pogocache") => Kind::Pogocache,
                _ if name.contains("evenkeel") => Kind::Peer(drivers[0]),
                _ => bail!("peer {}: known are memcached, pogocache and evenkeel", peer.display()),
            };
            kinds.push((kind, peer.clone()));
        }
        for driver in drivers {
            kinds.push((Kind::Evenkeel(driver), built("evenkeel")));
            kinds.push((Kind::Null(driver), built("evenkeel")));
        }
        let started: Result<Vec<_>> = kinds
            .into_iter()
            .enumerate()
            .map(|(index, (kind, path))| {
                BenchSubject::start(arguments, workload, kind, &path, 21_200 + index as u16)
            })
            .collect();
        started.map(Subjects)
    }

    /// Keeps the subjects that `keep` selects, by their index and themselves; the others are stopped.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, &BenchSubject) -> bool) {
        let mut index = 0;
        self.0.retain(|subject| {
            index += 1;
            keep(index - 1, subject)
        });
    }
}

impl BenchSubject {
    fn start(
        arguments: &Arguments,
        workload: &BenchWorkload,
        kind: Kind,
        path: &Path,
        port: u16,
    ) -> Result<BenchSubject> {
        let socket = std::env::temp_dir().join(format!("evenkeel-bench-{port}.sock"));
        let _ = std::fs::remove_file(&socket);
        let (name, lines) = command_lines(kind, workload, port, &socket.to_string_lossy());
        let mut subject = BenchSubject { name, kind, processes: Vec::new(), port, socket: socket.clone() };
        for line in lines {
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            subject.processes.push(BenchProcess::start(path, &line, Some(arguments.turns.server_cpu))?);
        }
        subject.wait_until_it_answers()?;
        Ok(subject)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let tcp = || TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        let unix = || UnixStream::connect(&self.socket).is_ok();
        self.processes.iter_mut().try_for_each(|process| process.wait_until(|| tcp() && unix()))
    }

    /// Whether this subject can answer `workload`.
    pub(crate) fn can(&self, workload: &BenchWorkload) -> bool {
        match self.kind {
            Kind::Pogocache => !workload.meta && !workload.udp,
            Kind::Null(_) => !workload.meta,
            // A peer may be older than UDP, and would not start with its flag.
            Kind::Peer(_) => !workload.udp,
            Kind::Evenkeel(_) | Kind::Memcached => true,
        }
    }

    /// Stores the data of `workload`.
    pub(crate) fn prefill(&self, arguments: &Arguments, workload: &BenchWorkload) -> Result<()> {
        if matches!(self.kind, Kind::Null(_)) {
            return Ok(());
        }
        // One process holds what comes over either socket.
        let ways: &[Way] = if self.processes.len() == 1 { &[Way::Tcp] } else { &[Way::Tcp, Way::Unix] };
        for &way in ways {
            self.load(arguments, workload, way, &["--prefill", "--requests", "1000"])?;
        }
        Ok(())
    }

    /// Loads the subject and reads the figures.
    pub(crate) fn measure(&self, arguments: &Arguments, workload: &BenchWorkload) -> Result<RunFigures> {
        let window = format!("{}ms", arguments.window_ms);
        let extra = [&["--duration", &window, "--warm-up", "200ms"], workload.load].concat();
        let way = if workload.unix { Way::Unix } else { Way::Tcp };
        let summary = self.load(arguments, workload, way, &extra)?;
        let number = |name: &str| {
            summary
                .pointer(name)
                .and_then(serde_json::Value::as_f64)
                .with_context(|| format!("no {name} in the summary"))
        };
        Ok(RunFigures {
            per_server_cpu_s: number("/server/keys_per_cpu_second")?,
            per_client_cpu_s: number("/client/requests_per_cpu_second")?,
            per_s: number("/requests_per_second")?,
            p50_us: number("/latency/p50_us")?,
            p99_us: number("/latency/p99_us")?,
        })
    }

    fn load(
        &self,
        arguments: &Arguments,
        workload: &BenchWorkload,
        way: Way,
        extra: &[&str],
    ) -> Result<serde_json::Value> {
        let json = std::env::temp_dir().join(format!("evenkeel-bench-{}.json", std::process::id()));
        let process = if way == Way::Tcp { self.processes.first() } else { self.processes.last() };
        let mut command = Command::new(built("evenkeel"));
        command.arg("load").args(["--cpu", &arguments.turns.load_cpu.to_string()]).arg("--json").arg(&json);
        command.args(["--server-pid", &process.expect("a subject has a process").id().to_string()]);
        match way {
            Way::Unix => command.arg("--socket").arg(&self.socket),
            Way::Tcp => command.args(["--port", &self.port.to_string()]),
        };
        command.args(["--keys", &workload.data.keys.to_string(), "--key-size", "16"]);
        command.args(["--value-size", &workload.data.value_len.to_string()]).args(extra);
        let output = command.stdin(Stdio::null()).output().context("start evenkeel load")?;
        if !output.status.success() {
            bail!("load on {}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = std::fs::read(&json).with_context(|| format!("read {}", json.display()))?;
        let _ = std::fs::remove_file(&json);
        serde_json::from_slice(&text).context("parse the summary")
    }
}

impl Drop for BenchSubject {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The name of a subject and the command lines of its processes, where `SOCKET` stands for the unix socket.
fn command_lines(
    kind: Kind,
    workload: &BenchWorkload,
    port: u16,
    socket: &str,
) -> (String, Vec<Vec<String>>) {
    // 1 GiB holds every data set but one; 4 M items need more in any server that has a large header.
    let gigabytes = if workload.data.keys > 2_000_000 { 2 } else { 1 };
    let (memory, value_len) = (gigabytes * 1024, workload.data.value_len);
    let (name, lines): (String, Vec<String>) = match kind {
        Kind::Evenkeel(driver) | Kind::Peer(driver) => {
            let line = format!(
                "serve -u root -t 1 -m {memory} -c 4096 -l 127.0.0.1 -p {port} -s SOCKET --driver {driver}"
            );
            match kind {
                Kind::Peer(_) => (format!("peer-evenkeel-{driver}"), vec![line]),
                _ => (format!("evenkeel-{driver}"), vec![format!("{line} -U {port}")]),
            }
        }
        Kind::Null(driver) => {
            let line = format!(
                "lab null --socket SOCKET --driver {driver} --port {port} --udp --value-size {value_len}"
            );
            (format!("null-{driver}"), vec![line])
        }
        // One process cannot listen on both.
        Kind::Memcached => {
            let common = format!("-u root -t 1 -m {memory} -c 4096");
            let (tcp, unix) =
                (format!("{common} -l 127.0.0.1 -p {port} -U {port}"), format!("{common} -s SOCKET"));
            ("memcached".into(), vec![tcp, unix])
        }
        Kind::Pogocache => {
            let line = format!(
                "-h 127.0.0.1 -p {port} -s SOCKET --threads 1 --maxmemory {gigabytes}gb --maxconns 4096"
            );
            ("pogocache".into(), vec![line])
        }
    };
    let words = |line: String| line.split(' ').map(|word| word.replace("SOCKET", socket)).collect();
    (name, lines.into_iter().map(words).collect())
}
