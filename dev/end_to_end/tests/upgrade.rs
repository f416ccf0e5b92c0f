//! Another version of the program on one host, as an agent brings it there: servers take over from each other under load, and a version that
//! is of no use leaves the old one with all items.
//!
//! Another version is a copy of the binary with other bytes at its end. `EVENKEEL_TEST_ROUNDS` sets how often the agent is killed.

mod agents;
mod controllers;
mod fleet;
mod full_disk;
mod previous;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use control::{
    HostProgram, HostUpgrade, PeerPlace, ProcessReport, UpgradeSettings, UpgradedKind, UpgradedMember,
};
use end_to_end::clock;
use end_to_end::subject::{self, ServerUnderTest, SocketDriver};
use stdx::prng::Prng;

/// Items of each server.
const ITEMS: usize = 500;
/// Time for a controller: longer than any test.
const CONFIRM: Duration = Duration::from_secs(3600);
/// Kills of an ordinary run.
const ROUNDS: u64 = 6;
/// The folder of a host whose agent is this process.
const INNER: &str = "EVENKEEL_TEST_UPGRADE";

/// A host with servers that start what a link points to. They end with this value.
struct Host {
    folder: PathBuf,
    ports: Vec<u16>,
    /// The name of the link in the folder.
    link: &'static str,
}

impl Host {
    fn begin(servers: usize) -> Host {
        Host::of(&this_build(), servers)
    }

    /// With this program as the old one.
    fn of(old: &[u8], servers: usize) -> Host {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("evenkeel-upgrade-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("agent")).expect("a folder");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("permissions");
        let host = Host { folder, ports: Vec::new(), link: "current" };
        host.put("old", &[old, b"old"].concat());
        host.put("new", &[&*this_build(), b"new"].concat());
        symlink(host.path("old"), host.path("current")).expect("a link");
        let mut host = host;
        (0..servers).for_each(|_| host.start_server());
        host
    }

    /// Has the link elsewhere from now on.
    fn move_link(&mut self, link: &'static str) {
        let target = fs::read_link(self.path(self.link)).expect("a link");
        symlink(target, self.path(link)).expect("a link");
        self.link = link;
    }

    /// One more server, with its items.
    fn start_server(&mut self) {
        let (server, port) = (self.ports.len(), end_to_end::server::reserve_port().expect("a port").1.port());
        self.ports.push(port);
        let started = Command::new(&self.reload(server)[0]).args(&self.reload(server)[1..]).status();
        assert!(started.expect("a start").success());
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it serves");
        let sets = (0..ITEMS).map(|key| format!("set k{key} 0 0 4 noreply\r\nitem\r\n"));
        let sets = sets.collect::<String>() + "mn\r\n";
        stream.write_all(sets.as_bytes()).expect("sent");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("an answer");
        assert_eq!(answer, "MN\r\n");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A program with this content.
    fn put(&self, version: &str, content: &[u8]) {
        fs::write(self.path(version), content).expect("written");
        fs::set_permissions(self.path(version), Permissions::from_mode(0o755)).expect("permissions");
    }

    /// A program that says its version, and does this otherwise.
    fn put_script(&self, version: &str, lines: &str) {
        let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo evenkeel 9 && exit\n{lines}\n");
        self.put(version, script.as_bytes());
    }

    /// The command that starts a server, or has it replaced.
    fn reload(&self, server: usize) -> Vec<String> {
        let path = |name: String| self.path(&name).display().to_string();
        let port = self.ports[server].to_string();
        let words =
            ["serve", "-d", "-u", "root", "-m", "64", "-t", "1", "-l", "127.0.0.1", "-p", &port, "-P"];
        let mut command = vec![path(self.link.to_owned())];
        command.extend(words.map(str::to_owned));
        command.push(path(format!("pid-{server}")));
        command.extend(["--takeover".to_owned(), path(format!("next-{server}"))]);
        command
    }

    fn agent(&self, within: Duration) -> HostUpgrade {
        self.agent_with(within, |server| self.reload(server))
    }

    fn agent_with(&self, within: Duration, reload: impl Fn(usize) -> Vec<String>) -> HostUpgrade {
        let member = |server: usize| {
            let file = self.path(&format!("pid-{server}"));
            UpgradedMember {
                name: format!("server m{server}"),
                kind: UpgradedKind::Server,
                place: PeerPlace { address: format!("127.0.0.1:{}", self.ports[server]), tls: None },
                process: Arc::new(move || match read_pid(&file).filter(|pid| lives(*pid)) {
                    Some(pid) => ProcessReport::Running { pid },
                    None => ProcessReport::Down,
                }),
                reload: reload(server),
            }
        };
        let settings = UpgradeSettings {
            link: self.path(self.link),
            programs: self.path("{version}").display().to_string(),
            within,
            members: (0..self.ports.len()).map(member).collect(),
            others: Vec::new(),
            by_hand: Vec::new(),
            agent: None,
        };
        let said = self.path("said");
        let say = move |_, line: &str| {
            let file = fs::File::options().create(true).append(true).open(&said);
            // A full disk is a part of a test.
            let _ = file.and_then(|mut file| writeln!(file, "{line}"));
        };
        HostUpgrade::alone(settings, &self.path("agent"), Arc::new(say)).expect("an agent")
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// Every server has the program, and all items.
    #[track_caller]
    fn check(&self, version: &str) {
        let target = fs::read_link(self.path(self.link)).expect("a link");
        assert_eq!(target, self.path(version), "{}", self.said());
        for (server, port) in self.ports.iter().enumerate() {
            let pid = read_pid(&self.path(&format!("pid-{server}"))).expect("a process");
            let exe = fs::read_link(format!("/proc/{pid}/exe")).expect("it runs");
            assert_eq!(exe, self.path(version), "server {server}: {}", self.said());
            assert_eq!(missing(*port), 0, "server {server}: {}", self.said());
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for server in 0..self.ports.len() {
            if let Some(pid) = read_pid(&self.path(&format!("pid-{server}"))) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Flags of a controller that shows a certificate: all speak to it over its socket file.
fn controller_certificate(folder: &Path) -> [String; 4] {
    let path = |name: &str| folder.join(name).display().to_string();
    let (authority, certificate) = (path("ca"), path("c1.pem"));
    let run = |words: &[&str]| {
        let mut command = Command::new(subject::router().get_program());
        let status = command.arg("control").args(words).stdout(Stdio::null()).status();
        assert!(status.expect("a process").success(), "{words:?}");
    };
    run(&["init", &authority, "--fleet", "try", "--operator", "me"]);
    let words = ["certificate", "--authority", &authority, "--role", "controller", "--id", "c1"];
    run(&[&words[..], &["--host", "127.0.0.1", "--out", &certificate]].concat());
    ["--tls-ca".to_owned(), path("ca/authority.pem"), "--tls-cert".to_owned(), certificate]
}

fn this_build() -> Vec<u8> {
    fs::read(ServerUnderTest::evenkeel(SocketDriver::Epoll).program).expect("the binary")
}

fn read_pid(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// Items that are not as they were set.
fn missing(port: u16) -> usize {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it serves");
    let gets = (0..ITEMS).map(|key| format!("mg k{key} v\r\n")).collect::<String>() + "mn\r\n";
    stream.write_all(gets.as_bytes()).expect("sent");
    let lines: Vec<String> =
        BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| line != "MN").collect();
    ITEMS - lines.iter().filter(|line| *line == "item").count()
}

/// What clients have met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    requests: u64,
    refused: u64,
    lost: u64,
    longest: Duration,
}

/// A client of each server that connects anew for every tenth request.
struct Clients {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Met>>,
}

impl Clients {
    fn begin(host: &Host) -> Clients {
        let end = Arc::new(AtomicBool::new(false));
        let client = |port: u16| {
            let end = Arc::clone(&end);
            std::thread::spawn(move || ask_until(port, &end))
        };
        Clients { threads: host.ports.iter().map(|port| client(*port)).collect(), end }
    }

    fn met(self) -> Met {
        self.end.store(true, Ordering::Release);
        let mut all = Met::default();
        for thread in self.threads {
            let met = thread.join().expect("a client");
            all.requests += met.requests;
            all.refused += met.refused;
            all.lost += met.lost;
            all.longest = all.longest.max(met.longest);
        }
        all
    }
}

fn ask_until(port: u16, end: &AtomicBool) -> Met {
    let mut met = Met::default();
    let mut stream: Option<BufReader<TcpStream>> = None;
    while !end.load(Ordering::Acquire) {
        let begun = clock::now();
        if met.requests % 10 == 0 {
            stream = None;
        }
        let connected = match stream.take() {
            Some(stream) => Ok(stream),
            None => TcpStream::connect(("127.0.0.1", port)).map(BufReader::new),
        };
        let mut connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                met.refused += 1;
                continue;
            }
        };
        let key = met.requests as usize % ITEMS;
        met.requests += 1;
        let mut answer = String::new();
        let asked = connected.get_mut().write_all(format!("get k{key}\r\n").as_bytes());
        for _ in 0..3 {
            let _ = asked.is_ok() && connected.read_line(&mut answer).is_ok();
        }
        met.lost += u64::from(answer != format!("VALUE k{key} 0 4\r\nitem\r\nEND\r\n"));
        met.longest = met.longest.max(begun.elapsed());
        stream = Some(connected);
    }
    met
}

#[test]
fn a_version_goes_through_a_host_under_load_and_back_without_a_lost_item_or_a_refused_connect() {
    let host = Host::begin(3);
    let mut agent = host.agent(Duration::from_secs(60));
    let own = agent.planned("new").expect("a plan");
    assert_eq!(agent.planned("new"), Ok(own.clone()), "it stays the same");
    let clients = Clients::begin(&host);
    agent.apply("new", &own, CONFIRM).expect("it has it");
    assert_eq!(agent.seen(&own), Ok(HostProgram::After));
    host.check("new");
    agent.back(&own).expect("back");
    assert_eq!(agent.seen(&own), Ok(HostProgram::Before));
    host.check("old");
    let met = clients.met();
    println!("{met:?}\n{}", host.said());
    assert!(met.requests > 0 && met.refused == 0 && met.lost == 0, "{met:?}");
}

/// A version that is of no use, and the reason by which it is found out. The old one has all items within the time of the issue: it never ended.
#[track_caller]
fn check_bad(lines: &str, within: Duration, expected: &str) {
    let host = Host::begin(2);
    host.put_script("bad", lines);
    let mut agent = host.agent(within);
    let own = agent.planned("bad").expect("a plan");
    let clients = Clients::begin(&host);
    let begun = clock::now();
    let error = agent.apply("bad", &own, CONFIRM).expect_err("it is of no use");
    println!("back {:.2} s after its start: {error}", begun.elapsed().as_secs_f64());
    assert!(error.contains(expected), "{error}");
    assert_eq!(agent.seen(&own), Ok(HostProgram::Before));
    host.check("old");
    let met = clients.met();
    assert!(met.refused == 0 && met.lost == 0, "{met:?}");
    // A good one can follow.
    let own = agent.planned("new").expect("a plan");
    agent.apply("new", &own, CONFIRM).expect("it has it");
    host.check("new");
}

#[test]
fn a_version_that_aborts_leaves_the_old_one() {
    check_bad("echo boom >&2\nkill -ABRT $$", Duration::from_secs(60), "boom");
}

#[test]
fn a_version_that_hangs_leaves_the_old_one() {
    check_bad("exec sleep 600", Duration::from_secs(2), "has not ended within 2 s");
}

#[test]
fn a_version_that_says_it_is_there_and_is_not_leaves_the_old_one() {
    check_bad("exit 0", Duration::from_secs(2), "runs another program");
}

#[test]
fn a_version_that_loses_items_is_found_out_and_the_old_one_is_back() {
    let host = Host::begin(2);
    let script = host.path("lossy");
    let port = host.ports[0];
    // The first server's items are lost whenever the new version has taken over.
    let flush = format!(
        "#!/bin/sh\n\"$@\" || exit\n[ \"$(readlink {})\" = {} ] && printf 'flush_all\\r\\nquit\\r\\n' | timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; cat >&3; cat <&3 >/dev/null'\nexit 0\n",
        host.path("current").display(),
        host.path("new").display()
    );
    fs::write(&script, flush).expect("written");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("permissions");
    let reload = |server| [vec![script.display().to_string()], host.reload(server)].concat();
    let mut agent = host.agent_with(Duration::from_secs(60), reload);
    let own = agent.planned("new").expect("a plan");
    let begun = clock::now();
    let error = agent.apply("new", &own, CONFIRM).expect_err("items are lost");
    println!("back {:.2} s after its start: {error}", begun.elapsed().as_secs_f64());
    assert!(error.contains("items after 500"), "{error}");
    assert_eq!(agent.seen(&own), Ok(HostProgram::Before));
    assert_eq!((missing(host.ports[0]), missing(host.ports[1])), (ITEMS, 0), "{}", host.said());
}

#[test]
fn what_cannot_be_proved_is_not_begun() {
    let host = Host::begin(1);
    let mut agent = host.agent(Duration::from_secs(60));
    assert!(agent.planned("none").expect_err("nothing is there").starts_with("find "));
    let refused = agent.planned("../old").expect_err("a way out");
    assert!(refused.starts_with("expected a version of letters"), "{refused}");
    host.put("mute", b"#!/bin/sh\nexit 3\n");
    assert!(agent.planned("mute").expect_err("it does not start").contains("does not say its version"));
    fs::set_permissions(host.path("new"), Permissions::from_mode(0o777)).expect("permissions");
    assert!(agent.planned("new").expect_err("others write it").contains("can be written by others"));
    fs::set_permissions(host.path("new"), Permissions::from_mode(0o755)).expect("permissions");
    let own = agent.planned("new").expect("a plan");
    // Other bytes than those that were planned.
    let content = fs::read(host.path("new")).expect("the program");
    host.put("new", &[&*content, b"!"].concat());
    let error = agent.apply("new", &own, CONFIRM).expect_err("another program");
    assert!(error.contains("would change something else now"), "{error}");
    assert_eq!(agent.seen(&own), Ok(HostProgram::Before));
    host.check("old");
}

#[test]
fn an_agent_that_is_killed_at_any_moment_leaves_a_host_that_goes_back() {
    if let Some(folder) = std::env::var_os(INNER) {
        return begin_as_agent(Path::new(&folder));
    }
    let rounds = std::env::var("EVENKEEL_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let host = Host::begin(2);
    let ports: Vec<String> = host.ports.iter().map(u16::to_string).collect();
    fs::write(host.path("ports"), ports.join("\n")).expect("written");
    let mut random = Prng::new(1);
    let mut found = [0; 3];
    let clients = Clients::begin(&host);
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        again
            .args(["--exact", "upgrade::an_agent_that_is_killed_at_any_moment_leaves_a_host_that_goes_back"]);
        let mut child = again
            .env(INNER, &host.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let own = clock::wait_for(|| fs::read_to_string(host.path("own")).ok()).expect("it has planned");
        clock::pass(Duration::from_millis(random.below(800)));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        fs::remove_file(host.path("own")).expect("it is there");
        let (mut agent, own) = (host.agent(Duration::from_secs(30)), own.parse().expect("a digest"));
        found[match agent.seen(&own).expect("it is known") {
            HostProgram::Before => 0,
            HostProgram::Between(_) => 1,
            HostProgram::After => 2,
        }] += 1;
        agent.back(&own).expect("back");
        host.check("old");
    }
    let met = clients.met();
    println!("before, between, after: {found:?}; {met:?}");
    assert!(met.refused == 0 && met.lost == 0, "{met:?}: {}", host.said());
}

/// The agent that is killed.
fn begin_as_agent(folder: &Path) {
    let ports = fs::read_to_string(folder.join("ports")).expect("ports");
    let ports = ports.lines().map(|port| port.parse().expect("a port")).collect();
    // It is the other process that ends the servers.
    let host = std::mem::ManuallyDrop::new(Host { folder: folder.to_owned(), ports, link: "current" });
    let mut agent = host.agent(Duration::from_secs(30));
    let own = agent.planned("new").expect("a plan");
    fs::write(host.path("own.new"), own.as_str()).expect("written");
    fs::rename(host.path("own.new"), host.path("own")).expect("renamed");
    agent.apply("new", &own, CONFIRM).expect("it has it");
    clock::pass(Duration::from_secs(60));
}
