//! Sockets of `evenkeel serve` that other processes make or limit: inherited ones, systemd's, accept queues, TCP Fast
//! Open; and its word to a supervisor. Servers are real processes; what the kernel limits is set in network
//! namespaces of the tests' own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::support::inner::{INNER, in_namespaces};
use crate::support::running::Running;
use crate::support::until::until;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, sendto, shutdown, socket_with, sockopt,
};
use rustix::process::{Pid, Signal, kill_process};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// Long, so that a test does not fail on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Executes its arguments with the sockets that are its standard input and output as descriptors 3 and 4.
const WITH_SOCKETS: &str = "exec \"$@\" 3<&0 4<&1 5<&- 9<&- 0</dev/null 1>/dev/null";

/// The same, as systemd does it.
const ACTIVATED: &str =
    "export LISTEN_PID=$$ LISTEN_FDNAMES=a:b; exec \"$@\" 3<&0 4<&1 5<&- 0</dev/null 1>/dev/null";

/// A directory of a test's own, removed with this value.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Directory {
        let outer = std::env::var(INNER).unwrap_or_default();
        let name = format!("evenkeel-accepting-{}-{outer}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server, ended with this value.
struct Server {
    child: Running,
    said: BufReader<ChildStderr>,
    /// Its output up to the line that it serves, or to its end.
    start: String,
}

/// A command that runs the program by a script of the shell.
fn by(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", EVENKEEL, "serve", "-m", "16", "-t", "2"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn serve(arguments: &[&str]) -> Command {
    by("exec \"$@\"", &[&["-l", "127.0.0.1", "-p", "-1", "-u", "root"], arguments].concat())
}

impl Server {
    fn start(command: &mut Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("a process");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut start = String::new();
        while !start.contains(" serves on ") && said.read_line(&mut start).expect("text") > 0 {}
        Server { child: Running(child), said, start }
    }

    /// The lines before the one that it serves.
    fn notes(&self) -> Vec<&str> {
        assert!(self.start.contains(" serves on "), "{}", self.start);
        let without_time = |line: &'_ str| line.find("Z ").map_or(0, |time| time + 2);
        let lines: Vec<_> = self.start.lines().map(|line| &line[without_time(line)..]).collect();
        lines[..lines.len() - 1].to_vec()
    }

    /// The addresses of the line that it serves.
    fn addresses(&self) -> Vec<&str> {
        let addresses = self.start.split(" serves on ").nth(1).expect(&self.start);
        addresses.split(": ").next().expect("addresses").split(", ").collect()
    }

    fn address(&self) -> SocketAddr {
        self.addresses()[0].parse().expect("an address")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).expect("it runs");
    }

    /// Ends it: its further output.
    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        assert!(self.child.0.wait().expect("a child").success());
        rest
    }
}

/// Sends a request, and reads one line.
#[track_caller]
fn ask<C: Read + Write>(mut client: C) -> C {
    client.write_all(b"mn\r\n").expect("sent");
    let mut reply = [0; 4];
    client.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"MN\r\n");
    client
}

fn tcp(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("a client");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

fn unix(path: &PathBuf) -> UnixStream {
    let client = UnixStream::connect(path).expect("a client");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn passed(socket: &TcpListener) -> Stdio {
    OwnedFd::from(socket.try_clone().expect("a descriptor")).into()
}

/// A line of `stats settings`.
fn setting(client: TcpStream, name: &str) -> String {
    (&client).write_all(b"stats settings\r\n").expect("sent");
    let lines = BufReader::new(client).lines().map(|line| line.expect("text"));
    let beginning = format!("STAT {name} ");
    let mut lines = lines.take_while(|line| line != "END");
    lines.find_map(|line| line.strip_prefix(&beginning).map(str::to_owned)).expect(name)
}

#[test]
fn an_inherited_socket_is_served_with_the_clients_that_wait_at_it_already() {
    let (socket, address) = listener();
    let early = tcp(address);
    let mut command = by(WITH_SOCKETS, &["--listen-fd", "3"]);
    let server = Server::start(command.stdin(passed(&socket)));
    assert_eq!(server.addresses(), [address.to_string()], "nothing else is served");
    assert!(server.notes().is_empty(), "{}", server.start);
    ask(early);
    let pid = server.child.0.id();
    // No program that it might start inherits the socket.
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/3")).expect("descriptor 3");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
    let flags = i32::from_str_radix(flags, 8).expect("octal");
    assert_eq!(flags & libc::O_CLOEXEC, libc::O_CLOEXEC);
    assert_eq!(flags & libc::O_NONBLOCK, libc::O_NONBLOCK);
    assert_eq!(server.end(), "");
    // The socket is its owner's: the next server serves who has come meanwhile.
    let waiting = tcp(address);
    let server = Server::start(command.stdin(passed(&socket)));
    ask(waiting);
    drop(server);
}

#[test]
fn the_sockets_of_systemd_are_served_if_they_are_for_this_process() {
    let directory = Directory::new("activated");
    let path = directory.path("socket");
    let local = UnixListener::bind(&path).expect("a listener");
    let (socket, address) = listener();
    let activated = |script: &str, arguments: &[&str]| {
        let mut command = by(script, arguments);
        command.stdin(passed(&socket)).env("LISTEN_FDS", "2");
        command.stdout(Stdio::from(OwnedFd::from(local.try_clone().expect("a descriptor"))));
        Server::start(&mut command)
    };
    let server = activated(ACTIVATED, &[]);
    assert_eq!(server.addresses(), [address.to_string(), path.display().to_string()]);
    ask(tcp(address));
    ask(unix(&path));
    assert_eq!(server.end(), "");
    assert!(path.exists(), "the file is its owner's");

    // Beside its own.
    let server = activated(ACTIVATED, &["-l", "127.0.0.1", "-p", "-1"]);
    assert_eq!(server.addresses().len(), 3);
    ask(tcp(server.address()));
    ask(tcp(address));
    drop(server);

    // Those for another process are not taken: its own are served.
    let script = format!("export LISTEN_PID=1; {WITH_SOCKETS}");
    let server = activated(&script, &["-l", "127.0.0.1", "-p", "-1"]);
    assert_eq!(server.addresses().len(), 1);
    assert_ne!(server.address(), address);
}

#[test]
fn systemds_own_program_starts_the_server_with_the_first_client() {
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        return eprintln!("there is no systemd-socket-activate here");
    }
    let directory = Directory::new("systemd");
    let path = directory.path("socket");
    let mut command = Command::new("systemd-socket-activate");
    command.arg("-l").arg(&path).args([EVENKEEL, "serve", "-m", "16", "-u", "root"]);
    let mut child = Running(command.stderr(Stdio::null()).spawn().expect("a process"));
    until("the socket", || path.exists());
    ask(unix(&path));
    // It is the same process that serves now.
    kill_process(Pid::from_child(&child.0), Signal::TERM).expect("it runs");
    assert!(child.0.wait().expect("a child").success());
}

/// Checks that a server does not start, with this status, and ends its message so.
#[track_caller]
fn check_refused(mut command: Command, status: i32, message: &str) {
    let output = command.stderr(Stdio::piped()).output().expect("a process");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with(&format!("evenkeel: serve: {message}\n")), "{said}");
    assert!(said.lines().skip(1).all(|line| line.starts_with("  hint: ")), "{said}");
    assert_eq!(output.status.code(), Some(status), "{said}");
}

#[test]
fn a_descriptor_that_is_no_listening_socket_is_refused_with_what_it_is() {
    #[track_caller]
    fn check(socket: impl Into<OwnedFd>, found: &str) {
        let mut command = by(WITH_SOCKETS, &["--listen-fd", "3"]);
        command.stdin(Stdio::from(socket.into()));
        let expected = "expected a listening stream socket over TCP or unix";
        check_refused(command, 71, &format!("listen on descriptor 3: {expected}, found {found}"));
    }
    let directory = Directory::new("refused");
    check(File::create(directory.path("file")).expect("a file"), "a file");
    check(UdpSocket::bind("127.0.0.1:0").expect("a socket"), "a datagram socket");
    let (socket, address) = listener();
    check(tcp(address), "a connection (a socket unit needs Accept=no)");
    drop(socket);
    let idle = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    check(idle.expect("a socket"), "a socket that does not listen");

    let closed = "listen on descriptor 9: Bad file descriptor (os error 9)";
    check_refused(by(WITH_SOCKETS, &["--listen-fd", "9"]), 71, closed);
    let (socket, _) = listener();
    let both = |arguments: &[&str]| {
        let mut command = by(WITH_SOCKETS, arguments);
        command.stdin(passed(&socket)).stdout(passed(&socket));
        command
    };
    let same = "listen on descriptor 4: it is the same socket as descriptor 3";
    check_refused(both(&["--listen-fd", "3", "--listen-fd", "4"]), 71, same);
    check_refused(both(&["--listen-fd", "3,3"]), 64, "--listen-fd 3: given twice");
}

#[test]
fn variables_of_systemd_that_cannot_be_are_refused() {
    let with = |count: &str| {
        let mut command = by(ACTIVATED, &[]);
        command.env("LISTEN_FDS", count);
        command
    };
    for count in ["1000000", "-1", "two"] {
        let message = format!("LISTEN_FDS: expected a number from 0 to 1024, found `{count}`");
        check_refused(with(count), 64, &message);
    }
    // Descriptors 3 and 4 are /dev/null, 5 is closed.
    let found = "expected a listening stream socket over TCP or unix, found a device";
    check_refused(with("1"), 71, &format!("listen on descriptor 3: {found}"));
    let (socket, _) = listener();
    let mut many = with("1024");
    many.stdin(passed(&socket));
    check_refused(many, 71, "listen on descriptor 5: Bad file descriptor (os error 9)");
}

/// A supervisor that reads what it is told.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn at(path: &PathBuf) -> Supervisor {
        Supervisor(UnixDatagram::bind(path).expect("a socket"))
    }

    fn read(&self) -> String {
        self.0.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut bytes = [0; 200];
        let len = self.0.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// Checks that there is no other message.
    #[track_caller]
    fn check_silent(&self) {
        self.0.set_nonblocking(true).expect("a flag");
        let more = self.0.recv(&mut [0; 200]);
        assert_eq!(more.map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn a_supervisor_is_told_that_the_server_serves_and_that_it_stops() {
    let directory = Directory::new("told");
    for (name, signal) in [("term", Some(Signal::TERM)), ("command", None)] {
        let supervisor = Supervisor::at(&directory.path(name));
        let mut command = serve(&["-A"]);
        let mut server = Server::start(command.env("NOTIFY_SOCKET", directory.path(name)));
        assert_eq!(supervisor.read(), "READY=1");
        let client = ask(tcp(server.address()));
        match signal {
            Some(signal) => server.signal(signal),
            None => (&client).write_all(b"shutdown\r\n").expect("sent"),
        }
        assert_eq!(supervisor.read(), "STOPPING=1");
        assert!(server.child.0.wait().expect("a child").success());
        supervisor.check_silent();
    }
}

#[test]
fn a_server_in_the_background_names_its_process_and_has_the_sockets_of_the_first_one() {
    let directory = Directory::new("background");
    let name = format!("evenkeel-accepting-{}", std::process::id());
    let address = UnixAddress::from_abstract_name(&name).expect("a name");
    let supervisor = Supervisor(UnixDatagram::bind_addr(&address).expect("a socket"));
    let (pidfile, (socket, address)) = (directory.path("pid"), listener());
    let mut command = by(ACTIVATED, &["-d", "-u", "root", "-P"]);
    command.arg(&pidfile).env("NOTIFY_SOCKET", format!("@{name}")).env("LISTEN_FDS", "1");
    let mut starter = command.stdin(passed(&socket)).stderr(Stdio::null()).spawn().expect("a process");
    assert!(starter.wait().expect("a child").success());
    let pid = fs::read_to_string(&pidfile).expect("a number");
    assert_ne!(pid.trim(), starter.id().to_string());
    assert_eq!(supervisor.read(), format!("MAINPID={}\nREADY=1", pid.trim()));
    ask(tcp(address));
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(supervisor.read(), "STOPPING=1");
    until("the end", || !pidfile.exists());
    supervisor.check_silent();
}

/// Checks that a server serves although nobody can be told, and says so in one line.
#[track_caller]
fn check_untold(socket: &str, why: &str) {
    let server = Server::start(serve(&[]).env("NOTIFY_SOCKET", socket));
    ask(tcp(server.address()));
    let Server { mut said, child, .. } = server;
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    let expected = format!("the supervisor is not told (NOTIFY_SOCKET={socket}): {why}");
    assert!(line.contains(&format!("Z warning serve: {expected}")), "{line}");
    kill_process(Pid::from_child(&child.0), Signal::TERM).expect("it runs");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "");
}

#[test]
fn a_supervisor_that_cannot_be_told_does_not_keep_the_server_from_serving() {
    let directory = Directory::new("untold");
    let path = |name| directory.path(name).display().to_string();
    check_untold(&path("missing"), "No such file or directory");
    drop(UnixDatagram::bind(path("dead")).expect("a socket"));
    check_untold(&path("dead"), "Connection refused");
    check_untold("relative", "expected a path from / or a name after @");
    check_untold(&format!("/{}", "x".repeat(300)), "path must be shorter than SUN_LEN");
    let full = UnixDatagram::bind(path("full")).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a flag");
    while filler.send_to(b"READY=0", path("full")).is_ok() {}
    check_untold(&path("full"), "Resource temporarily unavailable");
    drop(full);
    // An empty name is none.
    let server = Server::start(serve(&[]).env("NOTIFY_SOCKET", ""));
    assert_eq!(server.end(), "");
}

fn set_sysctl(name: &str, value: impl ToString) {
    fs::write(format!("/proc/sys/net/{name}"), value.to_string()).expect(name);
}

/// The longest queue of the listener at this address, by `ss`.
fn queue(address: SocketAddr) -> String {
    let output = Command::new("ss").args(["-ltnH"]).output().expect("ss");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.find(|words| words[3] == address.to_string()).expect("a listener")[2].to_owned()
}

/// Checks the queue of a server and what it says about it, where the kernel allows `somaxconn`.
#[track_caller]
fn check_queue(somaxconn: u32, arguments: &[&str], length: u32, notes: &[&str]) {
    set_sysctl("core/somaxconn", somaxconn);
    let server = Server::start(&mut serve(arguments));
    let address = server.address();
    assert_eq!(queue(address), length.to_string(), "{somaxconn} {arguments:?}");
    assert_eq!(server.notes(), notes.iter().map(|note| format!("warning serve: {note}")).collect::<Vec<_>>());
    // Also where only one connection may wait.
    let clients: Vec<_> = (0..10).map(|_| ask(tcp(address))).collect();
    assert_eq!(
        setting(clients.into_iter().next().expect("some"), "evenkeel_tcp_backlog"),
        length.to_string()
    );
}

#[test]
fn the_accept_queue_follows_the_kernel_and_a_cut_is_reported() {
    let test = "serve_accepting::the_accept_queue_follows_the_kernel_and_a_cut_is_reported";
    if !in_namespaces(test, "ss -V") {
        return;
    }
    check_queue(4096, &[], 4096, &[]);
    check_queue(50_000, &[], 50_000, &[]);
    check_queue(i32::MAX as u32, &[], i32::MAX as u32, &[]);
    check_queue(1, &[], 1, &[]);
    check_queue(0, &[], 0, &[]);
    check_queue(4096, &["-b", "77"], 77, &[]);
    check_queue(4096, &["-b", "4096"], 4096, &[]);
    let cut = "the kernel allows 128 connections that wait to be accepted, not 8192 \
               (`sysctl -w net.core.somaxconn=8192`, then start again)";
    check_queue(128, &["-b", "8192"], 128, &[cut]);
}

/// A counter of /proc/net/netstat.
fn count(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").expect("netstat");
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(other, _)| *other == name).expect(name).1.parse().expect("a number")
}

/// A client that sends bytes with its SYN, if it has a cookie.
fn fast(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    let with_syn = SendFlags::from_bits_retain(libc::MSG_FASTOPEN as _);
    sendto(&socket, bytes, with_syn, &address).expect("send");
    let client = TcpStream::from(socket);
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
}

/// The number of requests in a SYN that the server received, after two clients that send one if they have a cookie.
#[track_caller]
fn fast_opens(address: SocketAddr) -> u64 {
    let before = count("TCPFastOpenPassive");
    // The first client gets a cookie, the second may use it.
    for _ in 0..2 {
        let mut client = fast(address, b"mn\r\n");
        let mut reply = [0; 4];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"MN\r\n");
    }
    count("TCPFastOpenPassive") - before
}

#[test]
fn a_client_that_has_connected_before_sends_its_request_with_the_syn() {
    if !in_namespaces(
        "serve_accepting::a_client_that_has_connected_before_sends_its_request_with_the_syn",
        "true",
    ) {
        return;
    }
    set_sysctl("ipv4/tcp_fastopen", 3);
    let server = Server::start(&mut serve(&[]));
    assert_eq!(fast_opens(server.address()), 0, "off by default");
    drop(server);
    let server = Server::start(&mut serve(&["--fast-open", "16"]));
    assert!(server.notes().is_empty(), "{}", server.start);
    assert_eq!(fast_opens(server.address()), 1, "the first client has no cookie yet");
    assert_eq!(fast_opens(server.address()), 2);

    // Garbage with the SYN is answered as garbage, and clients that are gone at once do no harm.
    let mut garbage = fast(server.address(), b"\0\xff\r\n");
    let mut line = [0; 7];
    garbage.read_exact(&mut line).expect("a reply");
    assert_eq!(&line, b"ERROR\r\n");
    for _ in 0..200 {
        let gone = fast(server.address(), b"set a 0 0 1000\r\n\0\xff");
        sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).expect("an option");
    }
    ask(tcp(server.address()));
    assert_eq!(server.end(), "");

    // An inherited socket takes it, too.
    let (socket, address) = listener();
    let mut command = by(WITH_SOCKETS, &["--listen-fd", "3", "--fast-open", "16"]);
    let server = Server::start(command.stdin(passed(&socket)));
    assert_eq!(fast_opens(address), 2, "there is a cookie of the same address");
    drop(server);
}

#[test]
fn fast_open_that_the_kernel_does_not_allow_is_reported_and_the_server_serves() {
    let test = "serve_accepting::fast_open_that_the_kernel_does_not_allow_is_reported_and_the_server_serves";
    if !in_namespaces(test, "true") {
        return;
    }
    let directory = Directory::new("fast");
    set_sysctl("ipv4/tcp_fastopen", 1);
    set_sysctl("core/somaxconn", 8);
    let server = Server::start(&mut serve(&["--fast-open", "16"]));
    let cut = "warning serve: the kernel allows 8 pending TCP Fast Open requests, not 16 \
               (`sysctl -w net.core.somaxconn=16`, then start again)";
    let off = "warning serve: TCP Fast Open is off for servers: net.ipv4.tcp_fastopen is 1 \
               (`sysctl -w net.ipv4.tcp_fastopen=3` turns it on at once)";
    assert_eq!(server.notes(), [cut, off]);
    assert_eq!(fast_opens(server.address()), 0);
    // The remedy works while it serves.
    set_sysctl("ipv4/tcp_fastopen", 3);
    assert_eq!(fast_opens(server.address()), 1);
    assert_eq!(server.end(), "");

    let local = UnixListener::bind(directory.path("socket")).expect("a listener");
    let mut command = by(WITH_SOCKETS, &["--listen-fd", "3", "--fast-open", "8"]);
    let server = Server::start(command.stdin(Stdio::from(OwnedFd::from(local))));
    let none = "warning serve: TCP Fast Open has no effect: no listener is TCP";
    assert_eq!(server.notes(), [none]);
    ask(unix(&directory.path("socket")));
}

#[test]
fn without_proc_the_server_asks_for_memcacheds_queue_and_claims_nothing() {
    let test = "serve_accepting::without_proc_the_server_asks_for_memcacheds_queue_and_claims_nothing";
    if !in_namespaces(test, "ss -V && mount -t tmpfs tmpfs /proc/sys") {
        return;
    }
    let covered = Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/proc/sys"]).status();
    assert!(covered.expect("mount").success());
    let server = Server::start(&mut serve(&["-b", "100000", "--fast-open", "100000"]));
    assert!(server.notes().is_empty(), "{}", server.start);
    drop(server);
    let server = Server::start(&mut serve(&[]));
    assert_eq!(queue(server.address()), "1024");
    ask(tcp(server.address()));
}

#[test]
fn a_socket_that_another_process_shuts_down_is_given_up() {
    let (socket, address) = listener();
    let mut command = by(WITH_SOCKETS, &["--listen-fd", "3", "-l", "127.0.0.1", "-p", "-1"]);
    let mut server = Server::start(command.stdin(passed(&socket)));
    let own = server.address();
    ask(tcp(address));
    shutdown(&socket, rustix::net::Shutdown::Both).expect("it listens");
    let mut line = String::new();
    server.said.read_line(&mut line).expect("text");
    let expected = format!("no longer listens on {address}: another process has shut the socket down\n");
    assert!(line.ends_with(&format!("Z warning serve: {expected}")), "{line}");
    ask(tcp(own));
    assert_eq!(server.end(), "", "it is said once");
}
