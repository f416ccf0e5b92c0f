//! The acceptor: the thread that accepts connections and deals them out to the workers in turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrAny, SocketFlags, acceptfrom_with, send};

use crate::handler::{Arrival, ConnectionId, Origin};
use crate::kernel::driver::Poll;
use crate::network::dealer::Dealer;
use crate::network::limit::ConnectionLimit;
use crate::network::message_queue::WorkerMessage;
use crate::options::{AtLimit, Notice};
use crate::secure::handshakes::{HandshakeDealer, Newcomer};
use crate::sockets::address::Transport;
use crate::sockets::listener::{Listener, local_address, peer_address};

/// Connections accepted from one listener before the others have their turn and the workers get their messages.
const ACCEPTS_MAX: usize = 64;

/// Length of a pause caused by a lack of descriptors or memory, unless a connection of this network closes earlier.
const RETRY_MS: u64 = 100;

/// Time between two looks whether the threads that do handshakes have caught up.
const BEHIND_MS: u64 = 5;

/// What a client with TLS is told at the limit, before its session has keys: an alert, fatal, internal_error (RFC 8446,
/// 5.1 and 6). It would take a line of text for a broken protocol.
const REFUSED: &[u8] = b"\x15\x03\x03\x00\x02\x02\x50";

/// Length of a wait that only an event can end.
const TIMEOUT_MS: u64 = 60_000;

const WAKE_UP: u64 = u64::MAX;

/// A listener that is none any more.
const HUNG_UP: EventFlags = EventFlags::HUP.union(EventFlags::RDHUP);

/// Accepts from all listeners.
pub(crate) struct AcceptLoop {
    listeners: Vec<WatchedListener>,
    dealer: Dealer,
    handshakes: Option<HandshakeDealer>,
    limit: Arc<ConnectionLimit>,
    at_limit: AtLimit,
    notice: Notice,
    stopping: Arc<AtomicBool>,
    poll: Poll,
    /// Listeners with TLS are not watched now.
    secure_held: bool,
    /// None is: the network gives its connections away.
    held: bool,
}

struct WatchedListener {
    /// Its index among the network's addresses.
    number: u16,
    listener: Listener,
    /// Whether it still listens: another process that holds the same socket may shut it down.
    listens: bool,
    /// Whether the system refused the last accept: the operator knows.
    refused: bool,
}

/// Outcome of accepting from a listener.
enum Accepted {
    /// The queue is empty, or this listener has had its share.
    Enough,
    /// The connection limit is reached.
    LimitReached,
    /// The system lacks descriptors or memory.
    Exhausted,
    /// The system does not let this process accept here. Other listeners may do better.
    Refused,
}

impl AcceptLoop {
    pub(crate) fn new(
        listeners: Vec<(u16, Listener)>,
        dealer: Dealer,
        handshakes: Option<HandshakeDealer>,
        limit: Arc<ConnectionLimit>,
        at_limit: AtLimit,
        notice: Notice,
        stopping: Arc<AtomicBool>,
    ) -> Result<AcceptLoop, Errno> {
        let poll = Poll::new()?;
        poll.add(&limit.wake_up, WAKE_UP, EventFlags::IN | EventFlags::ET)?;
        for ((_, listener), number) in listeners.iter().zip(0u64..) {
            poll.add(&listener.fd, number, EventFlags::IN | HUNG_UP)?;
        }
        let watched =
            |(number, listener)| WatchedListener { number, listener, listens: true, refused: false };
        let listeners = listeners.into_iter().map(watched).collect();
        Ok(AcceptLoop {
            listeners,
            dealer,
            handshakes,
            limit,
            at_limit,
            notice,
            stopping,
            poll,
            secure_held: false,
            held: false,
        })
    }

    /// Accepts until it is told to stop, and returns the listeners.
    pub(crate) fn run(mut self) -> Result<Vec<Listener>, Errno> {
        let mut wait_ms = TIMEOUT_MS;
        while !self.stopping.load(Ordering::SeqCst) {
            let events = self.poll.wait(wait_ms)?;
            self.hold()?;
            let paused = self.limit.is_paused();
            let accepted = if paused { self.accept_from_all() } else { self.accept_from_ready(events) };
            self.give_up_hung_up(events);
            self.post();
            wait_ms = match (accepted, paused) {
                (Accepted::Enough, false) => TIMEOUT_MS,
                (Accepted::Enough, true) => {
                    self.limit.resume();
                    self.listen(EventFlags::IN)?;
                    TIMEOUT_MS
                }
                (Accepted::LimitReached | Accepted::Exhausted | Accepted::Refused, false) => {
                    self.listen(EventFlags::empty())?;
                    self.limit.pause();
                    // Look once more: a connection may have closed before it could see the pause.
                    0
                }
                (Accepted::LimitReached, true) => TIMEOUT_MS,
                (Accepted::Exhausted | Accepted::Refused, true) => RETRY_MS,
            };
            wait_ms = wait_ms.min(self.hold_secure()?);
        }
        Ok(self.listeners.into_iter().map(|watched| watched.listener).collect())
    }

    /// Accepts nothing for as long as it is asked to.
    fn hold(&mut self) -> Result<(), Errno> {
        let asked = self.limit.is_hold_asked();
        if asked != self.held {
            self.held = asked;
            self.listen(if self.limit.is_paused() { EventFlags::empty() } else { EventFlags::IN })?;
            // What was accepted before has been posted.
            self.limit.note_hold(asked);
        }
        Ok(())
    }

    /// Whether connections from this listener would have to wait for the threads that do handshakes.
    fn is_behind(&self, number: usize) -> bool {
        let number = self.listeners[number].number;
        self.handshakes
            .as_ref()
            .is_some_and(|handshakes| handshakes.are_for(number) && handshakes.are_behind())
    }

    /// Stops to watch the listeners with TLS as long as the threads that do handshakes are behind: the others go on.
    /// Returns when to look again.
    fn hold_secure(&mut self) -> Result<u64, Errno> {
        let hold = self.handshakes.as_ref().is_some_and(HandshakeDealer::are_behind);
        if hold != self.secure_held {
            self.secure_held = hold;
            self.listen(if self.limit.is_paused() { EventFlags::empty() } else { EventFlags::IN })?;
        }
        Ok(if hold { BEHIND_MS } else { TIMEOUT_MS })
    }

    fn accept_from_ready(&mut self, events: usize) -> Accepted {
        let mut accepted = Accepted::Enough;
        for position in 0..events {
            let (data, _) = self.poll.event(position);
            if data == WAKE_UP {
                continue;
            }
            match self.accept_from(data as usize) {
                Accepted::Enough => {}
                Accepted::Refused => accepted = Accepted::Refused,
                short => return short,
            }
        }
        accepted
    }

    fn accept_from_all(&mut self) -> Accepted {
        let mut accepted = Accepted::Enough;
        for number in 0..self.listeners.len() {
            match self.accept_from(number) {
                Accepted::Enough => {}
                Accepted::Refused => accepted = Accepted::Refused,
                short => return short,
            }
        }
        accepted
    }

    fn accept_from(&mut self, number: usize) -> Accepted {
        for _ in 0..ACCEPTS_MAX {
            if self.held || !self.listeners[number].listens {
                break;
            }
            if self.at_limit == AtLimit::Wait && self.limit.is_reached() {
                return Accepted::LimitReached;
            }
            if self.is_behind(number) {
                break;
            }
            let listener = &self.listeners[number].listener;
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(&listener.fd, flags) {
                Ok((fd, peer)) => {
                    self.listeners[number].refused = false;
                    match self.at_limit {
                        AtLimit::Refuse(_) if self.limit.is_reached() && self.is_secure(number) => {
                            self.refuse(&fd, REFUSED);
                        }
                        AtLimit::Refuse(line) if self.limit.is_reached() => self.refuse(&fd, line),
                        _ => self.deal(fd, peer, number),
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return Accepted::Exhausted;
                }
                // A security module or a list of system calls forbids it. The connection stays in the queue, so the next
                // attempt would be at once, and in vain, too.
                Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                    self.say_refused(number, error);
                    return Accepted::Refused;
                }
                // Not a listener any more: accepting would fail again and again.
                Err(Errno::INVAL) => self.give_up(number),
                // An error of that connection alone (it was reset while it waited).
                Err(_) => {}
            }
        }
        Accepted::Enough
    }

    /// Says so once, until an accept succeeds.
    fn say_refused(&mut self, number: usize, error: Errno) {
        let WatchedListener { listener, refused, .. } = &mut self.listeners[number];
        if !std::mem::replace(refused, true) {
            let address = &listener.address;
            (self.notice)(&format!(
                "cannot accept connections on {address} ({error}): a security module or a list of system calls forbids it; \
                 they wait until it is allowed"
            ));
        }
    }

    /// Whether connections from this listener need a session.
    fn is_secure(&self, number: usize) -> bool {
        let WatchedListener { number, listener, .. } = &self.listeners[number];
        self.handshakes.as_ref().is_some_and(|handshakes| handshakes.are_for(*number)) && !listener.is_unix()
    }

    fn refuse(&self, fd: &OwnedFd, line: &[u8]) {
        self.limit.rejected.fetch_add(1, Ordering::Relaxed);
        // Best effort: a client that is gone, or whose socket cannot take a line, does not get it.
        let _sent = send(fd, line, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    fn deal(&mut self, socket: OwnedFd, peer: Option<SocketAddrAny>, number: usize) {
        let is_secure = self.is_secure(number);
        let WatchedListener { number, listener, .. } = &self.listeners[number];
        let secure = self.handshakes.as_mut().filter(|_| is_secure);
        let arrival = Arrival {
            // A connection counts when its handshake is over.
            id: ConnectionId(match secure {
                Some(_) => self.limit.next_id(),
                None => self.limit.connection_opened(),
            }),
            origin: Origin::Accepted { listener: *number },
            transport: if listener.is_unix() { Transport::Unix } else { Transport::Tcp },
            peer: peer_address(peer, listener),
            local: local_address(&socket, listener),
            security: None,
        };
        match secure {
            Some(handshakes) => handshakes.begin(Newcomer { socket, arrival, listener: *number }),
            None => self.dealer.deal(WorkerMessage::Accepted(socket, arrival)),
        }
    }

    /// Gives up the listeners that are none any more, which the kernel would report again and again. Accepting does not
    /// show it during a pause, and never for a unix socket: there it is as if nobody had come.
    fn give_up_hung_up(&mut self, events: usize) {
        for position in 0..events {
            let (data, flags) = self.poll.event(position);
            if data != WAKE_UP && flags.intersects(HUNG_UP) {
                self.give_up(data as usize);
            }
        }
    }

    /// Accepts from this listener no more; the others go on.
    fn give_up(&mut self, number: usize) {
        let WatchedListener { listener, listens, .. } = &mut self.listeners[number];
        if std::mem::take(listens) {
            // It is watched, so that this cannot fail.
            let _removed = self.poll.remove(&listener.fd);
            let address = &listener.address;
            let why = "another process has shut the socket down";
            (self.notice)(&format!("no longer listens on {address}: {why}"));
        }
    }

    /// Posts what has been accepted.
    fn post(&mut self) {
        self.dealer.post();
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.post();
        }
    }

    /// Watches all listeners for `flags`, but those with TLS for none while they are held. With none, they stay open and
    /// their queues fill.
    fn listen(&self, flags: EventFlags) -> Result<(), Errno> {
        let is_secure =
            |number| self.handshakes.as_ref().is_some_and(|handshakes| handshakes.are_for(number));
        for (watched, position) in self.listeners.iter().zip(0u64..).filter(|(watched, _)| watched.listens) {
            let held = self.held || self.secure_held && is_secure(watched.number);
            let flags = if held { EventFlags::empty() } else { flags };
            self.poll.modify(&watched.listener.fd, position, flags | HUNG_UP)?;
        }
        Ok(())
    }
}
