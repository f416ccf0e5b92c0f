//! The side of the router that takes over.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::{HandedConnection, Intake};
use server::Notice;

use super::{FORMAT, RouterHello, RouterOffer, Sockets};
use crate::Error;
use crate::takeover::asking::Asking;
use crate::takeover::state::read_connections;
use crate::takeover::wire::{TakeoverStep, TakeoverWire};
use crate::takeover::{ANSWER, OtherProcess, parse};

const ROUTERS: Asking = Asking {
    who: "router",
    alone: "has ended before it gave its connections away: this one begins without them",
};

/// A router that offers itself. It routes until it has given everything away.
pub struct RouterBefore {
    /// Where it listens (`--takeover`), for messages.
    path: PathBuf,
    notice: Notice,
    wire: TakeoverWire,
    process: OtherProcess,
    offer: RouterOffer,
    listeners: Sockets,
    metrics: Vec<OwnedFd>,
}

/// What came from the router before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenConnections {
    /// Connections that are this router's now.
    pub connections: usize,
    /// Connections whose listeners this router does not have.
    pub dropped: usize,
}

fn ask_for(wire: &mut TakeoverWire) -> Result<(RouterOffer, Vec<OwnedFd>), String> {
    let hello = RouterHello { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned() };
    let bytes = serde_json::to_vec(&hello).map_err(|error| error.to_string())?;
    wire.send(TakeoverStep::RouterHello, &bytes, &[]).map_err(|error| error.to_string())?;
    let message = wire.expect(TakeoverStep::RouterOffer, ANSWER)?;
    let offer: RouterOffer = parse(&message.bytes)?;
    if offer.format != FORMAT {
        return Err(format!("version {} hands over otherwise", offer.version));
    }
    if message.descriptors.len() != offer.listeners + offer.metrics {
        return Err("it has passed other descriptors than it says".to_owned());
    }
    Ok((offer, message.descriptors))
}

impl RouterBefore {
    /// Asks the router at the path; `None` if there is none, or none any more. Its process has to be root's or this user's.
    ///
    /// # Errors
    /// If whoever listens there is another user, or does not offer itself.
    pub fn ask(path: &Path, notice: Notice) -> Result<Option<RouterBefore>, Error> {
        let found = ROUTERS.ask(path, &[], notice, ask_for)?;
        Ok(found.map(|(wire, process, (offer, mut descriptors))| {
            let metrics = descriptors.split_off(offer.listeners);
            let listeners = descriptors.into_iter().map(Arc::new).collect();
            RouterBefore { path: path.to_owned(), notice, wire, process, offer, listeners, metrics }
        }))
    }

    /// The sockets of its listeners, which are this router's, too.
    pub fn take_listeners(&mut self) -> Sockets {
        std::mem::take(&mut self.listeners)
    }

    /// The sockets of its endpoint of metrics, too.
    pub fn take_metrics(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.metrics)
    }

    /// Says that this router routes, and takes the connections of the other one until it has none. `addresses` are those of this router.
    /// `is_stopping`: a signal has told this one to end, and the other one goes on. `begin` is called before the other one ends: from then on this one is the router, and the next one
    /// has to find its socket.
    ///
    /// # Errors
    /// The other one goes on, and this one must not.
    pub fn take(
        mut self,
        addresses: &[String],
        intake: &Intake,
        is_stopping: impl Fn() -> bool,
        begin: impl FnOnce(),
    ) -> Result<TakenConnections, Error> {
        let mut taken = TakenConnections::default();
        let received = self.receive(addresses, intake, &is_stopping, &mut taken);
        match received {
            Ok(()) => {
                begin();
                // If it is gone, nobody has to know.
                let _ = self.wire.send(TakeoverStep::Taken, b"", &[]);
                Ok(taken)
            }
            Err(why) if !is_stopping() && !self.process.is_alive(&self.wire) => {
                (self.notice)(&ROUTERS.alone_line(&self.path, &why));
                begin();
                Ok(taken)
            }
            Err(why) => Err(ROUTERS.failed(&self.path, true, why)),
        }
    }

    fn receive(
        &mut self,
        addresses: &[String],
        intake: &Intake,
        is_stopping: &impl Fn() -> bool,
        taken: &mut TakenConnections,
    ) -> Result<(), String> {
        self.wire.send(TakeoverStep::Routes, b"", &[]).map_err(|error| error.to_string())?;
        loop {
            let message = self.wire.receive_answer(ANSWER)?;
            if is_stopping() {
                return Err("a signal has told this one to end".to_owned());
            }
            match message.kind {
                TakeoverStep::Yours => return Ok(()),
                TakeoverStep::Connections => {}
                _ => return Err(message.unexpected(TakeoverStep::Connections)),
            }
            let connections = read_connections(&message.bytes, message.descriptors)?;
            let all = connections.len();
            let own = connections.into_iter().filter_map(|connection| self.placed(connection, addresses));
            let own: Vec<HandedConnection> = own.collect();
            taken.connections += own.len();
            taken.dropped += all - own.len();
            intake.deal(own);
        }
    }

    /// The connection with the number that its listener has here.
    fn placed(&self, connection: HandedConnection, addresses: &[String]) -> Option<HandedConnection> {
        let address = self.offer.addresses.get(usize::from(connection.listener))?;
        let place = addresses.iter().position(|own| own == address)?;
        Some(HandedConnection { listener: place as u16, ..connection })
    }
}
