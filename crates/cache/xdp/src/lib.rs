//! Datagrams below the kernel's sockets: taken from an interface before the kernel has made a packet of a socket of them, and given to it
//! as whole Ethernet frames (AF_XDP, `Documentation/networking/af_xdp.rst` of the kernel).
//!
//! ```text
//! driver ─► program ─┬─ UDP for our address and port ─► ring of queue N ─► Port::receive ─► payload, sender
//!                    └─ all else ─► the kernel, as ever
//! payload, sender ─► Port::send ─► frame to the MAC that the sender's newest request came from ─► driver
//! ```
//!
//! [`frame`] reads and writes frames, without I/O. `program` makes the program that chooses among them; it passes what it does not know, such as fragments and
//! IP options, to the kernel, where a socket at the same address serves it. A [`Port`] is one queue of an interface: its rings and its
//! frames. An [`Attachment`] keeps the program at the interface, and takes it away when it is dropped, or when the process ends.
//!
//! The crate knows nothing of what a payload means, reads no clock, and starts no thread.

mod attachment;
mod error;
pub mod frame;
mod frames;
mod links;
mod port;
mod program;
mod rings;
mod sys;

pub use attachment::{Attachment, Mode};
pub use error::AttachError;
pub use port::{Port, PortCounts, TakenDatagram};
