//! Connections: the dialogue with the handler, which knows no socket, and the socket's side.

use stdx::gather::Gather;

use crate::event_loop::turn::Turn;
use crate::handler::{CloseReason, Handler, Next, Opened, Origin};
use crate::kernel::Kernel;
use crate::secure::session::{PeerEnd, Session};
use crate::{INPUT_MAX, handler};

/// The dialogue with the handler: shared by the event loop and the simulated host.
pub(crate) struct Dialogue<C> {
    pub(crate) state: C,
    /// Input that the handler has seen and not consumed.
    rest: Box<[u8]>,
    pub(crate) next: Next,
}

impl<C> Dialogue<C> {
    pub(crate) fn open<H: Handler<Connection = C>>(
        handler: &mut H,
        opened: &Opened,
        turn: &mut Turn<H::Held>,
    ) -> Dialogue<C> {
        Dialogue { state: handler.on_open(opened, turn), rest: Box::default(), next: Next::Read }
    }

    /// Copies the rest of earlier input to the front of `buffer` and returns its length. New input goes behind
    /// it, and `handle` is shown both.
    #[inline]
    pub(crate) fn unpack(&self, buffer: &mut [u8]) -> usize {
        let len = self.rest.len();
        if len > 0 {
            buffer[..len].copy_from_slice(&self.rest);
        }
        len
    }

    /// Takes the input that the handler has not consumed.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest).into_vec()
    }

    /// Gives a new dialogue the unconsumed input of an earlier one.
    pub(crate) fn set_rest(&mut self, rest: Vec<u8>) {
        self.rest = rest.into();
    }

    /// Whether there is room for more input.
    pub(crate) fn has_room(&self) -> bool {
        self.rest.len() < INPUT_MAX
    }

    /// Whether the handler waits for input and keeps none of a request that has begun, as far as can be seen here.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.next == Next::Read && self.rest.is_empty()
    }

    /// Calls the handler with `body` bytes that were received into its own memory, then with `input`.
    #[inline]
    pub(crate) fn handle<H: Handler<Connection = C>>(
        &mut self,
        handler: &mut H,
        body: usize,
        input: &[u8],
        output: &mut Gather<H::Held>,
        turn: &mut Turn<H::Held>,
    ) {
        if body > 0 {
            let next = handler.on_body(&mut self.state, body, output, turn);
            if !matches!(next, Next::Read | Next::Later) || input.is_empty() {
                return self.settle(next, input);
            }
        }
        let handler::Progress { consumed, next } = handler.on_bytes(&mut self.state, input, output, turn);
        self.settle(next, &input[consumed..]);
    }

    #[inline]
    fn settle(&mut self, next: Next, rest: &[u8]) {
        self.next = match next {
            Next::Read if rest.len() == INPUT_MAX => Next::Close(CloseReason::InputTooLong),
            next => next,
        };
        // Both are empty most of the time, and then nothing is allocated or freed.
        if !(rest.is_empty() && self.rest.is_empty()) {
            self.rest = rest.into();
        }
    }
}

/// What a connection with TLS has besides.
pub(crate) struct Secure<Held> {
    pub(crate) session: Session,
    /// Encrypted output that the socket has not taken. It goes before [`Connection::blocked`].
    pub(crate) wire: Gather<Held>,
}

/// A connection of a worker.
pub(crate) struct Connection<H: Handler, K: Kernel> {
    pub(crate) dialogue: Dialogue<H::Connection>,
    /// Output that the socket would not take, not encrypted. While there is some, nothing is received if the connection was
    /// accepted.
    pub(crate) blocked: Option<Box<Gather<H::Held>>>,
    pub(crate) secure: Option<Box<Secure<H::Held>>>,
    /// The kernel has the keys of its TLS session.
    pub(crate) in_kernel: bool,
    pub(crate) socket: K::Socket,
    /// The index of its listener, if it was accepted.
    pub(crate) listener: u16,
    /// The handler has dialled it. Such a connection is read also while its output is blocked: a peer may stop reading
    /// until its own output is read, and two such ends would wait for each other for ever.
    pub(crate) dialled: bool,
    /// It receives apart from the others: it has TLS, or stamps.
    pub(crate) apart: bool,
    /// Its arrivals can be stamped: TCP, not dialled, and without keys in the kernel.
    pub(crate) stampable: bool,
    /// Its arrivals are stamped.
    pub(crate) stamped: bool,
    /// Epoll reports when the socket takes output again.
    pub(crate) armed: bool,
    /// There may be something to receive: an event said so, and no short receive has contradicted it since.
    pub(crate) readable: bool,
    /// The peer will send no more than what is in the socket: receive until there is nothing.
    pub(crate) hangup: bool,
    /// The end of the peer's input has been received.
    pub(crate) ended: bool,
    /// The handler is to be called even if nothing arrives.
    pub(crate) due: bool,
    /// It is in the event loop's queue.
    pub(crate) queued: bool,
    /// It is in the event loop's list for the next tick.
    pub(crate) waiting: bool,
}

impl<H: Handler, K: Kernel> Connection<H, K> {
    pub(crate) fn new(
        socket: K::Socket,
        origin: Origin,
        session: Option<Box<Session>>,
        dialogue: Dialogue<H::Connection>,
    ) -> Connection<H, K> {
        let apart = session.is_some();
        Connection {
            dialogue,
            blocked: None,
            secure: session.map(|session| Box::new(Secure { session: *session, wire: Gather::default() })),
            in_kernel: false,
            socket,
            listener: match origin {
                Origin::Accepted { listener } => listener,
                Origin::Dialled { .. } => 0,
            },
            dialled: matches!(origin, Origin::Dialled { .. }),
            apart,
            stampable: false,
            stamped: false,
            armed: false,
            readable: false,
            hangup: false,
            ended: false,
            due: false,
            queued: false,
            waiting: false,
        }
    }

    /// Whether blocked output keeps the handler from being called.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        self.blocked.is_some() && !self.dialled
    }

    /// Whether a receive is due.
    #[inline]
    pub(crate) fn wants_input(&self) -> bool {
        let listens = match self.dialogue.next {
            Next::Read => true,
            Next::Later => self.dialogue.has_room(),
            Next::Again | Next::Wait | Next::Close(_) => false,
        };
        self.readable && !self.ended && !self.is_held_up() && listens
    }

    /// Asks the handler whether it has something to say yet to a peer that sends no more.
    #[inline]
    pub(crate) fn note_end(&mut self, handler: &mut H) {
        if self.ended
            && matches!(self.dialogue.next, Next::Read | Next::Later)
            && handler.on_finished(&mut self.dialogue.state)
        {
            self.dialogue.next = Next::Wait;
        }
    }

    /// The reason to close it now that its output is sent, if there is one.
    #[inline]
    pub(crate) fn finished(&self) -> Option<CloseReason> {
        match self.dialogue.next {
            Next::Close(reason) => Some(reason),
            Next::Again | Next::Wait => None,
            Next::Read | Next::Later => self.ended.then(|| self.end()),
        }
    }

    #[cold]
    fn end(&self) -> CloseReason {
        match &self.secure {
            Some(secure) if secure.session.end() == Some(PeerEnd::Failed) => CloseReason::Error,
            _ => CloseReason::Normal,
        }
    }

    /// Whether a TLS session has to be ended.
    #[inline]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.secure.is_some() || self.in_kernel
    }

    /// Tells the peer that nothing more comes: otherwise it could not know that nobody has cut the connection. Where output
    /// is lost with the connection, it is cut.
    #[cold]
    pub(crate) fn tell_end(&mut self, kernel: &mut K) {
        if self.blocked.is_some() || self.wire_len() > 0 {
            return;
        }
        match &mut self.secure {
            Some(secure) => {
                let mut alert = Vec::new();
                secure.session.close(&mut alert);
                // It has been sent already where the end was known before the last output.
                if !alert.is_empty() {
                    kernel.send_last(&self.socket, &alert);
                }
            }
            None => kernel.end_kernel_session(&self.socket),
        }
    }

    /// Its state, if it can be handed over now.
    pub(crate) fn packed(&self, handler: &H) -> Option<Vec<u8>> {
        if self.is_encrypted() { None } else { self.state_at_rest(handler) }
    }

    /// The state of an accepted connection between two requests.
    pub(crate) fn state_at_rest(&self, handler: &H) -> Option<Vec<u8>> {
        // One that waits until it is woken has input to be looked at once more, unless its handler is in the middle of something.
        let is_between = matches!(self.dialogue.next, Next::Read | Next::Again | Next::Wait);
        let is_idle = self.blocked.is_none() && !self.ended;
        if !self.dialled && is_between && is_idle { handler.pack(&self.dialogue.state) } else { None }
    }

    /// Encrypted output that the socket has not taken, in bytes.
    pub(crate) fn wire_len(&self) -> usize {
        self.secure.as_ref().map_or(0, |secure| secure.wire.len())
    }
}
