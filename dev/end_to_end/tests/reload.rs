//! Reloading of the password file on SIGHUP and when it has changed; the users stay if the file cannot be read.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};

/// A file of users, for as long as this value exists.
struct Users(PathBuf);

impl Users {
    fn new(name: &str) -> Users {
        Users(std::env::temp_dir().join(format!("evenkeel-users-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn remove(&self) {
        std::fs::remove_file(&self.0).expect("remove a file of users");
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("write a file of users");
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        // If it fails, the file does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn hang_up(server: &Server) {
    let pid = Pid::from_raw(server.pid() as i32).expect("a process has an id");
    kill_process(pid, Signal::HUP).expect("send SIGHUP");
}

/// A new connection, and the reply to its login.
fn log_in(server: &Server, user: &str, password: &str) -> (Client, String) {
    let mut client = Client::new(server.connect().expect("a connection"));
    let login = format!("{user} {password}");
    let told = client.ask(format!("set login 0 0 {}\r\n{login}\r\n", login.len()).as_bytes());
    (client, told.expect("an answer"))
}

fn is_known(server: &Server, user: &str, password: &str) -> bool {
    let told = log_in(server, user, password).1;
    assert!(["STORED", "CLIENT_ERROR authentication failure"].contains(&&*told), "{told}");
    told == "STORED"
}

/// New users may log in, removed ones may not, and connections that are logged in stay. A malformed or missing file
/// changes nothing; `complaint` is the server's message about it.
#[track_caller]
fn check(subject: &ServerUnderTest, name: &str, complaint: Option<&str>) {
    let users = Users::new(name);
    users.write("ann:one\nbob:two\n");
    let path = users.path().to_str().expect("a path of text");
    let server = Server::start(subject, &["-Y", path]).expect("a server");
    let (mut ann, told) = log_in(&server, "ann", "one");
    assert_eq!(told, "STORED");

    users.write("bob:changed\ncat:three\n");
    hang_up(&server);
    clock::wait_for(|| is_known(&server, "cat", "three").then_some(())).expect("cat may log in");
    assert!(is_known(&server, "bob", "changed"));
    assert!(!is_known(&server, "bob", "two"));
    assert!(!is_known(&server, "ann", "one"));
    assert_eq!(ann.ask(b"mn\r\n").expect("an answer"), "MN", "a logged-in connection stays");

    users.write("dan:four\nno colon\n");
    hang_up(&server);
    let Some(complaint) = complaint else { return };
    let complains = |of: &str| {
        let line = format!("Z warning serve: the users stay as they were: -Y {path}: {of}\n");
        clock::wait_for(|| server.said().contains(&line).then_some(())).expect(&line);
    };
    complains(complaint);
    assert!(is_known(&server, "cat", "three"));
    assert!(!is_known(&server, "dan", "four"));
    users.remove();
    hang_up(&server);
    complains("No such file or directory (os error 2)");
    assert!(is_known(&server, "cat", "three"));
}

#[test]
fn evenkeel_reloads_its_users() {
    for (driver, name) in [(SocketDriver::Epoll, "epoll"), (SocketDriver::Uring, "uring")] {
        check(&ServerUnderTest::evenkeel(driver), name, Some("line 2: expected user:password"));
    }
}

#[test]
fn users_that_have_changed_are_read_without_a_signal() {
    let users = Users::new("watched");
    users.write("ann:one\n");
    let path = users.path().to_str().expect("a path of text");
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let server = Server::start(&subject, &["-Y", path]).expect("a server");
    users.write("ann:one\ncat:three\n");
    clock::wait_for(|| is_known(&server, "cat", "three").then_some(())).expect("cat may log in");
}

#[test]
fn memcached_reloads_its_users() {
    check(&ServerUnderTest::memcached().expect("a memcached"), "memcached", None);
}
