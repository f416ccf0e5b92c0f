//! Recalls: whether a host lives is known from its agent sooner than its turn ends.
//!
//! When a member does not answer, the turn of its host's agent is ended. An agent that lives comes again within
//! milliseconds; one that does not is silent after [`agent_return_ms`](fleet::health::HealthThresholds::agent_return_ms).

use fleet::{HostId, MemberId};
use stdx::clock::Now;

use super::Controller;

/// Time from one recall of an agent to its next, while members of its host do not answer.
const RECALL_EVERY_MS: u64 = 5_000;

impl Controller {
    /// Recalls the agent beside a member that does not answer, if it takes its turns here. Members without a slot are not
    /// missed, so nobody hurries because of them.
    pub(super) fn recall_agent_of(&mut self, member: &MemberId) {
        if self.watch.verdict(member).is_none() {
            return;
        }
        let Some(host) = self.view.inventory.get(member).map(|member| member.host.clone()) else { return };
        let now = self.now;
        let Some(record) = self.agents.get_mut(&host).filter(|record| record.is_direct) else { return };
        let is_due = record.recalled.is_none_or(|last| last.ms() + RECALL_EVERY_MS <= now.ms());
        if record.expected.is_some() || !is_due {
            return;
        }
        (record.recalled, record.expected) = (Some(now), Some(now));
        self.seats.recall(&host);
        self.outboxes.iter().for_each(|outbox| outbox.put_recalled(&host));
        self.note_expected(&host, now);
    }

    /// Another controller has recalled an agent that takes its turns there.
    pub(super) fn expect_agent(&mut self, host: &HostId) {
        let now = self.now;
        let Some(record) = self.agents.get_mut(host).filter(|record| !record.is_direct) else { return };
        let since = *record.expected.get_or_insert(now);
        self.note_expected(host, since);
    }

    fn note_expected(&mut self, host: &HostId, since: Now) {
        let Some(record) = self.agents.get(host) else { return };
        let members = record.report.members.iter().map(|report| &report.member);
        self.watch.agent_expected(since, host, members);
    }
}
