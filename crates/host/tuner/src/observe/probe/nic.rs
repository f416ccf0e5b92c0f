//! Network interfaces: drivers, queues and their steering, the interfaces below.

use std::collections::BTreeMap;

use super::view::ProbeView;
use crate::observe::ethtool::{self, DriverParameters};
use crate::observe::facts::{Nic, RxQueue, TxQueue};
use crate::observe::napi;

const NICS: &str = "/sys/class/net";

/// `ARPHRD_LOOPBACK` of if_arp.h.
const TYPE_LOOPBACK: u32 = 772;
/// `IFF_UP` of if.h.
const FLAG_UP: u32 = 1;

pub(super) fn nics(view: &ProbeView) -> Vec<Nic> {
    let names = names(view);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut drivers = ethtool::drivers(view.root, &names).unwrap_or_else(|why| {
        view.note(format!("channels, rings and drivers' own counters are unknown: {why}"));
        BTreeMap::new()
    });
    names.into_iter().map(|name| nic(view, name, drivers.remove(name).unwrap_or_default())).collect()
}

/// Interfaces but the loopback.
pub(crate) fn names(view: &ProbeView) -> Vec<String> {
    let mut names = view.names(NICS);
    // `bonding_masters` is a file among them.
    names.retain(|name| view.root.path(&format!("{NICS}/{name}")).is_dir());
    names.retain(|name| view.number(&format!("{NICS}/{name}/type")) != Some(TYPE_LOOPBACK));
    names
}

fn nic(view: &ProbeView, name: &str, driver: DriverParameters) -> Nic {
    let here = format!("{NICS}/{name}");
    let names = view.names(&here);
    let lower = names.iter().filter_map(|entry| entry.strip_prefix("lower_").map(str::to_owned));
    let node = |path: &str| view.number::<u32>(&format!("{here}/{path}/numa_node"));
    Nic {
        name: name.to_owned(),
        driver: view
            .link_name(&format!("{here}/device/driver"))
            .or(driver.driver)
            .or_else(|| device_type(view, &here)),
        bus: bus(view, &here),
        mac: view.text(&format!("{here}/address")).filter(|mac| !mac.is_empty()),
        // A virtio device leaves this to the PCI device that it is on.
        node: node("device").or_else(|| node("device/..")),
        up: is_up(view, &here),
        speed_mbps: view.number(&format!("{here}/speed")),
        physical: view.root.exists(&format!("{here}/device")),
        lower: lower.collect(),
        rx: queues(view, &here, "rx-").iter().map(|queue| rx_queue(view, queue)).collect(),
        tx: queues(view, &here, "tx-").iter().map(|queue| tx_queue(view, queue)).collect(),
        defer_hard_irqs: view.number(&format!("{here}/napi_defer_hard_irqs")),
        gro_flush_timeout_ns: view.number(&format!("{here}/gro_flush_timeout")),
        threaded: view.flag(&format!("{here}/threaded")),
        napis: napi::napis(view.root, name),
        channels: driver.channels,
        channels_max: driver.channels_max,
        channel_kinds: driver.channel_kinds,
        rx_ring: driver.rx_ring,
        tx_ring: driver.tx_ring,
        coalescing: driver.coalescing,
        features: driver.features,
        rss: driver.rss,
        mtu: view.number(&format!("{here}/mtu")),
    }
}

/// The innermost PCI address of its device or of a bus above it (`virtio0` is numbered in the order of appearance);
/// on other buses the device's own name.
fn bus(view: &ProbeView, here: &str) -> Option<String> {
    let device = std::fs::canonicalize(view.root.path(&format!("{here}/device"))).ok()?;
    let names = || device.iter().rev().filter_map(|name| name.to_str());
    names().find(|name| is_pci_address(name)).or_else(|| names().next()).map(str::to_owned)
}

/// `0000:00:05.0`
fn is_pci_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let is_hex = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 4 && name.contains('.') && parts.iter().all(is_hex)
}

/// Of an interface without a device: `bond`, `vlan`, `bridge`.
fn device_type(view: &ProbeView, here: &str) -> Option<String> {
    let lines = view.lines(&format!("{here}/uevent"));
    lines.iter().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
}

fn is_up(view: &ProbeView, here: &str) -> bool {
    match view.text(&format!("{here}/operstate")).as_deref() {
        Some("up") => true,
        // Drivers that do not report it (tun, some virtual ones) have only this.
        Some("unknown") | None => {
            let flags = view.text(&format!("{here}/flags")).unwrap_or_default();
            let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16);
            flags.is_ok_and(|flags| flags & FLAG_UP != 0)
        }
        Some(_) => false,
    }
}

/// Directories of the queues of one direction, in the order of their numbers.
fn queues(view: &ProbeView, here: &str, direction: &str) -> Vec<String> {
    let names = view.names(&format!("{here}/queues"));
    let of_direction = names.iter().filter(|name| name.starts_with(direction));
    of_direction.map(|name| format!("{here}/queues/{name}")).collect()
}

fn rx_queue(view: &ProbeView, queue: &str) -> RxQueue {
    let rps = view.mask(&format!("{queue}/rps_cpus"));
    RxQueue {
        rps_unknown: rps.is_none(),
        rps: rps.unwrap_or_default(),
        flows: view.number(&format!("{queue}/rps_flow_cnt")).unwrap_or(0),
    }
}

fn tx_queue(view: &ProbeView, queue: &str) -> TxQueue {
    // An interface with one queue has the file but answers ENOENT.
    let mask = |name: &str| view.mask(&format!("{queue}/{name}"));
    TxQueue { xps: mask("xps_cpus"), xps_rxqs: mask("xps_rxqs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_a_pci_bus_is_known() {
        for name in ["0000:00:05.0", "10000:e1:1f.7"] {
            assert!(is_pci_address(name), "{name}");
        }
        for name in ["virtio0", "0000:00", "00:05.0", "vif-0", "1-1:1.0", "0000:00:05:0"] {
            assert!(!is_pci_address(name), "{name}");
        }
    }
}
