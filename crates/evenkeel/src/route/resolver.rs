//! Names of servers: threads that look them up, and tell the workers.
//!
//! A lookup is a call that may take minutes (getaddrinfo(3)), and has no time to live to tell. So there are several
//! threads, and none of them is a worker's or the one that reads configurations.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use net::Nudge;
use router::{LookupKind, RouterShared};

use super::lines::notice;
use super::threads::start;
use crate::failure::Failure;

/// Threads at the start. Where name servers answer, they are enough for thousands of names.
const LOOKUPS: usize = 4;

/// Lookups at a time, if name servers do not answer: each takes half a minute then. They have a socket each, of the files that
/// the limit on open files leaves to the process.
const LOOKUPS_MAX: usize = 32;

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
        (0..LOOKUPS).try_for_each(|number| self.start_one(number))?;
        start("names", move || self.count_seconds(&end))
    }

    /// Every second thread is for names that have not failed.
    fn start_one(&self, number: usize) -> Result<(), Failure> {
        let (resolver, kind) = (self.clone(), [LookupKind::Any, LookupKind::Sound][number % 2]);
        start(&format!("resolve-{number}"), move || resolver.look_up(kind))
    }

    fn look_up(&self, kind: LookupKind) {
        loop {
            let name = self.shared.names().next(kind);
            let found = lookup(&name);
            let found = found.as_deref().map_err(String::as_str);
            let line = self.shared.names().found(&name, found);
            line.iter().for_each(|line| notice(line));
            (0..self.workers).for_each(|worker| self.nudge.nudge(worker));
        }
    }

    fn count_seconds(&self, end: &Receiver<()>) {
        let mut threads = LOOKUPS;
        while end.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            // What has waited for a second or less is delayed by those that take longer.
            let more = self.shared.names().waiting().min(LOOKUPS_MAX - threads);
            // Where the system has no thread left, those that there are go on.
            threads += (threads..threads + more).take_while(|number| self.start_one(*number).is_ok()).count();
            let line = self.shared.names().tick(self.refresh_s);
            line.iter().for_each(|line| notice(line));
        }
    }
}

/// One lookup, for as long as it takes.
pub(super) fn lookup(name: &str) -> Result<Vec<IpAddr>, String> {
    let addresses = (name, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(addresses.map(|address| address.ip()).collect())
}
