//! Summary of a host's facts: its kernel, CPUs, memory and interfaces, as JSON shows them to other programs.
//!
//! What a fleet compares its hosts by: two with the same summary are of one kind. It names nothing that differs between two
//! such hosts but the names of their interfaces.

use serde::Serialize;

use crate::observe::facts::{Facts, Nic};

/// A host in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostSummary {
    /// `6.1.0-18-cloud-amd64`
    pub kernel: String,
    /// The hypervisor, if there is one: `kvm`.
    pub hypervisor: Option<String>,
    /// The machine, where the firmware says it: `r5.2xlarge`.
    pub product: Option<String>,
    /// CPUs in use, as a list: `0-7`.
    pub cpus: String,
    /// NUMA nodes with CPUs in use.
    pub nodes: usize,
    /// Hardware threads of a core.
    pub threads: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Interfaces that are up and have a device, in the order of their names.
    pub nics: Vec<NicSummary>,
}

/// An interface in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NicSummary {
    /// `eth0`
    pub name: String,
    /// `ena`, if it is known.
    pub driver: Option<String>,
    /// Receive queues.
    pub queues: usize,
}

impl HostSummary {
    /// That of these facts.
    pub fn of(facts: &Facts) -> HostSummary {
        let online = || facts.cpus.iter().filter(|cpu| cpu.online);
        let mut nodes: Vec<u32> = online().map(|cpu| cpu.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let nic = |nic: &Nic| NicSummary {
            name: nic.name.clone(),
            driver: nic.driver.clone(),
            queues: nic.rx.len(),
        };
        HostSummary {
            kernel: facts.kernel.release.clone(),
            hypervisor: facts.guest.hypervisor.clone(),
            product: facts.guest.product.clone(),
            cpus: facts.online().to_string(),
            nodes: nodes.len(),
            threads: online().map(|cpu| cpu.siblings.iter().count()).max().unwrap_or(0),
            memory_bytes: facts.memory_bytes,
            nics: facts.nics.iter().filter(|nic| nic.physical && nic.up).map(nic).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::shapes::{ENA, Shape};

    #[test]
    fn a_summary_has_the_kind_of_a_host_and_its_cpus_in_use() {
        let mut facts = Shape { cpus: 8, threads: 2, nodes: 2, queues: 4, irqs: ENA }.facts();
        facts.nics[0].driver = Some("ena".into());
        let all = HostSummary::of(&facts);
        assert_eq!((&*all.cpus, all.nodes, all.threads), ("0-7", 2, 2));
        assert_eq!(all.nics, [NicSummary { name: "eth0".into(), driver: Some("ena".into()), queues: 4 }]);
        facts.cpus[7].online = false;
        assert_eq!(HostSummary::of(&facts).cpus, "0-6");
    }
}
