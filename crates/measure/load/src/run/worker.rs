//! LoadWorker, one thread of load: exchange with the kernel, read replies, compose requests, again.

pub(crate) use self::links::Links;
use self::links::{ATTEMPT_NS_MAX, DueLink, LinkState};
pub(crate) use self::standing::WorkerState;
use self::standing::{OnSecond, unanswered};
use crate::engine::{ConnectionEvent, Engine, Wait};
use crate::measure::backlog::Backlog;
use crate::measure::failures::FailureKind;
use crate::measure::tally::Tally;
use crate::pacing::churn::Churn;
use crate::pacing::feed::{Feed, TurnInput};
use crate::run::shared::{Phase, RunState, WorkerSlot};
use crate::types::error::Error;
use crate::workload::compose::Composer;
use crate::workload::conversation::{Conversation, ReplyContext};
use crate::workload::items::Items;
use std::io;
use std::time::Duration;

mod links;
mod standing;

/// One thread's connections and their load.
pub(crate) struct LoadWorker<'a, E> {
    pub(crate) engine: E,
    pub(crate) composer: Composer<'a>,
    pub(crate) feed: Feed,
    pub(crate) items: &'a Items,
    pub(crate) depth: usize,
    pub(crate) verify: bool,
    pub(crate) backfill: bool,
    pub(crate) gather: usize,
    /// How long replies may gather.
    pub(crate) gather_time: Duration,
    /// The worker is done after this many requests of the window.
    pub(crate) requests_max: Option<u64>,
    /// If connections come and go.
    pub(crate) churn: Option<Churn>,
    pub(crate) links: Links,
    /// A reply is waited for this long.
    pub(crate) timeout_ns: Option<u64>,
    /// The first failure of a connection ends the run.
    pub(crate) fail_fast: bool,
    pub(crate) shared: &'a RunState,
    pub(crate) slot: &'a WorkerSlot,
}

impl<E: Engine> LoadWorker<'_, E> {
    /// Loads the server until the window closes, the requests are used up or there is nothing left to send. What was
    /// counted until then stands, also if an error was the end.
    pub(crate) fn run(mut self, mut standing: WorkerState, on_second: OnSecond<'_>) -> WorkerEnd<E> {
        let outcome = self.work(&mut standing, on_second);
        let ended_ns = outcome.as_ref().copied().unwrap_or_else(|_| self.engine.now_ns());
        let unsent = self.feed.unsent(&mut self.composer);
        let (tally, told) = standing.end(ended_ns, &unsent, on_second);
        let recorded = self.composer.recorder.as_mut().map_or(Ok(()), |recorder| recorder.end());
        WorkerEnd { tally, told, engine: self.engine, error: outcome.map(drop).and(recorded).err() }
    }

    /// Returns when it has ended.
    fn work(&mut self, standing: &mut WorkerState, on_second: OnSecond<'_>) -> Result<u64, Error> {
        let (is_open, window_ns) = (standing.is_open, standing.window_ns.clone());
        if let Some(recorder) = self.composer.recorder.as_mut().filter(|_| is_open) {
            recorder.open(window_ns);
        }
        // On a busy machine the window may be open before this thread runs.
        let begun_ns = self.engine.now_ns();
        self.follow_phase(standing, begun_ns);
        loop {
            let (more, done_ns) = self.exchange(standing)?;
            if self.follow_phase(standing, done_ns) == Phase::Stop {
                return Ok(done_ns);
            }
            standing.begin_if_due(done_ns);
            self.read(standing, done_ns)?;
            self.follow_links(standing, done_ns)?;
            self.slot.publish(standing.tally.completed());
            standing.check_silence(done_ns, self.links.is_any_away())?;
            if let Some(recorder) = &mut self.composer.recorder {
                recorder.turn()?;
            }
            standing.tell(done_ns, &self.feed, on_second);
            let enough = standing.phase == Phase::Measure
                && self.requests_max.is_some_and(|max| standing.tally.requests() >= max);
            if enough || (!more && standing.waits_for_nothing() && self.composer.missed.is_empty()) {
                return Ok(done_ns);
            }
        }
    }

    /// Sends what is due and waits for replies. Returns whether there will be more to send, and when that was over.
    #[inline]
    fn exchange(&mut self, standing: &mut WorkerState) -> Result<(bool, u64), Error> {
        let now_ns = self.engine.now_ns();
        let look_rest = standing.look_rest(now_ns);
        let WorkerState { conversations, outbox, backlog, .. } = standing;
        let mut turn =
            TurnInput { composer: &mut self.composer, conversations, outbox, depth: self.depth, now_ns };
        let more = self.feed.fill(&mut turn);
        for due_ns in self.feed.expired() {
            if standing.window_ns.contains(&due_ns) {
                standing.tally.fail(due_ns, FailureKind::Timeout, 1);
            }
        }
        if let Some(backlog) = backlog {
            take_stock(&self.feed, backlog, conversations, now_ns);
        }
        let sent_ns = self.engine.now_ns();
        outbox.connections().for_each(|connection| conversations[connection].stamp(sent_ns));
        let gather = self.gather.min(self.feed.spare());
        let mut at_most = self.feed.rest(sent_ns);
        if let Some(churn) = &self.churn {
            at_most = at_most.min(churn.rest(sent_ns));
        }
        at_most = at_most.min(self.links.rest(sent_ns)).min(look_rest);
        let wait = Wait { gather, gather_time: self.gather_time, at_most };
        self.engine.exchange(outbox, wait)?;
        let done_ns = self.engine.now_ns();
        if !at_most.is_zero() {
            self.feed.woke(sent_ns + at_most.as_nanos() as u64, done_ns);
        }
        outbox.clear();
        Ok((more, done_ns))
    }

    /// Does what another phase asks for, if one has come. Returns the phase.
    #[inline]
    fn follow_phase(&mut self, standing: &mut WorkerState, done_ns: u64) -> Phase {
        let now = self.shared.phase();
        if now == standing.phase || now == Phase::Stop {
            return now;
        }
        standing.phase = now;
        // An open loop knows by its schedule what is in the window, a closed one by when it is done.
        if now == Phase::Drain {
            self.feed.end(done_ns);
        } else if !standing.is_open {
            let open_ns = self.shared.open_ns();
            standing.open(open_ns);
            if let Some(recorder) = &mut self.composer.recorder {
                recorder.open(open_ns..standing.window_ns.end);
            }
        }
        now
    }

    /// Reads what has arrived, and follows what has become of connections.
    #[inline]
    fn read(&mut self, standing: &mut WorkerState, done_ns: u64) -> Result<(), Error> {
        let LoadWorker { engine, composer, feed, items, depth, verify, backfill, churn, .. } = self;
        let WorkerState { conversations, tally, window_ns, news, .. } = standing;
        let mut reading = ReplyContext {
            items,
            verify: *verify,
            track: *verify || *backfill,
            packets: composer.speaks_packets(),
            missed: backfill.then_some(&mut composer.missed),
            done_ns,
            unread_ns: None,
            window_ns: window_ns.clone(),
            tally,
        };
        engine.arrivals(|connection, bytes, at_ns| {
            reading.done_ns = at_ns.unwrap_or(done_ns);
            // What was read later than the turn's time had no time to lie there.
            reading.unread_ns = at_ns.and_then(|at_ns| done_ns.checked_sub(at_ns));
            let conversation = &mut conversations[connection];
            let before = conversation.outstanding();
            if let Err(error) = conversation.receive(bytes, &mut reading) {
                news.push(ConnectionEvent::Ended { connection, error });
                return Ok(());
            }
            if let Some(churn) = churn
                && !churn.answered(connection, before - conversation.outstanding())
            {
                feed.withdraw(connection);
                return Ok(());
            }
            feed.served(connection, conversation.outstanding() < *depth, reading.done_ns);
            Ok(())
        })?;
        engine.events(|event| news.push(event))
    }

    /// Does what has become of connections asks for, and what is due about them.
    #[inline]
    fn follow_links(&mut self, standing: &mut WorkerState, now_ns: u64) -> Result<(), Error> {
        if !standing.news.is_empty() {
            for event in std::mem::take(&mut standing.news) {
                self.follow(event, standing, now_ns)?;
            }
        }
        if let Some(timeout_ns) = self.timeout_ns {
            for connection in standing.late(timeout_ns, now_ns) {
                let error = Error::Timeout { connection, ms: timeout_ns / 1_000_000 };
                self.end(connection, error, standing, now_ns)?;
            }
        }
        let LoadWorker { engine, feed, churn, links, .. } = self;
        if let Some(churn) = churn {
            churn.leave_due(now_ns, |connection| feed.withdraw(connection));
            while let Some(connection) = churn.next_away(&standing.conversations) {
                links.opens(connection, now_ns);
                engine.reopen(connection)?;
            }
        }
        while let Some(due) = self.links.next(now_ns) {
            match due {
                DueLink::Open(connection) => self.engine.reopen(connection)?,
                DueLink::Late(connection) => {
                    let error = Error::OpenTimeout { connection, ms: ATTEMPT_NS_MAX / 1_000_000 };
                    self.end(connection, error, standing, now_ns)?;
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn follow(
        &mut self,
        event: ConnectionEvent,
        standing: &mut WorkerState,
        now_ns: u64,
    ) -> Result<(), Error> {
        match event {
            ConnectionEvent::Lost(connection) => {
                self.abandon(connection, FailureKind::LostDatagram, standing, now_ns);
                self.feed.served(connection, true, now_ns);
            }
            ConnectionEvent::Opened { connection, took_ns } => {
                standing.tally.churn().opened(took_ns);
                self.links.opened(connection);
                self.churn.iter_mut().for_each(|churn| churn.opened(connection));
                self.feed.served(connection, true, now_ns);
            }
            ConnectionEvent::Ended { connection, error } => self.end(connection, error, standing, now_ns)?,
            // Nothing has ever listened there, as far as is known.
            ConnectionEvent::Unreachable(error) if self.fail_fast || !standing.has_answered() => {
                return Err(error);
            }
            ConnectionEvent::Unreachable(_) => standing.tally.churn().refused += 1,
            ConnectionEvent::Agreed { took_ns, is_resumed } => standing.tally.agreed(took_ns, is_resumed),
            ConnectionEvent::Stray(datagrams) => standing.tally.strays += datagrams,
        }
        Ok(())
    }

    /// A connection, or the attempt to open one, has ended: its requests have failed, and it is opened again.
    #[cold]
    fn end(
        &mut self,
        connection: usize,
        error: Error,
        standing: &mut WorkerState,
        now_ns: u64,
    ) -> Result<(), Error> {
        // A server that has never answered, and then sends what is no reply, speaks another protocol.
        if self.fail_fast || matches!(error, Error::Reply { .. }) && !standing.has_answered() {
            return Err(error);
        }
        let has_answered = standing.conversations[connection].has_answered();
        let tally = &mut standing.tally;
        match self.links.state(connection) {
            // The engine may report an end twice, or one that the worker has brought about.
            LinkState::Down(_) => return Ok(()),
            LinkState::Opening(_) => {
                match error {
                    Error::OpenTimeout { .. } => tally.churn().timed_out += 1,
                    _ => tally.churn().refused += 1,
                }
                if !standing.is_open {
                    tally.fail(now_ns, FailureKind::Unconnected, 1);
                }
            }
            LinkState::Open => {
                let kind = FailureKind::of(&error);
                match kind {
                    FailureKind::Closed => tally.churn().closed += 1,
                    _ => tally.churn().broken += 1,
                }
                // Of a fast open: the request went with a SYN that was refused.
                let is_refused = matches!(&error, Error::Broken { source, .. }
                    if source.kind() == io::ErrorKind::ConnectionRefused);
                tally.churn().refused += u64::from(is_refused);
                if kind == FailureKind::Malformed {
                    tally.note(error.to_string());
                }
                self.abandon(connection, kind, standing, now_ns);
                self.churn.iter_mut().for_each(|churn| churn.closed(connection));
                self.feed.withdraw(connection);
            }
        }
        self.engine.close(connection);
        self.links.ended(connection, has_answered, now_ns);
        Ok(())
    }

    /// The requests that are on their way on a connection have failed.
    fn abandon(&mut self, connection: usize, kind: FailureKind, standing: &mut WorkerState, now_ns: u64) {
        let WorkerState { conversations, tally, window_ns, .. } = standing;
        // A datagram was sent as often as it may be.
        let missed = (kind != FailureKind::LostDatagram).then_some(&mut self.composer.missed);
        conversations[connection].abandon(missed, window_ns, |at_ns| {
            tally.fail(at_ns.unwrap_or(now_ns), kind, 1);
        });
    }
}

/// What a worker leaves.
pub(crate) struct WorkerEnd<E> {
    pub(crate) tally: Tally,
    /// It has told of the seconds before this one.
    pub(crate) told: u64,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests look at what they have made of it"))]
    pub(crate) engine: E,
    /// Why it ended before its time, if it did.
    pub(crate) error: Option<Error>,
}

/// Counts what is due and not answered, if it is time to.
#[inline]
fn take_stock(feed: &Feed, backlog: &mut Backlog, conversations: &[Conversation], now_ns: u64) {
    let is_over = feed.is_over() && !backlog.is_over();
    if !is_over && !backlog.is_due(now_ns) {
        return;
    }
    let count = feed.overdue(now_ns) + unanswered(conversations);
    backlog.take(now_ns, count);
    if is_over {
        backlog.end(count);
    }
}

#[cfg(test)]
mod tests;
