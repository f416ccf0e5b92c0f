//! Figures that agents tell with their turns: kept, shown, counted once, and forgotten.

use fleet::figures::{MemberTally, PoolTally, RouterPageTally, RouterTally};

use super::*;
use crate::service::questions::QuestionFault;

mod shadows;

/// What a server counts that has answered so many requests until this second.
fn tally(at_s: u64, requests: u64) -> MemberTally {
    let (hits, misses) = (Some(requests * 9 / 10), Some(requests / 10));
    let (used, limit) = (Some(50), Some(100));
    let (at_ms, requests) = (at_s * 1000, Some(requests));
    MemberTally {
        at_ms,
        pid: Some(1),
        requests,
        hits,
        misses,
        memory_used_bytes: used,
        memory_limit_bytes: limit,
        ..MemberTally::default()
    }
}

fn routed(at_s: u64, requests: u64) -> RouterTally {
    let pools = [("web".to_owned(), PoolTally::from([requests, requests / 100, 0]))].into();
    let (at_ms, uptime_ms) = (at_s * 1000, at_s * 1000);
    let page = RouterPageTally {
        at_ms,
        uptime_ms,
        pools,
        failovers: Some(requests / 100),
        shadows: Some((requests, 0)),
        ..RouterPageTally::default()
    };
    RouterTally {
        at_ms,
        pid: Some(1),
        requests: Some(requests),
        errors: Some(requests / 1000),
        page: Some(page),
    }
}

impl Stage {
    /// Fifteen seconds, in which each server answers 1,500 requests and each router 15,000.
    fn tell(&mut self) {
        self.rounds(14);
        let at_s = self.now_ms / 1000;
        for agent in &mut self.agents {
            agent.report.members[0].figures = Some(Box::new(tally(at_s, 100 * at_s)));
            agent.report.routers[0].figures = Some(Box::new(routed(at_s, 1000 * at_s)));
        }
        self.rounds(1);
    }

    fn reply(&mut self, question: ControlQuestion) -> ApiReply {
        self.controller.answer(question, &owner())
    }

    fn figures(&mut self, query: &str) -> Value {
        let question = asked(query).expect("a question");
        serde_json::from_str(&self.reply(question).json).expect("JSON")
    }
}

fn asked(query: &str) -> Result<ControlQuestion, QuestionFault> {
    let (method, peer) = (admin::api::ApiMethod::Get, admin::api::ApiPeer::Local);
    let query = Some(query.to_owned()).filter(|query| !query.is_empty());
    let request =
        admin::api::ApiRequest { method, path: "/v1/figures".to_owned(), query, body: Vec::new(), peer };
    crate::service::questions::question(&request)
}

#[test]
fn the_fullest_slot_of_a_cluster_is_in_the_summary() {
    let mut stage = Stage::known(4);
    let fullest = |stage: &mut Stage| {
        let reply = stage.reply(ControlQuestion::Summary);
        let summary: Value = serde_json::from_str(&reply.json).expect("JSON");
        summary["clusters"][0]["fullest_share"].clone()
    };
    assert_eq!(fullest(&mut stage), Value::Null, "nothing was told yet");
    stage.tell();
    assert_eq!(fullest(&mut stage), json!(0.5));
    stage.rounds(14);
    let mut fuller = tally(stage.now_ms / 1000, 100 * stage.now_ms / 1000);
    fuller.memory_used_bytes = Some(97);
    stage.agents[0].report.members[0].figures = Some(Box::new(fuller));
    stage.rounds(1);
    assert_eq!(fullest(&mut stage), json!(0.97), "the mean is less");
}

#[test]
fn the_latest_point_of_every_member_is_shown() {
    let mut stage = Stage::known(4);
    assert_eq!(stage.figures("")["servers"], json!([]));
    stage.agents[0].report.members[0].page = Some("10.0.0.1:9150".to_owned());
    stage.agents[1].report.routers[0].page = Some("10.0.0.2:9442".to_owned());
    (0..3).for_each(|_| stage.tell());
    let figures = stage.figures("");
    let pages = |rows: &Value| [0, 1].map(|row| rows[row]["page"].as_str().map(str::to_owned));
    assert_eq!(pages(&figures["servers"]), [Some("10.0.0.1:9150".to_owned()), None]);
    assert_eq!(pages(&figures["routers"]), [None, Some("10.0.0.2:9442".to_owned())]);
    assert_eq!(figures["controller"], stage.controller.settings.host.as_str());
    let names = |rows: &Value| -> Vec<String> {
        rows.as_array()
            .expect("rows")
            .iter()
            .map(|row| row["id"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names(&figures["servers"]), ["m1", "m2", "m3", "m4"]);
    assert_eq!(figures["routers"].as_array().expect("rows").len(), 4);
    let server = &figures["servers"][0];
    assert_eq!((&server["cluster"], &server["host"]), (&json!("web"), &json!("h1")));
    let point = &server["points"][0];
    assert_eq!((&point["requests_per_s"], &point["hit_ratio"]), (&json!(100.0), &json!(0.9)));
    assert_eq!(
        point["at_unix"],
        json!(figures["unix_s"].as_i64().expect("a time") - point["age_s"].as_i64().expect("an age"))
    );
    assert!(point.get("evictions_per_s").is_none(), "what is unknown is absent: {point}");
    let router = &figures["routers"][0]["points"][0];
    assert_eq!((&router["requests_per_s"], &router["availability"]), (&json!(1000.0), &json!(0.999)));
    let levels = &figures["levels"];
    assert_eq!((&levels[0]["view"], &levels[0]["pool"]), (&json!("main"), &json!(null)));
    assert_eq!(
        (&levels[0]["availability_5min"], &levels[1]["availability_24h"]),
        (&json!(0.999), &json!(0.99))
    );
    let share = levels[0]["failovers_1h"].as_f64().expect("it is known");
    assert!((share - 0.01).abs() < 1e-6 && levels[1]["failovers_1h"].is_null(), "{levels}");
    let text = figures["text"].as_str().expect("a text");
    for words in ["all requests", "99.9000 %", "m1 ", "90.00 %", "50.00 %"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn points_since_a_time_are_those_of_a_member_a_host_or_a_cluster() {
    let mut stage = Stage::known(4);
    (0..6).for_each(|_| stage.tell());
    let since = stage.unix_s - 40;
    let figures = stage.figures(&format!("member=m1&since={since}"));
    assert_eq!(figures["servers"].as_array().expect("rows").len(), 1);
    assert_eq!(figures["servers"][0]["points"].as_array().expect("points").len(), 3);
    assert_eq!(figures["levels"], json!([]));
    let count = |figures: &Value, kind: &str| figures[kind].as_array().expect("rows").len();
    let host = stage.figures("host=h2");
    assert_eq!((count(&host, "servers"), count(&host, "routers")), (1, 1));
    let cluster = stage.figures("cluster=web");
    assert_eq!((count(&cluster, "servers"), count(&cluster, "routers")), (2, 0));
    assert_eq!(count(&stage.figures("member=r3"), "routers"), 1);
    assert_eq!(count(&stage.figures(&format!("since={}", stage.unix_s + 100)), "servers"), 4);
}

#[test]
fn a_question_that_cannot_be_answered_says_why() {
    let mut stage = Stage::known(2);
    let error =
        |stage: &mut Stage, query: &str| stage.figures(query)["error"].as_str().expect("an error").to_owned();
    assert!(error(&mut stage, "member=m1").starts_with("nothing was heard of m1 yet"));
    assert_eq!(error(&mut stage, "host=h9"), "there is no host h9");
    assert_eq!(error(&mut stage, "cluster=wab"), "there is no cluster wab");
    assert_eq!(error(&mut stage, "member=m9"), "there is no server or router m9");
    for (query, expected) in [
        ("member=m1&host=h1", "expected one of member, host, cluster and of, found several"),
        ("since=yesterday", "since: expected seconds since 1970, found \"yesterday\""),
        ("since=-1", "since: expected seconds since 1970, found \"-1\""),
        ("router=r1", "expected member or host or cluster or of or since, found \"router\""),
        ("cluster=%2e", "the cluster \".\" is not"),
    ] {
        let error = asked(query).expect_err("refused").error;
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn points_of_a_whole_large_fleet_are_refused_before_they_are_written() {
    let mut stage = Stage::new(150);
    for turn in 1..=120 {
        let (at_s, boot) = (turn * 15, 1);
        let heard = ::fleet::figures::HeardTurn { boot, now: Now::at_ms(at_s * 1000) };
        let figures = stage.controller.agents.figures_for_tests();
        (1..=150).for_each(|number| figures.hear_for_tests(&format!("m{number}"), tally(at_s, at_s), heard));
    }
    let error = stage.figures("since=0")["error"].as_str().expect("an error").to_owned();
    assert_eq!(error, "expected 15360 points at most, found 18000");
    assert_eq!(stage.figures("")["servers"].as_array().expect("rows").len(), 150);
}

#[test]
fn a_turn_that_was_passed_on_counts_once() {
    let mut stage = Stage::known(2);
    (0..3).for_each(|_| stage.tell());
    let sums = |stage: &Stage| stage.controller.agents.figures().book().clusters().clone();
    let before = sums(&stage);
    assert_eq!(before[&"web".parse().expect("a name")].requests, 6000);
    let mut late = stage.agents[0].report.clone();
    stage.controller.on_turn(late.clone(), false);
    late.turn -= 1;
    stage.controller.on_turn(late.clone(), false);
    assert_eq!(sums(&stage), before);
    // Another controller has heard the next one.
    late.turn += 2;
    let at_s = stage.now_ms / 1000 + 14;
    stage.now_ms += 15_000;
    late.members[0].figures = Some(Box::new(tally(at_s, 100 * at_s)));
    stage.controller.now = Now::at_ms(stage.now_ms);
    stage.controller.on_turn(late, false);
    assert_eq!(sums(&stage)[&"web".parse().expect("a name")].requests, 7500);
}

#[test]
fn figures_are_passed_on_with_the_turn_and_are_not_kept_in_it() {
    let mut stage = Stage::known(2);
    let outbox = Arc::new(LivenessOutbox::default());
    stage.controller.peers.tell(vec![Arc::clone(&outbox)]);
    stage.tell();
    let told = outbox.take(&"c1".parse().expect("a name"), &"a".parse().expect("a name"));
    assert_eq!(told.turns.len(), 2);
    assert!(
        told.turns.iter().all(|turn| turn.members[0].figures.is_some() && turn.routers[0].figures.is_some())
    );
    assert!(stage.controller.agents.members().all(|member| member.figures.is_none()));
    assert!(stage.controller.agents.routers().all(|router| router.figures.is_none()));
}

#[test]
fn what_the_agent_of_another_host_says_of_a_server_does_not_count() {
    let mut stage = Stage::known(2);
    let mut lie = stage.agents[0].report.members[0].clone();
    lie.member = "m2".parse().expect("a name");
    lie.figures = Some(Box::new(tally(100, 5)));
    stage.agents[0].report.members.push(lie);
    stage.rounds(1);
    assert!(stage.controller.agents.figures().book().server(&"m2".parse().expect("a name")).is_none());
}

#[test]
fn figures_of_a_member_and_a_router_that_leave_are_forgotten() {
    let mut stage = Stage::known(4);
    (0..2).for_each(|_| stage.tell());
    assert_eq!(stage.controller.agents.figures().book().known(), (4, 4));
    stage.agents[3].is_gone = true;
    stage.rounds(27);
    let (members, remove, why) = (Vec::new(), Vec::new(), Some("it has left".to_owned()));
    let remove_hosts = vec!["h4".parse().expect("a name")];
    assert_eq!(stage.reply(ControlQuestion::Members { members, remove, remove_hosts, why }).status, 200);
    stage.rounds(61);
    assert_eq!(stage.controller.agents.figures().book().known(), (3, 3));
}

#[test]
fn the_status_has_a_few_figures_of_each_member() {
    let mut stage = Stage::known(2);
    (0..2).for_each(|_| stage.tell());
    let status: Value = serde_json::from_str(&stage.reply(ControlQuestion::Status).json).expect("JSON");
    let figures = &status["members"][0]["figures"];
    assert_eq!((&figures["requests_per_s"], &figures["memory_share"]), (&json!(100.0), &json!(0.5)));
    assert!(figures.get("service_p99_us").is_none());
}

#[test]
fn metrics_are_of_clusters_and_views_and_not_of_members() {
    let mut stage = Stage::known(2);
    (0..3).for_each(|_| stage.tell());
    let (service, _messages) =
        crate::service::ControlService::new(Arc::default(), fleet(), Arc::new(|_, _: &str| {}));
    let shared = crate::service::pages::SharedFigures::default();
    shared.set(stage.controller.figures());
    let text = admin::Source::metrics(&crate::service::pages::ControllerPages::new(shared, service));
    stdx::exposition::read(&text).expect("Prometheus reads it");
    for line in [
        "evenkeel_control_figures_members{kind=\"server\"} 2",
        "evenkeel_control_cluster_requests_total{cluster=\"web\"} 6000",
        "evenkeel_control_cluster_hits_total{cluster=\"web\"} 5400",
        "evenkeel_control_view_requests_total{view=\"main\"} 60000",
        "evenkeel_control_view_errors_total{view=\"main\"} 60",
        "evenkeel_control_view_availability{view=\"main\"} 0.999",
        "evenkeel_control_pool_requests_total{view=\"main\",pool=\"web\"} 60000",
        "evenkeel_control_pool_errors_total{view=\"main\",pool=\"web\"} 600",
        "evenkeel_control_shadow_compared_total{view=\"main\"} 60000",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("\"m1\"") && !text.contains("\"r1\""));
}
