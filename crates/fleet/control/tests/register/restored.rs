//! A real etcd that is restored from a snapshot, and a controller whose routers have more than it knows.

use std::sync::Arc;

use control::{
    AgentSeats, Controller, ControllerMessage, ControllerSettings, FleetDecisions, NewGeneration,
    Publication, ReplacedChange, TurnReport,
};
use fleet::health::HealthThresholds;
use fleet::rollout::RolloutSettings;
use fleet::{ClusterName, FleetContent, Generation, GenerationNumber, texts};
use serde_json::json;
use stdx::clock::Now;

use crate::register::check_failure;
use crate::register::cluster::Cluster;

const UNIX_S: i64 = 1_800_000_000;

/// A generation whose only slot is at this port.
fn generation(number: u64, port: u16) -> Generation {
    let json = json!({
        "number": number,
        "parent": number.checked_sub(1).filter(|parent| *parent > 0),
        "reason": "a test",
        "clusters": [{"name": "web", "pool": {}, "slots": [
            {"id": "s0", "member": format!("m{port}"), "address": format!("10.0.0.1:{port}")}]}],
        "views": [{"name": "main", "clusters": [], "routes": "{\"route\": \"PoolRoute|web\"}", "pools_at": 1}],
    });
    serde_json::from_value(json).expect("a generation")
}

#[track_caller]
fn publish(all: &FleetDecisions, generation: &Generation) {
    let new = NewGeneration {
        number: generation.number,
        json: serde_json::to_vec(generation).expect("JSON"),
        texts: texts(&generation.content).into_values().collect(),
        lower: None,
        replaced: ReplacedChange::default(),
    };
    let published = all.publish(all.target().expect("an answer"), &new);
    assert!(matches!(published, Ok(Publication::Done(_))), "{published:?}");
}

fn content(all: &FleetDecisions, number: u64) -> FleetContent {
    let json = all.generation(GenerationNumber(number)).expect("an answer").expect("it is kept");
    serde_json::from_slice::<Generation>(&json).expect("a generation").content
}

/// What an agent says whose router has a generation.
fn turn(number: u64, has: u64) -> TurnReport {
    let router =
        json!({"router": "r1", "view": "main", "generation": has, "text": "loaded", "has_traffic": true});
    let json = json!({"host": "h1", "zone": "a", "boot": 1, "turn": number, "routers": [router]});
    serde_json::from_value(json).expect("a report")
}

#[test]
fn a_controller_before_a_restored_etcd_publishes_above_what_routers_have() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let fleet: ClusterName = "f".parse().expect("a name");
    let before = FleetDecisions::new(Arc::new(cluster.register()), &fleet);
    publish(&before, &generation(1, 1001));
    publish(&before, &generation(2, 1002));
    let Some(snapshot) = cluster.snapshot(0) else { return };
    publish(&before, &generation(3, 1003));
    publish(&before, &generation(4, 1004));
    cluster.restore(0, &snapshot);
    check_failure(before.target(), "went back");

    let all = FleetDecisions::new(Arc::new(cluster.register()), &fleet);
    assert_eq!(all.target().expect("an answer").map(|target| target.number.0), Some(2));
    let settings = ControllerSettings {
        fleet: "f".parse().expect("a name"),
        host: "c1".parse().expect("a name"),
        zone: "a".parse().expect("a name"),
        rollout: RolloutSettings::default(),
        health: HealthThresholds::default(),
    };
    let seats = Arc::new(AgentSeats::default());
    let begin_ms = 10_000_000;
    let begun = Controller::new(all.clone(), seats, settings, Now::at_ms(begin_ms), UNIX_S);
    let mut controller = begun.expect("a controller");
    for second in 1..=70 {
        let now = Now::at_ms(begin_ms + second * 1000);
        controller.on_message(ControllerMessage::Turn(turn(second, 4)), now, UNIX_S);
        controller.tick(now, UNIX_S);
    }
    let lines: Vec<String> = controller.take_log_lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("what 2 has goes out once more, as 5"), "{lines:?}");
    assert_eq!(all.target().expect("an answer").map(|target| target.number.0), Some(5));
    assert_eq!(content(&all, 5), generation(2, 1002).content);
    assert!(all.generation(GenerationNumber(4)).expect("an answer").is_none());
}
