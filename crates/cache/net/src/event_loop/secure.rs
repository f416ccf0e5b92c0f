//! Connections with TLS: ciphertext is received and sent, the handler sees and writes content.

use rustix::io::Errno;

use crate::event_loop::connection::{Connection, Secure};
use crate::event_loop::lanes::{BODY_RECEIVE_MAX, Lane, Lanes, SEALED_MAX};
use crate::handler::{CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::network::connection_table::WorkerCounters;
use crate::secure::session::Room;
use crate::slab::Slab;

/// The connections of a worker that have TLS: without any, a round has nothing to do here.
#[derive(Default)]
pub(super) struct SecureConnections {
    count: usize,
}

impl SecureConnections {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Counts one more, and prepares the lanes for it.
    pub(super) fn add<Held: AsRef<[u8]>>(&mut self, lanes: &mut Lanes<Held>) {
        self.count += 1;
        lanes.prepare_sealed();
    }

    pub(super) fn remove(&mut self) {
        self.count -= 1;
    }

    /// Prepares a lane to receive ciphertext, behind what waits of it.
    #[cold]
    pub(super) fn receive<H: Handler, K: Kernel>(
        &self,
        (lane, sealed): (&mut Lane, &mut [u8]),
        connection: &mut Connection<H, K>,
    ) {
        let Some(secure) = connection.secure.as_mut().filter(|_| lane.receive) else { return };
        let waiting = secure.session.unpack(sealed);
        lane.sealed = Some(waiting);
        // A receive into no room would look like the end of the input.
        lane.receive = waiting < SEALED_MAX;
        lane.received = Err(Errno::AGAIN);
    }

    /// Decrypts what the lanes have received.
    #[cold]
    pub(super) fn open<H: Handler, K: Kernel>(
        &self,
        lanes: &mut Lanes<H::Held>,
        slab: &mut Slab<Connection<H, K>>,
        handler: &mut H,
        counters: &WorkerCounters,
    ) {
        for position in 0..lanes.list.len() {
            if lanes.list[position].sealed.is_some() {
                let connection = slab.at_mut(lanes.list[position].index);
                open_lane(lanes.sealed_parts(position), connection, handler, counters);
            }
        }
    }

    /// Encrypts the outputs, for the send that follows.
    #[cold]
    pub(super) fn seal<H: Handler, K: Kernel>(
        &self,
        lanes: &mut Lanes<H::Held>,
        slab: &mut Slab<Connection<H, K>>,
    ) {
        for position in 0..lanes.list.len() {
            let connection = slab.at_mut(lanes.list[position].index);
            let Some(secure) = &connection.secure else { continue };
            // Between two requests.
            if secure.session.is_used_up() && connection.dialogue.is_at_rest() {
                connection.dialogue.next = Next::Close(CloseReason::Normal);
            }
            let is_over = connection.finished().is_some();
            let Some(secure) = &mut connection.secure else { continue };
            let (plain, wire, scratch) = lanes.wire_parts(position);
            if !secure.wire.is_empty() {
                *wire = std::mem::take(&mut secure.wire);
            }
            if secure.session.seal(plain, wire, scratch).is_err() {
                // What cannot be encrypted cannot be sent.
                plain.clear();
                connection.dialogue.next = Next::Close(CloseReason::Error);
                secure.session.close(wire.copied());
            } else if is_over && plain.is_empty() {
                secure.session.close(wire.copied());
            }
            std::mem::swap(plain, wire);
        }
    }

    /// Undoes the exchange of [`SecureConnections::seal`], after the send.
    #[cold]
    pub(super) fn unseal<H: Handler, K: Kernel>(
        &self,
        lanes: &mut Lanes<H::Held>,
        slab: &mut Slab<Connection<H, K>>,
    ) {
        for position in 0..lanes.list.len() {
            let connection = slab.at_mut(lanes.list[position].index);
            let Some(secure) = &mut connection.secure else { continue };
            let (plain, wire, _) = lanes.wire_parts(position);
            std::mem::swap(plain, wire);
            if !wire.is_empty() {
                secure.wire = std::mem::take(wire);
            }
            lanes.recycle_wire(position);
        }
    }
}

/// Decrypts what one lane has received: its record, its buffer for ciphertext and its input buffer.
fn open_lane<H: Handler, K: Kernel>(
    (lane, sealed, buffer): (&mut Lane, &mut [u8], &mut [u8]),
    connection: &mut Connection<H, K>,
    handler: &mut H,
    counters: &WorkerCounters,
) {
    let waiting = lane.sealed.take().unwrap_or(0);
    let Some(secure) = &mut connection.secure else { return };
    let Secure { session, wire } = &mut **secure;
    let mut ended = false;
    let received = match lane.received {
        Ok(received) => {
            ended = received == 0;
            connection.readable = !ended && (waiting + received == SEALED_MAX || connection.hangup);
            counters.bytes_read.add(received as u64);
            received
        }
        Err(Errno::AGAIN) => {
            connection.readable = false;
            0
        }
        Err(Errno::INTR) => 0,
        Err(_) => {
            session.abandon();
            connection.dialogue.next = Next::Close(CloseReason::Error);
            lane.handle = false;
            return;
        }
    };
    let body = handler.body(&mut connection.dialogue.state).unwrap_or_default();
    debug_assert!(body.is_empty() || lane.filled == 0, "a handler that gives memory has consumed its input");
    let body_len = body.len().min(BODY_RECEIVE_MAX);
    // Bytes behind the body only if the body's end is in reach.
    let beyond = if body_len == body.len() { &mut buffer[lane.filled..] } else { &mut [][..] };
    let mut room = Room { body: &mut body[..body_len], buffer: beyond, in_body: 0, in_buffer: 0 };
    session.open(&mut sealed[..waiting + received], &mut room, wire.copied());
    (lane.body, lane.filled) = (room.in_body, lane.filled + room.in_buffer);
    if room.in_body + room.in_buffer > 0 {
        (lane.handle, lane.arrived) = (true, true);
    }
    connection.readable |= session.has_input();
    connection.ended = session.end().is_some() || ended && !session.has_input();
}
