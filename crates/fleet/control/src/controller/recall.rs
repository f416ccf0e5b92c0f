//! Recalls: whether a host lives is known from its agent sooner than its turn ends.
//!
//! When a member does not answer, the turn of its host's agent is ended. An agent that lives comes again within
//! milliseconds; one that does not is silent after [`agent_return_ms`](fleet::health::HealthThresholds::agent_return_ms).

use fleet::{HostId, MemberId};
use stdx::clock::Now;

use super::Controller;

impl Controller {
    /// Recalls the agent beside a member that does not answer, if it takes its turns here. Members without a slot are not
    /// missed, so nobody hurries because of them.
    pub(super) fn recall_agent_of(&mut self, member: &MemberId) {
        if self.watch.verdict(member).is_none() {
            return;
        }
        let Some(host) = self.register.view().inventory().get(member).map(|member| member.host.clone())
        else {
            return;
        };
        if self.agents.recall(&host, self.now) {
            self.seats.recall(&host);
            self.peers.tell_recalled(&host);
            self.note_expected(&host, self.now);
        }
    }

    /// Another controller has recalled an agent that takes its turns there.
    pub(super) fn expect_agent(&mut self, host: &HostId) {
        if let Some(since) = self.agents.expect(host, self.now) {
            self.note_expected(host, since);
        }
    }

    fn note_expected(&mut self, host: &HostId, since: Now) {
        let Some(record) = self.agents.get(host) else { return };
        let members = record.report().members.iter().map(|report| &report.member);
        self.watch.agent_expected(since, host, members);
    }
}
