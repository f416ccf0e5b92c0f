//! Standards of hosts: who is told what, who may act, and who gets a slot.

use fleet::tuning::standards::StandardWord;

use super::*;
use crate::audit::{AuditHead, AuditLog};
use crate::controller::changes::HostsNow;
use crate::service::turn::{PlanWish, StandardOrder, StandardReport};
use crate::testing::Scratch;

fn tuned(drift: &str, slots: usize) -> ChangeQuestion {
    let policy = POLICY.replace("slots = 2", &format!("slots = {slots}"));
    let tuning = "[[tuning]]\nprofile = \"memcached\"\ndrift = \"DRIFT\"\n".replace("DRIFT", drift);
    ChangeQuestion::Policy(Some(format!("{policy}{tuning}")))
}

fn lacks() -> StandardWord {
    StandardWord::Lacks { settings: 2, first: "a is 1, and 2 is wanted".to_owned() }
}

fn drifted() -> StandardWord {
    StandardWord::Drifted { settings: 1, first: "a is 1, and 2 is wanted".to_owned() }
}

fn wish() -> PlanWish {
    PlanWish::Profile("memcached".to_owned())
}

impl Stage {
    fn says(&mut self, at: usize, word: StandardWord) {
        self.agents[at].report.standard = Some(StandardReport { wish: Some(wish()), word });
    }

    /// What the host is told in its next turn.
    fn told(&mut self, at: usize) -> Option<StandardOrder> {
        self.agents[at].report.turn += 1;
        let report = self.agents[at].report.clone();
        self.now_ms += 1000;
        self.message(ControllerMessage::Turn(report.clone()));
        self.controller.tick(Now::at_ms(self.now_ms), self.unix_s);
        let orders = self.runtime.block_on(self.seats.answer(&report, Duration::ZERO)).expect("a seat");
        self.agents[at].obey(orders.clone());
        orders.standard
    }

    fn may_act(&mut self, at: usize) -> bool {
        self.told(at).expect("it has a standard").may_act
    }

    fn status_json(&mut self) -> Value {
        let reply = self.controller.answer(ControlQuestion::Status, &owner());
        serde_json::from_str(&reply.json).expect("JSON")
    }

    fn freeze(&mut self, scope: &str) {
        let scope: FreezeScope = scope.parse().expect("a scope");
        let reply =
            self.controller.answer(ControlQuestion::Freeze { scope, why: "we look".to_owned() }, &owner());
        assert_eq!(reply.status, 200);
    }
}

/// Rounds after which a controller that has begun has heard all agents that there are.
const HEARD_AFTER: usize = 26;

/// Four hosts; the first two have slots of `web`. The last two have no router, and so no work.
fn stage(drift: &str) -> Stage {
    let mut stage = Stage::running(4);
    for at in 2..4 {
        stage.agents[at].report.routers.clear();
    }
    for at in 0..4 {
        stage.says(at, StandardWord::Meets);
    }
    stage.rounds(2);
    assert_eq!(stage.apply(&tuned(drift, 2)).status, 200);
    stage.rounds(HEARD_AFTER);
    stage
}

#[test]
fn a_host_without_work_may_be_tuned_and_one_with_slots_only_gets_back_what_it_had() {
    for drift in ["report", "repair"] {
        let mut stage = stage(drift);
        assert_eq!(stage.told(0), Some(StandardOrder { wish: wish(), may_act: false, confirm_ms: 600_000 }));
        for at in 0..4 {
            stage.says(at, lacks());
        }
        let found: Vec<bool> = (0..4).map(|at| stage.may_act(at)).collect();
        assert_eq!(found, [false, false, true, true]);
        stage.says(0, drifted());
        assert_eq!(stage.may_act(0), drift == "repair");
        stage.says(2, StandardWord::Tuning);
        assert!(!stage.may_act(2), "it is at it");
    }
}

#[test]
fn nothing_may_be_tuned_while_it_is_frozen_in_a_change_or_the_register_is_away() {
    let mut stage = stage("repair");
    stage.says(0, drifted());
    stage.says(2, lacks());
    assert!(stage.may_act(0) && stage.may_act(2));
    stage.freeze("cluster/web");
    assert!(!stage.may_act(0) && stage.may_act(2), "a spare has no slot in the cluster");
    let zone = stage.agents[2].report.zone.to_string();
    stage.freeze(&format!("zone/{zone}"));
    assert!(!stage.may_act(2));
    let mut stage = self::stage("repair");
    stage.says(2, lacks());
    assert!(stage.may_act(2));
    for _ in 0..100 {
        stage.register.add_fault(SimulatedFault::NotReached);
    }
    stage.controller.on_message(ControllerMessage::Changed, Now::at_ms(stage.now_ms), stage.unix_s);
    stage.rounds(2);
    assert!(stage.controller.register.away().is_some());
    assert!(!stage.may_act(2), "what is frozen meanwhile is not known");
}

#[test]
fn a_new_slot_waits_for_a_host_that_meets_its_standard_and_a_lost_members_slot_does_not() {
    let mut stage = stage("report");
    stage.says(2, lacks());
    stage.says(3, StandardWord::Refused { reason: "the agent does not run as root".to_owned() });
    stage.rounds(60);
    let refused = stage.plan(&tuned("report", 3));
    let error = refused["error"].as_str().expect("it is refused");
    assert!(error.contains("m3, m4: its host does not meet its standard of tuning"), "{error}");
    let codes = stage.status_json()["members"].clone();
    assert_eq!(codes[2]["state_code"], "unfit", "{codes}");
    // Nobody else is there, so the lost member's slot gets one all the same, which is said.
    stage.agents[0].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.slots(), "m3 m2");
    let text = stage.text(ControlQuestion::Status);
    let said = "m3: its host does not meet its standard of tuning, and no other member can take the slot";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_spare_that_meets_its_standard_comes_first_for_a_lost_members_slot() {
    let mut stage = stage("report");
    stage.says(2, lacks());
    stage.rounds(60);
    stage.agents[0].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.slots(), "m4 m2");
}

#[test]
fn the_status_counts_hosts_and_names_those_that_need_a_person() {
    let mut stage = stage("report");
    stage.says(0, drifted());
    stage.says(
        1,
        StandardWord::SteppedAside { reason: "it did not stay: a is 1, and 2 is wanted".to_owned() },
    );
    stage.says(2, lacks());
    stage.agents[3].report.standard = None;
    stage.rounds(3);
    let text = stage.text(ControlQuestion::Status);
    for line in [
        "standard of all other hosts, profile memcached: 4 hosts (lacks 1, drifted 1, stepped aside 1, older agent 1)",
        "  h1: it met it, and 1 setting is no longer as wanted: a is 1, and 2 is wanted",
        "  h2: it is not tuned again, because something works against it: it did not stay: a is 1, and 2 is wanted",
        "  h4: its agent is of an older version, which knows of none",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("  h3: "), "it is tuned by itself: {text}");
    let json = stage.status_json();
    let of = &json["standards"]["of"][0];
    assert_eq!(
        (&of["states"]["lacks"], &of["states"]["meets"], &of["needy"]),
        (&json!(1), &json!(0), &json!(3))
    );
    assert_eq!(
        of["first_needy"][0],
        json!({"host": "h1", "state": "drifted", "why": "it met it, and 1 setting is no longer as wanted: a is 1, and 2 is wanted"})
    );
    let reply = stage.controller.answer(ControlQuestion::Summary, &owner());
    let summary: Value = serde_json::from_str(&reply.json).expect("JSON");
    let needs = summary["needs"].as_array().expect("a list");
    let texts: Vec<&str> = needs.iter().filter_map(|need| need["text"].as_str()).collect();
    let waiting = "Standards of hosts wait for a person at 3 hosts (h1, h2, h4): drifted 1, stepped aside 1, older agent 1.";
    assert!(texts.contains(&waiting), "{texts:?}");
    assert_eq!(summary["standards"], json["standards"]);
    let figures = stage.controller.figures();
    assert_eq!((figures.standard_hosts["older_agent"], figures.standard_hosts["tuning"]), (1, 0));
    // One that is heard no more is counted so.
    stage.agents[2].is_gone = true;
    stage.rounds(60);
    assert_eq!(stage.controller.figures().standard_hosts["silent"], 1);
}

#[test]
fn a_class_that_nobody_has_and_a_host_of_two_classes_are_said() {
    let mut stage = stage("report");
    let more =
        "[[tuning]]\nclass = \"m5\"\nprofile = \"generic\"\n[[tuning]]\nclass = \"r5\"\nstrategy = \"rps\"\n";
    let ChangeQuestion::Policy(Some(text)) = tuned("report", 2) else { panic!("a policy") };
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(format!("{text}{more}")))).status, 200);
    stage.rounds(2);
    let text = stage.text(ControlQuestion::Status);
    assert!(text.contains("standard of hosts of the class m5, profile generic: no host\n"), "{text}");
    // Two members of one host, of different classes.
    let all = decisions(&stage.register);
    for (member, class) in [("m8", "m5"), ("m9", "r5")] {
        let json = json!({"id": member, "host": "h4", "zone": "a", "class": class, "address": format!("10.0.0.4:{}", &member[1..])});
        assert!(all.set_member(member, &json.to_string(), Revision::ABSENT).expect("an answer"));
    }
    stage.rounds(20);
    let text = stage.text(ControlQuestion::Status);
    assert!(
        text.contains("  h4: its members have classes with different standards, so it has none\n"),
        "{text}"
    );
    assert_eq!(stage.told(3), None);
    assert_eq!(stage.status_json()["standards"]["mixed"], 1);
}

#[test]
fn who_may_act_is_in_the_audit_log_before_and_nobody_may_without_it() {
    let scratch = Scratch::new();
    let mut stage = stage("repair");
    let (log, _) = AuditLog::open(&scratch.path("audit"), &AuditHead::START, None).expect("a log");
    stage.controller = controller(&stage.register, &stage.seats).recording(log);
    stage.rounds(HEARD_AFTER);
    stage.says(0, drifted());
    assert!(stage.may_act(0));
    stage.rounds(3);
    let text = std::fs::read_to_string(scratch.path("audit")).expect("a log");
    let line = "h1 gets the standard of all other hosts, profile memcached: it met it, and 1 setting is no longer as wanted: a is 1, and 2 is wanted";
    assert_eq!(text.matches(line).count(), 2, "begun and done, once: {text}");
}

#[test]
fn a_controller_that_has_just_begun_tells_a_host_its_standard_in_its_first_answer() {
    let mut stage = stage("report");
    // One has no member in the inventory.
    let mut routes_only = FakeAgent::new(9, "a");
    routes_only.report.members.clear();
    let expected = StandardOrder { wish: wish(), may_act: false, confirm_ms: 600_000 };
    for mut agent in [stage.agents.remove(0), routes_only] {
        let seats = Arc::new(AgentSeats::default());
        let mut controller = named_controller(&stage.register, &seats, "c2");
        agent.report.turn += 1;
        let turn = ControllerMessage::Turn(agent.report.clone());
        controller.on_message(turn, Now::at_ms(1000), UNIX_S);
        let orders = stage.runtime.block_on(seats.answer(&agent.report, Duration::ZERO)).expect("a seat");
        assert_eq!(orders.standard, Some(expected.clone()), "{}", agent.report.host);
        controller.tick(Now::at_ms(5000), UNIX_S);
        agent.report.turn += 1;
        let turn = ControllerMessage::Turn(agent.report.clone());
        controller.on_message(turn, Now::at_ms(5000), UNIX_S);
        let orders = stage.runtime.block_on(seats.answer(&agent.report, Duration::ZERO)).expect("a seat");
        assert_eq!(orders.standard, Some(expected.clone()), "{}", agent.report.host);
    }
}

#[test]
fn hosts_that_are_cut_off_while_they_are_repaired_keep_their_places() {
    let mut stage = Stage::running(7);
    for at in 0..7 {
        stage.says(at, StandardWord::Meets);
    }
    stage.rounds(2);
    assert_eq!(stage.apply(&tuned("repair", 2)).status, 200);
    stage.rounds(HEARD_AFTER);
    for at in 0..7 {
        stage.says(at, drifted());
    }
    stage.rounds(2);
    let granted = |stage: &Stage| -> Vec<usize> {
        let standards = &stage.controller.tuning.standards;
        let host = |number: usize| format!("h{number}").parse().expect("a name");
        (1..=7).filter(|number| standards.is_granted(&host(*number))).collect()
    };
    assert_eq!(granted(&stage), [1, 2, 3, 4]);
    // One was heard at it, and another one has not come so far.
    stage.says(2, StandardWord::Tuning);
    stage.rounds(1);
    stage.agents[2].is_gone = true;
    stage.agents[3].is_gone = true;
    stage.rounds(60);
    assert_eq!(granted(&stage), [1, 2], "no others get their places");
    let text = stage.text(ControlQuestion::Status);
    for host in ["h3", "h4"] {
        let line = format!(
            "  {host}: it has fallen silent while it was tuned again, and keeps its place until it is heard"
        );
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    // A controller that has just begun hears first who is at it.
    stage.agents[2].is_gone = false;
    stage.controller = controller_at(&stage.register, &stage.seats, "c1", stage.now_ms, stage.unix_s);
    stage.rounds(20);
    assert!(granted(&stage).is_empty());
    stage.rounds(10);
    assert_eq!(granted(&stage), [1, 2, 5], "and one is at it");
}

#[test]
fn a_host_that_comes_from_another_controller_is_in_this_ones_audit_log_before_it_may_act() {
    let scratch = Scratch::new();
    let mut stage = stage("repair");
    let (log, _) = AuditLog::open(&scratch.path("audit"), &AuditHead::START, None).expect("a log");
    stage.controller = controller(&stage.register, &stage.seats).recording(log);
    stage.says(0, drifted());
    // Another controller has the turns of this host, and passes them on.
    let relayed = |stage: &mut Stage| {
        stage.agents[0].report.turn += 1;
        let report = stage.agents[0].report.clone();
        stage.controller.now = Now::at_ms(stage.now_ms);
        stage.controller.on_turn(report, false);
    };
    for _ in 0..HEARD_AFTER + 2 {
        relayed(&mut stage);
        stage.now_ms += 1000;
        stage.controller.tick(Now::at_ms(stage.now_ms), stage.unix_s);
    }
    let host: HostId = "h1".parse().expect("a name");
    assert!(stage.controller.tuning.standards.is_granted(&host));
    assert!(!stage.text(ControlQuestion::Status).contains("  h1: it met it"), "it needs no person");
    let lines = || {
        let text = std::fs::read_to_string(scratch.path("audit")).expect("a log");
        text.matches("h1 gets the standard").count()
    };
    assert_eq!(lines(), 0);
    // It comes here, and is not told before it is looked at here.
    stage.agents[0].report.turn += 1;
    let report = stage.agents[0].report.clone();
    stage.message(ControllerMessage::Turn(report.clone()));
    let orders = stage.runtime.block_on(stage.seats.answer(&report, Duration::ZERO)).expect("a seat");
    assert!(!orders.standard.expect("it has one").may_act && lines() == 0);
    assert!(stage.may_act(0) && lines() == 2);
}

#[test]
fn a_host_whose_grant_cannot_be_recorded_waits_and_a_freeze_reaches_the_others_meanwhile() {
    let mut stage = stage("report");
    for at in 2..4 {
        stage.says(at, lacks());
    }
    stage.now_ms += 1000;
    (2..4).for_each(|at| stage.turn_of_report(at));
    let now = Now::at_ms(stage.now_ms);
    let Controller { register, agents, health, tuning, .. } = &mut stage.controller;
    let (view, agents) = (register.view(), &*agents);
    let hosts_now = HostsNow::new(view, agents, health);
    let looked = tuning.standards.look((view, agents), &tuning.changes, Some(&hosts_now), now);
    let (orders, new) = looked.expect("it is time");
    let new: Vec<&str> = new.iter().map(|grant| grant.host.as_str()).collect();
    assert_eq!(new, ["h3", "h4"]);
    // The log does not take the first of them.
    let refused: HostId = "h3".parse().expect("a name");
    tuning.standards.tell(orders, &[refused], now);
    assert!(!stage.may_act(2) && stage.may_act(3));
    let zone = stage.agents[3].report.zone.to_string();
    stage.freeze(&format!("zone/{zone}"));
    assert!(!stage.may_act(3));
    for _ in 0..6 {
        assert!(!stage.may_act(2));
    }
    assert!(stage.may_act(2), "ten seconds are over");
}

#[test]
fn a_policy_that_brings_standards_gives_no_slots_to_hosts_that_were_not_told_them() {
    let mut stage = Stage::new(3);
    stage.rounds(3);
    let whole = tuned("report", 2);
    let refused = stage.plan(&whole);
    let error = refused["error"].as_str().expect("it is refused");
    assert!(error.contains("its host does not meet its standard of tuning"), "{error}");
    let hint = refused["hint"].as_str().expect("a hint");
    assert!(hint.contains("without [[cluster]] and [[view]]"), "{hint}");
    // As it says.
    let first = "fleet = \"f\"\n[[tuning]]\nprofile = \"memcached\"\ndrift = \"report\"\n";
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(first.to_owned()))).status, 200);
    stage.says(1, StandardWord::Meets);
    stage.says(2, StandardWord::Meets);
    stage.rounds(2);
    assert_eq!(stage.apply(&whole).status, 200);
    assert!(["m2 m3", "m3 m2"].contains(&&*stage.slots()), "{}", stage.slots());
    // Another standard that comes with another slot.
    stage.says(0, StandardWord::Meets);
    stage.rounds(HEARD_AFTER);
    let ChangeQuestion::Policy(Some(text)) = tuned("report", 3) else { panic!("a policy") };
    let other = ChangeQuestion::Policy(Some(text.replace("\"memcached\"", "\"generic\"")));
    let refused = stage.plan(&other);
    let hint = refused["hint"].as_str().unwrap_or_else(|| panic!("no hint: {refused}"));
    assert!(hint.contains("apply it first without the slots that are new"), "{hint}");
}

#[test]
fn a_host_that_routers_still_use_has_work() {
    let mut stage = stage("report");
    let name = |member: &str| member.parse().expect("a name");
    let replaced = |member: &str, by: &str| {
        let request = ChangeRequest::Replace { member: name(member), by: Some(name(by)), now: true };
        ChangeQuestion::Requests(vec![request])
    };
    assert_eq!(stage.apply(&replaced("m1", "m3")).status, 200);
    stage.rounds(60);
    let before = stage.agents[1].report.routers.clone();
    assert_eq!(stage.apply(&replaced("m3", "m4")).status, 200);
    stage.rounds(60);
    assert_eq!(stage.slots(), "m4 m2");
    stage.says(2, lacks());
    assert!(stage.may_act(2), "no router uses it any more");
    // One does.
    let now = std::mem::replace(&mut stage.agents[1].report.routers, before);
    stage.turn_of_report(1);
    assert!(!stage.may_act(2));
    stage.agents[1].report.routers = now;
    stage.turn_of_report(1);
    assert!(stage.may_act(2));
}

#[test]
fn a_host_whose_agent_is_not_heard_gets_no_new_slot_for_that_and_one_that_was_never_heard_is_named() {
    let mut stage = stage("report");
    stage.agents[2].is_gone = true;
    stage.rounds(60);
    // Its server goes on, and its agent does not.
    let member = stage.agents[2].report.members[0].member.clone();
    let answer = Ok(Duration::from_millis(1));
    stage.message(ControllerMessage::Probe(ProbeResult { member, answer }));
    let all = stage.controller.facts().excluded();
    assert_eq!(all[&stage.agents[2].report.members[0].member], fleet::UnfitMember::StandardUnheard);
    let text = stage.text(ControlQuestion::Status);
    assert!(!text.contains("  h3: no agent"), "its lines say that it is silent: {text}");
    // A controller that has not heard it at all.
    stage.controller = controller_at(&stage.register, &stage.seats, "c1", stage.now_ms, stage.unix_s);
    stage.rounds(2);
    let named = "  h3: no agent of it is heard, which would tune it";
    assert!(!stage.text(ControlQuestion::Status).contains(named), "it has just begun");
    stage.rounds(HEARD_AFTER);
    let text = stage.text(ControlQuestion::Status);
    assert!(text.lines().any(|line| line == named), "{text}");
}
