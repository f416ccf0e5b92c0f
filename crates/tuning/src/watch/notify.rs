//! Readiness notification to systemd (sd_notify(3)), if it is requested.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::complaint::Complaint;

/// The service is up: units that wait for it may start.
pub(super) fn ready() -> Result<(), Complaint> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\nSTATUS=Watching", &address));
    // systemd reports a timeout after a while; this message has the reason.
    let socket = || name.to_string_lossy().into_owned();
    told.map(drop).map_err(|error| Complaint::SystemdNotTold { socket: socket(), error: error.to_string() })
}
