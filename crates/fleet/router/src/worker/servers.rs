//! Connections to servers: dialling, sending, replies, timeouts, probes.

use std::cmp::Reverse;
use std::fmt::Display;
use std::sync::Arc;

use protocol::limits::LINE_LEN_MAX;
use protocol::number::write_u64;

use net::{CloseReason, Dial, DialTls, Link, Next, Progress, Turn, Unreachable};
use stdx::clock::Now;

use super::RouteWorker;
use super::early::may_repeat;
use crate::message::key::RoutedKey;
use crate::message::key_groups::KeySpan;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::servers::destination::{
    Destination, DestinationState, Exchange, Malformed, Read, ReplyKind, ReplyTarget, ReplyToken,
};
use crate::servers::health::{HealthChange, HealthRecovery, probe_delay_ms, probe_interval_ms};
use crate::shared::notices::NoticeKind;
use crate::stats::DestinationPhase;

/// mcrouter's mark behind the keys of failovers, for who reads the keys at a server.
const FAILOVER_TAG: &[u8] = b":failover=1";

/// The most words of a meta request's line that memcached 1.6.18 reads. It answers an error to more, and takes the body for
/// requests; 1.6.45 reads 20.
const META_WORDS_MAX: usize = 19;

/// The rest of a `delete` that must not end with its key: the time that memcached 1.2 held a key for, of which all later
/// versions know that it may be 0.
const HOLD_OF_DELETE: &[u8] = b" 0\r\n";

/// A request that was not sent.
pub(super) struct NotSent {
    pub(super) outcome: Outcome,
    pub(super) message: String,
}

impl RouteWorker {
    /// Sends a request to a destination.
    #[inline]
    pub(super) fn send(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        self.send_as(keys_of(message, keep_prefix), place, message, target, turn)
    }

    /// The same for a failover whose key says so, if it has a hash stop and room.
    #[cold]
    pub(super) fn send_tagged(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let RoutedKey { full, prefix_len, routing_len } = message.key;
        let key = if keep_prefix { full } else { message.key.bare() };
        let tagged = [key, FAILOVER_TAG].concat();
        if prefix_len + routing_len == full.len() || tagged.len() > protocol::limits::KEY_LEN_MAX {
            return self.send(place, message, keep_prefix, target, turn);
        }
        self.send_as((&tagged, message.client_key()), place, message, target, turn)
    }

    /// The same for a shadow, unless its server has too many of these requests.
    #[inline(never)]
    pub(super) fn send_shadow(
        &mut self,
        place: u32,
        message: &RoutedRequest<'_>,
        keep_prefix: bool,
        (is_tagged, target): (bool, ReplyTarget),
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let max = self.shared.settings.shadows_max;
        if max > 0 && self.destinations[place as usize].shadows >= max {
            return Err(NotSent::plain(Outcome::LocalError));
        }
        let before = self.destinations[place as usize].exchanges.len();
        if is_tagged {
            self.send_tagged(place, message, keep_prefix, target, turn)?;
        } else {
            self.send(place, message, keep_prefix, target, turn)?;
        }
        let destination = &mut self.destinations[place as usize];
        // One that went as a datagram is bounded by its window.
        if destination.exchanges.len() > before
            && let Some(exchange) = destination.exchanges.back_mut()
        {
            exchange.is_shadow = true;
            destination.shadows += 1;
        }
        Ok(())
    }

    /// Sends a request with this key. `shown` is the key that the client wrote, if it is another one.
    #[inline]
    fn send_as(
        &mut self,
        (key, shown): (&[u8], &[u8]),
        place: u32,
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        if self.destinations[place as usize].hot.is_some() {
            return self.send_noted((key, shown), place, message, target, turn);
        }
        self.write_request((key, shown), place, message, target, turn)
    }

    /// The same, without a look at hot values.
    #[inline]
    pub(super) fn write_request(
        &mut self,
        (key, shown): (&[u8], &[u8]),
        place: u32,
        message: &RoutedRequest<'_>,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        if let Err(words) = check_line(message, key) {
            // A server would close the connection, on which others wait for their replies, or answer an error and take the
            // body for requests.
            return Err(NotSent { outcome: Outcome::ClientError, message: words.to_owned() });
        }
        if message.operation == Operation::Get
            && self.destinations[place as usize].udp.is_some()
            && self.send_datagram(place, (key, shown, 0), target, turn)
        {
            return Ok(());
        }
        let may_repeat = may_repeat(message.operation);
        self.count_sent(place, message.operation, 1, target);
        if let Err(not_sent) = self.make_room(place, may_repeat, turn) {
            return Err(self.count_not_sent(place, not_sent, 1, target));
        }
        let destination = &mut self.destinations[place as usize];
        let must_wait = destination.must_wait(may_repeat);
        let output = match destination.state {
            _ if must_wait => &mut destination.later,
            DestinationState::Open(link) => turn.output(link).expect("make_room has seen it"),
            _ => &mut destination.unsent,
        };
        output.copy(message.before);
        output.copy(key);
        output.copy(if is_mistakable(message.operation, key) { HOLD_OF_DELETE } else { message.after });
        let (mut target, mut keys) = (target, 1);
        match message.expected {
            ReplyKind::Values => {
                let mut part = 0;
                if let ReplyTarget::Part(client, slot, number) = target {
                    // Read as one of several keys: without the `END`.
                    (target, part) = (ReplyTarget::Values(client, slot), number);
                }
                destination.tokens.push(ReplyToken { sent: key, shown, part });
            }
            ReplyKind::Meta { strip: true, .. } => {
                destination.opaque = destination.opaque.wrapping_add(1);
                let opaque = &mut self.opaque_text;
                opaque.clear();
                write_u64(opaque, u64::from(destination.opaque));
                output.copy(b" O");
                output.copy(opaque);
                output.copy(b"\r\n");
                destination.tokens.push(ReplyToken { sent: opaque, shown, part: 0 });
            }
            ReplyKind::Meta { strip: false, .. } => {
                output.copy(b"\r\n");
                destination.tokens.push(ReplyToken { sent: message.opaque, shown, part: 0 });
            }
            ReplyKind::Line | ReplyKind::Version => keys = 0,
        }
        match message.body {
            RequestBody::None => {}
            RequestBody::Bytes(bytes) => output.copy(bytes),
            RequestBody::Held(held) => output.hold(Arc::clone(held)),
            RequestBody::HeldValue(held) => {
                output.hold(Arc::clone(held));
                output.copy(b"\r\n");
            }
        }
        let exchange = Exchange::new(target, self.now.us, Some(message.operation), message.expected, keys);
        self.await_reply(place, exchange);
        Ok(())
    }

    /// Sends one `get` of several keys, which are parts of `line`.
    pub(super) fn send_keys(
        &mut self,
        place: u32,
        (before, line): (&[u8], &[u8]),
        keys: &[KeySpan],
        operation: Operation,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        if self.destinations[place as usize].hot.is_some() {
            return self.send_keys_noted(place, (before, line), keys, operation, target, turn);
        }
        self.write_keys(place, (before, line), keys, operation, target, turn)
    }

    /// The same, without a look at hot values.
    pub(super) fn write_keys(
        &mut self,
        place: u32,
        (before, line): (&[u8], &[u8]),
        keys: &[KeySpan],
        operation: Operation,
        target: ReplyTarget,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let mut keys = keys;
        if operation == Operation::Get && self.destinations[place as usize].udp.is_some() {
            let sent = self.send_key_datagrams(place, line, keys, target, turn);
            keys = &keys[sent..];
            if keys.is_empty() {
                return Ok(());
            }
        }
        let may_repeat = may_repeat(operation);
        self.count_sent(place, operation, keys.len() as u64, target);
        if let Err(not_sent) = self.make_room(place, may_repeat, turn) {
            return Err(self.count_not_sent(place, not_sent, keys.len() as u64, target));
        }
        let destination = &mut self.destinations[place as usize];
        let must_wait = destination.must_wait(may_repeat);
        let output = match destination.state {
            _ if must_wait => &mut destination.later,
            DestinationState::Open(link) => turn.output(link).expect("make_room has seen it"),
            _ => &mut destination.unsent,
        };
        output.copy(before);
        for (index, key) in keys.iter().enumerate() {
            if index > 0 {
                output.copy(b" ");
            }
            let (sent, shown) = (key.sent(line), key.shown(line));
            output.copy(sent);
            destination.tokens.push(ReplyToken { sent, shown, part: key.part });
        }
        output.copy(b"\r\n");
        if let (Some(pool), ReplyTarget::Values(client, slot)) = (destination.cells.pool, target) {
            keys.iter()
                .for_each(|key| self.note_pool(place, pool, ReplyTarget::Part(client, slot, key.part)));
        }
        let exchange =
            Exchange::new(target, self.now.us, Some(operation), ReplyKind::Values, keys.len() as u32);
        self.await_reply(place, exchange);
        Ok(())
    }

    /// Whether a request can be sent; dials if there is no connection.
    #[inline]
    fn make_room(&mut self, place: u32, may_repeat: bool, turn: &mut Turn<Arc<[u8]>>) -> Result<(), NotSent> {
        let destination = &mut self.destinations[place as usize];
        if let Some(reason) = destination.health.unavailable() {
            let message = format!("Server unavailable. Reason: {}", reason.name());
            return Err(NotSent { outcome: Outcome::Unavailable, message });
        }
        let unsent = match destination.state {
            DestinationState::Open(link) => {
                if !turn.is_open(link) {
                    // Its end is about to be reported.
                    return Err(NotSent::plain(Outcome::ConnectError));
                }
                turn.blocked(link)
            }
            _ => destination.unsent.len(),
        };
        if !destination.has_room(unsent + destination.later.len()) {
            return Err(NotSent {
                outcome: Outcome::Busy,
                message: "too many outstanding requests".to_owned(),
            });
        }
        if destination.state == DestinationState::Idle {
            self.dial(place, may_repeat, turn)?;
        }
        Ok(())
    }

    /// Begins a connection for a request that may arrive twice, or not.
    pub(super) fn dial(
        &mut self,
        place: u32,
        may_repeat: bool,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), NotSent> {
        let Some(to) = self.place_to_dial(place) else { return Ok(()) };
        let to = self.early_place(place, to, may_repeat);
        let destination = &mut self.destinations[place as usize];
        let spec = &destination.spec;
        let tls = match &spec.tls {
            None => None,
            Some(name) => {
                // Never in clear text what is to be encrypted.
                let settings = self.shared.tls().ok_or(NotSent::plain(Outcome::LocalError))?;
                Some(DialTls { settings, name: name.clone() })
            }
        };
        let dial = Dial { place: to, timeout_ms: spec.connect_timeout_ms, tls };
        turn.dial(dial, u64::from(place)).map_err(|_| NotSent::plain(Outcome::LocalError))?;
        destination.state = DestinationState::Dialling;
        Ok(())
    }

    /// A connection that was dialled is there.
    pub(super) fn connected(&mut self, place: u32, link: Link, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        destination.state = DestinationState::Open(link);
        (destination.was_used, destination.is_second_dial, destination.has_answered) = (true, false, false);
        destination.cells.set_phase(DestinationPhase::Up);
        self.cells.servers_opened.add(1);
        if let Some(output) = turn.output(link) {
            output.append(std::mem::take(&mut destination.unsent));
        }
        self.watch_use();
    }

    /// A dial has failed.
    pub(super) fn unreachable(&mut self, place: u32, why: Unreachable, turn: &mut Turn<Arc<[u8]>>) {
        if self.dial_other(place, why, turn) {
            return;
        }
        let outcome = match why {
            Unreachable::TimedOut => Outcome::ConnectTimeout,
            Unreachable::LimitReached | Unreachable::Exhausted => Outcome::LocalError,
            Unreachable::Stopping => Outcome::Aborted,
            _ => Outcome::ConnectError,
        };
        self.lose(place, outcome, Some(&why), turn);
    }

    /// A connection has ended.
    pub(super) fn disconnected(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        self.cells.servers_closed.add(1);
        let Destination { spec, has_answered, exchanges, .. } = &self.destinations[place as usize];
        if spec.tls.is_some() && !has_answered && !exchanges.is_empty() {
            // In TLS 1.3 a server looks at a certificate when the handshake is over for its client.
            let spec = Arc::clone(spec);
            self.say(NoticeKind::Other, || {
                format!(
                    "server {} has ended a TLS session without an answer: perhaps it wants another certificate",
                    spec.name
                )
            });
        }
        let outcome = match self.destinations[place as usize].is_early {
            // Nobody knows whether there was a connection.
            true => Outcome::ConnectError,
            false => Outcome::RemoteError,
        };
        let is_unused = self.destinations[place as usize].cells.phase() == DestinationPhase::Closed;
        self.lose(place, outcome, None, turn);
        if is_unused {
            // This side has closed it.
            self.destinations[place as usize].cells.set_phase(DestinationPhase::Closed);
        }
    }

    pub(super) fn lose(
        &mut self,
        place: u32,
        outcome: Outcome,
        why: Option<&dyn Display>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        self.doubt_name(place);
        let failed = self.destinations[place as usize].fail_all();
        self.lose_hot(place);
        self.destinations[place as usize].cells.set_phase(DestinationPhase::Down);
        self.note_failure(place, outcome, why);
        for failed in failed {
            self.count_failed(place, &failed, outcome);
            if failed.operation.is_none() {
                self.probe_again(place);
            }
            self.fail(failed, outcome, turn);
        }
    }

    /// A probe was not answered.
    fn probe_again(&mut self, place: u32) {
        let last_ms = self.destinations[place as usize].probe_interval_ms;
        let interval_ms = probe_interval_ms(&self.shared.settings.health, last_ms);
        self.probe_later(place, interval_ms);
    }

    /// Counts a failure; begins to probe if the server is unavailable because of it.
    fn note_failure(&mut self, place: u32, outcome: Outcome, why: Option<&dyn Display>) {
        let Destination { health, spec, .. } = &self.destinations[place as usize];
        let (change, count) = self.shared.failed(health, outcome, self.now);
        match change {
            HealthChange::None => {}
            HealthChange::Unavailable => {
                let spec = Arc::clone(spec);
                self.drop_hot_of(place);
                self.cells.became_unavailable.add(1);
                let interval = probe_interval_ms(&self.shared.settings.health, None);
                self.probe_later(place, interval);
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                self.say(NoticeKind::Unavailable, || {
                    let reason = outcome.name();
                    format!("server {} is unavailable ({reason}{why}); unavailable now: {count}", spec.name)
                });
            }
            HealthChange::GuardOpened(guard) => self.say(NoticeKind::Other, || {
                format!(
                    "pool {}: more than {} servers fail: no further one becomes unavailable (tko_tracker)",
                    guard.pool,
                    guard.upper()
                )
            }),
        }
    }

    fn probe_later(&mut self, place: u32, interval_ms: u32) {
        let delay_ms = probe_delay_ms(interval_ms, self.prng.next_u64());
        let due = Now { us: self.now.us + delay_ms * 1000 };
        self.destinations[place as usize].probe_interval_ms = Some(interval_ms);
        self.probes.push(Reverse((due, place)));
    }

    /// Reads what a server sent.
    pub(super) fn on_replies(&mut self, place: u32, input: &[u8], turn: &mut Turn<Arc<[u8]>>) -> Progress {
        let mut consumed = 0;
        self.destinations[place as usize].has_answered = true;
        if self.destinations[place as usize].is_early {
            self.end_early(place, turn);
        }
        match self.read_replies(place, input, &mut consumed, turn) {
            Ok(()) => Progress { consumed, next: Next::Read },
            Err(malformed) => {
                self.note_malformed(place, &malformed, "its connection is closed");
                Progress { consumed, next: Next::Close(CloseReason::Error) }
            }
        }
    }

    pub(super) fn read_replies(
        &mut self,
        place: u32,
        input: &[u8],
        consumed: &mut usize,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), Malformed> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = loop {
            let asked = self.asked(place);
            let noted = self.noted(place);
            let destination = &mut self.destinations[place as usize];
            if let Some(large) = &mut destination.large {
                let taken = large.fill(&input[*consumed..]);
                *consumed += taken;
                self.held.note(taken);
                let is_whole = large.is_whole();
                if destination.arrival.note(taken, self.now) {
                    destination.health.delivers(self.now);
                }
                if !is_whole {
                    break Ok(());
                }
                destination.health.answered();
                match destination.finish_large() {
                    Ok(delivery) => {
                        self.count_reply(place, asked, &delivery);
                        self.note_reply(place, noted, &delivery);
                        self.deliver_read(place, delivery, turn);
                    }
                    Err(malformed) => break Err(malformed),
                }
                continue;
            }
            if *consumed == input.len() {
                break Ok(());
            }
            match destination.read(&input[*consumed..], &mut scratch) {
                Err(malformed) => break Err(malformed),
                Ok(Read::Incomplete) => break Ok(()),
                Ok(Read::Nothing { consumed: more }) => *consumed += more,
                Ok(Read::Deliver { consumed: more, delivery }) => {
                    *consumed += more;
                    destination.health.answered();
                    self.note_reply(place, noted, &delivery);
                    if delivery.operation.is_none() {
                        self.probed(place);
                        continue;
                    }
                    self.count_reply(place, asked, &delivery);
                    self.deliver_read(place, delivery, turn);
                }
            }
        };
        self.scratch = scratch;
        result
    }

    /// The server has answered a probe.
    fn probed(&mut self, place: u32) {
        let destination = &mut self.destinations[place as usize];
        destination.probe_interval_ms = None;
        let recovered = self.shared.recovered(&destination.health, self.now);
        let Some((HealthRecovery { after_us, closed }, count)) = recovered else { return };
        let spec = Arc::clone(&destination.spec);
        self.say(NoticeKind::Available, || {
            let after_s = after_us / 1_000_000;
            format!("server {} is available again after {after_s} s; unavailable now: {count}", spec.name)
        });
        if let Some(guard) = closed {
            self.say(NoticeKind::Other, || {
                format!("pool {}: servers that fail become unavailable again (tko_tracker)", guard.pool)
            });
        }
    }

    pub(super) fn note_malformed(&mut self, place: u32, malformed: &Malformed, effect: &str) {
        let spec = Arc::clone(&self.destinations[place as usize].spec);
        self.say(NoticeKind::Other, || {
            let Malformed { found, expected } = malformed;
            format!("{} sent \"{found}\", expected {expected}: {effect}", spec.name)
        });
    }

    /// Notes a request that was written, with an entry among the timers if its destination has none.
    #[inline]
    fn await_reply(&mut self, place: u32, exchange: Exchange) {
        let destination = &mut self.destinations[place as usize];
        destination.exchanges.push_back(exchange);
        destination.was_used = true;
        if destination.has_timer {
            return;
        }
        destination.has_timer = true;
        if let Some(at) = destination.next_timeout() {
            self.timers.push(Reverse((at, place)));
        }
    }

    /// Ends requests that have waited too long.
    pub(super) fn expire(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some(&Reverse((at, place))) = self.timers.peek() {
            if at > self.now || self.reads_until > self.now {
                return;
            }
            self.timers.pop();
            while let Some(failed) = self.destinations[place as usize].expire(self.now) {
                let Destination { health, .. } = &self.destinations[place as usize];
                if !health.is_delivering(self.now, self.destinations[place as usize].timeout_us()) {
                    self.note_failure(place, Outcome::Timeout, None);
                }
                self.count_failed(place, &failed, Outcome::Timeout);
                // It is known not to answer in time, but not that there is nobody.
                let is_early = std::mem::take(&mut self.destinations[place as usize].is_early);
                if failed.operation.is_none() {
                    self.probe_again(place);
                }
                if failed.operation.is_none() || is_early {
                    // The host may be another one by now, that knows nothing of this connection.
                    if let DestinationState::Open(link) = self.destinations[place as usize].state {
                        turn.abort(link);
                    }
                }
                self.fail(failed, Outcome::Timeout, turn);
            }
            let destination = &mut self.destinations[place as usize];
            match destination.next_timeout() {
                Some(next) => self.timers.push(Reverse((next, place))),
                None => destination.has_timer = false,
            }
        }
    }

    /// Sends the probes that are due.
    pub(super) fn send_probes(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some(&Reverse((at, place))) = self.probes.peek() {
            if at > self.now {
                return;
            }
            self.probes.pop();
            self.probe(place, turn);
        }
    }

    fn probe(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        let destination = &mut self.destinations[place as usize];
        if destination.health.unavailable().is_none() {
            return;
        }
        if destination.state == DestinationState::Idle && self.dial(place, true, turn).is_err() {
            let interval = self.shared.settings.health.probe_max_ms;
            return self.probe_later(place, interval);
        }
        let destination = &mut self.destinations[place as usize];
        let output = match destination.state {
            _ if destination.must_wait(true) => Some(&mut destination.later),
            DestinationState::Open(link) => turn.output(link),
            _ => Some(&mut destination.unsent),
        };
        let Some(output) = output else {
            // Its end is about to be reported.
            let interval = self.shared.settings.health.probe_initial_ms;
            return self.probe_later(place, interval);
        };
        output.copy(b"version\r\n");
        let exchange = Exchange::new(ReplyTarget::Nobody, self.now.us, None, ReplyKind::Version, 0);
        self.await_reply(place, exchange);
    }
}

/// The key that a server gets, and the one that the client wrote if that is another.
#[inline]
pub(super) fn keys_of<'m>(message: &RoutedRequest<'m>, keep_prefix: bool) -> (&'m [u8], &'m [u8]) {
    let key = if keep_prefix { message.key.full } else { message.key.bare() };
    let shown = match message.shown {
        [] if keep_prefix || message.key.prefix_len == 0 => &b""[..],
        [] => message.key.full,
        shown => shown,
    };
    (key, shown)
}

/// Whether a server could take the key for the word `noreply`, and answer nothing: replies would then be taken for those to
/// earlier requests.
#[inline]
fn is_mistakable(operation: Operation, key: &[u8]) -> bool {
    operation == Operation::Delete && key == b"noreply"
}

/// Whether servers take the line of a request with this key. A line of `get` or `gets` may be long.
#[inline]
fn check_line(message: &RoutedRequest<'_>, key: &[u8]) -> Result<(), &'static str> {
    /// ` O4294967295`
    const OPAQUE_LEN_MAX: usize = 12;
    let len = message.before.len() + key.len() + message.after.len();
    let ReplyKind::Meta { strip, .. } = message.expected else {
        let may_be_long = matches!(message.operation, Operation::Get | Operation::Gets);
        return if len <= LINE_LEN_MAX || may_be_long { Ok(()) } else { Err("line is too long") };
    };
    let opaque = if strip { OPAQUE_LEN_MAX } else { 0 };
    let words = || {
        let flags = message.after.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        2 + flags.count() + usize::from(strip)
    };
    // The command and the key are two words. A flag takes two bytes at least: most lines are too short for too many.
    let has_few_words = message.after.len() < 2 * (META_WORDS_MAX - 2) || words() <= META_WORDS_MAX;
    let fits = len + opaque + b"\r\n".len() <= LINE_LEN_MAX && has_few_words;
    if fits { Ok(()) } else { Err("options flags are too long") }
}

impl NotSent {
    fn plain(outcome: Outcome) -> NotSent {
        NotSent { outcome, message: String::new() }
    }
}
