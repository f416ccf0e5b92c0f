//! Feed of a turn: the requests to send, and their connections.

use crate::engine::WAIT_MAX;
use crate::engine::outbox::Outbox;
use crate::pacing::schedule::Schedule;
use crate::pacing::waking::Waking;
use crate::types::arrivals::pace::Sleep;
use crate::workload::compose::Composer;
use crate::workload::conversation::Conversation;
use crate::workload::replay::NextDue;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The kind of loop, and its state.
#[derive(Debug)]
pub(crate) enum Feed {
    /// Every connection that was served is topped up.
    Closed {
        /// Connections to top up.
        served: Vec<usize>,
        /// Requests that were given up: there are none.
        nothing: Vec<u64>,
    },
    /// Requests go out when the schedule says, on any connection that has room.
    Open(Box<Open>),
}

/// The state of an open loop.
///
/// A request that is due while no connection has room stays in the schedule: it waits there with its intended time,
/// and is sent, late, before all that come after it. So nothing is dropped, and a long wait takes no memory.
#[derive(Debug)]
pub(crate) struct Open {
    clock: Clock,
    /// Due and not yet sent, at most `DUE_MAX`; what is due beyond is still in the schedule.
    due: VecDeque<u64>,
    /// Connections with room, the one that has rested longest first.
    free: VecDeque<usize>,
    /// By connection: since when it has had room; `None` without.
    free_since_ns: Vec<Option<u64>>,
    /// Missed items are left that no connection had room for.
    refilling: bool,
    sleep: Sleep,
    waking: Waking,
    /// When the latest turn sent something.
    sent_ns: u64,
    passed: Passed,
    /// A request that waits this long for a connection with room is not sent any more.
    timeout_ns: Option<u64>,
    /// When those were due, since the latest look.
    expired: Vec<u64>,
}

/// Requests that were due at about this time and never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsent {
    pub(crate) at_ns: u64,
    pub(crate) requests: u64,
}

/// The requests that have become due.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

/// The source of due times.
#[derive(Debug)]
enum Clock {
    Schedule(Schedule),
    /// The composer's trace.
    Trace(TraceClock),
}

/// The times of a trace, moved to those of the run.
#[derive(Debug)]
struct TraceClock {
    start_ns: u64,
    /// Requests that count, and when the trace ends.
    window_ns: Range<u64>,
    /// As far as the last turn saw.
    next: NextDue,
}

/// A trace that is read more slowly than it is replayed is looked at again after this.
const READING: Duration = Duration::from_millis(1);

/// After a run that was far too fast, the rest of the trace is read for this long, to be counted: some millions.
const COUNTING_MAX: Duration = Duration::from_secs(2);

/// Requests that one turn takes from the schedule. A turn's requests share their sent time, so the last of a longer
/// turn would be composed long after it; 1024 take about 100 µs.
const DUE_MAX: usize = 1024;

/// The turn's inputs besides the loop's own state.
pub(crate) struct TurnInput<'t, 'p> {
    pub(crate) composer: &'t mut Composer<'p>,
    pub(crate) conversations: &'t mut [Conversation],
    pub(crate) outbox: &'t mut Outbox,
    pub(crate) depth: usize,
    pub(crate) now_ns: u64,
}

impl Feed {
    pub(crate) fn closed(connections: usize) -> Feed {
        Feed::Closed { served: (0..connections).collect(), nothing: Vec::new() }
    }

    pub(crate) fn open(schedule: Schedule, connections: usize, sleep: Sleep) -> Feed {
        Feed::by(Clock::Schedule(schedule), connections, sleep)
    }

    /// Follows the composer's trace from `start_ns` on.
    pub(crate) fn trace(start_ns: u64, window_ns: Range<u64>, connections: usize, sleep: Sleep) -> Feed {
        Feed::by(Clock::Trace(TraceClock { start_ns, window_ns, next: NextDue::Unread }), connections, sleep)
    }

    fn by(clock: Clock, connections: usize, sleep: Sleep) -> Feed {
        Feed::Open(Box::new(Open {
            clock,
            due: VecDeque::with_capacity(DUE_MAX),
            free: (0..connections).collect(),
            free_since_ns: vec![Some(0); connections],
            refilling: false,
            sleep,
            waking: Waking::default(),
            sent_ns: 0,
            passed: Passed::default(),
            timeout_ns: None,
            expired: Vec::new(),
        }))
    }

    /// Requests that wait this long for a connection with room are not sent any more.
    pub(crate) fn patient_for(mut self, timeout_ns: Option<u64>) -> Feed {
        if let Feed::Open(open) = &mut self {
            open.timeout_ns = timeout_ns;
        }
        self
    }

    /// When those were due that were given up since the last call.
    #[inline]
    pub(crate) fn expired(&mut self) -> std::vec::Drain<'_, u64> {
        match self {
            Feed::Closed { nothing, .. } => nothing.drain(..),
            Feed::Open(open) => open.expired.drain(..),
        }
    }

    /// No request that has yet to be sent was due before this time.
    pub(crate) fn oldest_ns(&self) -> u64 {
        let Feed::Open(open) = self else { return u64::MAX };
        let next_ns = match open.clock.seen() {
            NextDue::At(next_ns) => next_ns,
            // Times never go back.
            NextDue::Unread => open.passed.last_ns,
            NextDue::End => u64::MAX,
        };
        open.due.front().map_or(next_ns, |due_ns| next_ns.min(*due_ns))
    }

    /// Composes what this turn sends; `false` once there is nothing left to ask.
    #[inline]
    pub(crate) fn fill(&mut self, turn: &mut TurnInput<'_, '_>) -> bool {
        match self {
            Feed::Closed { served, .. } => {
                let mut more = true;
                for &connection in &*served {
                    let now_ns = turn.now_ns;
                    more = turn.send(connection, Portion::ALL, |_| now_ns, |_| now_ns);
                }
                served.clear();
                more
            }
            Feed::Open(open) => open.fill(turn),
        }
    }

    /// A reply came on this connection.
    #[inline]
    pub(crate) fn served(&mut self, connection: usize, has_room: bool, done_ns: u64) {
        match self {
            Feed::Closed { served, .. } => served.push(connection),
            Feed::Open(open) => {
                if has_room && open.free_since_ns[connection].is_none() {
                    open.free_since_ns[connection] = Some(done_ns);
                    open.free.push_back(connection);
                }
            }
        }
    }

    /// The number of connections that the next requests can use, whatever is read meanwhile; unlimited for a closed
    /// loop, which does not plan them.
    #[inline]
    pub(crate) fn spare(&self) -> usize {
        match self {
            Feed::Closed { .. } => usize::MAX,
            Feed::Open(open) => open.free.len(),
        }
    }

    /// This connection gets nothing more, until it is served again.
    pub(crate) fn withdraw(&mut self, connection: usize) {
        match self {
            Feed::Closed { served, .. } => served.retain(|other| *other != connection),
            Feed::Open(open) => {
                open.free.retain(|other| *other != connection);
                open.free_since_ns[connection] = None;
            }
        }
    }

    /// Requests that are due from this time on will not be sent; a closed loop has none that are due.
    pub(crate) fn end(&mut self, at_ns: u64) {
        if let Feed::Open(open) = self {
            match &mut open.clock {
                Clock::Schedule(schedule) => schedule.end(at_ns),
                Clock::Trace(trace) => trace.window_ns.end = trace.window_ns.end.min(at_ns),
            }
        }
    }

    /// How long there is nothing to send, unless a reply comes.
    #[inline]
    pub(crate) fn rest(&mut self, now_ns: u64) -> Duration {
        match self {
            Feed::Closed { .. } => WAIT_MAX,
            Feed::Open(open) => open.rest(now_ns),
        }
    }

    /// A wait was to end at `until_ns` and has ended now.
    #[inline]
    pub(crate) fn woke(&mut self, until_ns: u64, now_ns: u64) {
        if let Feed::Open(open) = self
            && let Some(late_ns) = now_ns.checked_sub(until_ns)
        {
            open.waking.woke(late_ns);
        }
    }

    /// Whether nothing more becomes due. A closed loop has nothing that is due.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Feed::Open(open) if open.clock.seen() == NextDue::End)
    }

    /// About how many requests are due and not sent.
    pub(crate) fn overdue(&self, now_ns: u64) -> u64 {
        let Feed::Open(open) = self else { return 0 };
        let from_ns = match open.clock.seen() {
            NextDue::At(next_ns) => next_ns,
            // It was over before the last turn took the rest of it.
            NextDue::End => open.passed.last_ns,
            NextDue::Unread => now_ns,
        };
        open.due.len() as u64 + open.passed.in_time(now_ns.saturating_sub(from_ns))
    }

    /// About which requests the schedule had in the window that were not sent.
    pub(crate) fn unsent(&self, composer: &mut Composer<'_>) -> Vec<Unsent> {
        let Feed::Open(open) = self else { return Vec::new() };
        // A server that does not answer may have kept all that was taken from the schedule in the warm-up waiting.
        let taken = open.due.iter().filter(|due_ns| open.clock.counts(**due_ns));
        let mut unsent: Vec<Unsent> = taken.map(|due_ns| Unsent { at_ns: *due_ns, requests: 1 }).collect();
        match (&open.clock, composer.trace()) {
            (Clock::Schedule(schedule), _) => unsent.extend(schedule.left()),
            (Clock::Trace(trace), Some(replay)) => {
                let until_ns = trace.window_ns.end.saturating_sub(trace.start_ns);
                replay.left(until_ns, COUNTING_MAX, |at_ns| {
                    unsent.push(Unsent { at_ns: trace.start_ns + at_ns, requests: 1 });
                });
            }
            (Clock::Trace(_), None) => {}
        }
        unsent
    }
}

impl Open {
    fn rest(&mut self, now_ns: u64) -> Duration {
        let is_awake = |spin: Duration| Duration::from_nanos(now_ns.saturating_sub(self.sent_ns)) < spin;
        if matches!(self.sleep, Sleep::Spin(spin) if is_awake(spin)) {
            return Duration::ZERO;
        }
        if self.free.is_empty() {
            return WAIT_MAX;
        }
        if !self.due.is_empty() || self.refilling {
            return Duration::ZERO;
        }
        let next_ns = match self.clock.seen() {
            NextDue::At(next_ns) => next_ns,
            NextDue::Unread => return READING,
            NextDue::End => return WAIT_MAX,
        };
        let until_ns = match self.sleep {
            Sleep::Learned => next_ns - self.waking.awake_ns(now_ns, next_ns).min(next_ns),
            Sleep::Spin(spin) => next_ns.saturating_sub(spin.as_nanos() as u64),
            // It has waited for all of its slot when this thread is awake.
            Sleep::Slot(slot) => {
                let slot_ns = slot.as_nanos() as u64;
                next_ns + slot_ns - self.waking.lead_ns().min(slot_ns / 2)
            }
        };
        Duration::from_nanos(until_ns.saturating_sub(now_ns)).min(WAIT_MAX)
    }

    fn fill(&mut self, turn: &mut TurnInput<'_, '_>) -> bool {
        let expires_ns = self.timeout_ns.map_or(0, |timeout_ns| turn.now_ns.saturating_sub(timeout_ns));
        while self.due.front().is_some_and(|due_ns| *due_ns < expires_ns) {
            self.expired.extend(self.due.pop_front());
            turn.composer.leave_out();
        }
        while self.due.len() < DUE_MAX
            && let NextDue::At(next) = self.clock.next(turn.composer)
            && next <= turn.now_ns
        {
            self.passed.add(next);
            self.clock.advance(turn.composer);
            if next < expires_ns {
                // All that were due before it have expired, too.
                self.expired.push(next);
                turn.composer.leave_out();
            } else {
                self.due.push_back(next);
            }
        }
        // One parcel for each connection: those that still have room afterwards rest until the next turn.
        // Sets of missed items are no part of the schedule: they go out first.
        let now_ns = turn.now_ns;
        let takers = self.free.len().min(self.due.len() + turn.composer.missed.len());
        if takers > 0 {
            self.sent_ns = now_ns;
        }
        for taker in 0..takers {
            let Some(connection) = self.free.pop_front() else { break };
            let missed = turn.composer.missed.len();
            let share = (self.due.len() + missed).div_ceil(takers - taker);
            let refills = missed.min(share);
            let portion = Portion { refills, requests: share - refills };
            let free_since_ns = self.free_since_ns[connection].unwrap_or_default();
            let (due, slot_ns) = (&mut self.due, self.sleep.slot_ns());
            // A recording takes the request before later ones are sent.
            let refilled_ns = due.front().map_or(now_ns, |due_ns| now_ns.min(*due_ns));
            let refill = |conversation: &mut Conversation| {
                conversation.intend(now_ns, now_ns);
                refilled_ns
            };
            turn.send(connection, portion, refill, |conversation| {
                let intended_ns = due.pop_front().unwrap_or(now_ns);
                // The request could not be sent before this second time: a delay after it is this program's lateness.
                conversation.intend(intended_ns, (intended_ns + slot_ns).max(free_since_ns));
                intended_ns
            });
            if turn.conversations[connection].outstanding() < turn.depth {
                self.free.push_back(connection);
            } else {
                self.free_since_ns[connection] = None;
            }
        }
        self.refilling = !turn.composer.missed.is_empty();
        !self.due.is_empty() || self.clock.seen() != NextDue::End
    }
}

impl Passed {
    #[inline]
    fn add(&mut self, due_ns: u64) {
        if self.count == 0 {
            self.first_ns = due_ns;
        }
        (self.count, self.last_ns) = (self.count + 1, due_ns);
    }

    /// The number that becomes due in this time, at the rate so far.
    fn in_time(&self, time_ns: u64) -> u64 {
        let passed_ns = self.last_ns.saturating_sub(self.first_ns).max(1);
        (u128::from(self.count) * u128::from(time_ns) / u128::from(passed_ns)) as u64
    }
}

impl Clock {
    /// When the next request is due, by the run's clock.
    #[inline]
    fn next(&mut self, composer: &mut Composer<'_>) -> NextDue {
        if let (Clock::Trace(trace), Some(replay)) = (&mut *self, composer.trace()) {
            trace.next = match replay.next() {
                NextDue::At(at_ns) => match trace.start_ns.saturating_add(at_ns) {
                    due_ns if due_ns >= trace.window_ns.end => NextDue::End,
                    due_ns => NextDue::At(due_ns),
                },
                other => other,
            };
        }
        self.seen()
    }

    /// The same, as of the last look.
    #[inline]
    fn seen(&self) -> NextDue {
        match self {
            Clock::Schedule(schedule) => schedule.peek().map_or(NextDue::End, NextDue::At),
            Clock::Trace(trace) => trace.next,
        }
    }

    /// Whether a time is in the window, rather than in the warm-up.
    fn counts(&self, at_ns: u64) -> bool {
        match self {
            Clock::Schedule(schedule) => schedule.counts(at_ns),
            Clock::Trace(trace) => at_ns >= trace.window_ns.start,
        }
    }

    #[inline]
    fn advance(&mut self, composer: &mut Composer<'_>) {
        match (self, composer.trace()) {
            (Clock::Schedule(schedule), _) => schedule.advance(),
            (Clock::Trace(_), Some(replay)) => replay.advance(),
            (Clock::Trace(_), None) => {}
        }
    }
}

/// What one connection gets to send in a turn, at most.
#[derive(Clone, Copy, Debug)]
struct Portion {
    /// Sets of missed items.
    refills: usize,
    requests: usize,
}

impl Portion {
    const ALL: Portion = Portion { refills: usize::MAX, requests: usize::MAX };
}

impl TurnInput<'_, '_> {
    /// Sends up to a portion as far as the connection has room, and reports every set of a missed item and every
    /// request, with the time as of which it is asked; `false` once there is nothing left to ask.
    #[inline]
    fn send(
        &mut self,
        connection: usize,
        portion: Portion,
        refilled: impl Fn(&mut Conversation) -> u64,
        mut each: impl FnMut(&mut Conversation) -> u64,
    ) -> bool {
        let TurnInput { composer, conversations, outbox, depth, .. } = self;
        let conversation = &mut conversations[connection];
        let start = outbox.bytes.len();
        let mut refills = 0;
        while refills < portion.refills
            && conversation.outstanding() < *depth
            && composer.refill(&mut outbox.bytes, conversation)
        {
            refills += 1;
            composer.asked(refilled(conversation));
        }
        let (mut more, mut composed) = (true, 0);
        while more && composed < portion.requests && conversation.outstanding() < *depth {
            more = composer.compose(&mut outbox.bytes, conversation);
            if more {
                composed += 1;
                composer.asked(each(conversation));
            }
        }
        if refills + composed > 0 {
            conversation.close_batch(refills + composed);
            outbox.address(connection, start);
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::arrivals::Arrivals;
    use crate::types::part::Share;

    const DUE_NS: u64 = 10_000_000;

    #[test]
    fn the_time_between_requests_is_slept_but_for_the_part_that_spins() {
        let check = |spin_us: u64, before_us: u64, rest_us: u64| {
            let schedule = Schedule::new(Arrivals::Constant, 100.0, Share { index: 0, threads: 1 }, 1);
            let schedule = schedule.during(DUE_NS, DUE_NS..100 * DUE_NS, u64::MAX);
            let mut feed = Feed::open(schedule, 1, Sleep::Spin(Duration::from_micros(spin_us)));
            if let Feed::Open(open) = &mut feed {
                open.sent_ns = DUE_NS - 500_000;
            }
            let rest = feed.rest(DUE_NS - before_us * 1000);
            assert_eq!(rest, Duration::from_micros(rest_us), "{spin_us} {before_us}");
        };
        check(0, 300, 300);
        check(100, 300, 200);
        check(100, 100, 0);
        check(100, 40, 0);
        // 60 µs after the last one, and 160.
        check(100, 440, 0);
        check(100, 340, 240);
        check(0, 500, 500);
        check(3_600_000_000, 300, 0);
    }

    #[test]
    fn a_thread_that_wakes_up_late_sleeps_less() {
        let rest = |sleep: Sleep, late_ns: u64| {
            let schedule = Schedule::new(Arrivals::Constant, 100.0, Share { index: 0, threads: 1 }, 1);
            let mut feed = Feed::open(schedule.during(DUE_NS, DUE_NS..100 * DUE_NS, u64::MAX), 1, sleep);
            (0..64).for_each(|wake| feed.woke(wake, wake + late_ns));
            feed.rest(DUE_NS - 300_000).as_micros()
        };
        assert_eq!((rest(Sleep::Learned, 0), rest(Sleep::Learned, 80_000)), (300, 220));
        let slot = Sleep::Slot(Duration::from_micros(200));
        assert_eq!((rest(slot, 0), rest(slot, 80_000), rest(slot, 150_000)), (500, 420, 400));
    }
}
