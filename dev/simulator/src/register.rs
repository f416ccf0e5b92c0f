//! The register of the simulated controllers: decisions with revisions, a comparison before each write, and a backup.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::health::SlotMember;
use fleet::{Generation, MemberId, TextDigest};

/// Generations that are kept.
pub(crate) const GENERATIONS_KEPT: usize = 50;

/// What a view's routes do to a router that loads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutesKind {
    /// They work.
    Good,
    /// The check of routes refuses them.
    Wrong,
    /// The check lets them pass, and routers crash with them.
    Deadly,
}

/// Who decided a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// A member was lost.
    Health,
    /// An operator.
    Operator,
    /// The target once more, because a backup has forgotten numbers.
    Backup,
}

/// A generation with what the world needs to know of it.
#[derive(Debug)]
pub(crate) struct PublishedGeneration {
    pub(crate) generation: Generation,
    pub(crate) routes: RoutesKind,
    pub(crate) digest: TextDigest,
    pub(crate) author: Author,
}

impl PublishedGeneration {
    pub(crate) fn number(&self) -> u64 {
        self.generation.number.0
    }
}

/// What the audit says of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditLine {
    pub(crate) number: u64,
    /// Slots that have another member: number of the slot over all clusters, the member before and the new one.
    pub(crate) changes: Vec<(usize, MemberId, MemberId)>,
}

/// The target as somebody has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetSeen {
    pub(crate) number: u64,
    pub(crate) revision: u64,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    Done(TargetSeen),
    Overtaken,
    NoAnswer,
}

/// A write that has become the target, for the checker.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) before: Arc<PublishedGeneration>,
    pub(crate) after: Arc<PublishedGeneration>,
}

#[derive(Clone, Debug)]
struct RegisterContents {
    target: TargetSeen,
    generations: BTreeMap<u64, Arc<PublishedGeneration>>,
    /// Replacements of the last hour: when, which, and whether the member was lost.
    replaced: Vec<(u64, SlotMember, bool)>,
}

/// The register.
#[derive(Debug)]
pub(crate) struct FleetRegister {
    pub(crate) works: bool,
    contents: RegisterContents,
    backup: Option<RegisterContents>,
    /// Commits and audit entries since the checker has last seen them.
    pub(crate) commits: Vec<Commit>,
    pub(crate) audit: Vec<AuditLine>,
}

impl FleetRegister {
    pub(crate) fn new(first: PublishedGeneration) -> FleetRegister {
        let target = TargetSeen { number: first.number(), revision: 1 };
        let generations = BTreeMap::from([(first.number(), Arc::new(first))]);
        FleetRegister {
            works: true,
            contents: RegisterContents { target, generations, replaced: Vec::new() },
            backup: None,
            commits: Vec::new(),
            audit: Vec::new(),
        }
    }

    /// The target, if the register answers.
    pub(crate) fn target(&self) -> Option<TargetSeen> {
        self.works.then_some(self.contents.target)
    }

    pub(crate) fn generation(&self, number: u64) -> Option<&Arc<PublishedGeneration>> {
        self.contents.generations.get(&number)
    }

    /// Replacements of the hour before a moment.
    pub(crate) fn replaced(&self) -> &[(u64, SlotMember, bool)] {
        &self.contents.replaced
    }

    pub(crate) fn note_replaced(&mut self, now_ms: u64, place: SlotMember, was_lost: bool) {
        self.contents.replaced.retain(|(then, ..)| now_ms - then <= 3_600_000);
        self.contents.replaced.push((now_ms, place, was_lost));
    }

    /// Makes a generation the target and writes the audit, both or neither; `compares` is false for a planted bug only.
    pub(crate) fn publish(
        &mut self,
        seen: TargetSeen,
        new: PublishedGeneration,
        audit: AuditLine,
        compares: bool,
    ) -> PublishOutcome {
        if !self.works {
            return PublishOutcome::NoAnswer;
        }
        if compares && seen.revision != self.contents.target.revision {
            return PublishOutcome::Overtaken;
        }
        let contents = &mut self.contents;
        let before = Arc::clone(&contents.generations[&contents.target.number]);
        let after = Arc::new(new);
        contents.target = TargetSeen { number: after.number(), revision: contents.target.revision + 1 };
        contents.generations.insert(after.number(), Arc::clone(&after));
        while contents.generations.len() > GENERATIONS_KEPT {
            contents.generations.pop_first();
        }
        self.audit.push(audit);
        self.commits.push(Commit { before, after });
        PublishOutcome::Done(contents.target)
    }

    /// Makes a backup.
    pub(crate) fn back_up(&mut self) {
        self.backup = Some(self.contents.clone());
    }

    /// Puts the backup back. Revisions of before are used once more.
    pub(crate) fn restore(&mut self) {
        if let Some(backup) = self.backup.take() {
            self.contents = backup;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::{FleetContent, GenerationNumber};

    fn published(number: u64) -> PublishedGeneration {
        let (content, parent) = (FleetContent::default(), number.checked_sub(1).map(GenerationNumber));
        let generation = Generation {
            number: GenerationNumber(number),
            parent,
            reason: String::new(),
            lower: None,
            origin: None,
            content,
        };
        let digest = format!("{number:032x}").parse().expect("a digest");
        PublishedGeneration { generation, routes: RoutesKind::Good, digest, author: Author::Operator }
    }

    fn publish(register: &mut FleetRegister, seen: TargetSeen) -> PublishOutcome {
        let audit = AuditLine { number: seen.number + 1, changes: Vec::new() };
        register.publish(seen, published(seen.number + 1), audit, true)
    }

    #[test]
    fn of_two_that_saw_the_same_target_one_is_overtaken() {
        let mut register = FleetRegister::new(published(1));
        let seen = register.target().expect("a target");
        assert_eq!(publish(&mut register, seen), PublishOutcome::Done(TargetSeen { number: 2, revision: 2 }));
        assert_eq!(publish(&mut register, seen), PublishOutcome::Overtaken);
        register.works = false;
        assert_eq!((publish(&mut register, seen), register.target()), (PublishOutcome::NoAnswer, None));
        assert_eq!((register.commits.len(), register.audit.len()), (1, 1), "neither without the other");
    }

    #[test]
    fn a_backup_forgets_what_came_after_it() {
        let mut register = FleetRegister::new(published(1));
        register.back_up();
        let first = register.target().expect("a target");
        publish(&mut register, first);
        register.restore();
        assert_eq!(register.target(), Some(first));
        assert!(register.generation(2).is_none());
    }

    #[test]
    fn so_many_generations_are_kept_and_no_more() {
        let mut register = FleetRegister::new(published(1));
        for _ in 0..GENERATIONS_KEPT + 10 {
            let seen = register.target().expect("a target");
            publish(&mut register, seen);
        }
        assert_eq!(register.contents.generations.len(), GENERATIONS_KEPT);
        assert!(register.generation(12).is_some() && register.generation(11).is_none());
    }
}
