//! Two neighbouring builds: `EVENKEEL_PREVIOUS` names the previous one. They take over from each other, go on with each other's register, and
//! agents of one have their turns with controllers of the other.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use end_to_end::{clock, subject};

use super::{CONFIRM, Host, controller_certificate};

/// The previous build.
const PREVIOUS: &str = "EVENKEEL_PREVIOUS";

fn previous() -> Option<PathBuf> {
    let path = std::env::var_os(PREVIOUS).map(PathBuf::from);
    if path.is_none() {
        eprintln!("left out: {PREVIOUS} does not name the previous build");
    }
    path
}

#[test]
fn the_previous_build_and_this_one_take_over_from_each_other() {
    let Some(previous) = previous() else { return };
    let host = Host::of(&fs::read(previous).expect("the previous build"), 1);
    let mut agent = host.agent(Duration::from_secs(60));
    let own = agent.planned("new").expect("a plan");
    agent.apply("new", &own, CONFIRM).expect("this build takes over from the previous one");
    host.check("new");
    agent.back(&own).expect("the previous build takes over from this one");
    host.check("old");
}

#[test]
fn routers_of_the_previous_build_and_of_this_one_take_over_from_each_other() {
    let Some(previous) = previous() else { return };
    let help = Command::new(&previous).args(["route", "--help"]).output().expect("the previous build");
    if !String::from_utf8_lossy(&help.stdout).contains("--takeover") {
        return eprintln!("left out: routers of the previous build have no take-over");
    }
    let folder = std::env::temp_dir().join(format!("evenkeel-previous-route-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).display().to_string();
    let this = PathBuf::from(subject::router().get_program());
    let port = end_to_end::server::reserve_port().expect("a port").1.port().to_string();
    let routes = r#"{"route": "ErrorRoute|here"}"#;
    let flags = ["route", "--background", "--config-str", routes, "--listen-addresses", "127.0.0.1"];
    let (next, pid) = (path("next"), path("pid"));
    let flags = [&flags[..], &["-p", &port, "--takeover", &next, "-P", &pid]].concat();
    let start = |program: &Path| {
        let log = File::options().create(true).append(true).open(path("log")).expect("a log");
        let started = Command::new(program).args(&flags).stderr(log).status().expect("a process");
        let said = fs::read_to_string(path("log")).unwrap_or_default();
        assert!(started.success(), "{}: {said}", program.display());
    };
    start(&previous);
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).map(BufReader::new).expect("it routes");
    let mut ask = || {
        stream.get_mut().write_all(b"get k\r\n").expect("it is connected");
        let mut answer = String::new();
        stream.read_line(&mut answer).expect("an answer");
        assert!(answer.starts_with("SERVER_ERROR"), "{answer}");
    };
    ask();
    for program in [&this, &previous, &this] {
        start(program);
        ask();
    }
    let pid = super::read_pid(Path::new(&pid)).expect("a process");
    Command::new("kill").arg(pid.to_string()).status().expect("a process");
    fs::remove_dir_all(&folder).expect("it is ours");
}

/// A process that ends with this value.
struct Running(Child);

impl Running {
    fn start(program: &Path, log: &Path, words: &[&str]) -> Running {
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Running(command.spawn().expect("a process"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn controllers_and_agents_of_the_previous_build_and_of_this_one_work_together() {
    let Some(previous) = previous() else { return };
    let this = PathBuf::from(subject::router().get_program());
    let folder = std::env::temp_dir().join(format!("evenkeel-previous-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).display().to_string();
    let (register, socket, log) =
        (format!("directory:{}", path("register")), path("control"), folder.join("log"));
    let certificate = controller_certificate(&folder);
    // Each goes on with what the one before has left, and each agent's host has another name.
    let pairs = [(&previous, &this), (&this, &previous), (&previous, &this)];
    for (number, (controller, agent)) in pairs.into_iter().enumerate() {
        let file = path(&format!("agent-{number}.toml"));
        let text = format!(
            "host = \"h{number}\"\nzone = \"a\"\ncontrollers = [\"unix:{socket}\"]\nfolder = \"{}\"\n[[router]]\nname = \"r{number}\"\nview = \"main\"\nfile = \"{}\"\naddress = \"127.0.0.1:1\"\npid_file = \"{}\"\n",
            path(&format!("agent-{number}")),
            path("routes"),
            path("none")
        );
        fs::write(&file, text).expect("written");
        let words = ["control", "serve", "--zone", "a", "--register", &register, "--socket", &socket];
        let words = [&words[..], &certificate.each_ref().map(String::as_str)].concat();
        let _controller = Running::start(controller, &log, &words);
        let _agent = Running::start(agent, &log, &["agent", &file]);
        let freeze = ["freeze", "zone/a", "--why", "a test"];
        let place = format!("unix:{socket}");
        let ask = |words: &[&str]| {
            let output = Command::new(&this).arg("control").args(words).args(["--at", &place]).output();
            let output = output.expect("a process");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then_some(said)
        };
        // What an agent says of its router, every version shows.
        let hears = || ask(&["status"]).filter(|said| said.contains(&format!("r{number} ")));
        assert!(
            clock::wait_for(hears).is_some(),
            "{} does not hear {}: {}",
            controller.display(),
            agent.display(),
            fs::read_to_string(&log).unwrap_or_default()
        );
        // What it writes, the next one reads.
        match number {
            0 => assert!(ask(&freeze).is_some(), "{}", fs::read_to_string(&log).unwrap_or_default()),
            _ => assert!(ask(&["status"]).is_some_and(|said| said.contains("zone/a")), "{number}"),
        }
    }
    fs::remove_dir_all(&folder).expect("it is ours");
}
