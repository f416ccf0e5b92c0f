//! Alarms: members of a cluster with the same trouble in one, so that a mass event is no flood.

use std::collections::BTreeMap;

use stdx::clock::Now;

use super::HealthWatch;
use crate::health::decision::{EXAMPLES_MAX, HealthDecision, HealthDecisions};
use crate::health::reason::meaning;
use crate::health::verdict::{MemberVerdict, Unmet};

impl HealthWatch {
    /// Tells of what lasts and is not acted upon: at most one alarm per cluster, verdict and condition.
    pub(super) fn alarm(&self, now: Now, decisions: &mut HealthDecisions) {
        type Group = (usize, MemberVerdict, Option<Unmet>);
        let mut groups: BTreeMap<Group, (usize, Vec<usize>)> = BTreeMap::new();
        for at in (0..self.members.len()).filter(|at| self.is_alarming(now, *at)) {
            let key = (self.roster.scopes[at].0, self.members[at].verdict, self.members[at].unmet);
            let (count, examples) = groups.entry(key).or_default();
            *count += 1;
            if examples.len() < EXAMPLES_MAX {
                examples.push(at);
            }
        }
        for ((cluster, verdict, unmet), (count, examples)) in groups {
            let first = examples[0];
            let since = super::age_s(now, self.members[first].since);
            let (cluster, size) = &self.roster.clusters[cluster];
            let seen = self.seen(now, first);
            let reason = format!(
                "{} for {since} s: {count} of {size} members of cluster {cluster}. {} {}",
                meaning(verdict, unmet),
                seen.evidence(),
                seen.advice(unmet)
            );
            let members = examples.iter().map(|at| self.roster.places[*at].member.clone()).collect();
            decisions.push(HealthDecision::Alarm {
                cluster: cluster.clone(),
                verdict,
                unmet,
                count,
                members,
                reason,
            });
        }
    }

    /// One pass of trouble is none: agents and routers are heard at different times.
    fn is_alarming(&self, now: Now, at: usize) -> bool {
        let member = &self.members[at];
        let lasts_ms = match member.verdict {
            MemberVerdict::Healthy
            | MemberVerdict::AnnouncedRestart
            | MemberVerdict::ProcessDown
            | MemberVerdict::Gone
            | MemberVerdict::Flapping => return false,
            // These are about minutes, and not about this moment.
            MemberVerdict::Unsteady | MemberVerdict::Slow => 0,
            MemberVerdict::Unobserved => self.settings.observation_window_ms + self.settings.suspect_ms,
            _ => self.settings.suspect_ms,
        };
        now.ms().saturating_sub(member.since.ms()) >= lasts_ms
    }
}
