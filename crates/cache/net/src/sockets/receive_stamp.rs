//! The kernel's receive stamps: the wall-clock time at which the newest bytes of a receive came (SO_TIMESTAMPNS, socket(7)).
//!
//! With `unsafe`: recvmsg(2) takes the addresses of a buffer and of a control message.
#![expect(unsafe_code, reason = "a system call that takes addresses, and the message that it writes")]

use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{cmsghdr, iovec, msghdr, timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::sockets::socket_option;

/// Room for the one control message that is expected, with its header. Whatever else the kernel would report does not
/// fit, and is dropped.
type Control = [u64; 4];

const _: () = assert!(size_of::<cmsghdr>() + size_of::<timespec>() <= size_of::<Control>());

/// Has the kernel report stamps with each receive from this socket, or no longer. Only for TCP: with a buffer for control
/// messages, a unix socket would be given its peer's descriptors, and a socket whose keys the kernel has the records of TLS
/// that are no content.
pub(crate) fn set_stamps(socket: impl AsFd, on: bool) -> Result<(), Errno> {
    socket_option::set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &i32::from(on).to_ne_bytes())
}

/// While it is open, the kernel stamps all packets of this host. Without it, the first connection with stamps turns that on
/// and the last one off, and each time the kernel changes its own code on all CPUs.
pub(crate) fn keep_stamping() -> Result<OwnedFd, Errno> {
    let open = |family| socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let socket = open(AddressFamily::INET).or_else(|_| open(AddressFamily::INET6))?;
    set_stamps(&socket, true)?;
    Ok(socket)
}

/// Receives without waiting. The stamp is in nanoseconds since 1970; there is none at the end of the input, and where the
/// kernel made none.
pub(crate) fn receive(socket: BorrowedFd<'_>, room: &mut [u8]) -> Result<(usize, Option<i64>), Errno> {
    // SAFETY: zero is a value for each of its fields.
    let mut header: msghdr = unsafe { zeroed() };
    let mut part = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = Control::default();
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = ((&raw mut control).cast(), size_of::<Control>() as _);
    // SAFETY: the header points to one part, which is `room`, and to a control buffer, each with its length; all live
    // longer than the call, and nothing else refers to them. The descriptor is borrowed, so it is open.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    match usize::try_from(received) {
        Ok(received) => Ok((received, stamp(&header).filter(|_| received > 0))),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

fn stamp(header: &msghdr) -> Option<i64> {
    // SAFETY: the kernel has filled in the header and its control buffer, which is aligned for a `cmsghdr`; a message of
    // this type and length has a `timespec` behind it.
    let time = unsafe {
        let message: *const cmsghdr = libc::CMSG_FIRSTHDR(header);
        let message = message.as_ref()?;
        let is_whole = message.cmsg_len as usize >= libc::CMSG_LEN(size_of::<timespec>() as u32) as usize;
        let is_stamp =
            message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_TIMESTAMPNS && is_whole;
        is_stamp.then(|| libc::CMSG_DATA(message).cast::<timespec>().read_unaligned())?
    };
    Some(time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;
    use crate::clock::wall_us;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a client");
        (client, listener.accept().expect("a connection").0)
    }

    /// Sends until a receive has a stamp: the kernel begins to stamp a moment after it was asked.
    fn receive_stamped(client: &mut TcpStream, served: &TcpStream) -> (usize, i64) {
        let mut buffer = [0; 100];
        for _ in 0..100_000 {
            client.write_all(b"hello").expect("send");
            match receive(served.as_fd(), &mut buffer) {
                Ok((received, Some(stamp))) => return (received, stamp),
                Ok((_, None)) | Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no stamp");
    }

    #[test]
    fn a_receive_has_the_time_at_which_its_bytes_came() {
        let (mut client, served) = pair();
        let _keeper = keep_stamping().expect("a socket");
        let before = wall_us();
        set_stamps(&served, true).expect("an option of every kernel");
        let (received, stamp) = receive_stamped(&mut client, &served);
        assert!(received >= 5);
        // The wall clock of a test machine may be set meanwhile, but not by a minute.
        assert!((stamp / 1000 - before).abs() < 60_000_000, "{stamp} and {before} µs");
        set_stamps(&served, false).expect("an option of every kernel");
        client.write_all(b"x").expect("send");
        let mut buffer = [0; 100];
        // Loopback: what was sent has arrived.
        assert!(matches!(receive(served.as_fd(), &mut buffer), Ok((1.., None))));
    }

    #[test]
    fn the_end_of_the_input_and_an_empty_socket_have_no_stamp() {
        let (client, served) = pair();
        set_stamps(&served, true).expect("an option of every kernel");
        let mut buffer = [0; 10];
        assert_eq!(receive(served.as_fd(), &mut buffer), Err(Errno::AGAIN));
        client.shutdown(Shutdown::Write).expect("an open connection");
        assert_eq!(receive(served.as_fd(), &mut buffer), Ok((0, None)));
    }
}
