//! A file of mcrouter's becomes a fleet: keys stay, nobody is emptied, and what was interrupted can be carried out again.

use fleet::FleetMember;
use router::Operation;

use super::*;
use crate::routers::route_check::CheckedRoutes;
use crate::service::questions::AdoptQuestion;

const FILE: &str = r#"{
  // Two pools, and routes that choose by prefix.
  "pools": {
    "web": {"servers": ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"], "hash": "Ch3"},
    "api": {"servers": ["10.0.0.4:11211", "10.0.0.5:11211"]}
  },
  "route": {"type": "PrefixSelectorRoute", "policies": {"api:": "PoolRoute|api"}, "wildcard": "PoolRoute|web"}
}"#;
const SERVERS: usize = 5;
/// Calls of the register that a change makes before the members: the texts, the policy and the generation.
const CALLS_BEFORE_MEMBERS: usize = 4;

/// A fleet of which nothing is known, with an agent beside each of the file's servers.
fn stage() -> Stage {
    let mut stage = Stage::new(0);
    for number in 1..=SERVERS {
        let mut agent = FakeAgent::new(number, ["a", "b"][number % 2]);
        agent.report.host = format!("10.0.0.{number}").parse().expect("a name");
        agent.report.members[0].member = format!("10.0.0.{number}-11211").parse().expect("a name");
        stage.agents.push(agent);
    }
    stage.rounds(3);
    stage
}

fn adopt(text: &str) -> ChangeQuestion {
    let (view, zone) = ("main".parse().expect("a name"), "a".parse().expect("a name"));
    ChangeQuestion::Adopt(AdoptQuestion { fleet: None, view, zone, text: text.to_owned() })
}

fn member(id: &str, number: usize) -> FleetMember {
    let json = json!({"id": id, "host": "h9", "zone": "b", "address": format!("10.0.0.{number}:11211")});
    serde_json::from_value(json).expect("a member")
}

/// Writes a member behind the controller's back.
fn register(stage: &mut Stage, member: &FleetMember) {
    let json = serde_json::to_string(member).expect("names and texts");
    let is_done = decisions(&stage.register).set_member(member.id.as_str(), &json, Revision::ABSENT);
    assert!(is_done.expect("an answer"));
    stage.message(ControllerMessage::Changed);
    stage.controller.tick(Now::at_ms(stage.now_ms), stage.unix_s);
}

fn members(stage: &Stage) -> usize {
    decisions(&stage.register).members().expect("an answer").len()
}

fn was_emptied(stage: &Stage) -> bool {
    stage.agents.iter().any(|agent| agent.report.members[0].flushes > 0)
}

fn reply(reply: &ApiReply) -> (u16, Value) {
    (reply.status, serde_json::from_str(&reply.json).expect("JSON"))
}

#[track_caller]
fn refused(stage: &mut Stage, change: &ChangeQuestion, status: u16, words: &str) {
    let (found, json) = reply(&stage.controller.answer(ControlQuestion::Plan(change.clone()), &owner()));
    assert!(found == status && json["error"].as_str().is_some_and(|error| error.contains(words)), "{json}");
}

#[test]
fn what_routers_get_sends_every_key_where_the_file_sent_it_and_nobody_is_emptied() {
    let mut stage = stage();
    let text = stage.plan(&adopt(FILE))["text"].as_str().expect("a plan").to_owned();
    for words in [
        "makes generation 1",
        "cluster web: begins, with 3 slots",
        "10.0.0.5-11211 joins, on 10.0.0.5 at 10.0.0.5:11211",
        "none of 5000 sampled keys changes its server",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert_eq!((members(&stage), stage.apply(&adopt(FILE)).status), (0, 200));
    stage.rounds(3);
    assert_eq!((members(&stage), stage.loaded()), (SERVERS, vec![1; SERVERS]));
    let mut texts = stage.agents[0].texts.values();
    let loaded = texts.find(|text| text.contains("\"route\"")).expect("routes");
    let [before, after] = [FILE, loaded].map(|text| CheckedRoutes::compile("it", text).expect("routes"));
    let mut servers = BTreeSet::new();
    for number in 0..2000 {
        let key = format!("{}{number}", ["api:", "user:"][number % 2]);
        for operation in [Operation::Get, Operation::Set, Operation::Delete] {
            let expected = before.servers_of(operation, key.as_bytes(), 0);
            assert_eq!(after.servers_of(operation, key.as_bytes(), 0), expected, "{key}");
            servers.extend(expected);
        }
    }
    assert_eq!(servers.len(), SERVERS);
    assert!(!was_emptied(&stage));
}

#[track_caller]
fn is_complete(stage: &mut Stage) {
    let plan = stage.plan(&adopt(FILE));
    let expected =
        "nothing to do: this file is adopted: generation 1 has it, and all of its members are known\n";
    assert_eq!((plan["text"].as_str(), &plan["plan"]), (Some(expected), &Value::Null), "{plan}");
}

#[test]
fn a_fleet_is_adopted_once() {
    let mut stage = stage();
    assert_eq!(stage.apply(&adopt(FILE)).status, 200);
    is_complete(&mut stage);
    stage.rounds(3);
    is_complete(&mut stage);
    let other = FILE.replace("10.0.0.5", "10.0.0.6");
    refused(&mut stage, &adopt(&other), 409, "the fleet has generation 1 already");
}

#[test]
fn a_register_that_goes_between_generation_and_members_leaves_what_can_be_finished() {
    let faults = [SimulatedFault::NotReached, SimulatedFault::AnswerLost];
    let moments = 0..CALLS_BEFORE_MEMBERS + SERVERS + 3;
    let mut unfinished = 0;
    for (calls, fault) in moments.flat_map(|calls| faults.map(|fault| (calls, fault))) {
        let mut stage = stage();
        let plan = stage.plan(&adopt(FILE))["plan"].as_str().expect("a plan").to_owned();
        stage.register.add_calls_without_fault(calls);
        stage.register.add_fault(fault);
        let (change, why) = (adopt(FILE), "a test".to_owned());
        let question = ControlQuestion::Apply { change, plan, why };
        let first = reply(&stage.controller.answer(question, &owner()));
        stage.rounds(3);
        // The answer about the last member may be lost: then all is done.
        let is_whole = stage.controller.target().is_some() && members(&stage) == SERVERS;
        if is_whole {
            is_complete(&mut stage);
        } else {
            let is_published = stage.controller.target().is_some();
            assert_eq!((first.0, members(&stage) > 0 && !is_published), (503, false), "{first:?}");
            let (plan, hint) = (stage.plan(&adopt(FILE)), first.1["hint"].as_str().unwrap_or_default());
            let text = plan["text"].as_str().unwrap_or_else(|| panic!("after {calls} calls: {plan}"));
            assert_eq!(text.contains("completes generation 1"), is_published, "{text}");
            assert_eq!(hint.contains("adopt the same file again"), is_published, "{hint}");
            unfinished += usize::from(is_published);
            assert_eq!(stage.apply(&adopt(FILE)).status, 200);
            stage.rounds(3);
        }
        assert_eq!((members(&stage), stage.loaded()), (SERVERS, vec![1; SERVERS]), "after {calls} calls");
        assert!(!was_emptied(&stage), "after {calls} calls");
        assert_eq!(
            stage.controller.register.view().policy().as_ref().map(|policy| policy.clusters.len()),
            Some(2)
        );
    }
    assert!(unfinished > SERVERS, "{unfinished} attempts ended between the generation and the last member");
}

#[test]
fn of_two_controllers_that_adopt_one_is_told_that_it_was_overtaken() {
    let mut stage = stage();
    let mut other = named_controller(&stage.register, &Arc::default(), "c2");
    let plan = stage.plan(&adopt(FILE))["plan"].as_str().expect("a plan").to_owned();
    assert_eq!(stage.apply(&adopt(FILE)).status, 200);
    let (change, why) = (adopt(FILE), "at the same moment".to_owned());
    let late = other.answer(ControlQuestion::Apply { change, plan, why }, &owner());
    assert_eq!(late.status, 409, "{}", late.json);
    other.tick(Now::at_ms(2000), UNIX_S);
    assert_eq!((other.target(), members(&stage)), (Some(GenerationNumber(1)), SERVERS));
}

#[test]
fn members_elsewhere_are_refused_and_those_at_a_server_of_the_file_keep_what_people_said() {
    let mut stage = stage();
    register(&mut stage, &member("spare", 9));
    refused(&mut stage, &adopt(FILE), 409, "a member spare at 10.0.0.9:11211, and the file has none");
    let mut stage = Stage::new(0);
    register(&mut stage, &member("10.0.0.2-11211", 1));
    refused(&mut stage, &adopt(FILE), 409, "a member 10.0.0.2-11211 at 10.0.0.1:11211");
    let mut stage = Stage::new(0);
    register(&mut stage, &member("mine", 1));
    assert_eq!(stage.apply(&adopt(FILE)).status, 200);
    stage.controller.tick(Now::at_ms(2000), UNIX_S);
    let (cluster, slot) = {
        let current = stage.controller.register.view().current().expect("a generation");
        let (cluster, slot) = current.content.slot_of(&"mine".parse().expect("a name")).expect("a slot");
        (cluster.name.to_string(), slot)
    };
    assert_eq!((cluster.as_str(), slot, members(&stage)), ("web", 0, SERVERS));
    let mine =
        stage.controller.register.view().inventory().get(&"mine".parse().expect("a name")).expect("a member");
    assert_eq!((mine.host.as_str(), mine.zone.as_str()), ("h9", "b"));
}

#[test]
fn what_cannot_be_adopted_is_refused_with_its_place() {
    let mut stage = stage();
    refused(&mut stage, &adopt("{\"route\": \"PoolRoute|web\"}"), 422, "expected `pools`, found none");
    let mut change = adopt(FILE);
    if let ChangeQuestion::Adopt(question) = &mut change {
        question.fleet = Some("other".parse().expect("a name"));
    }
    refused(&mut stage, &change, 422, "expected fleet f, which is this controller's, found other");
    assert_eq!((stage.controller.target(), members(&stage)), (None, 0));
}

#[test]
fn an_adopted_member_that_is_lost_is_replaced() {
    let mut stage = stage();
    assert_eq!(stage.apply(&adopt(FILE)).status, 200);
    stage.rounds(3);
    stage.agents.push(FakeAgent::new(9, "a"));
    let spare = member("m9", 9);
    register(&mut stage, &spare);
    suspect(&mut stage, &[]);
    stage.rounds(70);
    assert_eq!(stage.slots(), "10.0.0.4-11211 10.0.0.5-11211");
    stage.agents[3].is_gone = true;
    suspect(&mut stage, &["10.0.0.4:11211"]);
    stage.rounds(60);
    let status = stage.text(ControlQuestion::Status);
    assert_eq!(stage.slots(), "m9 10.0.0.5-11211", "{status}");
}
