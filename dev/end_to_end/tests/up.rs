//! `evenkeel up`: a cluster that starts, loses servers, and ends.

use end_to_end::clock::{self, PATIENCE};
use end_to_end::process;
use end_to_end::subject;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// A folder of a test, removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("evenkeel-test-up-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).expect("make a folder");
        Folder(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// More ports than a cluster takes.
const PORTS: u16 = 50;

/// A running cluster.
struct Up {
    child: Child,
    said: PathBuf,
    /// The router first.
    members: Vec<Listed>,
}

/// A member as the cluster shows it.
#[derive(Clone)]
struct Listed {
    address: String,
    pid: i32,
}

impl Up {
    fn start(folder: &Folder, flags: &[&str]) -> Up {
        // Each test has ports of its own, below those that the kernel gives to the clients of tests beside this one.
        static NEXT: AtomicU16 = AtomicU16::new(20_000);
        Up::start_at(folder, NEXT.fetch_add(PORTS, Ordering::Relaxed), flags)
    }

    fn start_at(folder: &Folder, port: u16, flags: &[&str]) -> Up {
        let said = folder.file("said");
        let file = File::create(&said).expect("a file");
        let mut command = subject::cluster();
        command.args(["--port", &port.to_string()]).args(flags).stdin(Stdio::null());
        let command = command.stdout(file.try_clone().expect("a file")).stderr(file);
        let mut up = Up { child: command.spawn().expect("start"), said, members: Vec::new() };
        up.says("Ctrl-C ends all.");
        let said = up.said();
        let member = |line: &str| {
            let (before, after) = line.split_once("  (process ")?;
            let address = before.split_whitespace().last()?.to_owned();
            Some(Listed { address, pid: after.split(')').next()?.parse().ok()? })
        };
        up.members = said.lines().filter_map(member).collect();
        up
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    #[track_caller]
    fn says(&mut self, line: &str) {
        let said = clock::wait_for(|| {
            let ended = self.child.try_wait().expect("a child").is_some();
            (ended || self.said().contains(line)).then_some(())
        });
        assert!(said.is_some() && self.said().contains(line), "expected {line:?} in {}", self.said());
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id() as i32, signal);
    }

    /// Waits for its end, and returns its exit status.
    fn status(&mut self) -> Option<i32> {
        clock::wait_for(|| self.child.try_wait().expect("a child")).expect("it ends").code()
    }

    fn client(&self) -> Conversation {
        Conversation::with(&self.members[0].address)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Its members end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("it said: {}", self.said());
        }
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("an id"), signal).expect("send a signal");
}

/// Whether SIGINT is ignored here, and so by what is started here: a shell does that to what it runs in the background.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc(5)");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask of signals");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("a number");
    mask & (1 << (Signal::INT.as_raw() - 1)) != 0
}

fn is_running(pid: i32) -> bool {
    // One that has ended and that nobody has waited for has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[track_caller]
fn all_end(members: &[Listed]) {
    let running = || members.iter().any(|member| is_running(member.pid));
    assert!(clock::wait_for(|| (!running()).then_some(())).is_some(), "a member stays");
}

struct Conversation(BufReader<TcpStream>);

impl Conversation {
    fn with(address: &str) -> Conversation {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Conversation(BufReader::new(stream))
    }

    /// Sends a request, and returns the answer's lines up to one of `ends`.
    fn ask(&mut self, request: &str, ends: &[&str]) -> String {
        self.0.get_mut().write_all(request.as_bytes()).expect("send");
        let mut answer = String::new();
        loop {
            let start = answer.len();
            self.0.read_line(&mut answer).expect("an answer");
            let line = answer[start..].trim_end();
            if ends.contains(&line) || line.contains("ERROR") || line.is_empty() {
                return answer;
            }
        }
    }

    /// Stores and fetches 60 keys; all must be answered without an error.
    fn use_all_servers(&mut self) {
        for number in 0..60 {
            let value = format!("VALUE key{number} 0 2\r\nhi\r\nEND\r\n");
            // On a busy machine a server may not answer in time: then another one is asked, which has nothing yet.
            let found = clock::wait_for(|| {
                let stored = self.ask(&format!("set key{number} 0 0 2\r\nhi\r\n"), &["STORED"]);
                assert_eq!(stored, "STORED\r\n", "key{number}");
                (self.ask(&format!("get key{number}\r\n"), &["END"]) == value).then_some(())
            });
            assert!(found.is_some(), "key{number} is not found after it was stored");
        }
    }
}

#[test]
fn a_cluster_answers_survives_the_loss_of_servers_and_ends() {
    let folder = Folder::new();
    let kept = folder.file("cluster");
    let mut up = Up::start(&folder, &["--dir", kept.to_str().expect("text"), "--memory", "16"]);
    assert_eq!(up.members.len(), 5, "a router, three servers and a spare: {}", up.said());
    up.client().use_all_servers();
    let held: Vec<usize> = up.members[1..4].iter().map(|server| count_items(&server.address)).collect();
    assert!(held.iter().all(|count| *count > 5), "each server has some: {held:?}");

    // One is killed: nobody sees an error, and it comes back.
    let mut client = up.client();
    send(up.members[1].pid, Signal::KILL);
    for number in 0..60 {
        let found = client.ask(&format!("get key{number}\r\n"), &["END"]);
        assert!(!found.contains("ERROR"), "{found}");
    }
    up.says("server 1 is started again");

    // One hangs: its keys are answered after the time limit.
    process::stop(up.members[2].pid as u32).expect("stop");
    client.use_all_servers();
    up.says(&format!("server 2 ({}) does not answer", up.members[2].address));
    send(up.members[2].pid, Signal::CONT);
    up.says(&format!("server 2 ({}) answers again", up.members[2].address));

    check_that_route_accepts(&kept.join("route.json"));
    up.signal(if ignores_interrupts() { Signal::TERM } else { Signal::INT });
    assert_eq!(up.status(), Some(0));
    all_end(&up.members);
    assert!(
        kept.join("server-1.log").exists() && kept.join("route.json").exists(),
        "it was asked to keep them"
    );
}

fn count_items(address: &str) -> usize {
    let stats = Conversation::with(address).ask("stats\r\n", &["END"]);
    let count = stats.lines().find_map(|line| line.strip_prefix("STAT curr_items "));
    count.and_then(|count| count.parse().ok()).expect("a number of items")
}

/// How many of the keys of [`Conversation::use_all_servers`] a server has.
fn count_found(address: &str) -> usize {
    let mut server = Conversation::with(address);
    (0..60)
        .filter(|number| server.ask(&format!("get key{number}\r\n"), &["END"]).starts_with("VALUE"))
        .count()
}

#[track_caller]
fn check_that_route_accepts(configuration: &Path) {
    let mut route = subject::router();
    route.arg(format!("--config=file:{}", configuration.display())).arg("--validate-config");
    let output = route.output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_members_of_a_cluster_that_is_killed_end_with_it() {
    let folder = Folder::new();
    let mut up = Up::start(&folder, &["--servers", "1", "--spares", "0"]);
    assert_eq!(up.members.len(), 2);
    up.client().use_all_servers();
    up.signal(Signal::KILL);
    assert_eq!(up.status(), None);
    all_end(&up.members);
}

#[test]
fn a_member_that_is_stopped_does_not_keep_a_cluster_from_ending() {
    let folder = Folder::new();
    let mut up = Up::start(&folder, &["--servers", "2"]);
    let output = up.said().lines().find_map(|line| line.trim().strip_prefix("routes ").map(str::to_owned));
    let configuration = PathBuf::from(output.expect("the place of the configuration").trim());
    assert!(configuration.exists());
    process::stop(up.members[0].pid as u32).expect("stop");
    process::stop(up.members[2].pid as u32).expect("stop");
    up.signal(Signal::TERM);
    assert_eq!(up.status(), Some(0));
    all_end(&up.members);
    assert!(!configuration.exists(), "its folder is removed");
}

#[test]
fn ports_that_are_taken_are_passed_over() {
    let folder = Folder::new();
    // Whichever port the cluster is given: the one after it is taken, if somebody else has not taken it before.
    let first = Up::start(&folder, &["--servers", "1"]);
    let second_folder = Folder::new();
    let port = first.members[0].address.rsplit(':').next().expect("a port").parse().expect("a number");
    let second = Up::start_at(&second_folder, port, &["--servers", "1"]);
    let addresses: Vec<&str> =
        first.members.iter().chain(&second.members).map(|member| member.address.as_str()).collect();
    let different: std::collections::HashSet<&&str> = addresses.iter().collect();
    assert_eq!(different.len(), 6, "{addresses:?}");
    second.client().use_all_servers();
}

#[test]
fn with_tls_every_connection_of_a_cluster_is_encrypted() {
    let folder = Folder::new();
    let kept = folder.file("cluster");
    let mut up = Up::start(&folder, &["--dir", kept.to_str().expect("text"), "--memory", "16", "--tls"]);
    assert_eq!(up.members.len(), 5, "{}", up.said());
    let mode = |name: &str| std::fs::metadata(kept.join(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode("member-key.pem"), 0o600);
    assert!(!std::fs::read_to_string(kept.join("authority.pem")).expect("text").contains("PRIVATE"));

    // Nobody is served without it: neither by the router nor by a server.
    for member in &up.members {
        let mut stream = TcpStream::connect(&member.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        stream.write_all(b"version\r\n").expect("send");
        let mut answer = Vec::new();
        // It is closed, perhaps before this was read.
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.windows(7).any(|word| word == b"VERSION"), "{}", answer.escape_ascii());
    }

    // The commands that it prints, as they are.
    let said = up.said();
    let printed = |beginning: &str| {
        let line = said.lines().find_map(|line| line.trim().starts_with(beginning).then_some(line.trim()));
        line.expect("a command").to_owned()
    };
    let shell = |line: &str| {
        let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output().expect("a shell");
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}: {text}{said}");
        text.into_owned()
    };
    let answer = shell(&printed("printf "));
    assert_eq!(answer, "STORED\r\nVALUE greeting 0 5\r\nhello\r\nEND\r\n");
    let program = subject::cluster().get_program().to_str().expect("text").to_owned();
    let load = printed("evenkeel load")
        .replacen("evenkeel", &program, 1)
        .replace("--duration 5s", "--duration 300ms");
    let report = shell(&load);
    assert!(report.contains("(tls)") || report.contains("TLS"), "{report}");
    let route = printed("evenkeel route").replacen("evenkeel", &program, 1);
    let route = route.split("    #").next().expect("a command");
    assert!(shell(&format!("{route} --validate-config")).contains("the configuration is valid"));
    let top = shell(&format!("{} --once --json", printed("evenkeel top").replacen("evenkeel", &program, 1)));
    let count = |kind: &str| top.matches(&format!("\"{kind}\": \"127.0.0.1:")).count();
    assert_eq!((count("router"), count("server"), top.contains("unreachable\":")), (1, 4, false), "{top}");

    // Servers are reached with the certificates of this run only: another one's authority is not trusted.
    let stranger = subject::certificate("authority");
    let other = printed("printf ").replace(kept.join("authority.pem").to_str().expect("text"), &stranger);
    let refused = Command::new("sh").args(["-c", &other]).stdin(Stdio::null()).output().expect("a shell");
    assert!(refused.stdout.is_empty(), "{}", String::from_utf8_lossy(&refused.stdout));

    // A server that comes back is one with TLS.
    send(up.members[1].pid, Signal::KILL);
    up.says("server 1 is started again");
    up.says(&format!("server 1 ({}) answers again", up.members[1].address));
    assert_eq!(shell(&printed("printf ")), answer);

    // The next run has other certificates.
    up.signal(if ignores_interrupts() { Signal::TERM } else { Signal::INT });
    assert_eq!(up.status(), Some(0));
    let authority = || std::fs::read(kept.join("authority.pem")).expect("a file");
    let first = authority();
    drop(up);
    let again = Folder::new();
    let up = Up::start(&again, &["--dir", kept.to_str().expect("text"), "--servers", "1", "--tls"]);
    assert!(first != authority());
    assert_eq!(mode("member-key.pem"), 0o600);
    assert_eq!(up.members.len(), 3);
}

/// Asks the controller of a cluster: its exit status, what it says, and what went wrong.
fn control(up: &Up, words: &[&str]) -> (Option<i32>, String, String) {
    let said = up.said();
    let place = said.lines().find_map(|line| line.trim().strip_prefix("control ")).expect("its place").trim();
    let mut command = Command::new(subject::cluster().get_program());
    let output = command.arg("control").args(words).args(["--at", place]).output().expect("run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_cluster_is_a_control_plane_with_one_host() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--memory", "16"]);
    let status = |words: &str| {
        let found = clock::wait_for(|| control(&up, &["status"]).1.contains(words).then_some(()));
        assert!(found.is_some(), "expected {words:?} in {}", control(&up, &["status"]).1);
    };
    status("all routers have it");
    up.client().use_all_servers();
    assert_eq!(control(&up, &["plan"]), (Some(0), "nothing to do\n".to_owned(), String::new()));

    // A replacement is shown, and carried out with its reason.
    let (code, text, said) = control(&up, &["replace", "server-2"]);
    let words = "server-2 leaves slot s1 to server-4, in phases";
    assert!(code == Some(0) && text.contains(words), "{code:?} {text}{said}");
    let (code, text, _) = control(&up, &["replace", "server-2", "--now"]);
    assert!(code == Some(0) && text.contains("server-4 takes slot s1 in place of server-2"), "{text}");
    assert!(text.contains("server-2 lives: until all routers have this generation"), "{text}");
    assert_eq!(control(&up, &["replace", "server-2", "--now", "--apply"]).0, Some(64), "without a reason");
    let words = ["replace", "server-2", "--now", "--apply", "--why", "a disk that groans"];
    let (code, text, _) = control(&up, &words);
    assert!(code == Some(0) && text.contains("generation 2 is in force"), "{text}");
    status("router               main       2");
    assert!(control(&up, &["history"]).1.starts_with("generation 2: a disk that groans\n"));
    // The one that has left is emptied once no router uses it, and can come back.
    let count = || count_found(&up.members[2].address);
    assert!(clock::wait_for(|| (count() == 0).then_some(())).is_some(), "{} items stay", count());
    up.client().use_all_servers();
    assert_eq!(count(), 0, "nobody writes to it");
    let (code, _, said) = control(&up, &["replace", "server-9"]);
    assert!(code == Some(1) && said.contains("server-9: it has no slot in any cluster"), "{said}");

    // It comes back by phases, as soon as it is fit for a slot again.
    let back = || control(&up, &["rollback", "1"]);
    let is_shown = || back().1.contains("server-4 leaves slot s1 to server-2, in phases");
    assert!(clock::wait_for(|| is_shown().then_some(())).is_some(), "{:?}", back());
    let words = ["rollback", "1", "--apply", "--why", "the disk was not to blame"];
    let (code, text, said) = control(&up, &words);
    assert!(code == Some(0) && text.contains("generation 3 is in force"), "{text}{said}");
    // There is a line for it from now on, and nothing else changes.
    let drain = "the drain of server-4 (cache/s1) to server-2";
    let (_, text, _) = control(&up, &["status"]);
    assert!(text.contains(drain), "{text}");
    let (code, _, said) = control(&up, &["replace", "server-1"]);
    assert!(code == Some(75) && said.contains("server-4 is drained to server-2, and nothing else"), "{said}");

    // Nothing changes where it is frozen, and that is what is said, whatever else is in the way.
    assert_eq!(control(&up, &["freeze", "cluster/cache", "--why", "the big day"]).0, Some(0));
    for words in [&["replace", "server-1"][..], &["replace", "server-1", "--apply", "--why", "now"]] {
        let (code, _, said) = control(&up, words);
        assert!(code == Some(75) && said.contains("cluster/cache is frozen: the big day"), "{said}");
        assert!(said.contains("control thaw cluster/cache"), "{said}");
    }
    status(&format!("{drain} waits: cluster/cache is frozen: the big day"));
    assert_eq!(control(&up, &["thaw", "cluster/cache", "--why", "over"]).0, Some(0));
    // Until server-2 is read again. What is left is a minute of its warm-up, which the tests of `control` go through.
    status("router               main       4");
    let (_, text, _) = control(&up, &["status"]);
    assert!(text.contains(&format!("{drain}: server-2 is read and warmed up from server-4")), "{text}");
    up.client().use_all_servers();
    assert!(count() > 0, "it has keys of its slot");

    let (_, text, _) = control(&up, &["why", "key1"]);
    assert!(text.contains("  get     server-") && text.contains("by generation "), "{text}");
}

#[test]
fn a_cluster_has_a_console_for_this_host() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--memory", "16", "--servers", "2", "--spares", "0"]);
    let said = up.said();
    let line = said.lines().find_map(|line| line.trim().strip_prefix("console")).expect("its address");
    let address = line.trim().strip_prefix("http://").expect("an address").trim_end_matches('/').to_owned();
    let ask = |path: &str, host: &str| {
        let mut stream = TcpStream::connect(&address).expect("connect");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").expect("send");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        reply
    };
    let page = ask("/", &address);
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<script type=\"module\""), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    let has = |words: &str| clock::wait_for(|| ask("/v1/summary", "localhost").contains(words).then_some(()));
    assert!(has("\"slot_states\":\"ss\"").is_some(), "{}", ask("/v1/summary", "localhost"));
    for (path, host, status) in [
        ("/v1/summary", "evil.example", "421"),
        ("/v1/policy", "localhost", "404"),
        ("/v1/figures?of=servers", "localhost", "400"),
        ("/v1/why?key=a%20b", "localhost", "200"),
    ] {
        let reply = ask(path, host);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {host}: {reply}");
    }
    assert_eq!(control(&up, &["freeze", "cluster/cache", "--why", "the big day"]).0, Some(0));
    assert!(has("Nothing changes in cluster/cache: the big day.").is_some());
}

#[test]
fn without_its_controller_a_cluster_says_so_and_serves() {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--memory", "16"]);
    let mut command = Command::new(subject::cluster().get_program());
    let output = command.args(["control", "status", "--at", "unix:/nobody/listens"]).output().expect("run");
    assert_eq!(output.status.code(), Some(69), "{}", String::from_utf8_lossy(&output.stderr));
    up.client().use_all_servers();
}

#[test]
fn what_cannot_be_started_is_said_and_leaves_nothing() {
    let folder = Folder::new();
    let file = folder.file("file");
    std::fs::write(&file, "x").expect("write");
    let refused = |flags: &[&str]| {
        let output = subject::cluster().args(flags).output().expect("run");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = refused(&["--dir", file.to_str().expect("text")]);
    assert!(status == Some(71) && said.contains("make folder"), "{status:?} {said}");
    // Without a reader, opening it would not end.
    let with_fifo = folder.file("with-fifo");
    std::fs::create_dir(&with_fifo).expect("a folder");
    for name in ["route.json.tmp", "route.json.new", "server-1.log"] {
        mknodat(CWD, with_fifo.join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a fifo");
    }
    let (status, said) = refused(&["--dir", with_fifo.to_str().expect("text")]);
    assert!(status == Some(71) && said.contains("server-1.log: No such device"), "{status:?} {said}");
    let (status, said) = refused(&["--servers", "0"]);
    assert!(status == Some(64) && said.contains("--servers"), "{status:?} {said}");
    let with_comma = folder.file("a,b");
    let (status, said) = refused(&["--tls", "--dir", with_comma.to_str().expect("text")]);
    assert!(status == Some(64) && said.contains("a --dir without commas"), "{status:?} {said}");
    let (status, said) = refused(&["--servers", "3", "--port", "65534"]);
    assert!(status == Some(1) && said.contains("expected a free port"), "{status:?} {said}");
}
