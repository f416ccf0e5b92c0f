//! Timestamps of the kernel for received data: SO_TIMESTAMPNS of socket(7), as control messages of a multishot
//! `recvmsg`.
//!
//! Where one receive brings several segments, the time is that of the last one (`tcp_update_recv_tstamps` of
//! net/ipv4/tcp.c): a reply is never reported earlier than it was whole.
//!
//! With `unsafe`: setting the option, and the description that the kernel reads.
#![expect(unsafe_code, reason = "setsockopt, and a description that io_uring points to")]

use super::GROUP;
use crate::types::clock;
use io_uring::types::{Fixed, RecvMsgOut};
use io_uring::{opcode, squeue};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The state for receives with timestamps.
pub(super) struct Stamps {
    /// Room for a receive's control data.
    header: libc::msghdr,
    /// At the latest look: CLOCK_MONOTONIC, and by how much CLOCK_REALTIME, which stamps are in, was ahead of it.
    now_ns: u64,
    ahead_ns: u64,
}

/// `struct cmsghdr` and a `struct timespec`, both of two words (on 64-bit machines).
const CONTROL_LEN: usize = size_of::<libc::cmsghdr>() + size_of::<libc::timespec>();

impl Stamps {
    /// For connections that bring times.
    pub(super) fn new(sockets: &[OwnedFd]) -> io::Result<Stamps> {
        sockets.iter().try_for_each(ask)?;
        // SAFETY: all zeros is a msghdr: no name, no vector, no flags.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_controllen = CONTROL_LEN;
        Ok(Stamps { header, now_ns: 0, ahead_ns: 0 })
    }

    /// A receive of everything that comes. The kernel reads the description while the entry is submitted.
    pub(super) fn receive(&self, connection: usize) -> squeue::Entry {
        opcode::RecvMsgMulti::new(Fixed(connection as u32), &raw const self.header, GROUP).build()
    }

    /// Reads both clocks, so that `split` can tell the one's time from the other's.
    pub(super) fn look(&mut self) {
        let real = clock_gettime(ClockId::Realtime);
        self.now_ns = clock::now_ns();
        self.ahead_ns = (real.tv_sec as u64 * 1_000_000_000 + real.tv_nsec as u64).wrapping_sub(self.now_ns);
    }

    /// The content of a filled buffer: bytes (none at the end of the connection), and the time at which they came, by
    /// CLOCK_MONOTONIC; a step of the real-time clock since must not put it into the future.
    pub(super) fn split<'b>(&self, buffer: &'b [u8]) -> (&'b [u8], Option<u64>) {
        let Ok(message) = RecvMsgOut::parse(buffer, &self.header) else { return (&[], None) };
        let stamp_ns = stamp_ns(message.control_data());
        let at_ns = stamp_ns.map(|stamp_ns| stamp_ns.wrapping_sub(self.ahead_ns).min(self.now_ns));
        // What came lies at the end.
        (&buffer[buffer.len() - message.payload_data().len()..], at_ns)
    }
}

/// From now on, or from a little later, the kernel notes when it receives something for this socket.
pub(super) fn ask(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that outlives the call, and its length is passed.
    let outcome = unsafe {
        let (value, len) = ((&raw const on).cast(), size_of::<libc::c_int>() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, value, len)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The time in a control message of SO_TIMESTAMPNS.
fn stamp_ns(control: &[u8]) -> Option<u64> {
    let (_, time) = control.split_at_checked(size_of::<libc::cmsghdr>())?;
    let word = |at: usize| Some(u64::from_ne_bytes(time.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    Some(word(0)? * 1_000_000_000 + word(1)?)
}
