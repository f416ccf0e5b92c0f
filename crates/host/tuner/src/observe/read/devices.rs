//! Counters of CPUs, interfaces and disks, without a probe before: for a program that looks every few seconds, for years.
//!
//! Devices come and go in that time, so they are listed anew each time.

use super::{Reading, Root, disks, host_is_there, network};
use crate::observe::probe::view::ProbeView;
use crate::observe::probe::{disk, nic};
use crate::observe::root::Error;

/// A Kubernetes node has an interface for each of its containers: beyond this only those with a device are read, and no
/// more than this of them.
const NICS_MAX: usize = 32;
/// Hosts that hold more disks are storage servers.
const DISKS_MAX: usize = 128;

/// Reads them. `at_ms` is the moment, in milliseconds since any fixed time.
///
/// Fails only if `root` holds no host.
pub fn devices(root: &Root, at_ms: u64) -> Result<Reading, Error> {
    host_is_there(root)?;
    let view = ProbeView::new(root);
    let nics = nics(&view);
    let mut wanted = disk::names(&view);
    wanted.truncate(DISKS_MAX);
    Ok(Reading {
        at_ms,
        cpus: super::cpu::times(&view),
        softnet: super::cpu::softnet(&view),
        softirqs: super::cpu::softirqs(&view),
        nics: network::nics(&view, &nics.iter().map(String::as_str).collect::<Vec<_>>()),
        disks: disks(&view, |name| wanted.iter().any(|wanted| wanted == name)),
        ..Reading::default()
    })
}

/// Those with a device first, each group by name.
fn nics(view: &ProbeView) -> Vec<String> {
    let has_device = |name: &String| view.root.exists(&format!("/sys/class/net/{name}/device"));
    let mut names = nic::names(view);
    names.sort_by_cached_key(|name| !has_device(name));
    names.truncate(NICS_MAX);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_interfaces_those_with_a_device_are_read() {
        let directory = std::env::temp_dir().join(format!("evenkeel-devices-{}", std::process::id()));
        let make = |path: &str, text: &str| {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        make("proc/stat", "cpu0 1 0 2 3 4 5 6 7\n");
        make("proc/diskstats", "8 0 sda 10 0 0 30 5 0 0 7 3 40 0\n8 1 sda1 1 0 0 1 1 0 0 1 1 1 0\n");
        make("sys/block/sda/size", "1");
        for number in 0..100 {
            make(&format!("sys/class/net/veth{number}/statistics/rx_packets"), "5\n");
            make(&format!("sys/class/net/veth{number}/type"), "1\n");
        }
        make("sys/class/net/zeth/statistics/rx_packets", "77\n");
        make("sys/class/net/zeth/type", "1\n");
        make("sys/class/net/zeth/device/vendor", "x");
        let reading = devices(&Root::new(&directory), 7).expect("a host");
        let _ = std::fs::remove_dir_all(&directory);
        assert_eq!(reading.nics.len(), NICS_MAX);
        assert_eq!(reading.nics["zeth"]["rx_packets"], 77);
        assert_eq!(reading.cpus[&0].softirq, 6);
        let sda = reading.disks["sda"];
        assert_eq!((sda.requests, sda.waited_ms, sda.busy_ms, sda.in_flight), (15, 37, 40, 3));
        assert_eq!(reading.disks.len(), 1, "partitions count with their disk");
    }
}
