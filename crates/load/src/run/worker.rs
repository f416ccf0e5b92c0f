//! Worker, one thread of load: exchange with the kernel, read replies, compose requests, again.

use crate::engine::outbox::Outbox;
use crate::engine::{Engine, Event, Wait};
use crate::measure::backlog::Backlog;
use crate::measure::tally::Tally;
use crate::pacing::churn::Churn;
use crate::pacing::feed::{Feed, Turn};
use crate::run::shared::{Phase, Shared, Slot};
use crate::run::silence::{SECONDS_MAX, Silence};
use crate::types::error::Error;
use crate::workload::compose::Composer;
use crate::workload::conversation::{Conversation, Reading};
use crate::workload::items::Items;
use std::ops::Range;
use std::time::Duration;

/// One thread's connections and their load.
pub(crate) struct Worker<'a, E> {
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
    pub(crate) shared: &'a Shared,
    pub(crate) slot: &'a Slot,
}

/// What was counted since the window opened, at the end of some of its seconds: of one, unless the worker was suspended.
pub(crate) type OnSecond<'s> = &'s mut dyn FnMut(Range<u64>, &Tally);

impl<E: Engine> Worker<'_, E> {
    /// Loads the server until the window closes, the requests are used up or there is nothing left to send.
    pub(crate) fn run(mut self, window_ns: Range<u64>, on_second: OnSecond<'_>) -> Result<(Tally, E), Error> {
        let mut conversations: Vec<Conversation> = Vec::new();
        conversations.resize_with(self.connections, Conversation::default);
        let is_open = matches!(self.feed, Feed::Open(_));
        let fresh = || if is_open { Tally::open() } else { Tally::new() };
        let mut tally = fresh();
        let mut outbox = Outbox::default();
        let mut phase = self.shared.phase();
        let mut warms_up = is_open;
        let mut seconds = Seconds { open_ns: window_ns.start, passed: 0 };
        if let Some(recorder) = self.composer.recorder.as_mut().filter(|_| is_open) {
            recorder.open(window_ns.clone());
        }
        let mut backlog = is_open.then(|| Backlog::new(window_ns.clone()));
        let mut silence = self.is_endless.then(|| Silence::new(self.engine.now_ns()));
        let ended_ns = loop {
            let now_ns = self.engine.now_ns();
            let mut turn = Turn {
                composer: &mut self.composer,
                conversations: &mut conversations,
                outbox: &mut outbox,
                depth: self.depth,
                now_ns,
            };
            let more = self.feed.fill(&mut turn);
            if let Some(backlog) = &mut backlog {
                self.take_stock(backlog, &conversations, now_ns);
            }
            let sent_ns = self.engine.now_ns();
            outbox.connections().for_each(|connection| conversations[connection].stamp(sent_ns));
            let gather = self.gather.min(self.feed.spare());
            let mut at_most = self.feed.rest(sent_ns);
            if let Some(churn) = &self.churn {
                at_most = at_most.min(churn.rest(sent_ns));
            }
            let wait = Wait { gather, gather_time: self.gather_time, at_most };
            self.engine.exchange(&outbox, wait)?;
            let done_ns = self.engine.now_ns();
            if !at_most.is_zero() {
                self.feed.woke(sent_ns + at_most.as_nanos() as u64, done_ns);
            }
            outbox.clear();
            let now = self.shared.phase();
            if now != phase {
                if now == Phase::Stop {
                    break done_ns;
                }
                phase = now;
                // An open loop knows by its schedule what is in the window, a closed one by when it is done.
                if now == Phase::Drain {
                    self.feed.end(done_ns);
                } else if !is_open {
                    tally = fresh().with_handshakes_of(tally);
                    seconds.open_ns = self.shared.open_ns();
                    if let Some(recorder) = &mut self.composer.recorder {
                        recorder.open(seconds.open_ns..window_ns.end);
                    }
                }
            }
            if warms_up && done_ns >= window_ns.start {
                warms_up = false;
                tally.begin();
            }
            let Worker { engine, composer, feed, items, depth, verify, backfill, churn, .. } = &mut self;
            let mut reading = Reading {
                items,
                verify: *verify,
                track: *verify || *backfill,
                missed: backfill.then_some(&mut composer.missed),
                done_ns,
                unread_ns: None,
                window_ns: window_ns.clone(),
                tally: &mut tally,
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
                Event::Lost(connection) => {
                    conversations[connection].abandon(&mut reading);
                    feed.served(connection, true, done_ns);
                }
                Event::Opened { connection, took_ns } => {
                    reading.tally.churn().opened(took_ns);
                    churn.iter_mut().for_each(|churn| churn.opened(connection));
                    feed.served(connection, true, done_ns);
                }
                Event::Closed(connection) => {
                    reading.tally.churn().closed += 1;
                    conversations[connection].abandon(&mut reading);
                    churn.iter_mut().for_each(|churn| churn.closed(connection));
                    feed.withdraw(connection);
                }
                Event::Refused => reading.tally.churn().refused += 1,
                Event::TimedOut => reading.tally.churn().timed_out += 1,
                Event::Agreed { took_ns, is_resumed } => reading.tally.agreed(took_ns, is_resumed),
                Event::Stray(datagrams) => reading.tally.strays += datagrams,
            })?;
            if let Some(churn) = churn {
                churn.leave_due(done_ns, |connection| feed.withdraw(connection));
                while let Some(connection) = churn.next_away(&conversations) {
                    engine.reopen(connection)?;
                }
            }
            self.slot.publish(tally.completed());
            let waits = || conversations.iter().any(|conversation| conversation.outstanding() > 0);
            if silence.as_mut().is_some_and(|silence| silence.is_too_long(done_ns, waits)) {
                return Err(Error::Silence { seconds: SECONDS_MAX });
            }
            if let Some(recorder) = &mut self.composer.recorder {
                recorder.turn()?;
            }
            if phase != Phase::WarmUp {
                let ended = seconds.ended(done_ns);
                if !ended.is_empty() {
                    tally.settle();
                    on_second(ended, &tally);
                }
            }
            let enough =
                self.requests_max.is_some_and(|max| phase == Phase::Measure && tally.requests() >= max);
            if enough || (!more && conversations.iter().all(|conversation| conversation.outstanding() == 0)) {
                break done_ns;
            }
        };
        if phase != Phase::WarmUp {
            // A closed loop is stopped at the end of a second, and perhaps before it has told of that.
            let ended = seconds.ended(ended_ns);
            if !ended.is_empty() {
                tally.settle();
                on_second(ended, &tally);
            }
        }
        if phase == Phase::WarmUp && !is_open {
            // The window has closed before this worker saw it open.
            tally = fresh().with_handshakes_of(tally);
        }
        if warms_up {
            tally.begin();
        }
        if let Some(recorder) = &mut self.composer.recorder {
            recorder.end()?;
        }
        tally.settle();
        tally.unanswered = conversations.iter().map(|conversation| conversation.unanswered(&window_ns)).sum();
        // In an open loop it is known what should have been answered.
        if !is_open {
            let since_ns = conversations.iter().filter_map(Conversation::waits_since).min();
            tally.silence_ns = since_ns.map_or(0, |since_ns| ended_ns.saturating_sub(since_ns));
        }
        if let Some(mut backlog) = backlog {
            if !backlog.is_over() {
                backlog.end(unanswered(&conversations));
            }
            tally.backlog = backlog.counts();
        }
        tally.unsent = self.feed.unsent(&mut self.composer);
        Ok((tally, self.engine))
    }

    /// Counts what is due and not answered, if it is time to.
    #[inline]
    fn take_stock(&self, backlog: &mut Backlog, conversations: &[Conversation], now_ns: u64) {
        let is_over = self.feed.is_over() && !backlog.is_over();
        if !is_over && !backlog.is_due(now_ns) {
            return;
        }
        let count = self.feed.overdue(now_ns) + unanswered(conversations);
        backlog.take(now_ns, count);
        if is_over {
            backlog.end(count);
        }
    }
}

/// Requests on their way, of the window or not.
fn unanswered(conversations: &[Conversation]) -> u64 {
    conversations.iter().map(|conversation| conversation.unanswered(&(0..u64::MAX))).sum()
}

/// Counts the seconds of the window.
struct Seconds {
    open_ns: u64,
    passed: u64,
}

impl Seconds {
    /// The numbers of the seconds that have ended since the last call, from 0.
    #[inline]
    fn ended(&mut self, now_ns: u64) -> Range<u64> {
        let before = self.passed;
        self.passed = before.max(now_ns.saturating_sub(self.open_ns) / 1_000_000_000);
        before..self.passed
    }
}

#[cfg(test)]
mod tests;
