//! Decisions of compound routes: what a child's reply means.

use super::FlightReply;
use crate::client::{HeldOutput, ReplyBytes};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::plan::CompoundKind;

/// What a compound route knows about its children.
pub(super) struct State {
    /// Children that were asked and have no reply.
    pub(super) waiting: u16,
    /// The next child to ask, for routes that ask one after the other.
    next: u16,
    /// How many there are.
    count: u16,
    /// It has its reply; others are dropped.
    is_done: bool,
    /// The reply to give if no better one comes.
    kept: Option<(Outcome, HeldOutput)>,
    /// How often each outcome has come.
    counts: Vec<(Outcome, u16)>,
}

/// The next step of a compound route.
pub(super) enum Decision<'a> {
    /// For further replies.
    Wait,
    /// Another child.
    Ask(u16),
    /// This is its reply.
    Done(FlightReply<'a>),
}

impl State {
    pub(super) fn new(kind: &CompoundKind, children: usize) -> State {
        let count = u16::try_from(children).expect("checked when the plan is compiled");
        let one_by_one = matches!(kind, CompoundKind::Failover(_) | CompoundKind::MissFailover { .. });
        State {
            waiting: if one_by_one { 1 } else { count },
            next: 1,
            count,
            is_done: false,
            kept: None,
            counts: Vec::new(),
        }
    }

    /// Whether a route that asks one child after the other has asked more than the first.
    pub(super) fn has_moved_on(&self) -> bool {
        self.next > 1
    }

    /// What the next reply of a child means.
    pub(super) fn decide<'a>(
        &mut self,
        kind: &CompoundKind,
        operation: Operation,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        self.waiting -= 1;
        if self.is_done {
            return Decision::Wait;
        }
        let decision = match kind {
            CompoundKind::AllSync => self.worst(reply),
            CompoundKind::AllFastest => self.fastest(reply),
            CompoundKind::AllMajority => self.majority(reply),
            CompoundKind::Failover(errors) => {
                self.next_unless(!errors.applies(operation, reply.outcome), reply)
            }
            CompoundKind::MissFailover { best: false } => self.next_unless(reply.outcome.is_hit(), reply),
            CompoundKind::MissFailover { best: true } => self.best(reply),
            CompoundKind::AllInitial | CompoundKind::AllAsync => {
                unreachable!("these routes keep no frame")
            }
        };
        self.is_done = matches!(decision, Decision::Done(_));
        decision
    }

    /// The worst of all; the first one of several.
    fn worst<'a>(&mut self, reply: FlightReply<'a>) -> Decision<'a> {
        let is_worse = |kept: &Outcome| reply.outcome.severity() > kept.severity();
        if self.kept.as_ref().is_some_and(|(kept, _)| !is_worse(kept)) {
            return if self.waiting > 0 { Decision::Wait } else { self.give_kept() };
        }
        if self.waiting == 0 {
            return Decision::Done(reply);
        }
        self.keep(reply);
        Decision::Wait
    }

    /// The first that another server could not improve, else the last.
    fn fastest<'a>(&mut self, reply: FlightReply<'a>) -> Decision<'a> {
        if reply.outcome.is_failover_error() && self.waiting > 0 {
            return Decision::Wait;
        }
        Decision::Done(reply)
    }

    /// The outcome that more than half of all children have, else the most frequent; of two, the worse.
    fn majority<'a>(&mut self, reply: FlightReply<'a>) -> Decision<'a> {
        let place = match self.counts.iter().position(|(outcome, _)| *outcome == reply.outcome) {
            Some(place) => place,
            None => {
                self.counts.push((reply.outcome, 0));
                self.counts.len() - 1
            }
        };
        self.counts[place].1 += 1;
        let count = self.counts[place].1;
        let leads = self.kept.as_ref().is_none_or(|(kept, _)| {
            let most = self.counts.iter().find(|(outcome, _)| outcome == kept).map_or(0, |(_, most)| *most);
            *kept == reply.outcome
                || count > most
                || count == most && reply.outcome.severity() > kept.severity()
        });
        if count > self.count / 2 {
            return Decision::Done(reply);
        }
        if leads {
            self.keep(reply);
        }
        if self.waiting > 0 { Decision::Wait } else { self.give_kept() }
    }

    /// Asks the next child, if there is one, unless this reply is good enough.
    fn next_unless<'a>(&mut self, is_enough: bool, reply: FlightReply<'a>) -> Decision<'a> {
        if is_enough || self.next == self.count {
            return Decision::Done(reply);
        }
        self.ask_next()
    }

    /// The same, where the best of the replies that are not good enough is given at the end.
    fn best<'a>(&mut self, reply: FlightReply<'a>) -> Decision<'a> {
        if reply.outcome.is_hit() {
            return Decision::Done(reply);
        }
        let is_worse = |kept: &Outcome| reply.outcome.severity() > kept.severity();
        if self.kept.as_ref().is_none_or(|(kept, _)| !is_worse(kept)) {
            self.keep(reply);
        }
        if self.next == self.count { self.give_kept() } else { self.ask_next() }
    }

    fn ask_next<'a>(&mut self) -> Decision<'a> {
        self.next += 1;
        self.waiting += 1;
        Decision::Ask(self.next - 1)
    }

    fn keep(&mut self, reply: FlightReply<'_>) {
        let output = match reply.answer {
            ReplyBytes::Gathered(output) => output,
            ReplyBytes::Copied(bytes) => {
                let mut output = HeldOutput::default();
                output.copy(bytes);
                output
            }
        };
        self.kept = Some((reply.outcome, output));
    }

    fn give_kept<'a>(&mut self) -> Decision<'a> {
        let (outcome, output) = self.kept.take().expect("a reply was kept");
        Decision::Done(FlightReply { outcome, answer: ReplyBytes::Gathered(output) })
    }
}
