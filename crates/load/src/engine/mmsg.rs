//! Many datagrams in one system call: `sendmmsg` and `recvmmsg`.
//!
//! With `unsafe`: the kernel gets the addresses of datagrams.
#![expect(unsafe_code, reason = "system calls that take tables of addresses")]

use protocol::udp::HEAD_LEN;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// Datagrams of one system call: enough that its cost is shared, and few enough that those which it receives are still
/// in the cache when they are read.
pub(crate) const BATCH: usize = 32;
/// The longest datagram of IP.
const DATAGRAM_MAX: usize = 64 * 1024;
/// An odd number of cache lines: buffers a power of two apart would compete for the same few sets of the cache.
const STRIDE: usize = DATAGRAM_MAX + 64;

/// A table of datagrams to send, each a head and a payload.
pub(crate) struct Sends {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<[libc::iovec; 2]>,
    heads: Vec<[u8; HEAD_LEN]>,
}

/// How far sending got.
pub(crate) struct Sent {
    /// Datagrams that the kernel took.
    pub(crate) count: usize,
    /// Why it did not take the next one.
    pub(crate) error: Option<Errno>,
}

impl Sends {
    pub(crate) fn new() -> Sends {
        let part = libc::iovec { iov_base: null_mut(), iov_len: 0 };
        let mut parts = vec![[part; 2]; BATCH];
        let headers = parts.iter_mut().map(|parts| header(parts)).collect();
        Sends { headers, parts, heads: vec![[0; HEAD_LEN]; BATCH] }
    }

    /// Sends up to `BATCH` datagrams; the rest is not looked at.
    pub(crate) fn send<'b>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: impl Iterator<Item = ([u8; HEAD_LEN], &'b [u8])>,
    ) -> Sent {
        let mut count = 0;
        for (head, payload) in datagrams.take(BATCH) {
            self.heads[count] = head;
            let [first, second] = &mut self.parts[count];
            *first = libc::iovec { iov_base: self.heads[count].as_mut_ptr().cast(), iov_len: HEAD_LEN };
            *second = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
            count += 1;
        }
        // SAFETY: the first `count` headers point to parts of ours (`new`), which were just pointed to heads of ours
        // and to payloads that outlive `datagrams`' items (`'b`), with their lengths. The kernel reads them within the
        // call; it writes to the headers only.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as u32, libc::MSG_NOSIGNAL)
        };
        match usize::try_from(sent) {
            Ok(count) => Sent { count, error: None },
            Err(_) => Sent { count: 0, error: Some(last_error()) },
        }
    }
}

/// Room for the datagrams of one receive.
pub(crate) struct Receives {
    headers: Vec<libc::mmsghdr>,
    /// Where the headers point to, which point into `buffers`.
    _parts: Vec<libc::iovec>,
    buffers: Vec<u8>,
}

impl Receives {
    pub(crate) fn new() -> Receives {
        let mut buffers = vec![0_u8; BATCH * STRIDE];
        let mut parts: Vec<libc::iovec> = buffers
            .chunks_mut(STRIDE)
            .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM_MAX })
            .collect();
        let headers = parts.chunks_mut(1).map(header).collect();
        Receives { headers, _parts: parts, buffers }
    }

    /// Receives what is there, up to `BATCH` datagrams, without waiting.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        // SAFETY: each header points to its part, and that to `DATAGRAM_MAX` bytes of `buffers` which no other part
        // points to (`new`); none of the vectors has been moved or grown since, and `&mut self` proves that there is no reader.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| last_error())
    }

    /// The datagram with this number of the last receive.
    pub(crate) fn datagram(&self, number: usize) -> &[u8] {
        &self.buffers[number * STRIDE..][..self.headers[number].msg_len as usize]
    }
}

/// A header for a datagram that lies in `parts`, to or from the peer of a connected socket.
fn header(parts: &mut [libc::iovec]) -> libc::mmsghdr {
    // SAFETY: all fields are numbers or addresses, for which zero is a value: no name, nothing besides the data.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = parts.as_mut_ptr();
    header.msg_hdr.msg_iovlen = parts.len() as _;
    header
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [a, b] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
        a.connect(b.local_addr().expect("bound")).expect("an address");
        b.connect(a.local_addr().expect("bound")).expect("an address");
        (a, b)
    }

    #[test]
    fn what_is_sent_arrives_with_its_head() {
        let (a, b) = pair();
        let payloads: Vec<Vec<u8>> = (0..BATCH + 3).map(|n| vec![n as u8; n * 20]).collect();
        let mut datagrams = payloads.iter().map(|payload| ([payload.len() as u8; 8], &payload[..]));
        let mut sends = Sends::new();
        assert_eq!(sends.send(a.as_fd(), &mut datagrams).count, BATCH);
        let mut receives = Receives::new();
        let mut seen = Vec::new();
        while seen.len() < BATCH {
            // Loopback delivers within the send.
            let count = receives.receive(b.as_fd()).expect("datagrams");
            seen.extend((0..count).map(|number| receives.datagram(number).to_vec()));
        }
        for (datagram, payload) in seen.iter().zip(&payloads) {
            assert_eq!(datagram[..HEAD_LEN], [payload.len() as u8; 8]);
            assert_eq!(&datagram[HEAD_LEN..], payload);
        }
        assert_eq!(receives.receive(b.as_fd()), Err(Errno::AGAIN));
    }

    #[test]
    fn the_longest_datagram_fits_and_a_longer_one_is_refused() {
        let (a, b) = pair();
        let longest = vec![1; 65_507 - HEAD_LEN];
        let mut sends = Sends::new();
        assert_eq!(sends.send(a.as_fd(), [([2; 8], &longest[..])].into_iter()).count, 1);
        let mut receives = Receives::new();
        assert_eq!(receives.receive(b.as_fd()), Ok(1));
        assert_eq!(receives.datagram(0).len(), 65_507);
        let longer = vec![1; longest.len() + 1];
        let sent = sends.send(a.as_fd(), [([2; 8], &longer[..])].into_iter());
        assert_eq!((sent.count, sent.error), (0, Some(Errno::MSGSIZE)));
    }
}
