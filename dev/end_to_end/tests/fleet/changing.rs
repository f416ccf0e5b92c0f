//! Fleets whose agents change hosts with the real tuner, each a host in a directory: what it sets is read there, byte for byte.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use end_to_end::clock;
use end_to_end::fleet::{DecisionStore, Fleet, HostKind};
use end_to_end::subject;
use serde_json::Value;

/// What a change sets, and the value before. Others of the profile are not in the directory.
pub(crate) const SETTING: &str = "proc/sys/net/core/somaxconn";
const BEFORE: &str = "128\n";
const AFTER: &str = "4096";
/// The longest time of a change in a test.
const CHANGED_WITHIN: Duration = Duration::from_secs(400);

/// Files of a host, by their paths.
type HostFiles = BTreeMap<PathBuf, Vec<u8>>;

/// The fleet, and how each of its hosts was at first.
pub(crate) struct ChangingFleet {
    pub(crate) fleet: Fleet,
    before: Vec<HostFiles>,
}

impl ChangingFleet {
    /// Adds so many hosts of this kind to a fleet with controllers, and waits until they are heard.
    pub(crate) fn new(mut fleet: Fleet, hosts: usize, kind: impl Fn(usize) -> HostKind) -> ChangingFleet {
        for number in 1..=hosts {
            make_host(&fleet.path(&format!("tuner{number}")), number);
            fleet.host_with(number, HostKind { has_tuner: true, certificate_days: Some(0), ..kind(number) });
        }
        let before = (1..=hosts).map(|number| files(&root(&fleet, number))).collect();
        let fleet = ChangingFleet { fleet, before };
        fleet.until_heard(hosts);
        fleet
    }

    /// Waits until so many hosts are heard that change what they are told.
    #[track_caller]
    pub(crate) fn until_heard(&self, hosts: usize) {
        self.fleet.until(|fleet| {
            let check = fleet.try_control(&["tune", "check", "--json"]).unwrap_or_default();
            let check: Value = serde_json::from_str(&check).unwrap_or_default();
            let missing = check["missing"].as_array().cloned().unwrap_or_default();
            // Looks of their own were not allowed.
            let heard = missing.iter().filter(|missing| missing["cause"] == "not_allowed");
            heard.map(|missing| missing["hosts"].as_array().map_or(0, Vec::len)).sum::<usize>() == hosts
        });
    }

    /// Asks for a change, as soon as there is room for one more question.
    pub(crate) fn apply(&self, hosts: &str, more: &[&str]) -> Result<String, String> {
        let words = ["tune", "apply", "--hosts", hosts, "--profile", "memcached"];
        loop {
            match self.fleet.try_control(&[&words[..], more].concat()) {
                Err(error) if error.contains("questions were asked in the last") => {
                    clock::pass(Duration::from_secs(5));
                }
                said => return said,
            }
        }
    }

    /// What the command says of a change; nothing while nobody answers.
    pub(crate) fn status(&self, number: u64) -> Value {
        let text = self.fleet.try_control(&["tune", "status", &number.to_string(), "--json"]);
        text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"))
    }

    /// Waits until a change is in one of these states.
    #[track_caller]
    pub(crate) fn until(&self, number: u64, states: &[&str]) -> Value {
        let begun = clock::now();
        loop {
            let status = self.status(number);
            if status["state"].as_str().is_some_and(|state| states.contains(&state)) {
                return status;
            }
            let text = self.fleet.try_control(&["tune", "status", &number.to_string()]);
            assert!(begun.elapsed() < CHANGED_WITHIN, "{text:?}\n{}", self.fleet.read("c1.log"));
            clock::pass(Duration::from_millis(100));
        }
    }

    /// Takes a change back, and returns after how long every host was as before.
    #[track_caller]
    pub(crate) fn undo(&self, number: u64) -> Duration {
        let begun = clock::now();
        while let Err(error) =
            self.fleet.try_control(&["tune", "undo", &number.to_string(), "--why", "a test"])
        {
            assert!(begun.elapsed() < CHANGED_WITHIN, "{error}");
            clock::pass(Duration::from_millis(500));
        }
        self.until_as_before(begun, number)
    }

    /// Waits until every file of every host is as before, byte for byte, and the change is undone. Returns after how long the hosts were.
    #[track_caller]
    pub(crate) fn until_as_before(&self, since: Instant, number: u64) -> Duration {
        let mut took = None;
        while took.is_none() {
            let others: Vec<usize> = self.hosts().filter(|number| !self.is_as_before(*number)).collect();
            took = others.is_empty().then(|| since.elapsed());
            let status = || self.status(number);
            assert!(since.elapsed() < CHANGED_WITHIN, "hosts {others:?} are not as before: {}", status());
            clock::pass(Duration::from_millis(20));
        }
        self.until(number, &["undone"]);
        let others: Vec<usize> = self.hosts().filter(|number| !self.is_as_before(*number)).collect();
        assert!(others.is_empty(), "it is said to be undone, and hosts {others:?} are not as before");
        took.unwrap_or_default()
    }

    /// Numbers of all hosts that can be changed.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = usize> {
        1..=self.before.len()
    }

    /// Every file of the host is as it was at first.
    pub(crate) fn is_as_before(&self, number: usize) -> bool {
        files(&root(&self.fleet, number)) == self.before[number - 1]
    }

    /// The host has what changes set, and nothing else of it is another than before.
    pub(crate) fn is_changed(&self, number: usize) -> bool {
        let mut changed = self.before[number - 1].clone();
        changed.insert(root(&self.fleet, number).join(SETTING), AFTER.into());
        files(&root(&self.fleet, number)) == changed
    }

    /// Hosts that have the change.
    pub(crate) fn changed(&self) -> Vec<usize> {
        self.hosts().filter(|number| self.is_changed(*number)).collect()
    }

    /// Writes a file of a host, as its kernel would.
    pub(crate) fn set(&self, number: usize, file: &str, text: &str) {
        fs::write(root(&self.fleet, number).join(file), text).expect("a file");
    }

    /// How the host is now is how it is before a change from now on.
    pub(crate) fn note_as_before(&mut self, number: usize) {
        self.before[number - 1] = files(&root(&self.fleet, number));
    }

    /// The host is started again: settings are those of the kernel, and no process is left.
    pub(crate) fn reboot(&mut self, number: usize, boot: usize) {
        self.fleet.hosts[number - 1].agent = None;
        self.set(number, SETTING, BEFORE);
        self.set(number, "proc/sys/kernel/random/boot_id", &format!("boot {boot} of {number}\n"));
        self.note_as_before(number);
        let own = root(&self.fleet, number).join("proc/sys/kernel/random/boot_id");
        // The agent reads where the kernel says it.
        let script =
            format!("mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$0\" \"$@\"", own.display());
        self.fleet.restart_agent_behind(number - 1, &["unshare", "--mount", "sh", "-c", &script]);
    }
}

/// Whether a host in a directory has what changes set: for what a test's servers do with it.
pub(crate) fn has_setting(tuner: &Path) -> bool {
    fs::read_to_string(tuner.join("root").join(SETTING)).is_ok_and(|value| value.trim() == AFTER)
}

/// Where the files of a host are.
pub(crate) fn root(fleet: &Fleet, number: usize) -> PathBuf {
    fleet.path(&format!("tuner{number}")).join("root")
}

/// A host in a directory with four CPUs, and a script that is the tuner for it.
fn make_host(place: &Path, number: usize) {
    let (root, state) = (place.join("root"), place.join("state"));
    let file = |name: &str, text: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    file(SETTING, BEFORE);
    file("proc/sys/kernel/random/boot_id", &format!("boot 1 of {number}\n"));
    file("proc/sys/kernel/osrelease", "6.1.0\n");
    file("sys/devices/system/cpu/online", "0-3\n");
    let program = PathBuf::from(subject::router().get_program());
    let (program, root) = (program.display(), root.display());
    let script = format!(
        "#!/bin/sh\ncase $2 in\nplan) exec {program} \"$@\" --root {root} ;;\n*) exec {program} \"$@\" --root {root} --state {} ;;\nesac\n",
        state.display()
    );
    fs::write(place.join("tuner"), script).expect("a file");
    fs::set_permissions(place.join("tuner"), Permissions::from_mode(0o755)).expect("permissions");
}

fn files(folder: &Path) -> HostFiles {
    let mut found = HostFiles::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                // One that is being replaced is another one.
                false => drop(found.insert(path.clone(), fs::read(&path).unwrap_or_default())),
            }
        }
    }
    found
}

/// Waves of seconds that judge nobody: what is asked is whether hosts are what is said of them.
pub(crate) const UNJUDGED: [&str; 12] = [
    "--accept",
    "all",
    "--set",
    "baseline_ms=1000",
    "--set",
    "look_ms=1000",
    "--set",
    "zone_ms=1000",
    "--set",
    "shares=[50]",
    "--set",
    "silence_ms=20000",
];
/// Begins what is shown.
pub(crate) const BEGIN: [&str; 3] = ["--apply", "--why", "a test"];

#[test]
fn a_change_is_what_hosts_are_whoever_asks_for_it_and_whatever_they_are_by_then() {
    let mut fleet = Fleet::new(DecisionStore::Directory);
    fleet.controller(1, 1);
    let zone = |number| Some(if number % 2 == 0 { "a" } else { "b" });
    let kind = |number| HostKind { zone: zone(number), has_no_router: true, ..HostKind::default() };
    let mut fleet = ChangingFleet::new(fleet, 4, kind);

    // A class that no host has, and hosts that there are not.
    for (scope, expected) in [("class=huge", "huge"), ("host=h1,h9", "h9")] {
        let refused = fleet.apply(scope, &UNJUDGED).expect_err("nobody is meant");
        assert!(refused.contains(expected), "{refused}");
    }
    let is_fit = |line: &&str| line.contains(" spare ") && line.contains("; answers within");
    fleet.fleet.until(|fleet| fleet.status().lines().filter(is_fit).count() == 4);
    let policy = "fleet = \"prod\"\n[[cluster]]\nname = \"web\"\nslots = 2\nclass = \"huge\"\n\
                  [[view]]\nname = \"main\"\nroutes = '{\"route\": \"PoolRoute|web\"}'\n";
    fleet.fleet.write("huge.toml", policy);
    let refused = fleet.fleet.try_control(&["plan", "--policy", "huge.toml"]).expect_err("nobody has it");
    assert!(refused.contains("of another class"), "{refused}");

    // Two operators at the same moment: one of them begins it.
    let words = [&UNJUDGED[..], &BEGIN].concat();
    let both: Vec<Result<String, String>> = std::thread::scope(|threads| {
        let ask = || fleet.apply("all", &words);
        let asking: Vec<_> = (0..2).map(|_| threads.spawn(ask)).collect();
        asking.into_iter().map(|asking| asking.join().expect("no panic")).collect()
    });
    let begun = both.iter().flatten().filter(|said| said.contains("change 1 has begun")).count();
    let refused = both.iter().filter_map(|said| said.as_ref().err()).find(|error| error.contains("change 1"));
    assert!(begun == 1 && refused.is_some(), "{both:?}");
    // A host in two scopes.
    let refused = fleet.apply("host=h2", &words).expect_err("it is on its way there");
    assert!(refused.contains("the change 1 is on its way there"), "{refused}");
    let done = fleet.until(1, &["done", "halted", "undoing", "undone"]);
    assert_eq!((&done["state"], fleet.changed().len()), (&Value::from("done"), 4), "{done}");
    let took = fleet.undo(1);
    println!("4 hosts were as before {took:.1?} after the command to take it back");

    // A host that has lost a CPU, and one with another kernel, between the plan and the change: they would do something else.
    let plan = fleet.fleet.control(&["tune", "plan", "--hosts", "all", "--profile", "memcached", "--json"]);
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let id = plan["id"].as_str().unwrap_or_else(|| panic!("{plan}"));
    fleet.set(3, "sys/devices/system/cpu/online", "0-2\n");
    fleet.set(4, "proc/sys/kernel/osrelease", "6.2.0\n");
    (3..=4).for_each(|number| fleet.note_as_before(number));
    let begun = fleet.fleet.control(&[&["tune", "apply", "--id", id], &words[..]].concat());
    assert!(begun.contains("change 2 has begun"), "{begun}");
    let done = fleet.until(2, &["done", "halted", "undoing", "undone"]);
    let left: Vec<&str> =
        done["left_out"].as_array().into_iter().flatten().filter_map(|left| left["host"].as_str()).collect();
    assert_eq!((&done["state"], fleet.changed()), (&Value::from("done"), vec![1, 2]), "{done} {left:?}");
    assert!((3..=4).all(|number| fleet.is_as_before(number)));
    fleet.undo(2);
}
