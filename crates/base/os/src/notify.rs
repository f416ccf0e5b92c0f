//! Messages to the supervisor that started this process (sd_notify(3)): one datagram each.
//!
//! Reads no variable of the environment: its socket is what NOTIFY_SOCKET held.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Sends a message to the socket with this name: a path, or `@` and a name that is in no file system. A supervisor whose
/// socket is full is waited for this long.
pub fn send(socket: &OsStr, message: &str, wait: Duration) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(socket)?,
        _ => return Err(io::Error::new(ErrorKind::InvalidInput, "expected a path from / or a name after @")),
    };
    let datagram = UnixDatagram::unbound()?;
    match wait.is_zero() {
        true => datagram.set_nonblocking(true)?,
        false => datagram.set_write_timeout(Some(wait))?,
    }
    datagram.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_AT_ALL: Duration = Duration::ZERO;

    fn name(test: &str) -> String {
        format!("os-notify-{}-{test}", std::process::id())
    }

    fn receive(supervisor: &UnixDatagram) -> String {
        let mut bytes = [0; 100];
        let len = supervisor.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    #[test]
    fn a_message_reaches_a_path_and_a_name() {
        let path = std::env::temp_dir().join(name("path"));
        let supervisor = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str(), "READY=1", NOT_AT_ALL).expect("sent");
        assert_eq!(receive(&supervisor), "READY=1");
        std::fs::remove_file(&path).expect("it is there");

        let address = SocketAddr::from_abstract_name(name("name")).expect("a name");
        let supervisor = UnixDatagram::bind_addr(&address).expect("a socket");
        send(OsStr::new(&format!("@{}", name("name"))), "STOPPING=1", Duration::from_secs(60)).expect("sent");
        assert_eq!(receive(&supervisor), "STOPPING=1");
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for bad in ["", "notify", "vsock:2:1", "@"] {
            let sent = send(OsStr::new(bad), "READY=1", NOT_AT_ALL);
            assert!(sent.is_err(), "{bad:?}");
        }
        let long = format!("/{}", "x".repeat(200));
        assert!(send(OsStr::new(&long), "READY=1", NOT_AT_ALL).is_err());
        let zero = OsStr::from_bytes(b"/a\0b");
        assert!(send(zero, "READY=1", NOT_AT_ALL).is_err());
    }

    #[test]
    fn a_supervisor_that_is_gone_or_does_not_read_is_an_error() {
        let path = std::env::temp_dir().join(name("gone"));
        let kind = |wait| send(path.as_os_str(), "READY=1", wait).map_err(|error| error.kind());
        assert_eq!(kind(NOT_AT_ALL), Err(ErrorKind::NotFound));
        let supervisor = UnixDatagram::bind(&path).expect("a socket");
        // Its queue has a few hundred places, and nobody reads.
        let full = (0..1_000_000).find_map(|_| kind(NOT_AT_ALL).err());
        assert_eq!(full, Some(ErrorKind::WouldBlock));
        assert_eq!(kind(Duration::from_millis(10)), Err(ErrorKind::WouldBlock));
        drop(supervisor);
        // A process that another test begins right now may hold the socket for a moment.
        let is_gone = || kind(NOT_AT_ALL) == Err(ErrorKind::ConnectionRefused);
        let pause = || std::thread::park_timeout(Duration::from_millis(10));
        assert!((0..6000).any(|_| is_gone() || (pause(), false).1));
        std::fs::remove_file(&path).expect("it is there");
    }
}
