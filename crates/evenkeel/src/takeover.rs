//! `evenkeel serve --takeover SOCKET`: a server gives its sockets, its connections and its memory to the next one.
//!
//! ```text
//!  successor                                          predecessor
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  Hello            ───────────────────────────►      serves
//!                   ◄───────────────────────────      Offer: listeners, metrics, memory, devices of flash, clock
//!  reads its options, certificates, …
//!  Ready            ───────────────────────────►      waits until its flash has taken what waits for it (10 s)
//!                                                     accepts no more; requests that have begun may end (1 s); stops
//!                                                     writes the rest to flash (5 s)
//!                   ◄───────────────────────────      State: the manifest; Connections
//!  maps the memory, fills in the manifest
//!  Have             ───────────────────────────►
//!                   ◄───────────────────────────      Yours: from now on it never serves
//!  Taken, serves    ───────────────────────────►      ends
//! ```
//!
//! Whoever is killed, and at whatever moment: one of both serves afterwards. Before `Yours` the predecessor goes on with its own
//! connections. A successor that has said `Have` and gets no `Yours` looks whether the predecessor still lives (a pidfd), and serves
//! if it does not; but not if it was refused: then the predecessor has gone on, and the memory is not as it was. A predecessor that has said `Yours` and gets no `Taken` looks whether the successor lives, and goes on if it does not.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

mod flash;
mod predecessor;
mod state;
mod successor;
mod wire;

pub(crate) use predecessor::{OfferedServer, TakeoverOutcome, TakeoverSocket};
pub(crate) use successor::{Inheritance, Predecessor, told_to_end};

/// Time for an answer that takes no work.
const ANSWER: Duration = Duration::from_secs(10);

/// Time for a process that has closed its end to be gone.
const GOING: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Memory that another process can take over.
pub(crate) fn new_memory() -> Result<Arc<File>, Failure> {
    let file = memfd_create("evenkeel-items", MemfdFlags::CLOEXEC);
    let file = file.map_err(|error| Failure::system("make memory for --takeover", io::Error::from(error)))?;
    Ok(Arc::new(file.into()))
}

/// The process at the other end; `None` if it is gone already, or cannot be watched.
fn other_process(stream: impl AsFd) -> Option<OwnedFd> {
    let peer = socket_peercred(stream).ok()?;
    pidfd_open(peer.pid, PidfdFlags::empty()).ok()
}

/// Whether a process lives, and goes on living for a moment.
fn is_alive(process: &OwnedFd) -> bool {
    let ended = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&GOING));
    !matches!(ended, Ok(1..))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the other process says something else: {error}"))
}
