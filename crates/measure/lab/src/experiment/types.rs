//! Types of an experiment's file: subjects, factors and their levels, workload, measure. Data only; reading and checking
//! is [`Experiment::parse`].

use crate::record::quantity::Better;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// One question and the measurements that answer it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The question, for people.
    pub question: String,
    /// The subjects: at least one. The first is the baseline.
    #[serde(rename = "subject")]
    pub subjects: Vec<Subject>,
    /// Factors besides; every combination is a cell. The first level of each is the baseline.
    #[serde(default, rename = "factor", skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
    /// The load.
    pub workload: TrialLoad,
    /// The metrics.
    pub measure: Measure,
    /// The number of rounds, and their order.
    #[serde(default)]
    pub repeat: Repeat,
}

/// A server to be measured: any command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// In pictures and tables.
    pub name: String,
    /// Its program, which `{program}` means in its commands: a name to be found in PATH, or a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Whether it is left out where its program is not there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The command that starts it, in the foreground, for the shell. `{port}` is a free port, `{dir}` an empty
    /// directory of this trial.
    pub start: String,
    /// The port for `{port}`; left out: a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Commands before it starts, such as making a database; their time does not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// A command that prints its version, of which the first line is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The sign that it is ready.
    #[serde(default)]
    pub ready: Ready,
    /// Longest wait for that, in seconds.
    #[serde(default = "ready_within_s")]
    pub ready_within_s: u32,
    /// Whether it is filled by `workload.prepare`: a server that only answers has no data.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub holds_data: bool,
    /// Whether its program stays the same for good, so that a history measures the others by it, in the same run: a
    /// slower host slows it, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

impl Default for Subject {
    fn default() -> Subject {
        Subject {
            name: String::new(),
            program: None,
            optional: false,
            start: String::new(),
            port: None,
            prepare: Vec::new(),
            version: None,
            ready: Ready::default(),
            ready_within_s: ready_within_s(),
            holds_data: true,
            pinned: false,
        }
    }
}

/// The sign that a subject is ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ready {
    /// It accepts connections at `{port}` of 127.0.0.1.
    #[default]
    Port,
    /// A command ends with status 0; it is tried again and again.
    Command(String),
    /// It writes a line that contains this, to its output or its errors.
    Line(String),
}

/// Something that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// In pictures and tables.
    pub name: String,
    /// Placeholders of all levels that have none of this name themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Whether cells are compared with the baseline at the same level; left out: if its levels change nothing but words
    /// of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<bool>,
    /// Whether a run was restricted to some of its levels, so that one may be left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restricted: bool,
    /// Its values: at least two.
    #[serde(rename = "level")]
    pub levels: Vec<Level>,
}

/// One value of a factor. Settings that it leaves out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// In pictures and tables.
    pub name: String,
    /// Placeholders for the command lines: `set.connections = "500"` makes `{connections}` 500.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Environment of the subject, such as LD_PRELOAD.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Sysctls, as in sysctl.conf.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Other files below /proc/sys and /sys, with the values to write there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub file: BTreeMap<String, String>,
    /// A strategy of `evenkeel tune`, such as `rps-rfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The interface of the strategy; left out: all physical ones that are up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// The scheduler's policy for the subject's threads: `fifo:1`, `other:0`, `batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// CPUs that the subject may run on: `0,2-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// A file system of its own at `{dir}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// A kernel of its own: the subject runs in a virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<GuestKernel>,
    /// Names of the subjects that take part; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// What is aimed at, by the subject's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub must: BTreeMap<String, Aim>,
}

/// What the ratio of a subject to the baseline must be under a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Aim {
    /// Of the metric that decides: at least this, or at most, if low values are good.
    Ratio(f64),
    /// Of these metrics.
    Metrics(BTreeMap<String, f64>),
    /// Of the metric that decides: no difference that matters.
    Equivalent(EquivalentAim),
}

/// The word for no difference that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EquivalentAim {
    /// `"equivalent"`.
    Equivalent,
}

/// A file system on a loop device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// `ext4`, `xfs`…: `mkfs.KIND` makes it.
    pub kind: String,
    /// Mount options.
    #[serde(default)]
    pub options: String,
    /// Megabytes (2^20 bytes).
    pub size_mb: u32,
}

/// A kernel, and the virtual machine that it runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestKernel {
    /// Its file: `/boot/vmlinuz-…`.
    pub image: String,
    /// The directory with its modules; left out: `/lib/modules/` and its release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<String>,
    /// Parameters to add to the kernel command line: `mitigations=off`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub append: String,
    /// CPUs of the machine.
    #[serde(default = "kernel_cpus")]
    pub cpus: u32,
    /// Its memory in megabytes (2^20 bytes), which also holds all of its files.
    #[serde(default = "kernel_memory_mb")]
    pub memory_mb: u32,
    /// Queues of its network interface, each with interrupts of its own. The interface ends in a network namespace
    /// then; left out: one queue, and a port of this host that leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// Its disks: `/dev/nvme0n1`, `/dev/nvme1n1` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<GuestDisks>,
    /// A strategy of `evenkeel tune` for that interface, carried out in there as soon as the subject listens; the
    /// machine then also reports the activity of its CPUs again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Seconds from one of these reports to the next.
    #[serde(default = "kernel_sample_s")]
    pub sample_s: u32,
    /// Sysctls of the machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Files and directories that the subject needs there, besides those that its command line names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Disks of a virtual machine, which are empty at each boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDisks {
    /// How many.
    pub count: u32,
    /// The size of each in megabytes (2^20 bytes).
    pub size_mb: u32,
}

/// The load on a subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialLoad {
    /// Commands before the load, with the subject running, such as filling it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// The command, for the shell. `{seconds}` is its duration, of which it may drop `{warm_up}` itself and
    /// measure `{measured}`; `{output}` is a file for its results, `{pid}` the subject.
    pub run: String,
    /// Commands that run while the load runs, such as other clients: started before it, ended after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BesideCommand>,
    /// Statistics of memcached's `stats` that become metrics: `curr_items` as it is after the load, `curr_items_added` its growth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<String>,
    /// The parser of its results.
    pub parser: Parser,
    /// Seconds of load in each trial, of which the first `warm_up_s` are dropped.
    #[serde(serialize_with = "plain")]
    pub seconds: f64,
    /// Seconds that are dropped.
    #[serde(default, serialize_with = "plain")]
    pub warm_up_s: f64,
    /// CPUs that every subject runs on unless a level has others: `0,2-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_cpus: Option<String>,
}

impl TrialLoad {
    /// Seconds that count.
    pub fn measured_s(&self) -> f64 {
        // What is left of 0.7 without 0.2 is 0.5, to the microsecond.
        ((self.seconds - self.warm_up_s) * 1e6).round() / 1e6
    }

    /// Whether it is too short for samples second by second: counters are read at its beginning and its end alone.
    pub fn is_short(&self) -> bool {
        self.seconds < SAMPLED_MIN_S
    }
}

/// Two seconds show whether something lasted for longer than one.
const SAMPLED_MIN_S: f64 = 2.0;

/// A whole number as one without a point: the digests of histories have known no others.
fn plain<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match seconds.fract() == 0.0 && (0.0..WHOLE_MAX).contains(seconds) {
        true => serializer.serialize_u32(*seconds as u32),
        false => serializer.serialize_f64(*seconds),
    }
}

/// Larger than any number of seconds that is accepted.
const WHOLE_MAX: f64 = 4e9;

/// A command beside the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BesideCommand {
    /// For the shell. Empty once its names are filled in: there is none in this cell.
    pub command: String,
    /// Whether it may end before the load does; left out: it has to last as long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_end: bool,
}

/// Parsers of a load's results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Parser {
    /// The JSON of `evenkeel load --json {output}`.
    EvenkeelLoad,
    /// The output of `sysbench … --report-interval=1`.
    Sysbench,
    /// The JSON of `fio --output-format=json+`.
    Fio,
    /// The JSON of memtier_benchmark's `--json-out-file={output}`.
    Memtier,
    /// Lines of its output by pattern: a metric's name and a text with `{}` where the number stands.
    Lines(BTreeMap<String, String>),
}

/// The metrics of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The metric that decides the verdict.
    pub primary: String,
    /// Whether high or low values of it are good.
    pub better: Better,
    /// Others to show and to test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Whether the effects of factors are judged, too: means over works that have nothing in common say little.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub effects: bool,
    /// Relative differences below this are insignificant in practice: `0.02` is 2 %.
    #[serde(default = "equivalent")]
    pub equivalent: f64,
    /// Further metrics, derived from others: `bytes_per_item = "server_rss_bytes / curr_items"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub derived: BTreeMap<String, String>,
    /// Kinds of doubts that are what the experiment is about, such as `client-waited`: they are remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<String>,
    /// A process to charge CPU time to, instead of the subject: a command that prints its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// Threads of the kernel whose CPU time is the subject's, too, by patterns of their names: `napi/eth0-*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_threads: Vec<String>,
    /// Whether each cell has one more trial in which perf samples its functions, so that a regression can be located.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
}

/// The number of rounds, and their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repeat {
    /// Rounds; in each, every cell has one trial. Left out: as many as its comparisons need, 10 at least.
    pub rounds: u32,
    /// The share of trials that is expected not to count, repeats included.
    pub lost: f64,
    /// Rounds after which servers are started anew, between which they keep running side by side. Left out: a server
    /// is started for every trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds_per_start: Option<u32>,
    /// Whether a verdict is required: a number of rounds that cannot give one is refused.
    pub verdict: bool,
    /// The random order of each round is drawn with this seed.
    pub seed: u64,
    /// Seconds of rest between two trials.
    pub rest_s: u32,
    /// How often a trial that does not count is repeated.
    pub doubtful: u32,
}

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat {
            rounds: ROUNDS_MIN,
            lost: 0.05,
            rounds_per_start: None,
            verdict: true,
            seed: 1,
            rest_s: 0,
            doubtful: 3,
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_yes(holds: &bool) -> bool {
    *holds
}

fn ready_within_s() -> u32 {
    60
}

fn kernel_cpus() -> u32 {
    1
}

fn kernel_memory_mb() -> u32 {
    1024
}

fn kernel_sample_s() -> u32 {
    1
}

fn equivalent() -> f64 {
    0.02
}

/// Rounds of an experiment that gives no number, if its comparisons need fewer: an interval of six pairs is as wide
/// as they are.
pub(super) const ROUNDS_MIN: u32 = 10;

/// Errors in an experiment's file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It is not TOML, or has a key that is not known, or lacks one.
    #[error("understand the experiment: {0}")]
    Notation(String),
    /// It is valid TOML but cannot be carried out.
    #[error("use the experiment: {place}: {what}")]
    Sense {
        /// The key, with the name of what it belongs to: `factor "allocator"`.
        place: String,
        /// The value found, and those that are accepted.
        what: String,
    },
}
