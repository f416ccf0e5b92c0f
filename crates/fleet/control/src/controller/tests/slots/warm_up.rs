//! Warm-ups from a replacement to their end.

use super::*;
use crate::service::authorise::ControlVerb;

/// `web` has m1 and m2, and `spares` or `copy` the third member.
fn warmed(hosts: usize, lines: &str, other: &str) -> Stage {
    let policy = format!(
        "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 2\n{lines}\n[[cluster]]\nname = \"{other}\"\nslots = 1\n\
         [[view]]\nname = \"main\"\nroutes = '{{\"route\": \"web\"}}'\n"
    );
    let mut stage = Stage::new(hosts);
    stage.rounds(3);
    assert_eq!(stage.apply(&ChangeQuestion::Policy(Some(policy))).status, 200);
    stage.rounds(3);
    assert!(!is_warmed_up(&stage));
    assert_eq!(stage.apply(&replace("m1")).status, 200);
    stage.rounds(5);
    assert_eq!((stage.slots().as_str(), stage.target()), ("m5 m2", 2));
    assert!(is_warmed_up(&stage));
    stage
}

const GUTTER: &str = "gutter = { cluster = \"spares\", exptime_s = 60 }";
const COPY: &str = "warm_up = { cluster = \"copy\", exptime_s = 600 }";

/// Whether all routers have a text with a warm-up; they have the same text in all of these tests.
#[track_caller]
fn is_warmed_up(stage: &Stage) -> bool {
    let loaded = stage.agents.iter().map(|agent| {
        let digest = agent.report.routers[0].loaded.as_ref().expect("a router with a text");
        agent.texts[digest].contains("WarmUpRoute")
    });
    let loaded: Vec<bool> = loaded.collect();
    assert!(loaded.windows(2).all(|pair| pair[0] == pair[1]), "{loaded:?}");
    loaded[0]
}

/// Seconds with 5,000 gets a second at every member: m5 has this share of hits in 100, the others 95.
fn serve(stage: &mut Stage, seconds: usize, hits: u64) {
    for _ in 0..seconds {
        for (number, agent) in stage.agents.iter_mut().enumerate() {
            let hits = if number == 4 { hits } else { 95 };
            let member = &mut agent.report.members[0];
            member.hits += hits * 50;
            member.misses += (100 - hits) * 50;
        }
        stage.rounds(1);
    }
}

#[test]
fn a_warm_up_ends_when_the_hit_ratio_is_that_of_the_peers() {
    let mut stage = warmed(5, COPY, "copy");
    serve(&mut stage, 60, 60);
    assert_eq!(stage.target(), 2, "colder than its peers");
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("m5 in web/s0 from copy; its part of its peers' hit ratio is 0.632"), "{status}");
    serve(&mut stage, 20, 95);
    assert_eq!((stage.target(), stage.slots().as_str()), (3, "m5 m2"));
    assert!(!is_warmed_up(&stage));
    let history = stage.text(ControlQuestion::History);
    assert!(history.starts_with("generation 3: m5 in web/s0 is as warm as its peers\n"), "{history}");
    assert!(history.contains("cluster web: the warm-up of m5 ends"), "{history}");
    serve(&mut stage, 60, 60);
    assert_eq!(stage.target(), 3, "once over, it stays over");
}

#[test]
fn a_gutter_warms_no_longer_than_its_items_live() {
    let mut stage = warmed(5, GUTTER, "spares");
    serve(&mut stage, 50, 60);
    assert!(is_warmed_up(&stage));
    serve(&mut stage, 20, 60);
    assert!(!is_warmed_up(&stage));
    let history = stage.text(ControlQuestion::History);
    assert!(
        history.starts_with("generation 3: what the gutter had for m5 in web/s0 has expired"),
        "{history}"
    );
}

#[test]
fn a_warm_up_does_not_end_while_a_rollout_is_going_or_its_scope_is_frozen() {
    let mut stage = warmed(5, GUTTER, "spares");
    stage.text(ControlQuestion::Freeze {
        scope: "cluster/web".parse().expect("a scope"),
        why: "we look".to_owned(),
    });
    serve(&mut stage, 100, 95);
    assert!(is_warmed_up(&stage));
    let status = stage.text(ControlQuestion::Status);
    assert!(status.contains("the warm-up stays in the routes, because its scope is frozen"), "{status}");
    stage.text(ControlQuestion::Thaw {
        scope: "cluster/web".parse().expect("a scope"),
        why: "over".to_owned(),
    });
    let loaded = stage.agents[4].report.routers[0].loaded.replace("0".repeat(32).parse().expect("a digest"));
    stage.turn_of_report(4);
    stage.controller.health.pass_at_once(stage.controller.now);
    stage.controller.heal();
    assert_eq!(stage.target(), 2, "a router has another text");
    stage.agents[4].report.routers[0].loaded = loaded;
    stage.turn_of_report(4);
    stage.controller.health.pass_at_once(stage.controller.now);
    stage.controller.heal();
    assert_eq!(stage.target(), 3);
    serve(&mut stage, 10, 95);
    assert_eq!((stage.target(), is_warmed_up(&stage)), (3, false));
}

#[test]
fn a_restarted_controller_ends_the_warm_up_that_another_began() {
    let mut stage = warmed(5, COPY, "copy");
    stage.controller = controller(&stage.register, &stage.seats);
    serve(&mut stage, 30, 95);
    assert_eq!((stage.target(), is_warmed_up(&stage)), (3, false));
}

#[test]
fn what_the_controller_decides_by_itself_is_no_text_that_has_failed() {
    let mut stage = Stage::running(4);
    stage.agents.iter_mut().for_each(|agent| agent.fails_with = Some("10.0.0.3"));
    stage.apply(&replace("m1"));
    stage.rounds(8);
    assert_eq!((stage.slots().as_str(), stage.target()), ("m4 m2", 3), "on after a crash");
    let failed = stage.controller.register.view().generations()[&GenerationNumber(2)].content.clone();
    let error = stage
        .controller
        .publish_unasked(ControlVerb::Replace, "by itself", failed)
        .expect_err("it has failed");
    assert!(error.contains("this very text has failed in a router before"), "{error}");
    let mut broken = stage.controller.register.view().content();
    broken.views[0].routes = "{\"route\": \"NoRoute\"}".to_owned();
    let error =
        stage.controller.publish_unasked(ControlVerb::Replace, "by itself", broken).expect_err("no route");
    assert!(error.contains("no router takes it"), "{error}");
    assert_eq!(stage.target(), 3);
}
