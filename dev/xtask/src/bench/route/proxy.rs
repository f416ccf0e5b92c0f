//! Proxies under comparison, and the servers behind them.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::process::{BenchProcess, built};
use super::rows::{ConfiguredRoute, RouteFigure, RouteRow};

/// The first port: four servers, and then the proxies.
const PORT: u16 = 21_900;

/// Servers behind each proxy.
const SERVERS: u16 = 4;

/// Items that are read and written.
const ITEMS: [&str; 6] = ["--keys", "100000", "--key-size", "16", "--value-size", "100"];

/// The servers.
pub(super) struct BackEnds {
    _processes: Vec<BenchProcess>,
    /// Configurations of proxies, removed at the end.
    directory: PathBuf,
}

impl BackEnds {
    /// Starts the servers on one CPU.
    pub(super) fn start(cpu: usize) -> Result<BackEnds> {
        let directory = std::env::temp_dir().join(format!("evenkeel-bench-route-{}", std::process::id()));
        std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        let start = |port: u16| {
            let port_text = port.to_string();
            let words = ["serve", "-p", &port_text, "-l", "127.0.0.1", "-t", "1", "-m", "256"];
            let mut process = BenchProcess::start(&built("evenkeel"), &words, Some(cpu))?;
            process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
            Ok(process)
        };
        let processes = ports().map(start).collect::<Result<Vec<_>>>()?;
        Ok(BackEnds { _processes: processes, directory })
    }
}

impl Drop for BackEnds {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn ports() -> impl Iterator<Item = u16> {
    PORT..PORT + SERVERS
}

/// Clients that a proxy must take at a time: more than the row of idle ones has.
const CLIENTS_MAX: &str = "8192";

/// A program under comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    /// Ours, with this route.
    Evenkeel(ConfiguredRoute),
    /// Each client has a server of its own: no keys are looked at.
    Null,
    /// Another build of ours.
    Other(PathBuf),
    Nutcracker(PathBuf),
    /// memcached's own proxy, built in by `--enable-proxy`.
    Memcached(PathBuf),
}

impl ProxyKind {
    /// A peer, by its file name.
    pub(super) fn of_peer(path: &Path) -> Result<ProxyKind> {
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.starts_with("nutcracker") => Ok(ProxyKind::Nutcracker(path.into())),
            Some(name) if name.starts_with("memcached") => Ok(ProxyKind::Memcached(path.into())),
            Some(name) if name.starts_with("evenkeel") => Ok(ProxyKind::Other(path.into())),
            _ => bail!("expected a path to nutcracker, memcached or evenkeel, found {}", path.display()),
        }
    }

    /// Whether it can serve a row.
    pub(super) fn serves(&self, row: &RouteRow) -> bool {
        match self {
            ProxyKind::Evenkeel(route) => *route == ConfiguredRoute::Pool || row.with_routes,
            ProxyKind::Nutcracker(_) => !row.is_meta,
            // Its clients have servers of their own, which have no room for so many.
            ProxyKind::Null => row.figure != RouteFigure::IdleBytes,
            _ => true,
        }
    }

    /// The program and its words for a port.
    fn command(&self, port: u16, directory: &Path) -> Result<(PathBuf, Vec<String>)> {
        let servers =
            |before: &str| ports().map(|port| format!("{before}127.0.0.1:{port}")).collect::<Vec<_>>();
        Ok(match self {
            ProxyKind::Evenkeel(_) | ProxyKind::Other(_) => {
                let (path, route) = match self {
                    ProxyKind::Evenkeel(route) => (built("evenkeel"), *route),
                    ProxyKind::Other(path) => (path.clone(), ConfiguredRoute::Pool),
                    _ => unreachable!("the arm is about ours"),
                };
                let config = route.configuration(&servers(""));
                let port = port.to_string();
                let words = [
                    "route",
                    "-p",
                    &port,
                    "--listen-addresses",
                    "127.0.0.1",
                    "--num-proxies",
                    "1",
                    "--config-str",
                    &config,
                ];
                (path, words.map(str::to_owned).into())
            }
            ProxyKind::Null => {
                let mut words = ["lab", "null", "--port"].map(str::to_owned).to_vec();
                words.push(port.to_string());
                words.extend(servers("").into_iter().flat_map(|server| ["--to".to_owned(), server]));
                (built("evenkeel"), words)
            }
            ProxyKind::Memcached(path) => {
                let servers: Vec<String> = servers("").iter().map(|server| format!("{server:?}")).collect();
                let text = format!(
                    "pools{{ main = {{ backends = {{ {} }} }} }}\nroutes{{ default = route_direct{{ child = \"main\" }} }}\n",
                    servers.join(", ")
                );
                let file = directory.join("memcached.lua");
                std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
                let settings = format!("proxy_config=routelib,proxy_arg={}", file.display());
                let port = port.to_string();
                let words = [
                    "-p",
                    &port,
                    "-l",
                    "127.0.0.1",
                    "-t",
                    "1",
                    "-u",
                    "root",
                    "-c",
                    CLIENTS_MAX,
                    "-o",
                    &settings,
                ];
                (path.clone(), words.map(str::to_owned).into())
            }
            ProxyKind::Nutcracker(path) => {
                let servers: Vec<String> =
                    servers("   - ").iter().map(|server| format!("{server}:1")).collect();
                let text = format!(
                    "pool:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: ketama\n  timeout: 1000\n  servers:\n{}\n",
                    servers.join("\n")
                );
                let file = directory.join("nutcracker.yml");
                std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
                let statistics = (port + 1000).to_string();
                let file = file.display().to_string();
                (path.clone(), ["-c", &file, "-s", &statistics, "-m", "16384"].map(str::to_owned).into())
            }
        })
    }
}

/// A running proxy.
pub(super) struct Proxy {
    pub(super) kind: ProxyKind,
    process: BenchProcess,
    port: u16,
}

impl Proxy {
    /// Starts one on `cpu`.
    pub(super) fn start(kind: ProxyKind, back_ends: &BackEnds, cpu: usize) -> Result<Proxy> {
        let port = PORT
            + SERVERS
            + match kind {
                ProxyKind::Null => 0,
                ProxyKind::Nutcracker(_) => 1,
                ProxyKind::Other(_) => 2,
                ProxyKind::Memcached(_) => 3,
                ProxyKind::Evenkeel(route) => 4 + route as u16,
            };
        let (path, words) = kind.command(port, &back_ends.directory)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut process = BenchProcess::start(&path, &words, Some(cpu))?;
        process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Proxy { kind, process, port })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ProxyKind::Evenkeel(route) => route.name(),
            ProxyKind::Null => "null",
            ProxyKind::Other(_) => "other",
            ProxyKind::Nutcracker(_) => "nutcracker",
            ProxyKind::Memcached(_) => "memcached",
        }
    }

    /// Stores all items through this proxy, and then at each server: the null proxy reads from any.
    pub(super) fn prefill(&self, cpu: usize) -> Result<()> {
        let words = ["--prefill", "--requests", "1000"];
        for port in ports().chain([self.port]) {
            self.load(port, cpu, &words)?;
        }
        Ok(())
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The result of a load through this proxy.
    pub(super) fn load_through(&self, cpu: usize, words: &[&str]) -> Result<Value> {
        self.load(self.port, cpu, words)
    }

    fn load(&self, port: u16, cpu: usize, words: &[&str]) -> Result<Value> {
        let json = std::env::temp_dir().join(format!("evenkeel-bench-route-{}.json", std::process::id()));
        let cpu = cpu.to_string();
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu]).arg(built("evenkeel")).args(["load", "--cpu", &cpu, "--json"]).arg(&json);
        command.args(["--server-pid", &self.process.id().to_string(), "--port", &port.to_string()]);
        let output =
            command.args(ITEMS).args(words).stdin(Stdio::null()).output().context("start evenkeel load")?;
        if !output.status.success() {
            bail!("evenkeel load: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = std::fs::read(&json).with_context(|| format!("read {}", json.display()))?;
        let _ = std::fs::remove_file(&json);
        serde_json::from_slice(&text).context("parse the result")
    }
}
