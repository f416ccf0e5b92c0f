//! Names of servers: threads that look them up, and tell the workers.
//!
//! A lookup is a call that may take minutes (getaddrinfo(3)), and has no time to live to tell. So there are several
//! threads, and none of them is a worker's or the one that reads configurations.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use net::Nudge;
use router::RouterShared;

use super::lines::notice;
use super::start;
use crate::failure::Failure;

/// Lookups at a time: one name server that does not answer delays only those names that are asked of it.
const LOOKUPS: usize = 4;

/// What the threads share.
#[derive(Clone)]
pub(super) struct Resolver {
    pub(super) shared: Arc<RouterShared>,
    pub(super) nudge: Nudge,
    pub(super) workers: usize,
    /// Time between two lookups of a name.
    pub(super) refresh_s: u64,
}

impl Resolver {
    /// Starts the threads. They end with the process; `end` never has a message, and ends the one that counts seconds.
    pub(super) fn start(self, end: Receiver<()>) -> Result<(), Failure> {
        for number in 0..LOOKUPS {
            let resolver = self.clone();
            start(&format!("resolve-{number}"), move || resolver.look_up())?;
        }
        start("names", move || self.count_seconds(&end))
    }

    fn look_up(&self) {
        loop {
            let name = self.shared.names().next();
            let found = lookup(&name);
            let found = found.as_deref().map_err(String::as_str);
            let line = self.shared.names().found(&name, found);
            line.iter().for_each(|line| notice(line));
            (0..self.workers).for_each(|worker| self.nudge.nudge(worker));
        }
    }

    fn count_seconds(&self, end: &Receiver<()>) {
        while end.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            let line = self.shared.names().tick(self.refresh_s);
            line.iter().for_each(|line| notice(line));
        }
    }
}

fn lookup(name: &str) -> Result<Vec<IpAddr>, String> {
    let addresses = (name, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(addresses.map(|address| address.ip()).collect())
}
