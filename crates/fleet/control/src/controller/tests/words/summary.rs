//! The summary: a letter for each slot, sums of what is known, and what needs a person, the most urgent first.

use super::*;

impl Stage {
    fn summary(&mut self) -> Value {
        let reply = self.controller.answer(ControlQuestion::Summary, &owner());
        assert_eq!(reply.status, 200);
        serde_json::from_str(&reply.json).expect("JSON")
    }
}

/// Urgency and text of each entry.
fn needs(summary: &Value) -> Vec<(&str, &str)> {
    let needs = summary["needs"].as_array().expect("a list");
    needs
        .iter()
        .map(|need| (need["urgency"].as_str().expect("a word"), need["text"].as_str().expect("a text")))
        .collect()
}

#[test]
fn a_fleet_that_is_well_needs_nobody() {
    let mut stage = Stage::known(4);
    let summary = stage.summary();
    assert_eq!(needs(&summary), []);
    let cluster = &summary["clusters"][0];
    assert_eq!((cluster["name"].as_str(), cluster["slot_states"].as_str()), (Some("web"), Some("ss")));
    // No figures were heard, which is not none.
    assert_eq!(
        (&cluster["known"], &cluster["requests_per_s"], &cluster["skew"]),
        (&json!(0), &Value::Null, &Value::Null)
    );
    assert_eq!(summary["members"]["spare"], 2);
    assert_eq!(
        (&summary["zones"]["a"]["serving"], &summary["zones"]["b"]["members"]),
        (&json!(1), &json!(2))
    );
    assert_eq!((&summary["routers"]["current"], &summary["generation"]), (&json!(4), &json!(1)));
    // So a browser that has it already is not sent it again.
    stage.unix_s += 60;
    stage.rounds(60);
    assert_eq!(stage.summary(), summary, "nothing has changed but the time");
}

#[test]
fn a_fleet_without_a_generation_says_how_to_begin() {
    let mut stage = Stage::new(2);
    stage.rounds(2);
    let summary = stage.summary();
    assert_eq!(summary["clusters"], json!([]));
    assert_eq!(needs(&summary), [("soon", "There is no generation yet, so routers have nothing to read.")]);
    assert!(summary["needs"][0]["command"].as_str().expect("a command").starts_with("evenkeel control plan"));
}

#[test]
fn what_is_lost_comes_first_and_names_of_people_are_no_markup() {
    let mut stage = Stage::known(2);
    let scope = FreezeScope::Cluster("web".parse().expect("a name"));
    let why = "<b>power</b> works".to_owned();
    assert_eq!(stage.controller.answer(ControlQuestion::Freeze { scope, why }, &owner()).status, 200);
    stage.agents[1].is_gone = true;
    stage.rounds(2);
    let summary = stage.summary();
    assert_eq!(summary["clusters"][0]["slot_states"], "su", "its probe is missing");
    assert_eq!(needs(&summary)[0].0, "soon");
    stage.rounds(300);
    let summary = stage.summary();
    assert_eq!(summary["clusters"][0]["slot_states"], "sl");
    let found = needs(&summary);
    assert_eq!(found[0], ("now", "Server m2 is lost, and its slot (slot s1 of web) has no other one yet."));
    assert!(found.contains(&("note", "Nothing changes in cluster/web: <b>power</b> works.")), "{found:?}");
    assert!(found.iter().any(|(_, text)| text.contains("agent") && text.contains("h2")), "{found:?}");
    assert_eq!(summary["needs"][0]["about"], json!({"kind": "member", "id": "m2"}));
    assert_eq!(summary["needs"][0]["command"], "evenkeel control replace m2");
}

#[test]
fn a_router_that_refuses_its_routes_is_named() {
    let mut stage = Stage::known(4);
    stage.agents[2].report.routers[0].text = TextReport::Foreign;
    stage.rounds(2);
    let summary = stage.summary();
    assert_eq!(summary["routers"]["refusing"], 1, "{summary}");
    let found = needs(&summary);
    assert!(found.iter().any(|(_, text)| text.starts_with("1 router (r3) has refused")), "{found:?}");
}

#[test]
fn of_a_fleet_in_ruins_a_page_is_listed_and_the_rest_counted() {
    let mut stage = Stage::new(120);
    stage.rounds(3);
    let large = ChangeQuestion::Policy(Some(POLICY.replace("slots = 2", "slots = 120")));
    assert_eq!(stage.apply(&large).status, 200);
    stage.rounds(20);
    stage.agents.iter_mut().for_each(|agent| agent.is_gone = true);
    stage.rounds(2);
    let summary = stage.summary();
    let listed = needs(&summary).len();
    let left_out = summary["needs_left_out"].as_u64().expect("a count");
    assert!(listed == 50 && left_out >= 70, "{listed} and {left_out}");
    assert_eq!(summary["clusters"][0]["slot_states"].as_str().map(str::len), Some(120));
}
