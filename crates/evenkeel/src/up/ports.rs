//! Free ports of the loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::failure::Failure;

/// Finds free ports, one after the other.
pub(super) struct FreePorts {
    next: u32,
}

impl FreePorts {
    /// From this one on.
    pub(super) fn from(first: u16) -> FreePorts {
        FreePorts { next: first.into() }
    }

    /// The next one that nobody listens on. Somebody may take it before it is used: then the process that needs it says so.
    pub(super) fn take(&mut self) -> Result<SocketAddr, Failure> {
        let first = self.next;
        while let Ok(port) = u16::try_from(self.next) {
            self.next += 1;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            // One on all interfaces holds the port, too.
            let is_free = |host: Ipv4Addr| TcpListener::bind((host, port)).is_ok();
            if is_free(Ipv4Addr::UNSPECIFIED) && is_free(Ipv4Addr::LOCALHOST) {
                return Ok(address);
            }
        }
        Err(Failure::other(anyhow::anyhow!("expected a free port from {first} on, found none")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let taken = taken.local_addr().expect("an address").port();
        let (mut ports, _held) = (FreePorts::from(taken), TcpListener::bind((Ipv4Addr::LOCALHOST, taken)));
        let first = ports.take().expect("a free port");
        assert!(first.port() >= taken && ports.take().expect("another").port() > first.port());
    }

    #[test]
    fn there_is_an_end_of_ports() {
        let mut ports = FreePorts { next: 65_536 };
        assert!(ports.take().is_err());
    }
}
