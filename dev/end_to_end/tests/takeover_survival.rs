//! Takeovers that come to nothing (`--takeover`): the server goes on with its items, connections and files.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Steps of an exchange that a successor takes part in (the kinds of its messages, and of those that it waits for).
const HELLO: u32 = 1;
const OFFER: u32 = 2;
const READY: u32 = 3;
const STATE: u32 = 4;
const CONNECTIONS: u32 = 5;
const HAVE: u32 = 6;
const YOURS: u32 = 7;
const REFUSED: u32 = 9;

/// A server that can be taken over, in a folder of its own.
struct Subject {
    folder: PathBuf,
    server: Server,
}

impl Subject {
    fn start(flags: &[&str]) -> Subject {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("evenkeel-takeover-survival-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let at = |name: &str| folder.join(name).display().to_string();
        let (socket, pid) = (at("next"), at("pid"));
        let files = ["-t", "2", "--takeover", &socket, "-P", &pid];
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let server = Server::start(&subject, &[&files[..], flags].concat()).expect("a server");
        Subject { folder, server }
    }

    fn client(&self) -> Client {
        Client::new(self.server.connect().expect("a connection"))
    }

    /// A process that means to take over, with more flags.
    fn successor(&self, shell: &str, flags: &[&str]) -> std::process::Output {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let line = format!("{shell} exec \"$@\"");
        let program = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let address = self.server.address();
        let mut command = Command::new("sh");
        command.args(["-c", &line, "sh"]).arg(&program.program).args(&program.arguments);
        command.args(["-l", &address.ip().to_string(), "-p", &address.port().to_string(), "-t", "2"]);
        command.args(["--takeover", &at("next"), "-P", &at("pid")]).args(flags);
        if rustix::process::getuid().is_root() {
            command.args(["-u", "root"]);
        }
        command.output().expect("it ends")
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.server.pid())).expect("a process").count()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // If it fails, the files are in nobody's way.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn asks(client: &mut Client, request: &str, expected: &str) {
    assert_eq!(client.ask(request.as_bytes()).expect("an answer"), expected, "{request}");
}

/// Large enough to have pages of its own.
const LARGE_LEN: usize = 33_000;

fn large_value(number: usize) -> String {
    format!("{number} ").repeat(LARGE_LEN)[..LARGE_LEN].to_owned()
}

fn fill(client: &mut Client) {
    for number in 0..4 {
        asks(client, &format!("set large{number} 0 0 {LARGE_LEN}\r\n{}\r\n", large_value(number)), "STORED");
        asks(client, &format!("set small{number} 0 0 2\r\n{:02}\r\n", number), "STORED");
    }
}

#[track_caller]
fn check_filled(client: &mut Client) {
    for number in 0..4 {
        let cases = [("large", large_value(number)), ("small", format!("{number:02}"))];
        for (name, value) in cases {
            asks(
                client,
                &format!("get {name}{number}\r\n"),
                &format!("VALUE {name}{number} 0 {}", value.len()),
            );
            assert_eq!(client.line().expect("a value"), value, "{name}{number}");
            assert_eq!(client.line().expect("a line"), "END");
        }
    }
}

#[test]
fn a_successor_that_fails_leaves_items_connections_and_the_pid_file_alone() {
    let subject = Subject::start(&[]);
    let mut resting = subject.client();
    fill(&mut resting);
    let output = subject.successor("", &["-C"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("without CAS uniques"), "{said}");
    check_filled(&mut resting);
    check_filled(&mut subject.client());
    let pid = fs::read_to_string(subject.folder.join("pid")).expect("the server's");
    assert_eq!(pid.trim(), subject.server.pid().to_string());
}

#[test]
fn a_successor_with_too_few_descriptors_says_so_and_loses_no_connection() {
    let subject = Subject::start(&[]);
    let mut resting: Vec<Client> = (0..300).map(|_| subject.client()).collect();
    resting.iter_mut().for_each(|client| asks(client, "mn\r\n", "MN"));
    let output = subject.successor("ulimit -n 120;", &["-c", "10"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("raise `ulimit -n` or -c"), "{said}");
    resting.iter_mut().for_each(|client| asks(client, "mn\r\n", "MN"));
}

/// A process that speaks as a successor does.
struct FakeSuccessor(UnixStream);

impl FakeSuccessor {
    fn new(subject: &Subject) -> FakeSuccessor {
        let stream = UnixStream::connect(subject.folder.join("next")).expect("it listens");
        stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
        FakeSuccessor(stream)
    }

    fn send(&mut self, kind: u32, bytes: &[u8]) {
        let head = [kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
        self.0.write_all(&[&head, bytes].concat()).expect("it takes them");
    }

    /// Receives a message without its descriptors.
    fn wait_for(&mut self, kind: u32) -> Vec<u8> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).expect("a message");
        let [found, len] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| head[at + byte])));
        assert_eq!(found, kind);
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes).expect("a whole message");
        bytes
    }

    /// Takes part up to this message.
    fn go_to(&mut self, last: u32) {
        for kind in HELLO..=last {
            match kind {
                HELLO => self.send(HELLO, br#"{"format":4,"layout":4,"version":"?"}"#),
                READY | HAVE => self.send(kind, b""),
                CONNECTIONS => while !self.wait_for(CONNECTIONS).is_empty() {},
                _ => drop(self.wait_for(kind)),
            }
        }
    }
}

#[test]
fn a_successor_that_vanishes_or_talks_nonsense_at_any_step_costs_nothing() {
    let subject = Subject::start(&[]);
    let mut resting = subject.client();
    fill(&mut resting);
    let before = subject.open_files();
    for last in [0, HELLO, OFFER, READY, STATE, CONNECTIONS] {
        for nonsense in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 8], &[1, 0, 0, 0, 5]] {
            let mut successor = FakeSuccessor::new(&subject);
            successor.go_to(last);
            // The server may have closed it already.
            let _ = successor.0.write_all(nonsense);
            drop(successor);
            check_filled(&mut resting);
        }
    }
    check_filled(&mut subject.client());
    let after = clock::wait_for(|| (subject.open_files() <= before).then_some(()));
    assert!(after.is_some(), "{before} {}", subject.open_files());
}

#[test]
fn a_successor_that_keeps_items_otherwise_is_refused_before_anything_has_stopped() {
    let subject = Subject::start(&[]);
    let mut resting = subject.client();
    fill(&mut resting);
    for (hello, expected) in [
        (
            r#"{"format":4,"layout":99,"version":"9.9"}"#,
            "version 9.9 keeps items otherwise (layout 99, and here it is 4)",
        ),
        (r#"{"format":5,"layout":4,"version":"9.9"}"#, "version 9.9 takes over otherwise"),
        (r#"{"format":3,"version":"0.0.9"}"#, "version 0.0.9 takes over otherwise"),
    ] {
        let mut successor = FakeSuccessor::new(&subject);
        successor.send(HELLO, hello.as_bytes());
        let why = String::from_utf8(successor.wait_for(REFUSED)).expect("a reason");
        assert!(why.contains(expected), "{why}");
        let line = format!("not taken over: {expected}");
        assert!(clock::wait_for(|| subject.server.said().contains(&line).then_some(())).is_some(), "{line}");
        check_filled(&mut resting);
    }
}

/// It might still serve: the end of the exchange alone does not show that it does not.
#[test]
fn a_successor_that_is_told_to_serve_and_lives_is_never_joined_by_the_old_server() {
    let mut subject = Subject::start(&[]);
    let mut successor = FakeSuccessor::new(&subject);
    successor.go_to(YOURS);
    drop(successor);
    assert_eq!(subject.server.wait().expect("it ends"), 0);
}

#[test]
fn a_server_that_is_told_to_end_while_it_is_taken_over_ends_if_nobody_takes_over() {
    let mut subject = Subject::start(&[]);
    let mut uploading = subject.client();
    fill(&mut uploading);
    let mut upload = subject.server.connect().expect("a connection");
    upload.write_all(b"set begun 0 0 100000\r\nx").expect("it takes them");
    asks(&mut uploading, "mn\r\n", "MN");
    let mut successor = FakeSuccessor::new(&subject);
    successor.go_to(READY);
    // The server waits for the upload, at most a second.
    clock::pass(Duration::from_millis(200));
    let pid = rustix::process::Pid::from_raw(subject.server.pid().cast_signed()).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    successor.wait_for(STATE);
    drop(successor);
    assert_eq!(subject.server.wait().expect("it ends"), 0);
}

/// With a time limit on its socket, the system interrupts what a process waits for when it goes on (signal(7)).
#[test]
fn a_server_that_is_stopped_and_goes_on_is_still_taken_over() {
    let mut subject = Subject::start(&[]);
    fill(&mut subject.client());
    let pid = rustix::process::Pid::from_raw(subject.server.pid().cast_signed()).expect("a process");
    let pause = || {
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
            // It has to wait for the next message by now.
            clock::pass(Duration::from_millis(100));
            rustix::process::kill_process(pid, signal).expect("it lives");
        }
        clock::pass(Duration::from_millis(100));
    };
    let mut successor = FakeSuccessor::new(&subject);
    successor.go_to(0);
    pause();
    successor.send(HELLO, br#"{"format":4,"layout":4,"version":"?"}"#);
    successor.wait_for(OFFER);
    pause();
    successor.send(READY, b"");
    successor.wait_for(STATE);
    while !successor.wait_for(CONNECTIONS).is_empty() {}
    pause();
    successor.send(HAVE, b"");
    successor.wait_for(YOURS);
    drop(successor);
    assert_eq!(subject.server.wait().expect("it ends"), 0);
}
