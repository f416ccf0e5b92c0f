//! Several controllers with one register: what one hears, the others know, and one of them acts.

use super::*;
use crate::liveness::{LivenessOutbox, LivenessReport};

/// Controllers c1 and c2. Agents with odd numbers take their turns with c1, the others with c2.
struct Pair {
    first: Stage,
    second: Controller,
    outboxes: [Arc<LivenessOutbox>; 2],
    is_cut: bool,
}

impl Pair {
    fn new(hosts: usize) -> Pair {
        let mut first = Stage::new(hosts);
        let outboxes: [Arc<LivenessOutbox>; 2] = Default::default();
        let make = |name: &str, seats: &Arc<AgentSeats>, outbox: &Arc<LivenessOutbox>| {
            let controller = named_controller(&first.register, seats, name);
            controller.telling(vec![Arc::clone(outbox)])
        };
        let controller = make("c1", &first.seats, &outboxes[0]);
        let second = make("c2", &Arc::default(), &outboxes[1]);
        first.controller = controller;
        Pair { first, second, outboxes, is_cut: false }
    }

    /// A second in which every agent has its turn with its controller, and controllers speak with each other.
    fn second(&mut self) {
        self.first.now_ms += 1000;
        let now = Now::at_ms(self.first.now_ms);
        for at in 0..self.first.agents.len() {
            self.first.agents[at].report.turn += 1;
            let agent = &self.first.agents[at];
            let member = agent.report.members[0].member.clone();
            let answer =
                if agent.is_hung { Err("no answer".to_owned()) } else { Ok(Duration::from_millis(1)) };
            let report = agent.report.clone();
            let controllers = [&mut self.first.controller, &mut self.second];
            for (number, controller) in controllers.into_iter().enumerate() {
                let probe = ProbeResult { member: member.clone(), answer: answer.clone() };
                controller.on_message(ControllerMessage::Probe(probe), now, 0);
                if at % 2 == number {
                    controller.on_message(ControllerMessage::Turn(report.clone()), now, 0);
                }
            }
        }
        self.first.controller.tick(now, 0);
        self.second.tick(now, 0);
        self.tell_each_other();
    }

    fn tell_each_other(&mut self) {
        let now = Now::at_ms(self.first.now_ms);
        let [from_first, from_second] = [("c1", &self.outboxes[0]), ("c2", &self.outboxes[1])]
            .map(|(name, outbox)| outbox.take(&name.parse().expect("a name"), &zone(name)));
        if !self.is_cut {
            tell(&mut self.second, from_first, now);
            tell(&mut self.first.controller, from_second, now);
        }
    }

    fn heard_by(controller: &Controller) -> usize {
        controller.agents.hosts().count()
    }
}

fn waits_ms(controller: &Controller) -> u64 {
    controller.peers.waits_ms(controller.now)
}

/// A message with turns alone.
fn turns_of(from: &str, turns: Vec<TurnReport>) -> LivenessReport {
    let controller = from.parse().expect("a name");
    LivenessReport {
        controller,
        zone: zone(from),
        turns,
        recalled: Vec::new(),
        probes: None,
        asks: Vec::new(),
        bodies: Vec::new(),
    }
}

fn zone(name: &str) -> ZoneName {
    name.parse().expect("a name")
}

fn tell(to: &mut Controller, report: LivenessReport, now: Now) -> Value {
    let requester = Requester::Certified(controller_of(&fleet(), report.controller.as_str()));
    to.now = now;
    let reply = to.answer(ControlQuestion::Liveness(report), &requester);
    assert_eq!(reply.status, 200);
    serde_json::from_str(&reply.json).expect("JSON")
}

#[test]
fn what_one_controller_hears_the_others_know() {
    let mut pair = Pair::new(4);
    pair.second();
    assert_eq!([&pair.first.controller, &pair.second].map(Pair::heard_by), [4, 4]);
    // Orders wait where the agent takes its turns, and nowhere else.
    let direct = |controller: &Controller| -> Vec<String> {
        let agents = controller.agents.iter().filter(|(_, record)| record.is_direct());
        agents.map(|(host, _)| host.to_string()).collect()
    };
    assert_eq!(direct(&pair.first.controller), ["h1", "h3"]);
    assert_eq!(direct(&pair.second), ["h2", "h4"]);
}

#[test]
fn a_turn_that_is_passed_on_late_says_nothing_new() {
    let mut pair = Pair::new(1);
    let mut report = pair.first.agents[0].report.clone();
    let now = Now::at_ms(1000);
    (report.turn, report.members[0].hits) = (5, 500);
    pair.second.on_message(ControllerMessage::Turn(report.clone()), now, 0);
    (report.turn, report.members[0].hits) = (4, 400);
    tell(&mut pair.second, turns_of("c1", vec![report.clone()]), now);
    let hits = |controller: &Controller| controller.agents.members().next().map(|one| one.hits);
    assert_eq!(hits(&pair.second), Some(500));
    // It has moved to the other one since.
    (report.turn, report.members[0].hits) = (6, 600);
    tell(&mut pair.second, turns_of("c1", vec![report]), now);
    assert_eq!(hits(&pair.second), Some(600));
    assert!(pair.second.agents.iter().all(|(_, record)| !record.is_direct()));
}

#[test]
fn a_controller_that_hears_itself_says_so() {
    let mut pair = Pair::new(1);
    let report = pair.first.agents[0].report.clone();
    let answer = tell(&mut pair.second, turns_of("c2", vec![report]), Now::at_ms(1000));
    assert_eq!((answer["is_self"].as_bool(), Pair::heard_by(&pair.second)), (Some(true), 0));
}

#[test]
fn the_first_by_name_acts_at_once_and_the_next_one_when_it_is_away() {
    let mut pair = Pair::new(2);
    pair.second();
    assert_eq!((waits_ms(&pair.first.controller), waits_ms(&pair.second)), (0, 2000));
    pair.is_cut = true;
    (0..5).for_each(|_| pair.second());
    assert_eq!(waits_ms(&pair.second), 0);
}

#[test]
fn an_agent_says_nothing_about_the_members_of_other_hosts() {
    let mut stage = Stage::running(3);
    let spare = (1..=3).map(|number| format!("m{number}").parse().expect("a name"));
    let spare: MemberId = spare
        .into_iter()
        .find(|member| stage.controller.facts().state(member) == MemberState::Spare)
        .expect("two slots, three members");
    let other = stage.agents.iter().position(|agent| agent.report.members[0].member != spare).expect("two");
    // It claims that the spare has never been emptied and is down.
    let mut report = stage.agents[other].report.clone();
    report.turn += 1;
    report.members[0].member = spare.clone();
    (report.members[0].flushes, report.members[0].process) = (0, ProcessReport::Down);
    stage.message(ControllerMessage::Turn(report));
    assert_eq!(stage.controller.facts().state(&spare), MemberState::Spare);
}

fn record<'c>(controller: &'c Controller, host: &HostId) -> &'c AgentRecord {
    controller.agents.get(host).expect("it was heard")
}

/// Whether the first agent is silent for each of the controllers.
fn is_silent(pair: &Pair) -> [bool; 2] {
    let host: HostId = "h1".parse().expect("a name");
    [&pair.first.controller, &pair.second].map(|controller| record(controller, &host).is_silent())
}

#[test]
fn an_agent_that_is_recalled_and_does_not_come_is_silent_for_all_controllers() {
    let mut pair = Pair::new(2);
    pair.first.rounds(3);
    let change = ChangeQuestion::Policy(Some(POLICY.to_owned()));
    assert_eq!(pair.first.apply(&change).status, 200);
    pair.second.on_message(ControllerMessage::Changed, Now::at_ms(pair.first.now_ms), 0);
    (0..3).for_each(|_| pair.second());
    let member: MemberId = "m1".parse().expect("a name");
    let report = pair.first.agents[0].report.clone();
    let fail = |pair: &mut Pair| {
        pair.first.now_ms += 1000;
        let now = Now::at_ms(pair.first.now_ms);
        let probe = ProbeResult { member: member.clone(), answer: Err("no answer".to_owned()) };
        pair.first.controller.on_message(ControllerMessage::Probe(probe), now, 0);
        pair.first.controller.tick(now, 0);
        pair.tell_each_other();
        pair.second.tick(now, 0);
    };
    // It comes again: nothing is known from that, and it is not recalled again at once.
    fail(&mut pair);
    let mut later = report.clone();
    later.turn += 1;
    let now = Now::at_ms(pair.first.now_ms);
    pair.first.controller.on_message(ControllerMessage::Turn(later.clone()), now, 0);
    pair.tell_each_other();
    assert!(!record(&pair.second, &report.host).is_expected());
    fail(&mut pair);
    assert!(!record(&pair.first.controller, &report.host).is_expected());
    // It is recalled again after 5 s, and does not come.
    for second in 1..10 {
        fail(&mut pair);
        assert_eq!(is_silent(&pair), [false; 2], "{second}");
    }
    fail(&mut pair);
    assert_eq!(is_silent(&pair), [true; 2]);
    later.turn += 1;
    let now = Now::at_ms(pair.first.now_ms);
    pair.first.controller.on_message(ControllerMessage::Turn(later), now, 0);
    pair.tell_each_other();
    assert_eq!(is_silent(&pair), [false; 2]);
}

#[test]
fn nobody_hurries_because_of_a_spare() {
    let mut stage = Stage::running(3);
    let spare = ["m1", "m2", "m3"].map(|name| name.parse::<MemberId>().expect("a name"));
    let spare = spare.into_iter().find(|member| stage.controller.facts().state(member) == MemberState::Spare);
    let spare = spare.expect("two slots, three members");
    let host = stage.controller.register.view().inventory().get(&spare).expect("it is there").host.clone();
    let answer = Err("no answer".to_owned());
    stage.message(ControllerMessage::Probe(ProbeResult { member: spare, answer }));
    assert!(!record(&stage.controller, &host).was_recalled());
}
