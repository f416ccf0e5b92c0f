//! Changes of hosts: begun as they were shown, judged by what hosts do, halted, undone, and gone on with by another controller.

use fleet::figures::{MemberTally, ServerPageTally};
use fleet::waves::{ChangeNumber, HostWord};

use super::tuning::{FakeTuner, saying};
use super::*;
use crate::service::questions::changes::{ChangeSteer, ChangeTerms, ChangeWanted};
use crate::service::turn::{ActKind, ChangeOrder, ChangeWord, ChangesReport, PlanWish, TuneWhat};

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
    orders: Vec<Vec<ChangeOrder>>,
}

impl ChangingFleet {
    fn new(hosts: usize, effect: f64) -> ChangingFleet {
        let mut stage = Stage::running(hosts);
        let mut tuners = vec![FakeTuner::new("6.1", "1"); hosts];
        for (agent, tuner) in stage.agents.iter_mut().zip(&mut tuners) {
            agent.report.tune = Some(saying(tuner.look()));
            agent.report.changes = Some(ChangesReport { allowed: vec![ActKind::Tune], words: Vec::new() });
        }
        let mut fleet = ChangingFleet {
            stage,
            tuners,
            effect,
            counts: vec![(0, 0); hosts],
            hosts: vec![HostWord::AsBefore; hosts],
            reached: 0,
            broken: BTreeSet::new(),
            orders: vec![Vec::new(); hosts],
        };
        fleet.turns(3);
        fleet
    }

    /// Rounds of turns of all agents.
    fn turns(&mut self, rounds: usize) {
        for _ in 0..rounds {
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
            self.stage.controller.tick(Now::at_ms(self.stage.now_ms));
        }
    }

    fn turn(&mut self, at: usize) {
        let factor = if matches!(self.hosts[at], HostWord::Changed { .. }) { self.effect } else { 1.0 };
        let requests = 100_000.0 * (1.0 + 0.01 * at as f64) * factor * TURN_S as f64;
        let (requests_before, cpu_before) = self.counts[at];
        self.counts[at] = (requests_before + requests as u64, cpu_before + 1000 * TURN_S);
        let figures = tally(self.stage.now_ms, self.counts[at]);
        let number = self.orders[at].first().map(|order| order.order.change);
        let word = number.map(|change| ChangeWord { change, word: self.hosts[at].clone() });
        let agent = &mut self.stage.agents[at];
        agent.report.members[0].figures = Some(Box::new(figures));
        agent.report.changes.as_mut().expect("it says so").words = word.into_iter().collect();
        agent.report.turn += 1;
        let report = agent.report.clone();
        self.stage.message(ControllerMessage::Turn(report.clone()));
        self.stage.controller.tick(Now::at_ms(self.stage.now_ms));
        let orders =
            self.stage.runtime.block_on(self.stage.seats.answer(&report, Duration::ZERO)).expect("a seat");
        self.stage.agents[at].obey(orders.clone());
        let tune = self.stage.agents[at].report.tune.as_mut().expect("it has a tuner");
        self.tuners[at].obey(orders.tune, tune);
        self.change(at, orders.changes);
    }

    fn change(&mut self, at: usize, orders: Vec<ChangeOrder>) {
        if let Some(order) = orders.first() {
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
