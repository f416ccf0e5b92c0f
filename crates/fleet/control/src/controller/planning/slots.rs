//! Slots that get other members: the one way for a person's replacement, a drain, a lost server and a text that has failed.
//!
//! | who asks | how the member leaves |
//! |---|---|
//! | it is lost | at once: it answers nobody, so nothing is deleted or stored there that others miss |
//! | a person, of one that lives | by the phases of a drain, in which deletes go to both |
//! | a person, with `--now` | at once, and the plan says what that may lose |
//! | a rollback | not at all, or by the phases if nothing but one member differs |

use admin::api::ApiReply;
use fleet::{
    ClusterName, FleetContent, FleetPlan, FleetPlanInput, GenerationNumber, MemberId, Replacement,
    SlotChanges, change_slots, mend_slots,
};

use stdx::words::counted;

use super::{PlannedChange, Planner};
use crate::controller::answers::documents::differences;
use crate::controller::answers::replies::refusal;
use crate::service::questions::{ChangeRequest, DrainQuestion};

/// How long the successor of a member that is replaced is warmed up from it, in seconds: the hottest keys. A drain takes its time.
const REPLACE_WARM_UP_S: u32 = 60;

impl Planner<'_> {
    /// Other members for slots of a content, and nothing else: whatever the policy wants beside that is not asked for.
    pub(crate) fn changed_slots(
        &self,
        current: &FleetContent,
        wishes: &[Replacement],
    ) -> Result<SlotChanges, String> {
        self.slots_by(change_slots, current, wishes)
    }

    fn slots_by(
        &self,
        change: fn(&FleetPlanInput<'_>, &[Replacement]) -> SlotChanges,
        current: &FleetContent,
        wishes: &[Replacement],
    ) -> Result<SlotChanges, String> {
        let Some(policy) = self.facts.view().policy() else {
            return Err(
                "the fleet has no policy\n  hint: give one with `control plan --policy FILE`".to_owned()
            );
        };
        let excluded = self.facts.excluded();
        let input =
            FleetPlanInput { policy, inventory: self.facts.view().inventory(), current, excluded: &excluded };
        Ok(change(&input, wishes))
    }

    /// The same for members that are lost: hosts that do not meet their standard are the last resort.
    pub(crate) fn mended_slots(
        &self,
        current: &FleetContent,
        wishes: &[Replacement],
    ) -> Result<SlotChanges, String> {
        self.slots_by(mend_slots, current, wishes)
    }

    /// Other members for slots of a content, if all wishes find one.
    pub(crate) fn all_changed_slots(
        &self,
        current: &FleetContent,
        wishes: &[Replacement],
    ) -> Result<FleetPlan, String> {
        self.changed_slots(current, wishes).and_then(all_of)
    }

    /// What a person wants replaced.
    pub(crate) fn planned_replacements(&self, requests: &[ChangeRequest]) -> Result<PlannedChange, ApiReply> {
        let mut living = Vec::new();
        let mut wishes = Vec::new();
        for ChangeRequest::Replace { member, by, now } in requests {
            if !now && !self.facts.is_lost(member) && self.facts.view().slot_of(member).is_some() {
                living.push(member);
            }
            wishes.push((Replacement { member: member.clone(), by: by.clone() }, *now));
        }
        match (&*living, &*wishes) {
            ([], _) => self.replaced_at_once(&wishes),
            ([_], [(wish, _)]) => {
                let (member, to) = (wish.member.clone(), wish.by.clone());
                self.planned_drain(&DrainQuestion { member, to, warm_up_s: REPLACE_WARM_UP_S }, "replace")
            }
            ([first, ..], _) => Err(refusal(
                422,
                &format!(
                    "replace {first}: it lives, and leaves its slot by phases, one member at a time\n  hint: replace members one after the \
                     other, or with --now, which may lose deletes"
                ),
            )),
        }
    }

    fn replaced_at_once(&self, wishes: &[(Replacement, bool)]) -> Result<PlannedChange, ApiReply> {
        let all: Vec<Replacement> = wishes.iter().map(|(wish, _)| wish.clone()).collect();
        let current = self.facts.view().content();
        let planned = match all.iter().all(|wish| self.facts.is_lost(&wish.member)) {
            true => self.mended_slots(&current, &all).and_then(all_of),
            false => self.all_changed_slots(&current, &all),
        };
        let mut plan = planned.map_err(|error| refusal(422, &error))?;
        let lives = |(wish, is_now): &&(Replacement, bool)| *is_now && !self.facts.is_lost(&wish.member);
        plan.steps.extend(wishes.iter().filter(lives).map(|(wish, _)| {
            let member = &wish.member;
            format!(
                "{member} lives: until all routers have this generation, what one of them deletes or sets is missed by others, and what was \
                 stored in the new member and deleted in {member} meanwhile stays until it expires; without --now nothing is lost"
            )
        }));
        Ok(PlannedChange { plan, ..PlannedChange::default() })
    }

    /// The content of an earlier generation. Its routes come back; a slot keeps the member that it has.
    pub(crate) fn planned_rollback(&self, number: GenerationNumber) -> Result<PlannedChange, ApiReply> {
        let Some(earlier) = self.facts.view().generations().get(&number) else {
            let kept = self
                .facts
                .view()
                .generations()
                .keys()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(refusal(404, &format!("there is no generation {number}; kept are {kept}")));
        };
        // Of a drain that was going on then, the member that was read is left.
        let earlier = earlier.content.clone().without_drain().without_resize();
        let current = self.facts.view().content();
        // Keys would move at once, to servers that may have old values of them.
        let resized: Vec<_> = current.resized_in(&earlier).cloned().collect();
        let kept = resized.iter().map(|name| keeps_size(name, &earlier, &current)).collect::<Vec<_>>();
        let earlier = resized.iter().fold(earlier, |earlier, name| current.beside_resize(&earlier, name));
        let left = left(&earlier, &current);
        let content = earlier.with_members_of(&current);
        let by_hand = |(now, then): &(MemberId, MemberId)| format!("`control replace {now} --by {then}`");
        if content == current {
            return match &*left {
                [] => Ok(PlannedChange::default()),
                [(now, then)] => {
                    let (member, to) = (now.clone(), Some(then.clone()));
                    let question = DrainQuestion { member, to, warm_up_s: REPLACE_WARM_UP_S };
                    self.planned_drain(&question, "roll back")
                }
                _ => Err(refusal(
                    422,
                    &format!(
                        "generation {number} differs in nothing but {} members, and one leaves its slot at a time\n  hint: {}",
                        left.len(),
                        left.iter().map(by_hand).collect::<Vec<_>>().join(", then ")
                    ),
                )),
            };
        }
        self.refuse_unfit(&content, &current)?;
        let mut steps = differences(&current, &content);
        steps.extend(left.iter().map(|one| format!("{} keeps its slot: {} moves it", one.0, by_hand(one))));
        steps.extend(kept);
        Ok(PlannedChange { plan: FleetPlan { content, steps }, ..PlannedChange::default() })
    }

    /// A member that would come back into a slot that is not there now: it may hold what was deleted meanwhile, or have another slot.
    fn refuse_unfit(&self, content: &FleetContent, current: &FleetContent) -> Result<(), ApiReply> {
        if let Some(member) = content.member_of_two_slots() {
            let error = format!("{member} would get a slot again, and has another one now");
            return Err(refusal(
                422,
                &format!("{error}\n  hint: give the routes with `control plan --policy FILE`"),
            ));
        }
        let excluded = self.facts.excluded();
        let mut slots = content.clusters.iter().flat_map(|cluster| &cluster.slots);
        let came_back =
            slots.find(|slot| current.slot_of(&slot.member).is_none() && excluded.contains_key(&slot.member));
        let Some(slot) = came_back else { return Ok(()) };
        let error = format!("{} would get slot {} again and is not fit for it", slot.member, slot.id);
        Err(refusal(
            422,
            &format!(
                "{error}\n  hint: it must answer and have been emptied; `control status` says what is missing"
            ),
        ))
    }
}

/// The plan, if all wishes have found a member.
fn all_of(SlotChanges { plan, unmet }: SlotChanges) -> Result<FleetPlan, String> {
    unmet.first().map_or(Ok(plan), |error| Err(error.to_string()))
}

/// A cluster that has another number of slots now than then.
fn keeps_size(name: &ClusterName, then: &FleetContent, now: &FleetContent) -> String {
    let slots = |content: &FleetContent| content.cluster(name).map_or(0, |cluster| cluster.slots.len());
    let (now, then) = (counted(slots(now), "slot"), slots(then));
    format!("cluster {name} keeps its {now}: `control scale {name} {then}` gives it those that it had")
}

/// Slots of two contents with other members: the one now, and the one then.
fn left(then: &FleetContent, now: &FleetContent) -> Vec<(MemberId, MemberId)> {
    let clusters = then.clusters.iter().filter_map(|old| Some((old, now.cluster(&old.name)?)));
    let slots = clusters.flat_map(|(old, new)| {
        old.slots.iter().filter_map(|old| Some((new.slots.iter().find(|slot| slot.id == old.id)?, old)))
    });
    let other = slots.filter(|(new, old)| new.member != old.member);
    other.map(|(new, old)| (new.member.clone(), old.member.clone())).collect()
}
