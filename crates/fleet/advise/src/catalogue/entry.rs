//! A shape as a file has it: any of its figures may be absent.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::sources::{FigureSource, ShapeFigure};

/// A whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CatalogueFile {
    #[serde(default)]
    pub(crate) sources: BTreeMap<String, FigureSource>,
    #[serde(default, rename = "shape")]
    pub(crate) shapes: Vec<ShapeEntry>,
}

/// A `[[shape]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShapeEntry {
    pub(crate) name: String,
    pub(crate) cloud: Option<String>,
    pub(crate) family: Option<String>,
    /// The key of the source of all its figures but those of `origins`.
    pub(crate) source: Option<String>,
    /// In place of `source`: who measured its figures, and when.
    pub(crate) measured: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) vcpus: Option<u32>,
    pub(crate) threads_per_core: Option<u32>,
    pub(crate) clock_ghz: Option<f64>,
    pub(crate) memory_gib: Option<f64>,
    pub(crate) baseline_gbit: Option<f64>,
    pub(crate) burst_gbit: Option<f64>,
    pub(crate) disks: Option<DisksEntry>,
    pub(crate) packets_per_s: Option<f64>,
    pub(crate) disk_read_iops: Option<f64>,
    pub(crate) disk_write_iops: Option<f64>,
    pub(crate) disk_bytes_per_s: Option<f64>,
    pub(crate) disk_read_p99_us: Option<f64>,
    pub(crate) connections: Option<u64>,
    #[serde(default)]
    pub(crate) prices: Vec<PriceEntry>,
    /// Sources of single figures.
    #[serde(default)]
    pub(crate) origins: BTreeMap<String, String>,
}

/// Local disks: `{ count = 0 }`, or with the size and kind of each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DisksEntry {
    pub(crate) count: u32,
    pub(crate) gb: Option<f64>,
    pub(crate) kind: Option<String>,
}

/// A price.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceEntry {
    pub(crate) region: String,
    pub(crate) date: String,
    pub(crate) usd_per_hour: f64,
    /// That of the shape if there is none.
    pub(crate) source: Option<String>,
}

impl ShapeEntry {
    /// Whether the entry gives this figure.
    pub(crate) fn has(&self, figure: ShapeFigure) -> bool {
        match figure {
            ShapeFigure::Architecture => self.architecture.is_some(),
            ShapeFigure::Vcpus => self.vcpus.is_some(),
            ShapeFigure::ThreadsPerCore => self.threads_per_core.is_some(),
            ShapeFigure::ClockGhz => self.clock_ghz.is_some(),
            ShapeFigure::MemoryGib => self.memory_gib.is_some(),
            ShapeFigure::BaselineGbit => self.baseline_gbit.is_some(),
            ShapeFigure::BurstGbit => self.burst_gbit.is_some(),
            ShapeFigure::Disks => self.disks.is_some(),
            ShapeFigure::PacketsPerS => self.packets_per_s.is_some(),
            ShapeFigure::DiskReadIops => self.disk_read_iops.is_some(),
            ShapeFigure::DiskWriteIops => self.disk_write_iops.is_some(),
            ShapeFigure::DiskBytesPerS => self.disk_bytes_per_s.is_some(),
            ShapeFigure::DiskReadP99Us => self.disk_read_p99_us.is_some(),
            ShapeFigure::Connections => self.connections.is_some(),
        }
    }
}
