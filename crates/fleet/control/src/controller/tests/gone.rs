//! Hosts that leave for good.

use super::*;
use crate::decisions::GoneHost;
use crate::decisions::gone::GONE_MAX;

fn remove_host(stage: &mut Stage, host: &str, why: Option<&str>) -> ApiReply {
    let remove_hosts = vec![host.parse().expect("a name")];
    let why = why.map(str::to_owned);
    let question = ControlQuestion::Members { members: Vec::new(), remove: Vec::new(), remove_hosts, why };
    stage.controller.answer(question, &owner())
}

#[track_caller]
fn check_refused(stage: &mut Stage, host: &str, status: u16, expected: &str) {
    let reply = remove_host(stage, host, Some("a test"));
    assert!(reply.status == status && reply.json.contains(expected), "{}: {}", reply.status, reply.json);
}

fn is_shown(stage: &mut Stage, name: &str) -> bool {
    stage.text(ControlQuestion::Status).lines().any(|line| line.split(' ').next() == Some(name))
}

#[test]
fn a_host_that_left_goes_with_its_members_and_its_agent_everywhere() {
    let mut stage = Stage::running(4);
    check_refused(&mut stage, "h3", 422, "the agent of h3 was heard 0 s ago");
    stage.agents[2].is_gone = true;
    let mut other = controller_at(&stage.register, &Arc::default(), "c2", stage.now_ms, UNIX_S);
    let mut report = stage.agents[2].report.clone();
    report.turn += 1;
    other.on_message(ControllerMessage::Turn(report), Now::at_ms(stage.now_ms), UNIX_S);
    stage.rounds(27);
    assert!(is_shown(&mut stage, "m3") && is_shown(&mut stage, "r3"));
    let plan = remove_host(&mut stage, "h3", None);
    assert!(plan.json.contains("m3 leaves") && plan.json.contains("h3 leaves"), "{}", plan.json);
    assert!(is_shown(&mut stage, "r3"), "it was only shown");
    assert_eq!(remove_host(&mut stage, "h3", Some("gone")).status, 200);
    stage.rounds(1);
    assert!(!is_shown(&mut stage, "m3") && !is_shown(&mut stage, "r3"));
    assert!(is_shown(&mut stage, "m4") && is_shown(&mut stage, "r4"));
    other.read();
    assert!(other.agents.hosts().next().is_none(), "the other controller has forgotten it, too");
    // A rollout goes on without its router.
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(6);
    assert!(stage.controller.rollout.is_rolled_out());
    // It is mended, and comes back.
    stage.agents[2].is_gone = false;
    stage.rounds(2);
    assert!(is_shown(&mut stage, "r3"));
    other.on_message(
        ControllerMessage::Turn(stage.agents[2].report.clone()),
        Now::at_ms(stage.now_ms),
        UNIX_S,
    );
    other.read();
    assert_eq!(other.agents.hosts().count(), 1, "what is known to have left does not leave once more");
}

#[test]
fn a_host_with_a_slot_stays_and_so_does_what_is_not_there() {
    let mut stage = Stage::running(4);
    stage.agents[0].is_gone = true;
    stage.rounds(27);
    check_refused(&mut stage, "h1", 422, "m1 has slot s0 of web");
    assert!(is_shown(&mut stage, "m1") && is_shown(&mut stage, "r1"));
    check_refused(&mut stage, "h9", 404, "there is no host h9");
}

#[test]
fn a_host_with_nothing_but_a_router_can_leave() {
    let mut stage = Stage::running(2);
    let mut agent = FakeAgent::new(9, "a");
    agent.report.members.clear();
    stage.message(ControllerMessage::Turn(agent.report));
    assert!(is_shown(&mut stage, "r9"));
    stage.rounds(27);
    assert_eq!(remove_host(&mut stage, "h9", Some("gone")).status, 200);
    assert!(!is_shown(&mut stage, "r9"));
}

#[test]
fn the_list_of_hosts_that_left_is_bounded_and_has_each_once() {
    let stage = Stage::new(1);
    let all = decisions(&stage.register);
    let gone = |number: usize| GoneHost { host: format!("h{number}").parse().expect("a name"), unix_s: 1 };
    let most: Vec<GoneHost> = (0..GONE_MAX).map(gone).collect();
    all.note_gone(&most).expect("an answer");
    all.note_gone(&[GoneHost { unix_s: 2, ..gone(5) }, gone(GONE_MAX)]).expect("an answer");
    let found = all.gone().expect("an answer");
    assert_eq!((found.len(), &found[0], &found[GONE_MAX - 1]), (GONE_MAX, &gone(1), &gone(GONE_MAX)));
    assert_eq!(found.iter().filter(|one| one.host.as_str() == "h5").count(), 1);
}

#[test]
fn the_status_says_what_is_silent_and_what_is_no_spare() {
    let mut stage = Stage::running(4);
    let line = |stage: &mut Stage, member: &str| {
        let text = stage.text(ControlQuestion::Status);
        text.lines().find(|line| line.starts_with(member)).expect("a line").to_owned()
    };
    assert!(line(&mut stage, "m3 ").contains(" spare "), "{}", line(&mut stage, "m3 "));
    stage.agents[2].is_gone = true;
    stage.agents[3].is_hung = true;
    stage.rounds(30);
    let (gone, hung) = (line(&mut stage, "m3 "), line(&mut stage, "m4 "));
    assert!(
        gone.contains("takes no slot now") && gone.contains("its agent is silent for 30 s; does not answer"),
        "{gone}"
    );
    assert!(!gone.contains("process"), "{gone}");
    // Pages wait for lines with ` spare `.
    assert!(!gone.contains(" spare ") && !hung.contains(" spare "), "{gone}\n{hung}");
    assert!(hung.contains("takes no slot now") && hung.contains("process 1; does not answer for"), "{hung}");
}

#[test]
fn states_of_members_are_words_and_figures_for_programs() {
    let mut stage = Stage::running(4);
    let words = |stage: &mut Stage| {
        let reply = stage.controller.answer(ControlQuestion::Status, &owner());
        let status: Value = serde_json::from_str(&reply.json).expect("JSON");
        let members = status["members"].as_array().expect("a list").clone();
        let words: Vec<String> =
            members.iter().map(|member| member["state_code"].as_str().expect("a word").to_owned()).collect();
        (words.join(" "), members, status["rollout_state"].clone())
    };
    let (before, members, rollout) = words(&mut stage);
    assert_eq!(before, "serving serving spare spare");
    assert!(
        members[0]["probe_us"].is_u64() && members[0]["pid"] == 1 && members[0]["next"].is_null(),
        "{}",
        members[0]
    );
    assert_eq!(
        (&rollout["state"], &rollout["have"], &rollout["of"]),
        (&json!("done"), &json!(4), &json!(4)),
        "{rollout}"
    );
    let figures = stage.controller.figures();
    assert_eq!((figures.members["serving"], figures.members["spare"], figures.routers["current"]), (2, 2, 4));
    assert_eq!(
        (figures.generation, figures.rollout, figures.agents),
        (Some(stage.target()), Some("done"), 4)
    );
    stage.agents[2].is_gone = true;
    stage.agents[3].is_hung = true;
    stage.rounds(30);
    assert_eq!(words(&mut stage).0, "serving serving unfit unfit");
    let figures = stage.controller.figures();
    assert_eq!((figures.silent_agents, figures.routers["silent"], figures.members["unfit"]), (1, 1, 2));
    assert!(figures.oldest_turn_ms >= Some(30_000) && figures.turns > 8, "{figures:?}");
}
