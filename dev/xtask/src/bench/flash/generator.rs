//! Load on a server, and what the load generator says of it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::super::process::{BenchProcess, built};
use super::server::FlashServer;

/// Ends a generator with this program, which an interrupt may end at any time.
const ENDS_WITH_US: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];
const KEYS: [&str; 2] = ["--key-size", "20"];
/// Ahead of everything else on its CPU: the load beside the probes must not delay them.
const FIRST: [&str; 3] = ["chrt", "--fifo", "1"];

impl FlashServer {
    /// Runs the load generator on it, and returns what it says.
    pub(super) fn load(&self, words: &[&str]) -> Result<serde_json::Value> {
        self.run(&ENDS_WITH_US, &[&KEYS[..], words].concat())
    }

    /// The same with keys of a workload's own.
    pub(super) fn load_workload(&self, words: &[&str]) -> Result<serde_json::Value> {
        self.run(&ENDS_WITH_US, words)
    }

    /// The same for a few requests whose latencies count, while another generator has the same CPU.
    pub(super) fn probe(&self, words: &[&str]) -> Result<serde_json::Value> {
        self.run(&[&ENDS_WITH_US[..], &FIRST].concat(), &[&KEYS[..], words].concat())
    }

    /// Starts a load that goes on until the returned value is dropped.
    pub(super) fn load_beside(&self, words: &[&str]) -> Result<BenchProcess> {
        let common = self.first_words();
        let common: Vec<&str> = common.iter().map(String::as_str).collect();
        BenchProcess::start(
            &built("evenkeel"),
            &[&common[..], &KEYS, words, &["--duration", "1h"]].concat(),
            None,
        )
    }

    fn first_words(&self) -> Vec<String> {
        let (cpu, port, process) =
            (self.load_cpu.to_string(), self.port.to_string(), self.server_id().to_string());
        let words = ["load", "--cpu", &cpu, "--port", &port, "--server-pid", &process];
        words.map(str::to_owned).to_vec()
    }

    fn run(&self, before: &[&str], words: &[&str]) -> Result<serde_json::Value> {
        let json = self.summary.path();
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(built("evenkeel")).args(self.first_words()).args(words);
        let output = command.arg("--json").arg(json).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("start evenkeel load with {}", before.join(" ")))?;
        ensure!(output.status.success(), "load: {}", String::from_utf8_lossy(&output.stderr).trim());
        let text = std::fs::read(json).with_context(|| format!("read {}", json.display()))?;
        serde_json::from_slice(&text).context("parse the summary")
    }
}

/// A figure of the load generator's summary.
pub(super) fn figure(summary: &serde_json::Value, name: &str) -> Result<f64> {
    summary
        .pointer(name)
        .and_then(serde_json::Value::as_f64)
        .with_context(|| format!("no {name} in the summary"))
}
