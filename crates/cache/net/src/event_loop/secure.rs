//! Connections with TLS: ciphertext is received and sent, the handler sees and writes content.

use super::{BODY_RECEIVE_MAX, EventLoop};
use crate::event_loop::connection::Secure;
use crate::event_loop::lanes::SEALED_MAX;
use crate::handler::{CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::secure::session::Room;
use rustix::io::Errno;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Prepares a lane to receive ciphertext, behind what waits of it.
    #[cold]
    pub(super) fn receive_sealed(&mut self, position: usize) {
        let (lane, sealed, _) = self.lanes.sealed_parts(position);
        let connection = self.slab.at_mut(lane.index);
        let Some(secure) = connection.secure.as_mut().filter(|_| lane.receive) else { return };
        let waiting = secure.session.unpack(sealed);
        lane.sealed = Some(waiting);
        // A receive into no room would look like the end of the input.
        lane.receive = waiting < SEALED_MAX;
        lane.received = Err(Errno::AGAIN);
    }

    /// Decrypts what the lanes have received.
    #[cold]
    pub(super) fn open_sealed(&mut self) {
        for position in 0..self.lanes.list.len() {
            if self.lanes.list[position].sealed.is_some() {
                self.open_lane(position);
            }
        }
    }

    fn open_lane(&mut self, position: usize) {
        let (lane, sealed, buffer) = self.lanes.sealed_parts(position);
        let waiting = lane.sealed.take().unwrap_or(0);
        let connection = self.slab.at_mut(lane.index);
        let Some(secure) = &mut connection.secure else { return };
        let Secure { session, wire } = &mut **secure;
        let mut ended = false;
        let received = match lane.received {
            Ok(received) => {
                ended = received == 0;
                connection.readable = !ended && (waiting + received == SEALED_MAX || connection.hangup);
                self.table.counters().bytes_read.add(received as u64);
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
        let body = self.handler.body(&mut connection.dialogue.state).unwrap_or_default();
        debug_assert!(
            body.is_empty() || lane.filled == 0,
            "a handler that gives memory has consumed its input"
        );
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

    /// Encrypts the outputs, for the send that follows.
    #[cold]
    pub(super) fn seal(&mut self) {
        for position in 0..self.lanes.list.len() {
            let connection = self.slab.at_mut(self.lanes.list[position].index);
            let Some(secure) = &connection.secure else { continue };
            // Between two requests.
            if secure.session.is_used_up() && connection.dialogue.is_at_rest() {
                connection.dialogue.next = Next::Close(CloseReason::Normal);
            }
            let is_over = connection.finished().is_some();
            let Some(secure) = &mut connection.secure else { continue };
            let (plain, wire, scratch) = self.lanes.wire_parts(position);
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

    /// Tells the peer that nothing more comes: otherwise it could not know that nobody has cut the connection. Where output
    /// is lost with the connection, it is cut.
    #[cold]
    pub(super) fn tell_end(&mut self, index: u32) {
        let connection = self.slab.at_mut(index);
        if connection.blocked.is_some() || connection.wire_len() > 0 {
            return;
        }
        match &mut connection.secure {
            Some(secure) => {
                let mut alert = Vec::new();
                secure.session.close(&mut alert);
                // It has been sent already where the end was known before the last output.
                if !alert.is_empty() {
                    self.kernel.send_last(&connection.socket, &alert);
                }
            }
            None => self.kernel.end_kernel_session(&connection.socket),
        }
    }

    /// Undoes the exchange of [`EventLoop::seal`], after the send.
    #[cold]
    pub(super) fn unseal(&mut self) {
        for position in 0..self.lanes.list.len() {
            let connection = self.slab.at_mut(self.lanes.list[position].index);
            let Some(secure) = &mut connection.secure else { continue };
            let (plain, wire, _) = self.lanes.wire_parts(position);
            std::mem::swap(plain, wire);
            if !wire.is_empty() {
                secure.wire = std::mem::take(wire);
            }
            self.lanes.recycle_wire(position);
        }
    }
}
