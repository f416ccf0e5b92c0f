//! Servers that are lost while a text is on probation: the agents beside routers under load decide as real ones do.

use fleet::probation::{
    AgentAction, AgentReport, GivenText, LostServer, Probation, RouterCounts, RouterObservation,
};

use super::*;

const LOST: &str = "10.0.0.2:11211";

/// A router that answers 1,000 requests a second, half of them by each of two servers.
#[derive(Default)]
struct LoadedRouter {
    probation: Probation,
    counts: RouterCounts,
}

impl LoadedRouter {
    /// A second later. `None` while m2 answers; otherwise whether the router had an answer of it before.
    fn second(&mut self, agent: &mut FakeAgent, lost: Option<bool>, now: Now) {
        let router = &mut agent.report.routers[0];
        let (Some(loaded), Some(generation)) = (router.loaded.clone(), router.generation) else { return };
        let lost = lost.filter(|_| agent.texts[&loaded].contains(LOST));
        let failed = if lost.is_some() { 500 } else { 0 };
        self.counts.requests += 1000;
        self.counts.errors += failed;
        self.counts.of_servers += failed;
        let mut actions = self.probation.on_target(GivenText { generation, digest: loaded.clone() }, now);
        let seen = RouterObservation {
            process: Some(1),
            loaded: Some(loaded.clone()),
            file: Some(loaded),
            counts: Some(self.counts),
            lost: lost
                .map(|has_answered| LostServer { name: LOST.to_owned(), has_answered })
                .into_iter()
                .collect(),
        };
        actions.extend(self.probation.on_observation(seen, now));
        for action in actions {
            if let AgentAction::Report(AgentReport::Crashed(text, reason)) = action {
                let (generation, reason) = (text.generation, reason.to_owned());
                router.text = TextReport::Crashed { generation, reason };
            }
        }
    }
}

/// A fleet whose routers have loaded a replacement of m1 for so many seconds when m2 is lost; what it is 30 s later.
fn lose_after(seconds: usize, has_answered: bool) -> Stage {
    let mut stage = Stage::new(8);
    stage.rounds(3);
    // Of three members, two may be replaced in an hour.
    let policy = ChangeQuestion::Policy(Some(POLICY.replace("slots = 2", "slots = 3")));
    assert_eq!(stage.apply(&policy).status, 200);
    let mut routers: Vec<LoadedRouter> = stage.agents.iter().map(|_| LoadedRouter::default()).collect();
    let mut pass = |stage: &mut Stage, count: usize, lost: Option<bool>| {
        for _ in 0..count {
            stage.rounds(1);
            let now = Now::at_ms(stage.now_ms);
            for (router, agent) in routers.iter_mut().zip(&mut stage.agents) {
                router.second(agent, lost, now);
            }
        }
    };
    suspect(&mut stage, &[]);
    pass(&mut stage, 70, None);
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    pass(&mut stage, 5, None);
    assert_eq!(stage.loaded(), [2; 8]);
    assert!(stage.slots().ends_with(" m2 m3"), "{}", stage.slots());
    pass(&mut stage, seconds, None);
    stage.agents[1].is_gone = true;
    suspect(&mut stage, &[LOST]);
    pass(&mut stage, 30, Some(has_answered));
    stage
}

#[test]
fn a_server_that_is_lost_right_after_a_rollout_is_replaced() {
    for seconds in [0, 10, 24] {
        let mut stage = lose_after(seconds, true);
        let status = stage.text(ControlQuestion::Status);
        let is_replaced = !stage.slots().contains("m2") && stage.slots().ends_with(" m3");
        assert!(is_replaced && stage.target() == 3, "{seconds} s after: {} {status}", stage.slots());
        let loaded = stage.loaded();
        assert!(loaded.iter().enumerate().all(|(at, loaded)| at == 1 || *loaded == 3), "{loaded:?}");
        let history = stage.text(ControlQuestion::History);
        assert!(history.starts_with("generation 3: m2 is lost: "), "{history}");
    }
}

#[test]
fn a_server_that_has_never_answered_condemns_the_text() {
    let mut stage = lose_after(0, false);
    let history = stage.text(ControlQuestion::History);
    assert!(history.contains(", with whom a text has failed: r"), "{history}");
    assert!(history.contains("its errors doubled"), "{history}");
}
