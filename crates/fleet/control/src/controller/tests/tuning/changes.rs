//! Changes of hosts: begun as they were shown, judged by what hosts do, halted, undone, and gone on with by another controller.

use fleet::figures::{MemberTally, ServerPageTally};
use fleet::waves::{ChangeNumber, HostWord};

use super::super::*;
use super::{FakeTuner, saying};
use crate::probe::objective::{ObjectiveAnswer, ObjectiveBoard};
use crate::service::questions::changes::{ChangeSteer, ChangeTerms, ChangeWanted};
use crate::service::turn::{ActKind, ChangeOrder, ChangeWord, ChangesReport, PlanWish, TuneWhat};

mod gates;
mod lost;
mod numbers;
mod standards;
mod terms;

/// Seconds between two turns of an agent.
const TURN_S: u64 = 15;

/// A fleet whose agents have tuners and change their hosts.
struct ChangingFleet {
    stage: Stage,
    tuners: Vec<FakeTuner>,
    /// What the change does to the requests per CPU second of a host.
    effect: f64,
    /// What each host's counters have.
    counts: Vec<(u64, u64)>,
    /// How each host is: the settings that it was set up with, or those of an attempt.
    hosts: Vec<HostWord>,
    /// Most hosts that had the change at one time.
    reached: usize,
    /// Hosts that do not apply anything.
    broken: BTreeSet<usize>,
    /// Hosts that take orders, and say what they said before.
    mute: BTreeSet<usize>,
    /// What hosts say of other changes, until they take an order.
    other: BTreeMap<usize, ChangeWord>,
    orders: Vec<Vec<ChangeOrder>>,
    /// Another controller of the fleet. It hears what the first one hears, and agents are told by both in turns.
    second: Option<(Controller, Arc<AgentSeats>)>,
    rounds: usize,
    /// The second controller hears nobody.
    is_cut: bool,
}

impl ChangingFleet {
    fn new(hosts: usize, effect: f64) -> ChangingFleet {
        let mut stage = Stage::running(hosts);
        let mut tuners = vec![FakeTuner::new("6.1", "1"); hosts];
        for (agent, tuner) in stage.agents.iter_mut().zip(&mut tuners) {
            agent.report.tune = Some(saying(tuner.look()));
            agent.report.changes =
                Some(ChangesReport { allowed: vec![ActKind::Tune], ..ChangesReport::default() });
        }
        let mut fleet = ChangingFleet {
            stage,
            tuners,
            effect,
            counts: vec![(0, 0); hosts],
            hosts: vec![HostWord::AsBefore; hosts],
            reached: 0,
            broken: BTreeSet::new(),
            mute: BTreeSet::new(),
            other: BTreeMap::new(),
            orders: vec![Vec::new(); hosts],
            second: None,
            rounds: 0,
            is_cut: false,
        };
        fleet.turns(3);
        fleet
    }

    /// Rounds of turns of all agents.
    fn turns(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.rounds += 1;
            self.stage.now_ms += TURN_S * 1000;
            self.stage.unix_s += TURN_S.cast_signed();
            for at in 0..self.hosts.len() {
                if !self.stage.agents[at].is_gone {
                    self.turn(at);
                }
            }
            self.tick();
        }
    }

    fn tick(&mut self) {
        for _ in 0..4 {
            self.stage.now_ms += 250;
            self.tick_once();
        }
    }

    fn tick_once(&mut self) {
        let (now, unix_s) = (Now::at_ms(self.stage.now_ms), self.stage.unix_s);
        self.stage.controller.tick(now, unix_s);
        if let Some((second, _)) = &mut self.second {
            second.on_message(ControllerMessage::Changed, now, unix_s);
            second.tick(now, unix_s);
            self.stage.controller.on_message(ControllerMessage::Changed, now, unix_s);
        }
    }

    fn turn(&mut self, at: usize) {
        let factor = if matches!(self.hosts[at], HostWord::Changed { .. }) { self.effect } else { 1.0 };
        let requests = 100_000.0 * (1.0 + 0.01 * at as f64) * factor * TURN_S as f64;
        let (requests_before, cpu_before) = self.counts[at];
        self.counts[at] = (requests_before + requests as u64, cpu_before + 1000 * TURN_S);
        let figures = tally(self.stage.now_ms, self.counts[at]);
        let word = self.orders[at].first().map(|order| ChangeWord {
            change: order.order.change,
            own: Some(order.act.own().clone()),
            word: self.hosts[at].clone(),
        });
        let word = word.or_else(|| self.other.get(&at).cloned());
        let agent = &mut self.stage.agents[at];
        agent.report.members[0].figures = Some(Box::new(figures));
        agent.report.changes.as_mut().expect("it says so").words = word.into_iter().collect();
        agent.report.turn += 1;
        let report = agent.report.clone();
        self.stage.message(ControllerMessage::Turn(report.clone()));
        if let Some((second, _)) = self.second.as_mut().filter(|_| !self.is_cut) {
            let now = Now::at_ms(self.stage.now_ms);
            second.on_message(ControllerMessage::Turn(report.clone()), now, self.stage.unix_s);
        }
        self.tick_once();
        let seats = match &self.second {
            Some((_, seats)) if self.rounds % 2 == 1 && !self.is_cut => seats,
            _ => &self.stage.seats,
        };
        let orders = self.stage.runtime.block_on(seats.answer(&report, Duration::ZERO)).expect("a seat");
        self.stage.agents[at].obey(orders.clone());
        let tune = self.stage.agents[at].report.tune.as_mut().expect("it has a tuner");
        self.tuners[at].obey(orders.tune, tune);
        self.change(at, orders.changes);
    }

    fn change(&mut self, at: usize, orders: Vec<ChangeOrder>) {
        let had = self.orders[at].first().map(|order| (order.order.change, order.order.version));
        // An agent that is told by two controllers believes no older order.
        let order = orders
            .first()
            .filter(|order| had.is_none_or(|had| had <= (order.order.change, order.order.version)));
        if let Some(order) = order.filter(|_| !self.mute.contains(&at)) {
            self.hosts[at] = match order.order.attempt {
                Some(attempt) if self.broken.contains(&at) => {
                    HostWord::Failed { attempt, reason: "no space left on device".to_owned() }
                }
                Some(attempt) => HostWord::Changed { attempt },
                None => HostWord::AsBefore,
            };
            self.orders[at] = orders;
        }
        self.reached = self.reached.max(self.changed());
    }

    /// Hosts that have the change.
    fn changed(&self) -> usize {
        self.hosts.iter().filter(|word| matches!(word, HostWord::Changed { .. })).count()
    }

    fn ask(&mut self, question: ControlQuestion) -> (u16, Value) {
        let reply = self.stage.controller.answer(question, &owner());
        (reply.status, serde_json::from_str(&reply.json).expect("JSON"))
    }

    /// A question that all hosts have answered with a plan.
    fn planned(&mut self) -> ChangeWanted {
        let what = TuneWhat::Plan(PlanWish::Profile("memcached".to_owned()));
        let scope = "all".parse().expect("a scope");
        let (status, json) = self.ask(ControlQuestion::TuneAsk { scope, what });
        assert_eq!(status, 200, "{json}");
        self.turns(4);
        let id = json["id"].as_str().expect("a name").parse().expect("a name");
        let settings = json!({"baseline_ms": 60_000, "look_ms": 60_000, "zone_ms": 15_000});
        let settings = settings.as_object().expect("an object").clone();
        ChangeWanted { id, terms: ChangeTerms { settings, ..ChangeTerms::default() }, confirmed: None }
    }

    fn begin(&mut self) -> Value {
        let wanted = self.planned();
        let (status, shown) = self.ask(ControlQuestion::ChangeHosts(wanted.clone()));
        assert_eq!(status, 200, "{shown}");
        self.confirm(wanted, &shown)
    }

    fn confirm(&mut self, wanted: ChangeWanted, shown: &Value) -> Value {
        let plan = shown["plan"].as_str().unwrap_or_else(|| panic!("no plan: {shown}")).to_owned();
        let confirmed = Some((plan, "a test".to_owned()));
        let (status, begun) = self.ask(ControlQuestion::ChangeHosts(ChangeWanted { confirmed, ..wanted }));
        assert_eq!(status, 200, "{begun}");
        begun
    }

    fn status(&mut self, number: u64) -> Value {
        let (status, json) = self.ask(ControlQuestion::Changes(Some(ChangeNumber(number))));
        assert_eq!(status, 200, "{json}");
        json
    }

    fn steer(&mut self, number: u64, act: ChangeSteer) -> (u16, Value) {
        let why = "a test".to_owned();
        self.ask(ControlQuestion::SteerChange { number: ChangeNumber(number), act, why })
    }

    /// A Prometheus has answered about the objective of the first change.
    fn hear_objective(&mut self, outcome: Result<(), String>) {
        let answer = ObjectiveAnswer { change: ChangeNumber(1), outcome };
        self.stage.message(ControllerMessage::Objective(answer));
    }

    /// A change with an objective, of which the controller has heard nothing yet.
    fn begin_with_objective(&mut self) {
        self.stage.controller.tuning.changes.ask_objectives_on(Some(Arc::default()));
        let mut wanted = self.planned();
        wanted.terms.objective = Some("latency < 0.005".to_owned());
        let (_, shown) = self.ask(ControlQuestion::ChangeHosts(wanted.clone()));
        self.confirm(wanted, &shown);
    }

    /// A controller that has just begun takes the place of the first.
    fn restart(&mut self) {
        self.stage.seats = Arc::default();
        let (now_ms, unix_s) = (self.stage.now_ms, self.stage.unix_s);
        self.stage.controller = controller_at(&self.stage.register, &self.stage.seats, "c1", now_ms, unix_s);
    }

    /// Goes on until the change is in one of these states.
    fn until(&mut self, number: u64, states: &[&str]) -> Value {
        for _ in 0..200 {
            let status = self.status(number);
            if states.contains(&status["state"].as_str().expect("a word")) {
                return status;
            }
            self.turns(1);
        }
        panic!("it does not come to an end: {}", self.status(number)["text"]);
    }
}

fn tally(now_ms: u64, (requests, cpu_ms): (u64, u64)) -> MemberTally {
    let page = ServerPageTally {
        at_ms: now_ms,
        uptime_ms: now_ms,
        ready_ms: Some(now_ms / 10),
        workers: Some(4),
        wait_p99_us: Some(100),
        service_p99_us: Some(200),
        ..ServerPageTally::default()
    };
    MemberTally {
        at_ms: now_ms,
        pid: Some(1),
        requests: Some(requests),
        cpu_ms: Some(cpu_ms),
        page: Some(page),
        ..MemberTally::default()
    }
}

#[test]
fn a_change_that_harms_nothing_reaches_every_host() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    let wanted = fleet.planned();
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    let text = shown["text"].as_str().expect("a text");
    assert!(text.contains("24 hosts, judged by 10 pairs") && text.contains("canaries"), "{text}");
    assert_eq!(fleet.confirm(wanted, &shown)["number"], 1);
    let going = fleet.status(1);
    assert_eq!((&going["state"], &going["wave"]), (&json!("going"), &json!("figures before the change")));
    let done = fleet.until(1, &["done", "halted", "undone"]);
    assert_eq!((&done["state"], fleet.changed()), (&json!("done"), 24), "{}", done["text"]);
    let (_, history) = fleet.ask(ControlQuestion::Changes(None));
    assert_eq!(history["changes"][0]["end"]["state"], "done", "{history}");
    let (status, undone) = fleet.steer(1, ChangeSteer::Undo);
    assert_eq!(status, 200, "{undone}");
    fleet.until(1, &["undone"]);
    assert_eq!(fleet.changed(), 0);
}

#[test]
fn a_change_that_harms_is_undone_before_it_is_more_than_canaries() {
    let mut fleet = ChangingFleet::new(24, 0.5);
    fleet.begin();
    let undone = fleet.until(1, &["undone", "done", "halted"]);
    assert_eq!((&undone["state"], fleet.changed()), (&json!("undone"), 0), "{}", undone["text"]);
    assert!(fleet.reached <= 10, "{}", fleet.reached);
    let text = undone["text"].as_str().expect("a text");
    assert!(text.contains("requests_per_cpu_s of plan"), "{text}");
}

/// A controller that is killed after every decision, while the register loses calls and answers.
#[track_caller]
fn check_killed(effect: f64, seed: u64, expected: &str) {
    let mut fleet = ChangingFleet::new(24, effect);
    fleet.begin();
    let mut prng = stdx::prng::Prng::new(seed);
    let (mut version, mut kills) = (0, 0);
    for _ in 0..400 {
        let status = fleet.status(1);
        if ["done", "undone", "halted"].contains(&status["state"].as_str().expect("a word")) {
            let changed = if expected == "done" { 24 } else { 0 };
            assert_eq!(
                (&status["state"], fleet.changed()),
                (&json!(expected), changed),
                "{}",
                status["text"]
            );
            assert!(kills >= 5, "{kills}");
            return;
        }
        if status["version"].as_u64() != Some(version) {
            version = status["version"].as_u64().expect("a number");
            kills += 1;
            fleet.restart();
        }
        if prng.below(2) == 0 {
            let fault =
                if prng.below(2) == 0 { SimulatedFault::NotReached } else { SimulatedFault::AnswerLost };
            fleet.stage.register.add_fault(fault);
        }
        fleet.turns(1);
    }
    panic!("it does not come to an end: {}", fleet.status(1)["text"]);
}

#[test]
fn a_controller_that_is_killed_after_any_decision_is_gone_on_from() {
    for seed in 0..2 {
        check_killed(1.0, seed, "done");
        check_killed(0.5, seed, "undone");
    }
}

#[test]
fn two_controllers_that_decide_at_the_same_time_are_one_and_one_that_hears_nobody_decides_nothing() {
    for (effect, is_cut, expected, changed) in
        [(1.0, false, "done", 24), (0.5, false, "undone", 0), (1.0, true, "done", 24)]
    {
        let mut fleet = ChangingFleet::new(24, effect);
        fleet.is_cut = is_cut;
        let seats: Arc<AgentSeats> = Arc::default();
        let (now_ms, unix_s) = (fleet.stage.now_ms, fleet.stage.unix_s);
        let second = controller_at(&fleet.stage.register, &seats, "c2", now_ms, unix_s);
        fleet.second = Some((second, seats));
        fleet.begin();
        let status = fleet.until(1, &["done", "undone", "halted"]);
        assert_eq!((&status["state"], fleet.changed()), (&json!(expected), changed), "{}", status["text"]);
    }
}

#[test]
fn what_is_begun_is_what_was_shown_and_hosts_that_differ_are_named() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    let wanted = fleet.planned();
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    fleet.stage.agents[3].report.changes.as_mut().expect("it says so").allowed.clear();
    fleet.turns(1);
    let plan = shown["plan"].as_str().expect("a plan").to_owned();
    let confirmed = Some((plan, "a test".to_owned()));
    let (status, refused) =
        fleet.ask(ControlQuestion::ChangeHosts(ChangeWanted { confirmed, ..wanted.clone() }));
    let error = refused["error"].as_str().expect("an error");
    assert!(status == 409 && error.contains(": h4 would change something else now"), "{error}");
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    assert_eq!(shown["left_out"][0]["host"], "h4", "{shown}");
    fleet.confirm(wanted.clone(), &shown);
    let (status, refused) = fleet.ask(ControlQuestion::ChangeHosts(wanted));
    let error = refused["error"].as_str().expect("an error");
    assert!(status == 409 && error.contains("the change 1 is on its way there and on 22 others"), "{error}");
}

#[test]
fn a_person_halts_resumes_and_undoes_and_is_told_what_cannot_be() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.begin();
    let (status, reply) = fleet.steer(1, ChangeSteer::Resume);
    assert!(status == 409 && reply["error"] == "change 1 is going on", "{reply}");
    assert_eq!(fleet.steer(2, ChangeSteer::Halt).0, 404);
    // As its agents have said: one that has not confirmed goes back.
    while fleet.status(1)["counts"]["changed"] == 0 {
        fleet.turns(1);
    }
    let (status, reply) = fleet.steer(1, ChangeSteer::Halt);
    assert_eq!((status, &reply["state"]), (200, &json!("halted")), "{reply}");
    let changed = fleet.changed();
    fleet.restart();
    fleet.turns(20);
    assert_eq!((fleet.changed(), &fleet.status(1)["state"]), (changed, &json!("halted")));
    assert_eq!(fleet.steer(1, ChangeSteer::Resume).1["state"], "going");
    let done = fleet.until(1, &["done", "halted", "undone"]);
    assert_eq!((&done["state"], fleet.changed()), (&json!("done"), 24), "{}", done["text"]);
    assert_eq!(fleet.steer(1, ChangeSteer::Halt).0, 409);
    assert_eq!(fleet.steer(1, ChangeSteer::Undo).0, 200);
    fleet.until(1, &["undone"]);
    assert_eq!((fleet.changed(), fleet.steer(1, ChangeSteer::Undo).0), (0, 409));
}

#[test]
fn hosts_that_cannot_apply_it_halt_it_and_frozen_and_silent_ones_are_left_out() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.broken = (0..24).collect();
    fleet.begin();
    let undone = fleet.until(1, &["undone", "done", "halted"]);
    let why = undone["state_why"].as_str().expect("a reason");
    assert!(undone["state"] == "undone" && why.contains("no space left on device"), "{why}");

    let mut fleet = ChangingFleet::new(26, 1.0);
    fleet.ask(ControlQuestion::Freeze { scope: FreezeScope::Fleet, why: "we look".to_owned() });
    let wanted = fleet.planned();
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    let plan = shown["plan"].as_str().expect("a plan").to_owned();
    let confirmed = Some((plan, "a test".to_owned()));
    let (status, refused) = fleet.ask(ControlQuestion::ChangeHosts(ChangeWanted { confirmed, ..wanted }));
    assert_eq!((status, &refused["error"]), (409, &json!("all hosts of the change are in frozen scopes")));
    fleet.ask(ControlQuestion::Thaw { scope: FreezeScope::Fleet, why: "we have looked".to_owned() });
    let scope = FreezeScope::Cluster("web".parse().expect("a name"));
    fleet.ask(ControlQuestion::Freeze { scope, why: "we look".to_owned() });
    fleet.begin();
    fleet.turns(1);
    fleet.stage.agents[20].is_gone = true;
    let done = fleet.until(1, &["undone", "done", "halted"]);
    assert_eq!((&done["state"], fleet.changed()), (&json!("done"), 23), "{}", done["text"]);
}

#[test]
fn of_two_changes_of_the_same_hosts_the_later_one_goes_back_first() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    for number in 1..=2 {
        fleet.begin();
        let done = fleet.until(number, &["done", "halted", "undone"]);
        assert_eq!(done["state"], "done", "{}", done["text"]);
    }
    let (status, refused) = fleet.steer(1, ChangeSteer::Undo);
    assert_eq!((status, &refused["error"]), (409, &json!("change 2 was made on hosts of change 1 since")));
    assert_eq!(fleet.steer(2, ChangeSteer::Undo).0, 200);
    fleet.until(2, &["undone"]);
    assert_eq!(fleet.steer(1, ChangeSteer::Undo).0, 200);
}

#[test]
fn an_objective_that_is_missed_three_times_in_a_row_halts_and_without_a_prometheus_it_is_refused() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    let mut wanted = fleet.planned();
    wanted.terms.objective = Some("latency < 0.005".to_owned());
    let (status, refused) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    assert_eq!(
        (status, &refused["error"]),
        (422, &json!("this controller asks no Prometheus for objectives"))
    );
    let board = Arc::new(ObjectiveBoard::default());
    fleet.stage.controller.tuning.changes.ask_objectives_on(Some(board));
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    fleet.confirm(wanted, &shown);
    while fleet.status(1)["counts"]["changed"] == 0 {
        fleet.hear_objective(Ok(()));
        fleet.turns(1);
    }
    let mut hear = |outcome: Result<(), String>| {
        fleet.hear_objective(outcome);
        fleet.tick();
        fleet.status(1)["state"].as_str().expect("a word").to_owned()
    };
    let missed = || Err("the query has no sample".to_owned());
    let states: Vec<String> =
        [missed(), missed(), Ok(()), missed(), missed(), missed()].map(&mut hear).into();
    assert_eq!(states, ["going", "going", "going", "going", "going", "undoing"]);
    let undone = fleet.until(1, &["undone"]);
    let why = undone["state_why"].as_str().expect("a reason");
    assert!(
        why.contains("the objective is missed: 3 times in a row, the last time: the query has no sample"),
        "{why}"
    );
}

#[test]
fn an_objective_that_is_not_known_to_be_met_tells_no_further_host() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.begin_with_objective();
    let waits = |fleet: &mut ChangingFleet, expected: &str| {
        fleet.turns(12);
        let status = fleet.status(1);
        let waits_for = status["waits_for"].as_str().unwrap_or_else(|| panic!("{}", status["text"]));
        assert_eq!(waits_for, format!("waits for the objective: {expected}"), "{}", status["text"]);
    };
    waits(&mut fleet, "Prometheus has not answered yet");
    assert_eq!(fleet.reached, 0);
    // A miss halts nothing yet, and is not taken for met.
    fleet.hear_objective(Err("the query has no sample".to_owned()));
    fleet.tick();
    let status = fleet.status(1);
    let expected = "waits for the objective: it was missed the last time: the query has no sample";
    assert_eq!(status["waits_for"], expected, "{}", status["text"]);
    while fleet.reached == 0 {
        fleet.hear_objective(Ok(()));
        fleet.turns(1);
    }
    // The Prometheus is asked no more.
    let reached = fleet.reached;
    waits(&mut fleet, "Prometheus was not asked within 60 s");
    assert_eq!((fleet.reached, fleet.changed()), (reached, reached));
    // The controller that has one has ended, and no other has one.
    fleet.restart();
    waits(
        &mut fleet,
        "this controller asks no Prometheus (--prometheus); one that does goes on with the change",
    );
    assert_eq!((fleet.reached, fleet.changed()), (reached, reached));
    let (_, summary) = fleet.ask(ControlQuestion::Summary);
    let needs = summary["needs"].as_array().expect("a list");
    let waiting = needs.iter().find(|need| need["about"] == json!({"kind": "change", "id": 1}));
    let waiting = waiting.unwrap_or_else(|| panic!("{summary}"));
    let text = waiting["text"].as_str().expect("a text");
    assert!(text.contains(" waits for the objective: this controller asks no Prometheus "), "{text}");
    assert_eq!(
        (&waiting["urgency"], &waiting["command"]),
        (&json!("note"), &json!("evenkeel control tune status 1"))
    );
    fleet.stage.controller.tuning.changes.ask_objectives_on(Some(Arc::default()));
    for _ in 0..60 {
        fleet.hear_objective(Ok(()));
        fleet.turns(1);
    }
    assert_eq!((&fleet.status(1)["state"], fleet.changed()), (&json!("done"), 24));
    assert_eq!(fleet.steer(1, ChangeSteer::Undo).0, 200);
    fleet.until(1, &["undone"]);
}

#[test]
fn a_controller_that_asks_the_objective_goes_on_in_place_of_an_earlier_one_that_does_not() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    let seats = Arc::<AgentSeats>::default();
    let (now_ms, unix_s) = (fleet.stage.now_ms, fleet.stage.unix_s);
    let mut second = controller_at(&fleet.stage.register, &seats, "c2", now_ms, unix_s);
    second.tuning.changes.ask_objectives_on(Some(Arc::default()));
    fleet.second = Some((second, seats));
    fleet.begin_with_objective();
    // It was begun at a controller that asks; that one has ended, and comes back without a Prometheus.
    fleet.restart();
    for _ in 0..100 {
        let answer = ObjectiveAnswer { change: ChangeNumber(1), outcome: Ok(()) };
        let now = Now::at_ms(fleet.stage.now_ms);
        if let Some((second, _)) = &mut fleet.second {
            second.on_message(ControllerMessage::Objective(answer), now, fleet.stage.unix_s);
        }
        fleet.turns(1);
        if fleet.status(1)["state"] == "done" {
            break;
        }
    }
    let done = fleet.status(1);
    assert_eq!((&done["state"], fleet.changed()), (&json!("done"), 24), "{}", done["text"]);
}

#[test]
fn a_host_that_says_nothing_of_its_attempt_is_not_said_to_have_gone_back() {
    let mut fleet = ChangingFleet::new(24, 1.0);
    fleet.mute = (0..24).collect();
    let mut wanted = fleet.planned();
    wanted.terms.settings.insert("confirm_ms".to_owned(), json!(60_000));
    let (_, shown) = fleet.ask(ControlQuestion::ChangeHosts(wanted.clone()));
    fleet.confirm(wanted, &shown);
    let status = fleet.until(1, &["undoing", "undone", "done"]);
    let why = status["state_why"].as_str().unwrap_or_else(|| panic!("{}", status["text"]));
    assert!(why.ends_with(": it did not say in time that it has it, and was told to be as before"), "{why}");
}
