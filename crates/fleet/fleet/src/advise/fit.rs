//! Hosts of one shape that a workload takes, by each resource.

use super::demand::{Demand, HostLimits, ItemsPlace};
use super::{AdviceInputs, HostShape};

/// What can bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostResource {
    /// CPU time.
    Cpu,
    /// CPU time of the CPUs that serve the queues of the network card.
    QueueCpu,
    /// Packets per second.
    Packets,
    /// Bytes per second that the network carries for ever.
    Bandwidth,
    /// Bytes per second that it carries for a while.
    SpikeBandwidth,
    /// Memory for items and the index.
    Memory,
    /// Memory for the index of items on flash.
    FlashIndex,
    /// Bytes on local disks.
    DiskSpace,
    /// Reads of local disks per second.
    DiskReads,
    /// Random writes of local disks per second.
    DiskWrites,
    /// Bytes per second of local disks.
    DiskBandwidth,
    /// Connections of each host.
    Connections,
}

impl HostResource {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::QueueCpu => "CPU of the queues",
            Self::Packets => "packets per second",
            Self::Bandwidth => "baseline bandwidth",
            Self::SpikeBandwidth => "burst bandwidth",
            Self::Memory => "memory",
            Self::FlashIndex => "memory for items on flash",
            Self::DiskSpace => "disk space",
            Self::DiskReads => "disk reads per second",
            Self::DiskWrites => "disk writes per second",
            Self::DiskBandwidth => "disk bandwidth",
            Self::Connections => "connections",
        }
    }

    /// How a limit that is not known can be measured.
    pub fn measured_by(self) -> &'static str {
        match self {
            Self::Cpu | Self::QueueCpu => "`evenkeel lab run experiments/serve.toml` on such a host",
            Self::Packets => {
                "`evenkeel load --udp` against such a host, until `evenkeel tune check` reports `allowance-exceeded`"
            }
            Self::Bandwidth | Self::SpikeBandwidth => {
                "`evenkeel lab run experiments/sustained-bandwidth.toml` between two such hosts"
            }
            Self::Memory | Self::FlashIndex | Self::DiskSpace => "the vendor's page",
            Self::DiskReads | Self::DiskWrites | Self::DiskBandwidth => {
                "`evenkeel lab run experiments/fileio-matrix.toml` on such a host"
            }
            Self::Connections => {
                "`evenkeel load --connections` against such a host, until `conntrack_allowance_exceeded` of `ethtool -S` grows"
            }
        }
    }
}

/// What a workload takes of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceUse {
    /// Of which.
    pub resource: HostResource,
    /// Of all hosts together; connections: of each host.
    pub need: f64,
    /// What one host has; `None` if that is not known.
    pub limit: Option<f64>,
    /// Hosts that this resource asks for, headroom and spare ones included; `None` if the limit is not known.
    pub hosts: Option<f64>,
}

/// A figure of a shape that is not known, and what was done about it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownFigure {
    /// In words.
    pub what: &'static str,
    /// What it has to be at least, or what was taken in its place.
    pub consequence: UnknownConsequence,
    /// How to know it.
    pub measure: &'static str,
}

/// What a figure that is not known means for the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnknownConsequence {
    /// The answer holds if each host has this much at least.
    Needs(f64),
    /// This was taken in its place.
    Taken(f64),
    /// The answer does without it.
    DoneWithout,
}

/// Hosts of one shape that carry a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeFit {
    /// Where the items are.
    pub place: ItemsPlace,
    /// Before it is rounded.
    pub hosts_exact: f64,
    /// A whole number of them, as many in each zone.
    pub hosts: u32,
    /// What each resource asks for, the binding one first; those that are not known last.
    pub uses: Vec<ResourceUse>,
    /// What is not known.
    pub unknown: Vec<UnknownFigure>,
    /// The share of the CPUs' time that may be used.
    pub cpu_ceiling: f64,
}

/// Why a shape cannot carry a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unfit {
    /// A host has nothing of it for this workload.
    Nothing(HostResource),
    /// More hosts than a cluster can have.
    TooMany,
    /// It has no local disks.
    NoDisks,
    /// Each host has more connections than it can have.
    Connections,
}

/// Hosts of one cluster, at most: as many as a cluster has slots.
pub const HOSTS_MAX: u32 = crate::SLOTS_MAX as u32;

/// How many hosts of a shape carry the workload.
pub(super) fn fit(shape: &HostShape, inputs: &AdviceInputs, place: ItemsPlace) -> Result<ShapeFit, Unfit> {
    let has_disks = shape.disk_bytes().is_some_and(|bytes| bytes > 0.0);
    if place == ItemsPlace::Flash && !has_disks {
        return Err(Unfit::NoDisks);
    }
    let demand = Demand::of(inputs, place);
    let limits = HostLimits::of(shape, inputs, &demand);
    let workload = &inputs.workload;
    let spared = workload.headroom.value * (1.0 - workload.spare_share.value);
    let mut uses = Vec::new();
    for (resource, need, limit) in needs(shape, inputs, &demand, &limits, place) {
        let hosts = match (resource, limit) {
            (_, None) => None,
            // Each client connects to every server: more servers do not have fewer connections each.
            (HostResource::Connections, Some(limit)) if need > limit => return Err(Unfit::Connections),
            (HostResource::Connections, Some(_)) => Some(0.0),
            (resource, Some(limit)) if limit <= 0.0 => return Err(Unfit::Nothing(resource)),
            // A spike is what headroom is for.
            (HostResource::SpikeBandwidth, Some(limit)) => {
                Some(need / limit / (1.0 - workload.spare_share.value))
            }
            (_, Some(limit)) => Some(need / limit / spared),
        };
        uses.push(ResourceUse { resource, need, limit, hosts });
    }
    // A stable order: by hosts, then as the resources are listed.
    uses.sort_by(|one, other| {
        let key = |used: &ResourceUse| used.hosts.unwrap_or(-1.0);
        key(other).total_cmp(&key(one)).then(one.resource.cmp(&other.resource))
    });
    let hosts_exact = uses.first().and_then(|used| used.hosts).unwrap_or(0.0);
    let hosts = whole(hosts_exact, workload.zones).ok_or(Unfit::TooMany)?;
    let unknown = unknown(shape, inputs, &uses, &demand, hosts);
    Ok(ShapeFit { place, hosts_exact, hosts, uses, unknown, cpu_ceiling: limits.ceiling })
}

/// As many in each zone, and one at least.
fn whole(hosts: f64, zones: u32) -> Option<u32> {
    let in_zone = (hosts / f64::from(zones)).ceil().max(1.0);
    let all = in_zone * f64::from(zones);
    (all <= f64::from(HOSTS_MAX)).then_some(all as u32)
}

/// Each resource with what all hosts need of it, and what one host has.
fn needs(
    shape: &HostShape,
    inputs: &AdviceInputs,
    demand: &Demand,
    limits: &HostLimits,
    place: ItemsPlace,
) -> Vec<(HostResource, f64, Option<f64>)> {
    const BYTES_OF_GBIT: f64 = 1e9 / 8.0;
    let gbit = |gbit: Option<f64>| gbit.map(|gbit| gbit * BYTES_OF_GBIT);
    let spike = inputs.workload.spike.value;
    let mut needs = vec![
        (HostResource::Cpu, demand.cpu_us, Some(limits.cpu_us)),
        (HostResource::Packets, demand.packets, shape.packets_per_s),
        (HostResource::Bandwidth, demand.wire_bytes, gbit(shape.baseline_gbit)),
        (HostResource::Memory, demand.memory_bytes, Some(limits.memory_bytes)),
        (
            HostResource::Connections,
            inputs.workload.connections.value,
            shape.connections.map(|most| most as f64),
        ),
    ];
    if let Some(queues) = inputs.workload.unspread_queues.filter(|queues| *queues < shape.vcpus) {
        let share = f64::from(queues) / f64::from(shape.vcpus);
        let need = demand.cpu_us * inputs.assumptions.queue_cpu_share.value;
        needs.push((HostResource::QueueCpu, need, Some(limits.cpu_us * share)));
    }
    if spike > 1.0 {
        needs.push((HostResource::SpikeBandwidth, demand.wire_bytes * spike, gbit(shape.burst_gbit)));
    }
    if place == ItemsPlace::Flash {
        needs.extend([
            (HostResource::FlashIndex, demand.flash_index_bytes, Some(limits.flash_index_bytes)),
            (HostResource::DiskSpace, demand.disk_bytes, limits.disk_bytes),
            (HostResource::DiskReads, demand.disk_reads, shape.disk_read_iops),
            (HostResource::DiskBandwidth, demand.disk_read_and_written_bytes, shape.disk_bytes_per_s),
        ]);
        if demand.disk_writes > 0.0 {
            needs.push((HostResource::DiskWrites, demand.disk_writes, shape.disk_write_iops));
        }
    }
    needs
}

fn unknown(
    shape: &HostShape,
    inputs: &AdviceInputs,
    uses: &[ResourceUse],
    demand: &Demand,
    hosts: u32,
) -> Vec<UnknownFigure> {
    let spared = inputs.workload.headroom.value * (1.0 - inputs.workload.spare_share.value);
    let of_use = |used: &ResourceUse| {
        let needs = match used.resource {
            HostResource::Connections => used.need,
            HostResource::SpikeBandwidth => {
                used.need / f64::from(hosts) / (1.0 - inputs.workload.spare_share.value)
            }
            _ => used.need / f64::from(hosts) / spared,
        };
        UnknownFigure {
            what: used.resource.as_str(),
            consequence: UnknownConsequence::Needs(needs),
            measure: used.resource.measured_by(),
        }
    };
    let mut unknown: Vec<UnknownFigure> =
        uses.iter().filter(|used| used.limit.is_none() && used.need > 0.0).map(of_use).collect();
    if shape.clock_ghz.is_none() {
        unknown.push(UnknownFigure {
            what: "clock in GHz",
            consequence: UnknownConsequence::Taken(inputs.assumptions.unknown_clock_ghz.value),
            measure: HostResource::Cpu.measured_by(),
        });
    }
    if demand.flash_hit_share > 0.01 && shape.disk_read_p99_us.is_none() {
        unknown.push(UnknownFigure {
            what: "99th percentile of a disk read in µs",
            consequence: UnknownConsequence::Taken(inputs.costs.flash_p99_us.value),
            measure: "`evenkeel lab run experiments/flash-mix.toml` on such a host",
        });
    }
    if shape.disks.is_none() {
        unknown.push(UnknownFigure {
            what: "local disks",
            consequence: UnknownConsequence::DoneWithout,
            measure: "the vendor's page",
        });
    }
    unknown
}
