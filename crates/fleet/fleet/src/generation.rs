//! Generations: which member has which slot and what routers read, immutable and complete.
//!
//! A generation has everything that publishing needs, addresses and routes included: going back to an earlier one is a new
//! generation with the old content, and asks nobody what was there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::drain::SlotDrain;
use crate::names::SlotId;
use crate::policy::{GutterPolicy, ShadowPolicy, WarmUpPolicy, asks_handle};
use crate::resize::ClusterResize;
use crate::{ClusterName, GenerationNumber, MemberId, ViewName};
pub use compile::texts;

mod compile;

/// A generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// Its place in the chain.
    pub number: GenerationNumber,
    /// The one before; none of the first.
    pub parent: Option<GenerationNumber>,
    /// Why it was made, for people.
    pub reason: String,
    /// The generation that was made with it, for routers whose turn for this one has not come: slots have the same members in both, and
    /// the routes of that one are those that all routers have had. [`LayeredRollout`](crate::rollout::LayeredRollout) says how both go out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<GenerationNumber>,
    /// When it was made, and by whom; none of one that an older version has made, which wrote neither down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<GenerationOrigin>,
    /// What is in force with it.
    #[serde(flatten)]
    pub content: FleetContent,
}

/// When a generation was made, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationOrigin {
    /// By the wall clock of the controller that has published it: seconds since 1970. The order of generations is that of their numbers.
    pub unix_s: i64,
    /// The name of an operator; of what a controller has decided by itself, `controller/NAME`.
    pub who: String,
}

/// What is in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetContent {
    /// Clusters, in the order of the policy.
    pub clusters: Vec<ClusterRecord>,
    /// Views, in the order of the policy.
    pub views: Vec<ViewRecord>,
}

/// A cluster: its slots in their order, which a key's slot follows from. Nothing may sort them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Its name, and that of its pool.
    pub name: ClusterName,
    /// Attributes of its pool, but `servers`.
    pub pool: BTreeMap<String, Value>,
    /// Who answers for its lost members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gutter: Option<GutterPolicy>,
    /// What fills the slots of its new members; its gutter if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUpPolicy>,
    /// Who gets copies of its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowPolicy>,
    /// It grows or shrinks, by phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resize: Option<ClusterResize>,
    /// Its slots; while it is resized, those of the larger layout.
    pub slots: Vec<SlotRecord>,
}

/// Where misses of a new member are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmSource<'c> {
    /// The cluster that is asked.
    pub cluster: &'c ClusterName,
    /// How long a copy lives, in seconds.
    pub exptime_s: u32,
    /// It is the gutter, which has nothing any more once its items have expired.
    pub is_gutter: bool,
}

impl ClusterRecord {
    /// What fills the slot of a new member, if anything does.
    pub fn warm_source(&self) -> Option<WarmSource<'_>> {
        if let Some(WarmUpPolicy { cluster, exptime_s }) = &self.warm_up {
            return Some(WarmSource { cluster, exptime_s: *exptime_s, is_gutter: false });
        }
        let GutterPolicy { cluster, exptime_s } = self.gutter.as_ref()?;
        Some(WarmSource { cluster, exptime_s: *exptime_s, is_gutter: true })
    }
}

/// A slot and its member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Which.
    pub id: SlotId,
    /// Who has it.
    pub member: MemberId,
    /// Where routers find him.
    pub address: String,
    /// The member is new, and its misses are looked up where the cluster says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cold: bool,
    /// Its keys are on their way from one member to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<SlotDrain>,
}

impl SlotRecord {
    /// Whether a member is in this slot: read or, while it is drained, beside the one that is read.
    pub fn has(&self, member: &MemberId) -> bool {
        self.member == *member || self.drain.as_ref().is_some_and(|drain| drain.other == *member)
    }
}

/// What a group of routers reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewRecord {
    /// Its name.
    pub name: ViewName,
    /// Clusters that are pools in it; all if there are none.
    pub clusters: Vec<ClusterName>,
    /// The default prefix of its routers, if it is another one than mcrouter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_prefix: Option<String>,
    /// The routes, as people have written them.
    pub routes: String,
    /// The byte of `routes` behind its first `{`, where the pools go.
    pub pools_at: usize,
}

/// A number that a router reports beyond the target by more than this is an error of its own, and is not believed: otherwise one
/// router could use up all numbers. A backup of a register is never older than so many decisions.
pub const NUMBERS_LOST_MAX: u64 = 1_000_000;

/// The number of the generation behind the target, above all that routers have, which they report: a register that was restored
/// from a backup has forgotten generations, and routers refuse a number that they have had.
pub fn next_number(
    target: Option<GenerationNumber>,
    routers_have: impl IntoIterator<Item = GenerationNumber>,
) -> GenerationNumber {
    GenerationNumber(newest_known(target, routers_have).map_or(1, |newest| newest.0.saturating_add(1)))
}

/// Whether routers have generations that the register has forgotten: then they take the target only under another number.
pub fn is_forgotten(
    target: GenerationNumber,
    routers_have: impl IntoIterator<Item = GenerationNumber>,
) -> bool {
    newest_known(Some(target), routers_have) > Some(target)
}

/// The generation that the target goes back to, if it has the content of one before its parent once more: then the parent has failed,
/// and no router that lacks it may get it.
pub fn gone_back_to<'g>(
    generations: &'g BTreeMap<GenerationNumber, Generation>,
    target: &Generation,
) -> Option<&'g Generation> {
    let parent = generations.get(&target.parent?)?;
    let chain = std::iter::successors(generations.get(&parent.parent?), |one| generations.get(&one.parent?));
    let mut before = chain.take_while(|_| parent.content != target.content);
    before.find(|before| before.content == target.content)
}

/// The generations whose routes a target goes on with, the newest first: each was on its way when members of slots changed, and routers
/// that had it get the target first.
pub fn goes_on_from(
    generations: &BTreeMap<GenerationNumber, Generation>,
    target: &Generation,
) -> Vec<GenerationNumber> {
    let before = |one: &Generation| generations.get(&generations.get(&one.lower?)?.parent?);
    std::iter::successors(before(target), |one| before(one)).map(|one| one.number).collect()
}

fn newest_known(
    target: Option<GenerationNumber>,
    routers_have: impl IntoIterator<Item = GenerationNumber>,
) -> Option<GenerationNumber> {
    let most = target.map_or(0, |target| target.0).saturating_add(NUMBERS_LOST_MAX);
    routers_have.into_iter().filter(|has| (1..=most).contains(&has.0)).max().max(target)
}

impl FleetContent {
    /// This content with the members that slots have in another one: a member that has left its slot has missed deletes, and does
    /// not come back with old routes.
    pub fn with_members_of(mut self, present: &FleetContent) -> FleetContent {
        for cluster in &mut self.clusters {
            let Some(now) = present.cluster(&cluster.name) else { continue };
            for slot in &mut cluster.slots {
                if let Some(taken) = now.slots.iter().find(|taken| taken.id == slot.id) {
                    slot.clone_from(taken);
                }
            }
        }
        self
    }

    /// The default prefix of a view's routers, if it is another one than mcrouter's.
    pub fn route_prefix(&self, view: &ViewName) -> Option<&str> {
        self.views.iter().find(|record| record.name == *view)?.route_prefix.as_deref()
    }

    /// A cluster by its name.
    pub fn cluster(&self, name: &ClusterName) -> Option<&ClusterRecord> {
        self.clusters.iter().find(|cluster| cluster.name == *name)
    }

    /// The slot that a member has, or that it is about to take or to leave.
    pub fn slot_of(&self, member: &MemberId) -> Option<(&ClusterRecord, usize)> {
        self.clusters
            .iter()
            .find_map(|cluster| Some((cluster, cluster.slots.iter().position(|slot| slot.has(member))?)))
    }

    /// A member that has two slots, which nobody may have.
    pub fn member_of_two_slots(&self) -> Option<&MemberId> {
        let mut seen = std::collections::BTreeSet::new();
        let mut members =
            self.clusters.iter().flat_map(|cluster| cluster.slots.iter().map(|slot| &slot.member));
        members.find(|member| !seen.insert(*member))
    }

    /// The same, without the warm-up of these members.
    #[must_use]
    pub fn without_warm_up(mut self, members: &[MemberId]) -> FleetContent {
        let slots = self.clusters.iter_mut().flat_map(|cluster| &mut cluster.slots);
        slots.filter(|slot| members.contains(&slot.member)).for_each(|slot| slot.is_cold = false);
        self
    }

    /// The same as after replacements everywhere: what routers would read then.
    #[must_use]
    pub fn all_cold(mut self) -> FleetContent {
        for cluster in &mut self.clusters {
            let is_cold = cluster.warm_source().is_some();
            cluster.slots.iter_mut().for_each(|slot| slot.is_cold = is_cold);
        }
        self
    }

    /// The slot at an address.
    pub fn slot_at(&self, address: &str) -> Option<(&ClusterRecord, &SlotRecord)> {
        self.clusters
            .iter()
            .find_map(|cluster| Some((cluster, cluster.slots.iter().find(|slot| slot.address == address)?)))
    }

    /// Views whose routers copy what a shadow says: what their routes ask is not known of all.
    pub fn views_of_shadow(&self, shadow: &ShadowPolicy) -> impl Iterator<Item = &ViewRecord> {
        let has = |view: &&ViewRecord| view.clusters.is_empty() || view.clusters.contains(&shadow.from);
        self.views.iter().filter(has).filter(|view| asks_handle(&view.routes, &shadow.from) != Some(false))
    }

    /// Whether a view has a cluster as a pool.
    pub fn is_in(&self, cluster: &ClusterRecord, view: &ViewRecord) -> bool {
        view.clusters.is_empty() || view.clusters.contains(&cluster.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: Option<u64>, routers_have: &[u64], expected: u64) {
        let have = || routers_have.iter().copied().map(GenerationNumber);
        let target = target.map(GenerationNumber);
        assert_eq!(next_number(target, have()), GenerationNumber(expected));
        let is_behind = target.is_some_and(|target| expected > target.0 + 1);
        assert_eq!(target.is_some_and(|target| is_forgotten(target, have())), is_behind);
    }

    #[test]
    fn the_next_number_is_above_all_that_routers_have() {
        check(None, &[], 1);
        check(None, &[0, 7], 8);
        check(Some(7), &[], 8);
        check(Some(7), &[0, 6, 7], 8);
        check(Some(4), &[6, 7, 5], 8);
    }

    /// Generations with these routes, one after the other: the number of the one that the last one goes back to.
    #[track_caller]
    fn check_back(routes: &[&str], expected: Option<u64>) {
        let generation = |(at, routes): (usize, &&str)| {
            let view = ViewRecord {
                name: "main".parse().expect("a name"),
                clusters: Vec::new(),
                route_prefix: None,
                routes: (*routes).to_owned(),
                pools_at: 1,
            };
            let number = GenerationNumber(at as u64 + 1);
            let parent = (at > 0).then_some(GenerationNumber(at as u64));
            let content = FleetContent { clusters: Vec::new(), views: vec![view] };
            (number, Generation { number, parent, reason: String::new(), lower: None, origin: None, content })
        };
        let all: BTreeMap<_, _> = routes.iter().enumerate().map(generation).collect();
        let target = all.values().last().expect("a generation");
        assert_eq!(gone_back_to(&all, target).map(|to| to.number.0), expected, "{routes:?}");
    }

    #[test]
    fn a_target_with_the_content_before_its_parent_goes_back() {
        check_back(&["{1}", "{2}", "{1}"], Some(1));
        check_back(&["{1}", "{2}", "{3}"], None);
        check_back(&["{1}", "{1}", "{1}"], None);
        check_back(&["{1}", "{2}", "{1}", "{1}"], None);
        check_back(&["{1}", "{2}", "{3}", "{1}"], Some(1));
        check_back(&["{1}", "{2}"], None);
        check_back(&["{1}"], None);
    }

    #[test]
    fn a_number_that_no_backup_explains_is_not_believed() {
        check(Some(4), &[4 + NUMBERS_LOST_MAX], 5 + NUMBERS_LOST_MAX);
        check(Some(4), &[5 + NUMBERS_LOST_MAX, u64::MAX, 4], 5);
    }
}
