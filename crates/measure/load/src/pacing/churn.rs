//! Churn: connections that are closed and opened anew, and when.
//!
//! No socket here: a connection *leaves* when its turn has come, is closed once its pending requests have been
//! answered, and is *away* until the engine reports that it is open again.

use crate::pacing::schedule::Schedule;
use crate::workload::conversation::Conversation;
use std::time::Duration;

/// The connections of one thread.
#[derive(Debug)]
pub(crate) struct Churn {
    /// `u64::MAX`: they last.
    pub(crate) after: u64,
    /// When the next one is closed, whichever it is.
    pub(crate) schedule: Option<Schedule>,
    /// When this many are closed at once.
    pub(crate) storm: Option<(u64, usize)>,
    states: Vec<State>,
    leaving: Vec<usize>,
    /// Where the schedule looks for a connection to close.
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// With the requests that were answered on it.
    Open(u64),
    Leaving,
    Away,
}

impl Churn {
    pub(crate) fn new(connections: usize) -> Churn {
        Churn {
            after: u64::MAX,
            schedule: None,
            storm: None,
            states: vec![State::Open(0); connections],
            leaving: Vec::new(),
            next: 0,
        }
    }

    /// More requests were answered on a connection; `false` if it gets no others.
    pub(crate) fn answered(&mut self, connection: usize, requests: usize) -> bool {
        let State::Open(answered) = &mut self.states[connection] else { return false };
        *answered += requests as u64;
        if *answered < self.after {
            return true;
        }
        self.leave(connection);
        false
    }

    /// The time until the next connections leave.
    pub(crate) fn rest(&self, now_ns: u64) -> Duration {
        let next = self.schedule.as_ref().and_then(Schedule::peek).into_iter();
        let next_ns = next.chain(self.storm.map(|(at_ns, _)| at_ns)).min();
        next_ns.map_or(Duration::MAX, |next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)))
    }

    /// Lets connections leave whose time has come; passes each to the caller.
    pub(crate) fn leave_due(&mut self, now_ns: u64, mut each: impl FnMut(usize)) {
        let mut due = 0;
        if let Some(schedule) = &mut self.schedule {
            while schedule.peek().is_some_and(|next| next <= now_ns) {
                schedule.advance();
                due += 1;
            }
        }
        due += self.storm.take_if(|(at_ns, _)| *at_ns <= now_ns).map_or(0, |(_, connections)| connections);
        for _ in 0..due {
            let open = |connection: &usize| matches!(self.states[*connection], State::Open(_));
            let all = self.states.len();
            // When none is open any more, more cannot be closed.
            let Some(connection) = (0..all).map(|step| (self.next + step) % all).find(open) else { return };
            self.next = connection + 1;
            self.leave(connection);
            each(connection);
        }
    }

    /// The next connection that has left and awaits no reply: it is away from now on.
    pub(crate) fn next_away(&mut self, conversations: &[Conversation]) -> Option<usize> {
        let at = self.leaving.iter().position(|connection| conversations[*connection].outstanding() == 0)?;
        let connection = self.leaving.swap_remove(at);
        self.states[connection] = State::Away;
        Some(connection)
    }

    /// The server has closed it; the engine opens it anew.
    pub(crate) fn closed(&mut self, connection: usize) {
        self.leaving.retain(|leaving| *leaving != connection);
        self.states[connection] = State::Away;
    }

    pub(crate) fn opened(&mut self, connection: usize) {
        self.states[connection] = State::Open(0);
    }

    fn leave(&mut self, connection: usize) {
        self.states[connection] = State::Leaving;
        self.leaving.push(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_in_turn_and_come_back() {
        let conversations: Vec<Conversation> = (0..3).map(|_| Conversation::default()).collect();
        let mut churn = Churn { after: 10, storm: Some((100, 2)), ..Churn::new(3) };
        assert!(churn.answered(0, 9));
        assert!(!churn.answered(0, 1), "it has had its ten");
        assert_eq!((churn.rest(40), churn.rest(100)), (Duration::from_nanos(60), Duration::ZERO));
        let mut left = Vec::new();
        churn.leave_due(99, |connection| left.push(connection));
        assert_eq!(left, [0; 0]);
        churn.leave_due(100, |connection| left.push(connection));
        churn.leave_due(101, |connection| left.push(connection));
        assert_eq!(left, [1, 2], "once, and those that were still there");
        assert_eq!(churn.rest(101), Duration::MAX);
        let mut away: Vec<usize> = std::iter::from_fn(|| churn.next_away(&conversations)).collect();
        away.sort_unstable();
        assert_eq!(away, [0, 1, 2]);
        assert!(!churn.answered(1, 1));
        churn.opened(1);
        assert!(churn.answered(1, 9), "it begins anew");
        churn.closed(1);
        assert!(!churn.answered(1, 1) && churn.next_away(&conversations).is_none());
    }
}
