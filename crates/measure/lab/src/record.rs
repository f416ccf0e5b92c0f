//! Records of trials: each is written once, when the trial ends, and never changed.

pub mod profile;
pub mod quantity;

use crate::record::quantity::is_latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure beyond this, above or below zero, is refused: no measurement is so large, and sums and ratios of such
/// figures are not finite numbers any more.
pub const FIGURE_MAX: f64 = 1e15;

/// Whether it is a valid figure.
pub(crate) fn is_credible(figure: f64) -> bool {
    figure.abs() <= FIGURE_MAX
}

/// The error for an invalid one, as a sentence.
pub(crate) fn incredible(metric: &str, figure: f64) -> String {
    format!("{metric} is {figure:e}: no figure beyond {FIGURE_MAX:e} is believed")
}

/// One trial of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialRecord {
    /// The round, from 0.
    pub round: u32,
    /// Its place in the order of all trials, from 0.
    pub place: u32,
    /// Earlier trials of this cell in this round, none of which counts; 0: it is the first.
    pub repeat: u32,
    /// The subject's name.
    pub subject: String,
    /// The level of each factor.
    pub levels: BTreeMap<String, String>,
    /// When it began, in seconds since 1970.
    pub began_unix_s: u64,
    /// The kernel's release and the host's name: a history of several machines keeps them apart.
    pub kernel: String,
    /// See `kernel`.
    pub host: String,
    /// The model of its CPUs as /proc/cpuinfo has it, if it has one (ARM's has none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// The virtual machine that the subject ran in, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestRecord>,
    /// The subject's version, if it has a command for it.
    pub version: Option<String>,
    /// SHA-256 of the executable that CPU time is charged to. Where there is none, a remark or a doubt has the
    /// reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The same of the program that carried out the trial, which mostly is the load, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
    /// By name, over the seconds that count: figures of the load (`p99_us`, `requests_per_second`) and of the host
    /// (`requests_per_cpu_second`, `server_cpu_s`, `server_wait_share`, `steal_share`).
    pub metrics: BTreeMap<String, f64>,
    /// Reasons why it does not count; empty: it counts.
    pub doubts: Vec<String>,
    /// Other remarks: figures beside the primary one that cannot be believed, an executable that is not known.
    pub remarks: Vec<String>,
    /// Whether a remark is about its latencies: they are not compared.
    pub latencies_are_doubtful: bool,
    /// Second by second, those that are dropped included.
    pub samples: Vec<Sample>,
}

/// A virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestRecord {
    /// Its kernel's release, as `uname -r` prints it there.
    pub kernel: String,
    /// The accelerator: `kvm`, or `tcg`, which is software.
    pub accelerator: String,
    /// Second by second, the activity of its CPUs with packets and interrupts, if the machine reports it; the rest is
    /// not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// One second of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds since the load began, at its end.
    pub at_s: f64,
    /// The load's figures, by metric.
    pub load: BTreeMap<String, f64>,
    /// By CPU.
    pub cpus: Vec<CpuShares>,
    /// Their numbers, unless they are 0, 1, 2…: a CPU that is offline has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_ids: Vec<u32>,
    /// Packets that each CPU has handled: NET_RX of /proc/softirqs.
    pub net_rx: Vec<u64>,
    /// Interrupts of network interfaces that each CPU has taken.
    pub interrupts: Vec<u64>,
    /// Seconds that the subject's threads ran.
    pub run_s: f64,
    /// Seconds that the subject's threads waited for a CPU.
    pub wait_s: f64,
    /// Resident bytes of the subject.
    pub rss_bytes: u64,
    /// Packets dropped in and squeezed out of the softirq budget: /proc/net/softnet_stat.
    pub softnet_dropped: u64,
    /// See `softnet_dropped`.
    pub softnet_squeezed: u64,
    /// TcpExt ListenOverflows.
    pub listen_overflows: u64,
    /// Seconds in which some task waited, by `cpu`, `memory`, `io`: /proc/pressure.
    pub stalled_s: BTreeMap<String, f64>,
}

/// How a CPU spent a second: shares of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuShares {
    /// In programs.
    pub user: f64,
    /// In the kernel on their behalf.
    pub system: f64,
    /// In interrupts.
    pub irq: f64,
    /// In soft interrupts.
    pub softirq: f64,
    /// Doing nothing.
    pub idle: f64,
    /// Taken by other guests.
    pub steal: f64,
}

impl CpuShares {
    /// The share that was used here; `None` of a second in which the kernel counted no tick.
    pub fn busy(&self) -> Option<f64> {
        let CpuShares { user, system, irq, softirq, idle, steal } = self;
        let is_known = user + system + irq + softirq + idle + steal > 0.0;
        is_known.then_some(1.0 - idle - steal)
    }
}

impl TrialRecord {
    /// The name of its cell: subject and levels, as a row of a table has it.
    pub fn cell(&self) -> String {
        cell_name(&self.subject, &self.levels)
    }

    /// A figure that may be compared.
    pub fn figure(&self, metric: &str) -> Option<f64> {
        let is_doubtful = self.latencies_are_doubtful && is_latency(metric);
        self.metrics.get(metric).copied().filter(|figure| is_credible(*figure) && !is_doubtful)
    }

    /// Takes out invalid figures, with a doubt or remark for each: without the metric that decides it does not count.
    pub(crate) fn leave_out_incredible(&mut self, primary: &str) {
        for (metric, figure) in self.metrics.extract_if(.., |_, figure| !is_credible(*figure)) {
            let why = incredible(&metric, figure);
            if metric == primary { self.doubts.push(why) } else { self.remarks.push(why) }
        }
    }

    /// Whether it counts.
    pub fn is_valid(&self) -> bool {
        self.doubts.is_empty()
    }
}

/// The one name of a cell: files that are kept for it (executables, profiles) are found by it.
pub(crate) fn cell_name(subject: &str, levels: &BTreeMap<String, String>) -> String {
    let levels = levels.iter().map(|(factor, level)| format!("{factor}={level}"));
    std::iter::once(subject.to_owned()).chain(levels).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_beyond_all_measure_is_left_out_with_a_sentence() {
        for figure in [1e308, -1e308, 1.1 * FIGURE_MAX, f64::INFINITY, f64::NAN] {
            let metrics = [("rate", figure), ("p99_us", figure), ("mean_us", FIGURE_MAX)];
            let metrics = metrics.map(|(name, figure)| (name.to_owned(), figure)).into();
            let mut record = TrialRecord { metrics, ..TrialRecord::default() };
            assert_eq!((record.figure("rate"), record.figure("mean_us")), (None, Some(FIGURE_MAX)));
            record.leave_out_incredible("rate");
            assert_eq!(record.doubts, [incredible("rate", figure)]);
            assert_eq!(record.remarks, [incredible("p99_us", figure)]);
            assert_eq!(record.metrics.len(), 1);
        }
        assert_eq!(incredible("rate", 1e308), "rate is 1e308: no figure beyond 1e15 is believed");
    }
}
