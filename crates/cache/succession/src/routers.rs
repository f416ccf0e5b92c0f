//! `evenkeel route --takeover SOCKET`: a router gives its sockets and its connections to the next one.
//!
//! ```text
//!  successor                                          predecessor
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  reads its configuration
//!  RouterHello      ───────────────────────────►      routes
//!                   ◄───────────────────────────      RouterOffer: listeners, metrics
//!  starts all threads; routes
//!  Routes           ───────────────────────────►      accepts nothing more, and begins no request
//!                   ◄───────────────────────────      Connections: each when it is at rest
//!                   ◄───────────────────────────      Yours: there are no more
//!  listens for its own successor, writes its process id, tells its supervisor
//!  Taken            ───────────────────────────►      ends
//! ```
//!
//! Routers have no memory that only one of them may use, so both route for a while, and nobody waits. Whoever of both is killed, and at
//! whatever moment: the other one serves afterwards. A predecessor whose successor is gone accepts again, and goes on with what it has not
//! given away. A successor whose predecessor is gone serves already, or begins alone.
//!
//! Each looks at the user of the other's process before it sends or believes anything, as servers do.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

mod predecessor;
mod successor;

pub use predecessor::{OfferedRouter, RouterTakeovers};
pub use successor::{RouterBefore, TakenConnections};

/// To be raised by every change of the messages that the neighbouring version would misunderstand.
const FORMAT: u32 = 1;

/// The first message of the successor.
#[derive(Serialize, Deserialize)]
struct RouterHello {
    format: u32,
    version: String,
}

/// What a router has. Its descriptors: listeners, then those of metrics.
#[derive(Serialize, Deserialize)]
struct RouterOffer {
    format: u32,
    version: String,
    /// Addresses of the network as the router shows them, by the number that connections have.
    addresses: Vec<String>,
    listeners: usize,
    metrics: usize,
}

/// Listening sockets, which several parts of a process share.
type Sockets = Vec<Arc<OwnedFd>>;
