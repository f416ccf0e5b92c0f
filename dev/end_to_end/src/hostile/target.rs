//! Attacks, and the server that is attacked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock;

/// One kind of hostile client.
pub struct Attack {
    /// Its name in tables.
    pub name: &'static str,
    /// Its action, and the harm that it aims at.
    pub about: &'static str,
    pub(super) round: fn(&Target) -> io::Result<()>,
}

/// The pause between two checks whether it is over.
const GLANCE: Duration = Duration::from_millis(50);
/// The longest wait of a round for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The server that is attacked.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) stop: Arc<AtomicBool>,
}

impl Target {
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does nothing for this long, or until the attacks end.
    pub(super) fn idle(&self, time: Duration) {
        let end = clock::now() + time;
        while !self.is_over() && clock::now() < end {
            clock::pass(GLANCE.min(time));
        }
    }

    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(stream)
    }

    /// Opens a connection and sends this.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<TcpStream> {
        let mut stream = self.connect()?;
        stream.write_all(bytes)?;
        Ok(stream)
    }

    /// The answer to this, up to `end` or the end of the connection.
    pub(super) fn ask(&self, request: &[u8], end: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.send(request)?;
        let (mut answer, mut piece) = (Vec::new(), vec![0; 64 << 10]);
        while !answer.ends_with(end) {
            match stream.read(&mut piece)? {
                0 => break,
                count => answer.extend_from_slice(&piece[..count]),
            }
        }
        Ok(answer)
    }
}

/// The address at which a server takes datagrams, by its list of sockets.
pub(super) fn datagram_address(target: &Target) -> io::Result<SocketAddr> {
    let list = target.ask(b"stats conns\r\n", b"END\r\n")?;
    let list = String::from_utf8_lossy(&list);
    let address = list.lines().find_map(|line| line.split_once("addr udp:")?.1.parse().ok());
    address.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no socket for datagrams is listed"))
}

/// The address at which a server takes TLS sessions, by its list of sockets: the other listener.
pub(super) fn secure_address(target: &Target) -> io::Result<SocketAddr> {
    let list = target.ask(b"stats conns\r\n", b"END\r\n")?;
    let list = String::from_utf8_lossy(&list);
    let mut listeners =
        list.lines().zip(list.lines().skip(1)).filter(|(_, next)| next.ends_with("conn_listening"));
    let address = listeners.find_map(|(line, _)| {
        let address = line.split_once("addr tcp:")?.1.parse().ok()?;
        (address != target.address).then_some(address)
    });
    address.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no socket for TLS is listed"))
}

/// An answer that no server should give.
pub(super) fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
