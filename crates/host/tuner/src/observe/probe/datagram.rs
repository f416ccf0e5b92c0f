//! UDP sockets that wait for datagrams from any peer, from /proc/net/udp and udp6.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::listener::Owners;
use super::view::ProbeView;
use crate::observe::facts::{DatagramSocket, Facts};
use crate::observe::reading::Datagrams;

const FILES: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];
/// `TCP_CLOSE`, which for UDP means that it is bound and has no peer.
const STATE_UNCONNECTED: &str = "07";
/// Columns of a row, from 0 (net/ipv4/udp.c, `udp4_format_sock`).
const LOCAL: usize = 1;
const STATE: usize = 3;
const QUEUES: usize = 4;
const INODE: usize = 9;
const DROPS: usize = 12;
/// More than servers have; the rest belongs to clients.
const SOCKETS_MAX: usize = 4096;

/// All sockets, with their processes.
pub(super) fn sockets(view: &ProbeView, owners: &Owners) -> Vec<DatagramSocket> {
    let socket = |row: &String| {
        let (mut socket, _) = parse(row)?;
        socket.pid = owners.holder(socket.inode);
        Some(socket)
    };
    let rows = FILES.iter().flat_map(|file| view.lines(file));
    rows.filter_map(|row| socket(&row)).take(SOCKETS_MAX).collect()
}

/// Counts of datagrams at the sockets of the facts, by inode.
pub(crate) fn counts(view: &ProbeView, facts: &Facts) -> BTreeMap<u64, Datagrams> {
    if facts.datagrams.is_empty() {
        return BTreeMap::new();
    }
    let rows = FILES.iter().flat_map(|file| view.lines(file));
    let counts = rows.filter_map(|row| parse(&row)).map(|(socket, counts)| (socket.inode, counts));
    counts.filter(|(inode, _)| facts.datagrams.iter().any(|socket| socket.inode == *inode)).collect()
}

/// A row, unless it is the heading or connected to one peer.
fn parse(row: &str) -> Option<(DatagramSocket, Datagrams)> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let word = |place: usize| words.get(place).copied();
    if word(STATE)? != STATE_UNCONNECTED {
        return None;
    }
    let (host, port) = word(LOCAL)?.split_once(':')?;
    let (host, port) = (address(host)?, u16::from_str_radix(port, 16).ok()?);
    let (_, queued) = word(QUEUES)?.split_once(':')?;
    let inode = word(INODE)?.parse().ok()?;
    let socket = DatagramSocket { address: format!("{host}:{port}"), port, inode, pid: None };
    let counts = Datagrams {
        queued_bytes: u64::from_str_radix(queued, 16).ok()?,
        dropped: word(DROPS)?.parse().ok()?,
    };
    Some((socket, counts))
}

/// Words of 32 bits in hexadecimal digits, as they lie in the machine's memory: one for IPv4, four for IPv6.
fn address(digits: &str) -> Option<String> {
    let word = |place: usize| {
        let digits = digits.get(place * 8..place * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match digits.len() {
        8 => Some(Ipv4Addr::from(word(0)?).to_string()),
        32 => {
            let bytes: Vec<u8> = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            Some(format!("[{}]", Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(row: &str, expected: Option<(&str, u64, u64, u64)>) {
        let found = parse(row);
        let shown = found.as_ref().map(|(socket, counts)| {
            (socket.address.as_str(), socket.inode, counts.queued_bytes, counts.dropped)
        });
        assert_eq!(shown, expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn rows_say_who_listens_where_and_what_was_dropped() {
        check(
            "  419: 0100007F:2BCB 00000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 12345 2 ffff 17",
            Some(("127.0.0.1:11211", 12345, 768, 17)),
        );
        check(
            "  9: 00000000000000000000000001000000:2BCB 00000000000000000000000000000000:0000 07 00000000:00000000 \
             00:00000000 00000000     0        0 9 2 ffff 0",
            Some(("[::1]:11211", 9, 0, 0)),
        );
        check(
            "  9: 0100007F:2BCB 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 9 2 ffff 0",
            None,
        );
        check(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            None,
        );
    }
}
