//! Peers: the other controllers of the fleet, when each was heard last, and what they are told.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::health::ProbeOutcome;
use fleet::tuning::AnswerDigest;
use fleet::{HostId, MemberId};
use stdx::clock::Now;

use super::probes::ProbeSummary;
use crate::controller::tuning::{FleetAsk, FleetTuning};
use crate::liveness::{LivenessOutbox, ProbeDigest};
use crate::service::turn::{TurnFigures, TurnReport};

/// A controller that has said nothing for this long is not waited for. It speaks every second.
const AWAY_AFTER_MS: u64 = 4000;
/// How much longer each next controller waits before it acts: the one before has decided and published by then.
const NEXT_AFTER_MS: u64 = 2000;

/// The other controllers, as this one knows them.
pub(crate) struct Peers {
    /// The name of this controller.
    own: HostId,
    heard: BTreeMap<HostId, Now>,
    outboxes: Vec<Arc<LivenessOutbox>>,
}

impl Peers {
    /// Those of a controller that has heard of nobody.
    pub(crate) fn new(own: HostId) -> Peers {
        Peers { own, heard: BTreeMap::new(), outboxes: Vec::new() }
    }

    /// Tells these what this controller hears.
    pub(crate) fn tell(&mut self, outboxes: Vec<Arc<LivenessOutbox>>) {
        self.outboxes = outboxes;
    }

    /// Notes that a controller has spoken. False if it is this one itself.
    pub(crate) fn note_heard(&mut self, controller: &HostId, now: Now) -> bool {
        let is_other = *controller != self.own;
        if is_other {
            self.heard.insert(controller.clone(), now);
        }
        is_other
    }

    /// The others, and when they have spoken last.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (&HostId, Now)> {
        self.heard.iter().map(|(controller, heard)| (controller, *heard))
    }

    /// Those that this controller sends what it hears.
    pub(crate) fn expected(&self) -> usize {
        self.outboxes.iter().filter(|outbox| outbox.is_open()).count()
    }

    /// How long a decision that follows from what all controllers know must stand until this one carries it out. The first
    /// by name acts at once. If another one acts at the same moment, the register accepts one of the two.
    pub(crate) fn waits_ms(&self, now: Now) -> u64 {
        let is_before =
            |(name, heard): &(&HostId, &Now)| **name < self.own && heard.ms() + AWAY_AFTER_MS >= now.ms();
        NEXT_AFTER_MS * self.heard.iter().filter(is_before).count() as u64
    }

    /// Passes on a turn that an agent has taken here.
    pub(crate) fn pass_on(&self, report: &TurnReport, figures: &TurnFigures) {
        for outbox in self.outboxes.iter().filter(|outbox| outbox.is_open()) {
            outbox.put_turn(report.clone().with_figures(figures));
        }
    }

    /// Tells the others that an agent was recalled.
    pub(crate) fn tell_recalled(&self, host: &HostId) {
        self.outboxes.iter().for_each(|outbox| outbox.put_recalled(host));
    }

    /// Tells the others what people ask of hosts.
    pub(crate) fn tell_ask(&self, asked: &FleetAsk) {
        self.outboxes.iter().for_each(|outbox| outbox.put_ask(asked));
    }

    /// Sends each of the others the texts that it lacks.
    pub(crate) fn send_lacked(&self, tuning: &FleetTuning) {
        let text_of = |digest: &AnswerDigest| tuning.text(digest).map(|text| text.to_string());
        self.outboxes.iter().for_each(|outbox| outbox.put_lacked(text_of));
    }

    /// Tells the other controllers what the last round of probes has found.
    pub(crate) fn tell_probes(&self, round: &ProbeSummary) {
        if self.outboxes.is_empty() {
            return;
        }
        let answer = |(member, outcome): &(MemberId, ProbeOutcome)| {
            (member.clone(), !matches!(outcome, ProbeOutcome::Failed))
        };
        let late = round.outcomes.iter().filter(|(_, outcome)| matches!(outcome, ProbeOutcome::Late));
        let late: Vec<MemberId> = late.map(|(member, _)| member.clone()).collect();
        let outcomes: Vec<(MemberId, bool)> = round.outcomes.iter().map(answer).collect();
        for outbox in &self.outboxes {
            outbox.put_probes(ProbeDigest {
                asked: round.asked,
                answered: round.answered,
                outcomes: outcomes.clone(),
                late: late.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> HostId {
        name.parse().expect("a name")
    }

    #[test]
    fn each_controller_waits_for_those_before_it_that_are_heard() {
        let mut peers = Peers::new(name("c3"));
        let at = Now::at_ms;
        assert_eq!(peers.waits_ms(at(0)), 0);
        assert!(!peers.note_heard(&name("c3"), at(0)), "it is this one");
        for other in ["c1", "c2", "c4"] {
            assert!(peers.note_heard(&name(other), at(0)));
        }
        assert_eq!(peers.waits_ms(at(AWAY_AFTER_MS)), 2 * NEXT_AFTER_MS);
        peers.note_heard(&name("c1"), at(1000));
        assert_eq!(peers.waits_ms(at(AWAY_AFTER_MS + 1)), NEXT_AFTER_MS, "c2 is away");
        assert_eq!(peers.waits_ms(at(AWAY_AFTER_MS + 1001)), 0);
        assert_eq!(peers.heard().count(), 3);
    }
}
