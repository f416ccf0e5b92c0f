//! The side of the router that is taken over: it listens for a successor, offers what it has, and gives its connections to one that routes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use net::{Giver, HandedConnection};
use os::clock::Stopwatch;
use os::socket_file::check_peer;
use server::Notice;

use super::{FORMAT, RouterHello, RouterOffer, Sockets};
use crate::takeover::predecessor::{READY, RETRY, TakeoverSocket, refuse, say};
use crate::takeover::state::write_connection;
use crate::takeover::wire::{DESCRIPTORS_MAX, TakeoverStep, TakeoverWire};
use crate::takeover::{ANSWER, OtherProcess, parse};

/// Time for requests that have begun: an upload that takes longer is lost with its connection. Shorter than a successor waits for a word.
const REST: Duration = Duration::from_secs(5);
/// Between two looks whether the successor lives, and whether all connections have left.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What a router has for its successor.
pub struct OfferedRouter {
    /// Where it listens, by the number that connections have, as the successor names the same places.
    pub addresses: Vec<String>,
    /// The sockets there.
    pub listeners: Sockets,
    /// The sockets of its endpoint of metrics.
    pub metrics: Vec<OwnedFd>,
    /// The way for its connections out of its network.
    pub giver: Giver,
}

/// What the process does about its successors.
pub trait RouterTakeovers {
    /// Another process has everything: this one ends.
    fn taken(&self, left: usize);

    /// The successor is gone after it was told that all is its own: this process is the router as before.
    fn goes_on(&self);
}

impl OfferedRouter {
    /// Offers everything to each process that comes, one after the other, until one has taken it.
    pub fn offer_to_all(
        &self,
        mut socket: TakeoverSocket,
        notice: Notice,
        takeovers: &(impl RouterTakeovers + ?Sized),
    ) {
        loop {
            let accepted = socket.listener.accept();
            let offered = accepted
                .map_err(|error| {
                    // Without free descriptors, each attempt fails at once.
                    std::thread::park_timeout(RETRY);
                    error.to_string()
                })
                .and_then(|(stream, _)| self.offer(stream));
            let given = offered.and_then(|wire| self.give(wire, &mut socket, takeovers));
            match given {
                // What comes to rest from now on is closed with this process.
                Ok((left, _given)) => return takeovers.taken(left),
                Err(why) => say(notice, &why),
            }
        }
    }

    /// Offers everything to a successor, and returns when it routes.
    fn offer(&self, stream: UnixStream) -> Result<TakeoverWire, String> {
        check_peer(&stream, &[]).map_err(|error| format!("the process that asks is refused: {error}"))?;
        let mut wire = TakeoverWire::new(stream).map_err(|error| error.to_string())?;
        let hello: RouterHello = parse(&wire.expect_or_refuse(TakeoverStep::RouterHello, ANSWER)?.bytes)?;
        let sockets = self.listeners.len() + self.metrics.len();
        let refused = if hello.format != FORMAT {
            Some(format!("version {} takes over otherwise than {}", hello.version, env!("CARGO_PKG_VERSION")))
        } else if sockets > DESCRIPTORS_MAX {
            Some(format!("it listens with {sockets} sockets, and can give {DESCRIPTORS_MAX} away"))
        } else {
            None
        };
        if let Some(why) = refused {
            refuse(&mut wire, &why);
            return Err(why);
        }
        let offer = RouterOffer {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            addresses: self.addresses.clone(),
            listeners: self.listeners.len(),
            metrics: self.metrics.len(),
        };
        let all: Vec<BorrowedFd<'_>> = self
            .listeners
            .iter()
            .map(|socket| socket.as_fd())
            .chain(self.metrics.iter().map(AsFd::as_fd))
            .collect();
        let bytes = serde_json::to_vec(&offer).map_err(|error| error.to_string())?;
        let sent = wire.send(TakeoverStep::RouterOffer, &bytes, &all);
        sent.map_err(|error| format!("offer everything: {error}"))?;
        wire.expect(TakeoverStep::Routes, READY)?;
        Ok(wire)
    }

    /// Gives all connections away. How many had not come to rest in time, and where those go that do now; an error: this router goes on with those that it has.
    fn give(
        &self,
        mut wire: TakeoverWire,
        socket: &mut TakeoverSocket,
        takeovers: &(impl RouterTakeovers + ?Sized),
    ) -> Result<(usize, Receiver<HandedConnection>), String> {
        let successor = OtherProcess::of(wire.stream())?;
        let Some(given) = self.giver.begin() else {
            let why = "its acceptor does not stop".to_owned();
            refuse(&mut wire, &why);
            return Err(why);
        };
        let ended = self.give_until_rest(&mut wire, &given).and_then(|left| {
            let yours = wire.send(TakeoverStep::Yours, b"", &[]);
            yours.map_err(|error| format!("give everything: {error}"))?;
            match wire.expect(TakeoverStep::Taken, ANSWER) {
                Ok(_) => Ok(left),
                // It routes, however slowly it says so.
                Err(_) if successor.is_alive(&wire) => Ok(left),
                Err(why) => {
                    takeovers.goes_on();
                    match socket.listen_again() {
                        Ok(()) => Err(why),
                        Err(error) => {
                            Err(format!("{why}; nobody can take over from this router: {}", error.in_full()))
                        }
                    }
                }
            }
        });
        match ended {
            Ok(left) => Ok((left, given)),
            Err(why) => {
                self.giver.give_up(given);
                Err(format!("{why}: this router goes on"))
            }
        }
    }

    /// Until all connections are at rest, and at most so long. How many are not.
    fn give_until_rest(
        &self,
        wire: &mut TakeoverWire,
        given: &Receiver<HandedConnection>,
    ) -> Result<usize, String> {
        let watch = Stopwatch::start();
        loop {
            if wire.is_closed() {
                return Err("the other process is gone".to_owned());
            }
            // Before the channel is looked at: those that have left are in it.
            let left = self.giver.left();
            let is_over = left == 0 || watch.passed() >= REST;
            let first = match given.recv_timeout(if is_over { Duration::ZERO } else { LOOK_EVERY }) {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) if is_over => return Ok(left),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err("this router ends".to_owned()),
            };
            let some: Vec<HandedConnection> =
                std::iter::once(first).chain(given.try_iter().take(DESCRIPTORS_MAX - 1)).collect();
            let mut bytes = Vec::new();
            some.iter().for_each(|connection| write_connection(&mut bytes, connection));
            let sockets: Vec<_> = some.iter().map(|connection| connection.socket.as_fd()).collect();
            if let Err(error) = wire.send(TakeoverStep::Connections, &bytes, &sockets) {
                self.giver.intake().deal(some);
                return Err(format!("give connections away: {error}"));
            }
        }
    }
}
