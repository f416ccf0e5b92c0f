//! Several datagrams of one peer in one system call: coalesced by the kernel when they arrive together (UDP_GRO), and
//! cut by it from one piece of memory when they are sent (UDP_SEGMENT). Both: udp(7).
//!
//! With `unsafe`: the kernel gets addresses of buffers and of control messages.
#![expect(unsafe_code, reason = "system calls that take tables of addresses")]

use std::io::IoSlice;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, cmsghdr, iovec, msghdr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;

/// Datagrams that the kernel cuts from one piece: UDP_MAX_SEGMENTS of the kernels that have the fewest.
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Bytes of all of them: an IP packet of 64 KiB without its headers, which may have options.
pub(crate) const SEGMENTS_LEN_MAX: usize = 65_000;

/// Control messages of one call: one number, which takes three words with its header.
type Control = [u64; 4];

/// Datagrams that have arrived together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes of all of them.
    pub(crate) len: usize,
    pub(crate) from: SocketAddr,
    /// Bytes of each but the last, which may be shorter.
    pub(crate) segment_len: usize,
}

/// Lets the kernel coalesce what arrives together from one peer.
pub(crate) fn coalesce(socket: BorrowedFd<'_>) -> Result<(), Errno> {
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

/// Receives what has arrived from one peer, without waiting. `buffer` must hold the longest datagram.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received, Errno> {
    // SAFETY: zero is a value for each of their fields.
    let (mut name, mut header) = unsafe { (zeroed::<sockaddr_storage>(), zeroed::<msghdr>()) };
    let mut control: Control = [0; 4];
    let mut part = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<sockaddr_storage>() as socklen_t;
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the header points to a name, to one part, which is `buffer`, and to a control buffer, each with its
    // length; all live longer than the call, and nothing else refers to them.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| last_error())?;
    let segment_len = segment_len(&header).filter(|&segment| segment > 0).unwrap_or(len);
    Ok(Received { len, from: address(&name).ok_or(Errno::INVAL)?, segment_len })
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

/// Sends `pieces` as datagrams of `segment_len` bytes, of which the last may be shorter; to the peer of the socket if
/// `to` is `None`. All or none of them are sent.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    to: Option<SocketAddr>,
    pieces: &[IoSlice<'_>],
    segment_len: u16,
) -> Result<(), Errno> {
    // SAFETY: zero is a value for each of its fields.
    let mut header = unsafe { zeroed::<msghdr>() };
    let mut name = to.map(raw_address);
    if let Some((name, len)) = &mut name {
        (header.msg_name, header.msg_namelen) = ((&raw mut *name).cast(), *len);
    }
    // `IoSlice` has the layout of an `iovec`, and the kernel does not write to what it sends.
    (header.msg_iov, header.msg_iovlen) = (pieces.as_ptr().cast_mut().cast(), pieces.len() as _);
    let mut control: Control = [0; 4];
    header.msg_control = control.as_mut_ptr().cast::<c_void>();
    // SAFETY: these compute lengths only.
    let (space, len) = unsafe { (libc::CMSG_SPACE(2), libc::CMSG_LEN(2)) };
    header.msg_controllen = space as _;
    // SAFETY: the control buffer has room for a header and a number (`space` is 24 of its 32 bytes), is aligned for
    // it, and lives longer than the call, as do the name and the pieces.
    let sent = unsafe {
        let message = &mut *libc::CMSG_FIRSTHDR(&raw const header);
        (message.cmsg_level, message.cmsg_type) = (libc::SOL_UDP, libc::UDP_SEGMENT);
        message.cmsg_len = len as _;
        libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment_len);
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    if sent >= 0 { Ok(()) } else { Err(last_error()) }
}

/// How many of these datagrams the kernel can cut from one piece: those with the length of the first, and a shorter one
/// at the end.
pub(crate) fn count_alike(datagrams: &[IoSlice<'_>]) -> usize {
    let len = datagrams[0].len();
    if len == 0 {
        return 1;
    }
    let most = (SEGMENTS_LEN_MAX / len).clamp(1, SEGMENTS_MAX).min(datagrams.len());
    let alike = datagrams[..most].iter().take_while(|datagram| datagram.len() == len).count();
    match datagrams[..most].get(alike) {
        Some(last) if (1..len).contains(&last.len()) => alike + 1,
        _ => alike,
    }
}

fn raw_address(address: SocketAddr) -> (sockaddr_storage, socklen_t) {
    // SAFETY: zero is a value for each of its fields.
    let mut storage = unsafe { zeroed::<sockaddr_storage>() };
    let place = &raw mut storage;
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
    (storage, len as socklen_t)
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

    fn check(local: &str) {
        let Ok(a) = UdpSocket::bind(local) else {
            assert!(local.starts_with('['), "{local}");
            return;
        };
        let b = UdpSocket::bind(local).unwrap();
        coalesce(b.as_fd()).unwrap();
        let (from, to) = (a.local_addr().unwrap(), b.local_addr().unwrap());
        let texts: Vec<Vec<u8>> = (0..5).map(|number| vec![number; 100]).chain([vec![9; 7]]).collect();
        let pieces: Vec<IoSlice<'_>> = texts.iter().map(|text| IoSlice::new(text)).collect();
        send(a.as_fd(), Some(to), &pieces, 100).unwrap();
        a.send_to(b"alone", to).unwrap();
        let mut buffer = vec![0; 1 << 16];
        let mut seen: Vec<Vec<u8>> = Vec::new();
        while let Ok(received) = receive(b.as_fd(), &mut buffer) {
            assert_eq!(received.from, from);
            seen.extend(buffer[..received.len].chunks(received.segment_len).map(<[u8]>::to_vec));
        }
        assert_eq!(seen, [&texts[..], &[b"alone".to_vec()]].concat());
        // To the peer of a connected socket, which does not coalesce.
        b.connect(from).unwrap();
        send(b.as_fd(), None, &pieces, 100).unwrap();
        assert_eq!(a.recv(&mut buffer).unwrap(), 100);
    }

    #[test]
    fn datagrams_are_cut_and_coalesced_where_they_were_cut() {
        check("127.0.0.1:0");
        check("[::1]:0");
    }

    #[test]
    fn datagrams_of_one_length_and_a_shorter_one_go_together() {
        let check = |lens: &[usize], expected: usize| {
            let bytes = vec![0; 65_507];
            let datagrams: Vec<_> = lens.iter().map(|len| IoSlice::new(&bytes[..*len])).collect();
            assert_eq!(count_alike(&datagrams), expected, "{lens:?}");
        };
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
        let [a, b] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        coalesce(b.as_fd()).unwrap();
        a.send_to(b"", b.local_addr().unwrap()).unwrap();
        let received = receive(b.as_fd(), &mut [0; 100]).unwrap();
        assert_eq!((received.len, received.segment_len), (0, 0));
        assert_eq!(receive(b.as_fd(), &mut [0; 100]).unwrap_err(), Errno::AGAIN);
    }

    #[test]
    fn more_than_the_kernel_cuts_is_refused() {
        let [a, b] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let bytes = [0; 1000];
        let result = send(a.as_fd(), b.local_addr().ok(), &[IoSlice::new(&bytes)], 1);
        assert_eq!(result, Err(Errno::INVAL), "1000 datagrams of a byte");
    }
}
