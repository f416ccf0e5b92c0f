//! A thread that does handshakes: epoll, a deadline for each, and a limit for all.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::handshake::{Established, Failed, Handshake, HandshakeProgress, Purpose};
use super::{
    Acceptors, Candidate, DialledCandidate, HandshakeCounters, HandshakeFault, Newcomer, SecuredDial, count,
};
use crate::clock::precise_us;
use crate::event_loop::dial::Unreachable;
use crate::handler::Arrival;
use crate::kernel::driver::Poll;
use crate::network::dealer::Dealer;
use crate::network::limit::ConnectionLimit;
use crate::network::message_queue::{MessageQueue, WorkerMessage};
use crate::options::{AtLimit, Notice};
use crate::secure::kernel_tls;
use crate::slab::{Slab, Token};
use crate::sockets::address::Transport;

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
    pub(crate) candidates: Arc<MessageQueue<Candidate>>,
    pub(crate) counters: Arc<HandshakeCounters>,
    pub(crate) dealer: Dealer,
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) at_limit: AtLimit,
    /// The workers' queues, for dialled connections.
    pub(crate) workers: Arc<[Arc<MessageQueue>]>,
    /// Handshakes of accepted connections, of this thread, at a time.
    pub(crate) handshakes_max: usize,
    pub(crate) timeout_ms: u32,
    pub(crate) notice: Notice,
    pub(crate) stopping: Arc<AtomicBool>,
}

struct Entry {
    handshake: Handshake,
    deadline_ms: u64,
}

/// The handshakes of a thread.
pub(crate) struct HandshakeThread {
    setup: HandshakeSetup,
    poll: Poll,
    handshakes: Slab<Entry>,
    /// Those of accepted connections, by deadline, which is by age.
    accepted: BTreeSet<(u64, Token)>,
    /// Those of dialled connections.
    dialled: BTreeSet<(u64, Token)>,
    /// Those that are done and wait until a connection closes.
    done: VecDeque<Token>,
    buffer: Box<[u8]>,
}

impl HandshakeThread {
    pub(crate) fn new(setup: HandshakeSetup) -> Result<HandshakeThread, Errno> {
        let poll = Poll::new()?;
        poll.add(&setup.candidates.wake_up, WAKE_UP, EventFlags::IN | EventFlags::ET)?;
        Ok(HandshakeThread {
            setup,
            poll,
            handshakes: Slab::new(),
            accepted: BTreeSet::new(),
            dialled: BTreeSet::new(),
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
        let next = [self.accepted.first(), self.dialled.first()].into_iter().flatten().min();
        let until_deadline = next.map_or(TIMEOUT_MS, |(deadline_ms, _)| deadline_ms.saturating_sub(now_ms));
        let until_retry = if self.done.is_empty() { TIMEOUT_MS } else { RETRY_MS };
        until_deadline.min(until_retry)
    }

    /// Begins the handshakes of those that have come.
    fn admit(&mut self, now_ms: u64) {
        for candidate in self.setup.candidates.take() {
            match candidate {
                Candidate::Accepted(newcomer) => {
                    self.setup.counters.newcomers.fetch_sub(1, Ordering::Relaxed);
                    self.admit_accepted(newcomer, now_ms);
                }
                Candidate::Dialled(dialled, worker) => {
                    let DialledCandidate { socket, tls, timeout_ms, token } = dialled;
                    match Handshake::dialled(socket, tls, worker, token) {
                        Ok(handshake) => self.begin(handshake, now_ms + timeout_ms),
                        Err(error) => {
                            self.tell(worker, token, Err(Unreachable::Handshake(error.into())));
                        }
                    }
                }
            }
        }
    }

    fn admit_accepted(&mut self, Newcomer { socket, arrival, listener }: Newcomer, now_ms: u64) {
        if self.accepted.len() + self.done.len() >= self.setup.handshakes_max {
            // Those that are done wait for other connections to close, and are not displaced.
            let Some(&(_, oldest)) = self.accepted.first() else {
                return count(&self.setup.counters.displaced);
            };
            self.end(oldest, Ended::Displaced);
        }
        let acceptor = self.setup.acceptors[usize::from(listener)].clone();
        let acceptor = acceptor.expect("a newcomer's listener has an acceptor of sessions");
        match Handshake::accepted(socket, arrival, acceptor) {
            Ok(mut handshake) => {
                if handshake.is_for_kernel() {
                    self.prepare_for_kernel(&mut handshake);
                }
                self.begin(handshake, now_ms + u64::from(self.setup.timeout_ms));
            }
            Err(_) => count(&self.setup.counters.failed),
        }
    }

    fn begin(&mut self, handshake: Handshake, deadline_ms: u64) {
        let is_dialled = matches!(handshake.purpose, Purpose::Dialled(..));
        let token = self.handshakes.insert(Entry { handshake, deadline_ms });
        self.setup.counters.in_progress.fetch_add(1, Ordering::Relaxed);
        if is_dialled { &mut self.dialled } else { &mut self.accepted }.insert((deadline_ms, token));
        let socket = &self.handshakes.at(token.index).handshake.socket;
        if self.poll.add(socket, token.to_u64(), EventFlags::IN).is_err() {
            self.end(token, Ended::Failed(HandshakeFault::Socket));
        } else if is_dialled {
            // The first word is ours.
            self.advance(token);
        }
    }

    #[cold]
    fn prepare_for_kernel(&self, handshake: &mut Handshake) {
        let refused = self.setup.counters.kernel_refused.load(Ordering::Relaxed);
        let is_tcp = matches!(&handshake.purpose, Purpose::Accepted(arrival, _) if arrival.transport == Transport::Tcp);
        let prepared = if is_tcp && !refused { kernel_tls::prepare(&handshake.socket) } else { Ok(()) };
        if let Err(error) = prepared {
            self.refused_by_kernel(error);
        }
        if !is_tcp || refused || prepared.is_err() {
            handshake.stay_out_of_kernel();
        }
    }

    fn advance(&mut self, token: Token) {
        let Some(Entry { handshake, deadline_ms }) = self.handshakes.get_mut(token) else { return };
        match handshake.advance(&mut self.buffer) {
            Ok(HandshakeProgress::Waits(flags)) if flags == handshake.watched => {}
            Ok(HandshakeProgress::Waits(flags)) => {
                handshake.watched = flags;
                if self.poll.modify(&handshake.socket, token.to_u64(), flags).is_err() {
                    self.end(token, Ended::Failed(HandshakeFault::Socket));
                }
            }
            Ok(HandshakeProgress::Done) => {
                // From now on it waits for a worker, not for its peer, and has no deadline.
                let _watched = self.poll.remove(&handshake.socket);
                let due = (*deadline_ms, token);
                let _either = self.accepted.remove(&due) || self.dialled.remove(&due);
                self.done.push_back(token);
            }
            Err(Failed(fault)) => self.end(token, Ended::Failed(fault)),
        }
    }

    /// Gives established sessions to the workers, as long as there may be more connections.
    fn deal_done(&mut self) {
        for _ in 0..self.done.len() {
            let Some(token) = self.done.pop_front() else { break };
            let Some(Entry { handshake, .. }) = self.handshakes.get_mut(token) else { continue };
            let counts = matches!(handshake.purpose, Purpose::Accepted(..));
            if !counts || self.setup.limit.try_open() {
                self.deal(token);
            } else if let AtLimit::Refuse(line) = self.setup.at_limit {
                self.setup.limit.rejected.fetch_add(1, Ordering::Relaxed);
                self.remove(token).refuse(line);
            } else {
                self.done.push_back(token);
            }
        }
    }

    fn deal(&mut self, token: Token) {
        let handshake = self.remove(token);
        let counters = &self.setup.counters;
        let kind = if handshake.is_resumed() { &counters.resumed } else { &counters.full };
        match handshake.finish() {
            Ok((Purpose::Accepted(arrival, _), Established { socket, security, session })) => {
                count(kind.of(&security));
                let arrival = Arrival { security: Some(Arc::new(security)), ..arrival };
                self.setup.dealer.deal(match session {
                    Some(session) => WorkerMessage::Secured(socket, arrival, session),
                    None => WorkerMessage::Accepted(socket, arrival),
                });
            }
            Ok((Purpose::Dialled(worker, token), Established { socket, security, session })) => {
                count(kind.of(&security));
                let session = session.expect("only accepted connections are the kernel's");
                self.tell(worker, token, Ok(SecuredDial { socket, security: Arc::new(security), session }));
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
        while let Some((_, token)) = first_due(&self.accepted, now_ms).or(first_due(&self.dialled, now_ms)) {
            self.end(token, Ended::Expired);
        }
    }

    /// Ends a handshake without a session. It is counted first, so that a peer that sees the end finds it counted.
    fn end(&mut self, token: Token, how: Ended) {
        let counters = &self.setup.counters;
        count(match how {
            Ended::Failed(_) => &counters.failed,
            Ended::Expired => &counters.expired,
            Ended::Displaced => &counters.displaced,
        });
        let handshake = self.remove(token);
        if how == Ended::Expired {
            handshake.tell_end();
        }
        if let Purpose::Dialled(worker, dial) = handshake.purpose {
            let why = match how {
                Ended::Expired => Unreachable::TimedOut,
                Ended::Failed(fault) => Unreachable::Handshake(fault),
                Ended::Displaced => unreachable!("only accepted connections make room"),
            };
            self.tell(worker, dial, Err(why));
        }
    }

    /// Tells a worker what came of its dial.
    fn tell(&self, worker: usize, token: Token, result: Result<SecuredDial<OwnedFd>, Unreachable>) {
        self.setup.workers[worker].post(&mut vec![WorkerMessage::Dialled(token, result)]);
    }

    /// Takes a handshake out. With its socket it leaves the epoll set.
    fn remove(&mut self, token: Token) -> Handshake {
        let Entry { handshake, deadline_ms } = self.handshakes.remove(token.index);
        let due = (deadline_ms, token);
        let _was_done = !self.accepted.remove(&due) && !self.dialled.remove(&due);
        self.setup.counters.in_progress.fetch_sub(1, Ordering::Relaxed);
        handshake
    }
}

/// How a handshake ends without a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Failed(HandshakeFault),
    Expired,
    Displaced,
}

fn first_due(by_deadline: &BTreeSet<(u64, Token)>, now_ms: u64) -> Option<(u64, Token)> {
    by_deadline.first().copied().filter(|(deadline_ms, _)| *deadline_ms <= now_ms)
}
