//! Questions about drains: the plan of one, giving one up, and what is refused meanwhile.

use admin::api::ApiReply;
use fleet::drain::{DRAINS_MAX, DrainPhase, DrainSettings};
use fleet::{FleetContent, FleetMember, FleetPlan, MemberId, Replacement};

use super::{PlannedChange, Planner};
use crate::controller::answers::replies::refusal;
use crate::controller::slots::drains::phase_words;
use crate::controller::slots::freezes::frozen_scope_of;
use crate::service::questions::{ChangeQuestion, DrainQuestion};

/// Attributes of a pool with which the places of its servers in a router are not those of its slots.
pub(super) const MOVES_SERVERS: [&str; 2] = ["additional_fanout", "inherit"];

impl Planner<'_> {
    /// A change that must wait for a drain to end, because routers have its phases: the refusal.
    pub(crate) fn refused_while_draining(&self, change: &ChangeQuestion) -> Result<(), ApiReply> {
        let Some(current) = self.facts.view().current() else { return Ok(()) };
        let Some((old, new)) = current.content.draining().and_then(|(_, slot, _)| slot.drained()) else {
            return Ok(());
        };
        let over = format!(
            "wait until it is done (`control status`), or give it up (`control drain {old} --cancel`)"
        );
        // It goes on, and is given up, only when a person has thawed it.
        let (waits, hint) = match frozen_scope_of(self.facts.view(), &current.content.clone().without_drain())
        {
            None => (String::new(), over),
            Some((scope, why)) => (
                format!("; the drain waits, because {scope} is frozen: {why}"),
                format!("`control thaw {scope} --why …` when that is over; then {over}"),
            ),
        };
        let error = match change {
            ChangeQuestion::CancelDrain(_) => return Ok(()),
            ChangeQuestion::Drain(_) => {
                format!("{old} is drained to {new}, and at most {DRAINS_MAX} is at a time")
            }
            _ => format!("{old} is drained to {new}, and nothing else changes meanwhile"),
        };
        Err(refusal(409, &format!("{error}{waits}\n  hint: {hint}")))
    }

    /// The first phase of a drain.
    pub(crate) fn planned_drain(
        &self,
        question: &DrainQuestion,
        verb: &str,
    ) -> Result<PlannedChange, ApiReply> {
        let DrainQuestion { member, to, warm_up_s } = question;
        let refused = |error: &str| refusal(422, &format!("{verb} {member}: {error}"));
        let current = self.facts.view().content();
        let Some((cluster, at)) = current.slot_of(member) else {
            return Err(refused("it has no slot in any cluster"));
        };
        if let Some(name) = MOVES_SERVERS.iter().find(|name| cluster.pool.contains_key(**name)) {
            let why = "with which a router cannot find the keys of one slot";
            let hint = "hint: `control replace --now` gives the slot to another member at once, which may lose deletes";
            return Err(refused(&format!("the pool of {} has `{name}`, {why}\n  {hint}", cluster.name)));
        }
        if !self.rollout.is_rolled_out() {
            return Err(refusal(
                409,
                "a rollout is going on; a living member leaves its slot when all routers have it (`control status`)",
            ));
        }
        let new = self.member_for(&current, member, to.as_ref())?;
        let first = current.clone().with_drain(member, &new, *warm_up_s);
        let warm = first.clone().in_drain_phase(DrainPhase::ReadNew);
        let last = warm.clone().in_drain_phase(DrainPhase::NewOnly);
        // What the plan shows of keys is what becomes of them in the end.
        let keys = self.check_routes(&current, &warm)?;
        for later in [&last, &last.clone().without_drain()] {
            if let Some(unfit) = self.unfit_text(later) {
                return Err(refused(&unfit));
            }
        }
        let (slot, new) = (&cluster.slots[at].id, &new.id);
        let fence_s = DrainSettings::default().fence_ms / 1000;
        let phase = |number: usize, phase| format!("  {number}. {}", phase_words(phase, member, new));
        let steps = vec![
            format!(
                "cluster {}: {member} leaves slot {slot} to {new}, in phases that all routers load one after the other:",
                cluster.name
            ),
            phase(1, DrainPhase::ReadOld),
            phase(2, DrainPhase::ReadNew),
            phase(3, DrainPhase::NewOnly),
            format!("  then {member} is emptied and is a spare"),
            format!(
                "two members own its keys for {} s at most beside the time of the rollouts: {fence_s} s for each of three phases if a router does not load it, {warm_up_s} s of warm-up",
                3 * fence_s + u64::from(*warm_up_s)
            ),
        ];
        Ok(PlannedChange { plan: FleetPlan { content: first, steps }, keys, ..PlannedChange::default() })
    }

    /// The member that takes a slot, as for a replacement. What else the policy may want does not come with it.
    fn member_for(
        &self,
        current: &FleetContent,
        member: &MemberId,
        to: Option<&MemberId>,
    ) -> Result<FleetMember, ApiReply> {
        let wish = Replacement { member: member.clone(), by: to.cloned() };
        let planned = self.all_changed_slots(current, &[wish]).map_err(|error| refusal(422, &error))?;
        let (cluster, at) = current.slot_of(member).expect("it has a slot");
        let taken = planned.content.cluster(&cluster.name).and_then(|cluster| cluster.slots.get(at));
        let new = taken.and_then(|slot| self.facts.view().inventory().get(&slot.member));
        Ok(new.expect("it was chosen from the inventory").clone())
    }

    /// The end of a drain before it is done.
    pub(crate) fn planned_cancel(&self, member: &MemberId) -> Result<PlannedChange, ApiReply> {
        let current = self.facts.view().content();
        let drained = current
            .draining()
            .and_then(|(cluster, slot, drain)| Some((cluster, slot, drain, slot.drained()?)));
        let Some((cluster, slot, drain, (old, new))) = drained.filter(|(_, _, _, (old, _))| *old == member)
        else {
            return Err(refusal(404, &format!("{member} is not being drained")));
        };
        let name = &cluster.name;
        let content = current.clone().with_drain_turned_back();
        let steps = if drain.phase == DrainPhase::ReadOld {
            vec![format!("cluster {name}: {old} keeps slot {}, and {new} is emptied", slot.id)]
        } else {
            // Routers that have not come to the phase yet would get its text on the way back.
            if !self.rollout.is_rolled_out() {
                return Err(refusal(
                    409,
                    "the phase is going out; ask again when all routers have it (`control status`)",
                ));
            }
            let way = format!(
                "{old} lacks what {new} has got meanwhile: it is emptied and comes back by the same phases"
            );
            vec![format!("cluster {name}: {new} leaves slot {} to {old}", slot.id), way]
        };
        Ok(PlannedChange { plan: FleetPlan { content, steps }, ..PlannedChange::default() })
    }
}
