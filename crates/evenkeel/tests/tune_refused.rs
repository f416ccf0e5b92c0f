//! `evenkeel tune check --memcached` with servers that turn clients away: ours and a real memcached at their limit of
//! connections, in namespaces of the test's own; and with peers that answer unlike a cache.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use crate::support::client::client;
use crate::support::inner::{INNER, in_namespaces};
use crate::support::running::Running;
use crate::support::until::until;
use serde_json::Value;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 11211);
/// The limit of connections. memcached applies it to all its descriptors, and needs a dozen itself.
const CONNECTIONS: &str = "32";
/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server at [`ADDRESS`].
fn start_server(program: &[&str], at_limit: &str) -> Running {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["-u", "root", "-l", "127.0.0.1", "-p", "11211", "-t", "1"]);
    let server = command.args(["-c", CONNECTIONS, "-o", at_limit]).spawn().expect(program[0]);
    until("the server", || TcpStream::connect(ADDRESS).is_ok());
    Running(server)
}

/// A connection from before the others, which reads the server's counters.
struct Witness(BufReader<TcpStream>);

impl Witness {
    fn new() -> Witness {
        let stream = TcpStream::connect(ADDRESS).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut witness = Witness(BufReader::new(stream));
        until("a place", || witness.count("curr_connections") < 10);
        witness
    }

    fn count(&mut self, name: &str) -> u64 {
        self.0.get_mut().write_all(b"stats\r\n").unwrap();
        let mut found = None;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["END"] => return found.expect(name),
                ["STAT", other, value] if other == name => found = Some(value.parse().unwrap()),
                ["STAT", ..] => {}
                _ => panic!("{line:?}"),
            }
        }
    }

    /// Clients connect until one does not fit, which the server counts; then they disconnect. One after the other: of
    /// many clients in its queue, memcached may accept and count the last one when no connection is left whose end
    /// would make it accept again.
    fn crowd(&mut self, counter: &str) {
        let before = self.count(counter);
        let mut clients = Vec::new();
        until(counter, || {
            // At its limit, memcached does not complete a handshake.
            clients.push(client(&ADDRESS));
            self.count(counter) > before
        });
        drop(clients);
        until("room for clients", || {
            self.count("curr_connections") < 10 && self.count("accepting_conns") == 1
        });
    }
}

/// A check of one second with these caches.
fn check(caches: &[&str]) -> Command {
    let mut command = Command::new(EVENKEEL);
    command.args(["tune", "check", "--seconds", "1", "--json"]);
    caches.iter().for_each(|cache| _ = command.args(["--memcached", cache]));
    command
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The findings about clients that are turned away.
fn refusals(said: &str) -> Vec<Value> {
    let said: Value = serde_json::from_str(said).expect("JSON");
    let findings = said["findings"].as_array().expect("a list").iter();
    findings.filter(|finding| finding["rule"] == "connections-refused").cloned().collect()
}

/// What the counter came to in the look, as the finding shows it.
fn counted<'f>(finding: &'f Value, counter: &str) -> Option<&'f str> {
    let mut evidence = finding["evidence"].as_array()?.iter();
    evidence.find(|evidence| evidence["what"] == counter)?["value"].as_str()
}

#[track_caller]
fn is_seen(program: &[&str], at_limit: &str, counter: &str) {
    let _server = start_server(program, at_limit);
    let mut witness = Witness::new();
    // Clients that were turned away before the check must not count.
    witness.crowd(counter);
    assert_eq!(refusals(&succeeds(&mut check(&["127.0.0.1:11211"]))), [] as [Value; 0]);

    // On a busy machine, no client may connect between its first reading and its last, or it is turned away itself and
    // has nothing to compare: other findings are tested elsewhere.
    let seen = |_| {
        let looking = thread::spawn(|| succeeds(&mut check(&["127.0.0.1:11211"])));
        while !looking.is_finished() {
            witness.crowd(counter);
        }
        refusals(&looking.join().unwrap()).pop().filter(|finding| counted(finding, counter).is_some())
    };
    let finding = (0..10).find_map(seen).expect("a finding");
    assert_eq!((&finding["severity"], &finding["subject"]), (&"critical".into(), &"127.0.0.1:11211".into()));
    let counted = counted(&finding, counter).expect("the counter");
    assert!(!counted.starts_with("0 "), "{finding}");
}

#[test]
fn a_server_that_stops_accepting_at_its_limit_is_found() {
    if in_namespaces("tune_refused::a_server_that_stops_accepting_at_its_limit_is_found", "memcached -V") {
        is_seen(&[EVENKEEL, "serve"], "no_maxconns_fast", "listen_disabled_num");
        is_seen(&["memcached"], "no_maxconns_fast", "listen_disabled_num");
    }
}

#[test]
fn a_server_that_turns_clients_away_at_its_limit_is_found() {
    if in_namespaces("tune_refused::a_server_that_turns_clients_away_at_its_limit_is_found", "memcached -V") {
        is_seen(&[EVENKEEL, "serve"], "maxconns_fast", "rejected_connections");
        is_seen(&["memcached"], "maxconns_fast", "rejected_connections");
    }
}

#[test]
fn a_name_with_several_addresses_is_queried_at_each() {
    if !in_namespaces("tune_refused::a_name_with_several_addresses_is_queried_at_each", "memcached -V") {
        return;
    }
    let hosts = std::env::temp_dir().join(format!("evenkeel-hosts-{}", std::env::var(INNER).unwrap()));
    std::fs::write(&hosts, "::1 cache\n127.0.0.1 cache\n").unwrap();
    succeeds(Command::new("mount").arg("--bind").arg(&hosts).arg("/etc/hosts"));
    std::fs::remove_file(&hosts).unwrap();
    let _server = start_server(&[EVENKEEL, "serve"], "maxconns_fast");
    assert_eq!(refusals(&succeeds(&mut check(&["cache:11211"]))), [] as [Value; 0]);
}

/// A peer that answers each connection by its number, from 0 on, until the test ends.
fn peer(answer: impl Fn(usize, TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            answer(number, stream.unwrap());
        }
    });
    address
}

#[test]
fn a_server_that_is_full_during_a_query_is_found_although_it_has_room_at_the_end() {
    let full_at = |reading| {
        peer(move |number, mut stream| {
            // A client may have disconnected.
            let _ = match number {
                _ if number == reading => stream.write_all(b"ERROR Too many open connections\r\n"),
                _ => stream.read(&mut [0; 16]).and_then(|_| stream.write_all(b"STAT pid 8\r\nEND\r\n")),
            };
        })
    };
    for reading in 0..4 {
        let peer = full_at(reading);
        let findings = refusals(&succeeds(&mut check(&[&peer])));
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((&finding["subject"], &finding["evidence"][0]["value"]), (&peer.into(), &"3 of 4".into()));
    }
}

#[test]
fn a_peer_with_an_endless_answer_is_not_a_cache() {
    let endless = peer(|_, mut stream| while stream.write_all(&[b'x'; 1 << 16]).is_ok() {});
    let findings = refusals(&succeeds(&mut check(&[&endless])));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding["evidence"][0]["value"], "0 of 4");
}
