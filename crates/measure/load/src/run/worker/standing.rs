//! State of a worker in its run: pending requests, counts, the current second.

use crate::engine::ConnectionEvent;
use crate::engine::outbox::Outbox;
use crate::measure::backlog::Backlog;
use crate::measure::failures::FailureKind;
use crate::measure::seconds::{SecondCounts, Slots};
use crate::measure::tally::Tally;
use crate::pacing::feed::{Feed, Unsent};
use crate::run::shared::Phase;
use crate::run::silence::{SECONDS_MAX, Silence};
use crate::types::error::Error;
use crate::workload::conversation::Conversation;
use std::ops::Range;
use std::time::Duration;

/// Takes each second of the window, in their order.
pub(crate) type OnSecond<'s> = &'s mut dyn FnMut(u64, SecondCounts);

/// A second is told of without the replies that are still missing after this many more, so that one connection that hangs
/// does not keep all from being known. They are counted in the oldest second that is not told of then.
const WAIT_S_MAX: u64 = 30;
/// How often a second with missing replies is looked at.
const LOOK_EVERY_NS: u64 = 50_000_000;

/// What changes from turn to turn.
pub(crate) struct WorkerState {
    pub(super) conversations: Vec<Conversation>,
    pub(super) outbox: Outbox,
    pub(super) tally: Tally,
    pub(super) phase: Phase,
    /// Whether requests have times of their own, which also say what is in the window.
    pub(super) is_open: bool,
    pub(super) window_ns: Range<u64>,
    /// Of an open loop, until its window begins.
    warms_up: bool,
    /// With the lateness of each second.
    with_slip: bool,
    /// A second may be told of from then on.
    tell_ns: u64,
    /// When to look again for replies that are late.
    look_ns: u64,
    /// What has become of connections in this turn.
    pub(super) news: Vec<ConnectionEvent>,
    /// Something was answered before the window of a closed loop.
    has_answered: bool,
    /// Of an open loop.
    pub(super) backlog: Option<Backlog>,
    /// Of a run that nothing but replies ends.
    pub(super) silence: Option<Silence>,
}

impl WorkerState {
    pub(crate) fn new(
        connections: usize,
        window_ns: Range<u64>,
        (is_open, with_slip): (bool, bool),
        silence: Option<Silence>,
    ) -> WorkerState {
        WorkerState {
            conversations: std::iter::repeat_with(Conversation::default).take(connections).collect(),
            outbox: Outbox::default(),
            tally: fresh(is_open, window_ns.clone(), with_slip),
            phase: Phase::WarmUp,
            is_open,
            warms_up: is_open,
            with_slip,
            tell_ns: 0,
            look_ns: 0,
            news: Vec::new(),
            has_answered: false,
            backlog: is_open.then(|| Backlog::new(window_ns.clone())),
            silence,
            window_ns,
        }
    }

    /// The window of a closed loop has been opened: what was counted before does not count.
    pub(super) fn open(&mut self, open_ns: u64) {
        self.count_anew(open_ns);
    }

    fn count_anew(&mut self, open_ns: u64) {
        self.has_answered = self.has_answered();
        let len_ns = self.window_ns.end.saturating_sub(self.window_ns.start);
        // A window without an end stays so.
        let window_ns = open_ns..open_ns.saturating_add(len_ns).max(self.window_ns.end);
        let before = std::mem::replace(&mut self.tally, fresh(self.is_open, window_ns, self.with_slip));
        self.tally.take_handshakes_of(before);
    }

    /// Whether the server has ever answered.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered || self.progress() > 0
    }

    /// What was answered, of whatever kind.
    fn progress(&self) -> u64 {
        self.tally.completed().0 + self.tally.refills
    }

    /// The window of an open loop begins by the clock.
    #[inline]
    pub(super) fn begin_if_due(&mut self, now_ns: u64) {
        if self.warms_up && now_ns >= self.window_ns.start {
            self.warms_up = false;
            self.tally.begin();
        }
    }

    /// An error if nothing was answered for too long although there are requests on their way, or connections that are
    /// not open.
    #[inline]
    pub(super) fn check_silence(&mut self, now_ns: u64, is_any_away: bool) -> Result<(), Error> {
        let progress = self.progress();
        let WorkerState { silence, conversations, .. } = self;
        let waits = || is_any_away || conversations.iter().any(|conversation| conversation.outstanding() > 0);
        if silence.as_mut().is_some_and(|silence| silence.is_too_long(now_ns, progress, waits)) {
            return Err(Error::Silence { seconds: SECONDS_MAX });
        }
        Ok(())
    }

    pub(super) fn waits_for_nothing(&self) -> bool {
        self.conversations.iter().all(|conversation| conversation.outstanding() == 0)
    }

    /// The connections on which a reply is late, if it is time to look for them.
    #[inline]
    pub(super) fn late(&mut self, timeout_ns: u64, now_ns: u64) -> Vec<usize> {
        if now_ns < self.look_ns {
            return Vec::new();
        }
        // A late reply is noticed an eighth of the time late at most.
        self.look_ns = now_ns + (timeout_ns / 8).clamp(1_000_000, LOOK_EVERY_NS);
        let is_late = |conversation: &Conversation| {
            conversation.waits_since().is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= timeout_ns)
        };
        (0..self.conversations.len()).filter(|at| is_late(&self.conversations[*at])).collect()
    }

    /// The time until replies are looked for that are late.
    #[inline]
    pub(super) fn look_rest(&self, now_ns: u64) -> Duration {
        match self.look_ns {
            0 => Duration::MAX,
            look_ns => Duration::from_nanos(look_ns.saturating_sub(now_ns)),
        }
    }

    /// Tells of the seconds of the window all of whose requests have ended.
    #[inline]
    pub(super) fn tell(&mut self, now_ns: u64, feed: &Feed, on_second: OnSecond<'_>) {
        if now_ns >= self.tell_ns && self.phase != Phase::WarmUp {
            self.tell_ended(now_ns, feed, on_second);
        }
    }

    fn tell_ended(&mut self, now_ns: u64, feed: &Feed, on_second: OnSecond<'_>) {
        let slots = &self.tally.slots;
        let passed = slots.second_of(now_ns);
        let ended = match self.is_open {
            true => {
                let asked = self.conversations.iter().filter_map(Conversation::oldest_ns);
                slots.second_of(asked.chain([feed.oldest_ns(), now_ns]).min().unwrap_or(now_ns))
            }
            false => passed,
        };
        // The last one is told of in the end: what comes after the window is counted in it.
        let until = ended.max(passed.saturating_sub(WAIT_S_MAX)).min(slots.last());
        for (second, counts) in self.tally.close(until) {
            on_second(second, counts);
        }
        let slots = &self.tally.slots;
        self.tell_ns = match slots.first() {
            first if first >= slots.last() => u64::MAX,
            _ => slots.first_ends_ns().max(now_ns + LOOK_EVERY_NS),
        };
    }

    /// What was counted, once the run has ended; and the number of the first second that was not told of.
    pub(super) fn end(mut self, ended_ns: u64, unsent: &[Unsent], on_second: OnSecond<'_>) -> (Tally, u64) {
        if self.phase == Phase::WarmUp && !self.is_open {
            // The window has closed before this worker saw it open.
            self.count_anew(self.window_ns.start);
        }
        if self.warms_up {
            self.tally.begin();
        }
        let WorkerState { mut conversations, mut tally, is_open, window_ns, backlog, .. } = self;
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
            for conversation in &mut conversations {
                conversation.abandon(None, &window_ns, |at_ns| {
                    tally.fail(at_ns.unwrap_or(ended_ns), FailureKind::Unanswered, 1);
                });
            }
            for Unsent { at_ns, requests } in unsent {
                tally.fail(*at_ns, FailureKind::Unsent, *requests);
            }
        }
        // The second that has begun is told of, too, unless there is nothing in it.
        tally.settle();
        let until = tally.slots.second_of(ended_ns).max(tally.slots.used());
        let until = until.min(tally.slots.last().saturating_add(1));
        for (second, counts) in tally.close(until) {
            on_second(second, counts);
        }
        (tally, until)
    }
}

fn fresh(is_open: bool, window_ns: Range<u64>, with_slip: bool) -> Tally {
    let mut tally = if is_open { Tally::open() } else { Tally::new() };
    tally.slots = Slots::new(window_ns, with_slip);
    tally
}

/// Requests on their way, of the window or not.
pub(super) fn unanswered(conversations: &[Conversation]) -> u64 {
    conversations.iter().map(|conversation| conversation.unanswered(&(0..u64::MAX))).sum()
}
