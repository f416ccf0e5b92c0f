//! The watch over all members: takes observations, and decides in one pass.

use stdx::clock::Now;

use super::decision::{EXAMPLES_MAX, GuardScope, HealthDecision, HealthDecisions};
use super::guard::{Held, Loss, LossGuard, exists};
use super::probers::{ProbeOutcome, ProbeView, Probers};
use super::quarantine::QuarantineBook;
use super::reason::{Seen, meaning};
use super::roster::Roster;
use super::routers::{Routers, TkoReport};
use super::settings::{HealthThresholdError, HealthThresholds};
use super::steadiness::{SeenNow, Steadiness};
use super::verdict::{AgentSight, MemberVerdict, ProbeSight, RouterSight, Unmet, judge, unmet};
use crate::{HostId, MemberId, ZoneName};

mod alarms;
mod replaced;

pub use replaced::SlotReplacement;

/// Interval of probes. Observers agree some probes after the first one that has failed, and suspicion counts from that one.
const PROBE_EVERY_MS: u64 = 1000;

/// The success of a prober. One failure beside an answer says something about that member and nothing about the prober:
/// otherwise the first loss in a fleet of four would take the votes of all probers away.
fn success_percent(asked: u32, answered: u32) -> u64 {
    let counted = if answered == 0 { 0 } else { (answered + 1).min(asked) };
    u64::from(counted) * 100 / u64::from(asked)
}

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

/// What an agent says about a process of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSight {
    /// It runs.
    Running,
    /// It does not run.
    Down,
    /// It is being started again, and needs this much time.
    Restarting {
        /// Milliseconds from now.
        left_ms: u64,
    },
}

/// What a controller says about its last round of probes.
#[derive(Clone, Copy, Debug)]
pub struct ProbeRound<'a> {
    /// The controller's host.
    pub prober: &'a HostId,
    /// Its zone.
    pub zone: &'a ZoneName,
    /// Probes of the round.
    pub asked: u32,
    /// Those that were answered.
    pub answered: u32,
    /// Outcomes, of all members or of those that are new.
    pub outcomes: &'a [(MemberId, ProbeOutcome)],
}

/// Zones from which controllers probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProberZones {
    /// Those that were heard.
    pub zones: Vec<ZoneName>,
    /// How many of them must have probed a member before probes say anything.
    pub needed: u8,
    /// Controllers that were never heard, so that their zones are not known.
    pub unheard: usize,
}

/// A scope without members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("freeze {0}: it has no members; name the fleet, or a zone or cluster of the present generation")]
pub struct UnknownScope(pub GuardScope);

#[derive(Clone, Copy, Debug)]
struct Watched {
    known_since: Now,
    heard: Option<Now>,
    /// Since when the agent is waited for, because a controller has ended its turn.
    expected: Option<Now>,
    process: ProcessSight,
    /// End of the announced restart, and the latest one that is believed: it is not extended while it lasts.
    announced: Option<(Now, Now)>,
    verdict: MemberVerdict,
    since: Now,
    /// What no observer that accuses it was enough for.
    unmet: Option<Unmet>,
    /// Since when without a pause it may be replaced.
    accused_since: Option<Now>,
    steadiness: Steadiness,
}

impl Watched {
    fn new(now: Now) -> Watched {
        Watched {
            known_since: now,
            heard: None,
            expected: None,
            process: ProcessSight::Running,
            announced: None,
            verdict: MemberVerdict::Unobserved,
            since: now,
            unmet: None,
            accused_since: None,
            steadiness: Steadiness::default(),
        }
    }
}

/// One controller's knowledge of all members, and the guard. Several controllers may each have one: the register lets only
/// one generation follow another, and its roster comes back to all of them.
#[derive(Debug)]
pub struct HealthWatch {
    settings: HealthThresholds,
    started: Now,
    last_pass: Now,
    /// Controllers that probe, as far as is known by other means than by hearing them.
    expected_probers: usize,
    roster: Roster,
    members: Vec<Watched>,
    losses: Vec<Loss>,
    probers: Probers,
    routers: Routers,
    guard: LossGuard,
    quarantine: QuarantineBook,
}

impl HealthWatch {
    /// Begins to watch. Everything is unknown for the observation window.
    pub fn new(
        now: Now,
        settings: HealthThresholds,
        roster: Roster,
    ) -> Result<HealthWatch, HealthThresholdError> {
        settings.check()?;
        let mut watch = HealthWatch {
            settings,
            started: now,
            last_pass: now,
            expected_probers: 1,
            members: vec![Watched::new(now); roster.places.len()],
            losses: vec![Loss::default(); roster.places.len()],
            probers: Probers::default(),
            routers: Routers::default(),
            guard: LossGuard::default(),
            quarantine: QuarantineBook::default(),
            roster,
        };
        watch.probers.reorder(&vec![None; watch.members.len()]);
        watch.routers.reorder(&[], &[], watch.roster.clusters.len());
        Ok(watch)
    }

    /// Takes the number of controllers, this one included. As long as one of them was not heard, it may be in another zone.
    pub fn expect_probers(&mut self, count: usize) {
        self.expected_probers = count;
    }

    /// The zones from which controllers probe.
    pub fn prober_zones(&self) -> ProberZones {
        let (needed, unheard) = self.zones_needed();
        let zones = self.probers.zones(self.probers.all()).into_iter().cloned().collect();
        ProberZones { zones, needed, unheard }
    }

    fn zones_needed(&self) -> (u8, usize) {
        self.probers.zones_needed(self.expected_probers, self.settings.probe_zones_min)
    }

    /// Takes the roster of a newer generation, or of the same one if the inventory has changed. A slot with another member
    /// counts as replaced, whoever decided it.
    pub fn set_roster(&mut self, now: Now, roster: Roster) {
        self.set_roster_after(now, roster, &[]);
    }

    fn take_roster(&mut self, now: Now, roster: Roster) {
        let from: Vec<_> = roster.places.iter().map(|place| self.roster.index(&place.member)).collect();
        let to: Vec<_> = self.roster.places.iter().map(|place| roster.index(&place.member)).collect();
        let clusters: Vec<_> =
            self.roster.clusters.iter().map(|(name, _)| roster.cluster_index(name)).collect();
        let kept = |at: &Option<usize>| at.map_or_else(|| Watched::new(now), |at| self.members[at]);
        self.members = from.iter().map(kept).collect();
        self.losses = from.iter().map(|at| at.map_or_else(Loss::default, |at| self.losses[at])).collect();
        self.probers.reorder(&from);
        self.routers.reorder(&to, &clusters, roster.clusters.len());
        self.guard.keep_scopes_of(&roster);
        self.roster = roster;
    }

    /// Takes a heartbeat: the processes of one host. Returns how many of them do not count, because the roster has no such
    /// member on this host.
    pub fn agent_said(&mut self, now: Now, host: &HostId, processes: &[(MemberId, ProcessSight)]) -> usize {
        let mut foreign = 0;
        for (member, process) in processes {
            match self.roster.index(member).filter(|at| self.roster.places[*at].host == *host) {
                Some(at) => self.heard(now, at, *process),
                None => foreign += 1,
            }
        }
        foreign
    }

    /// Notes that a controller has ended the turn of a host's agent, which comes again at once if the host lives. Its silence is
    /// known sooner so than by waiting for the turn's end.
    pub fn agent_expected<'a>(
        &mut self,
        now: Now,
        host: &HostId,
        members: impl IntoIterator<Item = &'a MemberId>,
    ) {
        for member in members {
            if let Some(at) = self.roster.index(member).filter(|at| self.roster.places[*at].host == *host) {
                self.members[at].expected.get_or_insert(now);
            }
        }
    }

    fn heard(&mut self, now: Now, at: usize, process: ProcessSight) {
        let member = &mut self.members[at];
        (member.heard, member.expected, member.process) = (Some(now), None, process);
        match process {
            ProcessSight::Running => member.announced = None,
            ProcessSight::Down => {}
            ProcessSight::Restarting { left_ms } => {
                let latest = Now::at_ms(now.ms() + self.settings.announced_max_ms);
                let (_, latest) = member.announced.unwrap_or((now, latest));
                let until = Now::at_ms(now.ms() + left_ms.min(self.settings.announced_max_ms));
                member.announced = Some((until.min(latest), latest));
            }
        }
    }

    /// Takes a round of probes. False if it does not count: too many controllers, or figures that cannot be.
    pub fn probed(&mut self, now: Now, round: &ProbeRound) -> bool {
        if round.asked == 0 || round.answered > round.asked {
            return false;
        }
        let percent = success_percent(round.asked, round.answered);
        let Some(prober) = self.probers.round(now, round.prober, round.zone, percent, &self.settings) else {
            return false;
        };
        for (member, outcome) in round.outcomes {
            if let Some(at) = self.roster.index(member) {
                self.probers.probed(prober, at, *outcome, now);
            }
        }
        true
    }

    /// Takes a router's report. False if it does not count: too many routers, or a router that reports more than is plausible.
    pub fn router_said(&mut self, now: Now, report: &TkoReport) -> bool {
        self.routers.report(now, report, &self.roster)
    }

    /// Freezes a scope as a person asks, with a reason. It ends by [`HealthWatch::thaw`] only.
    pub fn freeze(&mut self, now: Now, scope: GuardScope, reason: &str) -> Result<(), UnknownScope> {
        if !exists(&scope, &self.roster) {
            return Err(UnknownScope(scope));
        }
        self.guard.freeze(now, scope, reason.chars().take(500).collect());
        Ok(())
    }

    /// Thaws a scope as a person asks: its present losses are accepted. For the fleet, what probers see now becomes their
    /// normal success. True if the scope was frozen. The limit per hour stays.
    pub fn thaw(&mut self, now: Now, scope: &GuardScope) -> bool {
        if *scope == GuardScope::Fleet {
            self.probers.accept_present(now);
        }
        self.guard.thaw(scope, &self.roster, &mut self.losses)
    }

    /// Scopes that are frozen because too much was lost at once, and why.
    pub fn frozen(&self) -> impl Iterator<Item = (&GuardScope, String)> {
        self.guard.frozen().map(|(scope, _, reason)| (scope, reason))
    }

    /// Who is in quarantine.
    pub fn quarantine(&self) -> &QuarantineBook {
        &self.quarantine
    }

    /// Who is in quarantine, to hold and release.
    pub fn quarantine_mut(&mut self) -> &mut QuarantineBook {
        &mut self.quarantine
    }

    /// The verdict of the last pass.
    pub fn verdict(&self, member: &MemberId) -> Option<MemberVerdict> {
        self.roster.index(member).map(|at| self.members[at].verdict)
    }

    /// One pass over all members; once a second.
    pub fn decide(&mut self, now: Now) -> HealthDecisions {
        if now.ms().saturating_sub(self.last_pass.ms()) > self.settings.pass_gap_max_ms {
            self.forget(now);
        }
        let elapsed_ms = now.ms().saturating_sub(self.last_pass.ms());
        self.last_pass = now;
        self.routers.expire(now, &self.settings);
        self.judge_all(now, elapsed_ms);
        self.guard.begin_pass(now, &self.roster, &mut self.losses, &self.settings.guard);
        let mut decisions =
            HealthDecisions { generation: self.roster.generation, list: Vec::new(), left_out: 0 };
        for (scope, since, reason) in self.guard.frozen() {
            decisions.push(HealthDecision::Freeze { scope: scope.clone(), since, reason });
        }
        self.replace(now, &mut decisions);
        self.alarm(now, &mut decisions);
        self.wait_for_announced(now, &mut decisions);
        decisions
    }

    /// This process was stopped, or its host: what it remembers says nothing about the time between.
    fn forget(&mut self, now: Now) {
        self.started = now;
        self.probers.forget();
        self.routers.forget();
        for member in &mut self.members {
            *member = Watched { announced: member.announced, ..Watched::new(now) };
        }
    }

    fn judge_all(&mut self, now: Now, elapsed_ms: u64) {
        let voters = self.probers.voters(now, &self.settings);
        let zones = self.probers.zone_masks();
        for at in 0..self.members.len() {
            let sights = self.sights(now, at, voters, &zones);
            let first_sign = self.first_sign(now, at, voters);
            let is_new = self.is_new(now, &self.members[at]) && sights.agent != AgentSight::Restarting;
            let member = &mut self.members[at];
            let verdict = if is_new {
                MemberVerdict::Unobserved
            } else {
                member.steadiness.note(now, elapsed_ms, sights.now());
                let verdict = judge(sights.agent, sights.probes, sights.routers);
                member.steadiness.judge(now, verdict, &self.settings)
            };
            let needs_reason = matches!(verdict, MemberVerdict::Disputed | MemberVerdict::Unobserved);
            member.unmet = needs_reason.then(|| unmet(sights.agent, sights.probes, sights.routers));
            if member.verdict != verdict {
                (member.verdict, member.since) = (verdict, now);
            }
            member.accused_since = verdict.may_replace().then(|| member.accused_since.unwrap_or(first_sign));
            if verdict.is_suspect() {
                self.losses[at].at = Some(now);
            }
        }
    }

    /// When suspicion of a member begins that is accused now: its first failed probe, as far as that belongs to the same event,
    /// and somebody could know what it means.
    fn first_sign(&self, now: Now, at: usize, voters: u8) -> Now {
        let member = &self.members[at];
        if member.verdict == MemberVerdict::AnnouncedRestart {
            return now;
        }
        let detection_ms = (u64::from(self.settings.probe_failures) + 1) * PROBE_EVERY_MS;
        let window_end_ms = member.known_since.max(self.started).ms() + self.settings.observation_window_ms;
        let earliest = Now::at_ms(now.ms().saturating_sub(detection_ms).max(window_end_ms));
        let failing_since = self.probers.view(at, voters, now, &self.settings).failing_since;
        failing_since.map_or(now, |since| since.max(earliest).min(now))
    }

    fn sights(&self, now: Now, at: usize, voters: u8, zones: &[u8]) -> Sights {
        let probes = self.probers.view(at, voters, now, &self.settings);
        let zones = zone_counts(&probes, zones);
        let (needed, _) = self.zones_needed();
        Sights {
            agent: self.agent_sight(now, &self.members[at]),
            probes: zones.sight(needed),
            is_failing: zones.failing > 0 && zones.failing == zones.heard && zones.heard >= needed,
            is_late: zones.late * 2 > zones.seen && zones.seen >= needed,
            routers: self.routers.view(at, self.roster.scopes[at].0).sight,
        }
    }

    /// Not all observers have had the time to see it.
    fn is_new(&self, now: Now, member: &Watched) -> bool {
        let begin = member.known_since.max(self.started);
        now.ms().saturating_sub(begin.ms()) < self.settings.observation_window_ms
    }

    fn agent_sight(&self, now: Now, member: &Watched) -> AgentSight {
        // A host that restarts as a whole is silent meanwhile.
        if member.announced.is_some_and(|(until, _)| now < until) {
            return AgentSight::Restarting;
        }
        let age = |heard: Now| now.ms().saturating_sub(heard.ms());
        match (member.heard.map(age), member.process) {
            (None, _) if self.is_new(now, member) => AgentSight::Unknown,
            (None, _) => AgentSight::Silent,
            (Some(age), _) if age > self.settings.agent_silent_after_ms => AgentSight::Silent,
            _ if member.expected.is_some_and(|since| age(since) > self.settings.agent_return_ms) => {
                AgentSight::Silent
            }
            (Some(_), ProcessSight::Running) => AgentSight::Running,
            // An announcement that is over is no longer an excuse.
            (Some(_), ProcessSight::Down | ProcessSight::Restarting { .. }) => AgentSight::Down,
        }
    }

    /// Asks the guard for each member that may be replaced, the longest accused first.
    fn replace(&mut self, now: Now, decisions: &mut HealthDecisions) {
        let accused = |(at, member): (usize, &Watched)| member.accused_since.map(|since| (since, at));
        let mut candidates: Vec<(Now, usize)> = self.members.iter().enumerate().filter_map(accused).collect();
        candidates.sort_unstable();
        for (since, at) in candidates {
            // The freeze says it once for all.
            if self.guard.is_frozen(&self.roster, at) {
                continue;
            }
            if !decisions.has_room() {
                decisions.left_out += 1;
                continue;
            }
            let decision = self.replace_one(now, since, at);
            decisions.list.extend(decision);
        }
    }

    fn replace_one(&mut self, now: Now, since: Now, at: usize) -> Option<HealthDecision> {
        let verdict = self.members[at].verdict;
        let wait_ms = match verdict {
            MemberVerdict::Gone | MemberVerdict::Flapping => self.settings.suspect_ms,
            _ => self.settings.restart_grace_ms,
        };
        let place = self.roster.places[at].clone();
        let until = Now::at_ms(since.ms() + wait_ms);
        let begin = format!(
            "{} for {} s. {}",
            meaning(verdict, None),
            age_s(now, since),
            self.seen(now, at).evidence()
        );
        if now < until {
            let left = until.ms().saturating_sub(now.ms()).div_ceil(1000);
            let reason = format!(
                "{begin} If this lasts {left} s longer, a spare takes slot {}. To prevent that: `control freeze cluster/{} --why TEXT`.",
                place.slot, place.cluster
            );
            return Some(HealthDecision::WaitUntil { place, until, reason });
        }
        match self.guard.grant(now, &self.roster, at, &self.settings.guard) {
            Ok(()) => {
                let reason = format!(
                    "{begin} A spare takes slot {} in the next generation; until then routers use their failover. To stop it: \
                     `control freeze cluster/{} --why TEXT`.",
                    place.slot, place.cluster
                );
                Some(HealthDecision::Replace { place, reason })
            }
            Err(Held::Used { scope, limit, until }) => {
                let reason = format!(
                    "{begin} It waits: {limit} replacements in {} s are the limit of {scope}, and are used. If it cannot wait: \
                     `control replace`, after a look at why so many are lost.",
                    self.settings.guard.replaced_window_ms / 1000
                );
                Some(HealthDecision::WaitUntil { place, until, reason })
            }
            Err(Held::Frozen) => None,
        }
    }

    fn wait_for_announced(&self, now: Now, decisions: &mut HealthDecisions) {
        for (at, member) in self.members.iter().enumerate() {
            let Some((until, _)) =
                member.announced.filter(|_| member.verdict == MemberVerdict::AnnouncedRestart)
            else {
                continue;
            };
            if !decisions.has_room() {
                decisions.left_out += 1;
                continue;
            }
            let left = until.ms().saturating_sub(now.ms()).div_ceil(1000);
            let reason = format!(
                "{}. {} Nothing is done for {left} s; if it is away then, the usual rules begin.",
                meaning(member.verdict, None),
                self.seen(now, at).evidence()
            );
            decisions.push(HealthDecision::WaitUntil {
                place: self.roster.places[at].clone(),
                until,
                reason,
            });
        }
    }

    fn seen(&self, now: Now, at: usize) -> Seen<'_> {
        let voters = self.probers.voters(now, &self.settings);
        let probes = self.probers.view(at, voters, now, &self.settings);
        let zones = |bits: u8| {
            self.probers.zones(bits).iter().map(|zone| zone.as_str()).collect::<Vec<_>>().join(" and ")
        };
        let (member, place) = (&self.members[at], &self.roster.places[at]);
        let accusers = match member.verdict {
            MemberVerdict::RouterIll => self.routers.accusers(at, EXAMPLES_MAX),
            _ => Vec::new(),
        };
        let (zones_needed, unheard) = self.zones_needed();
        let away = [member.steadiness.agent, member.steadiness.probes, member.steadiness.routers];
        Seen {
            verdict: member.verdict,
            zones_needed,
            unheard,
            without_vote: self.probers.zones(self.probers.all() & !voters).len(),
            away_percent: away.map(|share| (share * 100.0) as u8),
            late_percent: (member.steadiness.late * 100.0) as u8,
            falls: member.steadiness.falls_within(now, &self.settings),
            falls_within_s: self.settings.flapping_window_ms / 1000,
            member: place.member.as_str(),
            host: place.host.as_str(),
            agent: self.agent_sight(now, member),
            heard_s: member.heard.map(|heard| age_s(now, heard)),
            answered: zones(probes.answered),
            late: zones(probes.late),
            failed: zones(probes.failed),
            failing_s: probes.failing_since.map(|since| age_s(now, since)),
            serving: self.routers.view(at, self.roster.scopes[at].0).serving,
            tko: self.tko_counts(at),
            accusers: accusers.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", "),
        }
    }

    fn tko_counts(&self, at: usize) -> String {
        let view = self.routers.view(at, self.roster.scopes[at].0);
        let counts = self.routers.zones().iter().zip(view.tko.iter().zip(view.with_traffic));
        let with_traffic = counts.filter(|(_, (_, all))| *all > 0);
        let mut texts: Vec<_> =
            with_traffic.map(|(zone, (tko, all))| format!("{tko} of {all} in {zone}")).collect();
        texts.sort();
        texts.join(", ")
    }
}

/// What the three kinds of observers see of one member now.
struct Sights {
    agent: AgentSight,
    probes: ProbeSight,
    /// The last probes from all zones have failed, be it for the first time.
    is_failing: bool,
    /// The last probes from most zones were answered late.
    is_late: bool,
    routers: RouterSight,
}

impl Sights {
    /// What is remembered of it. Who is away as announced is not unsteady.
    fn now(&self) -> SeenNow {
        if self.agent == AgentSight::Restarting {
            return SeenNow::default();
        }
        let (agent, routers) = (self.agent == AgentSight::Down, self.routers == RouterSight::Most);
        let is_away = agent || routers || self.probes == ProbeSight::Failed;
        SeenNow { agent, probes: self.is_failing, routers, late: self.is_late, is_away }
    }
}

/// Zones by what their probers say of one member.
#[derive(Clone, Copy, Debug, Default)]
struct ZoneCounts {
    /// Zones that say something.
    seen: u8,
    late: u8,
    failed: u8,
    /// Zones that were heard, also those of which it is not sure yet that they fail.
    heard: u8,
    failing: u8,
}

fn zone_counts(view: &ProbeView, zones: &[u8]) -> ZoneCounts {
    let mut counts = ZoneCounts::default();
    for zone in zones {
        let [answered, late, failed, failing] =
            [view.answered, view.late, view.failed, view.failing].map(|bits| u8::from(bits & zone != 0));
        // One controller that gets answers proves more than another in the same zone that gets none.
        let is_late = late & !answered;
        let is_silent = 1 - (answered | late);
        counts.seen += answered | late | failed;
        counts.late += is_late;
        counts.failed += failed & is_silent;
        counts.heard += answered | late | failing;
        counts.failing += failing & is_silent;
    }
    counts
}

impl ZoneCounts {
    fn sight(self, zones_needed: u8) -> ProbeSight {
        let ZoneCounts { seen, late, failed, .. } = self;
        match failed {
            _ if seen == 0 || seen < zones_needed => ProbeSight::Unknown,
            0 if late == seen => ProbeSight::Late,
            0 => ProbeSight::Ok,
            _ if failed == seen => ProbeSight::Failed,
            _ => ProbeSight::SomeZones,
        }
    }
}

fn age_s(now: Now, then: Now) -> u64 {
    now.ms().saturating_sub(then.ms()) / 1000
}
