//! Sources of figures, and the names of figures that have one.

use serde::{Deserialize, Serialize};

/// What stands before the words of a person who measured a figure, in place of the key of a source.
pub(crate) const MEASURED: &str = "measured: ";

/// Where figures come from: a package with its version and file, or a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSource {
    /// The package, or the page's title: `moto (PyPI)`.
    pub what: String,
    /// Its version or commit.
    pub version: Option<String>,
    /// The file in it.
    pub file: Option<String>,
    /// Under which licence the file is. The figures themselves are facts, which are nobody's.
    pub licence: Option<String>,
    /// The page.
    pub url: Option<String>,
    /// How the figures follow from what stands there, if they do not stand there as they are.
    pub note: Option<String>,
}

/// A figure of a shape, but its prices, each of which has a source of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShapeFigure {
    /// The instruction set.
    Architecture,
    /// Hardware threads.
    Vcpus,
    /// Hardware threads of one core.
    ThreadsPerCore,
    /// Clock under sustained load.
    ClockGhz,
    /// Memory.
    MemoryGib,
    /// What the network carries for ever.
    BaselineGbit,
    /// What it carries until its credit is spent.
    BurstGbit,
    /// Local disks: how many, how large, of which kind.
    Disks,
    /// Packets per second.
    PacketsPerS,
    /// Random reads of local disks per second.
    DiskReadIops,
    /// Random writes of local disks per second.
    DiskWriteIops,
    /// Bytes per second of local disks.
    DiskBytesPerS,
    /// 99th percentile of a read of a local disk.
    DiskReadP99Us,
    /// Connections that the network tracks at most.
    Connections,
}

impl ShapeFigure {
    /// All of them, in the order in which files have them.
    pub const ALL: [ShapeFigure; 14] = [
        Self::Architecture,
        Self::Vcpus,
        Self::ThreadsPerCore,
        Self::ClockGhz,
        Self::MemoryGib,
        Self::BaselineGbit,
        Self::BurstGbit,
        Self::Disks,
        Self::PacketsPerS,
        Self::DiskReadIops,
        Self::DiskWriteIops,
        Self::DiskBytesPerS,
        Self::DiskReadP99Us,
        Self::Connections,
    ];

    /// The key of the figure in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Architecture => "architecture",
            Self::Vcpus => "vcpus",
            Self::ThreadsPerCore => "threads_per_core",
            Self::ClockGhz => "clock_ghz",
            Self::MemoryGib => "memory_gib",
            Self::BaselineGbit => "baseline_gbit",
            Self::BurstGbit => "burst_gbit",
            Self::Disks => "disks",
            Self::PacketsPerS => "packets_per_s",
            Self::DiskReadIops => "disk_read_iops",
            Self::DiskWriteIops => "disk_write_iops",
            Self::DiskBytesPerS => "disk_bytes_per_s",
            Self::DiskReadP99Us => "disk_read_p99_us",
            Self::Connections => "connections",
        }
    }

    /// The figure of this key.
    pub(crate) fn parse(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.as_str() == key)
    }
}
