//! The console in a browser that a program drives: rules of accessibility, the keyboard, widths, hostile texts, a made fleet of 5,000.
//!
//! The program is `checks.mjs`, in Node; what it needs of npm is installed into a folder of the target directory, by the versions of
//! `package.json`, in a thorough run only. With `EVENKEEL_CONSOLE_PICTURES=1` it writes the pictures of
//! the documentation instead.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use checkout::{target_directory, workspace};
use ship::commands::said;

use super::Cluster;
use crate::tools::{have, is_thorough, leave_out};

/// Our files beside this one, as Node needs them: beside the packages.
const FILES: [&str; 7] =
    ["package.json", "tsconfig.json", "checks.mjs", "hour.mjs", "made.mjs", "palette.mjs", "pictures.mjs"];

fn sources() -> PathBuf {
    workspace().join("dev/ship/tests/console")
}

fn console_files() -> PathBuf {
    workspace().join("crates/base/console/files")
}

/// The folder of the packages, if they are there already or may be installed: once, for tests that run at the same time.
fn packages() -> Option<PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(prepared).clone()
}

fn prepared() -> Option<PathBuf> {
    if !have(&[("chromium", "Debian: chromium"), ("node", "Debian: nodejs"), ("npm", "Debian: npm")]) {
        return None;
    }
    let folder = target_directory().join("console-browser");
    let (wanted, installed) = (fs::read(sources().join("package.json")), folder.join("installed.json"));
    let wanted = wanted.expect("our own list of packages");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) || is_thorough() && install(&folder) {
        for name in FILES {
            fs::copy(sources().join(name), folder.join(name)).expect("copy a file");
        }
        fs::write(installed, wanted).expect("note what is installed");
        return Some(folder);
    }
    leave_out("the packages that drive a browser are not installed");
    None
}

fn install(folder: &Path) -> bool {
    fs::create_dir_all(folder).expect("a folder");
    fs::copy(sources().join("package.json"), folder.join("package.json")).expect("copy the list");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]);
    said(npm.current_dir(folder)).is_ok()
}

#[test]
fn scripts_have_the_types_that_they_say() {
    let Some(folder) = packages() else { return };
    let mut compiler = Command::new(folder.join("node_modules/.bin/tsc"));
    let project = format!(
        "{{\"extends\": {:?}, \"include\": [{:?}]}}",
        folder.join("tsconfig.json"),
        console_files().join("**/*.js")
    );
    let file = folder.join("console.tsconfig.json");
    fs::write(&file, project).expect("write");
    let output = compiler.arg("-p").arg(&file).output().expect("run tsc");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{found}");
}

#[test]
fn pages_are_usable_by_everyone_and_obey_no_text() {
    let Some(folder) = packages() else { return };
    let Some(cluster) = Cluster::start("browser", 23520) else { return };
    cluster.control(&["freeze", "cluster/cache", "--why", "<img src=x onerror=window.obeyed=1>"]);
    let _load = Load::start(&cluster);
    ask_for_hostile_keys(cluster.named("server 1"));
    let pictures = std::env::var_os("EVENKEEL_CONSOLE_PICTURES").is_some();
    let pictures = pictures.then(|| workspace().join("docs/control/pictures"));
    let router = cluster.named("metrics").trim_end_matches("metrics");
    let server = format!("http://127.0.0.1:{}/", cluster.named("of the router, :"));
    let checks = serde_json::json!({
        "console": cluster.console, "router": router, "server": server, "files": console_files(), "pictures": pictures,
    });
    run(&folder, "checks.mjs", &checks);
}

#[test]
fn three_tabs_do_not_grow_in_an_hour() {
    if !is_thorough() {
        leave_out("three tabs for an hour (EVENKEEL_TEST_ALL=1 has them)");
        return;
    }
    let Some(folder) = packages() else { return };
    let Some(cluster) = Cluster::start("hour", 23540) else { return };
    let _load = Load::start(&cluster);
    let pid = cluster.child.id();
    let checks = serde_json::json!({"console": cluster.console, "pid": pid, "files": console_files()});
    run(&folder, "hour.mjs", &checks);
}

/// Runs a program of ours in Node, and shows what it has found.
fn run(folder: &Path, program: &str, checks: &serde_json::Value) {
    let mut node = Command::new("node");
    node.arg(program).current_dir(folder).env("CHECKS", checks.to_string());
    let output = node.stdin(Stdio::null()).output().expect("run node");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{found}");
    assert!(output.status.success(), "{found}{errors}");
}

/// Requests while the pages are looked at.
struct Load(Child);

impl Load {
    fn start(cluster: &Cluster) -> Load {
        let mut load = Command::new(crate::tools::binary().expect("it was there"));
        load.args(["load", "--server", cluster.named("router")]);
        load.args(["--rate", "300", "--duration", "3600s", "--keys", "20000", "--popularity", "zipf:1.1"]);
        load.args(["--gets", "0.9", "--value-size", "2000", "--backfill", "--connections", "8"]);
        Load(load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start the load"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes a server's hottest keys such as a page must not obey.
fn ask_for_hostile_keys(address: &str) {
    let mut stream = TcpStream::connect(address).expect("a server");
    let long = "k".repeat(250);
    let keys = ["<img/src=x/onerror=window.obeyed=1>", "a\u{202e}b", "\u{1}\u{1b}[2J", &long];
    let lines: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    std::thread::spawn(move || {
        let mut reply = [0; 64 * 1024];
        // Until the server ends with the test. The pause leaves most of its time to the load.
        while stream.write_all(lines.as_bytes()).is_ok() && stream.read(&mut reply).is_ok_and(|len| len > 0) {
            os::clock::pause(std::time::Duration::from_millis(20));
        }
    });
}
