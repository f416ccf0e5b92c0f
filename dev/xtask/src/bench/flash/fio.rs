//! fio, for what a disk does without a cache server.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::arguments::Arguments;
use super::cleanup::ScratchFile;
use super::rows::hit;

/// Reads of 4 KiB, as random and as many as the gets of a server.
pub(super) const READS_PER_S: u64 = 5_000;
/// With a smaller share of them its figure shows nothing.
const RATE_MIN: f64 = 0.95;
/// What a server may have under way.
const DEPTH: &str = "64";
/// As much as the sets, in bytes: one write after the other, as the thread `flash` does.
const WRITE_BYTES_PER_S: &str = "50000000";

/// A file for fio, as long as those of the servers, each block written once.
pub(super) struct Fio {
    file: ScratchFile,
    report: ScratchFile,
    megabytes: u64,
}

impl Fio {
    /// `None` if there is no fio.
    pub(super) fn new(arguments: &Arguments) -> Result<Option<Fio>> {
        let silent = Command::new("fio").arg("--version").stdout(Stdio::null()).status();
        if silent.is_err() {
            return Ok(None);
        }
        let file = ScratchFile::new(&arguments.folder, "fio")?;
        let report = ScratchFile::new(&std::env::temp_dir(), "fio.json")?;
        let megabytes = hit::setup(arguments, None).flash_megabytes;
        let fio = Fio { file, report, megabytes };
        fio.run(arguments, &["--name=fill", "--rw=write", "--bs=1m"])?;
        Ok(Some(fio))
    }

    /// The 99th percentile of the reads, from submission to completion, and what makes it INVALID.
    pub(super) fn p99_us(&self, arguments: &Arguments) -> Result<(f64, Vec<String>)> {
        let (runtime, rate) =
            (format!("--runtime={}ms", arguments.window_ms), format!("--rate_iops={READS_PER_S}"));
        let (depth, bytes) = (format!("--iodepth={DEPTH}"), format!("--rate={WRITE_BYTES_PER_S}"));
        let common = ["--time_based", "--ramp_time=1s", "--lat_percentiles=1", &runtime];
        let reads = ["--name=reads", "--rw=randread", "--bs=4k", "--rate_process=poisson", &depth, &rate];
        let writes = ["--name=writes", "--rw=write", "--bs=1m", "--iodepth=1", &bytes];
        let report = self.run(arguments, &[&common[..], &reads, &writes].concat())?;
        let reads = report.pointer("/jobs/0/read").context("no reads in fio's report")?;
        let percentile = reads["lat_ns"]["percentile"]["99.000000"].as_f64();
        let rate = reads["iops"].as_f64().context("no iops in fio's report")?;
        let is_slow = rate < READS_PER_S as f64 * RATE_MIN;
        let reasons = is_slow.then(|| "fio-reads-missing".to_owned()).into_iter().collect();
        Ok((percentile.context("no 99th percentile in fio's report")? / 1000.0, reasons))
    }

    /// On the CPU of the servers, and ended with this program.
    fn run(&self, arguments: &Arguments, words: &[&str]) -> Result<serde_json::Value> {
        let shown = |path: &Path| path.display().to_string();
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "taskset",
            "-c",
            &arguments.turns.server_cpu.to_string(),
            "fio",
        ]);
        // Threads, not processes: they end with it.
        command.args(["--thread", "--ioengine=io_uring", "--direct=1", "--output-format=json"]);
        command.arg(format!("--filename={}", shown(self.file.path())));
        command.arg(format!("--size={}m", self.megabytes));
        command.arg(format!("--output={}", shown(self.report.path()))).args(words);
        let output = command.stdin(Stdio::null()).output().context("start fio")?;
        ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr).trim());
        let report = std::fs::read(self.report.path()).context("read fio's report")?;
        serde_json::from_slice(&report).context("parse fio's report")
    }
}
