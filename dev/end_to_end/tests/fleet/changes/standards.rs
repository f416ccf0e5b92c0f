//! The standard of a host by a real agent, which is killed at random moments: it is brought to it when it may be, and left alone when not.

use super::*;

/// Times that an agent is killed, by tens. `EVENKEEL_TEST_ROUNDS` names another number.
const KILLS: u64 = 60;
/// The setting that all attempts of the fake tuner at a standard change.
const PLAYED: &str = "setting-standard";

fn order(scene: &Scene, name: &str, may_act: bool, confirm_ms: u64) -> u64 {
    let standard = json!({"wish": {"profile": name}, "may_act": may_act, "confirm_ms": confirm_ms});
    scene.controller.order(Some(json!({"standard": standard})))
}

/// The word of an agent that has seen these orders, if it is about this standard.
fn word(said: &Value, seen: u64, name: &str) -> Option<Value> {
    let is_its = said["seen"] == seen && said["standard"]["wish"]["profile"] == name;
    is_its.then(|| said["standard"]["word"].clone())
}

#[track_caller]
fn until(scene: &Scene, seen: u64, name: &str, is_so: impl Fn(&Value) -> bool) {
    let found = clock::wait_for(|| word(&scene.controller.said(), seen, name).filter(&is_so));
    let said = || format!("{}\n{}\n{}", scene.controller.said(), scene.read("agent.log"), scene.read("log"));
    assert!(found.is_some(), "{}", said());
}

fn value(scene: &Scene) -> String {
    let text = scene.read(PLAYED);
    if text.is_empty() { "old".to_owned() } else { text.trim().to_owned() }
}

fn applied(scene: &Scene) -> Vec<String> {
    scene.read("log").lines().filter(|line| line.starts_with("apply")).map(str::to_owned).collect()
}

fn fake_scene() -> Scene {
    let scene =
        Scene::new(include_str!("../../../../../crates/fleet/control/src/agent/changes/tests/fake_tuner.sh"));
    let change = json!({
        "stage": "sysctl", "setting": {"file": {"path": "/proc/sys/net/core/somaxconn", "holds": "number"}},
        "now": "128", "wanted": "4096", "why": "a test", "asked_by": "profile standard", "risk": "low",
    });
    let plan = json!({"changes": [change], "host": {"kernel": "6.1", "cpus": "0-3"}});
    scene.write("plan.json", &plan.to_string());
    scene
}

#[test]
fn an_agent_that_is_killed_at_any_moment_brings_its_host_to_the_standard_only_while_it_may() {
    let mut scene = fake_scene();
    scene.start();
    let kills = std::env::var("EVENKEEL_TEST_ROUNDS").map_or(KILLS, |text| text.parse().expect("a number"));
    let mut lot = Prng::new(kills);
    // Each name is another standard, so that attempts of a day do not run out.
    let mut standards = 0;
    let mut new_name = || {
        standards += 1;
        format!("standard-{standards}")
    };
    for _ in 0..kills.div_ceil(10) {
        for _ in 0..9 {
            disturb(&scene, &mut lot);
            match lot.below(8) {
                0 => {
                    scene.controller.order(None);
                }
                1 => {
                    scene.controller.order(Some(json!({})));
                }
                _ => {
                    let (may_act, is_long) = (lot.below(4) > 0, lot.below(3) > 0);
                    order(&scene, &new_name(), may_act, if is_long { LONG_MS } else { SHORT_MS });
                }
            }
            if lot.below(3) == 0 {
                scene.write(PLAYED, "old\n");
            }
            clock::pass(Duration::from_millis(lot.below(300)));
            scene.kill();
            scene.start();
        }
        disturb_nothing(&scene);
        // Whatever was, it comes to its standard now.
        let name = new_name();
        let seen = order(&scene, &name, true, LONG_MS);
        until(&scene, seen, &name, |word| word == "meets");
        assert_eq!(value(&scene), "new");
        // And a host that may not be touched is left alone, however often its agent is killed.
        let name = new_name();
        let seen = order(&scene, &name, false, LONG_MS);
        until(&scene, seen, &name, |word| word == "meets");
        scene.write(PLAYED, "old\n");
        let before = applied(&scene);
        for _ in 0..3 {
            clock::pass(Duration::from_millis(lot.below(200)));
            scene.kill();
            scene.start();
        }
        until(&scene, seen, &name, |word| word.get("drifted").is_some());
        assert_eq!((applied(&scene), value(&scene)), (before, "old".to_owned()));
    }
    // No attempt was begun twice.
    let mut labels = applied(&scene);
    let count = labels.len();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), count, "{}", scene.read("log"));
    assert!(count as u64 >= kills / 10, "{count} attempts");
}

fn disturb_nothing(scene: &Scene) {
    for verb in ["apply", "confirm", "rollback", "status", "plan"] {
        scene.write(&format!("do-{verb}"), ":");
    }
}

#[test]
fn an_agent_that_has_lost_its_controllers_tunes_nothing_and_goes_back() {
    let mut scene = fake_scene();
    scene.start();
    // The host is tuned, and nobody answers after that.
    scene.write("do-apply", "while [ ! -e go ]; do sleep 0.05; done");
    let seen = order(&scene, "standard-1", true, 2000);
    until(&scene, seen, "standard-1", |word| word == "tuning");
    let is_there = clock::wait_for(|| (value(&scene) == "new").then_some(()));
    assert!(is_there.is_some(), "{}", scene.read("log"));
    scene.controller.order(None);
    scene.write("go", "");
    let gone = clock::wait_for(|| (value(&scene) == "old").then_some(()));
    assert!(gone.is_some(), "{}", scene.read("log"));
    assert_eq!(applied(&scene).len(), 1);
    // Controllers that are back are told so.
    let seen = order(&scene, "standard-1", false, 2000);
    until(&scene, seen, "standard-1", |word| word.get("refused").is_some());
}

#[test]
fn the_real_tuner_brings_a_host_to_its_standard_repairs_what_drifts_and_leaves_a_frozen_one() {
    let mut scene = real_scene();
    let (setting, before) = SETTING;
    scene.start();
    let seen = order(&scene, "memcached", false, LONG_MS);
    until(&scene, seen, "memcached", |word| word["lacks"]["settings"] == 1);
    assert_eq!(scene.read(setting), before);
    let seen = order(&scene, "memcached", true, LONG_MS);
    until(&scene, seen, "memcached", |word| word == "meets");
    assert_eq!(scene.read(setting), "4096");
    // Something sets it back, and the host is frozen.
    let seen = order(&scene, "memcached", false, LONG_MS);
    scene.write(setting, before);
    for _ in 0..5 {
        scene.kill();
        scene.start();
        clock::pass(Duration::from_millis(100));
    }
    until(&scene, seen, "memcached", |word| word["drifted"]["settings"] == 1);
    assert_eq!(scene.read(setting), before);
    let seen = order(&scene, "memcached", true, LONG_MS);
    until(&scene, seen, "memcached", |word| word == "meets");
    assert_eq!(scene.read(setting), "4096");
    // Both attempts can be taken back, and the host is as it was.
    for _ in 0..2 {
        let ended = Command::new(scene.path("tuner")).args(["tune", "rollback"]).output().expect("a process");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(scene.read(setting), before);
}
