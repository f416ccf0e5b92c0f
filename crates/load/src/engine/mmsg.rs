//! Many datagrams in one system call: `sendmmsg` and `recvmmsg`, and in each of their messages several datagrams of one
//! length, which the kernel cuts (UDP_SEGMENT) or has coalesced (UDP_GRO); both: udp(7).
//!
//! With `unsafe`: the kernel gets the addresses of datagrams and of control messages.
#![expect(unsafe_code, reason = "system calls that take tables of addresses")]

use libc::{c_int, cmsghdr, iovec, mmsghdr, socklen_t};
use protocol::udp::HEAD_LEN;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// Datagrams of one send, and messages of one receive: enough that the cost of the call is shared, and few enough that
/// those which it receives are still in the cache when they are read.
pub(crate) const BATCH: usize = 32;
/// The longest datagram of IP.
const DATAGRAM_MAX: usize = 64 * 1024;
/// Bytes of the datagrams that the kernel cuts from one message: an IP packet without its headers.
const SEGMENTS_LEN_MAX: usize = 65_000;
/// An odd number of cache lines: buffers a power of two apart would compete for the same few sets of the cache.
const STRIDE: usize = DATAGRAM_MAX + 64;

/// Control messages of one call: one number, which takes three words with its header.
type Control = [u64; 4];

/// A table of datagrams to send, each a head and a payload.
pub(crate) struct Sends {
    headers: Vec<mmsghdr>,
    controls: Vec<Control>,
    parts: Vec<[iovec; 2]>,
    heads: Vec<[u8; HEAD_LEN]>,
    /// Datagrams of each message.
    counts: Vec<usize>,
    /// The kernel cuts messages: not on every route.
    can_cut: bool,
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
        let part = iovec { iov_base: null_mut(), iov_len: 0 };
        Sends {
            headers: Vec::with_capacity(BATCH),
            controls: vec![[0; 4]; BATCH],
            parts: vec![[part; 2]; BATCH],
            heads: vec![[0; HEAD_LEN]; BATCH],
            counts: Vec::with_capacity(BATCH),
            can_cut: true,
        }
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
            *first = iovec { iov_base: self.heads[count].as_mut_ptr().cast(), iov_len: HEAD_LEN };
            *second = iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
            count += 1;
        }
        self.group(count);
        // SAFETY: the headers point to parts of ours and to control messages of ours (`group`), and the parts were just
        // pointed to heads of ours and to payloads that outlive `datagrams`' items (`'b`), with their lengths. The
        // kernel reads them within the call; it writes to the headers only.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as u32,
                libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(messages) => Sent { count: self.counts[..messages].iter().sum(), error: None },
            Err(_) if self.counts.first().is_some_and(|count| *count > 1) => {
                // The caller comes again, with messages of one datagram each.
                self.can_cut = false;
                Sent { count: 0, error: None }
            }
            Err(_) => Sent { count: 0, error: Some(last_error()) },
        }
    }

    /// Makes messages of the first `count` datagrams: of neighbours with one length, and a shorter one at their end.
    fn group(&mut self, count: usize) {
        self.headers.clear();
        self.counts.clear();
        let mut first = 0;
        while first < count {
            let together = if self.can_cut { count_alike(&self.parts[first..count]) } else { 1 };
            let mut header = header(&mut self.parts[first..first + together]);
            if together > 1 {
                let control = &mut self.controls[self.headers.len()];
                set_segment_len(&mut header.msg_hdr, control, len(&self.parts[first]) as u16);
            }
            self.headers.push(header);
            self.counts.push(together);
            first += together;
        }
    }
}

fn len(parts: &[iovec; 2]) -> usize {
    parts[0].iov_len + parts[1].iov_len
}

/// How many of these datagrams can be one message.
fn count_alike(datagrams: &[[iovec; 2]]) -> usize {
    let first = len(&datagrams[0]);
    let most = (SEGMENTS_LEN_MAX / first).clamp(1, datagrams.len());
    let alike = datagrams[..most].iter().take_while(|datagram| len(datagram) == first).count();
    match datagrams[..most].get(alike) {
        Some(last) if len(last) < first => alike + 1,
        _ => alike,
    }
}

/// Room for the messages of one receive.
pub(crate) struct Receives {
    headers: Vec<mmsghdr>,
    controls: Vec<Control>,
    /// Where the headers point to, which point into `buffers`.
    _parts: Vec<[iovec; 1]>,
    buffers: Vec<u8>,
}

impl Receives {
    pub(crate) fn new() -> Receives {
        let mut buffers = vec![0_u8; BATCH * STRIDE];
        let mut parts: Vec<[iovec; 1]> = buffers
            .chunks_mut(STRIDE)
            .map(|buffer| [iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM_MAX }])
            .collect();
        let mut controls = vec![[0; 4]; BATCH];
        let mut headers: Vec<mmsghdr> = parts.chunks_mut(1).map(header).collect();
        for (header, control) in headers.iter_mut().zip(&mut controls) {
            header.msg_hdr.msg_control = std::ptr::from_mut::<Control>(control).cast();
        }
        Receives { headers, controls, _parts: parts, buffers }
    }

    /// Lets the kernel coalesce what arrives together at this socket. Older ones do not.
    pub(crate) fn prepare(socket: BorrowedFd<'_>) {
        let on: c_int = 1;
        // SAFETY: the option is a `c_int`, and the kernel reads it within the call.
        let _coalesced = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_GRO,
                (&raw const on).cast(),
                size_of::<c_int>() as socklen_t,
            )
        };
    }

    /// Receives what is there, up to `BATCH` messages, without waiting. Returns how many.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        for header in &mut self.headers {
            // The kernel has written the length of what it left there.
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: each header points to its part, that to `DATAGRAM_MAX` bytes of `buffers` which no other part points
        // to, and to its own control messages with their length (`new`); none of the vectors has been moved or grown
        // since, and `&mut self` proves that there is no reader.
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

    /// The datagrams of this message of the last receive.
    pub(crate) fn datagrams(&self, message: usize) -> impl Iterator<Item = &[u8]> {
        let len = self.headers[message].msg_len as usize;
        let bytes = &self.buffers[message * STRIDE..][..len];
        bytes.chunks(segment_len(&self.headers[message], &self.controls[message]).unwrap_or(len).max(1))
    }
}

/// The length of coalesced datagrams in a received control message, if there is one.
fn segment_len(header: &mmsghdr, control: &Control) -> Option<usize> {
    if header.msg_hdr.msg_controllen < size_of::<cmsghdr>() as _ {
        return None;
    }
    // SAFETY: the kernel has written a whole message there, its header first, for which the alignment is right, and
    // with this type a `c_int` behind it.
    unsafe {
        let message = &*std::ptr::from_ref::<Control>(control).cast::<cmsghdr>();
        let is_ours = message.cmsg_level == libc::SOL_UDP && message.cmsg_type == libc::UDP_GRO;
        is_ours.then(|| libc::CMSG_DATA(message).cast::<c_int>().read_unaligned() as usize)
    }
}

/// Lets the kernel cut the message of `header` into datagrams of this length. `control` must stay until it is sent.
fn set_segment_len(header: &mut libc::msghdr, control: &mut Control, len: u16) {
    header.msg_control = std::ptr::from_mut::<Control>(control).cast();
    // SAFETY: these compute lengths only.
    let (space, message_len) = unsafe { (libc::CMSG_SPACE(2), libc::CMSG_LEN(2)) };
    header.msg_controllen = space as _;
    // SAFETY: `control` is aligned for a header and has room for one and a number (24 of 32 bytes).
    unsafe {
        let message = &mut *libc::CMSG_FIRSTHDR(header);
        (message.cmsg_level, message.cmsg_type) = (libc::SOL_UDP, libc::UDP_SEGMENT);
        message.cmsg_len = message_len as _;
        libc::CMSG_DATA(message).cast::<u16>().write_unaligned(len);
    }
}

/// A header for datagrams that lie in `parts`, to or from the peer of a connected socket.
fn header<const N: usize>(parts: &mut [[iovec; N]]) -> mmsghdr {
    // SAFETY: all fields are numbers or addresses, for which zero is a value: no name, nothing besides the data.
    let mut header: mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = parts.as_mut_ptr().cast();
    header.msg_hdr.msg_iovlen = (parts.len() * N) as _;
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
            seen.extend((0..count).flat_map(|number| receives.datagrams(number)).map(<[u8]>::to_vec));
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
        assert_eq!(receives.datagrams(0).map(<[u8]>::len).collect::<Vec<_>>(), [65_507]);
        let longer = vec![1; longest.len() + 1];
        let sent = sends.send(a.as_fd(), [([2; 8], &longer[..])].into_iter());
        assert_eq!((sent.count, sent.error), (0, Some(Errno::MSGSIZE)));
    }

    #[test]
    fn datagrams_of_one_length_travel_together() {
        let (a, b) = pair();
        Receives::prepare(b.as_fd());
        let lens = [100; 20].into_iter().chain([40, 100, 100, 7, 0, 0]);
        let payloads: Vec<Vec<u8>> = lens.enumerate().map(|(n, len)| vec![n as u8; len]).collect();
        let mut datagrams = payloads.iter().map(|payload| ([1; 8], &payload[..]));
        let mut sends = Sends::new();
        assert_eq!(sends.send(a.as_fd(), &mut datagrams).count, payloads.len());
        assert_eq!(sends.counts, [21, 3, 2]);
        let mut receives = Receives::new();
        assert_eq!(receives.receive(b.as_fd()), Ok(3));
        let seen =
            (0..3).flat_map(|message| receives.datagrams(message)).map(|datagram| &datagram[HEAD_LEN..]);
        assert_eq!(seen.collect::<Vec<_>>(), payloads);
        assert_eq!(receives.receive(b.as_fd()), Err(Errno::AGAIN));
    }
}
