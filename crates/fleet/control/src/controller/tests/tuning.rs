//! Tuning of hosts: what agents answer reaches those who ask, at every controller, and nothing of it outlives its time.

mod changes;
mod standards;

use fleet::TuneAskId;
use fleet::figures::MemberTally;
use fleet::tuning::{AnswerDigest, FindingSeverity, HostCheck, HostFacts, HostPlan, TuningState};

use super::*;
use crate::controller::observing::agents::Agents;
use crate::controller::tuning::FleetTuning;
use crate::liveness::LivenessOutbox;
use crate::service::turn::{
    ASKS_MAX, PlanReport, PlanWish, TuneAnswer, TuneBody, TuneOrders, TuneReport, TuneWhat, answer_digest,
};

/// A tuner beside an agent.
#[derive(Clone)]
pub(super) struct FakeTuner {
    /// What the host is.
    kernel: &'static str,
    /// What a profile would set.
    wanted: &'static str,
    /// What its tuner finds.
    rule: &'static str,
    /// How bad that is.
    severity: &'static str,
    texts: BTreeMap<AnswerDigest, String>,
    /// How many texts it was asked for.
    sent: usize,
}

impl FakeTuner {
    pub(super) fn new(kernel: &'static str, wanted: &'static str) -> FakeTuner {
        FakeTuner {
            kernel,
            wanted,
            rule: "swappiness-high",
            severity: "note",
            texts: BTreeMap::new(),
            sent: 0,
        }
    }

    fn keep(&mut self, body: TuneBody) -> AnswerDigest {
        let (digest, text) = body.text();
        self.texts.insert(digest.clone(), text);
        digest
    }

    fn facts(&mut self) -> Option<AnswerDigest> {
        Some(self.keep(TuneBody::Facts(HostFacts {
            kernel: self.kernel.to_owned(),
            cpus: "0-3".to_owned(),
            ..HostFacts::default()
        })))
    }

    pub(super) fn look(&mut self) -> TuneAnswer {
        let finding = json!({
            "rule": self.rule, "severity": self.severity, "subject": "vm", "cause": "c", "verdict": "fixable", "consequences": [],
        });
        let json = json!({"window_s": 1.0, "findings": [finding]});
        let check = HostCheck::read(&json, TuningState::default()).expect("a check").check;
        let (body, facts) = (self.keep(TuneBody::Check(check)), self.facts());
        TuneAnswer::Done { body, facts, own: None, age_s: 60 }
    }

    fn plan(&mut self) -> TuneAnswer {
        let setting = json!({"file": {"path": "/proc/sys/vm/swappiness", "holds": "number"}});
        let change = json!({
            "stage": "sysctl", "setting": setting, "now": "60", "wanted": self.wanted, "why": "w", "asked_by": "profile memcached",
            "risk": "low",
        });
        let read = HostPlan::read(&json!({"changes": [change]})).expect("a plan");
        let own = format!("{}{}", read.own, self.kernel);
        let plan = HostPlan { form: Some(answer_digest(read.form.as_bytes())), ..read.plan };
        let (body, facts) = (self.keep(TuneBody::Plan(plan)), self.facts());
        TuneAnswer::Done { body, facts, own: Some(answer_digest(own.as_bytes())), age_s: 1 }
    }

    pub(super) fn obey(&mut self, orders: Option<TuneOrders>, report: &mut TuneReport) {
        let orders = orders.unwrap_or_default();
        for ask in orders.asks {
            match ask.what {
                TuneWhat::Check if !report.asked.contains(&ask.id) => report.asked.push(ask.id),
                TuneWhat::Plan(_) if !report.plans.iter().any(|plan| plan.ask == ask.id) => {
                    report.plans.push(PlanReport { ask: ask.id, answer: self.plan() });
                }
                _ => {}
            }
        }
        report.bodies = orders.lacks.iter().filter_map(|digest| self.texts.get(digest).cloned()).collect();
        self.sent += report.bodies.len();
    }
}

pub(super) fn saying(check: TuneAnswer) -> TuneReport {
    TuneReport { check, asked: Vec::new(), plans: Vec::new(), bodies: Vec::new(), uid: 0 }
}

/// A turn of an agent with a tuner.
fn turn(stage: &mut Stage, at: usize, tuner: &mut FakeTuner) {
    stage.agents[at].report.turn += 1;
    let report = stage.agents[at].report.clone();
    stage.message(ControllerMessage::Turn(report.clone()));
    stage.controller.tick(Now::at_ms(stage.now_ms), stage.unix_s);
    let orders = stage.runtime.block_on(stage.seats.answer(&report, Duration::ZERO)).expect("a seat");
    stage.agents[at].obey(orders.clone());
    let tune = stage.agents[at].report.tune.as_mut().expect("it has a tuner");
    tuner.obey(orders.tune, tune);
}

fn asked(stage: &mut Stage, question: ControlQuestion) -> (u16, Value) {
    answered(&mut stage.controller, question)
}

fn answered(controller: &mut Controller, question: ControlQuestion) -> (u16, Value) {
    let reply = controller.answer(question, &owner());
    (reply.status, serde_json::from_str(&reply.json).expect("JSON"))
}

fn check(scope: &str) -> ControlQuestion {
    ControlQuestion::TuneCheck { scope: scope.parse().expect("a scope") }
}

fn ask(scope: &str, what: TuneWhat) -> ControlQuestion {
    ControlQuestion::TuneAsk { scope: scope.parse().expect("a scope"), what }
}

fn plan(scope: &str) -> ControlQuestion {
    ask(scope, TuneWhat::Plan(PlanWish::Profile("memcached".to_owned())))
}

fn id_of(json: &Value) -> TuneAskId {
    json["id"].as_str().unwrap_or_else(|| panic!("no question: {json}")).parse().expect("a name")
}

fn missing(json: &Value) -> Vec<String> {
    let words = |one: &Value| {
        let hosts: Vec<&str> =
            one["hosts"].as_array().expect("hosts").iter().filter_map(Value::as_str).collect();
        format!("{} {}", one["cause"].as_str().expect("a word"), hosts.join(" "))
    };
    json["missing"].as_array().unwrap_or_else(|| panic!("{json}")).iter().map(words).collect()
}

#[test]
fn every_host_has_findings_or_a_cause_why_not() {
    let mut stage = Stage::new(7);
    let mut tuner = FakeTuner::new("6.1", "10");
    // h7 has no agent; h6 falls silent; h5 is of an older version.
    stage.agents[6].is_gone = true;
    let failed = TuneAnswer::Failed { why: "no disk".to_owned(), age_s: 1 };
    let says = [tuner.look(), TuneAnswer::NotAllowed, TuneAnswer::Waiting, failed];
    for (at, answer) in says.into_iter().enumerate() {
        stage.agents[at].report.tune = Some(saying(answer));
    }
    stage.agents[5].report.tune = Some(saying(TuneAnswer::Waiting));
    stage.rounds(1);
    stage.agents[5].is_gone = true;
    let (status, json) = asked(&mut stage, check("all"));
    assert_eq!((status, &json["answered"]), (200, &json!(0)));
    assert!(missing(&json).contains(&"on_its_way h1".to_owned()), "{json}");
    turn(&mut stage, 0, &mut tuner);
    assert_eq!(tuner.sent, 2, "findings and facts");
    turn(&mut stage, 0, &mut tuner);
    assert_eq!(tuner.sent, 2, "they are asked for once");
    stage.rounds(60);
    let (_, json) = asked(&mut stage, check("all"));
    let expected =
        ["no_agent h7", "silent h6", "older_agent h5", "not_allowed h2", "waiting h3", "failed h4"];
    assert_eq!(missing(&json), expected);
    let row = &json["rows"][0];
    assert_eq!((&row["rule"], &row["hosts"], &row["of"]), (&json!("swappiness-high"), &json!(1), &json!(1)));
    let figures = stage.controller.figures().tune;
    assert_eq!(figures.findings, [(("swappiness-high".to_owned(), FindingSeverity::Note), 1)]);
    assert_eq!((figures.hosts["given"], figures.hosts["silent"], figures.hosts["on_its_way"]), (1, 1, 0));
    assert_eq!((figures.hosts.len(), figures.oldest_s), (8, Some(60)));
    let text = json["text"].as_str().expect("a text");
    assert!(text.contains("it failed: no disk") && text.contains("Linux 6.1"), "{text}");
    // A scope without a host says so, and one of a single host counts no other.
    assert_eq!(asked(&mut stage, check("host=h9")).0, 422);
    assert_eq!(missing(&asked(&mut stage, check("host=h2")).1), ["not_allowed h2"]);
}

#[test]
fn a_critical_finding_needs_somebody() {
    let mut stage = Stage::known(3);
    let needs = |stage: &mut Stage| asked(stage, ControlQuestion::Summary).1["needs"].clone();
    for severity in ["warning", "critical"] {
        let mut tuner = FakeTuner { severity, ..FakeTuner::new("6.1", "10") };
        for at in 0..2 {
            stage.agents[at].report.tune = Some(saying(tuner.look()));
        }
        for _ in 0..2 {
            (0..2).for_each(|at| turn(&mut stage, at, &mut tuner));
        }
        if severity == "warning" {
            assert_eq!(needs(&mut stage), json!([]));
        }
    }
    let expected = json!([{
        "urgency": "soon", "about": {"kind": "host", "id": "h1"}, "text": "The tuner finds swappiness-high at 2 hosts (h1, h2): vm: c.",
        "command": "evenkeel control tune check --hosts host=h1",
    }]);
    assert_eq!(needs(&mut stage), expected);
}

#[test]
fn an_allowance_that_was_used_up_and_cpus_above_their_headroom_are_told() {
    let mut stage = Stage::known(3);
    let mut tuner =
        FakeTuner { rule: "allowance-exceeded", severity: "warning", ..FakeTuner::new("6.1", "10") };
    for at in 0..2 {
        stage.agents[at].report.tune = Some(saying(tuner.look()));
    }
    for _ in 0..2 {
        (0..2).for_each(|at| turn(&mut stage, at, &mut tuner));
    }
    let texts = |stage: &mut Stage| -> Vec<String> {
        let needs = asked(stage, ControlQuestion::Summary).1["needs"].clone();
        let texts = needs
            .as_array()
            .expect("a list")
            .iter()
            .map(|need| need["text"].as_str().expect("a text").to_owned());
        texts.collect()
    };
    let met = "The tuner finds allowance-exceeded at 2 hosts (h1, h2): vm: c.".to_owned();
    assert_eq!(texts(&mut stage), [met.as_str()]);
    let tell = |stage: &mut Stage, cpus: [u64; 3], count: usize| {
        for _ in 0..count {
            stage.rounds(15);
            let at_ms = stage.now_ms;
            for (at, cpus) in cpus.into_iter().enumerate() {
                let tally = &mut stage.agents[at].report.members[0].figures;
                let before = tally.as_ref().and_then(|tally| tally.cpu_ms).unwrap_or(0);
                let cpu_ms = Some(before + cpus * 15 * 100);
                *tally =
                    Some(Box::new(MemberTally { at_ms, pid: Some(1), cpu_ms, ..MemberTally::default() }));
            }
            stage.rounds(1);
        }
    };
    // Tenths of a CPU; each of the hosts that say what they are has four. The third does not say it.
    tell(&mut stage, [30, 20, 39], 5);
    assert_eq!(texts(&mut stage), [met.as_str()], "a minute is too short");
    tell(&mut stage, [30, 20, 39], 45);
    let found = texts(&mut stage);
    let [first, second] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(*first, met);
    assert!(second.starts_with("Servers use more CPU than is planned on 1 host (h1): 7"), "{second}");
    assert!(second.contains(" % of the CPUs of h1 in the last ten minutes, and 60 % leave room"), "{second}");
    let status = asked(&mut stage, ControlQuestion::Status).1;
    assert_eq!(status["resources"].as_array().map(Vec::len), Some(2), "{status}");
    let text = status["text"].as_str().expect("a text");
    assert!(
        text.contains("servers use more CPU than is planned on 1 host (h1)")
            && text.contains("c: 2 hosts (h1, h2)"),
        "{text}"
    );
    tell(&mut stage, [10, 10, 39], 45);
    assert_eq!(texts(&mut stage), [met], "it is over");
}

#[test]
fn equal_plans_are_a_group_and_the_plan_has_a_name_that_changes_with_a_host() {
    let mut stage = Stage::running(4);
    let mut tuners = ["10", "10", "10", "1"].map(|wanted| FakeTuner::new("6.1", wanted));
    for at in 0..4 {
        stage.agents[at].report.tune = Some(saying(TuneAnswer::NotAllowed));
    }
    let planned = |stage: &mut Stage, tuners: &mut [FakeTuner]| {
        let (status, json) = asked(stage, plan("all"));
        assert_eq!((status, &json["hosts"]), (200, &json!(4)), "{json}");
        let id = id_of(&json);
        for _ in 0..3 {
            (0..4).for_each(|at| turn(stage, at, &mut tuners[at]));
        }
        assert_eq!(asked(stage, ControlQuestion::TuneAsked(id.clone())).1["waiting"], 0);
        (id.clone(), asked(stage, ControlQuestion::TunePlan(id)).1)
    };
    let (id, first) = planned(&mut stage, &mut tuners);
    let hosts = |group: &Value| group["hosts"].as_array().expect("hosts").len();
    let groups = first["groups"].as_array().expect("groups");
    assert_eq!(groups.iter().map(hosts).collect::<Vec<_>>(), [3, 1], "{first}");
    // h1 has a slot, and the spare h3 is in another zone than h2.
    assert_eq!((&groups[0]["pairs"], &first["planned"]), (&json!(0), &json!(4)));
    let (_, again) = planned(&mut stage, &mut tuners);
    assert_eq!(again["plan"], first["plan"], "nothing has changed");
    tuners[1].kernel = "6.6";
    let (_, other) = planned(&mut stage, &mut tuners);
    assert_ne!(other["plan"], first["plan"], "one host has another kernel");
    assert_eq!(other["groups"].as_array().expect("groups").len(), 2, "and its plan is equal still");
    // It is kept for an hour.
    assert_eq!(asked(&mut stage, ControlQuestion::TunePlan(id.clone())).1["plan"], first["plan"]);
    stage.now_ms += 3_600_000;
    stage.rounds(1);
    let (status, json) = asked(&mut stage, ControlQuestion::TunePlan(id));
    assert_eq!(status, 404, "{json}");
}

#[test]
fn hosts_that_are_asked_to_look_again_are_waited_for_until_they_have() {
    let mut stage = Stage::new(2);
    let mut tuners = [FakeTuner::new("6.1", "10"), FakeTuner::new("6.1", "10")];
    for (at, tuner) in tuners.iter_mut().enumerate() {
        stage.agents[at].report.tune = Some(saying(tuner.look()));
    }
    (0..2).for_each(|_| (0..2).for_each(|at| turn(&mut stage, at, &mut tuners[at])));
    assert_eq!(asked(&mut stage, check("all")).1["answered"], 2);
    let (_, json) = asked(&mut stage, ask("host=h1", TuneWhat::Check));
    let id = id_of(&json);
    let waiting =
        |stage: &mut Stage| asked(stage, ControlQuestion::TuneAsked(id.clone())).1["waiting"].clone();
    assert_eq!(waiting(&mut stage), 1, "what it has found before is no answer");
    turn(&mut stage, 1, &mut tuners[1]);
    assert_eq!(stage.agents[1].report.tune.as_ref().map(|tune| tune.asked.len()), Some(0), "h2 is not asked");
    (0..2).for_each(|_| turn(&mut stage, 0, &mut tuners[0]));
    assert_eq!(waiting(&mut stage), 0);
}

#[test]
fn a_further_question_takes_the_place_of_the_oldest_when_hosts_have_had_time_for_that() {
    let mut stage = Stage::new(1);
    stage.rounds(1);
    let ids: Vec<String> = (0..ASKS_MAX)
        .map(|_| {
            stage.now_ms += 1000;
            stage.rounds(1);
            let (status, json) = asked(&mut stage, plan("all"));
            assert_eq!(status, 200, "{json}");
            json["id"].as_str().expect("a name").to_owned()
        })
        .collect();
    let (status, json) = asked(&mut stage, plan("all"));
    let error = json["error"].as_str().expect("an error");
    assert!(
        status == 422
            && error
                .starts_with("8 questions were asked in the last 5 min, which is the most; ask again in "),
        "{error}"
    );
    stage.now_ms += 300_000;
    stage.rounds(1);
    assert_eq!(asked(&mut stage, plan("all")).0, 200);
    let mut is_open =
        |id: &str| asked(&mut stage, ControlQuestion::TuneAsked(id.parse().expect("a name"))).0 == 200;
    assert_eq!([is_open(&ids[0]), is_open(&ids[1])], [false, true]);
}

#[test]
fn a_question_of_a_controller_that_has_room_is_followed_by_one_that_has_none() {
    let ask = |tuning: &mut FleetTuning, controller: &str, at_ms: u64| {
        let what = TuneWhat::Plan(PlanWish::Profile("memcached".to_owned()));
        let controller = controller.parse().expect("a name");
        tuning.ask(what, "all".to_owned(), BTreeSet::new(), (&controller, 1, Now::at_ms(at_ms)))
    };
    let (mut full, mut begun) = (FleetTuning::default(), FleetTuning::default());
    let first = ask(&mut full, "c1", 1).expect("there is room");
    (2..=ASKS_MAX as u64).for_each(|at_ms| drop(ask(&mut full, "c1", at_ms).expect("there is room")));
    let asked = ask(&mut begun, "c2", 100).expect("there is room");
    assert!(full.follow(asked.clone(), Now::at_ms(100)));
    assert!(full.get(&asked.ask.id).is_some() && full.get(&first.ask.id).is_none());
}

#[test]
fn texts_are_kept_as_long_as_an_answer_names_them() {
    let mut tuning = FleetTuning::default();
    let mut tuner = FakeTuner::new("6.1", "10");
    let mut report = FakeAgent::new(1, "a").report;
    let answer = tuner.look();
    let named: Vec<AnswerDigest> = answer.named().cloned().collect();
    report.tune = Some(saying(answer));
    let bodies: Vec<String> = tuner.texts.values().cloned().chain(["{}".to_owned()]).collect();
    let tune = |report: &mut TurnReport| report.tune.as_mut().map(|tune| std::mem::take(&mut tune.bodies));
    report.tune.as_mut().expect("it is there").bodies = bodies;
    tuning.hear(&mut report);
    assert_eq!(tune(&mut report), Some(Vec::new()), "what an agent has said is not kept twice");
    assert!(named.iter().all(|digest| tuning.text(digest).is_some()));
    assert!(tuning.text(&answer_digest(b"{}")).is_none(), "nobody has named it");
    assert_eq!(tuning.orders(&report), None);
    // Its agent is forgotten.
    tuning.sweep(&Agents::new(Now::at_ms(0)), Now::at_ms(0));
    assert!(named.iter().all(|digest| tuning.text(digest).is_none()));
    assert_eq!(tuning.orders(&report).map(|orders| orders.lacks.len()), Some(2), "it is asked for again");
}

#[test]
fn a_text_that_is_not_understood_is_a_failure_and_not_waited_for() {
    let mut stage = Stage::new(1);
    let facts = TuneBody::Facts(HostFacts::default()).text().1;
    let texts = [json!({"moon": {}}).to_string(), facts];
    for (text, why) in texts.into_iter().zip(["unknown variant `moon`", "its text is about something else"]) {
        let body = answer_digest(text.as_bytes());
        let mut tune = saying(TuneAnswer::Done { body, facts: None, own: None, age_s: 1 });
        tune.bodies = vec![text];
        stage.agents[0].report.tune = Some(tune);
        stage.rounds(1);
        let (_, json) = asked(&mut stage, check("all"));
        assert_eq!(missing(&json), ["failed h1"]);
        assert!(json["missing"][0]["why"].as_str().expect("a text").contains(why), "{json}");
    }
}

#[test]
fn controllers_tell_each_other_questions_and_texts() {
    let mut stage = Stage::new(2);
    let outboxes: [Arc<LivenessOutbox>; 2] = Default::default();
    let second_seats: Arc<AgentSeats> = Arc::default();
    let make = |name: &str, seats: &Arc<AgentSeats>, outbox: &Arc<LivenessOutbox>| {
        named_controller(&stage.register, seats, name).telling(vec![Arc::clone(outbox)])
    };
    let mut second = make("c2", &second_seats, &outboxes[1]);
    stage.controller = make("c1", &stage.seats, &outboxes[0]);
    let mut tuner = FakeTuner::new("6.1", "10");
    for at in 0..2 {
        stage.agents[at].report.tune = Some(saying(tuner.look()));
    }
    // Agents take their turns with c1.
    let mut tell = |stage: &mut Stage, second: &mut Controller| {
        stage.now_ms += 1000;
        (0..2).for_each(|at| turn(stage, at, &mut tuner));
        let now = Now::at_ms(stage.now_ms);
        second.tick(now, UNIX_S);
        for number in 0..2 {
            let name = ["c1", "c2"][number].parse().expect("a name");
            let message = outboxes[number].take(&name, &"a".parse().expect("a name"));
            let requester = Requester::Certified(controller_of(&fleet(), name.as_str()));
            let to = if number == 0 { &mut *second } else { &mut stage.controller };
            let (_, lacks) = {
                let message = serde_json::from_value(json!(message)).expect("it is read as it was written");
                let reply = to.answer(ControlQuestion::Liveness(message), &requester);
                (reply.status, serde_json::from_str::<Value>(&reply.json).expect("JSON")["lacks"].clone())
            };
            outboxes[number]
                .note_lacked(serde_json::from_value::<Vec<AnswerDigest>>(lacks).expect("digests"));
        }
    };
    tell(&mut stage, &mut second);
    assert_eq!(missing(&answered(&mut second, check("all")).1), ["on_its_way h1 h2"]);
    (0..2).for_each(|_| tell(&mut stage, &mut second));
    assert_eq!(answered(&mut second, check("all")).1["answered"], 2);
    // A person asks the second, whose seats are empty; the agents of the first plan.
    let (_, json) = answered(&mut second, plan("all"));
    let id = id_of(&json);
    (0..5).for_each(|_| tell(&mut stage, &mut second));
    for controller in [&mut second, &mut stage.controller] {
        let (_, json) = answered(controller, ControlQuestion::TunePlan(id.clone()));
        assert_eq!((&json["planned"], &json["groups"][0]["pairs"]), (&json!(2), &json!(0)), "{json}");
    }
    // One that is started again hears all texts again.
    second = make_again(&stage, &outboxes[1]);
    (0..3).for_each(|_| tell(&mut stage, &mut second));
    assert_eq!(answered(&mut second, check("all")).1["answered"], 2);
}

fn make_again(stage: &Stage, outbox: &Arc<LivenessOutbox>) -> Controller {
    controller_at(&stage.register, &Arc::default(), "c2", stage.now_ms, UNIX_S)
        .telling(vec![Arc::clone(outbox)])
}
