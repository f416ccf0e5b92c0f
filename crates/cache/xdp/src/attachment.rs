//! A program at an interface, and the rings of its queues.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::AttachError;
use crate::port::Port;
use crate::{program, sys};

/// Queues of one interface that are served at most. Datagrams of others go by the kernel's sockets.
const QUEUES_MAX: u32 = 64;

/// Of `linux/if_link.h`: the kernel runs the program when it has made a packet.
const GENERIC: u32 = 1 << 1;
/// The driver runs it.
const NATIVE: u32 = 1 << 2;

/// How frames get to the program and to its rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The driver runs the program; frames are copied unless it can do without.
    #[default]
    Auto,
    /// The driver runs the program, and frames are copied.
    Native,
    /// The kernel runs the program for a driver that cannot, and frames are copied.
    Generic,
    /// The driver runs the program, and frames are not copied.
    ZeroCopy,
}

/// A program at an interface. It goes away with this value, and with the process.
#[derive(Debug)]
pub struct Attachment {
    _link: OwnedFd,
    _program: OwnedFd,
    map: OwnedFd,
}

impl Attachment {
    /// Takes datagrams for `address` from an interface, with a port for each of its queues. They receive only after [`Attachment::open`].
    ///
    /// # Errors
    /// Why that cannot be; the interface is then as it was.
    pub fn new(
        interface: &str,
        address: SocketAddr,
        mode: Mode,
    ) -> Result<(Attachment, Vec<Port>), AttachError> {
        let index = index_of(interface)?;
        let map =
            sys::socket_map(QUEUES_MAX).map_err(|error| AttachError::of("make a map of sockets", error))?;
        let code = program::instructions(address, std::os::fd::AsRawFd::as_raw_fd(&map), program::PASS);
        let program = sys::load(&code).map_err(|error| AttachError::of("load a program", error))?;
        let flags = if mode == Mode::Generic { GENERIC } else { NATIVE };
        let link = sys::attach(&program, index, flags).map_err(|error| match error {
            Errno::BUSY => AttachError::Taken,
            Errno::OPNOTSUPP | Errno::INVAL if mode != Mode::Generic => AttachError::NoDriverMode,
            Errno::NODEV => AttachError::NoInterface,
            error => AttachError::of("attach a program", error),
        })?;
        let attachment = Attachment { _link: link, _program: program, map };
        let mut ports = Vec::new();
        for queue in 0..QUEUES_MAX {
            match Port::open(index, queue, address, mode) {
                Ok(port) => ports.push(port),
                // There are no more queues.
                Err(AttachError::Failed { error: Errno::INVAL, .. }) if queue > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok((attachment, ports))
    }

    /// From now on, datagrams of a port's queue come to it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(&self, port: &Port) -> Result<(), AttachError> {
        sys::enter(&self.map, port.queue(), port).map_err(|error| AttachError::of("enter a socket", error))
    }
}

fn index_of(interface: &str) -> Result<u32, AttachError> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| AttachError::of("make a socket", error))?;
    name_to_index(&socket, interface).map_err(|_| AttachError::NoInterface)
}
