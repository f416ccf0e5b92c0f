//! Shadows: planned in words, published as other routes, and reported over all routers.

use ::fleet::figures::shadow::ShadowTally;
use ::fleet::rollout::RolloutLane;

use super::*;
use crate::service::questions::ShadowsQuestion;

const WITH_SHADOW: &str = "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\n[[cluster]]\nname = \"new\"\nslots = 1\n\
     [[shadow]]\nfrom = \"web\"\nto = \"new\"\nkeys = [0, 0.5]\ncompare = 1\n\
     [[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n";

fn shadowed(text: &str) -> ChangeQuestion {
    ChangeQuestion::Policy(Some(text.to_owned()))
}

fn steps(plan: &Value) -> Vec<String> {
    let steps = plan["steps"].as_array().unwrap_or_else(|| panic!("no steps: {plan}"));
    steps.iter().map(|step| step.as_str().expect("a text").to_owned()).collect()
}

impl Stage {
    /// A fleet of four hosts whose routers have a shadow.
    fn with_shadow() -> Stage {
        let mut stage = Stage::known(4);
        let reply = stage.apply(&shadowed(WITH_SHADOW));
        assert_eq!(reply.status, 200, "{}", reply.json);
        stage.rounds(5);
        stage
    }

    /// Fifteen seconds, in which the first routers compare so many requests more; of these a hundredth differs.
    fn compare(&mut self, routers: usize, compared: u64) {
        self.rounds(14);
        let at_s = self.now_ms / 1000;
        for agent in &mut self.agents[..routers] {
            let mut tally = routed(at_s, 1000 * at_s);
            let shadow = ShadowTally {
                loads: 3,
                compared,
                other_values: compared / 100,
                hits: [compared, compared],
                times: vec![(9, compared, 0), (11, 0, compared)],
                ..ShadowTally::default()
            };
            let page = tally.page.as_mut().expect("a page");
            page.compared = [("web->new".to_owned(), shadow)].into();
            agent.report.routers[0].figures = Some(Box::new(tally));
        }
        self.rounds(1);
    }

    fn shadows(&mut self, cluster: Option<&str>, gate: Option<&str>) -> Value {
        let cluster = cluster.map(|name| name.parse().expect("a name"));
        let gate = gate.map(|gate| gate.parse().expect("a gate"));
        let question = ControlQuestion::Shadows(ShadowsQuestion { cluster, within_s: 600, gate });
        serde_json::from_str(&self.reply(question).json).expect("JSON")
    }
}

#[test]
fn a_shadow_is_planned_in_words_goes_out_as_other_routes_and_moves_no_key() {
    let mut stage = Stage::known(4);
    let plan = stage.plan(&shadowed(WITH_SHADOW));
    let said = "cluster web: a shadow: new gets 0.5 of the requests of web more, and all of these replies is compared";
    assert!(steps(&plan).contains(&said.to_owned()), "{plan}");
    assert!(
        plan["text"].as_str().expect("a text").contains("none of 5000 sampled keys changes its server"),
        "{plan}"
    );
    let batch =
        WITH_SHADOW.to_owned() + "[[view]]\nname = \"batch\"\nroutes = '{\"route\": \"PoolRoute|web\"}'\n";
    let uncopied = "view batch: names the pool web and not the handle: its requests are not copied to new";
    assert!(steps(&stage.plan(&shadowed(&batch))).contains(&uncopied.to_owned()));
    let before = stage.controller.register.view().content();
    for text in [WITH_SHADOW.to_owned(), WITH_SHADOW.replace("[0, 0.5]", "[0, 1]")] {
        assert_eq!(stage.apply(&shadowed(&text)).status, 200);
        assert_eq!(stage.controller.rollout.lane(), Some(RolloutLane::Routes));
        stage.rounds(2400);
    }
    let with = stage.controller.register.view().content();
    // A replacement keeps it, and is a change of slots.
    let member = "m1".parse().expect("a name");
    let replaced = ChangeQuestion::Requests(vec![ChangeRequest::Replace { member, by: None, now: true }]);
    assert_eq!(stage.apply(&replaced).status, 200);
    assert_eq!(stage.controller.rollout.lane(), Some(RolloutLane::SlotChange));
    assert!(stage.controller.register.view().content().clusters[0].shadow.is_some());
    let diff = answers::documents::differences(&with, &before);
    assert!(diff.contains(&"cluster new: goes".to_owned()), "{diff:?}");
    assert!(diff.contains(&"cluster web: no shadow any more: new gets no copies".to_owned()), "{diff:?}");
}

#[test]
fn a_report_sums_what_all_routers_have_compared() {
    let mut stage = Stage::with_shadow();
    let nothing = stage.shadows(None, None);
    assert_eq!(nothing["shadows"][0]["found"], json!(null), "{nothing}");
    assert_eq!(nothing["shadows"][0]["routers_reading"], json!(4));
    assert!(
        nothing["text"]
            .as_str()
            .expect("a text")
            .contains("0 of 4 routers tell what they compare\n  nothing is known")
    );
    stage.compare(3, 1000);
    stage.compare(3, 2000);
    stage.compare(3, 4000);
    let report = stage.shadows(Some("new"), None);
    let row = &report["shadows"][0];
    assert_eq!(
        (&row["shadow"], &row["more_requests"], &row["routers_telling"]),
        (&json!("web->new"), &json!(0.5), &json!(3))
    );
    let found = &row["found"];
    assert_eq!(
        (&found["compared"], &found["differed"], &found["other_values"]),
        (&json!(9000), &json!(90), &json!(90))
    );
    assert_eq!(found["differed_share"], json!(0.01));
    let p50 = |side: &str| found[side]["p50"].as_f64().expect("a time");
    assert!(p50("shadow_us") > p50("normal_us"), "{found}");
    let text = report["text"].as_str().expect("a text");
    assert!(
        text.contains("9000 replies compared in the last") && text.contains("90 differ (1.000 %)"),
        "{text}"
    );
    // A router that goes silent does not tell any more, and what it has told stays.
    stage.rounds(130);
    let later = stage.shadows(None, None);
    assert_eq!(
        (&later["shadows"][0]["routers_telling"], &later["shadows"][0]["found"]["compared"]),
        (&json!(0), &json!(9000))
    );
    assert_eq!(stage.shadows(Some("wab"), None)["error"], json!("there is no cluster wab"));
}

#[test]
fn a_gate_says_what_is_missing_and_what_is_wrong() {
    let mut stage = Stage::with_shadow();
    let state = |stage: &mut Stage, gate: &str| {
        let answer = stage.shadows(None, Some(gate));
        let state =
            |field: &str| answer["gate"][field].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        (state("state"), state("why"))
    };
    let loose = "shadow:web->new,samples=5000,differ=0.02,slower=1";
    assert_eq!(state(&mut stage, loose).0, "not yet");
    assert_eq!(state(&mut stage, "shadow:new->web").1, "the policy in force has no shadow new->web");
    stage.compare(2, 0);
    stage.compare(2, 2000);
    assert_eq!(state(&mut stage, loose).1, "4000 of 5000 samples in the last 30 min");
    stage.compare(2, 4000);
    assert_eq!(state(&mut stage, loose).0, "fulfilled");
    let (word, why) = state(&mut stage, "shadow:web->new,samples=5000");
    assert!(word == "missed" && why.contains("at most 0.1 % is accepted"), "{why}");
    let (word, why) = state(&mut stage, "shadow:web->new,samples=5000,differ=0.02");
    assert!(word == "missed" && why.contains("replies of new take longer than those of web"), "{why}");
    // Another shadow by the same name has proven nothing yet.
    let half = WITH_SHADOW.replace("[0, 0.5]", "[0, 0.25]");
    assert_eq!(stage.apply(&shadowed(&half)).status, 200);
    assert_eq!(state(&mut stage, loose).0, "not yet");
}

#[test]
fn questions_about_shadows_are_checked() {
    let asked = |query: &str| {
        let (method, peer) = (admin::api::ApiMethod::Get, admin::api::ApiPeer::Local);
        let path = "/v1/shadows".to_owned();
        let request =
            admin::api::ApiRequest { method, path, query: Some(query.to_owned()), body: Vec::new(), peer };
        crate::service::questions::question(&request).map_err(|fault| fault.error)
    };
    assert!(asked("cluster=web&within=60&gate=shadow%3Aweb-%3Enew").is_ok());
    for (query, expected) in [
        ("within=59", "within: expected 60 to 7200 seconds, found \"59\""),
        ("gate=x", "expected shadow:FROM->TO"),
        ("since=5", "expected cluster or within or gate, found \"since\""),
    ] {
        let error = asked(query).expect_err("it is refused");
        assert!(error.starts_with(expected), "{error}");
    }
}
