//! A thread that does handshakes: epoll, a deadline for each, and a limit for all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::handshake::{Failed, Handshake, HandshakeProgress};
use super::{Acceptors, HandshakeCounters, Newcomer, count};
use crate::address::Transport;
use crate::clock::precise_us;
use crate::dealer::Dealer;
use crate::driver::Poll;
use crate::kernel_tls;
use crate::limit::ConnectionLimit;
use crate::message_queue::{MessageQueue, WorkerMessage};
use crate::options::{AtLimit, Notice};
use crate::slab::{Slab, Token};

const WAKE_UP: u64 = u64::MAX;

/// Bytes that are received at a time.
const RECEIVE_MAX: usize = 16 * 1024;

/// Length of a wait that only an event can end.
const TIMEOUT_MS: u64 = 60_000;

/// Time between two looks for room among the connections.
const RETRY_MS: u64 = 10;

/// What a thread needs.
pub(crate) struct HandshakeSetup {
    pub(crate) acceptors: Acceptors,
    pub(crate) newcomers: Arc<MessageQueue<Newcomer>>,
    pub(crate) counters: Arc<HandshakeCounters>,
    pub(crate) dealer: Dealer,
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) at_limit: AtLimit,
    /// Handshakes of this thread at a time.
    pub(crate) handshakes_max: usize,
    pub(crate) timeout_ms: u32,
    pub(crate) notice: Notice,
    pub(crate) stopping: Arc<AtomicBool>,
}

/// The handshakes of a thread.
pub(crate) struct HandshakeThread {
    setup: HandshakeSetup,
    poll: Poll,
    handshakes: Slab<Handshake>,
    count: usize,
    /// All of them, and some that are over, with their deadlines, which come in this order.
    by_age: VecDeque<(Token, u64)>,
    /// Those that are done and wait until a connection closes.
    done: VecDeque<Token>,
    buffer: Box<[u8]>,
}

impl HandshakeThread {
    pub(crate) fn new(setup: HandshakeSetup) -> Result<HandshakeThread, Errno> {
        let poll = Poll::new()?;
        poll.add(&setup.newcomers.wake_up, WAKE_UP, EventFlags::IN | EventFlags::ET)?;
        Ok(HandshakeThread {
            setup,
            poll,
            handshakes: Slab::new(),
            count: 0,
            by_age: VecDeque::new(),
            done: VecDeque::new(),
            buffer: vec![0; RECEIVE_MAX].into_boxed_slice(),
        })
    }

    /// Does handshakes until it is told to stop.
    pub(crate) fn run(mut self) -> Result<(), Errno> {
        let mut now_ms = precise_us() / 1000;
        while !self.setup.stopping.load(Ordering::SeqCst) {
            let events = self.poll.wait(self.wait_ms(now_ms))?;
            now_ms = precise_us() / 1000;
            for position in 0..events {
                match self.poll.event(position) {
                    (WAKE_UP, _) => self.admit(now_ms),
                    (data, _) => self.advance(Token::from_u64(data)),
                }
            }
            self.expire(now_ms);
            self.deal_done();
            self.setup.dealer.post();
        }
        Ok(())
    }

    fn wait_ms(&self, now_ms: u64) -> u64 {
        let until_deadline = self.by_age.front().map(|(_, deadline_ms)| deadline_ms.saturating_sub(now_ms));
        let until_retry = if self.done.is_empty() { TIMEOUT_MS } else { RETRY_MS };
        until_deadline.unwrap_or(TIMEOUT_MS).min(until_retry)
    }

    /// Begins the handshakes of newcomers.
    fn admit(&mut self, now_ms: u64) {
        let newcomers = self.setup.newcomers.take();
        self.setup.counters.newcomers.fetch_sub(newcomers.len(), Ordering::Relaxed);
        for newcomer in newcomers {
            if self.count == self.setup.handshakes_max {
                self.displace_oldest();
            }
            self.begin(newcomer, now_ms);
        }
        // The acceptor may have paused for these.
        self.setup.limit.descriptor_freed();
    }

    fn begin(&mut self, newcomer: Newcomer, now_ms: u64) {
        let acceptor = self.setup.acceptors[usize::from(newcomer.listener)].clone();
        let acceptor = acceptor.expect("a newcomer's listener has an acceptor of sessions");
        let Ok(mut handshake) = Handshake::new(newcomer.socket, newcomer.arrival, acceptor) else {
            return count(&self.setup.counters.failed);
        };
        if handshake.is_for_kernel() {
            self.prepare_for_kernel(&mut handshake);
        }
        let token = self.handshakes.insert(handshake);
        self.count += 1;
        self.setup.counters.in_progress.fetch_add(1, Ordering::Relaxed);
        self.forget_those_that_are_over();
        self.by_age.push_back((token, now_ms + u64::from(self.setup.timeout_ms)));
        let socket = &self.handshakes.at(token.index).socket;
        if self.poll.add(socket, token.to_u64(), EventFlags::IN).is_err() {
            self.fail(token);
        }
    }

    #[cold]
    fn prepare_for_kernel(&self, handshake: &mut Handshake) {
        let refused = self.setup.counters.kernel_refused.load(Ordering::Relaxed);
        let is_tcp = handshake.arrival.transport == Transport::Tcp;
        let prepared = if is_tcp && !refused { kernel_tls::prepare(&handshake.socket) } else { Ok(()) };
        if let Err(error) = prepared {
            self.refused_by_kernel(error);
        }
        if !is_tcp || refused || prepared.is_err() {
            handshake.stay_out_of_kernel();
        }
    }

    fn advance(&mut self, token: Token) {
        let Some(handshake) = self.handshakes.get_mut(token) else { return };
        match handshake.advance(&mut self.buffer) {
            Ok(HandshakeProgress::Waits(flags)) if flags == handshake.watched => {}
            Ok(HandshakeProgress::Waits(flags)) => {
                handshake.watched = flags;
                if self.poll.modify(&handshake.socket, token.to_u64(), flags).is_err() {
                    self.fail(token);
                }
            }
            Ok(HandshakeProgress::Done) => {
                // From now on it waits for a worker, not for its peer.
                let _watched = self.poll.remove(&handshake.socket);
                self.done.push_back(token);
            }
            Err(Failed) => self.fail(token),
        }
    }

    /// Gives finished handshakes to the workers, as long as there may be more connections.
    fn deal_done(&mut self) {
        while let Some(&token) = self.done.front() {
            if self.handshakes.get_mut(token).is_some() {
                if !self.setup.limit.try_open() {
                    let AtLimit::Refuse(_) = self.setup.at_limit else { return };
                    self.setup.limit.rejected.fetch_add(1, Ordering::Relaxed);
                    self.remove(token);
                } else {
                    self.deal(token);
                }
            }
            self.done.pop_front();
        }
    }

    fn deal(&mut self, token: Token) {
        let handshake = self.remove(token);
        let counters = &self.setup.counters;
        let kind = if handshake.is_resumed() { &counters.resumed } else { &counters.full };
        match handshake.finish() {
            Ok((socket, arrival, session)) => {
                count(kind);
                self.setup.dealer.deal(match session {
                    Some(session) => WorkerMessage::Secured(socket, arrival, session),
                    None => WorkerMessage::Accepted(socket, arrival),
                });
            }
            Err(error) => {
                count(&counters.failed);
                self.setup.limit.connection_closed();
                self.refused_by_kernel(error);
            }
        }
    }

    /// The kernel has no TLS, or not this cipher: sessions stay with the workers, and the operator is told once.
    #[cold]
    fn refused_by_kernel(&self, error: Errno) {
        if !self.setup.counters.kernel_refused.swap(true, Ordering::Relaxed) {
            (self.setup.notice)(&format!(
                "the kernel does not take the keys of TLS sessions ({error}); this process encrypts"
            ));
        }
    }

    /// Ends the handshakes whose time is over.
    fn expire(&mut self, now_ms: u64) {
        while let Some(&(token, _)) = self.by_age.front().filter(|(_, deadline_ms)| *deadline_ms <= now_ms) {
            self.by_age.pop_front();
            if self.handshakes.get_mut(token).is_some() {
                // First, so that a peer that sees the end finds it counted.
                count(&self.setup.counters.expired);
                self.remove(token);
            }
        }
    }

    fn displace_oldest(&mut self) {
        while let Some((token, _)) = self.by_age.pop_front() {
            if self.handshakes.get_mut(token).is_some() {
                count(&self.setup.counters.displaced);
                self.remove(token);
                return;
            }
        }
    }

    /// Keeps the list by age about as long as there are handshakes.
    fn forget_those_that_are_over(&mut self) {
        if self.by_age.len() > 2 * self.count + 1024 {
            let handshakes = &mut self.handshakes;
            self.by_age.retain(|(token, _)| handshakes.get_mut(*token).is_some());
        }
    }

    fn fail(&mut self, token: Token) {
        count(&self.setup.counters.failed);
        self.remove(token);
    }

    /// Takes a handshake out. With its socket it leaves the epoll set.
    fn remove(&mut self, token: Token) -> Handshake {
        self.count -= 1;
        self.setup.counters.in_progress.fetch_sub(1, Ordering::Relaxed);
        self.handshakes.remove(token.index)
    }
}
