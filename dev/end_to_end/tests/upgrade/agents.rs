//! `control upgrade` and the agents themselves: each takes the program of its host last, in the same process, and gives it back if that is of no
//! use.
//!
//! The unit of an agent is a thread that starts what the link points to whenever the agent has ended. A new program whose agents are of no
//! use is a copy in which a name has another letter.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use end_to_end::{clock, subject};
use stdx::prng::Prng;

/// Hosts, each with a server.
const HOSTS: usize = 2;

/// Starts an agent by its link again and again, as a unit does.
struct AgentUnit {
    pid: Arc<AtomicU32>,
    starts: Arc<AtomicU32>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AgentUnit {
    fn begin(words: Vec<String>, log: PathBuf) -> AgentUnit {
        let (pid, starts) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let end = Arc::new(AtomicBool::new(false));
        let (of_pid, of_starts, of_end) = (Arc::clone(&pid), Arc::clone(&starts), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            while !of_end.load(Ordering::Acquire) {
                let log = File::options().create(true).append(true).open(&log).expect("a log");
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
                let mut child = command.spawn().expect("a process");
                of_starts.fetch_add(1, Ordering::AcqRel);
                of_pid.store(child.id(), Ordering::Release);
                child.wait().expect("it is ours");
                clock::pass(Duration::from_millis(50));
            }
        });
        AgentUnit { pid, starts, end, thread: Some(thread) }
    }

    fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    fn kill(&self) {
        let _ = Command::new("kill").args(["-9", &self.pid().to_string()]).stderr(Stdio::null()).status();
    }
}

impl Drop for AgentUnit {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() {
            self.kill();
            clock::pass(Duration::from_millis(20));
        }
        let _ = thread.join();
    }
}

/// A controller, and hosts whose servers and agents start what a link points to. All of it ends with this value.
struct Hosts {
    folder: PathBuf,
    controllers: Vec<Child>,
    units: Vec<AgentUnit>,
    /// Kinds of what is said are read one after the other.
    asking: Mutex<()>,
}

impl Hosts {
    /// With this program as the new one.
    fn begin(name: &str, new: &[u8]) -> Hosts {
        let folder = std::env::temp_dir().join(format!("evenkeel-agents-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("permissions");
        let old = [&super::this_build()[..], b"old"].concat();
        for (version, content) in [("old", &old[..]), ("new", new)] {
            let path = folder.join("programs").join(version);
            fs::create_dir_all(&path).expect("a folder");
            fs::write(path.join("evenkeel"), content).expect("a program");
            fs::set_permissions(path.join("evenkeel"), Permissions::from_mode(0o755)).expect("permissions");
        }
        let mut hosts = Hosts { folder, controllers: Vec::new(), units: Vec::new(), asking: Mutex::default() };
        let register = format!("directory:{}", hosts.path("register"));
        let certificate = super::controller_certificate(&hosts.folder);
        let words =
            ["control", "serve", "--zone", "a", "--register", &register, "--socket", &hosts.path("control")];
        let log = File::create(hosts.folder.join("control.log")).expect("a log");
        let mut command = Command::new(subject::router().get_program());
        command.args(words).args(&certificate).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        hosts.controllers.push(command.spawn().expect("a process"));
        (0..HOSTS).for_each(|host| hosts.host(host));
        hosts
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn program(&self, version: &str) -> PathBuf {
        self.folder.join("programs").join(version).join("evenkeel")
    }

    fn host(&mut self, number: usize) {
        let [link, pid, next, file] = ["current", "pid", "next", "toml"]
            .map(|what| self.path(&format!("h{number}-{what}")));
        symlink(self.program("old"), &link).expect("a link");
        let port = end_to_end::server::reserve_port().expect("a port").1.port().to_string();
        let flags = ["serve", "-d", "-u", "root", "-m", "64", "-t", "1", "-l", "127.0.0.1", "-p", &port];
        let words = [&[link.as_str()], &flags[..], &["-P", &pid, "--takeover", &next]].concat();
        assert!(Command::new(words[0]).args(&words[1..]).status().expect("a start").success());
        let text = format!(
            "host = \"h{number}\"\nzone = \"a\"\ncontrollers = [\"unix:{}\"]\nfolder = \"{}\"\n\n\
             [upgrade]\nlink = \"{link}\"\nprograms = \"{}\"\nseconds = 10\n\n\
             [[server]]\nmember = \"m{number}\"\naddress = \"127.0.0.1:{port}\"\npid_file = \"{pid}\"\nreload = {words:?}\n",
            self.path("control"),
            self.path(&format!("h{number}-agent")),
            self.path("programs/{version}/evenkeel"),
        );
        fs::write(&file, text).expect("written");
        let log = self.folder.join(format!("h{number}.log"));
        self.units.push(AgentUnit::begin(vec![link, "agent".to_owned(), file], log));
    }

    fn control(&self, words: &[&str]) -> Result<String, String> {
        let _asking = self.asking.lock().expect("nobody has failed");
        let place = format!("unix:{}", self.path("control"));
        let mut command = Command::new(subject::router().get_program());
        let output = command.arg("control").args(words).args(["--at", &place]).output().expect("a process");
        let [said, complained] =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        if output.status.success() { Ok(said) } else { Err(format!("{said}{complained}")) }
    }

    /// Waits until all hosts are heard.
    fn wait_until_known(&self) {
        let is_known = || {
            let found = self.control(&["tune", "check"]).unwrap_or_default();
            found.contains(&format!("{HOSTS} hosts of all")).then_some(())
        };
        assert!(clock::wait_for(is_known).is_some(), "{}", self.logs());
    }

    /// Begins the upgrade, and waits for its end.
    fn upgrade(&self) -> Result<String, String> {
        self.upgrade_with(&["--follow"])
    }

    fn upgrade_with(&self, more: &[&str]) -> Result<String, String> {
        let times = ["baseline_ms=1000", "look_ms=1000", "zone_ms=1000", "silence_ms=300000"];
        let times: Vec<&str> = times.into_iter().flat_map(|time| ["--set", time]).collect();
        let words = ["upgrade", "--version", "new", "--accept", "all", "--apply", "--why", "a test"];
        self.control(&[&words[..], &times, more].concat())
    }

    fn undo(&self) -> String {
        self.control(&["tune", "undo", "1", "--why", "a test"]).expect("an undo");
        let undone = self.control(&["tune", "status", "1", "--follow"]).expect("a status");
        assert!(undone.contains("undone"), "{undone}\n{}", self.logs());
        undone
    }

    fn logs(&self) -> String {
        let names = fs::read_dir(&self.folder).expect("a folder").flatten().map(|entry| entry.path());
        let logs = names.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        logs.map(|path| format!("{}:\n{}\n", path.display(), fs::read_to_string(&path).unwrap_or_default()))
            .collect()
    }

    /// The program of an agent, by its process.
    fn runs(&self, host: usize) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.units[host].pid())).ok()
    }

    /// Every server and every agent runs this version.
    #[track_caller]
    fn check(&self, version: &str) {
        for host in 0..HOSTS {
            let pid = super::read_pid(&self.folder.join(format!("h{host}-pid"))).expect("a process");
            let server = fs::read_link(format!("/proc/{pid}/exe")).expect("it runs");
            assert_eq!(server, self.program(version), "server {host}: {}", self.logs());
            assert_eq!(self.runs(host), Some(self.program(version)), "agent {host}: {}", self.logs());
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.units.iter().map(AgentUnit::pid).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.units.clear();
        for child in &mut self.controllers {
            let _ = child.kill();
            let _ = child.wait();
        }
        for host in 0..HOSTS {
            if let Some(pid) = super::read_pid(&self.folder.join(format!("h{host}-pid"))) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn good() -> Vec<u8> {
    [&super::this_build()[..], b"new"].concat()
}

/// The program with another word of the same length wherever it has the first one.
fn with_other_word(word: &[u8], other: &[u8]) -> Vec<u8> {
    assert_eq!(word.len(), other.len());
    let mut program = good();
    let mut count = 0;
    for at in 0..=program.len() - word.len() {
        if &program[at..at + word.len()] == word {
            program[at..at + word.len()].copy_from_slice(other);
            count += 1;
        }
    }
    assert!(count > 0, "the program has no such word");
    program
}

#[test]
fn agents_take_the_version_of_their_hosts_in_the_same_process_and_give_it_back() {
    let hosts = Hosts::begin("good", &good());
    hosts.wait_until_known();
    let pids = hosts.pids();
    let shown = hosts.control(&["upgrade", "--version", "new", "--accept", "all"]).expect("a plan");
    assert!(shown.contains("program of the agent"), "{shown}");
    let done = hosts.upgrade().unwrap_or_else(|why| panic!("{why}\n{}", hosts.logs()));
    assert!(done.contains("done"), "{done}\n{}", hosts.logs());
    hosts.check("new");
    assert_eq!(hosts.pids(), pids, "the units saw nothing: {}", hosts.logs());
    hosts.undo();
    hosts.check("old");
    assert_eq!(hosts.pids(), pids, "the units saw nothing: {}", hosts.logs());
    // And once more: nothing of the first time is in the way.
    let done = hosts.upgrade().unwrap_or_else(|why| panic!("{why}\n{}", hosts.logs()));
    assert!(done.contains("done"), "{done}\n{}", hosts.logs());
    hosts.check("new");
}

#[test]
fn an_agent_that_hears_no_controller_with_a_version_goes_back_with_its_host() {
    let hosts = Hosts::begin("deaf", &with_other_word(b"/v1/turn", b"/v1/turm"));
    hosts.wait_until_known();
    let pids = hosts.pids();
    let halted = hosts.upgrade().expect_err("it halts");
    assert!(halted.contains("no controller has answered it within"), "{halted}\n{}", hosts.logs());
    let is_back = || (0..HOSTS).all(|host| hosts.runs(host) == Some(hosts.program("old"))).then_some(());
    assert!(clock::wait_for(is_back).is_some(), "{}", hosts.logs());
    hosts.check("old");
    assert_eq!(hosts.pids(), pids, "the units saw nothing: {}", hosts.logs());
}

#[test]
fn an_agent_that_cannot_start_with_a_version_goes_back_with_its_host() {
    let hosts = Hosts::begin("ends", &with_other_word(b"changes-of-the-host", b"changes-of-the-hosT"));
    // What the new one finds under the other name is no state of an agent.
    for host in 0..HOSTS {
        let path = hosts.folder.join(format!("h{host}-agent/changes-of-the-hosT.json"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "damaged").expect("written");
    }
    hosts.wait_until_known();
    let halted = hosts.upgrade().expect_err("it halts");
    assert!(halted.contains("it was started 3 times"), "{halted}\n{}", hosts.logs());
    let is_back = || (0..HOSTS).all(|host| hosts.runs(host) == Some(hosts.program("old"))).then_some(());
    assert!(clock::wait_for(is_back).is_some(), "{}", hosts.logs());
    hosts.check("old");
}

#[test]
fn agents_that_are_killed_at_any_moment_of_an_upgrade_leave_no_host_between() {
    let hosts = Hosts::begin("kills", &good());
    hosts.wait_until_known();
    let mut random = Prng::new(7);
    let rounds = std::env::var("EVENKEEL_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    for round in 0..rounds.unwrap_or(2) {
        let number = (round + 1).to_string();
        hosts.upgrade_with(&[]).unwrap_or_else(|why| panic!("{why}\n{}", hosts.logs()));
        for _ in 0..4 {
            clock::pass(Duration::from_millis(random.below(1500)));
            hosts.units[random.below(HOSTS as u64) as usize].kill();
        }
        let status = || hosts.control(&["tune", "status", &number]).unwrap_or_else(|why| why);
        let is_over = || {
            let status = status();
            (status.contains("\ndone") || status.contains("halted")).then_some(status)
        };
        let over = clock::wait_for(is_over).unwrap_or_else(|| panic!("{}\n{}", status(), hosts.logs()));
        println!("round {round}: {over}");
        hosts.control(&["tune", "undo", &number, "--why", "a test"]).expect("an undo");
        clock::pass(Duration::from_millis(random.below(1500)));
        hosts.units[random.below(HOSTS as u64) as usize].kill();
        let undone = clock::wait_for(|| Some(status()).filter(|status| status.contains("undone")));
        assert!(undone.is_some(), "{}\n{}", status(), hosts.logs());
        let is_back = || (0..HOSTS).all(|host| hosts.runs(host) == Some(hosts.program("old"))).then_some(());
        assert!(clock::wait_for(is_back).is_some(), "{}", hosts.logs());
        hosts.check("old");
    }
    assert!(hosts.units.iter().any(|unit| unit.starts.load(Ordering::Acquire) > 1), "nobody was killed");
}
