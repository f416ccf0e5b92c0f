//! Servers of the network benchmark: their command lines, the certificate, and a run of the load generator.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::super::process::{BenchProcess, built};
use super::super::{Turns, process};
use super::row::Service;

/// Items that rows without other words read.
const KEYS: &str = "100000";

/// What a server is started for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) service: Service,
    /// Connections that it has room for.
    pub(super) room: u32,
    pub(super) port: u16,
}

/// A program under comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Memcached(PathBuf),
    Evenkeel,
    /// Answers every get with the same reply, over our own `net`.
    Null,
}

impl Program {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Program::Memcached(_) => "memcached",
            Program::Evenkeel => "evenkeel",
            Program::Null => "null",
        }
    }
}

/// A certificate for 127.0.0.1 and its key (ECDSA P-256), made for one run.
pub(super) struct Certificate {
    directory: PathBuf,
}

impl Certificate {
    /// Makes one with OpenSSL's command.
    pub(super) fn make() -> Result<Certificate> {
        let directory = std::env::temp_dir().join(format!("evenkeel-bench-tls-{}", std::process::id()));
        std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        let certificate = Certificate { directory };
        let settings = certificate.directory.join("settings");
        // Not an authority: a client that trusts it accepts it as the server's own.
        let text = "[req]\ndistinguished_name=n\nx509_extensions=x\nprompt=no\n[n]\nCN=localhost\n\
                    [x]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n";
        std::fs::write(&settings, text)?;
        let mut command = Command::new("openssl");
        command.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]);
        command.arg("-config").arg(settings).arg("-keyout").arg(certificate.key());
        let output = command.arg("-out").arg(certificate.chain()).output().context("start openssl")?;
        ensure!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
        let both = [certificate.chain(), certificate.key()].map(std::fs::read).into_iter();
        let both: Vec<u8> = both.collect::<Result<Vec<_>, _>>()?.concat();
        std::fs::write(certificate.both(), both)?;
        Ok(certificate)
    }

    pub(super) fn chain(&self) -> PathBuf {
        self.directory.join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.join("key.pem")
    }

    /// Chain and key in one file.
    fn both(&self) -> PathBuf {
        self.directory.join("both.pem")
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A running server.
pub(super) struct NetworkServer {
    process: BenchProcess,
    pub(super) port: u16,
    /// The CPUs of the load, and whether they are the server's, too.
    load_cpus: String,
    is_crowded: bool,
}

impl NetworkServer {
    /// Starts `program`; `None` if it has nothing to compare for this service.
    pub(super) fn start(
        program: &Program,
        start: Start,
        turns: &Turns,
        certificate: &Certificate,
    ) -> Result<Option<NetworkServer>> {
        let Some((path, line)) = command_line(program, start, certificate) else { return Ok(None) };
        let port = start.port;
        let is_crowded = start.service == Service::Crowded;
        let both = format!("{},{}", turns.server_cpu, turns.load_cpu);
        let cpus = if is_crowded { both.clone() } else { turns.server_cpu.to_string() };
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut process = BenchProcess::start_on(&path, &words, Some(&cpus))?;
        process.wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        let load_cpus = if is_crowded { both } else { turns.load_cpu.to_string() };
        Ok(Some(NetworkServer { process, port, load_cpus, is_crowded }))
    }

    /// The port of its metrics, if it is watched.
    pub(super) fn metrics_port(&self) -> u16 {
        metrics_port(self.port)
    }

    /// The port of its TLS, if it is watched: the other one is plain.
    pub(super) fn tls_port(&self) -> u16 {
        tls_port(self.port)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU time that all of its threads have had, in seconds.
    pub(super) fn cpu_s(&self) -> Result<f64> {
        let ns = os::cpu_time::of_process(self.id()).context("read the server's CPU time")?;
        Ok(ns as f64 / 1e9)
    }

    /// Stores the items that are asked for.
    pub(super) fn prefill(&self, service: Service, certificate: &Certificate) -> Result<()> {
        let tls = if service == Service::Tls { &["--tls"][..] } else { &[] };
        let words = [&["--prefill", "--requests", "1000"], tls].concat();
        self.load(&words, certificate).map(drop)
    }

    /// Runs `evenkeel load` with these words, and returns its JSON.
    pub(super) fn load(&self, words: &[&str], certificate: &Certificate) -> Result<Value> {
        let json = std::env::temp_dir().join(format!("evenkeel-bench-{}.json", std::process::id()));
        let mut command = Command::new("taskset");
        command.args(["-c", &self.load_cpus]).arg(built("evenkeel")).arg("load").arg("--json").arg(&json);
        if !self.is_crowded {
            command.args(["--cpu", &self.load_cpus]);
        }
        command.args(["--server-pid", &self.id().to_string(), "--port", &self.port.to_string()]);
        command.args(["--keys", KEYS, "--key-size", "16"]).args(words);
        if words.contains(&"--tls") {
            command.arg("--tls-ca").arg(certificate.chain());
        }
        let output = command.stdin(Stdio::null()).output().context("start evenkeel load")?;
        if !output.status.success() {
            bail!("evenkeel load: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = std::fs::read(&json).with_context(|| format!("read {}", json.display()))?;
        let _ = std::fs::remove_file(&json);
        serde_json::from_slice(&text).context("parse the result")
    }
}

/// Beyond the ports of all rounds.
fn metrics_port(port: u16) -> u16 {
    port + 4000
}

fn tls_port(port: u16) -> u16 {
    port + 8000
}

/// A program, and how it is started for a service.
fn command_line(
    program: &Program,
    Start { service, room, port }: Start,
    certificate: &Certificate,
) -> Option<(PathBuf, Vec<String>)> {
    let threads = if service == Service::Crowded { 2 } else { 1 };
    let tls = format!(
        " -Z -o ssl_chain_cert={},ssl_key={}",
        certificate.chain().display(),
        certificate.key().display()
    );
    let common = format!("-u root -t {threads} -m 1024 -c {room} -l 127.0.0.1 -p {port}");
    let flags = match service {
        Service::Plain => format!("{common} -U {port}"),
        Service::Tls => format!("{common}{tls}"),
        Service::Watched => {
            let (metrics, secure) = (metrics_port(port), tls_port(port));
            let listen = format!("-l notls:127.0.0.1:{port} -l 127.0.0.1:{secure}");
            let common = common.replace(&format!("-l 127.0.0.1 -p {port}"), &listen);
            format!("{common}{tls} --metrics-listen 127.0.0.1:{metrics}")
        }
        Service::Crowded => common,
    };
    let (path, line) = match (program, service) {
        (Program::Memcached(_) | Program::Null, Service::Watched) => return None,
        (Program::Memcached(path), _) => (path.clone(), flags),
        (Program::Evenkeel, _) => (built("evenkeel"), format!("serve {flags}")),
        (Program::Null, Service::Plain) => (built("evenkeel"), format!("lab null --port {port} --udp")),
        (Program::Null, Service::Tls) => {
            (built("evenkeel"), format!("lab null --port {port} --tls {}", certificate.both().display()))
        }
        (Program::Null, Service::Crowded) => return None,
    };
    Some((path, line.split(' ').map(str::to_owned).collect()))
}

/// Builds what is measured, and returns the first line of the report.
pub(super) fn build(peer: &Path) -> Result<String> {
    let evenkeel = process::build()?;
    Ok(format!("evenkeel: {}, peer: {}", evenkeel.display(), peer.display()))
}
