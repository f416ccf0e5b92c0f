//! A server takes over from another one (`--takeover`), while clients go on.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// One place, and the servers that follow each other there. The last one ends with this value.
struct Dynasty {
    folder: PathBuf,
    port: u16,
    driver: SocketDriver,
    server: Option<Child>,
}

impl Dynasty {
    fn begin(driver: SocketDriver, flags: &[&str]) -> Dynasty {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("evenkeel-takeover-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        // Free a moment ago; nobody connects to it before the server listens.
        let port = end_to_end::server::reserve_port().expect("a port").1.port();
        let mut dynasty = Dynasty { folder, port, driver, server: None };
        dynasty.server = Some(dynasty.start(flags));
        let serves = clock::wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(serves.is_some(), "{}", dynasty.said());
        dynasty
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn start(&self, flags: &[&str]) -> Child {
        let subject = ServerUnderTest::evenkeel(self.driver);
        let said = std::fs::File::options().create(true).append(true).open(self.folder.join("said"));
        let mut command = Command::new(&subject.program);
        command.args(&subject.arguments).args(["-v", "-u", "root", "-l", "127.0.0.1", "-t", "2"]);
        command.args(["-p", &self.port.to_string(), "--takeover", &self.path("next")]).args(flags);
        command.stdin(Stdio::null()).stderr(said.expect("a file")).spawn().expect("a process")
    }

    /// The next one takes over.
    fn follow(&mut self, flags: &[&str]) {
        let next = self.start(flags);
        let mut last = self.server.replace(next).expect("a server");
        let ended = clock::wait_for(|| last.try_wait().expect("a child"));
        assert!(ended.is_some_and(|status| status.success()), "{ended:?} {}", self.said());
    }

    /// The next one fails, and nothing has changed.
    fn fail(&mut self, flags: &[&str], expected: &str) {
        let mut next = self.start(flags);
        let ended = clock::wait_for(|| next.try_wait().expect("a child"));
        assert!(ended.is_some_and(|status| !status.success()), "{ended:?} {}", self.said());
        let is_said = clock::wait_for(|| self.said().contains(expected).then_some(()));
        assert!(is_said.is_some(), "expected {expected}, found {}", self.said());
        assert!(self.server.as_mut().expect("a server").try_wait().expect("a child").is_none());
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
        stream
    }

    fn client(&self) -> Client {
        Client::new(self.stream())
    }
}

impl Drop for Dynasty {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
        if std::thread::panicking() {
            eprintln!("the servers said: {}", self.said());
        }
        // If it fails, the folder does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn asks(client: &mut Client, request: &str, expected: &str) {
    assert_eq!(client.ask(request.as_bytes()).expect("an answer"), expected, "{request}");
}

#[test]
fn clients_keep_their_connections_and_items() {
    for driver in SocketDriver::ALL {
        let mut servers = Dynasty::begin(driver, &[]);
        let mut clients: Vec<Client> = (0..50).map(|_| servers.client()).collect();
        let large = "x".repeat(100_000);
        asks(&mut clients[0], &format!("set large 0 0 {}\r\n{large}\r\n", large.len()), "STORED");
        asks(&mut clients[0], "set counter 0 0 1\r\n0\r\n", "STORED");
        asks(&mut clients[0], "set short 0 3 1\r\nx\r\n", "STORED");
        for round in 1..=5 {
            servers.follow(&[]);
            for (number, client) in clients.iter_mut().enumerate() {
                let expected = (round - 1) * 50 + number as u64 + 1;
                asks(client, "incr counter 1\r\n", &expected.to_string());
            }
            asks(&mut clients[7], "get large\r\n", "VALUE large 0 100000");
            assert_eq!(clients[7].line().expect("a value"), large);
            assert_eq!(clients[7].line().expect("an end"), "END");
            assert_eq!(clients[3].statistic("curr_connections").expect("statistics"), 50);
        }
        let gone = clock::wait_for(|| (clients[0].ask(b"mg short t\r\n").ok()? == "EN").then_some(()));
        assert!(gone.is_some(), "it expires when it would have expired");
    }
}

/// Writers that never stop, and connections that come and go. No request fails, and nothing that was stored is lost.
#[test]
fn nothing_is_lost_or_refused_under_load() {
    let mut servers = Dynasty::begin(SocketDriver::Uring, &["-m", "256"]);
    let done = AtomicBool::new(false);
    let stored: Vec<u64> = std::thread::scope(|scope| {
        let write = |number: usize, mut client: Client| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                asks(
                    &mut client,
                    &format!("set {number}-{count} 0 0 {}\r\n{count}\r\n", digits(count)),
                    "STORED",
                );
                count += 1;
            }
            count
        };
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let client = servers.client();
                scope.spawn(move || write(number, client))
            })
            .collect();
        let port = servers.port;
        let done = &done;
        let newcomer = scope.spawn(move || {
            let mut count = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let stream = TcpStream::connect(("127.0.0.1", port)).expect("no connection is refused");
                stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
                asks(&mut Client::new(stream), "mn\r\n", "MN");
                count += 1;
            }
            count
        });
        for _ in 0..8 {
            clock::pass(Duration::from_millis(100));
            servers.follow(&["-m", "256"]);
        }
        done.store(true, Ordering::Relaxed);
        assert!(newcomer.join().expect("no failure") > 100);
        writers.into_iter().map(|writer| writer.join().expect("no failure")).collect()
    });
    let mut client = servers.client();
    for (number, count) in stored.into_iter().enumerate() {
        assert!(count > 100, "{count}");
        for at in 0..count {
            asks(&mut client, &format!("mg {number}-{at} v\r\n"), &format!("VA {}", digits(at)));
            assert_eq!(client.line().expect("a value"), at.to_string());
        }
    }
}

fn digits(number: u64) -> usize {
    number.to_string().len()
}

#[test]
fn what_has_begun_goes_on_and_what_does_not_end_is_closed() {
    let mut servers = Dynasty::begin(SocketDriver::Epoll, &[]);
    let [mut line, mut upload, mut refused, mut watcher] = [(); 4].map(|()| servers.stream());
    line.write_all(b"set a 0 0 1").expect("it takes them");
    upload.write_all(b"set b 0 0 100000\r\nxxx").expect("it takes them");
    // Its body is dropped wherever it arrives.
    refused.write_all(format!("set {} 0 0 5\r\nab", "k".repeat(251)).as_bytes()).expect("it takes them");
    watcher.write_all(b"watch evictions\r\n").expect("it takes them");
    let mut ok = [0; 4];
    watcher.read_exact(&mut ok).expect("OK");
    servers.follow(&[]);
    line.write_all(b"\r\nx\r\n").expect("it takes them");
    let mut line = Client::new(line);
    assert_eq!(line.line().expect("an answer"), "STORED");
    let mut rest = Vec::new();
    upload.read_to_end(&mut rest).expect("an end");
    watcher.read_to_end(&mut rest).expect("an end");
    assert!(rest.is_empty(), "{rest:?}");
    refused.write_all(b"cde\r\nmn\r\n").expect("it takes them");
    let mut refused = Client::new(refused);
    let lines = [refused.line().expect("an error"), refused.line().expect("an answer")];
    assert!(lines[0].starts_with("CLIENT_ERROR") && lines[1] == "MN", "{lines:?}");
    asks(&mut line, "get b\r\n", "END");
}

#[test]
fn other_limits_threads_and_places_are_possible() {
    let mut servers = Dynasty::begin(SocketDriver::Epoll, &["-m", "64"]);
    let path = servers.path("unix");
    servers.follow(&["-m", "128", "-t", "4", "-s", &path, "-a", "700"]);
    let mut unix = UnixStream::connect(&path).expect("a connection");
    unix.write_all(b"set a 0 0 1\r\nx\r\n").expect("it takes them");
    let mut stored = [0; 8];
    unix.read_exact(&mut stored).expect("STORED");
    servers.follow(&["-m", "32", "-t", "1", "-s", &path, "-a", "700"]);
    unix.write_all(b"mn\r\n").expect("it takes them");
    unix.read_exact(&mut stored[..4]).expect("MN");
    let mode = std::fs::metadata(&path).expect("it stays").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // Whoever does not listen there closes its connections.
    servers.follow(&[]);
    assert_eq!(unix.read(&mut stored).expect("an end"), 0);
    asks(&mut servers.client(), "mg a v\r\n", "VA 1");
    let is_said = clock::wait_for(|| servers.said().contains("1 connections were closed").then_some(()));
    assert!(is_said.is_some(), "{}", servers.said());
}

#[test]
fn logins_are_kept_and_not_given() {
    let mut servers = Dynasty::begin(SocketDriver::Epoll, &[]);
    let users = servers.path("users");
    std::fs::write(&users, "user:secret\n").expect("room");
    let mut stranger = servers.client();
    asks(&mut stranger, "mn\r\n", "MN");
    servers.follow(&["-Y", &users]);
    let mut user = servers.client();
    asks(&mut user, "set key 0 0 11\r\nuser secret\r\n", "STORED");
    asks(&mut user, "mn\r\n", "MN");
    assert!(stranger.ask(b"mn\r\n").is_err(), "it has never logged in");
    servers.follow(&["-Y", &users]);
    asks(&mut user, "mn\r\n", "MN");
}

#[test]
fn datagrams_are_answered_before_and_after() {
    let mut servers = Dynasty::begin(SocketDriver::Epoll, &[]);
    let port = servers.port.to_string();
    servers.follow(&["-U", &port]);
    asks(&mut servers.client(), "set a 0 0 1\r\nx\r\n", "STORED");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(("127.0.0.1", servers.port)).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time limit");
    let answered = || {
        let asked = clock::wait_for(|| {
            socket.send(b"\0\x01\0\0\0\x01\0\0get a\r\n").ok()?;
            let mut answer = [0; 100];
            socket.recv(&mut answer).ok().filter(|len| *len > 8)
        });
        asked.is_some()
    };
    assert!(answered());
    servers.follow(&["-U", &port]);
    assert!(answered());
    servers.fail(&["-U", &port, "-t", "3"], "expected as many threads as the other server has (2), found 3");
    assert!(answered());
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let mut servers = Dynasty::begin(SocketDriver::Epoll, &[]);
    let mut client = servers.client();
    asks(&mut client, "set a 0 0 1\r\nx\r\n", "STORED");
    servers.fail(&["-Y", "/no such file"], "/no such file");
    servers.fail(&["-C"], "it was written with CAS uniques, and this server runs without");
    servers.fail(&["-m", "1000000"], "there is address space for");
    asks(&mut client, "mg a v\r\n", "VA 1");
    assert_eq!(client.line().expect("a value"), "x");
    servers.follow(&[]);
    asks(&mut client, "mg a\r\n", "HD");
}

/// What OpenSSL's client says about a session that ends at once.
fn openssl(servers: &Dynasty, options: &[&str]) -> String {
    let mut command = Command::new("timeout");
    let address = format!("127.0.0.1:{}", servers.port);
    command.args(["60", "openssl", "s_client", "-ign_eof", "-connect", &address]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = command.spawn().expect("run openssl");
    client.stdin.take().expect("it is piped").write_all(b"version\r\nquit\r\n").expect("it reads them");
    String::from_utf8_lossy(&client.wait_with_output().expect("an end").stdout).into_owned()
}

#[test]
fn clients_resume_by_tickets_of_the_server_before() {
    let certificate = |name: &str| {
        format!("{}/../../crates/base/tls/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
    };
    let files =
        format!("ssl_chain_cert={},ssl_key={}", certificate("server.pem"), certificate("server-key.pem"));
    let flags = ["-Z", "-o", &files];
    let mut servers = Dynasty::begin(SocketDriver::Uring, &flags);
    let session = |version: &str| servers.path(&format!("session{version}"));
    let sessions = ["-tls1_2", "-tls1_3"].map(|version| (version, session(version)));
    for (version, session) in &sessions {
        let said = openssl(&servers, &[version, "-sess_out", session]);
        assert!(said.contains("New, TLSv1.") && said.contains("VERSION"), "{said}");
    }
    for _ in 0..2 {
        servers.follow(&flags);
        for (version, session) in &sessions {
            let said = openssl(&servers, &[version, "-sess_in", session]);
            assert!(said.contains("Reused, TLSv1.") && said.contains("VERSION"), "{version}: {said}");
        }
    }
}
