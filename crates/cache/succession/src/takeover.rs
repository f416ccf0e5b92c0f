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
//! Whoever of both is killed, and at whatever moment: the other one serves afterwards. Before `Yours` the predecessor goes on with its own
//! connections. If the predecessor is gone (a pidfd says so) before the successor has said `Have`, the successor serves at its listeners,
//! or at ones of its own before there was an offer, with an empty memory: nothing tells whether what it has got is whole. A successor
//! that has said `Have` and gets no `Yours` serves with all items if the predecessor is gone; but not if it was refused: then the predecessor
//! has gone on, and the memory is not as it was. A predecessor that has said `Yours` and gets no `Taken` looks whether the successor lives, and
//! goes on if it does not.
//!
//! Each looks at the user of the other's process before it sends or believes anything: root, its own, or the one that it becomes (`-u`). The
//! memory's length is sealed, so that whoever has a descriptor of it cannot end the other process (SIGBUS).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;

use crate::Error;

pub(crate) mod asking;
mod flash;
pub(crate) mod predecessor;
pub(crate) mod state;
mod successor;
pub(crate) mod wire;

use wire::TakeoverWire;

pub use predecessor::{OfferedServer, Successors, TakeoverOutcome, TakeoverSocket};
pub use successor::{Inheritance, Predecessor};

/// Time for an answer that takes no work.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// Time for a process that has closed its end to be gone: one that is killed closes it before its memory is given back, which takes
/// seconds where there is much of it, or the host is busy.
const GOING: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// What nobody can do any more to memory that is offered.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory that another process can take over.
pub fn new_memory() -> Result<Arc<File>, Error> {
    let file = memfd_create("evenkeel-items", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let file = file.map_err(|error| Error::system("make memory for --takeover".to_owned(), error.into()))?;
    Ok(Arc::new(file.into()))
}

/// Fixes the length of memory that a store has.
fn seal(memory: impl AsFd) -> io::Result<()> {
    match is_sealed(&memory) {
        true => Ok(()),
        false => Ok(fcntl_add_seals(memory, SEALS)?),
    }
}

fn is_sealed(memory: impl AsFd) -> bool {
    fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SEALS))
}

/// The process at the other end.
pub(crate) struct OtherProcess {
    /// `None`: it was gone before it could be watched.
    pidfd: Option<OwnedFd>,
}

impl OtherProcess {
    pub(crate) fn of(stream: impl AsFd) -> Result<OtherProcess, String> {
        let peer = socket_peercred(stream).map_err(|error| error.to_string())?;
        match pidfd_open(peer.pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(OtherProcess { pidfd: Some(pidfd) }),
            Err(Errno::SRCH) => Ok(OtherProcess { pidfd: None }),
            // In another PID namespace, or where pidfd_open is forbidden, it could not be told who serves if one of both ends.
            Err(error) => Err(format!("its process cannot be watched: {error}")),
        }
    }

    /// Whether it lives; if it has closed its end, whether it goes on living for a while.
    pub(crate) fn is_alive(&self, wire: &TakeoverWire) -> bool {
        let patience = if wire.is_closed() { GOING } else { AT_ONCE };
        let ended = |pidfd: &OwnedFd| poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&patience));
        self.pidfd.as_ref().is_some_and(|pidfd| !matches!(ended(pidfd), Ok(1..)))
    }
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the other process says something else: {error}"))
}
