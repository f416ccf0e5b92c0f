//! A router takes over from another one (`--takeover`), while clients go on, and whichever of both is killed.
//!
//! `EVENKEEL_TEST_ROUNDS` sets how many take-overs and kills there are, `EVENKEEL_TEST_SEEDS` (as `first..last`, of which the first counts) the
//! moments of the kills.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use end_to_end::clock;
use end_to_end::server::{Server, reserve_port};
use end_to_end::subject::{ServerUnderTest, SocketDriver, router};
use stdx::prng::Prng;

/// Kills of an ordinary run.
const KILLS: u64 = 12;
/// Take-overs of an ordinary run.
const TAKEOVERS: u64 = 8;
/// Requests in a pipeline.
const PIPELINE: usize = 16;
const KEYS: usize = 100;

/// A port, a socket file and a folder, at which routers follow each other.
struct Place {
    folder: PathBuf,
    port: u16,
    servers: Vec<Server>,
}

/// A router, killed with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }

    #[track_caller]
    fn ends_well(&mut self, place: &Place) {
        let ended = clock::wait_for(|| self.0.try_wait().expect("a child"));
        assert!(ended.is_some_and(|status| status.success()), "{}", place.said());
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.split("..").next()?.parse().ok()
}

impl Place {
    fn new() -> Place {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("evenkeel-route-takeover-{}-{count}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let servers: Vec<Server> =
            (0..2).map(|_| Server::start(&subject, &["-m", "64", "-t", "1"]).expect("a server")).collect();
        let pool: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.address())).collect();
        let routes = format!(
            "{{\"pools\": {{\"all\": {{\"servers\": [{}]}}}}, \"route\": \"PoolRoute|all\"}}",
            pool.join(",")
        );
        fs::write(folder.join("routes.json"), routes).expect("written");
        // Free a moment ago; nobody connects to it before the router listens.
        let port = reserve_port().expect("a port").1.port();
        Place { folder, port, servers }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn command(&self, program: &Path, flags: &[&str]) -> Command {
        let said = File::options().create(true).append(true).open(self.folder.join("said"));
        let port = self.port.to_string();
        let mut command = Command::new(program);
        command.args(["route", "-f", &self.path("routes.json"), "--listen-addresses", "127.0.0.1"]);
        command.args(["-p", &port, "--unix-domain-sock", &self.path("socket"), "--num-proxies", "2"]);
        command.args(["--takeover", &self.path("next"), "-P", &self.path("pid")]).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.expect("a file"));
        command
    }

    fn start(&self) -> Running {
        self.start_with(&[])
    }

    fn start_with(&self, flags: &[&str]) -> Running {
        Running(self.command(Path::new(router().get_program()), flags).spawn().expect("a process"))
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
    }

    /// Stores the keys that clients ask for.
    fn fill(&self) {
        let stream =
            clock::wait_for(|| TcpStream::connect(("127.0.0.1", self.port)).ok()).expect("it routes");
        let mut stream = BufReader::new(stream);
        for key in 0..KEYS {
            stream.get_mut().write_all(format!("set k{key} 0 0 4\r\nitem\r\n").as_bytes()).expect("sent");
            assert_eq!(line(&mut stream), "STORED\r\n");
        }
    }

    /// Whether the router answers; false if it has ended.
    fn routes(&self, router: &mut Running) -> bool {
        let ask = || {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
            let mut stream = BufReader::new(stream);
            stream.get_mut().write_all(b"get k1\r\n").ok()?;
            (line(&mut stream).starts_with("VALUE k1")).then_some(true)
        };
        let found = clock::wait_for(|| if router.has_ended() { Some(false) } else { ask() });
        found.expect("an answer in time")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the routers said: {}", self.said());
        }
        // If it fails, the folder does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn line(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    let _ = stream.read_line(&mut line);
    line
}

/// What a client has met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    gets: u64,
    wrong: u64,
    /// Connects that were refused, and connections that were closed.
    lost: u64,
    longest: Duration,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// How a client connects, and after how many rounds it does so again.
type Connect = Box<dyn Fn() -> std::io::Result<Box<dyn Stream>> + Send>;

fn get_until(connect: &Connect, pipeline: usize, again_after: u64, end: &AtomicBool) -> Met {
    let (mut met, mut rounds) = (Met::default(), 0);
    let mut stream: Option<BufReader<Box<dyn Stream>>> = None;
    while !end.load(Ordering::Acquire) {
        let begun = clock::now();
        rounds += 1;
        if rounds % again_after == 0 {
            stream = None;
        }
        let Some(mut connected) = stream.take().or_else(|| connect().ok().map(BufReader::new)) else {
            met.lost += 1;
            continue;
        };
        let keys: Vec<usize> = (0..pipeline).map(|at| (rounds as usize + at) % KEYS).collect();
        let asked: String = keys.iter().map(|key| format!("get k{key}\r\n")).collect();
        let mut is_open = connected.get_mut().write_all(asked.as_bytes()).is_ok();
        for key in keys {
            let answer: String = (0..3).map(|_| line(&mut connected)).collect();
            is_open &= !answer.is_empty();
            met.gets += 1;
            met.wrong += u64::from(is_open && answer != format!("VALUE k{key} 0 4\r\nitem\r\nEND\r\n"));
        }
        met.lost += u64::from(!is_open);
        met.longest = met.longest.max(begun.elapsed());
        stream = is_open.then_some(connected);
        clock::pass(Duration::from_micros(500));
    }
    met
}

struct Clients {
    end: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<Met>)>,
}

impl Clients {
    fn begin(place: &Place) -> Clients {
        let (port, socket) = (place.port, place.folder.join("socket"));
        let tcp = move || -> Connect {
            Box::new(move || {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream) as Box<dyn Stream>)
            })
        };
        let unix: Connect =
            Box::new(move || UnixStream::connect(&socket).map(|stream| Box::new(stream) as Box<dyn Stream>));
        let end = Arc::new(AtomicBool::new(false));
        let begin = |(name, connect, pipeline, again): (&'static str, Connect, usize, u64)| {
            let end = Arc::clone(&end);
            (name, std::thread::spawn(move || get_until(&connect, pipeline, again, &end)))
        };
        let kinds = [
            ("one at a time", tcp(), 1, u64::MAX),
            ("16 in a pipeline", tcp(), PIPELINE, u64::MAX),
            ("a connection for each", tcp(), 1, 1),
            ("unix", unix, 1, 5),
        ];
        Clients { threads: kinds.into_iter().map(begin).collect(), end }
    }

    #[track_caller]
    fn check(self, place: &Place) {
        self.end.store(true, Ordering::Release);
        for (name, thread) in self.threads {
            let met = thread.join().expect("a client");
            println!("{name}: {met:?}");
            assert!(met.gets > 0 && met.wrong == 0 && met.lost == 0, "{name}: {met:?}: {}", place.said());
        }
    }
}

#[test]
fn routers_follow_each_other_and_clients_lose_nothing() {
    let place = Place::new();
    let mut router = place.start();
    place.fill();
    let clients = Clients::begin(&place);
    // The first part of a request, and the first part of a body.
    let connect = || BufReader::new(TcpStream::connect(("127.0.0.1", place.port)).expect("it routes"));
    let mut half = connect();
    half.get_mut().write_all(b"get k1\r\nget k").expect("sent");
    assert_eq!(line(&mut half), "VALUE k1 0 4\r\n");
    assert_eq!((line(&mut half), line(&mut half)), ("item\r\n".to_owned(), "END\r\n".to_owned()));
    for round in 0..number("EVENKEEL_TEST_ROUNDS").unwrap_or(TAKEOVERS) {
        let mut next = place.start();
        router.ends_well(&place);
        assert!(!next.has_ended(), "{}", place.said());
        assert_eq!(place.pid(), Some(next.0.id()), "round {round}");
        router = next;
    }
    half.get_mut().write_all(b"2\r\n").expect("sent");
    assert_eq!(line(&mut half), "VALUE k2 0 4\r\n", "{}", place.said());
    clients.check(&place);
}

#[test]
fn an_upload_ends_in_the_router_where_it_began_and_one_that_does_not_end_delays_the_other_by_seconds() {
    let place = Place::new();
    let mut router = place.start();
    place.fill();
    let upload = || {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", place.port)).expect("it routes"));
        let value = vec![b'x'; 50_000];
        stream.get_mut().write_all(b"get k1\r\nset large 0 0 100000\r\n").expect("sent");
        stream.get_mut().write_all(&value).expect("sent");
        assert_eq!(line(&mut stream), "VALUE k1 0 4\r\n");
        assert_eq!((line(&mut stream), line(&mut stream)), ("item\r\n".to_owned(), "END\r\n".to_owned()));
        stream
    };
    let (mut ends, mut hangs) = (upload(), upload());
    let clients = Clients::begin(&place);
    let _next = place.start();
    let begun = clock::wait_for(|| place.said().contains("routes on").then_some(()));
    begun.expect("the first router");
    clock::pass(Duration::from_millis(500));
    assert!(!router.has_ended(), "it waits for uploads");
    ends.get_mut().write_all(&[&vec![b'x'; 50_000][..], b"\r\n"].concat()).expect("sent");
    assert_eq!(line(&mut ends), "STORED\r\n");
    // It is the other router's now.
    ends.get_mut().write_all(b"get k2\r\n").expect("sent");
    assert_eq!(line(&mut ends), "VALUE k2 0 4\r\n", "{}", place.said());
    router.ends_well(&place);
    assert_eq!(line(&mut hangs), "", "it was closed");
    assert!(place.said().contains("1 connections are closed"), "{}", place.said());
    clients.check(&place);
}

#[test]
fn a_successor_that_fails_leaves_the_router_as_it_was() {
    let place = Place::new();
    let mut router = place.start();
    place.fill();
    let clients = Clients::begin(&place);
    for flags in
        [&["--config", "file:/nowhere/at/all"][..], &["--num-proxies", "x"], &["--background", "-R", "x"]]
    {
        let mut next = place.start_with(flags);
        let status = clock::wait_for(|| next.0.try_wait().expect("a child")).expect("it ends");
        assert!(!status.success(), "{flags:?}");
        assert!(place.routes(&mut router), "{flags:?}: {}", place.said());
        assert_eq!(place.pid(), Some(router.0.id()), "{flags:?}");
    }
    // A server at a router's path, and one that breaks off in the middle.
    let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    let mut server = Command::new(&subject.program);
    server.args(&subject.arguments).args(["-u", "root", "-p", "0", "--takeover", &place.path("next")]);
    let output = server.output().expect("a process");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("expected the greeting of a router, found the greeting of a server"), "{said}");
    let mut stream = UnixStream::connect(place.path("next")).expect("it listens");
    let hello = br#"{"format":99,"version":"9"}"#;
    stream.write_all(&message(10, hello)).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("version 9 takes over otherwise than"), "{answer}");
    assert!(place.routes(&mut router), "{}", place.said());
    clients.check(&place);
}

/// A message of a take-over.
fn message(kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

/// The kind of the next message, whose bytes are left out.
fn next_kind(stream: &mut UnixStream) -> u32 {
    let mut head = [0; 8];
    stream.read_exact(&mut head).expect("a message");
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    stream.read_exact(&mut vec![0; number(4) as usize]).expect("its bytes");
    number(0)
}

#[test]
fn a_third_router_finds_the_second_one_from_the_moment_when_the_first_one_is_told() {
    let place = Place::new();
    let listener = UnixListener::bind(place.path("next")).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    let mut second = place.start();
    let (mut first, _) = clock::wait_for(|| listener.accept().ok()).expect("it asks");
    // The first router, which has nothing to give, ends as soon as it is told.
    drop(listener);
    first.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
    assert_eq!(next_kind(&mut first), 10, "the greeting");
    let offer = br#"{"format":1,"version":"1","addresses":[],"listeners":0,"metrics":0}"#;
    first.write_all(&message(11, offer)).expect("sent");
    assert_eq!(next_kind(&mut first), 12, "it routes: {}", place.said());
    assert_eq!(place.pid(), None);
    first.write_all(&message(7, b"")).expect("sent");
    assert_eq!(next_kind(&mut first), 8, "it is told: {}", place.said());
    let found = UnixStream::connect(place.path("next"));
    assert!(found.is_ok() && place.pid() == Some(second.0.id()), "{found:?}: {}", place.said());
    drop((found, first));
    place.fill();
    let mut third = place.start();
    second.ends_well(&place);
    assert!(place.routes(&mut third), "{}", place.said());
}

#[test]
fn a_start_in_the_background_ends_when_the_router_routes() {
    let place = Place::new();
    let start = || {
        let status = place.command(Path::new(router().get_program()), &["--background"]).status();
        assert!(status.expect("a process").success(), "{}", place.said());
        place.pid().expect("a process")
    };
    let first = start();
    place.fill();
    let clients = Clients::begin(&place);
    let second = start();
    assert_ne!(first, second);
    let exe = PathBuf::from(format!("/proc/{first}/exe"));
    let ended = clock::wait_for(|| fs::read_link(&exe).is_err().then_some(()));
    assert!(ended.is_some(), "{}", place.said());
    clients.check(&place);
    let ended = Command::new("kill").arg(second.to_string()).status();
    assert!(ended.expect("a process").success());
    let gone = clock::wait_for(|| (!place.folder.join("pid").exists()).then_some(()));
    gone.expect("it removes its file");
}

#[test]
fn whichever_router_is_killed_at_whatever_moment_the_other_one_routes() {
    let mut prng = Prng::new(number("EVENKEEL_TEST_SEEDS").unwrap_or(1));
    let place = Place::new();
    let mut router = place.start();
    place.fill();
    let began = clock::now();
    let next = place.start();
    router.ends_well(&place);
    router = next;
    let moments = began.elapsed().max(Duration::from_millis(20)).mul_f64(1.2).as_micros() as u64;
    let mut outcomes = BTreeMap::<&str, u64>::new();
    for round in 0..number("EVENKEEL_TEST_ROUNDS").unwrap_or(KILLS) {
        // An upload that does not end stretches the take-over.
        let mut upload = TcpStream::connect(("127.0.0.1", place.port)).expect("it routes");
        if prng.below(4) == 0 {
            upload.write_all(b"set b 0 0 100000\r\nx").expect("room");
        }
        let mut next = place.start();
        clock::pass(Duration::from_micros(prng.below(moments)));
        let is_old_killed = prng.below(2) == 0;
        let killed = if is_old_killed { &mut router } else { &mut next };
        killed.0.kill().expect("a child");
        killed.0.wait().expect("a child");
        drop(upload);
        let other = if is_old_killed { &mut next } else { &mut router };
        let outcome = match (is_old_killed, place.routes(other)) {
            (true, false) => panic!("round {round}: nobody routes after the predecessor was killed"),
            (true, true) => "the successor routes",
            (false, true) => "the predecessor goes on",
            // It had been taken over before, and the only router was killed.
            (false, false) => "the take-over was over",
        };
        *outcomes.entry(outcome).or_default() += 1;
        match outcome {
            "the successor routes" => router = next,
            "the take-over was over" => {
                router.ends_well(&place);
                router = place.start();
            }
            _ => {}
        }
        assert!(place.routes(&mut router), "round {round}: it routes");
        let named = clock::wait_for(|| (place.pid() == Some(router.0.id())).then_some(()));
        assert!(named.is_some(), "round {round}: its file names {:?}: {}", place.pid(), place.said());
        // It may have ended after the last look.
        assert!(!router.has_ended(), "round {round}: {}", place.said());
    }
    assert!(place.servers.len() == 2);
    eprintln!("{outcomes:?}, kills within {moments} us of a successor's start");
}
