//! `control upgrade` and the agents themselves: each takes the program of its host last, in the same process, and gives it back if that is of no
//! use.
//!
//! The unit of an agent is a thread that starts what the link points to whenever the agent has ended. A new program whose agents are of no
//! use is a copy in which a name has another letter.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use end_to_end::{clock, subject};
use stdx::prng::Prng;

/// Hosts, each with a server.
const HOSTS: usize = 2;

/// Starts an agent or a controller by its link again and again, as a unit does.
pub(super) struct Unit {
    pid: Arc<AtomicU32>,
    starts: Arc<AtomicU32>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Unit {
    pub(super) fn begin(words: Vec<String>, log: PathBuf) -> Unit {
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
        Unit { pid, starts, end, thread: Some(thread) }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    fn kill(&self) {
        let _ = Command::new("kill").args(["-9", &self.pid().to_string()]).stderr(Stdio::null()).status();
    }
}

impl Drop for Unit {
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

/// Controllers, and hosts whose servers and agents start what a link points to. All of it ends with this value.
pub(super) struct Hosts {
    pub(super) folder: PathBuf,
    pub(super) controllers: Vec<Unit>,
    etcd: Option<Child>,
    /// Those of the agents: of hosts with servers first, then of hosts with controllers.
    pub(super) units: Vec<Unit>,
}

impl Hosts {
    /// With this program as the new one.
    fn without_processes(name: &str, new: &[u8]) -> Hosts {
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
        Hosts { folder, controllers: Vec::new(), etcd: None, units: Vec::new() }
    }

    /// Hosts with servers, and a controller that runs another program than they.
    fn begin(name: &str, new: &[u8]) -> Hosts {
        let mut hosts = Hosts::without_processes(name, new);
        let register = format!("directory:{}", hosts.path("register"));
        let certificate = super::controller_certificate(&hosts.folder);
        let program = subject::router().get_program().to_str().expect("a path").to_owned();
        let socket = hosts.path("control-1");
        let words = ["control", "serve", "--zone", "a", "--register", &register, "--socket", &socket];
        let words = words.into_iter().map(str::to_owned).chain(certificate);
        hosts.controllers.push(Unit::begin([program].into_iter().chain(words).collect(), hosts.log("c1")));
        (0..HOSTS).for_each(|host| hosts.host(host, 1));
        hosts
    }

    /// The same with controllers that their hosts' agents upgrade.
    pub(super) fn begin_with_controllers(name: &str, new: &[u8], count: usize) -> Hosts {
        let mut hosts = Hosts::without_processes(name, new);
        let register = match count {
            1 => format!("directory:{}", hosts.path("register")),
            _ => hosts.start_etcd(),
        };
        super::controller_certificate(&hosts.folder);
        let ports: Vec<u16> = (0..count).map(|_| port()).collect();
        let all: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        for (number, listen) in (1..=count).zip(&all) {
            hosts.controller(number, count, (&register, listen, &all.join(",")));
        }
        (0..HOSTS).for_each(|host| hosts.host(host, count));
        (1..=count).for_each(|number| hosts.host_of_controller(number, count));
        hosts
    }

    fn start_etcd(&mut self) -> String {
        let program = end_to_end::fleet::etcd_program().expect("an etcd");
        let [client, peer] = [port(), port()].map(|port| format!("http://127.0.0.1:{port}"));
        let log = File::create(self.log("etcd")).expect("a log");
        let mut command = Command::new(program);
        command.args(["--name", "e1", "--data-dir", &self.path("etcd"), "--listen-client-urls", &client]);
        command.args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer]);
        command.args(["--initial-advertise-peer-urls", &peer, "--initial-cluster", &format!("e1={peer}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.etcd = Some(command.spawn().expect("a process"));
        format!("etcd:{client}")
    }

    fn controller(&mut self, number: usize, count: usize, (register, listen, all): (&str, &str, &str)) {
        let (id, certificate) = (format!("c{number}"), self.path(&format!("c{number}.pem")));
        let authority = self.path("ca");
        // The first one has its certificate.
        if number > 1 {
            let words = ["certificate", "--authority", &authority, "--role", "controller", "--id", &id];
            let mut command = Command::new(subject::router().get_program());
            command.arg("control").args(words).args(["--host", "127.0.0.1", "--out", &certificate]);
            assert!(command.stdout(Stdio::null()).status().expect("a process").success());
        }
        let (link, page) = (self.link(&format!("k{number}")), format!("127.0.0.1:{}", port()));
        fs::write(self.folder.join(format!("page-{number}")), &page).expect("written");
        let [socket, pid, ca] =
            [format!("control-{number}"), format!("c{number}-pid"), "ca/authority.pem".to_owned()]
                .map(|name| self.path(&name));
        let words = ["control", "serve", "--zone", "a", "--register", register, "--socket", &socket];
        let words = [&words[..], &["--pid-file", &pid, "--metrics-listen", &page]].concat();
        let words = [&words[..], &["--tls-ca", &ca, "--tls-cert", &certificate]].concat();
        let others = ["--listen", listen, "--controllers", all];
        let words = [&words[..], if count > 1 { &others[..] } else { &[] }].concat();
        let words = [link].into_iter().chain(words.into_iter().map(str::to_owned));
        self.controllers.push(Unit::begin(words.collect(), self.log(&id)));
    }

    /// A link to the old program.
    fn link(&self, host: &str) -> String {
        let link = self.path(&format!("{host}-current"));
        symlink(self.program("old"), &link).expect("a link");
        link
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// A host with nothing but a controller and an agent. The reload ends the controller, and its unit starts it again.
    fn host_of_controller(&mut self, number: usize, count: usize) {
        let (name, pid) = (format!("k{number}"), self.path(&format!("c{number}-pid")));
        let page = fs::read_to_string(self.folder.join(format!("page-{number}"))).expect("an address");
        let reload = self.path(&format!("{name}-reload"));
        fs::write(&reload, format!("#!/bin/sh\nkill $(cat {pid})\n")).expect("written");
        fs::set_permissions(&reload, Permissions::from_mode(0o755)).expect("permissions");
        let entry = format!(
            "[[controller]]\nname = \"c{number}\"\naddress = \"{page}\"\npid_file = \"{pid}\"\nreload = [{reload:?}]\n"
        );
        self.agent(&name, 30, count, &entry);
    }

    fn agent(&mut self, name: &str, seconds: u32, controllers: usize, entries: &str) {
        let (link, file) = (self.path(&format!("{name}-current")), self.path(&format!("{name}.toml")));
        let controllers: Vec<String> = (1..=controllers)
            .map(|number| format!("unix:{}", self.path(&format!("control-{number}"))))
            .collect();
        let text = format!(
            "host = \"{name}\"\nzone = \"a\"\ncontrollers = {controllers:?}\nfolder = \"{}\"\n\n\
             [upgrade]\nlink = \"{link}\"\nprograms = \"{}\"\nseconds = {seconds}\n\n{entries}",
            self.path(&format!("{name}-agent")),
            self.path("programs/{version}/evenkeel"),
        );
        fs::write(&file, text).expect("written");
        self.units.push(Unit::begin(vec![link, "agent".to_owned(), file], self.log(name)));
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(super) fn program(&self, version: &str) -> PathBuf {
        self.folder.join("programs").join(version).join("evenkeel")
    }

    fn host(&mut self, number: usize, controllers: usize) {
        let link = self.link(&format!("h{number}"));
        let [pid, next] = ["pid", "next"].map(|what| self.path(&format!("h{number}-{what}")));
        let port = port().to_string();
        let flags = ["serve", "-d", "-u", "root", "-m", "64", "-t", "1", "-l", "127.0.0.1", "-p", &port];
        let words = [&[link.as_str()], &flags[..], &["-P", &pid, "--takeover", &next]].concat();
        assert!(Command::new(words[0]).args(&words[1..]).status().expect("a start").success());
        let entry = format!(
            "[[server]]\nmember = \"m{number}\"\naddress = \"127.0.0.1:{port}\"\npid_file = \"{pid}\"\nreload = {words:?}\n"
        );
        self.agent(&format!("h{number}"), 10, controllers, &entry);
    }

    /// A question to the first controller.
    pub(super) fn control(&self, words: &[&str]) -> Result<String, String> {
        let place = format!("unix:{}", self.path("control-1"));
        let mut command = Command::new(subject::router().get_program());
        let output = command.arg("control").args(words).args(["--at", &place]).output().expect("a process");
        let [said, complained] =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        if output.status.success() { Ok(said) } else { Err(format!("{said}{complained}")) }
    }

    /// Waits until all hosts are heard.
    pub(super) fn wait_until_known(&self) {
        let is_known = || {
            let found = self.control(&["tune", "check"]).unwrap_or_default();
            found.contains(&format!("{} hosts of all", self.units.len())).then_some(())
        };
        assert!(wait_long(is_known).is_some(), "{}", self.logs());
    }

    /// Begins the upgrade, and waits for its end.
    fn upgrade(&self) -> Result<String, String> {
        self.upgrade_with(&["--follow"])
    }

    pub(super) fn upgrade_with(&self, more: &[&str]) -> Result<String, String> {
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

    pub(super) fn logs(&self) -> String {
        let names = fs::read_dir(&self.folder).expect("a folder").flatten().map(|entry| entry.path());
        let logs = names.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        logs.map(|path| format!("{}:\n{}\n", path.display(), fs::read_to_string(&path).unwrap_or_default()))
            .collect()
    }

    /// The program of an agent, by its process.
    pub(super) fn runs(&self, host: usize) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.units[host].pid())).ok()
    }

    /// Every server and every agent runs this version.
    #[track_caller]
    pub(super) fn check(&self, version: &str) {
        for host in 0..HOSTS {
            let pid = super::read_pid(&self.folder.join(format!("h{host}-pid"))).expect("a process");
            let server = fs::read_link(format!("/proc/{pid}/exe")).expect("it runs");
            assert_eq!(server, self.program(version), "server {host}: {}", self.logs());
            assert_eq!(self.runs(host), Some(self.program(version)), "agent {host}: {}", self.logs());
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.units.iter().map(Unit::pid).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.units.clear();
        self.controllers.clear();
        if let Some(etcd) = &mut self.etcd {
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
        for host in 0..HOSTS {
            if let Some(pid) = super::read_pid(&self.folder.join(format!("h{host}-pid"))) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn port() -> u16 {
    end_to_end::server::reserve_port().expect("a port").1.port()
}

/// Waits for what takes many steps of several processes.
pub(super) fn wait_long<T>(ready: impl Fn() -> Option<T>) -> Option<T> {
    (0..5).find_map(|_| clock::wait_for(&ready))
}

pub(super) fn good() -> Vec<u8> {
    [&super::this_build()[..], b"new"].concat()
}

/// The program with another word of the same length wherever it has the first one.
pub(super) fn with_other_word(word: &[u8], other: &[u8]) -> Vec<u8> {
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
    assert!(!shown.contains("the agent keeps its program"), "{shown}");
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
    let halted = hosts.upgrade().unwrap_or_else(|why| why);
    assert!(halted.contains("no controller has answered it within"), "{halted}\n{}", hosts.logs());
    let is_back = || (0..HOSTS).all(|host| hosts.runs(host) == Some(hosts.program("old"))).then_some(());
    assert!(wait_long(is_back).is_some(), "{}", hosts.logs());
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
    let halted = hosts.upgrade().unwrap_or_else(|why| why);
    // At once, and not when its unit has started it again: some do not.
    assert!(halted.contains("it has ended: "), "{halted}\n{}", hosts.logs());
    let is_back = || (0..HOSTS).all(|host| hosts.runs(host) == Some(hosts.program("old"))).then_some(());
    assert!(wait_long(is_back).is_some(), "{}", hosts.logs());
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
        let over = wait_long(is_over).unwrap_or_else(|| panic!("{}\n{}", status(), hosts.logs()));
        println!("round {round}: {over}");
        hosts.control(&["tune", "undo", &number, "--why", "a test"]).expect("an undo");
        clock::pass(Duration::from_millis(random.below(1500)));
        hosts.units[random.below(HOSTS as u64) as usize].kill();
        let undone = wait_long(|| Some(status()).filter(|status| status.contains("undone")));
        assert!(undone.is_some(), "{}\n{}", status(), hosts.logs());
        let is_back = || (0..HOSTS).all(|host| hosts.runs(host) == Some(hosts.program("old"))).then_some(());
        assert!(wait_long(is_back).is_some(), "{}", hosts.logs());
        hosts.check("old");
    }
    assert!(hosts.units.iter().any(|unit| unit.starts.load(Ordering::Acquire) > 1), "nobody was killed");
}
