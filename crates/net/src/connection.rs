//! One connection: the conversation with its handler, which knows no socket, and the socket's side.

use stdx::gather::Gather;

use crate::handler::{CloseReason, Handler, Next, Opened, Origin};
use crate::kernel::Kernel;
use crate::turn::Turn;
use crate::{INPUT_MAX, handler};

/// The conversation: what the workers and the simulated host have in common.
pub(crate) struct Talk<C> {
    pub(crate) state: C,
    /// Input that the handler has seen and not consumed.
    rest: Box<[u8]>,
    pub(crate) wish: Wish,
}

/// What the handler wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Read,
    Again,
    Later,
    Wait,
    Close(CloseReason),
}

impl<C> Talk<C> {
    pub(crate) fn open<H: Handler<Connection = C>>(
        handler: &mut H,
        opened: &Opened,
        turn: &mut Turn<H::Held>,
    ) -> Talk<C> {
        Talk { state: handler.on_open(opened, turn), rest: Box::default(), wish: Wish::Read }
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

    /// Whether more input would find room.
    pub(crate) fn has_room(&self) -> bool {
        self.rest.len() < INPUT_MAX
    }

    /// Lets the handler have `body` bytes that were received into its own memory, then `input`.
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
        self.wish = match next {
            Next::Read if rest.len() == INPUT_MAX => Wish::Close(CloseReason::InputTooLong),
            Next::Read => Wish::Read,
            Next::Again => Wish::Again,
            Next::Later => Wish::Later,
            Next::Wait => Wish::Wait,
            Next::Close(reason) => Wish::Close(reason),
        };
        // Both are empty most of the time, and then nothing is allocated or freed.
        if !(rest.is_empty() && self.rest.is_empty()) {
            self.rest = rest.into();
        }
    }
}

/// A connection of a worker.
pub(crate) struct Connection<H: Handler, K: Kernel> {
    pub(crate) talk: Talk<H::Connection>,
    /// Output that the socket would not take. While there is some, nothing is received if the connection was accepted.
    pub(crate) blocked: Option<Box<Gather<H::Held>>>,
    pub(crate) socket: K::Socket,
    /// The handler has dialled it. Such a connection is read also while its output is blocked: its peer may be one that
    /// stops reading while nobody reads from it, and two such ends would wait for each other for ever.
    pub(crate) dialled: bool,
    /// Epoll tells when the socket takes output again.
    pub(crate) armed: bool,
    /// There may be something to receive: an event said so, and no short receive has denied it since.
    pub(crate) readable: bool,
    /// The peer will send no more than what is in the socket: receive until there is nothing.
    pub(crate) hangup: bool,
    /// The end of the peer's input has been received.
    pub(crate) ended: bool,
    /// The handler is to be called even if nothing arrives.
    pub(crate) due: bool,
    /// It stands in the worker's queue.
    pub(crate) queued: bool,
    /// It stands in the worker's list for the next tick.
    pub(crate) waiting: bool,
}

impl<H: Handler, K: Kernel> Connection<H, K> {
    pub(crate) fn new(socket: K::Socket, origin: Origin, talk: Talk<H::Connection>) -> Connection<H, K> {
        Connection {
            talk,
            blocked: None,
            socket,
            dialled: matches!(origin, Origin::Dialled { .. }),
            armed: false,
            readable: false,
            hangup: false,
            ended: false,
            due: false,
            queued: false,
            waiting: false,
        }
    }

    /// Whether its output keeps the handler from being called.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        self.blocked.is_some() && !self.dialled
    }

    /// Whether a receive is due.
    #[inline]
    pub(crate) fn wants_input(&self) -> bool {
        let listens = match self.talk.wish {
            Wish::Read => true,
            Wish::Later => self.talk.has_room(),
            Wish::Again | Wish::Wait | Wish::Close(_) => false,
        };
        self.readable && !self.ended && !self.is_held_up() && listens
    }

    /// Why it should be closed now that its output is out, if it should.
    #[inline]
    pub(crate) fn finished(&self) -> Option<CloseReason> {
        match self.talk.wish {
            Wish::Close(reason) => Some(reason),
            Wish::Again | Wish::Wait => None,
            Wish::Read | Wish::Later => self.ended.then_some(CloseReason::Normal),
        }
    }
}
