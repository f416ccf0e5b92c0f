//! Other controllers of the fleet: what they have heard, and which of them acts.

use std::collections::BTreeSet;

use admin::api::ApiReply;
use fleet::health::{ProbeOutcome, ProbeRound};
use fleet::{HostId, MemberId};
use serde_json::json;
use stdx::clock::Now;

use super::{Controller, document};
use crate::liveness::{LivenessReport, ProbeDigest};

/// A controller that has said nothing for this long is not waited for. It speaks every second.
const AWAY_AFTER_MS: u64 = 4000;
/// How much longer each next controller waits before it acts: the one before has decided and published by then.
const NEXT_AFTER_MS: u64 = 2000;

impl Controller {
    /// Takes what another controller has heard.
    pub(super) fn on_liveness(&mut self, report: LivenessReport) -> ApiReply {
        if report.controller == self.settings.host {
            return document("this is that controller\n".to_owned(), json!({"is_self": true}));
        }
        self.others.insert(report.controller.clone(), self.now);
        for turn in report.turns {
            self.on_turn(turn, false);
        }
        for host in &report.recalled {
            self.expect_agent(host);
        }
        if let Some(probes) = report.probes {
            let late: BTreeSet<MemberId> = probes.late.into_iter().collect();
            let outcome = |(member, is_answered): (MemberId, bool)| {
                let outcome = match is_answered {
                    true if late.contains(&member) => ProbeOutcome::Late,
                    true => ProbeOutcome::Answered,
                    false => ProbeOutcome::Failed,
                };
                (member, outcome)
            };
            let outcomes: Vec<(MemberId, ProbeOutcome)> = probes.outcomes.into_iter().map(outcome).collect();
            let (prober, zone) = (&report.controller, &report.zone);
            let (asked, answered) = (probes.asked, probes.answered);
            let round = ProbeRound { prober, zone, asked, answered, outcomes: &outcomes };
            // A round without probes does not count.
            let _ = self.watch.probed(self.now, &round);
        }
        document(String::new(), json!({"is_self": false}))
    }

    /// Tells the other controllers what the last round of probes has found.
    pub(super) fn tell_others_of_probes(
        &self,
        asked: u32,
        answered: u32,
        outcomes: &[(MemberId, ProbeOutcome)],
    ) {
        if self.outboxes.is_empty() {
            return;
        }
        let answer = |(member, outcome): &(MemberId, ProbeOutcome)| {
            (member.clone(), !matches!(outcome, ProbeOutcome::Failed))
        };
        let late = outcomes.iter().filter(|(_, outcome)| matches!(outcome, ProbeOutcome::Late));
        let late: Vec<MemberId> = late.map(|(member, _)| member.clone()).collect();
        let outcomes: Vec<(MemberId, bool)> = outcomes.iter().map(answer).collect();
        for outbox in &self.outboxes {
            outbox.put_probes(ProbeDigest {
                asked,
                answered,
                outcomes: outcomes.clone(),
                late: late.clone(),
            });
        }
    }

    /// How long a decision that follows from what all controllers know must stand until this one carries it out. The first
    /// by name acts at once. If another one acts at the same moment, the register accepts one of the two.
    pub(super) fn waits_ms(&self) -> u64 {
        let is_before = |(name, heard): &(&HostId, &Now)| {
            **name < self.settings.host && heard.ms() + AWAY_AFTER_MS >= self.now.ms()
        };
        NEXT_AFTER_MS * self.others.iter().filter(is_before).count() as u64
    }
}
