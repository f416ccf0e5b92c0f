//! State of the resources of one host: what is used, its limit, and what the cloud has held back.

use super::{NoTrend, UseTrend};

/// A resource of a host that servers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsedResource {
    /// CPUs.
    Cpu,
    /// Packets per second, in and out.
    Packets,
    /// Bytes per second, of the busier direction.
    Bandwidth,
    /// Bytes of items in memory.
    Memory,
    /// Connections.
    Connections,
    /// Bytes of items on flash.
    Flash,
    /// Reads and writes of the busiest disk per second.
    DiskRequests,
}

/// A limit, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct UseLimit {
    /// The limit, in the unit of the use.
    pub value: f64,
    /// In words: `r5.2xlarge in the catalogue`.
    pub source: String,
}

/// Packets that the cloud held back or dropped because an allowance was used up: proof of a limit, whatever the figures say.
#[derive(Clone, Debug, PartialEq)]
pub struct AllowanceMet {
    /// As its driver names it, without `_allowance_exceeded`: `pps`.
    pub name: String,
    /// Packets; none where only the fact is known.
    pub packets: Option<f64>,
    /// In which time, and who says so: `in 10 s`.
    pub when: String,
}

/// One resource of one host.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceState {
    /// Which.
    pub resource: UsedResource,
    /// What is used now; none if it is not known.
    pub used: Option<f64>,
    /// Its limit; none if it is not known.
    pub limit: Option<UseLimit>,
    /// How its daily peaks go; none if nobody was asked.
    pub trend: Option<Result<UseTrend, NoTrend>>,
    /// Allowances that were used up.
    pub met: Vec<AllowanceMet>,
    /// What there is to say besides, as a clause.
    pub note: Option<String>,
}

/// One host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostUse {
    /// Its name.
    pub host: String,
    /// What it is, as far as it is known: `r5.2xlarge`.
    pub shape: Option<String>,
    /// Servers on it that belong together.
    pub servers: Vec<String>,
    /// Addresses of its servers' pages, by which Prometheus knows them.
    pub instances: Vec<String>,
    /// Its resources.
    pub resources: Vec<ResourceState>,
    /// Allowances that were used up and limit no resource of a server.
    pub met: Vec<AllowanceMet>,
}

/// The share of each limit that is used on purpose, at most: the rest is for what was not foreseen. As in a workload without `headroom`.
pub const USE_HEADROOM: f64 = 0.75;

/// The share of a host's CPUs that servers may use: `cpu_ceiling` of the model.
pub const HOST_CPU_CEILING: f64 = super::super::assumptions::CPU_CEILING.0;

impl UsedResource {
    /// All, in the order in which they are shown.
    pub const ALL: [UsedResource; 7] = [
        Self::Cpu,
        Self::Packets,
        Self::Bandwidth,
        Self::Memory,
        Self::Connections,
        Self::Flash,
        Self::DiskRequests,
    ];

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Packets => "packets per second",
            Self::Bandwidth => "bandwidth",
            Self::Memory => "memory for items",
            Self::Connections => "connections",
            Self::Flash => "flash",
            Self::DiskRequests => "disk requests per second",
        }
    }

    /// Whether it is meant to be full: a cache evicts what was not used for longest, and loses hits and nothing else.
    pub fn may_be_full(self) -> bool {
        matches!(self, Self::Memory | Self::Flash)
    }

    /// Which resource an allowance of a network card limits; none of one that is no resource of a server, such as the requests to a
    /// cloud's own services.
    pub fn of_allowance(name: &str) -> Option<UsedResource> {
        match name {
            "bw_in" | "bw_out" => Some(Self::Bandwidth),
            // virtio's is a limit of packets, or of bytes; its documentation does not say which.
            "pps" | "rx_hw_ratelimit" | "tx_hw_ratelimit" => Some(Self::Packets),
            "conntrack" => Some(Self::Connections),
            _ => None,
        }
    }
}

impl HostUse {
    /// Notes an allowance that was used up, at the resource that it limits.
    pub fn note_allowance(&mut self, met: AllowanceMet) {
        let limits = UsedResource::of_allowance(&met.name);
        match self.resources.iter_mut().find(|state| Some(state.resource) == limits) {
            Some(state) => state.met.push(met),
            None => self.met.push(met),
        }
    }
}

impl ResourceState {
    /// One of which nothing is known.
    pub fn unknown(resource: UsedResource) -> ResourceState {
        ResourceState { resource, used: None, limit: None, trend: None, met: Vec::new(), note: None }
    }

    /// What is compared with the limit: what the busiest day of a week reaches, or what is used now if that is more or all that is known.
    pub fn most_used(&self) -> Option<f64> {
        let level = self.trend.as_ref().and_then(|trend| trend.as_ref().ok()).map(|trend| trend.level);
        match (self.used, level) {
            (Some(used), Some(level)) => Some(used.max(level)),
            (used, level) => used.or(level),
        }
    }

    /// The share of the limit; none if use or limit is not known.
    pub fn share(&self) -> Option<f64> {
        let limit = self.limit.as_ref().filter(|limit| limit.value > 0.0)?;
        Some(self.most_used()? / limit.value)
    }
}
