//! Word to the supervisor, such as systemd, if it asks for it (NOTIFY_SOCKET, sd_notify(3)): the server serves, the
//! server stops.
//!
//! Nothing here keeps the server from serving: what cannot be sent is one line on standard error. There is no watchdog
//! (WATCHDOG_USEC): a message from a thread beside the workers would say nothing about them.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use os::notify;
use rustix::process::Pid;

use crate::process::sys;
use crate::terminal::log::warning;

/// A busy supervisor is waited for this long, because a start without word is a failed one to it. The workers serve
/// meanwhile.
const READY_WAIT: Duration = Duration::from_secs(1);

const VARIABLE: &str = "NOTIFY_SOCKET";

/// The supervisor's socket. Cheap to clone; all clones together report once that the server stops.
#[derive(Clone)]
pub(crate) struct Supervisor {
    socket: Option<Arc<OsString>>,
    stops: Arc<AtomicBool>,
}

impl Supervisor {
    /// The one that the environment names. The variable leaves the environment, so that no other process reports for
    /// this one. There must be no other thread yet.
    pub(crate) fn of_environment() -> Supervisor {
        let socket = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        sys::forget_variables(&[VARIABLE]);
        Supervisor { socket: socket.map(Arc::new), stops: Arc::default() }
    }

    /// The server serves.
    pub(crate) fn ready(&self) {
        self.send_ready("READY=1");
    }

    /// The server serves in another process than the one that the supervisor has started, which is about to end.
    pub(crate) fn ready_in(&self, process: Pid) {
        self.send_ready(&format!("MAINPID={}\nREADY=1", process.as_raw_nonzero()));
    }

    fn send_ready(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = notify::send(socket, message, READY_WAIT) {
            let socket = socket.to_string_lossy();
            // Behind the line that says that the server serves, which may still wait for its writer.
            warning("serve", format_args!("the supervisor is not told ({VARIABLE}={socket}): {error}"));
        }
    }

    /// The server stops. Only the first call has an effect.
    pub(crate) fn stopping(&self) {
        let Some(socket) = &self.socket else { return };
        if !self.stops.swap(true, Ordering::SeqCst) {
            // The supervisor does not wait for it, so neither does the server.
            let _ = notify::send(socket, "STOPPING=1", Duration::ZERO);
        }
    }
}
