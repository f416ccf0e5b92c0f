//! Changes of a host by a real agent, which is killed at random moments, with a controller that the test plays.

mod played;
mod standards;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use checkout::target_directory;
use end_to_end::{clock, subject};
use played::PlayedController;
use serde_json::{Value, json};
use stdx::prng::Prng;

/// Times that an agent is killed with a tuner that a test plays. `EVENKEEL_TEST_ROUNDS` names another number.
const KILLS: u64 = 100;
/// The same with the real one, which is asked on a host in a directory.
const REAL_KILLS: u64 = 40;
/// One change in three is not confirmed in time, unless the agent is quick.
const SHORT_MS: u64 = 1000;
const LONG_MS: u64 = 600_000;

/// An agent in a folder of its own, and a controller beside it.
struct Scene {
    folder: PathBuf,
    controller: PlayedController,
    agent: Option<Child>,
}

impl Scene {
    /// With a script as the tuner.
    fn new(tuner: &str) -> Scene {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("changes-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = target_directory().join("tmp").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let folder = folder.canonicalize().expect("a folder");
        let controller = PlayedController::begin(&folder.join("socket"));
        let scene = Scene { folder, controller, agent: None };
        scene.write("tuner", tuner);
        fs::set_permissions(scene.path("tuner"), Permissions::from_mode(0o755)).expect("permissions");
        let at = |name: &str| scene.path(name).display().to_string();
        scene.write(
            "agent.toml",
            &format!(
                "host = \"h1\"\nzone = \"a\"\ncontrollers = [\"unix:{}\"]\nfolder = \"{}\"\n[tune]\nplan = true\napply = true\nbinary = \"{}\"\n\
                 [[server]]\nmember = \"m1\"\naddress = \"unix:{}\"\npid_file = \"{}\"\n",
                at("socket"),
                at("agent"),
                at("tuner"),
                at("no-server"),
                at("no-pid"),
            ),
        );
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let new = self.path(".new");
        fs::write(&new, text).expect("a file");
        fs::rename(&new, self.path(name)).expect("a file");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("agent.log")).expect("a log");
        let mut command = Command::new(subject::router().get_program());
        command.arg("agent").arg(self.path("agent.toml")).stdin(Stdio::null()).stdout(Stdio::null());
        self.agent = Some(command.stderr(log).spawn().expect("a process"));
    }

    fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            // It may have ended by itself, which the next report would show.
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// What the host would do for a profile now, by its digest.
    fn own(&self, ask: &str) -> String {
        let asks = json!([{"id": ask, "what": {"plan": {"profile": "memcached"}}}]);
        self.controller.order(Some(json!({"tune": {"asks": asks}})));
        self.controller.until(|said| {
            let plans = said["tune"]["plans"].as_array()?;
            let answer = plans.iter().find(|plan| plan["ask"] == ask)?;
            Some(answer["answer"]["done"]["own"].as_str()?.to_owned())
        })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// What a controller wants of one change.
#[derive(Clone, Debug)]
struct Wanted {
    change: u64,
    version: u64,
    attempt: u32,
    is_on: bool,
    confirm_ms: u64,
    own: String,
}

impl Wanted {
    fn order(&self) -> Value {
        let attempt = self.is_on.then_some(self.attempt);
        json!({
            "order": {"change": self.change, "version": self.version, "attempt": attempt}, "confirm_ms": self.confirm_ms,
            "act": {"tune": {"wish": {"profile": "memcached"}, "own": self.own}},
        })
    }

    fn turn(&mut self, is_long: bool) {
        self.version += 1;
        self.attempt += u32::from(!self.is_on);
        self.is_on = !self.is_on;
        self.confirm_ms = if is_long { LONG_MS } else { SHORT_MS };
    }

    /// The word of this change, if it is one that may be the last one, of an agent that has seen these orders: the report of one that was killed
    /// may come after its end.
    fn last_word(&self, said: &Value, seen: u64) -> Option<(&'static str, String)> {
        if said["seen"] != seen {
            return None;
        }
        let words = said["changes"]["words"].as_array()?;
        let word = &words.iter().find(|word| word["change"] == self.change)?["word"];
        let of_attempt = |kind: &str| word[kind]["attempt"] == self.attempt;
        let shown = word.to_string();
        match self.is_on {
            true if of_attempt("changed") => Some(("new", shown)),
            true if of_attempt("lapsed") || of_attempt("failed") => Some(("old", shown)),
            false if word == "as_before" || word.get("lapsed").is_some() || word.get("failed").is_some() => {
                Some(("old", shown))
            }
            _ => None,
        }
    }
}

fn say(scene: &Scene, wanted: &[Wanted]) -> u64 {
    let changes: Vec<Value> = wanted.iter().map(Wanted::order).collect();
    scene.controller.order(Some(json!({"changes": changes})))
}

#[test]
fn an_agent_that_is_killed_at_any_moment_leaves_its_host_as_it_says() {
    let script = include_str!("../../../../crates/fleet/control/src/agent/changes/tests/fake_tuner.sh");
    let mut scene = Scene::new(script);
    let change = json!({
        "stage": "sysctl", "setting": {"file": {"path": "/proc/sys/net/core/somaxconn", "holds": "number"}},
        "now": "128", "wanted": "4096", "why": "a test", "asked_by": "profile memcached", "risk": "low",
    });
    let plan = json!({"changes": [change], "host": {"kernel": "6.1", "cpus": "0-3"}});
    scene.write("plan.json", &plan.to_string());
    scene.start();
    let own = scene.own("p1");
    let mut wanted: Vec<Wanted> = (1..=2)
        .map(|change| Wanted {
            change,
            version: 1,
            attempt: 0,
            is_on: false,
            confirm_ms: LONG_MS,
            own: own.clone(),
        })
        .collect();
    let kills = std::env::var("EVENKEEL_TEST_ROUNDS").map_or(KILLS, |text| text.parse().expect("a number"));
    let mut lot = Prng::new(kills);
    let mut kept = [0, 0];
    for kill in 0..kills {
        disturb(&scene, &mut lot);
        if lot.below(2) == 0 {
            let is_long = lot.below(3) > 0;
            wanted[lot.below(2) as usize].turn(is_long);
        }
        match lot.below(8) {
            0 => scene.controller.order(None),
            _ => say(&scene, &wanted),
        };
        clock::pass(Duration::from_millis(lot.below(300)));
        scene.kill();
        scene.start();
        if kill % 10 == 9 {
            settles(&scene, &wanted, &mut kept);
        }
    }
    assert!(kept.iter().all(|count| *count > 0), "both ends are seen: {kept:?}");
    // No attempt was begun twice.
    let log = scene.read("log");
    let mut applied: Vec<&str> = log.lines().filter(|line| line.starts_with("apply")).collect();
    let count = applied.len();
    applied.sort_unstable();
    applied.dedup();
    assert_eq!(applied.len(), count, "{log}");
}

/// What the tuner does in the middle of its verbs.
fn disturb(scene: &Scene, lot: &mut Prng) {
    for verb in ["apply", "confirm", "rollback", "status", "plan"] {
        let what = match lot.below(if verb == "status" { 32 } else { 8 }) {
            0 => "kill -9 $$",
            1 | 2 => "sleep 0.1",
            3 => "refuse 'write to the journal: no space left on device'",
            _ => ":",
        };
        scene.write(&format!("do-{verb}"), what);
    }
}

/// When nothing is disturbed any more, the host says how it is, and is so.
#[track_caller]
fn settles(scene: &Scene, wanted: &[Wanted], kept: &mut [usize; 2]) {
    for verb in ["apply", "confirm", "rollback", "status", "plan"] {
        scene.write(&format!("do-{verb}"), ":");
    }
    let seen = say(scene, wanted);
    let digest = &wanted[0].own[..12];
    let is_so = |said: &Value| {
        let mut values = Vec::new();
        for one in wanted {
            let (value, _) = one.last_word(said, seen)?;
            let found = scene.read(&format!("setting-change-{}-{digest}", one.change));
            let found = if found.is_empty() { "old" } else { found.trim() };
            // It is said again and again, so that it is so in the end.
            if found != value {
                return None;
            }
            values.push(value);
        }
        Some(values)
    };
    let found = clock::wait_for(|| is_so(&scene.controller.said()));
    let Some(values) = found else {
        panic!("{wanted:?}\n{}\n{}", scene.controller.said(), scene.read("agent.log"));
    };
    for value in values {
        kept[usize::from(value == "new")] += 1;
    }
    // It stays so, and what it keeps waits for nobody.
    clock::pass(Duration::from_millis(100));
    assert!(is_so(&scene.controller.said()).is_some(), "{wanted:?}: {}", scene.controller.said());
}

/// A setting of a host in a directory, and its value before.
const SETTING: (&str, &str) = ("root/proc/sys/net/core/somaxconn", "128\n");

/// The real tuner, on another host than this one, in a directory, with journals of its own.
fn real_scene() -> Scene {
    let program = PathBuf::from(subject::router().get_program());
    let scene = Scene::new("");
    let (root, state) = (scene.path("root"), scene.path("state"));
    let script = format!(
        "#!/bin/sh\ncase $2 in\nplan) exec {0} \"$@\" --root {1} ;;\n*) exec {0} \"$@\" --root {1} --state {2} ;;\nesac\n",
        program.display(),
        root.display(),
        state.display()
    );
    scene.write("tuner", &script);
    fs::set_permissions(scene.path("tuner"), Permissions::from_mode(0o755)).expect("permissions");
    fs::create_dir_all(root.join("proc/sys/net/core")).expect("a folder");
    fs::create_dir_all(root.join("proc/sys/kernel/random")).expect("a folder");
    fs::write(root.join("proc/sys/kernel/random/boot_id"), "first\n").expect("a file");
    scene.write(SETTING.0, SETTING.1);
    scene
}

#[test]
fn the_real_tuner_changes_a_host_and_takes_it_back_byte_for_byte_whenever_its_agent_is_killed() {
    let mut scene = real_scene();
    let (setting, before) = SETTING;
    scene.start();
    let own = scene.own("p1");
    let mut wanted = Wanted { change: 1, version: 1, attempt: 0, is_on: false, confirm_ms: LONG_MS, own };
    let mut lot = Prng::new(1);
    let mut kept = [0, 0];
    for kill in 0..REAL_KILLS {
        wanted.turn(lot.below(3) > 0);
        say(&scene, std::slice::from_ref(&wanted));
        clock::pass(Duration::from_millis(lot.below(150)));
        scene.kill();
        scene.start();
        if kill % 4 == 3 {
            let seen = say(&scene, std::slice::from_ref(&wanted));
            let is_so = |said: &Value| wanted.last_word(said, seen);
            let (value, word) = scene.controller.until(is_so);
            let found = scene.read(setting);
            assert_eq!(found, if value == "new" { "4096" } else { before }, "{word}");
            kept[usize::from(value == "new")] += 1;
        }
        if kill % 8 == 3 {
            // The last one of each eight goes back.
            wanted.turn(true);
        }
    }
    if wanted.is_on {
        wanted.turn(true);
    }
    let seen = say(&scene, std::slice::from_ref(&wanted));
    scene.controller.until(|said| wanted.last_word(said, seen));
    assert_eq!(scene.read(setting), before);
    assert!(kept.iter().all(|count| *count > 0), "both ends are seen: {kept:?}");
}
