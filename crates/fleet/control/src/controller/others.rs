//! Other controllers of the fleet: what they have heard, and which of them acts.

use std::collections::BTreeSet;

use admin::api::ApiReply;
use fleet::MemberId;
use fleet::health::{ProbeOutcome, ProbeRound};
use serde_json::json;

use super::Controller;
use super::replies::document;
use crate::liveness::LivenessReport;

impl Controller {
    /// Takes what another controller has heard.
    pub(super) fn on_liveness(&mut self, report: LivenessReport) -> ApiReply {
        if !self.peers.note_heard(&report.controller, self.now) {
            return document("this is that controller\n".to_owned(), json!({"is_self": true}));
        }
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
}
