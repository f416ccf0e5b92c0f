//! The fleet as its register has it.

use std::collections::{BTreeMap, HashMap};

use fleet::{
    ClusterRecord, FleetContent, FleetMember, FleetPolicy, Generation, GenerationNumber, Inventory, MemberId,
    SlotRecord, TextDigest, goes_on_from,
};

use crate::decisions::changes::{ChangeList, KnownList};
use crate::decisions::{
    FleetDecisions, GENERATIONS_KEPT, GoneHost, HeldRecord, ListScope, ReplacedChange, ReplacedRecord,
    RolloutWord, RouterList, TargetRecord,
};
use crate::register::{RegisterEntry, RegisterError, Revision};

/// Policy, inventory and generations at one moment.
#[derive(Clone, Debug)]
pub(crate) struct FleetView {
    policy: Option<FleetPolicy>,
    /// As it was given.
    policy_text: Option<String>,
    policy_revision: Revision,
    inventory: Inventory,
    target: Option<TargetRecord>,
    /// Those that are kept: [`FleetView::add`] adds one.
    generations: BTreeMap<GenerationNumber, Generation>,
    slots: LastSlots,
    settled: Option<GenerationNumber>,
    frozen: Vec<(String, String)>,
    rollout_word: Option<RolloutWord>,
    condemned: Vec<TextDigest>,
    quarantine: Vec<HeldRecord>,
    router_lists: BTreeMap<ListScope, (RouterList, Revision)>,
    gone: Vec<GoneHost>,
    changes: KnownList,
    replaced: BTreeMap<GenerationNumber, ReplacedRecord>,
}

/// What the register has now, and of generations those that were not known.
struct NewsOfView {
    policy: Option<FleetPolicy>,
    policy_text: Option<String>,
    policy_revision: Revision,
    inventory: Inventory,
    target: Option<TargetRecord>,
    generations: Vec<Generation>,
}

impl FleetView {
    fn empty() -> FleetView {
        FleetView {
            policy: None,
            policy_text: None,
            policy_revision: Revision::ABSENT,
            inventory: Inventory::default(),
            target: None,
            generations: BTreeMap::new(),
            slots: LastSlots::default(),
            settled: None,
            frozen: Vec::new(),
            rollout_word: None,
            condemned: Vec::new(),
            quarantine: Vec::new(),
            router_lists: BTreeMap::new(),
            gone: Vec::new(),
            changes: (ChangeList::default(), Revision::ABSENT),
            replaced: BTreeMap::new(),
        }
    }

    /// A fleet with these members and generations, the last of which is in force.
    #[cfg(test)]
    pub(crate) fn of(inventory: Inventory, generations: &[Generation]) -> FleetView {
        let mut view = FleetView { inventory, ..FleetView::empty() };
        generations.iter().for_each(|generation| view.add(generation.clone()));
        let target = generations.last().map(|last| last.number);
        view.target = target.map(|number| TargetRecord { number, revision: Revision::FIRST });
        view
    }

    /// Reads it all. What this program does not understand is an error: a part of it is never taken for the whole.
    pub(super) fn read(decisions: &FleetDecisions) -> Result<FleetView, RegisterError> {
        let mut view = FleetView::empty();
        view.read_news(decisions)?;
        Ok(view)
    }

    /// Reads it again. A generation never changes, so those that are known are not read again: fifty of a large fleet are many
    /// megabytes. Returns whether members have changed; an error leaves the view as it is.
    pub(super) fn read_news(&mut self, decisions: &FleetDecisions) -> Result<bool, RegisterError> {
        let mut news = self.news(decisions)?;
        // Members of a first generation that came meanwhile would look like members without a slot.
        while news.target.is_none() && decisions.target()?.is_some() {
            news = self.news(decisions)?;
        }
        let (settled, frozen) = (decisions.settled()?, decisions.frozen()?);
        let (condemned, quarantine) = (decisions.condemned()?, decisions.quarantine()?);
        let (router_lists, gone) = (decisions.router_lists()?, decisions.gone()?);
        let rollout_word = decisions.rollout_word()?.0;
        let changes = decisions.changes()?;
        self.replaced = decisions.replaced()?;
        self.changes = changes;
        self.rollout_word = rollout_word;
        (self.settled, self.frozen) = (settled, frozen);
        (self.condemned, self.quarantine) = (condemned, quarantine);
        (self.router_lists, self.gone) = (router_lists, gone);
        (self.policy, self.policy_text) = (news.policy, news.policy_text);
        self.policy_revision = news.policy_revision;
        let has_new_members = self.inventory != news.inventory;
        (self.inventory, self.target) = (news.inventory, news.target);
        news.generations.into_iter().for_each(|generation| self.add(generation));
        Ok(has_new_members)
    }

    fn news(&self, decisions: &FleetDecisions) -> Result<NewsOfView, RegisterError> {
        // The target first: what it names is there.
        let target = decisions.target()?;
        let (policy_text, policy_revision) = decisions.policy()?;
        let policy = policy_text.as_deref().map(FleetPolicy::parse).transpose();
        let policy = policy.map_err(|error| RegisterError::Answer(format!("its policy: {error}")))?;
        let members: Result<Vec<FleetMember>, RegisterError> =
            decisions.members()?.iter().map(member).collect();
        let inventory = Inventory::new(members?);
        let inventory = inventory.map_err(|error| RegisterError::Answer(error.to_string()))?;
        let generations = match target {
            None => Vec::new(),
            Some(target) if self.generations.is_empty() => all_generations(decisions, target.number)?,
            Some(target) => self.unknown_generations(decisions, target.number)?,
        };
        Ok(NewsOfView { policy, policy_text, policy_revision, inventory, target, generations })
    }

    /// The target and those before it, back to the first one that is known, the oldest first.
    fn unknown_generations(
        &self,
        decisions: &FleetDecisions,
        target: GenerationNumber,
    ) -> Result<Vec<Generation>, RegisterError> {
        let (mut found, mut next) = (Vec::new(), Some(target));
        while let Some(number) = next.filter(|number| !self.generations.contains_key(number)) {
            let Some(json) = decisions.generation(number)? else { break };
            let generation = parsed(number, &json)?;
            next = generation.parent;
            found.push(generation);
        }
        if found.is_empty() && !self.generations.contains_key(&target) {
            return Err(missing(target));
        }
        found.reverse();
        Ok(found)
    }

    /// The policy in force, as it was given.
    pub(crate) fn policy_text(&self) -> Option<&str> {
        self.policy_text.as_deref()
    }

    /// The generation in force.
    pub(crate) fn current(&self) -> Option<&Generation> {
        self.generations.get(&self.target?.number)
    }

    /// Takes a generation that was published, and forgets the one that the register forgets with it.
    pub(super) fn add(&mut self, generation: Generation) {
        let forgotten = generation.number.0.checked_sub(GENERATIONS_KEPT).map(GenerationNumber);
        if let Some(old) = forgotten.filter(|old| self.generations.remove(old).is_some()) {
            self.slots.0.retain(|_, last| last.generation != old);
        }
        self.slots.add(&generation);
        self.generations.insert(generation.number, generation);
    }

    /// The slot that a member has in the generation in force.
    pub(crate) fn slot_of(&self, member: &MemberId) -> Option<(&ClusterRecord, &SlotRecord)> {
        let current = self.current()?;
        let last = self.slots.0.get(member)?;
        if last.generation == current.number {
            let cluster = current.content.clusters.get(last.cluster)?;
            return cluster.slots.get(last.slot).map(|slot| (cluster, slot));
        }
        // One that is newer than the target was overtaken.
        let (cluster, slot) = current.content.slot_of(member).filter(|_| last.generation > current.number)?;
        Some((cluster, &cluster.slots[slot]))
    }

    /// The last generation that is kept and in which a member had a slot.
    pub(crate) fn last_slot(&self, member: &MemberId) -> Option<GenerationNumber> {
        self.slots.0.get(member).map(|last| last.generation)
    }

    /// The order to be emptied that a member without a slot must have carried out: the number behind that generation, for it
    /// misses the deletes that come after. What was before the generations that are kept is not known, so the oldest of them
    /// counts for a member that has no slot in any.
    pub(crate) fn flushes_wanted(&self, member: &MemberId) -> u64 {
        let oldest = self.generations().keys().next().map_or(1, |oldest| oldest.0);
        self.last_slot(member).map_or(0, |last| last.0 + 1).max(oldest)
    }

    /// What is in force; nothing before the first generation.
    pub(crate) fn content(&self) -> FleetContent {
        self.current().map_or_else(FleetContent::default, |current| current.content.clone())
    }
}

/// What is known.
impl FleetView {
    pub(crate) fn policy(&self) -> Option<&FleetPolicy> {
        self.policy.as_ref()
    }

    pub(super) fn policy_revision(&self) -> Revision {
        self.policy_revision
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The number of the generation in force.
    pub(crate) fn target(&self) -> Option<GenerationNumber> {
        self.target.map(|target| target.number)
    }

    pub(super) fn target_record(&self) -> Option<TargetRecord> {
        self.target
    }

    /// The generations that are kept.
    pub(crate) fn generations(&self) -> &BTreeMap<GenerationNumber, Generation> {
        &self.generations
    }

    /// The newest generation that all routers have had, as far as that is written down.
    pub(crate) fn settled(&self) -> Option<GenerationNumber> {
        self.settled
    }

    /// Scopes, and why nothing may change there.
    pub(crate) fn frozen(&self) -> &[(String, String)] {
        &self.frozen
    }

    /// What a person wants of the target's rollout.
    pub(crate) fn rollout_word(&self) -> Option<&RolloutWord> {
        self.rollout_word.as_ref().filter(|word| self.is_about_target(word.generation))
    }

    /// Whether what a person has said of a generation's rollout is about the target: that one, or one whose routes it goes on with.
    pub(crate) fn is_about_target(&self, number: GenerationNumber) -> bool {
        let goes_on =
            || self.current().is_some_and(|target| goes_on_from(&self.generations, target).contains(&number));
        Some(number) == self.target() || goes_on()
    }

    /// Texts that have failed in a router, the oldest first.
    pub(crate) fn condemned(&self) -> &[TextDigest] {
        &self.condemned
    }

    /// Members and hosts that take no slot.
    pub(crate) fn quarantine(&self) -> &[HeldRecord] {
        &self.quarantine
    }

    /// Routers that clients with auto-discovery are told.
    pub(crate) fn router_lists(&self) -> &BTreeMap<ListScope, (RouterList, Revision)> {
        &self.router_lists
    }

    /// Hosts that have left, the oldest first.
    pub(crate) fn gone(&self) -> &[GoneHost] {
        &self.gone
    }

    /// The last changes of hosts.
    pub(crate) fn changes(&self) -> &ChangeList {
        &self.changes.0
    }

    pub(super) fn known_changes(&self) -> &KnownList {
        &self.changes
    }

    /// What generations of the last hour have replaced. It may have that of a generation that is newer than the target here.
    pub(crate) fn replaced(&self) -> &BTreeMap<GenerationNumber, ReplacedRecord> {
        &self.replaced
    }
}

/// What this controller has written since it was read.
impl FleetView {
    /// A generation became the target.
    pub(super) fn note_target(&mut self, target: TargetRecord, replaced: ReplacedChange) {
        self.target = Some(target);
        for gone in &replaced.gone {
            self.replaced.remove(gone);
        }
        if let Some(record) = replaced.record {
            self.replaced.insert(target.number, record);
        }
    }

    pub(super) fn note_changes(&mut self, known: KnownList) {
        self.changes = known;
    }

    pub(super) fn note_settled(&mut self, settled: GenerationNumber) {
        self.settled = Some(settled);
    }

    pub(super) fn note_rollout_word(&mut self, word: RolloutWord) {
        self.rollout_word = Some(word);
    }

    pub(crate) fn note_frozen(&mut self, scope: &str, why: &str) {
        self.note_thawed(scope);
        self.frozen.push((scope.to_owned(), why.to_owned()));
    }

    pub(super) fn note_thawed(&mut self, scope: &str) {
        self.frozen.retain(|(other, _)| other != scope);
    }

    pub(super) fn note_router_list(&mut self, scope: ListScope, list: RouterList, revision: Revision) {
        self.router_lists.insert(scope, (list, revision));
    }
}

/// Where each member had a slot last. Members are asked for one by one, thousands of them, and fifty generations have thousands of
/// slots each.
#[derive(Clone, Debug, Default)]
struct LastSlots(HashMap<MemberId, LastSlot>);

/// The newest generation in which a member has a slot, and the places of its cluster and slot there.
#[derive(Clone, Copy, Debug)]
struct LastSlot {
    generation: GenerationNumber,
    cluster: usize,
    slot: usize,
}

impl LastSlots {
    fn add(&mut self, generation: &Generation) {
        for (cluster, record) in generation.content.clusters.iter().enumerate() {
            for (slot, record) in record.slots.iter().enumerate() {
                let new = LastSlot { generation: generation.number, cluster, slot };
                // A slot that is drained has two.
                let other = record.drain.as_ref().map(|drain| &drain.other);
                for member in std::iter::once(&record.member).chain(other) {
                    match self.0.get_mut(member) {
                        Some(last) if last.generation >= generation.number => {}
                        Some(last) => *last = new,
                        None => drop(self.0.insert(member.clone(), new)),
                    }
                }
            }
        }
    }
}

fn all_generations(
    decisions: &FleetDecisions,
    target: GenerationNumber,
) -> Result<Vec<Generation>, RegisterError> {
    let all = decisions.generations()?;
    let all: Result<Vec<Generation>, RegisterError> =
        all.iter().map(|(number, json)| parsed(*number, json)).collect();
    let all = all?;
    if all.iter().all(|generation| generation.number != target) {
        return Err(missing(target));
    }
    Ok(all)
}

fn parsed(number: GenerationNumber, json: &[u8]) -> Result<Generation, RegisterError> {
    serde_json::from_slice(json)
        .map_err(|error| RegisterError::Answer(format!("generation {number}: {error}")))
}

fn missing(target: GenerationNumber) -> RegisterError {
    RegisterError::Answer(format!("generation {target} is the target and missing"))
}

fn member(entry: &RegisterEntry) -> Result<FleetMember, RegisterError> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| RegisterError::Answer(format!("{}: {error}", entry.key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use stdx::prng::Prng;

    use super::*;

    /// A generation of two clusters, whose members are drawn from twenty.
    fn generation(number: u64, prng: &mut Prng) -> Generation {
        let mut members: Vec<u64> = (0..20).collect();
        let mut slots = |count: usize| {
            let slot = |at: usize| {
                let drawn = prng.below(members.len() as u64) as usize;
                let member = format!("m{}", members.swap_remove(drawn));
                let mut slot =
                    json!({"id": format!("s{at}"), "member": member, "address": format!("{member}:1")});
                if prng.below(3) == 0 {
                    let other = format!("m{}", members.pop().expect("there are twenty"));
                    slot["drain"] = json!({
                        "phase": "read-old", "other": other, "other_address": "o:1", "warm_up_s": 60,
                    });
                }
                slot
            };
            (0..count).map(slot).collect::<Vec<_>>()
        };
        let cluster = |name: &str, slots| json!({"name": name, "pool": {}, "slots": slots});
        let clusters = vec![cluster("web", slots(4)), cluster("ads", slots(2))];
        let json = json!({"number": number, "parent": null, "reason": "", "clusters": clusters, "views": []});
        serde_json::from_value(json).expect("a generation")
    }

    fn view(prng: &mut Prng) -> FleetView {
        let mut view = FleetView::empty();
        // In any order, as others publish them.
        let mut numbers: Vec<u64> = (1..=5).collect();
        while !numbers.is_empty() {
            let at = prng.below(numbers.len() as u64) as usize;
            view.add(generation(numbers.swap_remove(at), prng));
        }
        view
    }

    #[test]
    fn each_member_is_found_where_a_look_through_all_generations_finds_it() {
        for seed in 0..100 {
            let mut prng = Prng::new(seed);
            let mut view = view(&mut prng);
            let number = GenerationNumber(1 + prng.below(5));
            view.target = Some(TargetRecord { number, revision: Revision::FIRST });
            for member in (0..20).map(|number| format!("m{number}").parse::<MemberId>().expect("a name")) {
                let content = view.content();
                let place = content.slot_of(&member).map(|(cluster, at)| (cluster, &cluster.slots[at]));
                assert_eq!(view.slot_of(&member), place, "seed {seed}, {member}");
                let had = view.generations.values().filter(|one| one.content.slot_of(&member).is_some());
                assert_eq!(view.last_slot(&member), had.map(|one| one.number).max(), "seed {seed}, {member}");
            }
        }
    }

    fn written(register: &crate::register::SimulatedRegister, key: &str, value: &[u8]) {
        use crate::register::{Register, Transaction};
        let key: crate::register::RegisterKey = format!("/evenkeel/f/{key}").parse().expect("a key");
        let revision =
            register.get(&key).expect("an answer").map_or(Revision::ABSENT, |entry| entry.revision);
        register.put_if(&Transaction::if_revision(key.clone(), revision).put(key, value)).expect("an answer");
    }

    fn publish(register: &crate::register::SimulatedRegister, number: u64, parent: Option<u64>) {
        let mut generation = generation(number, &mut Prng::new(number));
        generation.parent = parent.map(GenerationNumber);
        let json = serde_json::to_vec(&generation).expect("names and texts");
        written(register, &format!("generations/{number:020}"), &json);
        written(register, "target", number.to_string().as_bytes());
    }

    #[test]
    fn a_generation_that_is_known_is_not_read_again() {
        let register = crate::register::SimulatedRegister::default();
        let decisions =
            FleetDecisions::new(std::sync::Arc::new(register.client()), &"f".parse().expect("a name"));
        publish(&register, 1, None);
        publish(&register, 2, Some(1));
        let mut view = FleetView::read(&decisions).expect("a view");
        // Whoever reads these would not understand them.
        written(&register, "generations/00000000000000000001", b"?");
        written(&register, "generations/00000000000000000002", b"?");
        publish(&register, 3, Some(2));
        // Numbers that a register has forgotten are passed over.
        publish(&register, 7, Some(3));
        view.read_news(&decisions).expect("news");
        let numbers: Vec<u64> = view.generations.keys().map(|number| number.0).collect();
        assert_eq!((numbers, view.current().map(|one| one.number.0)), (vec![1, 2, 3, 7], Some(7)));
        written(&register, "target", b"8");
        let error = view.read_news(&decisions).expect_err("it is missing").to_string();
        assert!(error.contains("generation 8 is the target and missing"), "{error}");
        assert_eq!(view.current().map(|one| one.number.0), Some(7), "an error changes nothing");
    }

    #[test]
    fn what_the_register_forgets_is_forgotten_with_it() {
        let mut prng = Prng::new(1);
        let mut view = view(&mut prng);
        for number in 6..=GENERATIONS_KEPT + 5 {
            view.add(generation(number, &mut prng));
        }
        let oldest = view.generations.keys().next().map(|number| number.0);
        assert_eq!((view.generations.len() as u64, oldest), (GENERATIONS_KEPT, Some(6)));
        assert!(view.slots.0.values().all(|last| last.generation.0 >= 6));
    }
}
