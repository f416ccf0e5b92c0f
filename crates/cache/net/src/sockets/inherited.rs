//! Listening sockets that another process has made: what they are, and the settings that listeners of our own have.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, getpeername, getsockname, ipproto, listen,
    sockopt,
};

use crate::sockets::accept_queue::QueueLength;
use crate::sockets::address::{Address, Transport};
use crate::sockets::listener::{Listen, Listener};

/// Serves an inherited socket as if it were our own. Its queue stays as its owner has set it, unless a length is given;
/// its file, if it has one, is the owner's.
///
/// Other processes may hold the same socket: they see that it does not block any more.
pub(crate) fn take(fd: &Arc<OwnedFd>, backlog: Option<QueueLength>) -> io::Result<Listener> {
    let transport = transport(fd).map_err(|found| io::Error::new(io::ErrorKind::InvalidInput, found))?;
    fcntl_setfd(fd, FdFlags::CLOEXEC)?;
    fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
    if transport == Transport::Tcp {
        sockopt::set_socket_keepalive(fd, true)?;
        sockopt::set_tcp_nodelay(fd, true)?;
    }
    if let Some(backlog) = backlog {
        listen(fd, backlog.for_kernel())?;
    }
    Ok(Listener::of_another(Arc::clone(fd), address(getsockname(fd)?)?))
}

/// The first of `sockets` that listens at this place.
pub(crate) fn at<'s>(place: &Listen, sockets: &'s [Arc<OwnedFd>]) -> Option<&'s Arc<OwnedFd>> {
    let is_stream =
        |socket: &&Arc<OwnedFd>| sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let is_there = |socket: &&Arc<OwnedFd>| match (getsockname(socket).map(address), place) {
        (Ok(Ok(Address::Tcp(at))), Listen::Tcp(wanted)) => at == *wanted,
        (Ok(Ok(Address::Unix(Some(at)))), Listen::Unix { path, .. }) => *at == **path,
        _ => false,
    };
    sockets.iter().filter(is_stream).find(is_there)
}

/// The datagram sockets among `sockets` that are bound to this address; `None` without one. There has to be one for each worker: the
/// kernel deals datagrams out by their number.
pub(crate) fn datagrams_at(
    address: SocketAddr,
    sockets: &[Arc<OwnedFd>],
    workers: usize,
) -> io::Result<Option<Vec<OwnedFd>>> {
    let is_there = |socket: &&Arc<OwnedFd>| {
        let is_datagrams = sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::DGRAM);
        is_datagrams
            && getsockname(socket).is_ok_and(|at| SocketAddr::try_from(at).is_ok_and(|at| at == address))
    };
    let found = sockets.iter().filter(is_there).map(|socket| socket.try_clone());
    let found = found.collect::<io::Result<Vec<_>>>()?;
    match found.len() {
        0 => Ok(None),
        count if count == workers => Ok(Some(found)),
        count => {
            let what = format!("expected as many threads as the other server has ({count}), found {workers}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

/// Serves a socket of a network that hands itself over. Its file, if it has one, is ours from now on.
pub(crate) fn adopt(fd: &Arc<OwnedFd>, backlog: QueueLength) -> io::Result<Listener> {
    let listener = take(fd, Some(backlog))?;
    Listener::of_predecessor(listener.fd, listener.address)
}

/// An error if two of the places are the same socket, under one number or two.
pub(crate) fn check_distinct(places: &[Listen]) -> Result<(), (&Listen, io::Error)> {
    let mut seen: Vec<((u64, u64), i32)> = Vec::new();
    for place in places {
        let Listen::Inherited(fd) = place else { continue };
        let status = fstat(fd).map_err(|error| (place, error.into()))?;
        let inode = (status.st_dev, status.st_ino);
        if let Some((_, other)) = seen.iter().find(|(other, _)| *other == inode) {
            let what = format!("it is the same socket as descriptor {other}");
            return Err((place, io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        seen.push((inode, fd.as_raw_fd()));
    }
    Ok(())
}

/// Something that cannot be served.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// A file that is no socket: a word for it.
    NoSocket(&'static str),
    Datagrams,
    Family(u16),
    Type(u32),
    Protocol(u32),
    Connection,
    NotListening,
    Unknown(Errno),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a listening stream socket over TCP or unix, found ")?;
        match self {
            Found::NoSocket(what) => f.write_str(what),
            Found::Datagrams => f.write_str("a datagram socket"),
            Found::Family(family) => write!(f, "a socket of address family {family}"),
            Found::Type(kind) => write!(f, "a socket of type {kind}"),
            Found::Protocol(protocol) => write!(f, "a stream socket of protocol {protocol}"),
            // A socket unit with Accept=yes starts a process for each connection.
            Found::Connection => f.write_str("a connection (a socket unit needs Accept=no)"),
            Found::NotListening => f.write_str("a socket that does not listen"),
            Found::Unknown(error) => write!(f, "one that does not say what it is ({error})"),
        }
    }
}

impl std::error::Error for Found {}

impl From<Errno> for Found {
    fn from(error: Errno) -> Found {
        Found::Unknown(error)
    }
}

fn transport(fd: &OwnedFd) -> Result<Transport, Found> {
    let kind = match sockopt::socket_type(fd) {
        Err(Errno::NOTSOCK) => return Err(Found::NoSocket(file_type(fd)?)),
        kind => kind?,
    };
    let family = sockopt::socket_domain(fd)?;
    let transport = match family {
        AddressFamily::INET | AddressFamily::INET6 => Transport::Tcp,
        AddressFamily::UNIX => Transport::Unix,
        other => return Err(Found::Family(other.as_raw())),
    };
    match kind {
        SocketType::STREAM => {}
        SocketType::DGRAM => return Err(Found::Datagrams),
        other => return Err(Found::Type(other.as_raw())),
    }
    if transport == Transport::Tcp {
        // A listener of Multipath TCP accepts connections of either kind.
        match sockopt::socket_protocol(fd)? {
            Some(ipproto::TCP | ipproto::MPTCP) => {}
            other => return Err(Found::Protocol(other.map_or(0, |other| other.as_raw().get()))),
        }
    }
    match sockopt::socket_acceptconn(fd)? {
        true => Ok(transport),
        false if getpeername(fd).is_ok() => Err(Found::Connection),
        false => Err(Found::NotListening),
    }
}

fn file_type(fd: &OwnedFd) -> Result<&'static str, Errno> {
    Ok(match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "no socket",
    })
}

fn address(local: SocketAddrAny) -> io::Result<Address> {
    if let Ok(address) = SocketAddr::try_from(local.clone()) {
        return Ok(Address::Tcp(address));
    }
    let name = SocketAddrUnix::try_from(local)?;
    Ok(Address::Unix(Some(match (name.path_bytes(), name.abstract_name()) {
        (Some(path), _) => Arc::from(Path::new(std::ffi::OsStr::from_bytes(path))),
        // As ss and systemd show names that are in no file system.
        (None, Some(name)) => Arc::from(Path::new(std::ffi::OsStr::from_bytes(&[b"@", name].concat()))),
        (None, None) => Arc::from(Path::new("unnamed")),
    })))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{self as unix, UnixDatagram, UnixListener, UnixStream};

    use rustix::net::{SocketFlags, bind, socket_with};

    use super::*;

    const LOOPBACK: &str = "127.0.0.1:0";

    #[track_caller]
    fn check_refused(fd: impl Into<OwnedFd>, found: &str) {
        let error = take(&Arc::new(fd.into()), None).err().expect(found);
        let expected = format!("expected a listening stream socket over TCP or unix, found {found}");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn anything_but_a_listening_stream_socket_is_refused_by_name() {
        check_refused(File::open("/dev/null").expect("a device"), "a device");
        check_refused(File::open("/proc/self/stat").expect("a file"), "a file");
        check_refused(File::open("/").expect("a directory"), "a directory");
        check_refused(rustix::pipe::pipe().expect("a pipe").0, "a pipe");
        check_refused(
            rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).expect("an eventfd"),
            "no socket",
        );
        check_refused(UdpSocket::bind(LOOPBACK).expect("a socket"), "a datagram socket");
        check_refused(UnixDatagram::unbound().expect("a socket"), "a datagram socket");
        let listener = TcpListener::bind(LOOPBACK).expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a client");
        check_refused(client, "a connection (a socket unit needs Accept=no)");
        check_refused(UnixStream::pair().expect("a pair").0, "a connection (a socket unit needs Accept=no)");
        let flags = SocketFlags::CLOEXEC;
        let idle = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
        bind(&idle, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("bound");
        check_refused(idle, "a socket that does not listen");
        let packets = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
        check_refused(packets, "a socket of type 5");
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, None).expect("a socket");
        check_refused(netlink, "a socket of address family 16");
    }

    /// The listener of an inherited socket, which has the settings of our own.
    #[track_caller]
    fn taken(fd: impl Into<OwnedFd>) -> Listener {
        let fd = Arc::new(fd.into());
        fcntl_setfd(&fd, FdFlags::empty()).expect("a flag");
        let listener = take(&fd, None).expect("it listens");
        assert_eq!(rustix::io::fcntl_getfd(&fd), Ok(FdFlags::CLOEXEC));
        assert!(fcntl_getfl(&fd).expect("flags").contains(OFlags::NONBLOCK));
        listener
    }

    #[test]
    fn listening_sockets_are_taken_with_the_addresses_that_they_have() {
        let listener = TcpListener::bind(LOOPBACK).expect("a listener");
        let address = listener.local_addr().expect("bound");
        let tcp = taken(listener);
        assert_eq!(tcp.address, Address::Tcp(address));
        assert!(sockopt::tcp_nodelay(&tcp.fd).expect("TCP"), "connections inherit it");
        assert!(sockopt::socket_keepalive(&tcp.fd).expect("a socket"), "connections inherit it");

        let path = std::env::temp_dir().join(format!("net-{}-inherited", std::process::id()));
        let unix = taken(UnixListener::bind(&path).expect("a listener"));
        assert_eq!(unix.address, Address::Unix(Some(Arc::from(&*path))));
        assert!(unix.is_unix());
        drop(unix);
        std::fs::remove_file(&path).expect("the file is the owner's");

        let name = format!("net-{}-abstract", std::process::id());
        let address = unix::SocketAddr::from_abstract_name(&name).expect("a name");
        let unix = taken(UnixListener::bind_addr(&address).expect("a listener"));
        assert_eq!(unix.address.to_string(), format!("@{name}"));
    }

    #[test]
    fn a_listener_of_multipath_tcp_is_one_of_tcp() {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::MPTCP));
        let Ok(socket) = socket else { return eprintln!("this kernel has no Multipath TCP") };
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("bound");
        listen(&socket, 5).expect("a queue");
        assert!(matches!(taken(socket).address, Address::Tcp(_)));
    }

    #[test]
    fn the_same_socket_twice_is_refused() {
        let listen = |listener: &TcpListener| {
            Listen::Inherited(Arc::new(listener.try_clone().expect("a descriptor").into()))
        };
        let [one, other] = [0; 2].map(|_| TcpListener::bind(LOOPBACK).expect("a listener"));
        let [first, second, third] = [listen(&one), listen(&other), listen(&one)];
        assert!(check_distinct(&[first.clone(), second.clone()]).is_ok());
        let places = [first.clone(), second, third.clone()];
        let (place, error) = check_distinct(&places).expect_err("the first and the third");
        assert_eq!(place.to_string(), third.to_string());
        assert_eq!(error.to_string(), format!("it is the same socket as {first}"));
        assert!(check_distinct(&[first.clone(), first]).is_err());
    }
}
