//! Many datagrams in one system call: recvmmsg(2) and sendmmsg(2), and in each of their messages several datagrams of one
//! peer and length, coalesced by the kernel when they arrive together (UDP_GRO), and cut by it when they are sent
//! (UDP_SEGMENT); both: udp(7).
//!
//! With `unsafe`: the kernel gets addresses of buffers and of control messages.
#![expect(unsafe_code, reason = "system calls that take tables of addresses")]

use std::io::IoSlice;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use libc::{c_int, cmsghdr, iovec, mmsghdr, msghdr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;

/// Messages of one call: enough that its cost is shared, and few enough that what is received is still in the cache when
/// it is read.
pub const MESSAGES_MAX: usize = 16;
/// The longest datagram of UDP.
const DATAGRAM_MAX: usize = 64 * 1024;
/// An odd number of cache lines: buffers a power of two apart would compete for the same few sets of the cache.
const STRIDE: usize = DATAGRAM_MAX + 64;
/// Datagrams that the kernel cuts from one message: UDP_MAX_SEGMENTS of the kernels that have the fewest.
const SEGMENTS_MAX: usize = 64;
/// Bytes of all of them: an IP packet of 64 KiB without its headers, which may have options.
const SEGMENTS_LEN_MAX: usize = 65_000;

/// Control messages of one message: one number, which takes three words with its header.
type Control = [u64; 4];

/// Datagrams of one peer that have arrived together.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedMessage {
    /// Bytes of all of them.
    pub len: usize,
    /// The peer.
    pub from: SocketAddr,
    /// Bytes of each but the last, which may be shorter.
    pub segment_len: usize,
}

/// Received messages.
#[derive(Debug, Default)]
pub struct DatagramBatch {
    /// A part of [`STRIDE`] bytes for each message; empty before the first use.
    buffers: Box<[u8]>,
    messages: Vec<ReceivedMessage>,
}

impl DatagramBatch {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// A message and its bytes.
    pub fn message(&self, number: usize) -> (ReceivedMessage, &[u8]) {
        let message = self.messages[number];
        (message, &self.buffers[number * STRIDE..][..message.len])
    }

    /// Receives messages one by one until `receive` fails; its error if there is none.
    pub(crate) fn fill(
        &mut self,
        mut receive: impl FnMut(&mut [u8]) -> Result<ReceivedMessage, Errno>,
    ) -> Result<(), Errno> {
        self.begin();
        for buffer in self.buffers.chunks_mut(STRIDE) {
            match receive(buffer) {
                Ok(received) => self.messages.push(received),
                Err(error) if self.messages.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.messages.clear();
        if self.buffers.is_empty() {
            self.buffers = vec![0; MESSAGES_MAX * STRIDE].into_boxed_slice();
        }
    }

    /// Receives what has arrived at a socket, without waiting, in place of what is here.
    ///
    /// # Errors
    /// The kernel's; `AGAIN` if there is nothing.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        self.begin();
        // SAFETY: zero is a value for each of their fields.
        let (mut names, mut headers, mut parts) = unsafe {
            zeroed::<([sockaddr_storage; MESSAGES_MAX], [mmsghdr; MESSAGES_MAX], [iovec; MESSAGES_MAX])>()
        };
        let mut controls = [Control::default(); MESSAGES_MAX];
        let places = self.buffers.chunks_mut(STRIDE).zip(&mut parts).zip(&mut names).zip(&mut controls);
        for (header, (((buffer, part), name), control)) in headers.iter_mut().zip(places) {
            *part = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM_MAX };
            let header = &mut header.msg_hdr;
            (header.msg_name, header.msg_namelen) =
                ((&raw mut *name).cast(), size_of::<sockaddr_storage>() as socklen_t);
            (header.msg_iov, header.msg_iovlen) = (&raw mut *part, 1);
            (header.msg_control, header.msg_controllen) =
                ((&raw mut *control).cast(), size_of::<Control>() as _);
        }
        // SAFETY: each header points to a name, to one part, which is a buffer of its own of `DATAGRAM_MAX` bytes, and
        // to a control buffer, each with its length; all live longer than the call, and nothing else refers to them.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                MESSAGES_MAX as u32,
                libc::MSG_DONTWAIT,
                null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| last_error())?;
        for (header, name) in headers[..count].iter().zip(&names) {
            let len = header.msg_len as usize;
            let segment_len = segment_len(&header.msg_hdr).filter(|&segment| segment > 0).unwrap_or(len);
            self.messages.push(ReceivedMessage {
                len,
                from: address(name).ok_or(Errno::INVAL)?,
                segment_len,
            });
        }
        Ok(())
    }
}

/// Lets the kernel coalesce what arrives together from one peer.
///
/// # Errors
/// If the kernel is too old for it.
pub fn coalesce(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let on: c_int = 1;
    // SAFETY: the option is a `c_int`, and the kernel reads it within the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            (&raw const on).cast(),
            size_of::<c_int>() as socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// The length in the control message of UDP_GRO, if there is one.
fn segment_len(header: &msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled in the header and its control buffer, which is aligned for a `cmsghdr`; a message
    // with this type has a `c_int` behind it.
    unsafe {
        let message: *const cmsghdr = libc::CMSG_FIRSTHDR(header);
        let message = message.as_ref()?;
        let is_ours = message.cmsg_level == libc::SOL_UDP && message.cmsg_type == libc::UDP_GRO;
        is_ours.then(|| libc::CMSG_DATA(message).cast::<c_int>().read_unaligned() as usize)
    }
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// `None`: the peer of the socket.
    pub to: Option<SocketAddr>,
    /// The bytes of its datagrams, one after the other.
    pub parts: &'a [IoSlice<'a>],
    /// Bytes of each datagram but the last, which may be shorter; `None` for a single one.
    pub segment_len: Option<u16>,
}

/// Sends at most [`MESSAGES_MAX`] messages; returns how many the kernel took, each whole.
///
/// # Errors
/// Why it did not take the first one.
pub fn send(socket: BorrowedFd<'_>, messages: &[Message<'_>]) -> Result<usize, Errno> {
    let count = messages.len().min(MESSAGES_MAX);
    // SAFETY: zero is a value for each of their fields.
    let (mut names, mut headers) =
        unsafe { zeroed::<([sockaddr_storage; MESSAGES_MAX], [mmsghdr; MESSAGES_MAX])>() };
    let mut controls = [Control::default(); MESSAGES_MAX];
    let places = headers.iter_mut().zip(&mut names).zip(&mut controls);
    for (message, ((header, name), control)) in messages.iter().zip(places) {
        let header = &mut header.msg_hdr;
        if let Some(to) = message.to {
            let len = write_address(name, to);
            (header.msg_name, header.msg_namelen) = ((&raw mut *name).cast(), len);
        }
        // `IoSlice` has the layout of an `iovec`, and the kernel does not write to what it sends.
        let parts = message.parts;
        (header.msg_iov, header.msg_iovlen) = (parts.as_ptr().cast_mut().cast(), parts.len() as _);
        if let Some(len) = message.segment_len {
            set_segment_len(header, control, len);
        }
    }
    // SAFETY: the first `count` headers point to names and control messages that live longer than the call, and to the
    // parts of `messages`, each with its length.
    let sent = unsafe {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, flags)
    };
    usize::try_from(sent).map_err(|_| last_error())
}

/// Lets the kernel cut the message of `header` into datagrams of this length. `control` must stay until it is sent.
fn set_segment_len(header: &mut msghdr, control: &mut Control, len: u16) {
    header.msg_control = (&raw mut *control).cast();
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

/// How many of these datagrams, of which the peers and lengths are given, fit into one message: those with the peer and
/// the length of the first, and a shorter one at the end.
pub fn count_alike(mut datagrams: impl Iterator<Item = (Option<SocketAddr>, usize)>) -> usize {
    let Some((to, len)) = datagrams.next() else { return 0 };
    let most = SEGMENTS_LEN_MAX.checked_div(len).unwrap_or(1).clamp(1, SEGMENTS_MAX);
    let mut count = 1;
    for (other, other_len) in datagrams.take(most - 1).filter(|_| len > 0) {
        let is_last = (1..len).contains(&other_len);
        if other != to || (other_len != len && !is_last) {
            break;
        }
        count += 1;
        if is_last {
            break;
        }
    }
    count
}

/// Writes an address for the kernel; returns its length.
fn write_address(storage: &mut sockaddr_storage, address: SocketAddr) -> socklen_t {
    let place = &raw mut *storage;
    let len = match address {
        SocketAddr::V4(address) => {
            let raw = sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a `sockaddr_storage` has the size and alignment for each kind of address.
            unsafe { place.cast::<sockaddr_in>().write(raw) };
            size_of::<sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let raw = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<sockaddr_in6>().write(raw) };
            size_of::<sockaddr_in6>()
        }
    };
    len as socklen_t
}

fn address(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let place = &raw const *storage;
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: its family says that the kernel has written this kind of address, which fits into the storage.
            let raw = unsafe { place.cast::<sockaddr_in>().read() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { place.cast::<sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair(local: &str) -> Option<[UdpSocket; 2]> {
        let Ok(a) = UdpSocket::bind(local) else {
            assert!(local.starts_with('['), "{local}");
            return None;
        };
        let b = UdpSocket::bind(local).unwrap();
        coalesce(b.as_fd()).unwrap();
        Some([a, b])
    }

    /// All datagrams that have arrived, with the number of messages.
    fn all(socket: &UdpSocket, from: SocketAddr) -> (usize, Vec<Vec<u8>>) {
        let (mut arrivals, mut messages, mut seen) = (DatagramBatch::default(), 0, Vec::new());
        while arrivals.receive(socket.as_fd()).is_ok() {
            messages += arrivals.count();
            for number in 0..arrivals.count() {
                let (received, bytes) = arrivals.message(number);
                assert_eq!(received.from, from);
                seen.extend(bytes.chunks(received.segment_len).map(<[u8]>::to_vec));
            }
        }
        (messages, seen)
    }

    fn check(local: &str) {
        let Some([a, b]) = pair(local) else { return };
        let (from, to) = (a.local_addr().unwrap(), b.local_addr().unwrap());
        let texts: Vec<Vec<u8>> = (0..5).map(|number| vec![number; 100]).chain([vec![9; 7]]).collect();
        let pieces: Vec<IoSlice<'_>> = texts.iter().map(|text| IoSlice::new(text)).collect();
        let alone = [IoSlice::new(b"alone")];
        let messages = [(&pieces[..], Some(100)), (&alone, None)];
        let messages = messages.map(|(parts, segment_len)| Message { to: Some(to), parts, segment_len });
        assert_eq!(send(a.as_fd(), &messages), Ok(2));
        assert_eq!(all(&b, from), (2, [&texts[..], &[b"alone".to_vec()]].concat()));
        // More messages than a call takes.
        let many = [messages[1]; MESSAGES_MAX + 3];
        assert_eq!(send(a.as_fd(), &many), Ok(MESSAGES_MAX));
        assert_eq!(send(a.as_fd(), &many[..5]), Ok(5));
        assert_eq!(all(&b, from).0, MESSAGES_MAX + 5);
        // To the peer of a connected socket, which does not coalesce.
        b.connect(from).unwrap();
        assert_eq!(send(b.as_fd(), &[Message { to: None, parts: &pieces, segment_len: Some(100) }]), Ok(1));
        assert_eq!(a.recv(&mut [0; 200]).unwrap(), 100);
    }

    #[test]
    fn datagrams_are_cut_and_coalesced_where_they_were_cut() {
        check("127.0.0.1:0");
        check("[::1]:0");
    }

    #[test]
    fn datagrams_of_one_length_and_a_shorter_one_go_together() {
        let check = |lens: &[usize], expected: usize| {
            let mut to = vec![None; lens.len()];
            let count = |to: &[_]| count_alike(to.iter().copied().zip(lens.iter().copied()));
            assert_eq!(count(&to), expected, "{lens:?}");
            if let Some(last) = expected.checked_sub(1) {
                to[last] = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
                assert_eq!(count(&to), last.max(1), "{lens:?}");
            }
        };
        check(&[], 0);
        check(&[5], 1);
        check(&[5, 5, 5, 3, 5], 4);
        check(&[5, 6], 1);
        check(&[5, 0, 5], 1);
        check(&[0, 0], 1);
        check(&[65_507, 5], 1);
        check(&[40_000, 40_000], 1);
        check(&[1400; 100], 46);
        check(&[13; 100], 64);
    }

    #[test]
    fn a_datagram_without_content_is_received() {
        let [a, b] = pair("127.0.0.1:0").expect("IPv4");
        a.send_to(b"", b.local_addr().unwrap()).unwrap();
        let mut arrivals = DatagramBatch::default();
        arrivals.receive(b.as_fd()).unwrap();
        assert_eq!((arrivals.count(), arrivals.message(0).1), (1, &b""[..]));
        assert_eq!(arrivals.receive(b.as_fd()), Err(Errno::AGAIN));
        assert_eq!(arrivals.count(), 0);
    }

    #[test]
    fn more_than_the_kernel_cuts_is_refused() {
        let [a, b] = pair("127.0.0.1:0").expect("IPv4");
        let bytes = [0];
        let parts = [IoSlice::new(&bytes); 1000];
        let message = Message { to: b.local_addr().ok(), parts: &parts, segment_len: Some(1) };
        assert_eq!(send(a.as_fd(), &[message]), Err(Errno::INVAL));
    }
}
