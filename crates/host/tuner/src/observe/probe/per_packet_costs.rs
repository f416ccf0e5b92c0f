//! Costs of every packet, or of every system call.

use std::collections::{BTreeMap, BTreeSet};

use super::process::Process;
use super::view::ProbeView;
use crate::observe::facts::PerPacketCosts;

pub(super) fn per_packet_costs(view: &ProbeView, processes: &[Process]) -> PerPacketCosts {
    PerPacketCosts {
        conntrack: conntrack(view),
        filters: filters(view),
        taps: taps(&view.lines("/proc/net/ptype")),
        mitigations: mitigations(view),
        audit: audit(view, processes),
    }
}

fn conntrack(view: &ProbeView) -> Option<(u64, u64)> {
    let number = |name: &str| view.number(&format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
    Some((number("count")?, number("max")?))
}

/// Tables of iptables by name. Those of nftables are not in /proc, but the use of its module is.
fn filters(view: &ProbeView) -> Vec<String> {
    let files = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
    let mut tables: BTreeSet<String> = files.iter().flat_map(|path| view.lines(path)).collect();
    if view.number::<u32>("/sys/module/nf_tables/refcnt").is_some_and(|users| users > 0) {
        tables.insert("nftables".to_owned());
    }
    tables.into_iter().collect()
}

/// Packet sockets that are bound to all protocols, or to IP: rows such as `ALL  eth0  tpacket_rcv+0x0/0x9c0`.
/// One that waits for LLDP frames costs other packets nothing.
fn taps(rows: &[String]) -> u32 {
    let is_tap = |row: &&String| {
        let protocol = row.split_whitespace().next().unwrap_or_default();
        ["ALL", "0800", "86dd"].contains(&protocol) && row.contains("packet_rcv")
    };
    rows.iter().filter(is_tap).count() as u32
}

fn mitigations(view: &ProbeView) -> BTreeMap<String, String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let state = |name: String| {
        let text = view.text(&format!("{directory}/{name}"))?;
        Some((name, text.strip_prefix("Mitigation: ")?.to_owned()))
    };
    view.names(directory).into_iter().filter_map(state).collect()
}

/// The kernel has auditing on while auditd runs. Without auditd another program may have switched it on, unless it
/// was switched off permanently at boot, or the kernel does not support it.
fn audit(view: &ProbeView, processes: &[Process]) -> Option<bool> {
    let runs = |name: &str| processes.iter().any(|process| process.is_called(name));
    let boot = view.text("/proc/cmdline").unwrap_or_default();
    if boot.split_whitespace().any(|word| word == "audit=0" || word == "audit=off") {
        return Some(false);
    }
    if runs("auditd") {
        return Some(true);
    }
    // The kernel's own thread is always there, if the kernel can audit; a container does not see it.
    (runs("kthreadd") && !runs("kauditd")).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_sees_all_packets_or_all_of_ip() {
        let rows = [
            "Type Device      Function",
            "ALL           tpacket_rcv",
            "ALL  eth0     packet_rcv_fanout+0x0/0x320",
            "0800 eth0     packet_rcv+0x0/0x4a0",
            "88cc eth0     packet_rcv+0x0/0x4a0",
            "0800          ip_rcv",
        ];
        assert_eq!(taps(&rows.map(str::to_owned)), 3);
    }
}
