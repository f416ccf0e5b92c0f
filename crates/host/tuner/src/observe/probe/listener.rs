//! TCP listeners, with the backlog in force: the program's value, cut by `somaxconn` as it was at that time. Only the
//! kernel knows it, and reports it through `inet_diag` (as `ss -ltn` shows it).
//!
//! A captured host has the answer in `listeners.json` beside /proc and /sys: a list of [`ListeningSocket`]s.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::netlink::SOCK_DIAG;

use super::process::Process;
use super::view::ProbeView;
use crate::observe::facts::{Facts, ListeningSocket, Service};
use crate::observe::listening::{ListenerHandle, QueueLimit};
use crate::observe::netlink::{self, attribute, u32_at};
use crate::observe::reading::Accepting;
use crate::observe::scheduling;

/// `SOCK_DIAG_BY_FAMILY` of sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `1 << TCP_LISTEN`.
const STATES_LISTEN: u32 = 1 << 10;
/// `1 << TCP_ESTABLISHED | 1 << TCP_CLOSE_WAIT`: handshakes that are over, until the program accepts and closes them.
const STATES_CONNECTED: u32 = 1 << 1 | 1 << 8;
/// `1 << TCP_SYN_RECV`, which stands for handshakes that have no socket yet, too.
const STATES_HALF_OPEN: u32 = 1 << 3;
const PROTOCOL_TCP: u8 = 6;
/// `struct inet_diag_req_v2`.
const REQUEST_LEN: usize = 56;
/// `struct inet_diag_msg`.
const ANSWER_LEN: usize = 72;
/// `INET_DIAG_SKV6ONLY`: an attribute of one byte.
const ATTRIBUTE_V6_ONLY: u16 = 11;
/// `INET_DIAG_SKMEMINFO`, the bit that asks for it, and where `SK_MEMINFO_DROPS` is in it: what `ss -m` shows as `d`.
const ATTRIBUTE_MEMORY: u16 = 7;
const ASKS_FOR_MEMORY: u8 = 1 << (ATTRIBUTE_MEMORY - 1);
const MEMORY_DROPS: usize = 8 * 4;
/// The offsets of the kernel's own number of the socket (8 bytes), and of the inode, which is 0 until the connection
/// is accepted.
const COOKIE: usize = 44;
const INODE: usize = 68;
/// A request for all ports.
const ANY_PORT: u16 = 0;

/// As people call a family.
fn name(family: AddressFamily) -> &'static str {
    if family == AddressFamily::INET { "IPv4" } else { "IPv6" }
}

/// Of sockets.
const FAMILIES: [AddressFamily; 2] = [AddressFamily::INET, AddressFamily::INET6];

/// A listener, and the counts of connections there.
struct Answer {
    listener: ListeningSocket,
    accepting: Accepting,
}

pub(super) fn listeners(view: &ProbeView, services: &[Service], owners: &Owners) -> Vec<ListeningSocket> {
    if !view.root.is_live() {
        return captured(view);
    }
    let mut listeners: Vec<ListeningSocket> = all(view).into_iter().map(|answer| answer.listener).collect();
    for listener in &mut listeners {
        listener.pid = owners.holder(listener.inode);
        listener.started = listener.pid.and_then(|pid| scheduling::started(pid).ok());
        if services.iter().any(|service| Some(service.pid) == listener.pid) {
            listener.fast_open = fast_open(view, listener);
        }
    }
    let orphans = listeners.iter().filter(|listener| listener.pid.is_none()).count();
    if orphans > 0 {
        view.note(format!(
            "the processes of {orphans} listeners are unknown: not all of /proc/PID/fd can be read"
        ));
    }
    listeners.sort_by_key(|listener| (listener.port, listener.address.clone()));
    listeners
}

/// The counts of connections at each, by inode.
pub(crate) fn accepting(view: &ProbeView) -> BTreeMap<u64, Accepting> {
    let answers = all(view);
    let addresses: Vec<&str> = answers.iter().map(|answer| answer.listener.address.as_str()).collect();
    let half_open = by_listener(&addresses, half_open(view));
    let queue = |answer: &Answer| {
        let half_open = half_open.get(&answer.listener.address).copied().unwrap_or(0);
        (answer.listener.inode, Accepting { half_open, ..answer.accepting })
    };
    answers.iter().map(queue).collect()
}

/// From handshakes to these addresses, the number for each listener: the one of that address, else that of all
/// addresses.
fn by_listener(listeners: &[&str], addresses: Vec<(String, u16)>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for (host, port) in addresses {
        let any = if host.starts_with('[') { "[::]" } else { "0.0.0.0" };
        let candidates = [host.as_str(), any, "*"].map(|host| format!("{host}:{port}"));
        let listener = candidates.into_iter().find(|address| listeners.contains(&address.as_str()));
        listener.into_iter().for_each(|address| *counts.entry(address).or_default() += 1);
    }
    counts
}

/// Longer queues are not followed: their connections are recorded only up to the longest usual backlog.
const QUEUED_MAX: usize = 4096;
/// Each port takes a walk over all connections of the host.
const PORTS_MAX: usize = 16;

/// The connections that wait at listeners, by inode. Workers that share a port share the set, too.
pub(crate) fn queued(
    view: &ProbeView,
    facts: &Facts,
    accepting: &BTreeMap<u64, Accepting>,
) -> BTreeMap<u64, BTreeSet<u64>> {
    let waits =
        |listener: &&ListeningSocket| accepting.get(&listener.inode).is_some_and(|queue| queue.waiting > 0);
    let full: Vec<&ListeningSocket> = facts.listeners.iter().filter(waits).collect();
    let ports: BTreeSet<u16> = full.iter().map(|listener| listener.port).take(PORTS_MAX).collect();
    let by_port: BTreeMap<u16, BTreeSet<u64>> =
        ports.into_iter().filter_map(|port| Some((port, queued_at(view, port)?))).collect();
    full.iter().filter_map(|listener| Some((listener.inode, by_port.get(&listener.port)?.clone()))).collect()
}

/// A connection without an inode is not accepted yet.
fn queued_at(view: &ProbeView, port: u16) -> Option<BTreeSet<u64>> {
    let mut cookies = BTreeSet::new();
    for family in FAMILIES {
        let each = |body: &[u8]| {
            if body.len() >= ANSWER_LEN && u32_at(body, INODE) == 0 && cookies.len() <= QUEUED_MAX {
                cookies.insert(u64::from(u32_at(body, COOKIE)) | u64::from(u32_at(body, COOKIE + 4)) << 32);
            }
        };
        if let Err(errno) = dump(family, STATES_CONNECTED, port, each) {
            view.note(format!(
                "the connections that wait to be accepted are unknown: inet_diag of {}: {errno}",
                name(family)
            ));
            return None;
        }
    }
    (cookies.len() <= QUEUED_MAX).then_some(cookies)
}

/// The local address of each handshake that is under way.
fn half_open(view: &ProbeView) -> Vec<(String, u16)> {
    let mut all = Vec::new();
    for family in FAMILIES {
        match dump(family, STATES_HALF_OPEN, ANY_PORT, |body| all.extend(local_address(body))) {
            Ok(()) => {}
            Err(errno) => {
                view.note(format!("handshakes are unknown: inet_diag of {}: {errno}", name(family)))
            }
        }
    }
    all
}

/// inet_diag answers for our own network namespace alone: notes the services that are in another one.
pub(super) fn note_strangers(view: &ProbeView, services: &[Service]) {
    let network = |pid: &str| view.root.link(&format!("/proc/{pid}/ns/net"));
    let here = network("self");
    for Service { pid, name, .. } in services {
        if network(&pid.to_string()).is_some_and(|there| here.as_ref().is_some_and(|here| *here != there)) {
            view.note(format!(
                "{name} (PID {pid}) is in another network namespace, where its listeners are: look there, too, with \
                 `nsenter --net --target {pid} evenkeel tune check`"
            ));
        }
    }
}

/// Only the socket itself has it.
fn fast_open(view: &ProbeView, listener: &ListeningSocket) -> Option<u32> {
    let ListeningSocket { address, inode, pid, started, .. } = listener;
    let socket =
        ListenerHandle { pid: (*pid)?, started: (*started)?, inode: *inode, address: address.clone() };
    match socket.read(QueueLimit::FastOpen) {
        Ok(connections) => Some(connections),
        // It has ended since.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => None,
        Err(error) => {
            view.note(format!("whether services use Fast Open is unknown: pidfd_getfd: {error}"));
            None
        }
    }
}

fn captured(view: &ProbeView) -> Vec<ListeningSocket> {
    let Some(text) = view.text("/listeners.json") else {
        view.note("listeners are unknown: the captured host has no listeners.json");
        return Vec::new();
    };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        view.note(format!("listeners are unknown: listeners.json: {error}"));
        Vec::new()
    })
}

fn all(view: &ProbeView) -> Vec<Answer> {
    let mut all = Vec::new();
    for family in FAMILIES {
        match dump(family, STATES_LISTEN, ANY_PORT, |body| all.extend(listener(body))) {
            Ok(()) => {}
            Err(errno) => view.note(format!("listeners are unknown: inet_diag of {}: {errno}", name(family))),
        }
    }
    all
}

/// Passes each socket in one of these states at this port to `each`.
fn dump(family: AddressFamily, states: u32, port: u16, each: impl FnMut(&[u8])) -> Result<(), Errno> {
    let socket = netlink::open(Some(SOCK_DIAG))?;
    netlink::ask(&socket, &request(family, states, port), each)
}

fn request(family: AddressFamily, states: u32, port: u16) -> Vec<u8> {
    let mut body = Vec::with_capacity(REQUEST_LEN);
    body.extend([family.as_raw() as u8, PROTOCOL_TCP, ASKS_FOR_MEMORY, 0]);
    body.extend(states.to_ne_bytes());
    body.extend(port.to_be_bytes());
    body.resize(REQUEST_LEN, 0); // any address, any port of the others
    netlink::request(BY_FAMILY, netlink::FLAGS_DUMP, &body)
}

/// A `struct inet_diag_msg`. For a listening socket, the queues are the waiting connections and their maximum.
fn listener(body: &[u8]) -> Option<Answer> {
    let (answer, attributes) = body.split_at_checked(ANSWER_LEN)?;
    let (mut host, port) = local_address(body)?;
    if host == "[::]" && attribute(attributes, ATTRIBUTE_V6_ONLY) != Some(&[1]) {
        "*".clone_into(&mut host);
    }
    let waiting = u32_at(answer, 56);
    let dropped = attribute(attributes, ATTRIBUTE_MEMORY).map_or(0, |memory| u32_at(memory, MEMORY_DROPS));
    let listener = ListeningSocket {
        address: format!("{host}:{port}"),
        port,
        waiting,
        backlog: u32_at(answer, 60),
        inode: u64::from(u32_at(answer, INODE)),
        ..ListeningSocket::default()
    };
    Some(Answer { listener, accepting: Accepting { waiting, dropped, half_open: 0 } })
}

/// The host and the port at this end of a `struct inet_diag_msg`.
fn local_address(body: &[u8]) -> Option<(String, u16)> {
    let answer = body.get(..ANSWER_LEN)?;
    let port = u16::from_be_bytes([answer[4], answer[5]]);
    let address: [u8; 16] = answer[8..24].try_into().ok()?;
    let is_v6 = u16::from(answer[0]) == AddressFamily::INET6.as_raw();
    let v4 = || Ipv4Addr::new(address[0], address[1], address[2], address[3]);
    let host = if is_v6 { format!("[{}]", Ipv6Addr::from(address)) } else { v4().to_string() };
    Some((host, port))
}

/// The holders of sockets: /proc/PID/fd has links to `socket:[INODE]`.
#[derive(Default)]
pub(super) struct Owners {
    by_inode: BTreeMap<u64, u32>,
    /// For each process whose descriptors can be seen, their number, and the number of sockets among them.
    by_pid: BTreeMap<u32, (u64, u64)>,
}

impl Owners {
    /// Examines all processes. If several hold a socket, the first that started is taken; process 1 only if it is
    /// alone, because it keeps the sockets that it has passed to the serving program.
    pub(super) fn of(view: &ProbeView, processes: &[Process]) -> Owners {
        let mut owners = Owners::default();
        let (first, others): (Vec<u32>, Vec<u32>) =
            processes.iter().map(|process| process.pid).partition(|pid| *pid == 1);
        for pid in others.into_iter().chain(first) {
            let directory = format!("/proc/{pid}/fd");
            // Without rights this fails for most processes: one gap stands for all.
            let descriptors = view.root.names(&directory).unwrap_or_default();
            let links = descriptors.iter().filter_map(|name| view.root.link(&format!("{directory}/{name}")));
            let inode = |link: String| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
            let inodes: Vec<u64> = links.filter_map(inode).collect();
            if !descriptors.is_empty() {
                owners.by_pid.insert(pid, (descriptors.len() as u64, inodes.len() as u64));
            }
            for inode in inodes {
                owners.by_inode.entry(inode).or_insert(pid);
            }
        }
        owners
    }

    pub(super) fn holder(&self, inode: u64) -> Option<u32> {
        self.by_inode.get(&inode).copied()
    }

    /// Descriptors of a process, and sockets among them; `None`: they cannot be seen.
    pub(super) fn descriptors(&self, pid: u32) -> Option<(u64, u64)> {
        self.by_pid.get(&pid).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_belongs_to_the_listener_of_its_address_else_to_that_of_all_addresses() {
        let listeners = ["127.0.0.1:7", "0.0.0.0:7", "*:8", "[::]:9"];
        let check = |host: &str, port: u16, listener: Option<&str>| {
            let counts = by_listener(&listeners, vec![(host.to_owned(), port)]);
            let expected = listener.map(|listener| (listener.to_owned(), 1));
            assert_eq!(counts, expected.into_iter().collect(), "{host}:{port}");
        };
        check("127.0.0.1", 7, Some("127.0.0.1:7"));
        check("10.0.0.1", 7, Some("0.0.0.0:7"));
        check("10.0.0.1", 8, Some("*:8"));
        check("[2001:db8::1]", 8, Some("*:8"));
        check("[2001:db8::1]", 9, Some("[::]:9"));
        check("[2001:db8::1]", 7, None);
    }
}
