//! Dials of a worker between the order and the outcome.
//!
//! Limits: [`crate::Options::dialled_max`] for all orders (the [`crate::Turn`] counts them), and [`BEGUN_PER_MS_MAX`]
//! for the time that a handler that dials without end can take from the worker's connections.

use std::collections::{BTreeSet, VecDeque};

use rustix::event::epoll::EventFlags;
use stdx::clock::Now;

use crate::event_loop::dial::{Dial, Place, Unreachable};
use crate::kernel::{Connect, Kernel};
use crate::slab::{Slab, Token};

/// Dials begun in a millisecond. On loopback each does a whole handshake within the call, 16 µs if it is refused: a
/// handler that dials again after each refusal takes a quarter of its worker's time, and the connections of the worker
/// have the rest. A dial that connects takes 20 to 45 µs.
pub(crate) const BEGUN_PER_MS_MAX: usize = 16;

/// Time before a dial is begun again where the listen queue is full (connecting to a unix socket does not wait).
const RETRY_US: u64 = 5_000;

/// Marks the tokens of dials, so that they differ from those of connections. No process has so many descriptors.
const DIAL: u32 = 1 << 31;

/// Readiness to write, which an answer causes; edge-triggered.
const ANSWERED: EventFlags = EventFlags::OUT.union(EventFlags::ET);

/// Events that decide a dial.
const KNOWN: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

/// All dials of a worker that have no outcome yet.
pub(crate) struct Dials<S> {
    attempts: Slab<Attempt<S>>,
    /// Dials that have not been begun, in the order of their orders.
    queue: VecDeque<Token>,
    /// Dials to begin again, and when.
    busy: VecDeque<(Now, Token)>,
    /// All dials, by expiry and place.
    expiries: BTreeSet<(Now, u32)>,
    /// The start of the millisecond in which `begun` dials have been begun.
    window: Now,
    begun: usize,
    /// Dials that wait for their TLS sessions.
    securing: Slab<Securing>,
}

/// A dial whose handshake is under way on another thread.
pub(crate) struct Securing {
    pub(crate) place: Place,
    pub(crate) tag: u64,
    /// Its socket is in the epoll set already.
    pub(crate) watched: bool,
}

struct Attempt<S> {
    dial: Dial,
    tag: u64,
    expires: Now,
    /// Once begun.
    socket: Option<S>,
}

/// A finished dial.
pub(crate) struct DialOutcome<S> {
    pub(crate) dial: Dial,
    pub(crate) tag: u64,
    pub(crate) expires: Now,
    pub(crate) result: Result<Connected<S>, Unreachable>,
}

/// A connection that was dialled.
pub(crate) struct Connected<S> {
    pub(crate) socket: S,
    /// Its socket is in the epoll set already.
    pub(crate) watched: bool,
}

impl<S> Dials<S> {
    pub(crate) fn new() -> Dials<S> {
        Dials {
            attempts: Slab::new(),
            queue: VecDeque::new(),
            busy: VecDeque::new(),
            expiries: BTreeSet::new(),
            window: Now::default(),
            begun: 0,
            securing: Slab::new(),
        }
    }

    /// Whether no dial waits for its connection.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.expiries.is_empty()
    }

    /// Takes an order.
    pub(crate) fn enqueue(&mut self, dial: Dial, tag: u64, now: Now) {
        let expires = Now { us: now.us + u64::from(dial.timeout_ms) * 1000 };
        let token = self.attempts.insert(Attempt { dial, tag, expires, socket: None });
        self.expiries.insert((expires, token.index));
        self.queue.push_back(token);
    }

    /// The moment of the next action; in the past if there is something to do now.
    pub(crate) fn next(&self) -> Option<Now> {
        let (expires, _) = *self.expiries.first()?;
        let begin = (!self.queue.is_empty()).then(|| self.begins_at());
        let anew = self.busy.front().map(|(at, _)| *at);
        [begin, anew].into_iter().flatten().fold(expires, Now::min).into()
    }

    /// When the next dial may be begun.
    fn begins_at(&self) -> Now {
        if self.begun < BEGUN_PER_MS_MAX { Now::default() } else { Now { us: self.window.us + 1000 } }
    }

    /// Begins as many dials as are allowed now, and returns the first outcome that is known at once.
    pub(crate) fn begin<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        now: Now,
    ) -> Option<DialOutcome<S>> {
        while self.busy.front().is_some_and(|(at, _)| *at <= now) {
            self.queue.extend(self.busy.pop_front().map(|(_, token)| token));
        }
        if now.us >= self.window.us + 1000 {
            (self.window, self.begun) = (now, 0);
        }
        while self.begun < BEGUN_PER_MS_MAX {
            let token = self.queue.pop_front()?;
            // It may have expired in the queue.
            let attempt = self.attempts.get_mut(token).filter(|attempt| attempt.expires > now);
            let Some(attempt) = attempt else { continue };
            self.begun += 1;
            let result = match kernel.connect(&attempt.dial.place) {
                Connect::Done(socket) => Ok(Connected { socket, watched: false }),
                Connect::UnderWay(socket) => {
                    let name = Token { index: token.index | DIAL, ..token };
                    match kernel.watch(&socket, name.to_u64(), ANSWERED) {
                        Ok(()) => {
                            attempt.socket = Some(socket);
                            continue;
                        }
                        Err(error) => Err(Unreachable::from_errno(error)),
                    }
                }
                Connect::Busy => {
                    self.busy.push_back((Now { us: now.us + RETRY_US }, token));
                    continue;
                }
                Connect::Failed(why) => Err(why),
            };
            return Some(self.end(token.index, result));
        }
        None
    }

    /// Handles an event of the dial that `token` names, if it names one.
    pub(crate) fn event<K: Kernel<Socket = S>>(
        &mut self,
        kernel: &mut K,
        token: Token,
        flags: EventFlags,
    ) -> Option<DialOutcome<S>> {
        let token = Token { index: token.index ^ DIAL, ..token };
        let attempt = self.attempts.get_mut(token).filter(|_| flags.intersects(KNOWN))?;
        let socket = attempt.socket.take()?;
        let connected = kernel.connected(&socket, &attempt.dial.place);
        Some(self.end(token.index, connected.map(|()| Connected { socket, watched: true })))
    }

    /// Ends one dial that has expired.
    pub(crate) fn expire(&mut self, now: Now) -> Option<DialOutcome<S>> {
        let (_, index) = *self.expiries.first().filter(|(expires, _)| *expires <= now)?;
        Some(self.end(index, Err(Unreachable::TimedOut)))
    }

    /// Cancels one dial.
    pub(crate) fn cancel_first(&mut self) -> Option<DialOutcome<S>> {
        let (_, index) = *self.expiries.first()?;
        Some(self.end(index, Err(Unreachable::Stopping)))
    }

    /// Keeps a dial that is connected until its session is known, and names it.
    pub(crate) fn secure(&mut self, securing: Securing) -> Token {
        self.securing.insert(securing)
    }

    /// The dial whose session is known, unless it has been cancelled.
    pub(crate) fn secured(&mut self, token: Token) -> Option<Securing> {
        self.securing.get_mut(token)?;
        Some(self.securing.remove(token.index))
    }

    /// Cancels all dials that wait for their sessions.
    pub(crate) fn cancel_securing(&mut self) -> Vec<Securing> {
        let indices: Vec<u32> = self.securing.indices().collect();
        indices.into_iter().map(|index| self.securing.remove(index)).collect()
    }

    fn end(&mut self, index: u32, result: Result<Connected<S>, Unreachable>) -> DialOutcome<S> {
        let Attempt { dial, tag, expires, .. } = self.attempts.remove(index);
        self.expiries.remove(&(expires, index));
        DialOutcome { dial, tag, expires, result }
    }
}
