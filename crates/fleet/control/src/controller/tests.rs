//! A controller before a simulated register, with agents that carry out what they are told.

mod adopting;
mod drain;
mod figures;
mod gone;
mod joining;
mod learnt;
mod lists;
mod lost_on_probation;
mod others;
mod replaced;
mod resize;
mod rollout;
mod slots;
mod tuning;
mod words;

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::health::HealthThresholds;
use fleet::rollout::RolloutSettings;
use fleet::{HostId, RouterId, TextDigest, ZoneName};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::observing::agents::AgentRecord;
use super::observing::member_facts::MemberState;
use super::*;
use crate::identity::FleetName;
use crate::probe::ProbeResult;
use crate::register::{Revision, SimulatedFault, SimulatedRegister};
use crate::service::access::controller_of;
use crate::service::questions::{ChangeRequest, FreezeScope};
use crate::service::turn::{
    MemberReport, ProcessReport, RouterReport, SweepReport, TextReport, TurnOrders, TurnReport,
};

const POLICY: &str = "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\n[[view]]\nname = \"main\"\n\
                      routes = '{\"route\": \"PoolRoute|web\"}'\n";

/// What the wall clock says when a test begins.
const UNIX_S: i64 = 1_800_000_000;

fn fleet() -> FleetName {
    "f".parse().expect("a name")
}

fn owner() -> Requester {
    Requester::of(&admin::api::ApiPeer::Local, &fleet(), 0).expect("the owner needs no certificate")
}

/// An agent with one server and one router.
struct FakeAgent {
    report: TurnReport,
    /// Its router fails with every text that has this in it.
    fails_with: Option<&'static str>,
    texts: BTreeMap<TextDigest, String>,
    /// How often its server was emptied.
    emptied: usize,
    /// Places of its slot and numbers of slots for which it was swept.
    swept: Vec<(usize, usize)>,
    cannot_sweep: bool,
    /// What its server tells clients with auto-discovery.
    file: Option<String>,
    /// What its router tells them.
    list: Option<String>,
    /// Its server does not answer probes.
    is_hung: bool,
    /// The host is gone: no turns either.
    is_gone: bool,
}

struct Stage {
    register: SimulatedRegister,
    seats: Arc<AgentSeats>,
    controller: Controller,
    agents: Vec<FakeAgent>,
    runtime: Runtime,
    now_ms: u64,
    /// What the wall clock says.
    unix_s: i64,
}

impl Stage {
    /// A fleet of hosts with one member each.
    fn new(hosts: usize) -> Stage {
        let register = SimulatedRegister::default();
        let all = decisions(&register);
        let zone = |number: usize| ["a", "b"][number % 2];
        for number in 1..=hosts {
            let json = json!({"id": format!("m{number}"), "host": format!("h{number}"), "zone": zone(number),
                "address": format!("10.0.0.{number}:11211")});
            assert!(
                all.set_member(&format!("m{number}"), &json.to_string(), Revision::ABSENT)
                    .expect("an answer")
            );
        }
        let seats = Arc::new(AgentSeats::default());
        let controller = controller(&register, &seats);
        let agents = (1..=hosts).map(|number| FakeAgent::new(number, zone(number))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Stage { register, seats, controller, agents, runtime, now_ms: 1000, unix_s: UNIX_S }
    }

    /// A fleet with a policy in force that all routers have loaded.
    fn running(hosts: usize) -> Stage {
        let mut stage = Stage::new(hosts);
        stage.rounds(3);
        let change = ChangeQuestion::Policy(Some(POLICY.to_owned()));
        assert_eq!(stage.apply(&change).status, 200);
        stage.rounds(3);
        stage
    }

    /// The same, whose controller has been there for long enough to know all routers.
    fn known(hosts: usize) -> Stage {
        let mut stage = Stage::running(hosts);
        stage.rounds(60);
        stage
    }

    /// Seconds in which every agent has its turn and every member is probed.
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.now_ms += 1000;
            let now = Now::at_ms(self.now_ms);
            for at in 0..self.agents.len() {
                let member = self.agents[at].report.members[0].member.clone();
                let answer = match self.agents[at].is_hung || self.agents[at].is_gone {
                    true => Err("no answer".to_owned()),
                    false => Ok(Duration::from_millis(1)),
                };
                self.message(ControllerMessage::Probe(ProbeResult { member, answer }));
                if !self.agents[at].is_gone {
                    self.turn(at);
                }
            }
            self.controller.tick(now, self.unix_s);
        }
    }

    /// One turn of an agent, which carries out what it is told.
    fn turn(&mut self, at: usize) {
        self.agents[at].report.turn += 1;
        let report = self.agents[at].report.clone();
        self.message(ControllerMessage::Turn(report.clone()));
        self.controller.tick(Now::at_ms(self.now_ms), self.unix_s);
        let orders = self.runtime.block_on(self.seats.answer(&report, Duration::ZERO)).expect("a seat");
        self.agents[at].obey(orders);
    }

    /// What an agent says, without an answer.
    fn turn_of_report(&mut self, at: usize) {
        self.agents[at].report.turn += 1;
        let report = self.agents[at].report.clone();
        self.message(ControllerMessage::Turn(report));
    }

    fn target(&self) -> u64 {
        self.controller.target().map_or(0, |target| target.0)
    }

    fn message(&mut self, message: ControllerMessage) {
        self.controller.on_message(message, Now::at_ms(self.now_ms), self.unix_s);
    }

    fn plan(&mut self, change: &ChangeQuestion) -> Value {
        let reply = self.controller.answer(ControlQuestion::Plan(change.clone()), &owner());
        serde_json::from_str(&reply.json).expect("JSON")
    }

    fn apply(&mut self, change: &ChangeQuestion) -> ApiReply {
        let plan = self.plan(change);
        let plan = plan["plan"].as_str().unwrap_or_else(|| panic!("no plan: {plan}")).to_owned();
        let why = "a test".to_owned();
        self.controller.answer(ControlQuestion::Apply { change: change.clone(), plan, why }, &owner())
    }

    /// `m1 m2` of the cluster `web`.
    fn slots(&self) -> String {
        let content = self.controller.register.view().content();
        let members: Vec<&str> = content.clusters[0].slots.iter().map(|slot| slot.member.as_str()).collect();
        members.join(" ")
    }

    /// The generations that the routers have loaded.
    fn loaded(&self) -> Vec<u64> {
        let generations = self.agents.iter().map(|agent| agent.report.routers[0].generation);
        generations.map(|generation| generation.map_or(0, |generation| generation.0)).collect()
    }

    fn text(&mut self, question: ControlQuestion) -> String {
        let reply = self.controller.answer(question, &owner());
        let json: Value = serde_json::from_str(&reply.json).expect("JSON");
        json["text"].as_str().unwrap_or_else(|| panic!("no text: {json}")).to_owned()
    }
}

impl FakeAgent {
    fn new(number: usize, zone: &str) -> FakeAgent {
        let router: RouterId = format!("r{number}").parse().expect("a name");
        let view = "main".parse().expect("a name");
        let (generation, loaded, suspects) = (None, None, Vec::new());
        let router = RouterReport {
            router,
            view,
            generation,
            loaded,
            text: TextReport::Loaded,
            suspects,
            has_traffic: false,
            unasked: Vec::new(),
            trouble: None,
            client_address: None,
            has_cluster_file: false,
            page: None,
            figures: None,
        };
        let member = MemberReport {
            member: format!("m{number}").parse().expect("a name"),
            process: ProcessReport::Running { pid: 1 },
            flushes: 0,
            is_kept_empty: false,
            hits: 0,
            misses: 0,
            has_cluster_file: true,
            sweep: Some(SweepReport::default()),
            page: None,
            figures: None,
        };
        let json = json!({"host": format!("h{number}"), "zone": zone, "boot": number, "turn": 0});
        let mut report: TurnReport = serde_json::from_value(json).expect("a report");
        (report.routers, report.members) = (vec![router], vec![member]);
        let (fails_with, texts, file) = (None, BTreeMap::new(), None);
        let emptied = 0;
        let swept = Vec::new();
        FakeAgent {
            report,
            fails_with,
            texts,
            emptied,
            swept,
            cannot_sweep: false,
            file,
            list: None,
            is_hung: false,
            is_gone: false,
        }
    }

    fn obey(&mut self, orders: TurnOrders) {
        self.report.seen = orders.version;
        self.texts.extend(orders.texts);
        self.report.texts = self.texts.keys().cloned().collect();
        for order in orders.members {
            let member = &mut self.report.members[0];
            let is_due = order.flushes > member.flushes || order.keep_empty || member.is_kept_empty;
            self.emptied += usize::from(is_due);
            member.flushes = member.flushes.max(order.flushes);
            member.is_kept_empty = order.keep_empty;
            if let (Some(order), Some(sweep), false) = (order.sweep, &mut member.sweep, self.cannot_sweep) {
                sweep.trouble = None;
                if sweep.done < order.number {
                    self.swept.push((order.own, order.slots));
                }
                sweep.done = sweep.done.max(order.number);
            }
            if let Some(digest) = order.cluster_file {
                self.file = Some(self.texts.get(&digest).expect("the text comes with the order").clone());
            }
        }
        for order in orders.lists {
            assert_eq!(order.router, self.report.routers[0].router);
            self.list = Some(self.texts.get(&order.digest).expect("the text comes with the order").clone());
        }
        let Some(router) = self.report.routers.first_mut() else { return };
        for order in orders.routers {
            assert!(Some(order.generation) >= router.generation, "no router goes back");
            let text = self.texts.get(&order.digest).expect("the text comes with the order");
            let is_newer = Some(order.generation) > router.generation;
            if is_newer && self.fails_with.is_some_and(|words| text.contains(words)) {
                let reason = "the router ended".to_owned();
                router.text = TextReport::Crashed { generation: order.generation, reason };
            } else if is_newer {
                (router.generation, router.loaded) = (Some(order.generation), Some(order.digest));
                router.text = TextReport::Loaded;
            }
        }
    }
}

fn decisions(register: &SimulatedRegister) -> FleetDecisions {
    FleetDecisions::new(Arc::new(register.client()), &"f".parse().expect("a name"))
}

fn controller(register: &SimulatedRegister, seats: &Arc<AgentSeats>) -> Controller {
    named_controller(register, seats, "c1")
}

fn named_controller(register: &SimulatedRegister, seats: &Arc<AgentSeats>, name: &str) -> Controller {
    controller_at(register, seats, name, 1000, UNIX_S)
}

fn controller_at(
    register: &SimulatedRegister,
    seats: &Arc<AgentSeats>,
    name: &str,
    now_ms: u64,
    unix_s: i64,
) -> Controller {
    let settings = ControllerSettings {
        fleet: fleet(),
        host: name.parse().expect("a name"),
        zone: "a".parse().expect("a name"),
        rollout: RolloutSettings::default(),
        health: HealthThresholds::default(),
    };
    let (decisions, seats) = (decisions(register), Arc::clone(seats));
    Controller::new(decisions, seats, settings, Now::at_ms(now_ms), unix_s).expect("a register")
}

fn replace(member: &str) -> ChangeQuestion {
    let member = member.parse().expect("a name");
    ChangeQuestion::Requests(vec![ChangeRequest::Replace { member, by: None, now: true }])
}

fn policy(routes: &str) -> ChangeQuestion {
    ChangeQuestion::Policy(Some(POLICY.replace("{\"route\": \"PoolRoute|web\"}", routes)))
}

#[test]
fn a_policy_becomes_the_first_generation_and_reaches_every_router() {
    let stage = Stage::running(4);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m1 m2", vec![1, 1, 1, 1]));
    let mut texts = stage.agents[0].texts.values();
    let text = texts.find(|text| text.contains("servers")).expect("a text of its router");
    assert!(text.contains("\"web\": {\"servers\":[\"10.0.0.1:11211\",\"10.0.0.2:11211\"]}"), "{text}");
}

#[test]
fn the_status_says_when_the_controllers_certificate_runs_out() {
    let end_s = Arc::new(AtomicU64::new(0));
    let mut stage = Stage::new(1);
    stage.controller = controller(&stage.register, &stage.seats).showing_end(Some(Arc::clone(&end_s)));
    let mut check = |left_s: i64, words: &str| {
        end_s.store((UNIX_S + left_s).cast_unsigned(), std::sync::atomic::Ordering::Relaxed);
        let reply = stage.controller.answer(ControlQuestion::Status, &owner());
        let json: Value = serde_json::from_str(&reply.json).expect("JSON");
        assert_eq!(json["certificate_end_s"], UNIX_S + left_s);
        let text = json["text"].as_str().expect("a text");
        assert_eq!(text.contains("certificate"), !words.is_empty(), "{left_s}: {text}");
        assert!(text.contains(words), "{left_s}: {text}");
    };
    check(9 * 86_400, "");
    check(8 * 86_400 - 1, "certificate runs out within 8 days");
    check(0, "runs out within 1 day\n");
    check(-1, "has run out");
    end_s.store(0, std::sync::atomic::Ordering::Relaxed);
    let reply = stage.controller.answer(ControlQuestion::Status, &owner());
    assert!(reply.json.contains("\"certificate_end_s\":null"), "{}", reply.json);
}

#[test]
fn a_replacement_is_planned_shown_and_carried_out_in_its_slot() {
    let mut stage = Stage::running(4);
    let plan = stage.plan(&replace("m1"));
    let text = plan["text"].as_str().expect("a text");
    assert!(text.contains("cluster web: m3 takes slot s0 in place of m1"), "{text}");
    assert!(text.contains("50.46 % of the keys change their server (5000 sampled)"), "{text}");
    assert!(text.contains("goes out as a slot change"), "{text}");
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(1);
    let mut first = stage.loaded();
    first.sort_unstable();
    assert_eq!(first, [1, 1, 1, 2], "a canary");
    stage.rounds(5);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m3 m2", vec![2, 2, 2, 2]));
}

#[test]
fn a_plan_that_is_not_the_one_shown_is_not_carried_out() {
    let mut stage = Stage::running(4);
    let plan = stage.plan(&replace("m1"))["plan"].as_str().expect("a plan").to_owned();
    stage.apply(&replace("m2"));
    let why = "too late".to_owned();
    let reply =
        stage.controller.answer(ControlQuestion::Apply { change: replace("m1"), plan, why }, &owner());
    assert_eq!(reply.status, 409, "{}", reply.json);
    assert_eq!(stage.slots(), "m1 m4");
}

#[test]
fn a_text_that_no_router_takes_is_refused_with_its_place() {
    let mut stage = Stage::running(2);
    let plan = stage.plan(&policy("{\"route\": \"PoolRoute|wb\"}"));
    let error = plan["error"].as_str().expect("an error");
    assert!(error.contains("no router takes it: view main") && error.contains("wb"), "{error}");
    assert_eq!(stage.loaded(), [1, 1]);
}

#[test]
fn a_text_that_fails_in_a_canary_goes_back_by_itself_and_reaches_nobody_else() {
    let mut stage = Stage::known(40);
    for agent in &mut stage.agents {
        agent.fails_with = Some("poison");
    }
    let poison = policy("{\"route\": \"PoolRoute|web\", \"poison\": 1}");
    assert_eq!(stage.apply(&poison).status, 200);
    stage.rounds(5);
    let crashed = |agent: &&FakeAgent| matches!(agent.report.routers[0].text, TextReport::Crashed { .. });
    assert_eq!(stage.agents.iter().filter(crashed).count(), 0, "they have loaded the next generation since");
    assert_eq!(stage.loaded(), vec![3; 40]);
    let seen = stage.agents.iter().filter(|agent| agent.texts.values().any(|text| text.contains("poison")));
    assert_eq!(seen.count(), 8, "the canaries");
    let history = stage.text(ControlQuestion::History);
    assert!(history.starts_with("generation 3: back to the content of generation 1: r"), "{history}");
    let again = stage.plan(&poison);
    let error = again["error"].as_str().expect("it is refused for good");
    assert!(error.contains("this very text has failed in a router before"), "{error}");
}

#[test]
fn a_change_that_overtakes_a_rollout_gives_the_unproven_text_to_nobody_else() {
    let mut stage = Stage::known(40);
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"unproven\": 1}")).status, 200);
    stage.rounds(3);
    assert_eq!(stage.loaded().iter().filter(|generation| **generation == 2).count(), 8, "the canaries");
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"later\": 1}")).status, 200);
    stage.rounds(3);
    let has = |agent: &&FakeAgent| agent.texts.values().any(|text| text.contains("unproven"));
    assert_eq!(stage.agents.iter().filter(has).count(), 8, "the same canaries");
    assert_eq!(stage.loaded().iter().filter(|generation| **generation == 3).count(), 8, "others");
}

#[test]
fn a_controller_that_takes_over_a_rollback_gives_the_failed_text_to_nobody() {
    let mut stage = Stage::known(40);
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("poison"));
    assert_eq!(stage.apply(&policy("{\"route\": \"PoolRoute|web\", \"poison\": 1}")).status, 200);
    stage.rounds(5);
    let has_poison = |agent: &FakeAgent| agent.texts.values().any(|text| text.contains("poison"));
    let before: Vec<bool> = stage.agents.iter().map(has_poison).collect();
    // It knows the failed generation from the register alone, and its routers come to it with what they had before.
    stage.seats = Arc::default();
    stage.controller = controller(&stage.register, &stage.seats);
    for agent in stage.agents.iter_mut().filter(|agent| !has_poison(agent)) {
        agent.report.routers[0].generation = Some(GenerationNumber(1));
    }
    // It waits until it has heard of all routers.
    stage.rounds(30);
    assert_eq!(stage.agents.iter().map(has_poison).collect::<Vec<bool>>(), before);
    assert_eq!(stage.loaded(), vec![3; 40]);
}

#[test]
fn what_is_frozen_does_not_change_until_it_is_thawed() {
    let mut stage = Stage::running(4);
    let scope: FreezeScope = "cluster/web".parse().expect("a scope");
    let why = "the big day".to_owned();
    let plan = stage.plan(&replace("m1"))["plan"].as_str().expect("a plan").to_owned();
    stage.text(ControlQuestion::Freeze { scope: scope.clone(), why: why.clone() });
    let error = stage.plan(&replace("m1"))["error"].as_str().expect("it is refused").to_owned();
    assert!(error.contains("m1 keeps its slot: cluster/web is frozen: the big day"), "{error}");
    // A plan from before is not carried out either.
    let question = ControlQuestion::Apply { change: replace("m1"), plan, why: "a test".to_owned() };
    let reply = stage.controller.answer(question, &owner());
    assert!(
        reply.status == 409 && reply.json.contains("cluster/web is frozen: the big day"),
        "{}",
        reply.json
    );
    stage.text(ControlQuestion::Thaw { scope, why });
    assert_eq!(stage.apply(&replace("m1")).status, 200);
}

#[test]
fn what_nobody_waits_for_any_more_is_not_done() {
    let mut stage = Stage::running(4);
    let ask = |stage: &mut Stage, is_waited_for: bool| {
        let (reply, answer) = oneshot::channel();
        let question =
            ControlQuestion::Freeze { scope: "fleet".parse().expect("a scope"), why: "now".to_owned() };
        let _answer = is_waited_for.then_some(answer);
        stage.message(ControllerMessage::Question(question, owner(), reply));
        stage.controller.register.view().frozen().len()
    };
    assert_eq!(ask(&mut stage, false), 0);
    assert_eq!(ask(&mut stage, true), 1);
}

#[test]
fn a_member_that_leaves_a_slot_is_emptied_before_it_takes_another_one() {
    let mut stage = Stage::running(4);
    stage.apply(&replace("m1"));
    let m1 = "m1".parse().expect("a name");
    assert_eq!(stage.controller.facts().state(&m1), MemberState::Stale);
    assert_eq!(stage.agents[0].report.members[0].flushes, 1, "not while routers use it");
    stage.rounds(8);
    assert_eq!(stage.agents[0].report.members[0].flushes, 2);
    assert_eq!(stage.controller.facts().state(&m1), MemberState::Spare);
    assert_eq!(stage.apply(&replace("m3")).status, 200);
    assert_eq!(stage.slots(), "m1 m2");
}

#[test]
fn a_member_is_kept_empty_while_a_router_that_is_away_may_write_to_it() {
    let mut stage = Stage::running(4);
    let m1: MemberId = "m1".parse().expect("a name");
    // A spare is on the host of the router that goes away with its agent.
    let away = (0..4).find(|at| !stage.slots().contains(&format!("m{}", at + 1))).expect("a spare");
    stage.agents[away].is_gone = true;
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(40);
    assert_eq!(stage.loaded().iter().filter(|loaded| **loaded == 1).count(), 1, "it does not hold up others");
    let before = stage.agents[0].emptied;
    stage.rounds(3);
    assert_eq!(stage.agents[0].emptied, before + 3, "with each turn");
    assert_eq!(stage.controller.facts().state(&m1), MemberState::Spare, "it is as good as empty");

    // It comes back with what it had; when it has loaded the present text, the member is emptied for the last time.
    stage.agents[away].is_gone = false;
    stage.turn(away);
    stage.turn_of_report(away);
    stage.controller.tick(Now::at_ms(stage.now_ms), stage.unix_s);
    assert_eq!(stage.loaded(), vec![2; 4]);
    assert_eq!(stage.controller.facts().state(&m1), MemberState::Stale);
    let before = stage.agents[0].emptied;
    stage.rounds(5);
    assert_eq!(stage.agents[0].emptied, before + 1, "once");
    assert_eq!(stage.controller.facts().state(&m1), MemberState::Spare);
}

#[test]
fn an_earlier_content_comes_back_only_with_members_that_are_empty() {
    let mut stage = Stage::running(4);
    stage.apply(&replace("m1"));
    let back = ChangeQuestion::Rollback(GenerationNumber(1));
    let plan = stage.plan(&back);
    let error = plan["error"].as_str().expect("an error");
    assert!(
        error.contains("a rollout is going on; a living member leaves its slot when all routers have it"),
        "{plan}"
    );
    stage.rounds(8);
    assert_eq!(stage.apply(&back).status, 200);
    stage.rounds(90);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m1 m2", vec![6, 6, 6, 6]));
}

#[test]
fn without_its_register_a_controller_answers_and_changes_nothing() {
    let mut stage = Stage::running(4);
    let plan = stage.plan(&replace("m1"))["plan"].as_str().expect("a plan").to_owned();
    for _ in 0..20 {
        stage.register.add_fault(SimulatedFault::NotReached);
    }
    let why = "now".to_owned();
    let reply =
        stage.controller.answer(ControlQuestion::Apply { change: replace("m1"), plan, why }, &owner());
    assert_eq!(reply.status, 503, "{}", reply.json);
    stage.rounds(3);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m1 m2", vec![1, 1, 1, 1]));
}

#[test]
fn a_controller_that_was_started_again_knows_what_the_register_knows() {
    let mut stage = Stage::running(4);
    stage.apply(&replace("m1"));
    stage.controller = controller(&stage.register, &stage.seats);
    stage.rounds(20);
    assert_eq!(stage.loaded(), vec![2, 1, 1, 1], "the canary; not all routers are known for certain");
    stage.rounds(12);
    assert_eq!((stage.slots().as_str(), stage.loaded()), ("m3 m2", vec![2, 2, 2, 2]));
}

#[test]
fn of_two_controllers_that_publish_one_is_overtaken_and_learns_it() {
    let mut stage = Stage::running(4);
    let mut other = controller(&stage.register, &Arc::new(AgentSeats::default()));
    let plan = stage.plan(&replace("m1"))["plan"].as_str().expect("a plan").to_owned();
    let generation = fleet::Generation {
        number: GenerationNumber(2),
        parent: Some(GenerationNumber(1)),
        reason: "the other was first".to_owned(),
        lower: None,
        origin: None,
        content: other.register.view().content(),
    };
    assert!(matches!(other.publish(&generation, None), Ok(crate::decisions::Publication::Done(_))));
    let why = "mine".to_owned();
    let reply =
        stage.controller.answer(ControlQuestion::Apply { change: replace("m1"), plan, why }, &owner());
    assert_eq!(reply.status, 409, "{}", reply.json);
    stage.rounds(5);
    assert_eq!((stage.slots().as_str(), stage.controller.target()), ("m1 m2", Some(GenerationNumber(2))));
}

#[test]
fn a_key_is_told_by_slot_member_and_generation() {
    let mut stage = Stage::running(4);
    stage.apply(&replace("m1"));
    let why = |stage: &mut Stage, key: &str| {
        stage.text(ControlQuestion::Why { key: key.as_bytes().to_vec(), view: None })
    };
    let keys: Vec<String> = (0..32).map(|number| why(&mut stage, &format!("key:{number}"))).collect();
    let text = keys
        .iter()
        .find(|text| text.contains("m3"))
        .unwrap_or_else(|| panic!("one of them is in the first slot: {keys:?}"));
    assert!(
        text.contains("get     m3 at 10.0.0.3:11211") && text.contains("(web/s0, since generation 2)"),
        "{text}"
    );
    let other = keys.iter().find(|text| text.contains("m2")).expect("and one in the second");
    assert!(other.contains("(web/s1, since generation 1)"), "{other}");
}

#[test]
fn a_turn_that_arrives_late_is_not_believed() {
    let mut stage = Stage::running(2);
    let mut late = stage.agents[0].report.clone();
    late.turn -= 1;
    late.routers.clear();
    stage.message(ControllerMessage::Turn(late));
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("r1 "), "{status}");
}

/// All routers have traffic, and do not ask these members any more.
fn suspect(stage: &mut Stage, addresses: &[&str]) {
    for agent in &mut stage.agents {
        let router = &mut agent.report.routers[0];
        router.has_traffic = true;
        router.suspects = addresses.iter().map(|address| (*address).to_owned()).collect();
    }
}

#[test]
fn a_host_that_is_gone_is_replaced_in_its_slot_without_a_person() {
    let mut stage = Stage::running(6);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    stage.agents[0].is_gone = true;
    suspect(&mut stage, &["10.0.0.1:11211"]);
    stage.rounds(10);
    assert_eq!(stage.slots(), "m1 m2", "it may come back");
    stage.rounds(2);
    assert_eq!(stage.slots(), "m3 m2");
    stage.rounds(3);
    let history = stage.text(ControlQuestion::History);
    assert!(history.starts_with("generation 2: m1 is lost: "), "{history}");
    assert_eq!(stage.loaded()[1..], [2, 2, 2, 2, 2]);
}

#[test]
fn routes_that_were_gone_back_from_do_not_come_again_because_a_server_is_lost() {
    let mut stage = Stage::running(6);
    assert_eq!(stage.apply(&policy("{\"route\": \"NullRoute\"}")).status, 200);
    assert_eq!(stage.apply(&ChangeQuestion::Rollback(GenerationNumber(1))).status, 200);
    suspect(&mut stage, &[]);
    stage.rounds(1_000);
    assert_eq!(stage.loaded(), [3; 6]);
    stage.agents[0].is_gone = true;
    suspect(&mut stage, &["10.0.0.1:11211"]);
    stage.rounds(60);
    assert_eq!(stage.slots(), "m3 m2");
    let content = stage.controller.register.view().content();
    assert!(content.views[0].routes.contains("PoolRoute|web"), "{:?}", content.views);
}

#[test]
fn after_a_rollback_the_policy_can_be_put_right() {
    let mut stage = Stage::running(4);
    let (wrong, right) =
        (policy("{\"route\": \"NullRoute\"}"), ChangeQuestion::Policy(Some(POLICY.to_owned())));
    assert_eq!(stage.apply(&wrong).status, 200);
    let back = ChangeQuestion::Rollback(GenerationNumber(1));
    let plan = stage.plan(&back);
    let is_fast = plan["text"].as_str().is_some_and(|text| text.contains("canaries for 2 s, then all"));
    assert!(is_fast, "it is no change of routes for those that have not got it: {plan}");
    assert_eq!(stage.apply(&back).status, 200);
    stage.rounds(6);
    assert_eq!(stage.loaded(), [3; 4]);
    let plan = stage.plan(&right);
    assert_eq!(plan["steps"], json!(["another policy, which wants what is in force"]), "{plan}");
    assert_eq!(stage.apply(&right).status, 200);
    stage.rounds(3);
    for change in [ChangeQuestion::Policy(None), right] {
        assert_eq!(stage.plan(&change)["text"], "nothing to do\n");
    }
}

#[test]
fn probes_alone_replace_nobody() {
    let mut stage = Stage::running(6);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    stage.agents[0].is_hung = true;
    stage.rounds(120);
    assert_eq!(stage.slots(), "m1 m2");
}

#[test]
fn a_freeze_of_a_person_holds_for_lost_members_too() {
    let mut stage = Stage::running(6);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    let why = "we look at it".to_owned();
    stage.text(ControlQuestion::Freeze { scope: "cluster/web".parse().expect("a scope"), why });
    stage.agents[0].is_gone = true;
    suspect(&mut stage, &["10.0.0.1:11211"]);
    stage.rounds(60);
    assert_eq!(stage.slots(), "m1 m2");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("m1 is lost, and its scope is frozen"), "{status}");
}

#[test]
fn a_controller_that_has_just_started_replaces_nobody() {
    let mut stage = Stage::running(6);
    suspect(&mut stage, &["10.0.0.1:11211"]);
    stage.agents[0].is_gone = true;
    stage.controller = controller(&stage.register, &stage.seats);
    stage.rounds(40);
    assert_eq!(stage.slots(), "m1 m2");
}
