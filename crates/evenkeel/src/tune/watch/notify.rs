//! Readiness notification: tells systemd that watching has begun (sd_notify(3)), if it has asked to be told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::failure::say;

/// The service is up: units that wait for it may start.
pub(super) fn ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\nSTATUS=Watching", &address));
    if let Err(error) = told {
        // systemd gives up waiting after a while, and says so; this says why.
        let name = name.to_string_lossy();
        say(format_args!("evenkeel: tune watch: tell systemd through {name}: {error}"));
    }
}
