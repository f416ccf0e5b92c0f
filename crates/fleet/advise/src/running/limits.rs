//! Limits of a host: by its shape in the catalogue, else by what the host itself says, else unknown.

use fleet::advise::HostShape;
use fleet::advise::running::{HOST_CPU_CEILING, UseLimit, UsedResource};

/// What is known of a host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKnown<'a> {
    /// Its shape, if the catalogue has it.
    pub shape: Option<&'a HostShape>,
    /// CPUs, as the host itself counts them.
    pub cpus: Option<u32>,
    /// Threads that answer requests, as its servers say.
    pub workers: Option<f64>,
}

/// Bytes per second of a Gbit/s.
const BYTES_OF_GBIT: f64 = 1e9 / 8.0;

impl HostKnown<'_> {
    /// The limit of a resource that the host has, whatever its servers were told.
    pub(crate) fn limit(&self, resource: UsedResource) -> Option<UseLimit> {
        if resource == UsedResource::Cpu {
            return self.cpu();
        }
        let shape = self.shape?;
        let value = match resource {
            UsedResource::Packets => shape.packets_per_s,
            UsedResource::Bandwidth => shape.baseline_gbit.map(|gbit| gbit * BYTES_OF_GBIT),
            UsedResource::Connections => shape.connections.map(|most| most as f64),
            // Reads and writes are counted together: what either allows is there in any case.
            UsedResource::DiskRequests => {
                shape.disk_read_iops.zip(shape.disk_write_iops).map(|(reads, writes)| reads.min(writes))
            }
            UsedResource::Cpu | UsedResource::Memory | UsedResource::Flash => None,
        };
        value.map(|value| UseLimit { value, source: format!("{} in the catalogue", shape.name) })
    }

    /// The share of the CPUs that servers may use, or of the workers where CPUs are not known or are more.
    fn cpu(&self) -> Option<UseLimit> {
        let of_shape = self.shape.map(|shape| (f64::from(shape.vcpus), format!("CPUs of {}", shape.name)));
        let of_host = self.cpus.map(|cpus| (f64::from(cpus), "CPUs of the host".to_owned()));
        let workers = self.workers.map(|workers| (workers, "workers of the server".to_owned()));
        let cpus = of_shape.or(of_host);
        let (count, what) = match (cpus, workers) {
            (Some(cpus), Some(workers)) => {
                if workers.0 < cpus.0 {
                    workers
                } else {
                    cpus
                }
            }
            (cpus, workers) => cpus.or(workers)?,
        };
        let percent = HOST_CPU_CEILING * 100.0;
        Some(UseLimit {
            value: count * HOST_CPU_CEILING,
            source: format!("{percent:.0} % of {count:.0} {what}"),
        })
    }
}

/// The smaller one of two limits, where there are two.
pub(crate) fn smaller(one: Option<UseLimit>, other: Option<UseLimit>) -> Option<UseLimit> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.value < one.value { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// A limit that a server was given.
pub(crate) fn of_setting(value: Option<f64>, flag: &str) -> Option<UseLimit> {
    let value = value.filter(|value| *value > 0.0)?;
    Some(UseLimit { value, source: format!("{flag} of the server") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_comes_before_the_host_and_what_neither_has_is_not_known() {
        let catalogue = crate::catalogue::Catalogue::built_in();
        let shape = &catalogue.shape("r5.2xlarge").expect("it has it").shape;
        let known = HostKnown { shape: Some(shape), cpus: Some(4), workers: Some(16.0) };
        let cpu = known.limit(UsedResource::Cpu).expect("CPUs");
        assert_eq!((cpu.value, cpu.source.as_str()), (6.4, "80 % of 8 CPUs of r5.2xlarge"));
        let bandwidth = known.limit(UsedResource::Bandwidth).expect("a baseline");
        assert_eq!(bandwidth.value, 2.5e9 / 8.0);
        assert_eq!(known.limit(UsedResource::Packets), None, "nobody publishes it");
        let known = HostKnown { shape: None, cpus: Some(4), workers: Some(2.0) };
        assert_eq!(known.limit(UsedResource::Cpu).map(|limit| limit.value), Some(1.6));
        assert_eq!(known.limit(UsedResource::Bandwidth), None);
        assert_eq!(HostKnown::default().limit(UsedResource::Cpu), None);
    }

    #[test]
    fn the_smaller_of_two_limits_counts() {
        let one = of_setting(Some(1024.0), "-c");
        assert_eq!(smaller(one.clone(), None), one);
        assert_eq!(smaller(None, of_setting(Some(0.0), "-c")), None, "a limit of 0 is none");
        assert_eq!(smaller(one, of_setting(Some(9.0), "-x")).map(|limit| limit.value), Some(9.0));
    }
}
