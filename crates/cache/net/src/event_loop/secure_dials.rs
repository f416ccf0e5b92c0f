//! Dialled connections with TLS: between the connection and its session.

use stdx::clock::Now;

use super::EventLoop;
use crate::event_loop::dial::{DialTls, Place, Unreachable};
use crate::handler::Handler;
use crate::kernel::Kernel;
use crate::secure::handshakes::{DialledCandidate, SecuredDial};
use crate::slab::Token;

/// A dial whose handshake is under way on another thread.
pub(super) struct Securing {
    pub(super) place: Place,
    pub(super) tag: u64,
    /// Its socket is in the epoll set already.
    pub(super) watched: bool,
}

impl<H: Handler, K: Kernel> EventLoop<H, K> {
    /// Has the handshake done; a message brings its outcome.
    #[cold]
    pub(super) fn secure_dialled(
        &mut self,
        socket: K::Socket,
        securing: Securing,
        tls: DialTls,
        timeout_ms: u64,
    ) {
        let tag = securing.tag;
        let token = self.securing.insert(securing);
        if let Err(why) = self.kernel.secure(DialledCandidate { socket, tls, timeout_ms, token }) {
            self.securing.remove(token.index);
            self.unreachable(tag, why);
        }
    }

    /// Reports the outcome of a handshake to the handler.
    #[cold]
    pub(super) fn secured(
        &mut self,
        token: Token,
        result: Result<SecuredDial<K::Socket>, Unreachable>,
        now: Now,
    ) {
        if self.securing.get_mut(token).is_none() {
            return;
        }
        let Securing { place, tag, watched } = self.securing.remove(token.index);
        match result {
            Ok(SecuredDial { socket, security, session }) => {
                let mut arrival = self.dialled_arrival(&place, tag, &socket);
                arrival.security = Some(security);
                self.table.counters().dialled.add(1);
                self.open(socket, arrival, Some(session), watched, now);
            }
            Err(why) => self.unreachable(tag, why),
        }
    }

    /// Nobody waits for the handshakes any more.
    pub(super) fn cancel_securing(&mut self) {
        for index in self.securing.indices().collect::<Vec<_>>() {
            let Securing { tag, .. } = self.securing.remove(index);
            self.unreachable(tag, Unreachable::Stopping);
        }
    }
}
