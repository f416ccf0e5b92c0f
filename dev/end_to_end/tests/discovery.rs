//! Auto-discovery (`--cluster-file`): client libraries that follow a cluster from two members to three and back, at servers and
//! at routers, and files that change while clients ask.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use checkout::target_directory;
use end_to_end::clients;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

/// A file of members in a folder of its own.
struct Members(PathBuf);

impl Members {
    fn new(name: &str) -> Members {
        let folder = target_directory().join("tmp").join(format!("discovery-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Members(folder.join("members"))
    }

    fn flags(&self) -> [&str; 2] {
        ["--cluster-file", self.0.to_str().expect("a readable path")]
    }

    /// Puts another file in its place.
    fn replace(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).expect("written");
        std::fs::rename(&new, &self.0).expect("renamed");
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap_or(Path::new("/nonexistent")));
    }
}

fn servers(members: &Members, driver: SocketDriver) -> [Server; 3] {
    let subject = ServerUnderTest::evenkeel(driver);
    [(); 3].map(|()| Server::start(&subject, &members.flags()).expect("a server"))
}

/// Runs a client program with the file, and the addresses of three members.
#[track_caller]
fn check(mut program: Command, members: &Members, three: &[Server; 3]) {
    program.arg(&members.0).args(three.each_ref().map(|member| member.address().to_string()));
    match clients::passes(program, &three[0]) {
        Ok(report) => println!("{report}"),
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn emcache_follows_the_members_of_servers() {
    for driver in SocketDriver::ALL {
        let members = Members::new("emcache");
        check(clients::python("emcache_discovery.py"), &members, &servers(&members, driver));
    }
}

#[test]
fn nodes_memcached_elasticache_follows_the_members_of_servers() {
    let members = Members::new("node");
    check(clients::node("discovery.js"), &members, &servers(&members, SocketDriver::Uring));
}

#[test]
fn emcache_follows_the_routers_that_a_router_names() {
    let members = Members::new("routers");
    let server = Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &["-m", "64"]);
    let server = server.expect("a server");
    let configuration =
        format!(r#"{{"pools": {{"A": {{"servers": ["{}"]}}}}, "route": "PoolRoute|A"}}"#, server.address());
    let [flag, file] = members.flags();
    let flags = ["--config", &configuration, "-t", "60000", flag, file];
    let routers = [(); 3].map(|()| Server::start_router(&flags).expect("a router"));
    check(clients::python("emcache_discovery.py"), &members, &routers);
}

/// The revision that `config get cluster` answers, on a connection that stays.
struct Asker(BufReader<std::net::TcpStream>);

impl Asker {
    /// The revision of a whole reply; `None` for an error.
    fn ask(&mut self) -> Option<u64> {
        self.0.get_mut().write_all(b"config get cluster\r\n").expect("sent");
        let mut line = || {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line");
            line
        };
        let head = line();
        if head == "ERROR\r\n" {
            return None;
        }
        let len: usize = head
            .strip_prefix("CONFIG cluster 0 ")
            .and_then(|len| len.trim_end().parse().ok())
            .expect("the first line of a list");
        let (revision, listed, gap, end) = (line(), line(), line(), line());
        assert_eq!(revision.len() + listed.len(), len);
        assert_eq!((&*gap, &*end), ("\r\n", "END\r\n"));
        let revision = revision.trim_end().parse().expect("a revision");
        // One list, never a mixture of two.
        assert!(listed.starts_with(&format!("member-{revision}|")), "{revision}: {listed}");
        Some(revision)
    }
}

fn text(revision: u64) -> String {
    format!("{revision}\nmember-{revision}||11211\nother||11211\n")
}

/// Clients that ask all the time get whole lists of rising revisions, while the file is replaced, removed and spoilt.
#[track_caller]
fn holds_while_files_change(members: &Members, server: &Server) {
    let asker = || Asker(BufReader::new(server.connect().expect("a connection")));
    let mut asking = asker();
    assert_eq!(asking.ask(), None, "there is no file yet");
    let last = 100;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut asking = asker();
                scope.spawn(move || {
                    let (mut seen, mut replies) = (0, 0);
                    while seen < last {
                        if let Some(revision) = asking.ask() {
                            assert!(revision >= seen, "{revision} after {seen}");
                            seen = revision;
                        }
                        replies += 1;
                    }
                    replies
                })
            })
            .collect();
        let mut wait_for = |expected: u64| {
            clock::wait_for(|| (asking.ask()? >= expected).then_some(())).expect("the revision");
        };
        members.replace(&text(1));
        wait_for(1);
        for revision in 2..50 {
            members.replace(&text(revision));
            match revision % 4 {
                0 => std::fs::remove_file(&members.0).expect("removed"),
                1 => members.replace("\u{0}\u{1}"),
                2 => members.replace(&text(1)),
                _ => {}
            }
        }
        // The last one was text that is no list.
        let says =
            |words: &str| clock::wait_for(|| server.said().contains(words).then_some(())).expect("a line");
        says("line 1: expected the revision");
        std::fs::remove_file(&members.0).expect("removed");
        let path = members.0.as_path();
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).expect("a fifo");
        // Who waited for the fifo's other end would not see this one.
        says("found a folder, a fifo");
        for revision in 50..=last {
            members.replace(&text(revision));
        }
        wait_for(last);
        for reader in readers {
            assert!(reader.join().expect("no wrong reply") > 0);
        }
    });
}

#[test]
fn a_server_tells_whole_lists_of_rising_revisions_while_its_file_changes() {
    for driver in SocketDriver::ALL {
        let members = Members::new("server");
        let server = Server::start(&ServerUnderTest::evenkeel(driver), &members.flags()).expect("a server");
        holds_while_files_change(&members, &server);
    }
}

#[test]
fn a_router_tells_whole_lists_of_rising_revisions_while_its_file_changes() {
    let members = Members::new("router");
    let [flag, file] = members.flags();
    let flags = ["--config", r#"{"route": "NullRoute"}"#, "--num-proxies=2", flag, file];
    holds_while_files_change(&members, &Server::start_router(&flags).expect("a router"));
}
