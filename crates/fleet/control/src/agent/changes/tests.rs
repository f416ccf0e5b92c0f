//! Changes of a host with a tuner that a test plays: `fake_tuner.sh` keeps its settings in files, and does what a test says.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fleet::tuning::{AnswerDigest, HostPlan};
use fleet::waves::{ChangeNumber, HostOrder, HostWord};
use os::clock::pause;
use serde_json::{Value, json};

use super::*;
use crate::service::turn::{PlanWish, answer_digest};

mod standard;

/// The longest time for what takes moments.
const WITHIN: Duration = Duration::from_secs(60);

fn plan() -> Value {
    let change = json!({
        "stage": "sysctl", "setting": {"file": {"path": "/proc/sys/net/core/somaxconn", "holds": "number"}},
        "now": "128", "wanted": "4096", "why": "a test", "asked_by": "profile memcached", "risk": "low",
    });
    json!({"changes": [change], "host": {"kernel": "6.1", "cpus": "0-3"}})
}

fn own() -> AnswerDigest {
    answer_digest(HostPlan::read(&plan()).expect("a plan").own.as_bytes())
}

fn order(change: u64, version: u64, attempt: Option<u32>, confirm_ms: u64) -> ChangeOrder {
    let act = HostAct::Tune { wish: PlanWish::Profile("memcached".to_owned()), own: own() };
    ChangeOrder { order: HostOrder { change: ChangeNumber(change), version, attempt }, act, confirm_ms }
}

/// A folder with the fake tuner and the state of an agent.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Scene {
        let folder = std::env::temp_dir().join(format!("evenkeel-changes-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("agent")).expect("a folder");
        let scene = Scene(folder);
        scene.put("tuner", include_str!("tests/fake_tuner.sh"));
        fs::set_permissions(scene.0.join("tuner"), Permissions::from_mode(0o755)).expect("permissions");
        scene.put("plan.json", &plan().to_string());
        scene
    }

    fn put(&self, name: &str, text: &str) {
        let new = self.0.join(".new");
        fs::write(&new, text).expect("a file");
        fs::rename(&new, self.0.join(name)).expect("a file");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.join(name)).expect("it is ours");
    }

    fn settings(&self) -> TuneSettings {
        let binary = Some(self.0.join("tuner"));
        TuneSettings { check: false, plan: true, apply: true, binary, seconds: 1 }
    }

    fn desk(&self) -> Turns {
        self.desk_with(&self.settings())
    }

    fn desk_with(&self, settings: &TuneSettings) -> Turns {
        let store = AgentStore::open(&self.0.join("agent")).expect("a folder");
        let desk = ChangeDesk::start(settings, None, &store, Arc::new(|_, _: &str| {}));
        let Ok(desk) = desk else { panic!("it begins") };
        Turns { desk, report: report(), turn: 0 }
    }

    /// The value of the setting of a change.
    fn value(&self, change: u64) -> String {
        let digest: String = own().as_str().chars().take(12).collect();
        let path = self.0.join(format!("setting-change-{change}-{digest}"));
        fs::read_to_string(path).map_or("old".to_owned(), |text| text.trim().to_owned())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.join("log")).unwrap_or_default()
    }

    /// Runs of the tuner with this verb.
    fn runs(&self, verb: &str) -> usize {
        self.log().lines().filter(|line| line.starts_with(verb)).count()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn report() -> TurnReport {
    serde_json::from_value(json!({"host": "h1", "zone": "a", "boot": 1, "turn": 0})).expect("a report")
}

/// The turns of an agent, as its threads take them.
struct Turns {
    desk: ChangeDesk,
    report: TurnReport,
    turn: u64,
}

impl Turns {
    /// A turn that is answered with these orders.
    fn turn(&mut self, orders: &[ChangeOrder]) {
        let turn = self.ask();
        self.desk.on_orders(orders.to_vec(), None, turn);
    }

    /// A turn that is not answered yet.
    fn ask(&mut self) -> u64 {
        self.desk.report(&mut self.report);
        self.turn += 1;
        self.report.turn = self.turn;
        self.turn
    }

    fn words(&mut self) -> Vec<ChangeWord> {
        self.desk.report(&mut self.report);
        self.report.changes.clone().expect("it says something").words
    }

    /// Waits for these words without another turn.
    #[track_caller]
    fn until(&mut self, expected: &[(u64, HostWord)]) {
        self.until_so(&[], expected);
    }

    /// Takes turns until the host says this.
    #[track_caller]
    fn turn_until(&mut self, orders: &[ChangeOrder], expected: &[(u64, HostWord)]) {
        self.until_so(orders, expected);
    }

    #[track_caller]
    fn until_so(&mut self, orders: &[ChangeOrder], expected: &[(u64, HostWord)]) {
        let watch = Stopwatch::start();
        loop {
            if !orders.is_empty() {
                self.turn(orders);
            }
            let found = self.words();
            let found: Vec<(u64, HostWord)> =
                found.into_iter().map(|word| (word.change.0, word.word)).collect();
            if found == expected {
                return;
            }
            assert!(watch.passed() < WITHIN, "{found:?}, and not {expected:?}");
            pause(Duration::from_millis(5));
        }
    }
}

const LONG: u64 = 600_000;

fn failed(attempt: u32, reason: &str) -> HostWord {
    HostWord::Failed { attempt, reason: reason.to_owned() }
}

#[test]
fn a_change_is_kept_when_a_controller_is_heard_after_it_and_taken_back_when_it_is_told() {
    let scene = Scene::new("kept");
    let mut turns = scene.desk();
    let on = order(4, 7, Some(1), LONG);
    // The answer to this turn arrives late: it was asked before the change was made.
    let early = turns.ask();
    turns.turn(std::slice::from_ref(&on));
    turns.until(&[(4, HostWord::Trying { attempt: 1 })]);
    while scene.value(4) == "old" {
        pause(Duration::from_millis(5));
    }
    turns.desk.on_orders(vec![on.clone()], None, early);
    pause(Duration::from_millis(200));
    turns.until(&[(4, HostWord::Trying { attempt: 1 })]);
    assert_eq!(scene.runs("confirm"), 0, "{}", scene.log());
    turns.turn_until(&[on], &[(4, HostWord::Changed { attempt: 1 })]);
    assert_eq!((scene.value(4), scene.runs("confirm")), ("new".to_owned(), 1));
    turns.turn_until(&[order(4, 8, None, LONG)], &[(4, HostWord::AsBefore)]);
    assert_eq!((scene.value(4), scene.runs("apply")), ("old".to_owned(), 1));
    // An order that is out of date changes nothing; a new attempt does.
    turns.turn(&[order(4, 7, Some(1), LONG)]);
    turns.turn_until(&[order(4, 9, Some(2), LONG)], &[(4, HostWord::Changed { attempt: 2 })]);
    turns.turn(&[order(4, 8, None, LONG)]);
    pause(Duration::from_millis(200));
    turns.until(&[(4, HostWord::Changed { attempt: 2 })]);
    assert_eq!(scene.runs("apply"), 2);
}

#[test]
fn a_host_that_does_not_hear_a_controller_goes_back_by_itself_and_tries_no_attempt_twice() {
    let scene = Scene::new("lapsed");
    let mut turns = scene.desk();
    turns.turn(&[order(1, 1, Some(1), 1000)]);
    turns.until(&[(1, HostWord::Lapsed { attempt: 1 })]);
    assert_eq!(scene.value(1), "old");
    turns.turn(&[order(1, 2, Some(1), 1000)]);
    turns.turn_until(&[order(1, 3, None, 1000)], &[(1, HostWord::Lapsed { attempt: 1 })]);
    assert_eq!(scene.runs("apply"), 1);
    turns.turn_until(&[order(1, 4, Some(2), LONG)], &[(1, HostWord::Changed { attempt: 2 })]);
}

#[test]
fn a_host_that_would_change_something_else_or_cannot_says_why_and_is_as_before() {
    let scene = Scene::new("failed");
    let mut turns = scene.desk();
    let mut other = plan();
    other["host"]["cpus"] = "0-1".into();
    scene.put("plan.json", &other.to_string());
    let differs = "the host would change something else now than when it was planned";
    turns.turn_until(&[order(1, 1, Some(1), LONG)], &[(1, failed(1, differs))]);
    assert_eq!(scene.runs("apply"), 0);
    scene.put("plan.json", &plan().to_string());
    scene.put("do-apply", "set_value \"$setting\" old; put \"$journal\" \"$label\" undone 0 old; refuse 'write it: no space left on device'");
    let full =
        "`tune apply` ended with exit status: 1: evenkeel: tune: failed to write it: no space left on device";
    turns.turn_until(&[order(1, 2, Some(2), LONG)], &[(1, failed(2, full))]);
    assert_eq!(scene.value(1), "old");
    // It stays so when it is told to be as before.
    turns.turn_until(&[order(1, 3, None, LONG)], &[(1, failed(2, full))]);
}

#[test]
fn a_tuner_that_is_killed_in_the_middle_leaves_nothing() {
    let scene = Scene::new("killed-tuner");
    let mut turns = scene.desk();
    scene.put("do-apply", "kill -9 $$");
    let killed = "`tune apply` ended with signal: 9 (SIGKILL)";
    turns.turn_until(&[order(1, 1, Some(1), LONG)], &[(1, failed(1, killed))]);
    assert_eq!((scene.value(1), scene.runs("rollback")), ("old".to_owned(), 1));
}

#[test]
fn a_host_that_cannot_go_back_says_so_until_it_can() {
    let scene = Scene::new("stuck");
    let mut turns = scene.desk();
    turns.turn_until(&[order(1, 1, Some(1), LONG)], &[(1, HostWord::Changed { attempt: 1 })]);
    scene.put("do-rollback", "refuse 'undo everything: it is busy'");
    let stuck = HostWord::Stuck {
        reason:
            "`tune rollback` ended with exit status: 1: evenkeel: tune: failed to undo everything: it is busy"
                .to_owned(),
    };
    turns.turn_until(&[order(1, 2, None, LONG)], &[(1, stuck.clone())]);
    // Another change does not wait for it: a controller would not know for what.
    let in_the_way = "change 1 of the host is in the way: `tune rollback` ended with exit status: 1: evenkeel: tune: failed to undo everything: it is busy";
    turns.turn_until(
        &[order(1, 2, None, LONG), order(2, 1, Some(1), LONG)],
        &[(1, stuck), (2, failed(1, in_the_way))],
    );
    scene.remove("do-rollback");
    turns.turn_until(&[order(1, 2, None, LONG)], &[(1, HostWord::AsBefore), (2, failed(1, in_the_way))]);
    assert_eq!(scene.value(1), "old");
}

#[test]
fn of_several_changes_the_newest_goes_back_first() {
    let scene = Scene::new("several");
    let mut turns = scene.desk();
    let (one, two) = (order(1, 1, Some(1), LONG), order(2, 1, Some(1), LONG));
    let changed = |change| (change, HostWord::Changed { attempt: 1 });
    turns.turn_until(std::slice::from_ref(&one), &[changed(1)]);
    turns.turn_until(&[one, two], &[changed(1), changed(2)]);
    let off = [order(1, 2, None, LONG), order(2, 2, None, LONG)];
    turns.turn_until(&off, &[(1, HostWord::AsBefore), (2, HostWord::AsBefore)]);
    let log = scene.log();
    let back: Vec<&str> = log.lines().filter(|line| line.starts_with("rollback")).collect();
    assert!(back.len() == 2 && back[0].contains("change-2-") && back[1].contains("change-1-"), "{log}");
}

#[test]
fn what_somebody_else_has_taken_back_is_not_done_again() {
    let scene = Scene::new("by-hand");
    let on = order(1, 1, Some(1), LONG);
    scene.desk().turn_until(std::slice::from_ref(&on), &[(1, HostWord::Changed { attempt: 1 })]);
    let digest: String = own().as_str().chars().take(12).collect();
    let label = format!("--label=change-1-{digest}-1");
    let ended = std::process::Command::new(scene.0.join("tuner")).args(["tune", "rollback", &label]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    let by_hand = "it was taken back on the host, and not by the host's agent";
    // Another agent, which looks at once.
    scene.desk().turn_until(&[on], &[(1, failed(1, by_hand))]);
    assert_eq!((scene.value(1), scene.runs("apply")), ("old".to_owned(), 1));
}

#[test]
fn settings_that_something_else_changes_are_said_after_two_looks() {
    let scene = Scene::new("aside");
    let store = AgentStore::open(&scene.0.join("agent")).expect("a folder");
    let (on, mut tuner) = (order(1, 1, Some(1), LONG), TunerActor::new(&scene.settings(), store));
    assert_eq!(tuner.begin(&on, 1), Ok(actor::BegunAct::Done));
    assert_eq!(tuner.keep(&on, 1), Ok(()));
    let looked = |tuner: &mut TunerActor| {
        assert!(tuner.look(&on).is_ok());
        tuner.aside(&on)
    };
    assert_eq!(looked(&mut tuner), None);
    let digest: String = own().as_str().chars().take(12).collect();
    scene.put(&format!("setting-change-1-{digest}"), "7");
    assert_eq!(looked(&mut tuner), None, "it may be put back at once");
    assert_eq!(looked(&mut tuner).as_deref(), Some("a is 7 and no longer new"));
    scene.put(&format!("setting-change-1-{digest}"), "new");
    assert_eq!(looked(&mut tuner), None);
}

#[test]
fn a_disk_that_takes_nothing_lets_no_change_begin_and_every_change_go_back() {
    let scene = Scene::new("full");
    let mut turns = scene.desk();
    let (one, two) = (order(1, 1, Some(1), LONG), order(2, 1, Some(1), LONG));
    let changed = (1, HostWord::Changed { attempt: 1 });
    turns.turn_until(std::slice::from_ref(&one), std::slice::from_ref(&changed));
    // A file cannot take the place of a folder.
    scene.remove("agent/changes-of-the-host.json");
    fs::create_dir(scene.0.join("agent/changes-of-the-host.json")).expect("a folder");
    let path = scene.0.join("agent/changes-of-the-host.json");
    let why = format!("keep that it is begun: write {}: it is not a regular file", path.display());
    turns.turn_until(&[one, two], &[changed, (2, failed(1, &why))]);
    assert_eq!(scene.runs("apply"), 1);
    let off = [order(1, 2, None, LONG), order(2, 2, None, LONG)];
    turns.turn_until(&off, &[(1, HostWord::AsBefore), (2, failed(1, &why))]);
    assert_eq!(scene.value(1), "old");
}

#[test]
fn an_agent_that_may_not_change_the_host_changes_nothing_and_still_takes_back() {
    let scene = Scene::new("may-not");
    let on = order(1, 1, Some(1), LONG);
    scene.desk().turn_until(std::slice::from_ref(&on), &[(1, HostWord::Changed { attempt: 1 })]);
    let mut turns = scene.desk_with(&TuneSettings { apply: false, ..scene.settings() });
    turns.turn_until(&[order(1, 2, None, LONG)], &[(1, HostWord::AsBefore)]);
    assert!(turns.report.changes.as_ref().is_some_and(|changes| changes.allowed.is_empty()));
    let why = "the agent's file does not allow it: [tune] apply = true is not there";
    turns.turn_until(&[order(1, 3, Some(2), LONG)], &[(1, failed(2, why))]);
    assert_eq!(scene.runs("apply"), 1);
}

#[test]
fn what_cannot_be_read_is_not_taken_for_as_before() {
    let scene = Scene::new("unread");
    let on = order(1, 1, Some(1), LONG);
    scene.desk().turn_until(std::slice::from_ref(&on), &[(1, HostWord::Changed { attempt: 1 })]);
    scene.put("unread", "");
    scene.remove("000001.journal");
    let reason = "look how the host is: understand `tune status`: not all that is in force can be read: 000009.jsonl: line 5 cannot be read";
    let stuck = HostWord::Stuck { reason: reason.to_owned() };
    scene.desk().turn_until(&[order(1, 2, None, LONG)], &[(1, stuck)]);
}

#[test]
fn an_agent_whose_folder_is_lost_finds_on_the_host_what_it_has_done() {
    let scene = Scene::new("folder");
    let on = order(1, 1, Some(2), LONG);
    scene.desk().turn_until(std::slice::from_ref(&on), &[(1, HostWord::Changed { attempt: 2 })]);
    for entry in fs::read_dir(scene.0.join("agent")).expect("a folder").flatten() {
        fs::remove_file(entry.path()).expect("it is ours");
    }
    scene.desk().turn_until(&[on], &[(1, HostWord::Changed { attempt: 2 })]);
    assert_eq!(scene.runs("apply"), 1);
    scene.desk().turn_until(&[order(1, 2, None, LONG)], &[(1, HostWord::AsBefore)]);
    assert_eq!(scene.value(1), "old");
}

#[test]
fn records_of_a_newer_agent_are_kept_for_it() {
    let scene = Scene::new("newer");
    let path = scene.0.join("agent/changes-of-the-host.json");
    let newer = json!({"order": {"order": {"change": 9, "version": 1, "attempt": 1}, "act": {"melt": {}}}});
    fs::write(&path, json!({"changes": [newer]}).to_string()).expect("a file");
    scene.desk().turn_until(&[order(1, 1, Some(1), LONG)], &[(1, HostWord::Changed { attempt: 1 })]);
    let kept: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    assert_eq!((&kept["changes"][0], kept["changes"].as_array().map(Vec::len)), (&newer, Some(2)));
}

#[test]
fn of_a_great_many_changes_those_are_forgotten_that_nobody_names() {
    let scene = Scene::new("many");
    let mut turns = scene.desk();
    let as_before = |change| (change, HostWord::AsBefore);
    for number in 1..=20 {
        let first = number.max(16) - 15;
        let expected: Vec<_> = (first..=number).map(as_before).collect();
        turns.turn_until(&[order(number, 1, None, LONG)], &expected);
    }
    assert!(Path::new(&scene.0.join("agent/changes-of-the-host.json")).exists());
}
