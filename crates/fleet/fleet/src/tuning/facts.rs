//! Facts of a host by which hosts are compared: kernel, CPUs, memory and interfaces, as the tuner's JSON has them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json::{kind, short};

/// Interfaces of a host that count. One with more is described by the first ones.
const NICS_MAX: usize = 16;
/// Bytes of a name in the facts: those of kernels and machines have 60 at most.
const NAME_LEN_MAX: usize = 100;
/// CPUs that a list may name: the kernel's own limit (`NR_CPUS`).
const CPUS_MAX: u32 = 8192;

const GIB: u64 = 1 << 30;

/// What a host is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// `6.1.0-18-cloud-amd64`
    pub kernel: String,
    /// The hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// The machine, where its firmware says it: `r5.2xlarge`.
    pub product: Option<String>,
    /// CPUs in use, as a list: `0-7`.
    pub cpus: String,
    /// NUMA nodes.
    pub nodes: u32,
    /// Hardware threads of a core.
    pub threads: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Interfaces that are up and have a device.
    pub nics: Vec<HostNic>,
}

/// An interface of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct HostNic {
    /// `eth0`
    pub name: String,
    /// `ena`, if it is known.
    pub driver: Option<String>,
    /// Receive queues.
    pub queues: u32,
}

impl HostFacts {
    /// Of the object `host` of the tuner's JSON; none if there is none: an older tuner does not say what the host is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(json: &Value) -> Result<Option<HostFacts>, String> {
        let mut facts: HostFacts = match &json["host"] {
            Value::Null => return Ok(None),
            host @ Value::Object(_) => serde_json::from_value(host.clone())
                .map_err(|error| format!("understand \"host\": {error}"))?,
            other => return Err(format!("expected an object \"host\", found {}", kind(other))),
        };
        let shorten = |text: &mut String| *text = short(text, NAME_LEN_MAX);
        shorten(&mut facts.kernel);
        facts.hypervisor.iter_mut().for_each(shorten);
        facts.product.iter_mut().for_each(shorten);
        facts.cpus = short(&facts.cpus, 4 * NAME_LEN_MAX);
        facts.nics.truncate(NICS_MAX);
        for nic in &mut facts.nics {
            shorten(&mut nic.name);
            nic.driver.iter_mut().for_each(shorten);
        }
        Ok(Some(facts))
    }

    /// CPUs in use, if the list is one.
    pub fn cpu_count(&self) -> Option<u32> {
        cpu_count(&self.cpus)
    }

    /// The kind of host, in words: hosts with the same words are of one kind. It names no interface, and memory to a GiB: machines of
    /// one type differ by what their firmware keeps.
    pub fn kind(&self) -> String {
        let mut words = String::new();
        let machine = self.product.as_deref().or(self.hypervisor.as_deref());
        machine.into_iter().for_each(|machine| {
            let _ = write!(words, "{machine}, ");
        });
        let cpus = match self.cpu_count() {
            Some(1) => "1 CPU".to_owned(),
            Some(count) => format!("{count} CPUs"),
            None => "CPUs unknown".to_owned(),
        };
        words += &cpus;
        if self.nodes > 1 {
            let _ = write!(words, " on {} nodes", self.nodes);
        }
        let _ = write!(words, ", {} GiB", (self.memory_bytes + GIB / 2) / GIB);
        let mut nics: Vec<String> = self
            .nics
            .iter()
            .map(|nic| format!("{} ×{}", nic.driver.as_deref().unwrap_or("unknown driver"), nic.queues))
            .collect();
        nics.sort_unstable();
        nics.into_iter().for_each(|nic| {
            let _ = write!(words, ", {nic}");
        });
        let _ = write!(words, ", Linux {}", self.kernel);
        words
    }
}

/// The CPUs of a list such as `0-3,8`.
fn cpu_count(list: &str) -> Option<u32> {
    let mut count = 0_u32;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= CPUS_MAX {
            return None;
        }
        count += last - first + 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(change: impl Fn(&mut Value)) -> HostFacts {
        let nic = json!({"name": "eth0", "driver": "ena", "queues": 4});
        let mut host = json!({
            "kernel": "6.1.0", "hypervisor": "kvm", "product": "r5.2xlarge", "cpus": "0-3,8-11", "nodes": 2, "threads": 2,
            "memory_bytes": 66_571_993_088_u64, "nics": [nic],
        });
        change(&mut host);
        HostFacts::of(&json!({"host": host})).expect("facts").expect("there are some")
    }

    #[test]
    fn a_kind_names_what_makes_two_hosts_different() {
        let words = "r5.2xlarge, 8 CPUs on 2 nodes, 62 GiB, ena ×4, Linux 6.1.0";
        assert_eq!(facts(|_| {}).kind(), words);
        assert_eq!(facts(|host| host["nics"][0]["name"] = json!("ens5")).kind(), words);
        assert_eq!(facts(|host| host["memory_bytes"] = json!(66_571_993_089_u64)).kind(), words);
        for (name, value) in [("kernel", json!("6.6.0")), ("cpus", json!("0-3")), ("nodes", json!(1))] {
            assert_ne!(facts(|host| host[name] = value.clone()).kind(), words, "{name}");
        }
        assert_ne!(facts(|host| host["nics"][0]["driver"] = json!("virtio_net")).kind(), words);
    }

    #[test]
    fn facts_of_an_older_or_newer_tuner_are_understood_or_refused_with_a_reason() {
        assert_eq!(HostFacts::of(&json!({"kernel": "6.1"})), Ok(None));
        assert_eq!(HostFacts::of(&json!({"host": {"weather": 1}})), Ok(Some(HostFacts::default())));
        let error = HostFacts::of(&json!({"host": "vm"})).expect_err("a text");
        assert_eq!(error, "expected an object \"host\", found a text");
        let error = HostFacts::of(&json!({"host": {"nodes": -1}})).expect_err("a number below zero");
        assert!(error.starts_with("understand \"host\": "), "{error}");
    }

    #[test]
    fn lists_of_cpus_are_counted_and_odd_ones_are_unknown() {
        for (list, count) in [("0", Some(1)), ("0-7", Some(8)), ("0-3,8", Some(5)), ("", None), ("x", None)] {
            assert_eq!(cpu_count(list), count, "{list}");
        }
        assert_eq!((cpu_count("7-0"), cpu_count("0-4294967295")), (None, None));
    }
}
