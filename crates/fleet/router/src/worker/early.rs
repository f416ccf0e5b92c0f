//! Early data: what is sent with the first packet of a connection (TCP Fast Open), and may arrive twice.
//!
//! Only gets are. Anything else waits for the first reply, with which the server has shown that it knows the connection.

use std::sync::Arc;

use net::{Place, Turn};

use super::RouteWorker;
use crate::message::operation::Operation;
use crate::servers::destination::DestinationState;

/// Whether a request may arrive twice.
pub(super) fn may_repeat(operation: Operation) -> bool {
    matches!(operation, Operation::Get | Operation::Gets)
}

impl RouteWorker {
    /// The place to dial for a request that may arrive twice, or not.
    pub(super) fn early_place(&mut self, place: u32, to: Place, may_repeat: bool) -> Place {
        let destination = &mut self.destinations[place as usize];
        let Place::Tcp(address) = to else { return to };
        if !destination.spec.fast_open {
            return to;
        }
        // With TLS, what is early is the handshake's first word.
        destination.is_early = may_repeat && destination.spec.tls.is_none();
        match may_repeat || destination.spec.tls.is_some() {
            true => Place::FastTcp(address),
            false => to,
        }
    }

    /// The server has answered: what waited for that is sent.
    #[cold]
    pub(super) fn end_early(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        destination.is_early = false;
        if let DestinationState::Open(link) = destination.state
            && let Some(output) = turn.output(link)
        {
            output.append(std::mem::take(&mut destination.later));
        }
    }
}
