//! State of a worker in its run: pending requests, counts, the current second.

use crate::engine::outbox::Outbox;
use crate::measure::backlog::Backlog;
use crate::measure::tally::Tally;
use crate::run::shared::Phase;
use crate::run::silence::{SECONDS_MAX, Silence};
use crate::types::error::Error;
use crate::workload::conversation::Conversation;
use std::ops::Range;

/// What was counted since the window opened, at the end of some of its seconds: of one, unless the worker was suspended.
pub(crate) type OnSecond<'s> = &'s mut dyn FnMut(Range<u64>, &Tally);

/// What changes from turn to turn.
pub(super) struct Standing {
    pub(super) conversations: Vec<Conversation>,
    pub(super) outbox: Outbox,
    pub(super) tally: Tally,
    pub(super) phase: Phase,
    /// Whether requests have times of their own, which also say what is in the window.
    pub(super) is_open: bool,
    pub(super) window_ns: Range<u64>,
    /// Of an open loop, until its window begins.
    warms_up: bool,
    seconds: Seconds,
    /// Of an open loop.
    pub(super) backlog: Option<Backlog>,
    /// Of a run that nothing but replies ends.
    pub(super) silence: Option<Silence>,
}

impl Standing {
    pub(super) fn new(
        connections: usize,
        window_ns: Range<u64>,
        is_open: bool,
        silence: Option<Silence>,
    ) -> Standing {
        Standing {
            conversations: std::iter::repeat_with(Conversation::default).take(connections).collect(),
            outbox: Outbox::default(),
            tally: fresh(is_open),
            phase: Phase::WarmUp,
            is_open,
            warms_up: is_open,
            seconds: Seconds { open_ns: window_ns.start, passed: 0 },
            backlog: is_open.then(|| Backlog::new(window_ns.clone())),
            silence,
            window_ns,
        }
    }

    /// The window of a closed loop has been opened: what was counted before does not count.
    pub(super) fn open(&mut self, open_ns: u64) {
        self.count_anew();
        self.seconds.open_ns = open_ns;
    }

    fn count_anew(&mut self) {
        let before = std::mem::replace(&mut self.tally, fresh(self.is_open));
        self.tally.take_handshakes_of(before);
    }

    /// The window of an open loop begins by the clock.
    #[inline]
    pub(super) fn begin_if_due(&mut self, now_ns: u64) {
        if self.warms_up && now_ns >= self.window_ns.start {
            self.warms_up = false;
            self.tally.begin();
        }
    }

    /// An error if nothing has been heard for too long although there are requests on their way.
    #[inline]
    pub(super) fn check_silence(&mut self, now_ns: u64) -> Result<(), Error> {
        let waits = || self.conversations.iter().any(|conversation| conversation.outstanding() > 0);
        if self.silence.as_mut().is_some_and(|silence| silence.is_too_long(now_ns, waits)) {
            return Err(Error::Silence { seconds: SECONDS_MAX });
        }
        Ok(())
    }

    pub(super) fn waits_for_nothing(&self) -> bool {
        self.conversations.iter().all(|conversation| conversation.outstanding() == 0)
    }

    /// Tells of the seconds of the window that have ended.
    #[inline]
    pub(super) fn tell(&mut self, now_ns: u64, on_second: OnSecond<'_>) {
        if self.phase == Phase::WarmUp {
            return;
        }
        let ended = self.seconds.ended(now_ns);
        if !ended.is_empty() {
            self.tally.settle();
            on_second(ended, &self.tally);
        }
    }

    /// What was counted, once the run has ended.
    pub(super) fn end(mut self, ended_ns: u64, on_second: OnSecond<'_>) -> Tally {
        // A closed loop is stopped at the end of a second, and perhaps before it has told of that.
        self.tell(ended_ns, on_second);
        if self.phase == Phase::WarmUp && !self.is_open {
            // The window has closed before this worker saw it open.
            self.count_anew();
        }
        if self.warms_up {
            self.tally.begin();
        }
        let Standing { conversations, mut tally, is_open, window_ns, backlog, .. } = self;
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
        tally
    }
}

fn fresh(is_open: bool) -> Tally {
    if is_open { Tally::open() } else { Tally::new() }
}

/// Requests on their way, of the window or not.
pub(super) fn unanswered(conversations: &[Conversation]) -> u64 {
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
