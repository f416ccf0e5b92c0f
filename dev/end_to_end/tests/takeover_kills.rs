//! Kills of either process at random moments of a take-over (`--takeover`): the other one serves afterwards.
//!
//! `EVENKEEL_TEST_ROUNDS` sets how many kills there are, `EVENKEEL_TEST_SEEDS` (as `first..last`, of which the first counts) the moments.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stdx::prng::Prng;

/// Kills of an ordinary run.
const ROUNDS: u64 = 30;

/// A port and a folder, at which servers follow each other.
struct Place {
    folder: PathBuf,
    port: u16,
}

/// A server, killed with this value.
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
}

impl Place {
    fn new(name: &str) -> Place {
        let folder =
            std::env::temp_dir().join(format!("evenkeel-takeover-kills-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        // Free a moment ago; nobody connects to it before the server listens.
        let port = end_to_end::server::reserve_port().expect("a port").1.port();
        Place { folder, port }
    }

    fn start(&self) -> Running {
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let said = fs::File::options().create(true).append(true).open(self.folder.join("said"));
        let mut command = Command::new(&subject.program);
        command.args(&subject.arguments).args(["-u", "root", "-l", "127.0.0.1", "-t", "2", "-m", "64"]);
        command.args(["-p", &self.port.to_string(), "--takeover"]).arg(self.folder.join("next"));
        Running(command.stdin(Stdio::null()).stderr(said.expect("a file")).spawn().expect("a process"))
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    fn connect(&self) -> Option<Client> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
        Some(Client::new(stream))
    }

    /// The answer of whoever serves; `None` if `server` has ended.
    fn value(&self, server: &mut Running) -> Option<String> {
        let ask = || {
            let mut client = self.connect()?;
            match client.ask(b"get a\r\n").ok()?.as_str() {
                "END" => Some(None),
                _ => client.line().ok().map(Some),
            }
        };
        let answer = clock::wait_for(|| match server.has_ended() {
            true => Some(None),
            false => ask().map(Some),
        });
        answer.expect("an answer in time").map(|value| value.unwrap_or_default())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the servers said: {}", self.said());
        }
        // If it fails, the folder does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Two that are started at the same moment, or one while the other takes over: whatever comes of them, one server serves in the end.
#[test]
fn of_two_successors_one_serves() {
    let place = Place::new("two");
    let mut prng = Prng::new(1);
    let mut server = place.start();
    for round in 0..12 {
        assert!(place.value(&mut server).is_some(), "round {round}: it serves");
        let first = place.start();
        if round % 2 == 1 {
            std::thread::park_timeout(Duration::from_millis(prng.below(60)));
        }
        let mut all = vec![server, first, place.start()];
        let settled = clock::wait_for(|| {
            all.retain_mut(|one| !one.has_ended());
            (all.len() == 1).then_some(())
        });
        assert!(settled.is_some(), "round {round}: {} servers live", all.len());
        server = all.remove(0);
    }
    assert!(place.value(&mut server).is_some(), "it serves");
}

#[test]
fn whichever_process_is_killed_at_whatever_moment_the_other_one_serves() {
    let number = |name: &str| std::env::var(name).ok()?.split("..").next()?.parse::<u64>().ok();
    let mut prng = Prng::new(number("EVENKEEL_TEST_SEEDS").unwrap_or(1));
    let place = Place::new("kills");
    let mut server = place.start();
    assert!(place.value(&mut server).is_some(), "it serves");
    let began = clock::now();
    let next = place.start();
    let ended = clock::wait_for(|| server.has_ended().then_some(()));
    ended.expect("it is taken over");
    server = next;
    let whole = began.elapsed();
    // With a successor that takes its time, the moments of a take-over without delays would all be missed.
    let moments = whole.max(Duration::from_millis(20)).mul_f64(1.2).as_micros() as u64;
    let mut outcomes = std::collections::BTreeMap::<&str, u64>::new();
    for round in 0..number("EVENKEEL_TEST_ROUNDS").unwrap_or(ROUNDS) {
        let value = round.to_string();
        let mut client = clock::wait_for(|| place.connect()).expect("it serves");
        let stored = client.ask(format!("set a 0 0 {}\r\n{value}\r\n", value.len()).as_bytes());
        assert_eq!(stored.expect("an answer"), "STORED", "round {round}");
        // An upload that does not end stretches the take-over by a second.
        let mut upload = TcpStream::connect(("127.0.0.1", place.port)).expect("it serves");
        if prng.below(4) == 0 {
            upload.write_all(b"set b 0 0 100\r\nx").expect("room");
        }
        let mut next = place.start();
        clock::pass(Duration::from_micros(prng.below(moments)));
        let is_old_killed = prng.below(2) == 0;
        let killed = if is_old_killed { &mut server } else { &mut next };
        killed.0.kill().expect("a child");
        killed.0.wait().expect("a child");
        let other = if is_old_killed { &mut next } else { &mut server };
        let found = place.value(other);
        let outcome = match (is_old_killed, found) {
            (true, None) => panic!("round {round}: nobody serves after the predecessor was killed"),
            (true, Some(found)) if found == value => "the successor serves with the items",
            (true, Some(found)) => {
                assert_eq!(found, "", "round {round}");
                "the successor serves without items"
            }
            // It had been taken over before, and the only server was killed.
            (false, None) => "the take-over was over",
            (false, Some(found)) => {
                assert_eq!(found, value, "round {round}: the predecessor keeps its items");
                "the predecessor goes on"
            }
        };
        *outcomes.entry(outcome).or_default() += 1;
        server = match outcome {
            "the predecessor goes on" => server,
            "the take-over was over" => {
                let ended = clock::wait_for(|| server.0.try_wait().expect("a child"));
                assert!(ended.is_some_and(|status| status.success()), "round {round}: {}", place.said());
                place.start()
            }
            _ => next,
        };
        assert!(place.value(&mut server).is_some(), "round {round}: it serves");
    }
    eprintln!("{outcomes:?}, kills within {moments} us of a successor's start");
}
