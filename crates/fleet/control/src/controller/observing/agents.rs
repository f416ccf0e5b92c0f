//! Agents: the last turn of each, since when it is silent, and what their routers read.

use std::collections::{BTreeMap, BTreeSet};

use fleet::health::HealthThresholds;
use fleet::{GenerationNumber, HostId, MemberId, RouterId};
use stdx::clock::Now;

use super::member_figures::MemberFigures;

use crate::controller::register_mirror::FleetView;
use crate::decisions::GoneHost;
use crate::service::seats::SEATS_MAX;
use crate::service::turn::{MemberReport, RouterReport, TurnFigures, TurnReport};

/// Interval of looks for agents that have fallen silent.
const SILENT_EVERY_MS: u64 = 500;
/// Time from one recall of an agent to its next, while members of its host do not answer.
const RECALL_EVERY_MS: u64 = 5_000;

/// The last turn of an agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentRecord {
    heard: Now,
    is_silent: bool,
    /// Since when it is waited for, because its turn was ended.
    expected: Option<Now>,
    /// When it was recalled last.
    recalled: Option<Now>,
    /// It takes its turns here, and not with another controller.
    is_direct: bool,
    report: TurnReport,
}

impl AgentRecord {
    pub(crate) fn heard(&self) -> Now {
        self.heard
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    #[cfg(test)]
    pub(crate) fn is_expected(&self) -> bool {
        self.expected.is_some()
    }

    #[cfg(test)]
    pub(crate) fn was_recalled(&self) -> bool {
        self.recalled.is_some()
    }

    /// What it has said.
    pub(crate) fn report(&self) -> &TurnReport {
        &self.report
    }
}

/// All agents that were heard of.
pub(crate) struct Agents {
    records: BTreeMap<HostId, AgentRecord>,
    /// Turns that said something new, since the start.
    turns: u64,
    /// When agents that have fallen silent are looked for again.
    silent_at: Now,
    /// The oldest generation that a router reads, of all that are known.
    oldest_read: Option<GenerationNumber>,
    /// It may be another one: a router has come, gone, or loaded a text.
    has_new_readers: bool,
    /// Hosts that have left, of which nothing is known here.
    known_gone: BTreeSet<GoneHost>,
    figures: MemberFigures,
}

/// What a turn has changed.
pub(crate) struct TakenTurn {
    /// Routers that the agent does not name any more.
    pub(crate) left: Vec<RouterId>,
    /// The agent has taken its last turn here.
    pub(crate) was_direct: bool,
}

impl Agents {
    /// Those of a controller that begins.
    pub(crate) fn new(now: Now) -> Agents {
        Agents {
            records: BTreeMap::new(),
            turns: 0,
            silent_at: now,
            oldest_read: None,
            has_new_readers: false,
            known_gone: BTreeSet::new(),
            figures: MemberFigures::default(),
        }
    }

    /// Takes a turn, which another controller has passed on if it is not direct. None if it was overtaken by a later one of the
    /// same agent, and so says nothing new, or if there is no room for another agent.
    pub(crate) fn take(&mut self, report: TurnReport, is_direct: bool, now: Now) -> Option<TakenTurn> {
        let before = self.records.get(&report.host);
        let is_overtaken = before.is_some_and(|before| {
            let before = &before.report;
            before.boot == report.boot
                && (before.turn > report.turn || !is_direct && before.turn == report.turn)
        });
        if is_overtaken || before.is_none() && self.records.len() >= SEATS_MAX {
            return None;
        }
        let left: Vec<RouterId> = before.map_or(Vec::new(), |before| {
            let is_left =
                |router: &&RouterReport| !report.routers.iter().any(|new| new.router == router.router);
            before.report.routers.iter().filter(is_left).map(|router| router.router.clone()).collect()
        });
        let readers = |report: &TurnReport| -> Vec<Option<GenerationNumber>> {
            report.routers.iter().map(|router| router.generation).collect()
        };
        left.iter().for_each(|router| self.figures.forget_router(router));
        self.has_new_readers |= before.is_none_or(|before| readers(&before.report) != readers(&report));
        let was_direct = before.is_some_and(|before| before.is_direct);
        let (heard, recalled) = (now, before.and_then(|before| before.recalled));
        let host = report.host.clone();
        let record = AgentRecord { heard, is_silent: false, expected: None, recalled, is_direct, report };
        self.records.insert(host, record);
        self.turns += 1;
        Some(TakenTurn { left, was_direct })
    }

    /// Takes the figures of the last turn of this host's agent.
    pub(crate) fn hear_figures(&mut self, host: &HostId, figures: TurnFigures, view: &FleetView, now: Now) {
        if let Some(record) = self.records.get(host) {
            self.figures.hear(figures, &record.report, view, now);
        }
    }

    /// Forgets figures of what is no more, now and then.
    pub(crate) fn forget_old_figures(&mut self, view: &FleetView, now: Now) {
        self.figures.forget_old(view, now);
    }

    #[cfg(test)]
    pub(crate) fn figures_for_tests(&mut self) -> &mut MemberFigures {
        &mut self.figures
    }

    /// Figures of servers and routers.
    pub(crate) fn figures(&self) -> &MemberFigures {
        &self.figures
    }

    /// Turns that said something new, since the start.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// The last turn of a host's agent.
    pub(crate) fn get(&self, host: &HostId) -> Option<&AgentRecord> {
        self.records.get(host)
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &HostId> {
        self.records.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HostId, &AgentRecord)> {
        self.records.iter()
    }

    /// What agents say of all routers.
    pub(crate) fn routers(&self) -> impl Iterator<Item = &RouterReport> {
        self.records.values().flat_map(|record| &record.report.routers)
    }

    /// What agents say of all members.
    pub(crate) fn members(&self) -> impl Iterator<Item = &MemberReport> {
        self.records.values().flat_map(|record| &record.report.members)
    }

    /// The generations that routers report.
    pub(crate) fn routers_have(&self) -> impl Iterator<Item = GenerationNumber> {
        self.routers().filter_map(|report| report.generation)
    }

    /// Whether most routers that have ever been heard of are heard now. While most are away, more may have been forgotten than
    /// the rest knows.
    pub(crate) fn hears_most_routers(&self) -> bool {
        let count = |record: &AgentRecord| record.report.routers.len();
        let all: usize = self.records.values().map(count).sum();
        let heard: usize = self.records.values().filter(|record| !record.is_silent).map(count).sum();
        heard * 2 > all
    }

    /// Finds agents that have not been heard for a while: their routers, and when they were heard last.
    pub(crate) fn find_silent(&mut self, thresholds: &HealthThresholds, now: Now) -> Vec<(RouterId, Now)> {
        if now < self.silent_at {
            return Vec::new();
        }
        self.silent_at = Now::at_ms(now.ms() + SILENT_EVERY_MS);
        let return_ms = thresholds.agent_return_ms;
        let silent_after_ms = thresholds.agent_silent_after_ms;
        let is_older = |since: Now, than_ms: u64| since.ms() + than_ms < now.ms();
        let is_late = |record: &AgentRecord| {
            is_older(record.heard, silent_after_ms)
                || record.expected.is_some_and(|since| is_older(since, return_ms))
        };
        let mut silent = Vec::new();
        for record in self.records.values_mut().filter(|record| !record.is_silent && is_late(record)) {
            record.is_silent = true;
            let routers = record.report.routers.iter();
            silent.extend(routers.map(|router| (router.router.clone(), record.heard)));
        }
        silent
    }

    /// Notes that an agent is recalled, if it takes its turns here and its next recall is due.
    pub(crate) fn recall(&mut self, host: &HostId, now: Now) -> bool {
        let Some(record) = self.records.get_mut(host).filter(|record| record.is_direct) else { return false };
        let is_due = record.recalled.is_none_or(|last| last.ms() + RECALL_EVERY_MS <= now.ms());
        let is_recalled = record.expected.is_none() && is_due;
        if is_recalled {
            (record.recalled, record.expected) = (Some(now), Some(now));
        }
        is_recalled
    }

    /// Notes that another controller has recalled an agent that takes its turns there. Returns since when it is waited for.
    pub(crate) fn expect(&mut self, host: &HostId, now: Now) -> Option<Now> {
        let record = self.records.get_mut(host).filter(|record| !record.is_direct)?;
        Some(*record.expected.get_or_insert(now))
    }

    /// Finds the oldest generation that a router reads, if routers have others than at the last look. Returns whether it is
    /// another one.
    pub(crate) fn find_oldest_read(&mut self) -> bool {
        if !std::mem::take(&mut self.has_new_readers) {
            return false;
        }
        let oldest = self.routers_have().min();
        std::mem::replace(&mut self.oldest_read, oldest) != oldest
    }

    /// A router has a text with a member that has no slot any more: it may store something there which it, or others, replace
    /// or delete elsewhere. Silent routers count, too: nothing but their agent is known to be away.
    pub(crate) fn may_write_to(&self, member: &MemberId, view: &FleetView) -> bool {
        self.oldest_read.is_some_and(|oldest| oldest.0 < view.flushes_wanted(member))
    }

    /// Routers may have others than at the last look.
    pub(crate) fn has_new_readers(&self) -> bool {
        self.has_new_readers
    }

    /// Forgets a host, and returns its routers. An agent that speaks all the same is known again with its next turn.
    fn forget(&mut self, host: &HostId) -> Option<Vec<RouterId>> {
        let record = self.records.remove(host)?;
        self.has_new_readers = true;
        let routers: Vec<RouterId> = record.report.routers.into_iter().map(|report| report.router).collect();
        routers.iter().for_each(|router| self.figures.forget_router(router));
        Some(routers)
    }

    /// Forgets hosts that leave by a decision of this controller: those that were known, and their routers.
    pub(crate) fn note_gone(&mut self, gone: &[GoneHost]) -> Vec<(HostId, Vec<RouterId>)> {
        self.known_gone.extend(gone.iter().cloned());
        gone.iter().filter_map(|gone| Some((gone.host.clone(), self.forget(&gone.host)?))).collect()
    }

    /// Forgets the hosts that have left since the register was read last: those that were known, and their routers.
    pub(crate) fn follow_gone(&mut self, gone: &[GoneHost]) -> Vec<(HostId, Vec<RouterId>)> {
        let gone: BTreeSet<GoneHost> = gone.iter().cloned().collect();
        let new: Vec<GoneHost> = gone.difference(&self.known_gone).cloned().collect();
        let forgotten =
            new.into_iter().filter_map(|gone| Some((gone.host.clone(), self.forget(&gone.host)?))).collect();
        self.known_gone = gone;
        forgotten
    }

    /// Whether a host has left for good.
    pub(crate) fn has_left(&self, host: &HostId) -> bool {
        self.known_gone.iter().any(|gone| gone.host == *host)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host() -> HostId {
        "h1".parse().expect("a name")
    }

    /// A turn of `h1`, whose routers have these generations.
    fn turn(number: u64, routers: &[(&str, Option<u64>)]) -> TurnReport {
        let router = |(router, generation): &(&str, Option<u64>)| json!({"router": router, "view": "main", "generation": generation, "loaded": null, "text": "loaded"});
        let routers: Vec<_> = routers.iter().map(router).collect();
        let json = json!({"host": "h1", "zone": "a", "boot": 1, "turn": number, "routers": routers});
        serde_json::from_value(json).expect("a turn")
    }

    fn at(ms: u64) -> Now {
        Now::at_ms(ms)
    }

    #[test]
    fn a_turn_that_was_overtaken_says_nothing_new() {
        let mut agents = Agents::new(at(0));
        assert!(agents.take(turn(5, &[]), true, at(0)).is_some());
        assert!(agents.take(turn(4, &[]), true, at(0)).is_none(), "an older one");
        assert!(agents.take(turn(5, &[]), false, at(0)).is_none(), "the same, passed on");
        assert!(agents.take(turn(6, &[]), false, at(0)).expect("a newer one").was_direct);
        assert!(!agents.get(&host()).expect("it is known").is_direct());
    }

    #[test]
    fn routers_that_an_agent_names_no_more_have_left() {
        let mut agents = Agents::new(at(0));
        agents.take(turn(1, &[("r1", Some(3)), ("r2", Some(2))]), true, at(0));
        assert!(agents.find_oldest_read() && agents.oldest_read == Some(GenerationNumber(2)));
        let taken = agents.take(turn(2, &[("r1", Some(3))]), true, at(0)).expect("a newer one");
        assert_eq!(taken.left.iter().map(RouterId::as_str).collect::<Vec<_>>(), ["r2"]);
        assert!(agents.has_new_readers() && agents.find_oldest_read());
        assert_eq!(agents.oldest_read, Some(GenerationNumber(3)));
        assert!(!agents.find_oldest_read(), "nothing is new");
    }

    #[test]
    fn an_agent_that_is_recalled_and_does_not_come_is_silent_sooner() {
        let thresholds = HealthThresholds::default();
        let mut agents = Agents::new(at(0));
        agents.take(turn(1, &[("r1", None)]), true, at(0));
        assert!(agents.recall(&host(), at(1000)));
        assert!(!agents.recall(&host(), at(1000)), "it is recalled already");
        let silent_at = 1000 + thresholds.agent_return_ms;
        assert!(silent_at < thresholds.agent_silent_after_ms);
        assert_eq!(agents.find_silent(&thresholds, at(silent_at)), []);
        let silent = agents.find_silent(&thresholds, at(silent_at + SILENT_EVERY_MS));
        assert_eq!(silent, [("r1".parse().expect("a name"), at(0))]);
        assert!(!agents.hears_most_routers());
        agents.take(turn(2, &[("r1", None)]), true, at(silent_at + 1000));
        assert!(agents.hears_most_routers() && !agents.get(&host()).expect("it is known").is_silent());
    }

    #[test]
    fn a_host_that_leaves_is_forgotten_once() {
        let mut agents = Agents::new(at(0));
        agents.take(turn(1, &[("r1", None)]), true, at(0));
        let gone = [GoneHost { host: host(), unix_s: 1 }];
        assert_eq!(agents.follow_gone(&gone).len(), 1);
        assert!(agents.has_left(&host()) && agents.get(&host()).is_none());
        agents.take(turn(2, &[]), true, at(0));
        assert!(agents.follow_gone(&gone).is_empty(), "it speaks all the same");
    }
}
