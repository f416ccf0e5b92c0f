//! The side of the server that takes over.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flash::Devices;
use net::clock::Clock;
use server::options::FlashOptions;
use server::{HandedConnection, HandedTickets, Manifest};

use super::flash::adopt;
use super::state::{FORMAT, ServerOffer, SuccessorHello, read_connections, read_manifest};
use super::wire::{TakeoverMessage, TakeoverStep, Wire};
use super::{ANSWER, is_alive, other_process, parse};
use crate::failure::Failure;

/// Time for the flash of the predecessor, for its requests that have begun, and for its manifest.
const STATE: Duration = Duration::from_secs(30);

/// A server that offers itself. It still serves.
pub(crate) struct Predecessor {
    wire: Wire,
    process: OwnedFd,
    offer: ServerOffer,
    pub(crate) listeners: Vec<Arc<OwnedFd>>,
    pub(crate) metrics: Vec<OwnedFd>,
    pub(crate) memory: Arc<File>,
    /// Its devices of flash, in order.
    flash: Vec<File>,
}

/// What it had.
pub(crate) struct Inheritance {
    pub(crate) manifest: Manifest,
    pub(crate) connections: Vec<HandedConnection>,
    /// Connections whose listeners this server does not have.
    pub(crate) dropped: usize,
}

fn failed(path: &Path, why: impl std::fmt::Display) -> Failure {
    let hint = "the other server goes on serving";
    Failure::other(anyhow::anyhow!("take over from the server at {} (--takeover): {why}", path.display()))
        .hint(hint)
}

/// This server is to end before it has begun.
pub(crate) fn told_to_end(path: &Path) -> Failure {
    failed(path, "a signal has told this one to end")
}

impl Predecessor {
    /// Asks the server at the path; `None` if there is none.
    pub(crate) fn ask(path: &Path) -> Result<Option<Predecessor>, Failure> {
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) => {
                return Err(Failure::system(format!("reach {} (--takeover)", path.display()), error));
            }
        };
        Predecessor::answer(stream).map(Some).map_err(|why| failed(path, why))
    }

    fn answer(stream: UnixStream) -> Result<Predecessor, String> {
        let process = other_process(&stream).ok_or("its process cannot be watched")?;
        let mut wire = Wire::new(stream).map_err(|error| error.to_string())?;
        let hello = SuccessorHello { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned() };
        let bytes = serde_json::to_vec(&hello).map_err(|error| error.to_string())?;
        wire.send(TakeoverStep::Hello, &bytes, &[]).map_err(|error| error.to_string())?;
        let message = wire.expect(TakeoverStep::Offer, ANSWER)?;
        let offer: ServerOffer = parse(&message.bytes)?;
        if offer.format != FORMAT {
            return Err(format!("version {} hands over otherwise", offer.version));
        }
        let mut descriptors = message.descriptors.into_iter();
        let mut take = |count: usize| -> Vec<OwnedFd> { descriptors.by_ref().take(count).collect() };
        let (listeners, metrics) = (take(offer.listeners), take(offer.metrics));
        let memory = Arc::new(File::from(take(1).pop().ok_or("it has passed too few descriptors")?));
        let flash: Vec<File> = descriptors.map(File::from).collect();
        if flash.len() != offer.flash.as_ref().map_or(0, |flash| flash.devices.len()) {
            return Err("it has passed other descriptors than it says".to_owned());
        }
        let listeners = listeners.into_iter().map(Arc::new).collect();
        Ok(Predecessor { wire, process, offer, listeners, metrics, memory, flash })
    }

    /// Its clock, which goes on, and the time of day when that showed 0.
    pub(crate) fn clock(&self) -> (Clock, u64) {
        (Clock::of_origin(self.offer.clock_us), self.offer.zero_unix_ms)
    }

    /// The secrets of its TLS tickets, if it has made them up.
    pub(crate) fn tickets(&self) -> Option<HandedTickets> {
        self.offer.tickets.as_ref()?.tickets()
    }

    /// Its devices of flash, if they are those of this server's options.
    pub(crate) fn devices(&mut self, path: &Path, own: &FlashOptions) -> Result<Option<Devices>, Failure> {
        let files = std::mem::take(&mut self.flash);
        adopt(own, self.offer.flash.as_ref(), files).map_err(|why| failed(path, why))
    }

    /// Stops it and takes what it has. `addresses` are those of this server.
    pub(crate) fn inherit(&mut self, path: &Path, addresses: &[String]) -> Result<Inheritance, Failure> {
        self.receive(addresses).map_err(|why| failed(path, why))
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
    pub(crate) fn succeed(&mut self, path: &Path) -> Result<(), Failure> {
        // If it has given up meanwhile, that can still be read.
        let _ = self.wire.send(TakeoverStep::Have, b"", &[]);
        match self.wire.receive_answer(ANSWER) {
            Ok(TakeoverMessage { kind: TakeoverStep::Yours, .. }) => Ok(()),
            // It has gone on, and its memory is not as it was, even if it has ended since.
            Ok(message) => Err(failed(path, message.unexpected(TakeoverStep::Yours))),
            // Whoever has ended without a word has not gone on.
            Err(_) if !is_alive(&self.process) => Ok(()),
            Err(why) => Err(failed(path, why)),
        }
    }

    /// Says that this server serves.
    pub(crate) fn taken(&mut self) {
        // If it is gone, nobody has to know.
        let _ = self.wire.send(TakeoverStep::Taken, b"", &[]);
    }
}
