//! Listening sockets.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use os::DirectoryEntry;
use os::socket_file::{SocketInode, bind_at};
use rustix::fs::lstat;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};

use crate::sockets::accept_queue::QueueLength;
use crate::sockets::address::Address;
use crate::sockets::datagram::OUTGOING_MAX;
use crate::sockets::segments;

/// An address to listen at, or a socket that listens already.
#[derive(Clone, Debug)]
pub enum Listen {
    /// An internet address; port 0 for one that the kernel chooses. An IPv6 address does not include IPv4.
    Tcp(SocketAddr),
    /// A socket in the file system with permissions `mode`. A socket file without a listener is replaced.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permissions, such as `0o700`.
        mode: u32,
    },
    /// A listening stream socket over TCP or unix that another process has made. Its file, if it has one, stays at the
    /// end.
    Inherited(Arc<OwnedFd>),
    /// An internet address for datagrams, with a socket for each worker; the kernel distributes the peers among them.
    Udp(SocketAddr),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Udp(address) => write!(f, "udp:{address}"),
            Listen::Unix { path, .. } => write!(f, "{}", path.display()),
            Listen::Inherited(fd) => write!(f, "descriptor {}", fd.as_raw_fd()),
        }
    }
}

/// The addresses of a host that belong to this machine (or all, if none does); without a host, the wildcard addresses
/// (IPv6 only where the kernel has it).
pub fn resolve(host: Option<&str>, port: u16) -> io::Result<Vec<SocketAddr>> {
    let Some(host) = host else {
        let any = [SocketAddr::from(([0; 4], port)), SocketAddr::from(([0; 8], port))];
        let ipv6 = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None).is_ok();
        return Ok(any[..if ipv6 { 2 } else { 1 }].to_vec());
    };
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(ours(addresses))
}

/// Leaves out addresses that this machine does not have: the name `localhost` includes `::1` also where there is no
/// IPv6. If none would be left, all stay, and binding reports the error.
fn ours(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_ours = |address: &&SocketAddr| {
        let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        stream_socket(family).and_then(|fd| bind(&fd, &SocketAddr::new(address.ip(), 0))).is_ok()
    };
    let ours: Vec<_> = addresses.iter().filter(is_ours).copied().collect();
    if ours.is_empty() { addresses } else { ours }
}

/// A listening socket and its file, which is removed with it if this process has made it.
pub(crate) struct Listener {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) address: Address,
    file: Option<SocketFile>,
}

impl Listener {
    /// Binds an address; an inherited socket is not one.
    pub(crate) fn bind(place: &Listen, backlog: QueueLength) -> io::Result<Listener> {
        match place {
            Listen::Tcp(address) => bind_tcp(*address, backlog.for_kernel()),
            Listen::Unix { path, mode } => bind_unix(path, *mode, backlog.for_kernel()),
            Listen::Inherited(_) | Listen::Udp(_) => Err(Errno::OPNOTSUPP.into()),
        }
    }

    /// The socket of another network, whose file is ours when this one has served.
    pub(crate) fn of_predecessor(fd: Arc<OwnedFd>, address: Address) -> io::Result<Listener> {
        let file = match &address {
            Address::Unix(Some(path)) if path.is_absolute() || path.exists() => {
                Some(SocketFile { path: path.to_path_buf(), inode: inode(path)?, stays: true })
            }
            _ => None,
        };
        Ok(Listener { fd, address, file })
    }

    /// The same socket once more. Its file stays until [`Listener::remove_file`].
    pub(crate) fn again(&self) -> Listener {
        let file = self.file.as_ref();
        let file = file.map(|file| SocketFile { path: file.path.clone(), inode: file.inode, stays: true });
        Listener { fd: Arc::clone(&self.fd), address: self.address.clone(), file }
    }

    /// Closes it, and removes its file.
    pub(crate) fn remove_file(mut self) {
        if let Some(file) = &mut self.file {
            file.stays = false;
        }
    }

    /// Closes it, and leaves its file to a successor.
    pub(crate) fn leave_file(mut self) {
        if let Some(file) = &mut self.file {
            file.stays = true;
        }
    }

    /// A socket that another process has bound.
    pub(crate) fn of_another(fd: Arc<OwnedFd>, address: Address) -> Listener {
        Listener { fd, address, file: None }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }
}

fn bind_tcp(address: SocketAddr, backlog: i32) -> io::Result<Listener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let fd = stream_socket(family)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    sockopt::set_socket_reuseaddr(&fd, true)?;
    // Accepted connections inherit these two options.
    sockopt::set_socket_keepalive(&fd, true)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    bind(&fd, &address)?;
    listen(&fd, backlog)?;
    let address = SocketAddr::try_from(getsockname(&fd)?)?;
    Ok(Listener { fd: Arc::new(fd), address: Address::Tcp(address), file: None })
}

/// Requests that wait while their worker does something else: some ten thousand small ones. Without it they are lost where a few clients send
/// at the same time. Memory is taken only for what has arrived.
pub(crate) const RECEIVE_BUFFER: usize = 8 << 20;

/// `count` datagram sockets at an address, the address that they have, and the size of their receive buffers.
pub(crate) fn bind_udp(address: SocketAddr, count: usize) -> io::Result<(SocketAddr, Vec<OwnedFd>, usize)> {
    let (mut at, mut sockets, mut granted) = (address, Vec::new(), RECEIVE_BUFFER);
    for _ in 0..count {
        let fd = datagram_socket(address)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        // Older kernels do not coalesce.
        let _coalesced = segments::coalesce(fd.as_fd());
        // Root may have more than net.core.rmem_max, which others are granted.
        if sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER)?;
        }
        // The kernel doubles the number, for its administration.
        granted = granted.min(sockopt::socket_recv_buffer_size(&fd)? / 2);
        // A reply of many datagrams should fit; the kernel grants net.core.wmem_max.
        let _granted = sockopt::set_socket_send_buffer_size(&fd, OUTGOING_MAX);
        // A single socket does not share its address: another process that binds it gets an error.
        if count > 1 {
            sockopt::set_socket_reuseport(&fd, true)?;
        }
        bind(&fd, &at)?;
        at = SocketAddr::try_from(getsockname(&fd)?)?;
        sockets.push(fd);
    }
    Ok((at, sockets, granted))
}

/// A line for the operator if receive buffers are smaller.
pub(crate) fn buffer_line(granted: usize) -> Option<String> {
    let wanted = RECEIVE_BUFFER;
    (granted < wanted).then(|| {
        format!(
            "UDP sockets have {granted} bytes for requests that wait instead of {wanted}, and requests beyond are lost \
             (`sysctl -w net.core.rmem_max={wanted}`, or start as root)"
        )
    })
}

fn bind_unix(path: &Path, mode: u32, backlog: i32) -> io::Result<Listener> {
    let (fd, inode) = bind_at(path, mode)?;
    let file = SocketFile { path: path.to_owned(), inode, stays: false };
    listen(&fd, backlog)?;
    Ok(Listener { fd: Arc::new(fd), address: Address::Unix(Some(Arc::from(path))), file: Some(file) })
}

pub(crate) fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// A datagram socket of the address family of `address`.
pub(crate) fn datagram_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// A socket's file, removed with the listener unless another process has replaced it.
struct SocketFile {
    path: PathBuf,
    inode: SocketInode,
    /// Another process uses it, or may use it.
    stays: bool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.stays
            && let Ok(entry) = DirectoryEntry::of(&self.path)
            && entry.status().is_ok_and(|present| (present.st_dev, present.st_ino) == self.inode)
        {
            // If it fails, the file is gone or may not be removed by this process: nothing is left to do.
            let _removed = entry.remove();
        }
    }
}

fn inode(path: &Path) -> Result<SocketInode, Errno> {
    lstat(path).map(|status| (status.st_dev, status.st_ino))
}

/// The local end of an accepted connection.
pub(crate) fn local_address(fd: impl AsFd, listener: &Listener) -> Address {
    if listener.is_unix() {
        return listener.address.clone();
    }
    let local = getsockname(fd).ok().and_then(|address| SocketAddr::try_from(address).ok());
    local.map_or_else(|| listener.address.clone(), |local| Address::Tcp(unmapped(local)))
}

/// The client's end of a connection that came through `listener`.
pub(crate) fn peer_address(peer: Option<SocketAddrAny>, listener: &Listener) -> Address {
    if listener.is_unix() {
        return Address::Unix(None);
    }
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let peer = peer.and_then(|address| SocketAddr::try_from(address).ok()).unwrap_or(unknown);
    Address::Tcp(unmapped(peer))
}

/// An IPv6 socket of another process may take IPv4, too, and shows these addresses as `::ffff:192.0.2.1`.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => {
            v6.ip().to_ipv4_mapped().map_or(address, |v4| SocketAddr::from((v4, v6.port())))
        }
        SocketAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_machines_are_left_out_if_there_are_local_ones() {
        // Reserved for documentation (RFC 5737, RFC 3849): no machine has them.
        let foreign: Vec<SocketAddr> =
            ["192.0.2.1:11211", "[2001:db8::1]:11211"].map(|text| text.parse().expect("an address")).into();
        let here = SocketAddr::from(([127, 0, 0, 1], 11211));
        assert_eq!(ours([&foreign[..], &[here]].concat()), [here]);
        assert_eq!(ours(foreign.clone()), foreign);
    }
}
