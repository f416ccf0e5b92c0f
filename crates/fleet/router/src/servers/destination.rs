//! Destinations: a server as one worker sees it. Its connection, and the exchanges that wait for their replies.
//!
//! Replies come in the order of requests. An exchange that has timed out stays in the queue until its reply comes, which
//! is dropped. Nothing here sends: what is to be done is returned.

mod arrival;
mod exchange;
mod hot_side;
mod large;
mod reading;
mod tokens;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use net::Link;
use stdx::clock::Now;

use crate::client::HeldOutput;
use crate::plan::DestinationSpec;
use crate::servers::health::Health;
use crate::servers::udp::UdpSide;
use crate::stats::DestinationCells;

use arrival::ValueArrival;
pub(crate) use exchange::{Exchange, LateFailover, ReplyKind, ReplyTarget};
pub(crate) use hot_side::{HotNote, HotSide};
use large::LargeReply;
pub(crate) use reading::{Delivery, Malformed, Read, is_usual};
pub(crate) use tokens::ReplyToken;
use tokens::Tokens;

/// Requests of a destination without a reply, those that have timed out included.
pub(crate) const EXCHANGES_MAX: usize = 10_000;

/// Bytes of requests that a destination has not taken: 64 clients may send a value of memcached's usual limit at the same
/// moment, before anybody's request is refused.
pub(crate) const UNSENT_MAX: usize = 64 << 20;

/// Time limits that an exchange waits for at most, while large values in front of it arrive: by then another server may have
/// answered.
const WAITS_MAX: u64 = 10;

/// A server, for one worker.
pub(crate) struct Destination {
    pub(crate) spec: Arc<DestinationSpec>,
    pub(crate) health: Arc<Health>,
    pub(crate) cells: Arc<DestinationCells>,
    pub(crate) state: DestinationState,
    /// Requests that wait for their replies, the oldest first.
    pub(crate) exchanges: VecDeque<Exchange>,
    /// How many of the oldest have timed out.
    pub(crate) expired: usize,
    /// Requests for shadows that wait for their replies.
    pub(crate) shadows: usize,
    /// What identifies the replies of all exchanges, in their order.
    pub(crate) tokens: Tokens,
    /// Bytes of `tokens` that belong to exchanges that have timed out.
    pub(crate) expired_tokens: usize,
    /// Requests that wait for the connection.
    pub(crate) unsent: HeldOutput,
    /// The server may get what is sent twice, until it has answered: the connection began with TCP Fast Open.
    pub(crate) is_early: bool,
    /// Requests that wait for that answer, because they must not arrive twice, and all that follow them.
    pub(crate) later: HeldOutput,
    /// Its datagrams, if gets go over UDP.
    pub(crate) udp: Option<Box<UdpSide>>,
    /// What its exchanges mean for hot values, if its server has some.
    pub(crate) hot: Option<Box<HotSide>>,
    /// A large reply that is being received.
    pub(crate) large: Option<LargeReply>,
    /// What has arrived of large replies.
    pub(crate) arrival: ValueArrival,
    /// An entry among the worker's timers.
    pub(crate) has_timer: bool,
    /// The interval after the last probe, without its random part, while this worker probes the server.
    pub(crate) probe_interval_ms: Option<u32>,
    /// Number of the next opaque.
    pub(crate) opaque: u32,
    /// The key of a delivery with a [`LateFailover`], as its client wrote it.
    pub(crate) failed_key: Vec<u8>,
    /// A request was sent since connections without use were last looked for.
    pub(crate) was_used: bool,
    /// Something has come over the connection.
    pub(crate) has_answered: bool,
    /// The address of its name that was dialled last.
    pub(crate) address: Option<IpAddr>,
    /// Dials that have failed: which of a name's addresses is the next.
    pub(crate) dials_failed: u32,
    /// The dial that is under way follows one to the name's other address.
    pub(crate) is_second_dial: bool,
}

/// The connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DestinationState {
    /// None; the next request dials.
    Idle,
    /// The address of its name is being looked up.
    Resolving,
    Dialling,
    Open(Link),
}

impl Destination {
    pub(crate) fn new(spec: Arc<DestinationSpec>, health: Arc<Health>) -> Destination {
        let cells = Arc::new(DestinationCells::new(Arc::clone(&spec), Arc::clone(&health)));
        Destination {
            spec,
            health,
            cells,
            state: DestinationState::Idle,
            exchanges: VecDeque::new(),
            expired: 0,
            shadows: 0,
            tokens: Tokens::default(),
            expired_tokens: 0,
            unsent: HeldOutput::default(),
            is_early: false,
            later: HeldOutput::default(),
            udp: None,
            hot: None,
            large: None,
            arrival: ValueArrival::default(),
            has_timer: false,
            probe_interval_ms: None,
            opaque: 0,
            failed_key: Vec::new(),
            was_used: false,
            has_answered: false,
            address: None,
            dials_failed: 0,
            is_second_dial: false,
        }
    }

    /// Whether a request must wait for the first answer on a connection that began with TCP Fast Open.
    #[inline]
    pub(crate) fn must_wait(&self, may_repeat: bool) -> bool {
        self.is_early && (!may_repeat || !self.later.is_empty())
    }

    /// Whether there is room for another exchange.
    #[inline]
    pub(crate) fn has_room(&self, unsent: usize) -> bool {
        self.exchanges.len() < EXCHANGES_MAX && unsent <= UNSENT_MAX
    }

    /// The request to which the next reply belongs.
    #[inline]
    pub(crate) fn asked(&self) -> Option<&Exchange> {
        if self.expired > 0 { None } else { self.exchanges.front() }
    }

    /// Time limit for a reply.
    pub(crate) fn timeout_us(&self) -> u64 {
        u64::from(self.spec.timeout_ms) * 1000
    }

    /// When the oldest exchange that has not timed out does. While large values arrive, which may be those of other clients,
    /// no time passes for those that wait behind them, up to a limit.
    pub(crate) fn next_timeout(&self) -> Option<Now> {
        let oldest = self.exchanges.get(self.expired)?;
        let waits_since_us = oldest.sent_us.max(self.arrival.last_us());
        let at_most_us = oldest.sent_us + self.timeout_us() * WAITS_MAX;
        Some(Now { us: (waits_since_us + self.timeout_us()).min(at_most_us) })
    }

    /// Takes the oldest exchange that should have a reply by `now`: whom it was for. Its reply is dropped when it comes.
    pub(crate) fn expire(&mut self, now: Now) -> Option<FailedExchange> {
        if self.next_timeout()? > now {
            return None;
        }
        let exchange = &mut self.exchanges[self.expired];
        let mut failed = FailedExchange::new(exchange);
        for _ in 0..exchange.keys {
            let token = self.tokens.at(self.expired_tokens).expect("a token for each key");
            self.expired_tokens += token.size();
            failed.add(token);
        }
        self.expired += 1;
        (exchange.target, exchange.late_failover) = (ReplyTarget::Nobody, None);
        self.shadows -= usize::from(std::mem::take(&mut exchange.is_shadow));
        Some(failed)
    }

    /// The connection is gone, or there is none: takes all exchanges, except those that have timed out before.
    pub(crate) fn fail_all(&mut self) -> Vec<FailedExchange> {
        let mut all = Vec::new();
        for exchange in self.exchanges.drain(..) {
            let mut failed = FailedExchange::new(&exchange);
            for _ in 0..exchange.keys {
                let token = self.tokens.at(0).expect("a token for each key");
                failed.add(token);
                let size = token.size();
                self.tokens.pop(size);
            }
            all.push(failed);
        }
        all.drain(..self.expired);
        (self.expired, self.expired_tokens, self.shadows, self.large) = (0, 0, 0, None);
        self.unsent.clear();
        self.later.clear();
        self.is_early = false;
        self.state = DestinationState::Idle;
        all
    }
}

/// An exchange without a reply.
#[derive(Debug)]
pub(crate) struct FailedExchange {
    pub(crate) target: ReplyTarget,
    pub(crate) sent_us: u64,
    pub(crate) operation: Option<crate::Operation>,
    /// For [`ReplyTarget::Values`]: the parts without an answer.
    pub(crate) parts: Vec<u32>,
    /// Other servers are to be asked for these keys, in the order of the parts.
    pub(crate) late_failover: Option<LateFailover>,
    pub(crate) keys: Vec<Box<[u8]>>,
}

impl FailedExchange {
    fn new(exchange: &Exchange) -> FailedExchange {
        let Exchange { target, sent_us, operation, late_failover, .. } = *exchange;
        FailedExchange { target, sent_us, operation, parts: Vec::new(), late_failover, keys: Vec::new() }
    }

    fn add(&mut self, token: ReplyToken<'_>) {
        self.parts.push(token.part);
        if self.late_failover.is_some() {
            self.keys.push(token.client_key().into());
        }
    }
}
