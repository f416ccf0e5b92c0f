//! LoadWorker, one thread of load: exchange with the kernel, read replies, compose requests, again.

use self::standing::{OnSecond, Standing, unanswered};
use crate::engine::{ConnectionEvent, Engine, Wait};
use crate::measure::backlog::Backlog;
use crate::measure::tally::Tally;
use crate::pacing::churn::Churn;
use crate::pacing::feed::{Feed, TurnInput};
use crate::run::shared::{Phase, RunState, WorkerSlot};
use crate::run::silence::Silence;
use crate::types::error::Error;
use crate::workload::compose::Composer;
use crate::workload::conversation::{Conversation, ReplyContext};
use crate::workload::items::Items;
use std::ops::Range;
use std::time::Duration;

mod standing;

/// One thread's connections and their load.
pub(crate) struct LoadWorker<'a, E> {
    pub(crate) engine: E,
    pub(crate) composer: Composer<'a>,
    pub(crate) feed: Feed,
    pub(crate) items: &'a Items,
    pub(crate) connections: usize,
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
    /// Nothing but replies ends the run.
    pub(crate) is_endless: bool,
    pub(crate) shared: &'a RunState,
    pub(crate) slot: &'a WorkerSlot,
}

impl<E: Engine> LoadWorker<'_, E> {
    /// Loads the server until the window closes, the requests are used up or there is nothing left to send.
    pub(crate) fn run(mut self, window_ns: Range<u64>, on_second: OnSecond<'_>) -> Result<(Tally, E), Error> {
        let is_open = matches!(self.feed, Feed::Open(_));
        let silence = self.is_endless.then(|| Silence::new(self.engine.now_ns()));
        let mut standing = Standing::new(self.connections, window_ns.clone(), is_open, silence);
        if let Some(recorder) = self.composer.recorder.as_mut().filter(|_| is_open) {
            recorder.open(window_ns);
        }
        // On a busy machine the window may be open before this thread runs.
        let begun_ns = self.engine.now_ns();
        self.follow_phase(&mut standing, begun_ns);
        let ended_ns = loop {
            let (more, done_ns) = self.exchange(&mut standing)?;
            if self.follow_phase(&mut standing, done_ns) == Phase::Stop {
                break done_ns;
            }
            standing.begin_if_due(done_ns);
            self.read(&mut standing, done_ns)?;
            self.slot.publish(standing.tally.completed());
            standing.check_silence(done_ns)?;
            if let Some(recorder) = &mut self.composer.recorder {
                recorder.turn()?;
            }
            standing.tell(done_ns, on_second);
            let enough = standing.phase == Phase::Measure
                && self.requests_max.is_some_and(|max| standing.tally.requests() >= max);
            if enough || (!more && standing.waits_for_nothing()) {
                break done_ns;
            }
        };
        let mut tally = standing.end(ended_ns, on_second);
        if let Some(recorder) = &mut self.composer.recorder {
            recorder.end()?;
        }
        tally.unsent = self.feed.unsent(&mut self.composer);
        Ok((tally, self.engine))
    }

    /// Sends what is due and waits for replies. Returns whether there will be more to send, and when that was over.
    #[inline]
    fn exchange(&mut self, standing: &mut Standing) -> Result<(bool, u64), Error> {
        let now_ns = self.engine.now_ns();
        let Standing { conversations, outbox, backlog, .. } = standing;
        let mut turn =
            TurnInput { composer: &mut self.composer, conversations, outbox, depth: self.depth, now_ns };
        let more = self.feed.fill(&mut turn);
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
    fn follow_phase(&mut self, standing: &mut Standing, done_ns: u64) -> Phase {
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
    fn read(&mut self, standing: &mut Standing, done_ns: u64) -> Result<(), Error> {
        let LoadWorker { engine, composer, feed, items, depth, verify, backfill, churn, .. } = self;
        let Standing { conversations, tally, silence, window_ns, .. } = standing;
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
            silence.iter_mut().for_each(Silence::hear);
            let conversation = &mut conversations[connection];
            let before = conversation.outstanding();
            conversation.receive(bytes, &mut reading)?;
            if let Some(churn) = churn
                && !churn.answered(connection, before - conversation.outstanding())
            {
                feed.withdraw(connection);
                return Ok(());
            }
            feed.served(connection, conversation.outstanding() < *depth, reading.done_ns);
            Ok(())
        })?;
        engine.events(|event| match event {
            ConnectionEvent::Lost(connection) => {
                conversations[connection].abandon(&mut reading);
                feed.served(connection, true, done_ns);
            }
            ConnectionEvent::Opened { connection, took_ns } => {
                reading.tally.churn().opened(took_ns);
                churn.iter_mut().for_each(|churn| churn.opened(connection));
                feed.served(connection, true, done_ns);
            }
            ConnectionEvent::Closed(connection) => {
                reading.tally.churn().closed += 1;
                conversations[connection].abandon(&mut reading);
                churn.iter_mut().for_each(|churn| churn.closed(connection));
                feed.withdraw(connection);
            }
            ConnectionEvent::Refused => reading.tally.churn().refused += 1,
            ConnectionEvent::TimedOut => reading.tally.churn().timed_out += 1,
            ConnectionEvent::Agreed { took_ns, is_resumed } => reading.tally.agreed(took_ns, is_resumed),
            ConnectionEvent::Stray(datagrams) => reading.tally.strays += datagrams,
        })?;
        if let Some(churn) = churn {
            churn.leave_due(done_ns, |connection| feed.withdraw(connection));
            while let Some(connection) = churn.next_away(conversations) {
                engine.reopen(connection)?;
            }
        }
        Ok(())
    }
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
