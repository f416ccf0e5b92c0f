//! `stats conns`: who is connected.

use net::{Activity, Address, Transport};
use protocol::reply::stat;
use stdx::clock::Now;

use crate::shared::Shared;

/// `asking` is the number of the connection that asks.
pub(super) fn stats(shared: &Shared, asking: u64, now: Now, out: &mut Vec<u8>) {
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
        let asks = present.opened.id.0 == asking;
        stat(out, format_args!("{fd}:state"), if asks { "conn_parse_cmd" } else { state(present.activity) });
        stat(out, format_args!("{fd}:secs_since_last_cmd"), present.idle_s);
    }
}

/// memcached's word for it.
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
        Address::Unix(_) => format!("unix:{address}"),
    }
}
