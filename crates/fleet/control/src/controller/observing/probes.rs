//! Probes: the last one of each member, and what those since the last pass have found.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::health::ProbeOutcome;
use fleet::{Inventory, MemberId};
use stdx::clock::Now;

use crate::probe::ProbeResult;

/// Age of a probe that counts for a round: a second between probes, and one for its time limit, and room.
const PROBE_FRESH_MS: u64 = 5000;

/// The last probe of a member.
#[derive(Clone, Debug)]
pub(crate) struct ProbeRecord {
    at: Now,
    answer: Result<Duration, String>,
    /// Since when it answers, or does not.
    since: Now,
}

impl ProbeRecord {
    pub(crate) fn at(&self) -> Now {
        self.at
    }

    /// Within what time the member has answered, or why it has not.
    pub(crate) fn answer(&self) -> &Result<Duration, String> {
        &self.answer
    }

    pub(crate) fn since(&self) -> Now {
        self.since
    }
}

/// Probes of all members.
#[derive(Default)]
pub(crate) struct MemberProbes {
    last: BTreeMap<MemberId, ProbeRecord>,
    /// Since the last round.
    outcomes: BTreeMap<MemberId, ProbeOutcome>,
    /// Members are others than those that are probed.
    has_new_members: bool,
}

/// What a round of probes has found.
pub(crate) struct ProbeSummary {
    /// Members that were asked lately.
    pub(crate) asked: u32,
    /// Those of them that have answered.
    pub(crate) answered: u32,
    /// What each probe since the last round has found.
    pub(crate) outcomes: Vec<(MemberId, ProbeOutcome)>,
}

impl MemberProbes {
    /// Takes a probe. True if it is the first that fails. An answer that took longer than `late` is late.
    pub(crate) fn take(&mut self, result: ProbeResult, late: Duration, now: Now) -> bool {
        let before = self.last.get(&result.member);
        let is_first_failure = result.answer.is_err() && before.is_some_and(|before| before.answer.is_ok());
        let since = before.filter(|before| before.answer.is_ok() == result.answer.is_ok());
        let since = since.map_or(now, |before| before.since);
        let outcome = match &result.answer {
            Ok(after) if *after > late => ProbeOutcome::Late,
            Ok(_) => ProbeOutcome::Answered,
            Err(_) => ProbeOutcome::Failed,
        };
        self.outcomes.insert(result.member.clone(), outcome);
        self.last.insert(result.member, ProbeRecord { at: now, answer: result.answer, since });
        is_first_failure
    }

    /// Ends a round.
    pub(crate) fn take_round(&mut self, now: Now) -> ProbeSummary {
        let outcomes = std::mem::take(&mut self.outcomes).into_iter().collect();
        // Of all members: those whose answer is late must not be most of a round because the others came just before it.
        let is_fresh = |probe: &&ProbeRecord| probe.at.ms() + PROBE_FRESH_MS >= now.ms();
        let fresh = || self.last.values().filter(is_fresh);
        let (asked, answered) = (fresh().count(), fresh().filter(|probe| probe.answer.is_ok()).count());
        ProbeSummary { asked: asked as u32, answered: answered as u32, outcomes }
    }

    /// The last probe of a member.
    pub(crate) fn get(&self, member: &MemberId) -> Option<&ProbeRecord> {
        self.last.get(member)
    }

    /// Whether the last probe of a member was answered, if there was one.
    pub(crate) fn answers(&self, member: &MemberId) -> Option<bool> {
        self.last.get(member).map(|probe| probe.answer.is_ok())
    }

    /// Probes have failed for so long.
    pub(crate) fn is_silent_for(&self, member: &MemberId, ms: u64, now: Now) -> bool {
        let probe = self.last.get(member);
        probe.is_some_and(|probe| probe.answer.is_err() && probe.since.ms() + ms <= now.ms())
    }

    /// Notes that the inventory has changed.
    pub(crate) fn note_new_members(&mut self) {
        self.has_new_members = true;
    }

    /// The members to probe and their addresses, if they are others than those that were taken last.
    pub(crate) fn take_new_targets(&mut self, inventory: &Inventory) -> Option<BTreeMap<MemberId, String>> {
        if !std::mem::take(&mut self.has_new_members) {
            return None;
        }
        Some(inventory.members().map(|member| (member.id.clone(), member.address.clone())).collect())
    }

    /// Forgets what is not in the inventory any more.
    pub(crate) fn keep_those_of(&mut self, inventory: &Inventory) {
        self.last.retain(|member, _| inventory.get(member).is_some());
    }

    #[cfg(test)]
    pub(crate) fn forget(&mut self, member: &MemberId) {
        self.last.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_millis(100);

    fn member() -> MemberId {
        "m1".parse().expect("a name")
    }

    fn probe(probes: &mut MemberProbes, at_ms: u64, answer_ms: Option<u64>) -> bool {
        let answer = answer_ms.map(Duration::from_millis).ok_or_else(|| "no answer".to_owned());
        probes.take(ProbeResult { member: member(), answer }, LATE, Now::at_ms(at_ms))
    }

    #[test]
    fn a_member_is_silent_since_its_first_probe_that_failed() {
        let mut probes = MemberProbes::default();
        assert!(!probe(&mut probes, 0, Some(1)));
        assert!(probe(&mut probes, 1000, None), "the first that fails");
        assert!(!probe(&mut probes, 2000, None), "the second");
        let silent =
            |probes: &MemberProbes, now_ms| probes.is_silent_for(&member(), 1000, Now::at_ms(now_ms));
        assert!(!silent(&probes, 1999) && silent(&probes, 2000));
        probe(&mut probes, 3000, Some(1));
        assert!(!silent(&probes, 10_000) && probes.answers(&member()) == Some(true));
    }

    #[test]
    fn a_round_has_the_outcomes_since_the_last_one_and_counts_all_fresh_probes() {
        let mut probes = MemberProbes::default();
        probe(&mut probes, 0, Some(101));
        let round = probes.take_round(Now::at_ms(PROBE_FRESH_MS));
        assert_eq!((round.asked, round.answered), (1, 1));
        assert_eq!(round.outcomes, [(member(), ProbeOutcome::Late)]);
        let round = probes.take_round(Now::at_ms(PROBE_FRESH_MS + 1));
        assert_eq!((round.asked, round.outcomes.len()), (0, 0), "it is old");
    }
}
