//! Adoption: a configuration of mcrouter's becomes the first generation of a fleet that has none.

use std::collections::{BTreeMap, BTreeSet};

use admin::api::ApiReply;
use fleet::{Adoption, AdoptionNames, FleetContent, FleetMember, FleetPlan, adopt, texts};

use super::{PlannedChange, Planner};
use crate::controller::answers::documents::differences;
use crate::controller::answers::replies::refusal;
use crate::questions::AdoptQuestion;
use crate::route_check::{CheckedRoutes, KEYS_SAMPLED};

impl Planner<'_> {
    /// What a configuration becomes here, if its keys stay where they are.
    pub(crate) fn adopted(&self, question: &AdoptQuestion) -> Result<PlannedChange, ApiReply> {
        let mut adoption = self.adoption(question)?;
        let content = &mut adoption.generation.content;
        let members = self.missing_members(content, adoption.inventory.members());
        // An earlier attempt may have published the generation and not written all members.
        let is_published = match self.facts.view().current() {
            None => false,
            Some(now) => {
                if let (Some(words), Ok([])) = (self.adopted_before(content), members.as_deref()) {
                    let plan = FleetPlan { content: now.content.clone(), steps: Vec::new() };
                    return Ok(PlannedChange { plan, is_complete: Some(words), ..PlannedChange::default() });
                }
                let is_unfinished =
                    members.as_ref().is_ok_and(|members| !members.is_empty()) && now.content == *content;
                if !is_unfinished {
                    let error = format!("the fleet has generation {} already", now.number);
                    let hint = "`control plan --policy FILE` changes what is in force";
                    return Err(refusal(409, &format!("{error}\n  hint: {hint}")));
                }
                true
            }
        };
        let members = members?;
        let keys = self.unmoved_keys(&question.text, content)?;
        let policy = (self.facts.view().policy() != Some(&adoption.policy)).then_some(adoption.policy_text);
        let mut steps = differences(&self.facts.view().content(), content);
        if policy.is_some() && self.facts.view().policy().is_some() {
            steps.push("another policy takes the place of the present one".to_owned());
        }
        steps.extend(self.member_steps(&members, &[])?);
        steps.extend(adoption.notes.iter().map(|note| format!("note: {note}")));
        let plan = FleetPlan { content: adoption.generation.content, steps };
        let keys = [(question.view.clone(), keys)].into();
        Ok(PlannedChange { plan, policy, members, is_published, is_complete: None, keys })
    }

    /// That a generation has this content, and what came after it.
    fn adopted_before(&self, content: &FleetContent) -> Option<String> {
        let mut generations = self.facts.view().generations().values();
        let adopted = generations.find(|one| one.content == *content)?.number;
        let now = self.facts.view().target().filter(|now| *now != adopted);
        let since = now.map_or(String::new(), |now| format!("; generation {now} is in force since"));
        Some(format!(
            "this file is adopted: generation {adopted} has it, and all of its members are known{since}"
        ))
    }

    fn adoption(&self, question: &AdoptQuestion) -> Result<Adoption, ApiReply> {
        let own = self.settings.fleet.as_str();
        if let Some(fleet) = question.fleet.as_ref().filter(|fleet| fleet.as_str() != own) {
            return Err(refusal(
                422,
                &format!("expected fleet {own}, which is this controller's, found {fleet}"),
            ));
        }
        let fleet = own.parse().map_err(|error| refusal(422, &format!("its fleet: {error}")))?;
        let names = AdoptionNames { fleet, view: question.view.clone(), zone: question.zone.clone() };
        adopt(&question.text, &names).map_err(|error| refusal(422, &error.to_string()))
    }

    /// The members of a file that the inventory misses. One that it has keeps its name, host and zone: a person has said more
    /// about it than the file does.
    fn missing_members<'m>(
        &self,
        content: &mut FleetContent,
        adopted: impl Iterator<Item = &'m FleetMember>,
    ) -> Result<Vec<FleetMember>, ApiReply> {
        let inventory = self.facts.view().inventory();
        let known: BTreeMap<&str, &FleetMember> =
            inventory.members().map(|member| (member.address.as_str(), member)).collect();
        let (same, missing): (Vec<_>, Vec<_>) =
            adopted.partition(|member| known.contains_key(member.address.as_str()));
        let in_file: BTreeSet<&str> = same.iter().map(|member| member.address.as_str()).collect();
        let is_taken = |other: &&FleetMember| missing.iter().any(|member| member.id == other.id);
        let mut others = inventory.members();
        let other = others.find(|other| !in_file.contains(other.address.as_str()) || is_taken(other));
        if let Some(FleetMember { id, address, .. }) = other {
            let error =
                format!("the fleet has a member {id} at {address}, and the file has none of this name there");
            let hint = "`control members --remove MEMBER --apply --why …` before, spares join afterwards";
            return Err(refusal(409, &format!("{error}\n  hint: {hint}")));
        }
        for slot in content.clusters.iter_mut().flat_map(|cluster| &mut cluster.slots) {
            if let Some(member) = known.get(slot.address.as_str()) {
                slot.member = member.id.clone();
            }
        }
        Ok(missing.into_iter().cloned().collect())
    }

    /// What routers do with keys afterwards; an error if any moves.
    fn unmoved_keys(&self, text: &str, content: &FleetContent) -> Result<String, ApiReply> {
        let refused = |error: String| refusal(422, &error);
        let after = texts(content).into_values().next().expect("an adoption has a view");
        let before = CheckedRoutes::compile("the file", text).map_err(refused)?;
        let after = CheckedRoutes::compile("what it becomes", &after).map_err(refused)?;
        let difference = before.difference(&after, KEYS_SAMPLED, 1, self.unix_s);
        if difference.gets_moved + difference.sets_moved > 0 {
            return Err(refused(format!("it would not stay as it is: {}", difference.sentence())));
        }
        Ok(difference.sentence())
    }
}
