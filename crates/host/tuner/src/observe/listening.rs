//! Listeners of running programs, read and changed in place: through a duplicate of the program's descriptor
//! (pidfd_getfd(2), since Linux 5.6). The program does not take part, and notices nothing.
//!
//! On a socket that listens already, listen(2) changes the longest accept queue and nothing else; waiting connections
//! stay. Both limits are cut by the `somaxconn` of the socket's network namespace at the time of the call. The
//! duplicate works whatever namespace the socket is in.
//!
//! Process ids and descriptors are used again, so a program is identified by its start, too, and a socket by its
//! inode.

#![expect(unsafe_code, reason = "two options of sockets that have no safe wrapper")]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::observe::scheduling;

/// A socket that a program listens on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListenerHandle {
    /// The process that holds it.
    pub pid: u32,
    /// When that process was started, in clock ticks since boot.
    pub started: u64,
    /// Of the socket.
    pub inode: u64,
    /// For people: `0.0.0.0:11211`.
    pub address: String,
}

/// Limits of a listener that can be changed while it is in use. Each is a number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// Connections that may wait to be accepted; `ss` shows it as Send-Q.
    Backlog,
    /// Connections that brought a request with the SYN and whose handshake is not over; 0: no Fast Open.
    FastOpen,
}

/// Bytes of `struct tcp_info` up to the last one that is read here.
const INFO_LEN: usize = 32;
/// `tcpi_state`, and its value for a listener.
const INFO_STATE: usize = 0;
const STATE_LISTEN: u8 = 10;
/// `tcpi_sacked`: for a listener its longest accept queue (`tcp_get_info` in net/ipv4/tcp.c).
const INFO_BACKLOG: usize = 28;

impl ListenerHandle {
    /// A limit as it is now.
    pub(crate) fn read(&self, limit: QueueLimit) -> io::Result<u32> {
        let socket = self.duplicate()?;
        match limit {
            QueueLimit::Backlog => backlog(&socket),
            QueueLimit::FastOpen => Ok(u32::from_ne_bytes(option(&socket, libc::TCP_FASTOPEN)?)),
        }
    }

    /// Sets a limit; `somaxconn` may cut it.
    pub(crate) fn write(&self, limit: QueueLimit, connections: u32) -> io::Result<()> {
        let socket = self.duplicate()?;
        let connections = i32::try_from(connections).map_err(|_| Errno::INVAL)?;
        match limit {
            QueueLimit::Backlog => Ok(rustix::net::listen(socket, connections)?),
            QueueLimit::FastOpen => set_option(&socket, libc::TCP_FASTOPEN, connections),
        }
    }

    /// The socket under a descriptor of ours. ESRCH: the program has ended, or has closed it.
    fn duplicate(&self) -> io::Result<OwnedFd> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        // First the handle, then the start: if the process that has the id now is the right one, which existed before
        // the handle, the handle can be of no other.
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        if scheduling::started(self.pid)? != self.started {
            return Err(Errno::SRCH.into());
        }
        let wanted = format!("socket:[{}]", self.inode);
        let mut missing = Errno::SRCH;
        for entry in std::fs::read_dir(format!("/proc/{}/fd", self.pid))? {
            let entry = entry?;
            match std::fs::read_link(entry.path()) {
                Ok(link) if link.as_os_str() == wanted.as_str() => {}
                // Root without CAP_SYS_PTRACE sees the numbers, but not their files.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    missing = Errno::ACCESS;
                    continue;
                }
                _ => continue,
            }
            let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let socket = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
                // Closed since it was listed.
                Err(Errno::BADF) => continue,
                socket => socket?,
            };
            // The number may be in use for something else since it was listed.
            if rustix::fs::fstat(&socket)?.st_ino == self.inode && is_listening(&socket)? {
                return Ok(socket);
            }
        }
        Err(missing.into())
    }
}

impl fmt::Display for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Workers that share a port have a socket each: only the inode tells them apart.
        write!(f, "{} (PID {}, socket {})", self.address, self.pid, self.inode)
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueLimit::Backlog => "backlog",
            QueueLimit::FastOpen => "Fast Open queue",
        })
    }
}

fn is_listening(socket: &OwnedFd) -> io::Result<bool> {
    Ok(option::<INFO_LEN>(socket, libc::TCP_INFO)?[INFO_STATE] == STATE_LISTEN)
}

fn backlog(socket: &OwnedFd) -> io::Result<u32> {
    let info = option::<INFO_LEN>(socket, libc::TCP_INFO)?;
    let four = info[INFO_BACKLOG..].try_into().expect("the last four bytes");
    Ok(u32::from_ne_bytes(four))
}

/// The first bytes of an option of TCP.
fn option<const LEN: usize>(socket: &OwnedFd, name: i32) -> io::Result<[u8; LEN]> {
    let mut value = [0_u8; LEN];
    let mut len = LEN as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: `value` has `len` bytes and, like `len`, outlives the call, which writes no more than `len` says.
    let result = unsafe {
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    match result {
        0 if len as usize == LEN => Ok(value),
        0 => Err(io::Error::new(io::ErrorKind::InvalidData, "an option that is shorter than it should be")),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_option(socket: &OwnedFd, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: `value` outlives the call, which reads as many bytes of it as there are.
    let result =
        unsafe { libc::setsockopt(descriptor, libc::IPPROTO_TCP, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A listener of this process, found as that of any other.
    fn own(listener: &TcpListener) -> ListenerHandle {
        let pid = std::process::id();
        ListenerHandle {
            pid,
            started: scheduling::started(pid).unwrap(),
            inode: rustix::fs::fstat(listener).unwrap().st_ino,
            address: listener.local_addr().unwrap().to_string(),
        }
    }

    #[track_caller]
    fn is_gone(socket: &ListenerHandle) {
        for result in [socket.read(QueueLimit::Backlog).map(drop), socket.write(QueueLimit::Backlog, 9)] {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ESRCH), "{socket}");
        }
    }

    #[test]
    fn limits_are_set_read_back_and_restored_and_who_waits_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 7).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = own(&listener);
        assert_eq!(socket.read(QueueLimit::Backlog).unwrap(), 7);
        for limit in [QueueLimit::Backlog, QueueLimit::FastOpen] {
            let before = socket.read(limit).unwrap();
            for connections in [30, before] {
                socket.write(limit, connections).unwrap();
                assert_eq!(socket.read(limit).unwrap(), connections, "{limit}");
            }
        }
        let (mut accepted, _) = listener.accept().unwrap();
        io::Write::write_all(&mut client, b"x").unwrap();
        let mut byte = [0];
        io::Read::read_exact(&mut accepted, &mut byte).unwrap();
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn neither_another_process_nor_another_socket_is_touched() {
        let listener = TcpListener::bind("[::1]:0").or_else(|_| TcpListener::bind("127.0.0.1:0")).unwrap();
        rustix::net::listen(&listener, 7).unwrap();
        let socket = own(&listener);
        is_gone(&ListenerHandle { started: socket.started - 1, ..socket.clone() });
        is_gone(&ListenerHandle { inode: u64::MAX, ..socket.clone() });
        is_gone(&ListenerHandle { pid: u32::MAX, ..socket.clone() });
        is_gone(&ListenerHandle { pid: 0, ..socket.clone() });
        assert_eq!(socket.read(QueueLimit::Backlog).unwrap(), 7);
        drop(listener);
        is_gone(&socket);
    }

    #[test]
    fn a_socket_that_does_not_listen_is_not_made_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inode = rustix::fs::fstat(&client).unwrap().st_ino;
        is_gone(&ListenerHandle { inode, ..own(&listener) });
    }
}
