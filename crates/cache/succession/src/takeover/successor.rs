//! The side of the server that takes over.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flash::Devices;
use net::clock::Clock;
use server::options::FlashOptions;
use server::{HandedConnection, HandedTickets, LAYOUT_VERSION, Manifest, Notice};

use super::asking::Asking;
use super::flash::adopt;
use super::state::{FORMAT, ServerOffer, SuccessorHello, other_layout, read_connections, read_manifest};
use super::wire::{TakeoverMessage, TakeoverStep, TakeoverWire};
use super::{ANSWER, OtherProcess, is_sealed, parse};
use crate::Error;

/// Time for the flash of the predecessor, for its requests that have begun, and for its manifest.
const STATE: Duration = Duration::from_secs(30);

/// A server that offers itself. It still serves.
pub struct Predecessor {
    /// Where it listens (`--takeover`), for messages.
    path: PathBuf,
    notice: Notice,
    wire: TakeoverWire,
    process: OtherProcess,
    offer: ServerOffer,
    listeners: Vec<Arc<OwnedFd>>,
    metrics: Vec<OwnedFd>,
    memory: Arc<File>,
    /// Its devices of flash, in order.
    flash: Vec<File>,
}

/// Its offer, with the descriptors by their meaning.
struct OfferedParts {
    offer: ServerOffer,
    listeners: Vec<Arc<OwnedFd>>,
    metrics: Vec<OwnedFd>,
    memory: Arc<File>,
    flash: Vec<File>,
}

impl OfferedParts {
    fn ask_for(wire: &mut TakeoverWire) -> Result<OfferedParts, String> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = SuccessorHello { format: FORMAT, layout: LAYOUT_VERSION, version };
        let bytes = serde_json::to_vec(&hello).map_err(|error| error.to_string())?;
        wire.send(TakeoverStep::Hello, &bytes, &[]).map_err(|error| error.to_string())?;
        let message = wire.expect(TakeoverStep::Offer, ANSWER)?;
        let offer: ServerOffer = parse(&message.bytes)?;
        if offer.format != FORMAT {
            return Err(format!("version {} hands over otherwise", offer.version));
        }
        if offer.layout != LAYOUT_VERSION {
            return Err(other_layout(&offer.version, offer.layout));
        }
        let mut descriptors = message.descriptors.into_iter();
        let mut take = |count: usize| -> Vec<OwnedFd> { descriptors.by_ref().take(count).collect() };
        let (listeners, metrics) = (take(offer.listeners), take(offer.metrics));
        let memory = Arc::new(File::from(take(1).pop().ok_or("it has passed too few descriptors")?));
        if !is_sealed(&memory) {
            return Err("the length of its memory is not sealed".to_owned());
        }
        let flash: Vec<File> = descriptors.map(File::from).collect();
        if flash.len() != offer.flash.as_ref().map_or(0, |flash| flash.devices.len()) {
            return Err("it has passed other descriptors than it says".to_owned());
        }
        let listeners = listeners.into_iter().map(Arc::new).collect();
        Ok(OfferedParts { offer, listeners, metrics, memory, flash })
    }
}

/// What it had.
pub struct Inheritance {
    /// What the store needs beside the memory.
    pub manifest: Manifest,
    /// Connections at rest, at this server's listeners.
    pub connections: Vec<HandedConnection>,
    /// Connections whose listeners this server does not have.
    pub dropped: usize,
}

/// Servers at the path of `--takeover`.
const SERVERS: Asking =
    Asking { who: "server", alone: "has ended before it gave its items away: this one starts empty" };

impl Predecessor {
    /// Asks the server at the path; `None` if there is none, or none any more. Its process has to be root's, this user's or one of
    /// `users`.
    pub fn ask(path: &Path, users: &[u32], notice: Notice) -> Result<Option<Predecessor>, Error> {
        let found = SERVERS.ask(path, users, notice, OfferedParts::ask_for)?;
        Ok(found.map(|(wire, process, parts)| {
            let OfferedParts { offer, listeners, metrics, memory, flash } = parts;
            let path = path.to_owned();
            Predecessor { path, notice, wire, process, offer, listeners, metrics, memory, flash }
        }))
    }

    /// Its clock, which goes on, and the time of day when that showed 0.
    pub fn clock(&self) -> (Clock, u64) {
        (Clock::of_origin(self.offer.clock_us), self.offer.zero_unix_ms)
    }

    /// The secrets of its TLS tickets, if it has made them up.
    pub fn tickets(&self) -> Option<HandedTickets> {
        self.offer.tickets.as_ref()?.tickets()
    }

    /// The sockets of its listeners, which are this server's from now on.
    pub fn take_listeners(&mut self) -> Vec<Arc<OwnedFd>> {
        std::mem::take(&mut self.listeners)
    }

    /// The sockets of its endpoint of metrics, too.
    pub fn take_metrics(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.metrics)
    }

    /// The memory of its items.
    pub fn memory(&self) -> Arc<File> {
        Arc::clone(&self.memory)
    }

    /// Its devices of flash, if they are those of this server's options.
    pub fn devices(&mut self, own: &FlashOptions) -> Result<Option<Devices>, Error> {
        let files = std::mem::take(&mut self.flash);
        adopt(own, self.offer.flash.as_ref(), files).map_err(|why| self.failed(why))
    }

    /// Stops it and takes what it has. `addresses` are those of this server. `None`: it has ended before it had given all of it, and
    /// this server begins alone.
    pub fn inherit(&mut self, addresses: &[String]) -> Result<Option<Inheritance>, Error> {
        match self.receive(addresses) {
            Ok(inheritance) => Ok(Some(inheritance)),
            Err(why) if self.process.is_alive(&self.wire) => Err(SERVERS.failed(&self.path, true, why)),
            Err(why) => {
                (self.notice)(&SERVERS.alone_line(&self.path, &why));
                Ok(None)
            }
        }
    }

    /// This server is to end before it has begun.
    pub fn told_to_end(&self) -> Error {
        self.failed("a signal has told this one to end")
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        SERVERS.failed(&self.path, self.process.is_alive(&self.wire), why)
    }

    fn receive(&mut self, addresses: &[String]) -> Result<Inheritance, String> {
        self.wire.send(TakeoverStep::Ready, b"", &[]).map_err(|error| error.to_string())?;
        let manifest = read_manifest(&self.wire.expect(TakeoverStep::State, STATE)?.bytes)?;
        let (mut connections, mut dropped) = (Vec::new(), 0);
        loop {
            let message = self.wire.expect(TakeoverStep::Connections, ANSWER)?;
            if message.descriptors.is_empty() && message.bytes.is_empty() {
                return Ok(Inheritance { manifest, connections, dropped });
            }
            for connection in read_connections(&message.bytes, message.descriptors)? {
                let address = self.offer.addresses.get(usize::from(connection.listener));
                let place = address.and_then(|address| addresses.iter().position(|own| own == address));
                match place {
                    Some(place) => {
                        connections.push(HandedConnection { listener: place as u16, ..connection })
                    }
                    None => dropped += 1,
                }
            }
        }
    }

    /// Says that this server could serve, and returns when it is to: then the other one never serves again.
    pub fn succeed(&mut self) -> Result<(), Error> {
        // If it has given up meanwhile, that can still be read.
        let _ = self.wire.send(TakeoverStep::Have, b"", &[]);
        match self.wire.receive_answer(ANSWER) {
            Ok(TakeoverMessage { kind: TakeoverStep::Yours, .. }) => Ok(()),
            // It has gone on, and its memory is not as it was, even if it has ended since.
            Ok(message) => Err(self.failed(message.unexpected(TakeoverStep::Yours))),
            // Whoever has ended without a word has not gone on.
            Err(_) if !self.process.is_alive(&self.wire) => Ok(()),
            Err(why) => Err(SERVERS.failed(&self.path, true, why)),
        }
    }

    /// Says that this server serves.
    pub fn taken(&mut self) {
        // If it is gone, nobody has to know.
        let _ = self.wire.send(TakeoverStep::Taken, b"", &[]);
    }
}
