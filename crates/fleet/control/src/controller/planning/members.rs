//! Changes of the inventory: members that join, change or leave, alone or with their hosts.

use std::collections::BTreeSet;

use admin::api::ApiReply;
use fleet::{FleetMember, HostId, Inventory, MemberId};

use super::Planner;
use crate::controller::answers::replies::refusal;
use crate::service::questions::MEMBERS_MAX;

impl Planner<'_> {
    /// The members that leave if these and these hosts do. None of them may have a slot, which is looked at with the others;
    /// and an agent that speaks would be back with its next turn.
    pub(crate) fn leaving(
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
        let of_hosts = self.facts.view().inventory().members().filter(|member| hosts.contains(&member.host));
        let all: BTreeSet<MemberId> =
            remove.iter().cloned().chain(of_hosts.map(|member| member.id.clone())).collect();
        match all.len() + members.len() {
            0..=MEMBERS_MAX => Ok(all.into_iter().collect()),
            found => Err(refusal(422, &format!("expected {MEMBERS_MAX} members at most, found {found}"))),
        }
    }

    fn check_host(&self, host: &HostId) -> Result<(), ApiReply> {
        let agent = self.facts.agents().get(host);
        if let Some(agent) = agent.filter(|agent| !agent.is_silent()) {
            let age_s = self.facts.now().ms().saturating_sub(agent.heard().ms()) / 1000;
            let hint = "end its agent, and wait until `control status` says that it is silent";
            return Err(refusal(
                422,
                &format!("the agent of {host} was heard {age_s} s ago, and would come back\n  hint: {hint}"),
            ));
        }
        let has_members = self.facts.view().inventory().members().any(|member| member.host == *host);
        if agent.is_none() && !has_members {
            return Err(refusal(404, &format!("there is no host {host}: it has no members and no agent")));
        }
        Ok(())
    }

    /// What would change, in words.
    pub(crate) fn member_steps(
        &self,
        members: &[FleetMember],
        remove: &[MemberId],
    ) -> Result<Vec<String>, ApiReply> {
        let (old, mut steps) = (self.facts.view().inventory(), Vec::new());
        for member in members {
            let (id, host, address) = (&member.id, &member.host, &member.address);
            match old.get(id) {
                None => steps.push(format!("{id} joins, on {host} at {address}")),
                Some(before) if before == member => {}
                Some(before) if before.address != *address && self.has_slot(id) => {
                    let error = format!("{id} has a slot, and its address would change");
                    let hint = "give the slot to another member first (`control replace`)";
                    return Err(refusal(422, &format!("{error}\n  hint: {hint}")));
                }
                Some(_) => steps.push(format!("{id} changes: on {host} at {address}")),
            }
        }
        for id in remove {
            if old.get(id).is_none() {
                return Err(refusal(404, &format!("there is no member {id}")));
            }
            if members.iter().any(|member| member.id == *id) {
                return Err(refusal(422, &format!("{id} shall both stay and leave")));
            }
            if let Some(why) = self.slot_words(id) {
                return Err(refusal(422, &why));
            }
            steps.push(format!("{id} leaves"));
        }
        // The whole must be an inventory: two members at one address are one member.
        let stays = |one: &&FleetMember| {
            !remove.contains(&one.id) && members.iter().all(|member| member.id != one.id)
        };
        let all: Vec<FleetMember> = old.members().filter(stays).chain(members).cloned().collect();
        match Inventory::new(all) {
            Ok(_) => Ok(steps),
            Err(error) => Err(refusal(422, &error.to_string())),
        }
    }

    /// Why a member cannot leave the fleet: it has a slot, and what gives that to another one.
    fn slot_words(&self, id: &MemberId) -> Option<String> {
        let (cluster, slot) = self.facts.view().slot_of(id)?;
        let place = format!("slot {} of {}", slot.id, cluster.name);
        if slot.drain.is_some() {
            let hint = "`control status` says when the drain has ended";
            return Some(format!("{id} takes part in the drain of {place}\n  hint: {hint}"));
        }
        let hint = format!(
            "`control drain {id} --apply --why TEXT` gives it to another member while {id} lives, `control replace` if it does not"
        );
        Some(format!("{id} has {place}\n  hint: {hint}"))
    }

    /// What is not there yet for members that join, in words: their agents empty them, and without that none gets a slot.
    pub(crate) fn agent_steps(&self, members: &[FleetMember]) -> Vec<String> {
        let (mut silent, mut unknown) = (BTreeSet::new(), Vec::new());
        let joins = |member: &&FleetMember| self.facts.view().inventory().get(&member.id).is_none();
        for member in members.iter().filter(joins) {
            match self.facts.agents().get(&member.host).filter(|agent| !agent.is_silent()) {
                None => {
                    silent.insert(member.host.as_str());
                }
                Some(agent) if agent.report().members.iter().all(|told| told.member != member.id) => {
                    unknown.push(member.id.as_str());
                }
                Some(_) => {}
            }
        }
        let no_slot = "get no slot until it is";
        let line =
            |names: &[&str], rest: &str| (!names.is_empty()).then(|| format!("{}: {rest}", first_of(names)));
        let silent: Vec<&str> = silent.into_iter().collect();
        [
            line(&silent, &format!("the agent is not heard; members of the host {no_slot}")),
            line(
                &unknown,
                "the agent of its host is heard and does not name it yet; it gets no slot until it does",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn has_slot(&self, id: &MemberId) -> bool {
        self.facts.view().slot_of(id).is_some()
    }
}

/// A few names, and how many more there are.
fn first_of(names: &[&str]) -> String {
    const NAMED_MAX: usize = 5;
    match names.len().saturating_sub(NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMED_MAX].join(", ")),
    }
}
