//! `stats conns`: the connections, in steps: there can be 100,000, and the client need not read.

use net::{Activity, Address, ConnectionCursor, ConnectionEntry, Transport, View};
use protocol::reply::{line, stat};
use stdx::clock::Now;

use crate::connection::flow::Flow;
use crate::connection::output::Output;
use crate::shared::Shared;
use crate::worker::Worker;

/// Slots of connections examined per turn: a tenth of a millisecond, and at most some 50 KB of output, with
/// identities of the longest names.
const PLACES_PER_TURN: usize = 100;

/// A `stats conns` in progress.
pub(crate) struct Connections {
    cursor: ConnectionCursor,
}

impl Connections {
    /// Sends the listeners, and starts the list of present connections.
    pub(crate) fn begin(shared: &Shared, now: Now, output: &mut Output) -> Connections {
        listeners(shared, now, output.copied());
        Connections { cursor: shared.network.cursor() }
    }

    /// Sends the next lines. `asking` is the number of the requesting connection.
    pub(crate) fn serve(&mut self, worker: &Worker, asking: u64, output: &mut Output) -> Flow {
        if self.step(&worker.shared.network, asking, worker.now, output.copied()) {
            return Flow::Yield;
        }
        output.copy(line::END);
        Flow::Go
    }

    /// Returns whether there may be more.
    fn step(&mut self, network: &View, asking: u64, now: Now, out: &mut Vec<u8>) -> bool {
        network.connections_from(&mut self.cursor, PLACES_PER_TURN, now, |present| {
            connection(present, present.opened.id.0 == asking, out);
        })
    }
}

fn listeners(shared: &Shared, now: Now, out: &mut Vec<u8>) {
    for (fd, address) in &shared.listeners {
        stat(out, format_args!("{fd}:addr"), name(address));
        // memcached reads datagrams like the input of a connection.
        let is_udp = matches!(address, Address::Udp(_));
        stat(out, format_args!("{fd}:state"), if is_udp { "conn_read" } else { "conn_listening" });
        // As in memcached, where listeners are connections without a command since the start.
        stat(out, format_args!("{fd}:secs_since_last_cmd"), now.ms() / 1000);
    }
}

fn connection(present: &ConnectionEntry, asks: bool, out: &mut Vec<u8>) {
    let fd = present.opened.fd;
    let peer = match present.opened.transport {
        // The peer of a unix socket has no name, and memcached prints `?:<AF 0>`: the path is more useful.
        Transport::Unix => name(&present.opened.local),
        Transport::Tcp | Transport::Udp => name(&present.opened.peer),
    };
    // The time of the last command is noted at the end of a turn; the requesting connection is in the middle
    // of one.
    let (state, idle_s) =
        if asks { ("conn_parse_cmd", 0) } else { (state(present.activity), present.idle_s) };
    stat(out, format_args!("{fd}:addr"), peer);
    stat(out, format_args!("{fd}:listen_addr"), name(&present.opened.local));
    stat(out, format_args!("{fd}:state"), state);
    stat(out, format_args!("{fd}:secs_since_last_cmd"), idle_s);
    if let Some(security) = &present.opened.security {
        stat(out, format_args!("{fd}:tls"), security.version);
        if let Some(identity) = &security.identity {
            stat(out, format_args!("{fd}:identity"), &identity.name);
        }
    }
}

/// memcached's name of the state.
fn state(activity: Activity) -> &'static str {
    match activity {
        Activity::Reading => "conn_read",
        Activity::Body => "conn_nread",
        Activity::Swallowing => "conn_swallow",
        Activity::Sending => "conn_mwrite",
        Activity::Watching => "conn_watch",
    }
}

fn name(address: &Address) -> String {
    match address {
        Address::Tcp(address) if address.is_ipv6() => format!("tcp6:{address}"),
        Address::Tcp(address) => format!("tcp:{address}"),
        Address::Udp(address) if address.is_ipv6() => format!("udp6:{address}"),
        Address::Udp(address) => format!("udp:{address}"),
        Address::Unix(_) => format!("unix:{address}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use net::{ConnectionId, Opened};

    use super::*;
    use crate::connection::output::OUTPUT_MAX;

    #[test]
    fn thousands_are_listed_once_each_with_a_bounded_output_per_turn() {
        const COUNT: usize = 18_000;
        let mut connections = net::sim::FakeConnections::new(2);
        let ids: Vec<u64> = (0..COUNT).map(|_| connections.open()).collect();
        let network = connections.view();
        let mut list = Connections { cursor: network.cursor() };
        let (mut all, mut more) = (Vec::new(), true);
        while more {
            let mut out = Vec::new();
            more = list.step(&network, ids[5], Now::default(), &mut out);
            assert!(out.len() < OUTPUT_MAX, "{} bytes in a turn", out.len());
            all.extend_from_slice(&out);
        }
        let all = String::from_utf8(all).expect("text");
        assert_eq!(all.lines().count(), 4 * COUNT);
        let mut listed: Vec<&str> = all.lines().filter(|line| line.contains(":addr ")).collect();
        listed.sort_unstable();
        listed.dedup();
        assert_eq!((listed.len(), all.matches("conn_parse_cmd").count()), (COUNT, 1));
    }

    #[test]
    fn connections_of_the_longest_identities_fit_a_turn() {
        let identity = Some(Arc::new(tls::Identity { name: "n".repeat(250).into(), role: tls::Role::Admin }));
        let version = "TLSv1.3";
        let security = net::Security { version, suite: "", resumed: false, in_kernel: false, identity };
        let address =
            Address::Tcp("[1111:2222:3333:4444:5555:6666:7777:8888]:55555".parse().expect("an address"));
        let opened = Opened {
            id: ConnectionId(1),
            link: net::Link::default(),
            fd: 1_000_000,
            origin: net::Origin::Accepted { listener: 0 },
            transport: Transport::Tcp,
            peer: address.clone(),
            local: address,
            security: Some(Arc::new(security)),
        };
        let present = ConnectionEntry { opened, worker: 0, idle_s: 100_000, activity: Activity::Reading };
        let mut out = Vec::new();
        connection(&present, false, &mut out);
        assert!(out.ends_with(b"n\r\n") && out.len() * PLACES_PER_TURN < OUTPUT_MAX, "{} bytes", out.len());
    }

    #[test]
    fn the_requesting_connection_is_active_and_others_have_their_idle_time() {
        let local = Address::Tcp(([127, 0, 0, 1], 11211).into());
        let peer = Address::Tcp(([127, 0, 0, 1], 4000).into());
        let opened = Opened {
            id: ConnectionId(1),
            link: net::Link::default(),
            fd: 9,
            origin: net::Origin::Accepted { listener: 0 },
            transport: Transport::Tcp,
            peer,
            local,
            security: None,
        };
        let present = ConnectionEntry { opened, worker: 0, idle_s: 7, activity: Activity::Reading };
        let said = |asks| {
            let mut out = Vec::new();
            connection(&present, asks, &mut out);
            String::from_utf8(out).expect("text")
        };
        let addresses = "STAT 9:addr tcp:127.0.0.1:4000\r\nSTAT 9:listen_addr tcp:127.0.0.1:11211\r\n";
        let asking = "STAT 9:state conn_parse_cmd\r\nSTAT 9:secs_since_last_cmd 0\r\n";
        let silent = "STAT 9:state conn_read\r\nSTAT 9:secs_since_last_cmd 7\r\n";
        assert_eq!(said(true), format!("{addresses}{asking}"));
        assert_eq!(said(false), format!("{addresses}{silent}"));
    }
}
