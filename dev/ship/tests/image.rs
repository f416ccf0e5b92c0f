//! The image: the same twice, and served from by runc as strict platforms run it.

use crate::tools::{binary, have, is_thorough, leave_out, workshop};
use checkout::workspace;
use serde_json::{Value, json};
use ship::commands::said;
use ship::{image, seccomp};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const UMOCI: (&str, &str) = ("umoci", "Debian: umoci");

/// The image is made in one folder.
static TURN: Mutex<()> = Mutex::new(());

/// To be held while an image is made.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The layout of an image of the binary under test, and the digest of the image.
fn layout() -> Option<(PathBuf, String)> {
    if !is_thorough() {
        leave_out("the image (EVENKEEL_TEST_ALL=1 has it)");
        return None;
    }
    let binary = have(&[UMOCI]).then(binary)??;
    let layout = image::layout(&workshop(&binary, "image")).expect("an image");
    let index = fs::read_to_string(layout.join("index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let digest = index["manifests"][0]["digest"].as_str().expect("a digest").to_owned();
    Some((layout, digest))
}

#[test]
fn the_image_is_the_same_twice() {
    let _turn = turn();
    let (Some((_, first)), Some((_, second))) = (layout(), layout()) else { return };
    assert_eq!(first, second);
}

/// A container of the image, and how it differs from that of a friendly platform.
struct Container {
    name: &'static str,
    arguments: &'static [&'static str],
    user: [u32; 2],
    has_tmp: bool,
    /// A system call that is refused, as a security module would refuse it.
    refused: Option<&'static str>,
    /// What the operator reads.
    says: &'static str,
}

impl Container {
    /// One of a friendly platform, but for a system call that it refuses.
    const fn without(
        call: &'static str,
        arguments: &'static [&'static str],
        says: &'static str,
    ) -> Container {
        Container { name: call, arguments, user: [11211, 11211], has_tmp: true, refused: Some(call), says }
    }
}

const CONTAINERS: [Container; 6] = [
    Container {
        name: "as-it-is",
        arguments: &["serve"],
        user: [11211, 11211],
        has_tmp: true,
        refused: None,
        says: "driven by io_uring",
    },
    // As memcached's image is started.
    Container {
        name: "flags-only",
        arguments: &["-m", "128"],
        user: [11211, 11211],
        has_tmp: true,
        refused: None,
        says: "driven by io_uring",
    },
    // The default of container runtimes.
    Container::without("io_uring_setup", &["serve"], "driven by epoll (io_uring: Operation not permitted"),
    // OpenShift gives each project users of its own.
    Container {
        name: "any-user",
        arguments: &["serve"],
        user: [1_000_650_000, 0],
        has_tmp: false,
        refused: None,
        says: "driven by io_uring",
    },
    Container::without("mlockall", &["serve", "-k"], "memory is not locked (-k): Operation not permitted"),
    Container::without(
        "sched_setaffinity",
        &["serve", "-t", "1", "--pin"],
        "the kernel does not move 1 of 1 threads to their CPUs: Operation not permitted",
    ),
];

/// What nobody can do without: each refusal ends the start with a line that names it.
const ENDS: [Container; 2] = [
    Container::without("listen", &["serve"], "listen on 0.0.0.0:11211: Operation not permitted"),
    Container::without("epoll_create1", &["serve"], "set up event waiting: Operation not permitted"),
];

#[test]
fn containers_serve_without_rights_and_with_the_driver_that_seccomp_allows() {
    let _turn = turn();
    let Some((layout, _)) = layout() else { return };
    if !have(&[("runc", "Debian: runc"), ("go", "go.dev")]) {
        return;
    }
    let profile = seccomp::profile(&workspace()).expect("the profile");
    let profile: Value = serde_json::from_str(&profile).unwrap();
    for container in &CONTAINERS {
        check(&layout, container, &profile);
    }
    for container in &ENDS {
        check_end(&layout, container, &profile);
    }
    check_accept(&layout, &profile);
}

/// Starts a container of the image.
fn start(layout: &Path, container: &Container, profile: &Value) -> Running {
    let bundle = layout.with_file_name(container.name);
    let _ = fs::remove_dir_all(&bundle);
    let image = format!("{}:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    said(Command::new("umoci").args(["unpack", "--image", &image]).arg(&bundle)).expect("a bundle");
    let path = bundle.join("config.json");
    let config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    fs::write(&path, configured(config, container, profile).to_string()).unwrap();
    if !container.has_tmp {
        fs::remove_dir(bundle.join("rootfs/tmp")).unwrap();
    }
    Running::start(container.name, &bundle)
}

/// A container that serves, and says what it lacks.
#[track_caller]
fn check(layout: &Path, container: &Container, profile: &Value) {
    let mut running = start(layout, container, profile);
    let heard = running.says_until("serves on");
    println!("{}: {heard}", container.name);
    assert!(heard.contains("serves on") && heard.contains(container.says), "{heard}");
    // From inside, because the container has a network of its own.
    let load = "load --server 127.0.0.1:11211 --duration 200ms --warm-up 100ms --keys 1000";
    said(Command::new("runc").args(["exec", container.name, "/usr/bin/evenkeel"]).args(load.split(' ')))
        .expect("replies");
    said(Command::new("runc").args(["kill", container.name, "TERM"])).expect("a container that runs");
    assert!(running.0.wait().unwrap().success(), "an orderly end");
}

/// A container that cannot serve, and says why in one line.
#[track_caller]
fn check_end(layout: &Path, container: &Container, profile: &Value) {
    let mut running = start(layout, container, profile);
    let heard = running.says_until("serves on");
    println!("{}: {heard}", container.name);
    let last = heard.lines().last().unwrap_or_default();
    assert!(last.starts_with("evenkeel: serve: ") && last.contains(container.says), "{heard}");
    assert!(!running.0.wait().unwrap().success(), "the start failed");
}

/// A container that may not accept: it says so when the first client comes, once, and rests.
#[track_caller]
fn check_accept(layout: &Path, profile: &Value) {
    let says = "cannot accept connections on 0.0.0.0:11211 (Operation not permitted";
    let container = Container::without("accept4", &["serve"], says);
    let mut running = start(layout, &container, profile);
    let heard = running.says_until("serves on");
    assert!(heard.contains("serves on"), "{heard}");
    let mut ready = Command::new("runc");
    ready.args(["exec", container.name, "/usr/bin/evenkeel", "ready", "127.0.0.1:11211"]);
    assert!(!ready.status().unwrap().success(), "nobody answers");
    let heard = running.says_until(says);
    assert!(heard.contains(says), "{heard}");
    said(Command::new("runc").args(["kill", container.name, "TERM"])).expect("a container that runs");
    assert!(running.0.wait().unwrap().success(), "an orderly end");
    // Once for each listener.
    let more = running.says_until("no such line");
    assert!(more.lines().count() <= 1 && !more.contains(says), "{more}");
}

/// A configuration of runc: no capability, a root that cannot be written, few open files.
fn configured(mut config: Value, container: &Container, profile: &Value) -> Value {
    let mut profile = profile.clone();
    if let Some(call) = container.refused {
        let rules = profile["syscalls"].as_array_mut().expect("rules");
        let names = rules.iter_mut().filter_map(|rule| rule["names"].as_array_mut());
        let count: usize = names.map(|names| names.extract_if(.., |name| name == call).count()).sum();
        assert!(count > 0, "the profile allows {call}");
        rules.retain(|rule| rule["names"].as_array().is_none_or(|names| !names.is_empty()));
    }
    let process = &mut config["process"];
    process["terminal"] = json!(false);
    process["args"] = json!([&["/usr/bin/evenkeel"], container.arguments].concat());
    process["user"] = json!({"uid": container.user[0], "gid": container.user[1]});
    process["capabilities"] = json!({});
    process["noNewPrivileges"] = json!(true);
    process["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]);
    config["root"]["readonly"] = json!(true);
    config["linux"]["seccomp"] = profile;
    config
}

/// A container that ends with the test, and what it says.
struct Running(Child, &'static str, BufReader<ChildStderr>);

impl Running {
    fn start(name: &'static str, bundle: &Path) -> Running {
        let mut run = Command::new("runc");
        run.args(["run", "--bundle"]).arg(bundle).arg(name);
        let mut child = run.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runc");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Running(child, name, stderr)
    }

    /// The lines up to one with these words, or to the end.
    fn says_until(&mut self, words: &str) -> String {
        let mut said = String::new();
        while self.2.read_line(&mut said).expect("text") > 0 && !said.contains(words) {}
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("runc").args(["delete", "--force", self.1]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}
