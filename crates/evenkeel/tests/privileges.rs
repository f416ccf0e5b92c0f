//! Privileges of `evenkeel serve` when root starts it: the user that it becomes, what it keeps, and what prevents it
//! from serving. These tests need root, and pass without it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
/// Long, so that a test does not fail on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two groups besides root's own.
const WITH_GROUPS: [&str; 3] = ["setpriv", "--groups", "4,27"];
/// Root of a container that has dropped all capabilities.
const WITHOUT_CAPABILITIES: [&str; 7] =
    ["setpriv", "--groups", "4,27", "--bounding-set", "-all", "--inh-caps", "-all"];

/// A directory, removed with this value.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("evenkeel-privileges-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server with a unix socket in a directory of its own, started by a command that ends with `exec`.
struct Server {
    child: Child,
    said: BufReader<ChildStderr>,
    /// Its output up to the line that it serves, or to its end.
    start: String,
    directory: Directory,
}

impl Server {
    fn start(test: &str, before: &[&str], arguments: &[&str]) -> Server {
        Server::start_in(Directory::new(test), before, arguments, |_| {})
    }

    fn start_in(
        directory: Directory,
        before: &[&str],
        arguments: &[&str],
        prepare: impl Fn(&mut Child),
    ) -> Server {
        let words = [before, &[EVENKEEL, "serve", "-s", "socket", "-m", "16"], arguments].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&directory.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        prepare(&mut child);
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut start = String::new();
        while !start.contains(" serves on ") && said.read_line(&mut start).unwrap() > 0 {}
        Server { child, said, start, directory }
    }

    /// A line of `/proc/PID/status`, its values separated by one blank.
    fn status(&self, name: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Checks that it serves, as this user, in these groups.
    #[track_caller]
    fn check(&mut self, user: &str, group: &str, groups: &str) {
        assert!(self.start.contains(" serves on socket"), "{}", self.start);
        let four = |id: &str| [id; 4].join(" ");
        assert_eq!(
            [self.status("Uid"), self.status("Gid"), self.status("Groups")],
            [four(user), four(group), groups.to_owned()]
        );
        assert_eq!(self.ask(b"version\r\n").split(' ').next(), Some("VERSION"));
    }

    fn ask(&self, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.path("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    /// Checks that it refused to start with this status and all of these messages.
    #[track_caller]
    fn check_refused(mut self, status: i32, words: &[&str]) {
        assert!(!self.start.contains(" serves on "), "{}", self.start);
        let ended = self.child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{}", self.start);
        for word in words {
            assert!(self.start.contains(word), "{word:?}: {}", self.start);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("it takes root");
    }
    is_root
}

/// The numbers of the user `nobody` and its group.
fn nobody() -> (String, String) {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("nobody:")).expect("Linux has a nobody");
    let fields: Vec<&str> = line.split(':').collect();
    (fields[2].to_owned(), fields[3].to_owned())
}

/// A prefix of the server's command line: mounts of its own, with a user database that `script` wrote to `passwd`. No
/// other database is used: systemd's has a `nobody` of its own.
fn with_users(script: &str) -> [String; 6] {
    let script = format!(
        "{script} && mount --bind passwd /etc/passwd && echo passwd: files > nsswitch &&
         mount --bind nsswitch /etc/nsswitch.conf && exec \"$@\""
    );
    ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned)
}

fn can_unshare(kind: &[&str]) -> bool {
    let can = Command::new("unshare").args(kind).arg("true").status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("unshare {kind:?} is not possible here");
    }
    can
}

#[test]
fn root_becomes_nobody_by_default_and_reports_it() {
    if !is_root() {
        return;
    }
    let mut server = Server::start("default", &WITH_GROUPS, &[]);
    let (user, group) = nobody();
    server.check(&user, &group, "");
    assert_eq!(server.status("CapEff"), "0000000000000000");
    assert_eq!(server.status("CapPrm"), "0000000000000000");
    assert!(server.start.ends_with("connections, as user nobody (-u)\n"), "{}", server.start);
    let socket = fs::metadata(server.path("socket")).unwrap();
    assert_eq!((socket.uid().to_string(), socket.mode() & 0o777), (user, 0o700));
}

#[test]
fn root_stays_root_with_u_root() {
    if !is_root() {
        return;
    }
    let mut server = Server::start("root", &WITH_GROUPS, &["-u", "root"]);
    server.check("0", "0", "");
    assert!(server.start.ends_with(" connections\n"), "{}", server.start);
}

#[test]
fn a_file_of_users_for_root_alone_is_read_at_the_start_and_its_users_stay_after_a_failed_reload() {
    if !is_root() {
        return;
    }
    let directory = Directory::new("users");
    fs::write(directory.0.join("users"), "ann:secret\n").unwrap();
    let only_root = fs::Permissions::from_mode(0o600);
    fs::set_permissions(directory.0.join("users"), only_root).unwrap();
    let mut server = Server::start_in(directory, &["env"], &["-Y", "users"], |_| {});
    assert_eq!(server.ask(b"set k 0 0 10\r\nann secret\r\n"), "STORED\r\n", "{}", server.start);
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let mut line = String::new();
    server.said.read_line(&mut line).unwrap();
    assert!(line.contains("the users stay as they were: -Y users: ") && line.contains("denied"), "{line}");
    assert_eq!(server.ask(b"set k 0 0 10\r\nann secret\r\n"), "STORED\r\n");
}

#[test]
fn a_pidfile_that_the_user_nobody_may_not_write_is_a_line_with_a_hint() {
    if !is_root() {
        return;
    }
    let server = Server::start("pidfile", &["env"], &["-P", "pid"]);
    let line = "Z warning serve: the process id is in no file: write pid (-P): Permission denied";
    let start = &server.start;
    assert!(
        start.contains(line) && start.contains("; root becomes `nobody`") && start.contains(" serves on "),
        "{start}"
    );
    assert_eq!(server.ask(b"mn\r\n"), "MN\r\n");
    let server = Server::start("root-pidfile", &["env"], &["-P", "pid", "-u", "root"]);
    assert_eq!(fs::read_to_string(server.path("pid")).unwrap(), format!("{}\n", server.child.id()));
}

#[test]
fn a_host_without_a_user_nobody_gets_a_hint() {
    if !is_root() || !can_unshare(&["--mount"]) {
        return;
    }
    let words = ["become user `nobody` (-u): there is no such user", "hint: ", "-u names another user"];
    for (name, script) in [("gone", "grep -v ^nobody: /etc/passwd > passwd"), ("empty", ": > passwd")] {
        let before = with_users(script);
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        Server::start(name, &before, &[]).check_refused(67, &words);
    }
    let without = "mount -t tmpfs tmpfs /etc && exec \"$@\"";
    Server::start("etc", &["unshare", "--mount", "sh", "-c", without, "sh"], &[]).check_refused(67, &words);
}

#[test]
fn a_user_nobody_with_the_id_of_root_is_refused() {
    if !is_root() || !can_unshare(&["--mount"]) {
        return;
    }
    let before = with_users("echo nobody:x:0:0::/:/bin/sh > passwd");
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    Server::start("nobody-is-root", &before, &[]).check_refused(64, &["another name of root", "hint: "]);
}

#[test]
fn a_user_namespace_without_a_user_nobody_gets_a_hint() {
    let root_alone = ["unshare", "--user", "--map-root-user"];
    if !is_root() || !can_unshare(&root_alone[1..]) {
        return;
    }
    let words =
        ["`nobody` (-u): Invalid argument", "hint: this user namespace has no user ", "`-u root` stays"];
    Server::start("namespace", &root_alone, &[]).check_refused(71, &words);
    let server = Server::start("namespace-root", &root_alone, &["-u", "root"]);
    assert_eq!(server.ask(b"get k\r\n"), "END\r\n", "{}", server.start);
}

#[test]
fn in_a_user_namespace_that_denies_setgroups_the_server_keeps_groups_and_reports_it() {
    if !is_root() || !can_unshare(&["--user"]) {
        return;
    }
    let before =
        ["setpriv", "--groups", "4", "unshare", "--user", "sh", "-c", "echo; read go; exec \"$@\"", "sh"];
    let map = |child: &mut Child| {
        let in_namespace = child.stdout.as_mut().unwrap();
        in_namespace.read_exact(&mut [0]).unwrap();
        let process = Path::new("/proc").join(child.id().to_string());
        fs::write(process.join("setgroups"), "deny").unwrap();
        fs::write(process.join("uid_map"), "0 0 65536").unwrap();
        fs::write(process.join("gid_map"), "0 0 65536").unwrap();
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    };
    let mut server = Server::start_in(Directory::new("setgroups"), &before, &[], map);
    let (user, group) = nobody();
    server.check(&user, &group, "4");
    assert!(
        server.start.contains("groups are kept: this user namespace denies setgroups\n"),
        "{}",
        server.start
    );
}

#[test]
fn root_without_capabilities_refuses_to_keep_its_groups() {
    if !is_root() {
        return;
    }
    let words = ["CAP_SETGID", "`-u root`"];
    Server::start("capabilities", &WITHOUT_CAPABILITIES, &["-l", "127.0.0.1", "-p", "-1"])
        .check_refused(71, &words);
    let mut server = Server::start("capabilities-root", &WITHOUT_CAPABILITIES, &["-u", "root"]);
    server.check("0", "0", "4 27");
}
