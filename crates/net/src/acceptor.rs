//! The thread that accepts connections and deals them out to the workers in turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrAny, SocketFlags, acceptfrom_with, send};

use crate::address::Transport;
use crate::driver::Poll;
use crate::handler::{Arrival, ConnectionId, Origin};
use crate::limit::Limit;
use crate::listener::{Listener, local_address, peer_address};
use crate::mailbox::{Letter, Mailbox};
use crate::options::AtLimit;

/// Connections accepted from one listener before the others have their turn and the workers get their mail.
const ACCEPTS_MAX: usize = 64;

/// How long a pause for want of descriptors or memory lasts if no connection of ours closes.
const RETRY_MS: u64 = 100;

/// How long to wait where nothing but an event can change anything.
const PATIENCE_MS: u64 = 60_000;

const BELL: u64 = u64::MAX;

/// Accepts from all listeners.
pub(crate) struct Acceptor {
    /// With their indices among the network's addresses.
    listeners: Vec<(u16, Listener)>,
    mailboxes: Vec<Arc<Mailbox>>,
    limit: Arc<Limit>,
    at_limit: AtLimit,
    stopping: Arc<AtomicBool>,
    poll: Poll,
    /// Letters not posted yet, by worker.
    letters: Vec<Vec<Letter>>,
    next_worker: usize,
}

/// What came of accepting from a listener.
enum Accepted {
    /// All there was, or as many as may be at a time.
    Enough,
    /// No more connections are wanted.
    LimitReached,
    /// The system is short of something.
    Exhausted,
}

impl Acceptor {
    pub(crate) fn new(
        listeners: Vec<(u16, Listener)>,
        mailboxes: Vec<Arc<Mailbox>>,
        limit: Arc<Limit>,
        at_limit: AtLimit,
        stopping: Arc<AtomicBool>,
    ) -> Result<Acceptor, Errno> {
        let poll = Poll::new()?;
        poll.add(&limit.bell, BELL, EventFlags::IN | EventFlags::ET)?;
        for ((_, listener), number) in listeners.iter().zip(0u64..) {
            poll.add(&listener.fd, number, EventFlags::IN)?;
        }
        let letters = mailboxes.iter().map(|_| Vec::new()).collect();
        Ok(Acceptor { listeners, mailboxes, limit, at_limit, stopping, poll, letters, next_worker: 0 })
    }

    /// Accepts until it is told to stop.
    pub(crate) fn run(mut self) -> Result<(), Errno> {
        let mut patience_ms = PATIENCE_MS;
        while !self.stopping.load(Ordering::SeqCst) {
            let events = self.poll.wait(patience_ms)?;
            let paused = self.limit.is_paused();
            let accepted = if paused { self.accept_from_all() } else { self.accept_from_ready(events) };
            self.post();
            patience_ms = match (accepted, paused) {
                (Accepted::Enough, false) => PATIENCE_MS,
                (Accepted::Enough, true) => {
                    self.limit.resume();
                    self.listen(EventFlags::IN)?;
                    PATIENCE_MS
                }
                (Accepted::LimitReached | Accepted::Exhausted, false) => {
                    self.listen(EventFlags::empty())?;
                    self.limit.pause();
                    // Looks once more: a connection may have closed without seeing the pause.
                    0
                }
                (Accepted::LimitReached, true) => PATIENCE_MS,
                (Accepted::Exhausted, true) => RETRY_MS,
            };
        }
        Ok(())
    }

    fn accept_from_ready(&mut self, events: usize) -> Accepted {
        for position in 0..events {
            let (data, _) = self.poll.event(position);
            if data == BELL {
                continue;
            }
            match self.accept_from(data as usize) {
                Accepted::Enough => {}
                short => return short,
            }
        }
        Accepted::Enough
    }

    fn accept_from_all(&mut self) -> Accepted {
        for number in 0..self.listeners.len() {
            match self.accept_from(number) {
                Accepted::Enough => {}
                short => return short,
            }
        }
        Accepted::Enough
    }

    fn accept_from(&mut self, number: usize) -> Accepted {
        for _ in 0..ACCEPTS_MAX {
            if self.at_limit == AtLimit::Wait && self.limit.is_reached() {
                return Accepted::LimitReached;
            }
            let (_, listener) = &self.listeners[number];
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(&listener.fd, flags) {
                Ok((fd, peer)) => match self.at_limit {
                    AtLimit::Refuse(line) if self.limit.is_reached() => self.refuse(&fd, line),
                    _ => self.deal(fd, peer, number),
                },
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return Accepted::Exhausted;
                }
                // That connection's own trouble (it was reset while it waited, a firewall refused it).
                Err(_) => {}
            }
        }
        Accepted::Enough
    }

    fn refuse(&self, fd: &OwnedFd, line: &[u8]) {
        self.limit.rejected.fetch_add(1, Ordering::Relaxed);
        // A courtesy: a client that is gone, or whose socket cannot take a line, does not get it.
        let _sent = send(fd, line, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    fn deal(&mut self, fd: OwnedFd, peer: Option<SocketAddrAny>, number: usize) {
        let (number, listener) = &self.listeners[number];
        let arrival = Arrival {
            id: ConnectionId(self.limit.enter()),
            origin: Origin::Accepted { listener: *number },
            transport: if listener.is_unix() { Transport::Unix } else { Transport::Tcp },
            peer: peer_address(peer, listener),
            local: local_address(&fd, listener),
        };
        self.letters[self.next_worker].push(Letter::Accepted(fd, arrival));
        self.next_worker = (self.next_worker + 1) % self.letters.len();
    }

    /// Posts what has been accepted.
    fn post(&mut self) {
        for (letters, mailbox) in self.letters.iter_mut().zip(&self.mailboxes) {
            if !letters.is_empty() {
                mailbox.post(letters);
            }
        }
    }

    /// Listens for `flags` of all listeners. With none, they stay open and their queues fill.
    fn listen(&self, flags: EventFlags) -> Result<(), Errno> {
        let numbered = self.listeners.iter().zip(0u64..);
        numbered
            .into_iter()
            .try_for_each(|((_, listener), number)| self.poll.modify(&listener.fd, number, flags))
    }
}
