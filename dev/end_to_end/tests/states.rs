//! Connection states of `stats conns`, with memcached's names; also tested with memcached.

use std::io::{Read, Write};
use std::net::TcpStream;

use end_to_end::clock::wait_for;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

/// Parts of requests, and the state of their connections.
const HALVES: [(&str, &str); 4] = [
    ("set a 0 0 10\r\n12345", "conn_nread"),
    ("set a 0 0 9000000\r\n12345", "conn_swallow"),
    ("watch evictions\r\n", "conn_watch"),
    ("get ", "conn_read"),
];

fn statistics(stream: &mut TcpStream) -> String {
    stream.write_all(b"stats conns\r\n").expect("send");
    let mut reply = Vec::new();
    while !reply.ends_with(b"END\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("receive");
        reply.push(byte[0]);
    }
    String::from_utf8(reply).expect("text")
}

#[track_caller]
fn check(subject: &ServerUnderTest) {
    let server = Server::start::<&str>(subject, &[]).expect("a server");
    let mut asking = server.connect().expect("a connection");
    let mut halves = Vec::new();
    for (half, state) in HALVES {
        let mut stream = server.connect().expect("a connection");
        stream.write_all(half.as_bytes()).expect("send");
        let port = stream.local_addr().expect("an address").port();
        halves.push((stream, port, half, state));
    }
    for (_, port, half, state) in &halves {
        let seen = wait_for(|| {
            let statistics = statistics(&mut asking);
            let addr =
                statistics.lines().find(|line| line.ends_with(&format!(":addr tcp:127.0.0.1:{port}")))?;
            let line = format!("{}:state {state}", addr.split(":addr").next()?);
            statistics.lines().any(|other| other == line).then_some(())
        });
        assert!(seen.is_some(), "{}: {half:?} is not {state}: {}", subject.name, statistics(&mut asking));
    }
    let own = asking.local_addr().expect("an address").port();
    let statistics = statistics(&mut asking);
    let mut lines =
        statistics.lines().skip_while(|line| !line.ends_with(&format!(":addr tcp:127.0.0.1:{own}")));
    assert!(lines.nth(2).is_some_and(|line| line.ends_with(":state conn_parse_cmd")), "{statistics}");
}

#[test]
fn memcached_has_these_states() {
    check(&ServerUnderTest::memcached().expect("a memcached"));
}

#[test]
fn evenkeel_has_these_states_with_both_drivers() {
    SocketDriver::ALL.into_iter().for_each(|driver| check(&ServerUnderTest::evenkeel(driver)));
}
