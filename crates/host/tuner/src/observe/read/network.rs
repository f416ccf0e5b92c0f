//! Counters of interfaces and protocols.

use std::collections::BTreeMap;

use crate::observe::probe::view::ProbeView;
use crate::observe::{ethtool, napi, queue_counter};

/// Of one that has vanished there is an empty map.
pub(super) fn nics(view: &ProbeView, names: &[&str]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut drivers = ethtool::statistics(view.root, names).unwrap_or_default();
    let counters = |name: &str| {
        let mut counters = drivers.remove(name).unwrap_or_default();
        for ((direction, queue), packets) in napi::queue_packets(view.root, name) {
            counters.entry(queue_counter::name(direction, queue)).or_insert(packets);
        }
        // Drivers use some of the kernel's names with another meaning; the kernel's meaning goes first.
        counters.extend(statistics(view, name));
        (name.to_owned(), counters)
    };
    names.iter().copied().map(counters).collect()
}

fn statistics(view: &ProbeView, nic: &str) -> BTreeMap<String, u64> {
    let directory = format!("/sys/class/net/{nic}/statistics");
    let counter =
        |name: String| Some((name.clone(), view.value(&format!("{directory}/{name}"), "a counter")?));
    view.names(&directory).into_iter().filter_map(counter).collect()
}

/// `TcpExt.ListenOverflows` and so on.
pub(super) fn protocols(view: &ProbeView) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for path in ["/proc/net/netstat", "/proc/net/snmp"] {
        counters.extend(counters_of(&view.lines(path)));
    }
    counters.extend(view.lines("/proc/net/snmp6").iter().filter_map(|line| counter_of_udp6(line)));
    counters
}

/// `Udp6RcvbufErrors    7`; the other protocols' rules look at IPv4's counters, which TCP shares.
fn counter_of_udp6(line: &str) -> Option<(String, u64)> {
    let (name, value) = line.strip_prefix("Udp6")?.split_once(char::is_whitespace)?;
    Some((format!("Udp6.{name}"), value.trim().parse().ok()?))
}

/// Lines come in pairs: `Tcp: A B`, `Tcp: 1 2`. A negative value is no counter (`Tcp.MaxConn`).
fn counters_of(lines: &[String]) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for pair in lines.chunks_exact(2) {
        let (Some((protocol, names)), Some((same, values))) =
            (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        if protocol != same {
            continue;
        }
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{protocol}.{name}"), value);
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_come_in_pairs_of_lines() {
        let lines = ["Tcp: MaxConn OutRsts", "Tcp: -1 7", "TcpExt: A B", "IpExt: 1 2"].map(str::to_owned);
        assert_eq!(counters_of(&lines), BTreeMap::from([("Tcp.OutRsts".to_owned(), 7)]));
        let udp6 = counter_of_udp6("Udp6RcvbufErrors                \t17");
        assert_eq!(udp6, Some(("Udp6.RcvbufErrors".to_owned(), 17)));
        assert_eq!(counter_of_udp6("UdpLite6RcvbufErrors \t17"), None);
    }
}
