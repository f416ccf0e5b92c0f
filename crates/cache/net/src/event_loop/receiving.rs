//! Receives of single connections: into a handler's memory, with TLS, with stamps; and what each leaves to be done.

use rustix::io::Errno;
use stdx::clock::Now;

use super::EventLoop;
use crate::event_loop::connection::Connection;
use crate::event_loop::lanes::{BODY_RECEIVE_MAX, Lane};
use crate::handler::{CloseReason, Handler, Next};
use crate::kernel::Kernel;
use crate::network::connection_table::WorkerCounters;

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Prepares the receive of a connection with TLS, and carries out that of one with stamps.
    #[cold]
    pub(super) fn receive_apart(&mut self, position: usize, now: Now) {
        let index = self.lanes.list[position].index;
        let connection = self.slab.at_mut(index);
        let (is_secure, is_stamped) = (connection.secure.is_some(), connection.stamped);
        if is_secure {
            let (lane, sealed, _) = self.lanes.sealed_parts(position);
            self.secure.receive((lane, sealed), connection);
        }
        if !is_stamped {
            return;
        }
        let last_turn = self.stamped.begin_turn(index, now);
        if !is_secure {
            let (lane, buffer, _) = self.lanes.parts(position);
            if lane.receive {
                let counters = self.table.counters();
                receive_body(&mut self.handler, &mut self.kernel, lane, connection, buffer, counters);
            }
        }
        if self.lanes.list[position].receive {
            self.receive_stamped(position, last_turn, now);
        }
    }

    fn receive_stamped(&mut self, position: usize, last_turn: Now, now: Now) {
        let (lane, room) = self.lanes.target(position);
        let connection = self.slab.at_mut(lane.index);
        let outcome = self.kernel.receive_stamped(&connection.socket, room);
        lane.receive = false;
        lane.received = outcome.map(|(received, _)| received);
        if lane.sealed.is_none() {
            let (received, room) = (std::mem::replace(&mut lane.received, Ok(0)), room.len());
            note_received(lane, connection, received, room, self.table.counters());
        }
        if let Ok((_, Some(arrival))) = outcome {
            self.stamped.note_arrival(arrival, last_turn, now);
        }
    }
}

/// Receives into the handler's own memory if it gives some, and takes the lane out of the batch then.
#[inline]
pub(super) fn receive_body<H: Handler, K: Kernel>(
    handler: &mut H,
    kernel: &mut K,
    lane: &mut Lane,
    connection: &mut Connection<H, K>,
    buffer: &mut [u8],
    counters: &WorkerCounters,
) {
    let Some(body) = handler.body(&mut connection.dialogue.state) else { return };
    debug_assert!(!body.is_empty(), "memory for a body is never empty");
    debug_assert_eq!(lane.filled, 0, "a handler that gives memory has consumed its input");
    lane.receive = false;
    let body_len = body.len().min(BODY_RECEIVE_MAX);
    // Bytes behind the body may be received only if the body's end is in reach.
    let beyond = if body_len == body.len() { &mut buffer[lane.filled..] } else { &mut [][..] };
    let room = body_len + beyond.len();
    let received = kernel.receive_body(&connection.socket, &mut body[..body_len], beyond);
    lane.body = received.map_or(0, |received| received.min(body_len));
    note_received(lane, connection, received, room, counters);
    lane.filled -= lane.body;
}

/// Updates the state after a receive that had `room`.
#[inline]
pub(super) fn note_received<H: Handler, K: Kernel>(
    lane: &mut Lane,
    connection: &mut Connection<H, K>,
    received: Result<usize, Errno>,
    room: usize,
    counters: &WorkerCounters,
) {
    match received {
        // EIO: a TLS record that is no content, where the kernel decrypts. Most often it says that nothing more comes.
        Ok(0) | Err(Errno::IO) => {
            connection.ended = true;
            connection.readable = false;
        }
        Ok(received) => {
            // A short receive has emptied the socket, and later input causes an event; except that the end of the input
            // may have been reported already.
            connection.readable = received == room || connection.hangup;
            lane.filled += received;
            (lane.handle, lane.arrived) = (true, true);
            counters.bytes_read.add(received as u64);
        }
        Err(Errno::AGAIN) => connection.readable = false,
        Err(Errno::INTR) => {}
        Err(_) => {
            connection.dialogue.next = Next::Close(CloseReason::Error);
            lane.handle = false;
        }
    }
}
