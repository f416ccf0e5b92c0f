//! The image: the same twice, and served from by runc as strict platforms run it.

use crate::tools::{binary, have, is_thorough, leave_out, workshop};
use checkout::workspace;
use serde_json::{Value, json};
use ship::commands::said;
use ship::{image, seccomp};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const UMOCI: (&str, &str) = ("umoci", "Debian: umoci");

/// The image is made in one folder.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
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
    has_io_uring: bool,
}

const CONTAINERS: [Container; 4] = [
    Container {
        name: "as-it-is",
        arguments: &["serve"],
        user: [11211, 11211],
        has_tmp: true,
        has_io_uring: true,
    },
    // As memcached's image is started.
    Container {
        name: "flags-only",
        arguments: &["-m", "128"],
        user: [11211, 11211],
        has_tmp: true,
        has_io_uring: true,
    },
    // The default of container runtimes.
    Container {
        name: "no-io-uring",
        arguments: &["serve"],
        user: [11211, 11211],
        has_tmp: true,
        has_io_uring: false,
    },
    // OpenShift gives each project users of its own.
    Container {
        name: "any-user",
        arguments: &["serve"],
        user: [1_000_650_000, 0],
        has_tmp: false,
        has_io_uring: true,
    },
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
}

#[track_caller]
fn check(layout: &Path, container: &Container, profile: &Value) {
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
    let mut running = Running::start(container.name, &bundle);
    let line = running.first_line();
    println!("{}: {line}", container.name);
    let driver = if container.has_io_uring {
        "driven by io_uring"
    } else {
        "driven by epoll (io_uring: Operation not permitted"
    };
    assert!(line.contains("serves on") && line.contains(driver), "{line}");
    // From inside, because the container has a network of its own.
    let load = "load --server 127.0.0.1:11211 --duration 200ms --warm-up 100ms --keys 1000";
    said(Command::new("runc").args(["exec", container.name, "/usr/bin/evenkeel"]).args(load.split(' ')))
        .expect("replies");
    said(Command::new("runc").args(["kill", container.name, "TERM"])).expect("a container that runs");
    assert!(running.0.wait().unwrap().success(), "an orderly end");
}

/// A configuration of runc: no capability, a root that cannot be written, few open files.
fn configured(mut config: Value, container: &Container, profile: &Value) -> Value {
    let mut profile = profile.clone();
    if !container.has_io_uring {
        let rules = profile["syscalls"].as_array_mut().expect("rules");
        let count = rules.len();
        rules.retain(|rule| !rule["names"].to_string().contains("io_uring_setup"));
        assert_eq!(rules.len(), count - 1, "one rule is ours");
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

/// A container that ends with the test.
struct Running(Child, &'static str);

impl Running {
    fn start(name: &'static str, bundle: &Path) -> Running {
        let mut run = Command::new("runc");
        run.args(["run", "--bundle"]).arg(bundle).arg(name);
        Running(run.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runc"), name)
    }

    /// The line that says that it serves, or why it does not.
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        let stderr = BufReader::new(self.0.stderr.take().expect("a pipe"));
        for read in stderr.lines() {
            line = read.expect("text");
            if line.contains("serves on") {
                break;
            }
        }
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("runc").args(["delete", "--force", self.1]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}
