//! `stats conns`: who is connected.

use net::{Address, Transport};
use protocol::reply::stat;
use stdx::clock::Now;

use crate::shared::Shared;

pub(super) fn stats(shared: &Shared, now: Now, out: &mut Vec<u8>) {
    for (fd, address) in &shared.listeners {
        stat(out, format_args!("{fd}:addr"), name(address));
        stat(out, format_args!("{fd}:state"), "conn_listening");
        stat(out, format_args!("{fd}:secs_since_last_cmd"), 0);
    }
    for present in shared.network.present(now) {
        let fd = present.opened.fd;
        let peer = match present.opened.transport {
            // A client's end of a unix socket has no name, and memcached prints `?:<AF 0>`: the path says more.
            Transport::Unix => name(&present.opened.local),
            Transport::Tcp => name(&present.opened.peer),
        };
        stat(out, format_args!("{fd}:addr"), peer);
        stat(out, format_args!("{fd}:listen_addr"), name(&present.opened.local));
        stat(out, format_args!("{fd}:state"), "conn_read");
        stat(out, format_args!("{fd}:secs_since_last_cmd"), present.idle_s);
    }
}

fn name(address: &Address) -> String {
    match address {
        Address::Tcp(address) if address.is_ipv6() => format!("tcp6:{address}"),
        Address::Tcp(address) => format!("tcp:{address}"),
        Address::Unix(_) => format!("unix:{address}"),
    }
}
