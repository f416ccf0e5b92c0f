//! `evenkeel tune --live` with a real memcached, which is not involved: its accept queue overflows, is made longer
//! while it runs, and shorter again. In network and process namespaces of the test's own, where no other client
//! connects.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::client::client;
use crate::support::inner::{INNER, in_namespaces};
use crate::support::running::Running;
use crate::support::until::until;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tuner::apply::saved::{PlanOrigin, Saved};
use tuner::observe::facts::ListeningSocket;
use tuner::plan::{Plan, PlanRequest, plan};
use tuner::{Change, Facts, Finding, RemedyStatus, Root, Setting, Severity};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 11211);
/// The backlog that memcached requests; the kernel lets one more connection wait.
const BACKLOG: u32 = 128;
/// Clients that connect at the same time: more than fit.
const CLIENTS: u32 = 200;

struct Memcached(Running);

impl Memcached {
    fn start() -> Memcached {
        let mut command = Command::new("memcached");
        command.args(["-u", "root", "-l", &ADDRESS.ip().to_string(), "-p", &ADDRESS.port().to_string()]);
        let memcached = command.args(["-b", &BACKLOG.to_string()]).spawn().expect("memcached");
        let memcached = Memcached(Running(memcached));
        until("memcached", || TcpStream::connect(ADDRESS).is_ok());
        until("it to accept", || queue().0 == 0);
        memcached
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0.0)
    }

    /// Stops it with SIGSTOP, as a debugger or a busy neighbour might.
    fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).expect("stop");
        let tasks = format!("/proc/{}/task", self.0.0.id());
        let is_stopped = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).expect("stat");
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        until("every thread to stop", || {
            fs::read_dir(&tasks).expect("its threads").flatten().all(is_stopped)
        });
    }

    /// Continues it until it has accepted all clients.
    fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).expect("continue");
        until("it to accept", || queue().0 == 0);
    }

    /// All clients connect while it is stopped: the number that found the queue full, and the number that wait.
    fn burst(&self) -> (u64, u32) {
        self.stop();
        let before = count("TcpExt", "ListenOverflows");
        let (waiting, length) = queue();
        assert_eq!(waiting, 0);
        let clients: Vec<OwnedFd> = (0..CLIENTS).map(|_| client(&ADDRESS)).collect();
        let fit = CLIENTS.min(length + 1);
        let refused = || count("TcpExt", "ListenOverflows") - before;
        until("all handshakes", || queue().0 == fit && refused() >= u64::from(CLIENTS - fit));
        let (refused, waiting) = (refused(), queue().0);
        drop(clients);
        self.go_on();
        (refused, waiting)
    }
}

/// A counter of /proc/net/netstat.
fn count(protocol: &str, name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").expect("netstat");
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{protocol}:")));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(other, _)| *other == name).expect(name).1.parse().expect("a number")
}

/// The connections that wait, and the limit, from `ss`.
fn queue() -> (u32, u32) {
    let output = Command::new("ss").args(["-ltnH"]).output().expect("ss");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.into_iter().find(|words| words[3] == ADDRESS.to_string()).expect("a listener");
    (line[1].parse().expect("Recv-Q"), line[2].parse().expect("Send-Q"))
}

fn sysctl(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/{name}")).expect(name).trim().to_owned()
}

fn facts() -> Facts {
    tuner::probe(&Root::new("/"), &[]).expect("probe /")
}

fn listener() -> ListeningSocket {
    let found = facts().listeners.into_iter().find(|listener| listener.address == ADDRESS.to_string());
    found.expect("memcached's listener")
}

/// The live plan of a finding about memcached. Only settings of the network namespace and of memcached.
fn planned(rule: &str) -> Plan {
    let finding = Finding {
        rule: rule.into(),
        severity: Severity::Warning,
        subject: ADDRESS.to_string(),
        cause: String::new(),
        effect: String::new(),
        verdict: RemedyStatus::Fixable,
        evidence: Vec::new(),
        alike: Vec::new(),
        consequences: Vec::new(),
    };
    plan(&facts(), &PlanRequest { findings: &[finding], live: true, ..PlanRequest::default() })
}

/// A directory for journals and plans, removed with this value.
struct Desk(PathBuf);

impl Desk {
    fn new(name: &str) -> Desk {
        let run = std::env::var(INNER).expect("the inner run");
        let path = std::env::temp_dir().join(format!("evenkeel-listeners-{name}-{run}"));
        fs::create_dir_all(&path).unwrap();
        Desk(path)
    }

    fn tune(&self, words: &[&str]) -> Command {
        let mut command = Command::new(EVENKEEL);
        command.arg("tune").args(words).arg("--state").arg(self.0.join("state"));
        command
    }

    fn apply(&self, plan: &Plan) -> Command {
        let file = self.0.join("plan");
        let made = PlanOrigin::of(&Root::new("/")).expect("this place");
        let saved = Saved { made, plan: plan.clone() };
        fs::write(&file, serde_json::to_string(&saved).unwrap()).unwrap();
        self.tune(&["apply", "--plan", file.to_str().expect("UTF-8")])
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn succeeds(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[track_caller]
fn fails(mut command: Command, saying: &str) {
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && said.contains(saying), "{command:?}: {status}: {said}");
    assert!(said.contains("everything is as it was before"), "{said}");
}

/// Makes bursts while `check` counts; its finding about memcached's accept queue, if it has one.
fn checked(memcached: &Memcached) -> Option<Value> {
    let mut command = Command::new(EVENKEEL);
    command.args(["tune", "check", "--seconds", "3", "--json"]);
    let check = std::thread::spawn(move || succeeds(command));
    while !check.is_finished() {
        memcached.burst();
    }
    let said: Value = serde_json::from_str(&check.join().expect("check")).expect("JSON");
    let findings = said["findings"].as_array().expect("a list");
    // It is a consequence of the short queue.
    let follow = findings.iter().filter_map(|finding| finding["consequences"].as_array()).flatten();
    let findings: Vec<Value> = findings.iter().chain(follow).cloned().collect();
    let is_it = |finding: &Value| finding["rule"] == "accept-overflow" && finding["verdict"] == "fixable";
    findings.into_iter().find(is_it)
}

#[test]
fn an_accept_queue_that_overflows_is_found_made_longer_at_run_time_and_restored() {
    if !in_namespaces(
        "tune_listeners::an_accept_queue_that_overflows_is_found_made_longer_at_run_time_and_restored",
        "memcached -V",
    ) {
        return;
    }
    fs::write("/proc/sys/net/core/somaxconn", "512").expect("somaxconn of the namespace");
    let (memcached, desk) = (Memcached::start(), Desk::new("backlog"));
    let (before, waiting) = memcached.burst();
    assert!(before >= u64::from(CLIENTS - BACKLOG - 1), "{before}");
    assert_eq!(waiting, BACKLOG + 1);

    // On a busy machine a window may pass between two bursts.
    let finding = (0..10).find_map(|_| checked(&memcached)).expect("a finding");
    assert_eq!(finding["subject"], ADDRESS.to_string());
    assert!(finding["cause"].to_string().contains("of memcached (PID"), "{finding}");

    let said = succeeds(desk.tune(&["apply", "--live", "--profile", "generic"]));
    assert!(said.contains("is lost when it is started again: give it -b 4096"), "{said}");
    assert_eq!((queue(), sysctl("core/somaxconn").as_str()), ((0, 4096), "4096"));
    assert_eq!(listener().pid, Some(memcached.0.0.id()), "the same process");
    let (after, waiting) = memcached.burst();
    assert_eq!((after, waiting), (0, CLIENTS), "the same burst");
    println!("{CLIENTS} clients at once: overflows {before} with {BACKLOG}, {after} with 4096");

    let status = succeeds(desk.tune(&["status"]));
    assert!(status.contains("= 4096: holds") && status.contains("backlog of 127.0.0.1:11211"), "{status}");
    assert!(succeeds(desk.tune(&["rollback"])).contains("restored"));
    assert_eq!((queue(), sysctl("core/somaxconn").as_str()), ((0, BACKLOG), "512"));
    assert!(memcached.burst().0 >= u64::from(CLIENTS - BACKLOG - 1), "as before");
}

/// The number of requests in a SYN that memcached received, after two clients that send one if they have a cookie.
fn fast_opens() -> u64 {
    let before = count("TcpExt", "TCPFastOpenPassive");
    // The first client gets a cookie, the second may use it.
    for _ in 0..2 {
        let socket =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("socket");
        let with_syn = SendFlags::from_bits_retain(libc::MSG_FASTOPEN as _);
        sendto(&socket, b"mn\r\n", with_syn, &ADDRESS).expect("send");
        let mut answer = [0; 4];
        std::io::Read::read_exact(&mut TcpStream::from(socket), &mut answer).expect("an answer");
        assert_eq!(&answer, b"MN\r\n");
    }
    count("TcpExt", "TCPFastOpenPassive") - before
}

#[test]
fn fast_open_is_switched_on_and_off_again_at_run_time() {
    if !in_namespaces("tune_listeners::fast_open_is_switched_on_and_off_again_at_run_time", "memcached -V") {
        return;
    }
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1").expect("tcp_fastopen of the namespace");
    let (_memcached, desk) = (Memcached::start(), Desk::new("fast-open"));
    assert_eq!((listener().fast_open, fast_opens()), (Some(0), 0));
    let said = succeeds(desk.apply(&planned("fast-open-off")));
    assert!(said.contains("2 of 2 changes are in force"), "{said}");
    assert_eq!((listener().fast_open, sysctl("ipv4/tcp_fastopen").as_str()), (Some(1024), "3"));
    assert_eq!(fast_opens(), 1, "the first client has no cookie yet");
    succeeds(desk.tune(&["rollback"]));
    assert_eq!((listener().fast_open, sysctl("ipv4/tcp_fastopen").as_str()), (Some(0), "1"));
    assert_eq!(fast_opens(), 0);
}

#[test]
fn a_setting_that_cannot_be_changed_is_reported_and_everything_stays_as_it_was() {
    if !in_namespaces(
        "tune_listeners::a_setting_that_cannot_be_changed_is_reported_and_everything_stays_as_it_was",
        "memcached -V",
    ) {
        return;
    }
    fs::write("/proc/sys/net/core/somaxconn", "512").expect("somaxconn of the namespace");
    let (memcached, desk) = (Memcached::start(), Desk::new("refused"));
    let whole = planned("backlog-small");
    let is_listener = |change: &Change| matches!(change.setting, Setting::Listener { .. });
    assert_eq!(whole.changes.iter().map(is_listener).collect::<Vec<_>>(), [false, true], "{whole:?}");

    let mut alone = whole.clone();
    alone.changes.retain(is_listener);
    fails(desk.apply(&alone), "it reads \"512\" (net.core.somaxconn of its network namespace cuts it");
    assert_eq!(queue().1, BACKLOG);

    let mut without_right = Command::new("setpriv");
    let apply = desk.apply(&alone);
    without_right.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]);
    without_right.arg(apply.get_program()).args(apply.get_args());
    fails(without_right, "CAP_SYS_PTRACE");

    // A rollback after the program has ended restores the rest.
    succeeds(desk.apply(&whole));
    let pid = memcached.0.0.id();
    drop(memcached);
    assert!(succeeds(desk.tune(&["rollback"])).contains("is not there any more"));
    assert_eq!(sysctl("core/somaxconn"), "512");
    let ended = "the program has ended or no longer listens there";
    fails(desk.apply(&whole), ended);

    // Another memcached with the same process id, at the same address.
    fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("the next process id");
    let other = Memcached::start();
    assert_eq!(other.0.0.id(), pid);
    fails(desk.apply(&whole), ended);
    assert_eq!((queue().1, sysctl("core/somaxconn").as_str()), (BACKLOG, "512"));
}
