//! Readiness notification to systemd, if it is requested.

use std::time::Duration;

use super::complaint::Complaint;

/// A busy systemd is waited for this long; the watch has begun.
const WAIT: Duration = Duration::from_secs(1);

/// The service is up: units that wait for it may start.
pub(super) fn ready() -> Result<(), Complaint> {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    // systemd reports a timeout after a while; this message has the reason.
    os::notify::send(&socket, "READY=1\nSTATUS=Watching", WAIT).map_err(|error| Complaint::SystemdNotTold {
        socket: socket.to_string_lossy().into_owned(),
        error: error.to_string(),
    })
}
