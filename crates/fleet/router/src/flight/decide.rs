//! Decisions of compound routes: what a child's reply means.

use stdx::clock::Now;

use super::comparing::Comparing;
use super::compressed;
use super::failover::{FailoverContext, FailoverProgress};
use super::item::in_one_piece;
use super::reply::FlightReply;
use super::steps::{BigValueStage, Decision, FillStage, Scene, Stage, StagingStage, State};
use crate::message::outcome::Outcome;
use crate::message::request::StoredRequest;
use crate::plan::{CompoundKind, FailoverSettings};

/// Of requests that a child gets as they are.
const NO_FRAME: &str = "other requests keep no frame";

impl State {
    /// Before the first reply to `request`.
    pub(super) fn new(kind: &CompoundKind, children: usize, request: &StoredRequest) -> State {
        let count = u16::try_from(children).expect("checked when the plan is compiled");
        let stage = match kind {
            CompoundKind::Fill(_) => Stage::Fill(FillStage::Near),
            CompoundKind::Staging => Stage::Staging(StagingStage::Warm),
            CompoundKind::SizeSplit(split) => {
                Stage::SizeSplit(split.first(&request.message()).expect(NO_FRAME))
            }
            CompoundKind::BigValue(big) => Stage::BigValue(big.first(&request.message()).expect(NO_FRAME)),
            _ => Stage::Children,
        };
        let at_once = matches!(
            kind,
            CompoundKind::AllSync
                | CompoundKind::AllFastest
                | CompoundKind::AllInitial
                | CompoundKind::AllAsync
                | CompoundKind::AllMajority
                | CompoundKind::KeySplit(_)
        );
        let parts = match (kind, stage) {
            (CompoundKind::BigValue(big), Stage::BigValue(BigValueStage::Write)) => {
                big.parts(&request.message())
            }
            _ => None,
        };
        State {
            waiting: match &parts {
                Some(parts) => parts.next,
                None if at_once => count,
                None => 1,
            },
            next: 1,
            count,
            is_done: false,
            kept: None,
            failed: None,
            stage,
            parts,
            counts: Vec::new(),
            failover: FailoverProgress::default(),
            not_before: Now::default(),
            comparing: None,
        }
    }

    /// For a shadowed route: two children are asked, and their replies are compared.
    pub(super) fn comparing(comparing: Comparing, request: &StoredRequest) -> State {
        let kind = CompoundKind::Shadow(Box::default());
        State { waiting: 2, comparing: Some(Box::new(comparing)), ..State::new(&kind, 2, request) }
    }

    /// Whether a route that asks one child after the other has asked more than the first.
    pub(super) fn has_moved_on(&self) -> bool {
        self.next > 1 || self.failover.has_moved_on()
    }

    /// What the next reply of a child means.
    pub(super) fn decide<'a>(
        &mut self,
        kind: &CompoundKind,
        scene: &mut Scene<'_>,
        reply: FlightReply<'a>,
    ) -> Decision<'a> {
        self.waiting -= 1;
        if self.is_done {
            return Decision::Wait;
        }
        let decision = match kind {
            CompoundKind::Fill(fill) => self.fill(fill, scene, in_one_piece(reply)),
            CompoundKind::Staging => self.staging(scene, in_one_piece(reply)),
            CompoundKind::SizeSplit(_) => self.size_split(scene, in_one_piece(reply)),
            CompoundKind::BigValue(big) => self.big_value(big, scene, in_one_piece(reply)),
            CompoundKind::KeySplit(_) => self.first_hit(reply),
            CompoundKind::Compression(compression) => {
                Decision::Done(compressed::plain(compression, scene.compressor, &scene.message, reply))
            }
            CompoundKind::AllSync => self.worst(reply),
            CompoundKind::AllFastest => self.fastest(reply),
            CompoundKind::AllMajority => self.majority(reply),
            CompoundKind::MissFailover { best: false } => self.next_unless(reply.outcome.is_hit(), reply),
            CompoundKind::MissFailover { best: true } => self.best(reply),
            CompoundKind::Outstanding(_) | CompoundKind::Delay(_) | CompoundKind::Log => {
                Decision::Done(reply)
            }
            CompoundKind::Failover(_) => unreachable!("decided by State::failover"),
            CompoundKind::Shadow(_) => unreachable!("decided by State::compared"),
            CompoundKind::AllInitial
            | CompoundKind::Broadcast(_)
            | CompoundKind::AllAsync
            | CompoundKind::ModifyKey(_)
            | CompoundKind::ModifyExptime(_) => {
                unreachable!("these routes keep no frame")
            }
        };
        self.is_done = matches!(decision, Decision::Done(_));
        if let Decision::Orders(orders) = &decision {
            self.waiting += orders.asks.len() as u16;
        }
        decision
    }

    /// The same for a FailoverRoute, whose `child` has replied.
    pub(super) fn failover<'a>(
        &mut self,
        settings: &FailoverSettings,
        child: u16,
        reply: FlightReply<'a>,
        context: FailoverContext<'_>,
    ) -> Decision<'a> {
        self.waiting -= 1;
        let decision = self.failover.decide(settings, child, reply, context);
        self.waiting += u16::from(matches!(decision, Decision::Ask(_)));
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

    /// The first that has the item, else the last.
    fn first_hit<'a>(&mut self, reply: FlightReply<'a>) -> Decision<'a> {
        if !reply.outcome.is_hit() && self.waiting > 0 {
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
}
