//! A shape of host: what one can rent or buy, with the figures that bound a cache on it.
//!
//! `None` means that the figure is not known. Nothing derives a figure from another one here: what is not published or measured
//! stays unknown, and advice says so.

/// A shape of host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostShape {
    /// As its vendor spells it: `r5.2xlarge`.
    pub name: String,
    /// Whose it is: `aws`, `gcp`, `azure`, or a name of the user's own.
    pub cloud: String,
    /// The part of the name that shapes of several sizes share: `r5`.
    pub family: String,
    /// Its instruction set.
    pub architecture: CpuArchitecture,
    /// Hardware threads that the host's kernel sees.
    pub vcpus: u32,
    /// Hardware threads of one core: 2 with hyperthreads.
    pub threads_per_core: u32,
    /// Clock under sustained load, in GHz.
    pub clock_ghz: Option<f64>,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// What the network carries for ever, in Gbit/s.
    pub baseline_gbit: Option<f64>,
    /// What it carries until its credit is spent, in Gbit/s.
    pub burst_gbit: Option<f64>,
    /// Local disks. `None`: not known whether there are any; one without disks has `Some` with a count of 0.
    pub disks: Option<LocalDisks>,
    /// Packets per second in and out together.
    pub packets_per_s: Option<f64>,
    /// Random reads of 4 KiB per second, of all local disks together.
    pub disk_read_iops: Option<f64>,
    /// Random writes of 4 KiB per second, of all local disks together.
    pub disk_write_iops: Option<f64>,
    /// What all local disks together read and write, in bytes per second.
    pub disk_bytes_per_s: Option<f64>,
    /// 99th percentile of a random read of 4 KiB at half of the read IOPS, in µs.
    pub disk_read_p99_us: Option<f64>,
    /// Connections that the network tracks at most.
    pub connections: Option<u64>,
    /// One for each region that is known.
    pub prices: Vec<ShapePrice>,
}

/// An instruction set, as far as costs differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuArchitecture {
    /// 64-bit x86.
    X86,
    /// 64-bit Arm.
    Arm,
}

/// Local disks of one shape, all alike.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalDisks {
    /// How many.
    pub count: u32,
    /// Capacity of each, in GB of 10⁹ bytes.
    pub gb: f64,
    /// How it is attached.
    pub kind: LocalDiskKind,
}

/// How a local disk is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalDiskKind {
    /// By NVMe.
    Nvme,
    /// A solid-state disk behind another interface.
    Ssd,
    /// A spinning disk.
    Hdd,
}

/// What a shape costs somewhere, on one day.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapePrice {
    /// As its vendor spells it: `us-east-1`.
    pub region: String,
    /// The day of which this was the price: `2026-11-30`.
    pub date: String,
    /// Without any discount.
    pub usd_per_hour: f64,
}

impl CpuArchitecture {
    /// As files and answers spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "arm64",
        }
    }

    /// The architecture of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::X86, Self::Arm].into_iter().find(|one| one.as_str() == text)
    }
}

impl LocalDiskKind {
    /// As files and answers spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::Ssd => "ssd",
            Self::Hdd => "hdd",
        }
    }

    /// The kind of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Nvme, Self::Ssd, Self::Hdd].into_iter().find(|one| one.as_str() == text)
    }
}

impl HostShape {
    /// Bytes of memory.
    pub fn memory_bytes(&self) -> f64 {
        self.memory_gib * (1_u64 << 30) as f64
    }

    /// Bytes on local disks; `None` if it is not known.
    pub fn disk_bytes(&self) -> Option<f64> {
        self.disks.as_ref().map(|disks| f64::from(disks.count) * disks.gb * 1e9)
    }

    /// Its price in a region.
    pub fn price(&self, region: &str) -> Option<&ShapePrice> {
        self.prices.iter().find(|price| price.region == region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_architectures_and_disks_are_read_as_they_are_written() {
        for architecture in [CpuArchitecture::X86, CpuArchitecture::Arm] {
            assert_eq!(CpuArchitecture::parse(architecture.as_str()), Some(architecture));
        }
        for kind in [LocalDiskKind::Nvme, LocalDiskKind::Ssd, LocalDiskKind::Hdd] {
            assert_eq!(LocalDiskKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(CpuArchitecture::parse("i386"), None);
    }
}
