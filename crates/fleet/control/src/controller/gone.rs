//! Hosts that leave the fleet for good, with their members and with what their agents have said.

use std::collections::BTreeSet;

use admin::api::ApiReply;
use fleet::rollout::RolloutEvent;
use fleet::{FleetMember, HostId, MemberId, RouterId};

use super::Controller;
use super::replies::{refusal, register_away};
use crate::decisions::GoneHost;
use crate::questions::MEMBERS_MAX;

impl Controller {
    /// The members that leave if these and these hosts do. None of them may have a slot, which is looked at with the others;
    /// and an agent that speaks would be back with its next turn.
    pub(super) fn leaving(
        &self,
        members: &[FleetMember],
        remove: &[MemberId],
        hosts: &[HostId],
    ) -> Result<Vec<MemberId>, ApiReply> {
        for host in hosts {
            self.check_host(host)?;
            if let Some(member) = members.iter().find(|member| member.host == *host) {
                let error = format!("{host} shall leave, and {} shall be on it", member.id);
                return Err(refusal(422, &error));
            }
        }
        let of_hosts =
            self.register.view().inventory().members().filter(|member| hosts.contains(&member.host));
        let all: BTreeSet<MemberId> =
            remove.iter().cloned().chain(of_hosts.map(|member| member.id.clone())).collect();
        match all.len() + members.len() {
            0..=MEMBERS_MAX => Ok(all.into_iter().collect()),
            found => Err(refusal(422, &format!("expected {MEMBERS_MAX} members at most, found {found}"))),
        }
    }

    fn check_host(&self, host: &HostId) -> Result<(), ApiReply> {
        let agent = self.agents.get(host);
        if let Some(agent) = agent.filter(|agent| !agent.is_silent()) {
            let age_s = self.now.ms().saturating_sub(agent.heard().ms()) / 1000;
            let hint = "end its agent, and wait until `control status` says that it is silent";
            return Err(refusal(
                422,
                &format!("the agent of {host} was heard {age_s} s ago, and would come back\n  hint: {hint}"),
            ));
        }
        let has_members = self.register.view().inventory().members().any(|member| member.host == *host);
        if agent.is_none() && !has_members {
            return Err(refusal(404, &format!("there is no host {host}: it has no members and no agent")));
        }
        Ok(())
    }

    /// Has every controller forget these hosts, this one at once.
    pub(super) fn write_gone(&mut self, hosts: &[HostId]) -> Result<(), ApiReply> {
        if hosts.is_empty() {
            return Ok(());
        }
        let gone = |host: &HostId| GoneHost { host: host.clone(), unix_s: self.unix_s };
        let gone: Vec<GoneHost> = hosts.iter().map(gone).collect();
        self.register.note_gone(&gone).map_err(|error| register_away(&error))?;
        let forgotten = self.agents.note_gone(&gone);
        self.forget_hosts(forgotten);
        Ok(())
    }

    /// Forgets the hosts that have left since the register was read last.
    pub(super) fn follow_gone(&mut self) {
        let forgotten = self.agents.follow_gone(self.register.view().gone());
        self.forget_hosts(forgotten);
    }

    fn forget_hosts(&mut self, hosts: Vec<(HostId, Vec<RouterId>)>) {
        for (host, routers) in hosts {
            self.seats.remove(&host);
            for router in routers {
                self.tell(RolloutEvent::Left { router });
            }
        }
    }
}
