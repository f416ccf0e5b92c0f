//! Servers behind a router that fail under an open load: killed, stopped, unreachable, slow. Only requests for that server
//! fail, and only until the router has noticed; another server answers where the route says so; and once the server is back
//! it is asked again.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::open_loop::{AnsweredRequest, OpenLoop};
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// The time limit of the server that fails, in milliseconds: longer than a thread of a busy machine is delayed. The others
/// have a minute.
const LIMIT_MS: u64 = 3_000;

/// Answers to wait for in each phase: some of each key.
const PHASE: usize = 600;

/// Keys of each kind.
const KEYS: usize = 40;

/// Three servers to which a hash gives keys; of keys that begin with `f` a spare one is asked, too.
struct Cluster {
    servers: [Server; 4],
    router: Server,
    /// The address of the first server.
    first: String,
}

impl Cluster {
    /// With the first server at this address, if it is not its own, and more flags of it and of the router.
    fn start(first: &str, server_flags: &[&str], flags: &[&str]) -> Cluster {
        let start =
            |subject: &ServerUnderTest, flags: &[&str]| Server::start(subject, flags).expect("a server");
        let ours = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let servers = [
            start(&ours, server_flags),
            start(&ServerUnderTest::memcached().expect("a memcached"), &[]),
            start(&ours, &[]),
            start(&ours, &[]),
        ];
        let [port, ..] = servers.each_ref().map(|server| server.address().port());
        let first = match first {
            "" => servers[0].address().to_string(),
            host if host.contains(':') => host.to_owned(),
            host => format!("{host}:{port}"),
        };
        let [_, second, third, spare] = servers.each_ref().map(|server| server.address().to_string());
        let hash = r#"{"type": "HashRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]}"#;
        let configuration = format!(
            r#"{{"pools": {{
                "A": {{"servers": ["{first}"], "server_timeout": {LIMIT_MS}, "connect_timeout": {LIMIT_MS}}},
                "B": {{"servers": ["{second}"]}}, "C": {{"servers": ["{third}"]}}, "S": {{"servers": ["{spare}"]}}}},
              "route": {{"type": "PrefixSelectorRoute", "wildcard": {hash},
                "policies": {{"f": {{"type": "FailoverRoute", "children": [{hash}, "PoolRoute|S"]}}}}}}}}"#
        );
        let probes = ["-r", "100", "--probe-timeout-max=500"];
        let flags = [&["--config", &configuration, "-t", "60000"], &probes[..], flags].concat();
        Cluster { servers, router: Server::start_router(&flags).expect("a router"), first }
    }

    fn client(&self) -> Client {
        Client::new(self.router.connect().expect("a connection"))
    }

    /// Names of keys, those of the first server or of the others.
    fn keys(&self, prefix: &str, of_first: bool) -> Vec<String> {
        let mut client = self.client();
        let mut is_of_first = |key: &String| {
            let asked = client.ask(format!("get __mcrouter__.route(get,{key})\r\n").as_bytes());
            assert!(asked.expect("an answer").starts_with("VALUE "));
            let mut servers = vec![client.line().expect("a server")];
            while servers.last().is_some_and(|line| line != "END") {
                servers.push(client.line().expect("a server, or the end"));
            }
            servers[0] == self.first
        };
        let names = (0..).map(|number| format!("{prefix}{number}"));
        names.filter(|key| is_of_first(key) == of_first).take(KEYS).collect()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.servers[0].pid() as i32).expect("an id");
        kill_process(pid, signal).expect("send a signal");
    }

    #[track_caller]
    fn says(&self, text: &str) {
        let said = clock::wait_for(|| self.router.said().contains(text).then_some(()));
        assert!(said.is_some(), "expected {text:?} in {}", self.router.said());
    }

    /// Breaks the first server and repairs it, under load.
    #[track_caller]
    fn survives(&mut self, break_it: impl FnOnce(&mut Cluster), repair_it: impl FnOnce(&mut Cluster)) {
        let plain = self.keys("p", true);
        let mut mixed = [&plain[..], &self.keys("f", true), &self.keys("p", false), &self.keys("f", false)];
        // The number of a key tells of which kind it is.
        let kinds: Vec<String> = mixed.iter_mut().flat_map(|keys| keys.to_vec()).collect();
        let (is_plain, is_first) = (|key: usize| key < KEYS, |key: usize| key < 2 * KEYS);
        let load = OpenLoop::start(self.router.connect().expect("a connection"), kinds).expect("a load");
        let others = self.keys("b", false);
        let bystander =
            OpenLoop::start(self.router.connect().expect("a connection"), others).expect("a load");
        load.go_on_for(PHASE).expect("answers");

        let broken = clock::now();
        break_it(self);
        self.says(&format!("server {} is unavailable", self.first));
        let noticed = clock::now();
        load.go_on_for(PHASE).expect("answers");
        let repairing = clock::now();
        repair_it(self);
        self.says(&format!("server {} is available again", self.first));
        let repaired = clock::now();
        load.go_on_for(PHASE).expect("answers");

        let bystanders = bystander.stop().expect("an answer to each");
        assert!(bystanders.len() > PHASE);
        for request in &bystanders {
            assert!(!request.is_error(), "a key of another server: {request:?}");
        }
        let all = load.stop().expect("an answer to each");
        let (mut failed_at_once, mut answered_by_spare, mut back) = (0, 0, 0);
        for request in &all {
            let AnsweredRequest { key, sent, answered, answer } = request;
            let is_known = *sent > noticed && *answered < repairing;
            if request.is_error() {
                assert!(is_plain(*key), "another server has its key, or takes over: {request:?}");
                assert!(*answered > broken && *sent < repaired, "the server is there: {request:?}");
            }
            if is_known && is_plain(*key) {
                assert!(answer.starts_with("SERVER_ERROR Server unavailable. Reason: "), "{request:?}");
                failed_at_once += 1;
            } else if is_known && is_first(*key) {
                answered_by_spare += 1;
            }
            back += usize::from(*sent > repaired && is_plain(*key));
        }
        assert!(failed_at_once > 0 && answered_by_spare > 0 && back > 0, "{all:?}");
        let mut direct = Client::new(TcpStream::connect(&self.first).expect("the server"));
        let asked = direct.statistic("cmd_get").expect("stats") + direct.statistic("cmd_set").expect("stats");
        assert!(asked > 0, "the server has its keys again");
        println!("{} requests, {} of them failed", all.len(), all.iter().filter(|r| r.is_error()).count());
    }
}

#[test]
fn a_server_that_is_killed_and_comes_back_empty_costs_its_own_requests_only() {
    let mut cluster = Cluster::start("", &[], &[]);
    cluster.survives(
        |cluster| cluster.servers[0].kill().expect("kill"),
        |cluster| cluster.servers[0].start_again().expect("start again"),
    );
}

#[test]
fn a_server_that_stands_still_costs_its_own_requests_only() {
    let mut cluster = Cluster::start("", &[], &[]);
    cluster.survives(|cluster| cluster.signal(Signal::STOP), |cluster| cluster.signal(Signal::CONT));
}

/// The address of the server whose host vanishes.
const HOST: &str = "10.9.0.1";

/// Runs a command of the system.
#[track_caller]
fn run(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect("run ip");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_host_that_vanishes_costs_the_requests_of_its_server_only() {
    if !rustix::process::getuid().is_root() {
        eprintln!("a network namespace needs root");
        return;
    }
    // The thread of the test may be used for others, too.
    let in_a_namespace = std::thread::spawn(|| {
        #[expect(deprecated, reason = "unsafe only where file descriptors are unshared")]
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).expect("a network namespace");
        for line in [
            "ip link set lo up",
            "ip link add v0 type veth peer name v1",
            "ip link set v0 up",
            "ip link set v1 up",
            "ip addr add 10.9.0.254/24 dev v0",
            // Packets for the host go where nobody takes them, without a word.
            "ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev v0 nud permanent",
            "ip addr add 10.9.0.1/32 dev lo",
        ] {
            run(line);
        }
        let mut cluster = Cluster::start(HOST, &["-l", HOST], &[]);
        cluster
            .survives(|_| run("ip addr del 10.9.0.1/32 dev lo"), |_| run("ip addr add 10.9.0.1/32 dev lo"));
    });
    in_a_namespace.join().expect("no failure");
}

/// How much later a slow server's replies come.
const DELAY: Duration = Duration::from_millis(50);

/// Takes a connection to `server`, whose replies come later, and is gone when both ends are.
fn delaying(server: &Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, behind) = (listener.local_addr().expect("an address"), server.address());
    std::thread::spawn(move || {
        let (front, _) = listener.accept().expect("the router");
        let back = TcpStream::connect(behind).expect("the server");
        let forward = |mut from: TcpStream, mut to: TcpStream, delay: Option<Duration>| {
            let mut part = vec![0; 1 << 16];
            while let Ok(count @ 1..) = from.read(&mut part) {
                delay.into_iter().for_each(clock::pass);
                if to.write_all(&part[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Write);
        };
        let share = |stream: &TcpStream| stream.try_clone().expect("share");
        let (asked, answers) = ((share(&front), share(&back)), (back, front));
        std::thread::spawn(move || forward(asked.0, asked.1, None));
        forward(answers.0, answers.1, Some(DELAY));
    });
    address.to_string()
}

#[test]
fn a_server_that_is_slow_delays_its_own_requests_only() {
    let slow =
        Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &[] as &[&str]).expect("a server");
    let cluster = Cluster::start(&delaying(&slow), &[], &[]);
    let start =
        |keys| OpenLoop::start(cluster.router.connect().expect("a connection"), keys).expect("a load");
    let (own, others) = (start(cluster.keys("p", true)), start(cluster.keys("p", false)));
    own.go_on_for(PHASE).expect("answers");
    others.go_on_for(PHASE).expect("answers");
    let (own, others) = (own.stop().expect("an answer to each"), others.stop().expect("an answer to each"));
    assert!(own.iter().chain(&others).all(|request| !request.is_error()), "{own:?} {others:?}");
    assert!(own.iter().all(|request| request.waited() >= DELAY), "{own:?}");
    // On a busy machine some wait for other reasons.
    let quick = others.iter().filter(|request| request.waited() < DELAY).count();
    assert!(quick > 50, "{quick} of {} did not wait", others.len());
    assert!(!cluster.router.said().contains("unavailable"), "{}", cluster.router.said());
}

/// Large values that take longer than the time limit: so many parts, each of so many bytes, each so much later than the last.
const PARTS: usize = 12;
const PART_LEN: usize = 512 << 10;
const PART_DELAY: Duration = Duration::from_millis(500);

/// A server that has one large value, which it takes longer to send than the time limit, and no other item.
fn with_a_large_value() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the router");
        let mut requests = BufReader::new(stream.try_clone().expect("share"));
        let mut replies = stream;
        let mut line = String::new();
        while requests.read_line(&mut line).is_ok_and(|len| len > 0) {
            if line == "get large\r\n" {
                let head = format!("VALUE large 0 {}\r\n", PARTS * PART_LEN);
                replies.write_all(head.as_bytes()).expect("send");
                for _ in 0..PARTS {
                    clock::pass(PART_DELAY);
                    replies.write_all(&vec![b'x'; PART_LEN]).expect("send");
                }
                replies.write_all(b"\r\n").expect("send");
            }
            replies.write_all(b"END\r\n").expect("send");
            line.clear();
        }
    });
    address.to_string()
}

#[test]
fn a_large_value_that_its_client_does_not_take_makes_no_server_unavailable() {
    let server = with_a_large_value();
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{server}"], "server_timeout": {LIMIT_MS}}}}}, "route": "PoolRoute|A"}}"#
    );
    let router = Server::start_router(&["--config", &configuration]).expect("a router");
    let mut idle = router.connect().expect("a connection");
    let begun = clock::now();
    idle.write_all(b"get large\r\n").expect("send");
    let others: Vec<TcpStream> = (0..4).map(|_| router.connect().expect("a connection")).collect();
    for mut other in &others {
        other.write_all(b"get small\r\n").expect("send");
    }
    for other in others {
        let mut client = Client::new(other);
        assert_eq!(client.line().expect("an answer"), "END");
        assert_eq!(client.ask(b"get small\r\n").expect("an answer"), "END");
    }
    let limit = Duration::from_millis(LIMIT_MS);
    assert!(begun.elapsed() > limit, "the value has taken no longer than the time limit");
    assert!(!router.said().contains("unavailable"), "{}", router.said());
}

/// Nobody's time limit passes here: whoever waits for the server that stands still waits for ever.
#[test]
fn requests_for_other_servers_pass_those_that_wait() {
    let cluster = Cluster::start("", &[], &["--disable-tko-tracking"]);
    let (own, others) = (cluster.keys("p", true), cluster.keys("p", false));
    cluster.signal(Signal::STOP);
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cluster.client().ask(format!("get {}\r\n", own[0]).as_bytes()));
        let mut client = cluster.client();
        for key in others.iter().cycle().take(2_000) {
            assert_eq!(client.ask(format!("get {key}\r\n").as_bytes()).expect("an answer"), "END");
        }
        cluster.signal(Signal::CONT);
        waiting.join().expect("no failure")
    });
    let answer = waiting.expect("an answer");
    assert!(answer == "END" || answer == "SERVER_ERROR Reply timeout", "{answer}");
}

/// Deletes on their way when the server is killed are answered; those that come later are in the log, each once.
#[test]
fn deletes_for_a_server_that_is_killed_are_spooled_or_answered() {
    const COUNT: usize = 500;
    let folder = std::env::temp_dir().join(format!("evenkeel-route-faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let place = format!("--async-dir={}", folder.display());
    let mut cluster = Cluster::start("", &[], &[&place, "--router-name=r"]);
    let keys = cluster.keys("p", true);
    let mut pipelined = cluster.router.connect().expect("a connection");
    let deletes = |begin: usize| -> String {
        (begin..begin + COUNT).map(|number| format!("delete {}\r\n", keys[number % KEYS])).collect()
    };
    pipelined.write_all(deletes(0).as_bytes()).expect("send");
    cluster.servers[0].kill().expect("kill");
    pipelined.write_all(deletes(0).as_bytes()).expect("send");
    let mut client = Client::new(pipelined);
    for _ in 0..2 * COUNT {
        assert_eq!(client.line().expect("an answer"), "NOT_FOUND");
    }
    cluster.says(&format!("server {} is unavailable", cluster.first));
    let logged = || -> Vec<String> {
        let hours = std::fs::read_dir(&folder).expect("a folder").map(|hour| hour.expect("an hour").path());
        let files = hours.flat_map(|hour| std::fs::read_dir(hour).expect("a folder"));
        let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("text"));
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let before = logged().len();
    assert!((COUNT..=2 * COUNT).contains(&before), "{before} deletes are in the log");
    for key in &keys {
        assert_eq!(client.ask(format!("delete {key}\r\n").as_bytes()).expect("an answer"), "NOT_FOUND");
    }
    let lines = logged();
    std::fs::remove_dir_all(&folder).expect("remove");
    assert_eq!(lines.len(), before + KEYS);
    for (line, key) in lines[before..].iter().zip(&keys) {
        assert!(line.ends_with(&format!(r#""delete {key}\r\n"]]"#)), "{line} is not about {key}");
    }
}
