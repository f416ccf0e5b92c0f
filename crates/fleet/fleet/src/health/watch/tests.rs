//! Scenarios of a fleet with agents, probers and routers that a test sets per member.

use super::*;
use crate::health::roster::SlotMember;
use crate::health::verdict::RouterSight;
use crate::{ClusterName, GenerationNumber, RouterId};

/// What all observers see of one member from now on.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// None: its agent does not speak.
    pub(super) agent: Option<ProcessSight>,
    /// None: its probes do not arrive.
    pub(super) probes: Option<ProbeOutcome>,
    pub(super) routers: RouterSight,
}

pub(super) const WELL: View = View {
    agent: Some(ProcessSight::Running),
    probes: Some(ProbeOutcome::Answered),
    routers: RouterSight::Ok,
};
pub(super) const GONE: View =
    View { agent: None, probes: Some(ProbeOutcome::Failed), routers: RouterSight::Most };
const DOWN: View = View { agent: Some(ProcessSight::Down), ..GONE };
const HUNG: View = View { agent: Some(ProcessSight::Running), ..GONE };

const ZONES: [&str; 3] = ["z0", "z1", "z2"];

fn name<T: std::str::FromStr<Err = crate::NameError>>(text: impl AsRef<str>) -> T {
    text.as_ref().parse().expect("a name")
}

/// A fleet: each second every observer reports, then there is a pass.
pub(super) struct Stage {
    pub(super) watch: HealthWatch,
    pub(super) places: Vec<SlotMember>,
    pub(super) views: Vec<View>,
    pub(super) now: Now,
    pub(super) routers: usize,
    /// Zones of the probers.
    zones: [&'static str; 3],
    generation: u64,
    spares: usize,
}

impl Stage {
    /// Clusters of these sizes, whose members take turns over three zones.
    pub(super) fn new(sizes: &[usize]) -> Stage {
        let slots =
            sizes.iter().enumerate().flat_map(|(cluster, size)| (0..*size).map(move |at| (cluster, at)));
        let place = |(cluster, at): (usize, usize)| SlotMember {
            cluster: name(format!("c{cluster}")),
            slot: name(format!("s{at}")),
            member: name(format!("m{cluster}-{at}")),
            host: name(format!("h{cluster}-{at}")),
            zone: name(ZONES[(cluster + at) % 3]),
        };
        let places: Vec<_> = slots.map(place).collect();
        let roster = Roster::new(GenerationNumber(1), places.clone()).expect("a roster");
        let watch =
            HealthWatch::new(Now::at_ms(0), HealthThresholds::default(), roster).expect("good settings");
        let views = vec![WELL; places.len()];
        Stage { watch, places, views, now: Now::at_ms(0), routers: 6, zones: ZONES, generation: 1, spares: 0 }
    }

    /// One second passes.
    pub(super) fn second(&mut self) -> HealthDecisions {
        self.now = Now::at_ms(self.now.ms() + 1000);
        self.agents_speak();
        self.probers_speak();
        if self.now.ms().is_multiple_of(5000) {
            self.routers_speak();
        }
        self.watch.decide(self.now)
    }

    fn agents_speak(&mut self) {
        if !self.now.ms().is_multiple_of(5000) {
            return;
        }
        for (place, view) in self.places.iter().zip(&self.views) {
            if let Some(process) = view.agent {
                let foreign =
                    self.watch.agent_said(self.now, &place.host, &[(place.member.clone(), process)]);
                assert_eq!(foreign, 0);
            }
        }
    }

    fn probers_speak(&mut self) {
        let outcomes: Vec<_> = self.places.iter().zip(&self.views).collect();
        let outcomes: Vec<_> =
            outcomes.iter().filter_map(|(place, view)| Some((place.member.clone(), view.probes?))).collect();
        for (at, zone) in self.zones.into_iter().enumerate() {
            // Its success is what a test of probers is about: here it is good, so that probes have their full effect.
            let (prober, zone) = (name(format!("k{at}")), name(zone));
            let round =
                ProbeRound { prober: &prober, zone: &zone, asked: 100, answered: 100, outcomes: &outcomes };
            assert!(self.watch.probed(self.now, &round));
        }
    }

    fn routers_speak(&mut self) {
        let mut traffic: Vec<ClusterName> = self.places.iter().map(|place| place.cluster.clone()).collect();
        traffic.dedup();
        for router in 0..self.routers {
            let accuses = |view: &View| match view.routers {
                RouterSight::Unknown | RouterSight::Unused | RouterSight::Ok => false,
                RouterSight::One => router == 0,
                RouterSight::OneZone => router % 3 == 0,
                RouterSight::Some => router < 2,
                RouterSight::Most => true,
            };
            let pairs = self.places.iter().zip(&self.views).filter(|(_, view)| accuses(view));
            let tko: Vec<MemberId> = pairs.map(|(place, _)| place.member.clone()).collect();
            let (id, zone): (RouterId, ZoneName) = (name(format!("r{router}")), name(ZONES[router % 3]));
            let pairs = self.places.iter().zip(&self.views);
            let unasked = pairs.filter(|(_, view)| view.routers == RouterSight::Unused);
            let unasked: Vec<MemberId> = unasked.map(|(place, _)| place.member.clone()).collect();
            let (serves, traffic, unasked) = (&*traffic, &*traffic, &*unasked);
            let report = TkoReport { router: &id, zone: &zone, serves, traffic, unasked, tko: &tko };
            self.watch.router_said(self.now, &report);
        }
    }

    /// The planner: a spare takes the slot. It is seen as the one before until the test says otherwise.
    pub(super) fn replace(&mut self, slot: &SlotMember) {
        let at = self.places.iter().position(|place| place == slot).expect("the slot has this member");
        self.spares += 1;
        self.places[at].member = name(format!("spare{}", self.spares));
        self.places[at].host = name(format!("hs{}", self.spares));
        self.generation += 1;
        let roster = Roster::new(GenerationNumber(self.generation), self.places.clone()).expect("a roster");
        self.watch.set_roster(self.now, roster);
    }

    fn seconds(&mut self, seconds: u64) -> Vec<(u64, HealthDecision)> {
        let begin = self.now.ms();
        let mut decisions = Vec::new();
        for _ in 0..seconds {
            let list = self.second().list;
            let at = (self.now.ms() - begin) / 1000;
            decisions.extend(list.into_iter().map(|decision| (at, decision)));
        }
        decisions
    }
}

/// A fleet of one cluster of 40 that is well for 100 seconds; then the first members are seen so for 120 seconds. What is
/// decided about it, each kind once with the second of its first appearance.
#[track_caller]
fn check(views: &[View], expected: &[&str]) {
    let mut stage = Stage::new(&[40]);
    let before = stage.seconds(100);
    assert!(before.is_empty(), "{before:?}");
    stage.views[..views.len()].copy_from_slice(views);
    let mut found: Vec<(String, String)> = Vec::new();
    for (second, decision) in stage.seconds(120) {
        let (kind, reason) = match decision {
            HealthDecision::Freeze { scope, reason, .. } => (format!("freeze {scope}"), reason),
            HealthDecision::Replace { place, reason } => (format!("replace {}", place.member), reason),
            HealthDecision::WaitUntil { place, reason, .. } => (format!("wait {}", place.member), reason),
            HealthDecision::Alarm { verdict, count, unmet, reason, .. } => {
                let unmet = unmet.map(|unmet| format!(" {unmet:?}")).unwrap_or_default();
                (format!("alarm {verdict:?} {count}{unmet}"), reason)
            }
        };
        assert!((80..900).contains(&reason.len()), "a reason for people: {reason}");
        if !found.iter().any(|(known, _)| *known == kind) {
            found.push((kind.clone(), format!("{second} {kind}")));
        }
    }
    let found: Vec<_> = found.into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_host_that_is_gone_is_replaced_once_its_agent_is_silent() {
    check(&[GONE], &["5 wait m0-0", "26 replace m0-0"]);
}

#[test]
fn a_host_that_is_gone_is_replaced_sooner_if_its_agent_was_recalled() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[0] = GONE;
    stage.seconds(1);
    let place = stage.places[0].clone();
    // Who is of another host says nothing.
    stage.watch.agent_expected(stage.now, &stage.places[1].host.clone(), [&place.member]);
    stage.watch.agent_expected(stage.now, &place.host, [&place.member]);
    let replaced = stage.seconds(20).into_iter().find_map(|(second, decision)| match decision {
        HealthDecision::Replace { place, .. } => Some((second + 1, place.member)),
        _ => None,
    });
    assert_eq!(replaced, Some((11, place.member)));
}

#[test]
fn an_agent_that_comes_when_it_is_recalled_keeps_its_server_the_grace_of_a_restart() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[0] = HUNG;
    let place = stage.places[0].clone();
    let mut decisions = Vec::new();
    for _ in 0..30 {
        stage.watch.agent_expected(stage.now, &place.host, [&place.member]);
        stage.watch.agent_said(stage.now, &place.host, &[(place.member.clone(), ProcessSight::Running)]);
        decisions.extend(stage.seconds(1));
    }
    assert!(!decisions.iter().any(|(_, decision)| matches!(decision, HealthDecision::Replace { .. })));
}

#[test]
fn a_process_that_is_down_or_hung_has_the_grace_of_a_restart() {
    // Suspicion counts from the first probe that has failed.
    check(&[DOWN], &["5 wait m0-0", "31 replace m0-0"]);
    check(&[HUNG], &["5 wait m0-0", "31 replace m0-0"]);
}

#[test]
fn a_process_that_is_back_within_the_grace_is_never_replaced() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[0] = DOWN;
    stage.seconds(30);
    stage.views[0] = WELL;
    let after = stage.seconds(600);
    assert!(!after.iter().any(|(_, decision)| matches!(decision, HealthDecision::Replace { .. })));
    assert_eq!(stage.watch.verdict(&stage.places[0].member), Some(MemberVerdict::Healthy));
}

#[test]
fn a_silent_agent_beside_a_working_process_is_an_alarm() {
    check(&[View { agent: None, ..WELL }], &["36 alarm AgentDead 1"]);
}

#[test]
fn agents_that_restart_on_a_quarter_of_the_hosts_change_nothing() {
    let silent = View { agent: None, ..WELL };
    check(
        &[silent; 10],
        &[
            "26 freeze fleet",
            "26 freeze zone z0",
            "26 freeze zone z1",
            "26 freeze zone z2",
            "26 freeze cluster c0",
            "36 alarm AgentDead 10",
        ],
    );
}

#[test]
fn a_slow_member_is_reported_and_never_replaced() {
    let slow = View { probes: Some(ProbeOutcome::Late), routers: RouterSight::Most, ..WELL };
    check(&[slow], &["1 alarm Slow 1"]);
}

#[test]
fn a_minority_of_routers_is_reported_by_name() {
    check(&[View { routers: RouterSight::One, ..WELL }], &["15 alarm RouterIll 1"]);
    check(&[View { routers: RouterSight::OneZone, ..WELL }], &["15 alarm Partition 1"]);
}

#[test]
fn one_kind_of_observer_is_an_alarm() {
    check(&[View { probes: Some(ProbeOutcome::Failed), ..WELL }], &["13 alarm Disputed 1 RoutersReachIt"]);
    check(&[View { agent: Some(ProcessSight::Down), ..WELL }], &["15 alarm Disputed 1 ProbesAnswered"]);
    check(&[View { routers: RouterSight::Most, ..WELL }], &["15 alarm Disputed 1 ProbesAnswered"]);
    check(
        &[View { probes: None, routers: RouterSight::Most, agent: None }],
        &["15 alarm Disputed 1 ProbeZones"],
    );
}

/// A fleet of four that is well for 100 seconds, whose probers are in these zones and are so many; then its first member is seen
/// so: what is decided about it in two minutes, and a part of its reason.
#[track_caller]
fn check_zones(zones: [&'static str; 3], expected: usize, view: View, decided: &str, reason: &str) {
    let mut stage = Stage { zones, ..Stage::new(&[4]) };
    stage.watch.expect_probers(expected);
    stage.seconds(100);
    stage.views[0] = view;
    let decisions = stage.seconds(120).into_iter().map(|(_, decision)| decision);
    let found = decisions.filter_map(|decision| match decision {
        HealthDecision::Replace { reason, .. } => Some(("replace".to_owned(), reason)),
        HealthDecision::Alarm { unmet, reason, .. } => Some((format!("{unmet:?}"), reason)),
        _ => None,
    });
    let found: Vec<(String, String)> = found.collect();
    let is_replaced = found.iter().any(|(what, _)| what == "replace");
    assert_eq!(is_replaced, decided == "replace", "{zones:?} {found:?}");
    assert!(found.iter().any(|(what, why)| what == decided && why.contains(reason)), "{zones:?} {found:?}");
}

#[test]
fn controllers_that_share_a_zone_judge_by_it_once_all_of_them_are_heard() {
    check_zones(ZONES, 3, GONE, "replace", "probes: failed in z0 and z1 and z2");
    check_zones(["z0"; 3], 3, GONE, "replace", "probes: failed in z0");
    let unheard = "one controller was not heard since this one began";
    check_zones(["z0"; 3], 4, GONE, "Some(ProbeZones)", unheard);
    check_zones(ZONES, 4, GONE, "replace", "");
}

#[test]
fn a_lost_host_that_no_router_uses_is_replaced_and_a_hung_process_is_an_alarm() {
    let unused = View { routers: RouterSight::Unused, ..GONE };
    check_zones(ZONES, 3, unused, "replace", "none of the 6 that are heard uses it");
    let hung = View { agent: Some(ProcessSight::Running), ..unused };
    check_zones(ZONES, 3, hung, "Some(ProbesAlone)", "no router uses it that could tell");
    let reached = View { routers: RouterSight::Ok, ..GONE };
    check_zones(ZONES, 3, reached, "Some(RoutersReachIt)", "Observers contradict each other");
}

#[test]
fn a_member_that_is_away_half_of_the_time_is_replaced() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    let mut replaced = None;
    for second in 0..60 {
        stage.views[0] = if second % 10 < 5 { DOWN } else { WELL };
        let decisions = stage.second().list.into_iter();
        let mut reasons = decisions.filter_map(|decision| match decision {
            HealthDecision::Replace { place, reason } => Some((second, place.member, reason)),
            _ => None,
        });
        replaced = replaced.or(reasons.next());
    }
    let (second, member, reason) = replaced.expect("it is replaced within a minute");
    assert!(member == stage.places[0].member && second > 20, "{second}");
    assert!(reason.starts_with("Away again and again for ") && reason.contains("falls in 300 s"), "{reason}");
}

#[test]
fn a_member_that_falls_now_and_then_raises_an_alarm_and_is_not_replaced() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    let mut decisions = Vec::new();
    for second in 0..400 {
        stage.views[0] = if second % 80 < 5 { DOWN } else { WELL };
        decisions.extend(stage.second().list);
    }
    let is_alarm = |decision: &HealthDecision| {
        matches!(decision, HealthDecision::Alarm { verdict: MemberVerdict::Unsteady, .. })
    };
    assert!(decisions.iter().any(is_alarm));
    assert!(!decisions.iter().any(|decision| matches!(decision, HealthDecision::Replace { .. })));
}

#[test]
fn a_member_that_answers_late_half_of_the_time_raises_an_alarm() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    let late = View { probes: Some(ProbeOutcome::Late), ..WELL };
    let mut first = None;
    for second in 0..30 {
        stage.views[0] = if second % 2 == 0 { late } else { WELL };
        let is_slow = |decision: &HealthDecision| {
            matches!(decision, HealthDecision::Alarm { verdict: MemberVerdict::Slow, .. })
        };
        first = first.or(stage.second().list.iter().any(is_slow).then_some(second));
    }
    assert!(first.is_some(), "an alarm within half a minute");
}

#[test]
fn an_announced_restart_is_waited_for_and_no_longer_than_believed() {
    let restarting = View { agent: Some(ProcessSight::Restarting { left_ms: 60_000 }), ..GONE };
    check(&[restarting], &["5 wait m0-0"]);
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[0] = View { agent: Some(ProcessSight::Restarting { left_ms: u64::MAX }), ..GONE };
    let first = stage
        .seconds(800)
        .into_iter()
        .find(|(_, decision)| matches!(decision, HealthDecision::Replace { .. }));
    // Announced at 5 s for ever, believed for 600 s, then the grace.
    assert_eq!(first.map(|(second, _)| second), Some(635));
}

#[test]
fn more_losses_than_the_limit_freeze_every_scope_they_exceed() {
    check(&[GONE; 3], &["3 freeze fleet", "3 freeze cluster c0"]);
}

#[test]
fn a_frozen_scope_thaws_when_its_members_return() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[..5].fill(GONE);
    stage.seconds(60);
    stage.views.fill(WELL);
    let frozen = |decisions: &[(u64, HealthDecision)]| {
        decisions
            .iter()
            .filter(|(_, decision)| matches!(decision, HealthDecision::Freeze { .. }))
            .map(|(at, _)| *at)
            .max()
    };
    let decisions = stage.seconds(300);
    // The losses count for a minute, and a minute is calm; routers report every 5 s.
    assert!((120..=130).contains(&frozen(&decisions).expect("frozen at first")), "{:?}", frozen(&decisions));
}

#[test]
fn a_person_thaws_and_the_dead_are_replaced_within_the_limit_per_hour() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[..5].fill(GONE);
    stage.seconds(60);
    for scope in [GuardScope::Fleet, GuardScope::Cluster(name("c0")), GuardScope::Zone(name("z0"))] {
        stage.watch.thaw(stage.now, &scope);
    }
    let replaced = stage.seconds(60).into_iter().filter_map(|(_, decision)| match decision {
        HealthDecision::Replace { place, .. } => Some(place.member),
        _ => None,
    });
    let replaced: std::collections::BTreeSet<_> = replaced.collect();
    assert_eq!(replaced.len(), 2);
}

#[test]
fn a_freeze_by_a_person_ends_by_a_person() {
    let mut stage = Stage::new(&[40]);
    let scope = GuardScope::Cluster(name("c0"));
    assert!(stage.watch.freeze(stage.now, scope.clone(), "we look").is_ok());
    stage.seconds(100);
    stage.views[0] = GONE;
    let decisions = stage.seconds(600);
    assert!(decisions.iter().all(|(_, decision)| matches!(decision, HealthDecision::Freeze { .. })));
    assert!(stage.watch.thaw(stage.now, &scope));
    assert!(stage.seconds(1).iter().any(|(_, decision)| matches!(decision, HealthDecision::Replace { .. })));
    let unknown = GuardScope::Cluster(name("c9"));
    assert!(
        stage
            .watch
            .freeze(stage.now, unknown, "")
            .expect_err("unknown")
            .to_string()
            .starts_with("freeze cluster c9")
    );
}

#[test]
fn unknown_is_not_dead_after_a_start_and_after_a_pause() {
    let mut stage = Stage::new(&[40]);
    stage.views[0] = GONE;
    let first = |decisions: Vec<(u64, HealthDecision)>| {
        decisions
            .into_iter()
            .find(|(_, decision)| matches!(decision, HealthDecision::Replace { .. }))
            .map(|(at, _)| at)
    };
    // Suspicion begins when the window ends.
    assert_eq!(first(stage.seconds(200)), Some(70));
    // The controller was stopped for an hour: all agents are long silent.
    stage.now = Now::at_ms(stage.now.ms() + 3_600_000);
    stage.views.fill(GONE);
    let decisions = stage.seconds(60);
    assert!(decisions.is_empty(), "{decisions:?}");
}

#[test]
fn an_agent_speaks_for_its_own_host_only() {
    let mut stage = Stage::new(&[3]);
    let (host, member) = (stage.places[0].host.clone(), stage.places[1].member.clone());
    let said = [(member, ProcessSight::Down), (name("nobody"), ProcessSight::Down)];
    assert_eq!(stage.watch.agent_said(stage.now, &host, &said), 2);
}

#[test]
fn figures_of_probes_that_cannot_be_do_not_count() {
    let mut stage = Stage::new(&[3]);
    for (asked, answered) in [(0, 0), (5, 6)] {
        let round = ProbeRound { prober: &name("k"), zone: &name("z0"), asked, answered, outcomes: &[] };
        assert!(!stage.watch.probed(stage.now, &round));
    }
}

#[test]
fn a_replaced_member_that_is_lost_again_is_held() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    stage.views[0] = GONE;
    stage.seconds(60);
    let lost = stage.places[0].clone();
    stage.replace(&lost);
    assert_eq!(stage.watch.quarantine().check(stage.now, &lost.member, &lost.host), Ok(()));
    let now = Now::at_ms(stage.now.ms() + 600_000);
    stage.watch.quarantine_mut().note_loss(now, &lost.member, &lost.host);
    assert!(stage.watch.quarantine().check(now, &lost.member, &lost.host).is_err());
}

#[test]
fn a_roster_of_an_older_generation_is_not_taken() {
    let mut stage = Stage::new(&[3]);
    let old = Roster::new(GenerationNumber(0), Vec::new()).expect("empty");
    stage.watch.set_roster(stage.now, old);
    assert!(stage.watch.verdict(&stage.places[0].member).is_some());
}

#[test]
fn replacements_before_a_start_count_in_their_hour() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(3_700);
    for place in stage.places[10..12].iter().cloned() {
        stage.watch.remember_replacement(stage.now, &SlotReplacement::new(place, false), 3_000_000);
    }
    stage.views[0] = GONE;
    let first = stage.seconds(700).into_iter().find_map(|(second, decision)| match decision {
        HealthDecision::Replace { .. } => Some(second),
        _ => None,
    });
    assert_eq!(first, Some(601), "the hour of both ends 600 s later");
}

/// A slot of 40 has changed its member twice, and the watch sees the second change only: when the next lost member is replaced
/// if these changes are written down, by the members that left.
#[track_caller]
fn check_written(written: &[&str], expected: std::ops::Range<u64>) {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    let place = |member: &&str| SlotMember { member: name(*member), ..stage.places[10].clone() };
    let written: Vec<_> =
        written.iter().map(place).map(|place| (SlotReplacement::new(place, false), 5_000)).collect();
    stage.places[10].member = name("third");
    let roster = Roster::new(GenerationNumber(9), stage.places.clone()).expect("a roster");
    stage.watch.set_roster_after(stage.now, roster, &written);
    stage.views[0] = GONE;
    let decisions = stage.seconds(4_000).into_iter();
    let mut replaced = decisions.filter(|(_, decision)| matches!(decision, HealthDecision::Replace { .. }));
    let first = replaced.next().expect("it is replaced").0;
    assert!(expected.contains(&first), "{written:?}: {first}");
}

#[test]
fn a_replacement_that_is_written_down_and_seen_counts_once_and_one_between_counts_too() {
    check_written(&[], 1..200);
    check_written(&["m0-10"], 1..200);
    check_written(&["m0-10", "second"], 3_500..3_601);
    check_written(&["m0-10", "second", "m0-10"], 3_500..3_601);
}

#[test]
fn what_is_written_down_says_whether_it_was_a_loss() {
    for (was_lost, may_enter) in [(true, false), (false, true)] {
        let mut stage = Stage::new(&[40]);
        stage.seconds(100);
        let place = stage.places[10].clone();
        stage.places[10].member = name("another");
        let roster = Roster::new(GenerationNumber(9), stage.places.clone()).expect("a roster");
        let written = [(SlotReplacement::new(place.clone(), was_lost), 5_000)];
        stage.watch.set_roster_after(stage.now, roster, &written);
        stage.watch.quarantine_mut().note_loss(
            Now::at_ms(stage.now.ms() + 70_000),
            &place.member,
            &place.host,
        );
        let found = stage.watch.quarantine().check(stage.now, &place.member, &place.host);
        assert_eq!(found.is_ok(), may_enter, "{found:?}");
    }
}

/// A member was replaced before this watch began, lost or not, and is lost in its new slot: whether it may enter a third one.
#[track_caller]
fn check_remembered(was_lost: bool, age_ms: u64, may_enter: bool) {
    let mut stage = Stage::new(&[40]);
    stage.seconds(4_000);
    let place = stage.places[10].clone();
    let replaced = SlotReplacement::new(place.clone(), was_lost);
    stage.watch.remember_replacement(stage.now, &replaced, age_ms);
    stage.watch.quarantine_mut().note_loss(stage.now, &place.member, &place.host);
    let found = stage.watch.quarantine().check(stage.now, &place.member, &place.host);
    assert_eq!(found.is_ok(), may_enter, "{found:?}");
}

#[test]
fn a_new_watch_remembers_who_was_lost_within_the_hour() {
    check_remembered(true, 3_000_000, false);
    check_remembered(false, 3_000_000, true);
    check_remembered(true, 3_700_000, true);
}

#[test]
fn decisions_beyond_the_limit_are_counted() {
    let mut stage = Stage::new(&[crate::health::DECISIONS_MAX + 7]);
    stage.routers = 0;
    stage.views.fill(View { agent: Some(ProcessSight::Restarting { left_ms: 60_000 }), ..WELL });
    for _ in 0..4 {
        stage.second();
    }
    let decisions = stage.second();
    assert_eq!((decisions.list.len(), decisions.left_out), (crate::health::DECISIONS_MAX, 7));
}

#[test]
fn losses_that_return_during_the_calm_minute_begin_it_anew() {
    let mut stage = Stage::new(&[40]);
    stage.seconds(100);
    for (view, seconds) in [(GONE, 60), (WELL, 100), (GONE, 10)] {
        stage.views[..5].fill(view);
        stage.seconds(seconds);
    }
    stage.views.fill(WELL);
    let frozen = stage
        .seconds(300)
        .into_iter()
        .filter(|(_, decision)| matches!(decision, HealthDecision::Freeze { .. }));
    let last = frozen.map(|(second, _)| second).max();
    assert!((115..=130).contains(&last.expect("still frozen")), "{last:?}");
}

#[test]
fn one_loss_takes_no_vote_away_in_a_fleet_of_any_size() {
    for (asked, answered, percent) in
        [(1, 1, 100), (1, 0, 0), (2, 1, 100), (2, 0, 0), (4, 3, 100), (4, 2, 75), (100, 98, 99), (100, 0, 0)]
    {
        assert_eq!(success_percent(asked, answered), percent, "{answered} of {asked}");
    }
}
