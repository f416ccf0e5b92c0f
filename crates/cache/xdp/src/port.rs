//! A queue of an interface: the rings of its socket, and the frames that go round in them.
//!
//! A frame is in exactly one of five places: in the ring of frames to be filled, in that of received ones, with this process, in that
//! of frames to be sent, or in that of sent ones.
//!
//! With `unsafe`: a frame that a ring gives back becomes ours.
#![expect(unsafe_code, reason = "frames that come back from the kernel")]

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options, xdp_statistics,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use crate::attachment::Mode;
use crate::error::AttachError;
use crate::frame::{self, HEAD_MAX};
use crate::frames::{FRAME_LEN, FrameIndex, Frames};
use crate::links::FrameLinks;
use crate::rings::{Consumer, FramePart, Producer};

/// Entries of each ring: requests that wait while their worker does something else, and replies of a round.
const ENTRIES: u32 = 1024;
/// Half of them to receive, half to send. 4 MiB: what every process may lock by default is 8 MiB.
const FRAMES: u32 = 2 * ENTRIES;
/// The longest payload of a reply: what an Ethernet frame of 1,500 bytes has room for. Longer ones go by the kernel's socket, which cuts them.
const PAYLOAD_MAX: usize = 1500 - 40 - 8;
/// Calls in which the kernel takes the frames of a round: it takes 32 in each where it copies them.
const WAKES_MAX: usize = 2 * ENTRIES as usize / 32;

const _: () = assert!(PAYLOAD_MAX + HEAD_MAX <= FRAME_LEN);

/// What has happened at a port, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Frames that are no sound datagram for our address.
    pub refused: u64,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenDatagram {
    /// The sender.
    pub from: SocketAddr,
    /// Bytes of its payload.
    pub len: usize,
}

/// A queue of an interface.
pub struct Port {
    // Closed before the memory of its frames goes.
    socket: OwnedFd,
    to_fill: Producer<u64>,
    received: Consumer<FramePart>,
    to_send: Producer<FramePart>,
    sent: Consumer<u64>,
    frames: Frames,
    free: Vec<FrameIndex>,
    links: FrameLinks,
    counts: PortCounts,
    queue: u32,
    address: SocketAddr,
    copies_nothing: bool,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("queue", &self.queue)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Port {
    /// Opens the port of a queue, for datagrams to `address`.
    pub(crate) fn open(
        interface: u32,
        queue: u32,
        address: SocketAddr,
        mode: Mode,
    ) -> Result<Port, AttachError> {
        let failed = |what| move |error| AttachError::of(what, error);
        let (frames, mut free) = Frames::new(FRAMES).map_err(failed("make memory for frames"))?;
        let socket = socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(failed("make a socket for frames"))?;
        let memory = XdpUmemReg {
            addr: frames.start(),
            len: frames.len() as u64,
            chunk_size: FRAME_LEN as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        set_xdp_umem_reg(&socket, memory).map_err(|error| match error {
            Errno::NOBUFS => AttachError::NoMemory { needed: frames.len() },
            error => AttachError::of("register memory for frames", error),
        })?;
        let rings = failed("make rings");
        set_xdp_umem_fill_ring_size(&socket, ENTRIES).map_err(rings)?;
        set_xdp_umem_completion_ring_size(&socket, ENTRIES).map_err(rings)?;
        set_xdp_rx_ring_size(&socket, ENTRIES).map_err(rings)?;
        set_xdp_tx_ring_size(&socket, ENTRIES).map_err(rings)?;
        let at = xdp_mmap_offsets(&socket).map_err(rings)?;
        let mut to_fill = Producer::map(&socket, XDP_UMEM_PGOFF_FILL_RING, &at.fr, ENTRIES).map_err(rings)?;
        let sent = Consumer::map(&socket, XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr, ENTRIES).map_err(rings)?;
        let received = Consumer::map(&socket, XDP_PGOFF_RX_RING, &at.rx, ENTRIES).map_err(rings)?;
        let to_send = Producer::map(&socket, XDP_PGOFF_TX_RING, &at.tx, ENTRIES).map_err(rings)?;
        free.drain(..ENTRIES as usize).for_each(|frame| to_fill.push(frame.address()));
        to_fill.publish();
        let wanted = match mode {
            Mode::Auto => SocketAddrXdpFlags::empty(),
            Mode::Native | Mode::Generic => SocketAddrXdpFlags::XDP_COPY,
            Mode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        };
        let place = SocketAddrXdp::new(wanted | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, interface, queue);
        bind(&socket, &place).map_err(|error| match error {
            Errno::OPNOTSUPP if mode == Mode::ZeroCopy => AttachError::NoZeroCopy,
            Errno::BUSY => AttachError::Taken,
            error => AttachError::of("bind a socket to a queue", error),
        })?;
        let options = xdp_options(&socket).map_err(failed("ask how frames are carried"))?;
        let copies_nothing = options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let (links, counts) = (FrameLinks::new(), PortCounts::default());
        Ok(Port {
            socket,
            to_fill,
            received,
            to_send,
            sent,
            frames,
            free,
            links,
            counts,
            queue,
            address,
            copies_nothing,
        })
    }

    /// Its number at the interface.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether the driver moves frames without a copy.
    pub fn copies_nothing(&self) -> bool {
        self.copies_nothing
    }

    /// What has happened so far.
    pub fn counts(&self) -> PortCounts {
        self.counts
    }

    /// Frames that the kernel had no room for in the rings, so far. A system call.
    ///
    /// # Errors
    /// The kernel's.
    pub fn overflowed(&self) -> Result<u64, Errno> {
        let counts = xdp_statistics(&self.socket)?;
        let full = counts.rx_ring_full.unwrap_or(0) + counts.rx_fill_ring_empty_descs.unwrap_or(0);
        Ok(counts.rx_dropped + full)
    }

    /// Takes the next datagram that has arrived, with its payload into `buffer`. One that is longer is refused.
    ///
    /// # Errors
    /// `AGAIN` if there is none.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<TakenDatagram, Errno> {
        loop {
            let Some(FramePart { address, len, .. }) = self.received.pop() else {
                self.give_frames();
                return Err(Errno::AGAIN);
            };
            // SAFETY: the kernel has given it back with this entry, which is read once.
            let Some(frame) = (unsafe { self.frames.taken_back(address) }) else { continue };
            let bytes = self.frames.part(&frame, address, len);
            let taken = match frame::read(bytes) {
                Ok(arrival) if arrival.to == self.address && arrival.payload.len() <= buffer.len() => {
                    let len = arrival.payload.len();
                    buffer[..len].copy_from_slice(&bytes[arrival.payload]);
                    self.links.note(arrival.from, arrival.link);
                    self.counts.received += 1;
                    Some(TakenDatagram { from: arrival.from, len })
                }
                _ => {
                    self.counts.refused += 1;
                    None
                }
            };
            // As many frames go round as the ring has entries, so there is room.
            self.to_fill.push(frame.address());
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    /// Gives the frames that were read back to the kernel. [`Port::receive`] does it when it has read all.
    pub fn give_frames(&mut self) {
        self.received.release();
        self.to_fill.publish();
        if self.to_fill.needs_waking() {
            // It fetches frames for the ring; there is nothing to receive by it, nor to do if it fails: a later call wakes it again.
            let _nothing = recv(&self.socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Makes the frame of a datagram, to be sent by [`Port::flush`]. False if the kernel's socket has to send it.
    pub fn send(&mut self, to: SocketAddr, payload: &[u8]) -> bool {
        let is_made = self.make(to, payload).is_some();
        self.counts.sent += u64::from(is_made);
        is_made
    }

    fn make(&mut self, to: SocketAddr, payload: &[u8]) -> Option<()> {
        if payload.len() > PAYLOAD_MAX {
            return None;
        }
        let link = self.links.find(&to)?;
        if self.free.is_empty() {
            self.take_back();
        }
        if !self.to_send.has_room() {
            return None;
        }
        let mut frame = self.free.pop()?;
        let written = frame::write(self.frames.whole(&mut frame), &link, self.address, to, payload);
        let Some(len) = written else {
            self.free.push(frame);
            return None;
        };
        self.to_send.push(FramePart { address: frame.address(), len: len as u32, options: 0 });
        Some(())
    }

    /// Sends what was made.
    pub fn flush(&mut self) {
        self.to_send.publish();
        for _ in 0..WAKES_MAX {
            if self.to_send.pending() == 0 || !self.to_send.needs_waking() {
                break;
            }
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                // It has taken some, and says whether there are more.
                Ok(_) | Err(Errno::AGAIN) => {}
                // The interface is full, or down: what it has not taken waits for the next round.
                Err(_) => break,
            }
        }
        self.take_back();
    }

    /// Takes the frames back that were sent.
    fn take_back(&mut self) {
        while let Some(address) = self.sent.pop() {
            // SAFETY: the kernel has given it back with this entry, which is read once.
            self.free.extend(unsafe { self.frames.taken_back(address) });
        }
        self.sent.release();
    }
}
